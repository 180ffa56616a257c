//! Writes: to the user log, then to the index.

use super::commits::Commits;
use super::get::{Wanted, find_many};
#[cfg(feature = "mistakes")]
use super::indexed_logs::OwnedRecord;
use super::indexed_logs::{CLEAN, IndexedLogs, RecordPlace};
use super::log_settings::Mistake;
use super::unconfirmed::NewerKey;
use crate::batch::{Durability, HashedWrite, Write};
use crate::cache::{RecordCache, Ticket, WriteGuard, cache_hash};
use crate::engine::jobs::KeyStripes;
use crate::engine::writes::Writes;
use crate::error::{Error, Result};
use crate::key::{Key, KeyHash, KeyHasher};
use crate::store::data_logs::{DataView, USER, Unit};
use crate::store::record::RecordView;
use crate::store::unit_index::{Candidates, Lookup};
use siltstone_device::sync::atomic::Ordering::Relaxed;
use siltstone_device::{AlignedBuffer, Purpose, with_scratch};
use std::collections::HashSet;
use std::sync::Arc;

/// The most keys of one hash, of keys that are hashes: uniform ones have a few.
const EQUAL_HASHES_MAX: usize = 256;

/// Appends records to the user log and indexes them.
pub(crate) struct Writer {
    logs: Arc<IndexedLogs>,
    cache: Arc<RecordCache>,
    commits: Arc<Commits>,
    stripes: KeyStripes,
    pub writes: Writes,
    /// A record that is promoted too late: a mistake.
    #[cfg(feature = "mistakes")]
    late: siltstone_device::sync::Mutex<Option<OwnedRecord>>,
}

/// A frame that was appended.
#[derive(Debug, Clone, Copy, Default)]
struct Appended {
    unit: Unit,
    bytes: u32,
}

/// What the index has of the hash of a write. As long as the writer of its shard is locked, only this write changes it.
#[derive(Default)]
struct Plan {
    /// The units of the entries that are known without a read of the index, the newest first.
    units: Candidates,
    found: Found,
    /// A view that has the units; `None` if there are none.
    view: Option<DataView>,
}

/// The entry of a key among those of its hash.
#[derive(Default)]
struct Found {
    /// Its rank, its unit, and the length of its frame.
    replaced: Option<(usize, Unit, u32)>,
    /// The first one before it that was not read.
    unread: Option<Unit>,
}

impl Writer {
    pub fn new(logs: &Arc<IndexedLogs>, cache: &Arc<RecordCache>, commits: &Arc<Commits>) -> Writer {
        Writer {
            logs: logs.clone(),
            cache: cache.clone(),
            commits: commits.clone(),
            stripes: KeyStripes::new(),
            writes: Writes::default(),
            #[cfg(feature = "mistakes")]
            late: siltstone_device::sync::Mutex::new(None),
        }
    }

    /// Applies all writes or none.
    pub fn write(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<()> {
        let keys = writes.iter().map(|write| write.key.hash());
        // A write waits for an update of its key that has read and not yet written. The sync needs no stripes.
        let end = self.with_keys(keys, || self.append(writes, &[], durability))?;
        self.make_durable(durability, end)
    }

    /// Removes the records of these writes' keys from the logs, and puts theirs to the record cache alone. A key
    /// without a record in the logs gets no tombstone.
    pub fn write_to_cache(&self, writes: &[HashedWrite<'_>], durability: Durability) -> Result<()> {
        let end = self.with_keys(writes.iter().map(|write| write.key.hash()), || {
            let (deletes, places) = self.deletes_of_present(writes)?;
            self.writes.add((writes.len() - deletes.len()) as u64, 0);
            let end = if deletes.is_empty() { None } else { self.append(&deletes, &places, durability)? };
            // After the deletes: an append removes the records of its keys from the cache.
            for write in writes {
                let RecordView { key, value, expires_at_ms } = write.write.into();
                self.cache.put(cache_hash(write.key.hash()), key, value, expires_at_ms);
            }
            Result::Ok(end)
        })?;
        self.make_durable(durability, end)
    }

    /// Returns deletes of those keys that have a record in the logs, which is read, or may get one back, and the places
    /// of these records. With its place known, a record and its tombstone need no entry any longer.
    fn deletes_of_present<'w>(
        &self,
        writes: &[HashedWrite<'w>],
    ) -> Result<(Vec<HashedWrite<'w>>, Vec<Option<RecordPlace>>)> {
        if self.logs.settings.makes(Mistake::KeepsRejected) {
            return Ok((Vec::new(), Vec::new()));
        }
        let keys: Vec<Key<'w>> = writes.iter().map(|write| write.key).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| key.hash().placement).collect();
        // The stripes are held, so these stay the newest records of their keys. A cleaning may still move them.
        let (units, view) = self.logs.look(|index| {
            let lookups = index.look_up(&hashes)?;
            lookups.iter().map(|lookup| index.candidates_of(lookup)).collect::<Result<Vec<_>>>()
        })?;
        let wanted = keys.iter().zip(units).enumerate();
        let wanted =
            wanted.map(|(number, (key, units))| Wanted { number, key: *key, units, ticket: Ticket::NONE });
        let mut present = Vec::new();
        find_many(Purpose::Put, &view, wanted.collect(), &mut |wanted, unit, record| {
            if record.value.is_some() {
                let bytes = self.logs.data.frame_bytes(record);
                let place = RecordPlace { unit, segment: view.segment_of(unit), bytes };
                present.push((HashedWrite::delete(keys[wanted.number]), Some(place)));
            }
        })?;
        // A record that has left comes back after a power loss, unless its removal is durable.
        let found: HashSet<&[u8]> = present.iter().map(|(delete, _)| delete.key.bytes()).collect();
        let mut left = keys.clone();
        left.retain(|key| !found.contains(key.bytes()) && self.logs.may_come_back(*key));
        present.extend(left.into_iter().map(|key| (HashedWrite::delete(key), None)));
        Ok(present.into_iter().unzip())
    }

    /// Runs `work` while no other write to these keys is possible.
    #[inline]
    pub fn with_keys<T>(&self, keys: impl ExactSizeIterator<Item = KeyHash>, work: impl FnOnce() -> T) -> T {
        self.stripes.with(keys, work)
    }

    /// Appends the writes and indexes them, with the writers of their shards locked. Returns the end of the user log
    /// after them, or `None` if nothing had to be written. The caller is within [`with_keys`](Self::with_keys), and has
    /// read the records of some of the keys, at these places.
    pub fn append(
        &self,
        writes: &[HashedWrite<'_>],
        places: &[Option<RecordPlace>],
        durability: Durability,
    ) -> Result<Option<u64>> {
        let hash = |write: &HashedWrite<'_>| write.key.hash().placement;
        // A delete has to know whether there is an older entry; a put leaves that to the background. Pages on flash are
        // read before the writers are locked, and what changes until then is in memory.
        let deleted: Vec<u64> = writes.iter().filter(|write| is_delete(write)).map(hash).collect();
        let lookups = match deleted.is_empty() {
            true => Vec::new(),
            // An error of this read ends all writing, as any error of a write does.
            false => self.logs.health().run(|| self.logs.index.look_up(&deleted))?,
        };
        self.logs.with_writers(writes.iter().map(hash), || {
            let health = self.logs.health();
            // A write that waited here while the database was closed is refused.
            health.check_open()?;
            self.check_room(writes)?;
            // Until the records are indexed, the cache has no record of these keys.
            let announce =
                |write: &HashedWrite<'_>| self.cache.write(cache_hash(write.key.hash()), write.key.bytes());
            let _announced: (Option<WriteGuard<'_>>, Vec<WriteGuard<'_>>) = match writes {
                _ if !self.cache.is_enabled() => Default::default(),
                [single] => (Some(announce(single)), Vec::new()),
                several => (None, several.iter().map(announce).collect()),
            };
            let end = health.run(|| self.append_and_index(writes, places, &lookups, durability))?;
            self.writes.count_all(writes);
            Ok(end)
        })
    }

    /// Returns an error if the puts among these writes need more space than the capacity leaves.
    fn check_room(&self, writes: &[HashedWrite<'_>]) -> Result<()> {
        let settings = &self.logs.settings;
        if settings.capacity == u64::MAX || writes.iter().all(is_delete) {
            return Ok(());
        }
        let frames =
            writes.iter().map(|write| u64::from(self.logs.data.frame_bytes(&RecordView::from(write.write))));
        let needed = self.logs.most_bytes(self.logs.live_bytes() + frames.sum::<u64>());
        if needed <= settings.capacity as f64 {
            return Ok(());
        }
        Err(Error::NoRoom { capacity: settings.capacity, needed: needed as u64 })
    }

    /// Returns an error if the keys are hashes and too many have the same one: a get reads the records of all of them.
    /// `writes` all have the hash of `plan`.
    fn check_clustered<'w>(
        &self,
        writes: impl ExactSizeIterator<Item = &'w HashedWrite<'w>>,
        plan: &Plan,
    ) -> Result<()> {
        let is_few = plan.units.len() + writes.len() <= EQUAL_HASHES_MAX;
        if is_few || self.logs.hasher() != KeyHasher::Identity {
            return Ok(());
        }
        // Several entries may be of one key that was overwritten, so only now their records are read.
        let mut keys = HashSet::new();
        if let Some(view) = &plan.view {
            let mut buffer = AlignedBuffer::default();
            for unit in plan.units.iter() {
                let span = view.read(Purpose::Put, *unit, &mut buffer)?;
                keys.insert(span.view(&buffer).key.to_vec());
            }
        }
        let before = keys.len();
        keys.extend(writes.filter(|write| !is_delete(write)).map(|put| put.key.bytes().to_vec()));
        if keys.len() <= EQUAL_HASHES_MAX || keys.len() == before {
            return Ok(());
        }
        Err(Error::HashClustered { keys: EQUAL_HASHES_MAX, bits: self.logs.settings.hash_bits })
    }

    /// In three steps, so that a failed read leaves the index as it was, and no batch is visible in part:
    ///
    /// 1. Plans the changes of the index, which may read.
    /// 2. Appends to the log.
    /// 3. Changes the index, without a read.
    #[inline]
    fn append_and_index(
        &self,
        writes: &[HashedWrite<'_>],
        places: &[Option<RecordPlace>],
        lookups: &[Lookup],
        durability: Durability,
    ) -> Result<Option<u64>> {
        let records = writes.iter().map(|write| RecordView::from(write.write));
        let place_of = |number: usize| places.get(number).copied().flatten();
        if let [write] = writes {
            let plan = with_scratch(|buffer| self.plan(write.key, lookups.first(), place_of(0), buffer))?;
            if !lookups.is_empty() && self.is_absent(write, &plan) {
                return Ok(None);
            }
            self.check_clustered(writes.iter(), &plan)?;
            let mut appended = Appended::default();
            let place = |unit, bytes| appended = Appended { unit, bytes };
            // Nothing after the append can fail, so the index never lacks a record of the log.
            let end = self.logs.data.append(USER, records, durability, place)?;
            self.commits.note_end(end);
            self.index(write.key, is_delete(write), appended, plan);
            self.logs.note_key(&RecordView::from(write.write));
            return Ok(Some(end));
        }
        let mut lookups = lookups.iter();
        let lookups: Vec<Option<&Lookup>> =
            writes.iter().map(|write| if is_delete(write) { lookups.next() } else { None }).collect();
        let plan = |number: usize, buffer: &mut AlignedBuffer| {
            self.plan(writes[number].key, lookups[number], place_of(number), buffer)
        };
        let mut plans = with_scratch(|buffer| self.plans(writes, buffer, plan))?;
        // The deletes of a batch with a put may be of a key that it puts. An earlier delete of the same hash has
        // shown that there are no entries; the key may be another one.
        let is_absent = |(write, planned): (&HashedWrite<'_>, &Option<Plan>)| {
            let is_absent = |plan| self.is_absent(write, plan);
            is_delete(write)
                && planned.as_ref().map_or_else(|| !self.logs.may_come_back(write.key), is_absent)
        };
        if writes.iter().zip(&plans).all(is_absent) {
            return Ok(None);
        }
        let mut appended = Vec::with_capacity(writes.len());
        let place = |unit, bytes| appended.push(Appended { unit, bytes });
        let end = self.logs.data.append(USER, records, durability, place)?;
        self.commits.note_end(end);
        // A part of the changes may read. If it fails, a part of the batch is in the index, and nothing is read any
        // more.
        self.logs.health().apply(|| {
            for (number, (write, appended)) in writes.iter().zip(appended).enumerate() {
                let planned = plans[number].take();
                let planned = planned.map_or_else(|| with_scratch(|buffer| plan(number, buffer)), Ok)?;
                self.index(write.key, is_delete(write), appended, planned);
                self.logs.note_key(&RecordView::from(write.write));
            }
            Ok(())
        })?;
        Ok(Some(end))
    }

    /// Returns whether a delete needs no tombstone: there is no record, and none may come back.
    fn is_absent(&self, delete: &HashedWrite<'_>, plan: &Plan) -> bool {
        plan.units.is_empty() && !self.logs.may_come_back(delete.key)
    }

    /// Plans the writes of a batch. A write with the hash of an earlier one can only be planned after that one has
    /// changed the index: `None`.
    fn plans(
        &self,
        writes: &[HashedWrite<'_>],
        buffer: &mut AlignedBuffer,
        plan: impl Fn(usize, &mut AlignedBuffer) -> Result<Plan>,
    ) -> Result<Vec<Option<Plan>>> {
        // By the kept bits: keys that differ only in the others share entries, so their plans depend on each other.
        let dropped_bits = 64 - self.logs.index.settings().hash_bits;
        let mut order: Vec<(u64, usize)> = writes
            .iter()
            .enumerate()
            .map(|(number, write)| (write.key.hash().placement >> dropped_bits, number))
            .collect();
        order.sort_unstable();
        let mut plans: Vec<Option<Plan>> = writes.iter().map(|_| None).collect();
        for of_hash in order.chunk_by(|one, other| one.0 == other.0) {
            let first = of_hash[0].1;
            let planned = plan(first, buffer)?;
            self.check_clustered(of_hash.iter().map(|(_, number)| &writes[*number]), &planned)?;
            plans[first] = Some(planned);
        }
        Ok(plans)
    }

    /// Finds the entry of a key, without a read of a finished segment. `deleted` has the entries of its hash if the
    /// write is a delete; those on flash are unknown to a put, which finds them when the shard is saved.
    #[inline]
    fn plan(
        &self,
        key: Key<'_>,
        deleted: Option<&Lookup>,
        known: Option<RecordPlace>,
        buffer: &mut AlignedBuffer,
    ) -> Result<Plan> {
        let units = match deleted {
            Some(lookup) => self.logs.index.candidates_of(lookup)?,
            None => self.logs.index.known_candidates(key.hash().placement).0,
        };
        if units.is_empty() {
            return Ok(Plan::default());
        }
        // Unlike in `look`, once is enough: with the writer locked, the segments of these entries are not released.
        let view = self.logs.data.view();
        let found = self.find(key, &units, known, &view, buffer)?;
        Ok(Plan { units, found, view: Some(view) })
    }

    /// Makes an entry for a record that was appended to the user log, in place of the entry of its key if that was
    /// found.
    #[inline]
    fn index(&self, key: Key<'_>, is_delete: bool, new: Appended, plan: Plan) {
        let hash = key.hash().placement;
        let Plan { units, found: Found { replaced, unread }, view } = plan;
        self.logs.add_live(new.bytes);
        let Some(view) = view else {
            // What is absent needs no tombstone in the index. The log has it for an open that finds the record again.
            if is_delete && !self.logs.is_below(key) {
                self.logs.add_dead(new.unit, new.bytes);
            } else {
                self.logs.index.insert(hash, new.unit);
            }
            return;
        };
        // Before the entry is made: a job that finds the entry also finds the note. Of several records that were not
        // read, the others have notes as well.
        if let Some(older) = unread {
            let key = match is_delete {
                true => NewerKey::Unknown,
                false => NewerKey::Known(self.logs.secret_hash(key.bytes())),
            };
            self.logs.note_overwrite(&view, older, key);
        }
        let Some((rank, old, old_bytes)) = replaced else {
            if unread.is_none() && is_delete && !self.logs.is_below(key) {
                self.logs.add_dead(new.unit, new.bytes);
            } else {
                self.logs.index.insert(hash, new.unit);
                self.mark_overwriting(hash, is_delete);
            }
            return;
        };
        // A tombstone goes only once it was compared with all older entries. If the entry that goes now has a note for
        // another tombstone, one of those that remain gets it.
        let must_note = if is_delete { unread.is_none() } else { rank > 0 };
        if let Some(other) = units.iter().rfind(|unit| must_note && **unit != old)
            && unread != Some(*other)
        {
            self.logs.note_overwrite(&view, *other, NewerKey::Unknown);
        }
        // The entries before it are of other keys.
        let is_last_of_key = unread.is_none() && rank + 1 == units.len();
        // With a store below, the older record may be on its way there, and the tombstone has to hide it.
        if is_delete && is_last_of_key && !self.logs.settings.has_below {
            self.logs.index.remove(hash, old);
            self.logs.add_dead(new.unit, new.bytes);
        } else if rank == 0 {
            // In place: it stays the first of its hash.
            self.logs.index.replace(hash, old, new.unit);
        } else {
            // An entry before it may be of the same key, and must not be found before the new one.
            self.logs.index.remove(hash, old);
            self.logs.index.insert(hash, new.unit);
        }
        self.logs.add_dead(old, old_bytes);
        self.mark_overwriting(hash, is_delete);
    }

    /// Marks a record that replaces one on flash: its key is used again before it leaves. With one queue, only gets
    /// mark records (FlashStore).
    #[inline]
    fn mark_overwriting(&self, hash: u64, is_delete: bool) {
        if !is_delete && self.logs.settings.recycling.is_some_and(|recycling| recycling.queues > 1) {
            self.logs.index.mark(hash);
        }
    }

    /// Looks for the entry of a key among these, without a read of a finished segment.
    fn find(
        &self,
        key: Key<'_>,
        units: &[Unit],
        known: Option<RecordPlace>,
        view: &DataView,
        buffer: &mut AlignedBuffer,
    ) -> Result<Found> {
        // If it was moved since, or its segment's place is that of another segment, it is another entry.
        let known = known.filter(|known| view.segment_of(known.unit) == known.segment);
        let mut unread = None;
        for (rank, unit) in units.iter().enumerate() {
            if let Some(known) = known.filter(|known| known.unit == *unit) {
                // Those before it were read as well, and are of other keys.
                return Ok(Found { replaced: Some((rank, *unit, known.bytes)), unread: None });
            }
            if !view.is_open(*unit) {
                unread = unread.or(Some(*unit));
                continue;
            }
            let span = view.read(Purpose::Put, *unit, buffer)?;
            let record = span.view(buffer);
            if record.key == key.bytes() {
                let replaced = Some((rank, *unit, self.logs.data.frame_bytes(&record)));
                return Ok(Found { replaced, unread });
            }
        }
        Ok(Found { replaced: None, unread })
    }

    /// Appends a record that the store below has, and makes an entry for it, unless a newer one may exist. The record
    /// was found there after the logs had none of its key; `ticket` is what [`ticket`](Self::ticket) returned before.
    pub fn promote(&self, key: Key<'_>, record: &RecordView<'_>, ticket: u64) -> Result<bool> {
        let (logs, hash) = (&self.logs, key.hash().placement);
        #[cfg(feature = "mistakes")]
        if logs.settings.makes(Mistake::PromotesOverNewer) {
            let Some(late) = self.late.lock().replace(OwnedRecord::from(record)) else { return Ok(false) };
            let hash = logs.hasher().hash(&late.key).placement;
            return logs.with_writers(std::iter::once(hash), || self.append_clean(hash, &late.view()));
        }
        logs.with_writers(std::iter::once(hash), || {
            logs.health().check_open()?;
            // A newer record has an entry, or has left since the ticket: it was not indexed then, and a segment leaves
            // only when all of its records were.
            let (units, are_all) = logs.index.known_candidates(hash);
            let may_be_older = !units.is_empty() || !are_all || logs.leavings.load(Relaxed) != ticket;
            if may_be_older { Ok(false) } else { self.append_clean(hash, record) }
        })
    }

    fn append_clean(&self, hash: u64, record: &RecordView<'_>) -> Result<bool> {
        self.logs.health().run(|| {
            let mut appended = Appended::default();
            let place = |unit, bytes| appended = Appended { unit, bytes };
            // A crash loses the copy, and the store below still has the record.
            self.logs.data.append(CLEAN, std::iter::once(*record), Durability::Buffered, place)?;
            self.logs.index.insert(hash, appended.unit);
            self.logs.add_live(appended.bytes);
            self.logs.add_clean(1);
            self.logs.counts.promoted.fetch_add(1, Relaxed);
            Ok(true)
        })
    }

    /// Returns the ticket of a lookup that begins now.
    pub fn ticket(&self) -> u64 {
        self.logs.leavings.load(Relaxed)
    }

    /// Makes an entry for a record of the user log that no redo record covers. Only during an open.
    pub(super) fn replay(
        &self,
        unit: Unit,
        record: &RecordView<'_>,
        buffer: &mut AlignedBuffer,
    ) -> Result<()> {
        // Without locks: nothing else runs during an open.
        let key = self.logs.hasher().key(record.key);
        let new = Appended { unit, bytes: self.logs.data.frame_bytes(record) };
        let deleted = match record.value {
            None => self.logs.index.look_up(&[key.hash().placement])?.pop(),
            Some(_) => None,
        };
        let plan = self.plan(key, deleted.as_ref(), None, buffer)?;
        self.index(key, record.value.is_none(), new, plan);
        Ok(())
    }

    /// Blocks until a write is as durable as requested. If nothing was written, it blocks until the records that made
    /// the write unnecessary are.
    pub fn make_durable(&self, durability: Durability, end: Option<u64>) -> Result<()> {
        match (durability, end) {
            (Durability::Synced, Some(end)) => {
                self.logs.data.sync_to(USER, end)?;
                self.commits.state_synced_now_and_then(false)
            }
            (_, Some(_)) => Ok(()),
            (_, None) => self.make_found_durable(durability),
        }
    }

    /// Blocks until everything that can be read now is as durable as requested, whichever thread wrote it.
    pub fn make_found_durable(&self, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Written => self.logs.data.write_buffered(),
            Durability::Synced if self.logs.data.is_synced() => Ok(()),
            Durability::Synced => {
                // The user log is enough: a moved record has a durable original until redo covers the copy.
                self.make_durable(durability, Some(self.logs.data.ends()[usize::from(USER)]))
            }
        }
    }
}

fn is_delete(write: &HashedWrite<'_>) -> bool {
    matches!(write.write, Write::Delete { .. })
}
