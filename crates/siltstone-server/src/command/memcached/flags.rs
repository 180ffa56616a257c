//! The flags of the meta commands: words of a letter, and for some of them an argument.
//!
//! ```text
//! mg key t v Oabc        t and v return the time and the value; O is returned as it is
//! ```
//!
//! A reply has the flags that return something, in the order of the request.

use super::arguments::{check_key, check_key_length, client_flags, expiry, seconds, unsigned};
use super::{BAD_FORMAT, UNKNOWN};
use crate::failure::Failure;
use crate::protocol::{Reply, base64};

/// The most words of a command.
const WORDS_MAX: usize = 19;

/// The longest opaque flag, in bytes.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_ARGUMENT: Failure = Failure::new("CLIENT_ERROR bad token in command line format");

/// The flags of a request.
#[derive(Debug, Clone, Default)]
pub struct Flags<'a> {
    /// All of them.
    pub words: &'a [&'a [u8]],
    /// b: the key was in base 64.
    pub is_binary: bool,
    /// q: the usual reply is left out.
    pub is_quiet: bool,
    /// v: the reply has the value.
    pub with_value: bool,
    /// I: the value becomes stale.
    pub invalidates: bool,
    /// C: the version that the value must have.
    pub compared: Option<u64>,
    /// F: the flags that are stored.
    pub client_flags: u32,
    /// T: when the value expires.
    pub expires_at_ms: Option<u64>,
    /// N: a value that does not exist is created, and expires then.
    pub created_until_ms: Option<u64>,
    /// R: a value that expires before this time is to be stored again.
    pub stored_again_before_ms: Option<u64>,
    /// M: what the command does.
    pub mode: Option<u8>,
    /// D: what is added.
    pub delta: Option<u64>,
    /// J: the number of a value that is created.
    pub initial: u64,
}

impl<'a> Flags<'a> {
    /// Parses the flags of a command with this key.
    pub fn parse(key: &[u8], words: &'a [&'a [u8]], now_ms: u64) -> Result<Flags<'a>, Failure> {
        let mut flags = Flags { words, ..Flags::default() };
        if words.len() + 2 > WORDS_MAX {
            return Err(Failure::new("CLIENT_ERROR options flags are too long"));
        }
        let time = |argument: &[u8]| match seconds(argument) {
            Some(seconds) => Ok(Some(expiry(seconds, now_ms))),
            None => Err(BAD_ARGUMENT),
        };
        for (number, word) in words.iter().enumerate() {
            let Some((letter, argument)) = word.split_first() else { return Err(BAD_FORMAT) };
            if words[..number].iter().any(|other| other.first() == Some(letter)) {
                return Err(Failure::new("CLIENT_ERROR duplicate flag"));
            }
            match letter {
                b'b' => flags.is_binary = true,
                b'q' => flags.is_quiet = true,
                b'v' => flags.with_value = true,
                b'I' => flags.invalidates = true,
                b'C' => flags.compared = Some(unsigned(argument).ok_or(BAD_ARGUMENT)?),
                b'F' => flags.client_flags = client_flags(argument)?,
                b'T' => flags.expires_at_ms = time(argument)?,
                b'N' => flags.created_until_ms = time(argument)?,
                b'R' => flags.stored_again_before_ms = time(argument)?,
                b'M' => match argument {
                    [mode] => flags.mode = Some(*mode),
                    _ => return Err(Failure::new("CLIENT_ERROR incorrect length for M token")),
                },
                b'D' => flags.delta = Some(number_of(argument, "CLIENT_ERROR invalid numeric delta value")?),
                b'J' => flags.initial = number_of(argument, "CLIENT_ERROR invalid numeric initial value")?,
                b'O' if word.len() > OPAQUE_BYTES_MAX => {
                    return Err(Failure::new("CLIENT_ERROR opaque token too long"));
                }
                // P and L are for proxies. Nothing is evicted by its last use, so u changes nothing.
                b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'h' | b'l' | b'u' => {}
                _ => return Err(Failure::new("CLIENT_ERROR invalid flag")),
            }
        }
        match flags.is_binary {
            true if key.is_empty() => Err(Failure::new("CLIENT_ERROR error decoding key")),
            true => check_key_length(key),
            false => check_key(key),
        }?;
        Ok(flags)
    }

    /// Replies with a flag that has nothing to do with the value. Others are passed over.
    pub fn reply_key_or_opaque(&self, word: &[u8], key: &[u8], reply: &mut Reply<'_>) {
        match word.first() {
            Some(b'O') => {
                reply.raw(" ");
                reply.raw(word);
            }
            Some(b'k') if self.is_binary => {
                reply.raw(" k");
                reply.raw(base64::encode(key));
                reply.raw(" b");
            }
            Some(b'k') => {
                reply.raw(" k");
                reply.raw(key);
            }
            _ => {}
        }
    }

    /// Replies without a value: with a code, and the flags that have nothing to do with it.
    pub fn reply_code(&self, code: &str, key: &[u8], reply: &mut Reply<'_>) {
        reply.raw(code);
        self.words.iter().for_each(|word| self.reply_key_or_opaque(word, key, reply));
        reply.raw("\r\n");
    }
}

fn number_of(argument: &[u8], problem: &'static str) -> Result<u64, Failure> {
    unsigned(argument).ok_or(Failure::new(problem))
}

/// Replies with a flag that has a number.
pub fn reply_number(letter: &str, number: u64, reply: &mut Reply<'_>) {
    reply.raw(" ");
    reply.raw(letter);
    reply.raw_number(number);
}

/// Replies with the seconds until a value expires; -1 if it does not.
pub fn reply_remaining(seconds: i64, reply: &mut Reply<'_>) {
    reply.raw(" t");
    reply.raw(seconds.to_string());
}

/// Returns the key of a meta command, and its other words.
pub fn key_of<'a>(words: &'a [&'a [u8]]) -> Result<(&'a [u8], &'a [&'a [u8]]), Failure> {
    let [_, key, rest @ ..] = words else { return Err(UNKNOWN) };
    Ok((key, rest))
}
