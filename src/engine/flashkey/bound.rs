//! The bound of the logs: the bytes that they may have, and how close to them they are at each moment.
//!
//! ```text
//! finished segments    | live, and (space - 1) times as much dead | excess -> cleaning begins, then writes wait
//! the others           | up to one segment per log
//! ```
//!
//! `excess` computes from these counts when cleaning begins and when writes wait.

use siltstone_device::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of cleaning, and of the last look at the segments.
#[derive(Default)]
pub(crate) struct Bound {
    /// The bytes of their segments that cleanings have passed: all live records in them were moved.
    pub(super) passed: AtomicU64,
    /// The bytes that cleanings still have to move.
    pub(super) to_move: AtomicU64,
    /// The excess less all bytes, plus `space` times the live bytes; a floating-point number.
    pub(super) excess_base: AtomicU64,
    /// What the excess may be, a floating-point number.
    pub(super) excess_max: AtomicU64,
}

/// What a cleaning has counted.
#[derive(Default)]
pub(super) struct Moving {
    passed: u64,
    to_move: u64,
}

impl Bound {
    /// Begins a cleaning that moves about this many bytes.
    pub(super) fn begin(&self, live: u64) -> Moving {
        self.to_move.fetch_add(live, Relaxed);
        Moving { passed: 0, to_move: live }
    }

    /// Notes that a cleaning has passed this many bytes of its segment: all live records in them were moved.
    pub(super) fn pass(&self, moving: &mut Moving, bytes: u64) {
        moving.passed += bytes;
        self.passed.fetch_add(bytes, Relaxed);
    }

    /// Notes that a cleaning has appended this many bytes.
    pub(super) fn append(&self, moving: &mut Moving, bytes: u64) {
        // More may be live than was estimated. The count of all cleanings must not become negative.
        let bytes = bytes.min(moving.to_move);
        moving.to_move -= bytes;
        self.to_move.fetch_sub(bytes, Relaxed);
    }

    /// Ends a cleaning whose segment was released.
    pub(super) fn end(&self, moving: Moving) {
        self.passed.fetch_sub(moving.passed, Relaxed);
        self.to_move.fetch_sub(moving.to_move, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleaning_counts_what_it_will_write_until_it_has_ended() {
        let bound = Bound::default();
        let counts = || (bound.passed.load(Relaxed), bound.to_move.load(Relaxed));
        let mut moving = bound.begin(70);
        let other = bound.begin(5);
        assert_eq!(counts(), (0, 75));
        bound.append(&mut moving, 60);
        bound.pass(&mut moving, 90);
        assert_eq!(counts(), (90, 15));
        // More was live than it seemed.
        bound.append(&mut moving, 20);
        assert_eq!(counts(), (90, 5));
        bound.end(moving);
        assert_eq!(counts(), (0, 5));
        bound.end(other);
        assert_eq!(counts(), (0, 0));
    }
}
