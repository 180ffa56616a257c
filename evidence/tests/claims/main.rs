//! Every benchmark and every item at a tiny size, to keep it working; and the ids of the items.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod documents;
mod every_index;
mod every_item;
mod every_packet;
mod every_partition;
mod inventory;
