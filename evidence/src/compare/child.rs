//! A process for one store and its phases, so that memory and counters are those of that store alone.

use crate::compare::limit::Membership;
use crate::compare::meter::{Device, Memory, Reading, Spent, disk_bytes};
use crate::compare::page_cache;
use crate::compare::peer::{self, Opening};
use crate::compare::phase::Phase;
use crate::compare::raw;
use crate::compare::row::Row;
use crate::compare::worker::{Bench, Done};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use siltstone_bench::keys::{Keys, Values};
use siltstone_bench::ycsb::Inserts;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU8;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The content of the page cache, of the store's files, before the store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageCache {
    /// Whatever it happens to contain.
    AsItIs,
    /// Everything.
    Warm,
    /// Nothing.
    Cold,
}

/// The work of a child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The name of the store, or `raw` for reads of the device.
    pub peer: String,
    /// How the store is opened.
    pub opening: Opening,
    /// Whether keys are in the order in which the load puts them.
    pub sequential: bool,
    /// The phases to run.
    pub phases: Vec<Phase>,
    /// The page cache before the first phase.
    pub page_cache: PageCache,
    /// The control group that limits the memory.
    pub membership: Option<Membership>,
    /// The duration of phases without an end of their own, in seconds.
    pub seconds: f64,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The file that stores the versions of all values between children.
    pub versions: PathBuf,
}

/// The seed of all values: every child must know which bytes are correct.
const VALUES_SEED: u64 = 301;

/// The time between two samples of the space that a store takes.
const SAMPLES_EVERY: Duration = Duration::from_millis(100);

/// Executes an order and prints a line of JSON per phase.
pub fn run(order: &Order) -> Result<()> {
    end_with_parent();
    let directory = &order.opening.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let versions = read_versions(order)?;
    match order.page_cache {
        PageCache::AsItIs => {}
        PageCache::Warm => page_cache::warm(directory)?,
        PageCache::Cold => page_cache::forget(directory)?,
    }
    if let Some(membership) = &order.membership {
        membership.join()?;
    }
    if order.peer == "raw" {
        run_raw(order)?
    } else {
        run_peer(order, &versions)?
    }
    let versions: Vec<u8> = versions.into_iter().map(AtomicU8::into_inner).collect();
    std::fs::write(&order.versions, versions).context("cannot keep the versions")
}

/// Makes the kernel end this process when the process that gave the order ends.
fn end_with_parent() {
    // SAFETY: the call only sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

fn read_versions(order: &Order) -> Result<Vec<AtomicU8>> {
    let bytes = match std::fs::read(&order.versions) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            vec![0; keys_max(&order.opening) as usize]
        }
        Err(error) => return Err(error).context("cannot read the versions"),
    };
    Ok(bytes.into_iter().map(AtomicU8::new).collect())
}

/// Returns the number of keys: those of the records, and as many that a phase may insert.
fn keys_max(opening: &Opening) -> u64 {
    2 * opening.keys
}

fn report(row: &Row) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, row)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn run_raw(order: &Order) -> Result<()> {
    let device = Device::under(&order.opening.directory)?;
    for phase in &order.phases {
        let before = Reading::of_process_and(&device)?;
        let duration = Duration::from_secs_f64(order.seconds);
        let done = raw::run(&order.opening.directory, phase.threads as u64, duration, order.seed)?;
        let spent = Reading::of_process_and(&device)?.since(&before);
        report(
            &Measured { phase: *phase, done, spent, settled: None, synced: spent, disk_bytes_max: None }
                .row(&order.opening),
        )?;
    }
    Ok(())
}

fn run_peer(order: &Order, versions: &[AtomicU8]) -> Result<()> {
    let opening = &order.opening;
    let keys = Keys::new(opening.key_size, keys_max(opening), !order.sequential)?;
    let inserts = Inserts::new(opening.keys);
    let values = Values::new(opening.value_size, VALUES_SEED);
    let device = Device::under(&opening.directory)?;
    let empty = Memory::now()?;
    let started = Instant::now();
    let peer = (peer::by_name(&order.peer)?.open)(opening)?;
    let open_seconds = started.elapsed().as_secs_f64();
    // Background work that opening has started is not charged to the first phase.
    peer.settle()?;
    for (number, phase) in order.phases.iter().enumerate() {
        let bench = Bench {
            peer: &*peer,
            keys: &keys,
            inserts: &inserts,
            values: &values,
            versions,
            duration: Duration::from_secs_f64(order.seconds),
            seed: order.seed.wrapping_add(number as u64),
        };
        let measured = measure(&bench, *phase, opening, &device)?;
        let memory = Memory::now()?;
        let ram_bytes = memory.anonymous_bytes.saturating_sub(empty.anonymous_bytes);
        report(&Row {
            open_seconds,
            memory,
            ram_bytes,
            ram_bytes_per_key: ram_bytes as f64 / opening.keys as f64,
            reported_ram_bytes: peer.memory_bytes()?,
            details: peer.details()?,
            ..measured.row(opening)
        })?;
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, phase: Phase, opening: &Opening, device: &Device) -> Result<Measured> {
    let before = Reading::of_process_and(device)?;
    let started = Instant::now();
    if !phase.writes() {
        let done = bench.run(phase)?;
        let spent = Reading::of_process_and(device)?.since(&before);
        return Ok(Measured { phase, done, spent, settled: None, synced: spent, disk_bytes_max: None });
    }
    let (measured, disk_bytes_max) = with_most_space(&opening.directory, || -> Result<_> {
        let done = bench.run(phase)?;
        let spent = Reading::of_process_and(device)?.since(&before);
        let settled = Some((bench.peer.settle()? - started).as_secs_f64());
        Ok((done, spent, settled))
    });
    let (done, spent, settled) = measured?;
    page_cache::sync(&opening.directory)?;
    let synced = Reading::of_process_and(device)?.since(&before);
    Ok(Measured { phase, done, spent, settled, synced, disk_bytes_max: Some(disk_bytes_max) })
}

/// Does `work`, and returns the most bytes that the files of a directory took meanwhile.
fn with_most_space<T>(directory: &Path, work: impl FnOnce() -> T) -> (T, u64) {
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || {
            let mut most = 0;
            loop {
                let ends = end.recv_timeout(SAMPLES_EVERY) != Err(RecvTimeoutError::Timeout);
                // A file may be removed while the directory is listed.
                most = most.max(disk_bytes(directory).unwrap_or(0));
                if ends {
                    return most;
                }
            }
        });
        let outcome = work();
        drop(ended);
        (outcome, sampler.join().unwrap_or(0))
    })
}

struct Measured {
    phase: Phase,
    done: Done,
    spent: Spent,
    /// When no background work was left, in seconds from the start.
    settled: Option<f64>,
    synced: Spent,
    disk_bytes_max: Option<u64>,
}

impl Measured {
    fn row(&self, opening: &Opening) -> Row {
        let Done { operations, puts, .. } = self.done;
        let per_operation = |amount: f64| amount / operations.max(1) as f64;
        let record_bytes = (opening.key_size + opening.value_size) as u64;
        let amplification = |bytes: u64| (puts > 0).then(|| bytes as f64 / (puts * record_bytes) as f64);
        let data_bytes = (opening.keys * record_bytes) as f64;
        Row {
            phase: self.phase.to_string(),
            keys: opening.keys,
            key_size: opening.key_size,
            value_size: opening.value_size,
            cache_bytes: opening.cache_bytes,
            operations,
            puts,
            ops_per_s: operations as f64 / self.spent.seconds,
            settled_ops_per_s: self.settled.map(|seconds| operations as f64 / seconds),
            synced_ops_per_s: self.settled.map(|_| operations as f64 / self.synced.seconds),
            gets: self.done.gets_us.quantiles(),
            puts_us: self.done.puts_us.quantiles_if_any(),
            cpu_us_per_op: per_operation(self.synced.cpu_s() * 1e6),
            read_bytes_per_op: per_operation(self.spent.read_bytes as f64),
            device_reads_per_op: per_operation(self.spent.device_reads as f64),
            write_amplification: amplification(self.synced.write_bytes),
            device_write_amplification: amplification(self.synced.device_write_bytes),
            space_amplification: disk_bytes(&opening.directory).unwrap_or(0) as f64 / data_bytes,
            space_amplification_max: self.disk_bytes_max.map(|bytes| bytes as f64 / data_bytes),
            space_given: opening.space,
            load_average: load_average(),
            spent: self.spent,
            spent_synced: self.synced,
            ..Row::default()
        }
    }
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}
