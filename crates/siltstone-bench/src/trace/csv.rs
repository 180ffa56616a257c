//! Tables of requests: one per line, with comma-separated fields, in the format of the traces of Twitter's caches (Yang
//! et al., "A large scale analysis of hundreds of in-memory cache clusters at Twitter", OSDI 2020).
//!
//! The fields are `timestamp` in seconds, `key`, `key_size`, `value_size`, `client`, `op`, and `ttl` in seconds. A key
//! may contain commas. Every operation that writes a value counts as a set: the table does not record whether an `add`
//! or a `cas` succeeded.

use super::{Kind, Operation, Result, TraceError, identity_of};
use siltstone::key::{KEY_LENGTH_MAX, VALUE_LENGTH_MAX};
use std::io::{BufRead, Read};

/// The maximum length of a line.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The number of fields after the key.
const FIELDS_BEHIND: usize = 5;
/// What some programs begin a text with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the operations of a table, up to the first error. A header in the first line, and empty lines, are skipped.
pub struct CsvReader<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
    start_ms: Option<u64>,
    ended: bool,
}

impl<R: BufRead> CsvReader<R> {
    /// Creates a reader for a table.
    pub fn new(source: R) -> Self {
        CsvReader { source, line: Vec::new(), number: 0, start_ms: None, ended: false }
    }

    fn next_operation(&mut self) -> Result<Option<Operation>> {
        loop {
            self.line.clear();
            self.number += 1;
            if (&mut self.source).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            let mut line = self.line.trim_ascii();
            if self.number == 1 {
                line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            }
            if line.is_empty() || (self.number == 1 && is_header(line)) {
                continue;
            }
            let parsed = parse(line).map_err(|problem| TraceError::Line { line: self.number, problem })?;
            let start_ms = *self.start_ms.get_or_insert(parsed.time_ms);
            return Ok(Some(Operation { time_ms: parsed.time_ms.saturating_sub(start_ms), ..parsed }));
        }
    }
}

impl<R: BufRead> Iterator for CsvReader<R> {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_operation().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Returns whether a first line has the names of the columns. Anything else is parsed, and is an error if it is no
/// request: a file of another format would be a trace without requests.
fn is_header(line: &[u8]) -> bool {
    let has_all_columns = || line.iter().filter(|byte| **byte == b',').count() > FIELDS_BEHIND;
    let is_text = || std::str::from_utf8(line).is_ok();
    let has_time = line.first().is_some_and(u8::is_ascii_digit);
    line.starts_with(b"timestamp") || (!has_time && has_all_columns() && is_text())
}

/// Parses a line. The time is the table's.
fn parse(line: &[u8]) -> std::result::Result<Operation, String> {
    let mut behind: Vec<&[u8]> = line.rsplitn(FIELDS_BEHIND + 1, |byte| *byte == b',').collect();
    let before = if behind.len() > FIELDS_BEHIND { behind.pop() } else { None };
    let time_and_key = before.and_then(|before| {
        let comma = before.iter().position(|byte| *byte == b',')?;
        Some((&before[..comma], &before[comma + 1..]))
    });
    let (Some((time, key)), [time_to_live, operation, _client, value_size, key_size]) =
        (time_and_key, &behind[..])
    else {
        return Err("timestamp,key,key_size,value_size,client,op,ttl are wanted".to_owned());
    };
    let kind = kind_of(operation)
        .ok_or_else(|| format!("{} is no operation of a cache", String::from_utf8_lossy(operation)))?;
    let value_length = number("value_size", value_size, VALUE_LENGTH_MAX as u64)? as u32;
    let key_size = number("key_size", key_size, KEY_LENGTH_MAX as u64)? as usize;
    Ok(Operation {
        kind,
        key: identity_of(key),
        key_length: key_length(key, key_size)?,
        value_length,
        time_ms: time_ms(time)?,
        time_to_live_s: number("ttl", time_to_live, u32::MAX.into())? as u32,
    })
}

fn kind_of(operation: &[u8]) -> Option<Kind> {
    match operation {
        b"get" | b"gets" => Some(Kind::Get),
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => Some(Kind::Set),
        b"delete" => Some(Kind::Delete),
        _ => None,
    }
}

/// Returns the recorded length of a key. An anonymised key may be longer than recorded; it keeps its own length,
/// because a truncated key could equal another.
fn key_length(key: &[u8], key_size: usize) -> std::result::Result<u16, String> {
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let length = if key_size >= 8 { key_size } else { key_size.max(key.len().min(8)) };
    u16::try_from(length).map_err(|_| format!("key_size is {length}: {KEY_LENGTH_MAX} is the most"))
}

/// Parses seconds, possibly with a fraction, to milliseconds.
fn time_ms(time: &[u8]) -> std::result::Result<u64, String> {
    let mut parts = time.splitn(2, |byte| *byte == b'.');
    let seconds = number("timestamp", parts.next().unwrap_or_default(), u64::MAX / 1000 - 1)?;
    let mut milliseconds = [b'0'; 3];
    let fraction = parts.next().unwrap_or_default();
    milliseconds.iter_mut().zip(fraction).for_each(|(to, from)| *to = *from);
    Ok(seconds * 1000 + number("timestamp", &milliseconds, 999)?)
}

fn number(name: &str, digits: &[u8], most: u64) -> std::result::Result<u64, String> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let number: u64 =
        number.ok_or_else(|| format!("{name} is no number: {}", String::from_utf8_lossy(digits)))?;
    if number <= most { Ok(number) } else { Err(format!("{name} is {number}: {most} is the most")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str) -> Result<Vec<Operation>> {
        CsvReader::new(table.as_bytes()).collect()
    }

    #[test]
    fn the_lines_of_a_cache_become_operations() {
        let table = "timestamp,key,key_size,value_size,client,op,ttl\n\
                     100,nz:u:eeW511W3dcH3de3d15ec,22,400,28,get,0\n\
                     100,nz:u:eeW511W3dcH3de3d15ec,22,401,28,add,3600\r\n\n\
                     102.25,a,b,3,0,1,delete,0";
        let operations = read(table).unwrap();
        let key = identity_of(b"nz:u:eeW511W3dcH3de3d15ec");
        let first = Operation {
            kind: Kind::Get,
            key,
            key_length: 22,
            value_length: 400,
            time_ms: 0,
            time_to_live_s: 0,
        };
        assert_eq!(operations[0], first);
        assert_eq!(
            operations[1],
            Operation { kind: Kind::Set, value_length: 401, time_to_live_s: 3600, ..first }
        );
        let delete = Operation { kind: Kind::Delete, value_length: 0, time_ms: 2250, ..first };
        assert_eq!(operations[2], Operation { key: identity_of(b"a,b"), key_length: 3, ..delete });
        assert_eq!(operations.len(), 3);
    }

    #[test]
    fn short_anonymised_keys_stay_different() {
        let operations = read("1,anonymous-one,2,0,1,get,0\n1,anonymous-two,2,0,1,get,0").unwrap();
        let keys: Vec<Vec<u8>> = operations
            .iter()
            .map(|operation| {
                let mut key = Vec::new();
                operation.write_key(&mut key);
                key
            })
            .collect();
        assert!(keys[0] != keys[1] && keys[0].len() == 8);
    }

    #[test]
    fn a_wrong_line_is_named_with_its_number() {
        for (line, named) in [
            ("1,k,1,1,1,get", "are wanted"),
            ("1,k,1,1,1,steal,0", "steal"),
            ("now,k,1,1,1,get,0", "timestamp"),
            ("1.x,k,1,1,1,get,0", "timestamp"),
            ("18446744073709551615,k,1,1,1,get,0", "timestamp"),
            ("1,k,65536,1,1,get,0", "key_size"),
            ("1,k,1,-1,1,get,0", "value_size"),
            ("1,k,1,268435457,1,get,0", "value_size"),
            ("1,,1,1,1,get,0", "empty"),
            ("1,k,1,1,1,get,4294967296", "ttl"),
        ] {
            let problem = read(&format!("1,k,1,1,1,get,0\n{line}\n")).unwrap_err().to_string();
            assert!(problem.starts_with("line 2: ") && problem.contains(named), "{line}: {problem}");
        }
        assert!(CsvReader::new(&[b'1'; 3 << 20][..]).next().unwrap().is_err());
    }

    #[test]
    fn a_first_line_is_a_header_only_if_it_can_be_one() {
        let request = "1,k,1,1,1,get,0\n";
        for header in
            ["timestamp\n", "timestamp,key,key_size,value_size,client,op,ttl\n", "a,b,c,d,e,f,g\r\n", ""]
        {
            for mark in ["", "\u{feff}"] {
                assert_eq!(read(&format!("{mark}{header}{request}")).unwrap().len(), 1, "{mark:?}{header}");
            }
        }
        let commas_of_no_text = [&[0xff][..], &[b','; 9]].concat();
        for wrong in [&[0xff; 100][..], b"PK\x03\x04", b"a,b,c\n", b"{\"key\":1}\n", &commas_of_no_text[..]] {
            let problem = CsvReader::new(wrong).next().unwrap().unwrap_err().to_string();
            assert!(problem.starts_with("line 1: "), "{problem}");
        }
    }
}
