//! The prefilter of a new chain (BloomStore, III-C).
//!
//! 1. The job takes the prefilter of the chain before. If that is damaged or does not exist, it reads all runs, else
//!    only those that are added.
//! 2. Each step reads some records of a run and takes their placements.
//! 3. If a run is damaged, its placements are not known. The chain then has no prefilter: one that lacks a placement
//!    would hide a record from gets.

use super::partition_settings::{ChainSettings, Mistake};
use super::parts::Parts;
use super::view::View;
use crate::error::Result;
use crate::store::chain::Chain;
use crate::store::examine::is_damage;
use crate::store::merge::Cursor;
use crate::store::table::OrderedTable;
use siltstone_device::Purpose;
use siltstone_index::prefilter::{Prefilter, PrefilterBuilder};
use std::sync::Arc;

/// A prefilter that is being built.
pub(super) struct PrefilterJob {
    /// How many prefixes there can be.
    prefixes: u64,
    older: Option<Arc<Prefilter>>,
    /// The runs that are not read yet.
    runs: Vec<Arc<OrderedTable>>,
    reading: Option<(Box<dyn Cursor>, PrefilterBuilder)>,
    /// The placements of the runs that were read.
    young: Option<Prefilter>,
    /// Whether a run is damaged, so that not all placements are known.
    is_incomplete: bool,
}

impl PrefilterJob {
    /// Starts a prefilter for a chain that has `added` runs more than an older one; `None` if there are none by the
    /// settings. Without the prefilter of the older chain, all runs are read.
    pub fn start(
        parts: &Parts,
        view: &View,
        settings: &ChainSettings,
        older: Option<&Chain>,
        added: usize,
    ) -> Result<Option<PrefilterJob>> {
        if settings.prefilter_bits == 0 {
            return Ok(None);
        }
        let older = match (older, &view.prefilter) {
            (None, _) => None,
            (Some(_), Some(held)) => Some(held.clone()),
            (Some(chain), None) => match chain.read_prefilter(Purpose::Convert) {
                Ok(read) => read.map(Arc::new),
                Err(error) if is_damage(&error) => None,
                Err(error) => return Err(error),
            },
        };
        let added = if older.is_some() { added } else { usize::MAX };
        let runs = view.stores().map(|(_, _, store)| store.clone()).take(added).collect();
        // Prefilters of other prefixes could not be merged with the older one.
        let prefixes = match &older {
            Some(older) => older.prefixes(),
            None => parts.partitions.prefixes_for(view.sorted_records(), settings),
        };
        Ok(Some(PrefilterJob { prefixes, older, runs, reading: None, young: None, is_incomplete: false }))
    }

    /// Reads some records. Returns whether all are read.
    pub fn step(&mut self, parts: &Parts) -> Result<bool> {
        if self.reading.is_none() {
            let Some(run) = self.runs.pop() else { return Ok(true) };
            let cursor = run.cursor(Purpose::Convert, parts.memory.transfer_bytes());
            self.reading = Some((cursor, PrefilterBuilder::new(run.records(), self.prefixes)));
        }
        let Some((cursor, builder)) = &mut self.reading else { return Ok(true) };
        let settings = &parts.configuration.settings;
        for _ in 0..settings.step_records {
            match cursor.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.end_run();
                    return Ok(self.runs.is_empty());
                }
                // The chain needs no record. It is made without a prefilter, and verification reports the damage.
                Err(error) if is_damage(&error) => {
                    (self.is_incomplete, self.reading) = (true, None);
                    self.runs.clear();
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
            let is_omitted = settings.makes(Mistake::OmitsFromPrefilter) && self.runs.is_empty();
            if let Some(entry) = cursor.entry().filter(|_| !is_omitted) {
                builder.push(entry.hash.placement);
            }
        }
        Ok(false)
    }

    fn end_run(&mut self) {
        let Some((_, builder)) = self.reading.take() else { return };
        let run = builder.finish();
        // All were built for the same prefixes, so they can be merged: `None` would lose the runs before.
        self.young = match &self.young {
            Some(young) => young.merged(&run),
            None => Some(run),
        };
    }

    /// Returns the memory held, in bytes, and that of the result and its encoded form.
    pub fn heap_bytes(&self) -> usize {
        let reading = self.reading.as_ref();
        let reading = reading.map_or(0, |(cursor, builder)| cursor.heap_bytes() + builder.heap_bytes());
        let young = self.young.as_ref().map_or(0, Prefilter::heap_bytes);
        let older = self.older.as_ref().map_or(0, |older| older.heap_bytes());
        reading + young + 2 * (older + young)
    }

    /// Returns the prefilter, if all placements are known.
    pub fn finish(self) -> Option<Prefilter> {
        let young = self.young.filter(|_| !self.is_incomplete)?;
        match self.older {
            Some(older) => older.merged(&young),
            None => Some(young),
        }
    }
}
