//! Snapshots, and iterators over all records, ranges of keys, pages of a scan and changes.
//!
//! An iterator reads a stream of records forward. One in the order of the keys keeps its snapshot: a seek, and a change
//! of direction, begin another stream of the same records.

use crate::border::{
    Failure, Outcome, body, bytes, disown, give_text, handle, handle_mut, optional_bytes, own, set, text,
};
use crate::database::{Db, IsClosed};
use crate::read::{self, Source};
use bytes::Bytes;
use siltstone::{ChangePosition, OrderedDatabase, Record, Result};
use std::ffi::{c_char, c_void};
use std::mem::replace;
use std::ops::Bound;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering;

/// All records of a database at one moment. All threads may use it at once.
pub struct Snapshot(pub(crate) siltstone::Snapshot, IsClosed);

impl Source for Snapshot {
    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<u64>> {
        let found = self.0.get_found(key)?;
        Ok(found.map(|found| {
            value.extend_from_slice(&found.value);
            found.expires_at_ms
        }))
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.0.get_many(keys)
    }
}

/// A position in a series of records; at first before the first one.
pub struct Iterator {
    records: Records,
    current: Option<Record>,
    is_closed: Option<IsClosed>,
    ordered: Option<InOrder>,
}

/// What an iterator in the order of the keys reads, and whether its stream is from the highest to the lowest.
struct InOrder {
    snapshot: siltstone::Snapshot,
    is_reverse: bool,
}

/// The first and the last key of a stream.
type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The records after the current one.
enum Records {
    More(Box<dyn std::iter::Iterator<Item = Result<Record>> + Send>),
    End,
    Failed,
}

impl Iterator {
    /// Makes a handle of an iterator. With `is_closed`, it fails when the database is closed.
    pub fn own(
        records: impl std::iter::Iterator<Item = Result<Record>> + Send + 'static,
        is_closed: Option<&IsClosed>,
    ) -> *mut Iterator {
        let is_closed = is_closed.cloned();
        own(Iterator { records: Records::More(Box::new(records)), current: None, is_closed, ordered: None })
    }

    /// Begins another stream, and moves to its first record.
    fn restart(&mut self, bounds: KeyBounds<'_>, reverse: bool) -> Outcome<bool> {
        let Some(InOrder { snapshot, is_reverse }) = &mut self.ordered else { return Err(only_forward()) };
        // The old stream may have another direction, so it must not continue after a failure.
        self.records = Records::Failed;
        let records = in_order(snapshot.ordered(), reverse, 0)?.range(bounds)?;
        // The bounds may be of the current record, so that is given up after their use.
        *is_reverse = reverse;
        self.records = Records::More(Box::new(records));
        self.advance()
    }

    /// Moves to the record after the current one.
    fn next(&mut self) -> Outcome<bool> {
        let is_reverse = self.ordered.as_ref().is_some_and(|ordered| ordered.is_reverse);
        match self.current.take() {
            Some(Record { key, .. }) if is_reverse => {
                self.restart((Bound::Excluded(&key), Bound::Unbounded), false)
            }
            _ => self.advance(),
        }
    }

    /// Moves to the record before the current one.
    fn previous(&mut self) -> Outcome<bool> {
        // The iterator stays where it is.
        let is_reverse = self.ordered.as_ref().ok_or_else(only_forward)?.is_reverse;
        match (self.current.take(), &self.records) {
            (Some(_), _) if is_reverse => self.advance(),
            (Some(Record { key, .. }), _) => self.restart((Bound::Unbounded, Bound::Excluded(&key)), true),
            (None, Records::Failed) => self.advance(),
            (None, _) => Ok(false),
        }
    }

    /// Moves to the next record. After a failure, also after a panic, there is none.
    fn advance(&mut self) -> Outcome<bool> {
        self.current = None;
        let is_at_end = matches!(self.records, Records::End);
        if !is_at_end && self.is_closed.as_ref().is_some_and(|is_closed| is_closed.load(Ordering::Acquire)) {
            return Err(siltstone::Error::Closed.into());
        }
        let mut records = match replace(&mut self.records, Records::Failed) {
            Records::More(records) => records,
            Records::End => {
                self.records = Records::End;
                return Ok(false);
            }
            Records::Failed => {
                return Err(Failure::argument("the iterator has failed before; make another one"));
            }
        };
        self.current = records.next().transpose()?;
        self.records = if self.current.is_some() { Records::More(records) } else { Records::End };
        Ok(self.current.is_some())
    }
}

fn only_forward() -> Failure {
    Failure::unsupported("the iterator only moves forward; use one of siltstone_snapshot_iterate_ordered")
}

/// Takes a snapshot of all records: reads from it do not see later writes. `siltstone_snapshot_destroy` frees it. It
/// keeps what it reads from, so files and memory that are no longer needed otherwise are freed after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_create(
    database: *const Db,
    errptr: *mut *mut c_char,
) -> *mut Snapshot {
    body!(errptr, {
        let Db(database, is_closed) = handle(database)?;
        Ok(own(Snapshot(database.snapshot()?, is_closed.clone())))
    })
}

/// Frees a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_destroy(snapshot: *mut Snapshot) {
    body!({
        drop(disown(snapshot));
        Ok(())
    })
}

/// Like `siltstone_get`, as of the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_get(
    snapshot: *const Snapshot,
    key: *const c_void,
    key_length: usize,
    value_length: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { read::get(handle(snapshot)?, (key, key_length), value_length, null_mut()) })
}

/// Like `siltstone_get_many`, as of the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_get_many(
    snapshot: *const Snapshot,
    keys: *const *const c_void,
    key_lengths: *const usize,
    count: usize,
    values: *mut *mut c_char,
    value_lengths: *mut usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { read::get_many(handle(snapshot)?, (keys, key_lengths, count), values, value_lengths) })
}

/// Returns an iterator over all records of a snapshot, in the order of the engine. It may outlive the snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_iterate(
    snapshot: *const Snapshot,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let Snapshot(snapshot, is_closed) = handle(snapshot)?;
        Ok(Iterator::own(snapshot.iter(), Some(is_closed)))
    })
}

/// Returns an iterator over all records of a snapshot in the order of their keys, byte by byte. It can seek and move in
/// both directions, and always reads the records of the snapshot, which it may outlive. A database that does not keep
/// the order returns `SILTSTONE_ERROR_UNSUPPORTED`, as for `siltstone_range`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_snapshot_iterate_ordered(
    snapshot: *const Snapshot,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let Snapshot(snapshot, is_closed) = handle(snapshot)?;
        let records = in_order(snapshot.ordered(), false, 0)?.range(..)?;
        let ordered = Some(InOrder { snapshot: snapshot.clone(), is_reverse: false });
        let records = Records::More(Box::new(records));
        Ok(own(Iterator { records, current: None, is_closed: Some(is_closed.clone()), ordered }))
    })
}

/// Returns an iterator over all records as they are at this moment, in the order of the engine.
/// `siltstone_iterator_destroy` frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterate(database: *const Db, errptr: *mut *mut c_char) -> *mut Iterator {
    body!(errptr, {
        let Db(database, is_closed) = handle(database)?;
        Ok(Iterator::own(database.iter()?, Some(is_closed)))
    })
}

/// Returns the access in the order of the keys, if the engine has it.
fn in_order(
    ordered: Option<OrderedDatabase<'_>>,
    reverse: bool,
    limit: usize,
) -> Outcome<OrderedDatabase<'_>> {
    let ordered = ordered.ok_or_else(|| {
        let message = "the database does not keep the order of its keys; the engine \"flashkey\" does if its setting \
                       \"ordered\" is \"true\" when the database is created";
        Failure::unsupported(message)
    })?;
    let ordered = if reverse { ordered.descending() } else { ordered };
    Ok(if limit == 0 { ordered } else { ordered.limit(limit) })
}

/// Returns an iterator over the records whose keys are from `first` on and below `end`, byte by byte; NULL for either
/// is no bound. With `reverse`, from the highest to the lowest. At most `limit` records, 0 for all. An engine that does
/// not keep the order returns `SILTSTONE_ERROR_UNSUPPORTED`; "flashkey" keeps it if the database was created with its
/// setting "ordered".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_range(
    database: *const Db,
    first: *const c_void,
    first_length: usize,
    end: *const c_void,
    end_length: usize,
    reverse: bool,
    limit: usize,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let (first, end) = (optional_bytes(first, first_length)?, optional_bytes(end, end_length)?);
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let database = handle(database)?;
        let ordered = in_order(database.0.ordered(), reverse, limit)?;
        Ok(Iterator::own(ordered.range((first, end))?, Some(&database.1)))
    })
}

/// Like `siltstone_range`, with the records whose keys begin with `prefix`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_prefix(
    database: *const Db,
    prefix: *const c_void,
    prefix_length: usize,
    reverse: bool,
    limit: usize,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let prefix = bytes(prefix, prefix_length)?;
        let database = handle(database)?;
        let ordered = in_order(database.0.ordered(), reverse, limit)?;
        Ok(Iterator::own(ordered.prefix(prefix)?, Some(&database.1)))
    })
}

/// Returns an iterator over one page of a scan: about `limit` records from `position` to `last` in the order of their
/// scan positions, which are hashes of the keys. Sets `*next` to the position of the next page, or to 0 after the last
/// one. A scan of everything begins with 0 and has UINT64_MAX as `last`. Nothing is held between two pages, so a scan
/// can continue after a restart, and parts of it can run at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_scan(
    database: *const Db,
    position: u64,
    last: u64,
    limit: usize,
    next: *mut u64,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let Db(database, is_closed) = handle(database)?;
        let page = database.scan(position..=last, limit)?;
        set(next, page.next.unwrap_or(0));
        Ok(Iterator::own(page.records.into_iter().map(Ok), Some(is_closed)))
    })
}

/// Returns the present position in the change feed, as text that can be kept. A database has a feed if the option
/// "change_feed" was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_change_position(
    database: *const Db,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    body!(errptr, { give_text(&handle(database)?.0.change_position()?.to_string()) })
}

/// Returns an iterator over up to `limit` different keys that were put or deleted since a position; their values are
/// empty. Sets `*next` to the position of the next call, which the caller frees. A key may be returned although nothing
/// has changed. If changes since the position are lost, returns `SILTSTONE_ERROR_NOT_FOUND`: read all records again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_changes(
    database: *const Db,
    since: *const c_char,
    limit: usize,
    next: *mut *mut c_char,
    errptr: *mut *mut c_char,
) -> *mut Iterator {
    body!(errptr, {
        let since: ChangePosition = text("since", since)?.parse()?;
        let Db(database, is_closed) = handle(database)?;
        let changes = database.changes(since, limit)?;
        set(next, give_text(&changes.next.to_string())?);
        let record = |key| Ok(Record { key, value: Bytes::new(), expires_at_ms: 0 });
        Ok(Iterator::own(changes.keys.into_iter().map(record), Some(is_closed)))
    })
}

/// Moves to the next record, at first to the first one, and returns true; false after the last one and on an error. If
/// the database is closed, the error is `SILTSTONE_ERROR_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_next(iterator: *mut Iterator, errptr: *mut *mut c_char) -> bool {
    body!(errptr, { handle_mut(iterator)?.next() })
}

/// Moves an iterator of `siltstone_snapshot_iterate_ordered` to the record before the current one, and returns true;
/// false before the first one, if there is no current record, and on an error. A change of direction costs as much as a
/// seek. Others return `SILTSTONE_ERROR_UNSUPPORTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_previous(
    iterator: *mut Iterator,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { handle_mut(iterator)?.previous() })
}

/// Moves an iterator of `siltstone_snapshot_iterate_ordered` to the first record whose key is `key` or above it, byte
/// by byte, and returns true; false if there is none, and on an error. NULL is the first record of all. `key` may be
/// that of the current record. Others return `SILTSTONE_ERROR_UNSUPPORTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_seek(
    iterator: *mut Iterator,
    key: *const c_void,
    key_length: usize,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, {
        let first = optional_bytes(key, key_length)?.map_or(Bound::Unbounded, Bound::Included);
        handle_mut(iterator)?.restart((first, Bound::Unbounded), false)
    })
}

/// Like `siltstone_iterator_seek`, to the last record of all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_seek_last(
    iterator: *mut Iterator,
    errptr: *mut *mut c_char,
) -> bool {
    body!(errptr, { handle_mut(iterator)?.restart((Bound::Unbounded, Bound::Unbounded), true) })
}

/// Returns the key of the current record, and sets `*length`; NULL if there is none. It is valid until the iterator
/// moves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_key(
    iterator: *const Iterator,
    length: *mut usize,
) -> *const c_char {
    body!({
        let current = handle(iterator)?.current.as_ref();
        set(length, current.map_or(0, |record| record.key.len()));
        Ok(current.map_or(null(), |record| record.key.as_ptr().cast()))
    })
}

/// Returns the value of the current record, and sets `*length`; NULL if there is none. It is valid until the iterator
/// moves.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_value(
    iterator: *const Iterator,
    length: *mut usize,
) -> *const c_char {
    body!({
        let current = handle(iterator)?.current.as_ref();
        set(length, current.map_or(0, |record| record.value.len()));
        Ok(current.map_or(null(), |record| record.value.as_ptr().cast()))
    })
}

/// Returns the time when the current record expires, in milliseconds since 1970; 0 if never, or if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_expires_at_ms(iterator: *const Iterator) -> u64 {
    body!({ Ok(handle(iterator)?.current.as_ref().map_or(0, |record| record.expires_at_ms)) })
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn siltstone_iterator_destroy(iterator: *mut Iterator) {
    body!({
        drop(disown(iterator));
        Ok(())
    })
}
