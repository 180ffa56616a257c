//! The records that become those of a dictionary.

use crate::interrupt::Interrupt;
use crate::outcome::complain;
use crate::quantity::counted;
use crate::source::{SourceArgs, Wanted};
use indicatif::ProgressBar;
use siltstone::DictionaryWriter;
use std::time::{SystemTime, UNIX_EPOCH};

/// What happened to the records that were read.
#[derive(Default)]
pub struct Taken {
    expiring: u64,
    expired: u64,
}

impl Taken {
    /// Prints what a dictionary could not store.
    pub fn print(&self) {
        if self.expiring > 0 {
            let (expiring, expired) = (self.expiring, self.expired);
            complain(format_args!(
                "{} had an expiry time, which dictionaries do not keep; {expired} of them had expired and were skipped",
                counted(expiring, "record")
            ));
        }
    }
}

/// Puts all records into the dictionary. Returns [`siltstone::Error::Interrupted`] if the user interrupts.
pub fn put_all(
    source: &SourceArgs,
    writer: &mut DictionaryWriter,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> anyhow::Result<Taken> {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let mut taken = Taken::default();
    source.for_each(Wanted::Records, bar, interrupt, |record| {
        let expires = record.expires_at_ms != siltstone::batch::NEVER;
        taken.expiring += u64::from(expires);
        if expires && record.expires_at_ms <= now_ms {
            taken.expired += 1;
            return Ok(());
        }
        Ok(writer.put(&record.key, &record.value)?)
    })?;
    Ok(taken)
}
