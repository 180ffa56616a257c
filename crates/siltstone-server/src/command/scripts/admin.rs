//! SCRIPT: the cache of scripts, and those that run.

use super::interpreter;
use super::source::{Script, hexadecimal, named};
use crate::command::arguments::is;
use crate::command::call::SessionCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use std::sync::Arc;

const HELP: [&str; 15] = [
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
];

pub fn script(call: &mut SessionCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let scripts = &call.context.scripts;
    match call.words {
        [_, subcommand, text] if is(subcommand, "LOAD") => {
            let script = Script::parse(text)?;
            if scripts.find(&script.digest).is_none() {
                interpreter::check(&script)?;
            }
            reply.bulk(hexadecimal(&script.digest).as_bytes());
            scripts.add(Arc::new(script));
        }
        [_, subcommand, digests @ ..] if is(subcommand, "EXISTS") => {
            reply.array(digests.len());
            for digest in digests {
                let found = named(digest).and_then(|digest| scripts.find(&digest));
                reply.integer(i64::from(found.is_some()));
            }
        }
        [_, subcommand, modes @ ..] if is(subcommand, "FLUSH") => {
            match modes {
                [] => {}
                [mode] if is(mode, "SYNC") || is(mode, "ASYNC") => {}
                _ => return Err(Failure::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
            }
            scripts.flush();
            reply.ok();
        }
        [_, subcommand] if is(subcommand, "KILL") => {
            if !scripts.kill() {
                return Err(Failure::new("NOTBUSY No scripts in execution right now."));
            }
            reply.ok();
        }
        [_, subcommand, mode] if is(subcommand, "DEBUG") => {
            if is(mode, "YES") || is(mode, "SYNC") {
                return Err(Failure::new("ERR this server cannot debug scripts; debug them with Redis"));
            }
            if !is(mode, "NO") {
                return Err(Failure::new("ERR Use SCRIPT DEBUG YES/SYNC/NO"));
            }
            reply.ok();
        }
        [_, subcommand] if is(subcommand, "HELP") => {
            reply.array(HELP.len() + 2);
            HELP.iter().chain(&["HELP", "    Prints this help."]).for_each(|line| reply.status(line));
        }
        _ => return Err(Failure::SYNTAX),
    }
    Ok(())
}
