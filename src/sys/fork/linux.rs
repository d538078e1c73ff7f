//! A word on a page that the kernel fills with zeros in every forked child.

#![allow(unsafe_code, reason = "a page is mapped, and read as a number")]

use std::ptr;

use crate::sys::sync::AtomicU64;

/// A value for `madvise` that Linux refuses.
const NO_ADVICE: libc::c_int = -1;

/// Makes a new word. Returns `None` if the kernel cannot clear a page at a fork, or if no page can be mapped.
pub(super) fn word() -> Option<&'static AtomicU64> {
    // The system rounds the length up to a whole page.
    let length = size_of::<AtomicU64>();
    let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the call makes a new mapping at an address that the system chooses, so it replaces no other mapping.
    let page = unsafe { libc::mmap(ptr::null_mut(), length, protection, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped just now, and no other reference to it exists.
    let advised = |advice| unsafe { libc::madvise(page, length, advice) } == 0;
    // Linux refuses `NO_ADVICE`. An emulator that accepts `NO_ADVICE` ignores all advice, so it would not clear the
    // page. For example, qemu's user emulation of other architectures accepts `NO_ADVICE`.
    if advised(NO_ADVICE) || !advised(libc::MADV_WIPEONFORK) {
        // SAFETY: the page was mapped above, and no reference to it exists.
        unsafe { libc::munmap(page, length) };
        return None;
    }
    // SAFETY: the page is writable, contains only zeros at first, is aligned to its size, and is never unmapped. The
    // kernel fills the page with zeros in a child before the child has a thread.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}
