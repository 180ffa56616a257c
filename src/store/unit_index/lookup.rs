//! Lookups: what flash has of a hash is read without a lock, and the changes are added under it.

use super::entries::Entries;
use super::flash::FlashPages;
use super::{Candidates, LogIndex, LogIndexSettings, Unit};
use crate::error::{Error, Result};
use crate::store::read_batches::ReadBatches;
use siltstone_device::sync::atomic::Ordering;
use siltstone_device::{Purpose, ReadRequest, with_scratch};
use std::sync::Arc;

/// The maximum number of pages that are read together, each with a buffer of its own. A memory budget limits them
/// further.
const READS_MAX: usize = 128;

/// What flash has of a hash. With it, [`LogIndex::candidates_of`] reads nothing, unless the index was saved meanwhile.
#[derive(Clone)]
pub struct Lookup {
    hash: u64,
    on_flash: Option<(Arc<FlashPages>, Candidates)>,
}

impl Lookup {
    /// Returns the hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn units(&self) -> &[Unit] {
        self.on_flash.as_ref().map_or(&[], |(_, units)| units)
    }

    /// Returns whether the hash has one entry, if this is known. `within` is the hash within its shard.
    pub(super) fn is_only(&self, entries: &Entries, within: u64) -> bool {
        self.on_flash.is_some() && self.is_of(entries) && entries.candidates(within, self.units()).len() == 1
    }

    fn is_of(&self, entries: &Entries) -> bool {
        match (&self.on_flash, entries.flash()) {
            // Nothing of flash is needed.
            (_, None) => true,
            (None, Some(_)) => false,
            (Some((known, _)), Some(pages)) => Arc::ptr_eq(known, pages),
        }
    }
}

/// Reads what flash has of several hashes: each page once, and the reads overlap. `flash_of` returns the pages of a
/// shard, if they are there. Returns the lookups and the number of pages that were read.
pub(super) fn look_up(
    purpose: Purpose,
    settings: LogIndexSettings,
    batches: &ReadBatches,
    hashes: &[u64],
    flash_of: impl Fn(usize) -> Option<Arc<FlashPages>>,
) -> Result<(Vec<Lookup>, u64)> {
    let mut lookups: Vec<Lookup> = hashes.iter().map(|hash| Lookup { hash: *hash, on_flash: None }).collect();
    let mut order: Vec<usize> = (0..hashes.len()).collect();
    // The hashes of one page are adjacent then, and it is read once.
    order.sort_unstable_by_key(|number| hashes[*number]);
    let mut wanted: Vec<(Arc<FlashPages>, usize, Vec<usize>)> = Vec::new();
    for shard in
        order.chunk_by(|one, other| settings.shard_of(hashes[*one]) == settings.shard_of(hashes[*other]))
    {
        let Some(pages) = flash_of(settings.shard_of(hashes[shard[0]])) else { continue };
        let home = |number: &usize| pages.division().home(settings.within_shard(hashes[*number])).0;
        for of_page in shard.chunk_by(|one, other| home(one) == home(other)) {
            wanted.push((pages.clone(), home(&of_page[0]), of_page.to_vec()));
        }
    }
    let mut buffers = batches.begin();
    for wanted in wanted.chunks(READS_MAX) {
        let aimed = wanted.iter().map(|(pages, page, _)| {
            let place = pages.places()[*page];
            ReadRequest { file: pages.file(), offset: place.offset, length: place.length as usize }
        });
        buffers.read(purpose, &aimed.collect::<Vec<_>>(), |number, bytes| {
            let (pages, page, numbers) = &wanted[number];
            let decoded = pages.decode_intact(*page, bytes?)?;
            for number in numbers {
                let (_, tag) = pages.division().home(settings.within_shard(hashes[*number]));
                lookups[*number].on_flash = Some((pages.clone(), decoded.candidates(tag).collect()));
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok((lookups, wanted.len() as u64))
}

impl LogIndex {
    /// Reads what flash has of several hashes. The reads overlap, and a page of several of the hashes is read once. If
    /// the index is in memory, nothing is read.
    pub fn look_up(&self, hashes: &[u64]) -> Result<Vec<Lookup>> {
        self.look_up_for(Purpose::Index, hashes)
    }

    /// Like [`look_up`](LogIndex::look_up), with reads for this purpose.
    pub fn look_up_for(&self, purpose: Purpose, hashes: &[u64]) -> Result<Vec<Lookup>> {
        // A shard may move to flash after this look. `candidates_of` then finds that the lookup lacks its pages,
        // and reads them.
        if self.shards.iter().all(|shard| shard.read().entries.flash().is_none()) {
            return Ok(hashes.iter().map(|hash| Lookup { hash: *hash, on_flash: None }).collect());
        }
        // The pages are held, not the lock: they stay readable if a save replaces their file during the reads.
        let flash_of = |shard: usize| self.shards[shard].read().entries.flash().cloned();
        let (lookups, reads) = look_up(purpose, self.settings, &self.batches, hashes, flash_of)?;
        self.page_reads.fetch_add(reads, Ordering::Relaxed);
        Ok(lookups)
    }

    /// Returns the units that the key of a lookup may have now, the one that was inserted last first.
    pub fn candidates_of(&self, lookup: &Lookup) -> Result<Candidates> {
        let shard = self.shards[self.shard_of(lookup.hash)].read();
        // The changes in memory are relative to the present pages, and do not apply to units of other pages.
        if lookup.is_of(&shard.entries) {
            return Ok(shard.entries.candidates(self.settings.within_shard(lookup.hash), lookup.units()));
        }
        drop(shard);
        self.candidates(lookup.hash)
    }

    /// Returns the units that the key with this hash may have, the one that was inserted last first. Costs one read if
    /// its entries are on flash, which counts as one of a get.
    #[inline]
    pub fn candidates(&self, hash: u64) -> Result<Candidates> {
        let within = self.settings.within_shard(hash);
        let shard = self.shards[self.shard_of(hash)].read();
        match shard.entries.flash().cloned() {
            None => Ok(shard.entries.candidates(within, &[])),
            Some(pages) => {
                // No lock during the read. After it, the pages are compared with those that the shard has then.
                drop(shard);
                self.candidates_on_flash(hash, pages)
            }
        }
    }

    /// Not inlined, so that a lookup in memory does not set up the memory for a read.
    #[inline(never)]
    fn candidates_on_flash(&self, hash: u64, mut pages: Arc<FlashPages>) -> Result<Candidates> {
        let within = self.settings.within_shard(hash);
        loop {
            self.page_reads.fetch_add(1, Ordering::Relaxed);
            let units = with_scratch(|buffer| pages.units(Purpose::Get, within, buffer))?;
            let shard = self.shards[self.shard_of(hash)].read();
            match shard.entries.flash() {
                // The shard was saved meanwhile, and its changes are relative to other pages.
                Some(present) if !Arc::ptr_eq(present, &pages) => pages = present.clone(),
                _ => return Ok(shard.entries.candidates(within, &units)),
            }
        }
    }

    /// Returns the units of a hash that are known without a read, the one that was inserted last first, and whether
    /// these are all.
    #[inline]
    pub fn known_candidates(&self, hash: u64) -> (Candidates, bool) {
        let shard = self.shards[self.shard_of(hash)].read();
        // Both results under one lock: a save may move the shard to flash in between.
        let units = shard.entries.candidates(self.settings.within_shard(hash), &[]);
        (units, shard.entries.flash().is_none_or(|pages| pages.len() == 0))
    }

    /// Returns whether a hash may have an entry, without a read.
    pub fn may_contain(&self, hash: u64) -> bool {
        self.shards[self.shard_of(hash)].read().entries.may_contain(self.settings.within_shard(hash))
    }
}
