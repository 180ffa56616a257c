//! Scripts: programs of Lua that call commands on their keys, as in Redis.
//!
//! ```text
//! EVAL text 1 a --> cache --> the thread's Lua --> redis.call("INCR", "a") --> the function of INCR
//!                                                                               on the state of a
//! ```
//!
//! A script is a command like others: its keys are read in the transaction of the turn, it acts on their states, and
//! what it leaves is written with the rest. So it uses the keys only that its call names, and one that is stopped has
//! changed nothing. What a script has written before an error stays, as in Redis.
//!
//! A script that does not end soon is stopped, and runs again without locks, on copies of the states, for as long as
//! scripts may. What it leaves is written if its keys have not changed meanwhile; otherwise it runs once more.
//!
//! | file | contents |
//! |---|---|
//! | `source` | the text of a script, its SHA-1 and its flags |
//! | `cache` | the scripts of all threads, and which of them run |
//! | `interpreter` | the Lua of a thread, the compiled scripts, the limits |
//! | `sandbox.lua` | what scripts see |
//! | `redis` | `redis.call` and its relatives |
//! | `run` | the states of a script's keys, and the commands on them |
//! | `messages` | what a script publishes |
//! | `convert` | replies as values of Lua, and back |
//! | `raised` | errors of functions of Rust in Lua |
//! | `json`, `msgpack`, `structs`, `bits` | the libraries `cjson`, `cmsgpack`, `struct` and `bit` |
//! | `numbers` | numbers as C writes them, and as math.random chooses them |
//! | `admin` | SCRIPT |

mod admin;
mod bits;
mod cache;
mod convert;
mod interpreter;
mod json;
mod messages;
mod msgpack;
mod numbers;
mod raised;
mod redis;
mod run;
mod source;
mod structs;

pub use admin::script;
pub use cache::Scripts;

use super::arguments::integer;
use super::call::ScriptCall;
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use interpreter::Job;
use source::{Script, digest_of, named};
use std::sync::Arc;

const NO_SCRIPT: Failure = Failure::new("NOSCRIPT No matching script. Please use EVAL.");

/// What a script may do, as its command says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Read,
}

pub fn eval(call: &mut ScriptCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute_text(call, Access::Write, reply)
}

pub fn eval_ro(call: &mut ScriptCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute_text(call, Access::Read, reply)
}

pub fn evalsha(call: &mut ScriptCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute_named(call, Access::Write, reply)
}

pub fn evalsha_ro(call: &mut ScriptCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    execute_named(call, Access::Read, reply)
}

fn execute_text(call: &mut ScriptCall<'_>, access: Access, reply: &mut Reply<'_>) -> Outcome {
    let keys = key_count(call.words)?;
    let text = call.words[1];
    let kept = call.context.scripts.find(&digest_of(text));
    let is_kept = kept.is_some();
    let script = kept.map_or_else(|| Script::parse(text).map(Arc::new), Ok)?;
    execute(call, &script, is_kept, keys, access, reply)
}

fn execute_named(call: &mut ScriptCall<'_>, access: Access, reply: &mut Reply<'_>) -> Outcome {
    let digest = named(call.words[1]);
    if call.words[1].len() != 40 {
        return Err(NO_SCRIPT);
    }
    let keys = key_count(call.words)?;
    let script = digest.and_then(|digest| call.context.scripts.find(&digest)).ok_or(NO_SCRIPT)?;
    execute(call, &script, true, keys, access, reply)
}

/// Returns the number of keys, which the third word has.
fn key_count(words: &[&[u8]]) -> Result<usize, Failure> {
    let count = integer(words[2])?;
    if count > words.len() as i64 - 3 {
        return Err(Failure::new("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Failure::new("ERR Number of keys can't be negative"))
}

fn execute(
    call: &mut ScriptCall<'_>,
    script: &Arc<Script>,
    is_kept: bool,
    keys: usize,
    access: Access,
    reply: &mut Reply<'_>,
) -> Outcome {
    let refusal = match access {
        _ if script.only_reads => Some(READ_ONLY_SCRIPT),
        Access::Read if script.has_flags => {
            return Err(Failure::new("ERR Can not execute a script with write flag using *_ro command."));
        }
        Access::Read => Some(READ_ONLY_SCRIPT),
        Access::Write if call.is_read_only && script.has_flags => return Err(Failure::READ_ONLY),
        Access::Write if call.is_read_only => Some(Failure::READ_ONLY),
        Access::Write => None,
    };
    let words = call.words;
    let (keys, arguments) = words[3..].split_at(keys);
    interpreter::execute(call, Job { script, is_kept, keys, arguments, refusal }, reply)
}

const READ_ONLY_SCRIPT: Failure = Failure::new("ERR Write commands are not allowed from read-only scripts.");
