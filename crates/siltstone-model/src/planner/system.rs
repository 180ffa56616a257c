//! The systems among which the planner chooses.

use serde::{Serialize, Serializer};
use siltstone::EngineKind;

/// A system with a model: an engine of Siltstone, or the system of a paper that Siltstone does not implement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// An engine of Siltstone.
    Engine(EngineKind),
    /// BloomStore: no index per key in memory.
    BloomStore,
}

impl System {
    /// SILT.
    pub const SILT: System = System::Engine(EngineKind::Silt);
    /// FlashKey.
    pub const FLASHKEY: System = System::Engine(EngineKind::FlashKey);
    /// FlashStore, which is planned above a disk.
    pub const FLASHSTORE: System = System::Engine(EngineKind::FlashStore);
    /// MICA.
    pub const MICA: System = System::Engine(EngineKind::Mica);

    /// Returns all systems, the engines first.
    pub fn all() -> impl Iterator<Item = System> {
        EngineKind::ALL.iter().copied().map(System::Engine).chain([System::BloomStore])
    }

    /// Returns the system's name. For an engine it is the value of `--engine`.
    pub fn name(self) -> &'static str {
        match self {
            System::Engine(kind) => kind.name(),
            System::BloomStore => "bloomstore",
        }
    }

    /// Returns whether the system is an engine of Siltstone.
    pub fn is_built(self) -> bool {
        matches!(self, System::Engine(_))
    }
}

impl Serialize for System {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
