//! What the FlashStore engine of this crate costs, derived from its formats and its policy. Its logs and their index
//! are those of FlashKey. `tests/model_vs_measured` compares the results with the engine's own counters.

use super::costs::{FlashStoreRam, FlashStoreWrites};
use crate::error::{ModelError, fraction, positive};
use crate::flashkey::{Appends, FlashKeyLayout, FlashKeyStore, notes_bytes};
use crate::popularity::Popularity;
use crate::recycling::{Missed, Recycled, SegmentRecycling};
use crate::silt::{Silt, SiltLayout};
use siltstone::FlashStoreSettings;
use siltstone::engine::flashstore::costs;

/// Bits per key of the filter of a new disk.
const FILTER_BITS: f64 = costs::DISK_FILTER_BITS as f64;
/// A place of the table of misses, in bytes.
const PLACE_BYTES: f64 = 2.0;

/// The share of markers from which they count as space.
const MARKERS_MIN: f64 = 0.002;

/// What is below the flash.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub enum Below {
    /// Nothing, and records are lost when they leave: a cache. A get that misses is followed by a put.
    Cache {
        /// The share of puts that are admitted.
        admitted: f64,
    },
    /// The engine SILT on a disk.
    Disk(Box<SiltLayout>),
}

/// The records and the engine's settings. All but the records and the flash have the engine's defaults.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlashStoreLayout {
    /// The records, the index and the segments; `space` follows from the flash.
    pub logs: FlashKeyLayout,
    /// The bytes of flash that the logs may take.
    pub flash_bytes: f64,
    /// The share of it at which records begin to leave.
    pub usage: f64,
    /// The number of queues.
    pub queues: u8,
    /// Whether records that are read from the disk are put to flash.
    pub caches_reads: bool,
    /// What is below.
    pub below: Below,
}

impl FlashStoreLayout {
    /// Returns the engine's defaults above a disk, for records of one size.
    pub fn new(key_bytes: f64, value_bytes: f64, flash_bytes: f64) -> Self {
        let settings = FlashStoreSettings::default();
        let logs = FlashKeyLayout {
            hash_bits: settings.hash_bits.into(),
            segment_bytes: settings.segment_bytes as f64,
            unconfirmed_max: costs::UNCONFIRMED_MAX,
            ..FlashKeyLayout::new(key_bytes, value_bytes)
        };
        let silt = SiltLayout { last_filter_bits: FILTER_BITS, ..SiltLayout::new(key_bytes, value_bytes) };
        FlashStoreLayout {
            logs,
            flash_bytes,
            usage: settings.usage,
            queues: settings.queues,
            caches_reads: settings.caches_reads,
            below: Below::Disk(Box::new(silt)),
        }
    }

    /// Checks that such records and settings are possible.
    pub fn check(&self) -> Result<(), ModelError> {
        self.logs.check()?;
        if let Below::Cache { admitted } = self.below {
            fraction("admitted puts", admitted)?;
            positive("admitted puts", admitted)?;
        }
        fraction("flash usage", self.usage)?;
        positive("flash usage", self.usage)?;
        let segments = self.flash_bytes / self.logs.segment_bytes;
        if segments.is_nan() || segments < costs::SEGMENTS_MIN as f64 {
            let limit = "as many segments as the engine needs";
            return Err(ModelError { name: "segments of flash", got: segments, limit });
        }
        Ok(())
    }

    /// Returns the steady state of a store whose keys have this popularity, in puts and in gets.
    pub fn store(&self, popularity: &Popularity, gets_per_put: f64) -> Result<FlashStoreStore, ModelError> {
        self.check()?;
        let store = self.store_with(popularity, gets_per_put, 0.0)?;
        // Markers take space of records. How many there are depends on what is written.
        let writes = store.writes();
        let markers = writes.markers / (writes.puts + writes.promoted + writes.moved);
        if markers > MARKERS_MIN { self.store_with(popularity, gets_per_put, markers) } else { Ok(store) }
    }

    /// Returns the steady state if the logs have this many bytes of markers per byte of records.
    fn store_with(
        &self,
        popularity: &Popularity,
        gets_per_put: f64,
        markers: f64,
    ) -> Result<FlashStoreStore, ModelError> {
        let of_all = self.logs.store(popularity.keys())?;
        let frame_bytes = of_all.frame_bytes * (1.0 + markers);
        let tombstone = of_all.tombstone_bytes() / frame_bytes;
        let recycled = self.recycling(frame_bytes, tombstone, gets_per_put).steady(popularity)?;
        let entries = recycled.keys_on_flash + self.dead_entries(&recycled);
        // The bytes of the logs, for the number of entries there.
        let space = (self.room_bytes() / entries / frame_bytes).max(1.0 + f64::EPSILON);
        let logs = FlashKeyLayout { space, ..self.logs.clone() }.store(entries)?;
        let disk = match &self.below {
            Below::Disk(layout) => Some(layout.silt(popularity.keys())?),
            Below::Cache { .. } => None,
        };
        let (layout, popularity) = (self.clone(), popularity.clone());
        Ok(FlashStoreStore { layout, popularity, gets_per_put, logs, recycled, disk })
    }

    /// Returns the bytes of the logs at which records begin to leave.
    fn room_bytes(&self) -> f64 {
        let segment_bytes = self.logs.segment_bytes as u64;
        costs::begin_bytes(self.flash_bytes as u64, self.usage, segment_bytes) as f64
    }

    fn places(&self) -> f64 {
        costs::places(self.flash_bytes as u64) as f64
    }

    fn recycling(&self, frame_bytes: f64, tombstone: f64, gets_per_put: f64) -> SegmentRecycling {
        let missed = match &self.below {
            Below::Disk(_) if self.caches_reads => Missed::Admitted { places: self.places() },
            Below::Disk(_) => Missed::Stays,
            Below::Cache { admitted } => Missed::Put { admitted: *admitted, tombstone },
        };
        SegmentRecycling {
            room: self.room_bytes() / frame_bytes,
            segments: self.room_bytes() / self.logs.segment_bytes,
            queues: self.queues,
            gets_per_put,
            missed,
        }
    }

    /// Returns the entries that a newer one replaces: those that the policy leaves, or as many as are not confirmed.
    fn dead_entries(&self, recycled: &Recycled) -> f64 {
        recycled.dead_entries.min(recycled.keys_on_flash * self.logs.unconfirmed_share())
    }
}

/// A database of the engine FlashStore in its steady state.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlashStoreStore {
    /// Records and settings.
    pub layout: FlashStoreLayout,
    /// The logs and their index.
    pub logs: FlashKeyStore,
    /// What leaves.
    pub recycled: Recycled,
    /// The store on the disk, which has had each key.
    pub disk: Option<Silt>,
    #[serde(skip)]
    popularity: Popularity,
    gets_per_put: f64,
}

impl FlashStoreStore {
    /// Returns the same store with this many bits per key in the filter of the disk's last stores, 0 for none.
    pub(crate) fn with_disk_filter(&self, bits: f64) -> Result<Self, ModelError> {
        let mut store = self.clone();
        if let Below::Disk(disk) = &mut store.layout.below {
            disk.last_filter_bits = bits;
            store.disk = Some(disk.silt(self.popularity.keys())?);
        }
        Ok(store)
    }

    /// Returns the writes to flash.
    pub fn writes(&self) -> FlashStoreWrites {
        let Recycled { user_appends: user, tombstones, promoted, moved, .. } = self.recycled;
        let appends = Appends { promoted: promoted / user, moved: moved / user, recycles: true };
        let writes = self.logs.writes_of(&self.popularity, appends);
        let promoted = promoted * writes.puts;
        FlashStoreWrites {
            puts: user * writes.puts,
            tombstones: tombstones * self.logs.tombstone_bytes() / self.layout.logs.item_bytes(),
            promoted,
            moved: user * writes.moved - promoted,
            markers: user * writes.markers,
            redo: user * writes.redo,
            saved_index: user * writes.saved_index,
        }
    }

    /// Returns the records appended to all logs per put.
    pub fn appends_per_put(&self) -> f64 {
        self.recycled.appends_per_put()
    }

    /// Returns the older records that are read one by one per put: those of overwrites beyond the share that may be
    /// unconfirmed.
    pub fn confirmed_per_put(&self) -> f64 {
        let recycled = &self.recycled;
        let noted = (1.0 - self.logs.replaced_at_once(&self.popularity)) * recycled.flash_gets;
        let unconfirmed = self.layout.dead_entries(recycled);
        noted * (1.0 - unconfirmed / recycled.dead_entries.max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// Returns the maximum number of bytes on flash: the logs when a put waits, with the padding of their files, a
    /// saved index, the next one, and redo.
    pub fn flash_bytes(&self) -> f64 {
        let FlashStoreLayout { flash_bytes, logs, .. } = &self.layout;
        let padding = flash_bytes / logs.segment_bytes * costs::FILE_ALIGNMENT as f64;
        flash_bytes + padding + self.logs.index_files_bytes()
    }

    /// Returns the maximum number of bytes on the disk.
    pub fn disk_bytes(&self) -> f64 {
        let bytes = |disk: &Silt| {
            disk.space_amplification(&self.recycled.destaged_popularity) * disk.keys * disk.item_bytes
        };
        self.disk.as_ref().map_or(0.0, bytes)
    }

    /// Returns the bytes that background work of the disk reads per byte put.
    pub fn disk_background_reads(&self) -> f64 {
        let reads = |disk: &Silt| disk.background_reads(disk.turn(&self.recycled.destaged_popularity));
        self.recycled.destaged * self.disk.as_ref().map_or(0.0, reads)
    }

    /// Returns the records that are written to the disk per put.
    pub fn destaged_per_put(&self) -> f64 {
        if self.disk.is_some() { self.recycled.destaged } else { 0.0 }
    }

    /// Returns the bytes that are written to the disk per byte put.
    pub fn disk_writes(&self) -> f64 {
        let writes = |disk: &Silt| disk.writes(&self.recycled.destaged_popularity).total();
        self.recycled.destaged * self.disk.as_ref().map_or(0.0, writes)
    }

    /// Returns the share of gets of existing keys that find their record on flash.
    pub fn flash_gets(&self) -> f64 {
        self.recycled.flash_gets
    }

    /// Returns the reads of flash for a get that finds its record there.
    pub fn reads_per_flash_get(&self) -> f64 {
        self.logs.reads_per_get()
    }

    /// Returns the reads of flash for a get of a key that is not there.
    pub fn reads_per_flash_miss(&self) -> f64 {
        self.logs.reads_per_miss()
    }

    /// Returns the reads of the disk for a get that finds its record there.
    pub fn reads_per_disk_get(&self) -> f64 {
        let reads = |disk: &Silt| disk.reads_per_get(&self.recycled.destaged_popularity);
        self.disk.as_ref().map_or(0.0, reads)
    }

    /// Returns the reads of the disk for a get of a key that is nowhere.
    pub fn reads_per_disk_miss(&self) -> f64 {
        self.disk.as_ref().map_or(0.0, Silt::reads_per_miss)
    }

    /// Returns the average memory, without what only a running job uses.
    pub fn ram(&self) -> FlashStoreRam {
        let unconfirmed = notes_bytes(self.layout.dead_entries(&self.recycled));
        let disk = self.disk.as_ref().map_or(0.0, |disk| disk.ram().total());
        FlashStoreRam { unconfirmed, disk, ..self.of_logs(self.logs.ram()) }
    }

    /// Returns the peak of memory of a store that is written as fast as it accepts writes.
    pub fn ram_peak(&self) -> FlashStoreRam {
        let disk = self.disk.as_ref().map_or(0.0, |disk| disk.ram_peak().total());
        FlashStoreRam { disk, ..self.of_logs(self.logs.ram_peak()) }
    }

    fn of_logs(&self, ram: crate::flashkey::FlashKeyRam) -> FlashStoreRam {
        FlashStoreRam {
            index: ram.index,
            marks: self.logs.marks_bytes(self.logs.keys),
            unconfirmed: ram.unconfirmed,
            admission: self.admission_bytes(),
            buffers: ram.log_buffers + ram.confirm_buffers + ram.clean_buffers,
            fixed: ram.fixed,
            disk: 0.0,
        }
    }

    fn admission_bytes(&self) -> f64 {
        let admits = self.layout.caches_reads && self.disk.is_some();
        if admits { PLACE_BYTES * self.layout.places() } else { 0.0 }
    }
}
