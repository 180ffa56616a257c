//! Figure 2: sequential and random reads and writes of blocks of 4 KiB. The blocks are those of one file that is
//! written once before, and each thread has one request in flight.

use super::super::{Figure, OnFigure, Settings, report};
use crate::{Error, Result};
use siltstone_bench::clock::spawn_scoped;
use siltstone_bench::place::Place;
use siltstone_bench::random::mix;
use siltstone_device::{AlignedBuffer, Directory, File, Purpose};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SOURCE: &str = "Figure 2";
const FILE: &str = "blocks";
const BLOCK_BYTES: u64 = 4096;
/// The bytes of a write that makes the file.
const FILL_BYTES: u64 = 1 << 20;
/// The time of a pattern, unless it is given.
const DURATION: Duration = Duration::from_secs(10);
/// The paper's quotients: sequential writes per random one, and sequential reads per sequential write.
const PAPER_WRITES: f64 = 3.0;
const PAPER_READS: f64 = 6.0;

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

/// Measures all patterns, until it is interrupted.
pub(in super::super) fn run(settings: &Settings, place: &Place, on_figure: OnFigure<'_>) -> Result<()> {
    if settings.num == 0 || settings.threads == 0 {
        return Err(Error::settings("num, which is the blocks of the file, and threads are at least 1"));
    }
    let directory = Directory::create_system(place.directory(), settings.access)?;
    let file = fill(&directory, settings)?;
    let mut rates = Vec::new();
    for pattern in PATTERNS {
        if settings.stop.load(Relaxed) {
            break;
        }
        let rate = measure(settings, &file, pattern)?;
        let what = format!("{} of 4 KiB per second, {} in flight", pattern.name, settings.threads);
        report(on_figure, &Figure { source: SOURCE, what, paper: None, theory: None, measured: rate })?;
        rates.push(rate);
    }
    drop(file);
    place.clear()?;
    let [reads, _, writes, random_writes] = rates[..] else { return Ok(()) };
    let mut quotient = |what: &str, paper, measured| {
        let what = what.to_owned();
        report(on_figure, &Figure { source: SOURCE, what, paper: Some(paper), theory: None, measured })
    };
    quotient("sequential writes per random write", PAPER_WRITES, writes / random_writes)?;
    quotient("sequential reads per sequential write", PAPER_READS, reads / writes)
}

/// Writes the file, and drops it from the page cache.
fn fill(directory: &Directory, settings: &Settings) -> Result<File> {
    let file = directory.create(FILE, settings.access)?;
    let mut piece = AlignedBuffer::default();
    let length = settings.num * BLOCK_BYTES;
    for offset in (0..length).step_by(FILL_BYTES as usize) {
        if settings.stop.load(Relaxed) {
            break;
        }
        piece.resize(FILL_BYTES.min(length - offset) as usize);
        piece.fill((offset >> 20) as u8);
        file.write(Purpose::Log, offset, &piece)?;
    }
    file.sync(Purpose::Log)?;
    file.drop_cache();
    Ok(file)
}

/// Returns the requests per second. The time of writes includes that of a sync at their end.
fn measure(settings: &Settings, file: &File, pattern: Pattern) -> Result<f64> {
    let next = AtomicU64::new(0);
    let end = settings.duration.unwrap_or(DURATION);
    let begun = Instant::now();
    let request = |buffer: &mut AlignedBuffer| -> siltstone::Result<()> {
        let number = next.fetch_add(1, Relaxed);
        let block = if pattern.is_random { mix(settings.seed ^ number) } else { number } % settings.num;
        match pattern.writes {
            true => Ok(file.write(Purpose::Put, block * BLOCK_BYTES, buffer)?),
            false => {
                Ok(file.read(Purpose::Get, block * BLOCK_BYTES, BLOCK_BYTES as usize, buffer).map(|_| ())?)
            }
        }
    };
    let work = || {
        let mut buffer = AlignedBuffer::default();
        buffer.resize(BLOCK_BYTES as usize);
        // At least one request: a thread may get a processor only after the end.
        loop {
            request(&mut buffer)?;
            if begun.elapsed() >= end || settings.stop.load(Relaxed) {
                return Ok::<(), siltstone::Error>(());
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = (0..settings.threads).map(|_| spawn_scoped(scope, work));
        let threads = threads.collect::<siltstone_bench::Result<Vec<_>>>()?;
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| siltstone_bench::Error::Panicked)??;
            Ok::<(), Error>(())
        })
    })?;
    if pattern.writes {
        file.sync(Purpose::Put)?;
    }
    Ok(next.load(Relaxed) as f64 / begun.elapsed().as_secs_f64())
}
