//! Background work: which job is next, one bounded step at a time.

use super::Core;
use super::convert::ConvertJob;
use super::merge::MergeJob;
use super::policy::{Counts, PartitionCounts};
use crate::Result;
use crate::batch::TimestampMs;
use crate::engine::Step;
use crate::health::{FailStop, Health};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Indexes and filters are read back before other work as long as that is no further behind.
const LOAD_PRESSURE_MAX: f64 = 0.5;

/// The jobs under way, at most one of each kind, and what is known of the work that waits. A step takes its job out of
/// the slot, and puts it back if it succeeded: a job that failed has passed over what it could not read or write, and
/// is never continued.
pub(super) struct Jobs {
    converting: FailStop<Option<ConvertJob>>,
    merging: FailStop<Option<MergeJob>>,
    schedule: Mutex<Schedule>,
    /// The memory of the jobs under way, in bytes.
    pub convert_bytes: AtomicU64,
    pub merge_bytes: AtomicU64,
    pressure: AtomicU64,
    lead: AtomicU64,
    has_work: AtomicBool,
    wants_thread: AtomicBool,
}

/// Which partitions are being worked on, and which are to be merged whole.
struct Schedule {
    converting: Option<usize>,
    merging: Option<usize>,
    /// The merge under way takes the partition's frozen LogStores, so they are not converted.
    merging_frozen: bool,
    compact: Vec<bool>,
    novelty: f64,
    /// How many records of HashStores the merge under way has gone over.
    merged_records: u64,
}

impl Jobs {
    pub fn new(partitions: usize, health: &Arc<Health>) -> Jobs {
        Jobs {
            converting: FailStop::new(health, None),
            merging: FailStop::new(health, None),
            schedule: Mutex::new(Schedule {
                converting: None,
                merging: None,
                merging_frozen: false,
                compact: vec![false; partitions],
                novelty: 1.0,
                merged_records: 0,
            }),
            convert_bytes: AtomicU64::new(0),
            merge_bytes: AtomicU64::new(0),
            pressure: AtomicU64::new(0),
            lead: AtomicU64::new(0),
            has_work: AtomicBool::new(false),
            wants_thread: AtomicBool::new(false),
        }
    }

    pub fn has_work(&self) -> bool {
        self.has_work.load(Ordering::Acquire)
    }

    /// Whether there is work at which nobody is.
    pub fn want_thread(&self) -> bool {
        self.wants_thread.load(Ordering::Acquire)
    }

    pub fn pressure(&self) -> f64 {
        f64::from_bits(self.pressure.load(Ordering::Acquire))
    }

    pub fn lead(&self) -> f64 {
        f64::from_bits(self.lead.load(Ordering::Acquire))
    }
}

impl Core {
    fn counts(&self, schedule: &Schedule) -> Counts {
        let partition = |(number, compact): (usize, &bool)| {
            let view = self.partitions[number].state.read().view.clone();
            PartitionCounts {
                frozen: view.frozen.len(),
                frozen_records: view.frozen_records(),
                hash_stores: view.hash_stores.len(),
                hash_records: view.hash_records(),
                sorted_records: view.sorted_records(),
                compact: *compact,
            }
        };
        let partitions = schedule.compact.iter().enumerate().map(partition).collect();
        Counts { partitions, novelty: schedule.novelty, merged_records: schedule.merged_records }
    }

    /// Looks again at how much work waits: after a LogStore was frozen or a job has ended.
    pub(super) fn refresh_jobs(&self) {
        let schedule = self.jobs.schedule.lock();
        self.refresh(&schedule);
    }

    fn refresh(&self, schedule: &Schedule) {
        let counts = self.counts(schedule);
        let pressure = counts.pressure(&self.settings);
        let is_writable = !self.directory.is_read_only();
        self.keys.store(counts.keys() as u64, Ordering::Relaxed);
        let waits = schedule.converting.is_some()
            || schedule.merging.is_some()
            || self.pending_commits.load(Ordering::Acquire) > 0
            || counts.partitions.iter().any(|partition| partition.frozen > 0)
            || counts.choose_merge(&self.settings).is_some();
        let wants_thread = self.pending_commits.load(Ordering::Acquire) > 0
            || schedule.converting.is_none() && self.oldest_frozen(schedule).is_some()
            || schedule.merging.is_none() && counts.choose_merge(&self.settings).is_some();
        self.jobs.wants_thread.store(wants_thread && is_writable, Ordering::Release);
        self.jobs.pressure.store(pressure.convert.max(pressure.merge).to_bits(), Ordering::Release);
        let lead = if schedule.merging.is_some() { counts.lead(&self.settings) } else { 0.0 };
        self.jobs.lead.store(lead.to_bits(), Ordering::Release);
        self.jobs.has_work.store(waits && is_writable, Ordering::Release);
        self.keep_within_budget();
    }

    /// Notes the peak, and drops what is too much.
    fn keep_within_budget(&self) {
        let total_bytes = self.note_ram_peak();
        if self.residency.budget().is_some_and(|budget| total_bytes > budget) {
            self.rebalance(0);
        }
    }

    /// One bounded piece of work: of whichever kind is further behind, or of the other if somebody is at that.
    pub(super) fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        self.health.run(|| {
            let pressure = {
                let schedule = self.jobs.schedule.lock();
                self.counts(&schedule).pressure(&self.settings)
            };
            self.release_idle_log()?;
            self.shrink_log_stores()?;
            let behind = pressure.convert.max(pressure.merge) >= LOAD_PRESSURE_MAX;
            if !behind && self.step_load()? == Step::Worked {
                return Ok(Step::Worked);
            }
            let order = if pressure.convert >= pressure.merge { [true, false] } else { [false, true] };
            for convert in order {
                let worked = if convert { self.step_convert()? } else { self.step_merge(now_ms)? };
                if worked {
                    return Ok(Step::Worked);
                }
            }
            if self.step_load()? == Step::Worked {
                return Ok(Step::Worked);
            }
            let waited = self.ledger.run(|ledger| {
                let waited = ledger.pending() > 0;
                self.commit_pending(ledger)?;
                Ok(waited)
            })?;
            self.refresh_jobs();
            self.rebalance(0);
            Ok(if waited { Step::Worked } else { Step::Idle })
        })
    }

    fn step_convert(&self) -> Result<bool> {
        let worked = self.jobs.converting.try_run(|slot| {
            let mut job = match slot.take() {
                Some(job) => job,
                None => {
                    let mut schedule = self.jobs.schedule.lock();
                    let Some(number) = self.oldest_frozen(&schedule) else { return Ok(false) };
                    let job = ConvertJob::start(self, number)?;
                    schedule.converting = Some(number);
                    job
                }
            };
            let done = job.step(self)?;
            self.jobs.convert_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
            self.keep_within_budget();
            if !done {
                *slot = Some(job);
                return Ok(true);
            }
            job.finish(self)?;
            self.jobs.convert_bytes.store(0, Ordering::Relaxed);
            let mut schedule = self.jobs.schedule.lock();
            schedule.converting = None;
            self.refresh(&schedule);
            drop(schedule);
            self.rebalance(0);
            Ok(true)
        })?;
        Ok(worked.unwrap_or(false))
    }

    /// The partition whose LogStore waits longest to be converted.
    fn oldest_frozen(&self, schedule: &Schedule) -> Option<usize> {
        let merged = |number: usize| schedule.merging_frozen && schedule.merging == Some(number);
        let waiting = |number: &usize| !schedule.compact[*number] && !merged(*number);
        let start = |number: usize| {
            let view = self.partitions[number].state.read().view.clone();
            view.frozen.last().map(|frozen| (frozen.start(), number))
        };
        (0..self.partitions.len()).filter(waiting).filter_map(start).min().map(|(_, number)| number)
    }

    fn step_merge(&self, now_ms: TimestampMs) -> Result<bool> {
        let worked = self.jobs.merging.try_run(|slot| {
            let job = match slot.take() {
                Some(job) => Some(job),
                None => self.start_merge(now_ms)?,
            };
            let Some(mut job) = job else { return Ok(false) };
            let done = job.step(self)?;
            self.jobs.merge_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
            self.keep_within_budget();
            if !done {
                let mut schedule = self.jobs.schedule.lock();
                schedule.merged_records = job.merged_records();
                self.refresh(&schedule);
                *slot = Some(job);
                return Ok(true);
            }
            let novelty = job.finish(self)?;
            self.jobs.merge_bytes.store(0, Ordering::Relaxed);
            let mut schedule = self.jobs.schedule.lock();
            if let Some(novelty) = novelty {
                schedule.novelty = novelty;
            }
            schedule.merging = None;
            schedule.merged_records = 0;
            self.refresh(&schedule);
            drop(schedule);
            self.rebalance(0);
            Ok(true)
        })?;
        Ok(worked.unwrap_or(false))
    }

    fn start_merge(&self, now_ms: TimestampMs) -> Result<Option<MergeJob>> {
        let (number, novelty) = {
            let mut schedule = self.jobs.schedule.lock();
            let Some(number) = self.counts(&schedule).choose_merge(&self.settings) else { return Ok(None) };
            schedule.merging_frozen = schedule.converting != Some(number);
            schedule.merging = Some(number);
            // A compaction that is asked for from here on is another one: it may come too late for this merge. If a
            // conversion is under way, it brings more to merge.
            schedule.compact[number] &= !schedule.merging_frozen;
            (number, schedule.novelty)
        };
        // What is young is merged too, which saves making a HashStore of it.
        self.freeze_early(number)?;
        let merging_frozen = self.jobs.schedule.lock().merging_frozen;
        let job = MergeJob::start(self, number, merging_frozen, novelty, now_ms)?;
        if job.is_none() {
            let mut schedule = self.jobs.schedule.lock();
            schedule.merging = None;
            self.refresh(&schedule);
        }
        Ok(job)
    }

    /// Asks for everything that was written until now to be merged.
    pub(super) fn request_compaction(&self) -> Result<()> {
        for number in 0..self.partitions.len() {
            self.freeze_early(number)?;
        }
        self.log.start_new_segment()?;
        self.advance_idle_logs()?;
        let mut schedule = self.jobs.schedule.lock();
        schedule.compact.fill(true);
        self.refresh(&schedule);
        Ok(())
    }

    /// Freezes LogStores that few writes go to and that keep the log from being released.
    fn release_idle_log(&self) -> Result<()> {
        let end = self.log.end();
        for (number, partition) in self.partitions.iter().enumerate() {
            let (start, reach_bytes) = {
                let state = partition.state.read();
                (state.active.start(), self.log_reach_bytes(&state))
            };
            // A LogStore that was frozen since `end` was read begins after it.
            if end.saturating_sub(start) > reach_bytes {
                self.freeze_early(number)?;
                self.advance_empty_log(number)?;
            }
        }
        Ok(())
    }
}
