//! Creating a database, and recognising what is left of a creation that was interrupted.
//!
//! The first segment of the log is durable before there is a manifest: so a database without any log has lost it. The
//! manifest comes into being by one renaming. Before that the directory holds at most an empty segment and a manifest
//! under its passing name, which the next creation removes.

use super::engine::SiltEngine;
use super::live::Manifest;
use crate::error::Result;
use crate::names::{FileName, LogClass};
use crate::store::files_of_engine;
use crate::store::log::Log;
use crate::store::log_format::SEGMENT_HEADER_BYTES;
use crate::store::manifest::Header;
use siltstone_device::{Access, Directory, Purpose};

impl SiltEngine {
    /// Returns whether the directory holds what is left of a creation that was interrupted, and nothing else of an
    /// engine.
    pub fn is_half_created(directory: &Directory) -> Result<bool> {
        let names = files_of_engine(directory)?;
        for name in &names {
            if !is_of_creation(directory, name)? {
                return Ok(false);
            }
        }
        Ok(!names.is_empty())
    }

    /// Creates an empty database. The remains of an interrupted creation are removed.
    pub(super) fn create(directory: &Directory, header: &Header) -> Result<()> {
        if SiltEngine::is_half_created(directory)? {
            files_of_engine(directory)?.iter().try_for_each(|name| directory.remove(name))?;
        }
        Log::begin(directory, &header.log_format(), 0)?;
        // The segment must be durable before a manifest is: a manifest without a log is a database that has lost it.
        directory.sync(Purpose::Recover)?;
        Manifest::create(directory, header)
    }
}

/// Returns whether a creation makes a file of this name, and this one is as long as that, or empty. What it holds says
/// nothing: after a loss of power a file system may show anything in place of what was not synced.
fn is_of_creation(directory: &Directory, name: &str) -> Result<bool> {
    let written = match FileName::parse(name) {
        Some(FileName::Segment { class: LogClass::User, base: 0 }) => SEGMENT_HEADER_BYTES as u64,
        Some(FileName::NewManifest) => Manifest::empty_length(),
        _ => return Ok(false),
    };
    let length = directory.open(name, Access::Buffered)?.length()?;
    Ok(length == 0 || length == written)
}
