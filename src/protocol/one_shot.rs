//! The cell of a one-shot's state, and the waits for its end.
//!
//! Every transition is a read-modify-write that acquires and releases:
//!
//! * first owner: uses the closure, the result or the cell, then makes its last transition;
//! * second owner: makes a later transition, then takes the closure or the result, or frees the cell. The second owner
//!   sees everything that the first owner did.
//!
//! The only owner of a detached cell is the worker, which needs no read-modify-write. The worker's `load` acquires, and
//! pairs with the release of the handle's last step:
//!
//! * handle: uses the cell, then `detach`;
//! * worker: sees in `load` that the cell is detached; frees the cell, after the handle's last use.
//!
//! Likewise, a handle whose item has left is the only owner. The load in `leave` acquires, and pairs with the release
//! of the worker's last step.
//!
//! **Tasks.** A task that awaits the handle leaves an [`Alarm`] under the cell's key, and sets the *awaited* bit while
//! [`wakers`] holds its lock. The thread that ends the item clears the bit, and rings the alarm if the bit was set. A
//! handle that is dropped first removes its alarm, and then detaches. In the other order, this could happen:
//!
//! * handle: detaches;
//! * worker: frees the cell;
//! * issuer of another item: gets a cell at the same address, and its task leaves an alarm;
//! * handle: removes the alarm of that task, which is then never woken.

use crate::policy::one_shot::{Finish, OneShotState, Take, Waiting};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};
use crate::sys::wakers::{self, Alarm, Watcher};

/// The word that says to which of the two owners the closure, the result and the cell itself belong.
#[derive(Debug)]
pub(crate) struct OneShotCell(AtomicU64);

impl OneShotCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(OneShotState::new().into_bits()))
    }

    /// Makes the cell of a one-shot that never has a handle.
    pub(crate) fn detached() -> Self {
        Self(AtomicU64::new(OneShotState::detached().into_bits()))
    }

    #[inline]
    pub(crate) fn load(&self) -> OneShotState {
        OneShotState::from_bits(self.0.load(Ordering::Acquire))
    }

    /// Takes the item for a worker that popped its entry.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        self.update(OneShotState::take)
    }

    /// Finishes the item. The caller has already stored the item's result. After `Finish::Leave` or `Finish::Wake`, the
    /// handle may free the cell at any moment.
    #[inline]
    pub(crate) fn finish(&self) -> Finish {
        self.update(OneShotState::finish)
    }

    /// Finishes the item as cancelled. The caller has taken the closure, and has dropped it instead of running it.
    /// Otherwise this is like [`finish`](Self::finish).
    pub(crate) fn abandon(&self) -> Finish {
        self.update(OneShotState::abandon)
    }

    /// Returns the key on which the handle's thread sleeps, and under which its task leaves an alarm. The key is the
    /// cell's address. [`wake`](Self::wake) may use the key even after the cell has been freed.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Wakes what waits on this key. The caller holds no lock.
    pub(crate) fn wake(key: usize, waiting: Waiting) {
        if waiting.has_thread() {
            wait::wake_all(key);
        }
        if waiting.has_task() {
            wakers::ring(key);
        }
    }

    /// Cancels the item on behalf of the handle. If the closure had not begun, returns what waits for the item, which
    /// the caller wakes.
    pub(crate) fn cancel(&self) -> Option<Waiting> {
        self.update(OneShotState::cancel)
    }

    /// Gives up the handle. Returns whether the handle was the last owner. The caller then frees the cell.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let state = self.load();
        if state.is_left_to_handle() {
            return true;
        }
        if state.is_awaited() {
            wakers::unwatch(self.key(), Watcher::ONLY);
        }
        self.update(OneShotState::detach)
    }

    /// Keeps the alarm of the task that awaits the handle. Returns false if the item has ended.
    pub(crate) fn watch(&self, alarm: Alarm) -> bool {
        wakers::watch(self.key(), Watcher::ONLY, alarm, || self.update(OneShotState::watch))
    }

    /// Sleeps until the item has ended, or until the deadline `until`. Returns false if the deadline came first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        while self.update(OneShotState::wait) {
            if !wait::sleep(self.key(), || !self.load().is_finished(), until) {
                return !self.update(OneShotState::stop_waiting);
            }
        }
        true
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(OneShotState) -> (OneShotState, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, OneShotState::from_bits, OneShotState::into_bits, transition)
    }
}
