//! Whether this is still the process that it was: a child made by `fork` has its memory, and must be told apart.

/// A number that is another one in a child that is made by `fork` from here on. Costs a load of an atomic where the
/// system tells of forks; asking for the process id costs more than 100 ns.
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
            // SAFETY: the handler is a function of this program that lives as long as it, and does what may be done in
            // a child after a fork: it changes an atomic.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) == 0 }
        })
    }
}
