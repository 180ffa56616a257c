//! A copy from or to a mapping of a file that ends at a page which cannot be read or written.
//!
//! If the drive fails to read a page of a mapping, the file system cannot write it, or the file has become shorter, the
//! system sends `SIGBUS` to the thread that touches the page. Here that is no more than a short copy:
//!
//! 1. The copy is the single instruction `rep movsb`. When it is interrupted, RCX has the number of bytes left.
//! 2. The handler of `SIGBUS` continues behind this instruction if it is the one that was interrupted.
//! 3. The caller sees that bytes are left, and reads or writes them by a call, which returns the error.
//!
//! Every other `SIGBUS` is passed to the handler that the process had before.

use std::ffi::c_int;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// The length of the instruction `rep movsb`, in bytes.
const INSTRUCTION_BYTES: i64 = 2;

/// What handled `SIGBUS` before. Set before this module's handler is.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Copies up to `bytes` bytes, and returns the number of those left. Begins with the instruction that copies, so that
/// its address is the function's: the length is the fourth argument, which the calling convention passes in RCX.
///
/// # Safety
/// That of [`copy`].
#[unsafe(naked)]
unsafe extern "sysv64" fn copy_bytes(to: *mut u8, from: *const u8, unused: usize, bytes: usize) -> usize {
    std::arch::naked_asm!("rep movsb", "mov rax, rcx", "ret")
}

/// Copies from or to a mapping. Returns whether all bytes were copied; if not, any part of them may have been. Without
/// [`install`], a page that cannot be used ends the process.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes, and `from` for reads, except that a page which is mapped may be one that
/// cannot be read or written. No thread has a reference to what is mapped.
pub(super) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller vouches for both.
    unsafe { copy_bytes(to, from, 0, bytes) == 0 }
}

/// Asks the processor for the line of an address, which may be one that cannot be read.
pub(super) fn prefetch(address: *const u8) {
    // SAFETY: the instruction accesses no memory as far as a program can see, and an address without memory is ignored.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast()) };
}

/// Returns the ticks of the processor's clock, 2,000 to 5,000 per microsecond. The clock of the system is made of them,
/// but reading it takes a tenth as long as a copy.
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: it reads a register.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Installs the handler, once per process. Returns whether that succeeded.
pub(super) fn install() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let Some(previous) = exchange(None) else { return false };
        // Before the handler can be called, which passes other signals on to it.
        PREVIOUS.get_or_init(|| previous);
        // SAFETY: all bytes zero are a value of this structure.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        exchange(Some(&action)).is_some()
    })
}

/// Sets what handles `SIGBUS`, if anything is given, and returns what did.
fn exchange(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    let action = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both pointers are null or valid, and zeros are a value of the structure.
    let outcome = unsafe { libc::sigaction(libc::SIGBUS, action, previous.as_mut_ptr()) };
    // SAFETY: as above; the system has overwritten it.
    (outcome == 0).then(|| unsafe { previous.assume_init() })
}

/// Handles `SIGBUS`. Calls only what a handler may call.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the context of the interrupted thread to a handler with `SA_SIGINFO`.
    let context_of_thread = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let instruction = &mut context_of_thread.uc_mcontext.gregs[libc::REG_RIP as usize];
    if *instruction == copy_bytes as *const () as i64 {
        *instruction += INSTRUCTION_BYTES;
        return;
    }
    let Some(previous) = PREVIOUS.get() else { return };
    // SAFETY: the system passes what it knows of the signal to a handler with `SA_SIGINFO`.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match previous.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction is executed again when this returns, and ends the process, as without this handler.
            exchange(Some(previous));
            if is_sent {
                // SAFETY: a handler may call it. The signal is delivered when this returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler with this flag has this type, and gets what this one got.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler without the flag has this type.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
