//! The stores with which BloomStore's paper compares its own, by their published mechanisms, on the same device code.
//! They have no recovery: what is in memory is lost with it.

mod bufferhash;
mod skimpystash;
#[cfg(test)]
mod tests;

pub use bufferhash::{BufferHash, BufferHashSettings, Eviction};
pub use skimpystash::{SkimpyStash, SkimpyStashSettings};

use crate::point::Settles;
use crate::{Error, Result};
use siltstone_bench::random::{GOLDEN, mix};
use siltstone_device::IoSnapshot;

/// The unit of reads and writes, in bytes: a page of flash.
const PAGE_BYTES: usize = 4096;

/// A store that is compared with Siltstone's engines. Keys and values have the lengths that it was made for.
pub trait Peer: Settles {
    /// Inserts a key, or replaces its value.
    ///
    /// # Errors
    /// Those of the device; a key or value of another length; no space.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Looks a key up and returns its value, if it has one.
    ///
    /// # Errors
    /// Those of the device; a key of another length.
    fn lookup(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the operations of the device.
    fn io(&self) -> IoSnapshot;
}

/// The lengths of all keys and values, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Lengths {
    /// Of keys.
    pub key: usize,
    /// Of values.
    pub value: usize,
}

impl Lengths {
    fn record(self) -> usize {
        self.key + self.value
    }

    fn check(self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if key.len() == self.key && value.is_none_or(|value| value.len() == self.value) {
            return Ok(());
        }
        let Lengths { key, value } = self;
        Err(Error::settings(format!("keys have {key} bytes and values {value}")))
    }
}

/// Returns a hash of a key. Each function is independent of the others.
fn hash(key: &[u8], function: u64) -> u64 {
    let mut hash = mix(function.wrapping_mul(GOLDEN).wrapping_add(key.len() as u64));
    let (words, rest) = key.as_chunks();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word)).wrapping_add(GOLDEN);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

/// Returns a number below `end` by a hash.
fn below(hash: u64, end: usize) -> usize {
    ((u128::from(hash) * end as u128) >> 64) as usize
}
