//! The job that writes chains (BloomStore, III-A): the columns of the newest runs move from their files to the chain.
//! One chain is written at a time: it is short work compared with the conversions that made its runs, and takes the
//! memory of all columns that it adds.
//!
//! 1. The job reads the columns of the runs that the chain does not have. If those of a run are damaged or have other
//!    ranges, the partition is merged instead.
//! 2. Steps read the placements of these runs for the prefilter, if there is one (`prefilter`).
//! 3. Steps write a new chain page by page: the columns of the old page, then those of the added runs. Lookups use the
//!    old chain, and the filters of the runs in memory.
//! 4. If a page of the old chain is damaged, the new file is removed, and the chain is made again of the columns that
//!    each run has in its file.
//! 5. The new chain is synced. One commit of the manifest names it together with the runs that it has, so no crash
//!    leaves a chain without a run of it.
//! 6. The view gets the new chain, and the filters and fences of its runs leave memory. The old file is removed.

use super::live::{Edit, Role, StoreEntry};
use super::partition_settings::Mistake;
use super::parts::Parts;
use super::prefilter::PrefilterJob;
use super::view::{InstalledChain, View};
use crate::error::Result;
use crate::store::chain::{AddedRun, COLUMNS_MAX, Chain, ChainSettings, ChainWriter, OLD_COLUMNS};
use crate::store::examine::is_damage;
use crate::store::table::{IndexKind, OrderedTable};
use siltstone_device::{Purpose, random_number};
use siltstone_index::run_columns::RunColumnsBuilder;
use std::sync::Arc;

/// The bytes that a step writes, about.
const BYTES_PER_STEP: usize = 1 << 20;

/// A chain that is being written.
pub(super) struct ChainJob {
    partition: usize,
    number: u64,
    tag: u64,
    /// The chain that it replaces.
    replaced: Option<(u64, Arc<Chain>)>,
    writer: ChainWriter,
    prefilter: Option<PrefilterJob>,
}

/// What a step of the job has led to.
pub(super) enum ChainStep {
    /// There are more pages.
    Working(ChainJob),
    /// All pages are written.
    Complete(ChainJob),
    /// The older chain is damaged. It is noted, and the chain is made again of columns alone.
    Damaged,
}

impl ChainJob {
    /// Starts the chain of a partition. `None` if it cannot be made, since the runs have columns of other ranges or
    /// lost them: then the partition has to be merged.
    pub fn start(parts: &Parts, partition: usize) -> Result<Option<ChainJob>> {
        let Parts { configuration, partitions, commits, memory, .. } = parts;
        let view = partitions.get(partition).view();
        let replaced = view.chain.clone();
        // Nothing of a damaged chain is reused: the files of the runs have all columns.
        let kept = replaced.clone().map(|(_, chain)| chain).filter(|chain| !chain.is_damaged());
        let Some(mut added) = columns_to_add(&view, kept.as_deref())? else {
            return Ok(None);
        };
        if configuration.settings.makes(Mistake::OmitsColumn)
            && let Some(newest) = added.last_mut()
        {
            let empty = RunColumnsBuilder::new(newest.columns.settings(), 1)?.finish();
            newest.columns = Arc::new(empty);
        }
        if configuration.settings.makes(Mistake::ReversesRuns) {
            added.reverse();
        }
        let ranges = partitions.get(partition).ranges();
        let columns = |run: &AddedRun| run.columns.ranges().checked_div(ranges).unwrap_or(0);
        // A lookup computes the page from the placement alone, so all columns of a chain are cut at the same places.
        let fits = |run: &AddedRun| run.columns.ranges() == ranges * columns(run) && columns(run) > 0;
        let all = kept.as_ref().map_or(0, |kept| kept.columns()) + added.iter().map(columns).sum::<u32>();
        let is_kept = kept.as_ref().is_none_or(|kept| kept.ranges() == ranges);
        if !is_kept || !added.iter().all(fits) || all > COLUMNS_MAX {
            return Ok(None);
        }
        let prefilter = match &configuration.settings.chain {
            Some(chain) => PrefilterJob::start(parts, &view, chain, kept.as_deref(), added.len())?,
            None => None,
        };
        let (number, tag) = (commits.take_store_number(), random_number()?);
        let settings = ChainSettings { tag, purpose: Purpose::Convert, piece_bytes: memory.transfer_bytes() };
        let name = Role::Chain.file_name(number);
        let writer = ChainWriter::create(&configuration.directory, &name, settings, ranges, kept, added)?;
        Ok(Some(ChainJob { partition, number, tag, replaced, writer, prefilter }))
    }

    /// Returns the partition.
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Reads some records for the prefilter, or writes some pages.
    pub fn step(mut self, parts: &Parts) -> Result<ChainStep> {
        if let Some(prefilter) = &mut self.prefilter
            && !prefilter.step(parts)?
        {
            return Ok(ChainStep::Working(self));
        }
        match self.writer.step(BYTES_PER_STEP) {
            Ok(true) => Ok(ChainStep::Complete(self)),
            Ok(false) => Ok(ChainStep::Working(self)),
            // An error of the new file has lost a write, so it must stop all others.
            Err(error) if is_damage(&error) && self.writer.older_failed() => {
                if let Some((_, chain)) = &self.replaced {
                    // The scheduler then starts a job that makes the chain of columns alone.
                    chain.note_damage();
                }
                let name = Role::Chain.file_name(self.number);
                drop(self.writer);
                parts.configuration.directory.remove(&name)?;
                Ok(ChainStep::Damaged)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the heap memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let prefilter = self.prefilter.as_ref().map_or(0, PrefilterJob::heap_bytes);
        self.writer.heap_bytes() + self.writer.columns_bytes() + prefilter
    }

    /// Replaces the chain.
    pub fn finish(self, parts: &Parts) -> Result<()> {
        let Parts { configuration, partitions, commits, .. } = parts;
        // The file is durable before the manifest names it.
        let prefilter = self.prefilter.and_then(PrefilterJob::finish).map(Arc::new);
        let chain = Arc::new(self.writer.finish(prefilter.as_deref())?);
        let edit = Edit {
            partition: self.partition as u32,
            converted_to: 0,
            removed: self.replaced.iter().map(|(number, _)| *number).collect(),
            added: vec![StoreEntry { number: self.number, tag: self.tag, role: Role::Chain }],
        };
        commits.run(|queue| {
            // In one commit with the runs that the chain names.
            match configuration.settings.makes(Mistake::ChainBeforeRun) {
                true => queue.commit_alone(&edit)?,
                false => queue.commit(vec![edit])?,
            }
            // After the commit: from here on lookups depend on the chain, since filters and fences of its runs leave
            // memory.
            let installed = InstalledChain { number: self.number, chain, prefilter };
            partitions.install_chain(self.partition, installed);
            if let Some((number, chain)) = &self.replaced {
                let file = (Role::Chain.file_name(*number), chain.file().file());
                configuration.directory.retire(std::iter::once(file))?;
            }
            // The commit also has the pending conversions.
            queue.release_log()
        })
    }
}

/// Reads the columns of the runs that the chain does not have, the oldest first; `None` if those of a run are damaged.
fn columns_to_add(view: &View, chain: Option<&Chain>) -> Result<Option<Vec<AddedRun>>> {
    let stores: Vec<(u64, &Arc<OrderedTable>)> =
        view.stores().map(|(number, _, store)| (number, store)).collect();
    let missing = stores.len().saturating_sub(chain.map_or(0, |chain| chain.runs().len()));
    let mut added = Vec::new();
    // A chain has the oldest stores, so those that it lacks are the first ones.
    for (number, store) in stores.into_iter().take(missing).rev() {
        match store.read_columns(Purpose::Convert) {
            Ok(Some(columns)) => added.push(AddedRun { number, columns: Arc::new(columns) }),
            Ok(None) => return Ok(None),
            Err(error) if is_damage(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(added))
}

/// Returns the number of ranges of the runs of a partition that was opened: that of its chain, or else of its oldest
/// store; 0 if it has none or they are not known.
pub(super) fn ranges_of(view: &mut View) -> u32 {
    if let Some((_, chain)) = &view.chain {
        return chain.ranges();
    }
    let per_range = if view.sorted.is_some() { OLD_COLUMNS } else { 1 };
    let Some((_, store)) = view.sorted.as_mut().or(view.hash_stores.last_mut()) else { return 0 };
    match store.with_index() {
        Ok(loaded) => {
            *store = Arc::new(loaded);
            match store.index().and_then(|index| index.kind()) {
                Some(IndexKind::Columns(columns)) => columns.ranges / per_range,
                _ => 0,
            }
        }
        // New runs then get ranges of their own. A job that finds other ranges in older runs requests a merge.
        Err(_) => 0,
    }
}
