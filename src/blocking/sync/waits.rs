//! The cancellable waits on a condition variable.
//!
//! These waits do not use parking_lot's condition variable, because a thread that cancels a token could not end them
//! reliably. The cancelling thread does not hold the mutex. So its notification could come just before the waiting
//! thread sleeps, and would be lost. Instead, threads in these waits sleep on a key of [`wait`](crate::sys::wait). A
//! waiting thread reads the number of notifications while it holds the mutex. Then it sleeps until this number changes,
//! or until its token is cancelled. A thread that notifies raises the number and then wakes the sleepers. A thread that
//! cancels the token first marks the token as cancelled, and then wakes the sleepers. The module
//! [`wait`](crate::sys::wait) says why neither wake-up is lost.

use crate::engine::item::token::Token;
use crate::engine::refusal::Cancelled;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

#[derive(Debug)]
pub(super) struct Waits {
    /// The number of threads that wait.
    waiting: AtomicU64,
    /// The number of notifications that came while at least one thread waited.
    notified: AtomicU64,
}

/// A wait, which ends when this value is dropped.
pub(super) struct Wait<'a> {
    waits: &'a Waits,
    /// The number of notifications before the wait.
    seen: u64,
}

impl Waits {
    pub(super) const fn new() -> Self {
        Self { waiting: AtomicU64::new(0), notified: AtomicU64::new(0) }
    }

    /// Begins a wait. The caller holds the mutex.
    pub(super) fn begin(&self) -> Wait<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Wait { waits: self, seen: self.notified.load(Ordering::Relaxed) }
    }

    /// Ends all waits that have begun. Returns the number of these waits.
    #[inline]
    pub(super) fn notify(&self) -> usize {
        // Each wait that this call must end was counted by a thread that held the mutex. So this load sees the count.
        match self.waiting.load(Ordering::Relaxed) {
            0 => 0,
            waiting => self.notify_waiting(waiting),
        }
    }

    #[cold]
    fn notify_waiting(&self, waiting: u64) -> usize {
        self.notified.fetch_add(1, Ordering::Release);
        wait::wake_all(self.key());
        waiting as usize
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self::new()
    }
}

impl Wait<'_> {
    /// Sleeps until a notification, or until the token is cancelled.
    pub(super) fn sleep(&self, token: &Token) -> Result<(), Cancelled> {
        let key = self.waits.key();
        let _watch = token.nudge_on_cancel(key);
        let until = Until::FOREVER.or_at(token.deadline());
        loop {
            if self.is_notified() {
                return Ok(());
            }
            token.reason().map_or(Ok(()), Err)?;
            let _in_time = wait::sleep(key, || !self.is_notified() && !token.is_cancelled(), until);
        }
    }

    fn is_notified(&self) -> bool {
        self.waits.notified.load(Ordering::Acquire) != self.seen
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waits.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
