//! Whether a user may execute a request: one check of the command, of each key and of each channel.
//!
//! A user that may do everything is not checked. A request of memcached's protocol needs the right to a command of
//! Redis that does the same.

use super::access::{Catalogue, DEFAULT, Denial, Described, Entry, KeyUse, User, Users};
use super::arguments::is;
use super::call::{Client, Command, Context, Transaction};
use super::channels::Kind;
use super::client::describe;
use super::clients::ClientEntry;
use super::limits::Counters;
use super::subcommands;
use crate::failure::{Failure, Outcome};
use crate::protocol::Version;
use std::sync::Arc;
use std::time::Instant;

/// Why a user may not execute a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The command, with its subcommand as `client|kill`.
    Command(String),
    /// The key that is this word.
    Key(usize),
    /// The channel that is this word.
    Channel(usize),
}

/// Returns the names and categories of commands.
pub fn catalogue(commands: &'static [Command]) -> Catalogue {
    Catalogue::new(commands.iter().map(|command| Described {
        name: command.name,
        flags: command.flags,
        group: command.group,
        subcommands: subcommands::of(command.name).unwrap_or_default(),
    }))
}

/// Checks whether a user may execute a command of Redis with these words, of which the first is its name. The words
/// have the number that the command takes.
///
/// # Errors
/// What the user may not.
pub fn check(user: &User, command: &Command, words: &[&[u8]]) -> Result<(), Denied> {
    if user.is_unlimited() || command.is_open() {
        Ok(())
    } else {
        check_as(user, command.name, command, words)
    }
}

/// Checks a command as if its name was another one.
fn check_as(user: &User, name: &str, command: &Command, words: &[&[u8]]) -> Result<(), Denied> {
    let subcommand = words.get(1).copied();
    if !user.may_execute(name, subcommand) {
        return Err(Denied::Command(user.full_name(name, subcommand)));
    }
    for (number, at) in command.keys.positions(words.len(), |at| words[at]).enumerate() {
        if !user.may_use_key(words[at], use_of_key(name, command.flags, number, words)) {
            return Err(Denied::Key(at));
        }
    }
    let (channels, are_patterns) = channels(name, words.len());
    for at in channels {
        if !user.may_use_channel(words[at], are_patterns) {
            return Err(Denied::Channel(at));
        }
    }
    Ok(())
}

/// Returns what a command does with one of its keys, by the number of the key.
fn use_of_key(name: &str, flags: &[&str], number: usize, words: &[&[u8]]) -> KeyUse {
    let has = |option: &str| words.iter().skip(3).any(|word| is(word, option));
    match (name, number) {
        ("exists" | "hexists" | "hlen" | "hstrlen" | "object" | "strlen" | "touch" | "type" | "watch", _) => {
            KeyUse::NONE
        }
        ("set", _) if has("GET") => KeyUse::BOTH,
        ("bitfield", _)
            if !has("SET") && !has("INCRBY") && !words.get(2).is_some_and(|word| changes(word)) =>
        {
            KeyUse::READ
        }
        ("copy", 0) => KeyUse::READ,
        // What a script does with its keys is not known before.
        ("getset" | "eval" | "evalsha", _) => KeyUse::BOTH,
        ("rename" | "renamenx", 0) => KeyUse::BOTH,
        ("bitop", 1..) => KeyUse::READ,
        (
            "append" | "del" | "expire" | "expireat" | "hdel" | "hmset" | "hset" | "hsetnx" | "mset"
            | "msetnx",
            _,
        )
        | ("persist" | "pexpire" | "pexpireat" | "psetex" | "restore" | "set" | "setex" | "setnx", _)
        | ("setrange" | "unlink" | "copy" | "rename" | "renamenx" | "bitop", _) => KeyUse::WRITE,
        _ if flags.contains(&"write") => KeyUse::BOTH,
        _ => KeyUse::READ,
    }
}

/// Returns whether a subcommand of BITFIELD changes a value.
fn changes(word: &[u8]) -> bool {
    is(word, "SET") || is(word, "INCRBY")
}

/// Returns the command of Redis whose right a command of memcached needs; `None` if every client that has authenticated
/// may send it.
///
/// | commands | right to |
/// |---|---|
/// | `get` `gets` `me`, `mg` that changes nothing | `get` |
/// | `gat` `gats` | `getex` |
/// | `set` `add` `replace` `cas` `ms` | `set` |
/// | `mg` that may change the value | `getset` |
/// | `append` `prepend` | `append` |
/// | `incr` `decr` `ma` | `incrby` |
/// | `delete` `md` | `del` |
/// | `touch` | `expire` |
/// | `flush_all` | `flushdb` |
/// | `stats` | `info` |
fn right_to(command: &Command, words: &[&[u8]]) -> Option<&'static str> {
    Some(match command.name {
        "mg" if !command.only_reads(words) => "getset",
        "get" | "gets" | "me" | "mg" => "get",
        "gat" | "gats" => "getex",
        "append" | "prepend" => "append",
        "incr" | "decr" | "ma" => "incrby",
        "delete" | "md" => "del",
        "touch" => "expire",
        "flush_all" => "flushdb",
        "stats" => "info",
        "mn" | "quit" | "verbosity" | "version" => return None,
        _ => "set",
    })
}

/// Returns which words are channels, and whether they are patterns of channels. To end a subscription needs no right.
fn channels(name: &str, words: usize) -> (std::ops::Range<usize>, bool) {
    match name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..words, false),
        "psubscribe" => (1..words, true),
        _ => (0..0, false),
    }
}

/// Checks a request of a client. Its words are asked for only if they are needed.
///
/// # Errors
/// What its user may not.
pub fn check_request<'a>(
    client: &Client,
    command: &Command,
    words: impl FnOnce() -> Vec<&'a [u8]>,
) -> Result<(), Denied> {
    if client.user.is_unlimited() || !client.is_authenticated {
        return Ok(());
    }
    let words = words();
    match client.version {
        Version::Memcached => match right_to(command, &words) {
            Some(name) => check_as(&client.user, name, command, &words),
            None => Ok(()),
        },
        Version::Resp2 | Version::Resp3 => check(&client.user, command, &words),
    }
}

/// Checks the commands of a transaction again: the rights may have changed since they were queued.
///
/// # Errors
/// The error reply to EXEC.
pub fn check_queued(client: &Client, transaction: &Transaction) -> Outcome {
    if client.user.is_unlimited() {
        return Ok(());
    }
    for queued in &transaction.queued {
        let words: Vec<&[u8]> = queued.words.iter().map(Vec::as_slice).collect();
        if let Err(denied) = check(&client.user, queued.command, &words) {
            return Err(Failure::from(format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {}",
                denied.reason()
            )));
        }
    }
    Ok(())
}

impl Denied {
    /// Returns the error reply.
    pub fn failure(&self, version: Version) -> Failure {
        let code = if version == Version::Memcached { "CLIENT_ERROR" } else { "NOPERM" };
        Failure::from(match self {
            Denied::Command(name) => {
                format!("{code} this user has no permissions to run the '{name}' command")
            }
            Denied::Key(_) => {
                format!("{code} this user has no permissions to access one of the keys used as arguments")
            }
            Denied::Channel(_) => {
                format!("{code} this user has no permissions to access one of the channels used as arguments")
            }
        })
    }

    /// Returns the error of a command that a script calls.
    #[cfg(feature = "scripts")]
    pub fn failure_in_script(&self) -> Failure {
        Failure::new(match self {
            Denied::Command(_) => "ERR The user executing the script can't run this command or subcommand",
            Denied::Key(_) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Denied::Channel(_) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
        })
    }

    /// Returns what was denied to a request with these words.
    pub fn of_request(self, words: &[&[u8]]) -> Denial {
        let (reason, object) = match self {
            Denied::Command(name) => ("command", name),
            Denied::Key(at) => ("key", shown(words[at])),
            Denied::Channel(at) => ("channel", shown(words[at])),
        };
        Denial { reason, object, count: 1 }
    }

    /// Returns the reason in an error of EXEC.
    fn reason(&self) -> &'static str {
        match self {
            Denied::Command(_) => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => "no permission to access one of the channels used as arguments",
        }
    }
}

/// Counts and logs a request that was denied.
pub fn note_denied(context: &Context, client: &Client, denied: Denied, words: &[&[u8]]) {
    note(context, place_of(client), denied.of_request(words), &client.user, &client.entry);
}

/// Counts and logs what a script was denied that a client has called.
pub fn note_denied_in_script(context: &Context, client: u64, user: &User, denial: Denial) {
    // A client that has gone got no reply.
    if let Some(entry) = context.clients.get(client) {
        note(context, "lua", denial, user, &entry);
    }
}

fn note(context: &Context, place: &'static str, denial: Denial, user: &User, entry: &ClientEntry) {
    let counters = &context.counters;
    let counter = match denial.reason {
        "command" => &counters.denied_commands,
        "key" => &counters.denied_keys,
        _ => &counters.denied_channels,
    };
    Counters::add(counter, denial.count);
    log(context, place, denial, user.name.clone(), entry);
}

/// Counts and logs that a client has given a wrong password, or a name that does not exist.
pub fn note_wrong_password(context: &Context, client: &Client, user: &[u8], words: &[&[u8]]) {
    Counters::add(&context.counters.denied_authentications, 1);
    let object = words.first().map(|name| shown(name)).unwrap_or_default();
    let denial = Denial { reason: "auth", object, count: 1 };
    log(context, place_of(client), denial, shown(user), &client.entry);
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn place_of(client: &Client) -> &'static str {
    if client.transaction.is_some() { "multi" } else { "toplevel" }
}

fn log(context: &Context, place: &'static str, denial: Denial, user: String, entry: &ClientEntry) {
    let Denial { reason, object, count } = denial;
    let client = describe(context, entry);
    let entry = Entry { count, reason, context: place, object, user, at: Instant::now(), client };
    context.users.log().add(entry);
}

impl Client {
    /// Authenticates as a user. Returns whether the password is right.
    pub fn sign_in(&mut self, users: &Users, user: &[u8], password: &[u8]) -> bool {
        // Before the user is looked up: a change in between is taken over later.
        let seen = users.generation();
        let Some(user) = users.authenticate(user, password) else { return false };
        (self.users_seen, self.is_authenticated) = (seen, true);
        self.become_user(user);
        true
    }

    /// Becomes the user of a new connection.
    pub fn sign_out(&mut self, users: &Users) {
        self.users_seen = users.generation();
        self.become_user(users.default_user());
        self.is_authenticated = self.user.is_open();
    }

    fn become_user(&mut self, user: Arc<User>) {
        self.entry.rename(|names| names.user.clone_from(&user.name));
        self.user = user;
    }

    /// Takes over a change of the users. The connection of a user that has gone ends.
    pub fn take_over(&mut self, users: &Users) {
        let generation = users.generation();
        if self.users_seen == generation {
            return;
        }
        self.users_seen = generation;
        match users.get(&self.user.name) {
            Some(user) => {
                self.is_authenticated |= user.name == DEFAULT && user.is_open();
                self.become_user(user);
                // As in Redis, a subscription that is not allowed any more ends with the connection.
                self.is_closing |= !self.may_receive();
            }
            None => self.is_closing = true,
        }
    }

    /// Returns whether the user may have all subscriptions of the connection.
    fn may_receive(&self) -> bool {
        let may_use = |kind: Kind| {
            let names = self.subscriptions.all(kind);
            names.iter().all(|name| self.user.may_use_channel(name, kind == Kind::Pattern))
        };
        let may_monitor = !self.subscriptions.is_monitor() || self.user.may_execute("monitor", None);
        may_monitor && [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().all(may_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::memcached;

    #[test]
    fn what_a_command_does_with_a_key_depends_on_its_words() {
        let of = |name: &str, number: usize, line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            use_of_key(name, &["write"], number, &words)
        };
        assert_eq!(of("set", 0, "set get v"), KeyUse::WRITE);
        assert_eq!(of("set", 0, "set k v get"), KeyUse::BOTH);
        assert_eq!(of("bitfield", 0, "bitfield k get u8 0"), KeyUse::READ);
        assert_eq!(of("bitfield", 0, "bitfield k set u8 0 1"), KeyUse::BOTH);
        assert_eq!(of("bitfield", 0, "bitfield k get u8 0 incrby u8 0 1"), KeyUse::BOTH);
        assert_eq!((of("copy", 0, "copy a b"), of("copy", 1, "copy a b")), (KeyUse::READ, KeyUse::WRITE));
        assert_eq!((of("rename", 0, ""), of("rename", 1, "")), (KeyUse::BOTH, KeyUse::WRITE));
        assert_eq!((of("bitop", 0, ""), of("bitop", 1, "")), (KeyUse::WRITE, KeyUse::READ));
        assert_eq!((of("incr", 0, ""), of("exists", 3, "")), (KeyUse::BOTH, KeyUse::NONE));
    }

    #[test]
    fn channels_are_checked_where_messages_are_sent_and_received() {
        assert_eq!(channels("publish", 3), (1..2, false));
        assert_eq!(channels("subscribe", 4), (1..4, false));
        assert_eq!(channels("psubscribe", 2), (1..2, true));
        assert_eq!(channels("unsubscribe", 3), (0..0, false));
    }

    #[test]
    fn a_request_needs_the_right_to_a_command_of_redis() {
        let right = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            right_to(memcached::find(&words, true).unwrap(), &words)
        };
        for (line, name) in [
            ("get a b", Some("get")),
            ("mg a v t", Some("get")),
            ("mg a N30", Some("getset")),
            ("gat 0 a", Some("getex")),
            ("cas a 0 0 1 7", Some("set")),
            ("ms a 1", Some("set")),
            ("prepend a 0 0 1", Some("append")),
            ("md a", Some("del")),
            ("flush_all", Some("flushdb")),
            ("version", None),
        ] {
            assert_eq!(right(line), name, "{line}");
        }
    }
}
