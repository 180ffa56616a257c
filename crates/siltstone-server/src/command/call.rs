//! What a command is, and what its calls know: of their connection, and of the server. These types are in one file
//! because they need each other: a connection has commands that wait for EXEC, and a command is called with a
//! connection.

use super::access::{Denial, User, Users};
use super::arguments::is;
use super::channels::{Channels, Outbox, Subscriptions};
use super::clients::{ClientEntry, Clients};
use super::cluster::Cluster;
use super::follow::FollowStatus;
use super::limits::{Counters, Limits, memory_for_places, memory_of_places};
use super::measures::Measures;
use super::read::ReadCall;
use super::runtime::Runtime;
#[cfg(feature = "scripts")]
use super::scripts::Scripts;
use super::slow_log::SlowLog;
use super::subcommands;
use super::update::UpdateCall;
use super::watches::{Watched, Watches};
use crate::failure::{Failure, Outcome};
use crate::listen::{Listen, Protocol};
use crate::protocol::{Reply, Version, number};
use crate::store::{KeyState, Places, Store, TooSmall};
use std::cell::{Cell, RefCell};
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command of the server.
#[derive(Debug)]
pub struct Command {
    /// Its number among the commands of all protocols.
    pub number: usize,
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words with the name; if negative, the least number.
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

/// Gives commands the numbers from the first one on.
pub(super) const fn numbered<const N: usize>(first: usize, mut commands: [Command; N]) -> [Command; N] {
    let mut at = 0;
    while at < N {
        commands[at].number = first + at;
        at += 1;
    }
    commands
}

/// How a command is executed.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// With the values of its keys, which are looked up together with those of other commands.
    Read(fn(&ReadCall<'_>, &mut Reply<'_>) -> Outcome),
    /// With the states of its keys, which are read and changed together with those of other commands.
    Update(UpdateFunction),
    /// Like an update, but it needs not know the values before.
    Blind(UpdateFunction),
    /// Like an update, but it needs not know the values before if its words say so.
    BlindIf(UpdateFunction, WordsTest),
    /// Like a read if its words say so, and otherwise like an update. The first function returns whether it has
    /// replied: it has not if it must change a value.
    ReadIf(fn(&ReadCall<'_>, &mut Reply<'_>) -> Result<bool, Failure>, UpdateFunction, WordsTest),
    /// The commands that the connection has queued, as one update.
    Exec,
    /// By a script, with the states of its keys, which are read and changed together with those of other commands.
    #[cfg_attr(not(feature = "scripts"), expect(dead_code, reason = "the commands of scripts are a feature"))]
    Script(fn(&mut ScriptCall<'_>, &mut Reply<'_>) -> Outcome),
    /// At once, with the connection and the server.
    Session(fn(&mut SessionCall<'_>, &mut Reply<'_>) -> Outcome),
    /// By a helper thread, with the whole store and the server.
    Slow(SlowFunction),
    /// By a helper thread if its words say so, and otherwise like an update.
    SlowIf(UpdateFunction, SlowFunction, WordsTest),
}

/// A function over the whole store and the server.
pub type SlowFunction = fn(&SlowCall<'_>, &mut Reply<'_>) -> Outcome;

/// A function over the states of keys.
pub type UpdateFunction = fn(&mut UpdateCall<'_>, &mut Reply<'_>) -> Outcome;

/// A function that looks at the words of a command.
pub type WordsTest = fn(&mut dyn Iterator<Item = &[u8]>) -> bool;

/// Returns whether a number of words is that of an arity, as [`Command::arity`] has it.
fn takes(arity: i64, words: usize) -> bool {
    let words = words as i64;
    if arity < 0 { words >= -arity } else { words == arity }
}

/// Which words of a command are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// The number of the first key's word; 0 if there are no keys.
    pub first: usize,
    /// That of the last key's word; if negative, counted from the end; if 0, the word before the first key has their
    /// number.
    pub last: i64,
    /// From one key to the next.
    pub step: usize,
    /// They are channels, which belong to a slot of a cluster as keys do, and are no keys otherwise.
    pub are_channels: bool,
}

impl Keys {
    pub(super) const NONE: Keys = Keys { first: 0, last: 0, step: 0, are_channels: false };
    pub(super) const ONE: Keys = Keys { first: 1, last: 1, step: 1, are_channels: false };
    pub(super) const TWO: Keys = Keys { first: 1, last: 2, step: 1, are_channels: false };
    pub(super) const SECOND: Keys = Keys { first: 2, last: 2, step: 1, are_channels: false };
    pub(super) const REST: Keys = Keys { first: 2, last: -1, step: 1, are_channels: false };
    pub(super) const PAIRS: Keys = Keys { first: 1, last: -1, step: 2, are_channels: false };
    pub(super) const ALL: Keys = Keys { first: 1, last: -1, step: 1, are_channels: false };
    pub(super) const CHANNEL: Keys = Keys { are_channels: true, ..Keys::ONE };
    pub(super) const CHANNELS: Keys = Keys { are_channels: true, ..Keys::ALL };
    /// Those of a script, after their number.
    #[cfg(feature = "scripts")]
    pub(super) const COUNTED: Keys = Keys { first: 3, last: 0, step: 1, are_channels: false };

    /// Returns the numbers of the words that are keys, in a command of this number of words. A word that counts them
    /// wrongly counts none: the command fails then.
    pub fn positions<'a>(self, words: usize, word: impl Fn(usize) -> &'a [u8]) -> StepBy<Range<usize>> {
        if self.are_channels { Keys::NONE } else { self }.slot_positions(words, word)
    }

    /// Returns the numbers of the words that belong to a slot of a cluster: keys, and some channels.
    pub fn slot_positions<'a>(self, words: usize, word: impl Fn(usize) -> &'a [u8]) -> StepBy<Range<usize>> {
        let end = match self.last {
            _ if self.first == 0 => 0,
            0 if self.first < words => {
                let count = number(word(self.first - 1)).and_then(|count| usize::try_from(count).ok());
                self.first + count.filter(|count| *count <= words - self.first).unwrap_or_default()
            }
            0 => 0,
            last if last < 0 => (words as i64 + last + 1).max(0) as usize,
            last => last as usize + 1,
        };
        (self.first..end.min(words)).step_by(self.step.max(1))
    }

    /// Returns whether the keys are at the same places in all commands.
    pub fn are_fixed(self) -> bool {
        self.first == 0 || self.last != 0
    }
}

/// The bits of the number of a command in a code.
const CODE_BITS: u32 = 16;

impl Command {
    /// Returns the command of this name, whatever its case, in a table in the order of the names.
    pub fn find(commands: &'static [Command], name: &[u8]) -> Option<&'static Command> {
        let order = |command: &Command| {
            let name = name.iter().map(u8::to_ascii_lowercase);
            command.name.bytes().cmp(name)
        };
        commands.binary_search_by(order).ok().map(|at| &commands[at])
    }

    /// Returns whether the command may have this number of words, with its name.
    pub fn takes(&self, words: usize) -> bool {
        takes(self.arity, words)
    }

    /// Checks the number of words, and the subcommand if the command has some.
    ///
    /// # Errors
    /// Redis's error for a wrong number, and for an unknown subcommand.
    pub fn check_words<'a>(&self, words: usize, word: impl Fn(usize) -> &'a [u8]) -> Outcome {
        if !self.takes(words) {
            return Err(Failure::arity(self.name));
        }
        let Some(subcommands) = subcommands::of(self.name).filter(|_| words > 1) else { return Ok(()) };
        let asked = word(1);
        let found = subcommands.iter().find(|(name, _)| is(asked, name));
        let (name, arity) = found.ok_or_else(|| Failure::subcommand(self.name, asked))?;
        match takes(*arity, words) {
            true => Ok(()),
            false => Err(Failure::arity(&format!("{}|{name}", self.name))),
        }
    }

    /// Returns the place of the subcommand that the second word names.
    fn subcommand(&self, second: Option<&[u8]>) -> Option<usize> {
        let (word, all) = (second?, subcommands::of(self.name)?);
        all.iter().position(|(name, _)| is(word, name))
    }

    fn with_subcommand(&self, at: Option<usize>) -> String {
        let subcommand = at.and_then(|at| subcommands::of(self.name)?.get(at));
        subcommand.map_or_else(|| self.name.to_owned(), |(name, _)| format!("{}|{name}", self.name))
    }

    /// Returns the name with that of the subcommand, such as `client|list`.
    pub fn full_name(&self, second: Option<&[u8]>) -> String {
        self.with_subcommand(self.subcommand(second))
    }

    /// Returns a number from which [`name_of`](Command::name_of) returns the full name.
    pub fn code(&self, second: Option<&[u8]>) -> usize {
        self.number | self.subcommand(second).map_or(0, |at| (at + 1) << CODE_BITS)
    }

    /// Returns the full name of a command.
    pub fn name_of(commands: &[Command], code: usize) -> Option<String> {
        let command = commands.get(code & ((1 << CODE_BITS) - 1))?;
        Some(command.with_subcommand((code >> CODE_BITS).checked_sub(1)))
    }

    /// Returns whether these words change no value.
    pub fn only_reads(&self, words: &[&[u8]]) -> bool {
        match self.action {
            Action::Read(_) => true,
            Action::ReadIf(.., is_read) => is_read(&mut words.iter().copied()),
            _ => false,
        }
    }

    /// Returns whether the reply depends on the bytes of values, and not only on their type and expiry time.
    pub fn needs_values(&self) -> bool {
        let needs_none = ["exists", "touch", "type", "ttl", "pttl", "expiretime", "pexpiretime"];
        !needs_none.contains(&self.name)
    }

    /// Returns whether these words may change a value.
    pub fn may_write(&self, words: &mut dyn Iterator<Item = &[u8]>) -> bool {
        match self.action {
            Action::ReadIf(.., is_read) => !is_read(words),
            _ => self.flags.contains(&"write"),
        }
    }

    /// Returns whether these words need the node of a cluster that has their keys, also after READONLY.
    pub fn needs_owner(&self, words: &mut dyn Iterator<Item = &[u8]>) -> bool {
        match self.action {
            // It may write, whatever its words are.
            Action::Script(_) => !self.flags.contains(&"readonly"),
            _ => self.may_write(words),
        }
    }

    /// Returns whether a client may use it before it has given the password.
    pub fn is_open(&self) -> bool {
        self.flags.contains(&"no_auth")
    }
}

/// A call of a command about the connection or the server.
pub struct SessionCall<'a> {
    /// All words; the first one is the name of the command.
    pub words: &'a [&'a [u8]],
    /// The connection.
    pub client: &'a mut Client,
    /// The server.
    pub context: &'a Context,
}

/// A call of a command that may take long.
pub struct SlowCall<'a> {
    /// All words; the first one is the name of the command.
    pub words: &'a [&'a [u8]],
    /// The number of the selected database.
    pub database: usize,
    /// The selected store; `None` if it does not exist yet.
    pub store: Option<&'a dyn Store>,
    /// The server.
    pub context: &'a Context,
    /// Returns whether the client has gone or the server stops, so that the reply is not needed.
    pub is_cancelled: &'a dyn Fn() -> bool,
    /// What it has for connections.
    pub outbox: &'a RefCell<Outbox>,
}

impl SlowCall<'_> {
    pub(super) fn check_cancelled(&self) -> Outcome {
        if (self.is_cancelled)() { Err(Failure::new("ERR the server stops")) } else { Ok(()) }
    }
}

/// How long scripts may run while their keys are locked, or at most.
pub struct Patience {
    /// The time of a script.
    pub time_max: Duration,
    /// A script has run for longer than that, and may have more time: it is to run again, without locks.
    pub is_exceeded: Cell<bool>,
}

impl Patience {
    /// Makes it for scripts that are to run for this long.
    pub fn new(time_max: Duration) -> Patience {
        Patience { time_max, is_exceeded: Cell::new(false) }
    }
}

/// A call of a script.
#[cfg_attr(not(feature = "scripts"), expect(dead_code, reason = "the commands of scripts are a feature"))]
pub struct ScriptCall<'a> {
    /// All words; the first one is the name of the command.
    pub words: &'a [&'a [u8]],
    /// The states of the keys of all commands of the transaction.
    pub states: &'a mut [KeyState],
    /// Which of them are the script's keys, in their order.
    pub keys: &'a [usize],
    /// The time, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The number of the database.
    pub database: usize,
    /// The database cannot be changed.
    pub is_read_only: bool,
    /// How long it may run.
    pub patience: &'a Patience,
    /// Who calls it.
    pub user: Option<&'a Arc<User>>,
    /// The server.
    pub context: &'a Context,
    /// What it has for other connections, once the transaction has committed.
    pub outbox: &'a mut Outbox,
    /// What it was denied, to be noted then.
    pub denials: &'a mut Vec<Denial>,
}

/// What all connections of a server share.
pub struct Context {
    /// All commands, in the order of their names.
    pub commands: &'static [Command],
    /// The databases.
    pub places: Places,
    /// The cluster that the server is a node of, if any.
    pub cluster: Option<Arc<Cluster>>,
    /// The server that this one copies, if any. Clients only read then.
    pub follow: Option<Arc<FollowStatus>>,
    /// The limits as the server was started; [`limits_now`](Context::limits_now) has those under its memory.
    pub limits: Limits,
    /// Who may connect, and what they may do.
    pub users: Users,
    /// The number of threads that execute commands.
    pub workers: usize,
    /// Where it listens.
    pub listeners: Vec<Listen>,
    /// The counters.
    pub counters: Counters,
    /// The keys that connections watch.
    pub watches: Watches,
    /// The scripts that clients have sent.
    #[cfg(feature = "scripts")]
    pub scripts: Scripts,
    /// The connections.
    pub clients: Clients,
    /// The channels with their subscribers, and the monitors.
    pub channels: Arc<Channels>,
    /// How long commands take.
    pub measures: Measures,
    /// The last executions that took long.
    pub slow_log: SlowLog,
    /// The settings that change while the server runs.
    pub runtime: Runtime,
    /// When the server started.
    pub started: Instant,
    /// A random number of this start.
    pub run: u64,
}

impl Context {
    /// Returns the first port of a protocol, with TLS or without; 0 if there is none.
    pub fn port(&self, protocol: Protocol, is_tls: bool) -> u16 {
        let listeners = self.listeners.iter();
        let mut wanted =
            listeners.filter(|listen| listen.protocol == protocol && listen.address.is_tls() == is_tls);
        wanted.find_map(|listen| listen.address.socket_address()).map_or(0, |address| address.port())
    }

    /// Returns the limits under the present memory of the server.
    pub fn limits_now(&self) -> Limits {
        self.limits.within(self.runtime.memory())
    }

    /// Changes the memory of databases, dictionaries and buffers together, in bytes; `None` removes the limit.
    ///
    /// # Errors
    /// It is too small: what is the least, and nothing has changed.
    pub fn set_memory(&self, bytes: Option<u64>) -> Result<(), String> {
        self.places.set_memory(bytes.map(memory_of_places)).map_err(|error| match error {
            TooSmall::Least(of_places) => {
                format!(
                    "the open databases and dictionaries need {} bytes or more",
                    memory_for_places(of_places)
                )
            }
            TooSmall::Other(error) => error.to_string(),
        })?;
        self.runtime.set_memory(bytes);
        Ok(())
    }

    /// Returns how the server works together with others, in Redis's words.
    pub fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }

    /// Reads the files that may have changed: the map of the cluster, and the dictionaries. Returns the number of
    /// dictionaries. Subscriptions to channels of slots that have moved end, which `outbox` has then.
    ///
    /// # Errors
    /// Those of the map, and of opening a dictionary. What has the error, and what follows it, is as it was.
    pub fn reload(&self, outbox: &mut Outbox) -> siltstone::Result<usize> {
        if let Some(cluster) = &self.cluster {
            cluster.reload()?;
            self.channels.revoke(|name| cluster.is_own(name), outbox);
        }
        self.places.reload()
    }
}

/// Which replies a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but the next one.
    SkipsNext,
}

/// A connection, as commands see it.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its number, which no other connection has.
    pub id: u64,
    /// Its entry among all connections.
    pub entry: Arc<ClientEntry>,
    /// The number of the selected database.
    pub database: usize,
    /// The protocol with its version.
    pub version: Version,
    /// Which replies the client wants.
    pub replies: Replies,
    /// Whether the client has given a password, or needs none.
    pub is_authenticated: bool,
    /// Who it is: the user `default` before it has authenticated as another one.
    pub user: Arc<User>,
    /// The [generation](Users::generation) of the users that `user` is from.
    pub users_seen: u64,
    /// The connection ends when its replies are sent.
    pub is_closing: bool,
    /// The commands since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that it watches.
    pub watched: Vec<Watched>,
    /// What it gets without a request.
    pub subscriptions: Subscriptions,
    /// What its commands have for other connections. The worker sends it after them.
    pub outbox: Outbox,
    /// The cluster that the server is a node of, if any.
    pub cluster: Option<Arc<Cluster>>,
    /// Whether it may read keys of other nodes of the cluster.
    pub reads_others: bool,
    /// Whether it only reads, because the server follows another one.
    pub is_reader: bool,
}

impl Client {
    /// Makes the client of a connection that begins.
    pub fn new(entry: Arc<ClientEntry>, version: Version, context: &Context) -> Client {
        let users_seen = context.users.generation();
        let user = context.users.default_user();
        entry.rename(|names| names.user.clone_from(&user.name));
        Client {
            id: entry.id,
            entry,
            database: 0,
            version,
            replies: Replies::On,
            is_authenticated: user.is_open(),
            user,
            users_seen,
            is_closing: false,
            transaction: None,
            watched: Vec::new(),
            subscriptions: Subscriptions::default(),
            outbox: Outbox::new(),
            cluster: context.cluster.clone(),
            reads_others: false,
            is_reader: context.follow.is_some(),
        }
    }

    /// Returns an error if a queued command has a key in a slot that has moved to another node meanwhile.
    pub fn check_slots(&self, transaction: &Transaction) -> Outcome {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        for Queued { command, words } in &transaction.queued {
            let word = |at: usize| &words[at][..];
            if !self.reads_others || command.needs_owner(&mut (0..words.len()).map(word)) {
                cluster.check(command.keys.slot_positions(words.len(), word).map(word))?;
            }
        }
        Ok(())
    }

    /// Returns whether the client does not want the reply of the next request, which begins.
    pub fn skips_reply(&mut self) -> bool {
        match self.replies {
            Replies::On => false,
            Replies::Off => true,
            Replies::SkipsNext => {
                self.replies = Replies::On;
                true
            }
        }
    }
}

/// The most bytes of the words that a connection may queue.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A command that waits for EXEC.
#[derive(Debug, Clone)]
pub struct Queued {
    /// The command.
    pub command: &'static Command,
    /// Its words.
    pub words: Vec<Vec<u8>>,
}

/// The commands between MULTI and EXEC.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// The commands.
    pub queued: Vec<Queued>,
    /// One of the commands could not be queued, so EXEC fails.
    pub is_failed: bool,
    bytes: usize,
}

impl Transaction {
    /// Adds a command.
    ///
    /// # Errors
    /// A command that cannot be part of a transaction, or too many bytes.
    pub fn add(&mut self, command: &'static Command, words: &[&[u8]]) -> Outcome {
        let outcome = self.check(command, words);
        match &outcome {
            Ok(()) => {
                let words = words.iter().map(|word| word.to_vec()).collect();
                self.queued.push(Queued { command, words });
            }
            Err(_) => self.is_failed = true,
        }
        outcome
    }

    /// Returns whether one of the commands is a script.
    pub fn has_script(&self) -> bool {
        self.queued.iter().any(|queued| matches!(queued.command.action, Action::Script(_)))
    }

    fn check(&mut self, command: &Command, words: &[&[u8]]) -> Outcome {
        self.bytes += words.iter().map(|word| word.len() + size_of::<Vec<u8>>()).sum::<usize>();
        if self.bytes > QUEUED_BYTES_MAX {
            return Err(Failure::from(format!(
                "ERR the queued commands have more than {QUEUED_BYTES_MAX} bytes; use several transactions"
            )));
        }
        match command.action {
            // It would read the whole store while the keys of the transaction wait, or change the database, or what the
            // connection gets.
            Action::Slow(_) => Err(NOT_ALLOWED),
            _ if command.flags.contains(&"no_multi") => Err(NOT_ALLOWED),
            _ if ["select", "watch"].contains(&command.name) => Err(NOT_ALLOWED),
            _ => Ok(()),
        }
    }
}

const NOT_ALLOWED: Failure = Failure::new("ERR Command not allowed inside a transaction");

impl Command {
    /// Returns whether the command is executed at once also between MULTI and EXEC.
    pub fn is_never_queued(&self) -> bool {
        ["multi", "exec", "discard", "watch", "quit", "reset"].contains(&self.name)
    }
}
