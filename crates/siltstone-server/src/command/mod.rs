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
//! | `call` | what a command is, and what its calls know |
//! | `subcommands` | the subcommands of commands |
//! | `table` | all commands by name: words, keys, flags, function |
//! | `read` | commands that read the values of keys |
//! | `update` | commands that change the values of keys |
//! | `transaction` | MULTI, DISCARD, WATCH |
//! | `watches` | the table of watched keys |
//! | `limits` | limits and counters of a server |
//! | `keyspace` | commands that may take long, which helper threads execute |
//! | `scripts` | scripts of Lua, and SCRIPT |
//! | `session` | commands about the connection |
//! | `client` | the subcommands of CLIENT |
//! | `introspection` | COMMAND |
//! | `info` | INFO and CONFIG |
//! | `arguments` | numbers and options of the words |
//! | `extended` | numbers with fractions, as INCRBYFLOAT adds them |
//! | `pattern` | patterns of keys |
//! | `memcached` | the commands of memcached |

mod arguments;
mod call;
mod client;
mod extended;
mod info;
mod introspection;
mod keyspace;
mod limits;
pub mod memcached;
pub mod pattern;
mod read;
#[cfg(feature = "scripts")]
mod scripts;
mod session;
mod subcommands;
mod table;
mod transaction;
mod update;
mod watches;

pub use call::{Action, Client, Command, Context, Patience, Queued, ScriptCall, SessionCall, SlowCall};
pub use limits::{Counters, Limits};
pub use read::ReadCall;
#[cfg(feature = "scripts")]
pub use scripts::Scripts;
pub use table::COMMANDS;
pub use update::{Fields, UpdateCall, dump};
pub use watches::{Watched, Watches};
