//! Items that are queued later: by one ordered map of deadlines for each executor, and its manager's thread.
//!
//! An armed timer owns a handle of its queue and a share of its item, so both stay until it fires or is taken back.
//! It is no queueing: nothing of it is counted in a gate, and flushes do not wait for it.
//!
//! The map is behind a lock of its own, which is held for one insertion or removal. A timer that comes before all
//! others wakes the manager; the others cost no system call. Firing and taking back compete for the map's entry, and
//! for reusable items for the name in the item's ledger: see `protocol::item`.
#![allow(unsafe_code, reason = "a one-shot that is queued later is a pointer that owns its entry's side")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::admission::Door;
use crate::policy::deadlines::{Deadline, Deadlines};
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::sync::Mutex;

use super::core::Core;
use super::entry::Header;
use super::one_shot::{self, RawHandle};
use super::placement::Place;
use super::queue::{Queue, QueueHandle};
use super::refusal::QueueError;
use super::shard::Gate;
use super::submit::Kept;
use super::user_code::{contain, destroy};
use super::work_item::WorkHandle;

/// The timers of one executor.
#[derive(Debug)]
pub(crate) struct Timers(Mutex<Deadlines<Timer>>);

/// What is to be queued, where.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) what: Later,
    pub(crate) queue: Arc<QueueHandle>,
    pub(crate) slot: usize,
    /// It was placed there by its issuer.
    pub(crate) bound: bool,
}

#[derive(Debug)]
pub(crate) enum Later {
    Work(WorkHandle),
    OneShot(Unlisted),
}

/// The entry's side of a one-shot that is on no list yet. Dropped, the item is given up without a run.
#[derive(Debug)]
pub(crate) struct Unlisted(NonNull<Header>);

// SAFETY: what it points at is a one-shot, which is made of a `Send` closure, and handed over whole.
unsafe impl Send for Unlisted {}

/// By what name a timer is known: whose map it is in, and where there.
#[derive(Clone, Debug)]
pub(crate) struct TimerName {
    core: Arc<Core>,
    deadline: Deadline,
}

impl PartialEq for TimerName {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline && Arc::ptr_eq(&self.core, &other.core)
    }
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Deadlines::new()))
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.lock().next()
    }

    /// Takes the first one that is due, and its name.
    pub(crate) fn take_due(&self, core: &Arc<Core>, now: Time) -> Option<(TimerName, Timer)> {
        let (deadline, timer) = self.0.lock().take_due(now)?;
        Some((TimerName { core: Arc::clone(core), deadline }, timer))
    }

    /// Takes all of them.
    pub(crate) fn take_all(&self, core: &Arc<Core>) -> Vec<(TimerName, Timer)> {
        let timers = self.0.lock().take_all(|_| true);
        let named = |(deadline, timer)| (TimerName { core: Arc::clone(core), deadline }, timer);
        timers.into_iter().map(named).collect()
    }

    /// Takes those of one queue. Costs O(n) for n timers of the executor.
    pub(crate) fn take_of(&self, core: &Arc<Core>, queue: &Queue) -> Vec<(TimerName, Timer)> {
        let timers = self.0.lock().take_all(|timer| std::ptr::eq(timer.queue.queue(), queue));
        let named = |(deadline, timer)| (TimerName { core: Arc::clone(core), deadline }, timer);
        timers.into_iter().map(named).collect()
    }
}

impl TimerName {
    /// Arms a timer. True if the manager must be woken for it, by [`wake_manager`](Self::wake_manager) once no lock is
    /// held. One that is due at once is never due for the manager: who arms it takes it by its name, and queues its item,
    /// unless somebody who flushes, moves or cancels the item was faster.
    pub(crate) fn set(after: Duration, timer: Timer) -> (Self, bool) {
        let core = Arc::clone(&timer.queue.queue().executor.core);
        let at = if after.is_zero() { Time::NEVER } else { clock::now() + after };
        let mut timers = core.timers.0.lock();
        let deadline = timers.set(at, timer);
        let is_first = timers.is_first(deadline);
        drop(timers);
        (Self { core, deadline }, is_first)
    }

    pub(crate) fn wake_manager(&self) {
        self.core.manager.rouse();
    }

    /// Through which lane its item will go, by address, if it has not fired or was taken off.
    pub(crate) fn lane(&self) -> Option<*const Gate> {
        let timers = self.core.timers.0.lock();
        let (queue, slot) = timers.get(self.deadline).map(|timer| (Arc::clone(&timer.queue), timer.slot))?;
        drop(timers);
        Some(queue.queue().shard(slot).lane())
    }

    /// Takes the timer off the map, unless it has fired or was taken off before.
    pub(crate) fn take(&self) -> Option<Timer> {
        self.core.timers.0.lock().cancel(self.deadline)
    }
}

impl Timer {
    /// Queues the item, if the timer is still meant.
    pub(crate) fn fire(self, name: &TimerName) {
        self.fire_into(name, None);
    }

    /// The same. The timer is taken when its item is on its way, or is given up: a panic before that leaves it there.
    pub(crate) fn fire_from(due: &mut Option<Self>, name: &TimerName) {
        if let Some(queue) = due.as_ref().map(|timer| Arc::clone(&timer.queue)) {
            queue.queue().fired(due, name, None);
        }
    }

    /// The same. `kept`: a place in its queue for the item.
    pub(super) fn fire_into(self, name: &TimerName, kept: Option<Kept<'_>>) {
        let queue = Arc::clone(&self.queue);
        queue.queue().fired(&mut Some(self), name, kept);
    }

    /// The timer was taken off the map and comes to nothing, since its executor ends. Its queue counts that.
    pub(crate) fn cancel(self, name: &TimerName) {
        let queue = Arc::clone(&self.queue);
        queue.queue().cancel_timer(name, self);
    }

    /// The timer was taken off the map and comes to nothing: its item is taken back. False if it was no longer meant.
    pub(crate) fn give_up(self, name: &TimerName) -> bool {
        match self.what {
            Later::Work(work) => {
                let was_meant = work.cell.disarm(name);
                contain(|| drop(work));
                was_meant
            }
            Later::OneShot(item) => item.give_up(),
        }
    }
}

impl Unlisted {
    /// The entry's side of a cell that was just made.
    pub(crate) fn new(item: NonNull<Header>) -> Self {
        Self(item)
    }

    /// It is put onto a list: its share goes to an entry.
    pub(crate) fn list(self) -> NonNull<Header> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Unlisted {
    /// Gives the item up. False if it was cancelled before.
    fn give_up(self) -> bool {
        std::mem::ManuallyDrop::new(self).abandon()
    }

    fn abandon(&self) -> bool {
        // SAFETY: the entry's side, which this owns, keeps the item in place.
        let operations = unsafe { self.0.as_ref() }.operations;
        // SAFETY: these are the functions of the item's own type, and the entry's side is given up once: by `give_up`,
        // or else when this is dropped.
        unsafe { (operations.abandon)(self.0, None) }
    }
}

impl Drop for Unlisted {
    fn drop(&mut self) {
        let item = std::mem::ManuallyDrop::new(Self(self.0));
        destroy(move || {
            item.abandon();
        });
    }
}

impl Queue {
    /// Queues a closure later. A refusal hands it back, also if the queue ends at this moment.
    pub(crate) fn spawn_after<F, T>(
        handle: &Arc<QueueHandle>,
        place: Place,
        after: Duration,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let queue = handle.queue();
        if after.is_zero() {
            return queue.spawn(place, function);
        }
        if queue.executor.origin.is_forked() {
            return Err((QueueError::Forked, function));
        }
        let slot = queue.executor.placement.slot_for(place);
        let shard = queue.shard(slot);
        if let Err(error) = queue.may_arm(shard.gate(), false) {
            return Err((error, function));
        }
        let (item, mut raw) = one_shot::make(function, shard.lane(), queue.executor.origin);
        let what = Later::OneShot(Unlisted::new(item));
        let (name, wake) =
            TimerName::set(after, Timer { what, queue: Arc::clone(handle), slot, bound: place.is_bound() });
        if let Some((error, Timer { what: Later::OneShot(item), .. })) = queue.armed_too_late(slot, &name) {
            // SAFETY: the cell was made above for this closure; the timer that was taken back had its other side.
            return Err((error, unsafe { one_shot::unmake(item.list(), raw) }));
        }
        if wake {
            name.wake_manager();
        }
        raw.set_timer(name);
        Ok(raw)
    }

    /// A timer was armed. Whoever ends the queue shuts its doors for everybody, and looks at the timers afterwards; so
    /// if the door is found shut, this timer was seen there, or is taken off the map here, and refused.
    pub(super) fn armed_too_late(&self, slot: usize, name: &TimerName) -> Option<(QueueError, Timer)> {
        let gate = self.shard(slot).gate();
        if gate.cell.load().door() != Door::Shut {
            return None;
        }
        let error = self.may_revive(gate).err()?;
        Some((error, name.take()?))
    }
}
