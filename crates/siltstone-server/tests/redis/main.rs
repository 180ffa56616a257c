//! The server through sockets, as clients see it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod administration;
mod client;
mod cluster;
mod connections;
mod faults;
mod memcached;
mod memory;
mod messages;
mod metrics;
mod monitors;
mod rare;
mod reading;
mod recorded;
mod scripts;
mod served;
mod slow;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod unix;
mod users;
