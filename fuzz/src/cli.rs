//! The formats of the command line.

#[path = "../../crates/siltstone-dedup/src/formats.rs"]
pub mod formats;
#[path = "../../crates/siltstone-command/src/notation.rs"]
pub mod notation;
#[path = "../../crates/siltstone-cli/src/stream.rs"]
pub mod stream;
#[path = "../../crates/siltstone-cli/src/transfer/mod.rs"]
pub mod transfer;
