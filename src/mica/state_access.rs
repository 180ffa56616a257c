//! Access of a handle to the state of a partition that only writers need: the free lists of a store, the sweep of a
//! cache's log.

use parking_lot::{Mutex, MutexGuard};
use std::ops::DerefMut;
use std::sync::Arc;

/// Access to the state that only writers need.
pub trait StateAccess {
    /// The state.
    type State;
    /// Releases the state when it is dropped.
    type Guard<'a>: DerefMut<Target = Self::State>
    where
        Self: 'a;
    /// Waits until no other writer uses the state.
    fn access(&mut self) -> Self::Guard<'_>;
}

/// The state of the only writer (EREW and CREW). Access is free.
pub struct OwnedState<T>(pub(super) T);

/// The state that all writers share (CRCW), under a lock.
pub struct SharedState<T>(pub(super) Arc<Mutex<T>>);

/// The absence of the state, in a handle that only reads.
#[derive(Clone)]
pub struct NoState;

impl<T> Clone for SharedState<T> {
    fn clone(&self) -> Self {
        SharedState(self.0.clone())
    }
}

impl<T> StateAccess for OwnedState<T> {
    type State = T;
    type Guard<'a>
        = &'a mut T
    where
        Self: 'a;

    #[inline]
    fn access(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> StateAccess for SharedState<T> {
    type State = T;
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;

    #[inline]
    fn access(&mut self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}
