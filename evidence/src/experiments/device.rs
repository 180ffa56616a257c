//! The drive: sequential and random reads and writes of one file that is written once before. SILT's section 6,
//! FlashKey's Table I, FlashStore's Figure 2. Each thread has one request in flight.

use crate::Result;
use crate::conditions::Conditions;
use crate::experiments::quantities::{MB_PER_S, OPERATIONS};
use crate::point::{Points, Reading};
use crate::quantity::{MegabytesPerSecond, OperationsPerSecond, Quantity, Quoted, Times};
use crate::registry::Experiment;
use siltstone_bench::clock::spawn_scoped;
use siltstone_bench::random::mix;
use siltstone_device::{AlignedBuffer, Directory, File, Purpose};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FILE: &str = "blocks";
/// The length of the file at scale 1, in bytes.
const FILE_BYTES: u64 = 512 << 20;
/// The bytes of a write that makes the file, and of a request at full speed.
const LARGE_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = 4096;
/// The bytes of a record of SILT.
const RECORD_BYTES: u64 = 1024;
const IN_FLIGHT: usize = 64;
const DURATION: Duration = Duration::from_secs(2);

/// The drive.
pub static EXPERIMENT: Experiment =
    Experiment { name: "device", cost_s: 60, direct: true, counts: false, rates: true, run };

const SEQUENTIAL_WRITES: Quantity<Times> = Quantity::equal("sequential writes per random write");
const SEQUENTIAL_READS: Quantity<Times> = Quantity::equal("sequential reads per sequential write");

#[derive(Debug, Clone, Copy)]
struct Pattern {
    name: &'static str,
    writes: bool,
    is_random: bool,
}

const PATTERNS: [Pattern; 4] = [
    Pattern { name: "sequential reads", writes: false, is_random: false },
    Pattern { name: "random reads", writes: false, is_random: true },
    Pattern { name: "sequential writes", writes: true, is_random: false },
    Pattern { name: "random writes", writes: true, is_random: true },
];

fn run(conditions: &Conditions, points: &mut Points) -> Result<()> {
    let directory = Directory::create_system(conditions.place.directory(), conditions.access)?;
    let file = Blocks::fill(&directory, conditions)?;
    let mut rates = Vec::new();
    for pattern in PATTERNS {
        conditions.check()?;
        let rate = file.rate(conditions, pattern, PAGE_BYTES, IN_FLIGHT)?;
        let series = format!("{} of 4 KiB", pattern.name);
        points.add("flashstore/figure-2", OPERATIONS.of(series).is(Reading::time(rate)));
        rates.push(rate);
        table_i(pattern, rate, points);
    }
    if let [reads, _, writes, random_writes] = rates[..] {
        let mut add = |quantity: Quantity<Times>, paper, value| {
            let point = quantity.of("").paper(Quoted::ratio(paper)).is(Reading::time(value));
            points.add("flashstore/figure-2", point);
        };
        add(SEQUENTIAL_WRITES, 3.0, writes / random_writes);
        add(SEQUENTIAL_READS, 6.0, reads / writes);
    }
    section_6(conditions, &file, points)?;
    drop(file);
    Ok(conditions.place.clear()?)
}

/// Returns the random reads of 4 KiB per second of a file, by as many threads with one request each.
pub(super) fn random_reads_per_s(conditions: &Conditions, threads: usize) -> Result<f64> {
    let directory = Directory::create_system(conditions.place.directory(), conditions.access)?;
    let [_, random_reads, ..] = PATTERNS;
    let file = Blocks::fill(&directory, conditions)?;
    let rate = file.rate(conditions, random_reads, PAGE_BYTES, threads)?;
    drop(file);
    conditions.place.clear()?;
    Ok(rate)
}

/// FlashKey's Table I has two drives; these are the values of the faster one, P4610.
fn table_i(pattern: Pattern, rate: f64, points: &mut Points) {
    let paper: Quoted<MegabytesPerSecond> = Quoted::text(match (pattern.is_random, pattern.writes) {
        (true, false) => 2510.0,
        (true, true) => 780.0,
        (false, false) => 3200.0,
        (false, true) => 2080.0,
    });
    let mb_per_s = Reading::time(rate * PAGE_BYTES as f64 / 1e6);
    points.add("flashkey/table-i", MB_PER_S.of(pattern.name).paper(paper).is(mb_per_s));
}

/// SILT's drive.
fn section_6(conditions: &Conditions, file: &Blocks, points: &mut Points) -> Result<()> {
    let [sequential_reads, random_reads, sequential_writes, _] = PATTERNS;
    let paper: Quoted<OperationsPerSecond> = Quoted::text(48_000.0);
    let rate = file.rate(conditions, random_reads, RECORD_BYTES, IN_FLIGHT)?;
    let point = OPERATIONS.of("random reads of 1,024 B").paper(paper).is(Reading::time(rate));
    points.add("silt/section-6-drive", point);
    for (pattern, paper) in [(sequential_reads, 256.0), (sequential_writes, 233.0)] {
        let rate = file.rate(conditions, pattern, LARGE_BYTES.min(file.length), 1)?;
        let mb_per_s = Reading::time(rate * LARGE_BYTES.min(file.length) as f64 / 1e6);
        let point = MB_PER_S.of(pattern.name).paper(Quoted::text(paper)).is(mb_per_s);
        points.add("silt/section-6-drive", point);
    }
    Ok(())
}

/// A file of blocks.
struct Blocks {
    file: File,
    length: u64,
}

impl Blocks {
    /// Writes the file, and drops it from the page cache.
    fn fill(directory: &Directory, conditions: &Conditions) -> Result<Blocks> {
        let file = directory.create(FILE, conditions.access)?;
        let length = conditions.number(FILE_BYTES / PAGE_BYTES) * PAGE_BYTES;
        let mut piece = AlignedBuffer::default();
        for offset in (0..length).step_by(LARGE_BYTES as usize) {
            conditions.check()?;
            piece.resize(LARGE_BYTES.min(length - offset) as usize);
            piece.fill((offset >> 20) as u8);
            file.write(Purpose::Log, offset, &piece)?;
        }
        file.sync(Purpose::Log)?;
        file.drop_cache();
        Ok(Blocks { file, length })
    }

    /// Returns the requests per second. The time of writes includes that of a sync at their end.
    fn rate(&self, conditions: &Conditions, pattern: Pattern, bytes: u64, threads: usize) -> Result<f64> {
        let (next, blocks) = (AtomicU64::new(0), (self.length / bytes).max(1));
        let end = conditions.duration(DURATION);
        let begun = Instant::now();
        let request = |buffer: &mut AlignedBuffer| -> siltstone::Result<()> {
            let number = next.fetch_add(1, Relaxed);
            let block = if pattern.is_random { mix(conditions.seed ^ number) } else { number } % blocks;
            match pattern.writes {
                true => Ok(self.file.write(Purpose::Put, block * bytes, buffer)?),
                false => {
                    Ok(self.file.read(Purpose::Get, block * bytes, bytes as usize, buffer).map(|_| ())?)
                }
            }
        };
        let work = || {
            let mut buffer = AlignedBuffer::default();
            buffer.resize(bytes as usize);
            // At least one request: a thread may get a processor only after the end.
            loop {
                request(&mut buffer)?;
                if begun.elapsed() >= end || conditions.stop.load(Relaxed) {
                    return Ok::<(), siltstone::Error>(());
                }
            }
        };
        std::thread::scope(|scope| -> Result<()> {
            let threads = (0..threads).map(|_| spawn_scoped(scope, work));
            let threads = threads.collect::<siltstone_bench::Result<Vec<_>>>()?;
            for thread in threads {
                thread.join().map_err(|_| siltstone_bench::Error::Panicked)??;
            }
            Ok(())
        })?;
        if pattern.writes {
            self.file.sync(Purpose::Put)?;
        }
        Ok(next.load(Relaxed) as f64 / begun.elapsed().as_secs_f64())
    }
}
