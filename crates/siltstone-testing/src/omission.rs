//! Calls that an engine can omit. To the device it is the same whether the engine does not make the call or a directory
//! between the two drops it, so the directory drops it.

use crate::intercepted::Proceed;
use crate::{Call, Intercepted, SimulatedDirectory};
use std::io;

/// What the engine omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omission {
    /// Syncs of the files whose names begin or end like this.
    SyncOf(&'static str),
    /// Syncs of the directory.
    SyncOfTheDirectory,
    /// Truncation of a file with a torn end.
    Truncation,
    /// The check whether a write succeeded.
    ErrorsOfWrites,
    /// The check whether a sync succeeded.
    ErrorsOfSyncs,
    /// Removal of files that are no longer needed.
    Removal,
}

impl Omission {
    /// Returns the directory without the omitted calls.
    pub(crate) fn applied_to(self, directory: SimulatedDirectory) -> Intercepted<SimulatedDirectory> {
        let directory = Intercepted::new(directory);
        directory.set_hook_around(move |call, name, proceed| self.around(call, name, proceed));
        directory
    }

    fn around(self, call: Call, name: &str, proceed: &mut Proceed<'_>) -> io::Result<()> {
        match (self, call) {
            (Omission::SyncOf(affix), Call::Sync) if name.starts_with(affix) || name.ends_with(affix) => {
                Ok(())
            }
            (Omission::SyncOfTheDirectory, Call::SyncDirectory)
            | (Omission::Truncation, Call::Truncate)
            | (Omission::Removal, Call::Remove) => Ok(()),
            (Omission::ErrorsOfWrites, Call::Write) | (Omission::ErrorsOfSyncs, Call::Sync) => {
                proceed().or(Ok(()))
            }
            _ => proceed(),
        }
    }
}
