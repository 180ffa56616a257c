//! The commands of memcached, over the same values as those of Redis, in database 0.
//!
//! A value that these commands store has a [`Mark`](crate::store::Mark): the flags of the client and a version, which
//! is the `cas` of the value. What others have stored has flags 0, and a `cas` that is a hash of the value.
//!
//! What memcached does to save memory is not done here: nothing is evicted, and reads note nothing. So `mg` with `h`
//! says that a value was not read before, and with `l` that it was read just now. A value that is too long changes
//! nothing; memcached deletes the one before. The block of a request whose other words are wrong is passed over;
//! memcached 1.6.18 takes it for the next request.
//!
//! | file | contents |
//! |---|---|
//! | `arguments` | keys, numbers, times of expiry |
//! | `item` | values with their marks |
//! | `retrieval` | get, gets, gat, gats, touch |
//! | `storage` | set and its relatives, delete |
//! | `arithmetic` | incr, decr |
//! | `flags` | the flags of the meta commands |
//! | `meta_get` | mg, me |
//! | `meta_update` | ms, md, ma |
//! | `server` | version, stats, flush_all and others |

mod arguments;
mod arithmetic;
mod flags;
mod item;
mod meta_get;
mod meta_update;
mod retrieval;
mod server;
mod storage;

use super::call::Command;
use super::table::{self, commands};
use crate::failure::Failure;

/// The line is no command, or has a wrong number of words.
const UNKNOWN: Failure = Failure::new("ERROR");
/// A word of the command is not what it must be.
const BAD_FORMAT: Failure = Failure::new("CLIENT_ERROR bad command line format");
/// The value is longer than the store allows.
const TOO_LARGE: Failure = Failure::new("SERVER_ERROR object too large for cache");

const READ: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write", "fast"];
const SERVER: &[&str] = &["fast"];

/// All commands, in the order of their names. The last word of those that store a value is the value with the two bytes
/// after it.
pub const COMMANDS: &[Command] = commands! {
    from table::COMMANDS.len();
    "add" -5 ONE WRITE "storage" Update(storage::add) "Stores a value if there is none.";
    "append" -5 ONE WRITE "storage" Update(storage::append) "Appends to a value.";
    "cas" -6 ONE WRITE "storage" Update(storage::cas) "Stores a value in place of one that is known.";
    "decr" 3 ONE WRITE "arithmetic" Update(arithmetic::decr) "Subtracts a number.";
    "delete" -2 ONE WRITE "storage" Update(storage::delete) "Deletes a value.";
    "flush_all" -1 NONE WRITE "server" Slow(server::flush_all) "Deletes all values.";
    "gat" -2 REST WRITE "retrieval" Update(retrieval::gat) "Returns values, and sets when they expire.";
    "gats" -2 REST WRITE "retrieval" Update(retrieval::gats) "Like gat, with the versions.";
    "get" -2 ALL READ "retrieval" Read(retrieval::get) "Returns values.";
    "gets" -2 ALL READ "retrieval" Read(retrieval::gets) "Returns values with their versions.";
    "incr" 3 ONE WRITE "arithmetic" Update(arithmetic::incr) "Adds a number.";
    "ma" -2 ONE WRITE "meta" Update(meta_update::arithmetic) "Adds or subtracts a number.";
    "md" -2 ONE WRITE "meta" Update(meta_update::delete) "Deletes or invalidates a value.";
    "me" -2 ONE READ "meta" Read(meta_get::debug) "Describes a value.";
    "mg" -2 ONE READ "meta" ReadIf(meta_get::read, meta_get::update, meta_get::only_reads) "Returns a value.";
    "mn" -1 NONE SERVER "meta" Session(server::no_operation) "Does nothing, and replies.";
    "ms" -2 ONE WRITE "meta" BlindIf(meta_update::set, meta_update::is_blind) "Stores a value.";
    "prepend" -5 ONE WRITE "storage" Update(storage::prepend) "Prepends to a value.";
    "quit" -1 NONE SERVER "server" Session(server::quit) "Ends the connection.";
    "replace" -5 ONE WRITE "storage" Update(storage::replace) "Stores a value if there is one.";
    "set" -5 ONE WRITE "storage" Blind(storage::set) "Stores a value.";
    "stats" -1 NONE SERVER "server" Session(server::stats) "Describes the state of the server.";
    "touch" 3 ONE WRITE "retrieval" Update(retrieval::touch) "Sets when a value expires.";
    "verbosity" -1 NONE SERVER "server" Session(server::verbosity) "Does nothing: nothing is logged.";
    "version" -1 NONE SERVER "server" Session(server::version) "Returns the version.";
};

/// What a client that has not given the password may send: `set`, whose value is the user and the password.
pub const AUTHENTICATE: &[Command] = commands! {
    from table::COMMANDS.len() + COMMANDS.len();
    "set" -5 NONE SERVER "server" Session(server::authenticate) "Authenticates the connection.";
};

/// Returns the command of a request.
///
/// # Errors
/// There is none, or it has a wrong number of words, or the client has not given the password.
pub fn find(words: &[&[u8]], is_authenticated: bool) -> Result<&'static Command, Failure> {
    let name = words.first().copied().unwrap_or_default();
    let commands = if is_authenticated { COMMANDS } else { AUTHENTICATE };
    let found = commands.binary_search_by(|command| command.name.as_bytes().cmp(name));
    match found.ok().map(|at| &commands[at]) {
        Some(command) if command.takes(words.len()) => Ok(command),
        _ if is_authenticated => Err(UNKNOWN),
        _ => Err(Failure::new("CLIENT_ERROR unauthenticated")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_their_names_in_lower_case() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        for command in COMMANDS {
            let words = vec![command.name.as_bytes(); command.arity.unsigned_abs() as usize];
            assert_eq!(find(&words, true).map(|found| found.name), Ok(command.name));
        }
        let names = [&b"GET"[..], b"k"];
        assert_eq!(find(&names, true).map(|found| found.name), Err(UNKNOWN));
        assert_eq!(find(&[b"get"], true).map(|found| found.name), Err(UNKNOWN));
        assert!(find(&[b"get", b"k"], false).is_err());
    }
}
