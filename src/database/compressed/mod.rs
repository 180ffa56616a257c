//! Compression of values. It is an engine over another one: what is written is compressed and what is read is
//! decompressed here, so every engine has it alike and knows nothing of it.

pub mod file;
#[cfg(feature = "compression")]
mod over;
#[cfg(feature = "compression")]
mod training;
#[cfg(feature = "compression")]
mod values;

use crate::compression::Compression;
use crate::device::Directory;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::manifest::Header;
use std::path::PathBuf;
use std::sync::Arc;

/// Checks that this program can read the values of the database in a directory, if there is one.
pub(super) fn check(directory: &Directory) -> Result<()> {
    let compression = Header::read(directory)?.map_or(Compression::None, |header| header.compression);
    compression.check_feature(|| format!("the database in {} has", directory.path().display()))
}

/// What the coding of the values of a database depends on.
#[cfg_attr(not(feature = "compression"), expect(dead_code, reason = "only the codec needs all of it"))]
pub(super) struct Place {
    pub compression: Compression,
    /// The bytes on which a dictionary is trained, for tests.
    pub sample_bytes: Option<usize>,
    /// The directory of the dictionary; `None` for an engine without files.
    pub directory: Option<Directory>,
    /// The path in errors.
    pub path: PathBuf,
}

/// Returns the engine with the compression of its values.
#[cfg(feature = "compression")]
pub(super) fn over(engine: Arc<dyn Engine>, place: Place) -> Result<Arc<dyn Engine>> {
    if place.compression == Compression::None {
        return Ok(engine);
    }
    let values = values::Values::open(&*engine, place)?;
    Ok(Arc::new(over::Compressed::new(engine, values)))
}

/// Returns the engine, whose values are not compressed.
#[cfg(not(feature = "compression"))]
pub(super) fn over(engine: Arc<dyn Engine>, place: Place) -> Result<Arc<dyn Engine>> {
    let Place { compression, sample_bytes: _, directory: _, path } = place;
    compression.check_feature(|| format!("the database in {} has", path.display()))?;
    Ok(engine)
}
