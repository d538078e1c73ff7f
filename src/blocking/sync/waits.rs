//! The cancellable waits on a condition variable.
//!
//! The cancellable waits do not use parking_lot's condition variable, because a thread that cancels a token could not
//! reliably end a wait on it. The cancelling thread does not hold the mutex. So a notification by the cancelling thread
//! could come just before the waiting thread sleeps, and would be lost. Instead, threads in these waits sleep on a key
//! of [`wait`](crate::sys::wait). A waiting thread reads the number of notifications while it holds the mutex. Then the
//! waiting thread sleeps until this number changes, or until its token is cancelled. A thread that notifies raises the
//! number and then wakes the sleepers. A thread that cancels the token first marks the token as cancelled, and then
//! wakes the sleepers. The module [`wait`](crate::sys::wait) says why no wake-up is lost.
//!
//! One word has the number of notifications and the number of waits that no notification has ended. A notification
//! changes both numbers in one step. So each wait is counted by at most one notification, even if its thread still
//! waits for the mutex.

use crate::engine::item::token::Token;
use crate::engine::refusal::Cancelled;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// The bits that count waits. No system has 2^24 threads.
const WAITING: u64 = (1 << 24) - 1;
/// One notification. The other bits wrap around after 2^40 notifications. No thread takes so long to notice the
/// notification that ends its wait.
const ONE_NOTIFICATION: u64 = WAITING + 1;

/// The low bits count the waits that no notification has ended. The other bits count the notifications that ended at
/// least one wait.
#[derive(Debug)]
pub(super) struct Waits(AtomicU64);

/// A wait on the condition variable. The wait ends when this value is dropped.
pub(super) struct Wait<'a> {
    waits: &'a Waits,
    /// The number of notifications before the wait, in the same bits as in the word of `waits`.
    seen: u64,
}

impl Waits {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a wait. The caller holds the mutex.
    pub(super) fn begin(&self) -> Wait<'_> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        Wait { waits: self, seen: before & !WAITING }
    }

    /// Ends all waits that have begun. Returns the number of these waits.
    #[inline]
    pub(super) fn notify(&self) -> usize {
        // Each wait that this call must end was counted by a thread that held the mutex. So this load sees the count,
        // or a later notification, which has ended the wait.
        match self.0.load(Ordering::Relaxed) & WAITING {
            0 => 0,
            _ => self.notify_waiting(),
        }
    }

    #[cold]
    fn notify_waiting(&self) -> usize {
        let end_all =
            |word: u64| (word & WAITING != 0).then_some((word & !WAITING).wrapping_add(ONE_NOTIFICATION));
        // Release: pairs with the acquire load in `is_notified`.
        let Ok(before) = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, end_all) else {
            // Another notification has ended the waits, or their threads have ended them after a cancel.
            return 0;
        };
        wait::wake_all(self.key());
        (before & WAITING) as usize
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
        // Acquire: this thread sees the writes before the notification. The word changes only by read-modify-writes. So
        // the load acquires from the notification, even if waits have begun or ended since.
        self.waits.0.load(Ordering::Acquire) & !WAITING != self.seen
    }
}

impl Drop for Wait<'_> {
    /// If no notification has ended the wait, takes the wait out of the count. A notification itself takes the waits
    /// that it ends out of the count.
    fn drop(&mut self) {
        let still_counted = |word: u64| (word & !WAITING == self.seen).then(|| word - 1);
        _ = self.waits.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, still_counted);
    }
}
