//! Values with their types as bytes. `docs/formats/typed_value.md` has the diagram.

use super::{Entry, NewValue, ValueType};
use siltstone::Bytes;

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

impl ValueForm {
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
