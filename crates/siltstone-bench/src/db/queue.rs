//! A queue in key order: records are put at the tail and deleted at the head, which is looked up each time.

use super::worker::Worker;
use crate::{Error, Result};
use std::time::Instant;

/// The records in the queue.
const LENGTH: u64 = 1_000;

impl Worker<'_> {
    /// Puts this many records, one after the other, and deletes all but the last 1,000. The time of an operation is
    /// that of finding the first key.
    pub(super) fn queue(&mut self, count: u64) -> Result<()> {
        let database = self.shared.database;
        for number in 0..count {
            if self.must_stop() {
                break;
            }
            self.make_record(number);
            database.put(&self.key, &self.value)?;
            self.work.bytes += (self.key.len() + self.value.len()) as u64;
            self.shared.present.insert(number);
            let first = number.saturating_sub(LENGTH);
            if number >= LENGTH {
                self.shared.keys.write(number - LENGTH, &mut self.key);
                database.delete(&self.key)?;
                self.work.bytes += self.key.len() as u64;
                self.shared.present.remove(number - LENGTH);
            }
            let Some(ordered) = database.ordered() else { break };
            let started = Instant::now();
            let head = ordered.limit(1).range_keys(..)?.next().transpose()?;
            self.done(started, 1);
            self.shared.keys.write(first + u64::from(number >= LENGTH), &mut self.key);
            if head.is_none_or(|head| *head != self.key[..]) {
                return Err(Error::Lost { benchmark: self.shared.benchmark.name(), number: first });
            }
            self.work.found += 1;
        }
        Ok(())
    }
}
