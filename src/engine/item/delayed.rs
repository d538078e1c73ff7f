//! Items that are queued later: how a timer is armed, and what happens to the item when the timer fires.
#![allow(unsafe_code, reason = "a refused closure is moved out of its cell or box")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::admission::Intake;
use crate::policy::item::{Arm, Room};
use crate::protocol::item::Queued;
use crate::sys::machine;

use crate::engine::manager::inbox::Point;
use crate::engine::queue::admission::Pass;
use crate::engine::queue::bytes::Ask;
use crate::engine::queue::places::Kept;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::QueueError;
use crate::engine::user_code::contain;

use super::closure::Closure;
use super::entry::{Entry, Header};
use super::one_shot;
use super::one_shot::handle::RawHandle;
use super::place::Place;
use super::submit::{answer, enqueue};
use super::timers::{Later, Timer, TimerName, Unlisted};
use super::with_options::ClosureOptions;
use super::work::WorkHandle;
use super::work_item::complete_kept;

impl Queue {
    /// Queues a closure after a delay. If the submission is refused, returns the closure with the error. The caller
    /// gets the closure back even if the queue ends during this call. `kept` is the item's place among the pending
    /// items, if the caller has taken one. An item with a delay is not pending yet, so this function gives the item's
    /// place back.
    pub(crate) fn spawn_after<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        kept: Option<Kept<'_>>,
        after: Duration,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let queue = handle.queue();
        if after.is_zero() {
            return queue.spawn_in(place, kept, function);
        }
        if queue.carries() {
            return Self::spawn_after_with(handle, place, kept, after, ClosureOptions::default(), function);
        }
        drop(kept);
        Self::arm_one_shot(handle, place, after, function)
    }

    /// Queues a closure with options like [`spawn_after`](Self::spawn_after), and captures the values that the
    /// submission carries.
    #[cold]
    #[inline(never)]
    pub(crate) fn spawn_after_with<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        kept: Option<Kept<'_>>,
        after: Duration,
        options: ClosureOptions,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let kept = kept.filter(|_| after.is_zero());
        let boxed = handle.queue().with_options(options, function);
        let spawned = match after {
            Duration::ZERO => handle.queue().spawn_boxed(place, kept, boxed),
            after => Self::arm_one_shot(handle, place, after, boxed),
        };
        // SAFETY: the refused closure is the one that was boxed above.
        spawned.map_err(|(error, boxed)| (error, unsafe { boxed.into_closure::<F>() }))
    }

    /// Queues a closure after a delay, without a handle. Returns the name of the timer, or `None` if the delay is
    /// zero. If the submission is refused, returns the closure with the error.
    pub(crate) fn spawn_detached_after<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        kept: Option<Kept<'_>>,
        after: Duration,
        function: F,
    ) -> Result<Option<TimerName>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        if after.is_zero() {
            return handle.queue().spawn_detached_in::<F, T>(place, kept, function).map(|()| None);
        }
        if handle.queue().carries() {
            let options = ClosureOptions::default();
            return Self::spawn_detached_after_with::<F, T>(handle, place, kept, after, options, function);
        }
        drop(kept);
        Self::arm_detached::<F, T>(handle, place, after, function)
    }

    /// Queues a closure with options like [`spawn_detached_after`](Self::spawn_detached_after), and captures the values
    /// that the submission carries.
    #[cold]
    #[inline(never)]
    pub(crate) fn spawn_detached_after_with<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        kept: Option<Kept<'_>>,
        after: Duration,
        options: ClosureOptions,
        function: F,
    ) -> Result<Option<TimerName>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        let kept = kept.filter(|_| after.is_zero());
        let boxed = handle.queue().with_options::<F, T>(options, function);
        let spawned = match after {
            Duration::ZERO => handle.queue().spawn_detached_boxed(place, kept, boxed).map(|()| None),
            after => Self::arm_detached::<_, T>(handle, place, after, boxed),
        };
        // SAFETY: the refused closure is the one that was boxed above.
        spawned.map_err(|(error, boxed)| (error, unsafe { boxed.into_closure::<F>() }))
    }

    /// Arms a timer for a one-shot. If the submission is refused, returns the closure with the error. The delay is not
    /// zero.
    fn arm_one_shot<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        after: Duration,
        mut function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        if let Err(error) = function.take_bytes(handle.queue(), Ask::OfTimer) {
            return Err((error, function));
        }
        let origin = handle.queue().executor.origin;
        let make = |function, lane| one_shot::make(function, lane, origin);
        // SAFETY: `make` has made the cell, and `arm_made` passes the entry's side of the cell on.
        let unmake = |item, raw| unsafe { one_shot::unmake::<F, T>(item, raw) };
        let (mut raw, name) = Self::arm_made(handle, place, after, function, make, unmake)?;
        raw.set_timer(name);
        Ok(raw)
    }

    /// Arms a timer like [`arm_one_shot`](Self::arm_one_shot), for a one-shot without a handle.
    fn arm_detached<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        after: Duration,
        mut function: F,
    ) -> Result<Option<TimerName>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        if let Err(error) = function.take_bytes(handle.queue(), Ask::OfTimer) {
            return Err((error, function));
        }
        let make = |function, _| (one_shot::make_detached::<F, T>(function), ());
        // SAFETY: `make` has made the cell, and `arm_made` passes the entry's side of the cell on. The cell has no
        // handle.
        let unmake = |item, ()| unsafe { one_shot::unmake_detached::<F, T>(item) };
        Self::arm_made(handle, place, after, function, make, unmake).map(|((), name)| Some(name))
    }

    /// Arms a timer for a one-shot. `make` moves the closure into a cell, and makes the handle. If the submission is
    /// refused after that, `unmake` gets the closure back out of the cell. The delay is not zero.
    fn arm_made<F, H>(
        handle: &Arc<QueueHandle>,
        place: Place,
        after: Duration,
        function: F,
        make: impl FnOnce(F, *const Limiter) -> (NonNull<Header>, H),
        unmake: impl FnOnce(NonNull<Header>, H) -> F,
    ) -> Result<(H, TimerName), (QueueError, F)> {
        let queue = handle.queue();
        machine::step_to(|| (queue.executor.machine, queue.name()));
        if queue.executor.origin.is_forked() {
            return Err((QueueError::Forked, function));
        }
        let index = queue.executor.placement.index_for(place);
        let shard = queue.shard(index);
        if let Err(error) = queue.may_arm(shard.limiter(), false) {
            return Err((error, function));
        }
        let (item, made) = make(function, shard.lane());
        let what = Later::OneShot(Unlisted::new(item));
        let (name, wake) =
            TimerName::set(after, Timer { what, queue: Arc::clone(handle), index, bound: place.is_bound() });
        if wake {
            name.wake_manager();
        }
        if let Some((error, Timer { what: Later::OneShot(item), .. })) = queue.armed_too_late(index, &name) {
            return Err((error, unmake(item.list(), made)));
        }
        Ok((made, name))
    }

    /// Withdraws a timer that was just armed, if its queue has ended by now. Returns the timer and the reason for the
    /// refusal.
    ///
    /// To end a queue, a thread first shuts the queue's intakes, and then takes the queue's timers off the map. The
    /// caller first arms its timer, and then reads the intake. So if the caller finds the intake not yet shut, the
    /// thread that ends the queue will find the timer. If the caller finds the intake shut, either the caller or the
    /// thread that ends the queue takes the timer.
    pub(crate) fn armed_too_late(&self, index: usize, name: &TimerName) -> Option<(QueueError, Timer)> {
        let limiter = self.shard(index).limiter();
        if limiter.cell.load().intake() != Intake::Shut {
            return None;
        }
        let error = self.may_revive(limiter).err()?;
        Some((error, name.take()?))
    }

    /// Arms a timer that queues a reusable item after a delay. If the item is pending already and `again` is set, the
    /// timer replaces the pending submission. If the item is pending and `again` is not set, nothing changes. The
    /// returned `Arm` tells whether the item was pending.
    pub(crate) fn arm(
        handle: &Arc<QueueHandle>,
        place: Place,
        kept: Option<Kept<'_>>,
        after: Duration,
        work: &WorkHandle,
        again: bool,
    ) -> Result<Arm, QueueError> {
        machine::step_to(|| (handle.queue().executor.machine, handle.queue().name()));
        if handle.queue().executor.origin.is_forked() || work.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        let queue = handle.queue();
        let index = queue.executor.placement.index_for(place);
        let shard = queue.shard(index);
        queue.may_arm(shard.limiter(), after.is_zero())?;
        let room = queue.room_to_arm(shard, kept, work, (after.is_zero(), again))?;
        let timer = Timer {
            what: Later::Work(work.clone()),
            queue: Arc::clone(handle),
            index,
            bound: place.is_bound(),
        };
        let carried = queue.carried_for(work);
        let mut armed = None;
        let (arm, mut taken) = work.cell.arm(again, carried, || {
            let (name, wake) = TimerName::set(after, timer);
            armed = Some((name.clone(), wake));
            name
        });
        // Waking the manager and firing the timer may run user code, which may wait for the queue of an entry that the
        // item has kept. So this thread first completes the kept entry, if there is one.
        complete_kept(&mut taken);
        let armed = armed.map(|(name, wake)| {
            if wake {
                name.wake_manager();
            }
            name
        });
        let refused = armed.and_then(|name| {
            if let Some((error, timer)) = queue.armed_too_late(index, &name) {
                return queue.withdraw(&name, timer, arm).then_some(error);
            }
            if after.is_zero() {
                // This thread fires the timer, unless another thread has already cancelled the timer, or has already
                // fired the timer to flush the item.
                name.fire_into(&mut None, room);
            }
            None
        });
        // This call may run users' destructors, which may wait for the item. So this call comes after the timer has
        // fired, and after the manager was woken.
        work.complete_taken_back(taken);
        match (refused, arm) {
            (Some(error), _) => Err(error),
            (None, Arm::Refused) => Err(QueueError::Disabled),
            (None, arm) => Ok(arm),
        }
    }

    /// Gives up the timer of a reusable item, after [`armed_too_late`](Self::armed_too_late) has taken it off the map.
    /// Returns whether the caller must refuse the submission.
    fn withdraw(&self, name: &TimerName, timer: Timer, arm: Arm) -> bool {
        if matches!(arm, Arm::Armed { was_pending: true }) {
            // The caller cannot return an error, because the timer has already replaced an earlier submission. Instead,
            // this thread gives up the timer, as the thread that ends the queue does with each timer that it finds.
            self.cancel_timer(name, timer);
            return false;
        }
        timer.give_up(name)
    }

    /// Checks that the queue has room for the item of a timer. Returns the item's place among the pending items, if the
    /// item takes a place now. `now` is set if the timer is due immediately. `again` is as in [`arm`](Self::arm).
    fn room_to_arm<'queue>(
        &'queue self,
        shard: &Shard,
        kept: Option<Kept<'queue>>,
        work: &WorkHandle,
        (now, again): (bool, bool),
    ) -> Result<Option<Kept<'queue>>, QueueError> {
        let room = |target| work.cell.room_to_arm(target, now, again);
        let needed = shard.with_target(work.cell.load(), room);
        let is_there = match needed {
            Room::None => true,
            _ if shard.limiter().cell.is_full() => false,
            Room::Left => self.has_room(),
            Room::Place => {
                return kept.map_or_else(|| self.place_for_submission(work.token.as_ref()), Ok).map(Some);
            }
        };
        if is_there { Ok(None) } else { Err(QueueError::Full) }
    }

    /// Queues the item of a timer that is due. The item was accepted when the timer was armed, so `max_pending` does
    /// not apply now. `kept` is the place that the item has already taken among the queue's pending items, if any. The
    /// timer stays on the map until its item is admitted. After that, the timer is in `due` until its item is about to
    /// be pushed or is given up. So if this function panics before the push, the timer is still on the map or in `due`.
    fn fired(&self, index: usize, due: &mut Option<Timer>, name: &TimerName, kept: Option<Kept<'_>>) {
        let shard = self.shard(index);
        let Some(pass) = self.admit_fired(shard.limiter(), name) else { return };
        let kept = kept.unwrap_or_else(|| Kept::anyway(self));
        let entering = Entering { shard, admitted: Some((pass, kept)) };
        self.executor.core.manager.strike(Point::Admission);
        *due = name.take();
        self.executor.core.manager.strike(Point::Taken);
        let queued = due.as_ref().and_then(|timer| match &timer.what {
            Later::Work(work) => {
                shard.with_target(work.cell.load(), |target| work.cell.fire(name, target, pass.ticket))
            }
            Later::OneShot(_) => Some(Queued::Push),
        });
        let Some(Timer { what, bound, queue: _in_place, .. }) = due.take() else { return };
        let item = match what {
            Later::OneShot(item) => item.list(),
            // The handle that is dropped here is not the last reference to the item: the entry also holds a reference,
            // and no worker has the entry yet. So the user's destructor runs later, on a worker, and not on this
            // thread.
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
            enqueue(shard, entry, bound.then_some(index), pass.has_slot, Shard::put);
        }
    }
}

/// An item that was admitted, counts as pending, and has no entry yet. If this value is dropped before the item
/// [enters](Self::enters), the drop undoes the admission and the count.
#[must_use]
struct Entering<'queue> {
    shard: &'queue Shard,
    admitted: Option<(Pass, Kept<'queue>)>,
}

impl Entering<'_> {
    fn enters(mut self) -> Option<Pass> {
        let (pass, kept) = self.admitted.take()?;
        kept.leave();
        Some(pass)
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some((pass, _kept)) = self.admitted.take() {
            self.shard.queue().take_back(self.shard.limiter(), pass);
        }
    }
}

impl TimerName {
    /// Queues the timer's item, unless the timer was taken off the map, or was cancelled or replaced.
    pub(crate) fn fire(&self) {
        self.fire_into(&mut None, None);
    }

    /// Fires the timer like [`fire`](Self::fire). If an earlier call has panicked, the timer may be in `due`. If this
    /// call panics before the timer's item is pushed or given up, the timer is still on the map or in `due`.
    pub(crate) fn fire_from(&self, due: &mut Option<Timer>) {
        due.take().into_iter().for_each(|timer| self.put_back(timer));
        self.fire_into(due, None);
    }

    /// Fires the timer. `kept` is the place that the timer's item has taken among the queue's pending items, if any.
    fn fire_into(&self, due: &mut Option<Timer>, kept: Option<Kept<'_>>) {
        if let Some((queue, index)) = self.place() {
            queue.queue().fired(index, due, self, kept);
        }
    }
}
