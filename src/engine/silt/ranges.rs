//! How the hashes of a partition are divided: into ranges with a page of the chain each, and into the prefixes of a
//! prefilter. Both suit a chain of full length.

use super::partition_settings::{ChainSettings, PartitionSettings};
use super::policy::{OCCUPANCY, log_slots_min};
use crate::store::chain::OLD_COLUMNS;
use siltstone_index::prefilter::prefixes_for;
use siltstone_index::run_columns::RANGES_MAX;

/// The filters of a page of a full chain take about this many bytes, and their places the rest of 6.5 KiB.
pub const PAGE_BYTES: f64 = 6_000.0;

/// Returns the records that the runs of a full chain have, besides this many keys in the oldest run of the partition.
fn young_records(
    settings: &PartitionSettings,
    chain: &ChainSettings,
    partitions: usize,
    partition_keys: u64,
    record_bytes: u64,
) -> f64 {
    let length = f64::from(chain.chain_length);
    let keys = partition_keys as f64;
    // Each run has a share of the keys that there are by then.
    let growth = (1.0 + OCCUPANCY / f64::from(settings.keys_per_log_slot)).powf(length) - 1.0;
    let smallest = length * f64::from(log_slots_min(settings, record_bytes)) * OCCUPANCY;
    let expected = chain.expected_keys as f64 / partitions.max(1) as f64;
    if expected > keys { expected - keys } else { keys * growth }.max(smallest)
}

/// Returns the number of ranges of the columns of a partition with this many keys in its oldest run: a page has about
/// [`PAGE_BYTES`] when the chain has its full length.
pub(super) fn ranges(
    settings: &PartitionSettings,
    chain: &ChainSettings,
    partitions: usize,
    partition_keys: u64,
    record_bytes: u64,
) -> u32 {
    let young = young_records(settings, chain, partitions, partition_keys, record_bytes);
    let bits =
        young * f64::from(chain.filter_bits) + partition_keys as f64 * f64::from(chain.old_filter_bits);
    ((bits / 8.0 / PAGE_BYTES).ceil() as u32).clamp(1, RANGES_MAX / OLD_COLUMNS)
}

/// Returns the number of prefixes of the prefilter of a partition with this many keys in its oldest run: it has
/// `prefilter_bits` per key when the chain has its full length.
pub(super) fn prefixes(
    settings: &PartitionSettings,
    chain: &ChainSettings,
    partitions: usize,
    partition_keys: u64,
    record_bytes: u64,
) -> u64 {
    let young = young_records(settings, chain, partitions, partition_keys, record_bytes);
    prefixes_for(partition_keys as f64 + young, chain.prefilter_bits.into())
}
