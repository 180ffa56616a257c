//! The locks of the doubles. With `--cfg shuttle` they are those of Shuttle, as in the library.

#[cfg(not(shuttle))]
pub use parking_lot::{Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub use shuttle_parking_lot::{Mutex, MutexGuard, RwLock};
