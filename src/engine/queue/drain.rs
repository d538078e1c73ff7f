//! Draining and destroying a queue. While a thread drains or destroys a queue, the queue refuses all issuers except its
//! own items.

use std::sync::Arc;

use crate::policy::admission::{Intake, NotAdmitted};
use crate::policy::effective_state::{Answer, Caller, End};
use crate::protocol::drain::were_empty;
use crate::sys::wait::Until;

use crate::engine::item::timers::{Timer, TimerName};
use crate::engine::item::waits;
use crate::engine::pool::calls::OwnedRescuer;
use crate::engine::refusal::{QueueError, WaitError};
use crate::engine::user_code::destroy;
use crate::engine::worker::worker_thread;

use super::admission::Pass;
use super::register::QueueRef;
use super::shard::Limiter;
use super::workqueue::{Queue, QueueHandle};

impl Queue {
    /// Admits an item to a limiter whose intake is not `Open`, and counts the item.
    #[cold]
    pub(super) fn admit_counted(&self, limiter: &Limiter) -> Result<Pass, QueueError> {
        loop {
            // The queue's answer may be out of date when the item is admitted. If the limiter's intake has become
            // stricter by then, the limiter refuses the item, and the loop asks the queue again.
            let caller = self.caller();
            let by = self.answer(caller)?;
            // If the caller is an item, this item has not ended yet, as `protocol::drain` demands.
            match self.counted.admit(|| self.pass(limiter, Some(by))) {
                Ok(pass) if caller == Caller::OtherItem => return self.confirm(limiter, pass, caller),
                Ok(pass) => return Ok(pass),
                Err(NotAdmitted::Full) => return Err(QueueError::Full),
                Err(NotAdmitted::Intake) => {}
            }
        }
    }

    /// Undoes the admission of an item if the queue has ended since this thread asked the queue for an answer. During a
    /// shutdown, a queue admits items that come from items of other queues. The queue admits such items under the
    /// intake `Draining`, under which a queue that is being destroyed admits its own items. So the limiter does not
    /// notice that the answer is out of date. A thread that destroys the queue first changes the answer, and then
    /// checks that no item is in flight. So either the destroying thread finds the item, or the admitting thread finds
    /// the new answer.
    #[cold]
    fn confirm(&self, limiter: &Limiter, pass: Pass, caller: Caller) -> Result<Pass, QueueError> {
        let Err(refusal) = self.answer(caller) else { return Ok(pass) };
        self.take_back(limiter, pass);
        Err(refusal)
    }

    /// Returns the intake that admits an item from the caller, or the reason why the queue refuses the item.
    #[cold]
    fn answer(&self, caller: Caller) -> Result<Intake, QueueError> {
        let making = self.making.lock();
        match self.effective_state(making.requested).answer(caller) {
            Answer::Freely => Ok(Intake::Open),
            Answer::Counted => Ok(Intake::Counted),
            Answer::Chained => Ok(Intake::Draining),
            Answer::Draining => Err(QueueError::Draining),
            Answer::Destroyed => Err(QueueError::Destroyed),
            Answer::ShutDown => Err(QueueError::ShutDown),
        }
    }

    fn caller(&self) -> Caller {
        worker_thread::with_current(|worker| {
            let Some((worker, current)) = worker.and_then(|worker| Some((worker, worker.current()?))) else {
                return Caller::Outsider;
            };
            if std::ptr::eq(current.queue(), self) {
                Caller::OwnItem
            } else if std::ptr::eq(&*worker.pool.core, &*self.executor.core) {
                Caller::OtherItem
            } else {
                Caller::Outsider
            }
        })
    }

    /// Checks that the caller may submit an item by reusing a cancelled entry that still lies on a list. The cancelled
    /// entry is in flight, so a thread that drains the queue waits for it. So the caller may rely on the answer, even
    /// if the answer is out of date when the caller uses it.
    #[inline]
    pub(crate) fn may_revive(&self, limiter: &Limiter) -> Result<(), QueueError> {
        match limiter.cell.load().intake() {
            Intake::Open => Ok(()),
            _ => self.answer(self.caller()).map(|_intake| ()),
        }
    }

    /// Checks that the caller may arm a timer. While the queue is being drained, the caller may arm a timer unless the
    /// timer fires immediately (`now`). A timer with a delay that fires during the drain is held until the drain ends.
    #[inline]
    pub(crate) fn may_arm(&self, limiter: &Limiter, now: bool) -> Result<(), QueueError> {
        match self.may_revive(limiter) {
            Err(QueueError::Draining) if !now => Ok(()),
            answer => answer,
        }
    }

    /// Admits the item of a timer that fires. The timer is still on the executor's map of timers. If the queue is being
    /// drained, the timer is held until the drain ends. If the queue has ended, or can count no more items, the timer
    /// is given up. (For issuers, the queue is full earlier, while it can still count more items.)
    pub(crate) fn admit_fired(&self, limiter: &Limiter, name: &TimerName) -> Option<Pass> {
        loop {
            match self.admit(limiter) {
                Ok(pass) => return Some(pass),
                Err(QueueError::Draining) => {
                    name.hold();
                    // A thread that ends the drain, the queue or the executor first changes the queue's answer, and
                    // then searches the held timers once. So if this thread still gets the answer `Draining`, the
                    // ending thread finds the timer. If this thread gets another answer, one of the two threads takes
                    // the timer.
                    if self.answer(self.caller()) == Err(QueueError::Draining) {
                        return None;
                    }
                }
                Err(_) => {
                    name.take().into_iter().for_each(|timer| self.cancel_timer(name, timer));
                    return None;
                }
            }
        }
    }

    /// Ends one drain. If no other drain is under way, opens the queue to all issuers again, and fires the timers
    /// that were held.
    fn end_drain(&self) {
        let is_last = self.change(|requested| {
            requested.drains -= 1;
            requested.drains == 0
        });
        if is_last {
            // Each held timer stays on the map until it is fired, because firing an earlier timer may run user code.
            self.executor.upkeep.timers.held_of(self).iter().for_each(TimerName::fire);
        }
    }

    /// Ends the queue: refuses all issuers except its own items, and waits until all accepted items are done. Returns
    /// the number of armed timers that were given up. If the time runs out, the queue still refuses all issuers except
    /// its own items, and the caller may try again. The caller holds a handle to the queue.
    pub(crate) fn destroy(&self, until: Until) -> Result<usize, WaitError> {
        self.check_wait()?;
        if !self.begin_destroy() {
            return Ok(0);
        }
        wait_until_empty(&[self], until)?;
        Ok(self.finish_destroy())
    }

    /// Shuts the queue to all issuers except its own items, and gives up its timers. Returns false if the queue was
    /// destroyed before.
    pub(super) fn begin_destroy(&self) -> bool {
        let is_done = self.change(|requested| {
            let is_done = requested.end == End::Done;
            if requested.end == End::No {
                requested.end = End::Begun;
            }
            is_done
        });
        if !is_done {
            self.cancel_timers();
        }
        !is_done
    }

    /// Shuts the queue for good, because it is empty. Returns the number of armed timers that were given up.
    pub(super) fn finish_destroy(&self) -> usize {
        self.change(|requested| requested.end = End::Done);
        self.stop_rescuer();
        // An item of the queue may have armed a timer since `begin_destroy` gave up the timers.
        self.cancel_timers();
        let mut making = self.making.lock();
        std::mem::take(&mut making.cancelled_timers)
    }

    /// Gives up and counts all timers of this queue: the armed timers, and the held timers, which have fired but whose
    /// items are not admitted yet.
    pub(super) fn cancel_timers(&self) {
        for (name, timer) in self.executor.upkeep.timers.take_of(self) {
            self.cancel_timer(&name, timer);
        }
    }

    /// Gives up a timer of this queue that was taken off the map. Counts the timer unless it was cancelled or replaced
    /// before.
    pub(crate) fn cancel_timer(&self, name: &TimerName, timer: Timer) {
        debug_assert!(std::ptr::eq(timer.queue.queue(), self));
        // The timer may hold the last handle to the queue.
        let handle = Arc::clone(&timer.queue);
        // The timer is counted before this function returns, so that a report of the queue's end includes the timer.
        if timer.give_up(name) {
            self.making.lock().cancelled_timers += 1;
        }
        destroy(move || drop(handle));
    }

    /// Makes the queue's rescuer end after its current item. The queue gets no further items.
    pub(crate) fn stop_rescuer(&self) {
        self.spec.rescuer.iter().for_each(OwnedRescuer::stop);
    }

    pub(super) fn check_wait(&self) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)
    }

    /// Waits for a moment at which no item of the queue is in flight. During the wait, the queue admits items from all
    /// issuers.
    pub(crate) fn wait_idle(&self, until: Until) -> Result<(), WaitError> {
        self.check_wait()?;
        // While an item is in flight, the flush waits for that item. So this loop does not spin.
        while !self.was_idle() {
            match self.flush_until(until) {
                Err(WaitError::TimedOut) if self.was_idle() => return Ok(()),
                flushed => flushed?,
            }
        }
        Ok(())
    }

    /// Returns true only if at some moment no item of the queue was in flight. During the call, the queue admits items
    /// from all issuers.
    pub(super) fn was_idle(&self) -> bool {
        if self.shared_limiter().is_some() {
            return self.was_empty();
        }
        if self.len() > 0 {
            return false;
        }
        self.change(|requested| requested.looks += 1);
        let was_empty = self.was_empty();
        self.change(|requested| requested.looks -= 1);
        was_empty
    }

    /// Returns true only if at some moment no item of the queue was in flight. The caller has made sure that issuers
    /// count their items.
    pub(super) fn was_empty(&self) -> bool {
        Self::were_empty(&[self])
    }

    pub(crate) fn were_empty(queues: &[impl AsRef<Self>]) -> bool {
        let counted = || queues.iter().map(|queue| queue.as_ref().counted.load()).fold(0, u64::wrapping_add);
        were_empty(
            counted,
            queues.iter().flat_map(|queue| queue.as_ref().limiters()).map(|limiter| &*limiter.cell),
        )
    }
}

impl QueueHandle {
    /// Waits until the queue is empty. During the wait, only the queue's own items may submit to the queue.
    pub(crate) fn drain(self: &Arc<Self>, until: Until) -> Result<(), WaitError> {
        self.queue().check_wait()?;
        let draining = Draining::begin(Arc::clone(self));
        let emptied = wait_until_empty(&[self.queue()], until);
        drop(draining);
        emptied
    }
}

/// A drain of a queue, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Draining(Arc<QueueHandle>);

impl Draining {
    /// Shuts the queue to all issuers except its own items.
    pub(super) fn begin(queue: Arc<QueueHandle>) -> Self {
        queue.queue().change(|requested| requested.drains += 1);
        Self(queue)
    }
}

impl Drop for Draining {
    fn drop(&mut self) {
        // A forked process does not open the queue, because a thread of the parent may have held the locks at the fork.
        if !self.0.queue().executor.origin.is_forked() {
            self.0.queue().end_drain();
        }
    }
}

/// Waits until no item is in flight in any of these queues. The queues are already shut to all issuers except their own
/// items, and the caller keeps the queues in memory.
pub(crate) fn wait_until_empty(queues: &[impl AsRef<Queue>], until: Until) -> Result<(), WaitError> {
    // While an item is in flight, the flush of its queue waits for that item. So this loop does not spin.
    while !Queue::were_empty(queues) {
        let flushed = queues.iter().try_for_each(|queue| queue.as_ref().flush_until(until));
        match flushed {
            Err(WaitError::TimedOut) if Queue::were_empty(queues) => return Ok(()),
            flushed => flushed?,
        }
    }
    Ok(())
}

impl AsRef<Self> for Queue {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<Queue> for QueueRef {
    fn as_ref(&self) -> &Queue {
        self
    }
}
