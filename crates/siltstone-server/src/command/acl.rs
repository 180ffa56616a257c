//! ACL: users and their rights.

use super::access::{CATEGORIES, User};
use super::arguments::{integer, is};
use super::call::{Command, SessionCall};
use super::permission::{Denied, check};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::time::Instant;

/// The number of entries of ACL LOG that are returned without a number.
const LOG_ENTRIES: usize = 10;

pub fn acl(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let users = &call.context.users;
    match call.words {
        [_, subcommand] if is(subcommand, "WHOAMI") => reply.bulk(call.client.user.name.as_bytes()),
        [_, subcommand] if is(subcommand, "USERS") => {
            reply_texts(users.list().iter().map(|user| user.name.clone()), reply);
        }
        [_, subcommand] if is(subcommand, "LIST") => {
            reply_texts(users.list().iter().map(|user| user.line()), reply);
        }
        [_, subcommand, rest @ ..] if is(subcommand, "CAT") => return categories(call, rest, reply),
        [_, subcommand, name] if is(subcommand, "GETUSER") => {
            match users.get(&text(name)) {
                Some(user) => describe(&user, reply),
                None => reply.null(),
            };
        }
        [_, subcommand, name, rules @ ..] if is(subcommand, "SETUSER") => {
            return set(call, name, rules, reply);
        }
        [_, subcommand, names @ ..] if is(subcommand, "DELUSER") => {
            let names: Vec<String> = names.iter().map(|name| text(name)).collect();
            if names.iter().any(|name| name == super::access::DEFAULT) {
                return Err(Failure::new("ERR The 'default' user cannot be removed"));
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            reply.integer(users.delete(&names) as i64);
        }
        [_, subcommand] if is(subcommand, "LOAD") => {
            match users.load() {
                Ok(Some(_)) => reply.ok(),
                Ok(None) => return Err(NO_FILE),
                Err(error) => {
                    return Err(Failure::from(format!(
                        "ERR {error}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
                    )));
                }
            };
        }
        [_, subcommand] if is(subcommand, "SAVE") => {
            match users.save() {
                Ok(true) => reply.ok(),
                Ok(false) => return Err(NO_FILE),
                Err(error) => return Err(Failure::from(format!("ERR the users cannot be saved: {error}"))),
            };
        }
        [_, subcommand, rest @ ..] if is(subcommand, "LOG") => return log(call, rest, reply),
        [_, subcommand, name, words @ ..] if is(subcommand, "DRYRUN") => {
            return dry_run(call, name, words, reply);
        }
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

const NO_FILE: Failure = Failure::new(
    "ERR This server is not configured to use an ACL file: start it with one (--users FILE), and define the users there",
);

fn wrong_words(subcommand: &str) -> Failure {
    let problem = "unknown subcommand or wrong number of arguments for";
    Failure::from(format!("ERR {problem} '{subcommand}'. Try ACL HELP."))
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn reply_texts(texts: impl ExactSizeIterator<Item = String>, reply: &mut Reply<'_>) {
    reply.array(texts.len());
    texts.for_each(|text| reply.bulk(text.as_bytes()));
}

/// ACL CAT [category]
fn categories(call: &SessionCall<'_>, words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let catalogue = &call.context.users.catalogue;
    match words {
        [] => reply_texts(CATEGORIES.iter().map(|name| (*name).to_owned()), reply),
        [category] => {
            let category = text(category);
            let unknown = || Failure::from(format!("ERR Unknown category '{category}'"));
            let numbers: Vec<usize> = catalogue.in_category(&category).ok_or_else(unknown)?.collect();
            reply_texts(numbers.into_iter().map(|number| catalogue.name(number)), reply);
        }
        _ => return Err(wrong_words("CAT")),
    }
    Ok(())
}

/// Replies with the six fields of ACL GETUSER.
fn describe(user: &User, reply: &mut Reply<'_>) {
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply_texts(user.hashes().into_iter(), reply);
    for (field, rules) in
        [("commands", user.command_rules()), ("keys", user.key_rules()), ("channels", user.channel_rules())]
    {
        reply.bulk(field.as_bytes());
        reply.bulk(rules.as_bytes());
    }
    reply.bulk(b"selectors");
    reply.array(0);
}

/// ACL SETUSER name rules...
fn set(call: &SessionCall<'_>, name: &[u8], rules: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let is_space = |letter: char| letter.is_whitespace() || letter == '\0';
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains(is_space));
    let name = name.ok_or(Failure::new("ERR Usernames can't contain spaces or null characters"))?;
    let failed = |rule: &str, problem: &dyn std::fmt::Display| {
        Failure::from(format!("ERR Error in ACL SETUSER modifier '{rule}': {problem}"))
    };
    let mut texts = Vec::with_capacity(rules.len());
    for rule in rules {
        texts.push(std::str::from_utf8(rule).map_err(|_| failed(&text(rule), &"it is not UTF-8"))?);
    }
    call.context.users.set(name, &texts).map_err(|(rule, error)| failed(rule, &error))?;
    reply.ok();
    Ok(())
}

/// ACL LOG [count | RESET]
fn log(call: &SessionCall<'_>, words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let mut log = call.context.users.log();
    let count = match words {
        [] => LOG_ENTRIES,
        [word] if is(word, "RESET") => {
            log.clear();
            reply.ok();
            return Ok(());
        }
        [count] => usize::try_from(integer(count)?.max(0)).unwrap_or(usize::MAX),
        _ => return Err(wrong_words("LOG")),
    };
    let now = Instant::now();
    reply.array(log.entries().len().min(count));
    for entry in log.entries().take(count) {
        reply.map(7);
        reply.bulk(b"count");
        reply.integer(i64::try_from(entry.count).unwrap_or(i64::MAX));
        let age_s = now.saturating_duration_since(entry.at).as_secs_f64();
        for (field, value) in [
            ("reason", entry.reason),
            ("context", entry.context),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"age-seconds");
        reply.double(&((age_s * 1000.0).round() / 1000.0).to_string());
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
    }
    Ok(())
}

/// ACL DRYRUN name command words...: whether a user may execute a command.
fn dry_run(call: &SessionCall<'_>, name: &[u8], words: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
    let user = call.context.users.get(&text(name));
    let user = user.ok_or_else(|| Failure::from(format!("ERR User '{}' not found", text(name))))?;
    let [command, ..] = words else { return Err(Failure::arity("acl|dryrun")) };
    let found = Command::find(call.context.commands, command);
    let found = found.ok_or_else(|| Failure::from(format!("ERR Command '{}' not found", text(command))))?;
    found.check_words(words.len(), |at| words[at])?;
    let denied = match check(&user, found, words) {
        Ok(()) => {
            reply.ok();
            return Ok(());
        }
        Err(Denied::Command(name)) => format!("This user has no permissions to run the '{name}' command"),
        Err(Denied::Key(at)) => {
            format!("This user has no permissions to access the '{}' key", text(words[at]))
        }
        Err(Denied::Channel(at)) => {
            format!("This user has no permissions to access the '{}' channel", text(words[at]))
        }
    };
    reply.bulk(denied.as_bytes());
    Ok(())
}
