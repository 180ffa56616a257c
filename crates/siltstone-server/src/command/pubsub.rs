//! PUBLISH, SUBSCRIBE and their relatives.
//!
//! What SUBSCRIBE and the others reply is pushed, as messages are: with RESP 3 it is marked as such, and CLIENT REPLY
//! does not turn it off.

use super::arguments::is;
use super::call::{Command, SessionCall};
use super::channels::{Kind, Name, subscription_bytes};
use super::help::help;
use crate::failure::{Failure, Outcome};
use crate::protocol::{Reply, Version};

/// The most bytes of the subscriptions of a connection.
const SUBSCRIBED_BYTES_MAX: usize = 16 << 20;

/// The commands that a connection of RESP 2 may send while it has subscribed: their replies are arrays, as messages
/// are, or they end the subscriptions.
const ALLOWED: [&str; 7] =
    ["ping", "psubscribe", "punsubscribe", "quit", "reset", "subscribe", "unsubscribe"];

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
    if subscriptions == 0 || version != Version::Resp2 || ALLOWED.contains(&command.name) {
        return Ok(());
    }
    Err(Failure::from(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.full_name(second)
    )))
}

/// Returns whether the replies of a command are pushed.
pub fn are_replies_pushed(command: &Command) -> bool {
    ["psubscribe", "punsubscribe", "subscribe", "unsubscribe"].contains(&command.name)
}

pub fn publish(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let [_, channel, text] = call.words else { return Err(Failure::SYNTAX) };
    let receivers = call.context.channels.publish(channel, text, &mut call.client.outbox);
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
        confirm(name, Some(word), subscriptions.count(), reply);
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
        confirm(name, Some(word), subscriptions.count(), reply);
    }
    if all.is_empty() {
        confirm(name, None, subscriptions.count(), reply);
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
            ],
        ),
        [_, subcommand, wanted @ ..] if is(subcommand, "CHANNELS") && wanted.len() < 2 => {
            let found = channels.channels(wanted.first().copied());
            reply.array(found.len());
            found.iter().for_each(|name| reply.bulk(name));
        }
        [_, subcommand, names @ ..] if is(subcommand, "NUMSUB") => {
            reply.array(2 * names.len());
            for name in names {
                reply.bulk(name);
                reply.integer(channels.subscribers(name) as i64);
            }
        }
        [_, subcommand] if is(subcommand, "NUMPAT") => {
            let [_, patterns] = channels.counts();
            reply.integer(patterns as i64);
        }
        [_, subcommand, ..] => return Err(Failure::subcommand_words("PUBSUB", subcommand)),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}
