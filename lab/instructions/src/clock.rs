//! Clocks that stand still while instructions are counted.
//!
//! A worker reads its CPU clock after a number of items that depends on their duration. It also reads it whenever a
//! tick of the coarse clock has passed. Under callgrind, items take fifty times as long, and more on a busy machine. So
//! a worker would read the clock after every twenty short items instead of every thousand. These readings would be 2 to
//! 5 % of an item's count, and they would vary. With clocks that stand still, all items seem short, as they are outside
//! of valgrind.
//!
//! Only two clocks stand still: the CPU clock of a thread, and the coarse clock. No thread uses them to sleep. All
//! other clocks run.
#![allow(unsafe_code, reason = "takes the place of a function of the C library, for this program alone")]

use std::ffi::c_int;

/// Replaces the function of the C library. The linker prefers a program's own function to that of a library, so cmwq
/// calls this function.
///
/// # Safety
///
/// The same as for the C library's function: `time` is null, or points to memory for a time.
#[unsafe(no_mangle)]
// SAFETY: the symbol is meant to replace the C library's symbol, and the function has the same signature and promises.
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    if matches!(clock, libc::CLOCK_THREAD_CPUTIME_ID | libc::CLOCK_MONOTONIC_COARSE) {
        // SAFETY: the caller promises that `time` is null or points to memory for a time, and no caller passes null for
        // these clocks.
        unsafe { time.write(libc::timespec { tv_sec: 1, tv_nsec: 0 }) };
        return 0;
    }
    // SAFETY: the arguments are those of the system call of the same name, which checks them.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    #[test]
    fn the_clocks_for_sleeping_go_on() {
        let before = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        assert!(before.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn the_clocks_of_workers_stand_still() {
        let both = || [libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_THREAD_CPUTIME_ID].map(nanos);
        let before = both();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(both(), before);
    }

    fn nanos(clock: libc::clockid_t) -> i64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer leads to memory of the right type.
        assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}
