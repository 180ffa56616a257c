//! How many keys of a database were looked up, and how many of them were missing. The database counts, and an engine
//! may choose its filters by the counts.

use siltstone_device::Striped;
use std::sync::Arc;

/// The counters of one database, of lookups and of missing keys. A copy has the same counters.
#[derive(Debug, Clone, Default)]
pub struct Lookups(Arc<Striped<2>>);

impl Lookups {
    /// Counts lookups of keys, and how many of the keys were missing; also those of an earlier open, once.
    pub fn count(&self, gets: u64, misses: u64) {
        self.0.add([gets, misses]);
    }

    /// Returns how many keys were looked up, and how many of them were missing.
    pub fn sum(&self) -> (u64, u64) {
        let [gets, misses] = self.0.sums();
        // A file may have any numbers of earlier opens.
        (gets.max(misses), misses)
    }
}

/// Counters are no setting: those of any two databases are equal.
impl PartialEq for Lookups {
    fn eq(&self, _: &Lookups) -> bool {
        true
    }
}
