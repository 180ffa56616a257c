//! All commands.

use super::arguments::is;
use super::update::{UpdateCall, bits, dump, expiry, hashes, keys, numbers, strings};
use super::{ReadCall, SessionCall, SlowCall};
use super::{client, info, introspection, keyspace, read, session, transaction, update};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

/// A command of the server.
#[derive(Debug)]
pub struct Command {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words with the name; if negative, at least so many.
    pub arity: i64,
    /// Which words are keys.
    pub keys: Keys,
    /// The flags that COMMAND replies.
    pub flags: &'static [&'static str],
    /// The group, as in Redis's documentation.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// How it is executed.
    pub action: Action,
}

/// How a command is executed.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// With the values of its keys, which are looked up together with those of other commands.
    Read(fn(&ReadCall<'_>, &mut Reply<'_>) -> Outcome),
    /// With the states of its keys, which are read and changed together with those of other commands.
    Update(fn(&mut UpdateCall<'_>, &mut Reply<'_>) -> Outcome),
    /// Like an update, but it needs not know the values before, unless options of it say so.
    Blind(fn(&mut UpdateCall<'_>, &mut Reply<'_>) -> Outcome),
    /// The commands that the connection has queued, as one update.
    Exec,
    /// At once, with the connection and the server.
    Session(fn(&mut SessionCall<'_>, &mut Reply<'_>) -> Outcome),
    /// By a helper thread, with the whole store and the server.
    Slow(fn(&SlowCall<'_>, &mut Reply<'_>) -> Outcome),
}

/// Which words of a command are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// The number of the first key's word; 0 if there are no keys.
    pub first: usize,
    /// That of the last key's word; if negative, counted from the end.
    pub last: i64,
    /// From one key to the next.
    pub step: usize,
}

impl Keys {
    const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
    const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
    const TWO: Keys = Keys { first: 1, last: 2, step: 1 };
    const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };
    const REST: Keys = Keys { first: 2, last: -1, step: 1 };
    const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };
    const ALL: Keys = Keys { first: 1, last: -1, step: 1 };

    /// Returns the numbers of the words that are keys, in a command of so many words.
    pub fn positions(self, words: usize) -> impl Iterator<Item = usize> {
        let last = if self.last < 0 { words as i64 + self.last } else { self.last };
        let end = if self.first == 0 { 0 } else { (last + 1).max(0) as usize };
        (self.first..end.min(words)).step_by(self.step.max(1))
    }
}

impl Command {
    /// Returns whether the command may have so many words, with its name.
    pub fn takes(&self, words: usize) -> bool {
        takes(self.arity, words)
    }

    /// Checks the number of words, and the subcommand if the command has some.
    ///
    /// # Errors
    /// Redis's error for a wrong number, and for an unknown subcommand.
    pub fn check_words(&self, words: &[&[u8]]) -> Outcome {
        if !self.takes(words.len()) {
            return Err(Failure::arity(self.name));
        }
        let subcommands = SUBCOMMANDS.iter().find(|(name, _)| *name == self.name).map(|(_, all)| *all);
        let (Some(subcommands), Some(asked)) = (subcommands, words.get(1)) else { return Ok(()) };
        let found = subcommands.iter().find(|(name, _)| is(asked, name));
        let (name, arity) = found.ok_or_else(|| Failure::subcommand(self.name, asked))?;
        if takes(*arity, words.len()) {
            Ok(())
        } else {
            Err(Failure::arity(&format!("{}|{name}", self.name)))
        }
    }

    /// Returns whether a client may use it before it has given the password.
    pub fn is_open(&self) -> bool {
        self.flags.contains(&"no_auth")
    }
}

/// Returns whether a number of words is that of an arity, as [`Command::arity`] has it.
fn takes(arity: i64, words: usize) -> bool {
    let words = words as i64;
    if arity < 0 { words >= -arity } else { words == arity }
}

/// Returns the command of this name, whatever its case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let order = |command: &Command| {
        let name = name.iter().map(u8::to_ascii_lowercase);
        command.name.bytes().cmp(name)
    };
    COMMANDS.binary_search_by(order).ok().map(|at| &COMMANDS[at])
}

/// Returns the error for a command that does not exist, with its first words.
pub fn unknown(words: &[&[u8]]) -> Failure {
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        words.first().map(|name| shown(name)).unwrap_or_default()
    );
    for word in words.iter().skip(1) {
        if text.len() > 128 {
            break;
        }
        text.push_str(&format!("'{}' ", shown(word)));
    }
    Failure::from(text)
}

const FAST: &[&str] = &["readonly", "fast"];
const SLOW: &[&str] = &["readonly"];
const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const SESSION: &[&str] = &["loading", "stale", "fast"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const FLUSH: &[&str] = &["write"];
const TRANSACTION: &[&str] = &["noscript", "loading", "stale", "fast"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];

/// The subcommands of a command, with their arities.
type Subcommands = &'static [(&'static str, i64)];

/// The commands that have subcommands.
const SUBCOMMANDS: &[(&str, Subcommands)] = &[
    (
        "client",
        &[
            ("getname", 2),
            ("id", 2),
            ("info", 2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("setinfo", 4),
            ("setname", 3),
        ],
    ),
    ("command", &[("count", 2), ("docs", -2), ("getkeys", -4), ("info", -2), ("list", -2)]),
    ("config", &[("get", -3), ("resetstat", 2), ("set", -4)]),
    ("object", &[("encoding", 3), ("freq", 3), ("idletime", 3), ("refcount", 3)]),
    ("siltstone", &[("reload", 2)]),
];

/// Makes the table of a row per command.
macro_rules! commands {
    ($($name:literal $arity:literal $keys:ident $flags:ident $group:literal $action:ident$(($run:path))? $summary:literal;)*) => {
        &[$(Command {
            name: $name,
            arity: $arity,
            keys: Keys::$keys,
            flags: $flags,
            group: $group,
            summary: $summary,
            action: Action::$action$(($run))?,
        }),*]
    };
}

/// All commands, in the order of their names: words with the name, keys, flags, group, function, meaning.
pub const COMMANDS: &[Command] = commands! {
    "append" 3 ONE WRITE "string" Update(strings::append) "Appends to the value of a key.";
    "auth" -2 NONE OPEN "connection" Session(session::auth) "Authenticates the connection.";
    "bitcount" -2 ONE SLOW "bitmap" Read(bits::bitcount) "Counts the bits that are 1.";
    "bitfield" -2 ONE WRITE "bitmap" Update(update::bitfield) "Reads and changes numbers of any width within a string.";
    "bitfield_ro" -2 ONE WRITE "bitmap" Update(update::bitfield) "Reads numbers of any width within a string.";
    "bitop" -4 REST WRITE "bitmap" Update(bits::bitop) "Combines the bits of strings.";
    "bitpos" -3 ONE SLOW "bitmap" Read(bits::bitpos) "Finds the first bit that is 0 or 1.";
    "client" -2 NONE SESSION "connection" Session(client::client) "Names the connection, and describes it.";
    "command" -1 NONE SESSION "server" Session(introspection::command) "Describes the commands.";
    "config" -2 NONE ADMIN "server" Session(info::config) "Returns settings.";
    "copy" -3 TWO WRITE "generic" Update(keys::copy) "Copies the value of a key to another key.";
    "dbsize" 1 NONE FAST "server" Slow(keyspace::dbsize) "Returns the number of keys.";
    "decr" 2 ONE WRITE "string" Update(numbers::decr) "Subtracts one.";
    "decrby" 3 ONE WRITE "string" Update(numbers::decrby) "Subtracts a number.";
    "del" -2 ALL WRITE "generic" Update(keys::del) "Deletes keys.";
    "discard" 1 NONE TRANSACTION "transactions" Session(transaction::discard) "Drops the queued commands.";
    "dump" 2 ONE SLOW "generic" Read(dump::dump) "Returns a value in Redis's form.";
    "echo" 2 NONE SESSION "connection" Session(session::echo) "Returns the given string.";
    "exec" 1 NONE TRANSACTION "transactions" Exec "Executes the queued commands at once.";
    "exists" -2 ALL FAST "generic" Read(read::exists) "Counts the keys that exist.";
    "expire" -3 ONE WRITE "generic" Update(expiry::expire) "Sets when a key expires, in seconds from now.";
    "expireat" -3 ONE WRITE "generic" Update(expiry::expireat) "Sets when a key expires, in seconds since 1970.";
    "expiretime" 2 ONE FAST "generic" Read(read::expiretime) "Returns when a key expires, in seconds since 1970.";
    "flushall" -1 NONE FLUSH "server" Slow(keyspace::flushall) "Removes all keys of all databases.";
    "flushdb" -1 NONE FLUSH "server" Slow(keyspace::flushdb) "Removes all keys of the database.";
    "get" 2 ONE FAST "string" Read(read::get) "Returns the value of a key.";
    "getbit" 3 ONE FAST "bitmap" Read(bits::getbit) "Returns a bit.";
    "getdel" 2 ONE WRITE "string" Update(strings::getdel) "Returns the value of a key, and deletes it.";
    "getex" -2 ONE WRITE "string" Update(strings::getex) "Returns the value of a key, and sets when it expires.";
    "getrange" 4 ONE SLOW "string" Read(read::getrange) "Returns a part of the value of a key.";
    "getset" 3 ONE WRITE "string" Update(strings::getset) "Sets the value of a key, and returns the one before.";
    "hdel" -3 ONE WRITE "hash" Update(hashes::hdel) "Deletes fields.";
    "hello" -1 NONE OPEN "connection" Session(session::hello) "Selects the version of the protocol.";
    "hexists" 3 ONE FAST "hash" Read(hashes::hexists) "Returns whether a field exists.";
    "hget" 3 ONE FAST "hash" Read(hashes::hget) "Returns the value of a field.";
    "hgetall" 2 ONE SLOW "hash" Read(hashes::hgetall) "Returns all fields with their values.";
    "hincrby" 4 ONE WRITE "hash" Update(hashes::hincrby) "Adds a number to a field.";
    "hincrbyfloat" 4 ONE WRITE "hash" Update(hashes::hincrbyfloat) "Adds a number with a fraction to a field.";
    "hkeys" 2 ONE SLOW "hash" Read(hashes::hkeys) "Returns all fields.";
    "hlen" 2 ONE FAST "hash" Read(hashes::hlen) "Returns the number of fields.";
    "hmget" -3 ONE FAST "hash" Read(hashes::hmget) "Returns the values of fields.";
    "hmset" -4 ONE WRITE "hash" Update(hashes::hmset) "Sets fields.";
    "hrandfield" -2 ONE SLOW "hash" Read(hashes::hrandfield) "Returns fields chosen at random.";
    "hscan" -3 ONE SLOW "hash" Read(hashes::hscan) "Returns the fields that match a pattern.";
    "hset" -4 ONE WRITE "hash" Update(hashes::hset) "Sets fields.";
    "hsetnx" 4 ONE WRITE "hash" Update(hashes::hsetnx) "Sets a field that does not exist.";
    "hstrlen" 3 ONE FAST "hash" Read(hashes::hstrlen) "Returns the length of the value of a field.";
    "hvals" 2 ONE SLOW "hash" Read(hashes::hvals) "Returns the values of all fields.";
    "incr" 2 ONE WRITE "string" Update(numbers::incr) "Adds one.";
    "incrby" 3 ONE WRITE "string" Update(numbers::incrby) "Adds a number.";
    "incrbyfloat" 3 ONE WRITE "string" Update(numbers::incrbyfloat) "Adds a number with a fraction.";
    "info" -1 NONE SESSION "server" Session(info::info) "Describes the state of the server.";
    "keys" 2 NONE SLOW "generic" Slow(keyspace::keys) "Returns all keys that match a pattern.";
    "mget" -2 ALL FAST "string" Read(read::mget) "Returns the values of keys.";
    "mset" -3 PAIRS WRITE "string" Blind(strings::mset) "Sets the values of keys.";
    "msetnx" -3 PAIRS WRITE "string" Update(strings::msetnx) "Sets the values of keys, if none of them exists.";
    "multi" 1 NONE TRANSACTION "transactions" Session(transaction::multi) "Begins to queue commands.";
    "object" -2 SECOND SLOW "generic" Update(keys::object) "Describes how a value is stored.";
    "persist" 2 ONE WRITE "generic" Update(expiry::persist) "Removes the time at which a key expires.";
    "pexpire" -3 ONE WRITE "generic" Update(expiry::pexpire) "Sets when a key expires, in milliseconds from now.";
    "pexpireat" -3 ONE WRITE "generic" Update(expiry::pexpireat) "Sets when a key expires, in milliseconds since 1970.";
    "pexpiretime" 2 ONE FAST "generic" Read(read::pexpiretime) "Returns when a key expires, in milliseconds since 1970.";
    "ping" -1 NONE SESSION "connection" Session(session::ping) "Returns PONG, or the given string.";
    "psetex" 4 ONE WRITE "string" Blind(strings::psetex) "Sets the value of a key, and when it expires in milliseconds.";
    "pttl" 2 ONE FAST "generic" Read(read::pttl) "Returns the milliseconds until a key expires.";
    "quit" -1 NONE OPEN "connection" Session(session::quit) "Ends the connection.";
    "randomkey" 1 NONE SLOW "generic" Slow(keyspace::random_key) "Returns a key chosen at random.";
    "rename" 3 TWO WRITE "generic" Update(keys::rename) "Renames a key.";
    "renamenx" 3 TWO WRITE "generic" Update(keys::renamenx) "Renames a key, if the new name is free.";
    "reset" 1 NONE OPEN "connection" Session(session::reset) "Resets the connection.";
    "restore" -4 ONE WRITE "generic" Update(dump::restore) "Sets a value in Redis's form.";
    "scan" -2 NONE SLOW "generic" Slow(keyspace::scan) "Returns a page of the keys.";
    "select" 2 NONE SESSION "connection" Session(session::select) "Selects the database of the connection.";
    "set" -3 ONE WRITE "string" Blind(strings::set) "Sets the value of a key.";
    "setbit" 4 ONE WRITE "bitmap" Update(bits::setbit) "Sets a bit.";
    "setex" 4 ONE WRITE "string" Blind(strings::setex) "Sets the value of a key, and when it expires in seconds.";
    "setnx" 3 ONE WRITE "string" Update(strings::setnx) "Sets the value of a key that does not exist.";
    "setrange" 4 ONE WRITE "string" Update(strings::setrange) "Overwrites a part of the value of a key.";
    "siltstone" -2 NONE ADMIN "server" Slow(keyspace::siltstone) "RELOAD opens the files of dictionaries again.";
    "strlen" 2 ONE FAST "string" Read(read::strlen) "Returns the length of the value of a key.";
    "substr" 4 ONE SLOW "string" Read(read::getrange) "Returns a part of the value of a key.";
    "time" 1 NONE SESSION "server" Session(session::time) "Returns the time of the server.";
    "touch" -2 ALL FAST "generic" Read(read::exists) "Counts the keys that exist.";
    "ttl" 2 ONE FAST "generic" Read(read::ttl) "Returns the seconds until a key expires.";
    "type" 2 ONE FAST "generic" Read(read::value_type) "Returns the type of the value of a key.";
    "unlink" -2 ALL WRITE "generic" Update(keys::del) "Deletes keys.";
    "unwatch" 1 NONE TRANSACTION "transactions" Session(transaction::unwatch) "Watches no key any more.";
    "wait" 3 NONE SLOW "generic" Session(session::wait) "Returns 0: there are no replicas.";
    "waitaof" 4 NONE SLOW "generic" Slow(keyspace::waitaof) "Returns when all writes survive a power loss.";
    "watch" -2 ALL TRANSACTION "transactions" Session(transaction::watch) "Lets EXEC fail if these keys change before it.";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        for command in COMMANDS {
            let found = find(command.name.to_uppercase().as_bytes()).map(|found| found.name);
            assert_eq!(found, Some(command.name));
            assert_eq!(command.name, command.name.to_lowercase());
        }
        assert!(find(b"").is_none() && find(b"gets").is_none());
    }

    #[test]
    fn keys_are_counted_from_either_end() {
        let positions = |keys: Keys, words| keys.positions(words).collect::<Vec<_>>();
        assert_eq!(positions(Keys::ALL, 4), [1, 2, 3]);
        assert_eq!(positions(Keys::ONE, 4), [1]);
        assert_eq!(positions(Keys { first: 1, last: -1, step: 2 }, 5), [1, 3]);
        assert!(positions(Keys::NONE, 4).is_empty());
    }
}
