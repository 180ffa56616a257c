//! The bytes of a hash: its fields one after another, in the order in which they were added.
//!
//! ```text
//! field    | length, 4 bytes | length of the value, 4 bytes | field | value |
//! ```
//!
//! A command reads and writes the whole hash, so its length has a limit.

use crate::failure::Failure;

/// The longest hash, in bytes.
pub const HASH_BYTES_MAX: usize = 1 << 20;

/// The bytes of a field besides its name and its value.
const FIELD_BYTES: usize = 8;

const DAMAGED: Failure = Failure::new("ERR the bytes of the hash are not those of one");

/// The fields of a hash with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields<'a> {
    fields: Vec<(&'a [u8], std::borrow::Cow<'a, [u8]>)>,
}

impl<'a> Fields<'a> {
    /// Makes a hash of fields of which no two are equal.
    pub fn of_distinct(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Fields<'a> {
        Fields { fields: fields.map(|(field, value)| (field, value.into())).collect() }
    }

    /// Reads the bytes of a hash.
    ///
    /// # Errors
    /// The bytes are not those of a hash.
    pub fn decode(bytes: &'a [u8]) -> Result<Fields<'a>, Failure> {
        let mut fields = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (lengths, after) = rest.split_first_chunk::<FIELD_BYTES>().ok_or(DAMAGED)?;
            let number = |at: usize| {
                u32::from_le_bytes([lengths[at], lengths[at + 1], lengths[at + 2], lengths[at + 3]]) as usize
            };
            let (field, after) = after.split_at_checked(number(0)).ok_or(DAMAGED)?;
            let (value, after) = after.split_at_checked(number(4)).ok_or(DAMAGED)?;
            fields.push((field, value.into()));
            rest = after;
        }
        Ok(Fields { fields })
    }

    /// Returns the bytes of the hash.
    ///
    /// # Errors
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Failure> {
        let length: usize =
            self.fields.iter().map(|(field, value)| FIELD_BYTES + field.len() + value.len()).sum();
        if length > HASH_BYTES_MAX {
            return Err(Failure::from(format!(
                "ERR the hash would have {length} bytes; the maximum is {HASH_BYTES_MAX}; split it over several keys"
            )));
        }
        let mut bytes = Vec::with_capacity(length);
        for (field, value) in &self.fields {
            // The sum fits, so each length does.
            bytes.extend((field.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(field);
            bytes.extend_from_slice(value);
        }
        Ok(bytes)
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns the fields with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(field, value)| (*field, &**value))
    }

    /// Returns the value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// Sets the value of a field. Returns whether the field is new.
    pub fn set(&mut self, field: &'a [u8], value: impl Into<std::borrow::Cow<'a, [u8]>>) -> bool {
        match self.fields.iter_mut().find(|(name, _)| *name == field) {
            Some((_, place)) => {
                *place = value.into();
                false
            }
            None => {
                self.fields.push((field, value.into()));
                true
            }
        }
    }

    /// Removes a field. Returns whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(name, _)| *name != field);
        self.fields.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_the_fields_that_were_set_in_their_order() {
        let mut fields = Fields::default();
        assert!(fields.set(b"a", &b"1"[..]) && fields.set(b"", &b""[..]) && fields.set(b"c", &b"3"[..]));
        assert!(!fields.set(b"a", &b"2"[..]) && fields.remove(b"c") && !fields.remove(b"c"));
        let bytes = fields.encode().unwrap();
        let read = Fields::decode(&bytes).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"2"[..]), (b"", b"")]);
        for length in 1..bytes.len() {
            let cut = Fields::decode(&bytes[..length]);
            assert!(cut.is_err() || length == FIELD_BYTES + 2, "{length} bytes");
        }
        assert!(Fields::default().set(b"f", vec![0; HASH_BYTES_MAX]));
        fields.set(b"f", vec![0; HASH_BYTES_MAX]);
        assert!(fields.encode().unwrap_err().message().contains("split it"));
    }
}
