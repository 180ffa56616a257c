//! Why a command failed, in Redis's words where Redis has the same failure.

use std::borrow::Cow;
use std::fmt;

/// How a failure begins if an engine in memory has no place for a record. Clients of Redis know the code.
const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'";

/// An error reply: its code and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(Cow<'static, str>);

impl Failure {
    /// The words of the command are not those of its grammar.
    pub const SYNTAX: Failure = Failure::new("ERR syntax error");
    /// A word is no number, or one that is too large.
    pub const NOT_AN_INTEGER: Failure = Failure::new("ERR value is not an integer or out of range");
    /// The value of the key has a type that the command is not for.
    pub const WRONG_TYPE: Failure =
        Failure::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The database is a dictionary, or was opened read-only.
    pub const READ_ONLY: Failure = Failure::new(
        "READONLY You can't write against a read only dictionary; build a new file, and reload it",
    );
    /// The database was closed: the server stops, or another database takes its place.
    pub const CLOSED: Failure = Failure::new("ERR the database is closed");
    /// The server follows another one.
    pub const FOLLOWS: Failure = Failure::new("READONLY You can't write against a read only replica.");
    /// A reply has more bytes than a client is sent.
    pub const REPLY_TOO_LONG: Failure = Failure::new(
        "ERR the reply would have more bytes than the longest value (256 MiB); ask for less at once",
    );
    /// The values that a transaction finds and puts have more bytes than it may hold.
    pub const TRANSACTION_TOO_LONG: Failure = Failure::new(
        "ERR the values that are read and written at once would have more than 1 GiB; use fewer of them at once",
    );
    /// No password was given yet.
    pub const NO_AUTHENTICATION: Failure = Failure::new("NOAUTH Authentication required.");

    /// Makes a failure of a code and text.
    pub const fn new(text: &'static str) -> Failure {
        Failure(Cow::Borrowed(text))
    }

    /// The number of words is wrong.
    pub fn arity(command: &str) -> Failure {
        Failure::from(format!("ERR wrong number of arguments for '{command}' command"))
    }

    /// The command has no such subcommand.
    pub fn subcommand(command: &str, subcommand: &[u8]) -> Failure {
        let shown = String::from_utf8_lossy(&subcommand[..subcommand.len().min(128)]).into_owned();
        Failure::from(format!("ERR unknown subcommand '{shown}'. Try {} HELP.", command.to_uppercase()))
    }

    /// The subcommand exists, and its words are not those of its grammar.
    pub fn subcommand_words(command: &str, subcommand: &[u8]) -> Failure {
        let shown = String::from_utf8_lossy(&subcommand[..subcommand.len().min(128)]).into_owned();
        Failure::from(format!(
            "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {command} HELP."
        ))
    }

    /// The command does not exist. Shows the first words.
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

    /// Returns the error reply.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure(Cow::Owned(text))
    }
}

impl From<siltstone::Error> for Failure {
    fn from(error: siltstone::Error) -> Failure {
        match error {
            siltstone::Error::ReadOnly => Failure::READ_ONLY,
            siltstone::Error::Closed => Failure::CLOSED,
            siltstone::Error::Full(full) => Failure::from(format!("{OUT_OF_MEMORY}: {full}")),
            error @ siltstone::Error::ChangesLost { .. } => Failure::from(format!("CHANGESLOST {error}")),
            error => Failure::from(format!("ERR {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// The result of a command that has written its reply.
pub type Outcome = Result<(), Failure>;
