//! What engines with background jobs share: slots of jobs and their order, locks of keys, the reserve of free space,
//! and the numbers of new files.

mod job_slot;
mod job_slots;
mod locks;
mod numbers;
mod order;
mod space;

pub(in crate::engine) use job_slot::JobSlot;
pub(in crate::engine) use job_slots::{FURTHER_PRESSURE, JobSlots, jobs_at_once};
pub use locks::KEY_STRIPES_BYTES;
pub(in crate::engine) use locks::{KeyStripes, with_locks};
pub(in crate::engine) use numbers::free_number;
pub(in crate::engine) use order::{Due, step_furthest_behind};
pub(in crate::engine) use space::{check_space, has_besides, is_short, reserve_bytes};
