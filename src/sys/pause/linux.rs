//! Sleeping on Linux until one of several descriptors is ready.

#![allow(unsafe_code, reason = "libc's calls for descriptors take raw pointers")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, pollfd};

use super::timer::Timer;
use crate::policy::time::Time;
use crate::sys::switches::Ring;

/// The length of a sleep if the system refuses to wait for descriptors.
const REFUSED: Duration = Duration::from_millis(1);

/// See [`Pause`](super::Pause). A sleep ends when the counter is not 0, when the timer fires, or when the descriptor of
/// a `Ring` is ready.
#[derive(Debug)]
pub(super) struct Listener {
    /// A counter that the system keeps (eventfd). The end of a sleep resets the counter to 0.
    counter: File,
    timer: Timer,
}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes plain numbers.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        let counter = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { counter: counter.into(), timer: Timer::new()? })
    }

    pub(super) fn wake(&self) {
        // The write fails only if the counter is about to overflow. A counter that is about to overflow is not 0, so it
        // ends the sleep anyway.
        let _full = (&self.counter).write(&1_u64.to_ne_bytes());
    }

    pub(super) fn sleep(&self, until: Option<Time>, rings: &[&Ring]) -> bool {
        let mut waited = Vec::with_capacity(2 + rings.len());
        waited.push(waiting_for(Some(self.counter.as_fd())));
        waited.push(waiting_for(Some(self.timer.descriptor())));
        waited.extend(rings.iter().map(|ring| waiting_for(ring.descriptor())));
        let told = match self.timer.arm(until).and_then(|()| poll(&mut waited, None)) {
            // The wait may fail because the process's limit on descriptors is now lower than the number of rings. After
            // a failed wait, the thread sleeps for a short time without waiting for the rings. The caller of `sleep`
            // reads the rings afterwards.
            Err(_) if !rings.is_empty() => poll(&mut waited[..2], Some(REFUSED)),
            told => told,
        };
        if told.is_err() {
            thread::park_timeout(REFUSED);
            return true;
        }
        let [counter, timer, of_rings @ ..] = &waited[..] else {
            unreachable!("two entries were made above")
        };
        if counter.revents != 0 {
            // The read finds nothing if the system has reported the descriptor by mistake.
            let _nothing = (&self.counter).read(&mut [0; 8]);
        }
        for (ring, waited) in rings.iter().zip(of_rings) {
            if waited.revents & (POLLHUP | POLLERR | POLLNVAL) != 0 {
                ring.ended();
            }
        }
        timer.revents == 0 || counter.revents != 0 || of_rings.iter().any(|ring| ring.revents != 0)
    }
}

/// Returns an entry for `poll`. The system ignores an entry without a descriptor.
fn waiting_for(descriptor: Option<BorrowedFd<'_>>) -> pollfd {
    pollfd { fd: descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd()), events: POLLIN, revents: 0 }
}

/// Waits until one of the entries is ready, or until the timeout has passed.
fn poll(waited: &mut [pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let millis = timeout.map_or(-1, |timeout| i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: the pointer and the length describe `waited`.
    let ready = unsafe { libc::poll(waited.as_mut_ptr(), waited.len() as libc::nfds_t, millis) };
    match io::Error::last_os_error() {
        _ if ready >= 0 => Ok(()),
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}
