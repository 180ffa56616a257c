//! `cmsgpack`: MessagePack as the library lua-cmsgpack reads and writes it.

use super::numbers::general;
use super::raised::{check_built, error_at, wrong_argument};
use mlua::{Lua, MultiValue, Table, Value};
use rmp::Marker;
use rmp::encode;

/// The most tables within each other that are written. A deeper one becomes nil.
const TABLES_MAX: usize = 16;

/// The most arrays and maps within each other that are read.
const DEPTH_MAX: usize = super::convert::DEPTH_MAX;

/// Returns the functions of the library.
///
/// # Errors
/// The memory of Lua is used up.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(table)
}

fn pack(lua: &Lua, arguments: MultiValue) -> mlua::Result<Value> {
    if arguments.is_empty() {
        return Err(error_at(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
    }
    let mut out = Vec::new();
    for argument in &arguments {
        write(lua, &mut out, argument, 0)?;
    }
    lua.create_string(out).map(Value::String)
}

/// Writes a value. Writing to a vector does not fail.
fn write(lua: &Lua, out: &mut Vec<u8>, value: &Value, depth: usize) -> mlua::Result<()> {
    check_built(lua, out.len())?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            check_built(lua, out.len() + text.len())?;
            encode::write_str_len(out, text.len() as u32).map(drop).map_err(mlua::Error::external)?;
            out.extend_from_slice(&text);
        }
        Value::Boolean(is_true) => {
            encode::write_bool(out, *is_true).map_err(mlua::Error::external)?;
        }
        Value::Integer(number) => {
            encode::write_sint(out, *number).map(drop).map_err(mlua::Error::external)?;
        }
        Value::Number(number) if f64::from(*number as f32) == *number => {
            encode::write_f32(out, *number as f32).map_err(mlua::Error::external)?;
        }
        Value::Number(number) => encode::write_f64(out, *number).map_err(mlua::Error::external)?,
        Value::Table(table) if depth < TABLES_MAX => write_table(lua, out, table, depth + 1)?,
        _ => encode::write_nil(out).map_err(mlua::Error::external)?,
    }
    Ok(())
}

fn write_table(lua: &Lua, out: &mut Vec<u8>, table: &Table, depth: usize) -> mlua::Result<()> {
    let (mut count, mut last, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        match pair?.0 {
            Value::Integer(key @ 1..) => last = last.max(key),
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && last == i64::from(count) {
        encode::write_array_len(out, count as u32).map(drop).map_err(mlua::Error::external)?;
        for at in 1..=count {
            write(lua, out, &table.raw_get(at)?, depth)?;
        }
    } else {
        encode::write_map_len(out, count as u32).map(drop).map_err(mlua::Error::external)?;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            write(lua, out, &key, depth)?;
            write(lua, out, &value, depth)?;
        }
    }
    Ok(())
}

/// Why bytes cannot be read.
enum Wrong {
    /// The end is missing.
    Missing,
    /// They are not of the format, or of a part of it that Lua has no value for.
    Format,
    /// Lua has failed.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Wrong {
        Wrong::Lua(error)
    }
}

fn unpack(lua: &Lua, arguments: MultiValue) -> mlua::Result<MultiValue> {
    let bytes = match arguments.front() {
        Some(Value::String(text)) => text.as_bytes().to_vec(),
        Some(Value::Integer(number)) => number.to_string().into_bytes(),
        Some(Value::Number(number)) => general(*number, 14).into_bytes(),
        other => return Err(wrong_argument(lua, 1, "unpack", "string", other)),
    };
    let (mut rest, mut values) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        values.push(read(lua, &mut rest, 0).map_err(|wrong| match wrong {
            Wrong::Missing => error_at(lua, "Missing bytes in input."),
            Wrong::Format => error_at(lua, "Bad data format in input."),
            Wrong::Lua(error) => error,
        })?);
    }
    Ok(MultiValue::from_vec(values))
}

/// Takes bytes of a number.
fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Wrong> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Wrong::Missing)?;
    *rest = after;
    Ok(*bytes)
}

fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> Result<Value, Wrong> {
    let [first] = take(rest)?;
    let number = match Marker::from_u8(first) {
        Marker::FixPos(number) => f64::from(number),
        Marker::FixNeg(number) => f64::from(number),
        Marker::U8 => f64::from(u8::from_be_bytes(take(rest)?)),
        Marker::U16 => f64::from(u16::from_be_bytes(take(rest)?)),
        Marker::U32 => f64::from(u32::from_be_bytes(take(rest)?)),
        Marker::U64 => u64::from_be_bytes(take(rest)?) as f64,
        Marker::I8 => f64::from(i8::from_be_bytes(take(rest)?)),
        Marker::I16 => f64::from(i16::from_be_bytes(take(rest)?)),
        Marker::I32 => f64::from(i32::from_be_bytes(take(rest)?)),
        Marker::I64 => i64::from_be_bytes(take(rest)?) as f64,
        Marker::F32 => f64::from(f32::from_be_bytes(take(rest)?)),
        Marker::F64 => f64::from_be_bytes(take(rest)?),
        marker => return read_other(lua, rest, marker, depth),
    };
    Ok(Value::Number(number))
}

/// Reads what is no number.
fn read_other(lua: &Lua, rest: &mut &[u8], marker: Marker, depth: usize) -> Result<Value, Wrong> {
    match marker {
        Marker::Null => Ok(Value::Nil),
        Marker::True => Ok(Value::Boolean(true)),
        Marker::False => Ok(Value::Boolean(false)),
        Marker::FixStr(length) => read_string(lua, rest, usize::from(length)),
        Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let length = read_length(rest, marker)?;
            read_string(lua, rest, length)
        }
        Marker::FixArray(length) => read_array(lua, rest, usize::from(length), depth + 1),
        Marker::Array16 | Marker::Array32 => {
            let length = read_length(rest, marker)?;
            read_array(lua, rest, length, depth + 1)
        }
        Marker::FixMap(length) => read_map(lua, rest, usize::from(length), depth + 1),
        Marker::Map16 | Marker::Map32 => {
            let length = read_length(rest, marker)?;
            read_map(lua, rest, length, depth + 1)
        }
        _ => Err(Wrong::Format),
    }
}

fn read_length(rest: &mut &[u8], marker: Marker) -> Result<usize, Wrong> {
    Ok(match marker {
        Marker::Str8 => usize::from(u8::from_be_bytes(take(rest)?)),
        Marker::Str16 | Marker::Array16 | Marker::Map16 => usize::from(u16::from_be_bytes(take(rest)?)),
        _ => u32::from_be_bytes(take(rest)?) as usize,
    })
}

fn read_string(lua: &Lua, rest: &mut &[u8], length: usize) -> Result<Value, Wrong> {
    let (text, after) = rest.split_at_checked(length).ok_or(Wrong::Missing)?;
    *rest = after;
    Ok(Value::String(lua.create_string(text)?))
}

fn check_depth(depth: usize) -> Result<(), Wrong> {
    if depth > DEPTH_MAX { Err(Wrong::Format) } else { Ok(()) }
}

fn read_array(lua: &Lua, rest: &mut &[u8], length: usize, depth: usize) -> Result<Value, Wrong> {
    check_depth(depth)?;
    let table = lua.create_table()?;
    for at in 1..=length {
        table.raw_set(at, read(lua, rest, depth)?)?;
    }
    Ok(Value::Table(table))
}

fn read_map(lua: &Lua, rest: &mut &[u8], length: usize, depth: usize) -> Result<Value, Wrong> {
    check_depth(depth)?;
    let table = lua.create_table()?;
    for _ in 0..length {
        let (key, value) = (read(lua, rest, depth)?, read(lua, rest, depth)?);
        match key {
            Value::Nil => return Err(Wrong::Format),
            Value::Number(number) if number.is_nan() => return Err(Wrong::Format),
            key => table.raw_set(key, value)?,
        }
    }
    Ok(Value::Table(table))
}
