//! The bell with which other threads wake the manager.
//!
//! A thread writes its request, and then rings the bell. The manager checks for requests, and then rests. The following
//! must not happen:
//!
//! * manager: checks for requests, and finds none;
//! * issuer: writes a request, and rings; the manager is awake, so the issuer does not wake it;
//! * manager: notes that it rests, and sleeps although there is a request.
//!
//! So a ring, the beginning of a rest and the end of a rest are all read-modify-writes of the same word. If the manager
//! begins its rest first, the next ring ends the rest and wakes the manager. If a thread rings first, the manager sees
//! the ring, and does not rest.
//!
//! `ring` releases and `awake` acquires. So the manager sees the issuer's request:
//!
//! * issuer: writes a request, then rings;
//! * manager: is awake, then reads the requests, and sees this request.
//!
//! `rest` releases and `ring` acquires. So the issuer knows how to wake the manager:
//!
//! * manager: writes how it can be woken, then rests;
//! * issuer: rings the bell, finds the manager at rest, and sees how the manager can be woken.

use crate::sys::sync::{AtomicU64, Ordering};

const AWAKE: u64 = 0;
const RESTS: u64 = 1;
const RUNG: u64 = 2;

/// The bell's state. Either the manager is awake, or it rests (it sleeps or is about to sleep), or a thread has rung
/// since the last [`awake`](Self::awake).
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

    /// Begins the manager's rest, unless a thread has rung the bell. Returns whether the manager may sleep. Before the
    /// call, the manager has written how it can be woken.
    pub(crate) fn rest(&self) -> bool {
        self.0.compare_exchange(AWAKE, RESTS, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Ends the manager's rest, and deletes the note that a thread has rung the bell. The manager calls this after its
    /// sleep, or if [`rest`](Self::rest) did not permit the sleep. After the call, the manager checks for requests of
    /// all kinds.
    pub(crate) fn awake(&self) {
        self.0.swap(AWAKE, Ordering::Acquire);
    }
}
