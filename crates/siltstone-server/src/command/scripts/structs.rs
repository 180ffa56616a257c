//! `struct`: numbers and strings as bytes in a given format, as the library Lua struct has them.
//!
//! ```text
//! >I2 s     big endian, a number of two bytes without sign, a string with a zero at its end
//! ```

use super::convert::number_of;
use super::raised::{check_built, error_at, wrong_argument};
use mlua::{Lua, MultiValue, Table, Value};

/// The most bytes of a number.
const INTEGER_BYTES_MAX: usize = 32;

/// The alignment that `!` has without a number.
const ALIGNMENT: usize = 8;

/// Returns the functions of the library.
///
/// # Errors
/// The memory of Lua is used up.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

/// What a letter of a format means.
#[derive(Clone, Copy)]
enum Item {
    Integer {
        size: usize,
        is_signed: bool,
    },
    Float,
    Double,
    /// A byte that is skipped.
    Padding,
    /// A string of a length; 0 for all of it.
    Characters(usize),
    /// A string with a zero at its end.
    Text,
}

impl Item {
    fn size(self) -> usize {
        match self {
            Item::Integer { size, .. } | Item::Characters(size) => size,
            Item::Float => 4,
            Item::Double => 8,
            Item::Padding => 1,
            Item::Text => 0,
        }
    }
}

/// A format that is read.
struct Format<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
    alignment: usize,
}

impl Format<'_> {
    fn new(text: &[u8]) -> Format<'_> {
        Format { rest: text, is_big_endian: cfg!(target_endian = "big"), alignment: 1 }
    }

    /// Reads a number, if there is one.
    fn number(&mut self, otherwise: usize) -> Result<usize, String> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(otherwise);
        }
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<i32>().ok());
        number.map(|number| number as usize).ok_or_else(|| "integral size overflow".to_owned())
    }

    /// Returns the next item. The options before it take effect.
    fn next(&mut self, function: &str) -> Result<Option<Item>, String> {
        loop {
            let Some((letter, rest)) = self.rest.split_first() else { return Ok(None) };
            self.rest = rest;
            let is_signed = letter.is_ascii_lowercase();
            let size = match letter {
                b'b' | b'B' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' => 8,
                b'i' | b'I' => self.number(4)?,
                b'f' => return Ok(Some(Item::Float)),
                b'd' => return Ok(Some(Item::Double)),
                b'x' => return Ok(Some(Item::Padding)),
                b's' => return Ok(Some(Item::Text)),
                b'c' => return Ok(Some(Item::Characters(self.number(1)?))),
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big_endian = *letter == b'>';
                    continue;
                }
                b'!' => {
                    self.alignment = self.number(ALIGNMENT)?;
                    if !self.alignment.is_power_of_two() {
                        return Err(format!("alignment {} is not a power of 2", self.alignment));
                    }
                    continue;
                }
                other => {
                    let letter = char::from(*other);
                    return Err(format!(
                        "bad argument #1 to '{function}' (invalid format option '{letter}')"
                    ));
                }
            };
            if size > INTEGER_BYTES_MAX {
                return Err(format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"));
            }
            return Ok(Some(Item::Integer { size, is_signed }));
        }
    }

    /// Returns the bytes between a position and an item that begins there or after it.
    fn gap(&self, item: Item, position: usize) -> usize {
        let size = item.size().min(self.alignment);
        if size == 0 || matches!(item, Item::Characters(_)) {
            return 0;
        }
        (size - (position & (size - 1))) & (size - 1)
    }

    /// Returns bytes of little endian in the order of the format, and back.
    fn in_order(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.is_big_endian {
            bytes.reverse();
        }
        bytes
    }
}

fn text_argument(lua: &Lua, arguments: &MultiValue, at: usize, function: &str) -> mlua::Result<Vec<u8>> {
    let argument = arguments.get(at);
    let text = argument.cloned().map(|argument| lua.coerce_string(argument)).transpose()?.flatten();
    // What is missing is nil, but for the format.
    let got = argument.or(Some(&Value::Nil).filter(|_| at > 0));
    let text = text.ok_or_else(|| wrong_argument(lua, at + 1, function, "string", got))?;
    Ok(text.as_bytes().to_vec())
}

fn number_argument(lua: &Lua, arguments: &MultiValue, at: usize) -> mlua::Result<f64> {
    let argument = arguments.get(at);
    let number = argument.cloned().map(|argument| lua.coerce_number(argument)).transpose()?.flatten();
    let got = argument.or(Some(&Value::Nil));
    number.ok_or_else(|| wrong_argument(lua, at + 1, "pack", "number", got))
}

fn pack(lua: &Lua, arguments: MultiValue) -> mlua::Result<Value> {
    let text = text_argument(lua, &arguments, 0, "pack")?;
    let mut format = Format::new(&text);
    let (mut out, mut at) = (Vec::new(), 1);
    while let Some(item) = format.next("pack").map_err(|error| error_at(lua, &error))? {
        out.resize(out.len() + format.gap(item, out.len()), 0);
        match item {
            Item::Integer { size, .. } => {
                let number = number_argument(lua, &arguments, at)?;
                let bits = if number < 0.0 { (number as i64) as u64 } else { number as u64 };
                let mut bytes = bits.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                out.extend(format.in_order(bytes));
            }
            Item::Float => {
                let number = number_argument(lua, &arguments, at)? as f32;
                out.extend(format.in_order(number.to_le_bytes().to_vec()));
            }
            Item::Double => {
                let number = number_argument(lua, &arguments, at)?;
                out.extend(format.in_order(number.to_le_bytes().to_vec()));
            }
            Item::Padding => out.push(0),
            Item::Characters(_) | Item::Text => {
                let string = text_argument(lua, &arguments, at, "pack")?;
                let size = if item.size() == 0 { string.len() } else { item.size() };
                let part = string.get(..size).ok_or_else(|| {
                    error_at(lua, &format!("bad argument #{} to 'pack' (string too short)", at + 2))
                })?;
                check_built(lua, out.len() + part.len())?;
                out.extend_from_slice(part);
                out.extend(matches!(item, Item::Text).then_some(0));
            }
        }
        at += usize::from(!matches!(item, Item::Padding));
    }
    lua.create_string(out).map(Value::String)
}

fn unpack(lua: &Lua, arguments: MultiValue) -> mlua::Result<MultiValue> {
    let text = text_argument(lua, &arguments, 0, "unpack")?;
    let data = text_argument(lua, &arguments, 1, "unpack")?;
    let mut position = match arguments.get(2) {
        None | Some(Value::Nil) => 0,
        Some(value) => match number_of(value) {
            Some(number) if number >= 1.0 => number as usize - 1,
            _ => return Err(error_at(lua, "bad argument #3 to 'unpack' (offset must be 1 or greater)")),
        },
    };
    let mut format = Format::new(&text);
    let mut values = Vec::new();
    let too_short = || error_at(lua, "bad argument #2 to 'unpack' (data string too short)");
    while let Some(item) = format.next("unpack").map_err(|error| error_at(lua, &error))? {
        position += format.gap(item, position);
        let rest = data.get(position..).ok_or_else(too_short)?;
        let mut size = item.size();
        let mut bytes = rest.get(..size).ok_or_else(too_short)?;
        let value = match item {
            Item::Integer { is_signed, .. } => {
                Value::Number(integer(format.in_order(bytes.to_vec()), is_signed))
            }
            Item::Float => {
                let number = format.in_order(bytes.to_vec()).try_into().map(f32::from_le_bytes);
                Value::Number(f64::from(number.unwrap_or_default()))
            }
            Item::Double => {
                let number = format.in_order(bytes.to_vec()).try_into().map(f64::from_le_bytes);
                Value::Number(number.unwrap_or_default())
            }
            Item::Padding => {
                position += size;
                continue;
            }
            Item::Characters(_) => {
                if size == 0 {
                    let length = values.pop().as_ref().and_then(number_of);
                    let length = length.ok_or_else(|| error_at(lua, "format 'c0' needs a previous size"))?;
                    size = length as usize;
                    bytes = rest.get(..size).ok_or_else(too_short)?;
                }
                Value::String(lua.create_string(bytes)?)
            }
            Item::Text => {
                let end = rest.iter().position(|byte| *byte == 0);
                let end = end.ok_or_else(|| error_at(lua, "unfinished string in data"))?;
                size = end + 1;
                Value::String(lua.create_string(&rest[..end])?)
            }
        };
        values.push(value);
        position += size;
    }
    values.push(Value::Integer(position as i64 + 1));
    Ok(MultiValue::from_vec(values))
}

/// Returns the number of bytes in little endian. More than eight are cut off.
fn integer(mut bytes: Vec<u8>, is_signed: bool) -> f64 {
    let is_negative = is_signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    bytes.resize(8, if is_negative { 0xff } else { 0 });
    let bits = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    if is_signed { bits as i64 as f64 } else { bits as f64 }
}

fn size(lua: &Lua, arguments: MultiValue) -> mlua::Result<usize> {
    let text = text_argument(lua, &arguments, 0, "size")?;
    let mut format = Format::new(&text);
    let mut position = 0_usize;
    while let Some(item) = format.next("size").map_err(|error| error_at(lua, &error))? {
        let name = match item {
            Item::Text => Some("s"),
            Item::Characters(0) => Some("c0"),
            _ => None,
        };
        if let Some(name) = name {
            return Err(error_at(
                lua,
                &format!("bad argument #1 to 'size' (option '{name}' has no fixed size)"),
            ));
        }
        position += format.gap(item, position) + item.size();
    }
    Ok(position)
}
