//! A user: passwords, and rights to commands, keys and channels.

use super::catalogue::Catalogue;
use crate::command::pattern::matches;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

/// The SHA-256 of a password.
pub type Hash = [u8; 32];

/// A user. Without a rule it is off and may do nothing.
#[derive(Debug, Clone)]
pub struct User {
    /// The name, which has no spaces.
    pub name: String,
    /// Clients may authenticate as this user.
    pub(super) is_on: bool,
    /// Any password is right.
    pub(super) takes_any_password: bool,
    pub(super) passwords: Vec<Hash>,
    pub(super) commands: CommandRights,
    /// `None` for all keys.
    pub(super) keys: Option<Vec<KeyPattern>>,
    /// Patterns; `None` for all channels.
    pub(super) channels: Option<Vec<String>>,
}

/// Which commands and subcommands a user may execute.
#[derive(Debug, Clone)]
pub(super) struct CommandRights {
    pub catalogue: Arc<Catalogue>,
    /// All of them, also those that the catalogue does not have.
    pub are_all: bool,
    /// A bit for each of the catalogue.
    pub bits: Vec<u64>,
    /// The rules that have led here, each in lower case, in their order.
    pub rules: Vec<String>,
}

/// Keys that a user may read or write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub pattern: String,
    pub allowed: KeyUse,
}

/// What a command does with a key, or a user may do. One that does neither replies only whether the key exists, or what
/// its type or length is: it needs a pattern of the key for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyUse {
    /// It replies something of the value.
    pub reads: bool,
    /// It changes the value.
    pub writes: bool,
}

impl KeyUse {
    /// Neither.
    pub const NONE: KeyUse = KeyUse { reads: false, writes: false };
    /// Reading only.
    pub const READ: KeyUse = KeyUse { reads: true, writes: false };
    /// Writing only.
    pub const WRITE: KeyUse = KeyUse { reads: false, writes: true };
    /// Both.
    pub const BOTH: KeyUse = KeyUse { reads: true, writes: true };

    fn includes(self, other: KeyUse) -> bool {
        self.reads >= other.reads && self.writes >= other.writes
    }
}

impl User {
    /// Makes a user that is off and may do nothing.
    pub fn new(name: &str, catalogue: Arc<Catalogue>) -> User {
        let bits = vec![0; catalogue.len().div_ceil(u64::BITS as usize)];
        User {
            name: name.to_owned(),
            is_on: false,
            takes_any_password: false,
            passwords: Vec::new(),
            commands: CommandRights { catalogue, are_all: false, bits, rules: Vec::new() },
            keys: Some(Vec::new()),
            channels: Some(Vec::new()),
        }
    }

    /// Returns whether the user may do everything.
    pub fn is_unlimited(&self) -> bool {
        self.commands.are_all && self.keys.is_none() && self.channels.is_none()
    }

    /// Returns whether clients are this user without giving a password.
    pub fn is_open(&self) -> bool {
        self.is_on && self.takes_any_password
    }

    /// Returns whether any password is right.
    pub fn needs_no_password(&self) -> bool {
        self.takes_any_password
    }

    /// Returns whether a client with this password may be this user. Takes as long for each password of this length.
    pub fn takes_password(&self, password: &[u8]) -> bool {
        let given = hash(password);
        let is_given = |known: &Hash| known.ct_eq(&given);
        let is_right = self.passwords.iter().map(is_given).fold(Choice::from(0), |one, other| one | other);
        self.is_on && (self.takes_any_password || is_right.into())
    }

    /// Returns whether the user may execute a command. A word that is no subcommand of it changes nothing.
    pub fn may_execute(&self, command: &str, subcommand: Option<&[u8]>) -> bool {
        let CommandRights { catalogue, are_all, bits, .. } = &self.commands;
        *are_all
            || catalogue.number(command.as_bytes(), subcommand).is_some_and(|number| {
                bits[number / u64::BITS as usize] >> (number % u64::BITS as usize) & 1 == 1
            })
    }

    /// Returns the name of a command as rules have it: with its subcommand, if this word is one.
    pub fn full_name(&self, command: &str, subcommand: Option<&[u8]>) -> String {
        let catalogue = &self.commands.catalogue;
        let number = catalogue.number(command.as_bytes(), subcommand);
        number.map_or_else(|| command.to_owned(), |number| catalogue.name(number))
    }

    /// Returns whether the user may use a key in this way.
    pub fn may_use_key(&self, key: &[u8], wanted: KeyUse) -> bool {
        let Some(keys) = &self.keys else { return true };
        keys.iter().any(|of| of.allowed.includes(wanted) && matches(of.pattern.as_bytes(), key))
    }

    /// Returns whether the user may send to a channel or receive from it. Of a pattern of channels the same pattern
    /// must be allowed.
    pub fn may_use_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let Some(channels) = &self.channels else { return true };
        channels.iter().map(String::as_bytes).any(|allowed| match is_pattern {
            true => allowed == channel,
            false => matches(allowed, channel),
        })
    }
}

impl CommandRights {
    /// Allows or forbids some commands and subcommands.
    pub fn set(&mut self, numbers: impl Iterator<Item = usize>, is_allowed: bool) {
        self.are_all &= is_allowed;
        for number in numbers {
            let (bits, bit) =
                (&mut self.bits[number / u64::BITS as usize], 1 << (number % u64::BITS as usize));
            if is_allowed { *bits |= bit } else { *bits &= !bit }
        }
    }

    /// Allows or forbids all.
    pub fn set_all(&mut self, is_allowed: bool) {
        self.are_all = is_allowed;
        self.bits.fill(if is_allowed { u64::MAX } else { 0 });
        self.rules = Vec::from_iter(is_allowed.then(|| "+@all".to_owned()));
    }
}

/// Returns the SHA-256 of a password.
pub(super) fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}
