//! A word that a fork handler clears on systems that fork, and a function that ends the process.

#![allow(
    unsafe_code,
    reason = "a handler is registered with the system's library, which also ends the process"
)]

use crate::sys::sync::AtomicU64;

static WORD: AtomicU64 = AtomicU64::new(0);

/// Returns the word. Every call returns the same word.
pub(super) fn word() -> &'static AtomicU64 {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            WORD.store(0, crate::sys::sync::Ordering::Relaxed);
        }
        // If there is no memory to register the handler, forks go unnoticed. Registering the handler twice is harmless.
        // SAFETY: the handler does nothing but store a number, which is permitted after any fork.
        let _registered = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
    &WORD
}

/// Ends the process without its exit handlers, because exit handlers might wait for locks that were held at the fork.
pub(crate) fn end_process(status: i32) -> ! {
    #[cfg(unix)]
    // SAFETY: the call touches no memory of the program and does not return.
    unsafe {
        libc::_exit(status)
    }
    #[cfg(not(unix))]
    std::process::exit(status)
}
