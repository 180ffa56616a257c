//! Values with their types as bytes.
//!
//! ```text
//! 0 | string
//! 1 | hash
//! 2 + s | flags, 4 bytes | version, 8 bytes | string       with the mark of memcached's commands
//! ```
//!
//! The numbers are little endian. s is 0, plus 1 for a value that is stale, plus 2 for one that is claimed.
//! `docs/formats/typed_value.md` has the diagram.

use super::{Entry, Mark, NewValue, ValueType};
use siltstone::Bytes;
use siltstone::names::VALUES_NAME;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

/// How the values of a database are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// As they are: all are strings without marks.
    Plain,
    /// With a byte for the type in front.
    Typed,
}

const STRING: u8 = 0;
const HASH: u8 = 1;
/// The first of the kinds of strings with marks.
const MARKED: u8 = 2;
/// The last one.
const MARKED_MAX: u8 = MARKED + STALE + CLAIMED;
const STALE: u8 = 1;
const CLAIMED: u8 = 2;

/// The bytes of a mark.
const MARK_BYTES: usize = 12;

/// The bytes of a string with a mark besides the string.
pub const MARKED_BYTES: usize = 1 + MARK_BYTES;

/// A value without its type and mark.
type Split<'a> = (ValueType, Option<Mark>, &'a [u8]);

/// What the file [`VALUES_NAME`] has.
const TYPED: &str = "typed 1\n";

impl ValueForm {
    /// Returns the form of the values of a directory's database, which need not exist: plain without a file
    /// [`VALUES_NAME`].
    ///
    /// # Errors
    /// A file of a newer version; [`siltstone::Error::Io`] if it cannot be read.
    pub fn of_database(directory: &Path) -> siltstone::Result<ValueForm> {
        let file = directory.join(VALUES_NAME);
        match fs::read_to_string(&file) {
            Ok(text) if text == TYPED => Ok(ValueForm::Typed),
            Ok(text) => Err(siltstone::Error::Setting {
                name: "values",
                problem: format!(
                    "{} has `{}`, which this program does not know; use a newer siltstone",
                    file.display(),
                    text.trim_end()
                ),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(ValueForm::Plain),
            Err(source) => Err(siltstone::Error::Io { operation: "read", file, source: Arc::new(source) }),
        }
    }

    /// Says in a directory that the values of its database have types. The directory is created if it does not exist.
    ///
    /// # Errors
    /// [`siltstone::Error::Io`].
    pub fn declare_typed(directory: &Path) -> siltstone::Result<()> {
        let file = directory.join(VALUES_NAME);
        let write = || {
            fs::create_dir_all(directory)?;
            let mut new = File::create(&file)?;
            new.write_all(TYPED.as_bytes())?;
            new.sync_all()?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|source| siltstone::Error::Io { operation: "write", file, source: Arc::new(source) })
    }

    /// Returns a stored value without a mark; `None` for a type that this form cannot have.
    pub fn encode(self, value_type: ValueType, bytes: &[u8]) -> Option<Bytes> {
        let kind = match (self, value_type) {
            (ValueForm::Plain, ValueType::String) => return Some(Bytes::copy_from_slice(bytes)),
            (ValueForm::Plain, ValueType::Hash) => return None,
            (ValueForm::Typed, ValueType::String) => STRING,
            (ValueForm::Typed, ValueType::Hash) => HASH,
        };
        let mut stored = Vec::with_capacity(1 + bytes.len());
        stored.push(kind);
        stored.extend_from_slice(bytes);
        Some(Bytes::from(stored))
    }

    /// Returns a stored value; `None` for a type that this form cannot have. Only typed strings have marks.
    pub fn encode_value(self, value: &NewValue) -> Option<Bytes> {
        match (self, value.value_type, value.mark) {
            // Nothing is put in front of it.
            (ValueForm::Plain, ValueType::String, _) => Some(value.bytes.clone()),
            (ValueForm::Typed, ValueType::String, Some(mark)) => Some(encode_marked(mark, &value.bytes)),
            (form, value_type, _) => form.encode(value_type, &value.bytes),
        }
    }

    /// Returns the type and the bytes of a stored value; `None` for one that is not of this form.
    pub fn decode(self, stored: &[u8]) -> Option<(ValueType, &[u8])> {
        let (value_type, _, bytes) = self.split(stored)?;
        Some((value_type, bytes))
    }

    /// Returns the type, the mark and the bytes of a stored value; `None` for one that is not of this form.
    fn split(self, stored: &[u8]) -> Option<Split<'_>> {
        match (self, stored) {
            (ValueForm::Plain, stored) => Some((ValueType::String, None, stored)),
            (ValueForm::Typed, [STRING, bytes @ ..]) => Some((ValueType::String, None, bytes)),
            (ValueForm::Typed, [HASH, bytes @ ..]) => Some((ValueType::Hash, None, bytes)),
            (ValueForm::Typed, [kind @ MARKED..=MARKED_MAX, rest @ ..]) => {
                let (flags, rest) = rest.split_first_chunk()?;
                let (version, bytes) = rest.split_first_chunk()?;
                let mark = Mark {
                    flags: u32::from_le_bytes(*flags),
                    version: u64::from_le_bytes(*version),
                    is_stale: (kind - MARKED) & STALE != 0,
                    is_claimed: (kind - MARKED) & CLAIMED != 0,
                };
                Some((ValueType::String, Some(mark), bytes))
            }
            (ValueForm::Typed, _) => None,
        }
    }

    /// Returns a stored value as commands see it.
    pub fn entry(self, stored: &[u8], expires_at_ms: u64) -> Option<Entry<'_>> {
        let (value_type, mark, value) = self.split(stored)?;
        Some(Entry { value_type, value, expires_at_ms, mark })
    }

    /// Returns a stored value with its owner. Copies nothing.
    pub fn value(self, stored: &Bytes, expires_at_ms: u64) -> Option<NewValue> {
        let (value_type, mark, value) = self.split(stored)?;
        Some(NewValue { value_type, bytes: stored.slice_ref(value), expires_at_ms, mark })
    }
}

fn encode_marked(mark: Mark, bytes: &[u8]) -> Bytes {
    let mut stored = Vec::with_capacity(MARKED_BYTES + bytes.len());
    stored.push(MARKED + u8::from(mark.is_stale) * STALE + u8::from(mark.is_claimed) * CLAIMED);
    stored.extend(mark.flags.to_le_bytes());
    stored.extend(mark.version.to_le_bytes());
    stored.extend_from_slice(bytes);
    Bytes::from(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_string_is_decoded_to_what_was_encoded() {
        for state in 0..4 {
            let (is_stale, is_claimed) = (state & 1 != 0, state & 2 != 0);
            let mark = Mark { flags: 0xfeed_beef, version: u64::MAX - 7, is_stale, is_claimed };
            let value = NewValue::string("bytes").expiring(5).marked(mark);
            let stored = ValueForm::Typed.encode_value(&value).unwrap();
            assert_eq!(stored.len(), MARKED_BYTES + 5);
            assert_eq!(ValueForm::Typed.value(&stored, 5), Some(value));
            assert_eq!(ValueForm::Typed.decode(&stored), Some((ValueType::String, &b"bytes"[..])));
            assert_eq!(ValueForm::Typed.decode(&stored[..MARKED_BYTES - 1]), None);
        }
        assert_eq!(ValueForm::Typed.decode(&[MARKED_MAX + 1; 20]), None);
    }
}
