//! Keeps the stacks of loom's threads for reuse.
//!
//! loom makes new threads for each execution. Each new stack costs three system calls and some page faults. Together,
//! these calls and faults take more than half of the time of a short execution. Two models that run at the same time
//! also wait for each other in these calls. So this file defines `mmap`, `mprotect` and `munmap`, and the linker
//! prefers these functions to the C library's. When a thread unmaps a stack, this file keeps the stack. If the thread
//! then maps a stack of the same size, it gets the kept stack. All other calls of these three functions go to the
//! system.
//!
//! A thread keeps at most [`KEPT`] stacks, which stay mapped when the thread ends.
#![allow(unsafe_code, reason = "these functions stand for those of the C library")]

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::ptr;

use libc::{MAP_STACK, SYS_mmap, SYS_mprotect, SYS_munmap, off_t, syscall};

/// The number of stacks that a thread can keep. A model of loom has fewer threads.
const KEPT: usize = 8;

/// A stack that this thread has mapped and keeps.
#[derive(Clone, Copy)]
struct Stack {
    begin: *mut c_void,
    len: usize,
    is_free: bool,
    /// Whether the first page of the stack is protected from all access.
    is_guarded: bool,
}

thread_local! {
    static STACKS: [Cell<Option<Stack>>; KEPT] = const { [const { Cell::new(None) }; KEPT] };
}

/// Goes through this thread's places for stacks, and changes the first place for which `change` returns a value.
/// Returns that value, or `None` if there is no such place.
fn change(change: impl Fn(Option<Stack>) -> Option<Stack>) -> Option<Stack> {
    STACKS.with(|stacks| {
        stacks.iter().find_map(|place| {
            let changed = change(place.get())?;
            place.set(Some(changed));
            Some(changed)
        })
    })
}

/// # Safety
///
/// The requirements are those of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_stack = at.is_null() && flags & MAP_STACK != 0;
    let again = |stack: Option<Stack>| {
        stack.filter(|stack| stack.is_free && stack.len == len).map(|stack| Stack { is_free: false, ..stack })
    };
    if let Some(stack) = is_stack.then(|| change(again)).flatten() {
        return stack.begin;
    }
    // SAFETY: the caller makes the same promises to this function.
    let begin = unsafe { syscall(SYS_mmap, at, len, protection, flags, file, offset) } as *mut c_void;
    if is_stack && begin != libc::MAP_FAILED {
        let stack = Stack { begin, len, is_free: false, is_guarded: false };
        change(|place| place.is_none().then_some(stack));
    }
    begin
}

/// # Safety
///
/// The requirements are those of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn mprotect(begin: *mut c_void, len: usize, protection: c_int) -> c_int {
    let is_guard = protection == libc::PROT_NONE;
    let of = |stack: Option<Stack>| stack.filter(|stack| is_guard && ptr::eq(stack.begin, begin));
    if change(|stack| of(stack).filter(|stack| stack.is_guarded)).is_some() {
        return 0;
    }
    // SAFETY: the caller makes the same promises to this function.
    let result = unsafe { syscall(SYS_mprotect, begin, len, protection) };
    if result == 0 {
        change(|stack| of(stack).map(|stack| Stack { is_guarded: true, ..stack }));
    }
    result as c_int
}

/// # Safety
///
/// The requirements are those of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(begin: *mut c_void, len: usize) -> c_int {
    let free = |stack: Option<Stack>| {
        stack
            .filter(|stack| ptr::eq(stack.begin, begin) && stack.len == len)
            .map(|stack| Stack { is_free: true, ..stack })
    };
    if change(free).is_some() {
        return 0;
    }
    // SAFETY: the caller makes the same promises to this function.
    let result: c_long = unsafe { syscall(SYS_munmap, begin, len) };
    result as c_int
}
