//! Traces made from what the papers on FlashStore (5.4, Table 3) and BloomStore (IV-A, Table I) publish of their own,
//! which are not public.
//!
//! - `xbox`: 5.5 million operations, 7.5 gets per set, keys of 92 bytes, values of 1,200; some gets find nothing. Added
//!   here: Zipf 0.99 over 500,000 keys; 1 % of the keys change their popularity per 500,000 operations.
//! - `dedup`: 27,748,824 chunks, each looked up; 12,082,492 are new and are set; keys of 20 bytes, values of
//!   44. Added here: 4 backups. Each repeats the one before in order, with runs of 64 new chunks.
//! - `linux`: 10,000,000 chunks, each looked up; 2,427,697 are new and are set; keys and values as those of
//!   `dedup`; the sources of 20 versions of Linux, here as 20 backups.
//! - `vx`: 9,000,000 chunks; 5,628,873 are new; the files of a group of engineers. Added here: runs of 64
//!   chunks that are new, or repeat those from a random place of the trace.

use crate::Result;
use crate::requests::Drifting;
use siltstone_bench::named;
use siltstone_bench::random::{self, Rng, mix};
use siltstone_bench::trace::{Kind, Operation, Source};

/// A trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synthetic {
    /// The state of games.
    Xbox,
    /// The index of the chunks of backups.
    Dedup,
    /// The same, of 20 versions of one set of files.
    Linux,
    /// The same, of files that are crawled once.
    Vx,
}

impl Synthetic {
    /// All traces.
    pub const ALL: [Synthetic; 4] = [Synthetic::Xbox, Synthetic::Dedup, Synthetic::Linux, Synthetic::Vx];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Synthetic::Xbox => "xbox",
            Synthetic::Dedup => "dedup",
            Synthetic::Linux => "linux",
            Synthetic::Vx => "vx",
        }
    }

    /// Returns the lengths of the keys and of the values, in bytes.
    pub fn lengths(self) -> (u16, u32) {
        match self {
            Synthetic::Xbox => (92, 1200),
            Synthetic::Dedup | Synthetic::Linux | Synthetic::Vx => (20, 44),
        }
    }

    /// Returns the number of keys that are set in a trace of this share of the paper's length: all keys that may be
    /// set, of `xbox`.
    pub fn keys(self, scale: f64) -> u64 {
        let of_paper = self.chunks().map_or(XBOX_KEYS, |chunks| chunks.new);
        (of_paper as f64 * scale).round().max(1.0) as u64
    }

    /// Returns the number of lookups of a trace of this share of the paper's length.
    pub fn lookups(self, scale: f64) -> u64 {
        let of_paper = self
            .chunks()
            .map_or(XBOX_OPERATIONS as f64 * (1.0 - 1.0 / (1.0 + XBOX_GETS_PER_SET)), |chunks| {
                chunks.all as f64
            });
        (of_paper * scale).round() as u64
    }

    /// Makes the trace at this share of the paper's length. Equal seeds give equal traces.
    ///
    /// # Errors
    /// [`siltstone_bench::Error::Settings`] if the trace would be empty.
    pub fn open(self, scale: f64, seed: u64) -> Result<Source> {
        Ok(match self.chunks() {
            None => Box::new(Xbox::new(self, scale, seed)?.map(Ok)),
            Some(chunks) => Box::new(Dedup::new(self, chunks, scale, seed).map(Ok)),
        })
    }

    /// Returns what is published of the chunks of a trace of them.
    fn chunks(self) -> Option<Chunks> {
        Some(match self {
            Synthetic::Xbox => return None,
            Synthetic::Dedup => Chunks { all: 27_748_824, new: 12_082_492, backups: Some(4) },
            Synthetic::Linux => Chunks { all: 10_000_000, new: 2_427_697, backups: Some(20) },
            Synthetic::Vx => Chunks { all: 9_000_000, new: 5_628_873, backups: None },
        })
    }

    /// Returns the operation that puts a key of `xbox`, below [`keys`](Self::keys), or a chunk, from 1 on.
    pub fn put(self, number: u64) -> Operation {
        self.operation(Kind::Set, number)
    }

    fn operation(self, kind: Kind, key: u64) -> Operation {
        let (key_length, value_length) = self.lengths();
        Operation { kind, key: mix(key), key_length, value_length, time_ms: 0, time_to_live_s: 0 }
    }
}

named!(Synthetic);

const XBOX_OPERATIONS: u64 = 5_500_000;
const XBOX_GETS_PER_SET: f64 = 7.5;
const XBOX_KEYS: u64 = 500_000;
const XBOX_SKEW: f64 = 0.99;
const XBOX_DRIFT: f64 = 0.01;

/// The chunks that are new one after the other, or repeat others in order.
const DEDUP_RUN: u64 = 64;

/// The chunks of a trace.
#[derive(Debug, Clone, Copy)]
struct Chunks {
    all: u64,
    new: u64,
    /// The backups of the same files; without, chunks repeat those of any place before.
    backups: Option<u64>,
}

struct Xbox {
    trace: Synthetic,
    keys: Drifting,
    random: Rng,
    left: u64,
}

impl Xbox {
    fn new(trace: Synthetic, scale: f64, seed: u64) -> Result<Xbox> {
        let keys = Drifting::new(trace.keys(scale), XBOX_SKEW, XBOX_DRIFT, seed)?;
        let left = (XBOX_OPERATIONS as f64 * scale).round() as u64;
        Ok(Xbox { trace, keys, random: random::stream(seed, 3), left })
    }
}

impl Iterator for Xbox {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let is_set = self.random.f64() * (1.0 + XBOX_GETS_PER_SET) < 1.0;
        let kind = if is_set { Kind::Set } else { Kind::Get };
        self.keys.next().map(|key| self.trace.operation(kind, key.into()))
    }
}

struct Dedup {
    trace: Synthetic,
    random: Rng,
    /// The chunks of the backup before, and of this one. Without backups, this one has all.
    before: Vec<u64>,
    backup: Vec<u64>,
    chunks_per_backup: Option<u64>,
    /// Without backups, the place of the next chunk that a run repeats.
    repeated: usize,
    chunks_left: u64,
    new_left: u64,
    new: u64,
    /// The chunks that follow in the same run, and whether they are new.
    run: (u64, bool),
    /// A chunk that was looked up and is new.
    to_set: Option<u64>,
}

impl Dedup {
    fn new(trace: Synthetic, chunks: Chunks, scale: f64, seed: u64) -> Dedup {
        let scaled = |count: u64| (count as f64 * scale).round() as u64;
        Dedup {
            trace,
            random: random::stream(seed, 4),
            before: Vec::new(),
            backup: Vec::new(),
            chunks_per_backup: chunks.backups.map(|backups| scaled(chunks.all).div_ceil(backups)),
            repeated: 0,
            chunks_left: scaled(chunks.all),
            new_left: scaled(chunks.new),
            new: 0,
            run: (0, false),
            to_set: None,
        }
    }

    /// Returns the next chunk, and whether it is new.
    fn chunk(&mut self) -> Option<(u64, bool)> {
        if self.chunks_left == 0 {
            return None;
        }
        if Some(self.backup.len() as u64) == self.chunks_per_backup {
            self.before = std::mem::take(&mut self.backup);
        }
        if self.run.0 == 0 {
            // As many runs are new as are needed for the chunks that are left.
            let share = self.new_left as f64 / self.chunks_left as f64;
            self.run = (DEDUP_RUN, self.random.f64() < share);
            self.repeated = self.random.usize(..self.backup.len().max(1));
        }
        self.run.0 -= 1;
        let old = match self.chunks_per_backup {
            Some(_) => self.before.get(self.backup.len()).copied(),
            None => self.backup.get(self.repeated).copied(),
        };
        self.repeated += 1;
        let must_be_new = self.new_left >= self.chunks_left;
        let chunk = match old {
            Some(old) if self.new_left == 0 || !(self.run.1 || must_be_new) => (old, false),
            _ => {
                self.new += 1;
                (self.new, true)
            }
        };
        self.new_left = self.new_left.saturating_sub(u64::from(chunk.1));
        self.chunks_left -= 1;
        self.backup.push(chunk.0);
        Some(chunk)
    }
}

impl Iterator for Dedup {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if let Some(chunk) = self.to_set.take() {
            return Some(self.trace.operation(Kind::Set, chunk));
        }
        let (chunk, is_new) = self.chunk()?;
        self.to_set = is_new.then_some(chunk);
        Some(self.trace.operation(Kind::Get, chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Counted {
        gets: u64,
        sets: u64,
        found: u64,
        keys: HashSet<u64>,
    }

    fn count(trace: Synthetic, scale: f64) -> Counted {
        let mut counted = Counted { gets: 0, sets: 0, found: 0, keys: HashSet::new() };
        for operation in trace.open(scale, 7).unwrap() {
            let operation = operation.unwrap();
            assert_eq!((operation.key_length, operation.value_length), trace.lengths());
            match operation.kind {
                Kind::Get => {
                    counted.gets += 1;
                    counted.found += u64::from(counted.keys.contains(&operation.key));
                }
                _ => {
                    counted.sets += 1;
                    counted.keys.insert(operation.key);
                }
            }
        }
        counted
    }

    #[test]
    fn the_traces_have_the_counts_that_the_paper_publishes() {
        let scale = 0.02;
        let xbox = count(Synthetic::Xbox, scale);
        assert_eq!(xbox.gets + xbox.sets, 110_000);
        assert!(
            (xbox.gets as f64 / xbox.sets as f64 / 7.5 - 1.0).abs() < 0.03,
            "{} {}",
            xbox.gets,
            xbox.sets
        );
        assert!(xbox.found < xbox.gets && xbox.found > xbox.gets / 4, "{}", xbox.found);
        let dedup = count(Synthetic::Dedup, scale);
        assert_eq!((dedup.gets, dedup.sets), (554_976, 241_650));
        let linux = count(Synthetic::Linux, scale);
        assert_eq!((linux.gets, linux.sets), (200_000, 48_554));
        let vx = count(Synthetic::Vx, scale);
        assert_eq!((vx.gets, vx.sets), (180_000, 112_577));
        for trace in [dedup, linux, vx] {
            assert_eq!(trace.keys.len() as u64, trace.sets, "a chunk is set once");
            assert_eq!(trace.found, trace.gets - trace.sets, "all others are found");
        }
    }

    #[test]
    fn the_traces_of_bloomstore_have_the_published_operations_and_ratios() {
        for (trace, operations, ratio) in
            [(Synthetic::Linux, 12_427_697, 4.1), (Synthetic::Vx, 14_628_873, 1.6)]
        {
            let chunks = trace.chunks().unwrap();
            assert_eq!(chunks.all + chunks.new, operations);
            assert!((chunks.all as f64 / chunks.new as f64 - ratio).abs() < 0.05);
        }
    }
}
