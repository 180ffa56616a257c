//! What engines with background jobs share: slots of jobs, locks of keys, and the reserve of free space.

mod job_slot;
mod locks;
mod space;

pub(in crate::engine) use job_slot::JobSlot;
pub use locks::KEY_STRIPES_BYTES;
pub(in crate::engine) use locks::{KeyStripes, with_locks};
pub(in crate::engine) use space::{Space, is_short, reserve_bytes};
