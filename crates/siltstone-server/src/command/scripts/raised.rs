//! Errors that functions of Rust raise in Lua.

use super::cache::Stop;
use mlua::{Error, Lua, Value};

/// An error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Raised {
    /// Of a command: Lua sees a table with this text in `err`.
    #[error("{0}")]
    Failure(String),
    /// Of a function of a library: Lua sees this text.
    #[error("{0}")]
    Text(String),
    /// The script must end, so it cannot catch this error.
    #[error("the script must end")]
    Stop(Stop),
}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Error {
        Error::external(raised)
    }
}

/// What an error is to a script.
pub enum Caught {
    /// The text of a table with `err`.
    Failure(String),
    /// A text.
    Text(String),
    /// The memory is used up.
    Memory,
    /// The script must end.
    Stop,
}

/// Returns what an error is.
pub fn caught(error: &Error) -> Caught {
    let mut error = error;
    while let Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    match (error.downcast_ref::<Raised>(), error) {
        (Some(Raised::Failure(text)), _) => Caught::Failure(text.clone()),
        (Some(Raised::Text(text)), _) => Caught::Text(text.clone()),
        (Some(Raised::Stop(_)), _) => Caught::Stop,
        (None, Error::MemoryError(_)) => Caught::Memory,
        (None, Error::RuntimeError(text)) => Caught::Text(text.clone()),
        (None, error) => Caught::Text(error.to_string()),
    }
}

/// Returns an error of a library's function, with the place of the call in front, as in Lua.
pub fn error_at(lua: &Lua, text: &str) -> Error {
    let place = lua.inspect_stack(1, |debug| {
        let source = debug.source().short_src.map(|name| name.into_owned());
        source.zip(debug.current_line())
    });
    Raised::Text(match place.flatten() {
        Some((source, line)) => format!("{source}:{line}: {text}"),
        None => text.to_owned(),
    })
    .into()
}

/// The most bytes that a function outside of Lua may build for a script.
pub struct BuiltBytesMax(pub usize);

/// Returns an error if a function outside of Lua would build as many bytes, which the limit of Lua does not see.
///
/// # Errors
/// That of Lua for memory that is used up.
pub fn check_built(lua: &Lua, bytes: usize) -> mlua::Result<()> {
    let limit = lua.app_data_ref::<BuiltBytesMax>();
    match limit.is_some_and(|limit| bytes > limit.0) {
        true => Err(Error::MemoryError("not enough memory".to_owned())),
        false => Ok(()),
    }
}

/// Returns the error for an argument of the wrong type.
pub fn wrong_argument(
    lua: &Lua,
    number: usize,
    function: &str,
    expected: &str,
    got: Option<&Value>,
) -> Error {
    let got = got.map_or("no value", name_of_type);
    error_at(lua, &format!("bad argument #{number} to '{function}' ({expected} expected, got {got})"))
}

/// Returns the name of a value's type, as Lua's `type` does.
pub fn name_of_type(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}
