//! The FlashKey engine: the repair of what is damaged, and databases whose capacity is reached.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, and prints what it found")]

mod capacity;
mod repair;
#[path = "../repairs/mod.rs"]
mod repairs;
mod space;
