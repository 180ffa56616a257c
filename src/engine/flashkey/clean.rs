//! Cleaning: the live records of a segment are appended to the log of their age, and the segment is released.
//!
//! 1. A job holds the segment, and locks all writers for a moment. After that each live record of the segment has an
//!    entry, and its entries only go.
//! 2. A step reads a piece, without a lock. A record without an entry is dead.
//! 3. The step removes the entries that newer records replace: by the notes, or after it has compared the records of
//!    the hash.
//! 4. With the writer of a shard locked, it appends the records that still have an entry, and moves the entries to the
//!    copies. A crash loses these moves, and the originals are still there.
//! 5. After the last piece redo is made durable, the manifest drops the segment, and its file is removed. Until then an
//!    open finds the originals by the older entries.
//!
//! If records leave ([`recycle`](super::recycle)), they do so between the steps 3 and 4.

use super::bound::Moving;
use super::commits::Commits;
use super::confirm::{OfHash, compare, notes_of, remove_dead, verdict};
use super::indexed_logs::{CLEAN, IndexedLogs, OwnedRecord};
use super::log_settings::Mistake;
use super::policy::class_of;
use super::unconfirmed::{NewerKey, Overwrite, SegmentId};
use crate::batch::TimestampMs;
use crate::error::Result;
use crate::store::data_logs::{Frames, SegmentInfo, USER, Unit};
use crate::store::record::RecordView;
use crate::store::unit_index::Lookup;
use siltstone_device::Purpose;
use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of segments that are cleaned at once. One alone waits for its reads; three overwrote no faster.
pub const CLEANINGS_MAX: usize = 2;
/// The bytes that a step reads of a segment.
pub const PIECE_BYTES: usize = 1 << 20;
/// The minimum number of steps in which a segment is read, if no record is longer: writes continue in between.
const STEPS_MIN: u64 = 8;
/// The maximum number of bytes of records that are appended together, unless one record has more.
const APPEND_BYTES: u64 = 64 << 10;

/// What happens to the live records of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fate {
    /// They move to the log of their age.
    #[default]
    Move,
    /// Those that were not read leave; all if a compaction runs.
    Leave,
}

/// A segment that is being cleaned.
pub(super) struct Cleaning {
    pub(super) segment: SegmentInfo,
    first_unit: Unit,
    pub(super) fate: Fate,
    /// A compaction runs: what stays would have to leave later.
    pub(super) compacts: bool,
    /// A compaction ran when it began, so nothing that could leave moves.
    began_in_compaction: bool,
    /// The class that its records move to.
    class: u8,
    /// What it counts for the bound of the logs.
    moving: Moving,
    /// Records that leave only with the next step, after they have no entries: a mistake.
    pub(super) late: Vec<OwnedRecord>,
    frames: Frames,
    /// The notes of overwrites of its records that were not reached yet, in the order of the units.
    notes: Vec<Overwrite>,
}

/// What a step has done.
pub(super) struct Cleaned {
    /// The job, unless the segment was released.
    pub next: Option<Cleaning>,
    /// The number of entries that were removed because a newer one replaces them.
    pub confirmed: u64,
}

/// The records of a piece of a segment.
#[derive(Default)]
struct Piece {
    /// Those that notes show to be dead.
    dead: Vec<OfHash>,
    /// Those that an entry may point to, and their hashes.
    records: Vec<(Unit, u32, OwnedRecord)>,
    hashes: Vec<u64>,
    /// Whether each has an entry with a newer one before it; `None` if a part of the index is on flash.
    have_newer: Vec<Option<bool>>,
    /// The number of the unit after the last one.
    end: u32,
}

/// A record of the segment that an entry points to.
pub(super) struct Live {
    pub lookup: Lookup,
    pub unit: Unit,
    pub bytes: u32,
    pub record: OwnedRecord,
}

impl Live {
    pub fn of_hash(&self, logs: &IndexedLogs) -> OfHash {
        OfHash::new(logs, self.lookup.hash(), self.unit, &self.record.view(), self.bytes)
    }
}

impl Cleaning {
    /// Begins to clean a finished segment, which this job holds, with this many live bytes.
    pub fn begin(logs: &IndexedLogs, segment: SegmentInfo, live: u64, fate: Fate) -> Cleaning {
        // A record is indexed after it was appended, with its writer locked. Once all writers were locked, each record
        // of the segment was indexed, so one without an entry is dead.
        if !logs.settings.makes(Mistake::CleansBeforeIndexing) {
            logs.with_all_writers(|| ());
        }
        let user_end = logs.data.ends()[usize::from(USER)];
        let age = user_end.saturating_sub(segment.order);
        let class = match logs.settings.recycling {
            None => class_of(age, logs.live_bytes(), logs.settings.classes),
            // Also if its records only move: they may leave from another log later, and that notes no position.
            Some(_) => logs.begin_leaving(&segment),
        };
        let frames = logs.data.view().frames(segment.class, segment.base, Purpose::Collect);
        let first_unit = logs.first_unit(&segment);
        Cleaning {
            segment,
            first_unit,
            fate,
            compacts: false,
            began_in_compaction: false,
            class,
            moving: logs.bound.begin(if fate == Fate::Move { live } else { 0 }),
            late: Vec::new(),
            frames,
            notes: Vec::new(),
        }
    }

    /// Sets whether a compaction ran when it began.
    pub fn in_compaction(self, began_in_compaction: bool) -> Cleaning {
        Cleaning { began_in_compaction, ..self }
    }

    /// Returns whether it may have moved records that could leave to the store below: also those that were read, in a
    /// step during which a compaction began.
    pub fn moves_what_may_leave(&self, logs: &IndexedLogs) -> bool {
        let may_move = self.fate == Fate::Move || !self.began_in_compaction;
        may_move && logs.settings.has_below && self.segment.class != CLEAN
    }

    fn id(&self) -> SegmentId {
        (self.segment.class, self.segment.base)
    }

    /// Returns the number of a unit in the segment; the last possible one if it has more bits, for which there are no
    /// notes.
    fn number(&self, unit: Unit) -> u32 {
        u32::try_from(unit - self.first_unit).unwrap_or(u32::MAX)
    }

    /// Takes the notes that were made since the last time.
    fn take_notes(&mut self, logs: &IndexedLogs) {
        let before = self.notes.len();
        logs.unconfirmed.take(self.id(), &mut self.notes);
        if self.notes.len() > before {
            // Two sorted parts, mostly.
            self.notes[before..].sort_unstable_by_key(Overwrite::number);
            self.notes.sort_by_key(Overwrite::number);
        }
    }

    /// Moves the live records of the next piece, or releases the segment if there is none. `buffered` is the memory of
    /// the piece.
    pub fn step(
        mut self,
        logs: &IndexedLogs,
        commits: &Commits,
        now_ms: TimestampMs,
        piece_bytes: usize,
        buffered: &AtomicU64,
    ) -> Result<Cleaned> {
        self.write_late(logs, commits, now_ms)?;
        self.take_notes(logs);
        let begin = self.frames.position();
        let (piece, has_more) = self.read(logs, piece_bytes)?;
        let records = piece.records.iter().map(|(_, _, record)| record.heap_bytes() + size_of::<Live>());
        let notes = self.notes.capacity() * size_of::<Overwrite>();
        buffered.store((records.sum::<usize>() + self.frames.heap_bytes() + notes) as u64, Relaxed);
        let mut confirmed = 0;
        let live = self.find_live(logs, piece, &mut confirmed)?;
        let live = if self.fate == Fate::Move { live } else { self.leave(logs, commits, live, now_ms)? };
        let shard_of = |live: &Live| logs.index.shard_of(live.lookup.hash());
        // One shard at a time: puts to the others continue.
        for shard in live.chunk_by(|one, other| shard_of(one) == shard_of(other)) {
            let hashes = shard.iter().take(1).map(|live| live.lookup.hash());
            let move_live = || logs.health().run(|| self.move_live(logs, shard, now_ms));
            confirmed += logs.with_writers(hashes, move_live)?;
        }
        let end = self.frames.position();
        logs.bound.pass(&mut self.moving, end - begin);
        if has_more {
            return Ok(Cleaned { next: Some(self), confirmed });
        }
        // No entry points into the segment any more. The release waits until this is durable.
        let (class, base) = self.id();
        commits.run(|ledger| ledger.release(class, base))?;
        // After the release: in between, its bytes are subtracted twice, so a write may be admitted a moment early.
        logs.bound.end(std::mem::take(&mut self.moving));
        // Ends the reservation, so it is the last: a job that reserves the segment after this finds that it is gone.
        logs.unconfirmed.forget((class, base));
        buffered.store(0, Relaxed);
        self.write_late(logs, commits, now_ms)?;
        Ok(Cleaned { next: None, confirmed })
    }

    /// Reads the next piece. Returns its records, except those without an entry, and whether there may be more.
    fn read(&mut self, logs: &IndexedLogs, bytes_max: usize) -> Result<(Piece, bool)> {
        // Small segments are read in several steps as well.
        let of_segment = (logs.data.segment_bytes() / STEPS_MIN) as usize;
        let piece_bytes = PIECE_BYTES.min(of_segment).min(bytes_max);
        let (mut piece, mut passed) = (Piece::default(), 0);
        let (first_unit, notes) = (self.first_unit, &self.notes);
        let has_more = self.frames.next_piece(piece_bytes, &mut |unit, record, bytes| {
            let hash = logs.hasher().hash(record.key).placement;
            let number = u32::try_from(unit - first_unit).unwrap_or(u32::MAX);
            piece.end = number.saturating_add(1);
            // Without a read: the pages on flash are read for the whole piece at once.
            let (units, are_all) = logs.index.known_candidates(hash);
            let rank = units.iter().position(|other| *other == unit);
            // It stays dead: no entry is made for a record of a finished segment.
            if are_all && rank.is_none() {
                return Ok(());
            }
            let notes = notes_of(notes, &mut passed, number);
            if !notes.is_empty() {
                let of_hash = OfHash::new(logs, hash, unit, record, bytes);
                let verdict = verdict(of_hash.record.key, notes.iter().map(Overwrite::key));
                if verdict.is_dead && !verdict.must_compare {
                    piece.dead.push(of_hash);
                    return Ok(());
                }
            }
            piece.records.push((unit, bytes, OwnedRecord::from(record)));
            piece.hashes.push(hash);
            piece.have_newer.push(rank.filter(|_| are_all).map(|rank| rank > 0));
            Ok(())
        })?;
        Ok((piece, has_more))
    }

    /// Removes the entries of the records that a newer one replaces. Returns the others of the piece, in the order of
    /// the shards. Adds the number of removed entries to `confirmed`.
    fn find_live(&mut self, logs: &IndexedLogs, piece: Piece, confirmed: &mut u64) -> Result<Vec<Live>> {
        let Piece { mut dead, records, hashes, have_newer: known, end } = piece;
        let mut live = Vec::with_capacity(records.len());
        let mut have_newer = Vec::with_capacity(records.len());
        // Pages on flash are read here, before a writer is locked.
        let lookups = logs.index.look_up(&hashes)?.into_iter();
        for ((lookup, known), (unit, bytes, record)) in lookups.zip(known).zip(records) {
            // A first look without a lock: `move_live` looks again with the writer locked.
            let has_newer = match known {
                Some(has_newer) => Some(has_newer),
                None => {
                    let units = logs.index.candidates_of(&lookup)?;
                    units.iter().position(|other| *other == unit).map(|rank| rank > 0)
                }
            };
            // Without an entry it is dead: a put or another job has removed the entry since the piece was read.
            if let Some(has_newer) = has_newer {
                have_newer.push(has_newer);
                live.push(Live { lookup, unit, bytes, record });
            }
        }
        // Before an entry is made in front of another one, a note is.
        self.take_notes(logs);
        let (mut passed, mut unclear) = (0, Vec::new());
        for (live, has_newer) in live.iter().zip(have_newer) {
            let notes = notes_of(&self.notes, &mut passed, self.number(live.unit));
            // A newer one that was put since the piece was read has a note.
            if has_newer || !notes.is_empty() {
                let of_hash = live.of_hash(logs);
                let verdict = verdict(of_hash.record.key, notes.iter().map(Overwrite::key));
                if verdict.is_dead {
                    dead.push(of_hash);
                }
                // Without a note, only the index says that there is a newer record, which may be of another key.
                if verdict.must_compare || notes.is_empty() {
                    unclear.push(of_hash);
                }
            }
        }
        // Those that are removed stay in `live`: without an entry they are not moved.
        *confirmed += compare(logs, &unclear)? + remove_dead(logs, self.id(), dead)?;
        // Of these notes, each record was compared, removed or had no entry. A later note is kept for a later piece.
        let reached = self.notes.partition_point(|note| note.number() < end);
        self.notes.drain(..reached);
        logs.unconfirmed.resolve(self.id(), reached as u64);
        // The records of a shard must be adjacent, because `step` locks the writer of each shard once.
        live.sort_by_key(|live| logs.index.shard_of(live.lookup.hash()));
        Ok(live)
    }

    /// Moves records whose hashes are of one shard. The writer of the shard is locked. Returns the number of entries
    /// that were removed because a newer one replaces them.
    fn move_live(&mut self, logs: &IndexedLogs, records: &[Live], now_ms: TimestampMs) -> Result<u64> {
        let mut moved: Vec<&Live> = Vec::with_capacity(records.len());
        let (mut bytes, mut confirmed) = (0, 0);
        for live in records {
            let units = logs.index.candidates_of(&live.lookup)?;
            let hash = live.lookup.hash();
            // Overwritten since the piece was read.
            let Some(rank) = units.iter().position(|unit| *unit == live.unit) else { continue };
            let record = live.record.view();
            let is_gone = record.is_gone(now_ms) || !logs.keeps(&record);
            // An older entry of this hash may be of the same key, and must not be found again.
            let is_oldest = rank + 1 == units.len();
            let hides_nothing = is_oldest && !logs.settings.has_below;
            let is_dropped = is_gone && (hides_nothing || logs.settings.makes(Mistake::DropsDeletes));
            let is_replaced = !is_dropped && rank > 0 && self.is_replaced(logs, live);
            if is_dropped || is_replaced {
                // Only redo has this. A crash before redo is durable brings the entry back, and the segment is there.
                logs.index.remove(hash, live.unit);
                logs.add_dead(live.unit, live.bytes);
                confirmed += u64::from(is_replaced);
                continue;
            }
            bytes += u64::from(live.bytes);
            moved.push(live);
            if bytes >= APPEND_BYTES {
                self.append(logs, &moved)?;
                moved.clear();
                bytes = 0;
            }
        }
        self.append(logs, &moved)?;
        Ok(confirmed)
    }

    /// Returns whether a note that was made since the others were taken shows that a newer record replaces this one.
    fn is_replaced(&self, logs: &IndexedLogs, live: &Live) -> bool {
        let notes = logs.unconfirmed.of_unit(self.id(), self.number(live.unit));
        !notes.is_empty() && notes.contains(&NewerKey::Known(logs.secret_hash(&live.record.key)))
    }

    /// Appends records to the log of their class, and makes their entries and their notes point there. In the log of
    /// the puts they are marked: a tombstone of the key, which has no note of its key, may come before them there.
    fn append(&mut self, logs: &IndexedLogs, moved: &[&Live]) -> Result<()> {
        if moved.is_empty() {
            return Ok(());
        }
        let records: Vec<RecordView<'_>> = moved.iter().map(|live| live.record.view()).collect();
        let mut places = Vec::with_capacity(moved.len());
        let place = |unit, bytes| places.push((unit, bytes));
        // Without a sync: redo covers the copies only after they are synced, and the segment is released after that.
        logs.data.append_moved(self.class, records.into_iter(), place)?;
        let bytes = moved.iter().map(|live| u64::from(live.bytes)).sum();
        logs.bound.append(&mut self.moving, bytes);
        // After the append, which may have started the segment of the copies.
        let view = logs.data.view();
        if self.class == CLEAN && logs.settings.has_below {
            logs.add_clean(moved.len() as u64);
        }
        for (live, (unit, bytes)) in moved.iter().zip(places) {
            // Puts have made these since the notes were taken. Later ones note the copy.
            for key in logs.unconfirmed.of_unit(self.id(), self.number(live.unit)) {
                logs.note_overwrite(&view, unit, key);
            }
            // In place, so entries of equal hashes stay in the order of the writes.
            logs.index.replace_found(&live.lookup, live.unit, unit);
            logs.add_live(bytes);
            logs.add_dead(live.unit, live.bytes);
        }
        Ok(())
    }
}
