//! PUBLISH, SUBSCRIBE and their relatives.
//!
//! What SUBSCRIBE and the others reply is pushed, as messages are: with RESP 3 it is marked as such, and CLIENT REPLY
//! does not turn it off.

use super::arguments::is;
use super::call::{Command, SessionCall};
use super::channels::{Channels, Kind, Name, subscription_bytes};
use super::help::help;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version};

/// The most bytes of the subscriptions of a connection.
const SUBSCRIBED_BYTES_MAX: usize = 16 << 20;

/// The commands that a connection of RESP 2 may send while it has subscribed: their replies are arrays, as messages
/// are, or they end the subscriptions.
const ALLOWED: [&str; 3] = ["ping", "quit", "reset"];

/// The commands that change subscriptions.
const SUBSCRIBING: [&str; 6] =
    ["psubscribe", "punsubscribe", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe"];

/// Checks whether a connection with subscriptions may send a command. Its second word may name a subcommand.
///
/// # Errors
/// Redis's error for all commands but some, with RESP 2.
pub fn check_context(
    command: &Command,
    second: Option<&[u8]>,
    version: Version,
    subscriptions: usize,
) -> Outcome {
    if subscriptions == 0
        || version != Version::Resp2
        || ALLOWED.contains(&command.name)
        || changes_subscriptions(command)
    {
        return Ok(());
    }
    Err(Failure::from(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name(second)
    )))
}

/// Returns whether a command changes subscriptions. Its replies are pushed.
pub fn changes_subscriptions(command: &Command) -> bool {
    SUBSCRIBING.contains(&command.name)
}

pub fn publish(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let [_, channel, text] = call.words else { return Err(Failure::SYNTAX) };
    let receivers = call.context.channels.publish(channel, text, &mut call.client.outbox);
    reply.integer(receivers as i64);
    Ok(())
}

pub fn spublish(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let [_, channel, text] = call.words else { return Err(Failure::SYNTAX) };
    let receivers = call.context.channels.publish_in_slot(channel, text, &mut call.client.outbox);
    reply.integer(receivers as i64);
    Ok(())
}

pub fn subscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(call, Kind::Channel, "subscribe", reply)
}

pub fn psubscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    add(call, Kind::Pattern, "psubscribe", reply)
}

pub fn unsubscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove(call, Kind::Channel, "unsubscribe", reply)
}

pub fn punsubscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove(call, Kind::Pattern, "punsubscribe", reply)
}

pub fn ssubscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let start = reply.length();
    add(call, Kind::Shard, "ssubscribe", reply)?;
    // The slot may have moved since the request was checked. What is still there now is revoked when it moves.
    let moved = call
        .context
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.check(call.words[1..].iter().copied()).err());
    let Some(failure) = moved else { return Ok(()) };
    let (entry, subscriptions) = (&call.client.entry, &mut call.client.subscriptions);
    for word in &call.words[1..] {
        call.context.channels.unsubscribe(Kind::Shard, word, subscriptions, entry.worker, entry.place());
    }
    reply.truncate(start);
    Err(failure)
}

pub fn sunsubscribe(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    remove(call, Kind::Shard, "sunsubscribe", reply)
}

fn add(call: &mut SessionCall<'_>, kind: Kind, name: &str, reply: &mut Reply<'_>) -> Outcome {
    let (entry, subscriptions) = (&call.client.entry, &mut call.client.subscriptions);
    let more: usize = call.words[1..].iter().map(|word| subscription_bytes(word)).sum();
    if subscriptions.bytes() + more > SUBSCRIBED_BYTES_MAX {
        return Err(Failure::from(format!(
            "ERR the subscriptions have more than {SUBSCRIBED_BYTES_MAX} bytes; use fewer, a pattern, or several connections"
        )));
    }
    for word in &call.words[1..] {
        call.context.channels.subscribe(kind, word, subscriptions, entry.worker, entry.place());
        confirm(name, Some(word), subscriptions.confirmed(kind), reply);
    }
    Ok(())
}

fn remove(call: &mut SessionCall<'_>, kind: Kind, name: &str, reply: &mut Reply<'_>) -> Outcome {
    let (entry, subscriptions) = (&call.client.entry, &mut call.client.subscriptions);
    let all: Vec<Name> = match call.words {
        [_] => subscriptions.all(kind),
        words => words[1..].iter().map(|word| Name::from(*word)).collect(),
    };
    for word in &all {
        call.context.channels.unsubscribe(kind, word, subscriptions, entry.worker, entry.place());
        confirm(name, Some(word), subscriptions.confirmed(kind), reply);
    }
    if all.is_empty() {
        confirm(name, None, subscriptions.confirmed(kind), reply);
    }
    Ok(())
}

fn confirm(name: &str, channel: Option<&[u8]>, subscriptions: usize, reply: &mut Reply<'_>) {
    reply.push(3);
    reply.bulk(name.as_bytes());
    reply.optional(channel);
    reply.integer(subscriptions as i64);
}

pub fn pubsub(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let channels = &call.context.channels;
    match call.words {
        [_, subcommand] if is(subcommand, "HELP") => help(
            reply,
            "PUBSUB",
            &[
                "CHANNELS [<pattern>]",
                "    Return the channels with subscribers that match a pattern (default: '*').",
                "NUMPAT",
                "    Return the number of patterns with subscribers.",
                "NUMSUB [<channel> ...]",
                "    Return the numbers of subscribers of channels, without those of patterns.",
                "SHARDCHANNELS [<pattern>]",
                "    Return the channels of slots with subscribers that match a pattern (default: '*').",
                "SHARDNUMSUB [<channel> ...]",
                "    Return the numbers of subscribers of channels of slots.",
            ],
        ),
        [_, subcommand, wanted @ ..] if is(subcommand, "CHANNELS") && wanted.len() < 2 => {
            list(channels, Kind::Channel, wanted.first().copied(), reply);
        }
        [_, subcommand, wanted @ ..] if is(subcommand, "SHARDCHANNELS") && wanted.len() < 2 => {
            list(channels, Kind::Shard, wanted.first().copied(), reply);
        }
        [_, subcommand, names @ ..] if is(subcommand, "NUMSUB") => {
            count(channels, Kind::Channel, names, reply)
        }
        [_, subcommand, names @ ..] if is(subcommand, "SHARDNUMSUB") => {
            count(channels, Kind::Shard, names, reply)
        }
        [_, subcommand] if is(subcommand, "NUMPAT") => {
            let [_, patterns, _] = channels.counts();
            reply.integer(patterns as i64);
        }
        [_, subcommand, ..] => return Err(Failure::subcommand_words("PUBSUB", subcommand)),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

fn list(channels: &Channels, kind: Kind, wanted: Option<&[u8]>, reply: &mut Reply<'_>) {
    let found = channels.channels(kind, wanted);
    reply.array(found.len());
    found.iter().for_each(|name| reply.bulk(name));
}

fn count(channels: &Channels, kind: Kind, names: &[&[u8]], reply: &mut Reply<'_>) {
    reply.array(2 * names.len());
    for name in names {
        reply.bulk(name);
        reply.integer(channels.subscribers(kind, name) as i64);
    }
}
