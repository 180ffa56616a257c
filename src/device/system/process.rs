//! Detects whether this process is a forked child, which has the memory of its parent but is another process.

/// Returns a number that differs in children made by `fork` from now on. Costs an atomic load if the system reports
/// forks; asking for the process id takes more than 100 ns.
pub(crate) fn process_mark() -> u64 {
    #[cfg(target_os = "linux")]
    if linux::is_watched() {
        return linux::forks();
    }
    u64::from(std::process::id())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static FORKS: AtomicU64 = AtomicU64::new(0);

    extern "C" fn count_fork() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn forks() -> u64 {
        FORKS.load(Ordering::Relaxed)
    }

    pub(super) fn is_watched() -> bool {
        static WATCHED: OnceLock<bool> = OnceLock::new();
        *WATCHED.get_or_init(|| {
            // SAFETY: the handler is a function of this program, which lives as long as the program, and does only what
            // is allowed in a child after a fork: it changes an atomic.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
        })
    }
}
