//! Giving another shape to a database that never held a record: a first write that was refused fixes nothing.

use super::open::check_shape;
use super::{ShapeSettings, Silt, SiltSettings};
use crate::Result;
use crate::batch::TimestampMs;
use crate::device::Directory;
use crate::store::manifest::Manifest;

impl Silt {
    /// Gives the database the shape that is asked for, if it has another and never held a record; answers whether it
    /// did. The new manifest takes the old one's place by one renaming, and the log, in which there is no record, goes
    /// on: whatever ends this, the database has the one shape or the other.
    pub fn reshape(
        directory: &Directory,
        settings: &ShapeSettings,
        seed: [u64; 2],
        now_ms: TimestampMs,
    ) -> Result<bool> {
        let manifest = Manifest::open(directory)?;
        let old = *manifest.shape();
        if directory.is_read_only() || !manifest.is_unused() || check_shape(settings, &old).is_ok() {
            return Ok(false);
        }
        drop(manifest);
        let opened = Silt::open(directory.clone(), SiltSettings::default(), now_ms, &mut |_, _| true)?;
        if opened.core.counters.replayed_records > 0 {
            return Ok(false);
        }
        drop(opened);
        Manifest::create(directory, &settings.shape(seed, old.database_id, old.secret))?;
        Ok(true)
    }
}
