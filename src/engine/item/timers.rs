//! Timers, which queue items later. Each executor has an ordered map of its timers by deadline, and its manager fires
//! the timers.
//!
//! An armed timer owns a handle to its queue and a share of its item. So the queue and the item stay in memory until
//! the timer fires or is cancelled. A timer is not a submission, so no limiter counts it, and no flush waits for it.
//!
//! The map has a lock of its own. A thread that arms a timer wakes the manager only if the timer is due before all
//! others, or if the manager is missing. Arming any other timer costs no system call. A thread that fires a timer and a
//! thread that cancels it compete for the timer's entry in the map. If the item is reusable, the two threads also
//! compete for the timer's name in the item's slow-path state. See `protocol::item`.
//!
//! A timer that fires is *held* until its item is admitted to its queue. The manager usually admits the item at once.
//! If the queue is being drained, the timer is held until the drain ends. A held timer never becomes due, but other
//! threads still find it by its name. A thread takes the timer off the map only after it has admitted the item. So if
//! an item of the drained queue flushes the timer's item, the flush never misses the timer. Either the flushing item
//! finds the timer and fires it, or the timer's item is in flight already, and runs before the drain ends.
//!
//! A second map holds the wakers of tasks that await an item until a deadline. The manager takes a waker off the map at
//! the deadline, and the executor's *ringer* thread calls the waker. These wakers have no queue and no item, so no
//! count includes them.
#![allow(unsafe_code, reason = "a one-shot with a delay is a pointer that owns its entry's side")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::policy::deadlines::{Deadline, Deadlines};
use crate::policy::one_shot::Take;
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::fork::Origin;
use crate::sys::sync::{AtomicBool, Mutex, Ordering};

use crate::engine::manager::inbox::ManagerHandle;
use crate::engine::queue::shard::Limiter;
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::user_code::{contain, destroy};

use super::entry::{Header, Share, state_of};
use super::work::WorkHandle;

/// The timers of one executor.
#[derive(Debug)]
pub(crate) struct Timers {
    map: Mutex<Map>,                 // K
    wakers: Mutex<Deadlines<Waker>>, // K
    /// Whether the manager was missing at the last attempt to wake it. If the manager was missing, the next thread that
    /// arms a timer tries again to wake the manager. If two threads change this hint at the same time, the next thread
    /// that arms a timer may wake the manager needlessly.
    unattended: AtomicBool, // A
    manager: Arc<ManagerHandle>,     // I
    origin: Origin,                  // I
}

/// The timers by deadline.
#[derive(Debug, Default)]
struct Map {
    armed: Deadlines<Timer>,
    /// The held timers: they fire, but their items are not admitted to their queues yet.
    held: Deadlines<Timer>,
}

impl Map {
    fn get(&self, deadline: Deadline) -> Option<&Timer> {
        self.armed.get(deadline).or_else(|| self.held.get(deadline))
    }

    fn take(&mut self, deadline: Deadline) -> Option<Timer> {
        self.armed.cancel(deadline).or_else(|| self.held.cancel(deadline))
    }

    /// If the timer with the earliest deadline is due, holds the timer, and returns its deadline and the address of its
    /// lane.
    fn hold_due(&mut self, now: Time) -> Option<(Deadline, usize)> {
        let (deadline, timer) = self.armed.take_due(now)?;
        let lane = timer.lane();
        self.held.adopt(deadline, timer);
        Some((deadline, lane))
    }

    fn take_all(&mut self, is_wanted: impl Fn(&Timer) -> bool) -> Vec<(Deadline, Timer)> {
        let mut taken = self.armed.take_all(&is_wanted);
        taken.extend(self.held.take_all(is_wanted));
        taken
    }
}

/// A waker that is called at a certain time, unless this value is dropped before that time.
#[derive(Debug)]
pub(crate) struct TimedWaker {
    timers: Arc<Timers>,
    deadline: Deadline,
}

/// An item that is to be queued later, and its place.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) what: Later,
    pub(crate) queue: Arc<QueueHandle>,
    /// The index of the CPU on which the item is to be queued.
    pub(crate) index: usize,
    /// Whether the issuer named the place.
    pub(crate) bound: bool,
}

/// The item of a timer.
#[derive(Debug)]
pub(crate) enum Later {
    Work(WorkHandle),
    OneShot(Unlisted),
}

/// The entry's side of a one-shot that is on no list yet. Dropping this value gives up the item without running it.
#[derive(Debug)]
pub(crate) struct Unlisted(NonNull<Header>);

// SAFETY: the value owns the entry's side of a one-shot, whose closure is `Send`.
unsafe impl Send for Unlisted {}

/// The name of a timer: the map in which the timer was set, and the timer's key in that map. Two names are equal if
/// their maps and their keys are equal.
#[derive(Clone, Debug)]
pub(crate) struct TimerName {
    timers: Arc<Timers>,
    deadline: Deadline,
    /// The address of the lane of the timer's item (see `Shard::lane`). The address stays here after the timer has left
    /// the map.
    lane: usize,
}

impl PartialEq for TimerName {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline && Arc::ptr_eq(&self.timers, &other.timers)
    }
}

impl Timers {
    pub(crate) fn new(manager: Arc<ManagerHandle>) -> Self {
        let (map, wakers) = (Mutex::new(Map::default()), Mutex::new(Deadlines::new()));
        Self { map, wakers, unattended: AtomicBool::new(false), manager, origin: Origin::here() }
    }

    /// Returns the time at which the next timer or waker is due, or `None` if no timer and no waker ever becomes due.
    pub(crate) fn next(&self) -> Option<Time> {
        let timer = self.map.lock().armed.next();
        let waker = self.wakers.lock().next();
        timer.into_iter().chain(waker).min()
    }

    /// Drops all wakers, because the executor has ended. Does nothing in a forked process, because a thread of the
    /// parent may have held the lock at the fork.
    pub(crate) fn forget_wakers(&self) {
        if !self.origin.is_forked() {
            let wakers = self.wakers.lock().take_all(|_| true);
            destroy(move || drop(wakers));
        }
    }

    /// If the waker with the earliest deadline is due, takes the waker off its map. The caller calls the waker.
    pub(crate) fn take_due_waker(&self, now: Time) -> Option<Waker> {
        self.wakers.lock().take_due(now).map(|(_, waker)| waker)
    }

    /// Wakes the manager, so that it notices a new deadline. If the manager's thread is missing, tries to make that
    /// thread.
    fn rouse_manager(&self) {
        self.unattended.store(!self.manager.rouse(), Ordering::Relaxed);
    }

    /// Returns the times at which the timers are due, in ascending order.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "the test kit tells them"))]
    pub(crate) fn times(&self) -> Vec<Time> {
        self.map.lock().armed.times().collect()
    }

    /// If the timer with the earliest deadline is due, holds the timer and returns its name. The caller fires the
    /// timer.
    pub(crate) fn hold_due(self: &Arc<Self>, now: Time) -> Option<TimerName> {
        let (deadline, lane) = self.map.lock().hold_due(now)?;
        Some(TimerName { timers: Arc::clone(self), deadline, lane })
    }

    /// Takes all timers off the map, the held ones included.
    pub(crate) fn take_all(self: &Arc<Self>) -> Vec<(TimerName, Timer)> {
        let timers = self.map.lock().take_all(|_| true);
        timers.into_iter().map(|timer| self.named(timer)).collect()
    }

    /// Takes the timers of one queue off the map, the held ones included. The call takes O(n) time if the executor has
    /// n timers.
    pub(crate) fn take_of(self: &Arc<Self>, queue: &Queue) -> Vec<(TimerName, Timer)> {
        let timers = self.map.lock().take_all(|timer| timer.is_of(queue));
        timers.into_iter().map(|timer| self.named(timer)).collect()
    }

    /// Returns the names of the held timers of one queue. The call takes O(n log n) time if the executor has n held
    /// timers.
    pub(crate) fn held_of(self: &Arc<Self>, queue: &Queue) -> Vec<TimerName> {
        let map = self.map.lock();
        let held = map.held.find_all(|timer| timer.is_of(queue)).into_iter();
        let named = |deadline| Some(self.name(deadline, map.held.get(deadline)?));
        held.filter_map(named).collect()
    }

    fn named(self: &Arc<Self>, (deadline, timer): (Deadline, Timer)) -> (TimerName, Timer) {
        (self.name(deadline, &timer), timer)
    }

    fn name(self: &Arc<Self>, deadline: Deadline, timer: &Timer) -> TimerName {
        TimerName { timers: Arc::clone(self), deadline, lane: timer.lane() }
    }
}

impl TimerName {
    /// Arms a timer and returns its name. Also returns whether the caller must call
    /// [`wake_manager`](Self::wake_manager). The caller releases all its locks before it calls `wake_manager`. The
    /// caller calls `wake_manager` even if it takes the timer back, because other threads may since have armed later
    /// timers, and rely on this call.
    ///
    /// A timer without a delay never becomes due in the map. Instead, the caller fires the timer by its name. Another
    /// thread may take the timer before the caller fires it, to flush, rearm or cancel the item.
    pub(crate) fn set(after: Duration, timer: Timer) -> (Self, bool) {
        let timers = Arc::clone(&timer.queue.queue().executor.upkeep.timers);
        let at = if after.is_zero() { Time::NEVER } else { clock::now() + after };
        let lane = timer.lane();
        let mut map = timers.map.lock();
        let deadline = map.armed.set(at, timer);
        let is_first = map.armed.is_first(deadline);
        drop(map);
        let wake = !after.is_zero() && (is_first || timers.unattended.load(Ordering::Relaxed));
        (Self { timers, deadline, lane }, wake)
    }

    pub(crate) fn wake_manager(&self) {
        self.timers.rouse_manager();
    }

    /// Holds the timer, because its queue is being drained. Does nothing if the timer is not armed any more.
    pub(crate) fn hold(&self) {
        let mut map = self.timers.map.lock();
        if let Some(timer) = map.armed.cancel(self.deadline) {
            map.held.adopt(self.deadline, timer);
        }
    }

    /// Puts a timer that was taken off the map back on the map, as a held timer.
    pub(super) fn put_back(&self, timer: Timer) {
        self.timers.map.lock().held.adopt(self.deadline, timer);
    }

    /// If the timer is still on the map, returns its queue and the index of the CPU on which its item will be queued.
    pub(super) fn place(&self) -> Option<(Arc<QueueHandle>, usize)> {
        let map = self.timers.map.lock();
        map.get(self.deadline).map(|timer| (Arc::clone(&timer.queue), timer.index))
    }

    /// Returns the address of the lane of the timer's item. The address serves only for comparisons.
    pub(crate) fn lane(&self) -> *const Limiter {
        std::ptr::without_provenance(self.lane)
    }

    /// Takes the timer off the map, unless the timer has already been taken off.
    pub(crate) fn take(&self) -> Option<Timer> {
        self.timers.map.lock().take(self.deadline)
    }
}

impl TimedWaker {
    pub(crate) fn set(timers: &Arc<Timers>, at: Time, waker: Waker) -> Self {
        let mut wakers = timers.wakers.lock();
        let deadline = wakers.set(at, waker);
        let is_first = wakers.is_first(deadline);
        drop(wakers);
        if is_first || timers.unattended.load(Ordering::Relaxed) {
            timers.rouse_manager();
        }
        Self { timers: Arc::clone(timers), deadline }
    }
}

impl Drop for TimedWaker {
    fn drop(&mut self) {
        // A forked process does not take the lock, because a thread of the parent may have held it at the fork.
        if !self.timers.origin.is_forked() {
            let waker = self.timers.wakers.lock().cancel(self.deadline);
            destroy(move || drop(waker));
        }
    }
}

impl Timer {
    fn is_of(&self, queue: &Queue) -> bool {
        std::ptr::eq(self.queue.queue(), queue)
    }

    fn lane(&self) -> usize {
        self.queue.queue().shard(self.index).lane().addr()
    }

    /// Gives up a timer that was taken off the map because the executor ends. The timer's queue counts the given-up
    /// timer.
    pub(crate) fn cancel(self, name: &TimerName) {
        let queue = Arc::clone(&self.queue);
        queue.queue().cancel_timer(name, self);
    }

    /// Gives up a timer that was taken off the map, and cancels its item. Returns false if the timer had already been
    /// cancelled or replaced. If the caller is the manager, this function leaves the item's destructor to the cleaner's
    /// thread, and does not wait for it.
    pub(crate) fn give_up(self, name: &TimerName) -> bool {
        match self.what {
            Later::Work(work) => {
                let was_meant = work.cell.disarm(name);
                destroy(move || contain(|| drop(work)));
                was_meant
            }
            Later::OneShot(item) => item.give_up(),
        }
    }
}

impl Unlisted {
    /// Takes over the entry's side of a new cell.
    pub(crate) fn new(item: NonNull<Header>) -> Self {
        Self(item)
    }

    /// Returns the item. The caller makes a new entry for the item, and the new entry takes over the entry's side of
    /// the cell.
    pub(crate) fn list(self) -> NonNull<Header> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Unlisted {
    /// Gives up the item. Returns false if the item had already been cancelled.
    fn give_up(self) -> bool {
        std::mem::ManuallyDrop::new(self).abandon() == Take::Run
    }

    /// Takes the item, and ends it without a run. The caller does not use the item after this call.
    fn abandon(&self) -> Take {
        // SAFETY: `self` owns the entry's side, which keeps the one-shot in memory.
        let take = unsafe { state_of(self.0) }.take();
        if !matches!(take, Take::Leave { .. }) {
            // Only this thread has taken the item, so the item stays in memory until `end`.
            let item = std::mem::ManuallyDrop::new(Self(self.0));
            destroy(move || item.end(take));
        }
        take
    }

    /// Ends the item. `take` is the answer of the call that took the item.
    fn end(&self, take: Take) {
        // SAFETY: the item was taken, and the thread that took the item has left the item's end to this call.
        let operations = unsafe { self.0.as_ref() }.operations;
        // SAFETY: these are the functions for the item's own type. The entry's side is given up only once, either by
        // `give_up` or by `drop`.
        let _given_up = unsafe { (operations.abandon)(self.0, Share::Taken(take)) };
    }
}

impl Drop for Unlisted {
    fn drop(&mut self) {
        let _answer = self.abandon();
    }
}
