//! The feed of an open database: a log of keys, written ahead of the engine.
//!
//! *Order.* A write appends its keys before the engine applies it. They are visible once the engine has applied it. So
//! after a kill of the process the feed has the keys of all writes that the database has. A follower that finds a key
//! in the feed reads the value of that write or of a later one.
//!
//! *Kills.* A kill undoes buffered writes. Their keys stay hidden until a later write that is not buffered, or a sync,
//! has returned: all engines have one log of writes, so these are in the files then. After a kill the rest of the keys
//! are visible, so a follower reads again what was undone.
//!
//! *Power.* The feed is not synced with each write. After a loss of power the database may have writes whose keys the
//! feed has lost. So a feed is continued only after it was closed, or in the same run of the system; else a new one
//! begins, which has none of the old positions.
//!
//! *Opens.* A position has the number of its open. It is valid if that open's part of the log reaches it. A position of
//! a copy of the files, or one behind what was lost, is refused.

use super::state::{FeedOpening, FeedState, is_state};
use super::{ChangePosition, Changes};
use crate::batch::Durability;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::key::RecordLayout;
use crate::names::{FileName, LogClass};
use crate::store::log::{Log, LogSettings};
use crate::store::log_format::{LogFormat, POSITION_MAX};
use crate::store::record::RecordView;
use crate::store::segment_bases;
use bytes::Bytes;
use siltstone_device::sync::Mutex;
use siltstone_device::{Directory, Purpose, random_number};
use siltstone_index::coding::checksum::Secret;
use siltstone_index::coding::mix;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// The size of a feed whose file `CHANGES` is damaged.
const FEED_BYTES_DEFAULT: u64 = 64 << 20;
/// The log has this many segments. The oldest is removed when the log is full.
const SEGMENTS: u64 = 8;

/// The change feed of an open database.
pub struct Feed {
    directory: Directory,
    /// `None` if the database was opened for reading only and the feed cannot be continued.
    log: Option<Arc<Log>>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: FeedState,
    /// Where the keys begin of writes that the engine has not yet applied.
    in_flight: BTreeSet<u64>,
    /// Where the first key begins of the buffered writes that have returned in an epoch.
    buffered: BTreeMap<u64, u64>,
    /// Ends when a write begins that is not buffered, or a sync. When that has returned, what was buffered in this
    /// epoch or before is in the files.
    epoch: u64,
    /// Old segments are removed when the log has this end.
    remove_at: u64,
}

impl Inner {
    fn new(state: FeedState, remove_at: u64) -> Mutex<Inner> {
        let (in_flight, buffered) = Default::default();
        Mutex::new(Inner { state, in_flight, buffered, epoch: 0, remove_at })
    }

    /// Ends the epoch, and returns it.
    fn end_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch - 1
    }
}

/// A write or a sync that runs. It hides its keys until it is dropped.
pub struct InFlight<'a> {
    feed: &'a Feed,
    start: Option<u64>,
    /// The epoch that it ended; `None` if it is buffered.
    epoch: Option<u64>,
}

impl InFlight<'_> {
    /// Ends a write or a sync that has succeeded.
    pub fn succeed(self) {
        let mut inner = self.feed.inner.lock();
        match (self.epoch, self.start) {
            // What was buffered in this epoch or before is in the files by now.
            (Some(epoch), _) => inner.buffered.retain(|buffered_in, _| *buffered_in > epoch),
            (None, Some(start)) => {
                // Before `drop` takes it out of `in_flight`: the key is hidden by one or the other at any moment.
                let now = inner.epoch;
                let first = inner.buffered.entry(now).or_insert(start);
                *first = start.min(*first);
            }
            (None, None) => {}
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.start {
            self.feed.inner.lock().in_flight.remove(&start);
        }
    }
}

impl Feed {
    /// Opens the feed of a directory, or begins one. `bytes_max` is about how many bytes to keep: 0 removes the feed,
    /// `None` keeps what there is. Returns `None` if there is no feed.
    pub fn open(directory: &Directory, bytes_max: Option<u64>) -> Result<Option<Feed>> {
        let found = FeedState::read(directory)?;
        let is_wanted = bytes_max.map_or(found.is_some(), |bytes| bytes > 0);
        if !is_wanted {
            return if directory.is_read_only() { Ok(None) } else { remove(directory).map(|()| None) };
        }
        // A state that is damaged counts as none, but the feed is still wanted.
        let found = found.flatten();
        let kept_bytes = found.as_ref().map_or(FEED_BYTES_DEFAULT, |state| state.bytes_max);
        let bytes_max = bytes_max.unwrap_or(kept_bytes);
        if directory.is_read_only() {
            return Feed::open_read_only(directory, found).map(Some);
        }
        let continued = found.map_or(Ok(None), |state| continue_log(directory, state, bytes_max))?;
        let (log, mut state) = match continued {
            Some(continued) => continued,
            None => begin(directory, bytes_max)?,
        };
        // Before the first write of this open, so that a crash finds this state.
        state.opens.push(FeedOpening { number: random_number()?, end: u64::MAX });
        // Its writes are not synced, so until it is closed it is intact in this run of the system only.
        state.intact_in_run = directory.system_run()?.unwrap_or(0);
        state.write(directory, log.start())?;
        let remove_at = log.start() + bytes_max;
        let inner = Inner::new(state, remove_at);
        Ok(Some(Feed { directory: directory.clone(), log: Some(log), inner }))
    }

    fn open_read_only(directory: &Directory, found: Option<FeedState>) -> Result<Feed> {
        let (log, state) = match found {
            Some(state) => (open_log(directory, &state, state.bytes_max)?, state),
            None => (None, new_state(0, 0)),
        };
        Ok(Feed { directory: directory.clone(), log, inner: Inner::new(state, u64::MAX) })
    }

    fn log(&self) -> Result<&Arc<Log>> {
        self.log.as_ref().ok_or_else(|| Error::ChangesLost {
            reason:
                "the database was not closed before the system ended, so a new feed begins when it is opened \
                     for writing"
                    .into(),
        })
    }

    /// Appends the keys of a write of this durability that begins.
    pub fn append<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        durability: Durability,
    ) -> Result<InFlight<'_>> {
        // Not buffered, whatever the write is: the engine may write its buffer at any time, and the feed must not have
        // less than the engine.
        let mut in_flight = self.append_as(keys, Durability::Written)?;
        if durability != Durability::Buffered {
            // Before the engine has this write: what was buffered in the epoch has returned, so it is before
            // this write in the engine's log, and in its file when this write has returned.
            in_flight.epoch = Some(self.inner.lock().end_epoch());
        }
        Ok(in_flight)
    }

    /// Appends a key of a load, which is visible only when it ends. [`end_load`](Feed::end_load) writes the keys before
    /// that.
    pub fn append_of_load(&self, key: &[u8]) -> Result<InFlight<'_>> {
        self.append_as([key].into_iter(), Durability::Buffered)
    }

    /// Begins a sync.
    pub fn begin_sync(&self) -> InFlight<'_> {
        InFlight { feed: self, start: None, epoch: Some(self.inner.lock().end_epoch()) }
    }

    fn append_as<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]> + Clone,
        durability: Durability,
    ) -> Result<InFlight<'_>> {
        let log = self.log()?;
        let mut inner = self.inner.lock();
        let mut start = None;
        let records = keys.map(|key| RecordView { key, value: None, expires_at_ms: 0 });
        let appended = log.append(records, durability, |position| start = start.or(Some(position)));
        let end = appended.inspect_err(|_| self.give_up_in(&mut inner))?;
        // A position is visible only after the lock is released, so never before it is hidden.
        inner.in_flight.extend(start);
        if end >= inner.remove_at {
            self.remove_oldest(log, &mut inner, end).inspect_err(|_| {
                // This write gets no `InFlight` that would do it: its start would hide all later keys.
                if let Some(start) = start {
                    inner.in_flight.remove(&start);
                }
                self.give_up_in(&mut inner);
            })?;
        }
        drop(inner);
        Ok(InFlight { feed: self, start, epoch: None })
    }

    /// Writes all keys of a load that is about to end.
    pub fn end_load(&self) -> Result<()> {
        self.log()?.write_buffered()
    }

    /// Removes the oldest segments, so that the log has the space for another one.
    fn remove_oldest(&self, log: &Log, inner: &mut Inner, end: u64) -> Result<()> {
        let bytes_max = inner.state.bytes_max;
        let segment_bytes = segment_bytes(bytes_max);
        // The log keeps segments that are not known to be durable.
        log.sync_to(end)?;
        // A failure refuses all later appends, as that of an append does: the log has fewer segments than there are
        // files, and closing would state that the feed is intact.
        log.health().run(|| log.release_before(end.saturating_sub(bytes_max - segment_bytes)))?;
        // A segment with a long batch may be longer; then not with every write.
        inner.remove_at = (log.start() + bytes_max).max(end + segment_bytes / 2);
        Ok(())
    }

    /// Makes the next open begin a new feed, after an error: the feed may have lost keys, or the engine writes that
    /// followers have read. No write succeeds until then.
    pub fn give_up(&self) {
        self.give_up_in(&mut self.inner.lock());
    }

    /// [Gives up](Feed::give_up) if the engine has failed.
    pub fn give_up_if_failed(&self, engine: &dyn Engine) {
        if matches!(engine.check_writable(), Err(Error::Poisoned { .. })) {
            self.give_up();
        }
    }

    fn give_up_in(&self, inner: &mut Inner) {
        let run = std::mem::take(&mut inner.state.intact_in_run);
        // If this fails as well, the next failure tries it again. The error that led here is returned in any case.
        if run != 0 && inner.state.write(&self.directory, 0).is_err() {
            inner.state.intact_in_run = run;
        }
    }

    /// Returns the position before which all keys are visible.
    fn visible(&self, log: &Log) -> ChangePosition {
        let inner = self.inner.lock();
        // Under the lock that appends hold: the end of the log is not behind a key that is not hidden yet.
        let hidden = inner.in_flight.first().into_iter().chain(inner.buffered.values()).min();
        let offset = hidden.copied().unwrap_or_else(|| log.end());
        ChangePosition { opening: inner.state.opens.last().map_or(0, |last| last.number), offset }
    }

    /// Returns the present position.
    pub fn position(&self) -> Result<ChangePosition> {
        Ok(self.visible(self.log()?))
    }

    /// Returns different keys from a position on.
    pub fn read(&self, since: ChangePosition, limit: usize) -> Result<Changes> {
        let log = self.log()?;
        // Before the scan: what becomes visible during it is left to the next call.
        let visible = self.visible(log);
        self.check(since, visible)?;
        let (mut keys, mut seen, mut end) = (Vec::new(), HashSet::new(), visible.offset);
        let scanned = log.scan(since.offset, &mut |_, _| true, &mut |position, record| {
            let is_new = !seen.contains(record.key);
            // A key that was seen before does not count for the limit: the scan ends before the next new one.
            if position >= visible.offset || is_new && keys.len() >= limit {
                end = position.min(visible.offset);
                // Ends the scan.
                return Err(Error::Interrupted);
            }
            if is_new {
                let key = Bytes::copy_from_slice(record.key);
                keys.push(key.clone());
                seen.insert(key);
            }
            Ok(())
        });
        match scanned {
            Ok(()) | Err(Error::Interrupted) => {}
            Err(Error::Corrupt { .. }) => return Err(lost("a part of the feed is damaged")),
            Err(error) => return Err(error),
        }
        // Segments may have been removed before the scan began.
        if log.start() > since.offset {
            return Err(self.removed());
        }
        Ok(Changes { keys, next: ChangePosition { offset: end, ..visible } })
    }

    /// Checks that the feed has a position.
    fn check(&self, since: ChangePosition, visible: ChangePosition) -> Result<()> {
        let inner = self.inner.lock();
        let opening = inner.state.opens.iter().find(|opening| opening.number == since.opening);
        match opening {
            Some(opening) if since.offset <= opening.end.min(visible.offset) => Ok(()),
            _ => Err(lost(
                "the position is of another feed; a new one begins if the system ends while the database is open, \
                 after a failed write, after a repair, and in a copy",
            )),
        }
    }

    fn removed(&self) -> Error {
        lost(&format!("the feed keeps only about {} bytes (`change_feed`)", self.bytes_max()))
    }

    /// Returns about how many bytes are kept.
    pub fn bytes_max(&self) -> u64 {
        self.inner.lock().state.bytes_max
    }

    /// Returns the bytes of the feed's files.
    pub fn disk_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.disk_bytes())
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.heap_bytes())
    }

    /// Makes the feed durable, so that it continues with the next open. To be called when no write runs any more.
    pub fn close(&self) -> Result<()> {
        let Some(log) = self.log.as_ref().filter(|_| !self.directory.is_read_only()) else { return Ok(()) };
        let mut inner = self.inner.lock();
        // All of the log first: the state then says that the feed is intact also after a loss of power.
        log.sync_to(log.end())?;
        log.end_append()?;
        let end = log.end();
        inner.state.opens.iter_mut().for_each(|opening| opening.end = opening.end.min(end));
        (inner.state.synced, inner.state.intact_in_run) = (log.synced(), FeedState::ALWAYS);
        inner.state.write(&self.directory, log.start())
    }
}

fn lost(reason: &str) -> Error {
    Error::ChangesLost { reason: reason.to_owned() }
}

fn segment_bytes(bytes_max: u64) -> u64 {
    bytes_max / SEGMENTS
}

fn new_state(log_id: u64, bytes_max: u64) -> FeedState {
    FeedState { log_id, bytes_max, synced: 0, intact_in_run: 0, opens: Vec::new() }
}

fn format_of(state: &FeedState) -> LogFormat {
    let layout = RecordLayout { fixed: None, expiring: false };
    LogFormat::new(layout, state.log_id, Secret::new(mix(state.log_id))).of(LogClass::Changes)
}

/// Removes all files of the feed.
pub fn remove(directory: &Directory) -> Result<()> {
    let names = directory.list()?;
    let states: Vec<_> = names.iter().filter(|name| is_state(name)).collect();
    if !states.is_empty() {
        // The state first: without it, segments that an interruption leaves are no feed.
        states.into_iter().try_for_each(|name| directory.remove(name))?;
        // Later writes are not in the feed, so its state must not come back.
        directory.sync(Purpose::Maintain)?;
    }
    remove_segments(directory)
}

/// Removes the segments of the log, the oldest first: what an interruption leaves is no log that ends too early.
fn remove_segments(directory: &Directory) -> Result<()> {
    let mut bases = segment_bases(directory, LogClass::Changes)?;
    bases.sort_unstable();
    let mut names = bases.into_iter().map(|base| FileName::Segment { class: LogClass::Changes, base });
    Ok(names.try_for_each(|name| directory.remove(&name.to_string()))?)
}

/// Makes the next open of a database begin a new feed, if it has one.
pub fn end(directory: &Directory) -> Result<()> {
    let Some(Some(mut state)) = FeedState::read(directory)? else { return Ok(()) };
    state.intact_in_run = 0;
    state.write(directory, 0)
}

/// Begins a new feed, without the log of an old one.
fn begin(directory: &Directory, bytes_max: u64) -> Result<(Arc<Log>, FeedState)> {
    // The new log begins at 0 as well, so it needs the names of the old segments.
    remove_segments(directory)?;
    let state = new_state(random_number()?, bytes_max);
    let log = Log::create(directory, format_of(&state), segment_bytes(bytes_max), 0)?;
    Ok((Arc::new(log), state))
}

/// Opens the log that a state describes, and ends its last open. Returns `None` if a part of it may be lost.
fn continue_log(
    directory: &Directory,
    mut state: FeedState,
    bytes_max: u64,
) -> Result<Option<(Arc<Log>, FeedState)>> {
    let Some(log) = open_log(directory, &state, bytes_max)? else { return Ok(None) };
    let end = log.end();
    // An open that was not closed ends where its log does.
    state.opens.iter_mut().for_each(|opening| opening.end = opening.end.min(end));
    state.bytes_max = bytes_max;
    Ok(Some((log, state)))
}

fn open_log(directory: &Directory, state: &FeedState, bytes_max: u64) -> Result<Option<Arc<Log>>> {
    let is_intact = state.intact_in_run == FeedState::ALWAYS
        || state.intact_in_run != 0 && directory.system_run()? == Some(state.intact_in_run);
    let bases = segment_bases(directory, LogClass::Changes)?;
    // The state may name segments that were removed after it was written: the log begins with the first that exists.
    let first = bases.into_iter().min().filter(|first| is_intact && *first <= POSITION_MAX);
    let Some(from) = first else { return Ok(None) };
    let settings = LogSettings {
        format: format_of(state),
        segment_bytes: segment_bytes(bytes_max),
        from,
        durable: state.synced,
    };
    match Log::open(directory, &settings, &mut |_, _| true) {
        Ok((log, _)) => Ok(Some(log)),
        // A damaged feed ends: a new one begins, and followers read all records again.
        Err(Error::Corrupt { .. } | Error::Version { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
