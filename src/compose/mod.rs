//! What engines with a log and background jobs share, between the stores and the engines.

#[doc(hidden)]
pub mod hashed_log;
mod job_slot;
mod locks;
mod space;

pub(crate) use job_slot::JobSlot;
pub use locks::KEY_STRIPES_BYTES;
pub(crate) use locks::{KeyStripes, with_locks};
pub(crate) use space::{Space, is_short, reserve_bytes};
