//! The values of a database that `siltstone serve data` has created: each has its type in front, as
//! docs/formats/typed_value.md draws it. The commands show and take them without it.
//!
//! ```text
//! stored         shown
//! 0 | Ada        Ada
//! 1 | fields     {"city":"Lima","name":"Ada"}     with escapes, as `list` prints keys
//! ```

use crate::notation::Notation;
use anyhow::{Context, anyhow};
use serde_json::Value;
use siltstone::{Bytes, Record};
use siltstone_server::{Fields, ValueForm, ValueType};
use std::path::Path;

/// How the values of a database are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values(ValueForm);

impl Values {
    /// Values as they are.
    pub const PLAIN: Values = Values(ValueForm::Plain);

    /// Returns how the values of a directory's database are stored.
    pub fn of(directory: &Path) -> siltstone::Result<Values> {
        ValueForm::of_database(directory).map(Values)
    }

    /// Returns whether values have types.
    pub fn are_typed(self) -> bool {
        self.0 == ValueForm::Typed
    }

    /// Returns whether a stored value is a hash.
    pub fn is_hash(self, stored: &[u8]) -> bool {
        self.0.decode(stored).is_some_and(|(value_type, _)| value_type == ValueType::Hash)
    }

    /// Returns a stored value as it is printed: a string as it is, a hash as JSON.
    ///
    /// # Errors
    /// The bytes are of no known type.
    pub fn shown(self, stored: Bytes) -> anyhow::Result<Bytes> {
        let unknown = "the value has a type that this program does not know; use a newer siltstone";
        let (value_type, value) = self.0.decode(&stored).ok_or_else(|| anyhow!(unknown))?;
        match value_type {
            ValueType::String => Ok(stored.slice_ref(value)),
            ValueType::Hash => {
                let fields = Fields::decode(value).map_err(|failure| anyhow!("{failure}"))?;
                let text = |bytes: &[u8]| Notation::Escaped.show(bytes);
                let shown = fields.iter().map(|(field, value)| (text(field), Value::from(text(value))));
                Ok(Bytes::from(Value::Object(shown.collect()).to_string()))
            }
        }
    }

    /// Returns a record with its value as it is printed.
    ///
    /// # Errors
    /// Those of [`shown`](Self::shown), with the key.
    pub fn shown_record(self, record: Record) -> anyhow::Result<Record> {
        let named = || format!("key {}", Notation::Escaped.show(&record.key));
        let value = self.shown(record.value.clone()).with_context(named)?;
        Ok(Record { value, ..record })
    }

    /// Returns a value of this type as it is stored; `None` for one that the database cannot have.
    pub fn encode(self, value_type: ValueType, value: &[u8]) -> Option<Bytes> {
        self.0.encode(value_type, value)
    }

    /// Returns a value that is put as it is stored: as a string.
    pub fn stored(self, value: Bytes) -> Bytes {
        match self.0 {
            ValueForm::Plain => value,
            // Each form can have strings.
            form => form.encode(ValueType::String, &value).unwrap_or(value),
        }
    }
}
