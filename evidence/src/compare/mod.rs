//! Siltstone and other stores: the same keys and values, one store after another on the same device, with every value
//! checked. Each store runs in a process of its own, so that memory and counters are those of that store alone.
//!
//! ```text
//!   table, traces   which stores run which phases, under which conditions
//!      | order (JSON)              ^ rows (lines of JSON)
//!   child           opens a store of `peer`, runs `phase`s with `worker`, measures with `meter`
//! ```
//!
//! Without the feature `peers`, the stores are Siltstone's engines alone.

#[cfg(feature = "peers")]
pub mod caches;
pub mod child;
#[cfg(feature = "peers")]
pub mod key_set;
mod latencies;
mod limit;
mod meter;
mod page_cache;
pub mod peer;
pub mod phase;
mod raw;
pub mod report;
pub mod row;
pub mod table;
pub mod traces;
mod worker;
