//! The cell of a reusable item's state, and its slow-path state.
//!
//! **Order.** Every submission, also one that coalesces, is a read-modify-write that releases. The beginning of the
//! run is one that acquires, and it comes later in the order of the word's changes. So the run sees everything that
//! was written before a submission that it answers:
//!
//! * issuer: writes; submits the item, which is pending already, so the submission coalesces;
//! * worker: begins the run, then sees what the issuer wrote.
//!
//! If the coalescing submission were only a load, nothing would order these two. The end of a run releases, and the
//! next beginning acquires. So a run sees what earlier runs did.
//!
//! The slow-path state's lock orders the rare paths among themselves. Rare and common paths compete by compare-and-swap
//! on the word. A path that loses applies its transition again to the new word.
//!
//! **Timers.** An armed item is pending, and its slow-path state names the timer. A timer that fires, and a thread that
//! cancels it, both take the slow-path state's lock. The first of them removes the timer's name. The other one finds
//! another name or none, and does nothing. So a submission is neither lost nor run twice, whether or not the timer is
//! still on the list of timers.
//!
//! **Waiting.** A thread that waits for a submission leaves a [`Signal`] in the slow-path state. The signal goes with
//! the submission. It moves from pending to running when the run begins. It is set when the run ends or the submission
//! is cancelled. While a signal is there, the *waited* bit sends all of these to the slow-path state. So the common
//! paths do not look for waiting threads.

mod answers;

pub(crate) use self::answers::{Ended, HasTicket, NotDisabled, Popped, Queued, TakenBack};
use crate::policy::flush::Ticket;
use crate::policy::item::{
    Arm, Begin, Cancel, End, Instance, ItemState, Known, Queue, Room, ShardId, Target,
};
use crate::policy::locks::Rank;
use crate::sys::sync::{Arc, AtomicU64, Mutex, Ordering};

use super::signal::Signal;

/// The state of an item, and its slow-path state, which says more about it. Entries are `E`, and timers are named by
/// `T`.
#[derive(Debug)]
pub(crate) struct ItemCell<E, T> {
    state: AtomicU64,                   // A
    slow_state: Mutex<SlowState<E, T>>, // L
}

#[derive(Debug)]
struct SlowState<E, T> {
    /// Shards on whose lists a cancelled entry lies, besides the entry that the word tells of. A shard is named once
    /// for each such entry.
    stale: Vec<ShardId>,
    /// `Some`: the ticket, if any, of the entry that the word tells of. `None`: the ticket is not known, or the
    /// entries are in order. It is known if the entry was pushed while `stale` named shards, or is pushed now.
    home: Option<Option<Ticket>>,
    /// The entry that a worker popped while the item ran.
    kept: Option<E>,
    /// The timer that the item is armed by.
    timer: Option<T>,
    /// How often the item was disabled and not enabled.
    disabled: u32,
    /// Is set when the pending submission has run or was cancelled.
    pending: Option<Arc<Signal>>,
    /// Is set when the present run ends.
    running: Option<Arc<Signal>>,
}

impl<E: HasTicket, T: PartialEq> ItemCell<E, T> {
    pub(crate) fn new() -> Self {
        let slow_state = SlowState {
            stale: Vec::new(),
            home: None,
            kept: None,
            timer: None,
            disabled: 0,
            pending: None,
            running: None,
        };
        Self {
            state: AtomicU64::new(ItemState::new().into_bits()),
            slow_state: Mutex::ranked(Rank::SlowState, slow_state),
        }
    }

    pub(crate) fn load(&self) -> ItemState {
        ItemState::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Submits the item. `ticket`: the ticket of the entry that the caller pushes if it is told to.
    #[inline]
    pub(crate) fn queue(&self, target: Target, ticket: Option<Ticket>) -> Queued {
        match self.update(|state| state.queue(target)) {
            Queue::Push => Queued::Push,
            Queue::Revived => Queued::Revived,
            Queue::Coalesced => Queued::Coalesced,
            Queue::Refused => Queued::Refused,
            Queue::Slow => self.queue_late(target, ticket),
        }
    }

    #[cold]
    #[inline(never)]
    fn queue_late(&self, target: Target, ticket: Option<Ticket>) -> Queued {
        let mut slow_state = self.slow_state.lock();
        self.queue_slowly(&mut slow_state, target, ticket, |state| state, ItemState::queue_slowly)
    }

    /// Submits the item if that needs no new entry: the item is pending, or a cancelled entry of it is used again.
    /// Returns `None` if it needs one.
    pub(crate) fn queue_without_entry(&self, target: Target) -> Option<Queued> {
        match self.update(|state| state.queue_without_entry(target)) {
            Queue::Coalesced => Some(Queued::Coalesced),
            Queue::Revived => Some(Queued::Revived),
            Queue::Refused => Some(Queued::Refused),
            Queue::Push | Queue::Slow => None,
        }
    }

    /// Submits the item by `transition`. `before` turns a word into the one to ask which entry is revived or left
    /// behind.
    #[cold]
    fn queue_slowly(
        &self,
        slow_state: &mut SlowState<E, T>,
        target: Target,
        ticket: Option<Ticket>,
        before: impl Fn(ItemState) -> ItemState,
        transition: impl Fn(ItemState, Target, Known) -> (ItemState, Queue),
    ) -> Queued {
        let known = slow_state.known(target.shard, ticket);
        let (answer, was_home, left) = self.update(|state| {
            let (next, answer) = transition(state, target, known);
            let before = before(state);
            let left = before.leaves(target, known).then_some(before.home());
            (next, (answer, before.is_listed_at(target.shard), left))
        });
        slow_state.stale.extend(left);
        match answer {
            Queue::Push | Queue::Slow => {
                slow_state.home = (!target.ordered && !slow_state.stale.is_empty()).then_some(ticket);
                Queued::Push
            }
            Queue::Coalesced => Queued::Coalesced,
            Queue::Refused => Queued::Refused,
            Queue::Revived if was_home => Queued::Revived,
            Queue::Revived => {
                // It is any of the entries that the slow-path state names there, since no flush waits.
                slow_state.home = None;
                self.strike_out(slow_state, target.shard);
                Queued::Revived
            }
        }
    }

    /// Makes the item pending by a timer. Calls `set`, which puts the timer on the list of timers, only if the item
    /// becomes armed. `again`: if the item is pending already, replaces that submission. Returns what is left of the
    /// replaced submission, for the caller.
    pub(crate) fn arm(&self, again: bool, set: impl FnOnce() -> T) -> (Arm, TakenBack<E, T>) {
        let mut slow_state = self.slow_state.lock();
        let arm = self.update(|state| state.arm_slowly(again));
        match arm {
            Arm::Armed { was_pending } => {
                let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
                slow_state.timer = Some(set());
                drop(slow_state);
                tell(waiting);
                (arm, taken)
            }
            Arm::Coalesced | Arm::Refused => (arm, TakenBack { was_pending: false, kept: None, timer: None }),
        }
    }

    /// Returns what arming takes of the bound of the target's queue. A hint: the answer may change at any moment.
    pub(crate) fn room_to_arm(&self, target: Target, now: bool, again: bool) -> Room {
        let state = self.load();
        let named = state.is_stale() && self.slow_state.lock().stale.contains(&target.shard);
        state.room_to_arm(target, named, now, again)
    }

    /// Submits the item, because the timer is due. `ticket`: as for [`queue`](Self::queue). Returns `None` if the
    /// item is not armed by this timer any more.
    pub(crate) fn fire(&self, timer: &T, target: Target, ticket: Option<Ticket>) -> Option<Queued> {
        let mut slow_state = self.slow_state.lock();
        slow_state.timer.take_if(|meant| meant == timer)?;
        let (before, transition) = (ItemState::disarmed, ItemState::fire_slowly);
        Some(self.queue_slowly(&mut slow_state, target, ticket, before, transition))
    }

    /// Returns the timer that the item is armed by.
    pub(crate) fn timer(&self) -> Option<T>
    where
        T: Clone,
    {
        self.slow_state.lock().timer.clone()
    }

    /// Begins a run for an entry that a worker popped from a list of `shard`, if the entry is the pending one.
    #[inline]
    pub(crate) fn begin(&self, shard: ShardId, entry: E) -> Popped<E> {
        let (begin, over) = self.update(|state| {
            let (next, begin) = state.begin(shard);
            (next, (begin, next.is_over()))
        });
        match begin {
            Begin::Run => Popped::Run(entry),
            Begin::Stale if over => Popped::Last(entry),
            Begin::Stale => Popped::Stale(entry),
            Begin::Meet | Begin::Strike | Begin::Slow => self.begin_slowly(shard, entry),
        }
    }

    /// Repeats the transition under the lock, because the word may have changed since.
    #[cold]
    fn begin_slowly(&self, shard: ShardId, entry: E) -> Popped<E> {
        self.add_handle();
        let popped = {
            let mut slow_state = self.slow_state.lock();
            let known = slow_state.known(shard, entry.ticket());
            match self.update(|state| state.begin_slowly(shard, known)) {
                Begin::Run => {
                    slow_state.running = slow_state.pending.take();
                    Popped::Run(entry)
                }
                Begin::Stale => Popped::Stale(entry),
                Begin::Meet => {
                    slow_state.kept = Some(entry);
                    Popped::Kept
                }
                Begin::Strike | Begin::Slow => {
                    self.strike_out(&mut slow_state, shard);
                    Popped::Stale(entry)
                }
            }
        };
        match (popped, self.drop_handle()) {
            (Popped::Stale(entry), true) => Popped::Last(entry),
            (Popped::Kept, true) => Popped::KeptLast,
            (popped, _) => popped,
        }
    }

    /// Drops an entry with this ticket, popped from a list of `shard`, instead of running it. Returns whether the
    /// item was pending by this entry, and whether the item is over: then the caller frees it. Otherwise the item may
    /// be freed at any moment.
    #[cold]
    pub(crate) fn abandon(&self, shard: ShardId, ticket: Option<Ticket>) -> (bool, bool) {
        self.add_handle();
        let (would_have_run, waiting) = {
            let mut slow_state = self.slow_state.lock();
            let known = slow_state.known(shard, ticket);
            match self.update(|state| state.abandon_slowly(shard, known)) {
                Begin::Run => (true, self.take_back(&mut slow_state, true).1),
                Begin::Stale => (false, None),
                Begin::Meet | Begin::Strike | Begin::Slow => {
                    self.strike_out(&mut slow_state, shard);
                    (false, None)
                }
            }
        };
        tell(waiting);
        (would_have_run, self.drop_handle())
    }

    /// Ends the run.
    #[inline]
    pub(crate) fn end(&self) -> Ended<E> {
        let (end, over) = self.update(|state| {
            let (next, end) = state.end();
            (next, (end, next.is_over()))
        });
        match end {
            End::Idle if over => Ended::Last,
            End::Idle => Ended::Idle,
            End::PutBack | End::Slow => self.end_slowly(),
        }
    }

    #[cold]
    fn end_slowly(&self) -> Ended<E> {
        self.add_handle();
        let (kept, waiting) = {
            let mut slow_state = self.slow_state.lock();
            let kept = match self.update(ItemState::end_slowly) {
                End::Idle | End::Slow => None,
                End::PutBack => slow_state.kept.take(),
            };
            let waiting = slow_state.running.take();
            self.forget_waiters(&slow_state);
            (kept, waiting)
        };
        tell(waiting);
        match (kept, self.drop_handle()) {
            (Some(entry), _) => Ended::PutBack(entry),
            (None, true) => Ended::Last,
            (None, false) => Ended::Idle,
        }
    }

    /// Adds a handle. A thread without a handle also takes one before it uses the slow-path state. Its transition under
    /// the lock may be the item's last one, and the lock is part of the item.
    pub(crate) fn add_handle(&self) {
        self.update(|state| match state.add_handle() {
            Some(next) => (next, ()),
            // As for a reference count of the standard library: with so many handles the program is broken.
            None => std::process::abort(),
        });
    }

    /// Drops a handle. Returns whether the item is over: then the caller frees it. Otherwise the item may be freed at
    /// any moment.
    #[must_use]
    pub(crate) fn drop_handle(&self) -> bool {
        self.update(|state| {
            let next = state.drop_handle();
            (next, next.is_over())
        })
    }

    /// Cancels the pending submission. The caller has a handle, here and below.
    pub(crate) fn cancel(&self) -> TakenBack<E, T> {
        let done = |was_pending| TakenBack { was_pending, kept: None, timer: None };
        match self.update(ItemState::cancel) {
            Cancel::NotPending => done(false),
            Cancel::Done => done(true),
            Cancel::Slow => {
                let mut slow_state = self.slow_state.lock();
                let was_pending = self.update(ItemState::cancel_slowly);
                let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
                drop(slow_state);
                tell(waiting);
                taken
            }
        }
    }

    /// Cancels the submission of a timer that is given up instead of fired. Returns false if the item is not armed by
    /// this timer any more.
    pub(crate) fn disarm(&self, timer: &T) -> bool {
        let mut slow_state = self.slow_state.lock();
        if slow_state.timer.as_ref() != Some(timer) {
            return false;
        }
        let was_pending = self.update(ItemState::cancel_slowly);
        let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
        drop(slow_state);
        tell(waiting);
        taken.was_pending
    }

    /// Cancels the pending submission, and refuses others until [`enable`](Self::enable). If `wait` asks for it, also
    /// returns the signal of the run that has begun, if any.
    pub(crate) fn disable(&self, wait: bool) -> (TakenBack<E, T>, Option<Arc<Signal>>) {
        let mut slow_state = self.slow_state.lock();
        slow_state.disabled =
            slow_state.disabled.checked_add(1).expect("an item was disabled four billion times");
        let was_pending = self.update(ItemState::disable_slowly);
        let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
        let run = if wait { self.wait_for(&mut slow_state, ItemState::wait_for_run_slowly) } else { None };
        drop(slow_state);
        tell(waiting);
        (taken, run)
    }

    /// Takes back one [`disable`](Self::disable). Returns whether it was the last one.
    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        let mut slow_state = self.slow_state.lock();
        slow_state.disabled = slow_state.disabled.checked_sub(1).ok_or(NotDisabled)?;
        if slow_state.disabled == 0 {
            self.update(|state| (state.enable_slowly(), ()));
        }
        Ok(slow_state.disabled == 0)
    }

    /// Returns the signal of the pending submission or, if there is none, of the run that has begun.
    pub(crate) fn last_submission(&self) -> Option<Arc<Signal>> {
        self.wait_for(&mut self.slow_state.lock(), ItemState::wait_slowly)
    }

    /// Calls `look` with the entry that was popped while the item runs, if any.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&E) -> R) -> Option<R> {
        self.slow_state.lock().kept.as_ref().map(look)
    }

    fn wait_for(
        &self,
        slow_state: &mut SlowState<E, T>,
        ask: impl Fn(ItemState) -> (ItemState, Instance),
    ) -> Option<Arc<Signal>> {
        let signal = match self.update(ask) {
            Instance::Pending => &mut slow_state.pending,
            Instance::Running => &mut slow_state.running,
            Instance::None => return None,
        };
        Some(Arc::clone(signal.get_or_insert_with(|| Arc::new(Signal::new()))))
    }

    /// Takes from the slow-path state what belongs to the submission that is not pending any more, and the signal of
    /// the threads that wait for it.
    fn take_back(
        &self,
        slow_state: &mut SlowState<E, T>,
        was_pending: bool,
    ) -> (TakenBack<E, T>, Option<Arc<Signal>>) {
        if !was_pending {
            return (TakenBack { was_pending, kept: None, timer: None }, None);
        }
        let taken = TakenBack { was_pending, kept: slow_state.kept.take(), timer: slow_state.timer.take() };
        let waiting = slow_state.pending.take();
        self.forget_waiters(slow_state);
        (taken, waiting)
    }

    fn forget_waiters(&self, slow_state: &SlowState<E, T>) {
        if slow_state.pending.is_none() && slow_state.running.is_none() {
            self.update(|state| (state.nobody_waits(), ()));
        }
    }

    fn strike_out(&self, slow_state: &mut SlowState<E, T>, shard: ShardId) {
        if let Some(at) = slow_state.stale.iter().position(|id| *id == shard) {
            slow_state.stale.swap_remove(at);
            if slow_state.stale.is_empty() {
                slow_state.home = None;
                self.update(|state| (state.nothing_stale(), ()));
            }
        }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(ItemState) -> (ItemState, A)) -> A {
        super::update(&self.state, Ordering::AcqRel, ItemState::from_bits, ItemState::into_bits, transition)
    }
}

impl<E, T> SlowState<E, T> {
    /// Returns what the slow-path state knows about this shard, and about an entry with this ticket.
    fn known(&self, shard: ShardId, ticket: Option<Ticket>) -> Known {
        Known { named: self.stale.contains(&shard), alike: self.home == Some(ticket) }
    }
}

/// Wakes the waiting threads. Called after the slow-path state was unlocked, because waking is a system call.
fn tell(waiting: Option<Arc<Signal>>) {
    if let Some(signal) = waiting {
        signal.set();
    }
}
