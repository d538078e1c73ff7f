//! An event that happens once. Any number of threads and tasks can wait for the event.
//!
//! `set` releases and `is_set` acquires:
//!
//! * setting thread: makes its writes, then sets the signal;
//! * waiting thread: finds the signal set, then sees the setting thread's writes.
//!
//! A task that waits leaves an alarm in [`wakers`] under the signal's key. Under the lock of `wakers`, the task also
//! sets a bit of the signal's word. From this bit, the thread that sets the signal learns whether tasks may have left
//! alarms.

use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};
use crate::sys::wakers::{self, Alarm, Watcher};

const SET: u64 = 1 << 0;
/// This bit says that a task has left an alarm. If the task gives up its wait, the bit stays set.
const AWAITED: u64 = 1 << 1;

/// A signal, which the setting thread and the waiting threads share.
#[derive(Debug)]
pub(crate) struct Signal(AtomicU64);

impl Signal {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self) {
        let has_task = self.set_word();
        self.wake_threads();
        if has_task {
            wakers::ring(self.key());
        }
    }

    /// Sets the signal, and wakes neither threads nor tasks. Returns whether a task has left an alarm.
    pub(super) fn set_word(&self) -> bool {
        self.0.swap(SET, Ordering::Release) & AWAITED != 0
    }

    /// Wakes the threads that wait for the signal, which is set.
    pub(super) fn wake_threads(&self) {
        wait::wake_all(self.key());
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) & SET != 0
    }

    /// Stores the alarm of a task that waits for the signal. Returns false if the signal is set.
    pub(crate) fn watch(&self, watcher: Watcher, alarm: Alarm) -> bool {
        wakers::watch(self.key(), watcher, alarm, || self.0.fetch_or(AWAITED, Ordering::Acquire) & SET == 0)
    }

    /// Removes the alarm of a task that no longer waits.
    pub(crate) fn unwatch(&self, watcher: Watcher) {
        wakers::unwatch(self.key(), watcher);
    }

    /// Sleeps until the signal is set. Returns false if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.wait_unless(until, || false)
    }

    /// Sleeps until the signal is set. Returns false if the time runs out first, or if `gives_up` returns true. After a
    /// thread has changed the answer of `gives_up`, it wakes the threads that sleep on the [key](Self::key).
    pub(crate) fn wait_unless(&self, until: Until, gives_up: impl Fn() -> bool) -> bool {
        while !self.is_set() {
            let goes_on = !gives_up() && wait::sleep(self.key(), || !self.is_set() && !gives_up(), until);
            if !goes_on {
                return self.is_set();
            }
        }
        true
    }

    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
