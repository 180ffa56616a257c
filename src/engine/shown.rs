//! What a lookup of several keys shows to its caller: values in the engine's own memory, which an engine in memory need
//! not allocate, or values that are handed over, which the caller need not copy.

use super::{Engine, Found};
use crate::batch::TimestampMs;
use crate::error::Result;
use crate::key::Key;
use bytes::Bytes;
use std::ops::Deref;

/// The callback of [`Engine::get_many`]: it gets the number of a key, and what was found. No lock is held meanwhile.
pub type Show<'a> = dyn FnMut(usize, Option<Shown<'_>>) + 'a;

/// A value that a lookup found.
#[derive(Debug)]
pub struct Shown<'a> {
    /// The value.
    pub value: ShownValue<'a>,
    /// When it expires, or [`NEVER`](crate::batch::NEVER).
    pub expires_at_ms: TimestampMs,
}

/// The bytes of a value that a lookup found.
#[derive(Debug)]
pub enum ShownValue<'a> {
    /// Valid only during the callback.
    Borrowed(&'a [u8]),
    /// Handed over.
    Owned(Bytes),
}

impl Deref for ShownValue<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ShownValue::Borrowed(bytes) => bytes,
            ShownValue::Owned(bytes) => bytes,
        }
    }
}

impl<'a> Shown<'a> {
    /// Returns a value in memory that is valid only during the callback.
    #[inline]
    pub fn borrowed(value: &'a [u8], expires_at_ms: TimestampMs) -> Shown<'a> {
        Shown { value: ShownValue::Borrowed(value), expires_at_ms }
    }

    /// Returns the value to keep. Copies it only if it is borrowed.
    #[inline]
    pub fn into_found(self) -> Found {
        let value = match self.value {
            ShownValue::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            ShownValue::Owned(bytes) => bytes,
        };
        Found { value, expires_at_ms: self.expires_at_ms }
    }
}

impl From<Found> for Shown<'_> {
    fn from(Found { value, expires_at_ms }: Found) -> Self {
        Shown { value: ShownValue::Owned(value), expires_at_ms }
    }
}

/// Hands over what was found, in the order of the keys.
pub(crate) fn show_all(found: Vec<Option<Found>>, show: &mut Show<'_>) {
    found.into_iter().enumerate().for_each(|(number, found)| show(number, found.map(Shown::from)));
}

/// Returns the values of several keys, in the order of the keys.
pub(crate) fn collect_many(
    engine: &dyn Engine,
    keys: &[Key<'_>],
    now_ms: TimestampMs,
) -> Result<Vec<Option<Found>>> {
    let mut all = vec![None; keys.len()];
    engine.get_many(keys, now_ms, &mut |number, shown| all[number] = shown.map(Shown::into_found))?;
    Ok(all)
}
