//! The clock of the processor.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The time that this thread has spent on a processor, in the kernel too. It stands still while others have the
/// processor, so that what only computes can be measured beside them.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The system gives no negative times and fewer nanoseconds than a second has.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
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
