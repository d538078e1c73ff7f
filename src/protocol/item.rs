//! The cell of a reusable item: its state word and its slow-path state.
//!
//! **Order.** Every submission is a read-modify-write that releases, even if the submission *coalesces* with a pending
//! submission. The beginning of a run is a read-modify-write that acquires. In the word's modification order, the
//! beginning of a run comes after each submission that the run serves. So the run sees everything that an issuer wrote
//! before such a submission:
//!
//! * issuer: writes; submits the item, which is pending already, so the submission coalesces;
//! * worker: begins the run, then sees what the issuer wrote.
//!
//! If the coalescing submission were only a load, nothing would order the issuer's writes before the run. A run sees
//! what earlier runs did, because the end of a run releases, and the beginning of the next run acquires.
//!
//! Because of the slow-path state's lock, the rare paths run one after the other. A rare path and a common path may try
//! to change the word at the same time, each with a compare-and-swap. The path whose compare-and-swap fails applies its
//! transition again, to the new word.
//!
//! **Timers.** An armed item is pending, and its slow-path state names the timer. A thread that fires the timer and a
//! thread that cancels the timer both take the slow-path state's lock. The first of the two threads to take the lock
//! removes the timer's name. The second thread finds a different name or no name, and does nothing. So a submission is
//! neither lost nor run twice, whether or not the timer is still on the list of timers.
//!
//! **Waiting.** A thread that waits for a submission leaves a [`Signal`] in the slow-path state. The signal moves from
//! `pending` to `running` when the run begins, and is set when the run ends or the submission is cancelled. While the
//! signal is in the slow-path state, the word's *attached* bit is set, so the beginning and the end of the run and a
//! cancel take the slow path. The common paths need no check for waiting threads.
//!
//! **Carrying.** A submission may carry a value into its run. While the submission is pending, the value is in the
//! slow-path state, and the *attached* bit is set. The change of the word that makes the item pending also sets this
//! bit. (A thread that arms the item sets the bit in a second change. Until then, it holds the lock that each thread
//! takes to fire the timer.) So a worker that begins the run takes the slow path. The issuer holds the slow-path
//! state's lock until it has stored the value, so the worker finds the value.
//!
//! **Stops.** A thread can ask the present run to stop. Under the slow-path state's lock, the thread sets the
//! *attached* bit if the word says that the item runs, and then notes the request in the slow-path state. So the end of
//! this run takes the slow path, and removes the request. No later run finds the request. In the same way, a run that
//! listens for requests to stop leaves an alarm in the slow-path state.

mod answers;
mod awaited;
mod slow_state;
mod stop;
mod timers;

pub(crate) use self::answers::{Ended, HasTicket, NotDisabled, Popped, Queued, TakenBack};
use crate::policy::flush::Ticket;
use crate::policy::item::{Begin, Cancel, End, Instance, ItemState, Known, Queue, ShardId, Target};
use crate::policy::locks::Rank;
use crate::sys::sync::{Arc, AtomicU64, Mutex, Ordering};

use self::slow_state::{SlowState, Stop};
use super::signal::Signal;

/// The state of an item: a word, and a slow-path state with the details of rare cases. `E` is the type of entries, `T`
/// the type of timer names, and `C` the type of carried values.
#[derive(Debug)]
pub(crate) struct ItemCell<E, T, C = ()> {
    state: AtomicU64,                      // A
    slow_state: Mutex<SlowState<E, T, C>>, // L
}

impl<E: HasTicket, T: PartialEq, C> ItemCell<E, T, C> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(ItemState::new().into_bits()),
            slow_state: Mutex::ranked(Rank::SlowState, SlowState::new()),
        }
    }

    pub(crate) fn load(&self) -> ItemState {
        ItemState::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Submits the item. `ticket` is the ticket of the entry that the caller pushes if the answer is [`Queued::Push`].
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

    /// Submits the item like [`queue`](Self::queue). The submission carries a value into its run. Returns the carried
    /// value if this call does not make the item pending.
    #[cold]
    pub(crate) fn queue_carrying(
        &self,
        target: Target,
        ticket: Option<Ticket>,
        carried: C,
    ) -> (Queued, Option<C>) {
        let mut slow_state = self.slow_state.lock();
        let transition = ItemState::queue_carrying_slowly;
        let queued = self.queue_slowly(&mut slow_state, target, ticket, |state| state, transition);
        if matches!(queued, Queued::Coalesced | Queued::Refused) {
            return (queued, Some(carried));
        }
        debug_assert!(slow_state.carried.is_none(), "only a pending submission carries something");
        slow_state.carried = Some(carried);
        (queued, None)
    }

    /// Submits the item if the submission needs no new entry, because the item is already pending or can use a
    /// cancelled entry again. Returns `None` if the submission needs a new entry.
    pub(crate) fn queue_without_entry(&self, target: Target) -> Option<Queued> {
        match self.update(|state| state.queue_without_entry(target)) {
            Queue::Coalesced => Some(Queued::Coalesced),
            Queue::Revived => Some(Queued::Revived),
            Queue::Refused => Some(Queued::Refused),
            Queue::Push | Queue::Slow => None,
        }
    }

    /// Submits the item like [`queue_without_entry`](Self::queue_without_entry). The submission carries a value into
    /// its run. Returns the carried value if this call does not make the item pending.
    #[cold]
    pub(crate) fn revive_carrying(&self, target: Target, carried: C) -> (Option<Queued>, Option<C>) {
        let mut slow_state = self.slow_state.lock();
        match self.update(|state| state.revive_carrying_slowly(target)) {
            Queue::Revived => {
                slow_state.carried = Some(carried);
                (Some(Queued::Revived), None)
            }
            Queue::Coalesced => (Some(Queued::Coalesced), Some(carried)),
            Queue::Refused => (Some(Queued::Refused), Some(carried)),
            Queue::Push | Queue::Slow => (None, Some(carried)),
        }
    }

    /// Submits the item with `transition`. `before` converts the old word. From the converted word, this function
    /// learns which entry the submission uses again (*revives*) or leaves behind.
    #[cold]
    fn queue_slowly(
        &self,
        slow_state: &mut SlowState<E, T, C>,
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
                // The slow-path state may name several entries in this shard. As no flush waits, it does not matter
                // which of these entries is revived.
                slow_state.home = None;
                self.strike_out(slow_state, target.shard);
                Queued::Revived
            }
        }
    }

    /// Begins a run for an entry that a worker popped from a list of `shard`, if the item is pending with this entry.
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

    /// Repeats the transition of [`begin`](Self::begin) under the lock, because the word may have changed before the
    /// lock was taken.
    #[cold]
    fn begin_slowly(&self, shard: ShardId, entry: E) -> Popped<E> {
        self.add_handle();
        let popped = {
            let mut slow_state = self.slow_state.lock();
            let known = slow_state.known(shard, entry.ticket());
            match self.update(|state| state.begin_slowly(shard, known)) {
                Begin::Run => {
                    slow_state.running = slow_state.pending.take();
                    slow_state.entering = slow_state.carried.take();
                    match slow_state.entering {
                        None => Popped::Run(entry),
                        Some(_) => Popped::RunCarrying(entry),
                    }
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

    /// Takes the value that the submission of the present run carries. The worker calls this after
    /// [`RunCarrying`](Popped::RunCarrying).
    pub(crate) fn take_carried(&self) -> Option<C> {
        self.slow_state.lock().entering.take()
    }

    /// Drops an entry instead of running it. The entry has this ticket, and was popped from a list of `shard`. Returns
    /// whether the item was pending with this entry, and whether the item is over. If the item is over, the caller
    /// frees it. Otherwise another thread may free the item at any moment.
    #[cold]
    pub(crate) fn abandon(&self, shard: ShardId, ticket: Option<Ticket>) -> (bool, bool) {
        self.add_handle();
        let mut slow_state = self.slow_state.lock();
        let known = slow_state.known(shard, ticket);
        let would_have_run = match self.update(|state| state.abandon_slowly(shard, known)) {
            Begin::Run => true,
            Begin::Stale => false,
            Begin::Meet | Begin::Strike | Begin::Slow => {
                self.strike_out(&mut slow_state, shard);
                false
            }
        };
        let (taken, waiting) = self.take_back(&mut slow_state, would_have_run);
        drop(slow_state);
        tell(waiting);
        // An item that was pending with the popped entry keeps no entry and has no timer. So this statement drops at
        // most a carried value. The thread holds no lock at this point.
        drop(taken);
        (would_have_run, self.drop_handle())
    }

    /// Ends the run. If the item is not put back, calls `tells` before it wakes the threads and tasks that wait for the
    /// run. If the item is put back, the caller holds the entry of the next run. So the waker of a task that is woken
    /// here must not wait for the next run.
    #[inline]
    pub(crate) fn end(&self, tells: impl FnOnce()) -> Ended<E> {
        let (end, over) = self.update(|state| {
            let (next, end) = state.end();
            (next, (end, next.is_over()))
        });
        match end {
            End::Idle if over => Ended::Last,
            End::Idle => Ended::Idle,
            End::PutBack | End::Slow => self.end_slowly(tells),
        }
    }

    #[cold]
    fn end_slowly(&self, tells: impl FnOnce()) -> Ended<E> {
        self.add_handle();
        let (kept, waiting, _alarm) = {
            let mut slow_state = self.slow_state.lock();
            let kept = match self.update(ItemState::end_slowly) {
                End::Idle | End::Slow => None,
                End::PutBack => slow_state.kept.take(),
            };
            let waiting = slow_state.running.take();
            let stop = std::mem::replace(&mut slow_state.stop, Stop::No);
            self.detach(&slow_state);
            (kept, waiting, stop)
        };
        if kept.is_none() && waiting.is_some() {
            tells();
        }
        tell(waiting);
        match (kept, self.drop_handle()) {
            (Some(entry), _) => Ended::PutBack(entry),
            (None, true) => Ended::Last,
            (None, false) => Ended::Idle,
        }
    }

    /// Adds a handle. A thread that has no handle also calls this function before it uses the slow-path state.
    /// Otherwise another thread could free the item while the thread without a handle still holds the item's lock.
    pub(crate) fn add_handle(&self) {
        self.update(|state| match state.add_handle() {
            Some(next) => (next, ()),
            // Only a broken program reaches this number of handles. The standard library's reference counts also abort
            // the process when they become too high.
            None => std::process::abort(),
        });
    }

    /// Drops a handle. Returns whether the item is over. If the item is over, the caller frees it. Otherwise another
    /// thread may free the item at any moment.
    #[must_use]
    pub(crate) fn drop_handle(&self) -> bool {
        self.update(|state| {
            let next = state.drop_handle();
            (next, next.is_over())
        })
    }

    /// Cancels the pending submission. The caller holds a handle. The callers of `disarm`, `disable`, `enable`,
    /// `last_submission` and `instance_of` also hold a handle.
    pub(crate) fn cancel(&self) -> TakenBack<E, T, C> {
        let done = |was_pending| TakenBack { was_pending, kept: None, timer: None, carried: None };
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

    /// Cancels the pending submission, and refuses further submissions until [`enable`](Self::enable). If `wait` is
    /// true and a run has begun, also returns the signal of that run.
    pub(crate) fn disable(&self, wait: bool) -> (TakenBack<E, T, C>, Option<Arc<Signal>>) {
        let mut slow_state = self.slow_state.lock();
        slow_state.disabled =
            slow_state.disabled.checked_add(1).expect("an item was disabled four billion times");
        let was_pending = self.update(ItemState::disable_slowly);
        let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
        let run = if wait { self.wait_for(&mut slow_state, ItemState::attach_to_run_slowly) } else { None };
        drop(slow_state);
        tell(waiting);
        (taken, run)
    }

    /// Undoes one call of [`disable`](Self::disable). Returns whether all calls of `disable` are now undone.
    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        let mut slow_state = self.slow_state.lock();
        slow_state.disabled = slow_state.disabled.checked_sub(1).ok_or(NotDisabled)?;
        if slow_state.disabled == 0 {
            self.update(|state| (state.enable_slowly(), ()));
        }
        Ok(slow_state.disabled == 0)
    }

    /// If a worker has popped the item's next entry during the present run, calls `look` with this entry. The run keeps
    /// the item in memory.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&E) -> R) -> Option<R> {
        self.slow_state.lock().kept.as_ref().map(look)
    }

    fn wait_for(
        &self,
        slow_state: &mut SlowState<E, T, C>,
        ask: impl Fn(ItemState) -> (ItemState, Instance),
    ) -> Option<Arc<Signal>> {
        let signal = match self.update(ask) {
            Instance::Pending => &mut slow_state.pending,
            Instance::Running => &mut slow_state.running,
            Instance::None => return None,
        };
        Some(Arc::clone(signal.get_or_insert_with(|| Arc::new(Signal::new()))))
    }

    /// If the item was pending, removes the cancelled submission from the slow-path state. Returns the remains of this
    /// submission, and the signal of the threads that wait for it.
    fn take_back(
        &self,
        slow_state: &mut SlowState<E, T, C>,
        was_pending: bool,
    ) -> (TakenBack<E, T, C>, Option<Arc<Signal>>) {
        if !was_pending {
            return (TakenBack { was_pending, kept: None, timer: None, carried: None }, None);
        }
        let taken = TakenBack {
            was_pending,
            kept: slow_state.kept.take(),
            timer: slow_state.timer.take(),
            carried: slow_state.carried.take(),
        };
        let waiting = slow_state.pending.take();
        self.detach(slow_state);
        (taken, waiting)
    }

    /// Clears the word's *attached* bit if nothing is attached in the slow-path state.
    fn detach(&self, slow_state: &SlowState<E, T, C>) {
        if !slow_state.is_attached() {
            self.update(|state| (state.nothing_attached(), ()));
        }
    }

    fn strike_out(&self, slow_state: &mut SlowState<E, T, C>, shard: ShardId) {
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

/// Wakes the threads that wait for this signal. The caller unlocks the slow-path state before the call, because waking
/// is a system call.
fn tell(waiting: Option<Arc<Signal>>) {
    if let Some(signal) = waiting {
        signal.set();
    }
}
