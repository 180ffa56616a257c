//! The functions that scripts call: `redis.call` and its relatives, and those that the sandbox needs to explain errors.

use super::bits;
use super::cache::Stop;
use super::convert;
use super::json;
use super::msgpack;
use super::numbers::{Random, general, truncated};
use super::raised::{Caught, Raised, caught, check_built, error_at, wrong_argument};
use super::run::Run;
use super::source::{digest_of, hexadecimal};
use super::structs;
use crate::command::call::Context;
use crate::command::session::REDIS_VERSION;
use crate::failure::Failure;
use crate::protocol::Version;
use mlua::{Function, Lua, MultiValue, Table, Value};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// The name of the sandbox's code.
pub const SANDBOX_NAME: &str = "=sandbox";

/// The version of Redis as one number.
const REDIS_VERSION_NUMBER: u32 = 0x0007_000f;

/// What the functions of a thread's Lua share.
pub struct Shared {
    /// What the script works on.
    pub run: RefCell<Run>,
    /// How long the script may run.
    pub time_max: Cell<Duration>,
    /// Why the script must end, if it must.
    pub stopped: Cell<Option<Stop>>,
    failure: RefCell<Option<Explained>>,
}

/// An error that no function of the script has caught.
pub struct Explained {
    text: String,
    /// The source and the line that raised it.
    place: Option<(String, usize)>,
}

impl Explained {
    /// Returns the error reply, which names the script.
    pub fn of_script(self, digest: &str, script_name: &str) -> Failure {
        let Explained { text, place } = self;
        Failure::from(match place {
            Some((source, line)) => format!("{text} script: {digest}, on {source}:{line}."),
            None => format!("{text} script: {digest}, on {script_name}."),
        })
    }
}

impl Shared {
    /// Makes what they share before the first script.
    pub fn new(context: &Context) -> Shared {
        Shared {
            run: RefCell::new(Run::idle(context)),
            time_max: Cell::default(),
            stopped: Cell::new(None),
            failure: RefCell::default(),
        }
    }

    /// Forgets how the last script has ended, before one that may run for some time.
    pub fn begin(&self, time_max: Duration) {
        self.time_max.set(time_max);
        self.stopped.set(None);
        self.failure.take();
    }

    /// Returns the error of the script.
    pub fn take_failure(&self) -> Option<Explained> {
        self.failure.take()
    }
}

/// Returns the functions that the sandbox gives to scripts, and those that it uses itself.
///
/// # Errors
/// The memory of Lua is used up.
pub fn host(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    let redis = lua.create_table()?;
    redis.raw_set("call", caller(lua, shared, true)?)?;
    redis.raw_set("pcall", caller(lua, shared, false)?)?;
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    redis.raw_set("setresp", setresp(lua, shared)?)?;
    redis.raw_set("REDIS_VERSION", REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER)?;
    host.raw_set("redis", redis)?;
    host.raw_set("math", random(lua, shared)?)?;
    host.raw_set("cjson", json::library(lua)?)?;
    host.raw_set("cmsgpack", msgpack::library(lua)?)?;
    host.raw_set("struct", structs::library(lua)?)?;
    host.raw_set("bit", bits::library(lua)?)?;
    // In place of an entry that scripts do not see.
    host.raw_set("removed", lua.create_table()?)?;
    let must_stop = |_: &Lua, value: Value| match &value {
        Value::Error(error) => Ok(matches!(caught(error), Caught::Stop)),
        _ => Ok(false),
    };
    host.raw_set("must_stop", lua.create_function(must_stop)?)?;
    host.raw_set("caught", lua.create_function(show_error)?)?;
    host.raw_set("failed", explainer(lua, shared)?)?;
    Ok(host)
}

/// Returns `redis.call`, which raises errors, or `redis.pcall`, which returns them.
fn caller(lua: &Lua, shared: &Rc<Shared>, raises: bool) -> mlua::Result<Function> {
    let shared = Rc::downgrade(shared);
    lua.create_function(move |lua, words: MultiValue| {
        let Some(shared) = shared.upgrade() else { return Ok(Value::Nil) };
        // The same string may be there many times.
        let length = |word: &Value| word.as_string().map_or(0, |text| text.as_bytes().len());
        check_built(lua, words.iter().map(length).sum())?;
        let mut run = shared.run.borrow_mut();
        run.begin_words();
        let outcome = take_words(&mut run, &words).and_then(|()| run.execute());
        match outcome {
            Ok(reply) => match reply.strip_prefix(b"-").filter(|_| raises) {
                Some(text) => {
                    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
                    Err(Raised::Failure(String::from_utf8_lossy(text).into_owned()).into())
                }
                None => within_limit(lua, reply.len(), || convert::to_lua(lua, reply)),
            },
            Err(failure) if raises => Err(Raised::Failure(failure.message().to_owned()).into()),
            Err(failure) => error_table(lua, failure.message()),
        }
    })
}

/// The most bytes that are made into values of Lua without a look at the limit of memory.
const UNCHECKED_BYTES_MAX: usize = 64 << 10;

/// Makes values of Lua of this number of bytes. If they are few, the limit of memory is lifted meanwhile: with a limit
/// each value costs a protected call.
///
/// # Errors
/// That of `make`.
pub fn within_limit<T>(lua: &Lua, bytes: usize, make: impl FnOnce() -> mlua::Result<T>) -> mlua::Result<T> {
    if bytes > UNCHECKED_BYTES_MAX {
        return make();
    }
    let limit = lua.set_memory_limit(0)?;
    let made = make();
    lua.set_memory_limit(limit)?;
    made
}

fn take_words(run: &mut Run, words: &MultiValue) -> Result<(), Failure> {
    if words.is_empty() {
        return Err(Failure::new("ERR Please specify at least one argument for this redis lib call"));
    }
    for word in words {
        match word {
            Value::String(word) => run.push_word(&word.as_bytes()),
            Value::Integer(number) => run.push_word(itoa::Buffer::new().format(*number).as_bytes()),
            Value::Number(number) => run.push_word(general(*number, 17).as_bytes()),
            _ => {
                return Err(Failure::new("ERR Lua redis lib command arguments must be strings or integers"));
            }
        }
    }
    Ok(())
}

fn error_table(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", text)?;
    Ok(Value::Table(table))
}

fn sha1hex(lua: &Lua, arguments: MultiValue) -> mlua::Result<String> {
    let mut arguments = arguments.into_iter();
    let (Some(text), None) = (arguments.next(), arguments.next()) else {
        return Err(Raised::Failure("ERR wrong number of arguments".to_owned()).into());
    };
    let bytes = lua.coerce_string(text)?.map_or_else(Vec::new, |text| text.as_bytes().to_vec());
    Ok(hexadecimal(&digest_of(&bytes)))
}

fn setresp(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Function> {
    let shared = Rc::downgrade(shared);
    lua.create_function(move |lua, arguments: MultiValue| {
        let failed = |text: &str| Err(Raised::Failure(text.to_owned()).into());
        if arguments.len() != 1 {
            return failed("ERR redis.setresp() requires one argument.");
        }
        let version = arguments.into_iter().next().map(|version| lua.coerce_number(version)).transpose()?;
        let version = match version.flatten().map(truncated) {
            Some(2) => Version::Resp2,
            Some(3) => Version::Resp3,
            _ => return failed("ERR RESP version must be 2 or 3."),
        };
        if let Some(shared) = shared.upgrade() {
            shared.run.borrow_mut().version = version;
        }
        Ok(())
    })
}

/// Returns `math.random` and `math.randomseed`.
fn random(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let functions = lua.create_table()?;
    let of_random = Rc::downgrade(shared);
    let random = lua.create_function(move |lua, arguments: MultiValue| {
        let Some(shared) = of_random.upgrade() else { return Ok(0.0) };
        let fraction = shared.run.borrow_mut().random.fraction();
        let (low, high) = match arguments.len() {
            0 => return Ok(fraction),
            1 => (1, whole_argument(lua, &arguments, 0, "random")?),
            2 => {
                (whole_argument(lua, &arguments, 0, "random")?, whole_argument(lua, &arguments, 1, "random")?)
            }
            _ => return Err(error_at(lua, "wrong number of arguments")),
        };
        if low > high {
            let last = arguments.len();
            return Err(error_at(lua, &format!("bad argument #{last} to 'random' (interval is empty)")));
        }
        Ok((fraction * (f64::from(high) - f64::from(low) + 1.0)).floor() + f64::from(low))
    })?;
    let of_seed = Rc::downgrade(shared);
    let seed = lua.create_function(move |lua, arguments: MultiValue| {
        let seed = whole_argument(lua, &arguments, 0, "randomseed")?;
        if let Some(shared) = of_seed.upgrade() {
            shared.run.borrow_mut().random = Random::new(seed);
        }
        Ok(())
    })?;
    functions.raw_set("random", random)?;
    functions.raw_set("randomseed", seed)?;
    Ok(functions)
}

fn whole_argument(lua: &Lua, arguments: &MultiValue, at: usize, function: &str) -> mlua::Result<i32> {
    let argument = arguments.get(at);
    let number = argument.cloned().map(|argument| lua.coerce_number(argument)).transpose()?.flatten();
    let number = number.ok_or_else(|| wrong_argument(lua, at + 1, function, "number", argument))?;
    // The low bits, as C converts it.
    Ok(truncated(number) as i32)
}

/// Returns what a script sees of an error.
fn show_error(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    match caught(error) {
        Caught::Failure(text) => error_table(lua, &text),
        Caught::Text(text) => lua.create_string(text).map(Value::String),
        Caught::Memory => lua.create_string("not enough memory").map(Value::String),
        Caught::Stop => Ok(value),
    }
}

/// Returns the function that Lua calls for an error that nothing has caught.
fn explainer(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Function> {
    let shared = Rc::downgrade(shared);
    lua.create_function(move |lua, value: Value| {
        let text = match &value {
            Value::Error(error) => match caught(error) {
                Caught::Failure(text) => text,
                Caught::Text(text) => format!("ERR {text}"),
                // The one who called the script knows.
                Caught::Memory | Caught::Stop => return Ok(()),
            },
            Value::Table(table) => match table.raw_get("err")? {
                Value::String(text) => text.to_string_lossy(),
                _ => "ERR unknown error".to_owned(),
            },
            Value::String(text) => format!("ERR {}", text.to_string_lossy()),
            other => format!("ERR {}", other.to_string()?),
        };
        if let Some(shared) = shared.upgrade() {
            *shared.failure.borrow_mut() = Some(Explained { text, place: place_of_error(lua) });
        }
        Ok(())
    })
}

/// Returns the source and the line that has raised an error: of the first function that is one of the script.
fn place_of_error(lua: &Lua) -> Option<(String, usize)> {
    (1..)
        .map_while(|level| {
            lua.inspect_stack(level, |debug| {
                let source = debug.source();
                let name = source.source.filter(|name| source.what != "C" && name != SANDBOX_NAME);
                name.map(|name| name.into_owned()).zip(debug.current_line())
            })
        })
        .flatten()
        .next()
}
