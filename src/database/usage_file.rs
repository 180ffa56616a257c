//! The file `USAGE`: the number of operations on a database since it was created, for the planner.
//! docs/formats/usage.md describes it.
//!
//! It is not part of the data. It is written about once per minute and not synced. If it is missing or damaged, the
//! counts start at zero.

use crate::error::Result;
use crate::names::USAGE_NAME;
use crate::stats::Usage;
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::Reader;
use siltstone_index::coding::checksum;

/// The version of the format.
pub const USAGE_VERSION: u32 = 1;
/// The length of the file, in bytes.
pub const USAGE_BYTES: usize = 112;

const MAGIC: &[u8; 8] = b"SILTUSED";
/// The name under which the file is written before it is renamed.
const NEW_NAME: &str = "USAGE.new";

/// Returns whether this is the name of the file, or of one that is to replace it.
pub(super) fn owns(name: &str) -> bool {
    [USAGE_NAME, NEW_NAME].contains(&name)
}

/// Returns the bytes of the file.
pub fn encode(usage: &Usage) -> [u8; USAGE_BYTES] {
    let mut bytes = [0; USAGE_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&USAGE_VERSION.to_le_bytes());
    let numbers = [
        usage.open_ms,
        usage.gets,
        usage.misses,
        usage.puts,
        usage.deletes,
        usage.key_bytes,
        usage.value_bytes,
        usage.written_bytes,
        usage.records,
        usage.counted_writes,
        usage.saved_at_ms,
    ];
    for (field, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    let crc = checksum::crc32c(&bytes[..USAGE_BYTES - 4]);
    bytes[USAGE_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the bytes of the file. Returns `None` if they are damaged or have another version.
pub fn decode(bytes: &[u8]) -> Option<Usage> {
    let mut fields = Reader::new(bytes);
    if fields.bytes(8)? != MAGIC || fields.u32()? != USAGE_VERSION {
        return None;
    }
    fields.u32()?;
    let usage = Usage {
        open_ms: fields.u64()?,
        gets: fields.u64()?,
        misses: fields.u64()?,
        puts: fields.u64()?,
        deletes: fields.u64()?,
        key_bytes: fields.u64()?,
        value_bytes: fields.u64()?,
        written_bytes: fields.u64()?,
        records: fields.u64()?,
        counted_writes: fields.u64()?,
        saved_at_ms: fields.u64()?,
    };
    // Compares all bytes: the checksum and the reserved ones.
    (bytes == encode(&usage)).then_some(usage)
}

/// Removes a file that a crash left half-written. Returns the length of `USAGE` in bytes, or 0 if it does not exist.
pub fn tidy(directory: &Directory) -> Result<u64> {
    let names = directory.list()?;
    if names.iter().any(|name| name == NEW_NAME) && !directory.is_read_only() {
        directory.remove(NEW_NAME)?;
    }
    if !names.iter().any(|name| name == USAGE_NAME) {
        return Ok(0);
    }
    Ok(directory.open(USAGE_NAME, Access::Buffered)?.length()?)
}

/// Reads the file of a directory. Returns `None` if it does not exist or is damaged.
pub fn read(directory: &Directory) -> Option<Usage> {
    let file = directory.open(USAGE_NAME, Access::Buffered).ok()?;
    // Before the read, because the length is not trusted.
    if file.length().ok()? != USAGE_BYTES as u64 {
        return None;
    }
    let mut buffer = AlignedBuffer::default();
    decode(file.read(Purpose::Maintain, 0, USAGE_BYTES, &mut buffer).ok()?)
}

/// Replaces the file by one with these counts. Readers in other processes see the old counts or the new ones.
pub fn write(directory: &Directory, usage: &Usage) -> Result<()> {
    // Left by a crash: `create` refuses a name that exists.
    if directory.list()?.iter().any(|name| name == NEW_NAME) {
        directory.remove(NEW_NAME)?;
    }
    let file = directory.create(NEW_NAME, Access::Buffered)?;
    // Without a sync: after a loss of power the checksum may be wrong, and the counts begin at zero.
    let outcome = file.write(Purpose::Maintain, 0, &encode(usage));
    drop(file);
    let outcome = outcome.and_then(|()| directory.rename(NEW_NAME, USAGE_NAME));
    if outcome.is_err() {
        directory.remove(NEW_NAME)?;
    }
    Ok(outcome?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use siltstone_device::memory::MemoryDirectory;

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let usage = Usage { gets: 5, records: 7, saved_at_ms: 1 << 40, ..Usage::default() };
        let directory = Directory::new(MemoryDirectory::default(), Access::Buffered);
        assert_eq!(read(&directory), None);
        write(&directory, &Usage::default()).unwrap();
        write(&directory, &usage).unwrap();
        assert_eq!(read(&directory), Some(usage));
        assert_eq!(directory.list().unwrap(), [USAGE_NAME]);
        let bytes = encode(&usage);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bad), None, "bit {bit}");
        }
        (0..bytes.len()).for_each(|length| assert_eq!(decode(&bytes[..length]), None));
        directory.open(USAGE_NAME, Access::Buffered).unwrap().truncate(90).unwrap();
        assert_eq!(read(&directory), None);
    }
}
