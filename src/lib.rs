//! Siltstone.

pub mod batch;
mod database;
pub mod device;
mod dictionary;
pub mod engine;
mod error;
pub mod index;
pub mod key;
pub mod model;
mod progress;
pub mod stats;
pub mod store;
#[doc(hidden)]
pub mod testing;

pub use batch::{Batch, Durability};
pub use bytes::Bytes;
pub use database::{Builder, Database, Iter, WriteOptions};
pub use device::Access;
pub use dictionary::{
    DICTIONARY_VERSION, Dictionary, DictionaryBuilder, DictionaryIndex, DictionaryInfo, DictionaryIter,
    DictionaryOptions, DictionaryWriter,
};
pub use engine::silt::{FilterKind, HashStoreKind, IndexKind};
pub use engine::{Change, EngineKind, Found, Record, Step};
pub use error::{Error, Result};
pub use progress::Progress;
pub use stats::{RamAccount, Stats};
