//! The settings of a FlashStore engine.

use crate::engine::CommonSettings;
use crate::engine::flashkey::FlashKeyFamilySettings;
#[cfg(feature = "mistakes")]
use crate::engine::flashkey::Mistake;
use crate::engine::flashkey::WriteBudget;
use crate::engine::flashkey::{BELOW_NUMBER, LogSettings, Recycling, Victim};
use crate::engine::settings::{Disk, SettingsTable, settings};
use crate::engine::{EngineInfo, info};
use crate::error::{Error, Result};
use crate::store::manifest::KeptSettings;

/// The name under which a database keeps the id of its disk.
pub(super) const DISK_ID: &str = "disk_id";
/// The name under which a database keeps the number of the claim of its disk.
pub(super) const DISK_NUMBER: &str = BELOW_NUMBER;
/// The least number of segments that flash holds: some of them grow, or wait to be finished.
pub const SEGMENTS_MIN: u64 = 16;
/// Records begin to leave when less than this many segments are free, or earlier.
pub const FREE_SEGMENTS: u64 = 2;
/// The limits of the bits of hashes, and the false reads per get that they may cost if they are not given.
const HASH_BITS_MIN: u8 = 28;
const HASH_BITS_MAX: u8 = 41;
const FALSE_READS_MAX: f64 = 0.0005;
/// The bytes of a record if its size is not fixed: at least, for most uses.
const RECORD_BYTES_GUESS: usize = 64;
/// The share of keys that may have an unconfirmed overwrite. When the oldest segment is recycled, all of its notes
/// are resolved, so there are seldom more.
pub const UNCONFIRMED_MAX: f64 = 0.25;

settings! {
    /// The settings of the engine `flashstore`.
    ///
    /// ```
    /// # fn main() -> siltstone::Result<()> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (flash, slow) = (directory.path().join("flash"), directory.path().join("slow"));
    /// use siltstone::{Database, Disk, FlashStoreSettings};
    ///
    /// let settings = FlashStoreSettings::default().flash_bytes(64 << 30).disk(Disk::at(slow));
    /// let database = Database::builder(&flash).engine(settings).open()?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct FlashStoreSettings {
        /// The bytes of flash that the logs may take, at least 16 segments. It has to be given.
        flash_bytes: u64 = 0, 0..=1 << 60, kept;
        /// The directory to which records leave, fixed when the database is created: a database of any engine. Its id
        /// is kept, so the directory may move. `disk.engine` is the engine of a new disk, and `disk.NAME` is its
        /// setting NAME. Half of a memory budget is the disk's. A new database needs this or `cache`.
        disk: Disk = Disk::default(), (), kept;
        /// Whether a record that was found on the disk is put to flash as well, at once if there is space, otherwise
        /// when it is read a second time.
        caches_reads: bool = true, (), kept;
        /// Whether records are lost when they leave, fixed when the database is created: a cache on flash without a
        /// disk.
        cache: bool = false, (), kept;
        /// Of a cache, the bytes per second that are written to flash, on average; 0 for no limit. When more would be
        /// written, puts are rejected at random: flash has no record of their keys then. With a memory budget, the
        /// record cache keeps what they put, until it needs the space or the database is closed.
        write_bytes_per_s: u64 = 0, 0..=1 << 50, kept;
        /// The share of flash at which records begin to leave, at most all but two segments. Puts wait when flash is
        /// full.
        usage: f64 = 0.95, 0.5..=0.98, kept;
        /// The number of queues. With 1, records that were read go round with all others (the paper). With 2, they stay
        /// in logs of their own, and new records leave earlier if they are not read.
        queues: u8 = 2, 1..=2, kept hidden;
        /// The bits of a key's hash that the index keeps, fixed when the database is created. A get of a key that is
        /// not on flash costs N / 2^bits reads of flash, for N keys there. If this is not given, it is chosen for
        /// 0.0005 reads when flash is full of records of the fixed size, or else of 64 bytes.
        hash_bits: u8 = 38, HASH_BITS_MIN..=HASH_BITS_MAX, kept;
        /// The most bytes of a segment of the logs, fixed when the database is created. A segment is complete when it
        /// has a 64th of the data and at least 2 MiB, or as many.
        segment_bytes: u64 = 32 << 20, 4_096..=1 << 30, kept;
    }
    paper {
        "queues" => "1",
    }
    hidden {
        /// A mistake that the engine makes; simulations must find it.
        #[cfg(feature = "mistakes")]
        mistake: Option<Mistake> = None;
    }
}

/// Returns the bytes of the logs at which records begin to leave.
pub fn begin_bytes(flash_bytes: u64, usage: f64, segment_bytes: u64) -> u64 {
    let most = flash_bytes.saturating_sub(FREE_SEGMENTS * segment_bytes);
    ((flash_bytes as f64 * usage) as u64).min(most)
}

/// Returns the bits of hashes for records of these lengths, if they have a fixed size, on full flash.
pub fn hash_bits(flash_bytes: u64, fixed: Option<(usize, usize)>) -> u8 {
    let record_bytes = fixed.map_or(RECORD_BYTES_GUESS, |(key_bytes, value_bytes)| key_bytes + value_bytes);
    let keys = flash_bytes as f64 / record_bytes.max(1) as f64;
    let bits = (keys / FALSE_READS_MAX).log2().ceil();
    (bits as u8).clamp(HASH_BITS_MIN, HASH_BITS_MAX)
}

fn refused(name: &'static str, problem: impl Into<String>) -> Result<()> {
    Err(Error::Setting { name, problem: problem.into() })
}

impl FlashStoreSettings {
    /// Returns the settings with which a database is created.
    pub(super) fn for_creation(&self, common: &CommonSettings) -> FlashStoreSettings {
        let mut settings = self.clone();
        if !settings.given().contains(&"hash_bits") {
            settings.hash_bits = hash_bits(self.flash_bytes, common.fixed);
        }
        settings
    }

    /// Checks that there is a disk or that this is a cache, that each setting that was given has an effect, and the
    /// bytes of flash.
    fn check_together(&self) -> Result<()> {
        let (without_effect, of_what) = match (self.disk.is_none(), self.cache) {
            (true, _) if self.disk.has_settings() => {
                let problem = "settings of the disk are stated, but no disk; state its directory";
                return refused("disk", problem);
            }
            (true, false) => {
                let problem = "records leave to a `disk`, or are lost with `cache`; give one of them, or use the \
                               engine `flashkey`, whose data stays";
                return refused("disk", problem);
            }
            (false, true) => {
                let problem = "a database with a disk loses no record; leave `disk` or `cache` out";
                return refused("cache", problem);
            }
            (true, true) => ("caches_reads", "of a cache"),
            (false, false) => ("write_bytes_per_s", "with a disk"),
        };
        if self.clone().given().contains(&without_effect) {
            return refused(without_effect, format!("it has no effect {of_what}; leave it out"));
        }
        let least = SEGMENTS_MIN * self.segment_bytes;
        if self.flash_bytes < least {
            let problem = format!(
                "{} bytes are too few; use {least} or more, which are {SEGMENTS_MIN} segments of `segment_bytes`",
                self.flash_bytes
            );
            return refused("flash_bytes", problem);
        }
        Ok(())
    }
}

impl FlashKeyFamilySettings for FlashStoreSettings {
    const INFO: &'static EngineInfo = &info::FLASHSTORE;
    const FIXED: &'static [&'static str] = &["hash_bits", "segment_bytes", "cache"];

    fn of_logs(&self) -> LogSettings {
        let recycling = Recycling {
            begin_bytes: begin_bytes(self.flash_bytes, self.usage, self.segment_bytes),
            most_bytes: self.flash_bytes,
            queues: self.queues,
        };
        LogSettings {
            // Without an effect: `recycling` bounds the logs.
            space: 1.0,
            capacity: u64::MAX,
            hash_bits: u32::from(self.hash_bits),
            victim: Victim::CostBenefit,
            classes: 3,
            segment_bytes: self.segment_bytes,
            index_in_memory: 1.0,
            unconfirmed_max: UNCONFIRMED_MAX,
            ordered: false,
            recycling: Some(recycling),
            has_below: !self.disk.is_none(),
            #[cfg(feature = "mistakes")]
            mistake: self.mistake,
        }
    }

    fn write_budget(&self) -> Option<WriteBudget> {
        WriteBudget::new(self.write_bytes_per_s)
    }

    fn check_creation(&self, common: &CommonSettings) -> Result<()> {
        self.check_limits()?;
        self.check_no_blocks(common)?;
        self.check_together()
    }

    fn adopt_kept(&mut self, kept: &KeptSettings) -> Result<()> {
        let mut kept = kept.clone();
        kept.remove(DISK_ID);
        kept.remove(DISK_NUMBER);
        let stated = self.disk.clone();
        self.adopt_fixed(&kept)?;
        // The path alone is kept.
        self.disk = stated.moved_to(self.disk.path().to_owned());
        self.check_together()
    }
}
