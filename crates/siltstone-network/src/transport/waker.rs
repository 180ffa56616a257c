//! Waking a core that waits for packets.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes the one that waits for a transport. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// One that nobody waits for as yet.
    ///
    /// # Errors
    /// What the system says if it has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Waker(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// Wakes it, now or when it waits next.
    pub fn wake(&self) {
        // It fails only when it was woken some 2^64 times already.
        let _ = self.0.write(1);
    }

    /// Takes back that it was woken.
    pub(super) fn clear(&self) {
        let _ = self.0.read();
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
