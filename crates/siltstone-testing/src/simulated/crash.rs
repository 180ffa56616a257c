//! What is left of a device when what ran on it has ended.

use super::content::{Change, Content};
use super::disk::{Disk, Inode};
use std::collections::BTreeMap;

/// How everything ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: the system keeps everything that was written.
    ProcessKilled,
    /// The power fails: only what was synced is sure to stay.
    PowerLost(Survival),
}

/// What a loss of power leaves of that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything before some moment; the change at that moment is torn.
    Prefix,
    /// Any sectors, entries and lengths, whichever order they were written in.
    Scattered,
    /// Everything.
    Everything,
}

impl Crash {
    /// One of all the ways in which things can end.
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

/// How one loss of power decides over every change that was not synced.
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

    /// Whether a sector, an entry or a truncation of that moment survives.
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

    /// The moments of all changes that are not durable, of files and entries.
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
        // Entries of which only one half survived can give one file two names.
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
                // Lengths go through the journal of the file system, in order: what came after is lost too.
                return Content::settled(bytes, self.previous.clone());
            }
            change.apply(&mut bytes, |_| is_truncation || fate.spares(*moment, random));
        }
        if matches!(fate, Fate::Chance(_)) && random.bool() && bytes.len() < self.written.len() {
            let gap = self.written.len() - bytes.len();
            // The length survived and its data did not; some file systems then show what stood there before.
            let filler = if random.u8(..4) == 0 { random.u8(..) } else { 0 };
            bytes.extend((0..gap).map(|at| filler.wrapping_mul(at as u8 | 1)));
        }
        Content::settled(bytes, self.previous.clone())
    }
}
