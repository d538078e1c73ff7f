//! The state of a one-shot item. Such an item consists of a closure, which runs once, and of the result for which its
//! handle waits.
//!
//! Two parties own the cell: its *entry* on a list, and the *handle*. Each party has a bit in the word, which is set
//! while the party exists. The party that clears the last of the two bits frees the cell. The closure belongs to the
//! thread that ends the queued state. This thread is the worker that begins the item, or the thread that cancels the
//! item through the handle. The result belongs to the handle, or to the worker if the handle is gone.

#![forbid(unsafe_code)]

use std::fmt;

const ENTRY: u64 = 1 << 0;
const HANDLE: u64 = 1 << 1;
const RUNNING: u64 = 1 << 2;
const DONE: u64 = 1 << 3;
const CANCELLED: u64 = 1 << 4;
/// A thread sleeps until the item has ended.
const WAITER: u64 = 1 << 5;
/// A task waits until the item has ended.
const AWAITED: u64 = 1 << 6;

/// The state word of a one-shot item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneShotState(u64);

/// What a worker does with an entry that it has popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Run the closure.
    Run,
    /// The item was cancelled, and the handle still uses the cell. Leave the cell alone.
    Leave,
    /// The item was cancelled, and the handle is gone. Free the cell.
    Free,
}

/// What a worker does after the closure has ended and its result is stored.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The result now belongs to the handle.
    Leave,
    /// A thread or a task waits for the result through the handle. Wake it.
    Wake(Waiting),
    /// The handle is gone. Drop the result, and free the cell.
    Free,
}

/// What waits for an item through its handle: a thread that sleeps, or a task that a runtime polls, or both if a handle
/// is joined after it was polled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting(u64);

impl Waiting {
    pub(crate) const fn has_thread(self) -> bool {
        self.0 & WAITER != 0
    }

    pub(crate) const fn has_task(self) -> bool {
        self.0 & AWAITED != 0
    }
}

impl OneShotState {
    /// Returns the state of a queued item with a handle.
    pub(crate) const fn new() -> Self {
        Self(ENTRY | HANDLE)
    }

    /// Returns the state of a queued item without a handle.
    pub(crate) const fn detached() -> Self {
        Self(ENTRY)
    }

    /// Returns whether the entry is the only owner. If so, no other thread can change the state.
    pub(crate) const fn is_detached(self) -> bool {
        self.0 == ENTRY
    }

    pub(crate) const fn is_finished(self) -> bool {
        self.0 & (DONE | CANCELLED) != 0
    }

    /// Returns whether a worker is executing the item.
    pub(crate) const fn has_begun(self) -> bool {
        self.0 & RUNNING != 0
    }

    pub(crate) const fn is_cancelled(self) -> bool {
        self.0 & CANCELLED != 0
    }

    /// Takes the item for a worker that popped its entry.
    pub(crate) const fn take(self) -> (Self, Take) {
        if !self.is_cancelled() {
            return (Self(self.0 | RUNNING), Take::Run);
        }
        let left = Self(self.0 & !ENTRY);
        (left, if left.0 & HANDLE != 0 { Take::Leave } else { Take::Free })
    }

    /// Finishes the item, because the closure has ended and its result is stored in the cell.
    pub(crate) const fn finish(self) -> (Self, Finish) {
        self.finish_as(DONE)
    }

    /// Finishes the item as cancelled, because the closure was dropped instead of run.
    pub(crate) const fn abandon(self) -> (Self, Finish) {
        self.finish_as(CANCELLED)
    }

    const fn finish_as(self, end: u64) -> (Self, Finish) {
        let done = Self(self.0 & !(ENTRY | RUNNING | WAITER | AWAITED) | end);
        let finish = if self.0 & HANDLE == 0 {
            Finish::Free
        } else if self.0 & (WAITER | AWAITED) != 0 {
            Finish::Wake(self.waiting())
        } else {
            Finish::Leave
        };
        (done, finish)
    }

    const fn waiting(self) -> Waiting {
        Waiting(self.0 & (WAITER | AWAITED))
    }

    /// Cancels the item on behalf of the handle. If the closure had not begun, returns what waits for the item. The
    /// closure then belongs to the handle.
    pub(crate) const fn cancel(self) -> (Self, Option<Waiting>) {
        if self.0 & (RUNNING | DONE | CANCELLED) != 0 {
            (self, None)
        } else {
            (Self(self.0 & !(WAITER | AWAITED) | CANCELLED), Some(self.waiting()))
        }
    }

    /// Notes that a thread is about to sleep until the handle's item has finished. Returns false if the item has
    /// finished.
    pub(crate) const fn wait(self) -> (Self, bool) {
        if self.is_finished() { (self, false) } else { (Self(self.0 | WAITER), true) }
    }

    /// Notes that a task waits until the handle's item has finished. Returns false if the item has finished.
    pub(crate) const fn watch(self) -> (Self, bool) {
        if self.is_finished() { (self, false) } else { (Self(self.0 | AWAITED), true) }
    }

    /// Returns whether a task waits for the item.
    pub(crate) const fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }

    /// Notes that the handle's wait timed out. Returns false if the item has finished.
    pub(crate) const fn stop_waiting(self) -> (Self, bool) {
        (Self(self.0 & !WAITER), !self.is_finished())
    }

    /// Returns whether the handle is the only owner. If so, no other thread can change the state.
    pub(crate) const fn is_left_to_handle(self) -> bool {
        self.0 & ENTRY == 0
    }

    /// Removes the handle, for which no task waits any more. Returns true if the handle was the last owner. The caller
    /// then frees the cell.
    pub(crate) const fn detach(self) -> (Self, bool) {
        (Self(self.0 & !(HANDLE | AWAITED)), self.0 & ENTRY == 0)
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("thread", &self.has_thread()).field("task", &self.has_task()).finish()
    }
}

impl fmt::Debug for OneShotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = [
            (ENTRY, "entry"),
            (HANDLE, "handle"),
            (RUNNING, "running"),
            (DONE, "done"),
            (CANCELLED, "cancelled"),
            (WAITER, "waiter"),
            (AWAITED, "awaited"),
        ];
        f.debug_set().entries(bits.iter().filter(|bit| self.0 & bit.0 != 0).map(|bit| bit.1)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: W1.4: the cell is freed exactly once, in whatever order the two owners take their last steps.
    #[test]
    fn the_last_owner_frees_the_cell() {
        let queued = OneShotState::new();

        let (running, take) = queued.take();
        assert_eq!(take, Take::Run);
        let (done, finish) = running.finish();
        assert_eq!(finish, Finish::Leave);
        assert!(done.detach().1, "ended, then detached: the handle frees");

        let (detached, last) = queued.detach();
        assert!(!last && detached.is_detached());
        assert_eq!(detached, OneShotState::detached(), "like an item that never had a handle");
        assert_eq!(detached.take().0.finish().1, Finish::Free, "detached, then ended: the worker frees");

        let (cancelled, waiting) = queued.cancel();
        assert!(waiting.is_some());
        let (left, take) = cancelled.take();
        assert_eq!(take, Take::Leave);
        assert!(left.detach().1, "cancelled, popped, then detached: the handle frees");
        assert_eq!(
            cancelled.detach().0.take().1,
            Take::Free,
            "cancelled, detached, then popped: the worker frees"
        );
        assert!(!cancelled.detach().1);
    }

    /// spec: W1: an item that is dropped instead of run looks cancelled to its handle.
    #[test]
    fn an_abandoned_item_is_cancelled_and_wakes_its_waiter() {
        let (waiting, _) = OneShotState::new().wait();
        let (abandoned, finish) = waiting.take().0.abandon();
        assert!(matches!(finish, Finish::Wake(waiting) if waiting.has_thread() && !waiting.has_task()));
        assert!(abandoned.is_cancelled() && abandoned.is_finished());
        assert!(abandoned.detach().1, "the handle is the last owner");
        assert_eq!(OneShotState::new().detach().0.take().0.abandon().1, Finish::Free);
    }

    /// spec: W1.3 (cancel)
    #[test]
    fn only_an_item_that_has_not_begun_is_cancelled() {
        let running = OneShotState::new().take().0;
        assert_eq!(running.cancel(), (running, None));
        let done = running.finish().0;
        assert_eq!(done.cancel(), (done, None));
        let cancelled = OneShotState::new().cancel().0;
        assert_eq!(cancelled.cancel(), (cancelled, None));
        assert!(cancelled.is_finished());
    }

    /// spec: W1.2 (join, join_timeout)
    #[test]
    fn a_waiting_handle_is_woken_and_one_that_gave_up_is_not() {
        let (waiting, sleep) = OneShotState::new().take().0.wait();
        assert!(sleep);
        assert!(matches!(waiting.finish().1, Finish::Wake(_)));
        let (gone, in_vain) = waiting.stop_waiting();
        assert!(in_vain);
        assert_eq!(gone.finish().1, Finish::Leave);
        assert!(!waiting.finish().0.wait().1, "a finished item is not waited for");
    }

    /// spec: I1.1 (a handle can be awaited)
    #[test]
    fn a_task_is_woken_by_the_end_and_by_a_cancel() {
        let (awaited, waits) = OneShotState::new().watch();
        assert!(waits && awaited.is_awaited() && !awaited.is_left_to_handle());
        let (done, finish) = awaited.take().0.finish();
        assert!(matches!(finish, Finish::Wake(waiting) if waiting.has_task() && !waiting.has_thread()));
        assert!(!done.is_awaited() && done.is_left_to_handle());
        assert!(!done.watch().1, "a finished item is not awaited");
        let (cancelled, waiting) = awaited.cancel();
        assert!(waiting.is_some_and(Waiting::has_task));
        assert!(!cancelled.is_awaited() && !cancelled.watch().1);
        let both = awaited.wait().0.finish().1;
        assert!(matches!(both, Finish::Wake(waiting) if waiting.has_task() && waiting.has_thread()));
        assert_eq!(awaited.detach().0, OneShotState::detached(), "a handle that is gone waits for nothing");
    }
}
