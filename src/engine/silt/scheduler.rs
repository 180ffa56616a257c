//! Background work: which job runs next, one bounded step at a time.
//!
//! The two jobs, one conversion and one merge, run concurrently if two threads drive them. Only one partition is
//! merged at a time, so the extra space is that of one partition.
//!
//! The records that a merge has passed count as merged, both for the pressure on writers and for its own pace. While a
//! merge is ahead of schedule and no LogStore is queued, the worker sleeps after each step in proportion to its
//! *slack*, leaving drive bandwidth to gets. It resumes full speed as soon as writes need it.

use super::chain::{ChainJob, ChainStep};
use super::convert::ConvertJob;
use super::job_context::JobContext;
use super::live::Edit;
use super::merge::{Loaded, MergeJob};
use super::policy::{Counts, Job, Pressure};
use super::rate::Rate;
use crate::batch::TimestampMs;
use crate::engine::jobs::{JobSlot, step_furthest_behind};
use crate::engine::{Background, Backpressure, Step};
use crate::error::{Error, Result};
use siltstone_device::Purpose;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_device::sync::{Mutex, yield_now};
use std::cell::Cell;

/// The slack while the only work is to free the space of removed files.
const FREEING_SLACK: f64 = 8.0;

/// The jobs in progress, at most one of each kind, and the state of the queued work.
pub(super) struct Scheduler {
    context: JobContext,
    converting: JobSlot<ConvertJob>,
    chaining: JobSlot<ChainJob>,
    merging: JobSlot<MergeJob>,
    schedule: Mutex<Schedule>,
    /// The state of the background work, for threads that do not lock the schedule.
    pressure: AtomicU64,
    slack: AtomicU64,
    has_work: AtomicBool,
    wants_thread: AtomicBool,
    convert_rate: Rate,
    merge_rate: Rate,
    /// Whether the last step found only work that waits for its rate.
    is_limited: AtomicBool,
    /// How many conversions and merges have ended.
    pub conversions: AtomicU64,
    pub merges: AtomicU64,
    /// How many chains were written, except by merges.
    pub chains: AtomicU64,
}

/// The partitions that jobs work on, and those whose compaction was requested.
struct Schedule {
    converting: Option<usize>,
    chaining: Option<usize>,
    merging: Option<usize>,
    /// The merge in progress includes the partition's frozen LogStores, so they are not converted.
    merging_frozen: bool,
    compact: Vec<bool>,
    new_key_ratio: f64,
    /// How many HashStore records the merge in progress has passed.
    merged_records: u64,
}

impl Scheduler {
    pub fn new(context: JobContext) -> Scheduler {
        let health = context.log.health();
        let settings = &context.configuration.settings;
        Scheduler {
            convert_rate: Rate::new(settings.convert_bytes_per_s),
            merge_rate: Rate::new(settings.merge_bytes_per_s),
            is_limited: AtomicBool::new(false),
            converting: JobSlot::new("conversion", health),
            chaining: JobSlot::new("chain", health),
            merging: JobSlot::new("merge", health),
            schedule: Mutex::new(Schedule {
                converting: None,
                chaining: None,
                merging: None,
                merging_frozen: false,
                compact: vec![false; context.partitions.len()],
                new_key_ratio: 1.0,
                merged_records: 0,
            }),
            pressure: AtomicU64::new(0),
            slack: AtomicU64::new(0),
            has_work: AtomicBool::new(false),
            wants_thread: AtomicBool::new(false),
            conversions: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            chains: AtomicU64::new(0),
            context,
        }
    }

    /// Returns the state of the background work.
    pub fn background(&self) -> Background {
        let has_work = self.has_work.load(Ordering::Acquire);
        let loads = self.context.memory.has_work();
        let frees = self.context.configuration.directory.unfreed_bytes() > 0;
        let Backpressure { pressure, wants_thread } = self.backpressure();
        Background {
            has_work: has_work || loads || frees,
            wants_thread: wants_thread || loads,
            is_limited: self.is_limited.load(Ordering::Relaxed),
            pressure,
            // Nothing waits for space that is freed while there is no other work.
            slack: if has_work { f64::from_bits(self.slack.load(Ordering::Acquire)) } else { FREEING_SLACK },
        }
    }

    /// Returns what the background work demands of writers.
    pub fn backpressure(&self) -> Backpressure {
        Backpressure {
            pressure: f64::from_bits(self.pressure.load(Ordering::Acquire)),
            wants_thread: self.wants_thread.load(Ordering::Acquire)
                && !self.is_limited.load(Ordering::Relaxed),
        }
    }

    fn counts(&self, schedule: &Schedule) -> Counts {
        let partitions = self.context.partitions.iter().zip(&schedule.compact);
        Counts {
            partitions: partitions.map(|(partition, compact)| partition.counts(*compact)).collect(),
            new_key_ratio: schedule.new_key_ratio,
            merged_records: schedule.merged_records,
            record_bytes: self.context.partitions.record_bytes(),
            is_short: self.context.partitions.is_short(),
        }
    }

    /// Updates the state of the background work, after a LogStore was frozen or a job has ended.
    pub fn refresh(&self) {
        self.refresh_locked(&self.schedule.lock());
    }

    fn refresh_locked(&self, schedule: &Schedule) {
        let JobContext { configuration, commits, memory, .. } = &self.context;
        let settings = &configuration.settings;
        let counts = self.counts(schedule);
        let Pressure { convert, merge } = counts.pressure(settings);
        let is_writable = !configuration.directory.is_read_only();
        let has_commits = commits.pending() > 0;
        let has_merge = counts.choose_merge(settings).is_some();
        let has_chain = self.next_chain(schedule).is_some();
        let is_active =
            schedule.converting.is_some() || schedule.chaining.is_some() || schedule.merging.is_some();
        let has_frozen = counts.partitions.iter().any(|partition| partition.frozen > 0);
        let wants_thread = has_commits
            || schedule.converting.is_none() && self.oldest_frozen(schedule).is_some()
            || schedule.chaining.is_none() && has_chain
            || schedule.merging.is_none() && has_merge;
        let has_work = is_active || has_commits || has_frozen || has_chain || has_merge;
        let slack = if schedule.merging.is_some() { counts.slack(settings) } else { 0.0 };
        memory.set_keys(counts.keys() as u64);
        self.wants_thread.store(wants_thread && is_writable, Ordering::Release);
        self.pressure.store(convert.max(merge).to_bits(), Ordering::Release);
        self.slack.store(slack.to_bits(), Ordering::Release);
        self.has_work.store(has_work && is_writable, Ordering::Release);
        memory.keep_within_budget();
    }

    /// Executes one bounded piece of work: of the job that is further behind, or of the other if a thread is at that
    /// one.
    pub fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        self.context.log.health().run(|| {
            let JobContext { configuration, partitions, commits, memory, .. } = &self.context;
            let due = self.counts(&self.schedule.lock()).due(&configuration.settings);
            // In every step: a LogStore with few writes would keep the whole log since its first record.
            self.freeze_idle_log_stores()?;
            partitions.shrink_log_stores()?;
            let worked = step_furthest_behind(due, |job| match job {
                Job::Convert => self.step_convert(now_ms),
                Job::Merge => self.step_merge(now_ms),
                Job::Load => Ok(memory.step_load()? == Step::Worked),
            })?;
            let is_limited = !worked && self.has_limited_work(now_ms);
            self.is_limited.store(is_limited, Ordering::Relaxed);
            // After each step, in proportion to what it wrote.
            let freed = configuration.directory.free_removed(!worked)?;
            if worked {
                return Ok(Step::Worked);
            }
            if is_limited {
                return Ok(if freed { Step::Worked } else { Step::Idle });
            }
            // No conversion follows with which these could share a commit, so they do not wait any longer.
            let committed = commits.run(|queue| queue.commit_pending())?;
            self.refresh();
            memory.rebalance(0);
            Ok(if committed || freed { Step::Worked } else { Step::Idle })
        })
    }

    /// Returns whether there is a conversion or a merge that waits for its rate.
    fn has_limited_work(&self, now_ms: TimestampMs) -> bool {
        let schedule = self.schedule.lock();
        let converts = || schedule.converting.is_some() || self.oldest_frozen(&schedule).is_some();
        let settings = &self.context.configuration.settings;
        let chains = || schedule.chaining.is_some() || self.next_chain(&schedule).is_some();
        let merges = || schedule.merging.is_some() || self.counts(&schedule).choose_merge(settings).is_some();
        !self.convert_rate.allows(now_ms) && (converts() || chains())
            || !self.merge_rate.allows(now_ms) && merges()
    }

    /// Runs a step of a job, unless it has to wait for its rate, and charges what it reads and writes. One thread at a
    /// time runs the jobs of a purpose.
    fn limited(
        &self,
        rate: &Rate,
        purpose: Purpose,
        now_ms: TimestampMs,
        step: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let moved = || {
            let io = self.context.configuration.directory.io().of(purpose);
            io.read_bytes + io.write_bytes
        };
        if !rate.allows(now_ms) {
            return Ok(false);
        }
        let before = moved();
        let worked = step()?;
        if worked {
            rate.charge(now_ms, moved() - before);
        }
        Ok(worked)
    }

    fn step_convert(&self, now_ms: TimestampMs) -> Result<bool> {
        self.limited(&self.convert_rate, Purpose::Convert, now_ms, || {
            let chained = self.chain()?;
            Ok(self.convert()? || chained)
        })
    }

    fn step_merge(&self, now_ms: TimestampMs) -> Result<bool> {
        self.limited(&self.merge_rate, Purpose::Merge, now_ms, || self.merge(now_ms))
    }

    fn convert(&self) -> Result<bool> {
        let memory = &self.context.memory;
        let start = || {
            let mut schedule = self.schedule.lock();
            // The lock is held until `converting` is set: a merge that starts meanwhile would include the same
            // LogStore.
            let Some(number) = self.oldest_frozen(&schedule) else { return Ok(None) };
            let settings = &self.context.configuration.settings;
            let hash_stores = self.counts(&schedule).hash_stores_mean(settings);
            let job = ConvertJob::start(&self.context, number, hash_stores)?;
            schedule.converting = Some(number);
            Ok(Some(job))
        };
        self.converting.step(start, |mut job| {
            let done = job.step(&self.context)?;
            memory.convert_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
            memory.keep_within_budget();
            if !done {
                return Ok(Some(job));
            }
            job.finish(&self.context)?;
            self.conversions.fetch_add(1, Ordering::Relaxed);
            memory.convert_bytes.store(0, Ordering::Relaxed);
            {
                let mut schedule = self.schedule.lock();
                // After `finish`: a merge must not include the LogStore before the HashStore has replaced it.
                schedule.converting = None;
                self.refresh_locked(&schedule);
            }
            memory.rebalance(0);
            Ok(None)
        })
    }

    /// Returns the partition whose chain is written next, if chains are configured.
    fn next_chain(&self, schedule: &Schedule) -> Option<usize> {
        let chain = self.context.configuration.settings.chain.as_ref()?;
        self.counts(schedule).choose_chain(chain, &[schedule.merging])
    }

    /// Runs a step of the job that writes a chain.
    fn chain(&self) -> Result<bool> {
        if self.context.configuration.settings.chain.is_none() {
            return Ok(false);
        }
        let memory = &self.context.memory;
        let start = || {
            let mut schedule = self.schedule.lock();
            let Some(number) = self.next_chain(&schedule) else { return Ok(None) };
            let job = ChainJob::start(&self.context, number)?;
            match job {
                Some(_) => schedule.chaining = Some(number),
                // Its runs have other columns. A merge makes columns and a chain of their records.
                None => schedule.compact[number] = true,
            }
            self.refresh_locked(&schedule);
            Ok(job)
        };
        self.chaining.step(start, |job| {
            let complete = match job.step(&self.context)? {
                ChainStep::Working(job) => {
                    memory.chain_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
                    memory.keep_within_budget();
                    return Ok(Some(job));
                }
                ChainStep::Complete(job) => Some(job),
                ChainStep::Damaged => None,
            };
            if let Some(job) = complete {
                job.finish(&self.context)?;
                self.chains.fetch_add(1, Ordering::Relaxed);
            }
            memory.chain_bytes.store(0, Ordering::Relaxed);
            {
                let mut schedule = self.schedule.lock();
                // After `finish`: a merge takes the chain that it will replace from the view when it starts.
                schedule.chaining = None;
                self.refresh_locked(&schedule);
            }
            memory.rebalance(0);
            Ok(None)
        })
    }

    /// Returns the partition with the LogStore that was frozen first, of those that are to be converted.
    fn oldest_frozen(&self, schedule: &Schedule) -> Option<usize> {
        let partitions = self.context.partitions.iter().enumerate();
        let is_merged = |number| schedule.merging_frozen && schedule.merging == Some(number);
        // A compaction merges frozen LogStores without a conversion.
        let convertible = partitions.filter(|(number, _)| !schedule.compact[*number] && !is_merged(*number));
        // By its start in the log: the oldest LogStore keeps most of the log from being released.
        let oldest = convertible.filter_map(|(number, partition)| {
            partition.read(|state| state.view.frozen.last().map(|frozen| (frozen.start(), number)))
        });
        oldest.min().map(|(_, number)| number)
    }

    fn merge(&self, now_ms: TimestampMs) -> Result<bool> {
        self.merging.step(|| self.start_merge(now_ms), |job| self.continue_merge(job))
    }

    /// Runs a step of a merge. Returns it if it has more.
    fn continue_merge(&self, mut job: MergeJob) -> Result<Option<MergeJob>> {
        let memory = &self.context.memory;

        let done = job.step(&self.context)?;
        memory.merge_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
        memory.keep_within_budget();
        if !done {
            let mut schedule = self.schedule.lock();
            schedule.merged_records = job.merged_records();
            self.refresh_locked(&schedule);
            return Ok(Some(job));
        }
        let new_key_ratio = job.finish(&self.context)?;
        self.merges.fetch_add(1, Ordering::Relaxed);
        memory.merge_bytes.store(0, Ordering::Relaxed);
        {
            let mut schedule = self.schedule.lock();
            schedule.new_key_ratio = new_key_ratio.unwrap_or(schedule.new_key_ratio);
            schedule.merging = None;
            schedule.merged_records = 0;
            self.refresh_locked(&schedule);
        }
        memory.rebalance(0);
        Ok(None)
    }

    fn start_merge(&self, now_ms: TimestampMs) -> Result<Option<MergeJob>> {
        let JobContext { configuration, partitions, .. } = &self.context;
        let (number, merging_frozen, new_key_ratio) = {
            let mut schedule = self.schedule.lock();
            let chosen = self.counts(&schedule).choose_merge(&configuration.settings);
            let Some(number) = chosen else { return Ok(None) };
            // Chains are written, and runs of chains converted, with the columns that the partition has.
            let is_chained = configuration.settings.chain.is_some();
            if is_chained && [schedule.chaining, schedule.converting].contains(&Some(number)) {
                return Ok(None);
            }
            schedule.merging_frozen = schedule.converting != Some(number);
            schedule.merging = Some(number);
            // A compaction that is requested from here on needs another merge: its records may be too young for this
            // one. So does one whose records are being converted.
            schedule.compact[number] &= !schedule.merging_frozen;
            (number, schedule.merging_frozen, schedule.new_key_ratio)
        };
        // The active LogStore is merged too, which saves its conversion.
        partitions.freeze_early(number)?;
        // The schedule is not locked for this: `merging` and `merging_frozen` keep other jobs off what is merged.
        let job = MergeJob::start(&self.context, number, merging_frozen, new_key_ratio, now_ms, None)?;
        if job.is_none() {
            let mut schedule = self.schedule.lock();
            schedule.merging = None;
            self.refresh_locked(&schedule);
        }
        Ok(job)
    }

    /// Merges records from outside into a partition, in the calling thread. They are newer than everything that was
    /// written before. `go_on` is called after each step and returns whether to continue.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if `go_on` returns false; the partition is unchanged then.
    pub fn load(
        &self,
        number: usize,
        loaded: Loaded,
        now_ms: TimestampMs,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut loaded = Some(loaded);
        while loaded.is_some() {
            let is_mine = Cell::new(false);
            let start = || {
                let job = self.start_load(number, &mut loaded, now_ms)?;
                is_mine.set(job.is_some());
                Ok(job)
            };
            let worked = self.merging.step(start, |job| match is_mine.get() {
                true => self.run_load(job, go_on),
                // A merge that was in progress.
                false => self.continue_merge(job),
            })?;
            // Another job has the partition.
            if !worked && !self.convert()? && !self.chain()? {
                yield_now();
            }
        }
        Ok(())
    }

    /// Starts the merge of a load, unless another job works on the partition, which may have older records.
    fn start_load(
        &self,
        number: usize,
        loaded: &mut Option<Loaded>,
        now_ms: TimestampMs,
    ) -> Result<Option<MergeJob>> {
        {
            let mut schedule = self.schedule.lock();
            if [schedule.chaining, schedule.converting].contains(&Some(number)) {
                return Ok(None);
            }
            schedule.merging_frozen = true;
            schedule.merging = Some(number);
        }
        self.context.partitions.freeze_early(number)?;
        MergeJob::start(&self.context, number, true, 1.0, now_ms, loaded.take())
    }

    fn run_load(&self, job: MergeJob, go_on: &mut dyn FnMut() -> bool) -> Result<Option<MergeJob>> {
        let mut next = Some(job);
        while let Some(job) = next.take() {
            if !go_on() {
                // Nothing of the load is visible yet: it shows no part before its commit.
                job.abandon(&self.context)?;
                self.context.memory.merge_bytes.store(0, Ordering::Relaxed);
                let mut schedule = self.schedule.lock();
                schedule.merging = None;
                schedule.merged_records = 0;
                self.refresh_locked(&schedule);
                return Err(Error::Interrupted);
            }
            next = self.continue_merge(job)?;
        }
        Ok(None)
    }

    /// Requests a merge of everything that was written before the call.
    pub fn request_compaction(&self) -> Result<()> {
        let JobContext { log, partitions, .. } = &self.context;
        for number in 0..partitions.len() {
            partitions.freeze_early(number)?;
        }
        // The last segment is never released, so it should have no records that are merged.
        log.start_new_segment()?;
        let end = log.end();
        // The marker of this sync follows the end of the segment before: only then a commit releases that segment.
        log.sync_to(end)?;
        let is_behind = |number: &usize| {
            partitions.get(*number).read(|state| {
                state.active.is_empty() && state.view.frozen.is_empty() && state.active.start() < end
            })
        };
        // Where there is nothing to merge, no commit of a merge follows, and the partition would keep the log.
        self.release_log_of(&(0..partitions.len()).filter(is_behind).collect::<Vec<_>>())?;
        let mut schedule = self.schedule.lock();
        schedule.compact.fill(true);
        self.refresh_locked(&schedule);
        Ok(())
    }

    /// Releases the log for LogStores that receive few writes and keep a long part of it: empty ones at once, others
    /// after a conversion.
    fn freeze_idle_log_stores(&self) -> Result<()> {
        let JobContext { log, partitions, .. } = &self.context;
        let end = log.end();
        let is_idle = |number: &usize| {
            let (start, reach_bytes) =
                partitions.get(*number).read(|state| (state.active.start(), state.log_reach_bytes));
            // A LogStore that was frozen after `end` was read starts after it.
            end.saturating_sub(start) > reach_bytes
        };
        let idle: Vec<usize> = (0..partitions.len()).filter(is_idle).collect();
        self.release_log_of(&idle)?;
        idle.into_iter().try_for_each(|number| partitions.freeze_early(number))
    }

    /// Releases the log for those of the partitions that have no records in it, in one commit.
    fn release_log_of(&self, numbers: &[usize]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        // The commit queue is locked before any writer.
        self.context.commits.run(|queue| {
            let mut edits = Vec::new();
            for &number in numbers {
                // What is written from here on has a later position than this end, so the writer is not locked during
                // the commit.
                if let Some(end) = self.context.partitions.log_end_if_empty(number)? {
                    edits.push(Edit { partition: number as u32, converted_to: end, ..Edit::default() });
                }
            }
            if edits.is_empty() {
                return Ok(());
            }
            queue.commit(edits)?;
            queue.release_log()
        })
    }
}
