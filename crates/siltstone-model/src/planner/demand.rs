//! What a user asks of a store: the data, the load and the hardware.

use crate::error::{ModelError, fraction, positive};
use crate::flash::{Flash, YEAR_S};
use crate::popularity::Popularity;
use crate::silt::SiltLayout;

/// What flash writes at the least.
const PAGE_BYTES: f64 = 4096.0;

/// What is best among the plans that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum Goal {
    /// The device is busy for the smallest share of the time: few reads for loads of gets, few writes for others.
    #[default]
    LeastDeviceTime,
    /// The least memory. With a lifetime asked for, this is the least that makes flash last so long.
    LeastRam,
    /// The least write amplification.
    LeastWrites,
}

/// The data, the load, the hardware, and what is wanted of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The items, and how popular each of them is in puts and gets.
    pub popularity: Popularity,
    /// The bytes of a key.
    pub key_bytes: f64,
    /// The bytes of a value.
    pub value_bytes: f64,
    /// Gets in a second, of present and of missing keys.
    pub gets_per_s: f64,
    /// The share of gets whose key is not there.
    pub missing_gets: f64,
    /// Puts in a second. The number of items stays the same.
    pub puts_per_s: f64,
    /// Whether scans in the order of keys are needed.
    pub scans: bool,
    /// Whether what was put must survive the process.
    pub persistent: bool,
    /// Whether each put must survive a loss of power when it returns. A put then writes the pages of the log that it is
    /// in, and takes one operation of the flash. Puts that return together need less.
    pub synced: bool,
    /// The memory, in bytes.
    pub ram_bytes: f64,
    /// The flash.
    pub flash: Flash,
    /// Random reads that the flash does in a second.
    pub reads_per_s: f64,
    /// Bytes that the flash reads in a second, in large pieces. A read takes as long as one of `reads_per_s`, or as its
    /// bytes do where that is longer.
    pub read_bytes_per_s: f64,
    /// Bytes that the flash writes in a second, in large pieces.
    pub write_bytes_per_s: f64,
    /// Random reads that a disk below the flash does in a second, if there is one.
    pub disk_reads_per_s: Option<f64>,
    /// How long the flash must last, in seconds.
    pub lifetime_s: f64,
    /// What is best among the plans that fit.
    pub goal: Goal,
    /// The records as the SILT engine stores them, and those of its settings that are not sought.
    pub silt_layout: SiltLayout,
}

impl Demand {
    /// Items of that size and popularity, with nothing else stated: 10,000 gets and 1,000 puts a second, 1 GiB of
    /// memory, 1 TB of flash with 3,000 erase cycles that does 100,000 reads and reads and writes 500 MB per
    /// second, for 3 years.
    pub fn new(popularity: Popularity, key_bytes: f64, value_bytes: f64) -> Self {
        Demand {
            popularity,
            key_bytes,
            value_bytes,
            gets_per_s: 10_000.0,
            missing_gets: 0.0,
            puts_per_s: 1_000.0,
            scans: false,
            persistent: true,
            synced: false,
            ram_bytes: f64::from(1 << 30),
            flash: Flash { bytes: 1e12, erase_cycles: 3_000.0 },
            reads_per_s: 100_000.0,
            read_bytes_per_s: 500e6,
            write_bytes_per_s: 500e6,
            disk_reads_per_s: None,
            lifetime_s: 3.0 * YEAR_S,
            goal: Goal::default(),
            silt_layout: SiltLayout::new(key_bytes, value_bytes),
        }
    }

    /// Whether it can be planned for.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("key and value bytes", self.item_bytes())?;
        self.silt_layout.check()?;
        positive("RAM bytes", self.ram_bytes)?;
        positive("flash bytes", self.flash.bytes)?;
        positive("erase cycles", self.flash.erase_cycles)?;
        positive("reads a second", self.reads_per_s)?;
        positive("read bytes per second", self.read_bytes_per_s)?;
        positive("write bytes per second", self.write_bytes_per_s)?;
        fraction("missing gets", self.missing_gets)?;
        for (name, value) in [
            ("gets a second", self.gets_per_s),
            ("puts a second", self.puts_per_s),
            ("lifetime", self.lifetime_s),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ModelError { name, got: value, limit: "finite, 0 or more" });
            }
        }
        if let Some(reads) = self.disk_reads_per_s {
            positive("disk reads a second", reads)?;
        }
        Ok(())
    }

    /// N.
    pub fn keys(&self) -> f64 {
        self.popularity.keys()
    }

    /// c.
    pub fn item_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// All items, in bytes.
    pub fn data_bytes(&self) -> f64 {
        self.keys() * self.item_bytes()
    }

    /// The time that a read of so many bytes takes, in seconds.
    pub(super) fn read_s(&self, bytes: f64) -> f64 {
        (1.0 / self.reads_per_s).max(bytes / self.read_bytes_per_s)
    }

    /// What a put writes beyond its record if it is synced by itself, for each byte of an item: the rest of the pages.
    pub(super) fn synced_excess(&self) -> f64 {
        if self.synced { PAGE_BYTES / self.item_bytes() } else { 0.0 }
    }

    /// Gets for each put, in the sense of a limit if nothing is put.
    pub(super) fn gets_per_put(&self) -> f64 {
        self.gets_per_s / self.puts_per_s.max(1e-9)
    }
}
