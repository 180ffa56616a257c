//! FlashKey (MSST 2020): data in logs, and an index in memory that maps each key's hash to the exact place of its
//! record. A put is one append, a get one read, and a missing key costs no read.
//!
//! The structures and jobs are in `compose::hashed_log`, the trait `Engine` over them is in `engine::log_engine`. Here
//! are its settings (V-B, VI-B), and the engine in the table of engines.
//!
//! Deviations: the index keeps a part of the hash and a place per key, 5 bytes instead of 36, and no lengths; it grows
//! page by page. The older record of a key is found in the background. Cleaned records move to logs of their age, not
//! to the log of puts. The index is recovered from its saved copy and a log of changes, never from the data.

#[doc(hidden)]
pub mod costs;
mod family;
mod settings;
#[cfg(test)]
mod tests;

pub use crate::compose::hashed_log::Victim;
#[doc(hidden)]
pub use crate::compose::hashed_log::{Mistake, live};
pub use settings::FlashKeySettings;
pub(in crate::engine) use settings::INFO;
