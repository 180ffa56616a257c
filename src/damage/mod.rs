//! The results of verification and repair: damaged bytes, and the keys that they affect.

#[cfg(feature = "json")]
mod json;

use crate::error::Error;
use crate::key::KeyHasher;
use bytes::Bytes;
use std::fmt;
use std::path::PathBuf;

/// The damaged part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DamagedPart {
    /// The manifest or its mirror.
    Manifest,
    /// The header of a segment of the log.
    LogHeader,
    /// Frames of the log.
    LogFrames,
    /// The header of a store; all of its content is also stored elsewhere.
    StoreHeader,
    /// The footer of a store, or its copy.
    StoreFooter,
    /// Blocks of a store.
    Blocks,
    /// Records that do not belong in their blocks, whose checksums are correct.
    Records,
    /// The index of a store.
    Index,
    /// The filter of a store.
    Filter,
    /// The whole file: it is missing, or belongs to another database or store.
    File,
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            DamagedPart::Manifest => "manifest",
            DamagedPart::LogHeader => "log header",
            DamagedPart::LogFrames => "log frames",
            DamagedPart::StoreHeader => "store header",
            DamagedPart::StoreFooter => "store footer",
            DamagedPart::Blocks => "blocks",
            DamagedPart::Records => "records",
            DamagedPart::Index => "index",
            DamagedPart::Filter => "filter",
            DamagedPart::File => "file",
        })
    }
}

/// All keys whose hashes have first 64 bits from `first` to `last`, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRange {
    /// The lowest first 64 bits of a hash.
    pub first: u64,
    /// The highest first 64 bits of a hash.
    pub last: u64,
}

impl KeyRange {
    /// Every key.
    #[doc(hidden)]
    pub const ALL: KeyRange = KeyRange { first: 0, last: u64::MAX };

    /// Returns the keys of one of 2^`partitions_log2` partitions whose placements within it are from `first` to `last`.
    pub(crate) fn within_partition(partition: u64, partitions_log2: u32, first: u64, last: u64) -> KeyRange {
        match partitions_log2 {
            0 => KeyRange { first, last },
            bits => {
                let base = partition << (64 - bits);
                KeyRange { first: base | first >> bits, last: base | last >> bits }
            }
        }
    }

    /// Returns whether the range contains keys with these first 64 bits of the hash.
    pub fn contains(&self, placement: u64) -> bool {
        (self.first..=self.last).contains(&placement)
    }

    /// Returns the ranges sorted, with adjacent and overlapping ones merged.
    pub(crate) fn united(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
        ranges.sort_unstable();
        let mut united: Vec<KeyRange> = Vec::new();
        for range in ranges {
            match united.last_mut() {
                Some(last) if range.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(range.last);
                }
                _ => united.push(range),
            }
        }
        united
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == KeyRange::ALL {
            return to.write_str("any key");
        }
        write!(to, "keys with hashes {:016x} to {:016x}", self.first, self.last)
    }
}

/// A damaged part of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The part of the file.
    pub part: DamagedPart,
    /// Where the damage begins, in bytes.
    pub offset: u64,
    /// The length in bytes: that of one or more adjacent ranges that each have one checksum.
    pub length: u64,
    /// The expected content.
    pub expected: String,
    /// The content found.
    pub got: String,
    /// Keys of records in the damaged bytes, if they can still be read.
    pub keys: Vec<Bytes>,
    /// The keys whose records may be lost, including those in `keys`; empty if no record is lost.
    pub lost: Vec<KeyRange>,
    /// Whether older stores may contain older or deleted values of these keys, which reads would return without the
    /// damaged part.
    pub may_be_older: bool,
}

impl Damage {
    #[doc(hidden)]
    pub fn new(file: impl Into<PathBuf>, part: DamagedPart, offset: u64, length: u64) -> Damage {
        Damage {
            file: file.into(),
            part,
            offset,
            length,
            expected: String::new(),
            got: String::new(),
            keys: Vec::new(),
            lost: Vec::new(),
            may_be_older: false,
        }
    }

    /// Returns the damage with the expected content and the content found.
    #[doc(hidden)]
    pub fn because(mut self, expected: impl Into<String>, got: impl Into<String>) -> Damage {
        (self.expected, self.got) = (expected.into(), got.into());
        self
    }

    /// Returns the damage that an error describes, at its offset.
    pub(crate) fn of(error: &Error, part: DamagedPart, length: u64) -> Damage {
        match error {
            Error::Corrupt { file, offset, expected, got } => {
                Damage::new(file, part, *offset, length).because(expected, got)
            }
            Error::Io { file, source, .. } => {
                Damage::new(file, part, 0, length).because("bytes that can be read", source.to_string())
            }
            Error::Version { file, found, supported } => Damage::new(file, part, 0, length)
                .because(format!("format version {supported}"), format!("version {found}")),
            other => Damage::new("", part, 0, length).because("no error", other.to_string()),
        }
    }

    /// Returns the damage as an error.
    pub fn error(&self) -> Error {
        Error::Corrupt {
            file: self.file.clone(),
            offset: self.offset,
            expected: self.expected.clone(),
            got: self.got.clone(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, part, offset, length, expected, got, .. } = self;
        write!(
            to,
            "{}: {part} damaged, bytes {offset} to {}",
            file.display(),
            offset.saturating_add(*length)
        )?;
        write!(to, ": expected {expected}, got {got}")?;
        match &self.lost[..] {
            [] => write!(to, "; no record is lost"),
            [one] => write!(to, "; lost: {one}"),
            [first, .., last] => {
                write!(to, "; lost: some of {} ranges of keys, {first} … {last}", self.lost.len())
            }
        }?;
        for key in &self.keys {
            write!(to, "; one key is \"{}\"", key[..key.len().min(64)].escape_ascii())?;
        }
        if self.may_be_older { write!(to, "; reads may return older values of these keys") } else { Ok(()) }
    }
}

/// The result of verification.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of bytes read and checked.
    pub checked_bytes: u64,
    /// The number of live records: each key that a get finds, once, at one moment during the verification. `None` if
    /// there is damage, because what is damaged may be the newest version of a key or its tombstone, and after a
    /// repair.
    pub live_records: Option<u64>,
    /// The number of records read and checked: each version of a key until it is merged, and each tombstone.
    #[doc(hidden)]
    pub checked_records: u64,
    /// The damaged parts, grouped by file.
    pub damage: Vec<Damage>,
    /// The number of bytes at the end of the log that were being written when the system crashed. They are not damage:
    /// they were never synced.
    pub torn_bytes: u64,
    pub(crate) hasher: Option<KeyHasher>,
}

impl VerifyReport {
    /// Returns whether a record of this key may be lost, or a read may return an older one.
    pub fn may_affect(&self, key: &[u8]) -> bool {
        let Some(hasher) = &self.hasher else { return !self.damage.is_empty() };
        let placement = hasher.hash(key).placement;
        let mut lost = self.damage.iter().flat_map(|damage| &damage.lost);
        lost.any(|range| range.contains(placement))
    }

    /// Adds the result of another store of the same database.
    pub(crate) fn add(&mut self, other: VerifyReport) {
        self.checked_bytes += other.checked_bytes;
        self.checked_records += other.checked_records;
        self.damage.extend(other.damage);
        self.torn_bytes += other.torn_bytes;
        self.hasher = self.hasher.or(other.hasher);
    }

    /// Returns all ranges of keys whose records may be lost, sorted and without overlaps.
    pub fn lost(&self) -> Vec<KeyRange> {
        KeyRange::united(self.damage.iter().flat_map(|damage| damage.lost.clone()).collect())
    }

    /// Returns the ranges in [`lost`](VerifyReport::lost) for which reads may return an older or a deleted value.
    pub fn may_be_older(&self) -> Vec<KeyRange> {
        let older = self.damage.iter().filter(|damage| damage.may_be_older);
        KeyRange::united(older.flat_map(|damage| damage.lost.clone()).collect())
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damage found. If there was none, the repair changed nothing.
    pub found: VerifyReport,
    /// The directory to which the damaged files were moved, unchanged.
    pub set_aside: Option<PathBuf>,
    /// The names of these files.
    pub set_aside_files: Vec<String>,
    /// The number of records kept from damaged files.
    pub kept_records: u64,
    /// The names of the files that replace them.
    pub new_files: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let range = |first, last| KeyRange { first, last };
        let united = KeyRange::united(vec![range(9, 12), range(1, 3), range(4, 5), range(10, 11)]);
        assert_eq!(united, [range(1, 5), range(9, 12)]);
        assert_eq!(KeyRange::united(vec![KeyRange::ALL, range(1, 2)]), [KeyRange::ALL]);
    }

    #[test]
    fn a_placement_within_a_partition_is_in_the_partitions_range() {
        let hash = crate::key::KeyHash { placement: 0xC123_4567_89AB_CDEF, fingerprint: u64::MAX };
        let within = hash.within_partition(2).placement;
        let range = KeyRange::within_partition(hash.partition(2) as u64, 2, within, within);
        assert!(range.contains(hash.placement) && !range.contains(hash.placement + 1));
        let all = KeyRange::within_partition(3, 2, 0, u64::MAX);
        assert_eq!((all.first, all.last), (0xC000_0000_0000_0000, u64::MAX));
    }
}
