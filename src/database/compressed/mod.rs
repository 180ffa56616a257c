//! Compression of values. It is an engine over another one: what is written is compressed and what is read is
//! decompressed here, so every engine has it alike and knows nothing of it. Engines, the record cache and the disk of a
//! FlashStore have stored values only. The choice is in the header of the database (`docs/formats/manifest.md`).
//!
//! Every value is coded on its own (`docs/formats/compression.md`). A database with Zstandard gets a dictionary once:
//!
//! 1. Collect samples: records that the database has when it is opened, then values that are written.
//! 2. When there are enough, look at all other records, in steps of background work or during a bulk load: a value with
//!    a dictionary shows that both copies were lost, and no other dictionary may take their place. Then train one.
//! 3. Write both copies durably. Until then no value needs them, so a crash loses nothing.
//! 4. Use the dictionary for values from then on. Values from before stay as they are.
//!
//! The lock of the dictionary is outside all locks of the engine. A step takes it only if it can at once; a checkpoint
//! holds it.

pub mod file;
#[cfg(feature = "compression")]
mod over;
#[cfg(feature = "compression")]
mod training;
#[cfg(feature = "compression")]
mod values;

use crate::batch::BEFORE_ALL_EXPIRY;
use crate::compression::{Compression, dictionary_of};
use crate::engine::{Engine, GoOn, pass};
use crate::error::Result;
use crate::store::CompactionFilter;
use crate::store::manifest::Header;
use siltstone_device::Directory;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Checks that this program can read the values of the database in a directory, if there is one.
pub(super) fn check(directory: &Directory) -> Result<()> {
    let compression = Header::read(directory)?.map_or(Compression::None, |header| header.compression);
    compression.check_feature(|| format!("the database in {} has", directory.path().display()))
}

/// Returns whether a value that an engine stores is compressed with a dictionary. Records that cannot be read are not
/// searched: they have damage of their own.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted) if `go_on` returned false.
pub(super) fn needs_dictionary(engine: &dyn Engine, go_on: &mut GoOn<'_>) -> Result<bool> {
    let Ok(snapshot) = engine.snapshot(BEFORE_ALL_EXPIRY) else { return Ok(false) };
    for (passed, record) in (1..).zip(snapshot.records()) {
        match record {
            Ok(record) if dictionary_of(&record.value).is_some() => return Ok(true),
            Ok(_) => pass(passed, go_on)?,
            Err(_) => break,
        }
    }
    Ok(false)
}

/// Returns the value that a stored one of a key is; `None` if it is damaged.
type Decode = dyn Fn(&[u8], &[u8]) -> Option<Vec<u8>> + Send + Sync;

/// How the values of a database that is being opened are decoded: `None` if they are stored as they are.
pub(super) type Decoding = Arc<OnceLock<Option<Box<Decode>>>>;

/// Returns a filter of stored values for one of values. It keeps everything as long as the decoding is not known.
pub(super) fn filter_of_stored(filter: CompactionFilter, decoding: &Decoding) -> CompactionFilter {
    let decoding = decoding.clone();
    CompactionFilter::new(move |key, stored| match decoding.get() {
        // Until the open has read the dictionary. What the filter refuses can go later.
        None => true,
        Some(None) => filter.keeps_value(key, stored),
        // A damaged value stays, so that reads and verification report it.
        Some(Some(decode)) => decode(key, stored).is_none_or(|value| filter.keeps_value(key, &value)),
    })
}

/// What the coding of the values of a database depends on.
#[cfg_attr(not(feature = "compression"), expect(dead_code, reason = "only the codec needs all of it"))]
pub(super) struct CodingContext {
    pub compression: Compression,
    /// The bytes on which a dictionary is trained, for tests.
    pub sample_bytes: Option<usize>,
    /// The directory of the dictionary; `None` for an engine without files.
    pub directory: Option<Directory>,
    /// The path in errors.
    pub path: PathBuf,
    /// Is set to how values are decoded.
    pub decoding: Decoding,
}

/// Returns the engine with the compression of its values.
#[cfg(feature = "compression")]
pub(super) fn over(engine: Arc<dyn Engine>, place: CodingContext) -> Result<Arc<dyn Engine>> {
    let decoding = place.decoding.clone();
    if place.compression == Compression::None {
        decoding.get_or_init(|| None);
        return Ok(engine);
    }
    let values = Arc::new(values::Values::open(&*engine, place)?);
    let of_filter = values.clone();
    // From here on the filter sees values. Until here it has kept all records.
    decoding.get_or_init(|| {
        Some(Box::new(move |key, stored| {
            let mut value = Vec::new();
            of_filter.decode_into(key, stored, &mut value).ok().map(|()| value)
        }))
    });
    Ok(Arc::new(over::Compressed::new(engine, values)))
}

/// Returns the engine, whose values are not compressed.
#[cfg(not(feature = "compression"))]
pub(super) fn over(engine: Arc<dyn Engine>, place: CodingContext) -> Result<Arc<dyn Engine>> {
    let CodingContext { compression, sample_bytes: _, directory: _, path, decoding } = place;
    decoding.get_or_init(|| None);
    compression.check_feature(|| format!("the database in {} has", path.display()))?;
    Ok(engine)
}
