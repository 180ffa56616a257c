//! Which records that were found on the disk are put to flash: those that were looked for on the disk twice within
//! about as many misses as the table has places.

use crate::key::KeyHash;
use siltstone_device::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Flash has a place of the table for this many bytes.
const BYTES_PER_PLACE: u64 = 1 << 8;
const PLACES_MIN: u64 = 1 << 10;
const PLACES_MAX: u64 = 1 << 22;

/// Returns the number of places for flash of this many bytes. A place has two bytes.
pub fn places(flash_bytes: u64) -> u64 {
    (flash_bytes / BYTES_PER_PLACE).clamp(PLACES_MIN, PLACES_MAX).next_power_of_two()
}

/// The last miss of each place, by a part of the hash of its key.
pub(super) struct Admission(Box<[AtomicU16]>);

impl Admission {
    /// Makes a table for flash of this many bytes; without places if there is nothing to admit.
    pub fn new(flash_bytes: Option<u64>) -> Admission {
        Admission((0..flash_bytes.map_or(0, places)).map(|_| AtomicU16::new(0)).collect())
    }

    /// Notes a miss on flash. Returns whether it is the second one of the key.
    pub fn is_second(&self, hash: KeyHash) -> bool {
        // The number of places is a power of two, or 0: then no place is found.
        let Some(place) = self.0.get(hash.fingerprint as usize & self.0.len().wrapping_sub(1)) else {
            return false;
        };
        // Never 0, which is an empty place.
        let mark = (hash.fingerprint >> 48) as u16 | 1;
        let is_second = place.load(Relaxed) == mark;
        // After the second miss the key is on flash, or has to be missed twice again.
        place.store(if is_second { 0 } else { mark }, Relaxed);
        is_second
    }

    /// Returns the memory, in bytes.
    pub fn heap_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_admitted_with_its_second_miss_unless_another_one_took_its_place() {
        let admission = Admission::new(Some(0));
        let hash = |fingerprint| KeyHash { placement: 0, fingerprint };
        let (one, other) = (hash(7 | 3 << 50), hash(7 | 5 << 50));
        assert!(!admission.is_second(one) && admission.is_second(one) && !admission.is_second(one));
        assert!(!admission.is_second(other) && !admission.is_second(one) && !admission.is_second(other));
        assert!(!Admission::new(None).is_second(one));
    }
}
