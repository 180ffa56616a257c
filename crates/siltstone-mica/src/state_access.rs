//! Access of a writer to the state of a partition that only writers need.

use super::{CollectionTimer, Space};
use siltstone_device::sync::{Mutex, MutexGuard};
use std::ops::DerefMut;
use std::sync::Arc;

/// The state that only writers need.
pub struct WriterState<S: Space> {
    /// The free lists of a store, the sweep of a cache's log.
    pub(super) space: S::State,
    /// When expired items are removed.
    pub(super) timer: CollectionTimer,
}

/// Access to the state that only writers need.
pub trait StateAccess<T> {
    /// Releases the state when it is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Waits until no other writer uses the state.
    fn access(&mut self) -> Self::Guard<'_>;
}

/// The state of the only writer (EREW and CREW). Access is free, and it cannot be cloned.
pub struct OwnedState<T>(pub(super) T);

impl<T> StateAccess<T> for OwnedState<T> {
    type Guard<'a>
        = &'a mut T
    where
        Self: 'a;

    #[inline]
    fn access(&mut self) -> &mut T {
        // `&mut self` of the owner, which cannot be cloned, is the proof that it is alone.
        &mut self.0
    }
}

/// The state that all writers share (CRCW), under a lock.
impl<T> StateAccess<T> for Arc<Mutex<T>> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;

    #[inline]
    fn access(&mut self) -> MutexGuard<'_, T> {
        self.lock()
    }
}
