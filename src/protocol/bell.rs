//! The bell by which other threads wake the manager.
//!
//! A thread writes its request, and then rings. The manager looks at the requests, and then rests. This must not
//! happen:
//!
//! * manager: looks at the requests, and finds none;
//! * issuer: writes a request; rings: the manager is awake, so the issuer does not wake it;
//! * manager: says that it rests, and sleeps over the request.
//!
//! So each step is a read-modify-write of one word. If the manager rests first, one ring ends the rest and wakes it.
//! If the ring comes first, the manager finds it, and does not rest.
//!
//! `ring` releases and `awake` acquires:
//!
//! * issuer: writes a request, then rings;
//! * manager: is awake, then reads the requests, and sees this one.
//!
//! `rest` releases and `ring` acquires:
//!
//! * manager: writes how to wake it, then rests;
//! * issuer: rings, finds it at rest, and sees how to wake it.

use crate::sys::sync::{AtomicU64, Ordering};

const AWAKE: u64 = 0;
const RESTS: u64 = 1;
const RUNG: u64 = 2;

/// One of three: the manager is awake; it sleeps, or is about to; a thread has rung since it last looked.
#[derive(Debug)]
pub(crate) struct BellCell(AtomicU64);

impl BellCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(AWAKE))
    }

    /// Rings. Returns whether the caller must wake the manager.
    pub(crate) fn ring(&self) -> bool {
        self.0.swap(RUNG, Ordering::AcqRel) == RESTS
    }

    /// Begins the manager's rest, unless a thread has rung. Returns whether the manager may sleep. It has written
    /// before how to wake it.
    pub(crate) fn rest(&self) -> bool {
        self.0.compare_exchange(AWAKE, RESTS, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the manager's rest, and forgets the ring. The manager calls this when it has slept or was not allowed to,
    /// and then looks at all requests.
    pub(crate) fn awake(&self) {
        self.0.swap(AWAKE, Ordering::Acquire);
    }
}
