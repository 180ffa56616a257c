//! The change feed: which keys were written since a position. A follower (a replica, a cache, an incremental backup)
//! reads them, and then their present values.
//!
//! ```text
//! feed  | removed |  a  b  a  |  c  d  b  |  e  f ...
//!                    |           |             |
//!                    start       since         visible: before the first key whose write still runs
//! ```
//!
//! The feed has keys, no values: it is small, and of a key that was written a thousand times one value is read. `feed`
//! keeps it, and `state` is the file that says what it has.
//!
//! 1. A write appends its keys, then the engine applies it. An update appends them when its function has returned,
//!    while the engine holds the locks of the keys. The lock of the feed is inside those.
//! 2. A key is visible when all writes before it have returned, and a buffered one only when something after it is in
//!    the files of the database. So a kill cannot undo what a follower has read.
//! 3. The feed is synced when it is closed, and before old segments are removed. At the next open, the random number
//!    that Linux has for each of its starts shows whether unsynced bytes are still there.

mod feed;
pub mod state;
#[cfg(test)]
mod tests;

pub(super) use feed::{Feed, InFlight, end};

use super::Database;
use crate::error::{Error, Result};
use bytes::Bytes;
use std::fmt;
use std::str::FromStr;

/// A position in the change feed of a database: [`Database::change_position`]. Its text can be kept and parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChangePosition {
    /// The number of the open that wrote what is before the position.
    opening: u64,
    /// The position in the log.
    offset: u64,
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:016x}-{:x}", self.opening, self.offset)
    }
}

impl FromStr for ChangePosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<ChangePosition> {
        let parsed = text.split_once('-').and_then(|(opening, offset)| {
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            Some(ChangePosition { opening: number(opening)?, offset: number(offset)? })
        });
        // Only the text that `Display` writes: the parser of numbers also takes signs and capital letters.
        parsed.filter(|position| position.to_string() == text).ok_or_else(|| Error::Setting {
            name: "position",
            problem: format!("`{text}` is not a position in a change feed; use one that it returned"),
        })
    }
}

/// Keys that were written: [`Database::changes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The keys, each once, in the order in which they were written first. Their records may have been deleted since.
    pub keys: Vec<Bytes>,
    /// Where the next call continues.
    pub next: ChangePosition,
}

impl Database {
    /// Returns up to `limit` different keys that were put or deleted since a position in the
    /// [change feed](crate::Builder::change_feed); no key if there was no write. Reads what was written since, up to
    /// there, in pieces of some hundred kilobytes.
    ///
    /// - The feed has every write that was acknowledged, once its keys are visible. A get after this call returns the
    ///   value of that write or of a later one.
    /// - It may also have keys of writes that failed, and keys that were read before: what a follower does with a key
    ///   must be correct if nothing has changed.
    /// - Records that expire or that a cache evicts are not in the feed. A repair begins a new feed.
    /// - Keys become visible when all writes that began before theirs have ended. A bulk load is one write. Keys of
    ///   [buffered](crate::Durability::Buffered) writes become visible when a later write that is not buffered, or a
    ///   sync, has returned, and with them all keys behind them.
    ///
    /// To follow a database, take its [`change_position`](Database::change_position), then read all records, then read
    /// the changes since that position again and again.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::Database;
    ///
    /// let database = Database::builder(directory.path().join("db")).change_feed(64 << 20).open()?;
    /// let start = database.change_position()?;
    /// database.put("a", "1")?;
    /// database.put("b", "2")?;
    /// database.delete("a")?;
    /// let changes = database.changes(start, 1_000)?;
    /// assert_eq!(changes.keys, ["a", "b"]);
    /// assert_eq!(database.get_many(&changes.keys)?, [None, Some("2".into())]);
    /// assert!(database.changes(changes.next, 1_000)?.keys.is_empty());
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ChangesLost`] if the feed no longer has the position: read all records again.
    /// [`Error::Setting`] if the database has no feed.
    pub fn changes(&self, since: ChangePosition, limit: usize) -> Result<Changes> {
        self.engine().check_open()?;
        self.feed()?.read(since, limit)
    }

    /// Returns the present position in the [change feed](crate::Builder::change_feed): the keys of all writes that
    /// begin from now on are after it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use siltstone::{ChangePosition, Database};
    ///
    /// let database = Database::builder(directory.path().join("db")).change_feed(64 << 20).open()?;
    /// let text = database.change_position()?.to_string();
    /// database.put("key", "value")?;
    /// let position: ChangePosition = text.parse()?;
    /// assert_eq!(database.changes(position, 10)?.keys, ["key"]);
    /// # Ok::<(), siltstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`changes`](Database::changes).
    pub fn change_position(&self) -> Result<ChangePosition> {
        self.engine().check_open()?;
        self.feed()?.position()
    }

    fn feed(&self) -> Result<&Feed> {
        self.inner.feed.as_deref().ok_or_else(|| Error::Setting {
            name: "change_feed",
            problem: "the database has no change feed; open it with `change_feed`, the bytes to keep".into(),
        })
    }
}
