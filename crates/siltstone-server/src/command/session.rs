//! Commands about the connection, and about the server.

use super::arguments::{check_name, check_timeout, integer, is};
use super::call::{Context, Replies, SessionCall};
use super::permission;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of Redis whose commands the server has.
pub const REDIS_VERSION: &str = "7.0.15";

pub fn ping(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_subscriber = call.client.version == Version::Resp2 && call.client.subscriptions.count() > 0;
    match call.words {
        // Like a message, since the client reads messages.
        [_, text @ ..] if is_subscriber && text.len() < 2 => {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(text.first().copied().unwrap_or_default());
            Ok(())
        }
        words => reply_to_ping(words, reply),
    }
}

pub(super) fn reply_to_ping(words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    match words {
        [_] => reply.status("PONG"),
        [_, text] => reply.bulk(text),
        _ => return Err(Failure::arity("ping")),
    }
    Ok(())
}

pub fn echo(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.bulk(call.words[1]);
    Ok(())
}

pub fn quit(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    call.client.is_closing = true;
    reply.ok();
    Ok(())
}

pub fn reset(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let client = &mut *call.client;
    (client.database, client.version) = (0, Version::Resp2);
    client.entry.rename(|names| names.name.clear());
    client.replies = Replies::On;
    client.reads_others = false;
    client.transaction = None;
    let entry = &client.entry;
    call.context.channels.release(&mut client.subscriptions, entry.worker, entry.place());
    call.context.watches.release(&mut client.watched);
    client.sign_out(&call.context.users);
    reply.set_version(Version::Resp2);
    reply.status("RESET");
    Ok(())
}

pub fn select(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let number = integer(call.words[1])?;
    if number != 0 && call.context.cluster.is_some() {
        return Err(Failure::new("ERR SELECT is not allowed in cluster mode"));
    }
    call.client.database = database_of(call.context, number)?;
    reply.ok();
    Ok(())
}

/// Returns a number of a database that the server has, or may have.
pub(super) fn database_of(context: &Context, number: i64) -> Result<usize, Failure> {
    let is_there =
        |number: &usize| context.places.has(*number) && (*number == 0 || context.cluster.is_none());
    usize::try_from(number).ok().filter(is_there).ok_or(Failure::new("ERR DB index is out of range"))
}

pub fn time(_: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply_time(reply);
    Ok(())
}

pub(super) fn reply_time(reply: &mut Reply<'_>) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    reply.array(2);
    reply.bulk(since.as_secs().to_string().as_bytes());
    reply.bulk(since.subsec_micros().to_string().as_bytes());
}

pub fn auth(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (user, password) = match call.words {
        [_, password] => {
            if call.context.users.default_user().needs_no_password() {
                return Err(Failure::new(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ));
            }
            (&b"default"[..], *password)
        }
        [_, user, password] => (*user, *password),
        _ => return Err(Failure::SYNTAX),
    };
    authenticate(call, user, password)?;
    reply.ok();
    Ok(())
}

pub(super) fn authenticate(call: &mut SessionCall<'_>, user: &[u8], password: &[u8]) -> Outcome {
    if call.client.sign_in(&call.context.users, user, password) {
        return Ok(());
    }
    permission::note_wrong_password(call.context, call.client, user, call.words);
    Err(Failure::new("WRONGPASS invalid username-password pair or user is disabled."))
}

pub fn hello(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let version = match call.words.get(1) {
        None => call.client.version,
        Some(word) => match integer(word) {
            Ok(2) => Version::Resp2,
            Ok(3) => Version::Resp3,
            Ok(_) => return Err(Failure::new("NOPROTO unsupported protocol version")),
            Err(_) => {
                return Err(Failure::new("ERR Protocol version is not an integer or out of range"));
            }
        },
    };
    let (mut words, mut name) = (call.words.get(2..).unwrap_or_default(), None);
    while let Some((option, rest)) = words.split_first() {
        words = match rest {
            [user, password, rest @ ..] if is(option, "AUTH") => {
                authenticate(call, user, password)?;
                rest
            }
            [stated, rest @ ..] if is(option, "SETNAME") => {
                check_name(stated)?;
                name = Some(stated.to_vec());
                rest
            }
            _ => {
                let shown = String::from_utf8_lossy(option);
                return Err(Failure::from(format!("ERR Syntax error in HELLO option '{shown}'")));
            }
        };
    }
    if !call.client.is_authenticated {
        return Err(Failure::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        call.client.entry.rename(|names| names.name = name);
    }
    call.client.version = version;
    reply.set_version(version);
    let number = if version == Version::Resp2 { 2 } else { 3 };
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", number), ("id", call.client.id as i64)] {
        reply.bulk(field.as_bytes());
        reply.integer(value);
    }
    let role = if call.context.follow.is_some() { "replica" } else { "master" };
    for (field, value) in [("mode", call.context.mode()), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]: the program that runs the server stops it, which makes everything durable.
/// There is no reply, and the connection ends.
pub fn shutdown(call: &mut SessionCall<'_>, _: &mut Reply<'_>) -> Outcome {
    for option in &call.words[1..] {
        if is(option, "ABORT") {
            return Err(Failure::new("ERR No shutdown in progress."));
        }
        if !["NOSAVE", "SAVE", "NOW", "FORCE"].iter().any(|known| is(option, known)) {
            return Err(Failure::SYNTAX);
        }
    }
    call.context.runtime.shut_down();
    call.client.is_closing = true;
    Ok(())
}

/// WAIT for replicas, of which there are none.
pub fn wait(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    integer(call.words[1])?;
    check_timeout(call.words[2])?;
    reply.integer(0);
    Ok(())
}

/// FUNCTION FLUSH removes all functions. There are none.
pub fn function(_: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.ok();
    Ok(())
}
