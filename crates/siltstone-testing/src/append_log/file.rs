//! The file of a database: `MANIFEST`, with the header that all engines share and a frame for each call of `write`.
//!
//! ```text
//! | header, 64 bytes | frame | frame | frame |
//!
//! frame   | CRC-32C of the rest: u32 | length of the body: u32 | body |
//! body    a record for each write of the call:
//!         | kind: u8 | length of the key: u16 | length of the value: u32 | expires at, in ms: u64 | key | value |
//! kind    0 tombstone, 1 put
//! ```
//!
//! All numbers are little-endian. A call is in one frame, so recovery finds all of its writes or none. The first bytes
//! that are no frame are the torn end of the log.

use bytes::Bytes;
use siltstone::batch::{TimestampMs, Write};
use siltstone::names::{MANIFEST_NAME, NEW_MANIFEST_NAME};
use siltstone::store::manifest::{HEADER_BYTES, Header};
use siltstone::{Error, Result};
use siltstone_device::{Access, AlignedBuffer, Directory, File, Purpose};
use siltstone_index::coding::{Reader, checksum};
use std::collections::BTreeMap;

/// The value of a key.
#[derive(Clone, PartialEq)]
pub struct Value {
    pub bytes: Bytes,
    pub expires_at_ms: TimestampMs,
}

/// All records, in the order of their keys.
pub type Map = BTreeMap<Bytes, Value>;

const FRAME_HEADER_BYTES: usize = 8;
const KIND_TOMBSTONE: u8 = 0;
const KIND_PUT: u8 = 1;

/// Makes the frame of a call.
pub fn encode_frame<'a>(writes: impl Iterator<Item = Write<'a>>) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    for write in writes {
        let (kind, key, value, expires_at_ms) = match write {
            Write::Delete { key } => (KIND_TOMBSTONE, key, &[][..], 0),
            Write::Put { key, value, expires_at_ms } => (KIND_PUT, key, value, expires_at_ms),
        };
        frame.push(kind);
        frame.extend((key.len() as u16).to_le_bytes());
        frame.extend((value.len() as u32).to_le_bytes());
        frame.extend(expires_at_ms.to_le_bytes());
        frame.extend(key);
        frame.extend(value);
    }
    let length = (frame.len() - FRAME_HEADER_BYTES) as u32;
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    let crc = checksum::crc32c(&frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// Reads the frame at the start of `bytes`. Returns its writes and its length, or `None` if there is no intact frame.
fn decode_frame(bytes: &[u8]) -> Option<(Vec<Write<'_>>, usize)> {
    let mut fields = Reader::new(bytes);
    let (crc, length) = (fields.u32()?, fields.u32()? as usize);
    let body = fields.bytes(length)?;
    if checksum::crc32c(&bytes[4..fields.at()]) != crc {
        return None;
    }
    let (mut writes, mut body) = (Vec::new(), Reader::new(body));
    while body.at() < length {
        let kind = body.u8()?;
        let (key_length, value_length) = (body.u16()? as usize, body.u32()? as usize);
        let expires_at_ms = body.u64()?;
        let (key, value) = (body.bytes(key_length)?, body.bytes(value_length)?);
        writes.push(match kind {
            KIND_TOMBSTONE => Write::Delete { key },
            KIND_PUT => Write::Put { key, value, expires_at_ms },
            _ => return None,
        });
    }
    Some((writes, fields.at()))
}

/// Applies a write to the records.
pub fn apply(write: &Write<'_>, records: &mut Map) {
    match *write {
        Write::Delete { key } => drop(records.remove(key)),
        Write::Put { key, value, expires_at_ms } => {
            let value = Value { bytes: Bytes::copy_from_slice(value), expires_at_ms };
            records.insert(Bytes::copy_from_slice(key), value);
        }
    }
}

/// What a file contains.
#[derive(Default)]
pub struct Contents {
    pub records: Map,
    /// The number of writes in all frames.
    pub writes: u64,
    /// The end of the last intact frame.
    pub end: u64,
    /// The bytes after it.
    pub torn: Vec<u8>,
}

/// Reads the file of a database.
///
/// # Errors
/// [`Error::Interrupted`] if `progress` returns false. [`Error::Io`] if the file cannot be read.
pub fn read(file: &File, purpose: Purpose, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Contents> {
    let mut buffer = AlignedBuffer::default();
    let length = file.length()?;
    let bytes = file.read(purpose, 0, length as usize, &mut buffer)?;
    let mut contents = Contents { end: HEADER_BYTES as u64, ..Contents::default() };
    while let Some((writes, length)) = decode_frame(&bytes[contents.end as usize..]) {
        if !progress(contents.end, bytes.len() as u64) {
            return Err(Error::Interrupted);
        }
        writes.iter().for_each(|write| apply(write, &mut contents.records));
        contents.writes += writes.len() as u64;
        contents.end += length as u64;
    }
    contents.torn = bytes[contents.end as usize..].to_vec();
    if !progress(bytes.len() as u64, bytes.len() as u64) {
        return Err(Error::Interrupted);
    }
    Ok(contents)
}

/// Writes a database with these records to the directory, in place of the one that may be there, and durably. Returns
/// the file and its length.
pub fn replace(directory: &Directory, header: &Header, records: &Map) -> Result<(File, u64)> {
    remove_unfinished(directory)?;
    let file = directory.create(NEW_MANIFEST_NAME, Access::Buffered)?;
    let mut bytes = header.encode().to_vec();
    for (key, value) in records {
        let put = Write::Put { key, value: &value.bytes, expires_at_ms: value.expires_at_ms };
        bytes.extend(encode_frame(std::iter::once(put)));
    }
    file.write(Purpose::Merge, 0, &bytes)?;
    // The new file is durable before it has the name, and the name is durable before anything depends on it.
    file.sync(Purpose::Merge)?;
    directory.rename(NEW_MANIFEST_NAME, MANIFEST_NAME)?;
    directory.sync(Purpose::Merge)?;
    Ok((directory.open(MANIFEST_NAME, Access::Buffered)?, bytes.len() as u64))
}

/// Removes the file of a replacement that was interrupted.
pub fn remove_unfinished(directory: &Directory) -> Result<()> {
    let names = directory.list()?;
    if names.iter().any(|name| name == NEW_MANIFEST_NAME) {
        Ok(directory.remove(NEW_MANIFEST_NAME)?)
    } else {
        Ok(())
    }
}
