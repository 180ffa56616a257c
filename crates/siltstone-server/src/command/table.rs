//! All commands.

use super::call::Command;
#[cfg(feature = "scripts")]
use super::scripts;
use super::update::{bits, dump, expiry, hashes, keys, numbers, strings};
use super::{
    acl, client, info, introspection, keyspace, monitoring, nodes, pubsub, read, session, transaction, update,
};

const FAST: &[&str] = &["readonly", "fast"];
const SLOW: &[&str] = &["readonly"];
const OPEN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth"];
const SESSION: &[&str] = &["loading", "stale", "fast"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
/// Writes that take longer with longer values or more keys.
const SLOW_WRITE: &[&str] = &["write", "denyoom"];
const FLUSH: &[&str] = &["write"];
const MOVE: &[&str] = &["write", "fast"];
const TRANSACTION: &[&str] = &["noscript", "loading", "stale", "fast"];
const PUBLISH: &[&str] = &["pubsub", "loading", "stale", "fast"];
const SUBSCRIBE: &[&str] = &["pubsub", "noscript", "loading", "stale", "no_multi"];
const ADMIN_ALONE: &[&str] = &["admin", "noscript", "loading", "stale", "no_multi"];
/// Commands that take longer than those of a session.
const STATE: &[&str] = &["noscript", "loading", "stale"];
#[cfg(feature = "scripts")]
const SCRIPT: &[&str] =
    &["noscript", "stale", "skip_monitor", "may_replicate", "no_mandatory_keys", "movablekeys"];
#[cfg(feature = "scripts")]
const SCRIPT_READ: &[&str] =
    &["readonly", "noscript", "stale", "skip_monitor", "no_mandatory_keys", "movablekeys"];
#[cfg(feature = "scripts")]
const SCRIPT_CACHE: &[&str] = &["noscript"];
const ADMIN: &[&str] = &["admin", "noscript", "loading", "stale"];

/// Makes the table of a row per command: words with the name, keys, flags, group, function, meaning. The commands have
/// numbers, from 0 or another number on.
macro_rules! commands {
    (from $first:expr; $(
        $(#[$attribute:meta])*
        $name:literal $arity:literal $keys:ident $flags:ident $group:literal
        $action:ident$(($($run:path),+))? $summary:literal;
    )*) => {
        &$crate::command::call::numbered($first, [$($(#[$attribute])* $crate::command::Command {
            number: 0,
            name: $name,
            arity: $arity,
            keys: $crate::command::call::Keys::$keys,
            flags: $flags,
            group: $group,
            summary: $summary,
            action: $crate::command::Action::$action$(($($run),+))?,
        }),*])
    };
    ($($rows:tt)*) => {
        $crate::command::table::commands! { from 0; $($rows)* }
    };
}
pub(super) use commands;

/// All commands of Redis, in the order of their names.
pub const COMMANDS: &[Command] = commands! {
    "acl" -2 NONE ADMIN "server" Session(acl::acl) "Describes and changes users and their rights.";
    "append" 3 ONE WRITE "string" Update(strings::append) "Appends to the value of a key.";
    "auth" -2 NONE OPEN "connection" Session(session::auth) "Authenticates the connection.";
    "bitcount" -2 ONE SLOW "bitmap" Read(bits::bitcount) "Counts the bits that are 1.";
    "bitfield" -2 ONE SLOW_WRITE "bitmap" Update(update::bitfield) "Reads and changes numbers of any width within a string.";
    "bitfield_ro" -2 ONE FAST "bitmap" Read(update::bitfield_ro) "Reads numbers of any width within a string.";
    "bitop" -4 REST SLOW_WRITE "bitmap" Update(bits::bitop) "Combines the bits of strings.";
    "bitpos" -3 ONE SLOW "bitmap" Read(bits::bitpos) "Finds the first bit that is 0 or 1.";
    "client" -2 NONE SESSION "connection" Session(client::client) "Names, lists and ends connections.";
    "cluster" -2 NONE SESSION "cluster" Session(nodes::cluster) "Describes the map of a cluster.";
    "command" -1 NONE SESSION "server" Session(introspection::command) "Describes the commands.";
    "config" -2 NONE ADMIN "server" Session(info::config) "Returns settings, and changes some of them.";
    "copy" -3 TWO SLOW_WRITE "generic" SlowIf(keys::copy, keyspace::copy, keys::names_database) "Copies the value of a key to another key.";
    "dbsize" 1 NONE FAST "server" Slow(keyspace::dbsize) "Returns the number of keys.";
    "decr" 2 ONE WRITE "string" Update(numbers::decr) "Subtracts one.";
    "decrby" 3 ONE WRITE "string" Update(numbers::decrby) "Subtracts a number.";
    "del" -2 ALL FLUSH "generic" Update(keys::del) "Deletes keys.";
    "discard" 1 NONE TRANSACTION "transactions" Session(transaction::discard) "Drops the queued commands.";
    "dump" 2 ONE SLOW "generic" Read(dump::dump) "Returns a value in Redis's form.";
    "echo" 2 NONE SESSION "connection" Session(session::echo) "Returns the given string.";
    #[cfg(feature = "scripts")]
    "eval" -3 COUNTED SCRIPT "scripting" Script(scripts::eval) "Executes a script.";
    #[cfg(feature = "scripts")]
    "eval_ro" -3 COUNTED SCRIPT_READ "scripting" Script(scripts::eval_ro) "Executes a script that writes nothing.";
    #[cfg(feature = "scripts")]
    "evalsha" -3 COUNTED SCRIPT "scripting" Script(scripts::evalsha) "Executes a script that the server has.";
    #[cfg(feature = "scripts")]
    "evalsha_ro" -3 COUNTED SCRIPT_READ "scripting" Script(scripts::evalsha_ro) "Executes one that writes nothing.";
    "exec" 1 NONE STATE "transactions" Exec "Executes the queued commands at once.";
    "exists" -2 ALL FAST "generic" Read(read::exists) "Counts the keys that exist.";
    "expire" -3 ONE WRITE "generic" Update(expiry::expire) "Sets when a key expires, in seconds from now.";
    "expireat" -3 ONE WRITE "generic" Update(expiry::expireat) "Sets when a key expires, in seconds since 1970.";
    "expiretime" 2 ONE FAST "generic" Read(read::expiretime) "Returns when a key expires, in seconds since 1970.";
    "flushall" -1 NONE FLUSH "server" Slow(keyspace::flushall) "Removes all keys of all databases.";
    "flushdb" -1 NONE FLUSH "server" Slow(keyspace::flushdb) "Removes all keys of the database.";
    "function" -2 NONE FLUSH "scripting" Session(session::function) "FLUSH removes all functions: there are none.";
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
    "info" -1 NONE STATE "server" Session(info::info) "Describes the state of the server.";
    "keys" 2 NONE SLOW "generic" Slow(keyspace::keys) "Returns all keys that match a pattern.";
    "latency" -2 NONE ADMIN "server" Session(monitoring::latency) "Returns how long commands take.";
    "memory" -2 SECOND SLOW "server" Read(read::memory) "Returns the bytes of a key with its value.";
    "mget" -2 ALL FAST "string" Read(read::mget) "Returns the values of keys.";
    "monitor" 1 NONE ADMIN_ALONE "server" Session(monitoring::monitor) "Returns a line for each command of all connections.";
    "move" 3 ONE MOVE "generic" Slow(keyspace::move_key) "Moves a key to another database.";
    "mset" -3 PAIRS SLOW_WRITE "string" Blind(strings::mset) "Sets the values of keys.";
    "msetnx" -3 PAIRS SLOW_WRITE "string" Update(strings::msetnx) "Sets the values of keys, if none of them exists.";
    "multi" 1 NONE TRANSACTION "transactions" Session(transaction::multi) "Begins to queue commands.";
    "object" -2 SECOND SLOW "generic" Read(keys::object) "Describes how a value is stored.";
    "persist" 2 ONE WRITE "generic" Update(expiry::persist) "Removes the time at which a key expires.";
    "pexpire" -3 ONE WRITE "generic" Update(expiry::pexpire) "Sets when a key expires, in milliseconds from now.";
    "pexpireat" -3 ONE WRITE "generic" Update(expiry::pexpireat) "Sets when a key expires, in milliseconds since 1970.";
    "pexpiretime" 2 ONE FAST "generic" Read(read::pexpiretime) "Returns when a key expires, in milliseconds since 1970.";
    "ping" -1 NONE SESSION "connection" Session(session::ping) "Returns PONG, or the given string.";
    "psetex" 4 ONE SLOW_WRITE "string" Blind(strings::psetex) "Sets the value of a key, and when it expires in milliseconds.";
    "psubscribe" -2 NONE SUBSCRIBE "pubsub" Session(pubsub::psubscribe) "Subscribes to the channels that match patterns.";
    "pttl" 2 ONE FAST "generic" Read(read::pttl) "Returns the milliseconds until a key expires.";
    "publish" 3 NONE PUBLISH "pubsub" Session(pubsub::publish) "Sends a message to the subscribers of a channel.";
    "pubsub" -2 NONE PUBLISH "pubsub" Session(pubsub::pubsub) "Lists channels, and counts their subscribers.";
    "punsubscribe" -1 NONE SUBSCRIBE "pubsub" Session(pubsub::punsubscribe) "Ends subscriptions to patterns.";
    "quit" -1 NONE OPEN "connection" Session(session::quit) "Ends the connection.";
    "randomkey" 1 NONE SLOW "generic" Slow(keyspace::random_key) "Returns a key chosen at random.";
    "readonly" 1 NONE SESSION "cluster" Session(nodes::read_others) "Lets the connection read keys of other nodes that this one has.";
    "readwrite" 1 NONE SESSION "cluster" Session(nodes::read_others) "Ends READONLY.";
    "rename" 3 TWO SLOW_WRITE "generic" Update(keys::rename) "Renames a key.";
    "renamenx" 3 TWO WRITE "generic" Update(keys::renamenx) "Renames a key, if the new name is free.";
    "reset" 1 NONE OPEN "connection" Session(session::reset) "Resets the connection.";
    "restore" -4 ONE SLOW_WRITE "generic" Update(dump::restore) "Sets a value in Redis's form.";
    "scan" -2 NONE SLOW "generic" Slow(keyspace::scan) "Returns a page of the keys.";
    #[cfg(feature = "scripts")]
    "script" -2 NONE SCRIPT_CACHE "scripting" Session(scripts::script) "Keeps scripts, and ends those that run.";
    "select" 2 NONE SESSION "connection" Session(session::select) "Selects the database of the connection.";
    "set" -3 ONE SLOW_WRITE "string" BlindIf(strings::set, strings::is_blind_set) "Sets the value of a key.";
    "setbit" 4 ONE SLOW_WRITE "bitmap" Update(bits::setbit) "Sets a bit.";
    "setex" 4 ONE SLOW_WRITE "string" Blind(strings::setex) "Sets the value of a key, and when it expires in seconds.";
    "setnx" 3 ONE WRITE "string" Update(strings::setnx) "Sets the value of a key that does not exist.";
    "setrange" 4 ONE SLOW_WRITE "string" Update(strings::setrange) "Overwrites a part of the value of a key.";
    "shutdown" -1 NONE ADMIN_ALONE "server" Session(session::shutdown) "Stops the server.";
    "siltstone" -2 NONE ADMIN "server" Slow(keyspace::siltstone) "RELOAD opens the files of dictionaries again, CHANGES returns what was written.";
    "slowlog" -2 NONE ADMIN "server" Session(monitoring::slowlog) "Returns the executions that took long.";
    "spublish" 3 CHANNEL PUBLISH "pubsub" Session(pubsub::spublish) "Sends a message to the subscribers of a channel of a slot.";
    "ssubscribe" -2 CHANNELS SUBSCRIBE "pubsub" Session(pubsub::ssubscribe) "Subscribes to channels of a slot.";
    "strlen" 2 ONE FAST "string" Read(read::strlen) "Returns the length of the value of a key.";
    "subscribe" -2 NONE SUBSCRIBE "pubsub" Session(pubsub::subscribe) "Subscribes to channels.";
    "substr" 4 ONE SLOW "string" Read(read::getrange) "Returns a part of the value of a key.";
    "sunsubscribe" -1 CHANNELS SUBSCRIBE "pubsub" Session(pubsub::sunsubscribe) "Ends subscriptions to channels of a slot.";
    "time" 1 NONE SESSION "server" Session(session::time) "Returns the time of the server.";
    "touch" -2 ALL FAST "generic" Read(read::exists) "Counts the keys that exist.";
    "ttl" 2 ONE FAST "generic" Read(read::ttl) "Returns the seconds until a key expires.";
    "type" 2 ONE FAST "generic" Read(read::value_type) "Returns the type of the value of a key.";
    "unlink" -2 ALL WRITE "generic" Update(keys::del) "Deletes keys.";
    "unsubscribe" -1 NONE SUBSCRIBE "pubsub" Session(pubsub::unsubscribe) "Ends subscriptions to channels.";
    "unwatch" 1 NONE TRANSACTION "transactions" Session(transaction::unwatch) "Watches no key any more.";
    "wait" 3 NONE STATE "generic" Session(session::wait) "Returns 0: there are no replicas.";
    "waitaof" 4 NONE STATE "generic" Slow(keyspace::waitaof) "Returns when all writes survive a power loss.";
    "watch" -2 ALL TRANSACTION "transactions" Session(transaction::watch) "Lets EXEC fail if these keys change before it.";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::call::Keys;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
        for command in COMMANDS {
            let found =
                Command::find(COMMANDS, command.name.to_uppercase().as_bytes()).map(|found| found.name);
            assert_eq!(found, Some(command.name));
            assert_eq!(command.name, command.name.to_lowercase());
        }
        assert!(Command::find(COMMANDS, b"").is_none() && Command::find(COMMANDS, b"gets").is_none());
    }

    #[test]
    fn each_command_of_all_protocols_has_a_number_of_its_own() {
        let numbers: Vec<usize> = crate::command::all_commands().map(|command| command.number).collect();
        assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    }

    #[test]
    fn keys_are_counted_from_either_end() {
        let positions = |keys: Keys, words| keys.positions(words, |_| b"").collect::<Vec<_>>();
        assert_eq!(positions(Keys::ALL, 4), [1, 2, 3]);
        assert_eq!(positions(Keys::ONE, 4), [1]);
        assert_eq!(positions(Keys::PAIRS, 5), [1, 3]);
        assert!(positions(Keys::NONE, 4).is_empty());
    }

    #[cfg(feature = "scripts")]
    #[test]
    fn the_keys_of_a_script_are_counted_by_a_word() {
        let positions = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            Keys::COUNTED.positions(words.len(), |at| words[at]).collect::<Vec<_>>()
        };
        assert_eq!(positions("eval s 2 a b c"), [3, 4]);
        assert_eq!(positions("eval s 3 a b c"), [3, 4, 5]);
        for line in
            ["eval s 0 a", "eval s 0", "eval s 4 a b c", "eval s -1 a", "eval s x a", "eval s 1", "eval s"]
        {
            assert!(positions(line).is_empty(), "{line}");
        }
    }
}
