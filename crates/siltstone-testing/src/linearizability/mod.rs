//! Linearizability (Herlihy and Wing, TOPLAS 1990): threads that use a database at the same time see what they would
//! see if each operation happened at once, at some moment between its call and its return.
//!
//! - [`check`]: whether the history of a key can be explained so.
//! - [`Load`]: threads that use a database and write down its history.

mod checker;
mod load;
#[cfg(test)]
mod tests;

pub use checker::{Action, Event, NEVER_RETURNED, NotLinearizable, check};
pub use load::{Load, Tally};
