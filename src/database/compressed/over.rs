//! The engine that compresses the values of another one.

use super::values::{Sizes, Values};
use crate::batch::{Durability, HashedWrite, TimestampMs, Write};
use crate::damage::VerifyReport;
use crate::engine::{
    Background, Backpressure, BulkLoad, Capabilities, Change, Changing, Direction, Engine, Found, GoOn,
    InMemory, KeyBounds, Keys, Now, Ordered, PageBuilder, Records, ScanLimit, ScanPage, Show, Snapshot, Step,
};
use crate::error::Result;
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};
use siltstone_device::Directory;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A thread keeps a buffer up to this length, in bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;
/// The engine reads a page of a scan, which is limited by decompressed bytes, in parts. Values become smaller by this
/// factor, or by less, so that most pages need several parts.
const PARTS_OF_A_PAGE: usize = 8;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with an empty buffer of the thread.
fn with_scratch<T>(work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Taken, not borrowed: a nested call gets another one.
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let result = work(&mut scratch);
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    result
}

/// An engine whose values are compressed.
pub struct Compressed {
    engine: Arc<dyn Engine>,
    values: Arc<Values>,
}

impl Compressed {
    pub fn new(engine: Arc<dyn Engine>, values: Arc<Values>) -> Compressed {
        Compressed { engine, values }
    }

    /// Decodes what was found of keys, in their order.
    fn found(&self, keys: &[Key<'_>], found: &[Option<Found>]) -> Result<Vec<Option<Found>>> {
        let decoded =
            keys.iter().zip(found).map(|(key, found)| self.values.found(key.bytes(), found.as_ref()));
        decoded.collect()
    }
}

impl Engine for Compressed {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn shape(&self) -> Shape {
        Shape { compression: self.values.compression(), ..self.engine.shape() }
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn hasher(&self) -> KeyHasher {
        self.engine.hasher()
    }

    fn get_into(
        &self,
        key: Key<'_>,
        now_ms: TimestampMs,
        value: &mut Vec<u8>,
    ) -> Result<Option<TimestampMs>> {
        with_scratch(|stored| {
            let Some(expires_at_ms) = self.engine.get_into(key, now_ms, stored)? else { return Ok(None) };
            self.values.decode_into(key.bytes(), stored, value)?;
            Ok(Some(expires_at_ms))
        })
    }

    fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>> {
        Found::read(|value| self.get_into(key, now_ms, value))
    }

    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs, show: &mut Show<'_>) -> Result<()> {
        let mut outcome = Ok(());
        self.engine.get_many(keys, now_ms, &mut |number, stored| {
            // After the first value that cannot be decoded, nothing more is shown.
            if outcome.is_ok() {
                match stored.map(|stored| self.values.shown(keys[number].bytes(), stored)).transpose() {
                    Ok(decoded) => show(number, decoded),
                    Err(error) => outcome = Err(error),
                }
            }
        })?;
        outcome
    }

    fn look_in_memory(&self, key: Key<'_>, now_ms: TimestampMs, value: &mut Vec<u8>) -> Result<InMemory> {
        with_scratch(|stored| {
            let outcome = self.engine.look_in_memory(key, now_ms, stored)?;
            if let InMemory::Found(_) = outcome {
                self.values.decode_into(key.bytes(), stored, value)?;
            }
            Ok(outcome)
        })
    }

    fn may_contain(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<bool> {
        self.engine.may_contain(key, now_ms)
    }

    fn check_space(&self, bytes: u64, owed: u64) -> Result<u64> {
        self.engine.check_space(bytes, owed)
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: &Now<'_>) -> Result<()> {
        with_scratch(|stored| {
            let (mut sizes, mut ends) = (Sizes::default(), Vec::with_capacity(writes.len()));
            for write in writes {
                if let Write::Put { value, .. } = write.write {
                    self.values.encode(value, &mut sizes, stored)?;
                }
                ends.push(stored.len());
            }
            let mut start = 0;
            let coded = writes.iter().zip(ends).map(|(write, end)| match write.write {
                Write::Put { expires_at_ms, .. } => {
                    let value = &stored[std::mem::replace(&mut start, end)..end];
                    HashedWrite::put(write.key, value, expires_at_ms)
                }
                Write::Delete { .. } => *write,
            });
            self.engine.write(&coded.collect::<Vec<_>>(), durability, now_ms)?;
            // Only now: a write that fails is not counted.
            self.values.count(sizes);
            Ok(())
        })
    }

    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()> {
        let mut sizes = Sizes::default();
        self.engine.update_many(keys, durability, now_ms, &mut |found, changes| {
            change(&self.found(keys, found)?, changes)?;
            for change in changes {
                if let Change::Put { value, .. } = change {
                    let mut stored = Vec::new();
                    // Before the engine writes: a value that is too long ends the update, and no record changes.
                    self.values.encode(value, &mut sizes, &mut stored)?;
                    *value = stored.into();
                }
            }
            Ok(())
        })?;
        self.values.count(sizes);
        Ok(())
    }

    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>> {
        let snapshot = self.engine.snapshot(now_ms)?;
        Ok(Arc::new(CompressedSnapshot { snapshot, values: self.values.clone() }))
    }

    fn scan(
        &self,
        positions: RangeInclusive<u64>,
        limit: ScanLimit,
        now_ms: TimestampMs,
    ) -> Result<ScanPage> {
        if limit.keys_only {
            return self.engine.scan(positions, limit, now_ms);
        }
        // The limit is one of decompressed bytes. What does not fit is read again for the next page, so the engine
        // returns the page in parts: at most one part is read in vain.
        let part = ScanLimit { bytes: limit.bytes / PARTS_OF_A_PAGE, ..limit };
        let (mut first, last) = positions.into_inner();
        let (mut page, hasher) = (PageBuilder::new(limit), self.engine.hasher());
        loop {
            let stored = self.engine.scan(first..=last, part, now_ms)?;
            for record in stored.records {
                let record = self.values.record(record)?;
                if !page.push(hasher.hash(&record.key).placement, || record) {
                    return Ok(page.finish(None));
                }
            }
            match stored.next {
                Some(next) if !page.is_full() => first = next,
                next => return Ok(page.finish(next)),
            }
        }
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        self.engine.ordered().map(|_| self as &dyn Ordered)
    }

    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64> {
        self.engine.approximate_len(now_ms)
    }

    /// Decodes no value.
    fn count_keys(&self, now_ms: TimestampMs, go_on: &mut GoOn<'_>) -> Result<u64> {
        self.engine.count_keys(now_ms, go_on)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        // Reading all records is long, so the engine's work comes first, and a limit of it holds for the reads as well.
        if self.values.must_scan() {
            if self.engine.step(now_ms)? == Step::Worked {
                return Ok(Step::Worked);
            }
            if self.engine.background().is_limited {
                return Ok(Step::Idle);
            }
        }
        // Training comes before the engine's step: until there is a dictionary, values are stored without one.
        if self.values.wants_training() {
            // After a failure nothing is written to the directory, and so no dictionary.
            self.engine.check_writable()?;
            if self.values.train(&*self.engine)? {
                return Ok(Step::Worked);
            }
        }
        self.engine.step(now_ms)
    }

    fn background(&self) -> Background {
        let background = self.engine.background();
        if !self.values.wants_training() {
            return background;
        }
        let is_limited = background.is_limited && self.values.must_scan();
        Background { has_work: true, wants_thread: !is_limited, is_limited, ..background }
    }

    fn backpressure(&self) -> Backpressure {
        let asked = self.engine.backpressure();
        Backpressure { wants_thread: asked.wants_thread || self.values.wants_training(), ..asked }
    }

    fn check_open(&self) -> Result<()> {
        self.engine.check_open()
    }

    fn check_writable(&self) -> Result<()> {
        self.engine.check_writable()
    }

    fn poison(&self, cause: &str) {
        self.engine.poison(cause);
    }

    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        self.engine.set_memory_budget(bytes)
    }

    fn memory_budget_min(&self) -> u64 {
        self.engine.memory_budget_min()
    }

    fn request_compaction(&self) -> Result<()> {
        self.engine.request_compaction()
    }

    fn bulk_load(&self, memory_bytes: usize) -> Result<Option<Box<dyn BulkLoad + '_>>> {
        let load = self.engine.bulk_load(memory_bytes)?;
        let values = &*self.values;
        let engine = &*self.engine;
        Ok(load.map(|load| Box::new(CompressedLoad { load, engine, values }) as Box<dyn BulkLoad>))
    }

    fn checkpoint(&self, target: &Directory) -> Result<()> {
        self.values.checkpoint(target, || self.engine.checkpoint(target))
    }

    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport> {
        let mut bytes = 0;
        let mut report = self.engine.verify(&mut |done, all| {
            bytes = all;
            progress(done, all)
        })?;
        self.values.examine(&*self.engine, &mut report, &mut |_| progress(bytes, bytes))?;
        Ok(report)
    }

    fn stats(&self) -> Stats {
        let mut stats = self.engine.stats();
        self.values.add_to(&mut stats);
        stats
    }

    fn reset_ram_peak(&self) {
        self.engine.reset_ram_peak();
    }

    fn close(&self) -> Result<()> {
        self.engine.close()
    }
}

impl Ordered for Compressed {
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records> {
        let Some(ordered) = self.engine.ordered() else { return Err(self.unsupported("ranges of keys")) };
        Ok(decoded(ordered.range(bounds, direction, limit, now_ms)?, &self.values))
    }

    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Keys> {
        let Some(ordered) = self.engine.ordered() else { return Err(self.unsupported("ranges of keys")) };
        ordered.range_keys(bounds, direction, limit, now_ms)
    }
}

/// Returns records with their values.
fn decoded(records: Records, values: &Arc<Values>) -> Records {
    let values = values.clone();
    Box::new(records.map(move |record| record.and_then(|record| values.record(record))))
}

/// A snapshot of compressed values.
struct CompressedSnapshot {
    snapshot: Arc<dyn Snapshot>,
    values: Arc<Values>,
}

impl Snapshot for CompressedSnapshot {
    fn get(&self, key: Key<'_>) -> Result<Option<Found>> {
        self.values.found(key.bytes(), self.snapshot.get(key)?.as_ref())
    }

    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        let found = self.snapshot.get_many(keys)?;
        let decoded =
            keys.iter().zip(&found).map(|(key, found)| self.values.found(key.bytes(), found.as_ref()));
        decoded.collect()
    }

    fn records(&self) -> Records {
        decoded(self.snapshot.records(), &self.values)
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        self.snapshot.ordered().map(|_| self as &dyn Ordered)
    }
}

impl Ordered for CompressedSnapshot {
    fn range(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Records> {
        let Some(ordered) = self.snapshot.ordered() else { return Ok(Box::new(std::iter::empty())) };
        Ok(decoded(ordered.range(bounds, direction, limit, now_ms)?, &self.values))
    }

    fn range_keys(
        &self,
        bounds: KeyBounds<'_>,
        direction: Direction,
        limit: usize,
        now_ms: TimestampMs,
    ) -> Result<Keys> {
        let Some(ordered) = self.snapshot.ordered() else { return Ok(Box::new(std::iter::empty())) };
        ordered.range_keys(bounds, direction, limit, now_ms)
    }
}

/// A load of values that are compressed.
struct CompressedLoad<'a> {
    load: Box<dyn BulkLoad + 'a>,
    engine: &'a dyn Engine,
    values: &'a Values,
}

impl BulkLoad for CompressedLoad<'_> {
    fn put(
        &mut self,
        key: Key<'_>,
        value: &[u8],
        expires_at_ms: TimestampMs,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        // Now, and not in the background, so that nearly all values of the load have the dictionary.
        if self.values.wants_training() {
            self.values.train(self.engine)?;
        }
        with_scratch(|stored| {
            let mut sizes = Sizes::default();
            self.values.encode(value, &mut sizes, stored)?;
            self.load.put(key, stored, expires_at_ms, progress)?;
            self.values.count(sizes);
            Ok(())
        })
    }

    fn finish(self: Box<Self>, now_ms: TimestampMs, progress: &mut Progress<'_>) -> Result<()> {
        self.load.finish(now_ms, progress)
    }
}

#[cfg(test)]
mod tests {
    /// A method with a default that is not passed on would act on the compressed values.
    #[test]
    fn every_method_of_an_engine_is_passed_on() {
        let methods = |source: &str, from: &str| {
            let after = source.split_once(from).unwrap().1;
            let body = after.split_once("\n}\n").unwrap().0;
            let names = body.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next());
            names.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let engine = methods(include_str!("../../engine/mod.rs"), "pub trait Engine: Send + Sync {");
        let own = methods(include_str!("over.rs"), "impl Engine for Compressed {");
        let missing: Vec<_> = engine.difference(&own).collect();
        assert_eq!(missing, ["unsupported"]);
    }
}
