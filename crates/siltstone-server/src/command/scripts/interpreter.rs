//! The Lua of a thread: what scripts see, the compiled scripts, and one run after another.
//!
//! Each thread that executes scripts has one, made at its first script. It is dropped when it has too much memory after
//! a script, and after SCRIPT FLUSH.

use super::cache::{Running, Scripts, Stop};
use super::convert::{Names, Writer};
use super::raised::{BuiltBytesMax, Caught, Raised, caught};
use super::redis::{self, Shared};
use super::source::{Digest, Script, hexadecimal};
use crate::command::call::{Context, ScriptCall};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use mlua::{ChunkMode, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The memory that is kept after a script, in bytes.
const KEPT_BYTES: usize = 8 << 20;

/// The memory for what scripts see, before there is a limit, in bytes.
const BASE_BYTES: usize = 1 << 20;

/// The number of instructions between two looks at the time and at SCRIPT KILL: some ten microseconds.
const INSTRUCTIONS: u32 = 10_000;

/// The name of a script, as it is in errors: after the first letter.
const SCRIPT_NAME: &str = "@user_script";

thread_local! {
    static OF_THREAD: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// The Lua of a thread.
pub struct Interpreter {
    lua: Lua,
    shared: Rc<Shared>,
    names: Names,
    /// Where KEYS and ARGV are set.
    shown: Table,
    /// Calls a script, and explains its error.
    runner: Function,
    compiled: HashMap<Digest, Function>,
    running: Arc<Running>,
    flushes: u64,
}

/// A script and what it is called with.
pub struct Job<'a> {
    /// The script.
    pub script: &'a Arc<Script>,
    /// It is in the cache of all threads.
    pub is_kept: bool,
    /// Its keys.
    pub keys: &'a [&'a [u8]],
    /// Its other arguments.
    pub arguments: &'a [&'a [u8]],
    /// Why it must not write, if it must not.
    pub refusal: Option<Failure>,
}

/// How a script ended that has not succeeded.
struct Ended {
    failure: Failure,
    /// What it has written before stays.
    has_effect: bool,
    /// The memory was used up.
    is_spent: bool,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Ended {
        Ended { failure, has_effect: true, is_spent: false }
    }
}

fn internal(error: mlua::Error) -> Failure {
    Failure::from(format!("ERR Lua has failed: {error}"))
}

/// Compiles a script without executing it.
///
/// # Errors
/// Redis's error for a script that is not one of Lua.
pub fn check(script: &Script) -> Outcome {
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::new()).map_err(internal)?;
    compile(&lua, script).map(drop)
}

fn compile(lua: &Lua, script: &Script) -> Result<Function, Failure> {
    let chunk = lua.load(script.code()).set_name(SCRIPT_NAME).set_mode(ChunkMode::Text);
    chunk.into_function().map_err(|error| {
        let text = match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        };
        Failure::from(format!("ERR Error compiling script (new function): {text}"))
    })
}

/// Executes a script by the Lua of this thread.
///
/// # Errors
/// The error of the script. It has changed nothing if it was stopped, or its memory was used up.
pub fn execute(call: &mut ScriptCall<'_>, job: Job<'_>, reply: &mut Reply<'_>) -> Outcome {
    if call.patience.is_exceeded.get() {
        // Another script of the transaction: all run again.
        return Ok(());
    }
    OF_THREAD.with_borrow_mut(|of_thread| {
        let flushes = call.context.scripts.flushes();
        if of_thread.as_ref().is_some_and(|interpreter| interpreter.flushes != flushes) {
            *of_thread = None;
        }
        let interpreter = match of_thread {
            Some(interpreter) => interpreter,
            None => of_thread.insert(Interpreter::new(call.context).map_err(internal)?),
        };
        let outcome = interpreter.execute(call, &job, reply);
        let is_spent = matches!(outcome, Err(Ended { is_spent: true, .. }));
        if is_spent || interpreter.is_too_large() {
            *of_thread = None;
        }
        outcome.map_err(|ended| ended.failure)
    })
}

impl Interpreter {
    fn new(context: &Context) -> mlua::Result<Interpreter> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let shared = Rc::new(Shared::new(context));
        let host = redis::host(&lua, &shared)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name(redis::SANDBOX_NAME);
        let (shown, runner) = sandbox.call::<(Table, Function)>(host)?;
        let scripts: &Scripts = &context.scripts;
        let running = scripts.add_thread();
        stop_in_time(&lua, &shared, running.clone())?;
        lua.gc_collect()?;
        lua.set_app_data(BuiltBytesMax(context.limits.script_memory_bytes_max));
        lua.set_memory_limit(BASE_BYTES + context.limits.script_memory_bytes_max)?;
        Ok(Interpreter {
            names: Names::new(&lua)?,
            lua,
            shared,
            shown,
            runner,
            compiled: HashMap::new(),
            running,
            flushes: scripts.flushes(),
        })
    }

    /// Returns whether the memory is too much to be kept.
    fn is_too_large(&self) -> bool {
        // Collected first: most of it may be garbage. It fails only in a function of a script.
        self.lua.used_memory() > KEPT_BYTES
            && (self.lua.gc_collect().is_err() || self.lua.used_memory() > KEPT_BYTES)
    }

    fn execute(
        &mut self,
        call: &mut ScriptCall<'_>,
        job: &Job<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Ended> {
        let script = match self.compiled.get(&job.script.digest) {
            Some(script) => script.clone(),
            None => {
                let script = compile(&self.lua, job.script)?;
                self.compiled.insert(job.script.digest, script.clone());
                script
            }
        };
        if !job.is_kept {
            call.context.scripts.add(job.script.clone());
        }
        self.shared.begin(call.patience.time_max);
        self.shared.run.borrow_mut().begin(call, job.keys, job.refusal.clone());
        self.running.start();
        let outcome = self.run(&script, job, call.context, reply);
        self.running.end();
        let is_too_long = self.shared.stopped.get() == Some(Stop::TooLong);
        if is_too_long && call.patience.time_max < call.context.limits.script_time_max {
            call.patience.is_exceeded.set(true);
        }
        let has_effect = outcome.as_ref().err().is_none_or(|ended| ended.has_effect);
        self.shared.run.borrow_mut().end(call, has_effect);
        outcome
    }

    /// Calls a script, and writes its result.
    fn run(
        &self,
        script: &Function,
        job: &Job<'_>,
        context: &Context,
        reply: &mut Reply<'_>,
    ) -> Result<(), Ended> {
        let bytes = job.keys.iter().chain(job.arguments).map(|word| word.len() + size_of::<Value>()).sum();
        let arguments = redis::within_limit(&self.lua, bytes, || self.set_arguments(job));
        let called = arguments.and_then(|()| self.runner.call::<(bool, Value)>(script));
        if let Some(stop) = self.shared.stopped.get() {
            return Err(Ended { failure: stopped(stop, context), has_effect: false, is_spent: false });
        }
        let of_memory = || Ended { failure: out_of_memory(context), has_effect: false, is_spent: true };
        match called {
            Ok((true, value)) => {
                let version = self.shared.run.borrow().version;
                Writer { names: &self.names, version, reply }.write(&value)?;
                Ok(())
            }
            Ok((false, _)) => match self.shared.take_failure() {
                Some(failure) => {
                    Err(Ended::from(failure.of_script(&hexadecimal(&job.script.digest), SCRIPT_NAME)))
                }
                // Lua calls no function to explain it.
                None => Err(of_memory()),
            },
            Err(error) if matches!(caught(&error), Caught::Memory) => Err(of_memory()),
            Err(error) => Err(Ended::from(internal(error))),
        }
    }

    fn set_arguments(&self, job: &Job<'_>) -> mlua::Result<()> {
        for (name, words) in [("KEYS", job.keys), ("ARGV", job.arguments)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (at, word) in (1..).zip(words) {
                table.raw_set(at, self.lua.create_string(word)?)?;
            }
            self.shown.raw_set(name, table)?;
        }
        Ok(())
    }
}

/// Looks now and then whether the script must end.
fn stop_in_time(lua: &Lua, shared: &Rc<Shared>, running: Arc<Running>) -> mlua::Result<()> {
    let shared = Rc::downgrade(shared);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
    lua.set_global_hook(triggers, move |_, _| {
        let Some(shared) = shared.upgrade() else { return Ok(VmState::Continue) };
        match running.must_stop(shared.time_max.get()) {
            Some(stop) => {
                shared.stopped.set(Some(stop));
                Err(Raised::Stop(stop).into())
            }
            None => Ok(VmState::Continue),
        }
    })
}

fn stopped(stop: Stop, context: &Context) -> Failure {
    match stop {
        Stop::Killed => Failure::new("ERR Script killed by user with SCRIPT KILL... It has changed nothing."),
        Stop::ServerStops => Failure::new("ERR the server stops; the script has changed nothing"),
        Stop::TooLong => Failure::from(format!(
            "ERR the script has run for more than {} ms, and was stopped; it has changed nothing; do less in a script",
            context.limits.script_time_max.as_millis()
        )),
    }
}

fn out_of_memory(context: &Context) -> Failure {
    Failure::from(format!(
        "ERR not enough memory: the script needs more than {} bytes; it has changed nothing; do less in a script",
        context.limits.script_memory_bytes_max
    ))
}
