//! A server of databases and dictionaries, for the clients of Redis and of memcached.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! use siltstone::{Database, Dictionary, Durability};
//! use siltstone_server::{DatabaseStore, Limits, Mount, PlacesSettings, Server, ServerSettings};
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::sync::Arc;
//!
//! let path = directory.path().join("capitals.dict");
//! Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
//! let server = Server::start(ServerSettings {
//!     redis: Some("127.0.0.1:0".parse()?),
//!     memcached: None,
//!     metrics: None,
//!     workers: 1,
//!     helpers: 1,
//!     password: None,
//!     unprotected: false,
//!     durability: Durability::Written,
//!     limits: Limits::default(),
//!     memory: None,
//!     cluster: None,
//!     follow: None,
//!     places: PlacesSettings {
//!         directory: None,
//!         databases: 16,
//!         mounts: vec![Mount { number: 0, path }],
//!         are_shares_fixed: false,
//!         open: Box::new(|path, form, _memory| Ok(Arc::new(DatabaseStore::new(Database::open(path)?, form)))),
//!         dictionary: Dictionary::options(),
//!         are_values_typed: true,
//!     },
//! })?;
//! let mut client = TcpStream::connect(server.redis_address().ok_or("no address")?)?;
//! client.write_all(b"GET Peru\r\n")?;
//! let mut reply = [0; 10];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"$4\r\nLima\r\n");
//! server.stop()?;
//! # Ok(())
//! # }
//! ```
//!
//! Each module knows those above it only:
//!
//! | module | contents |
//! |---|---|
//! | `protocol` | requests and replies as bytes |
//! | `failure` | error replies |
//! | `store` | databases, dictionaries, and a map in memory |
//! | `command` | what the commands mean, over a `store` |
//! | `connection` | a socket with its buffers, and the runs of its requests |
//! | `worker` | threads that serve connections in turns |
//! | `metrics` | metrics over HTTP |
//! | `server` | starts and stops the threads |

mod acceptor;
mod command;
mod connection;
mod error;
mod failure;
mod metrics;
pub mod protocol;
mod server;
mod store;
mod worker;

/// The decoders of values, for the fuzzer.
#[doc(hidden)]
pub mod fuzzing {
    use crate::command::dump;
    use crate::store::ValueType;
    use siltstone::Bytes;

    /// Returns the DUMP of a value; `None` if it has none.
    pub fn dump_of(value_type: ValueType, value: &[u8]) -> Option<Vec<u8>> {
        dump::encode(value_type, value).ok()
    }

    /// Returns the value of a DUMP without its checksum, which is taken for right; `None` if it has none.
    pub fn restored(dump: &[u8]) -> Option<(ValueType, Bytes)> {
        let (content, _version) = dump.split_last_chunk::<2>()?;
        dump::decode_content(content).ok().map(|value| (value.value_type, value.bytes))
    }
}

pub use command::{ClusterSettings, Fields, FollowStatus, Limits};
pub use error::ServerError;
pub use failure::Failure;
pub use metrics::joined as joined_metrics;
pub use server::{Server, ServerSettings};
pub use store::{
    Act, ChangePage, DATABASES, DatabaseStore, DictionaryStore, Entry, KeyCount, KeyPage, KeyState, MapStore,
    Mark, Mount, NewValue, OpenStore, PlacesSettings, Show, Store, StoreInfo, ValueForm, ValueType,
};
