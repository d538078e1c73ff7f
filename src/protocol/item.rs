//! The cell of a reusable item's state, and its ledger.
//!
//! **Who sees what.** Every queueing, also one that coalesces, is a read-modify-write that releases; beginning the
//! run is one that acquires and comes later in the word's single modification order. So the run sees everything
//! written before any queueing that it answers. A load in place of the coalescing one would lose exactly that.
//! Ending the run releases, and the next beginning acquires: runs see each other.
//!
//! The ledger's lock orders the rare paths among themselves; against the common ones they compete by
//! compare-and-swap on the word like everybody else, and ask again if they lose.
//!
//! **Timers.** An armed item is pending, and its ledger names the timer. A timer that fires, and whoever takes it
//! back, meet at the ledger's lock: who comes first strikes the name out, and the other one finds that it is no
//! longer meant. So a queueing is neither lost nor doubled, whatever the list of timers says at that moment.
//!
//! **Waiting.** Who waits for a queueing leaves a [`Signal`] in the ledger. It goes with the queueing: from pending to
//! running when the run begins, and is set when the run ends or the queueing is taken back. The waited bit sends all
//! of these to the ledger, so that the common paths need not look for waiters.

mod answers;

pub(crate) use self::answers::{Ended, HasTicket, NotDisabled, Popped, Queued, TakenBack};
use crate::policy::flush::Ticket;
use crate::policy::item::{
    Arm, Begin, Cancel, End, Instance, ItemState, Known, Queue, Room, ShardId, Target,
};
use crate::sys::sync::{Arc, AtomicU64, Mutex, Ordering};

use super::signal::Signal;

/// Whether an item is pending and running, and what there is to say about it beyond that: entries are `E`, timers are
/// known by `T`.
#[derive(Debug)]
pub(crate) struct ItemCell<E, T> {
    state: AtomicU64,
    ledger: Mutex<Ledger<E, T>>,
}

#[derive(Debug)]
struct Ledger<E, T> {
    /// Shards on whose lists a cancelled entry lies, the one that the word tells of apart. A shard is named once for
    /// each entry.
    stale: Vec<ShardId>,
    /// The ticket, or that it has none, of the entry that the word tells of, if that was pushed while `stale` named others, or
    /// is pushed now. `None`: not known, or the entries are in order.
    home: Option<Option<Ticket>>,
    /// The entry that a worker popped while the item ran.
    kept: Option<E>,
    /// The timer that is armed.
    timer: Option<T>,
    /// How often it was disabled and not enabled.
    disabled: u32,
    /// Set when the queueing that is pending has been run, or was taken back.
    pending: Option<Arc<Signal>>,
    /// Set when the present run ends.
    running: Option<Arc<Signal>>,
}

impl<E: HasTicket, T: PartialEq> ItemCell<E, T> {
    pub(crate) fn new() -> Self {
        let ledger = Ledger {
            stale: Vec::new(),
            home: None,
            kept: None,
            timer: None,
            disabled: 0,
            pending: None,
            running: None,
        };
        Self { state: AtomicU64::new(ItemState::new().into_bits()), ledger: Mutex::new(ledger) }
    }

    pub(crate) fn load(&self) -> ItemState {
        ItemState::from_bits(self.state.load(Ordering::Acquire))
    }

    /// `ticket`: what the entry has that the caller pushes if it is told to.
    #[inline]
    pub(crate) fn queue(&self, target: Target, ticket: Option<Ticket>) -> Queued {
        match self.update(|state| state.queue(target)) {
            Queue::Push => Queued::Push,
            Queue::Revived => Queued::Revived,
            Queue::Coalesced => Queued::Coalesced,
            Queue::Refused => Queued::Refused,
            Queue::Ledger => self.queue_late(target, ticket),
        }
    }

    #[cold]
    #[inline(never)]
    fn queue_late(&self, target: Target, ticket: Option<Ticket>) -> Queued {
        let mut ledger = self.ledger.lock();
        self.queue_by_ledger(&mut ledger, target, ticket, |state| state, ItemState::queue_by_ledger)
    }

    /// Queues the item only if that needs no new entry: it is pending, or a cancelled entry lies there. `None`: it
    /// needs one.
    pub(crate) fn queue_without_entry(&self, target: Target) -> Option<Queued> {
        match self.update(|state| state.queue_without_entry(target)) {
            Queue::Coalesced => Some(Queued::Coalesced),
            Queue::Revived => Some(Queued::Revived),
            Queue::Refused => Some(Queued::Refused),
            Queue::Push | Queue::Ledger => None,
        }
    }

    /// `before`: what the word is taken for where it is asked which entry is revived or left behind.
    #[cold]
    fn queue_by_ledger(
        &self,
        ledger: &mut Ledger<E, T>,
        target: Target,
        ticket: Option<Ticket>,
        before: impl Fn(ItemState) -> ItemState,
        transition: impl Fn(ItemState, Target, Known) -> (ItemState, Queue),
    ) -> Queued {
        let known = ledger.known(target.shard, ticket);
        let (answer, was_home, left) = self.update(|state| {
            let (next, answer) = transition(state, target, known);
            let before = before(state);
            let left = before.leaves(target, known).then_some(before.home());
            (next, (answer, before.is_listed_at(target.shard), left))
        });
        ledger.stale.extend(left);
        match answer {
            Queue::Push | Queue::Ledger => {
                ledger.home = (!target.ordered && !ledger.stale.is_empty()).then_some(ticket);
                Queued::Push
            }
            Queue::Coalesced => Queued::Coalesced,
            Queue::Refused => Queued::Refused,
            Queue::Revived if was_home => Queued::Revived,
            Queue::Revived => {
                // Any of those that are named there, since no flush waits.
                ledger.home = None;
                self.strike_out(ledger, target.shard);
                Queued::Revived
            }
        }
    }

    /// Makes it pending by a timer, which `set` puts onto the list of timers; called only if that is to be. `again`:
    /// also if it is pending already, in place of that. What is left of that is for the caller.
    pub(crate) fn arm(&self, again: bool, set: impl FnOnce() -> T) -> (Arm, TakenBack<E, T>) {
        let mut ledger = self.ledger.lock();
        let arm = self.update(|state| state.arm_by_ledger(again));
        match arm {
            Arm::Armed { was_pending } => {
                let (taken, waiting) = self.take_back(&mut ledger, was_pending);
                ledger.timer = Some(set());
                drop(ledger);
                tell(waiting);
                (arm, taken)
            }
            Arm::Coalesced | Arm::Refused => (arm, TakenBack { was_pending: false, kept: None, timer: None }),
        }
    }

    /// What arming takes of the bound of the target's queue. A look: it may be otherwise a moment later.
    pub(crate) fn room_to_arm(&self, target: Target, now: bool, again: bool) -> Room {
        let state = self.load();
        let named = state.is_stale() && self.ledger.lock().stale.contains(&target.shard);
        state.room_to_arm(target, named, now, again)
    }

    /// The timer is due. `ticket`: as of [`queue`](Self::queue). `None` if it is no longer meant.
    pub(crate) fn fire(&self, timer: &T, target: Target, ticket: Option<Ticket>) -> Option<Queued> {
        let mut ledger = self.ledger.lock();
        ledger.timer.take_if(|meant| meant == timer)?;
        let (before, transition) = (ItemState::disarmed, ItemState::fire_by_ledger);
        Some(self.queue_by_ledger(&mut ledger, target, ticket, before, transition))
    }

    /// The timer that is armed.
    pub(crate) fn timer(&self) -> Option<T>
    where
        T: Clone,
    {
        self.ledger.lock().timer.clone()
    }

    /// A worker popped an entry from a list of `shard`.
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
            Begin::Meet | Begin::Strike | Begin::Ledger => self.begin_by_ledger(shard, entry),
        }
    }

    /// What the word said before the lock was taken may not hold any more: it is asked again.
    #[cold]
    fn begin_by_ledger(&self, shard: ShardId, entry: E) -> Popped<E> {
        self.add_handle();
        let popped = {
            let mut ledger = self.ledger.lock();
            let known = ledger.known(shard, entry.ticket());
            match self.update(|state| state.begin_by_ledger(shard, known)) {
                Begin::Run => {
                    ledger.running = ledger.pending.take();
                    Popped::Run(entry)
                }
                Begin::Stale => Popped::Stale(entry),
                Begin::Meet => {
                    ledger.kept = Some(entry);
                    Popped::Kept
                }
                Begin::Strike | Begin::Ledger => {
                    self.strike_out(&mut ledger, shard);
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

    /// An entry with this ticket, popped from a list of `shard`, is dropped instead of run. Was it a queueing that would have
    /// run, and is the item over? Then free it. It may be gone otherwise.
    #[cold]
    pub(crate) fn abandon(&self, shard: ShardId, ticket: Option<Ticket>) -> (bool, bool) {
        self.add_handle();
        let (would_have_run, waiting) = {
            let mut ledger = self.ledger.lock();
            let known = ledger.known(shard, ticket);
            match self.update(|state| state.abandon_by_ledger(shard, known)) {
                Begin::Run => (true, self.take_back(&mut ledger, true).1),
                Begin::Stale => (false, None),
                Begin::Meet | Begin::Strike | Begin::Ledger => {
                    self.strike_out(&mut ledger, shard);
                    (false, None)
                }
            }
        };
        tell(waiting);
        (would_have_run, self.drop_handle())
    }

    /// The run ended.
    #[inline]
    pub(crate) fn end(&self) -> Ended<E> {
        let (end, over) = self.update(|state| {
            let (next, end) = state.end();
            (next, (end, next.is_over()))
        });
        match end {
            End::Idle if over => Ended::Last,
            End::Idle => Ended::Idle,
            End::PutBack | End::Ledger => self.end_by_ledger(),
        }
    }

    #[cold]
    fn end_by_ledger(&self) -> Ended<E> {
        self.add_handle();
        let (kept, waiting) = {
            let mut ledger = self.ledger.lock();
            let kept = match self.update(ItemState::end_by_ledger) {
                End::Idle | End::Ledger => None,
                End::PutBack => ledger.kept.take(),
            };
            let waiting = ledger.running.take();
            self.forget_waiters(&ledger);
            (kept, waiting)
        };
        tell(waiting);
        match (kept, self.drop_handle()) {
            (Some(entry), _) => Ended::PutBack(entry),
            (None, true) => Ended::Last,
            (None, false) => Ended::Idle,
        }
    }

    /// One more handle. Also taken by whoever uses the ledger without having one: what it does under the lock may be
    /// the item's last transition, and the lock is part of the item.
    pub(crate) fn add_handle(&self) {
        self.update(|state| match state.add_handle() {
            Some(next) => (next, ()),
            // Like a reference count of the standard library's: beyond this, nothing can be right any more.
            None => std::process::abort(),
        });
    }

    /// A handle goes. True if the item is over: free it. It may be gone otherwise.
    #[must_use]
    pub(crate) fn drop_handle(&self) -> bool {
        self.update(|state| {
            let next = state.drop_handle();
            (next, next.is_over())
        })
    }

    /// Takes a pending queueing back. The caller has a handle, here and below.
    pub(crate) fn cancel(&self) -> TakenBack<E, T> {
        let done = |was_pending| TakenBack { was_pending, kept: None, timer: None };
        match self.update(ItemState::cancel) {
            Cancel::NotPending => done(false),
            Cancel::Done => done(true),
            Cancel::Ledger => {
                let mut ledger = self.ledger.lock();
                let was_pending = self.update(ItemState::cancel_by_ledger);
                let (taken, waiting) = self.take_back(&mut ledger, was_pending);
                drop(ledger);
                tell(waiting);
                taken
            }
        }
    }

    /// The timer is given up, in the place of those who would take it back: false if it is no longer meant.
    pub(crate) fn disarm(&self, timer: &T) -> bool {
        let mut ledger = self.ledger.lock();
        if ledger.timer.as_ref() != Some(timer) {
            return false;
        }
        let was_pending = self.update(ItemState::cancel_by_ledger);
        let (taken, waiting) = self.take_back(&mut ledger, was_pending);
        drop(ledger);
        tell(waiting);
        taken.was_pending
    }

    /// Takes a pending queueing back, and keeps others out until [`enable`](Self::enable). With the signal of the run
    /// that has begun, if any and if `wait` asks for it.
    pub(crate) fn disable(&self, wait: bool) -> (TakenBack<E, T>, Option<Arc<Signal>>) {
        let mut ledger = self.ledger.lock();
        ledger.disabled = ledger.disabled.checked_add(1).expect("an item was disabled four billion times");
        let was_pending = self.update(ItemState::disable_by_ledger);
        let (taken, waiting) = self.take_back(&mut ledger, was_pending);
        let run = if wait { self.wait_for(&mut ledger, ItemState::wait_for_run_by_ledger) } else { None };
        drop(ledger);
        tell(waiting);
        (taken, run)
    }

    /// Takes one [`disable`](Self::disable) back. True if it was the last one.
    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        let mut ledger = self.ledger.lock();
        ledger.disabled = ledger.disabled.checked_sub(1).ok_or(NotDisabled)?;
        if ledger.disabled == 0 {
            self.update(|state| (state.enable_by_ledger(), ()));
        }
        Ok(ledger.disabled == 0)
    }

    /// The signal of the queueing that is pending or, if none is, of the run that has begun.
    pub(crate) fn last_queueing(&self) -> Option<Arc<Signal>> {
        self.wait_for(&mut self.ledger.lock(), ItemState::wait_by_ledger)
    }

    /// Looks at the entry that was popped while the item runs.
    pub(crate) fn with_kept<R>(&self, look: impl FnOnce(&E) -> R) -> Option<R> {
        self.ledger.lock().kept.as_ref().map(look)
    }

    fn wait_for(
        &self,
        ledger: &mut Ledger<E, T>,
        ask: impl Fn(ItemState) -> (ItemState, Instance),
    ) -> Option<Arc<Signal>> {
        let signal = match self.update(ask) {
            Instance::Pending => &mut ledger.pending,
            Instance::Running => &mut ledger.running,
            Instance::None => return None,
        };
        Some(Arc::clone(signal.get_or_insert_with(|| Arc::new(Signal::new()))))
    }

    /// What the ledger holds of a queueing that is not pending any more, and who is to be told.
    fn take_back(
        &self,
        ledger: &mut Ledger<E, T>,
        was_pending: bool,
    ) -> (TakenBack<E, T>, Option<Arc<Signal>>) {
        if !was_pending {
            return (TakenBack { was_pending, kept: None, timer: None }, None);
        }
        let taken = TakenBack { was_pending, kept: ledger.kept.take(), timer: ledger.timer.take() };
        let waiting = ledger.pending.take();
        self.forget_waiters(ledger);
        (taken, waiting)
    }

    fn forget_waiters(&self, ledger: &Ledger<E, T>) {
        if ledger.pending.is_none() && ledger.running.is_none() {
            self.update(|state| (state.nobody_waits(), ()));
        }
    }

    fn strike_out(&self, ledger: &mut Ledger<E, T>, shard: ShardId) {
        if let Some(at) = ledger.stale.iter().position(|id| *id == shard) {
            ledger.stale.swap_remove(at);
            if ledger.stale.is_empty() {
                ledger.home = None;
                self.update(|state| (state.nothing_stale(), ()));
            }
        }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(ItemState) -> (ItemState, A)) -> A {
        super::update(&self.state, Ordering::AcqRel, ItemState::from_bits, ItemState::into_bits, transition)
    }
}

impl<E, T> Ledger<E, T> {
    /// Of this shard, and an entry with this ticket.
    fn known(&self, shard: ShardId, ticket: Option<Ticket>) -> Known {
        Known { named: self.stale.contains(&shard), alike: self.home == Some(ticket) }
    }
}

/// After the ledger was unlocked: waking is a system call.
fn tell(waiting: Option<Arc<Signal>>) {
    if let Some(signal) = waiting {
        signal.set();
    }
}
