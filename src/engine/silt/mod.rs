//! SILT (SOSP 2011): to come.

mod settings;

pub use settings::{HashStoreKind, IndexKind, ShapeSettings, SiltSettings};

use crate::batch::{Durability, TimestampMs, Write};
use crate::device::Directory;
use crate::engine::{Capabilities, Change, Engine, EngineKind, Found, Records, Step, VerifyReport};
use crate::progress::Progress;
use crate::stats::Stats;
use crate::{Error, Result};
use std::path::Path;

/// The SILT engine.
pub struct Silt {}

impl Silt {
    /// Whether a database of this engine stands in the directory.
    pub fn stands_in(directory: &Directory) -> Result<bool> {
        Ok(directory.list()?.iter().any(|name| name == "MANIFEST"))
    }
    /// Creates an empty database.
    pub fn create(_: &Directory, _: &ShapeSettings, _seed: [u64; 2]) -> Result<()> {
        Err(Error::Closed)
    }
    /// Opens a database.
    pub fn open(_: Directory, _: SiltSettings, _: TimestampMs, _: &mut Progress<'_>) -> Result<Silt> {
        Err(Error::Closed)
    }
}

impl Engine for Silt {
    fn kind(&self) -> EngineKind {
        EngineKind::Silt
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { ordered: false, persistent: true }
    }
    fn get(&self, _: &[u8], _: TimestampMs) -> Result<Option<Found>> {
        Err(Error::Closed)
    }
    fn write(&self, _: &[Write<'_>], _: Durability, _: TimestampMs) -> Result<()> {
        Err(Error::Closed)
    }
    fn update(
        &self,
        _: &[u8],
        _: Durability,
        _: TimestampMs,
        _: &mut dyn FnMut(Option<&Found>) -> Result<Change>,
    ) -> Result<()> {
        Err(Error::Closed)
    }
    fn iterate(&self, _: TimestampMs) -> Result<Records> {
        Err(Error::Closed)
    }
    fn sync(&self) -> Result<()> {
        Err(Error::Closed)
    }
    fn step(&self, _: TimestampMs) -> Result<Step> {
        Err(Error::Closed)
    }
    fn has_work(&self) -> bool {
        false
    }
    fn pressure(&self) -> f64 {
        0.0
    }
    fn request_compaction(&self) -> Result<()> {
        Err(Error::Closed)
    }
    fn checkpoint(&self, _: &Path) -> Result<()> {
        Err(Error::Closed)
    }
    fn verify(&self, _: &mut Progress<'_>) -> Result<VerifyReport> {
        Err(Error::Closed)
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn reset_ram_peak(&self) {}
    fn close(&self) -> Result<()> {
        Err(Error::Closed)
    }
}
