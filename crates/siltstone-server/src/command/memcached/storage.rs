//! set and its relatives, delete.

use super::arguments::{check_key, client_flags, expiry, seconds, unsigned};
use super::item::{block, mark_of, put, string_of};
use super::{BAD_FORMAT, UNKNOWN};
use crate::command::UpdateCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{Mark, NewValue};

/// When and how a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Always.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// After the one before.
    Append,
    /// In front of the one before.
    Prepend,
    /// If the one before has a version.
    Compare,
}

/// A request to store a value at the first key.
pub struct Storage<'a> {
    pub mode: Mode,
    /// The value.
    pub block: &'a [u8],
    pub client_flags: u32,
    pub expires_at_ms: u64,
    /// The version that the value before must have. 0 is that of none.
    pub compared: u64,
    /// A lower version stores a value that is stale.
    pub may_be_stale: bool,
}

/// What has become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageResult {
    Stored,
    NotStored,
    /// The value before has another version.
    Exists,
    /// There is no value before.
    NotFound,
}

impl Storage<'_> {
    /// Stores the value, if the one before allows it. With [`Mode::Set`] that one is not looked at.
    pub fn execute(&self, call: &mut UpdateCall<'_>) -> Result<StorageResult, Failure> {
        let new = NewValue::string(self.block.to_vec()).expiring(self.expires_at_ms);
        let new = match self.mode {
            Mode::Set => new.marked(Mark::new(self.client_flags)),
            Mode::Add if call.entry(0).is_some() => return Ok(StorageResult::NotStored),
            Mode::Replace if call.entry(0).is_none() => return Ok(StorageResult::NotStored),
            Mode::Add | Mode::Replace => new.marked(Mark::new(self.client_flags)),
            Mode::Append | Mode::Prepend => {
                let Some(before) = string_of(call.entry(0))? else { return Ok(StorageResult::NotStored) };
                let mark = mark_of(&before);
                if self.compared != 0 && self.compared != mark.version {
                    return Ok(StorageResult::Exists);
                }
                let bytes = match self.mode {
                    Mode::Append => [before.value, self.block].concat(),
                    _ => [self.block, before.value].concat(),
                };
                NewValue::string(bytes).expiring(before.expires_at_ms).marked(Mark::new(mark.flags))
            }
            Mode::Compare => {
                let Some(before) = string_of(call.entry(0))? else { return Ok(StorageResult::NotFound) };
                let mark = mark_of(&before);
                if self.compared == mark.version {
                    new.marked(Mark::new(self.client_flags))
                } else if self.may_be_stale && (1..mark.version).contains(&self.compared) {
                    let stale =
                        Mark { is_stale: true, is_claimed: mark.is_claimed, ..Mark::new(self.client_flags) };
                    new.expiring(before.expires_at_ms).marked(stale)
                } else {
                    return Ok(StorageResult::Exists);
                }
            }
        };
        put(call, new)?;
        Ok(StorageResult::Stored)
    }
}

pub fn set(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Set, reply)
}

pub fn add(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Add, reply)
}

pub fn replace(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Replace, reply)
}

pub fn append(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Append, reply)
}

pub fn prepend(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Prepend, reply)
}

pub fn cas(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    store(call, Mode::Compare, reply)
}

/// name key flags exptime bytes [version] block
fn store(call: &mut UpdateCall<'_>, mode: Mode, reply: &mut Reply<'_>) -> Outcome {
    let [_, key, flags, time, _, rest @ ..] = call.words else { return Err(UNKNOWN) };
    let (compared, rest) = match (mode, rest) {
        (Mode::Compare, [version, rest @ ..]) => (Some(*version), rest),
        _ => (None, rest),
    };
    check_key(key)?;
    let client_flags = client_flags(flags)?;
    let expires_at_ms = expiry(seconds(time).ok_or(BAD_FORMAT)?, call.now_ms);
    let compared = compared.map_or(Some(0), unsigned).ok_or(BAD_FORMAT)?;
    let block = match rest {
        // The number of bytes is none.
        [] => return Err(BAD_FORMAT),
        [word] => block(word)?,
        _ => return Err(UNKNOWN),
    };
    let storage = Storage { mode, block, client_flags, expires_at_ms, compared, may_be_stale: false };
    reply.raw(match storage.execute(call)? {
        StorageResult::Stored => "STORED\r\n",
        StorageResult::NotStored => "NOT_STORED\r\n",
        StorageResult::Exists => "EXISTS\r\n",
        StorageResult::NotFound => "NOT_FOUND\r\n",
    });
    Ok(())
}

/// delete key [0]
pub fn delete(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.words {
        // The 0 was once a time.
        [_, _] | [_, _, b"0"] => {}
        _ => {
            return Err(Failure::new("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"));
        }
    }
    check_key(call.words[1])?;
    reply.raw(if call.state(0).delete() { "DELETED\r\n" } else { "NOT_FOUND\r\n" });
    Ok(())
}
