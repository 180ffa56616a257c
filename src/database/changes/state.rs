//! The file `CHANGES`: what the log of the change feed has, and whether it can be continued.
//! docs/formats/changes.md has the bytes.

use crate::error::Result;
use crate::names::{CHANGES_NAME, FileName, NEW_CHANGES_NAME};
use siltstone_device::{Access, AlignedBuffer, Directory, Purpose};
use siltstone_index::coding::{Reader, checksum};
use std::ops::RangeInclusive;

/// The limits of [`Builder::change_feed`](crate::Builder::change_feed), in bytes.
pub const FEED_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 50;

/// The version of the format.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"SILTFEED";
/// The bytes before the opens.
const HEAD_BYTES: usize = 56;
const OPENING_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
/// The most opens that are kept.
const OPENINGS_MAX: usize = 4096;
/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = (HEAD_BYTES + OPENINGS_MAX * OPENING_BYTES + CRC_BYTES) as u64;

/// One open of the database for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedOpening {
    /// Its random number, which positions have.
    pub number: u64,
    /// The end of the log after it; `u64::MAX` as long as it is not known.
    pub end: u64,
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedState {
    /// The number that all segments of the log have.
    pub log_id: u64,
    /// About how many bytes of the log are kept.
    pub bytes_max: u64,
    /// A position before which everything is known to have been synced.
    pub synced: u64,
    /// The [run of the system](Directory::system_run) in which what was written is in the files; 0 if there is none,
    /// [`FeedState::ALWAYS`] if all was synced when the database was closed.
    pub intact_in_run: u128,
    /// The opens whose positions are known, oldest first. The last one is the present or the latest one.
    pub opens: Vec<FeedOpening>,
}

impl FeedState {
    /// The feed was closed, and is intact whatever happens to the system.
    pub const ALWAYS: u128 = u128::MAX;

    /// Returns the bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.opens.len() as u32).to_le_bytes());
        for field in [self.log_id, self.bytes_max, self.synced] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(self.intact_in_run.to_le_bytes());
        for opening in &self.opens {
            bytes.extend(opening.number.to_le_bytes());
            bytes.extend(opening.end.to_le_bytes());
        }
        bytes.extend(checksum::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes the bytes of the file. Returns `None` if they are damaged or have another version.
    pub fn decode(bytes: &[u8]) -> Option<FeedState> {
        let mut fields = Reader::new(bytes);
        if fields.bytes(8)? != MAGIC || fields.u32()? != VERSION {
            return None;
        }
        let count = fields.u32()? as usize;
        let (log_id, bytes_max, synced) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let intact_in_run = u128::from_le_bytes(fields.array()?);
        let mut opens = Vec::new();
        // No capacity is reserved for a count that may be damaged.
        for _ in 0..count {
            opens.push(FeedOpening { number: fields.u64()?, end: fields.u64()? });
        }
        let state = FeedState { log_id, bytes_max, synced, intact_in_run, opens };
        // Compares all bytes: the checksum, the count and the end of the file.
        (bytes == state.encode() && FEED_BYTES.contains(&bytes_max)).then_some(state)
    }

    /// Reads the file of a directory: `None` if there is none, `Some(None)` if it is damaged.
    pub fn read(directory: &Directory) -> Result<Option<Option<FeedState>>> {
        let file = match directory.open(CHANGES_NAME, Access::Buffered) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let length = file.length()?;
        // A damaged length must not decide how much memory is taken.
        if length > FILE_BYTES_MAX {
            return Ok(Some(None));
        }
        let mut buffer = AlignedBuffer::default();
        Ok(Some(FeedState::decode(file.read(Purpose::Maintain, 0, length as usize, &mut buffer)?)))
    }

    /// Replaces the file durably. Opens whose positions are all before `start` are left out.
    pub fn write(&mut self, directory: &Directory, start: u64) -> Result<()> {
        self.opens.retain(|opening| opening.end >= start);
        // The oldest: their positions are refused from now on.
        self.opens.drain(..self.opens.len().saturating_sub(OPENINGS_MAX));
        // Left by a crash; `create` refuses a name that exists.
        if directory.list()?.iter().any(|name| name == NEW_CHANGES_NAME) {
            directory.remove(NEW_CHANGES_NAME)?;
        }
        let file = directory.create(NEW_CHANGES_NAME, Access::Buffered)?;
        file.write(Purpose::Maintain, 0, &self.encode())?;
        // Before the rename: after a loss of power the name has the old bytes or all of the new ones.
        file.sync(Purpose::Maintain)?;
        drop(file);
        directory.rename(NEW_CHANGES_NAME, CHANGES_NAME)?;
        Ok(directory.sync(Purpose::Maintain)?)
    }
}

/// Returns whether this is the name of the file, or of one that is to replace it.
pub fn is_state(name: &str) -> bool {
    [CHANGES_NAME, NEW_CHANGES_NAME].contains(&name)
}

/// Returns whether a file of this name belongs to the change feed.
pub fn owns(name: &str) -> bool {
    is_state(name) || FileName::parse(name).is_some_and(FileName::is_of_changes)
}
