//! Detects whether this process is a forked child, which has the memory of its parent but is another process.

#[cfg(target_os = "linux")]
use std::sync::atomic::Ordering;

/// Returns a number that differs in children made by `fork` from now on. Costs an atomic load if the system reports
/// forks; asking for the process id takes more than 100 ns.
pub fn process_mark() -> u64 {
    #[cfg(target_os = "linux")]
    if *linux::IS_WATCHED {
        return linux::FORKS.load(Ordering::Relaxed);
    }
    u64::from(std::process::id())
}

/// Returns whether a process has ended, as far as this one can see: it may be in another container.
pub(crate) fn has_ended(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    id.is_none_or(|id| rustix::process::test_kill_process(id) == Err(rustix::io::Errno::SRCH))
}

/// Returns how many children this process has made by `fork` since the first call; `None` if the system does not report
/// forks.
pub(super) fn forks_made() -> Option<u64> {
    #[cfg(target_os = "linux")]
    if *linux::IS_WATCHED {
        return Some(linux::FORKS_MADE.load(Ordering::Relaxed));
    }
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The forks that made this process, since the handlers were registered in an ancestor.
    pub(super) static FORKS: AtomicU64 = AtomicU64::new(0);
    /// The forks that this process made, and those of its ancestors before.
    pub(super) static FORKS_MADE: AtomicU64 = AtomicU64::new(0);

    extern "C" fn count_in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    extern "C" fn count_in_parent() {
        FORKS_MADE.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the system reports forks. Registers the handlers when it is first asked.
    pub(super) static IS_WATCHED: LazyLock<bool> = LazyLock::new(|| {
        // SAFETY: the handlers are functions of this program, which live as long as it does, and do only what is
        // allowed in a child after a fork: they change an atomic.
        unsafe { libc::pthread_atfork(None, Some(count_in_parent), Some(count_in_child)) == 0 }
    });
}
