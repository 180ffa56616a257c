//! Replies as values of Lua, and values of Lua as replies.
//!
//! | reply | RESP | Lua |
//! |---|---|---|
//! | number | `:1` | `1` |
//! | string | `$1 a` | `"a"` |
//! | status | `+OK` | `{ok = "OK"}` |
//! | error | `-ERR no` | `{err = "ERR no"}` |
//! | array | `*2 :1 :2` | `{1, 2}` |
//! | none | `$-1`, `*-1` | `false`; the null of RESP 3 is `nil` |
//! | map | `%1 $1 a :1` | `{map = {a = 1}}` |
//! | set | `~1 $1 a` | `{set = {a = true}}` |
//! | boolean | `#t` | `true` |
//! | fraction | `,0.5` | `{double = 0.5}` |
//! | text | `=5 txt:a` | `{verbatim_string = {format = "txt", string = "a"}}` |
//! | large number | `(1` | `{big_number = "1"}` |
//!
//! The other way a number loses its fraction, an array ends before its first `nil`, and `true` is 1 and `false` none
//! unless the script has chosen RESP 3.

use super::numbers::{general, truncated};
use super::raised::Raised;
use crate::failure::{Failure, Outcome};
use crate::protocol::{REPLY_BYTES_MAX, Reply, Version};
use mlua::prelude::LuaString;
use mlua::{Lua, Table, Value};

/// The most replies within each other.
pub const DEPTH_MAX: usize = 128;

const TOO_DEEP: &str = "ERR reached lua stack limit";

/// A reply that is read.
struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

/// Returns a reply as a value of Lua.
///
/// # Errors
/// The memory of the script is used up; the bytes are no reply.
pub fn to_lua(lua: &Lua, reply: &[u8]) -> mlua::Result<Value> {
    Reader { lua, rest: reply }.value(0)
}

fn malformed() -> mlua::Error {
    Raised::Failure("ERR a command has replied with no reply of the protocol".to_owned()).into()
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        let (kind, line) = self.line()?;
        let lua = self.lua;
        let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
        match kind {
            _ if depth > DEPTH_MAX => Err(malformed()),
            b':' => Ok(Value::Number(number(line)? as f64)),
            b'$' | b'*' if line == b"-1" => Ok(Value::Boolean(false)),
            b'$' => string(self.bytes(line)?),
            b'+' => self.named("ok", string(line)?),
            b'-' => self.named("err", string(line)?),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => self.named("double", Value::Number(fraction(line)?)),
            b'(' => self.named("big_number", string(line)?),
            b'=' => self.text(line),
            b'*' => {
                let length = self.length(line)?;
                let table = lua.create_table_with_capacity(length, 0)?;
                for at in 1..=length {
                    table.raw_set(at, self.value(depth + 1)?)?;
                }
                Ok(Value::Table(table))
            }
            b'%' => {
                let table = lua.create_table()?;
                for _ in 0..self.length(line)? {
                    let key = self.key(depth)?;
                    table.raw_set(key, self.value(depth + 1)?)?;
                }
                self.named("map", Value::Table(table))
            }
            b'~' => {
                let table = lua.create_table()?;
                for _ in 0..self.length(line)? {
                    table.raw_set(self.key(depth)?, true)?;
                }
                self.named("set", Value::Table(table))
            }
            _ => Err(malformed()),
        }
    }

    /// Reads a key of a map or of a set, which cannot be `nil`, nor no number.
    fn key(&mut self, depth: usize) -> mlua::Result<Value> {
        match self.value(depth + 1)? {
            Value::Nil => Err(malformed()),
            Value::Number(number) if number.is_nan() => Err(malformed()),
            key => Ok(key),
        }
    }

    fn text(&mut self, line: &[u8]) -> mlua::Result<Value> {
        let bytes = self.bytes(line)?;
        let (format, text) = bytes.split_at_checked(4).ok_or_else(malformed)?;
        let table = self.lua.create_table_with_capacity(0, 2)?;
        table.raw_set("format", self.lua.create_string(&format[..3])?)?;
        table.raw_set("string", self.lua.create_string(text)?)?;
        self.named("verbatim_string", Value::Table(table))
    }

    /// Returns a table with one field.
    fn named(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    /// Reads the first line: its kind, and the rest of it.
    fn line(&mut self) -> mlua::Result<(u8, &'a [u8])> {
        let end = self.rest.iter().position(|byte| *byte == b'\r').ok_or_else(malformed)?;
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).ok_or_else(malformed)?;
        line.split_first().map(|(kind, line)| (*kind, line)).ok_or_else(malformed)
    }

    /// Reads a number of replies that follow. Each has at least a byte.
    fn length(&self, line: &[u8]) -> mlua::Result<usize> {
        let length = usize::try_from(number(line)?).map_err(|_| malformed())?;
        if length <= self.rest.len() { Ok(length) } else { Err(malformed()) }
    }

    /// Reads the bytes of a string, whose length the line has.
    fn bytes(&mut self, line: &[u8]) -> mlua::Result<&'a [u8]> {
        let length = self.length(line)?;
        let (bytes, rest) = self.rest.split_at(length);
        self.rest = rest.get(2..).ok_or_else(malformed)?;
        Ok(bytes)
    }
}

fn number(line: &[u8]) -> mlua::Result<i64> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

fn fraction(line: &[u8]) -> mlua::Result<f64> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

/// The names of the fields that make a table a reply of another kind, as strings of Lua.
pub struct Names {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    map: LuaString,
    set: LuaString,
}

impl Names {
    /// Makes the strings.
    pub fn new(lua: &Lua) -> mlua::Result<Names> {
        let name = |name: &str| lua.create_string(name);
        Ok(Names {
            err: name("err")?,
            ok: name("ok")?,
            double: name("double")?,
            big_number: name("big_number")?,
            verbatim_string: name("verbatim_string")?,
            map: name("map")?,
            set: name("set")?,
        })
    }
}

/// Writes values of Lua as replies.
pub struct Writer<'a, 'b> {
    /// The names of fields.
    pub names: &'a Names,
    /// The version that the script has chosen for booleans.
    pub version: Version,
    /// Where the reply is written.
    pub reply: &'a mut Reply<'b>,
}

fn failed(error: mlua::Error) -> Failure {
    Failure::from(format!("ERR the result of the script cannot be read: {error}"))
}

impl Writer<'_, '_> {
    /// Writes a value.
    ///
    /// # Errors
    /// The reply would be too long.
    pub fn write(&mut self, value: &Value) -> Outcome {
        let start = self.reply.length();
        self.value(value, 0, start)
    }

    fn value(&mut self, value: &Value, depth: usize, start: usize) -> Outcome {
        if self.reply.length() - start > REPLY_BYTES_MAX {
            return Err(Failure::REPLY_TOO_LONG);
        }
        let reply = &mut *self.reply;
        match value {
            Value::String(text) => reply.bulk(&text.as_bytes()),
            Value::Integer(number) => reply.integer(*number),
            Value::Number(number) => reply.integer(truncated(*number)),
            Value::Boolean(is_true) if self.version == Version::Resp3 => reply.boolean(*is_true),
            Value::Boolean(true) => reply.integer(1),
            Value::Table(_) if depth >= DEPTH_MAX => reply.error(TOO_DEEP),
            Value::Table(table) => return self.table(table, depth, start),
            _ => reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize, start: usize) -> Outcome {
        let field = |name: &LuaString| table.raw_get::<Value>(name).map_err(failed);
        if let Value::String(text) = field(&self.names.err)? {
            self.reply.error(&text.to_string_lossy());
        } else if let Value::String(text) = field(&self.names.ok)? {
            self.reply.status(&text.to_string_lossy().replace(['\r', '\n'], " "));
        } else if let Some(number) = number_of(&field(&self.names.double)?) {
            self.reply.double(&general(number, 17));
        } else if let Value::String(text) = field(&self.names.big_number)? {
            self.reply.big_number(&text.to_string_lossy().replace(['\r', '\n'], " "));
        } else if let Some((format, text)) = verbatim(&field(&self.names.verbatim_string)?) {
            self.reply.verbatim(&format.as_bytes(), &text.as_bytes());
        } else if let Value::Table(map) = field(&self.names.map)? {
            let pairs = pairs(&map)?;
            self.reply.map(pairs.len());
            for (key, value) in &pairs {
                self.value(key, depth + 1, start)?;
                self.value(value, depth + 1, start)?;
            }
        } else if let Value::Table(set) = field(&self.names.set)? {
            let pairs = pairs(&set)?;
            self.reply.set(pairs.len());
            for (key, _) in &pairs {
                self.value(key, depth + 1, start)?;
            }
        } else {
            let items = table.sequence_values().collect::<mlua::Result<Vec<Value>>>().map_err(failed)?;
            self.reply.array(items.len());
            for item in &items {
                self.value(item, depth + 1, start)?;
            }
        }
        Ok(())
    }
}

fn pairs(table: &Table) -> Result<Vec<(Value, Value)>, Failure> {
    table.pairs().collect::<mlua::Result<_>>().map_err(failed)
}

/// Returns a number of Lua.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn verbatim(value: &Value) -> Option<(LuaString, LuaString)> {
    let Value::Table(table) = value else { return None };
    match (table.raw_get("format"), table.raw_get("string")) {
        (Ok(Value::String(format)), Ok(Value::String(text))) => Some((format, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a reply after it was a value of Lua.
    fn there_and_back(lua: &Lua, bytes: &[u8], version: Version) -> Option<Vec<u8>> {
        let value = to_lua(lua, bytes).ok()?;
        let mut out = Vec::new();
        let names = Names::new(lua).unwrap();
        let mut reply = Reply::new(&mut out, version);
        Writer { names: &names, version, reply: &mut reply }.write(&value).unwrap();
        Some(out)
    }

    #[test]
    fn a_reply_is_the_same_after_it_was_a_value() {
        let lua = Lua::new();
        for text in [
            ":1\r\n",
            ":-9007199254740992\r\n",
            "$0\r\n\r\n",
            "$4\r\na\r\nb\r\n",
            "+OK\r\n",
            "-ERR no\r\n",
            "*0\r\n",
            "*3\r\n:1\r\n*1\r\n$1\r\na\r\n+QUEUED\r\n",
        ] {
            for version in [Version::Resp2, Version::Resp3] {
                let back = there_and_back(&lua, text.as_bytes(), version);
                assert_eq!(back.as_deref(), Some(text.as_bytes()), "{text:?}");
            }
        }
        assert_eq!(there_and_back(&lua, b"$-1\r\n", Version::Resp2).unwrap(), b"$-1\r\n");
        for text in ["_\r\n", "#t\r\n", "#f\r\n", ",0.5\r\n", "(123456789012345678901\r\n", "=5\r\ntxt:a\r\n"]
        {
            assert_eq!(
                there_and_back(&lua, text.as_bytes(), Version::Resp3).as_deref(),
                Some(text.as_bytes())
            );
        }
        for text in ["%1\r\n$1\r\na\r\n:1\r\n", "~1\r\n$1\r\na\r\n"] {
            assert_eq!(
                there_and_back(&lua, text.as_bytes(), Version::Resp3).as_deref(),
                Some(text.as_bytes())
            );
        }
    }

    #[test]
    fn no_bytes_make_the_conversion_panic() {
        let lua = Lua::new();
        let mut random = fastrand::Rng::with_seed(7);
        let parts: [&[u8]; 24] = [
            b":1\r\n",
            b"$1\r\na\r\n",
            b"$-1\r\n",
            b"*2\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"%1\r\n",
            b"~1\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",nan\r\n",
            b",1.5\r\n",
            b"(7\r\n",
            b"=4\r\ntxt:\r\n",
            b"+OK\r\n",
            b"-ERR\r\n",
            b"*999999999\r\n",
            b"$99\r\n",
            b"=2\r\nab\r\n",
            b"\r",
            b"\r\n",
            b"x\r\n",
            b":\r\n",
            b"\xff\xfe",
        ];
        let mut replies = 0;
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..random.usize(1..12)).flat_map(|_| parts[random.usize(..parts.len())]).copied().collect();
            for version in [Version::Resp2, Version::Resp3] {
                replies += usize::from(there_and_back(&lua, &bytes, version).is_some());
            }
        }
        assert!(replies > 1000, "{replies} were replies");
        let deep = b"*1\r\n".repeat(1000);
        assert!(there_and_back(&lua, &deep, Version::Resp2).is_none());
    }

    #[test]
    fn tables_within_themselves_end() {
        let lua = Lua::new();
        let value: Value = lua.load("local t = {}; t[1] = t; return t").eval().unwrap();
        let mut out = Vec::new();
        let names = Names::new(&lua).unwrap();
        let mut reply = Reply::new(&mut out, Version::Resp2);
        Writer { names: &names, version: Version::Resp2, reply: &mut reply }.write(&value).unwrap();
        assert!(out.ends_with(b"*1\r\n-ERR reached lua stack limit\r\n"));
    }
}
