//! The writes and the memory of a SILT store, by component.

/// The sources of write amplification, in bytes written per byte put.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct SiltWrites {
    /// The log.
    pub log_store: f64,
    /// The conversion of LogStores into HashStores.
    pub hash_stores: f64,
    /// The merge of HashStores into the SortedStore.
    pub sorted_store: f64,
}

impl SiltWrites {
    /// WA: the sum.
    pub fn total(&self) -> f64 {
        self.log_store + self.hash_stores + self.sorted_store
    }
}

/// The memory of all partitions, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct SiltRam {
    /// The indexes of the LogStores.
    pub log_stores: f64,
    /// The filters of the HashStores.
    pub hash_stores: f64,
    /// The indexes of the SortedStores.
    pub sorted_stores: f64,
    /// The buffers of conversions, merges and lookups.
    pub buffers: f64,
    /// What does not depend on the data: the locks of keys.
    pub fixed: f64,
}

impl SiltRam {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        self.log_stores + self.hash_stores + self.sorted_stores + self.buffers + self.fixed
    }
}
