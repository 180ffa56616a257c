//! MICA in store mode: the memory that its structures take (Lim's dissertation, 5.3.3). It writes nothing to flash.
//!
//! The dissertation states no figure for the memory of an item; sizes of fields that it only names are those that its
//! arithmetic needs, and are parameters.

use super::error::{ModelError, positive};

/// Partitions of this crate's engine unless its settings say otherwise, and the most of them.
const PARTITIONS: f64 = 16.0;
const PARTITIONS_MAX: f64 = 1024.0;
/// The memory that a partition may have, in bytes.
const PARTITION_BYTES_MIN: f64 = 65_536.0;
const PARTITION_BYTES_MAX: f64 = 17_179_869_184.0;
/// The fullest partition has this many standard deviations more keys than the mean.
const FULLEST_DEVIATIONS: f64 = 4.5;
/// What a partition takes beside items and index: lists of free blocks, spare buckets, the rest of a page; in bytes.
const PARTITION_OVERHEAD_BYTES: f64 = 8448.0;
/// What rounding up to pages and words adds to a budget.
const ROUNDED_SHARE: f64 = 0.01;
/// The share of the items' memory that is kept in use where records differ in size.
const OCCUPANCY_OF_SIZES: f64 = 0.93;

/// The parameters of a MICA store.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Mica {
    /// The keys.
    pub keys: f64,
    /// The bytes of a key with its value.
    pub item_bytes: f64,
    /// An item's lengths, initial size, keyhash and expiry time, in bytes.
    pub header_bytes: f64,
    /// Size classes are multiples of that many bytes.
    pub size_class_bytes: f64,
    /// The share of the items' memory that segregated fits keep in use.
    pub occupancy: f64,
    /// A bucket of the index: two cache lines.
    pub bucket_bytes: f64,
    /// Index entries in a bucket.
    pub bucket_entries: f64,
    /// Keys for each entry of the main buckets.
    pub load_factor: f64,
    /// Spare buckets for each main one.
    pub spare_buckets: f64,
}

impl Mica {
    /// The prototype's store.
    pub fn paper(keys: f64, item_bytes: f64) -> Self {
        Mica {
            keys,
            item_bytes,
            header_bytes: 24.0,
            size_class_bytes: 8.0,
            occupancy: 0.95,
            bucket_bytes: 128.0,
            bucket_entries: 15.0,
            load_factor: 0.8,
            spare_buckets: 0.1,
        }
    }

    /// The store of this crate: no header where records have a fixed size, else 8 bytes; buckets of one cache line; a
    /// bitmap of a 64th beside the items, of which none is lost as long as they have one size.
    pub fn siltstone(keys: f64, item_bytes: f64, fixed: bool) -> Self {
        Mica {
            header_bytes: if fixed { 0.0 } else { 8.0 },
            occupancy: 64.0 / 65.0,
            bucket_bytes: 64.0,
            bucket_entries: 9.0,
            load_factor: 6.2 / 9.0,
            ..Mica::paper(keys, item_bytes)
        }
    }

    /// The same where records differ in size and have these bytes on average.
    pub fn siltstone_of_sizes(keys: f64, mean_item_bytes: f64) -> Self {
        let mica = Mica::siltstone(keys, mean_item_bytes, false);
        Mica { occupancy: mica.occupancy * OCCUPANCY_OF_SIZES, ..mica }
    }

    /// The partitions of this crate's engine, the `memory_budget` with which the fullest of them holds its keys, and
    /// the memory that all of it takes: 16 partitions unless that is more or less memory for each than is allowed.
    /// None if
    /// the data is too large.
    pub fn budget(&self) -> Option<(f64, f64, f64)> {
        let mut partitions = PARTITIONS;
        loop {
            let mean = self.keys / partitions;
            let keys = (mean + FULLEST_DEVIATIONS * mean.sqrt()).min(self.keys);
            let bytes = Mica { keys, ..self.clone() }.ram_bytes() + PARTITION_OVERHEAD_BYTES;
            if bytes > PARTITION_BYTES_MAX {
                partitions *= 2.0;
                if partitions > PARTITIONS_MAX {
                    return None;
                }
            } else if bytes < PARTITION_BYTES_MIN && partitions > 1.0 {
                partitions /= 2.0;
            } else {
                let budget = (partitions * bytes.max(PARTITION_BYTES_MIN)).ceil();
                return Some((
                    partitions,
                    budget,
                    budget * (1.0 + ROUNDED_SHARE) + partitions * PARTITION_OVERHEAD_BYTES,
                ));
            }
        }
    }

    /// Whether there can be such a store.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("keys", self.keys)?;
        positive("item bytes", self.item_bytes)?;
        positive("occupancy", self.occupancy)?;
        positive("load factor", self.load_factor)?;
        Ok(())
    }

    /// The memory of the index, in bytes.
    pub fn index_bytes(&self) -> f64 {
        let buckets = self.keys / (self.bucket_entries * self.load_factor);
        buckets * (1.0 + self.spare_buckets) * self.bucket_bytes
    }

    /// All the memory, in bytes.
    pub fn ram_bytes(&self) -> f64 {
        let item =
            ((self.item_bytes + self.header_bytes) / self.size_class_bytes).ceil() * self.size_class_bytes;
        self.keys * item / self.occupancy + self.index_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_items_in_size_classes_and_of_buckets() {
        let mica = Mica { occupancy: 1.0, load_factor: 1.0, spare_buckets: 0.0, ..Mica::paper(15e6, 17.0) };
        assert_eq!(mica.index_bytes(), 128e6);
        assert_eq!(mica.ram_bytes(), 15e6 * 48.0 + 128e6);
        assert!(Mica { keys: 0.0, ..mica }.check().is_err());
    }

    #[test]
    fn a_budget_is_divided_into_partitions_of_a_size_that_is_allowed() {
        for (keys, partitions) in [(10.0, 1.0), (1e5, 16.0), (1e9, 16.0), (1e11, 256.0)] {
            let mica = Mica::siltstone(keys, 16.0, true);
            let (found, bytes, _) = mica.budget().unwrap();
            assert_eq!(found, partitions, "{keys}");
            assert!(bytes > mica.ram_bytes() && (65_536.0..=17_179_869_184.0).contains(&(bytes / found)));
        }
        assert_eq!(Mica::siltstone(1e13, 16.0, true).budget(), None);
    }
}
