//! COMMAND: the commands of the server, as clients ask for them.

use super::arguments::is;
use super::call::{Command, Keys, SessionCall};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;

pub fn command(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let commands = call.context.commands;
    let find = |name: &[u8]| Command::find(commands, name);
    match call.words {
        [_] => {
            reply.array(commands.len());
            commands.iter().for_each(|command| describe(command, reply));
        }
        [_, subcommand] if is(subcommand, "COUNT") => reply.integer(commands.len() as i64),
        [_, subcommand] if is(subcommand, "LIST") => {
            reply.set(commands.len());
            commands.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
        }
        [_, subcommand, names @ ..] if is(subcommand, "INFO") => {
            let all: Vec<&[u8]> = commands.iter().map(|command| command.name.as_bytes()).collect();
            let names = if names.is_empty() { &all[..] } else { names };
            reply.array(names.len());
            for name in names {
                match find(name) {
                    Some(command) => describe(command, reply),
                    None => reply.null_array(),
                }
            }
        }
        [_, subcommand, names @ ..] if is(subcommand, "DOCS") => {
            let named: Vec<&Command> = names.iter().filter_map(|name| find(name)).collect();
            let all: Vec<&Command> = commands.iter().collect();
            let documented = if names.is_empty() { all } else { named };
            reply.map(documented.len());
            for command in documented {
                reply.bulk(command.name.as_bytes());
                reply.map(2);
                for (field, text) in [("summary", command.summary), ("group", command.group)] {
                    reply.bulk(field.as_bytes());
                    reply.bulk(text.as_bytes());
                }
            }
        }
        [_, subcommand, words @ ..] if is(subcommand, "GETKEYS") => {
            let command = words.first().and_then(|name| find(name));
            let command = command.ok_or(Failure::new("ERR Invalid command specified"))?;
            if !command.takes(words.len()) {
                return Err(Failure::new("ERR Invalid number of arguments specified for command"));
            }
            let keys: Vec<usize> = command.keys.positions(words.len(), |at| words[at]).collect();
            if keys.is_empty() && !command.flags.contains(&"no_mandatory_keys") {
                return Err(Failure::new("ERR The command has no key arguments"));
            }
            reply.array(keys.len());
            keys.iter().for_each(|at| reply.bulk(words[*at]));
        }
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}

/// Replies with the ten fields of a command: the last four, which the server leaves empty, are tips, the
/// specifications of keys, and subcommands.
fn describe(command: &Command, reply: &mut Reply<'_>) {
    let keys = if command.keys.are_fixed() { command.keys } else { Keys::NONE };
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity);
    reply.set(command.flags.len());
    command.flags.iter().for_each(|flag| reply.status(flag));
    reply.integer(keys.first as i64);
    reply.integer(keys.last);
    reply.integer(keys.step as i64);
    reply.set(1);
    reply.status(&format!("@{}", command.group));
    (0..3).for_each(|_| reply.array(0));
}
