//! A timer of the system, which ends a sleep of a thread that waits for descriptors.

#![allow(unsafe_code, reason = "libc's calls for timers take raw pointers")]

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Ordering};

/// The value of `armed` while the timer is stopped.
const STOPPED: u64 = u64::MAX;

/// A timer of the system (timerfd). The timer's descriptor becomes ready when the time has come, and stays ready until
/// the timer is armed anew.
///
/// The timer stays armed from one sleep to the next. If a sleep ends early and the next sleep has the same end time,
/// the thread does not arm the timer again. In a virtual machine, each change of a CPU's timer can cost a call of the
/// hypervisor. A system call with a timeout changes a CPU's timer twice. The timer slack of the thread does not delay
/// this timer.
#[derive(Debug)]
pub(super) struct Timer {
    timer: File,
    /// The time for which the timer was armed last, in nanoseconds, or [`STOPPED`]. Only the sleeper uses this field.
    armed: AtomicU64,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes plain numbers.
        let number =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        let timer = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { timer: timer.into(), armed: AtomicU64::new(STOPPED) })
    }

    /// Arms the timer for the time `until`, or stops the timer if `until` is `None`. Only one thread calls this
    /// function.
    pub(super) fn arm(&self, until: Option<Time>) -> io::Result<()> {
        let at = until.map_or(STOPPED, Time::as_nanos);
        if at == self.armed.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: all fields are plain numbers, for which 0 is valid.
        let mut times: libc::itimerspec = unsafe { mem::zeroed() };
        if let Some(until) = until {
            // A time of zero would stop the timer.
            let left = until.since(clock::now()).max(Duration::from_nanos(1));
            // The seconds are 68 years at most, and the nanoseconds are below a billion. So both values fit into any
            // type that a system has for these fields.
            times.it_value.tv_sec = left.as_secs().min(i32::MAX as u64) as _;
            times.it_value.tv_nsec = left.subsec_nanos() as _;
        }
        // SAFETY: the pointer points to times that outlive the call, and the call only reads them. A null pointer means
        // that the earlier times are not returned.
        let result =
            unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const times, ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        self.armed.store(at, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
