//! The server through sockets, as clients see it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod connections;
mod memcached;
mod metrics;
mod reading;
mod recorded;
mod scripts;
mod served;
mod slow;
