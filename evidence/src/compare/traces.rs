//! The traces of FlashStore's paper (Figures 5 and 7) on its engines and on other stores, with direct I/O where a store
//! supports it, and within a limit of memory, so that buffered stores read from the device as well.

use crate::compare::limit::{Group, Membership};
use crate::compare::meter::{Device, Memory, Reading};
use crate::compare::peer::{self, Opening, Peer};
use crate::compare::raw;
use crate::synthetic::Synthetic;
use anyhow::{Context, Result, bail, ensure};
use siltstone_bench::keys::Values;
use siltstone_bench::named::by_name;
use siltstone_bench::trace::{Kind, Operation};
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the raw device is read.
const RAW_TIME: Duration = Duration::from_secs(2);

/// The options of the comparison.
#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    /// The traces, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = by_name::<Synthetic>(), default_values = ["xbox", "dedup"])]
    trace: Vec<Synthetic>,
    /// The number of keys; the traces are as much shorter than the paper's as they have fewer keys.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// The number of threads.
    #[arg(long, default_value_t = 16)]
    threads: usize,
    /// The stores, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["flashstore", "siltstone", "rocksdb", "berkeleydb"])]
    peers: Vec<String>,
    /// The size of caches, in MB (2^20 bytes).
    #[arg(long, default_value_t = 8)]
    cache_mb: u64,
    /// The memory of a process, page cache included, without the trace, in MB.
    #[arg(long, default_value_t = 64)]
    memory_mb: u64,
    /// The directory of the stores.
    #[arg(long, default_value = "evidence/target/traces")]
    dir: PathBuf,
    /// The directory of a slow disk: the other stores are on it, and FlashStore has it as its disk. Without it all
    /// records are on flash, in `flashkey`.
    #[arg(long)]
    disk: Option<PathBuf>,
    /// The size of FlashStore's flash with a disk, as a share of the records.
    #[arg(long, default_value_t = 0.25)]
    share: f64,
    /// Put every key of the trace before it begins: only `xbox`, whose keys are popular from then on.
    #[arg(long)]
    load: bool,
    /// End after this number of seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// The seed of the traces.
    #[arg(long, default_value_t = 301)]
    seed: u64,
    /// Runs the stores in this process instead of one process for each.
    #[arg(long, hide = true)]
    here: bool,
    /// The control group of the process, as JSON.
    #[arg(long, hide = true)]
    membership: Option<String>,
}

/// Runs the stores in turn, each in a process of its own.
pub fn run(choice: &Choice) -> Result<()> {
    if choice.here {
        return run_here(choice.trace[0], &choice.peers[0], choice);
    }
    println!(
        "trace  store         operations      ops/s   settled  us CPU  reads/op  of raw  WA     heap, B per key"
    );
    for trace in &choice.trace {
        for name in &choice.peers {
            let group = Group::with_limit(choice.memory_mb << 20).context("memory cannot be limited here")?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["traces", "--here", "--trace", trace.name(), "--peers", name]);
            command.arg("--membership").arg(serde_json::to_string(&group.membership())?);
            command.arg("--dir").arg(&choice.dir);
            if let Some(disk) = &choice.disk {
                command.arg("--disk").arg(disk);
            }
            if choice.load {
                command.arg("--load");
            }
            for (option, value) in [
                ("--keys", choice.keys.to_string()),
                ("--threads", choice.threads.to_string()),
                ("--cache-mb", choice.cache_mb.to_string()),
                ("--share", choice.share.to_string()),
                ("--seconds", choice.seconds.to_string()),
                ("--seed", choice.seed.to_string()),
            ] {
                command.args([option, &value]);
            }
            if !command.status()?.success() {
                println!("{:6} {name:12} has failed", trace.name());
            }
        }
    }
    Ok(())
}

/// An operation of a trace, and whether a get finds its key.
struct Sent {
    operation: Operation,
    number: u64,
    is_found: bool,
}

/// Distributes the operations to threads by their keys.
fn distribute(trace: Synthetic, choice: &Choice) -> Result<Vec<Vec<Sent>>> {
    let mut threads: Vec<Vec<Sent>> = (0..choice.threads).map(|_| Vec::new()).collect();
    let mut known: HashSet<u64> =
        if choice.load { (0..choice.keys).map(|key| trace.put(key).key).collect() } else { HashSet::new() };
    let scale = choice.keys as f64 / trace.keys(1.0) as f64;
    for (number, operation) in (0..).zip(trace.open(scale, choice.seed)?) {
        let operation = operation?;
        let is_found = known.contains(&operation.key);
        if operation.kind == Kind::Set {
            known.insert(operation.key);
        }
        threads[(operation.key % choice.threads as u64) as usize].push(Sent { operation, number, is_found });
    }
    Ok(threads)
}

#[derive(Default)]
struct Done {
    operations: u64,
    puts: u64,
}

fn run_here(trace: Synthetic, name: &str, choice: &Choice) -> Result<()> {
    ensure!(choice.threads > 0, "there is at least one thread");
    ensure!(!choice.load || trace == Synthetic::Xbox, "only the keys of `xbox` are put before");
    let is_flashstore = name == "flashstore";
    let directory = match &choice.disk {
        Some(disk) if !is_flashstore => disk.join("store"),
        _ => choice.dir.join("store"),
    };
    std::fs::create_dir_all(&directory)?;
    let threads = distribute(trace, choice)?;
    if let Some(membership) = &choice.membership {
        serde_json::from_str::<Membership>(membership)?.join()?;
    }
    let (key_bytes, value_bytes) = trace.lengths();
    let opening = Opening {
        directory: directory.clone(),
        keys: choice.keys,
        key_size: key_bytes.into(),
        value_size: value_bytes as usize,
        cache_bytes: choice.cache_mb << 20,
        direct: true,
        space: None,
        ordered: false,
        disk: choice.disk.as_ref().filter(|_| is_flashstore).map(|disk| (disk.join("disk"), choice.share)),
        small_segments: true,
        record_cache: false,
    };
    let device = Device::under(&directory)?;
    let empty = Memory::now()?.anonymous_bytes;
    let peer = (peer::by_name(name)?.open)(&opening)?;
    if choice.load {
        load(&*peer, trace, choice.keys)?;
        peer.settle()?;
    }
    let (before, started) = (Reading::of_process_and(&device)?, Instant::now());
    let end = started + Duration::from_secs_f64(choice.seconds);
    let done = send(&*peer, &threads, value_bytes as usize, end)?;
    let spent = Reading::of_process_and(&device)?.since(&before);
    let settled_s = (peer.settle()? - started).as_secs_f64();
    let written = Reading::of_process_and(&device)?.since(&before).write_bytes;
    let heap = Memory::now()?.anonymous_bytes.saturating_sub(empty);
    drop(peer);
    let raw = raw::run(&directory, choice.threads as u64, RAW_TIME, choice.seed)?.operations as f64;
    let operations = done.operations as f64;
    let reads = spent.device_reads as f64 / operations;
    println!(
        "{:6} {name:12} {:>11} {:>10.0} {:>9.0} {:>7.2} {reads:>9.3} {:>7.2} {:>5.2} {:>10.2}",
        trace.name(),
        done.operations,
        operations / spent.seconds,
        operations / settled_s,
        1e6 * spent.cpu_s() / operations,
        operations / spent.seconds * reads / (raw / RAW_TIME.as_secs_f64()),
        written as f64 / (done.puts.max(1) * (u64::from(key_bytes) + u64::from(value_bytes))) as f64,
        heap as f64 / choice.keys as f64,
    );
    for directory in std::iter::once(directory).chain(opening.disk.map(|(disk, _)| disk)) {
        std::fs::remove_dir_all(&directory).context("cannot remove the store")?;
    }
    Ok(())
}

/// Puts every key of a trace.
fn load(peer: &dyn Peer, trace: Synthetic, keys: u64) -> Result<()> {
    let values = Values::new(trace.lengths().1 as usize, 0);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for number in 0..keys {
        let operation = trace.put(number);
        operation.write_key(&mut key);
        values.write(operation.key, 0, &mut value);
        peer.put(&key, &value)?;
    }
    Ok(())
}

fn send(peer: &dyn Peer, threads: &[Vec<Sent>], value_bytes: usize, end: Instant) -> Result<Done> {
    std::thread::scope(|scope| {
        let start = |sent| scope.spawn(move || send_all(peer, sent, value_bytes, end));
        let workers: Vec<_> = threads.iter().map(Vec::as_slice).map(start).collect();
        let mut all = Done::default();
        for worker in workers {
            match worker.join() {
                Ok(done) => {
                    let Done { operations, puts } = done?;
                    (all.operations, all.puts) = (all.operations + operations, all.puts + puts);
                }
                Err(_) => bail!("a thread ended in a panic"),
            }
        }
        Ok(all)
    })
}

fn send_all(peer: &dyn Peer, sent: &[Sent], value_bytes: usize, end: Instant) -> Result<Done> {
    let values = Values::new(value_bytes, 0);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut done = Done::default();
    for Sent { operation, number, is_found } in sent {
        if Instant::now() >= end {
            break;
        }
        operation.write_key(&mut key);
        if operation.kind == Kind::Set {
            values.write(operation.key, *number, &mut value);
            peer.put(&key, &value)?;
            done.puts += 1;
        } else {
            value.clear();
            let found = peer.get(&key, &mut |found| value.extend_from_slice(found))?;
            ensure!(found == *is_found, "operation {number} finds a key, or misses it, wrongly");
            ensure!(!found || values.is_of(operation.key, &value), "operation {number} finds a wrong value");
        }
        done.operations += 1;
    }
    Ok(done)
}
