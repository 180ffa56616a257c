//! What commands read and write: a database, a dictionary, or a map in memory.
//!
//! | file | contents |
//! |---|---|
//! | `database` | a database of any engine |
//! | `dictionary` | a dictionary file, which is only read |
//! | `map` | a map in memory, which the tests of the commands use |
//! | `mark` | what memcached's commands store besides a value |
//! | `state` | a key in a transaction: what was found, and what it becomes |
//! | `typed` | values with their types as bytes |
//! | `shares` | one limit for the memory of all databases |
//! | `places` | the databases 0 to 15 of a server, and what is mounted at their numbers |

mod database;
mod dictionary;
mod map;
mod mark;
mod places;
mod shares;
mod state;
mod typed;

pub use database::DatabaseStore;
pub use dictionary::DictionaryStore;
pub use map::MapStore;
pub use mark::Mark;
pub use places::{DATABASES, Mount, OpenStore, Places, PlacesSettings, TooSmall};
pub use state::{Act, Budget, KeyState, NewValue, TRANSACTION_BYTES_MAX};
pub use typed::{MARKED_BYTES, ValueForm};

use crate::failure::Failure;
use shares::SharedMemory;
use siltstone::ScanLimit;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The expiry time of a value that does not expire.
pub use siltstone::NEVER;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Bytes.
    String,
    /// Fields with values of their own.
    Hash,
}

impl ValueType {
    /// Returns the name, as TYPE replies it.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::String => "string",
            ValueType::Hash => "hash",
        }
    }
}

/// A value that exists, and has not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its type.
    pub value_type: ValueType,
    /// Its bytes.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since the Unix epoch, or [`NEVER`].
    pub expires_at_ms: u64,
    /// Its mark, if a command of memcached has stored it.
    pub mark: Option<Mark>,
}

/// The callback of [`Store::get_many`]: the number of a key, and what was found.
pub type Show<'a> = dyn FnMut(usize, Option<Entry<'_>>) + 'a;

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<Vec<u8>>,
    /// Where the next page begins; `None` after the last one. Never 0.
    pub next: Option<u64>,
}

impl From<siltstone::ScanPage> for KeyPage {
    fn from(page: siltstone::ScanPage) -> KeyPage {
        let keys = page.records.into_iter().map(|record| Vec::from(record.key)).collect();
        KeyPage { keys, next: page.next }
    }
}

/// Keys that were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangePage {
    /// The keys, each once.
    pub keys: Vec<Vec<u8>>,
    /// The position after them.
    pub next: String,
}

/// The bytes of the keys of a page, whatever their number is.
const PAGE_BYTES: usize = 4 << 20;

/// Returns the limit of a page of keys.
fn page_limit(keys_max: usize) -> ScanLimit {
    ScanLimit { records: keys_max, bytes: PAGE_BYTES, keys_only: true }
}

/// The keys of a lookup that a store may have, and their numbers.
struct PossibleKeys<'a> {
    keys: Vec<&'a [u8]>,
    numbers: Vec<usize>,
}

/// Selects the keys that a store may have, and shows that the others are absent.
fn possible_keys<'a>(
    keys: &[&'a [u8]],
    is_possible: impl Fn(&[u8]) -> bool,
    show: &mut Show<'_>,
) -> PossibleKeys<'a> {
    let mut possible =
        PossibleKeys { keys: Vec::with_capacity(keys.len()), numbers: Vec::with_capacity(keys.len()) };
    for (number, key) in keys.iter().enumerate() {
        if is_possible(key) {
            possible.keys.push(key);
            possible.numbers.push(number);
        } else {
            show(number, None);
        }
    }
    possible
}

/// A number of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCount {
    /// The number.
    pub keys: u64,
    /// Whether it is exact. Otherwise it is within 0.6 %.
    pub is_exact: bool,
}

/// The number of keys that are looked up at once, unless their values are long.
const KEYS_AT_ONCE: usize = 512;

/// Records that commands work on. All methods may be called from any thread.
pub trait Store: Send + Sync {
    /// Looks up several keys; the reads overlap. Passes each key's number, once and in any order, to `show`. A key that
    /// the store cannot have is absent.
    fn get_many(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<(), Failure>;

    /// Like [`get_many`](Store::get_many), but waits for no device: returns the numbers of the keys that it would have
    /// to wait for, and shows the others. Default: all keys of a store in memory, and none of another.
    fn get_many_in_memory(&self, keys: &[&[u8]], show: &mut Show<'_>) -> Result<Vec<usize>, Failure> {
        if !self.is_in_memory() {
            return Ok((0..keys.len()).collect());
        }
        self.get_many(keys, show)?;
        Ok(Vec::new())
    }

    /// Returns the number of keys whose values may be held at once, as a lookup may do. Default: 512.
    fn keys_at_once(&self) -> usize {
        KEYS_AT_ONCE
    }

    /// Returns a page of about `keys_max` keys from a position on. 0 is the first position. A key that exists during
    /// the whole scan is returned exactly once.
    fn keys(&self, position: u64, keys_max: usize) -> Result<KeyPage, Failure>;

    /// Returns a key chosen at random, or `None` if there is none.
    fn random_key(&self) -> Result<Option<Vec<u8>>, Failure>;

    /// Returns the number of keys. May read the whole store if they are few.
    fn count(&self) -> Result<KeyCount, Failure>;

    /// Reads the keys, calls `act` once with their states, and applies all changes that it makes, or none. No other
    /// change of these keys happens in between.
    ///
    /// # Errors
    /// Nothing has changed then, and `act` may not have been called.
    fn transact(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure>;

    /// Like [`transact`](Store::transact), but reads nothing: `act` gets states without values, and must not look at
    /// them.
    fn write(&self, keys: &[&[u8]], act: &mut Act<'_>) -> Result<(), Failure>;

    /// Returns keys that were written since a position, about `keys_max` of them, or the present position without keys.
    /// Default: an error, for a store that keeps no change feed.
    fn changes(&self, since: Option<&str>, keys_max: usize) -> Result<ChangePage, Failure> {
        let _ = (since, keys_max);
        Err(Failure::new("ERR this store has no change feed"))
    }

    /// Returns when all that was changed survives a power loss.
    fn sync(&self) -> Result<(), Failure>;

    /// Makes everything durable. The store accepts no call afterwards.
    fn close(&self) -> Result<(), siltstone::Error>;

    /// Returns whether lookups never wait for a device.
    fn is_in_memory(&self) -> bool;

    /// Returns the statistics in the text format of Prometheus, with labels. Default: none.
    fn metrics(&self, labels: &[(&str, &str)]) -> String {
        let _ = labels;
        String::new()
    }

    /// Closes the store, removes all records at once, and returns the empty one.
    ///
    /// # Errors
    /// It cannot be changed, or not be opened. It has all records or none then.
    fn truncate(&self) -> siltstone::Result<Arc<dyn Store>>;

    /// Limits the memory of the store, in bytes; `None` removes the limit. Default: it is what it was when the store
    /// was opened.
    ///
    /// # Errors
    /// The store cannot work with so little; nothing has changed then.
    fn set_memory_budget(&self, bytes: Option<u64>) -> siltstone::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Returns the least memory of the store, in bytes: what it has, if that does not change. Default: 0.
    fn memory_budget_min(&self) -> u64 {
        0
    }

    /// Returns what INFO shows of the store.
    fn about(&self) -> StoreInfo;
}

/// What INFO shows of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreInfo {
    /// The engine, or `dictionary`.
    pub kind: &'static str,
    /// About how many keys there are.
    pub keys: u64,
    /// The memory that the account has, in bytes.
    pub memory_bytes: u64,
    /// Only read.
    pub is_read_only: bool,
}

/// Returns whether a record with this expiry time has expired.
pub fn has_expired(expires_at_ms: u64, now_ms: u64) -> bool {
    expires_at_ms != NEVER && expires_at_ms <= now_ms
}

/// Returns the time, in milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
