//! The bytes of one file: as written, as durable, and the changes between the two.

use super::SECTOR_BYTES;
use std::collections::BTreeMap;

pub(super) type Sector = [u8; SECTOR_BYTES];

/// A change of a file that is not durable yet.
#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Clone, Default)]
pub(super) struct Content {
    /// The bytes that a read returns.
    pub written: Vec<u8>,
    /// The durable bytes, as the last sync left them.
    pub durable: Vec<u8>,
    /// The changes since then, in order, each with its number in the device's count of changes.
    pub pending: Vec<(u64, Change)>,
    /// The bytes of a sector before it was last overwritten.
    pub previous: BTreeMap<usize, Sector>,
    /// Open handles.
    pub handles: usize,
}

impl Content {
    pub fn settled(bytes: Vec<u8>, previous: BTreeMap<usize, Sector>) -> Content {
        Content { written: bytes.clone(), durable: bytes, previous, ..Content::default() }
    }

    pub fn write(&mut self, moment: u64, offset: usize, bytes: &[u8]) {
        self.remember(offset, bytes.len());
        put(&mut self.written, offset, bytes);
        self.pending.push((moment, Change::Write { offset, bytes: bytes.to_vec() }));
    }

    pub fn truncate(&mut self, moment: u64, length: usize) {
        if length < self.written.len() {
            self.written.truncate(length);
            self.pending.push((moment, Change::Truncate { length }));
        }
    }

    pub fn sync(&mut self) {
        for (_, change) in self.pending.drain(..) {
            change.apply(&mut self.durable, |_| true);
        }
    }

    /// Ends a sync that failed. `survives` says which sectors are durable. The others are dropped; they are read as
    /// they are on the device once the cache has dropped them.
    pub fn fail_sync(&mut self, dropped_from_cache: bool, mut survives: impl FnMut(usize) -> bool) {
        let length = self.written.len();
        for (_, change) in self.pending.drain(..) {
            change.apply(&mut self.durable, &mut survives);
        }
        // Lengths are in the journal of the file system, not in the pages that were lost.
        self.durable.resize(length, 0);
        if dropped_from_cache {
            self.drop_cache();
        }
    }

    /// Drops the cache: a read returns what is durable, and what the next sync makes durable.
    pub fn drop_cache(&mut self) {
        self.written.clone_from(&self.durable);
        for (_, change) in &self.pending {
            change.apply(&mut self.written, |_| true);
        }
    }

    fn remember(&mut self, offset: usize, length: usize) {
        let end = (offset + length).min(self.written.len());
        for sector in sectors(offset, end.saturating_sub(offset)) {
            let old = &self.written[sector_range(sector, self.written.len())];
            let mut kept = [0; SECTOR_BYTES];
            kept[..old.len()].copy_from_slice(old);
            self.previous.insert(sector, kept);
        }
    }
}

impl Change {
    /// Applies the change to `bytes`, in the sectors for which `survives` returns true.
    pub fn apply(&self, bytes: &mut Vec<u8>, mut survives: impl FnMut(usize) -> bool) {
        match self {
            Change::Truncate { length } => bytes.truncate(*length),
            Change::Write { offset, bytes: new } => {
                for sector in sectors(*offset, new.len()).filter(|&sector| survives(sector)) {
                    let start = (sector * SECTOR_BYTES).max(*offset);
                    let end = ((sector + 1) * SECTOR_BYTES).min(offset + new.len());
                    put(bytes, start, &new[start - offset..end - offset]);
                }
            }
        }
    }
}

/// Returns the sectors of a range.
pub(super) fn sectors(offset: usize, length: usize) -> std::ops::Range<usize> {
    match length {
        0 => 0..0,
        _ => offset / SECTOR_BYTES..(offset + length).div_ceil(SECTOR_BYTES),
    }
}

/// Returns the range of a sector in a file of `length` bytes. The last sector may be short.
pub(super) fn sector_range(sector: usize, file_bytes: usize) -> std::ops::Range<usize> {
    let start = sector.saturating_mul(SECTOR_BYTES).min(file_bytes);
    start..(start + SECTOR_BYTES).min(file_bytes)
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if bytes.len() < offset + new.len() {
        bytes.resize(offset + new.len(), 0);
    }
    bytes[offset..offset + new.len()].copy_from_slice(new);
}
