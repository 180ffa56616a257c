//! The reference model of a cache: it may have forgotten any record, but never returns an older one than it must have.
//!
//! ```text
//! writes of a key      a=1 (synced)   a=2 (written)   delete (buffered)   a=3 (failed)
//! possible now         nothing or 3
//! after a kill         nothing, 2 or 3
//! after a power loss   nothing, 1, 2 or 3
//! ```
//!
//! What was forgotten can be found again after a crash, because the end of a record need not be durable, until a later
//! write of its key is.

use super::{Cell, Ending, Entry, Records, Violation, name, show, show_all};
use bytes::Bytes;
use siltstone::batch::{Durability, TimestampMs, Write};
use std::collections::BTreeMap;

/// A write of a key.
#[derive(Debug, Clone)]
struct Version {
    /// Its number among all writes.
    at: usize,
    cell: Option<Cell>,
    /// Whether it took effect. If not, it may be missing.
    certain: bool,
}

/// The writes of a key.
#[derive(Debug, Clone, Default)]
struct Versions {
    /// Those that may be found after a power loss, from the oldest to the newest.
    all: Vec<Version>,
    /// Those that may be found now.
    now: Vec<Cell>,
}

impl Versions {
    /// Returns the versions that may be found if the first `promised` of all writes survive.
    fn possible(&self, promised: usize) -> &[Version] {
        let is_promised = |version: &Version| version.certain && version.at < promised;
        &self.all[self.all.iter().rposition(is_promised).unwrap_or(0)..]
    }
}

/// The reference model of a cache.
#[derive(Debug, Clone, Default)]
pub struct CacheReference {
    keys: BTreeMap<Bytes, Versions>,
    /// The number of writes, and how many survive the process, and a power loss.
    length: usize,
    written: usize,
    synced: usize,
}

impl CacheReference {
    /// Adds writes that were acknowledged.
    pub fn acknowledged(&mut self, writes: &[Write<'_>], durability: Durability) {
        self.add(writes, true);
        if durability >= Durability::Written {
            self.written = self.length;
        }
        if durability >= Durability::Synced {
            self.synced();
        }
    }

    /// Adds writes that returned an error, and may have taken effect nevertheless.
    pub fn attempted(&mut self, writes: &[Write<'_>]) {
        self.add(writes, false);
    }

    fn add(&mut self, writes: &[Write<'_>], certain: bool) {
        for (key, cell) in Entry::new(writes, certain).writes {
            let versions = self.keys.entry(key).or_default();
            if certain {
                versions.now.clear();
            }
            versions.now.extend(cell.clone());
            versions.all.push(Version { at: self.length, cell, certain });
        }
        self.length += 1;
    }

    /// Records that a sync of everything was acknowledged.
    pub fn synced(&mut self) {
        (self.written, self.synced) = (self.length, self.length);
        for versions in self.keys.values_mut() {
            versions.all = versions.possible(self.synced).to_vec();
        }
    }

    /// Records that a sync of the device failed.
    pub fn sync_failed(&mut self) {
        self.written = self.synced;
    }

    /// Checks what a get returned. `is_same` compares it with a possible record.
    pub fn check(
        &self,
        key: &[u8],
        found: Option<&Cell>,
        is_same: impl Fn(&Cell, &Cell) -> bool,
        now_ms: TimestampMs,
    ) -> Result<(), Violation> {
        let Some(found) = found else { return Ok(()) };
        let now = self.keys.get(key).map_or(&[][..], |versions| &versions.now);
        if now.iter().any(|cell| cell.is_alive(now_ms) && is_same(cell, found)) {
            return Ok(());
        }
        let possible: Vec<_> = now.iter().map(Some).collect();
        let (key, found) = (name(key), show(Some(found)));
        Err(Violation(format!("key {key} is {found}, but should be absent or {}", show_all(&possible))))
    }

    /// Checks the records after the cache was opened again, and continues from them.
    pub fn restarted(
        &mut self,
        ending: Ending,
        found: &Records,
        now_ms: TimestampMs,
    ) -> Result<(), Violation> {
        let promised = match ending {
            Ending::Closed => self.length,
            Ending::ProcessKilled => self.written,
            Ending::PowerLost => self.synced,
        };
        for (key, cell) in found {
            let possible = self.keys.get(key).map_or(&[][..], |versions| versions.possible(promised));
            let is_it = |version: &Version| version.cell.as_ref() == Some(cell) && cell.is_alive(now_ms);
            if !possible.iter().any(is_it) {
                let possible: Vec<_> = possible.iter().map(|version| version.cell.as_ref()).collect();
                let (key, found) = (name(key), show(Some(cell)));
                return Err(Violation(format!(
                    "after an open key {key} is {found}, but should be absent or {}",
                    show_all(&possible)
                )));
            }
        }
        for (key, versions) in &mut self.keys {
            versions.now = found.get(key).cloned().into_iter().collect();
            let first = versions.all.len() - versions.possible(promised).len();
            if ending != Ending::ProcessKilled {
                // What was found survives the next power loss as well.
                versions.all.drain(..first);
            }
            let is_it = |version: &Version| version.cell.as_ref() == found.get(key);
            match versions.all.iter().rposition(is_it).filter(|_| found.contains_key(key)) {
                Some(last) => {
                    versions.all.truncate(last + 1);
                    versions.all[last].certain = true;
                    if ending != Ending::ProcessKilled {
                        versions.all[last].at = 0;
                    }
                }
                // Which of the writes that were not promised have survived is not known.
                None => versions
                    .all
                    .iter_mut()
                    .filter(|version| version.at >= promised)
                    .for_each(|version| version.certain = false),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{put, records};
    use super::*;

    fn may_be(reference: &CacheReference, ending: Ending, text: &str) -> bool {
        reference.clone().restarted(ending, &records(text), 0).is_ok()
    }

    #[test]
    fn everything_may_be_forgotten_and_nothing_older_than_promised_is_found() {
        let mut reference = CacheReference::default();
        reference.acknowledged(&[put("a", "1")], Durability::Synced);
        reference.acknowledged(&[put("a", "2")], Durability::Written);
        reference.acknowledged(&[Write::Delete { key: b"a" }], Durability::Buffered);
        reference.attempted(&[put("a", "3")]);
        let possible = |ending| ["", "a=1", "a=2", "a=3", "b=1"].map(|text| may_be(&reference, ending, text));
        assert_eq!(possible(Ending::PowerLost), [true, true, true, true, false]);
        assert_eq!(possible(Ending::ProcessKilled), [true, false, true, true, false]);
        assert_eq!(possible(Ending::Closed), [true, false, false, true, false]);
        let cell = |value| records(&format!("a={value}")).remove(&b"a"[..]).unwrap();
        let is_now = |value| reference.check(b"a", Some(&cell(value)), Cell::eq, 0).is_ok();
        assert_eq!([is_now("1"), is_now("2"), is_now("3")], [false, false, true]);
        assert!(reference.check(b"a", None, Cell::eq, 0).is_ok());
    }

    #[test]
    fn what_was_forgotten_may_come_back_until_a_later_write_is_durable() {
        let mut reference = CacheReference::default();
        reference.acknowledged(&[put("a", "1")], Durability::Synced);
        reference.restarted(Ending::ProcessKilled, &records(""), 0).unwrap();
        assert!(reference.check(b"a", Some(&records("a=1")[&b"a"[..]]), Cell::eq, 0).is_err());
        assert!(may_be(&reference, Ending::PowerLost, "a=1"));
        reference.acknowledged(&[Write::Delete { key: b"a" }], Durability::Written);
        assert!(may_be(&reference, Ending::PowerLost, "a=1"));
        assert!(!may_be(&reference, Ending::ProcessKilled, "a=1"));
        reference.synced();
        assert!(!may_be(&reference, Ending::PowerLost, "a=1"));
    }
}
