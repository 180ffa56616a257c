//! The writes and the memory of the FlashStore engine, by component.

/// The bytes written to flash per byte put, by source.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FlashStoreWrites {
    /// The records that are put; in a cache also those that are put because a get missed them.
    pub puts: f64,
    /// The records that were found on the disk.
    pub promoted: f64,
    /// The records that were read, and stay.
    pub moved: f64,
    /// In a cache, the tombstones of records that are removed because a put of their key was rejected.
    pub tombstones: f64,
    /// The headers of segments, and the markers of the logs.
    pub markers: f64,
    /// The changes of the index.
    pub redo: f64,
    /// The index, saved as a whole.
    pub saved_index: f64,
}

impl FlashStoreWrites {
    /// WA of the flash: the sum.
    pub fn total(&self) -> f64 {
        self.puts + self.tombstones + self.promoted + self.moved + self.markers + self.redo + self.saved_index
    }
}

/// The memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FlashStoreRam {
    /// The index of what is on flash.
    pub index: f64,
    /// The marks of its entries.
    pub marks: f64,
    /// The notes of unconfirmed overwrites.
    pub unconfirmed: f64,
    /// The table of misses.
    pub admission: f64,
    /// The list of segments, and the buffers of logs and jobs.
    pub buffers: f64,
    /// The locks of keys and of shards.
    pub fixed: f64,
    /// The disk's: filters and indexes of its stores, and its buffers.
    pub disk: f64,
}

impl FlashStoreRam {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        let flash = self.index + self.marks + self.unconfirmed + self.admission;
        flash + self.buffers + self.fixed + self.disk
    }
}
