//! When a segment is cleaned, and when writes wait for that.

use super::Jobs;
use crate::batch::TimestampMs;
use crate::engine::flashkey::choice::{Choice, last_to_end};
use crate::engine::flashkey::clean::Cleaning;
use crate::error::Result;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What there was to clean at the last look at the segments.
#[derive(Default)]
pub(super) struct ToClean {
    /// Whether a segment had to be cleaned, and whether one has to be as soon as the finished ones exceed their space.
    must_clean: AtomicBool,
    is_any_dirty: AtomicBool,
    /// The live bytes of the segment that is cleaned next.
    live: AtomicU64,
    /// How far the cleaning of full logs is behind, or of those in a file system that is short of space.
    pressure: AtomicU64,
    /// Whether a segment that grows has to end, so that it can be cleaned.
    must_end: AtomicBool,
    /// All bytes of the logs.
    bytes: AtomicU64,
}

impl ToClean {
    /// Notes what a look has found, when the logs had this many bytes.
    pub fn note(&self, choice: &Choice, bytes: u64) {
        self.must_clean.store(choice.victim.is_some(), Relaxed);
        self.is_any_dirty.store(choice.is_any_dirty, Relaxed);
        self.live.store(choice.live, Relaxed);
        self.pressure.store(choice.clean_pressure.to_bits(), Relaxed);
        self.must_end.store(choice.must_end, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }

    pub fn must_end(&self) -> bool {
        self.must_end.load(Relaxed)
    }
}

impl Jobs {
    /// Returns whether a segment is being cleaned or has to be.
    pub(super) fn cleans(&self) -> bool {
        // The segment to which records were moved may make the share of dead bytes small before a cleaning ends.
        self.cleanings.is_any_begun()
            || self.to_clean.must_clean.load(Relaxed)
            || self.to_clean.is_any_dirty.load(Relaxed) && self.logs.excess() > 0.0
    }

    /// Returns how far cleaning is behind; from 1 on, writes wait.
    pub(super) fn clean_pressure(&self) -> f64 {
        let pressure = f64::from_bits(self.to_clean.pressure.load(Relaxed));
        if self.logs.settings.recycling.is_some() {
            return pressure;
        }
        let cleans = self.cleans();
        let pressure = if cleans { pressure.max(self.logs.excess_pressure()) } else { pressure };
        // What cannot be changed is not waited for.
        let may_free =
            cleans || self.logs.data.unfinished() > 0 || self.to_clean.must_end() || self.is_changed();
        if may_free { pressure.max(self.logs.bound_pressure()) } else { pressure }
    }

    /// Returns whether something was written since the last look at the segments.
    fn is_changed(&self) -> bool {
        self.logs.data.bytes() != self.to_clean.bytes.load(Relaxed)
    }

    /// Returns whether a segment that grows may have to end, at this pressure of cleaning: a step finds out.
    pub(super) fn must_end(&self, clean_pressure: f64) -> bool {
        self.to_clean.must_end() || clean_pressure >= 1.0 && !self.cleans() && self.is_changed()
    }

    /// Ends a segment that grows and is mostly dead, or one for a long batch.
    pub(super) fn end_segment(&self) -> Result<()> {
        self.to_clean.must_end.store(false, Relaxed);
        last_to_end(&self.logs).map_or(Ok(()), |class| self.logs.data.start_new_segment(class))
    }

    /// Returns how far behind cleaning is, if two segments may be cleaned at once. Records leave one segment at a time.
    pub(super) fn pressure_of_second_cleaning(&self) -> f64 {
        let is_any = self.to_clean.must_clean.load(Relaxed) || self.to_clean.is_any_dirty.load(Relaxed);
        let may_begin = is_any && self.logs.may_move(self.to_clean.live.load(Relaxed));
        if may_begin && self.logs.settings.recycling.is_none() { self.clean_pressure() } else { 0.0 }
    }

    pub(super) fn step_clean(&self, now_ms: TimestampMs) -> Result<bool> {
        // The store below has to catch up first.
        if self.logs.below.as_ref().is_some_and(|below| below.pressure() >= 1.0) {
            return Ok(false);
        }
        let start = || {
            let Choice { victim, live, fate, .. } = self.choose();
            let is_possible = !self.cleanings.is_any_begun() || self.logs.may_move(live);
            victim
                .filter(|segment| is_possible && self.logs.hold(segment))
                .map(|segment| Cleaning::begin(&self.logs, segment, live, fate))
        };
        let compacts = self.is_compacting();
        self.cleanings.step(self.pressure_of_second_cleaning(), start, |mut cleaning, number| {
            cleaning.compacts |= compacts;
            let buffered = &self.memory.clean_bytes[number];
            let moves = cleaning.moves_what_may_leave(&self.logs);
            let piece_bytes = self.memory.transfer_bytes() as usize;
            let step = cleaning.step(&self.logs, &self.commits, now_ms, piece_bytes, buffered)?;
            self.confirmed.fetch_add(step.confirmed, Relaxed);
            if moves && step.next.is_none() {
                self.extend_compaction()?;
            }
            self.must_look.fetch_or(step.next.is_none(), Relaxed);
            Ok(step.next)
        })
    }

    /// Lets a running compaction reach what a cleaning that began before it has moved behind its end.
    fn extend_compaction(&self) -> Result<()> {
        if self.is_compacting() {
            self.logs.with_all_writers(|| self.logs.data.start_new_segments())?;
            self.compaction.lock().extend(self.logs.data.ends());
        }
        Ok(())
    }
}
