//! The systems among which the planner chooses.

use serde::{Serialize, Serializer};
use siltstone::EngineKind;

/// An engine of Siltstone with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System(EngineKind);

impl System {
    /// SILT.
    pub const SILT: System = System(EngineKind::Silt);
    /// FlashKey.
    pub const FLASHKEY: System = System(EngineKind::FlashKey);
    /// FlashStore, which is planned above a disk.
    pub const FLASHSTORE: System = System(EngineKind::FlashStore);
    /// MICA.
    pub const MICA: System = System(EngineKind::Mica);

    /// Returns all engines.
    pub fn all() -> impl Iterator<Item = System> {
        EngineKind::ALL.iter().copied().map(System)
    }

    /// Returns the engine.
    pub(super) fn kind(self) -> EngineKind {
        self.0
    }

    /// Returns the engine's name: the value of `--engine`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl Serialize for System {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
