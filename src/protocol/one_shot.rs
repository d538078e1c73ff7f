//! The cell of the state of a one-shot, which is an item whose closure runs once. Threads and tasks wait on this cell
//! for the end of the one-shot.
//!
//! Every transition is a read-modify-write that acquires and releases:
//!
//! * first owner: uses the closure, the result or the cell, then makes its last transition;
//! * second owner: makes a later transition, then takes the closure or the result, or frees the cell. The second owner
//!   sees everything that the first owner did.
//!
//! The only owner of a detached cell, whose handle is gone, is the worker. The worker needs no read-modify-write. The
//! worker's `load` acquires, and pairs with the release of the handle's last step:
//!
//! * handle: uses the cell, then `detach`;
//! * worker: sees in `load` that the cell is detached; frees the cell, after the handle's last use.
//!
//! Likewise, after the worker has made its last transition, the handle is the only owner. The load in `leave` acquires,
//! and pairs with the release of the worker's last transition.
//!
//! **Tasks.** A task that awaits the handle leaves an [`Alarm`] under the cell's key, and sets the *awaited* bit while
//! [`wakers`] holds its lock. The thread that ends the item clears the bit, and rings the alarm if the bit was set. If
//! the handle is dropped before the item has ended, it first removes its alarm, and then detaches. If the handle
//! detached first, this could happen:
//!
//! * handle: detaches;
//! * worker: frees the cell;
//! * issuer of another item: gets a cell at the same address, and its task leaves an alarm;
//! * handle: removes the alarm of that task, which is then never woken.
//!
//! **Stops.** A running item can listen for a stop request from its handle. To listen, the item leaves an alarm under
//! the cell's *stop key*, and sets the *listens* bit while [`wakers`] holds its lock. When the handle asks the item to
//! stop, the handle rings the alarm if it sees the *listens* bit. If the handle does not see the bit, the item learns
//! of the request when it tries to set the bit. The worker removes the alarm before it finishes the item. A handle that
//! is dropped removes the alarm before it detaches, because another item may get the cell afterwards. The effect of the
//! alarm may be final, so a late ring must not reach the alarm of another item. Only the handle rings the alarm under
//! the stop key, and the cell stays in memory while the handle exists. The stop key is an odd address, which is the key
//! of no other object.

use crate::policy::one_shot::{Finish, Listen, OneShotState, Stop, Take, Waiting};
use crate::sys::sync::{AtomicU64, Ordering, fence_after_update};
use crate::sys::wait::{self, Until};
use crate::sys::wakers::{self, Alarm, Watcher};

/// The state word of a one-shot. The word says which of the two owners, the worker and the handle, has the closure, the
/// result and the cell itself.
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

    /// Takes the item for the worker that popped the item's entry.
    #[inline]
    pub(crate) fn take(&self) -> Take {
        self.update(OneShotState::take)
    }

    /// Finishes the item. The caller has already stored the item's result. After `Finish::Leave` or `Finish::Wake`, the
    /// handle may free the cell at any moment.
    #[inline]
    pub(crate) fn finish(&self) -> Finish {
        match self.update(OneShotState::finish) {
            Finish::Unlisten => self.finish_as_listener(),
            finish => finish,
        }
    }

    /// Removes the alarm of an item that listens, and finishes the item.
    #[cold]
    fn finish_as_listener(&self) -> Finish {
        wakers::unwatch(self.stop_key(), Watcher::ONLY);
        self.update(OneShotState::finish)
    }

    /// Finishes the item as cancelled. The caller has taken the closure, and has dropped it instead of running it.
    /// Apart from that, this function does the same as [`finish`](Self::finish). `late` says whether the item's
    /// deadline had passed.
    pub(crate) fn abandon(&self, late: bool) -> Finish {
        self.update(|state| state.abandon(late))
    }

    /// Returns the key on which the handle's thread sleeps, and under which the handle's task leaves an alarm. The key
    /// is the cell's address. [`wake`](Self::wake) may use the key even after the cell has been freed.
    pub(crate) fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Returns the key under which a running item leaves its alarm. The key is an address inside the cell, but not the
    /// cell's own address.
    pub(super) fn stop_key(&self) -> usize {
        self.key() + 1
    }

    /// Wakes the thread and the task that wait on this key. The caller holds no lock.
    pub(crate) fn wake(key: usize, waiting: Waiting) {
        if waiting.has_thread() {
            wait::wake_all(key);
        }
        if waiting.has_task() {
            wakers::ring(key);
        }
    }

    /// Cancels the item on behalf of the handle. If the closure had not begun, returns the waiting thread and task,
    /// which the caller wakes. `late` says whether the item's deadline has passed.
    pub(crate) fn cancel(&self, late: bool) -> Option<Waiting> {
        self.update(|state| state.cancel(late))
    }

    /// Cancels the item on behalf of the handle, if the item's closure has not begun. If the closure has begun, asks
    /// the running item to stop. If the item was cancelled, returns the waiting thread and task, which the caller
    /// wakes.
    pub(crate) fn stop(&self) -> Option<Waiting> {
        match self.update(OneShotState::stop) {
            Stop::Cancelled(waiting) => return Some(waiting),
            Stop::Asked { listens: true } => wakers::ring(self.stop_key()),
            Stop::Asked { listens: false } | Stop::Ended => {}
        }
        None
    }

    /// Stores the alarm of the running item. The alarm rings when the handle asks the item to stop. Returns false if
    /// the handle has already asked the item to stop. If the handle is gone, the alarm is dropped, and never rings.
    pub(crate) fn listen(&self, alarm: Alarm) -> bool {
        let mut listen = Listen::Alone;
        wakers::watch(self.stop_key(), Watcher::ONLY, alarm, || {
            listen = self.update(OneShotState::listen);
            listen == Listen::Listens
        });
        listen != Listen::Stopped
    }

    /// Gives up the handle. If the handle was the last owner, returns true, and the caller frees the cell.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.load();
        loop {
            if state.is_left_to_handle() {
                return true;
            }
            if state.has_alarms() {
                self.remove_alarms(state);
            }
            let (next, last) = state.detach();
            let (seen, next) = (state.into_bits(), next.into_bits());
            match self.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return last,
                // In the meantime, the item may have ended, or may have begun to listen for a stop request.
                Err(actual) => state = OneShotState::from_bits(actual),
            }
        }
    }

    #[cold]
    fn remove_alarms(&self, state: OneShotState) {
        if state.is_awaited() {
            wakers::unwatch(self.key(), Watcher::ONLY);
        }
        if state.listens() {
            wakers::unwatch(self.stop_key(), Watcher::ONLY);
        }
    }

    /// Stores the alarm of the task that awaits the handle. Returns false if the item has ended.
    pub(crate) fn watch(&self, alarm: Alarm) -> bool {
        wakers::watch(self.key(), Watcher::ONLY, alarm, || self.update(OneShotState::watch))
    }

    /// Notes that the handle's thread is about to sleep until the item has ended. Returns false if the item has already
    /// ended. If the result is true, the caller then [sleeps](Self::wait_unless), or calls
    /// [`does_not_wait`](Self::does_not_wait).
    pub(crate) fn will_wait(&self) -> bool {
        let will = self.update(OneShotState::wait);
        fence_after_update(); // with the fence of a thread that makes a part of a fork, and then reads this word
        will
    }

    /// Undoes [`will_wait`](Self::will_wait).
    pub(crate) fn does_not_wait(&self) {
        self.update(OneShotState::stop_waiting);
    }

    /// Sleeps until the item has ended, or until the deadline `until`. Returns false if the deadline came first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.wait_unless(until, || false)
    }

    /// Sleeps as [`wait`](Self::wait) does, but also returns false if `gives_up` returns true. After a thread has
    /// changed the answer of `gives_up`, it wakes the threads that sleep on the cell's key.
    pub(crate) fn wait_unless(&self, until: Until, gives_up: impl Fn() -> bool) -> bool {
        while self.update(OneShotState::wait) {
            let in_time = wait::sleep(self.key(), || !self.load().is_finished() && !gives_up(), until);
            if !in_time || gives_up() {
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
