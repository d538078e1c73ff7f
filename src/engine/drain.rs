//! The end of a queue, for a time or for ever: only its own items may queue to it until it is empty.

use std::sync::Arc;

use crate::policy::admission::{Door, NotAdmitted};
use crate::policy::standing::{Answer, Caller, End};
use crate::protocol::drain::were_empty;
use crate::protocol::gate::Came;
use crate::sys::wait::Until;

use super::flush::{BatchPass, Pass};
use super::queue::Queue;
use super::refusal::{QueueError, WaitError};
use super::register::Pin;
use super::rescuer::OwnedRescuer;
use super::shard::Gate;
use super::timers::{Timer, TimerName};
use super::user_code::destroy;
use super::waits;
use super::worker;

impl Queue {
    /// An item comes.
    #[inline]
    pub(super) fn admit(&self, gate: &Gate) -> Result<Pass, QueueError> {
        match gate.cell.admit() {
            Came::Started => Ok(Pass { ticket: None, has_slot: true }),
            Came::Waits => Ok(Pass { ticket: None, has_slot: false }),
            Came::Flushing | Came::Not(_) => self.admit_otherwise(gate),
        }
    }

    /// Apart, so that the common way is short.
    #[cold]
    fn admit_otherwise(&self, gate: &Gate) -> Result<Pass, QueueError> {
        match self.pass(gate, false) {
            Ok(pass) => Ok(pass),
            Err(NotAdmitted::Door) => self.admit_chained(gate),
            Err(NotAdmitted::Full) => Err(QueueError::Full),
        }
    }

    /// So many items come, at least one: as many as there is room for, or as fit into one step. Those that have a slot come
    /// first; the others are to go to the waiting list.
    pub(super) fn admit_many(&self, gate: &Gate, items: usize) -> Result<BatchPass, QueueError> {
        // Through a door that is not open they come one by one, if at all: what others may need is not taken for a moment.
        let items = if gate.cell.load().door() == Door::Open { items } else { 1 };
        let room = self.become_pending(items);
        if room == 0 {
            return Err(QueueError::Full);
        }
        let admitted = match gate.cell.is_full() {
            true => Err(QueueError::Full),
            false => match self.pass_many(gate, room) {
                Ok(admitted) => Ok(admitted),
                // One by one through a door that is not open.
                Err(NotAdmitted::Door) => self.admit_chained(gate).map(BatchPass::one),
                Err(NotAdmitted::Full) => Err(QueueError::Full),
            },
        };
        let came = admitted.as_ref().map_or(0, |pass| pass.admitted.items());
        if came < room {
            self.left_pending_many(room - came);
        }
        admitted
    }

    #[cold]
    fn admit_chained(&self, gate: &Gate) -> Result<Pass, QueueError> {
        loop {
            // What is answered here may be otherwise a moment later; then the gate says no, and it is asked again.
            let is_chained = self.answer(self.caller())? == Door::Chained;
            // The calling item has not ended yet, as `protocol::drain` demands.
            match self.chained.admit(|| self.pass(gate, is_chained)) {
                Ok(pass) => return Ok(pass),
                Err(NotAdmitted::Full) => return Err(QueueError::Full),
                Err(NotAdmitted::Door) => {}
            }
        }
    }

    /// May the caller queue? By which door, then.
    #[cold]
    fn answer(&self, caller: Caller) -> Result<Door, QueueError> {
        let making = self.making.lock();
        match self.standing(making.wishes).answer(caller) {
            Answer::Freely => Ok(Door::Open),
            Answer::Chained => Ok(Door::Chained),
            Answer::Draining => Err(QueueError::Draining),
            Answer::Destroyed => Err(QueueError::Destroyed),
            Answer::ShutDown => Err(QueueError::ShutDown),
        }
    }

    fn caller(&self) -> Caller {
        worker::with_current(|worker| {
            let Some((worker, current)) = worker.and_then(|worker| Some((worker, worker.current()?))) else {
                return Caller::Outsider;
            };
            if std::ptr::eq(current.queue, self) {
                Caller::OwnItem
            } else if std::ptr::eq(&*worker.pool.core, &*self.executor.core) {
                Caller::OtherItem
            } else {
                Caller::Outsider
            }
        })
    }

    /// May an entry that lies there already be made to run again? It is in flight, so whoever empties the queue waits
    /// for it, however late this is found out.
    #[inline]
    pub(super) fn may_revive(&self, gate: &Gate) -> Result<(), QueueError> {
        match gate.cell.load().door() {
            Door::Open => Ok(()),
            _ => self.answer(self.caller()).map(|_door| ()),
        }
    }

    /// May a timer be armed? While the queue is drained, yes: it is held if it fires too early. `now`: it fires at once.
    #[inline]
    pub(super) fn may_arm(&self, gate: &Gate, now: bool) -> Result<(), QueueError> {
        match self.may_revive(gate) {
            Err(QueueError::Draining) if !now => Ok(()),
            answer => answer,
        }
    }

    /// A timer has fired. If the queue is drained, it is held until that ends. If the queue is no more, or can count no more
    /// items (that is twice as many as where issuers are refused), the timer is given up. Otherwise it is the caller's still,
    /// with an admission.
    pub(super) fn admit_fired(&self, gate: &Gate, due: &mut Option<Timer>, name: &TimerName) -> Option<Pass> {
        loop {
            match self.admit(gate) {
                Ok(pass) => return Some(pass),
                Err(QueueError::Draining) => {
                    let caller = self.caller();
                    let mut making = self.making.lock();
                    // Still? Who ends the queue or the executor gives up what is held, and comes only once.
                    if self.standing(making.wishes).answer(caller) == Answer::Draining {
                        making.held.extend(due.take().map(|timer| (name.clone(), timer)));
                        return None;
                    }
                }
                Err(_) => {
                    due.take().into_iter().for_each(|timer| self.cancel_timer(name, timer));
                    return None;
                }
            }
        }
    }

    /// Waits until the queue is empty, and lets only its own items queue to it meanwhile. The caller has a handle.
    pub(crate) fn drain(&self, until: Until) -> Result<(), WaitError> {
        self.check_wait()?;
        self.change(|wishes| wishes.drains += 1);
        let emptied = wait_until_empty(&[self], until);
        self.change(|wishes| wishes.drains -= 1);
        let mut making = self.making.lock();
        let held = if making.wishes.drains == 0 { std::mem::take(&mut making.held) } else { Vec::new() };
        drop(making);
        held.into_iter().for_each(|(name, timer)| timer.fire(&name));
        emptied
    }

    /// Ends the queue: runs what was accepted, and accepts nothing any more. How many armed timers came to nothing?
    /// If the time runs out, outsiders stay refused, and it may be tried again. The caller has a handle.
    pub(crate) fn destroy(&self, until: Until) -> Result<usize, WaitError> {
        self.check_wait()?;
        let is_done = self.change(|wishes| {
            let is_done = wishes.end == End::Done;
            if !is_done {
                wishes.end = End::Begun;
            }
            is_done
        });
        if is_done {
            return Ok(0);
        }
        self.cancel_timers();
        wait_until_empty(&[self], until)?;
        self.change(|wishes| wishes.end = End::Done);
        self.stop_rescuer();
        // An item of the queue may have armed one while it ended.
        self.cancel_timers();
        let mut making = self.making.lock();
        Ok(std::mem::take(&mut making.cancelled_timers))
    }

    /// Gives the armed timers of this queue up, those too that fired and are held, and counts them.
    fn cancel_timers(&self) {
        for (name, timer) in self.executor.core.timers.take_of(&self.executor.core, self) {
            self.cancel_timer(&name, timer);
        }
        self.cancel_held_timers();
    }

    pub(super) fn cancel_held_timers(&self) {
        let held = std::mem::take(&mut self.making.lock().held);
        held.into_iter().for_each(|(name, timer)| self.cancel_timer(&name, timer));
    }

    /// Gives up a timer of this queue that was taken off the map.
    pub(super) fn cancel_timer(&self, name: &TimerName, timer: Timer) {
        debug_assert!(std::ptr::eq(timer.queue.queue(), self));
        let name = name.clone();
        destroy(move || {
            let handle = Arc::clone(&timer.queue);
            if timer.give_up(&name) {
                handle.queue().making.lock().cancelled_timers += 1;
            }
        });
    }

    /// Nothing comes any more: its rescuer ends after the item that it runs.
    pub(super) fn stop_rescuer(&self) {
        self.spec.rescuer.iter().for_each(OwnedRescuer::stop);
    }

    fn check_wait(&self) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)
    }

    fn were_empty(queues: &[impl AsRef<Self>]) -> bool {
        let chained = || queues.iter().map(|queue| queue.as_ref().chained.load()).fold(0, u64::wrapping_add);
        were_empty(chained, queues.iter().flat_map(|queue| queue.as_ref().gates()).map(|gate| &*gate.cell))
    }
}

/// Waits until nothing is in flight in any of these queues. Their doors are shut to outsiders, and the caller keeps
/// them in place.
pub(super) fn wait_until_empty(queues: &[impl AsRef<Queue>], until: Until) -> Result<(), WaitError> {
    // A queue in which something is in flight is flushed, so there is always somebody to wait for.
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

impl AsRef<Queue> for Pin {
    fn as_ref(&self) -> &Queue {
        self
    }
}
