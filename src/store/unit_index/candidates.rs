//! The units that a key may have, without an allocation in most cases.

use super::Unit;
use std::ops::Deref;

/// More than this many candidates are on the heap. Two entries with one hash are those of one key until the older one
/// is confirmed, so more are rare.
const INLINE: usize = 8;

/// The units of the entries with one hash, the one that was inserted last first.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    inline: [Unit; INLINE],
    len: usize,
    /// All of them, if there are more than `INLINE`.
    all: Vec<Unit>,
}

impl Deref for Candidates {
    type Target = [Unit];

    #[inline]
    fn deref(&self) -> &[Unit] {
        // Not by `len`: it is `INLINE` for as many units and for more.
        if self.all.is_empty() { &self.inline[..self.len] } else { &self.all }
    }
}

impl FromIterator<Unit> for Candidates {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Unit>>(units: I) -> Candidates {
        let mut candidates = Candidates::default();
        for unit in units {
            if candidates.len < INLINE {
                candidates.inline[candidates.len] = unit;
                candidates.len += 1;
            } else {
                if candidates.all.is_empty() {
                    // With the inline ones in front: callers rely on the newest being the first.
                    candidates.all.extend(candidates.inline);
                }
                candidates.all.push(unit);
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_units_is_kept_in_order() {
        for count in [0, 1, 7, 8, 9, 10, 100] {
            let candidates: Candidates = (0..count).collect();
            assert!(candidates.iter().copied().eq(0..count), "{count} units");
        }
    }
}
