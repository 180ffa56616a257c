//! The threads of a phase: they choose keys, time every call, and check every result.

use crate::compare::latencies::Latencies;
use crate::compare::peer::{Peer, Record};
use crate::compare::phase::{MULTIGET_KEYS, Phase, SCAN_RECORDS_MAX, Work};
use anyhow::{Result, bail, ensure};
use siltstone_bench::keys::{Keys, Values};
use siltstone_bench::random::{self, Rng};
use siltstone_bench::ycsb::{Chooser, Distribution, Inserts, Request, Workload};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The state that all threads of all phases share.
pub struct Bench<'a> {
    pub peer: &'a dyn Peer,
    /// The keys of records, and of those that a phase may insert.
    pub keys: &'a Keys,
    /// The records that exist once the store is loaded.
    pub inserts: &'a Inserts,
    pub values: &'a Values,
    /// The version of each key's value, modulo 256: each key is written by one thread at a time.
    pub versions: &'a [AtomicU8],
    /// The duration of a phase without an end of its own.
    pub duration: Duration,
    /// The seed of the random numbers of a run.
    pub seed: u64,
}

/// The work of threads.
pub struct Done {
    pub operations: u64,
    pub puts: u64,
    pub gets_us: Latencies,
    pub puts_us: Latencies,
}

impl Done {
    /// Makes counts of zero.
    pub fn new() -> Result<Done> {
        Ok(Done { operations: 0, puts: 0, gets_us: Latencies::new()?, puts_us: Latencies::new()? })
    }

    fn merge(&mut self, other: &Done) -> Result<()> {
        self.operations += other.operations;
        self.puts += other.puts;
        self.gets_us.merge(&other.gets_us)?;
        self.puts_us.merge(&other.puts_us)
    }
}

impl Bench<'_> {
    /// Runs a phase to its end.
    pub fn run(&self, phase: Phase) -> Result<Done> {
        let threads = phase.threads as u64;
        std::thread::scope(|scope| {
            let chooser = self.chooser(phase);
            let worker = |thread, threads| Worker::new(self, chooser.clone(), thread, threads);
            let start = |thread| {
                let worker = worker(thread, threads);
                scope.spawn(move || worker?.run(phase.work))
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            let writer = match phase.work {
                Work::ReadWhileWriting(rate) => {
                    let worker = worker(0, 1);
                    Some(scope.spawn(move || {
                        let random = random::stream(self.seed, threads);
                        Worker { random, ..worker? }.write_at(rate)
                    }))
                }
                _ => None,
            };
            let workers = workers.into_iter().chain(writer);
            let mut all = Done::new()?;
            for worker in workers {
                match worker.join() {
                    Ok(done) => all.merge(&done?)?,
                    Err(_) => bail!("a thread ended in a panic"),
                }
            }
            Ok(all)
        })
    }

    /// Returns the number of records.
    fn records(&self) -> u64 {
        self.inserts.last() + 1
    }

    fn chooser(&self, phase: Phase) -> Chooser {
        let distribution = match phase.work {
            Work::Ycsb(workload) => workload.distribution(),
            _ if phase.zipf => Distribution::Zipfian,
            _ => Distribution::Uniform,
        };
        Chooser::new(distribution, self.records(), 0)
    }

    /// Checks that a value is the last one that was put, or one whose put had not returned when it was read. `before`
    /// is the key's version before the read.
    fn check(&self, number: u64, before: u8, value: &[u8]) -> Result<()> {
        ensure!(self.values.is_of(number, value), "key {number} has a value that was never put");
        let after = self.versions[number as usize].load(Relaxed);
        let (age, age_max) = (value[0].wrapping_sub(before), after.wrapping_sub(before).saturating_add(1));
        ensure!(age <= age_max, "key {number} has version {} instead of {before} to {after}", value[0]);
        Ok(())
    }
}

struct Worker<'a> {
    bench: &'a Bench<'a>,
    chooser: Chooser,
    thread: u64,
    threads: u64,
    random: Rng,
    record: Record,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Where the keys and the values of a scan end.
    ends: Vec<(usize, usize)>,
    done: Done,
}

impl<'a> Worker<'a> {
    fn new(bench: &'a Bench<'a>, chooser: Chooser, thread: u64, threads: u64) -> Result<Self> {
        let random = random::stream(bench.seed, thread);
        let (record, key, value, ends) = (Record::default(), vec![], vec![], vec![]);
        Ok(Worker { bench, chooser, thread, threads, random, record, key, value, ends, done: Done::new()? })
    }

    fn run(mut self, work: Work) -> Result<Done> {
        let count = self.bench.records();
        match work {
            // The keys of successive numbers are in random order already.
            Work::Load => self.put_all(count, |_, position| position)?,
            Work::Overwrite(laps) => self.put_all(count * u64::from(laps), |worker, _| worker.choose())?,
            Work::Read | Work::ReadWhileWriting(_) => self.until_the_end(Self::read)?,
            Work::MultiGet => self.until_the_end(Self::read_many)?,
            Work::Miss => self.until_the_end(Self::miss)?,
            Work::Mixed(gets) => self.until_the_end(|worker| {
                if worker.random.u64(..100) < u64::from(gets) { worker.read() } else { worker.put() }
            })?,
            Work::Ycsb(workload) => self.until_the_end(|worker| worker.request(workload))?,
            Work::Raw => bail!("raw reads are not done by a store"),
        }
        Ok(self.done)
    }

    /// Puts random records for the duration of the phase, at most `rate` MB per second.
    fn write_at(mut self, rate: Option<u32>) -> Result<Done> {
        let started = Instant::now();
        let mut bytes = 0;
        self.until_the_end(|worker| {
            let due_s = rate.map_or(0.0, |mb_per_s| bytes as f64 / (f64::from(mb_per_s) * 1e6));
            if let Some(early) = Duration::from_secs_f64(due_s).checked_sub(started.elapsed()) {
                std::thread::sleep(early);
            }
            worker.put()?;
            bytes += worker.record.0.len() + worker.record.1.len();
            Ok(())
        })?;
        Ok(self.done)
    }

    fn until_the_end(&mut self, mut operation: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let end = Instant::now() + self.bench.duration;
        while Instant::now() < end {
            operation(self)?;
        }
        Ok(())
    }

    /// Returns a random key that only this thread writes.
    fn own_number(&mut self) -> u64 {
        let number = self.choose();
        let own = number - number % self.threads + self.thread;
        if own < self.bench.records() { own } else { own.saturating_sub(self.threads) }
    }

    /// Returns a random existing key, by the popularity of the phase.
    fn choose(&mut self) -> u64 {
        self.chooser.choose(self.bench.inserts.last(), &mut self.random)
    }

    /// Sends one request of a workload.
    fn request(&mut self, workload: Workload) -> Result<()> {
        match workload.request(self.random.f64()) {
            Request::Read => self.read(),
            Request::Update => self.put(),
            Request::Insert => self.insert(),
            Request::ReadModifyWrite => {
                let number = self.own_number();
                self.read_number(number)?;
                self.put_number(number)?;
                self.done.operations -= 1;
                Ok(())
            }
            Request::Scan => self.scan(),
        }
    }

    fn insert(&mut self) -> Result<()> {
        let number = self.bench.inserts.begin();
        ensure!(number < self.bench.keys.count(), "all keys that may be inserted exist");
        self.put_number(number)?;
        self.bench.inserts.end(number);
        Ok(())
    }

    /// Puts `count` records. No other thread reads or writes meanwhile, so versions may be updated before their puts.
    fn put_all(&mut self, count: u64, choose: impl Fn(&mut Self, u64) -> u64) -> Result<()> {
        let mut records = vec![Record::default(); self.bench.peer.batch()];
        let mut position = 0;
        while position < count {
            let size = records.len().min((count - position) as usize);
            for record in &mut records[..size] {
                let number = choose(self, position);
                let version = self.make_record(number, record);
                self.bench.versions[number as usize].store(version, Relaxed);
                position += 1;
            }
            self.write(&records[..size])?;
        }
        Ok(())
    }

    /// Makes a new record of a key; returns its version.
    fn make_record(&mut self, number: u64, (key, value): &mut Record) -> u8 {
        let version = self.bench.versions[number as usize].load(Relaxed).wrapping_add(1);
        self.bench.keys.write(number, key);
        let write = self.random.u64(..) << 8 | u64::from(version);
        self.bench.values.write(number, write, value);
        version
    }

    fn write(&mut self, records: &[Record]) -> Result<()> {
        let started = Instant::now();
        match records {
            [(key, value)] => self.bench.peer.put(key, value)?,
            _ => self.bench.peer.put_many(records)?,
        }
        // The time of a transaction of many puts is none of a put.
        if records.len() == 1 {
            self.done.puts_us.record(started.elapsed());
        }
        self.done.puts += records.len() as u64;
        self.done.operations += records.len() as u64;
        Ok(())
    }

    fn put(&mut self) -> Result<()> {
        let number = self.own_number();
        self.put_number(number)
    }

    fn put_number(&mut self, number: u64) -> Result<()> {
        let mut record = std::mem::take(&mut self.record);
        let version = self.make_record(number, &mut record);
        self.write(std::slice::from_ref(&record))?;
        self.bench.versions[number as usize].store(version, Relaxed);
        self.record = record;
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let number = self.choose();
        self.read_number(number)
    }

    fn read_number(&mut self, number: u64) -> Result<()> {
        self.bench.keys.write(number, &mut self.key);
        let before = self.bench.versions[number as usize].load(Relaxed);
        let value = &mut self.value;
        let started = Instant::now();
        let found = self.bench.peer.get(&self.key, &mut |found| {
            value.clear();
            value.extend_from_slice(found);
        })?;
        self.done.gets_us.record(started.elapsed());
        self.done.operations += 1;
        ensure!(found, "key {number} is not there");
        self.bench.check(number, before, &self.value)
    }

    fn read_many(&mut self) -> Result<()> {
        let numbers: Vec<u64> = (0..MULTIGET_KEYS).map(|_| self.choose()).collect();
        let mut keys = vec![vec![]; numbers.len()];
        let before: Vec<u8> =
            numbers.iter().map(|number| self.bench.versions[*number as usize].load(Relaxed)).collect();
        for (number, key) in numbers.iter().zip(&mut keys) {
            self.bench.keys.write(*number, key);
        }
        let mut found = vec![vec![]; keys.len()];
        let started = Instant::now();
        self.bench.peer.get_many(&keys, &mut |place, value| found[place].extend_from_slice(value))?;
        self.done.gets_us.record(started.elapsed());
        self.done.operations += keys.len() as u64;
        for ((number, before), value) in numbers.iter().zip(before).zip(found) {
            self.bench.check(*number, before, &value)?;
        }
        Ok(())
    }

    /// Reads up to [`SCAN_RECORDS_MAX`] records in the order of their keys, from an existing one on. Which keys it
    /// finds is not known before, so a value may be of the version before the one that is known after the scan: the key
    /// may have been written meanwhile.
    fn scan(&mut self) -> Result<()> {
        let number = self.choose();
        let limit = self.random.usize(1..=SCAN_RECORDS_MAX);
        self.bench.keys.write(number, &mut self.key);
        let (bytes, ends) = (&mut self.value, &mut self.ends);
        bytes.clear();
        ends.clear();
        let started = Instant::now();
        self.bench.peer.scan(&self.key, limit, &mut |key, value| {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value);
            ends.push((bytes.len() - value.len(), bytes.len()));
        })?;
        self.done.gets_us.record(started.elapsed());
        self.done.operations += 1;
        ensure!(self.ends.len() <= limit, "a scan has too many records");
        let (mut start, mut last) = (0, &[][..]);
        for &(middle, end) in &self.ends {
            let (key, value) = (&self.value[start..middle], &self.value[middle..end]);
            ensure!(start > 0 || key == self.key, "key {number} is not the first of the scan from it on");
            ensure!(last < key, "a scan is not in the order of the keys");
            let Some(found) = self.bench.keys.number_of(key) else {
                bail!("a scan has a key that was never put")
            };
            let after = self.bench.versions[found as usize].load(Relaxed);
            self.bench.check(found, after.wrapping_sub(1), value)?;
            (start, last) = (end, key);
        }
        ensure!(start > 0, "key {number} is not there");
        Ok(())
    }

    fn miss(&mut self) -> Result<()> {
        let number = self.random.u64(..self.bench.keys.count());
        self.bench.keys.write_missing(number, &mut self.key);
        let started = Instant::now();
        let found = self.bench.peer.get(&self.key, &mut |_| {})?;
        self.done.gets_us.record(started.elapsed());
        self.done.operations += 1;
        ensure!(!found, "a key that was never put is there");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    const KEYS: u64 = 50;

    #[derive(Clone, Copy, PartialEq)]
    enum Lie {
        None,
        /// Later puts are lost.
        Stale,
        /// One bit of every value is flipped.
        Flipped,
        /// No key exists.
        Lost,
        /// Scans pass the records of a key twice.
        Repeated,
    }

    struct Map {
        records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
        lie: Lie,
        batch: usize,
    }

    impl Peer for Map {
        fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool> {
            let mut value = self.records.lock().unwrap().get(key).cloned();
            if self.lie == Lie::Flipped {
                value.iter_mut().for_each(|value| value[30] ^= 4);
            }
            Ok(self.lie != Lie::Lost && value.map(|value| show(&value)).is_some())
        }

        fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
            let mut records = self.records.lock().unwrap();
            if self.lie != Lie::Stale || !records.contains_key(key) {
                records.insert(key.to_vec(), value.to_vec());
            }
            Ok(())
        }

        fn batch(&self) -> usize {
            self.batch
        }

        fn scan(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
            let records = self.records.lock().unwrap();
            let found = records.range(first.to_vec()..).take(if self.lie == Lie::Lost { 0 } else { limit });
            for (key, value) in found {
                let mut value = value.clone();
                value[30] ^= if self.lie == Lie::Flipped { 4 } else { 0 };
                show(key, &value);
                if self.lie == Lie::Repeated && limit > 1 {
                    show(key, &value);
                }
            }
            Ok(())
        }

        fn settle(&self) -> Result<Instant> {
            Ok(Instant::now())
        }
    }

    fn run(lie: Lie, phases: &[&str]) -> Result<()> {
        done(lie, 1, phases).map(drop)
    }

    fn done(lie: Lie, batch: usize, phases: &[&str]) -> Result<Vec<Done>> {
        let peer = Map { records: Mutex::default(), lie, batch };
        let keys = Keys::new(20, 100 * KEYS, true).unwrap();
        let inserts = Inserts::new(KEYS);
        let values = Values::new(44, 1);
        let versions: Vec<AtomicU8> = (0..100 * KEYS).map(|_| AtomicU8::new(0)).collect();
        let duration = Duration::from_millis(5);
        let bench = Bench {
            peer: &peer,
            keys: &keys,
            inserts: &inserts,
            values: &values,
            versions: &versions,
            duration,
            seed: 7,
        };
        phases.iter().map(|phase| bench.run(phase.parse()?)).collect()
    }

    #[test]
    fn only_puts_that_are_calls_of_their_own_are_timed() {
        let is_timed = |batch| {
            let done = done(Lie::None, batch, &["load", "mixed50"]).unwrap();
            let timed = done.iter().map(|done| done.puts > 0 && done.puts_us.quantiles_if_any().is_some());
            timed.collect::<Vec<_>>()
        };
        assert_eq!(is_timed(1), [true, true]);
        assert_eq!(is_timed(10), [false, true], "a load is in transactions");
    }

    #[test]
    fn an_honest_store_passes_every_check() {
        let phases = ["load", "read:4", "multiget", "miss:2", "overwrite", "read", "mixed50:4", "read"];
        let phases = phases.into_iter().chain([
            "readwhilewriting:2",
            "readwhilewriting1",
            "overwrite2-zipf",
            "mixed50-zipf:4",
        ]);
        let phases = phases.chain(["ycsb-a:4", "ycsb-b:4", "ycsb-c:4", "ycsb-f:4", "ycsb-e:4", "read"]);
        run(Lie::None, &phases.collect::<Vec<_>>()).unwrap();
    }

    #[test]
    fn stale_flipped_and_lost_values_are_detected() {
        for (lie, words) in [(Lie::Stale, "version"), (Lie::Flipped, "never put"), (Lie::Lost, "not there")] {
            let error = run(lie, &["load", "overwrite", "read"]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn wrong_scans_are_detected() {
        for (lie, words) in
            [(Lie::Flipped, "never put"), (Lie::Lost, "not there"), (Lie::Repeated, "too many records")]
        {
            let error = run(lie, &["load", "ycsb-e"]).unwrap_err().to_string();
            assert!(error.contains(words) || error.contains("not in the order"), "{error}");
        }
    }
}
