//! The keys of several tables and runs in one order.

use super::batch::Batch;
use super::memtable::Memtable;
use super::run::Run;
use super::{Direction, KeyState};
use crate::error::Result;
use siltstone_device::{Purpose, ReadRequest, read_batch};
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

/// The keys that are read at once from a table in memory.
const TABLE_KEYS: usize = 128;

/// A range of keys.
pub type OwnedBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn borrowed((start, end): &OwnedBounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (start.as_ref().map(Vec::as_slice), end.as_ref().map(Vec::as_slice))
}

/// Returns whether no key can be within the bounds.
fn is_empty(bounds: &OwnedBounds) -> bool {
    // Such bounds get no source: `BTreeMap::range` panics for some of them.
    match borrowed(bounds) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            start >= end
        }
        _ => false,
    }
}

/// Where keys come from.
#[derive(Clone)]
pub(super) enum Origin {
    Table(Arc<Memtable>),
    Run(Arc<Run>),
}

/// The keys of one origin within a range.
struct Source {
    origin: Origin,
    /// What is still to be read: keys of a table, or pages of a run.
    left: OwnedBounds,
    pages: Range<usize>,
    has_more: bool,
    /// The pages of the next read. Each read has twice as many as the one before.
    pages_at_once: usize,
    batch: Batch,
}

/// How a cursor reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub direction: Direction,
    /// States are those at the end of this epoch.
    pub epoch: u64,
    pub purpose: Purpose,
    /// The most pages of a run that are read at once, and those of the first read.
    pub pages_max: usize,
    pub pages_min: usize,
}

impl Source {
    fn new(origin: Origin, bounds: &OwnedBounds, pages_at_once: usize) -> Source {
        let pages = match &origin {
            Origin::Table(_) => 0..0,
            Origin::Run(run) => run.pages_within(borrowed(bounds)),
        };
        let left = bounds.clone();
        Source { origin, left, pages, has_more: true, pages_at_once, batch: Batch::default() }
    }

    /// Reads until there is a key, or none is left.
    fn fill(&mut self, reading: &Reading, bounds: &OwnedBounds) -> Result<()> {
        while self.has_more && self.batch.first().is_none() {
            self.batch.clear();
            match &self.origin {
                Origin::Table(table) => {
                    let (batch, left) = (&mut self.batch, borrowed(&self.left));
                    self.has_more = table.read(left, reading.direction, reading.epoch, TABLE_KEYS, batch);
                    // The table is not locked between two reads, so the next one begins after this key.
                    if let Some(last) = self.batch.last().map(<[u8]>::to_vec) {
                        match reading.direction {
                            Direction::Ascending => self.left.0 = Bound::Excluded(last),
                            Direction::Descending => self.left.1 = Bound::Excluded(last),
                        }
                    }
                }
                Origin::Run(run) => {
                    let run = run.clone();
                    let pages = self.take_pages(reading);
                    run.read(reading.purpose, pages, &mut self.batch)?;
                    self.arrange(reading, bounds);
                }
            }
        }
        Ok(())
    }

    /// Returns the pages of the next read of a run.
    fn take_pages(&mut self, reading: &Reading) -> Range<usize> {
        let count = self.pages_at_once.min(self.pages.len());
        let Range { start, end } = self.pages;
        let pages = match reading.direction {
            Direction::Ascending => start..start + count,
            Direction::Descending => end - count..end,
        };
        self.pages = match reading.direction {
            Direction::Ascending => pages.end..end,
            Direction::Descending => start..pages.start,
        };
        self.pages_at_once = (2 * self.pages_at_once).min(reading.pages_max);
        self.has_more = !self.pages.is_empty();
        pages
    }

    /// Brings the keys of pages that were read into the order of the range.
    fn arrange(&mut self, reading: &Reading, bounds: &OwnedBounds) {
        let is_within = |key: &[u8]| RangeBounds::<[u8]>::contains(&borrowed(bounds), key);
        self.batch.arrange(reading.direction, is_within);
    }
}

/// A cursor over keys, each once, with its state in the newest origin that has it.
pub(super) struct Cursor {
    /// The newest first.
    sources: Vec<Source>,
    bounds: OwnedBounds,
    reading: Reading,
    is_begun: bool,
    /// The present key.
    key: Vec<u8>,
}

impl Cursor {
    /// Begins a range of the keys of some origins, the newest first.
    pub fn new(origins: impl IntoIterator<Item = Origin>, bounds: OwnedBounds, reading: Reading) -> Cursor {
        let origins = origins.into_iter().take_while(|_| !is_empty(&bounds));
        let sources = origins.map(|origin| Source::new(origin, &bounds, reading.pages_min)).collect();
        // Merges read more at once, and one run after the other, so that they take little memory.
        let is_begun = reading.pages_min > 1;
        Cursor { sources, bounds, reading, is_begun, key: Vec::new() }
    }

    /// Reads the first pages of all runs. The reads overlap.
    fn begin(&mut self) -> Result<()> {
        self.is_begun = true;
        // In one batch, so that a range waits for the slowest run instead of one run after the other.
        let mut reading = Vec::new();
        for source in &mut self.sources {
            if let Origin::Run(run) = &source.origin {
                let run = run.clone();
                let pages = source.take_pages(&self.reading);
                reading.push((run, pages, source));
            }
        }
        let files: Vec<_> =
            reading.iter().map(|(run, pages, _)| (run.clone(), run.extent_of(pages))).collect();
        let reads = files.iter().map(|(run, (offset, length))| ReadRequest {
            file: run.file().file(),
            offset: *offset,
            length: *length,
        });
        read_batch(self.reading.purpose, &reads.collect::<Vec<_>>(), &mut Vec::new(), |number, bytes| {
            let (run, pages, source) = &mut reading[number];
            run.decode(pages.clone(), bytes?, &mut source.batch)?;
            source.arrange(&self.reading, &self.bounds);
            Ok(())
        })
    }

    /// Returns the next key. After an error the cursor is to be dropped.
    pub fn next(&mut self) -> Result<Option<(&[u8], KeyState)>> {
        if !self.is_begun {
            self.begin()?;
        }
        let mut first: Option<usize> = None;
        for number in 0..self.sources.len() {
            self.sources[number].fill(&self.reading, &self.bounds)?;
            let Some((key, _)) = self.sources[number].batch.first() else { continue };
            // Only a key that precedes the others replaces the choice, so of equal keys the newest source is chosen.
            let is_before = match first.and_then(|first| self.sources[first].batch.first()) {
                None => true,
                Some((other, _)) if self.reading.direction == Direction::Ascending => key < other,
                Some((other, _)) => key > other,
            };
            if is_before {
                first = Some(number);
            }
        }
        let Some(first) = first else { return Ok(None) };
        let mut state = KeyState::Unknown;
        self.key.clear();
        // From `first` on: a newer source with this key would have been chosen.
        for source in &mut self.sources[first..] {
            let Some((key, own)) = source.batch.first() else { continue };
            // No key is empty, so an empty one means that none was taken yet.
            if self.key.is_empty() {
                self.key.extend_from_slice(key);
            } else if key != self.key {
                continue;
            }
            // Sources are the newest first, so the first known state is the one that applies.
            if state == KeyState::Unknown {
                state = own;
            }
            // From every source that has the key: an older state must not be returned after this one.
            source.batch.pop_first();
        }
        Ok(Some((&self.key, state)))
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let batches: usize = self.sources.iter().map(|source| source.batch.heap_bytes()).sum();
        batches + self.key.capacity()
    }
}
