//! DUMP and RESTORE: values in the form of Redis's RDB files, version 10.
//!
//! ```text
//! type, 1 byte | value | version, 2 bytes | CRC-64 of all before, 8 bytes
//!
//! string        length, bytes
//! hash          number of fields, then each field and its value as strings
//! ```
//!
//! RESTORE also reads the numbers that a Redis writes, but no compressed strings and no compact hashes.

use super::UpdateCall;
use super::packed::Fields;
use crate::command::ReadCall;
use crate::command::arguments::{integer, is};
use crate::failure::{Failure, Outcome};
use crate::protocol::Reply;
use crate::store::{Entry, NEVER, NewValue, ValueType, has_expired};
use crc::{CRC_64_REDIS, Crc};

const STRING: u8 = 0;
const HASH: u8 = 4;
const VERSION: u16 = 10;

/// The bytes after the value.
const FOOTER_BYTES: usize = 10;

const BAD_DATA: Failure = Failure::new("ERR Bad data format");

fn checksum(bytes: &[u8]) -> u64 {
    static CRC: std::sync::OnceLock<Crc<u64>> = std::sync::OnceLock::new();
    CRC.get_or_init(|| Crc::<u64>::new(&CRC_64_REDIS)).checksum(bytes)
}

pub fn dump(call: &ReadCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    match call.first() {
        None => reply.null(),
        Some(Entry { value_type, value, .. }) => reply.bulk(&encode(value_type, value)?),
    }
    Ok(())
}

/// Returns the DUMP of a value.
pub fn encode(value_type: ValueType, value: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(value.len() + 32);
    match value_type {
        ValueType::String => {
            out.push(STRING);
            push_string(&mut out, value);
        }
        ValueType::Hash => {
            let fields = Fields::decode(value)?;
            out.push(HASH);
            push_length(&mut out, fields.len());
            for (field, value) in fields.iter() {
                push_string(&mut out, field);
                push_string(&mut out, value);
            }
        }
    }
    out.extend(VERSION.to_le_bytes());
    out.extend(checksum(&out).to_le_bytes());
    Ok(out)
}

fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..=0x3f => out.push(length as u8),
        0x40..=0x3fff => out.extend([0x40 | (length >> 8) as u8, length as u8]),
        _ => {
            out.push(0x80);
            // Values have at most 256 MiB.
            out.extend((length as u32).to_be_bytes());
        }
    }
}

/// RESTORE key ttl value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
pub fn restore(call: &mut UpdateCall<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (mut replaces, mut is_absolute) = (false, false);
    let mut options = &call.words[4..];
    while let [option, rest @ ..] = options {
        options = match rest {
            rest if is(option, "REPLACE") => {
                replaces = true;
                rest
            }
            rest if is(option, "ABSTTL") => {
                is_absolute = true;
                rest
            }
            // Nothing is evicted by its last use.
            [number, rest @ ..] if is(option, "IDLETIME") => {
                let is_time = integer(number)? >= 0;
                is_time.then_some(rest).ok_or(Failure::new("ERR Invalid IDLETIME value, must be >= 0"))?
            }
            [number, rest @ ..] if is(option, "FREQ") => {
                let is_frequency = (0..=255).contains(&integer(number)?);
                is_frequency
                    .then_some(rest)
                    .ok_or(Failure::new("ERR Invalid FREQ value, must be >= 0 and <= 255"))?
            }
            _ => return Err(Failure::SYNTAX),
        };
    }
    if !replaces && call.entry(0).is_some() {
        return Err(Failure::new("BUSYKEY Target key name already exists."));
    }
    let time = integer(call.words[2])?;
    let time = u64::try_from(time).map_err(|_| Failure::new("ERR Invalid TTL value, must be >= 0"))?;
    let value = decode(call.words[3])?;
    let expires_at_ms = match (time, is_absolute) {
        (0, _) => NEVER,
        (time, true) => time,
        (time, false) => time.saturating_add(call.now_ms),
    };
    if has_expired(expires_at_ms, call.now_ms) {
        // No change for those who watch the key, unless there was a value.
        call.state(0).delete();
    } else {
        call.put(0, value.expiring(expires_at_ms))?;
    }
    reply.ok();
    Ok(())
}

/// Returns the value of a DUMP, after its version and checksum were checked.
fn decode(dump: &[u8]) -> Result<NewValue, Failure> {
    let wrong = Failure::new("ERR DUMP payload version or checksum are wrong");
    let (content, footer) = dump.split_last_chunk::<FOOTER_BYTES>().ok_or(wrong.clone())?;
    let [low, high, crc @ ..] = *footer;
    let covered = &dump[..content.len() + 2];
    if u16::from_le_bytes([low, high]) > VERSION || checksum(covered) != u64::from_le_bytes(crc) {
        return Err(wrong);
    }
    decode_content(content)
}

/// Returns the value of a DUMP without what follows the value.
pub fn decode_content(content: &[u8]) -> Result<NewValue, Failure> {
    let (kind, value) = content.split_first().ok_or(BAD_DATA)?;
    let mut rest = Rest(value);
    let value = match *kind {
        STRING => NewValue::string(rest.string()?),
        HASH => {
            let Length::Bytes(fields) = rest.length()? else { return Err(BAD_DATA) };
            let pairs = (0..fields).map(|_| Ok((rest.string()?, rest.string()?)));
            hash(&pairs.collect::<Result<Vec<_>, Failure>>()?)?
        }
        _ => return Err(BAD_DATA),
    };
    if rest.0.is_empty() { Ok(value) } else { Err(BAD_DATA) }
}

fn hash(pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<NewValue, Failure> {
    let mut fields = Fields::default().for_many(pairs.len());
    for (field, value) in pairs {
        // A field that is there twice is damage, as in Redis. So is a hash without fields.
        if !fields.set(field, &value[..]) {
            return Err(BAD_DATA);
        }
    }
    if pairs.is_empty() {
        return Err(BAD_DATA);
    }
    Ok(NewValue {
        value_type: ValueType::Hash,
        bytes: fields.encode()?.into(),
        expires_at_ms: NEVER,
        mark: None,
    })
}

/// What a length says.
enum Length {
    Bytes(usize),
    /// A number of this many bytes, as a string.
    Number(usize),
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(BAD_DATA)?;
        self.0 = rest;
        Ok(taken)
    }

    fn length(&mut self) -> Result<Length, Failure> {
        let first = self.take(1)?[0];
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
        Ok(match first >> 6 {
            0 => Length::Bytes(usize::from(first)),
            1 => Length::Bytes(usize::from(first & 0x3f) << 8 | usize::from(self.take(1)?[0])),
            2 if first == 0x80 => Length::Bytes(number(self.take(4)?)),
            3 if first & 0x3f < 3 => Length::Number(1 << (first & 0x3f)),
            _ => return Err(BAD_DATA),
        })
    }

    fn string(&mut self) -> Result<Vec<u8>, Failure> {
        match self.length()? {
            Length::Bytes(bytes) => Ok(self.take(bytes)?.to_vec()),
            Length::Number(bytes) => {
                let bytes = self.take(bytes)?;
                let mut number = [if bytes.last().is_some_and(|last| last >> 7 == 1) { 0xff } else { 0 }; 4];
                number[..bytes.len()].copy_from_slice(bytes);
                Ok(i32::from_le_bytes(number).to_string().into_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_are_those_of_redis() {
        // DUMP of the strings "10" and "hello" by Redis 7.0.
        let ten = b"\x00\xc0\x0a\x0a\x00";
        let with_checksum = |bytes: &[u8]| [bytes, &checksum(bytes).to_le_bytes()].concat();
        assert_eq!(decode(&with_checksum(ten)).unwrap().bytes, "10");
        assert_eq!(decode(&with_checksum(b"\x00\xc1\x00\xff\x0a\x00")).unwrap().bytes, "-256");
        assert_eq!(decode(&with_checksum(b"\x00\x05hello\x0a\x00")).unwrap().bytes, "hello");
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        for wrong in [
            &b"\x00\x06hello\x0a\x00"[..],
            b"\x01\x05hello\x0a\x00",
            b"\x00\x05hellox\x0a\x00",
            b"\x04\x00\x0a\x00",
        ] {
            assert_eq!(decode(&with_checksum(wrong)).unwrap_err(), BAD_DATA);
        }
        assert!(decode(b"").is_err() && decode(&with_checksum(b"\x00\x05hello\x0b\x00")).is_err());
    }
}
