//! How close the logs are to their bound.
//!
//! Two counts are kept. The *excess* is what finished segments have beyond their space, without what cleaning has
//! already moved out of segments that it will release. Writes wait for it early, so that it stays a small part of the
//! dead bytes. The other one is of all bytes on flash, with those that cleanings will write before they release a
//! segment. Writes wait before these exceed the bound.

use super::indexed_logs::IndexedLogs;
use super::policy::excess_max;
use crate::store::data_logs::CLASSES;
use siltstone_device::sync::atomic::Ordering::Relaxed;

/// Writes of several threads that were admitted at once have this share of a segment.
const ADMITTED_SHARE: f64 = 1.0 / 16.0;

impl IndexedLogs {
    /// Returns the most bytes that the logs take with this many live ones: `space` times as many, and a segment of each
    /// log.
    pub(super) fn most_bytes(&self, live: u64) -> f64 {
        live as f64 * self.settings.space + (CLASSES as u64 * self.data.segment_bytes()) as f64
    }

    /// Notes the bytes of finished segments, and of the live records in them.
    pub(super) fn note_finished(&self, bytes: u64, live: u64) {
        let bound = &self.bound;
        let excess =
            bytes.saturating_sub(bound.passed.load(Relaxed)) as f64 - live as f64 * self.settings.space;
        let most = excess_max(self.settings.space, live as f64, self.data.segment_bytes() as f64);
        bound.excess_max.store(most.to_bits(), Relaxed);
        let base = excess - self.unpassed_bytes() + self.live_bytes() as f64 * self.settings.space;
        bound.excess_base.store(base.to_bits(), Relaxed);
    }

    fn unpassed_bytes(&self) -> f64 {
        self.data.bytes() as f64 - self.bound.passed.load(Relaxed) as f64
    }

    /// Returns by how much finished segments exceed their space, in bytes, without what cleaning has already moved out
    /// of segments that it will release. What was written since the last look at the segments counts as if all records
    /// that it replaces were in finished ones. Costs some atomic loads.
    pub(super) fn excess(&self) -> f64 {
        let base = f64::from_bits(self.bound.excess_base.load(Relaxed));
        base + self.unpassed_bytes() - self.live_bytes() as f64 * self.settings.space
    }

    /// Returns the excess as a share of what it may be before writes wait.
    pub(super) fn excess_pressure(&self) -> f64 {
        self.excess() / f64::from_bits(self.bound.excess_max.load(Relaxed)).max(1.0)
    }

    /// Returns how close all bytes are to the bound: writes wait from 1 on. If nothing is being cleaned, a cleaning
    /// must be able to begin.
    pub(super) fn bound_pressure(&self) -> f64 {
        let segment_bytes = self.data.segment_bytes() as f64;
        // A cleaning writes its copies before it frees its segment.
        let to_move = match self.bound.to_move.load(Relaxed) {
            0 => segment_bytes,
            to_move => to_move as f64,
        };
        let bytes = self.data.bytes() as f64 + to_move + ADMITTED_SHARE * segment_bytes;
        1.0 + (bytes - self.most_bytes(self.live_bytes())) / segment_bytes
    }

    /// Returns whether another cleaning, which moves this many bytes, leaves the logs within the bound.
    pub(super) fn may_move(&self, live: u64) -> bool {
        let bytes = self.data.bytes() + self.bound.to_move.load(Relaxed) + live;
        bytes as f64 <= self.most_bytes(self.live_bytes())
    }
}
