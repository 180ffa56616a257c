//! The partitions into which bulk loads are merged now. Updates of their keys wait.
//!
//! What is written after the merge of a load has begun is newer than what it loads, which becomes visible only at the
//! end of the merge. A write may come in between: it counts as after the load. An update that comes in between would
//! read a record from before the load, and what it makes of that would replace the loaded record. So updates wait from
//! before the merge begins until its records are visible.

use crate::engine::jobs::KeyStripes;
use siltstone_device::sync::atomic::{AtomicUsize, Ordering};
use siltstone_device::sync::{Condvar, Mutex};
use std::time::Duration;

/// A thread that waits looks again after this time at the latest.
const PATIENCE: Duration = Duration::from_millis(100);

/// The partitions that are loaded.
#[derive(Default)]
pub(super) struct Loading {
    /// The length of the list, for updates, which rarely have to lock it.
    count: AtomicUsize,
    /// With duplicates, if several loads have records of a partition.
    partitions: Mutex<Vec<usize>>,
    ended: Condvar,
}

/// A load of a partition, which ends when this is dropped.
pub(super) struct PartitionLoad<'a> {
    loading: &'a Loading,
    partition: usize,
}

impl Loading {
    /// Begins a load of a partition, when all updates that run have ended. The caller holds no lock that they take.
    pub fn begin(&self, partition: usize, stripes: &KeyStripes) -> PartitionLoad<'_> {
        self.partitions.lock().push(partition);
        self.count.fetch_add(1, Ordering::Release);
        let load = PartitionLoad { loading: self, partition };
        // An update looks while it holds its stripes. It has taken them before this, and ends first, or sees the load.
        stripes.pass_all();
        load
    }

    /// Returns whether one of these partitions is loaded. An update calls this while it holds the stripes of its keys:
    /// no load begins before it releases them.
    #[inline]
    pub fn has_any(&self, partitions: impl Iterator<Item = usize>) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lists_any(partitions)
    }

    #[cold]
    fn lists_any(&self, mut partitions: impl Iterator<Item = usize>) -> bool {
        let loading = self.partitions.lock();
        partitions.any(|partition| loading.contains(&partition))
    }

    /// Waits until none of these partitions is loaded. The caller holds no stripe, which writes would wait for.
    #[cold]
    pub fn wait(&self, partitions: impl Iterator<Item = usize> + Clone) {
        loop {
            let loading = self.partitions.lock();
            if !partitions.clone().any(|partition| loading.contains(&partition)) {
                return;
            }
            self.ended.wait_for(loading, PATIENCE);
        }
    }
}

impl Drop for PartitionLoad<'_> {
    fn drop(&mut self) {
        let mut partitions = self.loading.partitions.lock();
        if let Some(at) = partitions.iter().position(|partition| *partition == self.partition) {
            partitions.swap_remove(at);
        }
        drop(partitions);
        self.loading.count.fetch_sub(1, Ordering::Release);
        self.loading.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyHash;
    use std::sync::mpsc;

    #[test]
    fn a_load_begins_when_the_updates_that_run_have_ended_and_later_ones_wait_until_it_ends() {
        let (loading, stripes) = (Loading::default(), KeyStripes::new());
        let has = |partition: usize| loading.has_any([partition].into_iter());
        std::thread::scope(|scope| {
            let update = stripes.lock(KeyHash { placement: 1, fingerprint: 2 });
            assert!(!has(3));
            let (sender, events) = mpsc::channel();
            let (loading, stripes, of_load) = (&loading, &stripes, sender.clone());
            scope.spawn(move || {
                let load = loading.begin(3, stripes);
                of_load.send("begun").unwrap();
                std::thread::sleep(PATIENCE);
                of_load.send("ends").unwrap();
                drop(load);
            });
            assert!(events.recv_timeout(PATIENCE).is_err(), "it has begun during the update");
            drop(update);
            assert_eq!(events.recv(), Ok("begun"));
            assert!(has(3) && !has(4));
            loading.wait([4, 5].into_iter());
            loading.wait([4, 3].into_iter());
            sender.send("waited").unwrap();
            assert_eq!((events.recv(), events.recv()), (Ok("ends"), Ok("waited")));
        });
        assert!(!has(3));
    }

    #[test]
    fn of_two_loads_of_a_partition_both_have_to_end() {
        let (loading, stripes) = (Loading::default(), KeyStripes::new());
        let (one, other) = (loading.begin(3, &stripes), loading.begin(3, &stripes));
        drop(one);
        assert!(loading.has_any([3].into_iter()));
        drop(other);
        assert!(!loading.has_any([3].into_iter()));
    }
}
