//! The state of a one-shot item. A one-shot item consists of a closure, which runs once, and of the closure's result,
//! for which the item's handle waits.
//!
//! Two parties own the cell: its *entry* on a list, and the *handle*. Each party has a bit in the word, which is set
//! while the party exists. The party that clears the last of the two bits frees the cell. The closure belongs to the
//! thread that ends the queued state. The queued state ends when a worker begins the item, or when a thread cancels the
//! item through the handle. The result belongs to the handle, or to the worker if the handle is gone.
//!
//! The handle can also ask a running item to stop. A running item that *listens* for a request to stop has left an
//! alarm, which the handle rings. The alarm is removed before the item ends or the handle goes, because another item
//! may get the same cell later.

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
/// The item was cancelled because its deadline had passed.
const LATE: u64 = 1 << 7;
/// The handle has asked the running item to stop.
const STOPPED: u64 = 1 << 8;
/// The running item has left an alarm, which rings when the handle asks the item to stop.
const LISTENS: u64 = 1 << 9;

/// The state word of a one-shot item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneShotState(u64);

/// The next step of a worker with an entry that it has popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Run the closure.
    Run,
    /// The item was cancelled, and the handle still uses the cell. Leave the cell alone. `late` says whether the item's
    /// deadline had passed.
    Leave { late: bool },
    /// The item was cancelled, and the handle is gone. Free the cell. `late` says whether the item's deadline had
    /// passed.
    Free { late: bool },
}

/// The answer to a handle that asks its item to stop.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The item had not begun, and was cancelled as by [`OneShotState::cancel`].
    Cancelled(Waiting),
    /// The item runs, and was asked to stop. If the item listens for such a request, ring its alarm.
    Asked { listens: bool },
    /// The item has ended.
    Ended,
}

/// The answer to a running item that begins to listen for its handle's request to stop.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// The item listens for a request to stop from now on. Keep the alarm.
    Listens,
    /// The handle has already asked the item to stop.
    Stopped,
    /// The handle is gone, so no thread asks the item to stop.
    Alone,
}

/// The next step of a worker after the closure has ended and its result is stored.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The result now belongs to the handle.
    Leave,
    /// Wake the thread or the task, or both, that wait for the result through the handle.
    Wake(Waiting),
    /// The handle is gone. Drop the result, and free the cell.
    Free,
    /// The item has not ended yet, because it still listens for a request to stop. Remove its alarm, and finish the
    /// item again.
    Unlisten,
}

/// The thread and the task that wait for an item through its handle. Both a thread and a task wait if a thread joins a
/// handle that a task has polled before.
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
        let (left, late) = (Self(self.0 & !ENTRY), self.is_late());
        (left, if left.0 & HANDLE != 0 { Take::Leave { late } } else { Take::Free { late } })
    }

    /// Returns whether the item was cancelled because its deadline had passed.
    pub(crate) const fn is_late(self) -> bool {
        self.0 & LATE != 0
    }

    /// Finishes the item, because the closure has ended and its result is stored in the cell.
    pub(crate) const fn finish(self) -> (Self, Finish) {
        self.finish_as(DONE)
    }

    /// Finishes the item as cancelled, because the closure was dropped instead of run. `late` says whether the item's
    /// deadline had passed.
    pub(crate) const fn abandon(self, late: bool) -> (Self, Finish) {
        self.finish_as(cancelled(late))
    }

    const fn finish_as(self, end: u64) -> (Self, Finish) {
        let done = Self(self.0 & !(ENTRY | RUNNING | WAITER | AWAITED) | end);
        let finish = if self.0 & HANDLE == 0 {
            Finish::Free
        } else if self.0 & (WAITER | AWAITED | LISTENS) != 0 {
            if self.0 & LISTENS != 0 {
                return (Self(self.0 & !LISTENS), Finish::Unlisten);
            }
            Finish::Wake(self.waiting())
        } else {
            Finish::Leave
        };
        (done, finish)
    }

    const fn waiting(self) -> Waiting {
        Waiting(self.0 & (WAITER | AWAITED))
    }

    /// Cancels the item on behalf of the handle. If the closure had not begun, returns the waiting thread and task. The
    /// closure of a cancelled item belongs to the handle. `late` says whether the item's deadline has passed.
    pub(crate) const fn cancel(self, late: bool) -> (Self, Option<Waiting>) {
        if self.0 & (RUNNING | DONE | CANCELLED) != 0 {
            (self, None)
        } else {
            (Self(self.0 & !(WAITER | AWAITED) | cancelled(late)), Some(self.waiting()))
        }
    }

    /// Cancels the item on behalf of the handle or, if the closure has begun, asks the item to stop.
    pub(crate) const fn stop(self) -> (Self, Stop) {
        match self.cancel(false) {
            (cancelled, Some(waiting)) => (cancelled, Stop::Cancelled(waiting)),
            _ if self.is_finished() => (self, Stop::Ended),
            _ => (Self(self.0 | STOPPED), Stop::Asked { listens: self.0 & LISTENS != 0 }),
        }
    }

    /// Returns whether the handle has asked the running item to stop.
    pub(crate) const fn is_stopped(self) -> bool {
        self.0 & STOPPED != 0
    }

    /// Notes that the running item leaves an alarm, which rings when the handle asks the item to stop.
    pub(crate) const fn listen(self) -> (Self, Listen) {
        if self.is_stopped() {
            (self, Listen::Stopped)
        } else if self.0 & HANDLE == 0 {
            (self, Listen::Alone)
        } else {
            (Self(self.0 | LISTENS), Listen::Listens)
        }
    }

    /// Returns whether the running item has left an alarm.
    pub(crate) const fn listens(self) -> bool {
        self.0 & LISTENS != 0
    }

    /// Returns whether a task waits for the item, or the item listens for a request to stop.
    pub(crate) const fn has_alarms(self) -> bool {
        self.0 & (AWAITED | LISTENS) != 0
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

    /// Returns whether a thread waits for the item.
    pub(crate) const fn is_joined(self) -> bool {
        self.0 & WAITER != 0
    }

    /// Returns whether a task waits for the item.
    pub(crate) const fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }

    /// Notes that the handle's wait timed out. Returns false if the item has finished.
    pub(crate) const fn stop_waiting(self) -> (Self, bool) {
        (Self(self.0 & !WAITER), !self.is_finished())
    }

    /// Returns whether the handle is the only owner of the cell, so that no other thread can change the state.
    pub(crate) const fn is_left_to_handle(self) -> bool {
        self.0 & ENTRY == 0
    }

    /// Removes the handle. The caller has already removed the alarms. If the handle was the last owner, returns true,
    /// and the caller frees the cell.
    pub(crate) const fn detach(self) -> (Self, bool) {
        (Self(self.0 & !(HANDLE | AWAITED | LISTENS)), self.0 & ENTRY == 0)
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

const fn cancelled(late: bool) -> u64 {
    if late { CANCELLED | LATE } else { CANCELLED }
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
            (LATE, "late"),
            (STOPPED, "stopped"),
            (LISTENS, "listens"),
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

        let (cancelled, waiting) = queued.cancel(false);
        assert!(waiting.is_some());
        let (left, take) = cancelled.take();
        assert_eq!(take, Take::Leave { late: false });
        assert!(left.detach().1, "cancelled, popped, then detached: the handle frees");
        assert_eq!(
            cancelled.detach().0.take().1,
            Take::Free { late: false },
            "cancelled, detached, then popped: the worker frees"
        );
        assert!(!cancelled.detach().1);
    }

    /// spec: W1: an item that is dropped instead of run looks cancelled to its handle.
    #[test]
    fn an_abandoned_item_is_cancelled_and_wakes_its_waiter() {
        let (waiting, _) = OneShotState::new().wait();
        let (abandoned, finish) = waiting.take().0.abandon(false);
        assert!(matches!(finish, Finish::Wake(waiting) if waiting.has_thread() && !waiting.has_task()));
        assert!(abandoned.is_cancelled() && abandoned.is_finished());
        assert!(abandoned.detach().1, "the handle is the last owner");
        assert_eq!(OneShotState::new().detach().0.take().0.abandon(false).1, Finish::Free);
    }

    /// spec: W1.3: a handle can cancel its item only before a worker has begun the item.
    #[test]
    fn only_an_item_that_has_not_begun_is_cancelled() {
        let running = OneShotState::new().take().0;
        assert_eq!(running.cancel(false), (running, None));
        let done = running.finish().0;
        assert_eq!(done.cancel(false), (done, None));
        let cancelled = OneShotState::new().cancel(false).0;
        assert_eq!(cancelled.cancel(false), (cancelled, None));
        assert!(cancelled.is_finished());
    }

    /// spec: W1.2: the end of an item wakes a thread that joins it, unless the thread's wait has timed out.
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

    /// spec: I1.1: the end or the cancelling of an item wakes a task that awaits the item's handle.
    #[test]
    fn a_task_is_woken_by_the_end_and_by_a_cancel() {
        let (awaited, waits) = OneShotState::new().watch();
        assert!(waits && awaited.is_awaited() && !awaited.is_left_to_handle());
        let (done, finish) = awaited.take().0.finish();
        assert!(matches!(finish, Finish::Wake(waiting) if waiting.has_task() && !waiting.has_thread()));
        assert!(!done.is_awaited() && done.is_left_to_handle());
        assert!(!done.watch().1, "a finished item is not awaited");
        let (cancelled, waiting) = awaited.cancel(false);
        assert!(waiting.is_some_and(Waiting::has_task));
        assert!(!cancelled.is_awaited() && !cancelled.watch().1);
        let both = awaited.wait().0.finish().1;
        assert!(matches!(both, Finish::Wake(waiting) if waiting.has_task() && waiting.has_thread()));
        assert_eq!(awaited.detach().0, OneShotState::detached(), "a handle that is gone waits for nothing");
    }

    /// spec: I3.3: a handle that stops its item cancels the item, or asks the item to stop if it is running.
    #[test]
    fn a_stop_cancels_an_item_or_asks_it() {
        assert!(
            matches!(OneShotState::new().stop(), (cancelled, Stop::Cancelled(_)) if cancelled.is_cancelled())
        );
        let running = OneShotState::new().take().0;
        let (stopped, stop) = running.stop();
        assert_eq!((stop, stopped.is_stopped()), (Stop::Asked { listens: false }, true));
        assert_eq!(stopped.listen(), (stopped, Listen::Stopped));
        assert_eq!(stopped.finish().0.stop().1, Stop::Ended);
        let (listens, listen) = running.listen();
        assert_eq!((listen, listens.stop().1), (Listen::Listens, Stop::Asked { listens: true }));
        let (again, finish) = listens.finish();
        assert_eq!((finish, again), (Finish::Unlisten, running), "the alarm goes first");
        assert!(listens.has_alarms() && !listens.detach().0.listens());
        assert_eq!(running.detach().0.listen().1, Listen::Alone);
        assert_eq!(listens.detach().0.finish().1, Finish::Free);
    }

    /// spec: I3.5: an item whose deadline has passed is cancelled, and its state says that the item was late.
    #[test]
    fn a_late_item_is_cancelled_and_known_as_late() {
        let late = OneShotState::new().cancel(true).0;
        assert!(late.is_cancelled() && late.is_late());
        assert_eq!(late.take().1, Take::Leave { late: true });
        assert_eq!(late.detach().0.take().1, Take::Free { late: true });
        let late = OneShotState::new().take().0.abandon(true).0;
        assert!(late.is_cancelled() && late.is_late());
    }
}
