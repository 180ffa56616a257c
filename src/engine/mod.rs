//! What every engine offers, and the engines: composition and policy over the stores.
//!
//! An engine starts no thread and reads no clock. Its background work is a series of bounded steps that the caller
//! drives ([`Engine::step`]), so that a simulation can replay it.

pub mod mica;
pub mod silt;

use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::damage::VerifyReport;
use crate::device::Directory;
use crate::key::{Key, KeyHasher};
use crate::progress::Progress;
use crate::stats::{Shape, Stats};
use crate::{Error, Result};
use bytes::Bytes;
use std::sync::Arc;

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EngineKind {
    /// SILT: the least memory a key at one flash read.
    #[default]
    Silt,
    /// MICA: everything in memory, as a store or as a cache.
    Mica,
}

impl EngineKind {
    /// The engines of this version.
    pub const ALL: [EngineKind; 2] = [EngineKind::Silt, EngineKind::Mica];

    /// The engine's name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Silt => "silt",
            EngineKind::Mica => "mica",
        }
    }

    /// The engine of that name.
    pub fn from_name(name: &str) -> Option<EngineKind> {
        EngineKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// What an engine can do beyond the common interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Iteration goes by the order of the keys.
    pub ordered: bool,
    /// What was written survives the process.
    pub persistent: bool,
    /// Records may go away by themselves, to make room for others.
    pub lossy: bool,
}

/// A value as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The value. Cloning it copies no bytes.
    pub value: Bytes,
    /// When it ceases to be, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

/// A key with its value, as iteration yields it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// When the record ceases to be, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

/// What an update does with a key once it has seen its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Change {
    /// Leaves it as it is.
    #[default]
    Keep,
    /// Gives it a value.
    Put {
        /// The new value.
        value: Bytes,
        /// When the record ceases to be, or [`NEVER`](crate::batch::NEVER).
        expires_at_ms: TimestampMs,
    },
    /// Removes it.
    Delete,
}

impl Change {
    /// The write that makes this change to a key; `None` to keep the key as it is.
    pub fn to_write<'a>(&'a self, key: Key<'a>) -> Option<HashedWrite<'a>> {
        match self {
            Change::Keep => None,
            Change::Put { value, expires_at_ms } => Some(HashedWrite::put(key, value, *expires_at_ms)),
            Change::Delete => Some(HashedWrite::delete(key)),
        }
    }
}

/// Whether a step found something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing waits to be done.
    Idle,
    /// A bounded piece of work was done; there may be more.
    Worked,
}

/// What an engine's background work asks of its callers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Background {
    /// Work waits or is under way.
    pub has_work: bool,
    /// Some of it waits for a thread, so that one more thread would find something to do.
    pub wants_thread: bool,
    /// How far the work is behind: 0 is not at all; from 1 on, writers have to wait for a step.
    pub pressure: f64,
    /// How far the work is ahead of what writes need: 0 if they wait for it or soon will. The larger it is, the longer
    /// a thread may rest between two steps.
    pub lead: f64,
}

/// What [`Engine::update_many`] calls with the values that it found and the changes to set.
pub type Changing<'a> = dyn FnMut(&[Option<Found>], &mut [Change]) -> Result<()> + 'a;

/// Records in the engine's own order, each with its own outcome.
pub type Records = Box<dyn Iterator<Item = Result<Record>> + Send>;

/// The records of an engine at one moment.
pub trait Snapshot: Send + Sync {
    /// The value that a key had.
    fn get(&self, key: Key<'_>) -> Result<Option<Found>>;

    /// The values that many keys had, in the order of the keys, with their reads overlapped.
    fn get_many(&self, keys: &[Key<'_>]) -> Result<Vec<Option<Found>>> {
        keys.iter().map(|key| self.get(*key)).collect()
    }

    /// All records. They can be read on after the snapshot is dropped.
    fn records(&self) -> Records;
}

/// A key-value store in the terms of the design. All methods may be called from any thread.
///
/// Keys come with their hash, computed once per operation by the engine's [`hasher`](Engine::hasher). Keys and writes
/// are checked against the limits and the [`shape`](Engine::shape) before they come here; an engine does not check them
/// again.
pub trait Engine: Send + Sync {
    /// Which engine it is.
    fn kind(&self) -> EngineKind;

    /// What shapes its records. Cheap.
    fn shape(&self) -> Shape;

    /// What it can do beyond the common interface.
    fn capabilities(&self) -> Capabilities;

    /// How it hashes keys. Cheap.
    fn hasher(&self) -> KeyHasher;

    /// The value of a key, unless it is absent or expired.
    fn get(&self, key: Key<'_>, now_ms: TimestampMs) -> Result<Option<Found>>;

    /// The values of many keys, in the order of the keys, with their reads overlapped.
    fn get_many(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<Option<Found>>> {
        keys.iter().map(|key| self.get(*key, now_ms)).collect()
    }

    /// Applies all writes or none. When it returns, they are visible and as durable as was asked.
    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: TimestampMs) -> Result<()>;

    /// Shows `change` the values of the keys, in their order, and applies all the changes that it sets, or none. They
    /// are [`Change::Keep`] at first. No other write to these keys comes in between. When this returns, what was found
    /// and is kept is as durable as was asked, too.
    ///
    /// `change` is called once. If it fails, nothing changes. If a key comes twice, the later change holds.
    fn update_many(
        &self,
        keys: &[Key<'_>],
        durability: Durability,
        now_ms: TimestampMs,
        change: &mut Changing<'_>,
    ) -> Result<()>;

    /// All records as they are at this moment. Later writes do not change it, and nothing in it expires.
    fn snapshot(&self, now_ms: TimestampMs) -> Result<Arc<dyn Snapshot>>;

    /// About how many keys there are.
    fn approximate_len(&self, now_ms: TimestampMs) -> Result<u64>;

    /// Returns when all writes before it survive a loss of power.
    fn sync(&self) -> Result<()>;

    /// Does one bounded piece of background work, some milliseconds long. Default: there is none.
    fn step(&self, now_ms: TimestampMs) -> Result<Step> {
        let _ = now_ms;
        Ok(Step::Idle)
    }

    /// The state of the background work. Some atomic loads; every write asks for it. Default: there is never any.
    fn background(&self) -> Background {
        Background::default()
    }

    /// [`Error::Closed`] after [`close`](Engine::close). Cheap.
    fn check_open(&self) -> Result<()>;

    /// [`Error::Closed`], or else that the engine cannot do this.
    fn unsupported(&self, operation: &'static str) -> Error {
        self.check_open().err().unwrap_or(Error::Unsupported { engine: self.kind().name(), operation })
    }

    /// An error if no more writes are accepted, and why. Cheap.
    fn check_writable(&self) -> Result<()>;

    /// Accepts no more writes, with this cause: for a failure that the engine could not see, such as a panic of a
    /// thread that worked for it.
    fn poison(&self, cause: &str);

    /// Bounds the memory, in bytes, or lets it have what it takes. What is too much is given back at once, but for what
    /// is in use. Default: [`Error::Unsupported`], for an engine whose memory is fixed when it is opened.
    fn set_memory_budget(&self, bytes: Option<u64>) -> Result<()> {
        let _ = bytes;
        Err(self.unsupported("a change of the memory budget"))
    }

    /// Asks for everything to be merged into the last store; the steps that follow do it. Default: there is nothing to
    /// merge.
    fn request_compaction(&self) -> Result<()> {
        self.check_open()
    }

    /// Writes a consistent copy into the empty directory `target`, sharing files where that can be done. Default:
    /// [`Error::Unsupported`], for an engine without files.
    fn checkpoint(&self, target: &Directory) -> Result<()> {
        let _ = target;
        Err(self.unsupported("checkpoint"))
    }

    /// Reads everything and says what is damaged. `progress` is given the bytes done and the bytes in all.
    fn verify(&self, progress: &mut Progress<'_>) -> Result<VerifyReport>;

    /// What it holds and has done.
    fn stats(&self) -> Stats;

    /// Begins a new peak of the RAM account. Default: nothing, for an engine whose memory never grows.
    fn reset_ram_peak(&self) {}

    /// Makes everything durable. Nothing is accepted afterwards.
    fn close(&self) -> Result<()>;
}
