//! A structure of another library, for comparison: the minimal perfect hash of the `ptr_hash` crate (Groot Koerkamp,
//! "PtrHash: Minimal Perfect Hashing at RAM Throughput", 2025). The dissertation compares with External Perfect Hashing
//! (tables 3.3 to 3.5).
//!
//! It is built on one thread and uses placements as its hashes.

use super::sample::Key;
use super::subject::{Subject, Verified};
use crate::{Error, Result};
use ptr_hash::bucket_fn::BucketFn;
use ptr_hash::hash::NoHash;
use ptr_hash::pack::Packed;
use ptr_hash::{CompactPtrHash, DefaultPtrHash, PtrHash, PtrHashParams};

impl<F: BucketFn, P: Packed, const SINGLE_PART: bool, const REMAP: bool> Subject
    for PtrHash<u64, F, P, NoHash, Vec<u8>, SINGLE_PART, REMAP>
{
    fn heap_bytes(&self) -> usize {
        let (pilots, remap) = self.bits_per_element();
        ((pilots + remap) * self.n() as f64 / 8.0).round() as usize
    }

    #[inline]
    fn look_up(&self, key: Key) -> u64 {
        self.index(&key.placement) as u64
    }

    /// Checks that every slot is assigned to exactly one key.
    fn verify(&self, sorted: &[Key]) -> Verified {
        let mut taken = vec![false; sorted.len()];
        let mut verified = Verified::default();
        for key in sorted {
            let was_taken =
                taken.get_mut(self.index(&key.placement)).map(|slot| std::mem::replace(slot, true));
            verified.add(was_taken == Some(false), 1);
        }
        verified
    }
}

/// Returns the crate's default: faster and larger.
pub(super) fn ptr_hash(placements: &[u64]) -> Result<DefaultPtrHash<NoHash>> {
    DefaultPtrHash::try_new(placements, PtrHashParams::default()).ok_or_else(no_function)
}

/// Returns the crate's compact form.
pub(super) fn ptr_hash_compact(placements: &[u64]) -> Result<CompactPtrHash<NoHash>> {
    CompactPtrHash::try_new(placements, PtrHashParams::default_compact()).ok_or_else(no_function)
}

fn no_function() -> Error {
    Error::wrong_results("the ptr_hash crate found no function for these keys".to_owned())
}
