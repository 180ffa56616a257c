//! The disk as the logs see it.

use super::claim::Claim;
use crate::batch::{Durability, HashedWrite, TimestampMs};
use crate::engine::Engine;
use crate::engine::flashkey::Below;
use crate::error::Result;
use crate::key::Key;
use siltstone_device::Directory;
use siltstone_device::sync::Mutex;
use siltstone_device::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The engine of the disk, and the claim that says how far it is.
pub(super) struct DiskBelow {
    engine: Arc<dyn Engine>,
    directory: Directory,
    claim: Mutex<Claim>,
    /// Something was written since the last confirmation.
    is_written: AtomicBool,
}

impl DiskBelow {
    pub fn new(engine: Arc<dyn Engine>, directory: Directory, claim: Claim) -> DiskBelow {
        DiskBelow { engine, directory, claim: Mutex::new(claim), is_written: AtomicBool::new(false) }
    }

    /// Returns the claim as it is on the disk.
    pub fn claim(&self) -> Claim {
        *self.claim.lock()
    }
}

impl Below for DiskBelow {
    fn may_contain(&self, key: Key<'_>) -> bool {
        // Also records that have expired: at the time 0 none has.
        self.engine.may_contain(key, 0).unwrap_or(true)
    }

    fn expect(&self, position: u64) -> Result<()> {
        let mut claim = self.claim.lock();
        // Durable before the records are written: flash may never be older than what the disk has of it.
        if position > claim.position {
            let later = Claim { position, ..*claim };
            later.write(&self.directory)?;
            // Only after the write: if that fails, the claim in memory is not ahead of the file.
            *claim = later;
        }
        Ok(())
    }

    fn contain(&self, keys: &[Key<'_>], now_ms: TimestampMs) -> Result<Vec<bool>> {
        let mut contained = vec![false; keys.len()];
        self.engine.get_many(keys, now_ms, &mut |number, shown| contained[number] = shown.is_some())?;
        Ok(contained)
    }

    fn write(&self, writes: &[HashedWrite<'_>], durability: Durability, now_ms: TimestampMs) -> Result<()> {
        self.engine.write(writes, durability, &|| now_ms)?;
        // Before the caller removes entries: the flush that makes their removal durable has to see this.
        self.is_written.store(true, Ordering::Release);
        Ok(())
    }

    fn confirm(&self) -> Result<u64> {
        let mut claim = self.claim.lock();
        // Reset before the claim is written: what comes after this gets the next number.
        if self.is_written.swap(false, Ordering::AcqRel) {
            let later = claim.confirmed();
            later.write(&self.directory)?;
            *claim = later;
        }
        Ok(claim.number)
    }

    fn pressure(&self) -> f64 {
        self.engine.background().pressure
    }
}
