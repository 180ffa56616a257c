//! Writes: to the log, then to the index of the LogStore (SILT 3.1).

use super::partition::{Partition, State};
use super::policy::{self, OCCUPANCY, log_store_settings};
use super::{Core, Mistake, cache_hash};
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::cache::WriteGuard;
use crate::device::{AlignedBuffer, Purpose, with_scratch};
use crate::engine::{Change, Changing};
use crate::key::{Key, KeyHash};
use crate::store::log_store::{LogStore, LogStoreSettings};
use crate::store::record::RecordView;
use crate::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// Applies all writes or none.
    pub(super) fn write(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<()> {
        let keys = writes.iter().map(HashedWrite::key);
        let end = self.with_writers(keys, || self.write_locked(writes, durability))?;
        self.make_durable(durability, end)
    }

    /// Reads the keys, and applies all changes to them or none, with their partitions locked from before the read on.
    pub(super) fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let read = || match keys {
            [key] => Ok(vec![with_scratch(|buffer| self.get(*key, now_ms, Purpose::Get, buffer))?]),
            several => self.get_many(several, now_ms),
        };
        let mistaken = self.settings.makes(Mistake::ReadsBeforeLocking).then(read);
        let end = self.with_writers(keys.iter().copied(), || {
            let found = mistaken.unwrap_or_else(read)?;
            let mut changes = vec![Change::Keep; keys.len()];
            change(&found, &mut changes)?;
            let writes = keys.iter().zip(&changes);
            let writes: Vec<_> = writes.filter_map(|(key, change)| change.to_write(*key)).collect();
            if writes.is_empty() { Ok(None) } else { self.write_locked(&writes, durability).map(Some) }
        })?;
        match end {
            // What was found stands before the writes in the log, and is as durable as they are.
            Some(end) => self.make_durable(durability, end),
            None => self.make_found_durable(durability),
        }
    }

    /// Does `work` with the writers of all partitions locked that the keys are in.
    fn with_writers<'a, T>(
        &self,
        mut keys: impl ExactSizeIterator<Item = Key<'a>>,
        work: impl FnOnce() -> T,
    ) -> T {
        if keys.len() == 1
            && let Some(key) = keys.next()
        {
            let _locked = self.partitions[self.place(key).0].writer.lock();
            return work();
        }
        let mut numbers: Vec<usize> = keys.map(|key| self.place(key).0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // Always in ascending order, so that no two of them wait for each other.
        let _locked: Vec<_> = numbers.iter().map(|&number| self.partitions[number].writer.lock()).collect();
        work()
    }

    /// Writes while the writers of all partitions concerned are locked. Answers the end of the log behind it.
    fn write_locked(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<u64> {
        self.check_open()?;
        self.counters.writes.fetch_add(writes.len() as u64, Relaxed);
        let user_bytes = writes.iter().map(|write| write.write().user_bytes() as u64).sum();
        self.counters.user_bytes.fetch_add(user_bytes, Relaxed);
        // Until the end nobody is answered from the cache what these writes replace.
        let announce = |write: &HashedWrite<'_>| {
            let (_, hash) = self.place(write.key());
            self.cache.write(cache_hash(hash), write.key().bytes())
        };
        let _announced: (Option<WriteGuard<'_>>, Vec<WriteGuard<'_>>) = match writes {
            _ if !self.cache.is_enabled() => Default::default(),
            [single] => (Some(announce(single)), Vec::new()),
            several => (None, several.iter().map(announce).collect()),
        };
        self.health.run(|| {
            let records = writes.iter().map(|write| RecordView::from(write.write()));
            if let [write] = writes {
                let mut position = 0;
                let end = self.log.append(records, durability, |at| position = at)?;
                with_scratch(|buffer| self.index_record(write.key(), position, buffer))?;
                return Ok(end);
            }
            let mut positions = Vec::with_capacity(writes.len());
            let end = self.log.append(records, durability, |at| positions.push(at))?;
            with_scratch(|buffer| {
                let mut writes = writes.iter().zip(positions);
                writes.try_for_each(|(write, position)| self.index_record(write.key(), position, buffer))
            })?;
            Ok(end)
        })
    }

    /// Waits until a write is as durable as was asked.
    pub(super) fn make_durable(&self, durability: Durability, end: u64) -> Result<()> {
        match durability {
            Durability::Synced => {
                self.log.sync_to(end)?;
                self.state_synced_now_and_then(false)
            }
            _ => Ok(()),
        }
    }

    /// Waits until all that can be found now is as durable as was asked, whoever wrote it and however.
    pub(super) fn make_found_durable(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Written => self.log.write_buffered(),
            Durability::Synced if self.log.is_synced() => Ok(()),
            Durability::Synced => self.make_durable(durability, self.log.end()),
        }
    }

    /// Locks the writer of a partition and does `work`, unless a write has failed: then the log may have records that
    /// the index lacks, and no LogStore may be frozen as if it held them.
    pub(super) fn lock_writer<T>(
        &self,
        number: usize,
        work: impl FnOnce(&Partition) -> Result<T>,
    ) -> Result<T> {
        let partition = &self.partitions[number];
        let _locked = partition.writer.lock();
        self.health.run(|| work(partition))
    }

    /// Makes the index of a partition's LogStore point to a record that was appended to the log.
    pub(super) fn index_record(&self, key: Key<'_>, position: u64, buffer: &mut AlignedBuffer) -> Result<()> {
        let (number, hash) = self.place(key);
        let partition = &self.partitions[number];
        let candidates = partition.state.read().active.candidates(hash);
        if !candidates.is_empty() {
            let log = self.log.view();
            for candidate in candidates.iter() {
                if log.read(Purpose::Put, candidate.position, buffer)?.key == key.bytes()
                    && partition.state.write().active.replace(candidate.slot, position)
                {
                    return Ok(());
                }
            }
        }
        {
            let mut state = partition.state.write();
            if state.active.is_empty() {
                // However far the log has come meanwhile, positions are told by their distance from the start.
                state.active.restart(position);
            }
            let too_long = position - state.active.start() > self.log_reach_bytes(&state);
            let too_long = too_long || !state.active.reaches(position);
            let due = !state.active.is_empty() && (state.active.len() >= state.freeze_at || too_long);
            if !due && state.active.insert(hash, position)? {
                return Ok(());
            }
            // Whoever writes to the partition has locked its writer, so that nothing changes meanwhile.
            let table_bytes = state.active.heap_bytes() as u64;
            drop(state);
            self.make_room(table_bytes);
            let mut state = partition.state.write();
            self.count_full_table(&state, due);
            self.freeze(&mut state, position)?;
            insert_into_empty(&mut state, hash, position)?;
        }
        self.refresh_jobs();
        Ok(())
    }

    fn count_full_table(&self, state: &State, due: bool) {
        if !due {
            self.counters.full_tables.fetch_add(1, Relaxed);
            self.counters.full_table_records.fetch_add(state.active.len().into(), Relaxed);
            self.counters.full_table_slots.fetch_add(state.active.slots().into(), Relaxed);
        }
    }

    /// How many bytes of log the LogStore of a partition in this state may reach over.
    pub(super) fn log_reach_bytes(&self, state: &State) -> u64 {
        let sorted_bytes = state.view.sorted.as_ref().map_or(0, |(_, store)| store.file().length());
        policy::log_reach_bytes(&self.settings, self.partitions.len() as u64 * sorted_bytes)
    }

    /// Freezes the LogStore as it is and starts another, for records from `position` on.
    fn freeze(&self, state: &mut State, position: u64) -> Result<()> {
        let frozen = Arc::new(state.active.freeze(position));
        let mut view = (*state.view).clone();
        view.frozen.insert(0, frozen);
        let keys = view.sorted_records() + view.hash_records();
        let settings = |position_bits| self.log_store_settings(keys, position_bits);
        let position_bits = policy::position_bits(&state.active, position, settings(0).slots());
        state.active = LogStore::new(settings(position_bits), position)?;
        state.freeze_at = u32::MAX;
        state.view = Arc::new(view);
        Ok(())
    }

    /// Freezes a LogStore before it is full, if it holds anything. The next one is frozen at another time than those of
    /// the other partitions, which this may happen to at once.
    pub(super) fn freeze_early(&self, number: usize) -> Result<()> {
        self.lock_writer(number, |partition| {
            let mut state = partition.state.write();
            if !state.active.is_empty() {
                self.freeze(&mut state, self.log.end())?;
                state.freeze_at = self.staggered(number, &state.active);
            }
            Ok(())
        })
    }

    /// Replaces a LogStore by an empty one of the size that is right now.
    pub(super) fn replace_early(&self, number: usize) -> Result<()> {
        self.freeze_early(number)?;
        self.lock_writer(number, |partition| {
            let mut state = partition.state.write();
            if state.active.is_empty() {
                let keys = state.view.sorted_records() + state.view.hash_records();
                let (bits, start) = (state.active.position_bits(), state.active.start());
                state.active = LogStore::new(self.log_store_settings(keys, bits), start)?;
            }
            Ok(())
        })
    }

    /// At how many records a partition's first LogStore is frozen: each partition's at another number.
    pub(super) fn staggered(&self, number: usize, active: &LogStore) -> u32 {
        let share = (number + 1) as f64 / self.partitions.len() as f64;
        if share < 1.0 { (f64::from(active.slots()) * OCCUPANCY * share).ceil() as u32 } else { u32::MAX }
    }

    /// The LogStore of a partition with so many keys.
    fn log_store_settings(&self, partition_keys: u64, position_bits: u8) -> LogStoreSettings {
        let slots_max = self.residency.log_slots_max(self.partitions.len());
        log_store_settings(&self.settings, partition_keys, slots_max, position_bits)
    }
}

fn insert_into_empty(state: &mut State, hash: KeyHash, position: u64) -> Result<()> {
    if state.active.insert(hash, position)? {
        return Ok(());
    }
    let problem =
        format!("a table of {} slots has no room for a single key; use more slots", state.active.slots());
    Err(Error::Setting { name: "log_slots_min", problem })
}
