//! What does not change while a database is open: its directory, settings and shape.

use super::settings::SiltSettings;
use crate::device::Directory;
use crate::key::{Key, KeyHash, KeyHasher, Placing};
use crate::stats;
use crate::store::manifest::{FORMAT_VERSION, Header};

pub(super) struct Configuration {
    pub directory: Directory,
    pub settings: SiltSettings,
    pub shape: Header,
    pub placing: Placing,
}

impl Configuration {
    pub fn new(directory: Directory, settings: SiltSettings, shape: Header) -> Configuration {
        let placing = shape.records().placing;
        Configuration { directory, settings, shape, placing }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        1 << self.shape.partitions_log2
    }

    /// The partition of a key and the hash of the key in it.
    #[inline]
    pub fn route(&self, key: Key<'_>) -> (usize, KeyHash) {
        let bits = self.placing.partitions_log2;
        (key.hash().partition(bits), key.hash().within_partition(bits))
    }

    /// The shape as users see it.
    pub fn public_shape(&self) -> stats::Shape {
        stats::Shape {
            fixed: self.shape.layout.fixed,
            hashed_keys: self.shape.hasher == KeyHasher::Identity,
            expiring: self.shape.layout.expiring,
            partitions: 1 << self.shape.partitions_log2,
            block_bytes: self.shape.block_bytes,
            format_version: FORMAT_VERSION,
        }
    }
}
