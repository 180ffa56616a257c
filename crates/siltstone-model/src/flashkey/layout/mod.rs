//! What the FlashKey engine of this crate costs, derived from its formats (docs/formats/) and its policy.
//! `tests/model_vs_measured` compares the results with the engine's own counters.

use super::costs::{FlashKeyRam, FlashKeyWrites};
use super::index::IndexLayout;
use crate::error::{ModelError, fraction, positive};
use crate::popularity::Popularity;
use crate::segments::{Saves, SegmentCleaning, Steady};
use crate::silt::sizes::varint_bytes;
use siltstone::engine::flashkey::costs;
use siltstone::key::RecordLayout;
use siltstone::{FlashKeySettings, Victim};

const FRAME_CRC_BYTES: f64 = costs::FRAME_CRC_BYTES as f64;
/// The flags of a record in stream form.
const FLAGS_BYTES: f64 = 1.0;
const EXPIRY_BYTES: f64 = costs::EXPIRY_BYTES as f64;
const MARKER_BYTES: f64 = costs::MARKER_BYTES as f64;
const SEGMENT_HEADER_BYTES: f64 = costs::SEGMENT_HEADER_BYTES as f64;
const LOGS: f64 = costs::CLASSES as f64;
const OPERATION_BYTES: f64 = costs::OPERATION_BYTES as f64;
const FLUSH_SEGMENTS: f64 = costs::FLUSH_SEGMENTS as f64;
const SAVED_BLOCK_BYTES: f64 = costs::SAVED_BLOCK_BYTES as f64;
/// The footer of a store file, its copies, and the rest of the blocks of pages and of the directory.
const SAVED_END_BYTES: f64 = costs::FOOTER_BYTES as f64 * (1.0 + costs::FOOTER_COPIES as f64)
    + (SAVED_BLOCK_BYTES + costs::FILE_ALIGNMENT as f64) / 2.0;
/// A record of the redo log has a key of 8 bytes, flags, two lengths and a checksum besides its header.
const REDO_RECORD_BYTES: f64 =
    costs::REDO_HEADER_BYTES as f64 + FRAME_CRC_BYTES + FLAGS_BYTES + 1.0 + 3.0 + 8.0;
/// The numbers before the operations of a shard in redo: of the shard, of its runs and of its operations.
const REDO_SHARD_BYTES: f64 = 4.0;
/// A list of operations in redo begins with its length and a whole unit.
const REDO_LIST_BYTES: f64 = 5.0;
/// The lists of a shard: insertions, removals, replacements, and removals of what was inserted before.
const REDO_LISTS: f64 = 4.0;
/// Of the keys in order, which are not measured here: how often a put writes its key, the copies of a key, the bytes of
/// a key besides its own, and the memory.
const KEY_WRITES: f64 = 4.0;
const KEY_COPIES: f64 = 2.0;
const KEY_OVERHEAD_BYTES: f64 = 6.0;
const KEY_TABLES_BYTES: f64 = 16.0 * 1_048_576.0;
/// Of a record of any size, at most this many bytes are read at first.
const READ_BYTES_GUESS: f64 = costs::READ_BYTES_GUESS as f64;
/// A record of any size is padded by half a unit on average.
const PADDED_SHARE: f64 = 0.5;
/// The number of a unit that a varint of this many bits can state.
const VARINT_RANGE: f64 = 128.0;
/// The spare space of lists of notes, as a share.
const SPARE_NOTES: f64 = 1.0 / 16.0;
/// What a piece to clean takes besides its bytes: a copy of its records, with the places of each, and read-ahead.
const CLEANED_COPIES: f64 = 3.0;

/// The records and the engine's settings. All but the records have the engine's defaults.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlashKeyLayout {
    /// The mean length of a key, in bytes.
    pub key_bytes: f64,
    /// The mean length of a value, in bytes.
    pub value_bytes: f64,
    /// Whether all records have one size, which the database is configured with.
    pub fixed: bool,
    /// Whether records have an expiry time.
    pub expiring: bool,
    /// The shards of the index.
    pub partitions: f64,
    /// The bytes of finished segments per byte of their live records.
    pub space: f64,
    /// The bits of a hash that the index keeps.
    pub hash_bits: f64,
    /// Which segment is cleaned next.
    #[serde(skip)]
    pub victim: Victim,
    /// The number of logs for moved records.
    pub classes: u8,
    /// The bytes of a segment.
    pub segment_bytes: f64,
    /// The share of the index that is in memory; the rest is on flash.
    pub index_in_memory: f64,
    /// The share of keys that may have an unconfirmed overwrite.
    pub unconfirmed_max: f64,
    /// Whether the keys are kept in order as well.
    pub ordered: bool,
}

impl FlashKeyLayout {
    /// Returns the engine's defaults, for records of one size.
    pub fn new(key_bytes: f64, value_bytes: f64) -> Self {
        let settings = FlashKeySettings::default();
        FlashKeyLayout {
            key_bytes,
            value_bytes,
            fixed: true,
            expiring: false,
            partitions: costs::PARTITIONS_DEFAULT.into(),
            space: settings.space,
            hash_bits: settings.hash_bits.into(),
            victim: settings.victim,
            classes: settings.classes,
            segment_bytes: settings.segment_bytes as f64,
            index_in_memory: settings.index_in_memory,
            unconfirmed_max: settings.unconfirmed_max,
            ordered: settings.ordered,
        }
    }

    /// Checks that such records and settings are possible.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("key bytes", self.key_bytes)?;
        positive("key and value bytes", self.item_bytes())?;
        positive("partitions", self.partitions)?;
        positive("space beyond the data", self.space - 1.0)?;
        positive(
            "hash bits beyond partitions and groups",
            self.shard_hash_bits() - f64::from(costs::GROUPS_LOG2),
        )?;
        positive("segment bytes", self.segment_bytes)?;
        fraction("share of the index in memory", self.index_in_memory)?;
        Ok(())
    }

    /// Returns the store for this many keys.
    pub fn store(&self, keys: f64) -> Result<FlashKeyStore, ModelError> {
        self.check()?;
        positive("keys", keys)?;
        let frame = FRAME_CRC_BYTES + self.stream_bytes();
        let unit_bytes = f64::from(costs::unit_bytes(&self.record_layout()));
        let frame_bytes = match self.fixed {
            true => padded(frame, unit_bytes),
            false => frame + PADDED_SHARE * (unit_bytes - 1.0),
        };
        Ok(FlashKeyStore { layout: self.clone(), keys, unit_bytes, frame_bytes })
    }

    pub(crate) fn item_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// Returns a tombstone in stream form.
    fn tombstone_bytes(&self) -> f64 {
        FLAGS_BYTES + if self.fixed { 0.0 } else { varint_bytes(self.key_bytes) } + self.key_bytes
    }

    fn record_layout(&self) -> RecordLayout {
        let lengths = (self.key_bytes as usize, self.value_bytes as usize);
        RecordLayout { fixed: self.fixed.then_some(lengths), expiring: self.expiring }
    }

    /// Returns a record in stream form.
    fn stream_bytes(&self) -> f64 {
        let lengths =
            if self.fixed { 0.0 } else { varint_bytes(self.key_bytes) + varint_bytes(self.value_bytes) };
        FLAGS_BYTES + lengths + self.item_bytes() + if self.expiring { EXPIRY_BYTES } else { 0.0 }
    }

    /// Returns how many overwrites may be unconfirmed, per key: the engine counts them among the entries.
    pub(crate) fn unconfirmed_share(&self) -> f64 {
        self.unconfirmed_max / (1.0 - self.unconfirmed_max).max(f64::MIN_POSITIVE)
    }

    fn shard_hash_bits(&self) -> f64 {
        self.hash_bits - self.partitions.log2()
    }
}

/// A database of the engine FlashKey with a number of keys.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FlashKeyStore {
    /// Records and settings.
    pub layout: FlashKeyLayout,
    /// N: the keys.
    pub keys: f64,
    /// The unit of places and of the lengths of frames, in bytes.
    pub unit_bytes: f64,
    /// The frame of a record in a log, with padding, in bytes.
    pub frame_bytes: f64,
}

/// What is appended to the logs besides puts, per put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appends {
    /// Records that were found in a store below.
    pub promoted: f64,
    /// Records that are moved.
    pub moved: f64,
    /// Segments are recycled: what is in them leaves.
    pub recycles: bool,
}

/// What is written between two flushes of the index's changes to redo, per shard.
struct Changes {
    /// Operations of a put that inserts a key, removes the older record of a key, or replaces one.
    inserted: f64,
    removed: f64,
    replaced: f64,
    /// Records that cleaning moved.
    moved: f64,
    /// What is removed is in the segments that are released.
    recycles: bool,
}

impl FlashKeyStore {
    /// Returns the bytes at which a segment is complete.
    fn segment_bytes(&self) -> f64 {
        let log_bytes = self.layout.space * self.live_bytes();
        (costs::segment_length(log_bytes as u64) as f64).min(self.layout.segment_bytes)
    }

    fn segment_frames(&self) -> f64 {
        self.segment_bytes() / self.frame_bytes
    }

    fn live_bytes(&self) -> f64 {
        self.keys * self.frame_bytes
    }

    fn marker_bytes(&self) -> f64 {
        padded(MARKER_BYTES, self.unit_bytes)
    }

    /// Returns the bytes of a tombstone in the logs.
    pub(crate) fn tombstone_bytes(&self) -> f64 {
        padded(FRAME_CRC_BYTES + self.layout.tombstone_bytes(), self.unit_bytes)
    }

    /// Returns the records appended per put in the steady state: 1, and those that cleaning moves.
    pub fn appends_per_put(&self, popularity: &Popularity) -> Result<f64, ModelError> {
        self.steady(popularity).map(|steady| steady.appends_per_put)
    }

    fn steady(&self, popularity: &Popularity) -> Result<Steady, ModelError> {
        let FlashKeyLayout { space, victim, classes, .. } = self.layout;
        let segments = self.live_bytes() / self.segment_bytes();
        let cleaning = SegmentCleaning { space, segments, victim, classes };
        let (index, in_memory) = (self.index(), cleaning.steady(popularity, None)?);
        if index.on_flash() == 0.0 {
            return Ok(in_memory);
        }
        let moved = in_memory.appends_per_put - 1.0;
        let (_, _, puts_max) = self.flushes(popularity, Appends { promoted: 0.0, moved, recycles: false });
        let changes_max = index.changes_of_save(self.keys);
        cleaning.steady(popularity, Some(Saves { on_flash: index.on_flash(), changes_max, puts_max }))
    }

    /// Returns the share of puts whose older record is in the segment that puts are appended to: it is replaced at
    /// once. The others are confirmed, which reads the older record.
    pub fn replaced_at_once(&self, popularity: &Popularity) -> f64 {
        // The mean while the segment fills, by Simpson's rule.
        let at = |share: f64| 1.0 - popularity.absent(share * self.segment_frames());
        (4.0 * at(0.5) + at(1.0)) / 6.0
    }

    /// Returns the puts between two flushes of the index's changes, the bytes of a flush, and the puts until the redo
    /// is so long that the index is saved.
    fn flushes(&self, popularity: &Popularity, appends: Appends) -> (f64, f64, f64) {
        let replaced = self.replaced_at_once(popularity);
        let Appends { promoted, moved, recycles } = appends;
        // Each segment that is appended lets one be released, and that flushes.
        let all = 1.0 + promoted + moved;
        let releases = if recycles || moved > 1e-9 { all / self.segment_frames() } else { 0.0 };
        let inserted = 1.0 - replaced + promoted;
        let puts = (1.0 / releases).min(self.puts_per_flush(2.0 * (1.0 + promoted) + moved));
        let shard = puts / self.layout.partitions;
        let changes = Changes {
            inserted: shard * inserted,
            removed: shard * inserted,
            replaced: shard * replaced,
            moved: shard * moved,
            recycles,
        };
        let redo = self.redo_bytes(&changes);
        (puts, redo, (self.redo_bytes_max(self.keys) + redo / 2.0) * puts / redo)
    }

    /// Returns the writes of puts of this popularity, with this number of appends per put.
    pub fn writes(&self, popularity: &Popularity, appends_per_put: f64) -> FlashKeyWrites {
        let moved = appends_per_put - 1.0;
        self.writes_of(popularity, Appends { promoted: 0.0, moved, recycles: false })
    }

    /// Returns the writes of puts of this popularity; promoted records count as moved.
    pub(crate) fn writes_of(&self, popularity: &Popularity, appends: Appends) -> FlashKeyWrites {
        let Appends { promoted, moved, recycles } = appends;
        let (puts, redo, puts_per_save) = self.flushes(popularity, appends);
        let segments = (1.0 + promoted + moved) / self.segment_frames();
        // Without classes, moved records are in the log of the puts.
        let moved_apart = if self.layout.classes == 0 { 0.0 } else { moved };
        // A segment of puts begins: each log of other records gets a marker of its order.
        let of_log =
            |records: f64, logs: f64| logs.min(records * self.segment_frames()) / self.segment_frames();
        let orders = match recycles {
            true => of_log(moved_apart, 1.0) + of_log(promoted, 1.0),
            false => of_log(moved_apart, self.layout.classes.into()),
        };
        // A flush syncs the logs that have got records, and a release flushes after records moved to one log.
        let synced_logs = 1.0 + f64::from(moved_apart > 1e-9) + f64::from(promoted > 1e-9);
        let markers = synced_logs / puts + orders + (promoted + moved_apart) / self.segment_frames();
        let distinct = |puts: f64| {
            // By Simpson's rule.
            puts * (1.0 + 4.0 * popularity.absent(puts / 2.0) + popularity.absent(puts)) / 6.0
        };
        // The older entry of a put is found and removed after the save that follows it.
        let puts_per_save =
            self.index().puts_per_save(self.keys, puts_per_save, &|puts| 2.0 * distinct(puts) + moved * puts);
        let saved = self.saved_bytes(self.keys) / puts_per_save;
        self.per_byte(FlashKeyWrites {
            puts: self.frame_bytes,
            moved: (promoted + moved) * self.frame_bytes,
            markers: markers * self.marker_bytes() + segments * SEGMENT_HEADER_BYTES,
            redo: redo / puts,
            saved_index: saved,
            ordered_keys: KEY_WRITES * self.ordered_key_bytes(),
        })
    }

    /// Returns the bytes of a key in the ordered set; 0 if no order is kept.
    fn ordered_key_bytes(&self) -> f64 {
        if self.layout.ordered { self.layout.key_bytes + KEY_OVERHEAD_BYTES } else { 0.0 }
    }

    /// Returns the writes of putting each key once into an empty database.
    pub fn writes_of_filling(&self) -> FlashKeyWrites {
        let puts = self.puts_per_flush(1.0).min(self.keys);
        let shard = puts / self.layout.partitions;
        let redo = self.redo_bytes(&Changes {
            inserted: shard,
            removed: 0.0,
            replaced: 0.0,
            moved: 0.0,
            recycles: false,
        });
        // The index is saved when the redo since the last time is longer than it, or the changes take their memory.
        let index = self.index();
        let least = if index.on_flash() > 0.0 { 1.0 } else { puts };
        let (mut filled, mut unsaved, mut saved) = (0.0, 0.0, 0.0);
        while filled + least <= self.keys {
            let step = (filled / 1_000.0).max(least);
            filled += step;
            unsaved += step;
            let redone = redo * unsaved / puts;
            if redone > self.redo_bytes_max(filled) || index.must_save(filled, unsaved) {
                unsaved = 0.0;
                saved += self.saved_bytes(filled);
            }
        }
        self.per_byte(FlashKeyWrites {
            puts: self.frame_bytes,
            moved: 0.0,
            markers: self.marker_bytes() / puts + SEGMENT_HEADER_BYTES / self.segment_frames(),
            redo: redo / puts,
            saved_index: saved / self.keys,
            ordered_keys: KEY_WRITES * self.ordered_key_bytes(),
        })
    }

    fn per_byte(&self, bytes: FlashKeyWrites) -> FlashKeyWrites {
        let item = self.layout.item_bytes();
        FlashKeyWrites {
            puts: bytes.puts / item,
            moved: bytes.moved / item,
            markers: bytes.markers / item,
            redo: bytes.redo / item,
            saved_index: bytes.saved_index / item,
            ordered_keys: bytes.ordered_keys / item,
        }
    }

    /// Returns the puts between two flushes that are not due to a release.
    fn puts_per_flush(&self, operations_per_put: f64) -> f64 {
        // The lists of all shards have space for a power of two operations, and are half filled when they grow.
        let shards = self.layout.partitions;
        let space =
            (costs::FLUSH_CHANGE_BYTES as f64 / OPERATION_BYTES / shards).max(2.0).log2().ceil().exp2();
        (self.flush_bytes() / self.frame_bytes).min(shards * space / 2.0 / operations_per_put)
    }

    /// Returns the bytes of a flush with these operations in each shard.
    fn redo_bytes(&self, changes: &Changes) -> f64 {
        let shards = self.layout.partitions;
        let hash = (self.layout.shard_hash_bits() / 8.0).ceil();
        let frame_units = self.frame_bytes / self.unit_bytes;
        let all_units = self.layout.space * self.live_bytes() / self.unit_bytes;
        // Records of a shard are apart from each other by those of the others; a segment that is cleaned also has dead
        // ones. Moved records are appended shard by shard.
        let apart = |share: f64| varint_mean(frame_units * shards / share.max(1e-9));
        let put = changes.inserted + changes.replaced;
        let live_share = changes.moved / (changes.moved + put).max(1e-9);
        let inserted = hash + apart(changes.inserted / put.max(1e-9));
        let of_segment = changes.removed * shards / self.segment_frames();
        let removed = hash
            + match changes.recycles {
                true => apart(of_segment.min(1.0)),
                false => varint_mean(all_units / changes.removed.max(1.0)),
            };
        let replaced =
            hash + apart(changes.replaced / put.max(1e-9)) + varint_mean(self.segment_frames() * frame_units);
        let moved = hash + varint_mean(frame_units) + apart(live_share / 2.0);
        let operations = changes.inserted * inserted
            + changes.removed * removed
            + changes.replaced * replaced
            + changes.moved * moved;
        let lists = REDO_SHARD_BYTES + REDO_LISTS.min(put + changes.moved) * REDO_LIST_BYTES;
        REDO_RECORD_BYTES + MARKER_BYTES + shards * (operations + lists)
    }

    /// Returns the bytes of redo from which on an index of this many keys is saved.
    fn redo_bytes_max(&self, keys: f64) -> f64 {
        self.flush_bytes().max(self.index().bytes(keys)).max(self.saved_bytes(keys))
    }

    /// Returns the bytes of the user log after which changes are flushed.
    fn flush_bytes(&self) -> f64 {
        (costs::FLUSH_LOG_BYTES as f64).min(FLUSH_SEGMENTS * self.layout.segment_bytes)
    }

    /// Returns the memory of the marks of this many entries.
    pub(crate) fn marks_bytes(&self, entries: f64) -> f64 {
        self.index().marks_bytes(entries)
    }

    fn index(&self) -> IndexLayout {
        IndexLayout {
            partitions: self.layout.partitions,
            shard_hash_bits: self.layout.shard_hash_bits(),
            unit_bits: self.unit_bits(),
            in_memory: self.layout.index_in_memory,
        }
    }

    /// Returns the bits of the highest number of a unit.
    fn unit_bits(&self) -> f64 {
        let segments = (self.layout.space * self.live_bytes() / self.segment_bytes()).ceil() + LOGS;
        let units_per_segment = (self.layout.segment_bytes / self.unit_bytes).ceil();
        (segments * units_per_segment).log2().ceil()
    }

    /// Returns the bytes of the file of a saved index of this many entries.
    fn saved_bytes(&self, entries: f64) -> f64 {
        self.index().saved_bytes(entries) + SAVED_END_BYTES
    }

    /// Returns the reads of a get of an existing key: its record, those of other keys of an equal hash, and a page of
    /// the index if that is on flash.
    pub fn reads_per_get(&self) -> f64 {
        let others = self.reads_per_record() * self.reads_of_others() / 2.0;
        self.reads_per_record() + others + self.index().on_flash()
    }

    /// Returns the reads of a get of a missing key.
    pub fn reads_per_miss(&self) -> f64 {
        self.reads_per_record() * self.reads_of_others() + self.index().on_flash()
    }

    /// Returns how many other keys have the hash of a key.
    fn reads_of_others(&self) -> f64 {
        self.keys / self.layout.hash_bits.exp2()
    }

    /// Returns 2 for large records of any size: the length is in the first part.
    fn reads_per_record(&self) -> f64 {
        if self.layout.fixed || self.frame_bytes <= READ_BYTES_GUESS { 1.0 } else { 2.0 }
    }

    /// Returns the bytes that cleaning reads per byte put: each segment that is released was read. An index on flash is
    /// read as often as it is written.
    pub fn background_reads(&self, appends_per_put: f64, writes: &FlashKeyWrites) -> f64 {
        let moved = appends_per_put - 1.0;
        let cleaned =
            if moved > 1e-9 { appends_per_put * self.frame_bytes / self.layout.item_bytes() } else { 0.0 };
        cleaned + self.index().on_flash() * writes.saved_index
    }

    /// Returns the random reads per put in the background: older records, if more than `unconfirmed_max` of the keys
    /// would be unconfirmed, and of an index on flash the newer records, and pages to compare the two and to clean.
    pub fn background_reads_per_put(&self, popularity: &Popularity, appends_per_put: f64) -> f64 {
        let confirmed = 1.0 - self.replaced_at_once(popularity);
        let dead = confirmed * (self.layout.space - 1.0);
        let read_share = (1.0 - self.layout.unconfirmed_share() / dead.max(f64::MIN_POSITIVE)).max(0.0);
        confirmed * read_share + self.index().on_flash() * (2.0 * confirmed + appends_per_put)
    }

    /// Returns the average memory while keys are put for the first time, without what only a running job uses.
    pub fn ram(&self) -> FlashKeyRam {
        FlashKeyRam {
            index: self.index().ram(self.keys, self.index().changes_of_save(self.keys) / 2.0),
            log_buffers: self.segments_bytes(),
            ordered_keys: if self.layout.ordered { KEY_TABLES_BYTES } else { 0.0 },
            unconfirmed: 0.0,
            confirm_buffers: 0.0,
            clean_buffers: 0.0,
            fixed: (costs::KEY_STRIPES_BYTES as f64) + self.layout.partitions,
        }
    }

    /// Returns the average memory of a store whose keys are overwritten with this popularity.
    pub fn ram_of_overwriting(&self, popularity: &Popularity) -> Result<FlashKeyRam, ModelError> {
        // The dead records in finished segments, without those that were replaced at once.
        let dead = (1.0 - self.replaced_at_once(popularity)) * (self.layout.space - 1.0) * self.keys;
        let most = self.layout.unconfirmed_share() * self.keys;
        let Steady { appends_per_put, changes } = self.steady(popularity)?;
        let unconfirmed = if dead > most {
            // A segment is cleaned when the inverse of the appends is dead, and confirmed at about half of that: its
            // notes go together.
            (most - self.segment_frames() / appends_per_put / 4.0).max(most / 2.0)
        } else {
            dead
        };
        let index = self.index().ram(self.keys + unconfirmed, changes);
        Ok(FlashKeyRam { index, unconfirmed: notes_bytes(unconfirmed), ..self.ram() })
    }

    /// Returns the peak of memory of a store that is written as fast as it accepts writes: overwrites that are not
    /// confirmed have a second entry, and all buffers exist.
    pub fn ram_peak(&self) -> FlashKeyRam {
        let pending =
            (self.puts_per_flush(2.0) * 2.0 * OPERATION_BYTES * 2.0).min(costs::FLUSH_CHANGE_BYTES as f64);
        let piece = (costs::CLEAN_PIECE_BYTES as f64).min(self.segment_bytes());
        let index = self.index().ram_peak(self.keys, self.unconfirmed_max());
        FlashKeyRam {
            index,
            log_buffers: self.segments_bytes() + (LOGS - 1.0) * costs::BUFFER_BYTES_MAX as f64 + pending,
            unconfirmed: notes_bytes(self.unconfirmed_max()),
            confirm_buffers: piece,
            clean_buffers: CLEANED_COPIES * piece,
            ..self.ram()
        }
    }

    /// Returns the list of segments.
    fn segments_bytes(&self) -> f64 {
        (self.segments_max()).ceil() * costs::SEGMENT_BYTES as f64
    }

    fn segments_max(&self) -> f64 {
        self.layout.space * self.live_bytes() / self.segment_bytes() + LOGS
    }

    /// Returns how many overwrites may be unconfirmed before puts wait: twice as many as are confirmed by reads, or
    /// all dead records.
    fn unconfirmed_max(&self) -> f64 {
        let excess = costs::excess_max(self.layout.space, self.live_bytes(), self.segment_bytes());
        let dead = self.layout.space - 1.0 + excess / self.live_bytes();
        dead.min(costs::UNCONFIRMED_MAX * self.layout.unconfirmed_max) * self.keys
    }

    /// Returns the maximum number of bytes on flash per byte of items: the logs, which have a segment each besides
    /// their space, a saved index, the next one, and redo.
    pub fn space_amplification(&self) -> f64 {
        let logs = self.layout.space * self.live_bytes() + LOGS * self.segment_bytes();
        let index = self.index_files_bytes();
        let ordered = KEY_COPIES * self.ordered_key_bytes() * self.keys;
        (logs + index + ordered) / self.keys / self.layout.item_bytes()
    }

    /// Returns the most bytes of the saved index, the next one, and redo.
    pub(crate) fn index_files_bytes(&self) -> f64 {
        2.0 * self.saved_bytes(self.keys) + self.redo_bytes_max(self.keys)
    }

    /// Returns the maximum number of files.
    pub fn files_max(&self) -> f64 {
        self.segments_max() + costs::WAITING_SEGMENTS_MAX
    }
}

/// Returns the memory of this many notes.
pub(crate) fn notes_bytes(notes: f64) -> f64 {
    notes * costs::NOTE_BYTES as f64 * (1.0 + SPARE_NOTES)
}

/// Returns the next multiple.
fn padded(bytes: f64, unit_bytes: f64) -> f64 {
    (bytes / unit_bytes).ceil() * unit_bytes
}

/// Returns the mean bytes of a varint of a distance between numbers at random places that are `mean` apart.
fn varint_mean(mean: f64) -> f64 {
    1.0 + (1..6).map(|bytes| (-VARINT_RANGE.powi(bytes) / mean).exp()).sum::<f64>()
}

#[cfg(test)]
mod tests;
