//! The writes and the memory of the FlashKey engine, by component.

/// The sources of write amplification, in bytes written per byte put.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FlashKeyWrites {
    /// The records that are put.
    pub puts: f64,
    /// The records that cleaning moves.
    pub moved: f64,
    /// The headers of segments, and the markers of the logs.
    pub markers: f64,
    /// The changes of the index.
    pub redo: f64,
    /// The index, saved as a whole.
    pub saved_index: f64,
    /// The keys in order, if an order is kept.
    pub ordered_keys: f64,
}

impl FlashKeyWrites {
    /// WA: the sum.
    pub fn total(&self) -> f64 {
        self.puts + self.moved + self.markers + self.redo + self.saved_index + self.ordered_keys
    }
}

/// The memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct FlashKeyRam {
    /// The index.
    pub index: f64,
    /// The list of segments, and the records and changes that are not yet written.
    pub log_buffers: f64,
    /// The keys in order that are not in a run yet, if an order is kept.
    pub ordered_keys: f64,
    /// The notes of unconfirmed overwrites.
    pub unconfirmed: f64,
    /// A piece of a segment whose overwrites are confirmed.
    pub confirm_buffers: f64,
    /// The piece of a segment that is being cleaned.
    pub clean_buffers: f64,
    /// What does not depend on the data: the locks of keys and of shards.
    pub fixed: f64,
}

impl FlashKeyRam {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        let jobs = self.confirm_buffers + self.clean_buffers;
        self.index + self.log_buffers + self.ordered_keys + self.unconfirmed + jobs + self.fixed
    }
}
