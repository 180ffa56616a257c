//! MICA in store mode: the memory of its structures (Lim's dissertation, 5.3.3). It writes nothing to flash.
//!
//! The dissertation states no memory size per item. Fields that it names without a size have the size that its
//! arithmetic needs, as parameters.

use super::error::{ModelError, positive};

/// The default and the maximum number of partitions of this crate's engine.
const PARTITIONS: f64 = 16.0;
const PARTITIONS_MAX: f64 = 1024.0;
/// The minimum and the maximum memory of a partition, in bytes.
const PARTITION_BYTES_MIN: f64 = 65_536.0;
const PARTITION_BYTES_MAX: f64 = 17_179_869_184.0;
/// The fullest partition holds the mean plus this many standard deviations of keys.
const FULLEST_DEVIATIONS: f64 = 4.5;
/// The memory of a partition besides items and index, in bytes: free lists, spare buckets, the unused part of a page.
const PARTITION_OVERHEAD_BYTES: f64 = 8448.0;
/// The share that rounding up to pages and words adds to a budget.
const ROUNDED_SHARE: f64 = 0.01;
/// The share of the items' memory that stays in use if records differ in size.
const OCCUPANCY_OF_SIZES: f64 = 0.93;

/// The parameters of a MICA store.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Mica {
    /// The number of keys.
    pub keys: f64,
    /// The bytes of a key and its value.
    pub item_bytes: f64,
    /// An item's lengths, initial size, key hash and expiry time, in bytes.
    pub header_bytes: f64,
    /// The step between size classes, in bytes.
    pub size_class_bytes: f64,
    /// The share of the items' memory that segregated fits keep in use.
    pub occupancy: f64,
    /// A bucket of the index, in bytes: two cache lines.
    pub bucket_bytes: f64,
    /// Index entries in a bucket.
    pub bucket_entries: f64,
    /// Keys per entry of the main buckets.
    pub load_factor: f64,
    /// Spare buckets per main bucket.
    pub spare_buckets: f64,
}

impl Mica {
    /// Returns the prototype's store.
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

    /// Returns the store of this crate: no header for records of a fixed size, 8 bytes for others; buckets of one cache
    /// line; a bitmap of a 64th of the items. No memory is lost to fragmentation as long as all items have one size.
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

    /// Like [`Mica::siltstone`], for records that differ in size and have this many bytes on average.
    pub fn siltstone_of_sizes(keys: f64, mean_item_bytes: f64) -> Self {
        let mica = Mica::siltstone(keys, mean_item_bytes, false);
        Mica { occupancy: mica.occupancy * OCCUPANCY_OF_SIZES, ..mica }
    }

    /// Returns the number of partitions, the `memory_budget` with which the fullest of them holds its keys, and the
    /// total memory. There are 16 partitions unless that makes them smaller or larger than allowed. Returns `None` if
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

    /// Checks that such a store is possible.
    pub fn check(&self) -> Result<(), ModelError> {
        positive("keys", self.keys)?;
        positive("item bytes", self.item_bytes)?;
        positive("occupancy", self.occupancy)?;
        positive("load factor", self.load_factor)?;
        Ok(())
    }

    /// Returns the memory of the index, in bytes.
    pub fn index_bytes(&self) -> f64 {
        let buckets = self.keys / (self.bucket_entries * self.load_factor);
        buckets * (1.0 + self.spare_buckets) * self.bucket_bytes
    }

    /// Returns the total memory, in bytes.
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
