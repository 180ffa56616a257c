//! What a SILT store writes and holds, by its parts.

/// Where write amplification comes from, in bytes written for each byte that is put.
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
    /// WA: all of it.
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
    /// What conversions, merges and lookups take while they run.
    pub buffers: f64,
}

impl SiltRam {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.log_stores + self.hash_stores + self.sorted_stores + self.buffers
    }
}
