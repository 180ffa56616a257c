//! The benchmark of a dictionary: builds, opens, lookups, and updates compared with rebuilds (ECT 3.3.2 to 3.3.4).
//!
//! As in Figure 3.9, a dictionary is built and then merged with batches of new keys. For each update, the same records
//! are also built from scratch. Every value that is read is verified.
//! each update the same records are built from scratch. Every value that is read is checked.

use crate::keys::{Keys, Values};
use crate::named::{self, by_name};
use crate::place::Place;
use crate::quantity::parse_whole;
use crate::random::{self, Permutation};
use crate::{Error, Result};
use clap::Parser;
use serde::Serialize;
use siltstone::{Dictionary, DictionaryBuilder, DictionaryIndex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// The keys per call of the batched lookups.
const KEYS_PER_CALL: usize = 256;
/// The number of measured opens.
const OPENINGS: usize = 7;

/// The settings.
#[derive(Debug, Clone, Parser, Serialize)]
pub struct Settings {
    /// Number of keys of the first build
    #[arg(long, default_value_t = 1_000_000, value_parser = parse_whole::<u64>)]
    pub keys: u64,
    /// Number of new keys per update [default: as for the first build]
    #[arg(long, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub batch_keys: Option<u64>,
    /// Number of updates
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u32>)]
    #[serde(skip)]
    pub updates: u32,
    /// Length of the keys, in bytes
    #[arg(long, default_value_t = 20, value_parser = parse_whole::<usize>)]
    pub key_size: usize,
    /// Length of the values, in bytes
    #[arg(long, default_value_t = 44, value_parser = parse_whole::<usize>)]
    pub value_size: usize,
    /// Fixed record size
    #[arg(long)]
    pub fixed: bool,
    /// Kind of index
    #[arg(long, default_value = DictionaryIndex::default().name(), value_parser = by_name::<DictionaryIndex>())]
    #[serde(serialize_with = "named::serialize")]
    pub index: DictionaryIndex,
    /// Memory limit for sorting
    #[arg(long = "memory", value_name = "BYTES", value_parser = parse_whole::<usize>, default_value = "256MiB")]
    pub memory_bytes: usize,
    /// Number of lookups of each kind
    #[arg(long, default_value_t = 100_000, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub lookups: u64,
    /// Parent of the temporary directory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub directory: Option<PathBuf>,
    /// Seed of the random keys, orders and values
    #[arg(long, default_value_t = 301, value_parser = parse_whole::<u64>)]
    #[serde(skip)]
    pub seed: u64,
    /// Ends the benchmark when it becomes true.
    #[arg(skip)]
    #[serde(skip)]
    pub stop: Arc<AtomicBool>,
}

impl Settings {
    fn batch_keys(&self) -> u64 {
        self.batch_keys.unwrap_or(self.keys)
    }
}

impl Default for Settings {
    fn default() -> Self {
        named::defaults()
    }
}

/// One batch: merged, and for comparison built from scratch with all previous records.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateReport {
    /// Records after the update.
    pub keys: u64,
    /// Seconds to merge the batch.
    pub update_s: f64,
    /// Seconds to build all records from scratch.
    pub rebuild_s: f64,
    /// The ratio of the two.
    pub rebuild_to_update: f64,
}

/// One index over the same records.
#[derive(Debug, Clone, Serialize)]
pub struct IndexReport {
    /// Its name.
    pub index: &'static str,
    /// Seconds to build it over the existing records.
    pub reindex_s: f64,
    /// Its memory, in bits per key.
    pub bits_per_key: f64,
    /// Milliseconds to open the dictionary with it.
    pub open_ms: f64,
    /// Microseconds per lookup of a random key, from the page cache.
    pub lookup_us: f64,
    /// Reads per lookup.
    pub reads_per_get: f64,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `dict`, as the name of a benchmark in the lines of `bench db`.
    pub benchmark: &'static str,
    /// `dictionary`, as the name of an engine there.
    pub engine: &'static str,
    /// The settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// Records built per second, from the first record until the file is synced.
    pub build_keys_per_s: f64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the file per byte of keys and values.
    pub space_amplification: f64,
    /// The memory of the index, in bits per key.
    pub bits_per_key: f64,
    /// Milliseconds to open it.
    pub open_ms: f64,
    /// Microseconds per lookup of a random key, from the page cache.
    pub lookup_us: f64,
    /// Reads per lookup.
    pub reads_per_get: f64,
    /// Microseconds per lookup of a missing key.
    pub missing_us: f64,
    /// Microseconds per lookup in a batch of 256.
    pub get_many_us: f64,
    /// Records per second of an iteration.
    pub iterate_keys_per_s: f64,
    /// Seconds of the last update.
    pub update_s: Option<f64>,
    /// Seconds of the corresponding rebuild.
    pub rebuild_s: Option<f64>,
    /// The ratio of the two.
    pub rebuild_to_update: Option<f64>,
    /// All updates.
    pub updates: Vec<UpdateReport>,
    /// Other indexes over the same records.
    pub indexes: Vec<IndexReport>,
    /// Keys whose values were read and verified.
    pub verified_keys: u64,
}

struct Bench<'a> {
    settings: &'a Settings,
    directory: &'a Path,
    keys: Keys,
    values: Values,
    verified_keys: u64,
}

/// The results of lookups.
struct Lookups {
    us: f64,
    reads_per_get: f64,
}

/// Measures dictionaries in the directory `place`, which is created.
///
/// # Errors
/// Errors of the dictionary, and wrong values; [`siltstone::Error::Interrupted`] after `settings.stop`.
pub fn run(settings: &Settings, place: &Place) -> Result<Report> {
    let directory = place.directory();
    std::fs::create_dir_all(directory)
        .map_err(|error| Error::System(format!("cannot create {}", directory.display()), error))?;
    let all = settings.keys + u64::from(settings.updates) * settings.batch_keys();
    let mut bench = Bench {
        settings,
        directory,
        keys: Keys::new(settings.key_size, all, false)?,
        values: Values::new(settings.value_size, settings.seed),
        verified_keys: 0,
    };
    bench.run()
}

impl Bench<'_> {
    fn run(&mut self) -> Result<Report> {
        let keys = self.settings.keys;
        let path = self.directory.join("first.dict");
        let build_s = self.build(Dictionary::builder(), &path, 0..keys)?;
        let dictionary = Dictionary::open(&path)?;
        let info = dictionary.info();
        let lookups = self.look_up(&dictionary, keys)?;
        let mut report = Report {
            benchmark: "dict",
            engine: "dictionary",
            settings: self.settings.clone(),
            build_keys_per_s: keys as f64 / build_s,
            file_bytes: info.file_bytes,
            space_amplification: info.file_bytes as f64 / (info.key_bytes + info.value_bytes).max(1) as f64,
            bits_per_key: info.bits_per_key(),
            open_ms: open_ms(&path)?,
            lookup_us: lookups.us,
            reads_per_get: lookups.reads_per_get,
            missing_us: self.look_up_missing(&dictionary)?,
            get_many_us: self.look_up_many(&dictionary, keys)?,
            iterate_keys_per_s: self.iterate(&dictionary)?,
            update_s: None,
            rebuild_s: None,
            rebuild_to_update: None,
            updates: Vec::new(),
            indexes: Vec::new(),
            verified_keys: 0,
        };
        report.indexes = self.reindex(&path, keys)?;
        report.updates = self.update(&path)?;
        if let Some(last) = report.updates.last() {
            report.update_s = Some(last.update_s);
            report.rebuild_s = Some(last.rebuild_s);
            report.rebuild_to_update = Some(last.rebuild_to_update);
        }
        report.verified_keys = self.verified_keys;
        Ok(report)
    }

    /// Returns the seconds of a build, or of an update if the builder does one, with these records in random order.
    fn build(
        &self,
        mut builder: DictionaryBuilder,
        path: &Path,
        numbers: std::ops::Range<u64>,
    ) -> Result<f64> {
        let Settings { key_size, value_size, fixed, index, memory_bytes, seed, .. } = *self.settings;
        let stop = self.settings.stop.clone();
        builder = builder.memory_bytes(memory_bytes).index(index).progress(move |_, _| !stop.load(Relaxed));
        if fixed {
            builder = builder.fixed(key_size, value_size);
        }
        let order = Permutation::new(numbers.end - numbers.start, seed);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let mut writer = builder.create(path)?;
        for position in 0..numbers.end - numbers.start {
            let number = numbers.start + order.at(position);
            self.keys.write(number, &mut key);
            self.values.write(number, 0, &mut value);
            writer.put(&key, &value)?;
        }
        writer.finish()?;
        Ok(started.elapsed().as_secs_f64())
    }

    fn check(&mut self, number: u64, value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) if self.values.is_of(number, value) => {
                self.verified_keys += 1;
                Ok(())
            }
            _ => Err(wrong(number)),
        }
    }

    fn look_up(&mut self, dictionary: &Dictionary, keys: u64) -> Result<Lookups> {
        let mut random = random::stream(self.settings.seed, 1);
        let mut key = Vec::new();
        let reads = |dictionary: &Dictionary| dictionary.io().of(siltstone_device::Purpose::Get).reads;
        let reads_before = reads(dictionary);
        let started = Instant::now();
        for _ in 0..self.settings.lookups {
            let number = random.u64(..keys.max(1));
            self.keys.write(number, &mut key);
            self.check(number, dictionary.get(&key)?.as_deref())?;
        }
        let lookups = self.settings.lookups.max(1) as f64;
        let us = started.elapsed().as_secs_f64() * 1e6 / lookups;
        Ok(Lookups { us, reads_per_get: (reads(dictionary) - reads_before) as f64 / lookups })
    }

    fn look_up_missing(&mut self, dictionary: &Dictionary) -> Result<f64> {
        let mut key = Vec::new();
        let started = Instant::now();
        for number in 0..self.settings.lookups {
            self.keys.write_missing(number % self.keys.count().max(1), &mut key);
            if dictionary.contains(&key)? {
                return Err(wrong(number));
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e6 / self.settings.lookups.max(1) as f64)
    }

    fn look_up_many(&mut self, dictionary: &Dictionary, keys: u64) -> Result<f64> {
        let mut random = random::stream(self.settings.seed, 2);
        let calls = self.settings.lookups.div_ceil(KEYS_PER_CALL as u64);
        let mut wanted = vec![Vec::new(); KEYS_PER_CALL];
        let mut numbers = vec![0; KEYS_PER_CALL];
        let started = Instant::now();
        for _ in 0..calls {
            for (number, key) in numbers.iter_mut().zip(&mut wanted) {
                *number = random.u64(..keys.max(1));
                self.keys.write(*number, key);
            }
            for (number, value) in numbers.iter().zip(dictionary.get_many(&wanted)?) {
                self.check(*number, value.as_deref())?;
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e6 / (calls.max(1) * KEYS_PER_CALL as u64) as f64)
    }

    fn iterate(&mut self, dictionary: &Dictionary) -> Result<f64> {
        let started = Instant::now();
        for record in dictionary {
            let record = record?;
            let number = self.keys.number_of(&record.key).ok_or(wrong(u64::MAX))?;
            self.check(number, Some(&record.value))?;
        }
        Ok(dictionary.len() as f64 / started.elapsed().as_secs_f64())
    }

    /// Measures every index that the records can have. The last one is the original one.
    fn reindex(&mut self, path: &Path, keys: u64) -> Result<Vec<IndexReport>> {
        let mut reports = Vec::new();
        let others = DictionaryIndex::ALL.into_iter().filter(|index| *index != self.settings.index);
        for index in others.chain([self.settings.index]) {
            let stop = self.settings.stop.clone();
            let started = Instant::now();
            let dictionary = match Dictionary::reindex(path, index, &mut |_, _| !stop.load(Relaxed)) {
                Err(siltstone::Error::Setting { .. }) => continue,
                outcome => outcome?,
            };
            let reindex_s = started.elapsed().as_secs_f64();
            let lookups = self.look_up(&dictionary, keys)?;
            reports.push(IndexReport {
                index: index.name(),
                reindex_s,
                bits_per_key: dictionary.info().bits_per_key(),
                open_ms: open_ms(path)?,
                lookup_us: lookups.us,
                reads_per_get: lookups.reads_per_get,
            });
        }
        Ok(reports)
    }

    fn update(&mut self, path: &Path) -> Result<Vec<UpdateReport>> {
        let mut reports = Vec::new();
        let Settings { keys, updates, .. } = *self.settings;
        let batch_keys = self.settings.batch_keys();
        let rebuilt = self.directory.join("rebuilt.dict");
        for number in 0..u64::from(updates) {
            let (before, after) = (keys + number * batch_keys, keys + (number + 1) * batch_keys);
            let update_s = self.build(Dictionary::open(path)?.update(), path, before..after)?;
            let rebuild_s = self.build(Dictionary::builder(), &rebuilt, 0..after)?;
            for path in [path, &rebuilt] {
                self.look_up(&Dictionary::open(path)?, after)?;
            }
            let rebuild_to_update = rebuild_s / update_s;
            reports.push(UpdateReport { keys: after, update_s, rebuild_s, rebuild_to_update });
        }
        Ok(reports)
    }
}

fn wrong(number: u64) -> Error {
    Error::WrongResults(format!("the dictionary returned a wrong result for key {number}"))
}

/// Returns the median of several opens.
fn open_ms(path: &Path) -> Result<f64> {
    let mut times = Vec::with_capacity(OPENINGS);
    for _ in 0..OPENINGS {
        let started = Instant::now();
        let dictionary = Dictionary::open(path)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        drop(dictionary);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

impl Report {
    /// Formats the report as text.
    pub fn lines(&self) -> String {
        let mut lines = format!(
            "{} keys of {} + {} bytes, sorted in {} MiB: {:.0} keys/s\n\
             {} bytes in the file, {:.3} times the data; {}: {:.3} bits a key in memory\n\
             open {:.3} ms; lookup {:.2} us with {:.3} reads, missing {:.2} us, {:.2} us of many\n\
             iteration {:.0} keys/s\n",
            self.settings.keys,
            self.settings.key_size,
            self.settings.value_size,
            self.settings.memory_bytes >> 20,
            self.build_keys_per_s,
            self.file_bytes,
            self.space_amplification,
            self.settings.index.name(),
            self.bits_per_key,
            self.open_ms,
            self.lookup_us,
            self.reads_per_get,
            self.missing_us,
            self.get_many_us,
            self.iterate_keys_per_s,
        );
        for index in &self.indexes {
            lines += &format!(
                "{:<12} {:.3} s to build, {:.3} bits per key, open {:.3} ms, lookup {:.2} us with {:.3} reads\n",
                index.index,
                index.reindex_s,
                index.bits_per_key,
                index.open_ms,
                index.lookup_us,
                index.reads_per_get
            );
        }
        for update in &self.updates {
            lines += &format!(
                "update to {} keys {:.3} s, rebuild {:.3} s: {:.2} times as long\n",
                update.keys, update.update_s, update.rebuild_s, update.rebuild_to_update
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_measured_on_every_shape_and_every_value_is_checked() {
        for fixed in [false, true] {
            let settings = Settings {
                keys: 3_000,
                batch_keys: Some(500),
                updates: 2,
                fixed,
                memory_bytes: 64 << 10,
                lookups: 512,
                ..Settings::default()
            };
            let report = run(&settings, &Place::prepare(None).unwrap()).unwrap();
            assert_eq!(report.indexes.len(), if fixed { 4 } else { 2 });
            assert_eq!(report.updates.iter().map(|update| update.keys).collect::<Vec<_>>(), [3_500, 4_000]);
            // Single and batched lookups, and iteration; each index; both dictionaries of each update.
            let lookups = 512 * (2 + report.indexes.len() as u64 + 2 * 2);
            assert_eq!(report.verified_keys, lookups + 3_000);
            assert!(
                report.reads_per_get == 1.0 && report.build_keys_per_s > 0.0 && report.bits_per_key > 0.0
            );
            assert!(report.lines().lines().count() == 4 + report.indexes.len() + 2);
        }
    }
}
