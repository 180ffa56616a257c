//! `bit`: operations on the bits of numbers, as the library Lua BitOp has them. Numbers are reduced to 32 bits, and
//! results have a sign.

use super::convert::number_of;
use super::raised::wrong_argument;
use mlua::{Lua, MultiValue, Table, Value};

/// Changes a number.
type Change = fn(u32) -> u32;

/// Combines two numbers.
type Operation = fn(u32, u32) -> u32;

/// Returns the functions of the library.
///
/// # Errors
/// The memory of Lua is used up.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let unary: [(&str, Change); 3] =
        [("tobit", |bits| bits), ("bnot", |bits| !bits), ("bswap", u32::swap_bytes)];
    for (name, operation) in unary {
        let function = move |lua: &Lua, arguments: MultiValue| {
            Ok(signed(operation(argument(lua, &arguments, 0, name)?)))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    let folds: [(&str, Operation); 3] = [
        ("band", |one, other| one & other),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ];
    for (name, operation) in folds {
        let function = move |lua: &Lua, arguments: MultiValue| {
            let first = argument(lua, &arguments, 0, name)?;
            let mut others = (1..arguments.len()).map(|at| argument(lua, &arguments, at, name));
            Ok(signed(others.try_fold(first, |bits, other| other.map(|other| operation(bits, other)))?))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    let shifts: [(&str, Operation); 5] = [
        ("lshift", |bits, by| bits << (by & 31)),
        ("rshift", |bits, by| bits >> (by & 31)),
        ("arshift", |bits, by| ((bits as i32) >> (by & 31)) as u32),
        ("rol", |bits, by| bits.rotate_left(by & 31)),
        ("ror", |bits, by| bits.rotate_right(by & 31)),
    ];
    for (name, operation) in shifts {
        let function = move |lua: &Lua, arguments: MultiValue| {
            let (bits, by) = (argument(lua, &arguments, 0, name)?, argument(lua, &arguments, 1, name)?);
            Ok(signed(operation(bits, by)))
        };
        table.raw_set(name, lua.create_function(function)?)?;
    }
    table.raw_set("tohex", lua.create_function(tohex)?)?;
    Ok(table)
}

fn signed(bits: u32) -> i32 {
    bits as i32
}

/// Returns an argument as 32 bits: the nearest whole number, without what does not fit.
fn argument(lua: &Lua, arguments: &MultiValue, at: usize, function: &str) -> mlua::Result<u32> {
    // The sum has the whole number in its low bits: 2^52 + 2^51.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let given = arguments.get(at);
    let number = match given {
        Some(Value::String(text)) => text.to_str().ok().and_then(|text| text.trim().parse().ok()),
        Some(value) => number_of(value),
        None => None,
    };
    let number = number.ok_or_else(|| wrong_argument(lua, at + 1, function, "number", given))?;
    Ok((number + SHIFT).to_bits() as u32)
}

fn tohex(lua: &Lua, arguments: MultiValue) -> mlua::Result<String> {
    let bits = argument(lua, &arguments, 0, "tohex")?;
    let digits = match arguments.len() {
        0 | 1 => 8,
        _ => signed(argument(lua, &arguments, 1, "tohex")?),
    };
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    Ok(text[8 - digits.unsigned_abs().min(8) as usize..].to_owned())
}
