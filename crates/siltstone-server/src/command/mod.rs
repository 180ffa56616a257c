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
//! | `noting` | a store whose writes are noted there |
//! | `limits` | limits and counters of a server |
//! | `keyspace` | commands that may take long, which helper threads execute |
//! | `access` | users, their passwords and rights |
//! | `permission` | whether a user may execute a request |
//! | `acl` | the subcommands of ACL |
//! | `scripts` | scripts of Lua, and SCRIPT |
//! | `session` | commands about the connection |
//! | `client` | the subcommands of CLIENT |
//! | `clients` | the connections of a server, as CLIENT LIST shows them |
//! | `channels` | who gets which messages |
//! | `pubsub` | PUBLISH, SUBSCRIBE and their relatives |
//! | `monitoring` | SLOWLOG, LATENCY, MONITOR |
//! | `measures` | how long commands take |
//! | `slow_log` | the last executions that took long |
//! | `shown` | words of commands, without passwords |
//! | `introspection` | COMMAND |
//! | `help` | the subcommand HELP |
//! | `info` | INFO and CONFIG |
//! | `config_set` | CONFIG SET |
//! | `runtime` | the settings that change while the server runs |
//! | `arguments` | numbers and options of the words |
//! | `cluster` | the slots of a cluster's nodes, from a file |
//! | `nodes` | CLUSTER and its relatives |
//! | `follow` | what a server knows of the one that it copies |
//! | `extended` | numbers with fractions, as INCRBYFLOAT adds them |
//! | `pattern` | patterns of keys |
//! | `memcached` | the commands of memcached |

pub mod access;
mod acl;
mod arguments;
mod call;
mod channels;
mod client;
mod clients;
mod cluster;
mod config_set;
mod extended;
mod follow;
mod help;
mod info;
mod introspection;
mod keyspace;
mod limits;
mod measures;
pub mod memcached;
mod monitoring;
mod nodes;
mod noting;
pub mod pattern;
pub mod permission;
mod pubsub;
mod read;
mod runtime;
#[cfg(feature = "scripts")]
mod scripts;
mod session;
mod shown;
mod slow_log;
mod subcommands;
mod table;
mod transaction;
mod update;
mod watches;

pub use access::{Denial, User, Users, UsersError};
pub use call::{Action, Client, Command, Context, Patience, Queued, ScriptCall, SessionCall, SlowCall};
pub use channels::{Kind, Name, Outbox, Parcel, Place, Source};
pub use clients::{Activity, ClientEntry, Clients, shown_address};
pub use cluster::{Cluster, ClusterSettings};
pub use follow::FollowStatus;
pub use limits::{Counters, Limits, memory_of_places};
pub use measures::{Distribution, Measures, Tally};
pub use noting::NotingStore;
pub use permission::Denied;
pub use pubsub::{changes_subscriptions, check_context};
pub use read::ReadCall;
pub use runtime::{Runtime, Syncs};
#[cfg(feature = "scripts")]
pub use scripts::Scripts;
pub use shown::push_monitor_line;
pub use slow_log::SlowLog;
pub use table::COMMANDS;
pub use update::{Fields, UpdateCall, dump};
pub use watches::{Watched, Watches};

/// Returns the commands of all protocols, in the order of their numbers.
pub fn all_commands() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().chain(memcached::COMMANDS).chain(memcached::AUTHENTICATE)
}
