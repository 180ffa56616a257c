//! What remains on a device after a process was killed or the power failed.

use super::content::{Change, Content};
use super::disk::{Disk, Inode};
use std::collections::BTreeMap;

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: all that was written remains.
    ProcessKilled,
    /// The power fails: only what was synced is certain to remain.
    PowerLost(Survival),
}

/// What a power loss leaves of the unsynced changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// All changes before some moment; the change at that moment is torn.
    Prefix,
    /// Any sectors, directory entries and lengths, in any order.
    Scattered,
    /// Everything.
    Everything,
}

impl Crash {
    /// Returns a random crash.
    pub fn random(random: &mut fastrand::Rng) -> Crash {
        match random.u8(..8) {
            0..2 => Crash::ProcessKilled,
            2 => Crash::PowerLost(Survival::Nothing),
            3..5 => Crash::PowerLost(Survival::Prefix),
            5..7 => Crash::PowerLost(Survival::Scattered),
            _ => Crash::PowerLost(Survival::Everything),
        }
    }
}

/// Decides for one power loss which unsynced changes survive.
#[derive(Clone, Copy)]
enum Fate {
    All(bool),
    Before(u64),
    Chance(f64),
}

impl Fate {
    fn draw(survival: Survival, disk: &Disk, random: &mut fastrand::Rng) -> Fate {
        match survival {
            Survival::Nothing => Fate::All(false),
            Survival::Everything => Fate::All(true),
            Survival::Scattered => Fate::Chance(random.f64()),
            Survival::Prefix => {
                let moments = disk.pending_moments();
                let moment = (!moments.is_empty()).then(|| moments[random.usize(..moments.len())]);
                moment.map_or(Fate::All(true), Fate::Before)
            }
        }
    }

    /// Returns whether a sector, a directory entry or a truncation of this moment survives.
    fn spares(self, moment: u64, random: &mut fastrand::Rng) -> bool {
        match self {
            Fate::All(spared) => spared,
            Fate::Before(end) => moment < end || moment == end && random.bool(),
            Fate::Chance(chance) => random.f64() < chance,
        }
    }
}

impl Disk {
    pub fn crash(&mut self, crash: Crash, random: &mut fastrand::Rng) -> Disk {
        self.switch_off();
        match crash {
            Crash::ProcessKilled => self.restarted(random.u64(..)),
            Crash::PowerLost(survival) => {
                let fate = Fate::draw(survival, self, random);
                self.after_power_loss(fate, random)
            }
        }
    }

    /// Returns the moments of all unsynced changes of files and directory entries.
    fn pending_moments(&self) -> Vec<u64> {
        let files = self.files.values().flat_map(|content| content.pending.iter().map(|(moment, _)| *moment));
        files.chain(self.pending_entries.iter().map(|(moment, _)| *moment)).collect()
    }

    fn after_power_loss(&self, fate: Fate, random: &mut fastrand::Rng) -> Disk {
        let mut after = Disk::new(random.u64(..));
        let mut entries = self.durable_entries.clone();
        for (moment, change) in &self.pending_entries {
            if fate.spares(*moment, random) {
                change.apply(&mut entries);
            }
        }
        // If only one half of a renaming survives, a file can have two names.
        let mut moved: BTreeMap<Inode, Inode> = BTreeMap::new();
        for (name, inode) in entries {
            let Some(content) = self.files.get(&inode) else { continue };
            let moved =
                *moved.entry(inode).or_insert_with(|| after.add(content.after_power_loss(fate, random)));
            after.entries.insert(name, moved);
        }
        after.durable_entries.clone_from(&after.entries);
        after
    }
}

impl Content {
    fn after_power_loss(&self, fate: Fate, random: &mut fastrand::Rng) -> Content {
        let mut bytes = self.durable.clone();
        for (moment, change) in &self.pending {
            let is_truncation = matches!(change, Change::Truncate { .. });
            if is_truncation && !fate.spares(*moment, random) {
                // Lengths are in the journal of the file system, in order: later ones are lost too.
                return Content::settled(bytes, self.previous.clone());
            }
            change.apply(&mut bytes, |_| is_truncation || fate.spares(*moment, random));
        }
        if matches!(fate, Fate::Chance(_)) && random.bool() && bytes.len() < self.written.len() {
            let gap = self.written.len() - bytes.len();
            // The length survived and the data did not; some file systems then return old data.
            let filler = if random.u8(..4) == 0 { random.u8(..) } else { 0 };
            bytes.extend((0..gap).map(|at| filler.wrapping_mul(at as u8 | 1)));
        }
        Content::settled(bytes, self.previous.clone())
    }
}
