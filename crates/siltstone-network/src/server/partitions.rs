//! Opens the partitions, and gives each core its access to them.

use super::ServerSettings;
use siltstone::Error;
use siltstone_mica::{Account, CacheSettings, Handles, StoreSettings};

/// Opens the partitions. Returns the handles of each core and the memory of all partitions. Partition n belongs to core
/// n modulo the number of cores.
pub(super) fn open(settings: &ServerSettings) -> Result<(Vec<Handles>, Account), Error> {
    let &ServerSettings { layout, partitions, access, cores, .. } = settings;
    let partition_bits = partitions.ilog2();
    let memory_bytes = settings.memory_bytes / u64::from(partitions);
    let fixed = layout.fixed.map(|(key_length, value_length)| key_length + value_length);
    let record_bytes = fixed.unwrap_or(settings.record_bytes);
    let handles = match settings.eviction {
        Some(eviction) => {
            let cache = CacheSettings::for_memory(layout, memory_bytes, record_bytes);
            CacheSettings { eviction, partition_bits, ..cache }.open_handles(access, cores)?
        }
        None => {
            let store = StoreSettings::for_memory(layout, memory_bytes, record_bytes);
            StoreSettings { partition_bits, ..store }.open_handles(access, cores)?
        }
    };
    let mut account = Account::default();
    for number in 0..partitions as usize {
        if let Some(handle) = &handles[number % cores][number] {
            let one = handle.account();
            account.index_bytes += one.index_bytes;
            account.item_bytes += one.item_bytes;
            account.writer_bytes += one.writer_bytes;
        }
    }
    Ok((handles, account))
}
