//! Saves the index, or loads it if the last open left it on flash. Only one of the two runs at a time.
//!
//! 1. Shards that are to be loaded come first: the other jobs wait, because they look up entries.
//! 2. A save begins a segment of the redo log, so that all redo before it can be released at the end.
//! 3. Steps write the shards. They collect the overwrites that they find.
//! 4. The redo of all operations in the file is made durable, then the file.
//! 5. The manifest names the file. The file before and its redo are removed, and the overwrites are noted.
//!
//! After a crash before step 5, an open uses the file before and its redo, and removes the new file.

use super::{Jobs, Look, Requests, SaveCounts, Work};
use crate::engine::flashkey::commits::Ledger;
use crate::engine::flashkey::search::Found;
use crate::error::Result;
use crate::store::unit_index::{IndexLoad, IndexSave, SaveStep};
use siltstone_device::random_number;
use siltstone_device::sync::atomic::Ordering::Relaxed;

/// A part of the index that is being loaded after an open, or an index that is being saved.
pub(super) enum Saving {
    Load(Box<IndexLoad>),
    Save(Box<(IndexSave, Found)>),
}

impl Jobs {
    pub(super) fn save_counts(&self, look: &Look) -> SaveCounts {
        SaveCounts {
            is_begun: self.saving.is_begun(),
            is_requested: self.requests.has(Requests::SAVE),
            redo: look.redo_share,
            changes: look.changes_share,
            must_move: look.must_move,
            shortage: look.shortage,
            shards_to_load: self.logs.index.shards_to_load(),
        }
    }

    /// Saves the index, or loads a part of it before.
    pub(super) fn step_save(&self) -> Result<bool> {
        let start = || {
            if let Some(load) = self.logs.index.start_load()? {
                return Ok(Some(Saving::Load(Box::new(load))));
            }
            if !self.save_counts(&self.look()).is_pending() {
                return Ok(None);
            }
            // Before the request is removed: a thread that asks in between must see the one or the other.
            self.saving.begin();
            self.requests.remove(Requests::SAVE);
            // So that everything before it can be released.
            self.logs.index.redo().start_new_segment()?;
            let save = self.logs.index.start_save(self.commits.take_number(), random_number()?)?;
            Ok(Some(Saving::Save(Box::new((save, Found::default())))))
        };
        self.saving.step(start, |saving| match saving {
            Saving::Load(load) => self.continue_load(*load),
            Saving::Save(save) => self.continue_save(*save),
        })
    }

    fn continue_load(&self, load: IndexLoad) -> Result<Option<Saving>> {
        let load = self.logs.index.load_step(load)?;
        self.memory.save_bytes.store(load.as_ref().map_or(0, IndexLoad::heap_bytes) as u64, Relaxed);
        Ok(load.map(|load| Saving::Load(Box::new(load))))
    }

    fn continue_save(&self, (mut save, mut found): (IndexSave, Found)) -> Result<Option<Saving>> {
        let mut hashes = Vec::new();
        let step = self.logs.index.save_step(&mut save, &mut |hash| hashes.push(hash))?;
        found.add_hashes(&self.logs, &hashes)?;
        self.memory.save_bytes.store((save.heap_bytes() + found.heap_bytes()) as u64, Relaxed);
        match step {
            SaveStep::Continues => {}
            // The file has operations that are in memory only.
            SaveStep::Flush => self.commits.run(Ledger::make_index_durable)?,
            SaveStep::Written(saved) => {
                self.commits.run(|ledger| ledger.save(saved))?;
                found.note(&self.logs);
                self.memory.save_bytes.store(0, Relaxed);
                self.ended.lock().saves += 1;
                self.changes.require_look();
                return Ok(None);
            }
        }
        Ok(Some(Saving::Save(Box::new((save, found)))))
    }

    /// Executes a step of loading the index of a read-only database. Returns whether there was any.
    pub fn step_load(&self) -> Result<bool> {
        self.logs.health().run(|| Ok(self.logs.index.shards_to_load() > 0 && self.step_save()?))
    }

    /// Returns the state of the background work of a read-only database.
    pub fn load_work(&self) -> Work {
        let is_pending = self.logs.index.shards_to_load() > 0 && self.logs.health().check().is_ok();
        Work { is_pending, wants_thread: is_pending && !self.saving.is_running(), pressure: 0.0 }
    }
}
