//! What the commands of `siltstone` share: exit codes and messages, Ctrl-C, progress bars, and the notation of bytes
//! and numbers.
//!
//! ```text
//! siltstone-cli          the commands
//! siltstone-dedup        the application behind `siltstone dedup`
//! siltstone-command      what both of them use
//! ```

pub mod database;
pub mod interrupt;
pub mod notation;
pub mod outcome;
pub mod patient;
pub mod progress;
pub mod quantity;
