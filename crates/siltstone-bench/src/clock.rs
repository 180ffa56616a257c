//! Threads, their CPU time, and that of the process.

use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// Returns the CPU time of this thread, including the kernel's. It does not advance while other threads run, so
/// computations can be measured on a busy machine.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The system never returns negative times, nor a billion nanoseconds or more.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Returns the CPU time of all threads of this process, including the kernel's.
pub fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Starts a thread of a scope; without one it is an error, and no panic.
pub fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> crate::Result<ScopedJoinHandle<'scope, T>> {
    let started = std::thread::Builder::new().spawn_scoped(scope, work);
    started.map_err(|error| io::Error::new(error.kind(), format!("cannot start a thread: {error}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_advances_with_work() {
        let start = thread_time();
        let mut sum = 0;
        while thread_time() == start {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(thread_time() > start);
    }
}
