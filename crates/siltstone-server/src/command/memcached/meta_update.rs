//! ms, md, ma.

use super::BAD_FORMAT;
use super::arguments::remaining_s;
use super::arithmetic::{Changed, change};
use super::flags::{Flags, key_of, reply_number, reply_remaining};
use super::item::{block, mark_of, put, string_of};
use super::storage::{Mode, Storage, StorageResult};
use crate::command::UpdateCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{Mark, NEVER, NewValue};

/// Returns whether an ms stores its value whatever the one before is.
pub fn is_blind(words: &mut dyn Iterator<Item = &[u8]>) -> bool {
    // A block that begins like these flags makes it an update, too, which costs a lookup and nothing else.
    !words.skip(3).any(|flag| matches!(flag.first(), Some(b'C' | b'M')))
}

/// ms key bytes flags... block
pub fn set(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, words) = key_of(call.words)?;
    // Without a number of bytes there is no block.
    let [_, words @ .., last] = words else { return Err(BAD_FORMAT) };
    let flags = Flags::parse(key, words, call.now_ms)?;
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(b'R') => Mode::Replace,
        _ => return Err(Failure::new("CLIENT_ERROR invalid mode for ms M token")),
    };
    let storage = Storage {
        mode: match (mode, flags.compared) {
            (Mode::Set | Mode::Replace, Some(_)) => Mode::Compare,
            (mode, _) => mode,
        },
        block: block(last)?,
        client_flags: flags.client_flags,
        expires_at_ms: flags.expires_at_ms.unwrap_or(NEVER),
        compared: flags.compared.unwrap_or(0),
        may_be_stale: flags.invalidates,
    };
    let stored = storage.execute(call)?;
    if stored == StorageResult::Stored && flags.is_quiet {
        return Ok(());
    }
    reply.raw(match stored {
        StorageResult::Stored => "HD",
        StorageResult::NotStored => "NS",
        StorageResult::Exists => "EX",
        StorageResult::NotFound => "NF",
    });
    let entry = call.entry(0).filter(|_| stored == StorageResult::Stored);
    let version = entry.map_or(0, |entry| mark_of(&entry).version);
    for word in flags.words {
        match word.first() {
            Some(b'c') => reply_number("c", version, reply),
            _ => flags.reply_key_or_opaque(word, key, reply),
        }
    }
    reply.raw("\r\n");
    Ok(())
}

const BAD_FLAG: Failure = Failure::new("CLIENT_ERROR invalid or duplicate flag");

/// md key flags...
pub fn delete(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, words) = key_of(call.words)?;
    let flags = Flags::parse(key, words, call.now_ms).map_err(shorten)?;
    let Some(entry) = call.entry(0) else {
        flags.reply_code("NF", key, reply);
        return Ok(());
    };
    if flags.compared.is_some_and(|compared| compared != mark_of(&entry).version) {
        flags.reply_code("EX", key, reply);
        return Ok(());
    }
    if flags.invalidates {
        string_of(Some(entry))?;
        let mark = Mark { is_stale: true, is_claimed: false, ..mark_of(&entry).renewed() };
        let expires_at_ms = flags.expires_at_ms.unwrap_or(entry.expires_at_ms);
        let value = NewValue::string(entry.value.to_vec()).expiring(expires_at_ms).marked(mark);
        put(call, value)?;
    } else {
        call.state(0).delete();
    }
    if !flags.is_quiet {
        flags.reply_code("HD", key, reply);
    }
    Ok(())
}

/// Returns the failure of md and ma for flags that are none.
fn shorten(failure: Failure) -> Failure {
    if failure == BAD_FORMAT { failure } else { BAD_FLAG }
}

/// ma key flags...
pub fn arithmetic(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, words) = key_of(call.words)?;
    let flags = Flags::parse(key, words, call.now_ms).map_err(shorten)?;
    let subtracts = match flags.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        _ => return Err(Failure::new("CLIENT_ERROR invalid mode for ma M token")),
    };
    let changed = change(call, subtracts, flags.delta.unwrap_or(1), flags.compared.unwrap_or(0))?;
    let (number, is_new) = match changed {
        Changed::To(number) => (number, false),
        Changed::NotFound if flags.created_until_ms.is_some() => {
            let value = NewValue::string(flags.initial.to_string().into_bytes());
            put(call, value.marked(Mark::new(0)))?;
            (flags.initial, true)
        }
        Changed::NotFound => {
            flags.reply_code("NF", key, reply);
            return Ok(());
        }
        Changed::Exists => {
            flags.reply_code("EX", key, reply);
            return Ok(());
        }
    };
    let start = reply.length();
    let expires_at_ms = reply_number_of(call, &flags, (number, is_new), reply);
    if flags.is_quiet && !is_new {
        reply.truncate(start);
    }
    match call.state(0).value().cloned() {
        Some(value) if value.expires_at_ms != expires_at_ms => put(call, value.expiring(expires_at_ms)),
        _ => Ok(()),
    }
}

/// Replies to ma. Returns when the number expires. The flags act in their order.
fn reply_number_of(
    call: &UpdateCall<'_>,
    flags: &Flags<'_>,
    (number, is_new): (u64, bool),
    reply: &mut Reply<'_>,
) -> u64 {
    let text = number.to_string();
    let entry = call.entry(0);
    let mut expires_at_ms = entry.map_or(NEVER, |entry| entry.expires_at_ms);
    match flags.with_value {
        true => {
            reply.raw("VA ");
            reply.raw_number(text.len() as u64);
        }
        false => reply.raw("HD"),
    }
    for word in flags.words {
        match word.first() {
            Some(b'c') => reply_number("c", entry.map_or(0, |entry| mark_of(&entry).version), reply),
            Some(b't') => reply_remaining(remaining_s(expires_at_ms, call.now_ms), reply),
            Some(b'T') => expires_at_ms = flags.expires_at_ms.unwrap_or(NEVER),
            Some(b'N') if is_new => expires_at_ms = flags.created_until_ms.unwrap_or(NEVER),
            _ => flags.reply_key_or_opaque(word, call.words[1], reply),
        }
    }
    reply.raw("\r\n");
    if flags.with_value {
        reply.raw(text);
        reply.raw("\r\n");
    }
    expires_at_ms
}
