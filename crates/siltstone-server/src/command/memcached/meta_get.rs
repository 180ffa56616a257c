//! mg and me.

use super::arguments::remaining_s;
use super::flags::{Flags, key_of, reply_number, reply_remaining};
use super::item::{mark_of, put, string_of};
use crate::command::{ReadCall, UpdateCall};
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, base64};
use crate::store::{Entry, Mark, NEVER, NewValue};

/// Returns whether an mg changes no value, unless it finds one that is stale.
pub fn only_reads(words: &mut dyn Iterator<Item = &[u8]>) -> bool {
    !words.skip(2).any(|flag| matches!(flag.first(), Some(b'N' | b'R' | b'T')))
}

/// mg without flags that change a value. Returns whether it has replied: the first client that finds a stale value must
/// be noted.
pub fn read(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Result<bool, Failure> {
    let (key, words) = key_of(call.words)?;
    let flags = Flags::parse(key, words, call.now_ms)?;
    let Some(entry) = string_of(call.first())? else {
        reply_miss(&flags, key, reply);
        return Ok(true);
    };
    if entry.mark.is_some_and(|mark| mark.is_stale && !mark.is_claimed) {
        return Ok(false);
    }
    Hit { flags: &flags, key, now_ms: call.now_ms, is_new: false }.reply(&entry, reply);
    Ok(true)
}

/// mg with flags that change a value, or of a stale one.
pub fn update(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, words) = key_of(call.words)?;
    let flags = Flags::parse(key, words, call.now_ms)?;
    string_of(call.entry(0))?;
    let found = call.state(0).value().cloned();
    let is_new = found.is_none();
    let created = || flags.created_until_ms.map(|_| NewValue::string(&b""[..]).marked(Mark::new(0)));
    let Some(value) = found.or_else(created) else {
        reply_miss(&flags, key, reply);
        return Ok(());
    };
    let (expires_at_ms, value_mark) = (value.expires_at_ms, value.mark);
    let entry = Entry { value_type: value.value_type, value: &value.bytes, expires_at_ms, mark: value_mark };
    let mark = mark_of(&entry);
    let after = Hit { flags: &flags, key, now_ms: call.now_ms, is_new }.reply(&entry, reply);
    if after.has_won {
        put(call, value.expiring(after.expires_at_ms).marked(Mark { is_claimed: true, ..mark }))
    } else if is_new || after.expires_at_ms != expires_at_ms {
        put(call, value.expiring(after.expires_at_ms))
    } else {
        Ok(())
    }
}

fn reply_miss(flags: &Flags<'_>, key: &[u8], reply: &mut Reply<'_>) {
    if !flags.is_quiet {
        flags.reply_code("EN", key, reply);
    }
}

/// An mg that has found a value, or has created one.
struct Hit<'a> {
    flags: &'a Flags<'a>,
    key: &'a [u8],
    now_ms: u64,
    is_new: bool,
}

/// What the value becomes.
struct After {
    expires_at_ms: u64,
    /// This client is to store another value.
    has_won: bool,
}

impl Hit<'_> {
    /// Replies with the value. The flags act in their order, so `t` after `T` returns the new time.
    fn reply(&self, entry: &Entry<'_>, reply: &mut Reply<'_>) -> After {
        let mark = mark_of(entry);
        let mut after = After { expires_at_ms: entry.expires_at_ms, has_won: false };
        match self.flags.with_value {
            true => {
                reply.raw("VA ");
                reply.raw_number(entry.value.len() as u64);
            }
            false => reply.raw("HD"),
        }
        for word in self.flags.words {
            match word.first() {
                Some(b's') => reply_number("s", entry.value.len() as u64, reply),
                Some(b't') => reply_remaining(remaining_s(after.expires_at_ms, self.now_ms), reply),
                Some(b'c') => reply_number("c", mark.version, reply),
                Some(b'f') => reply_number("f", mark.flags.into(), reply),
                Some(b'h') => reply_number("h", 0, reply),
                Some(b'l') => reply_number("l", 0, reply),
                Some(b'T') => after.expires_at_ms = self.flags.expires_at_ms.unwrap_or(NEVER),
                Some(b'N') if self.is_new => {
                    after.expires_at_ms = self.flags.created_until_ms.unwrap_or(NEVER);
                    after.has_won = true;
                }
                Some(b'R') if !self.is_new && !mark.is_claimed => {
                    let before_ms = self.flags.stored_again_before_ms.unwrap_or(NEVER);
                    after.has_won |= after.expires_at_ms != NEVER && after.expires_at_ms < before_ms;
                }
                _ => self.flags.reply_key_or_opaque(word, self.key, reply),
            }
        }
        after.has_won |= mark.is_stale && !mark.is_claimed;
        for (flag, is_set) in [(" Z", mark.is_claimed), (" X", mark.is_stale), (" W", after.has_won)] {
            reply.raw(if is_set { flag } else { "" });
        }
        reply.raw("\r\n");
        if self.flags.with_value {
            reply.raw_value(entry.value);
            reply.raw("\r\n");
        }
        after
    }
}

/// me key [b]
pub fn debug(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (key, words) = key_of(call.words)?;
    let flags = Flags::parse(key, words, call.now_ms)?;
    let Some(entry) = string_of(call.first())? else {
        reply.raw("EN\r\n");
        return Ok(());
    };
    let mark = mark_of(&entry);
    reply.raw("ME ");
    match flags.is_binary {
        true => reply.raw(base64::encode(key)),
        false => reply.raw(key),
    }
    let expires_s = remaining_s(entry.expires_at_ms, call.now_ms);
    let size = key.len() + entry.value.len();
    let (version, flags) = (mark.version, mark.flags);
    reply.raw(format!(" exp={expires_s} cas={version} flags={flags} size={size}\r\n"));
    Ok(())
}
