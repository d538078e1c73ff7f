//! The issuer's path: place → admit → enqueue → kick. No lock and no system call while the pool is busy.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::admission::Slot;
use crate::policy::item::{Arm, Room};
use crate::protocol::item::Queued;

use crate::engine::executor::placement::Place;
use crate::engine::manager::supervision::Point;
use crate::engine::queue::admission::Pass;
use crate::engine::queue::route;
use crate::engine::queue::shard::{Gate, Shard};
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::QueueError;
use crate::engine::trace;
use crate::engine::user_code::contain;

use super::entry::{Entry, Header};
use super::one_shot;
use super::one_shot::handle::RawHandle;
use super::timers::{Later, Timer, TimerName};
use super::work::WorkHandle;

impl Queue {
    /// Queues a closure that runs once. A refusal hands it back.
    #[inline]
    pub(crate) fn spawn<F, T>(&self, place: Place, function: F) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let origin = self.executor.origin;
        self.spawn_made(place, function, |function, lane| Ok(one_shot::make(function, lane, origin)))
    }

    /// Queues a closure that runs once, without a handle. A refusal hands it back.
    #[inline]
    pub(crate) fn spawn_detached<F, T>(&self, place: Place, function: F) -> Result<(), (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        self.spawn_made(place, function, |function, _| Ok((one_shot::make_detached(function), ())))
    }

    /// Queues a closure in a cell that `make` creates, together with its handle. `make` gets the lane of the item's
    /// shard, and may refuse.
    #[inline]
    pub(crate) fn spawn_made<F, H>(
        &self,
        place: Place,
        function: F,
        make: impl FnOnce(F, *const Gate) -> Result<(NonNull<Header>, H), (QueueError, F)>,
    ) -> Result<H, (QueueError, F)> {
        if self.executor.origin.is_forked() {
            return Err((QueueError::Forked, function));
        }
        if !self.becomes_pending() {
            return Err((QueueError::Full, function));
        }
        let shard = self.shard(self.executor.placement.slot_for(place));
        if shard.gate().cell.is_full() {
            self.left_pending();
            return Err((QueueError::Full, function));
        }
        let pass = match self.admit(shard.gate()) {
            Ok(pass) => pass,
            Err(error) => {
                self.left_pending();
                return Err((error, function));
            }
        };
        let (item, handle) = make(function, shard.lane()).inspect_err(|_| self.take_back(shard, pass))?;
        let entry = Entry::new(item, shard, pass.ticket, place.is_bound());
        enqueue(shard, entry, place.named(), pass.has_slot, Shard::put);
        Ok(handle)
    }

    /// Queues a reusable item. Returns false if it was pending already.
    ///
    /// The item is counted in the gate before it is marked pending. So a flush that begins after the item was seen
    /// pending waits for it.
    #[inline]
    pub(crate) fn queue(&self, place: Place, work: &WorkHandle) -> Result<bool, QueueError> {
        self.queue_with(place, work, Shard::put)
    }

    /// Queues a reusable item like [`queue`](Self::queue). `put` gets the admitted entry, and whether it has a slot.
    /// It puts the entry on a worklist or on the waiting list, and wakes a worker if one is needed.
    #[inline]
    pub(crate) fn queue_with<'q>(
        &'q self,
        place: Place,
        work: &WorkHandle,
        put: impl FnOnce(&'q Shard, Entry, bool),
    ) -> Result<bool, QueueError> {
        // The item is checked, too: if it was pending at the fork, it stays pending for ever in this process.
        if self.executor.origin.is_forked() || work.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        let shard = self.shard(self.executor.placement.slot_for(place));
        let is_idle = work.cell.load().is_idle();
        if !is_idle {
            if let Some(answer) = self.queue_without_entry(shard, work) {
                return answer;
            }
        }
        if shard.gate().cell.is_full() || !self.becomes_pending() {
            // If another thread has queued the item meanwhile, it needs no room.
            return self.queue_without_entry(shard, work).unwrap_or(Err(QueueError::Full));
        }
        let pass = match self.admit(shard.gate()) {
            Ok(pass) => pass,
            Err(error) => {
                self.left_pending();
                return self.queue_without_entry(shard, work).unwrap_or(Err(error));
            }
        };
        let queued = match is_idle {
            true => work.cell.queue(shard.new_place(), pass.ticket),
            false => queue_again(shard, work, pass),
        };
        if queued == Queued::Push {
            enqueue(
                shard,
                Entry::new(work.item(), shard, pass.ticket, place.is_bound()),
                place.named(),
                pass.has_slot,
                put,
            );
        } else {
            self.take_back(shard, pass);
        }
        answer(queued, shard, work)
    }

    /// Arms a timer that queues a reusable item after a delay. If the item is pending already, nothing changes; but
    /// with `again`, the timer replaces the pending submission. The answer tells whether the item was pending.
    pub(crate) fn arm(
        handle: &Arc<QueueHandle>,
        place: Place,
        after: Duration,
        work: &WorkHandle,
        again: bool,
    ) -> Result<Arm, QueueError> {
        if handle.queue().executor.origin.is_forked() || work.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        let queue = handle.queue();
        let slot = queue.executor.placement.slot_for(place);
        let shard = queue.shard(slot);
        queue.may_arm(shard.gate(), after.is_zero())?;
        let room = queue.room_to_arm(shard, work, after.is_zero(), again)?;
        let timer = Timer {
            what: Later::Work(work.clone()),
            queue: Arc::clone(handle),
            slot,
            bound: place.is_bound(),
        };
        let mut armed = None;
        let (arm, taken) = work.cell.arm(again, || {
            let (name, wake) = TimerName::set(after, timer);
            armed = Some((name.clone(), wake));
            name
        });
        work.complete_taken_back(taken);
        if let Some((name, wake)) = armed {
            if let Some((error, timer)) = queue.armed_too_late(slot, &name) {
                if matches!(arm, Arm::Armed { was_pending: true }) {
                    // The submission that the timer replaced is gone, so this call cannot refuse. It gives the timer up
                    // like the thread that ends the queue does with the timers that it finds.
                    queue.cancel_timer(&name, timer);
                } else if timer.give_up(&name) {
                    return Err(error);
                }
            } else if after.is_zero() {
                // This thread fires the timer, unless another thread has cancelled it meanwhile, or fired it by a
                // flush.
                if let Some(timer) = name.take() {
                    timer.fire_into(&name, room);
                }
            } else if wake {
                name.wake_manager();
            }
        }
        match arm {
            Arm::Refused => Err(QueueError::Disabled),
            arm => Ok(arm),
        }
    }

    /// Checks that the queue has room for the item of a timer. Returns the item's place among the pending ones, if
    /// the item takes that now. `now`: the timer is due at once; `again`: as in [`arm`](Self::arm).
    fn room_to_arm(
        &self,
        shard: &Shard,
        work: &WorkHandle,
        now: bool,
        again: bool,
    ) -> Result<Option<Kept<'_>>, QueueError> {
        let room = |target| work.cell.room_to_arm(target, now, again);
        let needed = shard.with_target(work.cell.load(), room);
        let is_there = match needed {
            Room::None => true,
            _ if shard.gate().cell.is_full() => false,
            Room::Left => self.has_room(),
            Room::Place => self.becomes_pending(),
        };
        match is_there {
            true => Ok((needed == Room::Place).then(|| Kept(self))),
            false => Err(QueueError::Full),
        }
    }

    /// Queues the item if that needs no new entry: it is pending, or a cancelled entry of it lies on a list of the
    /// shard. Returns `None` if it needs one. An item that is pending may be queued again even if the queue refuses
    /// others.
    fn queue_without_entry(&self, shard: &Shard, work: &WorkHandle) -> Option<Result<bool, QueueError>> {
        let queue = |target| work.cell.queue_without_entry(target);
        match self.may_revive(shard.gate()) {
            Ok(()) => {
                let state = work.cell.load();
                let queued = if state.is_pending() {
                    queue(shard.new_place())
                } else {
                    shard.with_target(state, queue)
                };
                queued.map(|queued| answer(queued, shard, work))
            }
            Err(refusal) => {
                let pending = queue(shard.new_place());
                Some(pending.map_or(Err(refusal), |queued| answer(queued, shard, work)))
            }
        }
    }

    /// Queues the item of a timer that is due. The item was accepted when the timer was armed, so `max_pending` does
    /// not apply now. `kept`: the place that the item has taken already. The timer stays in `due` until its item
    /// is about to be pushed, or is given up: a panic before that leaves it there.
    pub(crate) fn fired(&self, due: &mut Option<Timer>, name: &TimerName, kept: Option<Kept<'_>>) {
        let Some(slot) = due.as_ref().map(|timer| timer.slot) else { return };
        let shard = self.shard(slot);
        let Some(pass) = self.admit_fired(shard.gate(), due, name) else { return };
        match kept {
            // From here on the place is the item's.
            Some(kept) => std::mem::forget(kept),
            None => self.comes_anyway(),
        }
        let entering = Entering { shard, pass: Some(pass) };
        self.executor.core.manager.strike(Point::Admission);
        let queued = due.as_ref().and_then(|timer| match &timer.what {
            Later::Work(work) => {
                shard.with_target(work.cell.load(), |target| work.cell.fire(name, target, pass.ticket))
            }
            Later::OneShot(_) => Some(Queued::Push),
        });
        let Some(Timer { what, bound, queue: _in_place, .. }) = due.take() else { return };
        let item = match what {
            Later::OneShot(item) => item.list(),
            // The handle that is dropped here is not the last reference: the entry has one, and no worker has the
            // entry yet. So the user's destructor runs on a worker, and not on this thread.
            Later::Work(work) if queued == Some(Queued::Push) => work.item(),
            // The timer was cancelled or replaced, or the item needs no new entry.
            Later::Work(work) => {
                let _answer = queued.map(|queued| answer(queued, shard, &work));
                drop(entering);
                return contain(|| drop(work));
            }
        };
        if let Some(pass) = entering.enters() {
            let entry = Entry::new(item, shard, pass.ticket, bound);
            enqueue(shard, entry, bound.then_some(slot), pass.has_slot, Shard::put);
        }
    }

    /// Undoes an admission: the item is not queued after all, for example because another thread has queued it first.
    #[cold]
    fn take_back(&self, shard: &Shard, pass: Pass) {
        self.left_pending();
        let gate = shard.gate();
        if self.give_back(gate, pass) == Slot::Handed {
            route::submit(gate.next_active());
        }
    }
}

/// An item that was admitted and counts as pending. When this is dropped before the item [enters](Self::enters), both
/// are undone.
#[must_use]
struct Entering<'queue> {
    shard: &'queue Shard,
    pass: Option<Pass>,
}

impl Entering<'_> {
    fn enters(mut self) -> Option<Pass> {
        self.pass.take()
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.shard.queue().take_back(self.shard, pass);
        }
    }
}

/// A place among the `max_pending` items of a queue. Dropping it gives the place back.
#[must_use]
pub(crate) struct Kept<'queue>(&'queue Queue);

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.0.left_pending();
    }
}

/// Queues an item that was not idle. A cancelled entry of it may lie on a list.
#[cold]
#[inline(never)]
fn queue_again(shard: &Shard, work: &WorkHandle, pass: Pass) -> Queued {
    shard.with_target(work.cell.load(), |target| work.cell.queue(target, pass.ticket))
}

fn answer(queued: Queued, shard: &Shard, work: &WorkHandle) -> Result<bool, QueueError> {
    match queued {
        Queued::Push => Ok(true),
        Queued::Revived => {
            revived(shard, work);
            Ok(true)
        }
        Queued::Coalesced => Ok(false),
        Queued::Refused => Err(QueueError::Disabled),
    }
}

/// Notes that a submission uses the entry of a cancelled one. No worker pops that entry as a cancelled one any more,
/// so the cancellation is counted here.
#[cold]
fn revived(shard: &Shard, work: &WorkHandle) {
    shard.events.cancelled.raise();
    // If the item has begun already, the next submission overwrites this stamp.
    work.header.stamp(&shard.timing);
    if trace::listens() {
        trace::queue_work(work.item(), work.item_type, shard, None);
    }
}

/// Stamps and traces an admitted entry, and passes it to `put`. The caller has a handle of the shard's queue, which
/// keeps shard and pool in memory. `named`: the slot that the issuer named, if any.
#[inline]
pub(crate) fn enqueue<'q>(
    shard: &'q Shard,
    entry: Entry,
    named: Option<usize>,
    has_slot: bool,
    put: impl FnOnce(&'q Shard, Entry, bool),
) {
    entry.stamp(&shard.timing);
    if trace::listens() {
        trace::queue_work(entry.item(), entry.item_type(), shard, named);
        if has_slot {
            trace::activate_work(&entry);
        }
    }
    put(shard, entry, has_slot);
}
