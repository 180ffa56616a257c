//! Linearizability (Herlihy and Wing, TOPLAS 1990): threads that use a database at the same time see what they would
//! see if each operation took effect at one moment between its call and its return.
//!
//! The checker treats each key by itself, and a transaction as one update per key. Scans are not linearizable: each
//! record of a page has the value of a moment of its own. The simulation checks scans.
//!
//! - [`check`] decides whether the history of a key is linearizable.
//! - [`Load`] runs threads that use a database, and records the history.

mod checker;
mod load;
#[cfg(test)]
mod tests;

pub use checker::{Action, Event, NEVER_RETURNED, NotLinearizable, check};
pub use load::{Counts, Load};
