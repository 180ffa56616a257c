//! `cjson`: JSON as the library lua-cjson reads and writes it. Strings are any bytes, an empty table is `{}`, a table
//! whose keys are 1 to n is an array, and null is `cjson.null`.

use super::convert::{DEPTH_MAX, number_of};
use super::numbers::general;
use super::raised::{check_built, error_at, name_of_type, wrong_argument};
use mlua::{Lua, MultiValue, Table, Value};

/// The digits of numbers.
const DIGITS: usize = 14;

/// An array may lack as many items as it has, and any number up to this.
const SPARSE_LENGTH_MAX: usize = 10;

/// Returns the functions of the library.
///
/// # Errors
/// The memory of Lua is used up.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("encode", lua.create_function(encode)?)?;
    table.raw_set("decode", lua.create_function(decode)?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn one_argument(lua: &Lua, function: &str, arguments: MultiValue) -> mlua::Result<Value> {
    let mut arguments = arguments.into_iter();
    match (arguments.next(), arguments.next()) {
        (Some(argument), None) => Ok(argument),
        _ => Err(error_at(lua, &format!("bad argument #1 to '{function}' (expected 1 argument)"))),
    }
}

fn encode(lua: &Lua, arguments: MultiValue) -> mlua::Result<Value> {
    let value = one_argument(lua, "encode", arguments)?;
    let mut encoder = Encoder { lua, out: Vec::new() };
    encoder.value(&value, 0)?;
    lua.create_string(&encoder.out).map(Value::String)
}

struct Encoder<'a> {
    lua: &'a Lua,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn cannot(&self, value: &Value, why: &str) -> mlua::Error {
        error_at(self.lua, &format!("Cannot serialise {}: {why}", name_of_type(value)))
    }

    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        check_built(self.lua, self.out.len())?;
        match value {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => self.number(value)?,
            Value::Boolean(true) => self.out.extend(b"true"),
            Value::Boolean(false) => self.out.extend(b"false"),
            Value::Table(_) if depth >= DEPTH_MAX => {
                let text = format!("Cannot serialise, excessive depth ({})", depth + 1);
                return Err(error_at(self.lua, &text));
            }
            Value::Table(table) => match self.array_length(table)? {
                Some(length) => self.array(table, length, depth + 1)?,
                None => self.object(table, depth + 1)?,
            },
            Value::Nil => self.out.extend(b"null"),
            null if *null == Value::NULL => self.out.extend(b"null"),
            other => return Err(self.cannot(other, "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) -> mlua::Result<()> {
        match number_of(value).filter(|number| number.is_finite()) {
            Some(number) => self.out.extend(general(number, DIGITS).into_bytes()),
            None => return Err(self.cannot(value, "must not be NaN or Inf")),
        }
        Ok(())
    }

    /// Returns the length of a table that is an array: all its keys are whole numbers above 0, and there is one.
    fn array_length(&self, table: &Table) -> mlua::Result<Option<usize>> {
        let (mut items, mut last) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(key @ 1..) => last = last.max(key as usize),
                _ => return Ok(None),
            }
            items += 1;
        }
        if last > 2 * items && last > SPARSE_LENGTH_MAX {
            return Err(self.cannot(&Value::Table(table.clone()), "excessively sparse array"));
        }
        Ok(Some(last).filter(|last| *last > 0))
    }

    fn array(&mut self, table: &Table, length: usize, depth: usize) -> mlua::Result<()> {
        self.out.push(b'[');
        for at in 1..=length {
            if at > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(at)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        self.out.push(b'{');
        let start = self.out.len();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if self.out.len() > start {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.number(&key)?;
                    self.out.push(b'"');
                }
                other => return Err(self.cannot(other, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> mlua::Result<()> {
        check_built(self.lua, self.out.len() + text.len())?;
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend([b'\\', *byte]),
                b'\x08' => self.out.extend(b"\\b"),
                b'\t' => self.out.extend(b"\\t"),
                b'\n' => self.out.extend(b"\\n"),
                b'\x0c' => self.out.extend(b"\\f"),
                b'\r' => self.out.extend(b"\\r"),
                0..b' ' | 127 => self.out.extend(format!("\\u{byte:04x}").into_bytes()),
                _ => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
        Ok(())
    }
}

fn decode(lua: &Lua, arguments: MultiValue) -> mlua::Result<Value> {
    let value = one_argument(lua, "decode", arguments)?;
    let bytes = match &value {
        Value::String(text) => text.as_bytes().to_vec(),
        number if number_of(number).is_some() => {
            general(number_of(number).unwrap_or_default(), DIGITS).into_bytes()
        }
        other => return Err(wrong_argument(lua, 1, "decode", "string", Some(other))),
    };
    if bytes.len() >= 2 && bytes[..2].contains(&0) {
        return Err(error_at(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, bytes: &bytes, at: 0 };
    let token = decoder.token();
    let value = decoder.value(token, 0)?;
    let end = decoder.token();
    match end.kind {
        Kind::End => Ok(value),
        _ => Err(decoder.unexpected("the end", &end)),
    }
}

/// A part of a text of JSON.
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

struct Token {
    kind: Kind,
    at: usize,
}

struct Decoder<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn unexpected(&self, expected: &str, token: &Token) -> mlua::Error {
        let found = match token.kind {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(error) => error,
        };
        let place = token.at + 1;
        error_at(self.lua, &format!("Expected {expected} but found {found} at character {place}"))
    }

    fn value(&mut self, token: Token, depth: usize) -> mlua::Result<Value> {
        match token.kind {
            Kind::String(text) => self.lua.create_string(text).map(Value::String),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Boolean(is_true) => Ok(Value::Boolean(is_true)),
            Kind::Null => Ok(Value::NULL),
            Kind::ObjectBegin | Kind::ArrayBegin if depth >= DEPTH_MAX => {
                let (depth, at) = (depth + 1, self.at);
                let text = format!("Found too many nested data structures ({depth}) at character {at}");
                Err(error_at(self.lua, &text))
            }
            Kind::ObjectBegin => self.object(depth + 1),
            Kind::ArrayBegin => self.array(depth + 1),
            _ => Err(self.unexpected("value", &token)),
        }
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, Kind::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Kind::String(key) = &token.kind else {
                return Err(self.unexpected("object key string", &token));
            };
            let key = self.lua.create_string(key)?;
            token = self.token();
            if !matches!(token.kind, Kind::Colon) {
                return Err(self.unexpected("colon", &token));
            }
            token = self.token();
            table.raw_set(key, self.value(token, depth)?)?;
            token = self.token();
            match token.kind {
                Kind::ObjectEnd => return Ok(Value::Table(table)),
                Kind::Comma => token = self.token(),
                _ => return Err(self.unexpected("comma or object end", &token)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, Kind::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for at in 1.. {
            table.raw_set(at, self.value(token, depth)?)?;
            token = self.token();
            match token.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(self.unexpected("comma or array end", &token)),
            }
        }
        Ok(Value::Table(table))
    }

    /// Reads the next token. An error and the end are not passed.
    fn token(&mut self) -> Token {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.bytes[self.at..].iter().take_while(|byte| is_space(byte)).count();
        let at = self.at;
        let rest = &self.bytes[at..];
        let (kind, length) = match rest.first() {
            // A zero is the end, as in C.
            None | Some(0) => (Kind::End, 0),
            Some(b'{') => (Kind::ObjectBegin, 1),
            Some(b'}') => (Kind::ObjectEnd, 1),
            Some(b'[') => (Kind::ArrayBegin, 1),
            Some(b']') => (Kind::ArrayEnd, 1),
            Some(b':') => (Kind::Colon, 1),
            Some(b',') => (Kind::Comma, 1),
            Some(b'"') => {
                return match self.string() {
                    Ok(text) => Token { kind: Kind::String(text), at },
                    Err(error) => Token { kind: Kind::Error(error), at: self.at },
                };
            }
            _ if rest.starts_with(b"true") => (Kind::Boolean(true), 4),
            _ if rest.starts_with(b"false") => (Kind::Boolean(false), 5),
            _ if rest.starts_with(b"null") => (Kind::Null, 4),
            Some(b'-' | b'0'..=b'9' | b'+' | b'i' | b'I' | b'n' | b'N') => match number(rest) {
                Some((number, length)) => (Kind::Number(number), length),
                None if rest[0] == b'-' => (Kind::Error("invalid number"), 0),
                None => (Kind::Error("invalid token"), 0),
            },
            _ => (Kind::Error("invalid token"), 0),
        };
        self.at += length;
        Token { kind, at }
    }

    /// Reads a string. Stops at an error.
    fn string(&mut self) -> Result<Vec<u8>, &'static str> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                None | Some(0) => return Err("unexpected end of string"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(byte) => {
                    text.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let plain = match self.bytes.get(self.at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => b'\x08',
            Some(b'f') => b'\x0c',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let (letter, length) = self.unicode().ok_or("invalid unicode escape code")?;
                text.extend(letter.encode_utf8(&mut [0; 4]).bytes());
                self.at += length;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        text.push(plain);
        self.at += 2;
        Ok(())
    }

    /// Returns the letter of an escape with a number, or of two that make one letter, and their length.
    fn unicode(&self) -> Option<(char, usize)> {
        let unit = |at: usize| -> Option<u32> {
            let digits = self.bytes.get(self.at + at..self.at + at + 6)?.strip_prefix(b"\\u")?;
            digits.iter().try_fold(0, |unit, digit| Some(16 * unit + char::from(*digit).to_digit(16)?))
        };
        match unit(0)? {
            high @ 0xd800..0xdc00 => {
                let low = unit(6).filter(|low| (0xdc00..0xe000).contains(low))?;
                Some((char::from_u32(0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff))?, 12))
            }
            unit => Some((char::from_u32(unit)?, 6)),
        }
    }
}

/// Reads the number at the beginning of a text, and returns its length too. What C's `strtod` accepts is accepted.
fn number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    for word in ["infinity", "inf", "nan"] {
        let named = text.get(sign..sign + word.len());
        if named.is_some_and(|named| named.eq_ignore_ascii_case(word.as_bytes())) {
            return Some((parse(&text[..sign + word.len()])?, sign + word.len()));
        }
    }
    if let Some([b'0', b'x' | b'X']) = text.get(sign..sign + 2) {
        let digits = text[sign + 2..].iter().take_while(|byte| byte.is_ascii_hexdigit());
        let (number, length) = digits.fold((0.0, 0), |(number, length), digit| {
            (16.0 * number + f64::from(char::from(*digit).to_digit(16).unwrap_or_default()), length + 1)
        });
        if length > 0 {
            return Some((if text[0] == b'-' { -number } else { number }, sign + 2 + length));
        }
    }
    let mut end = sign + digits(sign);
    let mut count = end - sign;
    if text.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        count += fraction;
        end += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let from = end + 1 + usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        let exponent = text.get(from..).map_or(0, |_| digits(from));
        if exponent > 0 {
            end = from + exponent;
        }
    }
    Some((parse(&text[..end])?, end))
}

fn parse(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
