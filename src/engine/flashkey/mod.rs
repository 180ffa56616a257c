//! FlashKey (MSST 2020): data in logs, and an index in memory that maps each key's hash to the exact place of its
//! record. A put is one append, a get one read, and a missing key costs no read.
//!
//! The structures and jobs are in `compose::hashed_log`. Here are its settings and the trait
//! `Engine`.
//!
//! | file | contents | paper |
//! |---|---|---|
//! | `engine` | [`FlashKey`], the trait `Engine` | V |
//! | `snapshot`, `scan` | records of one moment; records in the order of the hashes | |
//! | `ordered` | records in the order of their keys | V-A.3 |
//! | `settings`, `family` | the settings; the engine in the table of engines | V-B, VI-B |
//!
//! Deviations: the index keeps a part of the hash and a place per key, 5 bytes instead of 36, and no lengths; it grows
//! page by page. The older record of a key is found in the background. Cleaned records move to logs of their age, not
//! to the log of puts. The index is recovered from its saved copy and a log of changes, never from the data.

#[doc(hidden)]
pub mod costs;
mod engine;
mod family;
mod ordered;
mod scan;
mod settings;
mod snapshot;
#[cfg(test)]
mod tests;

pub use crate::compose::hashed_log::Victim;
#[doc(hidden)]
pub use crate::compose::hashed_log::{Mistake, live};
pub use engine::FlashKey;
pub use settings::FlashKeySettings;
pub(in crate::engine) use settings::INFO;
