//! Sleeping on Linux until one of several descriptors is ready.

#![allow(unsafe_code, reason = "libc's calls for descriptors take raw pointers")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::thread;
use std::time::Duration;

use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, pollfd};

use crate::sys::switches::Ring;

/// The length of a sleep if the system refuses to wait for descriptors.
const REFUSED: Duration = Duration::from_millis(1);

/// A counter that the system keeps (eventfd). If the counter is not 0, the sleep ends and resets the counter to 0.
#[derive(Debug)]
pub(super) struct Listener(File);

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes plain numbers.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }.into()))
    }

    pub(super) fn wake(&self) {
        // The write fails only if the counter is about to overflow. In that case, the counter is not 0 and ends the
        // sleep anyway.
        let _full = (&self.0).write(&1_u64.to_ne_bytes());
    }

    pub(super) fn sleep(&self, timeout: Option<Duration>, rings: &[&Ring]) -> bool {
        let mut waited = Vec::with_capacity(1 + rings.len());
        waited.push(waiting_for(Some(self.0.as_fd())));
        waited.extend(rings.iter().map(|ring| waiting_for(ring.descriptor())));
        let told = match poll(&mut waited, timeout) {
            // The process's limit on descriptors may now be lower than the number of rings. In that case, the thread
            // sleeps for a short time without the rings, and its caller reads the rings afterwards.
            Err(_) if waited.len() > 1 => {
                poll(&mut waited[..1], Some(timeout.map_or(REFUSED, |some| some.min(REFUSED))))
            }
            told => told,
        };
        let Ok(told) = told else {
            thread::park_timeout(REFUSED);
            return true;
        };
        if waited[0].revents != 0 {
            // The read finds nothing if the system has reported the descriptor by mistake.
            let _nothing = (&self.0).read(&mut [0; 8]);
        }
        for (ring, waited) in rings.iter().zip(&waited[1..]) {
            if waited.revents & (POLLHUP | POLLERR | POLLNVAL) != 0 {
                ring.ended();
            }
        }
        told
    }
}

/// Returns an entry for `poll`. The system ignores an entry without a descriptor.
fn waiting_for(descriptor: Option<BorrowedFd<'_>>) -> pollfd {
    pollfd { fd: descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd()), events: POLLIN, revents: 0 }
}

/// Waits until one of the entries is ready. Returns false if the time ran out.
fn poll(waited: &mut [pollfd], timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(|timeout| libc::timespec {
        // The seconds are 68 years at most, and the nanoseconds are below a billion. So both values fit into any type
        // that a system has for these fields.
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the pointer and the length describe `waited`, and the timeout, if any, outlives the call. A null pointer
    // means that the signal mask stays as it is.
    let told =
        unsafe { libc::ppoll(waited.as_mut_ptr(), waited.len() as libc::nfds_t, timeout, ptr::null()) };
    match io::Error::last_os_error() {
        _ if told >= 0 => Ok(told > 0),
        error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        error => Err(error),
    }
}
