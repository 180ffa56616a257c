//! The input of the planner: data, load and hardware.

use crate::error::{ModelError, fraction, non_negative, positive};
use crate::flash::{Flash, YEAR_S};
use crate::popularity::Popularity;
use crate::silt::SiltLayout;

/// The smallest write to flash.
const PAGE_BYTES: f64 = 4096.0;

/// The criterion by which feasible plans are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum Goal {
    /// The smallest share of time in which the device is busy: favours few reads for read loads, few writes for others.
    #[default]
    LeastDeviceTime,
    /// The least memory. With a required lifetime: the least memory with which the flash lasts that long.
    LeastRam,
    /// The least write amplification.
    LeastWrites,
}

/// A disk below the flash, to which records leave.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Disk {
    /// Its capacity, in bytes; infinite if it is not to be exceeded.
    pub bytes: f64,
    /// Random reads per second.
    pub reads_per_s: f64,
    /// Bytes per second that it reads or writes in large pieces.
    pub bytes_per_s: f64,
}

/// Data, load, hardware and requirements.
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// The items, and their popularity in puts and gets.
    pub popularity: Popularity,
    /// The bytes of a key.
    pub key_bytes: f64,
    /// The bytes of a value.
    pub value_bytes: f64,
    /// Gets per second, of existing and of missing keys.
    pub gets_per_s: f64,
    /// The share of gets for missing keys.
    pub missing_gets: f64,
    /// Puts per second. The number of items is constant.
    pub puts_per_s: f64,
    /// Whether scans in key order are needed.
    pub scans: bool,
    /// Whether data must survive the process.
    pub persistent: bool,
    /// Whether each put must survive a power failure once it has returned. A put then writes the pages of the log that
    /// hold its record and takes one operation of the flash. Puts that are synced together cost less.
    pub synced: bool,
    /// The memory, in bytes.
    pub ram_bytes: f64,
    /// The flash.
    pub flash: Flash,
    /// The most bytes on flash per byte of items; infinite if only the flash limits them.
    pub space: f64,
    /// Random reads per second of the flash.
    pub reads_per_s: f64,
    /// Bytes per second that the flash reads in large pieces. A read takes the longer of 1 / `reads_per_s` and its
    /// bytes / `read_bytes_per_s`.
    pub read_bytes_per_s: f64,
    /// Bytes per second that the flash writes in large pieces.
    pub write_bytes_per_s: f64,
    /// A disk below the flash, if there is one.
    pub disk: Option<Disk>,
    /// The required lifetime of the flash, in seconds.
    pub lifetime_s: f64,
    /// The criterion for the best plan.
    pub goal: Goal,
    /// The record format of the SILT engine, and those of its settings that the planner does not choose.
    pub silt_layout: SiltLayout,
}

impl Demand {
    /// Items of this size and popularity with default requirements: 10,000 gets and 1,000 puts per second; 1 GiB of
    /// memory; 1 TB of flash with 3,000 erase cycles, 100,000 reads per second, and 500 MB/s for reads and for writes;
    /// 3 years.
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
            space: f64::INFINITY,
            reads_per_s: 100_000.0,
            read_bytes_per_s: 500e6,
            write_bytes_per_s: 500e6,
            disk: None,
            lifetime_s: 3.0 * YEAR_S,
            goal: Goal::default(),
            silt_layout: SiltLayout::new(key_bytes, value_bytes),
        }
    }

    /// Checks that every value is in its range.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("key and value bytes", self.item_bytes())?;
        self.silt_layout.check()?;
        positive("RAM bytes", self.ram_bytes)?;
        self.flash.check()?;
        positive("reads per second", self.reads_per_s)?;
        positive("read bytes per second", self.read_bytes_per_s)?;
        positive("write bytes per second", self.write_bytes_per_s)?;
        fraction("missing gets", self.missing_gets)?;
        non_negative("gets per second", self.gets_per_s)?;
        non_negative("puts per second", self.puts_per_s)?;
        non_negative("lifetime", self.lifetime_s)?;
        if self.space.is_nan() || self.space <= 1.0 {
            return Err(ModelError { name: "space", got: self.space, limit: "above 1" });
        }
        if let Some(disk) = self.disk {
            positive("disk reads per second", disk.reads_per_s)?;
            positive("disk bytes per second", disk.bytes_per_s)?;
            if disk.bytes.is_nan() || disk.bytes <= 0.0 {
                return Err(ModelError { name: "disk bytes", got: disk.bytes, limit: "above 0" });
            }
        }
        Ok(())
    }

    /// N: the number of keys.
    pub fn keys(&self) -> f64 {
        self.popularity.keys()
    }

    /// c: the bytes of an item.
    pub fn item_bytes(&self) -> f64 {
        self.key_bytes + self.value_bytes
    }

    /// Returns the bytes of all items.
    pub fn data_bytes(&self) -> f64 {
        self.keys() * self.item_bytes()
    }

    /// Returns the duration of a read of this many bytes, in seconds.
    pub(super) fn read_s(&self, bytes: f64) -> f64 {
        (1.0 / self.reads_per_s).max(bytes / self.read_bytes_per_s)
    }

    /// Returns the bytes per item byte that a separately synced put writes beyond its record: the rest of its pages.
    pub(super) fn synced_excess(&self) -> f64 {
        if self.synced { PAGE_BYTES / self.item_bytes() } else { 0.0 }
    }

    /// Gets per put; a very large number if nothing is put.
    pub(super) fn gets_per_put(&self) -> f64 {
        self.gets_per_s / self.puts_per_s.max(1e-9)
    }
}
