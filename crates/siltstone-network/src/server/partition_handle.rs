//! The access of a core to its partitions. When the memory is full, expired items are removed.

use super::ServerSettings;
use siltstone::Error;
use siltstone::batch::TimestampMs;
use siltstone::mica::{
    Account, CacheSettings, CollectionTimer, Full, Handle, Handles, Reply, Request, StoreSettings,
};

/// A core's access to one partition.
pub(super) struct PartitionHandle {
    handle: Handle,
    /// When expired items are removed.
    timer: CollectionTimer,
}

/// A core's access to all partitions, in order. `None` where the access mode grants no access.
pub(super) type PartitionHandles = Vec<Option<PartitionHandle>>;

impl PartitionHandle {
    /// Returns whether the core may write.
    pub fn can_write(&self) -> bool {
        self.handle.can_write()
    }

    /// Returns the number of items of the partition.
    pub fn items(&self) -> u64 {
        self.handle.items()
    }

    /// Executes requests in order. `answer` receives the number and the reply of each request.
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        now_ms: TimestampMs,
        answer: &mut dyn FnMut(usize, Reply<'_>),
    ) {
        let mut refused = Vec::new();
        self.handle.execute(requests, now_ms, |at, reply| match reply {
            Reply::Refused(full @ (Full::Memory | Full::Index)) => refused.push((at, full)),
            reply => answer(at, reply),
        });
        if refused.is_empty() {
            return;
        }
        // The removal of expired items may make space for the refused puts.
        let has_room = self.collect(now_ms);
        for (at, full) in refused {
            // A refused put is repeated only if no later request of the batch has the same key, whose effect must
            // remain.
            let is_last =
                || !requests[at + 1..].iter().any(|later| later.key.bytes == requests[at].key.bytes);
            if has_room && is_last() {
                self.handle.execute(&requests[at..=at], now_ms, |_, reply| answer(at, reply));
            } else {
                answer(at, Reply::Refused(full));
            }
        }
    }

    /// Removes expired items, unless they were removed recently. Returns whether there were any.
    fn collect(&mut self, now_ms: TimestampMs) -> bool {
        self.timer.is_due(now_ms) && self.handle.collect(now_ms) > 0
    }
}

/// Opens the partitions. Returns the handles of each core and the memory of all partitions. Partition n belongs to core
/// n modulo the number of cores.
pub(super) fn open(settings: &ServerSettings) -> Result<(Vec<PartitionHandles>, Account), Error> {
    let &ServerSettings { shape, partitions, access, cores, .. } = settings;
    let partition_bits = partitions.ilog2();
    let memory_bytes = settings.memory_bytes / u64::from(partitions);
    let fixed = shape.fixed.map(|(key_length, value_length)| (key_length + value_length) as usize);
    let record_bytes = fixed.unwrap_or(settings.record_bytes);
    let opened = match settings.eviction {
        Some(eviction) => {
            let cache = CacheSettings::for_memory(shape, memory_bytes, record_bytes);
            CacheSettings { eviction, partition_bits, ..cache }.open_handles(access, cores)?
        }
        None => {
            let store = StoreSettings::for_memory(shape, memory_bytes, record_bytes);
            StoreSettings { partition_bits, ..store }.open_handles(access, cores)?
        }
    };
    let mut account = Account::default();
    for number in 0..partitions as usize {
        if let Some(handle) = &opened[number % cores][number] {
            let one = handle.account();
            account.index_bytes += one.index_bytes;
            account.item_bytes += one.item_bytes;
            account.writer_bytes += one.writer_bytes;
        }
    }
    let handle = |handle| PartitionHandle { handle, timer: CollectionTimer::default() };
    let of_core = |handles: Handles| handles.into_iter().map(|opened| opened.map(handle)).collect();
    Ok((opened.into_iter().map(of_core).collect(), account))
}
