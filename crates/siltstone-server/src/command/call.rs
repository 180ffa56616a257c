//! What a command is, and what its calls know: of their connection, and of the server. These types are in one file
//! because they need each other: a connection has commands that wait for EXEC, and a command is called with a
//! connection.

use super::arguments::is;
use super::limits::{Counters, Limits};
use super::read::ReadCall;
#[cfg(feature = "scripts")]
use super::scripts::Scripts;
use super::subcommands;
use super::update::UpdateCall;
use super::watches::{Watched, Watches};
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version, number};
use crate::store::{KeyState, Places, Store};
use siltstone::Durability;
use std::cell::Cell;
use std::iter::StepBy;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

/// A command of the server.
#[derive(Debug)]
pub struct Command {
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
    Slow(fn(&SlowCall<'_>, &mut Reply<'_>) -> Outcome),
}

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
}

impl Keys {
    pub(super) const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
    pub(super) const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
    pub(super) const TWO: Keys = Keys { first: 1, last: 2, step: 1 };
    pub(super) const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };
    pub(super) const REST: Keys = Keys { first: 2, last: -1, step: 1 };
    pub(super) const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };
    pub(super) const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
    /// Those of a script, after their number.
    #[cfg(feature = "scripts")]
    pub(super) const COUNTED: Keys = Keys { first: 3, last: 0, step: 1 };

    /// Returns the numbers of the words that are keys, in a command of this number of words. A word that counts them
    /// wrongly counts none: the command fails then.
    pub fn positions<'a>(self, words: usize, word: impl Fn(usize) -> &'a [u8]) -> StepBy<Range<usize>> {
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

    /// Returns whether these words change no value.
    pub fn only_reads(&self, words: &[&[u8]]) -> bool {
        match self.action {
            Action::Read(_) => true,
            Action::ReadIf(.., is_read) => is_read(&mut words.iter().copied()),
            _ => false,
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
    /// The server.
    pub context: &'a Context,
}

/// What all connections of a server share.
pub struct Context {
    /// All commands, in the order of their names.
    pub commands: &'static [Command],
    /// The databases.
    pub places: Places,
    /// The limits.
    pub limits: Limits,
    /// The password that connections need, if any.
    pub password: Option<String>,
    /// The number of threads that execute commands.
    pub workers: usize,
    /// The address of Redis's protocol.
    pub redis: Option<SocketAddr>,
    /// The address of memcached's protocol.
    pub memcached: Option<SocketAddr>,
    /// The counters.
    pub counters: Counters,
    /// The keys that connections watch.
    pub watches: Watches,
    /// The scripts that clients have sent.
    #[cfg(feature = "scripts")]
    pub scripts: Scripts,
    /// What a write survives when it is acknowledged.
    pub durability: Durability,
    /// When the server started.
    pub started: Instant,
    /// A random number of this start.
    pub run: u64,
}

/// A connection, as commands see it.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its number, which no other connection has.
    pub id: u64,
    /// The number of the selected database.
    pub database: usize,
    /// The protocol with its version.
    pub version: Version,
    /// The name that the client has given itself.
    pub name: Vec<u8>,
    /// The name and the version of the client's library.
    pub library: (Vec<u8>, Vec<u8>),
    /// Whether the client has given the password, or needs none.
    pub is_authenticated: bool,
    /// The connection ends when its replies are sent.
    pub is_closing: bool,
    /// The other end.
    pub peer: Option<SocketAddr>,
    /// When it connected.
    pub since: SystemTime,
    /// The commands since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that it watches.
    pub watched: Vec<Watched>,
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
            // It would read the whole store while the keys of the transaction wait, or change the database.
            Action::Slow(_) => Err(NOT_ALLOWED),
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
