//! Locks and atomics of the state that threads share: the engines and the log. With `--cfg shuttle` they are those of
//! Shuttle, which explores thread schedules (`siltstone-testing`, `tests/shuttle.rs`).

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle_parking_lot::{Mutex, RwLock};

#[cfg(shuttle)]
pub(crate) use shuttle::{sync::atomic, thread::yield_now};
#[cfg(not(shuttle))]
pub(crate) use std::{sync::atomic, thread::yield_now};
