//! Faults of a running device: at random, or at one chosen call.

/// A call of the device that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A read of a file.
    Read,
    /// A write of a file.
    Write,
    /// A sync of a file.
    Sync,
    /// A truncation of a file.
    Truncate,
    /// The creation of a file.
    Create,
    /// The removal of a file.
    Remove,
    /// The renaming of a file.
    Rename,
    /// A sync of the directory.
    SyncDirectory,
}

impl Call {
    /// All calls.
    pub const ALL: [Call; 8] = [
        Call::Read,
        Call::Write,
        Call::Sync,
        Call::Truncate,
        Call::Create,
        Call::Remove,
        Call::Rename,
        Call::SyncDirectory,
    ];
}

/// A failure of a chosen call. It fails as [`Faults`] describes for calls of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingCall {
    /// The kind of call, or `None` for any.
    pub call: Option<Call>,
    /// Only calls on files whose name contains this; any if it is empty.
    pub name_part: &'static str,
    /// The number of such calls that succeed first.
    pub after: u64,
    /// All later such calls fail too.
    pub for_ever: bool,
}

/// The probability of each fault, from 0 (never, the default) to 1 (always).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faults {
    /// A read fails (`EIO`).
    pub read_error: f64,
    /// A read returns fewer bytes than there are.
    pub short_read: f64,
    /// A read returns a flipped bit that is correct on the device.
    pub read_flip: f64,
    /// A write fails (`EIO`) after some of its sectors were written.
    pub write_error: f64,
    /// A sync of a file fails (`EIO`). Some of the sectors are durable; the others are dropped: later syncs succeed
    /// without them, although reads may return them until the cache is dropped or the power fails ("fsyncgate", 2018).
    pub sync_error: f64,
    /// A creation, removal, renaming or sync of the directory fails (`EIO`) and changes nothing.
    pub directory_error: f64,
    /// An operation takes a thousand times as long.
    pub slow: f64,
    /// The capacity of the device, in bytes. A write beyond it fails (`ENOSPC`) after some of its sectors were
    /// written. Removed files count while they are open.
    pub capacity_bytes: Option<u64>,
    /// The device states how many bytes are free, as a file system does. Otherwise a database learns it from a write
    /// that fails.
    pub states_free_bytes: bool,
}

impl Faults {
    /// Returns random faults, rare to frequent.
    pub fn random(random: &mut fastrand::Rng) -> Faults {
        let mut chance = || {
            let frequent = 0.3 * random.f64().powi(4);
            if random.bool() { frequent } else { 0.0 }
        };
        let mut faults = Faults {
            read_error: chance(),
            short_read: chance(),
            read_flip: chance(),
            write_error: chance(),
            sync_error: chance(),
            directory_error: chance(),
            slow: chance(),
            capacity_bytes: None,
            states_free_bytes: false,
        };
        if random.u8(..4) == 0 {
            faults.capacity_bytes = Some(1 << random.u32(12..24));
        }
        faults
    }
}
