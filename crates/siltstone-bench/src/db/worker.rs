//! One thread of a benchmark: chooses keys, times each operation, and verifies each result.

use super::{Benchmark, Settings};
use crate::clock::thread_time;
use crate::key_set::KeySet;
use crate::keys::{Keys, Values};
use crate::latencies::Latencies;
use crate::random::{self, Permutation, Rng};
use crate::{Error, Result};
use siltstone::{Batch, Bytes, Change, Database, Durability, WriteOptions};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest time that a thread sleeps until it looks whether it is to end.
const SLEEP_MAX: Duration = Duration::from_millis(10);

/// What all threads of a benchmark share.
pub struct Shared<'a> {
    pub settings: &'a Settings,
    pub benchmark: Benchmark,
    pub database: &'a Database,
    pub keys: &'a Keys,
    pub values: &'a Values,
    pub present: &'a KeySet,
    /// Ends the threads that only run alongside the others.
    pub finished: &'a AtomicBool,
    /// Counts the operations of all threads while they run, if a series is wanted.
    pub counter: Option<&'a AtomicU64>,
    /// The number of the benchmark in the run. It selects a different sequence of random numbers.
    pub stream: u64,
    pub deadline: Option<Instant>,
}

/// The results of a thread.
#[derive(Default)]
pub struct Work {
    pub operations: u64,
    /// The puts among the operations of a benchmark that looks up keys.
    pub puts: u64,
    pub found: u64,
    pub bytes: u64,
    /// The CPU time of the thread, including the kernel's and that of the benchmark itself.
    pub cpu: Duration,
    pub latencies: Latencies,
    /// The positions that were written, if each key is written once. They are noted when the time has been taken: a bit
    /// of a billion takes as long as a put.
    pub once: Vec<Range<u64>>,
}

impl Work {
    /// Adds the results of another thread.
    pub fn merge(&mut self, other: &Work) {
        self.operations += other.operations;
        self.puts += other.puts;
        self.found += other.found;
        self.bytes += other.bytes;
        self.cpu += other.cpu;
        self.latencies.merge(&other.latencies);
        self.once.extend_from_slice(&other.once);
    }
}

pub struct Worker<'a> {
    pub(super) shared: &'a Shared<'a>,
    counter: Option<&'a AtomicU64>,
    random: Rng,
    order: Permutation,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) work: Work,
}

impl<'a> Worker<'a> {
    /// Creates the worker with this number.
    pub fn new(shared: &'a Shared<'a>, thread: u64) -> Self {
        let seed = shared.settings.seed.wrapping_add(shared.stream);
        Worker {
            shared,
            counter: shared.counter,
            random: random::stream(seed, thread),
            order: Permutation::new(shared.keys.count(), seed),
            key: Vec::new(),
            value: Vec::new(),
            work: Work::default(),
        }
    }

    /// Runs the share of thread `thread` in the benchmark.
    pub fn run(mut self, thread: u64) -> Result<Work> {
        use Benchmark::*;
        let cpu = thread_time();
        let num = self.shared.settings.num;
        let reads = self.shared.settings.reads.unwrap_or(num);
        let batch_size = self.shared.settings.batch_size;
        match self.shared.benchmark {
            FillSync => self.write_all((num / 1000).max(1), 1, thread),
            FillSeq | FillRandom | FillUniqueRandom | Overwrite | DeleteRandom => {
                self.write_all(num, batch_size.unwrap_or(1), thread)
            }
            UpdateRandom => self.each(num, Self::update),
            ReadRandom | ReadHot | ReadWhileWriting | ReadMissing => self.each(reads, Self::read),
            ReadRandomWriteRandom => self.each(reads, Self::read_or_write),
            MultiReadRandom => self.read_many(reads, batch_size.unwrap_or(32)),
            Queue => self.queue(num),
            ReadSeq => self.read_all(reads),
            Compact | Settle | WaitForBackground | VerifyChecksum | Reopen | Stats | Abort => Ok(()),
        }?;
        self.work.cpu = thread_time() - cpu;
        Ok(self.work)
    }

    /// Overwrites random keys at the configured rate until the other threads have finished. These writes are no
    /// operations of the benchmark.
    pub fn accompany(mut self) -> Result<()> {
        self.counter = None;
        let started = Instant::now();
        while self.is_accompanied() {
            let number = self.random.u64(..self.shared.keys.count());
            self.put(number)?;
            if let Some(rate) = self.shared.settings.benchmark_write_rate_limit {
                let due = Duration::from_secs_f64(self.work.bytes as f64 / rate.max(1.0));
                sleep_while(due.saturating_sub(started.elapsed()), || self.is_accompanied());
            }
        }
        Ok(())
    }

    fn is_accompanied(&self) -> bool {
        !self.shared.finished.load(Relaxed) && !self.must_stop()
    }

    pub(super) fn must_stop(&self) -> bool {
        self.shared.settings.stop.load(Relaxed)
            || self.shared.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn each(&mut self, count: u64, operation: fn(&mut Self) -> Result<()>) -> Result<()> {
        for _ in 0..count {
            if self.must_stop() {
                break;
            }
            operation(self)?;
        }
        Ok(())
    }

    pub(super) fn done(&mut self, started: Instant, operations: u64) {
        self.work.latencies.record(started.elapsed());
        self.work.operations += operations;
        if let Some(counter) = self.counter {
            counter.fetch_add(operations, Relaxed);
        }
    }

    /// Returns the key of the next write.
    fn choose_write(&mut self, position: u64) -> u64 {
        match self.writes_once() {
            true => self.number_at(position),
            false => self.random.u64(..self.shared.keys.count()),
        }
    }

    /// Returns the key at a position, if the benchmark writes each key once.
    fn number_at(&self, position: u64) -> u64 {
        match self.shared.benchmark {
            Benchmark::FillUniqueRandom => self.order.at(position),
            _ => position,
        }
    }

    /// Writes `count` records. If each key is written once, every thread has its own range of positions.
    fn write_all(&mut self, count: u64, batch_size: usize, thread: u64) -> Result<()> {
        let (start, end) = if self.writes_once() {
            let threads = self.shared.settings.threads as u64;
            (count * thread / threads, count * (thread + 1) / threads)
        } else {
            (0, count)
        };
        let mut batch = Batch::new();
        let mut numbers = Vec::new();
        for position in start..end {
            if self.must_stop() {
                break;
            }
            let number = self.choose_write(position);
            if batch_size > 1 {
                self.collect(number, &mut batch)?;
                numbers.push(number);
                if batch.len() >= batch_size || position + 1 == end {
                    self.write_batch(&mut batch, &mut numbers)?;
                }
            } else if self.shared.benchmark == Benchmark::DeleteRandom {
                self.delete(number)?;
            } else {
                self.put(number)?;
            }
        }
        if self.writes_once() {
            self.work.once.push(start..start + self.work.operations);
        }
        Ok(())
    }

    /// Returns whether the benchmark writes each key once.
    fn writes_once(&self) -> bool {
        matches!(self.shared.benchmark, Benchmark::FillSeq | Benchmark::FillUniqueRandom)
    }

    /// Notes the keys that were written at these positions, by a benchmark that writes each key once.
    pub fn note_written(&self, once: &[Range<u64>]) {
        let written: u64 = once.iter().map(|positions| positions.end - positions.start).sum();
        if written == self.shared.keys.count() {
            return self.shared.present.fill(written);
        }
        for position in once.iter().cloned().flatten() {
            self.shared.present.insert(self.number_at(position));
        }
    }

    fn options(&self) -> WriteOptions {
        match self.shared.benchmark {
            Benchmark::FillSync => WriteOptions::default().durability(Durability::Synced),
            _ => WriteOptions::default(),
        }
    }

    pub(super) fn make_record(&mut self, number: u64) {
        self.shared.keys.write(number, &mut self.key);
        let write = self.random.u64(..);
        self.shared.values.write(number, write, &mut self.value);
    }

    fn put(&mut self, number: u64) -> Result<()> {
        self.make_record(number);
        let started = Instant::now();
        self.shared.database.put_with(&self.key, &self.value, self.options())?;
        self.done(started, 1);
        self.work.bytes += (self.key.len() + self.value.len()) as u64;
        if !self.writes_once() {
            self.shared.present.insert(number);
        }
        Ok(())
    }

    fn delete(&mut self, number: u64) -> Result<()> {
        self.shared.keys.write(number, &mut self.key);
        let started = Instant::now();
        self.shared.database.delete(&self.key)?;
        self.done(started, 1);
        self.work.bytes += self.key.len() as u64;
        self.shared.present.remove(number);
        Ok(())
    }

    fn collect(&mut self, number: u64, batch: &mut Batch) -> Result<()> {
        self.make_record(number);
        if self.shared.benchmark == Benchmark::DeleteRandom {
            batch.delete(&self.key)?;
        } else {
            batch.put(&self.key, &self.value)?;
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: &mut Batch, numbers: &mut Vec<u64>) -> Result<()> {
        let started = Instant::now();
        self.shared.database.write_with(batch, self.options())?;
        self.done(started, batch.len() as u64);
        self.work.bytes += batch.writes().map(|write| write.user_bytes() as u64).sum::<u64>();
        for number in numbers.drain(..) {
            match self.shared.benchmark {
                Benchmark::DeleteRandom => self.shared.present.remove(number),
                // Noted when all are written.
                _ if self.writes_once() => {}
                _ => self.shared.present.insert(number),
            }
        }
        batch.clear();
        Ok(())
    }

    fn update(&mut self) -> Result<()> {
        let number = self.random.u64(..self.shared.keys.count());
        self.make_record(number);
        let value = Bytes::copy_from_slice(&self.value);
        let mut before = None;
        let started = Instant::now();
        self.shared.database.update(&self.key, |found| {
            before = found.map(|found| found.value.clone());
            Ok(Change::Put { value: value.clone(), expires_at_ms: 0 })
        })?;
        self.done(started, 1);
        self.work.bytes += (self.key.len() + self.value.len()) as u64;
        self.shared.present.insert(number);
        self.check_value(number, before.as_ref())
    }

    /// Returns the number of the next key to read, and whether it existed before the read.
    fn choose_read(&mut self) -> (u64, bool) {
        let count = self.shared.keys.count();
        let number = match self.shared.benchmark {
            Benchmark::ReadHot => self.random.u64(..count.div_ceil(100)),
            _ => self.random.u64(..count),
        };
        (number, self.shared.present.contains(number))
    }

    fn read(&mut self) -> Result<()> {
        if self.shared.benchmark == Benchmark::ReadMissing {
            return self.read_missing();
        }
        let (number, expected) = self.choose_read();
        self.shared.keys.write(number, &mut self.key);
        let started = Instant::now();
        let value = self.shared.database.get(&self.key)?;
        self.done(started, 1);
        self.check(number, expected, value.as_ref())
    }

    fn read_or_write(&mut self) -> Result<()> {
        if self.random.u8(..100) < self.shared.settings.read_percent {
            return self.read();
        }
        self.work.puts += 1;
        let number = self.random.u64(..self.shared.keys.count());
        self.put(number)
    }

    fn read_missing(&mut self) -> Result<()> {
        let number = self.random.u64(..self.shared.keys.count());
        self.shared.keys.write_missing(number, &mut self.key);
        let started = Instant::now();
        let value = self.shared.database.get(&self.key)?;
        self.done(started, 1);
        match value {
            Some(_) => Err(Error::Surplus { benchmark: self.shared.benchmark.name(), number }),
            None => Ok(()),
        }
    }

    fn read_many(&mut self, count: u64, batch_size: usize) -> Result<()> {
        let mut left = count;
        while left > 0 && !self.must_stop() {
            let size = left.min(batch_size as u64);
            let chosen: Vec<(u64, bool)> = (0..size).map(|_| self.choose_read()).collect();
            let mut keys = vec![Vec::new(); chosen.len()];
            for (key, (number, _)) in keys.iter_mut().zip(&chosen) {
                self.shared.keys.write(*number, key);
            }
            let started = Instant::now();
            let values = self.shared.database.get_many(&keys)?;
            self.done(started, size);
            for ((number, expected), value) in chosen.into_iter().zip(&values) {
                self.check(number, expected, value.as_ref())?;
            }
            left -= size;
        }
        Ok(())
    }

    fn read_all(&mut self, count: u64) -> Result<()> {
        let mut records = self.shared.database.iter()?;
        for _ in 0..count {
            let started = Instant::now();
            let Some(record) = records.next().transpose()? else { break };
            self.done(started, 1);
            self.work.found += 1;
            self.work.bytes += (record.key.len() + record.value.len()) as u64;
            // Records of other programs are only counted.
            let Some(number) = self.shared.keys.number_of(&record.key) else { continue };
            if !self.shared.present.contains(number) {
                return Err(Error::Surplus { benchmark: self.shared.benchmark.name(), number });
            }
            self.check_value(number, Some(&record.value))?;
            if self.must_stop() {
                break;
            }
        }
        Ok(())
    }

    fn check(&mut self, number: u64, expected: bool, value: Option<&Bytes>) -> Result<()> {
        let benchmark = self.shared.benchmark;
        match value {
            // A cache may have evicted it.
            None if expected && !self.shared.database.capabilities().lossy => {
                return Err(Error::Lost { benchmark: benchmark.name(), number });
            }
            Some(_) if !expected && !benchmark.reads_next_to_writes() => {
                return Err(Error::Surplus { benchmark: benchmark.name(), number });
            }
            Some(value) => {
                self.work.found += 1;
                self.work.bytes += (self.key.len() + value.len()) as u64;
            }
            None => {}
        }
        self.check_value(number, value)
    }

    fn check_value(&self, number: u64, value: Option<&Bytes>) -> Result<()> {
        match value {
            Some(value) if !self.shared.values.is_of(number, value) => {
                Err(Error::WrongValue { benchmark: self.shared.benchmark.name(), number })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the time when a benchmark that starts now must end.
pub fn deadline(duration: Option<Duration>) -> Option<Instant> {
    duration.and_then(|duration| Instant::now().checked_add(duration))
}

/// Sleeps as long as this, and no longer than it is wanted.
fn sleep_while(time: Duration, is_wanted: impl Fn() -> bool) {
    let started = Instant::now();
    while is_wanted() {
        let left = time.saturating_sub(started.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_sleep_ends_when_it_is_no_longer_wanted() {
        let looks = Cell::new(0);
        sleep_while(Duration::MAX, || looks.replace(looks.get() + 1) < 2);
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn the_puts_of_a_companion_are_no_operations_and_end_with_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path()).unwrap();
        // After its first put, the companion has to wait for 11 seconds.
        let settings = Settings { num: 100, benchmark_write_rate_limit: Some(10.0), ..Settings::default() };
        let keys = Keys::new(settings.key_size, settings.num, false).unwrap();
        let values = Values::new(settings.value_size, settings.seed);
        let (present, counter) = (KeySet::new(settings.num), AtomicU64::new(0));
        let finished = AtomicBool::new(false);
        let shared = Shared {
            settings: &settings,
            benchmark: Benchmark::ReadWhileWriting,
            database: &database,
            keys: &keys,
            values: &values,
            present: &present,
            finished: &finished,
            counter: Some(&counter),
            stream: 0,
            deadline: None,
        };
        std::thread::scope(|scope| {
            let companion = scope.spawn(|| Worker::new(&shared, 0).accompany());
            while present.is_empty() && !companion.is_finished() {
                std::thread::yield_now();
            }
            finished.store(true, Relaxed);
            companion.join().unwrap().unwrap();
        });
        assert_eq!(counter.load(Relaxed), 0);
    }
}
