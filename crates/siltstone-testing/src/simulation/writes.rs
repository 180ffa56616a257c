//! The operations that write.

use super::run::{Outcome, Run, cell};
use crate::operations::{BatchWrite, KeyNumber, Modification, modified};
use crate::reference::Violation;
use siltstone::batch::{Batch, Durability, NEVER, Write};
use siltstone::engine::{Change, Found};
use siltstone::{Database, Error, WriteOptions};

impl Run<'_> {
    /// Adds the outcome of a write to the model.
    pub(super) fn note_write(
        &mut self,
        writes: &[Write<'_>],
        durability: Durability,
        refuse: bool,
        outcome: siltstone::Result<()>,
    ) -> Outcome {
        match outcome {
            Ok(()) if refuse => {
                Err(Violation::new("a write was acknowledged after another had failed".into()))
            }
            Ok(()) => {
                self.reference.acknowledged(writes, durability);
                self.session.writes_done += writes.len() as u64;
                self.counts.writes += 1;
                Ok(())
            }
            Err(error) => {
                self.failed("write", &error)?;
                if !matches!(error, Error::Poisoned { .. }) {
                    self.reference.attempted(writes);
                    self.session.writes_in_doubt += writes.len() as u64;
                }
                Ok(())
            }
        }
    }

    pub(super) fn write(&mut self, writes: &[BatchWrite], durability: Durability) -> Outcome {
        let now_ms = self.now_ms();
        let owned: Vec<_> = writes
            .iter()
            .map(|write| {
                let value = write.value.map(|(value, expires_in_ms)| {
                    let expires_at_ms = if expires_in_ms > 0 { now_ms + expires_in_ms } else { NEVER };
                    (value.bytes(), expires_at_ms)
                });
                (self.key(write.key), value)
            })
            .collect();
        let writes: Vec<Write<'_>> = owned
            .iter()
            .map(|(key, value)| match value {
                Some((value, expires_at_ms)) => Write::Put { key, value, expires_at_ms: *expires_at_ms },
                None => Write::Delete { key },
            })
            .collect();
        let refuse = self.must_refuse();
        let outcome = apply(&self.database()?, &writes, durability);
        self.note_write(&writes, durability, refuse, outcome)
    }

    pub(super) fn update(
        &mut self,
        key: KeyNumber,
        modification: Modification,
        durability: Durability,
    ) -> Outcome {
        let (key, now_ms, refuse) = (self.key(key), self.now_ms(), self.must_refuse());
        let options = WriteOptions::default().durability(durability);
        let (mut seen, mut written) = (None, None);
        let outcome = self.database()?.update_with(&key, options, |found| {
            seen = Some(found.cloned());
            let change = change(modification, found);
            written = match &change {
                Change::Keep => None,
                Change::Put { value, expires_at_ms } => Some(Some((value.clone(), *expires_at_ms))),
                Change::Delete => Some(None),
            };
            Ok(change)
        });
        if let Some(seen) = seen {
            self.reference.check(&key, seen.map(cell).as_ref(), now_ms)?;
        }
        let Some(written) = written else {
            // The lookup failed, or a step of background work.
            return outcome.or_else(|error| self.failed("update", &error));
        };
        let write = match &written {
            Some((value, expires_at_ms)) => Write::Put { key: &key, value, expires_at_ms: *expires_at_ms },
            None => Write::Delete { key: &key },
        };
        self.note_write(&[write], durability, refuse, outcome)
    }

    pub(super) fn sync(&mut self) -> Outcome {
        let refuse = self.must_refuse();
        match self.database()?.sync() {
            Ok(()) if refuse => {
                Err(Violation::new("a sync was acknowledged after a change had failed".into()))
            }
            Ok(()) => {
                self.reference.synced();
                Ok(())
            }
            Err(error) => self.failed("sync", &error),
        }
    }
}

fn change(modification: Modification, found: Option<&Found>) -> Change {
    match (modification, found) {
        (Modification::Keep, _) => Change::Keep,
        (Modification::Delete, _) => Change::Delete,
        (Modification::Modify { .. }, Some(found)) => {
            Change::Put { value: modified(&found.value).into(), expires_at_ms: found.expires_at_ms }
        }
        (Modification::Modify { if_absent }, None) => {
            Change::Put { value: if_absent.bytes().into(), expires_at_ms: NEVER }
        }
    }
}

fn apply(database: &Database, writes: &[Write<'_>], durability: Durability) -> siltstone::Result<()> {
    let options = WriteOptions::default().durability(durability);
    match writes {
        [Write::Put { key, value, expires_at_ms }] => {
            database.put_with(key, value, options.expires_at_ms(*expires_at_ms))
        }
        [Write::Delete { key }] => database.delete_with(key, options),
        several => {
            let mut batch = Batch::new();
            for write in several {
                match write {
                    Write::Put { key, value, expires_at_ms } => {
                        batch.put_until(key, value, *expires_at_ms)?
                    }
                    Write::Delete { key } => batch.delete(key)?,
                };
            }
            database.write_with(&batch, options)
        }
    }
}
