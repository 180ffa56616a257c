//! The access modes as values, chosen at run time and sent over the network.

/// Which threads read and write a partition (dissertation 5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessMode {
    /// Exclusive read, exclusive write: only the owner of a partition accesses it.
    #[default]
    Erew,
    /// Concurrent read, exclusive write: every thread reads, only the owner writes.
    Crew,
    /// Concurrent read, concurrent write: every thread reads and writes.
    Crcw,
}

impl AccessMode {
    /// All modes.
    pub const ALL: [AccessMode; 3] = [AccessMode::Erew, AccessMode::Crew, AccessMode::Crcw];

    /// Returns the name of the mode, as a user types it.
    pub fn name(self) -> &'static str {
        match self {
            AccessMode::Erew => "erew",
            AccessMode::Crew => "crew",
            AccessMode::Crcw => "crcw",
        }
    }

    /// Returns the mode with this name.
    pub fn from_name(name: &str) -> Option<AccessMode> {
        AccessMode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns whether any thread may execute a request, not only the owner of its partition. `writes` is true for a
    /// put or a delete.
    #[inline]
    pub fn allows_any_thread(self, writes: bool) -> bool {
        match self {
            AccessMode::Erew => false,
            AccessMode::Crew => !writes,
            AccessMode::Crcw => true,
        }
    }
}
