//! Caches on flash: FlashStore as a cache, and foyer, with the same bytes of flash and of memory. A get that finds
//! nothing is followed by a put. What counts is the share of gets that find their key, and what is written to flash.

use crate::compare::meter::{Memory, Reading};
use crate::requests::Drifting;
use anyhow::{Context, Result, ensure};
use foyer::{BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder};
use siltstone::{Access, Database, FlashStoreSettings};
use siltstone_bench::keys::{Keys, Values};
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::runtime::Runtime;

/// The segments of FlashStore, and the blocks of foyer, on flash.
const SEGMENTS: u64 = 64;
const SEGMENT_BYTES_MIN: u64 = 1 << 18;

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Cache {
    /// FlashStore's setting `cache`, with its memory as its budget.
    Flashstore,
    /// foyer's hybrid cache with its defaults, with the memory for its cache in memory alone.
    Foyer,
}

/// The options of the comparison.
#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    /// The number of keys.
    #[arg(long, default_value_t = 2_000_000)]
    keys: u64,
    /// The length of every key, in bytes.
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// The length of every value, in bytes.
    #[arg(long, default_value_t = 84)]
    value_size: usize,
    /// The size of flash, in MB (2^20 bytes).
    #[arg(long, default_value_t = 64)]
    flash_mb: u64,
    /// The memory, in MB.
    #[arg(long, default_value_t = 16)]
    memory_mb: u64,
    /// The skew of the keys.
    #[arg(long, default_value_t = 0.9)]
    skew: f64,
    /// The share of the keys whose popularity changes within as many gets as there are keys.
    #[arg(long, default_value_t = 0.01)]
    drift: f64,
    /// The gets per key, of which the first half is not counted.
    #[arg(long, default_value_t = 4)]
    laps: u64,
    /// FlashStore's `write_bytes_per_s`, in KB (2^10 bytes); 0 for no limit.
    #[arg(long, default_value_t = 0)]
    write_kb_per_s: u64,
    /// The caches, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["flashstore", "foyer"])]
    caches: Vec<Cache>,
    /// The directory of the caches.
    #[arg(long, default_value = "evidence/target/caches")]
    dir: PathBuf,
    /// The seed of the gets.
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Runs the caches in this process instead of one process for each.
    #[arg(long, hide = true)]
    here: bool,
}

/// Runs the caches in turn, each in a process of its own.
pub fn run(choice: &Choice) -> Result<()> {
    if choice.here {
        return choice.caches.iter().try_for_each(|cache| run_here(*cache, choice));
    }
    println!("cache       hits   B written per get   heap, MB   gets/s   us CPU per get");
    for cache in &choice.caches {
        let name = clap::ValueEnum::to_possible_value(cache).context("a cache has a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["caches", "--here", "--caches", name.get_name()]).arg("--dir").arg(&choice.dir);
        for (option, value) in [
            ("--keys", choice.keys.to_string()),
            ("--key-size", choice.key_size.to_string()),
            ("--value-size", choice.value_size.to_string()),
            ("--flash-mb", choice.flash_mb.to_string()),
            ("--memory-mb", choice.memory_mb.to_string()),
            ("--skew", choice.skew.to_string()),
            ("--drift", choice.drift.to_string()),
            ("--laps", choice.laps.to_string()),
            ("--write-kb-per-s", choice.write_kb_per_s.to_string()),
            ("--seed", choice.seed.to_string()),
        ] {
            command.args([option, &value]);
        }
        ensure!(command.status()?.success(), "the cache {name:?} has failed");
    }
    Ok(())
}

/// A cache of records.
trait Subject {
    /// Returns the value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Puts a record, if it is not refused.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Returns when nothing is left to write.
    fn close(self: Box<Self>) -> Result<()>;
}

struct FlashStore(Database);

impl FlashStore {
    fn create(choice: &Choice) -> Result<Box<dyn Subject>> {
        let settings = FlashStoreSettings::default()
            .cache(true)
            .flash_bytes(choice.flash_mb << 20)
            .write_bytes_per_s(choice.write_kb_per_s << 10);
        let builder = Database::builder(&choice.dir)
            .engine(settings.segment_bytes(choice.segment_bytes()))
            .fixed(choice.key_size, choice.value_size)
            .access(Access::DirectOrBuffered);
        Ok(Box::new(FlashStore(builder.memory_budget(choice.memory_mb << 20).open()?)))
    }
}

impl Subject for FlashStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key)?.map(|value| value.to_vec()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.0.put(key, value)?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.settle()?;
        Ok(self.0.close()?)
    }
}

struct Foyer {
    cache: HybridCache<Vec<u8>, Vec<u8>>,
    runtime: Runtime,
}

impl Foyer {
    fn create(choice: &Choice) -> Result<Box<dyn Subject>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let directory: &Path = &choice.dir;
        let cache = runtime.block_on(async {
            let device =
                FsDeviceBuilder::new(directory).with_capacity((choice.flash_mb << 20) as usize).build()?;
            let block_bytes = choice.segment_bytes() as usize;
            HybridCacheBuilder::new()
                .memory((choice.memory_mb << 20) as usize)
                .with_weighter(|key: &Vec<u8>, value: &Vec<u8>| key.len() + value.len())
                .storage()
                .with_engine_config(BlockEngineConfig::new(device).with_block_size(block_bytes))
                .build()
                .await
        })?;
        Ok(Box::new(Foyer { cache, runtime }))
    }
}

impl Subject for Foyer {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.runtime.block_on(async { self.cache.get(key).await })?;
        Ok(found.map(|entry| entry.value().clone()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.cache.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.runtime.block_on(self.cache.close())?)
    }
}

impl Choice {
    fn segment_bytes(&self) -> u64 {
        ((self.flash_mb << 20) / SEGMENTS).next_power_of_two().max(SEGMENT_BYTES_MIN)
    }
}

fn run_here(cache: Cache, choice: &Choice) -> Result<()> {
    std::fs::create_dir_all(&choice.dir)?;
    let mut requests = Drifting::new(choice.keys, choice.skew, choice.drift, choice.seed)?;
    let keys = Keys::new(choice.key_size, choice.keys, true)?;
    let values = Values::new(choice.value_size, choice.seed);
    let empty = Memory::now()?.anonymous_bytes;
    let subject = match cache {
        Cache::Flashstore => FlashStore::create(choice)?,
        Cache::Foyer => Foyer::create(choice)?,
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut lap = |count: u64| -> Result<u64> {
        let mut found = 0;
        for number in requests.by_ref().take(count as usize) {
            keys.write(number.into(), &mut key);
            // A key has one value, so that what a cache returns is known.
            values.write(number.into(), 0, &mut value);
            match subject.get(&key)? {
                Some(got) => {
                    ensure!(got == value, "key {number} has a wrong value");
                    found += 1;
                }
                None => subject.put(&key, &value)?,
            }
        }
        Ok(found)
    };
    let half = choice.keys * choice.laps / 2;
    lap(half)?;
    let before = Reading::of_process()?;
    let found = lap(half)?;
    let spent = Reading::of_process()?.since(&before);
    let heap = Memory::now()?.anonymous_bytes.saturating_sub(empty);
    subject.close()?;
    let written = Reading::of_process()?.since(&before).write_bytes;
    let gets = half as f64;
    println!(
        "{:10} {:.4} {:>19.1} {:>10.1} {:>8.0} {:>16.2}",
        format!("{cache:?}").to_lowercase(),
        found as f64 / gets,
        written as f64 / gets,
        heap as f64 / f64::from(1 << 20),
        gets / spent.seconds,
        1e6 * spent.cpu_s() / gets,
    );
    std::fs::remove_dir_all(&choice.dir).context("cannot remove the cache")
}
