//! The keys in order of FlashKey: the project's own set of keys, or a tree of Fjall with the keys, next to FlashKey
//! without an order. The differences between the three are the costs of a set.

use crate::compare::meter::{Memory, Reading, disk_bytes};
use crate::compare::peer::idle;
use anyhow::{Context, Result, ensure};
use fjall::config::FilterPolicy;
use fjall::{Keyspace, KeyspaceCreateOptions};
use siltstone::{Database, FlashKeySettings};
use siltstone_bench::keys::Keys;
use siltstone_bench::random::{self, Rng};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The value of every record, in bytes.
const VALUE_BYTES: usize = 8;
/// The memory of Fjall's table, as much as that of the own set, and of its cache.
const TABLE_BYTES: u64 = 8 << 20;
/// One of this many keys is deleted.
const DELETED_ONE_OF: u64 = 4;
/// The keys per range, and the number of ranges.
const RANGE_KEYS: usize = 100;
const RANGES: u64 = 20_000;

/// What keeps the order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// Nothing.
    None,
    /// FlashKey's setting `ordered`.
    Own,
    /// A keyspace of Fjall with the keys and empty values, without filters, its journal not flushed.
    Fjall,
}

/// The options of the comparison.
#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    /// The number of keys.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// The length of every key, in bytes.
    #[arg(long, default_value_t = 20)]
    key_size: usize,
    /// The sets, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["none", "own", "fjall"])]
    sets: Vec<Set>,
    /// The directory of the databases.
    #[arg(long, default_value = "evidence/target/key-set")]
    dir: PathBuf,
    /// The seed of the orders.
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Runs the sets in this process instead of one process for each.
    #[arg(long, hide = true)]
    here: bool,
}

/// Runs the sets in turn, each in a process of its own.
pub fn run(choice: &Choice) -> Result<()> {
    if choice.here {
        return choice.sets.iter().try_for_each(|set| run_here(*set, choice));
    }
    println!("set   phase           keys/s   µs CPU   B written   B heap per key   B on flash per key");
    for set in &choice.sets {
        let name = clap::ValueEnum::to_possible_value(set).context("a set has a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["key-set", "--here", "--sets", name.get_name()]).arg("--dir").arg(&choice.dir);
        for (option, value) in
            [("--keys", choice.keys), ("--key-size", choice.key_size as u64), ("--seed", choice.seed)]
        {
            command.arg(option).arg(value.to_string());
        }
        ensure!(command.status()?.success(), "the set {set:?} has failed");
    }
    Ok(())
}

fn run_here(set: Set, choice: &Choice) -> Result<()> {
    let empty = Memory::now()?.anonymous_bytes;
    let subject = Subject::create(set, choice)?;
    let keys = Keys::new(choice.key_size, choice.keys, true)?;
    let mut run = Run { set, choice, subject, keys, empty, key: Vec::new() };
    run.measure("put", choice.keys, |run, number| run.put(number))?;
    let mut random = random::stream(choice.seed, 0);
    run.measure("put again", choice.keys / 2, |run, _| {
        let number = random.u64(..run.choice.keys);
        run.put(number)
    })?;
    run.measure("delete", choice.keys / DELETED_ONE_OF, |run, number| run.delete(number * DELETED_ONE_OF))?;
    if set != Set::None {
        run.list(&mut random)?;
    }
    drop(run);
    std::fs::remove_dir_all(&choice.dir).context("cannot remove the databases")
}

/// FlashKey with a set of keys.
struct Subject {
    records: Database,
    /// The database of the keyspace has to live as long.
    keys: Option<(fjall::Database, Keyspace)>,
}

impl Subject {
    fn create(set: Set, choice: &Choice) -> Result<Subject> {
        std::fs::create_dir_all(&choice.dir)?;
        let settings = FlashKeySettings::default().ordered(set == Set::Own);
        let records = Database::builder(choice.dir.join("records")).engine(settings).open()?;
        let keys = (set == Set::Fjall).then(|| -> Result<_> {
            let database = fjall::Database::builder(choice.dir.join("keys"));
            let database = database.cache_size(TABLE_BYTES).manual_journal_persist(true).open()?;
            let options = KeyspaceCreateOptions::default().max_memtable_size(TABLE_BYTES);
            let options = options.filter_policy(FilterPolicy::disabled()).manual_journal_persist(true);
            let keyspace = database.keyspace("keys", || options)?;
            Ok((database, keyspace))
        });
        Ok(Subject { records, keys: keys.transpose()? })
    }

    fn put(&self, key: &[u8]) -> Result<()> {
        self.records.put(key, [0; VALUE_BYTES])?;
        self.keys.as_ref().map_or(Ok(()), |(_, keys)| Ok(keys.insert(key, [])?))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.records.delete(key)?;
        self.keys.as_ref().map_or(Ok(()), |(_, keys)| Ok(keys.remove(key)?))
    }

    /// Passes the keys from `first` on to `show`, at most `limit`.
    fn list(&self, first: &[u8], limit: usize, show: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match &self.keys {
            Some((_, keys)) => keys.range(first..).take(limit).try_for_each(|found| show(&found.key()?)),
            None => {
                let ordered = self.records.ordered().context("this database has no order of keys")?;
                ordered.limit(limit).range_keys(first..)?.try_for_each(|found| show(&found?))
            }
        }
    }

    fn settle(&self) -> Result<Instant> {
        self.records.settle()?;
        let settled = Instant::now();
        let Some((_, keys)) = &self.keys else { return Ok(settled) };
        keys.rotate_memtable_and_wait()?;
        Ok(settled.max(idle::wait()?))
    }
}

struct Run<'a> {
    set: Set,
    choice: &'a Choice,
    subject: Subject,
    keys: Keys,
    /// The heap before.
    empty: u64,
    key: Vec<u8>,
}

impl Run<'_> {
    fn put(&mut self, number: u64) -> Result<()> {
        self.keys.write(number, &mut self.key);
        self.subject.put(&self.key)
    }

    fn delete(&mut self, number: u64) -> Result<()> {
        self.keys.write(number, &mut self.key);
        self.subject.delete(&self.key)
    }

    /// Does `count` operations and waits for the background work. Prints what they took.
    fn measure(
        &mut self,
        phase: &str,
        count: u64,
        mut operation: impl FnMut(&mut Self, u64) -> Result<()>,
    ) -> Result<()> {
        let (before, started) = (Reading::of_process()?, Instant::now());
        (0..count).try_for_each(|number| operation(self, number))?;
        let seconds = (self.subject.settle()? - started).as_secs_f64();
        let spent = Reading::of_process()?.since(&before);
        self.print(phase, count, seconds, spent.cpu_s(), spent.write_bytes)
    }

    fn print(&self, phase: &str, count: u64, seconds: f64, cpu_s: f64, written: u64) -> Result<()> {
        let heap = Memory::now()?.anonymous_bytes.saturating_sub(self.empty) as f64;
        let (of_key, of_all) = (count as f64, self.choice.keys as f64);
        println!(
            "{:5} {phase:12} {:>9.0} {:>8.2} {:>11.1} {:>16.1} {:>20.1}",
            format!("{:?}", self.set).to_lowercase(),
            of_key / seconds,
            1e6 * cpu_s / of_key,
            written as f64 / of_key,
            heap / of_all,
            disk_bytes(&self.choice.dir)? as f64 / of_all,
        );
        Ok(())
    }

    /// Lists short ranges, and all keys.
    fn list(&mut self, random: &mut Rng) -> Result<()> {
        let (before, started) = (Reading::of_process()?, Instant::now());
        let mut listed = 0;
        for _ in 0..RANGES {
            self.keys.write(random.u64(..self.choice.keys), &mut self.key);
            listed += self.list_from(RANGE_KEYS)?;
        }
        let spent = Reading::of_process()?.since(&before);
        self.print("ranges", listed, started.elapsed().as_secs_f64(), spent.cpu_s(), spent.write_bytes)?;
        let (before, started) = (Reading::of_process()?, Instant::now());
        self.key.clear();
        let listed = self.list_from(usize::MAX)?;
        let spent = Reading::of_process()?.since(&before);
        let left = self.choice.keys - self.choice.keys / DELETED_ONE_OF;
        ensure!(listed == left, "{listed} of {left} keys are listed");
        self.print("all", listed, started.elapsed().as_secs_f64(), spent.cpu_s(), spent.write_bytes)
    }

    /// Lists keys from the present one on, and checks their order. Returns their number.
    fn list_from(&self, limit: usize) -> Result<u64> {
        let (mut listed, mut last) = (0, Vec::new());
        self.subject.list(&self.key, limit, &mut |key| {
            ensure!(listed == 0 || *last < *key, "a list is not in the order of the keys");
            last.clear();
            last.extend_from_slice(key);
            listed += 1;
            Ok(())
        })?;
        Ok(listed)
    }
}
