//! Chooses the segments that background work takes next: one to clean, and one whose overwrites are confirmed.

use super::clean::Fate;
use super::commits::Commits;
use super::indexed_logs::{CLEAN, IndexedLogs};
use super::log_settings::Recycling;
use super::policy::{SegmentCounts, choose, choose_queue, choose_unconfirmed, is_mostly_dead};
use crate::store::data_logs::{CLASSES, SegmentInfo, USER};

/// If the file system is short of space, a segment is cleaned from this share of dead bytes on, and from the second one
/// on, writes wait for it.
const SHORT_DEAD_MIN: f64 = 0.125;
const SHORT_DEAD_WAITED_FOR: f64 = 0.25;

/// The logs have space if they may grow by this many segments before records leave: a recycling frees up to one.
const SPACE_SEGMENTS: u64 = 2;

/// A compaction that was requested.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Compaction {
    /// The segments of each class before these positions are cleaned if they have dead bytes.
    pub to: [u64; CLASSES],
    /// Before that, all overwrites are confirmed.
    pub confirms: bool,
    /// The ends of the logs once all overwrites were noted.
    pub noted_to: Option<[u64; CLASSES]>,
    /// The overwrites of the segments before these positions are confirmed.
    pub confirmed_to: [u64; CLASSES],
    /// How often all overwrites were confirmed again.
    passes: u32,
}

/// The maximum number of further passes of a compaction, so that it ends while records are overwritten.
const PASSES_MAX: u32 = 4;

impl Compaction {
    /// Makes the compaction of what is before these ends of the logs.
    pub fn of(to: [u64; CLASSES]) -> Compaction {
        Compaction { to, confirms: true, ..Compaction::default() }
    }

    /// Returns whether a compaction was requested and has not ended.
    pub fn is_running(&self) -> bool {
        self.to != [0; CLASSES]
    }

    /// Lets a running compaction reach these ends of the logs.
    pub fn extend(&mut self, to: [u64; CLASSES]) {
        if self.is_running() {
            self.to = to;
        }
    }

    /// Ends the compaction when nothing is left to clean, so that segments which are overwritten later are not cleaned
    /// at once. If overwrites are unconfirmed, such as those that a save of the index has found since, it first
    /// confirms all of them again, up to the `ends` of the logs.
    pub fn end_or_repeat(&mut self, unconfirmed: u64, ends: [u64; CLASSES]) {
        *self = match unconfirmed > 0 && self.passes < PASSES_MAX {
            true => Compaction { noted_to: Some(ends), passes: self.passes + 1, ..Compaction::of(self.to) },
            false => Compaction::default(),
        };
    }

    /// Notes that the overwrites of a segment, the first of its class that has some, are confirmed.
    pub fn confirmed(&mut self, segment: &SegmentInfo) {
        let to = &mut self.confirmed_to[usize::from(segment.class)];
        *to = (*to).max(segment.base + 1);
    }

    /// Returns whether the overwrites of a segment have to be confirmed.
    fn must_confirm(&self, segment: &SegmentInfo) -> bool {
        let class = usize::from(segment.class);
        let is_noted = self.noted_to.is_some_and(|ends| segment.base < ends[class]);
        self.confirms && is_noted && segment.base >= self.confirmed_to[class]
    }
}

/// What there is to do.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The segment to clean, the bytes of its live records, and what happens to them.
    pub victim: Option<SegmentInfo>,
    pub live: u64,
    pub fate: Fate,
    /// Whether a segment has to be cleaned as soon as the finished ones exceed their space.
    pub is_any_dirty: bool,
    /// How far the cleaning of full logs is behind, or of those in a file system that is short of space.
    pub clean_pressure: f64,
    /// The class whose growing segment has to end, so that it can be cleaned or confirmed.
    pub must_end: Option<u8>,
    /// The segment whose overwrites are confirmed, and whether the compaction requires it.
    pub to_confirm: Option<SegmentInfo>,
    pub of_compaction: bool,
    /// The compaction requires it of some segments. Jobs may hold all of these now.
    pub is_unconfirmed: bool,
    /// A job works on a segment.
    pub is_any_held: bool,
    /// Records leave when the logs are full, and the logs will not be full for a while.
    pub has_space: bool,
}

/// A finished segment and its counts, with the number of its unconfirmed overwrites.
struct Finished {
    segment: SegmentInfo,
    counts: SegmentCounts,
    unconfirmed: u64,
    is_held: bool,
}

impl Choice {
    /// Examines all segments. `must_confirm` is whether too many overwrites are unconfirmed, `has_many_notes` whether
    /// they take more than their part of a memory budget, `is_index_full` whether the index takes more memory than its
    /// share.
    pub fn new(
        logs: &IndexedLogs,
        commits: &Commits,
        compaction: &Compaction,
        must_confirm: bool,
        has_many_notes: bool,
        is_index_full: bool,
    ) -> Choice {
        let mut choice = Choice::default();
        let segments = choice.finished(logs, commits, compaction);
        let is_short = logs.is_short();
        match logs.settings.recycling {
            Some(recycling) => {
                let is_full = is_index_full || is_short;
                choice.choose_to_leave(logs, &segments, compaction, &recycling, is_full)
            }
            None => choice.choose_victim(logs, &segments, compaction),
        }
        if is_short && choice.victim.is_none() {
            choice.choose_deadest(&segments);
        }
        let is_possible = |finished: &&Finished| !finished.is_held && finished.unconfirmed > 0;
        choice.of_compaction = choice.to_confirm.is_some();
        if !choice.of_compaction && must_confirm {
            let possible: Vec<&Finished> = segments.iter().filter(is_possible).collect();
            let counts: Vec<_> = possible.iter().map(|other| (other.counts, other.unconfirmed)).collect();
            choice.to_confirm = choose_unconfirmed(&counts).map(|chosen| possible[chosen].segment);
        }
        // Only a finished segment is confirmed. Without a budget, the notes of one that grows are few enough.
        if has_many_notes && choice.to_confirm.is_none() && !choice.is_any_held && logs.data.unfinished() == 0
        {
            choice.must_end = choice.must_end.or_else(|| most_noted(logs));
        }
        choice
    }

    /// Returns the finished segments, and finds out what the compaction requires. Notes of segments that were released
    /// are forgotten.
    fn finished(&mut self, logs: &IndexedLogs, commits: &Commits, compaction: &Compaction) -> Vec<Finished> {
        let user_end = logs.data.ends()[usize::from(USER)];
        // In this order: a segment before `finished_to` that is not in the view was released.
        let finished_to = commits.finished_to();
        let is_finished = |class: u8, base: u64| base < finished_to[usize::from(class)];
        let segments = logs.data.view().segments();
        let mut unconfirmed = logs.unconfirmed.of_segments();
        let mut finished = Vec::with_capacity(segments.len());
        for segment in segments {
            let (count, is_held) = unconfirmed.remove(&(segment.class, segment.base)).unwrap_or_default();
            self.is_any_held |= is_held;
            if count > 0 && compaction.must_confirm(&segment) {
                self.is_unconfirmed = true;
                let is_first = self.to_confirm.is_none_or(|other| segment.base < other.base);
                if is_first && !is_held {
                    self.to_confirm = Some(segment);
                }
            }
            // A segment that is synced and not in the manifest yet must not be released.
            if !is_finished(segment.class, segment.base) {
                continue;
            }
            // A note counts as a dead record of average length.
            let probably_dead = segment.bytes.saturating_mul(count) / segment.records.max(1);
            let dead = (segment.dead + probably_dead).min(segment.bytes);
            let age = user_end.saturating_sub(segment.order);
            let counts = SegmentCounts { bytes: segment.bytes, dead, age };
            finished.push(Finished { segment, counts, unconfirmed: count, is_held });
        }
        let released = unconfirmed.into_keys().filter(|(class, base)| is_finished(*class, *base));
        released.for_each(|id| logs.unconfirmed.forget(id));
        finished
    }

    fn choose_victim(&mut self, logs: &IndexedLogs, segments: &[Finished], compaction: &Compaction) {
        let bytes: u64 = segments.iter().map(|finished| finished.counts.bytes).sum();
        let dead: u64 = segments.iter().map(|finished| finished.counts.dead).sum();
        // This does not underflow: the dead bytes of a segment are at most its bytes.
        logs.note_finished(bytes, bytes - dead);
        // The same count decides whether work is pending.
        let is_excess = logs.excess() > 0.0;
        let is_possible = |finished: &&Finished| {
            let SegmentInfo { class, base, .. } = finished.segment;
            let is_compacted = !compaction.confirms && base < compaction.to[usize::from(class)];
            !finished.is_held && (is_excess || is_compacted)
        };
        let possible: Vec<&Finished> = segments.iter().filter(is_possible).collect();
        let counts: Vec<SegmentCounts> = possible.iter().map(|finished| finished.counts).collect();
        self.is_any_dirty = segments.iter().any(|finished| !finished.is_held && finished.counts.dead > 0);
        if let Some(chosen) = choose(logs.settings.victim, &counts) {
            self.victim = Some(possible[chosen].segment);
            self.live = counts[chosen].bytes - counts[chosen].dead;
        // Not while a complete segment waits: once that is finished, it may be one to clean.
        } else if logs.bound_pressure() >= 1.0 && logs.data.unfinished() == 0 {
            self.must_end = last_to_end(logs);
        }
    }

    /// Chooses the segment whose cleaning frees most space, if it frees some.
    fn choose_deadest(&mut self, segments: &[Finished]) {
        let Some((segment, share)) = deadest(segments) else { return };
        if share >= SHORT_DEAD_MIN {
            self.victim = Some(segment);
            self.live = ((1.0 - share) * segment.bytes as f64) as u64;
            self.fate = Fate::Move;
        }
        if share >= SHORT_DEAD_WAITED_FOR {
            self.clean_pressure = self.clean_pressure.max(1.0);
        }
    }

    /// Chooses a segment whose records leave: the oldest one of a queue.
    fn choose_to_leave(
        &mut self,
        logs: &IndexedLogs,
        segments: &[Finished],
        compaction: &Compaction,
        recycling: &Recycling,
        is_index_full: bool,
    ) {
        let all = logs.data.view().segments();
        let bytes: u64 = all.iter().map(|segment| segment.bytes).sum();
        let of_user: u64 =
            all.iter().filter(|segment| segment.class == USER).map(|segment| segment.bytes).sum();
        let is_excess = bytes > recycling.begin_bytes || is_index_full;
        self.has_space = bytes + SPACE_SEGMENTS * logs.settings.segment_bytes <= recycling.begin_bytes;
        let is_compacted = |segment: &SegmentInfo| {
            // What is clean stays, unless it is dead.
            let has_use = logs.settings.has_below && segment.class != CLEAN || segment.dead > 0;
            !compaction.confirms && segment.base < compaction.to[usize::from(segment.class)] && has_use
        };
        let oldest = |is_possible: &dyn Fn(&SegmentInfo) -> bool| {
            let free = segments.iter().filter(|finished| !finished.is_held);
            let possible = free.map(|finished| finished.segment).filter(is_possible);
            possible.min_by_key(|segment| (segment.order, segment.class, segment.base))
        };
        // What a compaction lets leave must not move behind its end.
        let cleans = is_excess && !compaction.is_running();
        let is_worth = |(segment, share): (SegmentInfo, f64)| {
            is_mostly_dead(recycling.queues, share, 1.0).then_some(segment)
        };
        let deadest = if cleans { deadest(segments).and_then(is_worth) } else { None };
        if deadest.is_some() {
            self.victim = deadest;
        } else if is_excess {
            let is_user = choose_queue(recycling.queues, logs.settings.is_cache(), of_user, bytes);
            let is_chosen = |segment: &SegmentInfo| is_user.is_none_or(|is| is == (segment.class == USER));
            self.victim = oldest(&is_chosen).or_else(|| oldest(&|_| true));
        } else {
            self.victim = oldest(&is_compacted);
        }
        let is_dirty = self.victim.is_some_and(|segment| segment.class != CLEAN);
        // A segment that is mostly dead is cleaned for its space. Its live records move, whether they were read or not.
        let leave = deadest.is_none() && (is_excess || logs.settings.has_below && is_dirty);
        self.fate = if leave { Fate::Leave } else { Fate::Move };
        // Without a segment to recycle, there is nothing to wait for.
        if is_excess && (self.victim.is_some() || self.is_any_held) {
            let room = recycling.most_bytes.saturating_sub(recycling.begin_bytes).max(1);
            self.clean_pressure = bytes.saturating_sub(recycling.begin_bytes) as f64 / room as f64;
        }
    }
}

/// Returns the class whose growing segment has the most dead bytes, if one has to end: most of it is dead, or it is one
/// for a long batch. If no finished segment has to be cleaned and a cleaning would not leave the logs within the bound,
/// there is such a segment.
fn last_to_end(logs: &IndexedLogs) -> Option<u8> {
    let segments = logs.data.view().segments();
    let length = logs.data.segment_bytes();
    let must_end = |segment: &&SegmentInfo| {
        let is_mostly_dead = 2 * segment.dead > segment.bytes;
        segment.end.is_none() && segment.dead > 0 && (is_mostly_dead || segment.bytes > length)
    };
    segments.iter().filter(must_end).max_by_key(|segment| segment.dead).map(|segment| segment.class)
}

/// Returns the class whose growing segment has the most unconfirmed overwrites, if one has any.
fn most_noted(logs: &IndexedLogs) -> Option<u8> {
    let noted = logs.unconfirmed.of_segments();
    let notes =
        |segment: &SegmentInfo| noted.get(&(segment.class, segment.base)).map_or(0, |(count, _)| *count);
    let segments = logs.data.view().segments();
    let growing = segments.iter().filter(|segment| segment.end.is_none() && notes(segment) > 0);
    growing.max_by_key(|segment| notes(segment)).map(|segment| segment.class)
}

/// Returns the segment with the largest share of dead bytes that no job works on, and this share.
fn deadest(segments: &[Finished]) -> Option<(SegmentInfo, f64)> {
    let share = |finished: &Finished| finished.counts.dead as f64 / finished.counts.bytes.max(1) as f64;
    let possible = segments.iter().filter(|finished| !finished.is_held);
    let shares = possible.map(|finished| (finished.segment, share(finished)));
    shares.max_by(|(_, one), (_, other)| one.total_cmp(other))
}
