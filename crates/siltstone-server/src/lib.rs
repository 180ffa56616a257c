//! A server of databases and dictionaries, for the clients of Redis and of memcached.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! use siltstone::{Database, Dictionary, Durability};
//! use siltstone_server::{DatabaseStore, Inherited, Limits, Listen, Mount, PlacesSettings, Server, ServerSettings};
//! use std::net::SocketAddr;
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::sync::Arc;
//!
//! let path = directory.path().join("capitals.dict");
//! Dictionary::builder().build(&path, [("France", "Paris"), ("Peru", "Lima")])?;
//! let server = Server::start(ServerSettings {
//!     listeners: vec![Listen::redis("127.0.0.1:0".parse::<SocketAddr>()?)],
//!     inherited: Inherited::default(),
//!     unix_permissions: None,
//!     tls: None,
//!     metrics: None,
//!     workers: 1,
//!     helpers: 1,
//!     password: None,
//!     users: None,
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
//! | `listen` | addresses to listen at |
//! | `tls` | certificates, and sockets with TLS |
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
mod inherited;
mod listen;
mod metrics;
pub mod protocol;
mod server;
mod store;
mod tls;
mod worker;

/// The decoders of values, and the parser of users, for the fuzzer.
#[doc(hidden)]
pub mod fuzzing {
    use crate::command::access::parse_file;
    use crate::command::{COMMANDS, dump, permission};
    use crate::store::ValueType;
    use siltstone::Bytes;
    use std::sync::Arc;

    /// Returns the DUMP of a value; `None` if it has none.
    pub fn dump_of(value_type: ValueType, value: &[u8]) -> Option<Vec<u8>> {
        dump::encode(value_type, value).ok()
    }

    /// Returns the value of a DUMP without its checksum, which is taken for right; `None` if it has none.
    pub fn restored(dump: &[u8]) -> Option<(ValueType, Bytes)> {
        let (content, _version) = dump.split_last_chunk::<2>()?;
        dump::decode_content(content).ok().map(|value| (value.value_type, value.bytes))
    }

    /// Returns the lines of the users of a file; `None` if it cannot be used.
    pub fn lines_of_users(text: &str) -> Option<Vec<String>> {
        let users = parse_file(text, &Arc::new(permission::catalogue(COMMANDS))).ok()?;
        Some(users.iter().map(|user| user.line()).collect())
    }
}

pub use command::{ClusterSettings, Fields, FollowStatus, Limits, UsersError};
pub use error::ServerError;
pub use failure::Failure;
pub use inherited::Inherited;
pub use listen::{Listen, ListenAddress, NotAnAddress, Protocol};
pub use metrics::joined as joined_metrics;
pub use server::{Server, ServerSettings};
pub use store::{
    Act, ChangePage, DATABASES, DatabaseStore, DictionaryStore, Entry, KeyCount, KeyPage, KeyState, MapStore,
    Mark, Mount, NewValue, OpenStore, PlacesSettings, Show, Store, StoreInfo, ValueForm, ValueType,
};
pub use tls::{TlsError, TlsSettings};
