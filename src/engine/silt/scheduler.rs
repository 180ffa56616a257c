//! Background work: which job runs next, one bounded step at a time.
//!
//! A conversion and a merge run concurrently if two threads drive them. With more threads, *further* conversions and
//! merges begin, of other partitions, up to one less of each kind than there are threads. They begin if other threads
//! work on all that have begun, and
//!
//! - work is so far behind that writers are delayed or soon will be, or a compaction was requested (`policy`),
//! - the memory budget has place for their buffers besides all indexes and filters (`memory_budget`),
//! - the file system has place for what each merge writes before it frees what it replaces (`partition`), besides the
//!   reserve of free space, and
//! - no rate is set: it limits what all jobs of a kind read and write.
//!
//! So without pressure one partition is merged at a time, and the extra space is that of one partition.
//!
//! The records that merges have passed count as merged, both for the pressure on writers and for their own pace. While
//! merges are ahead of schedule and no LogStore is queued, the worker sleeps after each step in proportion to the
//! *slack*, leaving drive bandwidth to gets. It resumes full speed as soon as writes need it.

use super::chain::{ChainJob, ChainStep};
use super::convert::ConvertJob;
use super::live::Edit;
use super::merge::{Loaded, MergeJob};
use super::parts::Parts;
use super::policy::{Counts, Job, Pressure};
use super::rate::Rate;
use super::schedule::Schedule;
use crate::batch::TimestampMs;
use crate::engine::jobs::{JobSlot, JobSlots, step_furthest_behind};
use crate::engine::{Background, Backpressure, Step};
use crate::error::{Error, Result};
use siltstone_device::Purpose;
use siltstone_device::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use siltstone_device::sync::{Mutex, yield_now};
use std::cell::Cell;
use std::sync::Arc;

/// The slack while the only work is to free the space of removed files.
const FREEING_SLACK: f64 = 8.0;

/// The jobs in progress, and the state of the queued work.
pub(super) struct Scheduler {
    parts: Arc<Parts>,
    converting: JobSlots<ConvertJob>,
    chaining: JobSlot<ChainJob>,
    merging: JobSlots<MergeJob>,
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
    /// How many of them have begun while others of their kind were in progress.
    pub further_conversions: AtomicU64,
    pub further_merges: AtomicU64,
    /// How many chains were written, except by merges.
    pub chains: AtomicU64,
}

impl Scheduler {
    pub fn new(parts: Arc<Parts>) -> Scheduler {
        let (health, configuration) = (parts.log.health(), &parts.configuration);
        let settings = &configuration.settings;
        Scheduler {
            convert_rate: Rate::new(settings.convert_bytes_per_s),
            merge_rate: Rate::new(settings.merge_bytes_per_s),
            is_limited: AtomicBool::new(false),
            converting: JobSlots::new("conversion", health, configuration.conversions_max()),
            chaining: JobSlot::new("chain", health),
            merging: JobSlots::new("merge", health, configuration.merges_max()),
            schedule: Mutex::new(Schedule::new(parts.partitions.len())),
            pressure: AtomicU64::new(0),
            slack: AtomicU64::new(0),
            has_work: AtomicBool::new(false),
            wants_thread: AtomicBool::new(false),
            conversions: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            further_conversions: AtomicU64::new(0),
            further_merges: AtomicU64::new(0),
            chains: AtomicU64::new(0),
            parts,
        }
    }

    /// Returns the state of the background work.
    pub fn background(&self) -> Background {
        let has_work = self.has_work.load(Ordering::Acquire);
        let loads = self.parts.memory.has_work();
        let frees = self.parts.configuration.directory.unfreed_bytes() > 0;
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

    /// Updates the state of the background work, after a LogStore was frozen or a job has ended.
    pub fn refresh(&self) {
        self.refresh_locked(&self.schedule.lock());
    }

    fn refresh_locked(&self, schedule: &Schedule) {
        let Parts { configuration, commits, memory, .. } = &*self.parts;
        let settings = &configuration.settings;
        let counts = schedule.counts(&self.parts);
        let Pressure { convert, merge } = counts.pressure(settings);
        let is_writable = !configuration.directory.is_read_only();
        let has_commits = commits.pending() > 0;
        let has_merge = counts.choose_merge(settings).is_some();
        let has_chain = self.next_chain(&counts).is_some();
        let has_frozen = counts.partitions.iter().any(|partition| partition.frozen > 0);
        let wants_thread = has_commits
            || self.next_conversion(&counts).is_some()
            || !schedule.is_chaining() && has_chain
            || self.next_merge(&counts).is_some();
        let has_work = schedule.is_active() || has_commits || has_frozen || has_chain || has_merge;
        let is_merging = counts.merges().next().is_some();
        let slack = if is_merging { counts.slack(settings) } else { 0.0 };
        memory.set_keys(counts.keys() as u64);
        self.wants_thread.store(wants_thread && is_writable, Ordering::Release);
        self.pressure.store(convert.max(merge).to_bits(), Ordering::Release);
        self.slack.store(slack.to_bits(), Ordering::Release);
        self.has_work.store(has_work && is_writable, Ordering::Release);
        memory.keep_within_budget();
    }

    /// Executes one bounded piece of work: of the job that is further behind, or of another one if threads are at that
    /// one.
    pub fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        self.parts.log.health().run(|| {
            let Parts { configuration, partitions, commits, memory, .. } = &*self.parts;
            let settings = &configuration.settings;
            let counts = self.schedule.lock().counts(&self.parts);
            let (due, urgent) = (counts.due(settings), counts.urgent(settings));
            // In every step: a LogStore with few writes would keep the whole log since its first record.
            self.freeze_idle_log_stores()?;
            partitions.shrink_log_stores()?;
            let worked = step_furthest_behind(due, |job| match job {
                Job::Convert => self.step_convert(urgent.convert, now_ms),
                Job::Merge => self.step_merge(urgent.merge, now_ms),
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
        let counts = schedule.counts(&self.parts);
        let converts = || counts.conversions() > 0 || counts.choose_conversion().is_some();
        let settings = &self.parts.configuration.settings;
        let chains = || schedule.is_chaining() || self.next_chain(&counts).is_some();
        let merges = || counts.merges().next().is_some() || counts.choose_merge(settings).is_some();
        !self.convert_rate.allows(now_ms) && (converts() || chains())
            || !self.merge_rate.allows(now_ms) && merges()
    }

    /// Runs a step of a job, unless it has to wait for its rate, and charges what it reads and writes. With a rate one
    /// thread at a time runs the jobs of a purpose.
    fn limited(
        &self,
        rate: &Rate,
        purpose: Purpose,
        now_ms: TimestampMs,
        step: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let moved = || {
            let io = self.parts.configuration.directory.io().of(purpose);
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

    fn step_convert(&self, is_urgent: bool, now_ms: TimestampMs) -> Result<bool> {
        self.limited(&self.convert_rate, Purpose::Convert, now_ms, || {
            let chained = self.chain()?;
            Ok(self.convert(is_urgent)? || chained)
        })
    }

    fn step_merge(&self, is_urgent: bool, now_ms: TimestampMs) -> Result<bool> {
        let start = |slot| self.start_merge(slot, now_ms);
        self.limited(&self.merge_rate, Purpose::Merge, now_ms, || {
            self.merging.step(is_urgent, start, |job, slot| self.continue_merge(job, slot))
        })
    }

    /// Returns the partition whose LogStore is converted next, if a conversion may begin now.
    fn next_conversion(&self, counts: &Counts) -> Option<usize> {
        let Parts { configuration, memory, .. } = &*self.parts;
        let number = counts.choose_conversion()?;
        let begun = counts.conversions();
        let may_begin = begun == 0
            || begun < configuration.conversions_max()
                && counts.urgent(&configuration.settings).convert
                && memory.has_place_for_conversion();
        may_begin.then_some(number)
    }

    /// Returns the partition that is merged next, if a merge may begin now.
    fn next_merge(&self, counts: &Counts) -> Option<usize> {
        let settings = &self.parts.configuration.settings;
        let number = counts.choose_merge(settings)?;
        let is_first = counts.merges().next().is_none();
        let may_begin = is_first || counts.urgent(settings).merge && self.may_merge_further(counts, number);
        may_begin.then_some(number)
    }

    /// Returns whether there is a slot, memory and space for a merge of this partition besides those in progress.
    fn may_merge_further(&self, counts: &Counts, number: usize) -> bool {
        let Parts { configuration, partitions, memory, .. } = &*self.parts;
        counts.merges().count() < configuration.merges_max()
            && memory.has_place_for_merge()
            && partitions.has_space_for_merge(number)
    }

    fn convert(&self, is_urgent: bool) -> Result<bool> {
        let memory = &self.parts.memory;
        let start = |slot| {
            let mut schedule = self.schedule.lock();
            let counts = schedule.counts(&self.parts);
            // The lock is held until the conversion is noted: a merge that starts meanwhile would include the same
            // LogStore.
            let Some(number) = self.next_conversion(&counts) else { return Ok(None) };
            memory.conversions.begin();
            if counts.conversions() > 0 {
                self.further_conversions.fetch_add(1, Ordering::Relaxed);
                // The record cache gives back what the job will take.
                memory.rebalance(0);
            }
            let hash_stores = counts.hash_stores_mean(&self.parts.configuration.settings);
            let job = ConvertJob::start(&self.parts, number, hash_stores);
            let job = job.inspect_err(|_| memory.conversions.end(slot))?;
            schedule.works[number].converts = true;
            Ok(Some(job))
        };
        self.converting.step(is_urgent, start, |job, slot| {
            let number = job.partition();
            self.continue_conversion(job, slot).inspect_err(|_| self.end_conversion(number, slot))
        })
    }

    /// Runs a step of the conversion in a slot. Returns it if it has more.
    fn continue_conversion(&self, mut job: ConvertJob, slot: usize) -> Result<Option<ConvertJob>> {
        let memory = &self.parts.memory;
        let done = job.step(&self.parts)?;
        memory.conversions.set(slot, job.heap_bytes());
        memory.keep_within_budget();
        let number = job.partition();
        if !done {
            let mut schedule = self.schedule.lock();
            schedule.works[number].converted = job.converted();
            // Writers that wait continue once half of it is written, and not when all is.
            self.refresh_locked(&schedule);
            return Ok(Some(job));
        }
        job.finish(&self.parts)?;
        self.conversions.fetch_add(1, Ordering::Relaxed);
        // After `finish`: a merge must not include the LogStore before the HashStore has replaced it.
        self.end_conversion(number, slot);
        memory.rebalance(0);
        Ok(None)
    }

    /// Notes that a conversion does not continue: it has ended or failed.
    fn end_conversion(&self, number: usize, slot: usize) {
        self.parts.memory.conversions.end(slot);
        let mut schedule = self.schedule.lock();
        (schedule.works[number].converts, schedule.works[number].converted) = (false, 0.0);
        self.refresh_locked(&schedule);
    }

    /// Returns the partition whose chain is written next, if chains are configured.
    fn next_chain(&self, counts: &Counts) -> Option<usize> {
        counts.choose_chain(self.parts.configuration.settings.chain.as_ref()?)
    }

    /// Runs a step of the job that writes a chain.
    fn chain(&self) -> Result<bool> {
        if self.parts.configuration.settings.chain.is_none() {
            return Ok(false);
        }
        let start = || {
            let mut schedule = self.schedule.lock();
            let Some(number) = self.next_chain(&schedule.counts(&self.parts)) else { return Ok(None) };
            let job = ChainJob::start(&self.parts, number)?;
            match job {
                Some(_) => schedule.works[number].chains = true,
                // Its runs have other columns. A merge makes columns and a chain of their records.
                None => schedule.compact[number] = true,
            }
            self.refresh_locked(&schedule);
            Ok(job)
        };
        self.chaining.step(start, |job| {
            let number = job.partition();
            self.continue_chain(job).inspect_err(|_| self.end_chain(number))
        })
    }

    /// Runs a step of a chain. Returns it if it has more.
    fn continue_chain(&self, job: ChainJob) -> Result<Option<ChainJob>> {
        let memory = &self.parts.memory;
        let number = job.partition();
        let complete = match job.step(&self.parts)? {
            ChainStep::Working(job) => {
                memory.chain_bytes.store(job.heap_bytes() as u64, Ordering::Relaxed);
                memory.keep_within_budget();
                return Ok(Some(job));
            }
            ChainStep::Complete(job) => Some(job),
            ChainStep::Damaged => None,
        };
        if let Some(job) = complete {
            job.finish(&self.parts)?;
            self.chains.fetch_add(1, Ordering::Relaxed);
        }
        // After `finish`: a merge takes the chain that it will replace from the view when it starts.
        self.end_chain(number);
        memory.rebalance(0);
        Ok(None)
    }

    /// Notes that a chain does not continue: it has ended or failed.
    fn end_chain(&self, number: usize) {
        self.parts.memory.chain_bytes.store(0, Ordering::Relaxed);
        let mut schedule = self.schedule.lock();
        schedule.works[number].chains = false;
        self.refresh_locked(&schedule);
    }

    /// Runs a step of the merge in a slot. Returns it if it has more.
    fn continue_merge(&self, job: MergeJob, slot: usize) -> Result<Option<MergeJob>> {
        let number = job.partition();
        self.merge(job, slot).inspect_err(|_| self.end_merge(number, slot, None))
    }

    fn merge(&self, mut job: MergeJob, slot: usize) -> Result<Option<MergeJob>> {
        let memory = &self.parts.memory;
        let number = job.partition();
        let done = job.step(&self.parts)?;
        memory.merges.set(slot, job.heap_bytes());
        memory.keep_within_budget();
        if !done {
            let mut schedule = self.schedule.lock();
            schedule.pass(number, job.merged_records());
            self.refresh_locked(&schedule);
            return Ok(Some(job));
        }
        let new_keys = job.finish(&self.parts)?;
        self.merges.fetch_add(1, Ordering::Relaxed);
        self.end_merge(number, slot, new_keys);
        memory.rebalance(0);
        Ok(None)
    }

    /// Notes that a merge has ended or was abandoned.
    fn end_merge(&self, number: usize, slot: usize, new_keys: Option<f64>) {
        self.parts.memory.merges.end(slot);
        self.parts.partitions.get(number).set_merging(false);
        let mut schedule = self.schedule.lock();
        schedule.end_merge(number, new_keys);
        self.refresh_locked(&schedule);
    }

    /// Notes that a merge of a partition begins, and makes place for its memory and what it writes. Returns whether it
    /// includes the frozen LogStores.
    fn begin_merge(&self, schedule: &mut Schedule, counts: &Counts, number: usize) -> bool {
        let memory = &self.parts.memory;
        memory.merges.begin();
        self.parts.partitions.get(number).set_merging(true);
        if counts.merges().next().is_some() {
            self.further_merges.fetch_add(1, Ordering::Relaxed);
            // The record cache gives back what the job will take.
            memory.rebalance(0);
        }
        schedule.begin_merge(number)
    }

    fn start_merge(&self, slot: usize, now_ms: TimestampMs) -> Result<Option<MergeJob>> {
        let (number, with_frozen, new_key_ratio) = {
            let mut schedule = self.schedule.lock();
            let counts = schedule.counts(&self.parts);
            let Some(number) = self.next_merge(&counts) else { return Ok(None) };
            let with_frozen = self.begin_merge(&mut schedule, &counts, number);
            // A compaction that is requested from here on needs another merge: its records may be too young for this
            // one. So does one whose records are being converted.
            schedule.compact[number] &= !with_frozen;
            (number, with_frozen, schedule.new_key_ratio())
        };
        // The active LogStore is merged too, which saves its conversion.
        let frozen = self.parts.partitions.freeze_early(number);
        // The schedule is not locked for this: what it notes keeps other jobs off what is merged.
        let job = frozen
            .and_then(|_| MergeJob::start(&self.parts, number, with_frozen, new_key_ratio, now_ms, None));
        if !matches!(job, Ok(Some(_))) {
            self.end_merge(number, slot, None);
        }
        job
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
            let start = |slot| {
                let job = self.start_load(number, slot, &mut loaded, now_ms)?;
                is_mine.set(job.is_some());
                Ok(job)
            };
            // A caller waits for it.
            let is_urgent = true;
            let worked = self.merging.step(is_urgent, start, |job, slot| match is_mine.get() {
                true => self.run_load(job, slot, go_on),
                // A merge that was in progress.
                false => self.continue_merge(job, slot),
            })?;
            // Another job has the partition.
            if !worked && !self.convert(false)? && !self.chain()? {
                yield_now();
            }
        }
        Ok(())
    }

    /// Starts the merge of a load, unless another job works on the partition, which may have older records, or there is
    /// no place for it besides other merges.
    fn start_load(
        &self,
        number: usize,
        slot: usize,
        loaded: &mut Option<Loaded>,
        now_ms: TimestampMs,
    ) -> Result<Option<MergeJob>> {
        {
            let mut schedule = self.schedule.lock();
            let counts = schedule.counts(&self.parts);
            let is_first = counts.merges().next().is_none();
            if schedule.works[number].is_any() || !is_first && !self.may_merge_further(&counts, number) {
                return Ok(None);
            }
            self.begin_merge(&mut schedule, &counts, number);
        }
        let frozen = self.parts.partitions.freeze_early(number);
        let job = frozen.and_then(|_| MergeJob::start(&self.parts, number, true, 1.0, now_ms, loaded.take()));
        if !matches!(job, Ok(Some(_))) {
            self.end_merge(number, slot, None);
        }
        job
    }

    fn run_load(
        &self,
        job: MergeJob,
        slot: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<MergeJob>> {
        let number = job.partition();
        let mut next = Some(job);
        while let Some(job) = next.take() {
            if !go_on() {
                // Nothing of the load is visible yet: it shows no part before its commit.
                job.abandon(&self.parts)?;
                self.end_merge(number, slot, None);
                return Err(Error::Interrupted);
            }
            next = self.continue_merge(job, slot)?;
        }
        Ok(None)
    }

    /// Requests a merge of everything that was written before the call.
    pub fn request_compaction(&self) -> Result<()> {
        let Parts { log, partitions, .. } = &*self.parts;
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
        let Parts { log, partitions, .. } = &*self.parts;
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
        self.parts.commits.run(|queue| {
            let mut edits = Vec::new();
            for &number in numbers {
                // What is written from here on has a later position than this end, so the writer is not locked during
                // the commit.
                let end = self.parts.partitions.log_end_without(number, &[])?;
                if end > 0 {
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
