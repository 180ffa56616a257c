//! Values with their types as bytes. `docs/formats/typed_value.md` has the diagram.

use super::{Entry, NewValue, ValueType};
use siltstone::Bytes;
use siltstone::names::VALUES_NAME;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

/// How the values of a database are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// As they are: all are strings.
    Plain,
    /// With a byte for the type in front.
    Typed,
}

const STRING: u8 = 0;
const HASH: u8 = 1;

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

    /// Returns the stored value; `None` for a type that this form cannot have.
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

    /// Returns the type and the bytes of a stored value; `None` for one that is not of this form.
    pub fn decode(self, stored: &[u8]) -> Option<(ValueType, &[u8])> {
        match (self, stored) {
            (ValueForm::Plain, stored) => Some((ValueType::String, stored)),
            (ValueForm::Typed, [STRING, bytes @ ..]) => Some((ValueType::String, bytes)),
            (ValueForm::Typed, [HASH, bytes @ ..]) => Some((ValueType::Hash, bytes)),
            (ValueForm::Typed, _) => None,
        }
    }

    /// Returns a stored value as commands see it.
    pub fn entry(self, stored: &[u8], expires_at_ms: u64) -> Option<Entry<'_>> {
        let (value_type, value) = self.decode(stored)?;
        Some(Entry { value_type, value, expires_at_ms })
    }

    /// Returns a stored value with its owner. Copies nothing.
    pub fn value(self, stored: &Bytes, expires_at_ms: u64) -> Option<NewValue> {
        let (value_type, value) = self.decode(stored)?;
        Some(NewValue { value_type, bytes: stored.slice_ref(value), expires_at_ms })
    }
}
