//! Wakes a core that waits for packets.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes the thread that waits for a transport. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Makes a waker.
    ///
    /// # Errors
    /// The error of the system if it has no descriptors left.
    pub fn new() -> io::Result<Waker> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Waker(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes the thread now, or when it next waits.
    pub fn wake(&self) {
        // Fails only after 2^64 calls.
        let _ = self.0.write(1);
    }

    /// Resets the waker.
    pub(super) fn clear(&self) {
        let _ = self.0.read();
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
