//! How many records an engine was given to write since it was opened, and their bytes.

use crate::batch::HashedWrite;
use siltstone_device::Striped;

/// The counters of one engine: of records that were written, and of the bytes of their keys and values.
#[derive(Debug, Default)]
pub(in crate::engine) struct Writes(Striped<2>);

impl Writes {
    /// Counts one write, once it is done.
    #[inline]
    pub fn count(&self, write: &HashedWrite<'_>) {
        self.add(1, write.write.user_bytes() as u64);
    }

    /// Counts writes, once they are done.
    pub fn count_all(&self, writes: &[HashedWrite<'_>]) {
        let user_bytes = writes.iter().map(|write| write.write.user_bytes() as u64).sum();
        self.add(writes.len() as u64, user_bytes);
    }

    /// Counts records, and the bytes of their keys and values.
    #[inline]
    pub fn add(&self, records: u64, user_bytes: u64) {
        self.0.add([records, user_bytes]);
    }

    /// Returns how many records were written, and their bytes.
    pub fn sums(&self) -> (u64, u64) {
        let [records, user_bytes] = self.0.sums();
        (records, user_bytes)
    }
}
