//! The operations that read, and the checks of what they return.

use super::model::{Model, Outcome};
use super::run::{Held, KEYS_CHECKED, Run, STEPS_MAX, Scan, Session, cell, collect};
use crate::operations::KeyNumber;
use crate::reference::{Cell, Violation};
use siltstone::{OrderedDatabase, Record, Step, TimestampMs};
use siltstone_device::{Access, Directory};
use std::collections::BTreeSet;
use std::path::Path;

impl Run<'_> {
    pub(super) fn get(&mut self, key: KeyNumber) -> Outcome {
        let key = self.key(key);
        let database = self.database()?;
        match database.get_found(&key) {
            Ok(found) => {
                self.reference.check(&key, found.clone().map(cell).as_ref(), self.now_ms())?;
                if found.is_some() && matches!(database.may_contain(&key), Ok(false)) {
                    return Err(Violation::new("may_contain excludes a key that get finds".into()));
                }
                match database.contains(&key) {
                    Ok(contains) if contains != found.is_some() => {
                        Err(Violation::new("get and contains disagree".into()))
                    }
                    Ok(_) => Ok(()),
                    Err(error) => self.read_failed("contains", &error),
                }
            }
            Err(error) => self.read_failed("get", &error),
        }
    }

    pub(super) fn get_many(&mut self, keys: &[KeyNumber]) -> Outcome {
        let keys: Vec<_> = keys.iter().map(|&key| self.key(key)).collect();
        let found = match self.database()?.get_many(&keys) {
            Ok(found) => found,
            Err(error) => return self.read_failed("get_many", &error),
        };
        if found.len() != keys.len() {
            return Err(Violation::new(format!(
                "get_many returned {1} values for {0} keys",
                keys.len(),
                found.len()
            )));
        }
        for (key, value) in keys.iter().zip(found) {
            self.reference.check_value(key, value.as_ref(), self.now_ms())?;
        }
        Ok(())
    }

    /// Reads all records, then the snapshot that was taken at the last call, and takes another one.
    pub(super) fn iterate(&mut self) -> Outcome {
        self.check_all()?;
        if let Some(held) = self.held.take() {
            self.check_snapshot(&held)?;
        }
        match self.database()?.snapshot() {
            Ok(snapshot) => {
                let (reference, now_ms) = (self.reference.clone(), self.now_ms());
                self.held = Some(Held { snapshot, reference, now_ms });
                Ok(())
            }
            Err(error) => self.read_failed("snapshot", &error),
        }
    }

    /// Looks some keys up in a snapshot, and reads all of it.
    fn check_snapshot(&self, held: &Held) -> Outcome {
        let Held { snapshot, reference, now_ms } = held;
        let keys: Vec<_> =
            (0..self.simulation.workload.keys.min(KEYS_CHECKED)).map(|key| self.key(key)).collect();
        match snapshot.get_many(&keys) {
            Ok(found) => {
                let mut found = keys.iter().zip(&found);
                found.try_for_each(|(key, found)| reference.check_value(key, found.as_ref(), *now_ms))?;
            }
            Err(error) => self.read_failed("a get from a snapshot", &error)?,
        }
        match collect(snapshot.iter()) {
            Ok(records) => reference.check_all(&records, *now_ms),
            Err(error) => self.read_failed("a snapshot", &error),
        }?;
        self.check_order(snapshot.ordered(), reference, *now_ms)
    }

    /// Reads the next page of the scan. After its last page it must have returned every key that was present all the
    /// time, and no key twice.
    pub(super) fn scan_page(&mut self, limit: u32) -> Outcome {
        let (database, now_ms) = (self.database()?, self.now_ms());
        let mut scan = match self.scan.take() {
            Some(mut scan) => {
                // A key that is expired now can be present again later, if a crash loses the put with the expiry time.
                scan.present.retain(|key| self.reference.is_present(key, now_ms));
                scan
            }
            None => {
                let keys = (0..self.simulation.workload.keys).map(|key| self.key(key));
                let present = keys.filter(|key| self.reference.is_present(key, now_ms)).collect();
                Scan { next: 0, returned: BTreeSet::new(), present }
            }
        };
        let page = match database.scan(scan.next.., limit as usize) {
            Ok(page) => page,
            Err(error) => {
                self.scan = Some(scan);
                return self.read_failed("scan", &error);
            }
        };
        for Record { key, value, expires_at_ms } in page.records {
            self.reference.check(&key, Some(&Cell { value, expires_at_ms }), now_ms)?;
            if !scan.returned.insert(key.clone()) {
                let key = key.escape_ascii();
                return Err(Violation::new(format!("a scan returned key {key} twice")));
            }
        }
        match page.next {
            Some(next) if next <= scan.next => Err(Violation::new(format!("a scan is stuck at {next}"))),
            Some(next) => {
                scan.next = next;
                self.scan = Some(scan);
                Ok(())
            }
            None => {
                let is_missing = |key: &&Vec<u8>| {
                    !scan.returned.contains(&key[..]) && self.reference.is_present(key, now_ms)
                };
                match scan.present.iter().find(is_missing) {
                    Some(key) => {
                        let found = database.get(key).map(|found| found.is_some());
                        let (key, returned) = (key.escape_ascii(), scan.returned.len());
                        let what = format!("a scan with {returned} records left out key {key}");
                        Err(Violation::new(format!("{what}; a get finds one: {found:?}")))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    pub(super) fn check_all(&mut self) -> Outcome {
        match self.database()?.iter().and_then(collect) {
            Ok(records) => self.reference.check_all(&records, self.now_ms()),
            Err(error) => self.read_failed("iter", &error),
        }?;
        self.check_order(self.database()?.ordered(), &self.reference, self.now_ms())
    }

    /// Reads all records and all keys in their order, if the database keeps it.
    fn check_order(
        &self,
        ordered: Option<OrderedDatabase<'_>>,
        reference: &Model,
        now_ms: TimestampMs,
    ) -> Outcome {
        let Some(ordered) = ordered else { return Ok(()) };
        let read = ordered.range(..).and_then(|range| {
            let records = range.collect::<siltstone::Result<Vec<Record>>>()?;
            let ascending = ordered.range_keys(..)?.collect::<siltstone::Result<Vec<_>>>()?;
            let descending = ordered.descending().range_keys(..)?.collect::<siltstone::Result<Vec<_>>>()?;
            Ok((records, ascending, descending))
        });
        let (records, ascending, descending) = match read {
            Ok(read) => read,
            Err(error) => return self.read_failed("a range of keys", &error),
        };
        let keys = || records.iter().map(|record| &record.key);
        let cell =
            |record: &Record| Cell { value: record.value.clone(), expires_at_ms: record.expires_at_ms };
        let cells = records.iter().map(|record| (record.key.clone(), cell(record))).collect();
        reference.check_all(&cells, now_ms)?;
        if keys().is_sorted_by(|one, next| one < next)
            && keys().eq(&ascending)
            && keys().eq(descending.iter().rev())
        {
            return Ok(());
        }
        let lengths = (records.len(), ascending.len(), descending.len());
        Err(Violation::new(format!("the keys of ranges are not those of their records: {lengths:?}")))
    }

    /// Merges everything. Afterwards the counters must be exact.
    pub(super) fn compact(&mut self) -> Outcome {
        let database = self.database()?;
        if let Err(error) = database.compact() {
            return self.failed("compact", &error);
        }
        for steps in 0.. {
            match database.step() {
                Ok(Step::Idle) => break,
                Ok(Step::Worked) if steps < STEPS_MAX => {}
                Ok(Step::Worked) => return Err(Violation::new("background work does not end".into())),
                Err(error) => return self.failed("step", &error),
            }
        }
        if self.must_refuse() {
            return Err(Violation::new("a compaction was acknowledged after a change had failed".into()));
        }
        let stats = database.stats();
        let there = match database.iter().and_then(collect) {
            Ok(records) => records.len() as u64,
            Err(error) => return self.read_failed("iter", &error),
        };
        // Expired records remain until something else is merged with them.
        let may_be_more = self.simulation.workload.lifetime_ms > 0;
        if stats.records != stats.merged_records
            || stats.records < there
            || (stats.records > there && !may_be_more)
        {
            return Err(Violation::new(format!(
                "{} records were merged, {} are counted, and {there} are there",
                stats.merged_records, stats.records
            )));
        }
        self.check_stats(true)
    }

    /// Checks the statistics of the database; `idle` if no background work is running.
    pub(super) fn check_stats(&self, idle: bool) -> Outcome {
        let stats = self.database()?.stats();
        let Session { writes_done, writes_in_doubt, .. } = self.session;
        let named_bytes = self.backend.named_bytes();
        // Without power, the lengths of files cannot be read.
        let may_count = idle && !self.backend.is_off();
        let working = |item: &&(&str, u64)| self.configuration.engine.job_buffers.contains(&item.0);
        let working_bytes: u64 = stats.ram.items().iter().filter(working).map(|(_, bytes)| bytes).sum();
        let claims = [
            ("writes", (writes_done..=writes_done + writes_in_doubt).contains(&stats.writes)),
            ("a peak", stats.ram_peak.total_bytes() >= stats.ram.total_bytes()),
            ("records", stats.records >= stats.merged_records),
            ("bytes of files", !may_count || stats.disk_bytes == named_bytes),
            ("memory of work that ended", !idle || working_bytes == 0),
        ];
        match claims.into_iter().find(|(_, holds)| !holds) {
            Some((what, _)) if !self.must_refuse() => Err(Violation::new(format!(
                "{what} are not as they are counted: {} for {writes_done} to {} writes, {} for {named_bytes} bytes, \
                 {working_bytes} bytes of work, {} of {} records merged",
                stats.writes,
                writes_done + writes_in_doubt,
                stats.disk_bytes,
                stats.merged_records,
                stats.records,
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn verify(&mut self) -> Outcome {
        let (mut done, mut all, mut receded) = (0, 0, false);
        let outcome = self.database()?.verify_with(&mut |now_done, now_all| {
            receded |= now_done < done || now_done > now_all;
            (done, all) = (now_done, now_all);
            true
        });
        match outcome {
            Ok(report) if !report.damage.is_empty() && !self.reads_may_fail() => {
                Err(Violation::new(format!("damage is reported where there is none: {:?}", report.damage)))
            }
            Ok(_) if receded => Err(Violation::new(format!("the progress decreased: {done} of {all}"))),
            Ok(report) => {
                let keys = self.reference.keys(self.now_ms());
                match report.live_records.filter(|live| !keys.contains(live)) {
                    Some(live) => Err(Violation::new(format!("{live} records live, but should be {keys:?}"))),
                    None => self.check_stats(false),
                }
            }
            Err(error) => self.read_failed("verify", &error),
        }
    }

    /// Makes a checkpoint, opens it and compares it.
    pub(super) fn checkpoint(&mut self) -> Outcome {
        let Some(scratch) = self.scratch else { return Ok(()) };
        let outcome = self.database()?.checkpoint(scratch);
        let copied = match &outcome {
            Ok(()) => {
                let directory = Directory::system(scratch, Access::Buffered);
                directory
                    .map_err(siltstone::Error::from)
                    .and_then(|directory| self.configuration.builder(&self.clock).open_in(directory))
                    .and_then(|copy| copy.iter().and_then(collect))
                    .map(Some)
            }
            Err(_) => Ok(None),
        };
        clear(scratch).map_err(|error| Violation::new(format!("clearing: {error}")))?;
        match (outcome, copied) {
            (Ok(()), Ok(Some(records))) => self.reference.check_all(&records, self.now_ms()),
            (Ok(()), Err(error)) => Err(Violation::new(format!("a checkpoint does not open: {error}"))),
            (Err(error), _) => self.failed("checkpoint", &error),
            (Ok(()), Ok(None)) => Ok(()),
        }
    }
}

fn clear(scratch: &Path) -> siltstone::Result<()> {
    let directory = Directory::system(scratch, Access::Buffered)?;
    directory.list()?.iter().try_for_each(|name| directory.remove(name))?;
    // The disk of a copy is in a subdirectory.
    let _ = std::fs::remove_dir_all(scratch.join("disk"));
    // The file of the lock is not listed. It exists only if the copy was opened.
    let _ = directory.remove("LOCK");
    Ok(())
}
