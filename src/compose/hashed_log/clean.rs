//! Cleaning: the live records of a segment are appended to the log of their age, and the segment is released.

use super::commits::Commits;
use super::indexed_logs::{IndexedLogs, OwnedRecord};
use super::policy::class_of;
use super::settings::Mistake;
use crate::Result;
use crate::batch::{Durability, TimestampMs, has_expired};
use crate::device::Purpose;
use crate::store::data_logs::{Frames, SegmentInfo, USER, Unit};
use crate::store::log_index::Lookup;
use crate::store::record::RecordView;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that a step reads of a segment.
pub const PIECE_BYTES: usize = 1 << 20;
/// The minimum number of steps in which a segment is read, if no record is longer.
const STEPS_MIN: usize = 4;
/// The maximum number of bytes of records that are appended together, unless one record has more.
const APPEND_BYTES: u64 = 64 << 10;

/// A segment that is being cleaned.
pub(super) struct Cleaning {
    segment: SegmentInfo,
    /// The class that its records move to.
    class: u8,
    frames: Frames,
}

/// A record of the segment that an entry points to.
struct Live {
    lookup: Lookup,
    unit: Unit,
    bytes: u32,
    record: OwnedRecord,
}

impl Cleaning {
    /// Begins to clean a finished segment.
    pub fn begin(logs: &IndexedLogs, segment: SegmentInfo) -> Cleaning {
        // A record is indexed after it was appended, with its writer locked. Once all writers were locked, each record
        // of the segment was indexed, so one without an entry is dead.
        if !logs.settings.makes(Mistake::CleansBeforeIndexing) {
            logs.with_all_writers(|| ());
        }
        let user_end = logs.data.ends()[usize::from(USER)];
        let age = user_end.saturating_sub(segment.order);
        let class = class_of(age, logs.live_bytes(), logs.settings.classes);
        let frames = logs.data.view().frames(segment.class, segment.base, Purpose::Collect);
        Cleaning { segment, class, frames }
    }

    /// Moves the live records of the next piece, or releases the segment if there is none. Returns the job unless the
    /// segment was released. `buffered` is the memory of the piece.
    pub fn step(
        mut self,
        logs: &IndexedLogs,
        commits: &Commits,
        now_ms: TimestampMs,
        buffered: &AtomicU64,
    ) -> Result<Option<Cleaning>> {
        let (mut records, mut hashes) = (Vec::new(), Vec::new());
        // Small segments are read in several steps as well.
        let piece_bytes = PIECE_BYTES.min(logs.settings.segment_bytes as usize / STEPS_MIN);
        let mut bytes = 0;
        let has_more = self.frames.next_piece(piece_bytes, &mut |unit, record, padded| {
            let hash = logs.hasher().hash(record.key).placement;
            let (units, are_all) = logs.index.known_candidates(hash);
            if !are_all || units.contains(&unit) {
                bytes += (record.key.len() + record.value.map_or(0, <[u8]>::len) + size_of::<Live>()) as u64;
                records.push((unit, padded, OwnedRecord::from(record)));
                hashes.push(hash);
            }
            Ok(())
        })?;
        buffered.store(bytes + self.frames.heap_bytes() as u64, Relaxed);
        let mut live = Vec::with_capacity(records.len());
        for (lookup, (unit, bytes, record)) in logs.index.look_up(&hashes)?.into_iter().zip(records) {
            if logs.index.candidates_of(&lookup)?.contains(&unit) {
                live.push(Live { lookup, unit, bytes, record });
            }
        }
        let shard_of = |live: &Live| logs.index.shard_of(live.lookup.hash());
        live.sort_by_key(shard_of);
        for shard in live.chunk_by(|one, other| shard_of(one) == shard_of(other)) {
            let hashes = shard.iter().take(1).map(|live| live.lookup.hash());
            logs.with_writers(hashes, || logs.health().run(|| self.move_live(logs, shard, now_ms)))?;
        }
        if has_more {
            return Ok(Some(self));
        }
        let SegmentInfo { class, base, .. } = self.segment;
        commits.run(|ledger| ledger.release(class, base))?;
        buffered.store(0, Relaxed);
        Ok(None)
    }

    /// Moves records whose hashes are of one shard, the writer of which is locked.
    fn move_live(&self, logs: &IndexedLogs, records: &[Live], now_ms: TimestampMs) -> Result<()> {
        let mut moved: Vec<&Live> = Vec::with_capacity(records.len());
        let mut bytes = 0;
        for live in records {
            let units = logs.index.candidates_of(&live.lookup)?;
            let hash = live.lookup.hash();
            // Overwritten since the piece was read.
            if !units.contains(&live.unit) {
                continue;
            }
            let record = live.record.view();
            let is_gone = record.value.is_none() || has_expired(record.expires_at_ms, now_ms);
            // An older entry of this hash may be of the same key, and must not be found again.
            let is_oldest = units.last() == Some(&live.unit);
            if is_gone && (is_oldest || logs.settings.makes(Mistake::DropsDeletes)) {
                logs.index.remove(hash, live.unit);
                logs.add_dead(live.unit, live.bytes);
                continue;
            }
            if is_gone {
                // Once it was compared with the older entries, it may go.
                logs.pairs.push(hash);
            }
            bytes += u64::from(live.bytes);
            moved.push(live);
            if bytes >= APPEND_BYTES {
                append(logs, self.class, &moved)?;
                moved.clear();
                bytes = 0;
            }
        }
        append(logs, self.class, &moved)
    }
}

/// Appends records to the log of a class, and makes their entries point there.
fn append(logs: &IndexedLogs, class: u8, moved: &[&Live]) -> Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    let records: Vec<RecordView<'_>> = moved.iter().map(|live| live.record.view()).collect();
    let mut places = Vec::with_capacity(moved.len());
    let place = |unit, bytes| places.push((unit, bytes));
    logs.data.append(class, records.into_iter(), Durability::Buffered, place)?;
    for (live, (unit, bytes)) in moved.iter().zip(places) {
        logs.index.replace_found(&live.lookup, live.unit, unit);
        logs.add_live(bytes);
        logs.add_dead(live.unit, live.bytes);
    }
    Ok(())
}
