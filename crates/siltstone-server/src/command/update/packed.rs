//! The bytes of a hash: its fields one after another, in the order in which they were added.
//!
//! ```text
//! field    | length, 4 bytes | length of the value, 4 bytes | field | value |
//! ```
//!
//! A command reads and writes the whole hash, so its length has a limit.

use crate::failure::Failure;
use std::borrow::Cow;
use std::collections::HashMap;

/// The longest hash, in bytes.
pub const HASH_BYTES_MAX: usize = 1 << 20;

/// The bytes of a field besides its name and its value.
const FIELD_BYTES: usize = 8;

const DAMAGED: Failure = Failure::new("ERR the bytes of the hash are not those of one");

/// A command with as many fields has an index.
const INDEXED_FROM: usize = 32;

/// The fields of a hash with their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields<'a> {
    /// Those that were removed are empty.
    fields: Vec<Option<Field<'a>>>,
    count: usize,
    /// Where each field is, once a command looks for many: a search goes through all fields.
    index: Option<HashMap<&'a [u8], usize>>,
}

type Field<'a> = (&'a [u8], Cow<'a, [u8]>);

impl<'a> Fields<'a> {
    /// Makes a hash of fields of which no two are equal.
    pub fn of_distinct(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Fields<'a> {
        let fields: Vec<_> = fields.map(|(field, value)| Some((field, value.into()))).collect();
        Fields { count: fields.len(), fields, index: None }
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
            fields.push((field, value));
            rest = after;
        }
        Ok(Fields::of_distinct(fields.into_iter()))
    }

    /// Prepares for a command that looks for this many fields, or adds them: without an index its time is their number
    /// times that of the fields.
    #[must_use]
    pub fn for_many(mut self, wanted: usize) -> Fields<'a> {
        if wanted >= INDEXED_FROM {
            let names = self.fields.iter().enumerate();
            self.index = Some(names.filter_map(|(at, field)| Some((field.as_ref()?.0, at))).collect());
        }
        self
    }

    /// Returns the bytes of the hash.
    ///
    /// # Errors
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Failure> {
        let length: usize = self.iter().map(|(field, value)| FIELD_BYTES + field.len() + value.len()).sum();
        if length > HASH_BYTES_MAX {
            return Err(Failure::from(format!(
                "ERR the hash would have {length} bytes; the maximum is {HASH_BYTES_MAX}; split it over several keys"
            )));
        }
        let mut bytes = Vec::with_capacity(length);
        for (field, value) in self.iter() {
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
        self.count == 0
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the fields with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().flatten().map(|(field, value)| (*field, &**value))
    }

    fn place_of(&self, field: &[u8]) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(field).copied(),
            None => {
                self.fields.iter().position(|other| other.as_ref().is_some_and(|(name, _)| *name == field))
            }
        }
    }

    /// Returns the value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields[self.place_of(field)?].as_ref().map(|(_, value)| &**value)
    }

    /// Sets the value of a field. Returns whether the field is new.
    pub fn set(&mut self, field: &'a [u8], value: impl Into<Cow<'a, [u8]>>) -> bool {
        let place = self.place_of(field);
        match place.and_then(|place| self.fields[place].as_mut()) {
            Some((_, old)) => *old = value.into(),
            None => {
                if let Some(index) = &mut self.index {
                    index.insert(field, self.fields.len());
                }
                self.fields.push(Some((field, value.into())));
                self.count += 1;
            }
        }
        place.is_none()
    }

    /// Removes a field. Returns whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.place_of(field) else { return false };
        if let Some(index) = &mut self.index {
            index.remove(field);
        }
        self.fields[place] = None;
        self.count -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_changes_nothing_but_the_time() {
        let names: Vec<Vec<u8>> =
            (0..200u32).map(|number| (number * 7 % 120).to_be_bytes().to_vec()).collect();
        let run = |mut fields: Fields<'_>| {
            let mut seen = Vec::new();
            for (number, name) in names.iter().enumerate() {
                seen.push(match number % 3 {
                    0 => fields.remove(&names[number / 2]),
                    _ => false,
                });
                // The names outlive this function, those of the hash do not.
                seen.push(fields.get(name).is_some());
            }
            (seen, fields.len(), fields.encode().unwrap())
        };
        let all = || {
            let mut fields = Fields::default();
            for name in &names {
                fields.set(name, &name[..2]);
            }
            fields
        };
        let indexed = {
            let mut fields = Fields::default().for_many(names.len());
            assert_eq!(names.iter().filter(|name| fields.set(name, &name[..2])).count(), 120);
            fields
        };
        assert!(indexed.index.is_some() && all().index.is_none());
        assert_eq!(run(all()), run(indexed.clone()));
        assert_eq!(run(all()), run(all().for_many(40)));
    }

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
