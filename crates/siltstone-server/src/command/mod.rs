//! What the commands mean: words and the values of keys to replies. No sockets, and no files but those of a
//! [`Store`](crate::store::Store).
//!
//! A command of records is a function over the values of its keys. The worker looks up the keys of all commands of a
//! turn at once, and calls each command with what was found:
//!
//! ```text
//! GET a          MGET b c        keys of the turn: a b c, one lookup of many keys
//!   |               |            then, in order:   get([a]), mget([b, c])
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `table` | all commands by name: words, keys, flags, function |
//! | `read` | commands that read the values of keys |
//! | `update` | commands that change the values of keys |
//! | `transaction` | MULTI, and the table of watched keys |
//! | `keyspace` | commands that may take long, which helper threads execute |
//! | `session` | commands about the connection |
//! | `client` | the subcommands of CLIENT |
//! | `introspection` | COMMAND |
//! | `info` | INFO and CONFIG |
//! | `arguments` | numbers and options of the words |
//! | `extended` | numbers with fractions, as INCRBYFLOAT adds them |
//! | `pattern` | patterns of keys |

mod arguments;
mod client;
mod context;
mod extended;
mod info;
mod introspection;
mod keyspace;
pub mod pattern;
mod read;
mod session;
mod table;
mod transaction;
mod update;

pub use context::{Client, Context, Counters, Limits};
pub use keyspace::SlowCall;
pub use read::ReadCall;
pub use session::SessionCall;
pub use table::{Action, Command, find, unknown};
pub use transaction::{Queued, Watched, Watches};
pub use update::strings::is_blind_set;
pub use update::{Fields, UpdateCall, dump};
