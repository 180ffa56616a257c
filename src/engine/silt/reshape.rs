//! Giving another shape to a database that never held a record, so that a refused first write fixes nothing.

use super::engine::Silt;
use super::live::Manifest;
use super::settings::SiltSettings;
use crate::device::Directory;
use crate::engine::CommonSettings;
use crate::error::Result;
use crate::store::manifest::Header;

impl Silt {
    /// Gives the database another header if it was created with other settings and never held a record. Returns whether
    /// it did. One rename replaces the manifest, and the log, which has no record, stays: after a crash the database
    /// has the old header or the new one.
    pub(super) fn reshape(
        directory: &Directory,
        common: &CommonSettings,
        seed: Option<[u64; 2]>,
    ) -> Result<bool> {
        let manifest = Manifest::open(directory)?;
        let old = *manifest.header();
        if directory.is_read_only() || !manifest.is_unused() || common.check_against(&old).is_ok() {
            return Ok(false);
        }
        drop(manifest);
        let (settings, any) = (SiltSettings::default(), CommonSettings::default());
        let opened = Silt::open(directory.clone(), &settings, &any, &mut |_, _| true)?;
        if opened.replayed_records > 0 {
            return Ok(false);
        }
        drop(opened);
        let new = common.header(old.engine, seed)?;
        Manifest::create(directory, &Header { database_id: old.database_id, secret: old.secret, ..new })?;
        Ok(true)
    }
}
