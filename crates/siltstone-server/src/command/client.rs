//! CLIENT: what a connection says of itself, and which connections there are.

use super::arguments::{check_name, integer, is};
use super::call::{Command, Context, Replies, SessionCall};
use super::channels::Parcel;
use super::clients::{Activity, ClientEntry, ClientFilter, ClientKind, shown_address};
use super::help::help;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::time::Duration;

pub fn client(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let client = &mut *call.client;
    match call.words {
        [_, subcommand] if is(subcommand, "ID") => reply.integer(client.id as i64),
        [_, subcommand] if is(subcommand, "GETNAME") => {
            let name = client.entry.names().name;
            reply.optional(Some(&name[..]).filter(|name| !name.is_empty()));
        }
        [_, subcommand] if is(subcommand, "INFO") => {
            reply.text(&(describe(call.context, &client.entry) + "\n"))
        }
        [_, subcommand, options @ ..] if is(subcommand, "LIST") => list(call.context, options, reply)?,
        [_, subcommand, words @ ..] if is(subcommand, "KILL") => kill(call, words, reply)?,
        [_, subcommand, name] if is(subcommand, "SETNAME") => {
            check_name(name)?;
            client.entry.rename(|names| names.name = name.to_vec());
            reply.ok();
        }
        [_, subcommand, field, value] if is(subcommand, "SETINFO") => {
            set_library(&client.entry, field, value)?;
            reply.ok();
        }
        // Nothing is evicted by connection, and lookups keep no time of their last use.
        [_, subcommand, switch] if is(subcommand, "NO-EVICT") || is(subcommand, "NO-TOUCH") => {
            if !is(switch, "ON") && !is(switch, "OFF") {
                return Err(Failure::SYNTAX);
            }
            reply.ok();
        }
        [_, subcommand, which] if is(subcommand, "REPLY") => set_replies(call, which, reply)?,
        // No command waits for another one.
        [_, subcommand, id, rest @ ..] if is(subcommand, "UNBLOCK") && rest.len() < 2 => {
            integer(id)?;
            if !rest.iter().all(|option| is(option, "TIMEOUT") || is(option, "ERROR")) {
                return Err(Failure::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
            }
            reply.integer(0);
        }
        [_, subcommand, ..] if is(subcommand, "PAUSE") || is(subcommand, "UNPAUSE") => {
            return Err(Failure::new("ERR this server does not pause; stop the clients in place of it"));
        }
        // Clients get no messages about changes of keys.
        [_, subcommand] if is(subcommand, "GETREDIR") => reply.integer(-1),
        [_, subcommand] if is(subcommand, "TRACKINGINFO") => tracking_info(reply),
        [_, subcommand] if is(subcommand, "HELP") => help(reply, "CLIENT", HELP),
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

const HELP: &[&str] = &[
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    ADDR <ip:port>, LADDR <ip:port>, ID <client-id>, USER <username>, MAXAGE <seconds>,",
    "    TYPE (NORMAL|MASTER|REPLICA|PUBSUB), SKIPME (YES|NO).",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> ...]",
    "    Return information about client connections.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Name the library of the current connection, or its version.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
];

fn set_library(entry: &ClientEntry, field: &[u8], value: &[u8]) -> Outcome {
    if check_name(value).is_err() {
        let field = String::from_utf8_lossy(field).to_lowercase();
        return Err(Failure::from(format!(
            "ERR {field} cannot contain spaces, newlines or special characters."
        )));
    }
    if is(field, "LIB-NAME") {
        entry.rename(|names| names.library = value.to_vec());
    } else if is(field, "LIB-VER") {
        entry.rename(|names| names.library_version = value.to_vec());
    } else {
        let field = String::from_utf8_lossy(field);
        return Err(Failure::from(format!("ERR Unrecognized option '{field}'")));
    }
    Ok(())
}

/// CLIENT REPLY. The replies of the following requests are left out by the connection.
fn set_replies(call: &mut SessionCall<'_>, which: &[u8], reply: &mut Reply<'_>) -> Outcome {
    let replies = &mut call.client.replies;
    if is(which, "ON") {
        *replies = Replies::On;
        reply.ok();
    } else if is(which, "OFF") {
        *replies = Replies::Off;
    } else if is(which, "SKIP") {
        if *replies == Replies::On {
            *replies = Replies::SkipsNext;
        }
    } else {
        return Err(Failure::SYNTAX);
    }
    Ok(())
}

fn tracking_info(reply: &mut Reply<'_>) {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
}

/// CLIENT LIST [TYPE type] [ID id ...]
fn list(context: &Context, options: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let mut filter = ClientFilter::default();
    match options {
        [] => {}
        [option, kind] if is(option, "TYPE") => filter.kind = Some(kind_of(kind)?),
        [option, ids @ ..] if is(option, "ID") && !ids.is_empty() => {
            for id in ids {
                let id = integer(id).map_err(|_| Failure::new("ERR Invalid client ID"))?;
                filter.ids.push(u64::try_from(id).unwrap_or_default());
            }
        }
        _ => return Err(Failure::SYNTAX),
    }
    let all = context.clients.all();
    let lines = all.iter().filter(|entry| filter.matches(entry)).map(|entry| describe(context, entry) + "\n");
    reply.text(&lines.collect::<String>());
    Ok(())
}

fn kind_of(word: &[u8]) -> Result<ClientKind, Failure> {
    let kinds = [
        ("normal", ClientKind::Normal),
        ("pubsub", ClientKind::Subscriber),
        ("master", ClientKind::Replication),
        ("replica", ClientKind::Replication),
        ("slave", ClientKind::Replication),
    ];
    let found = kinds.iter().find(|(name, _)| is(word, name));
    found
        .map(|(_, kind)| *kind)
        .ok_or_else(|| Failure::from(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word))))
}

/// CLIENT KILL address, or CLIENT KILL option value ...
fn kill(call: &mut SessionCall<'_>, words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let own = call.client.id;
    let filter = match words {
        [address] => ClientFilter { peer: Some(address.to_vec()), ..ClientFilter::default() },
        pairs if pairs.len().is_multiple_of(2) => kill_filter(call.context, pairs, own)?,
        _ => return Err(Failure::SYNTAX),
    };
    let mut killed = 0;
    for entry in call.context.clients.all().iter().filter(|entry| filter.matches(entry)) {
        killed += 1;
        match entry.id == own {
            // It gets its replies.
            true => call.client.is_closing = true,
            false => call.client.outbox.push((entry.worker, Parcel::Kill(entry.place()))),
        }
    }
    match words {
        [_] if killed == 0 => return Err(Failure::new("ERR No such client")),
        [_] => reply.ok(),
        _ => reply.integer(killed),
    }
    Ok(())
}

fn kill_filter(context: &Context, pairs: &[&[u8]], own: u64) -> Result<ClientFilter, Failure> {
    let mut filter = ClientFilter { skipped: Some(own), ..ClientFilter::default() };
    for pair in pairs.chunks_exact(2) {
        let (option, value) = (pair[0], pair[1]);
        if is(option, "ID") {
            let id = integer(value).ok().and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            filter.ids = vec![id.ok_or(Failure::new("ERR client-id should be greater than 0"))?];
        } else if is(option, "TYPE") {
            filter.kind = Some(kind_of(value)?);
        } else if is(option, "ADDR") {
            filter.peer = Some(value.to_vec());
        } else if is(option, "LADDR") {
            filter.local = Some(value.to_vec());
        } else if is(option, "USER") {
            let name = String::from_utf8_lossy(value);
            if context.users.get(&name).is_none() {
                return Err(Failure::from(format!("ERR No such user '{name}'")));
            }
            filter.user = Some(value.to_vec());
        } else if is(option, "MAXAGE") {
            let age_s = integer(value).ok().and_then(|age| u64::try_from(age).ok());
            let age_s = age_s.ok_or(Failure::new("ERR maxage is not an integer or out of range"))?;
            filter.age_min = Some(Duration::from_secs(age_s));
        } else if is(option, "SKIPME") && is(value, "YES") {
            filter.skipped = Some(own);
        } else if is(option, "SKIPME") && is(value, "NO") {
            filter.skipped = None;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    Ok(filter)
}

/// Returns the line of a connection, as CLIENT LIST has it. What the server does not have is 0 or empty.
pub(super) fn describe(context: &Context, entry: &ClientEntry) -> String {
    let activity = entry.activity();
    let Activity { database, resp, subscriptions: [channels, patterns, shards], queued, .. } = activity;
    let Activity { input_bytes, output_bytes, memory_bytes, .. } = activity;
    let ((age, idle), names) = (entry.ages(), entry.names());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let command = entry.command().and_then(|code| Command::name_of(context.commands, code));
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={database} sub={channels} \
         psub={patterns} ssub={shards} multi={queued} qbuf={input_bytes} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 \
         rbp=0 obl={output_bytes} oll=0 omem=0 tot-mem={memory_bytes} events={} cmd={} user={} redir=-1 \
         resp={resp} lib-name={} lib-ver={}",
        entry.id,
        shown_address(entry.peer),
        shown_address(entry.local),
        text(&names.name),
        age.as_secs(),
        idle.as_secs(),
        flags(&activity),
        if output_bytes > 0 { "rw" } else { "r" },
        command.unwrap_or_else(|| "NULL".to_owned()),
        names.user,
        text(&names.library),
        text(&names.library_version),
    )
}

/// Returns Redis's letters for what a connection is.
fn flags(activity: &Activity) -> String {
    let letters = [
        (activity.is_monitor, 'O'),
        (activity.subscriptions != [0; 3], 'P'),
        (activity.queued >= 0, 'x'),
        (activity.is_closing, 'c'),
    ];
    let letters: String = letters.iter().filter(|(is, _)| *is).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "N".to_owned() } else { letters }
}
