//! The cell of a reusable item's state, and its ledger.
//!
//! **Who sees what.** Every queueing, also one that coalesces, is a read-modify-write that releases; beginning the
//! run is one that acquires and comes later in the word's single modification order. So the run sees everything
//! written before any queueing that it answers. A load in place of the coalescing one would lose exactly that.
//! Ending the run releases, and the next beginning acquires: runs see each other.
//!
//! The ledger's lock orders the rare paths among themselves; against the common ones they compete by
//! compare-and-swap on the word like everybody else, and ask again if they lose.

use crate::policy::item::{Begin, Cancel, End, ItemState, Queue, ShardId};
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// Whether an item is pending and running, and the entries that lie where nobody expects them.
#[derive(Debug)]
pub(crate) struct ItemCell<E> {
    state: AtomicU64,
    ledger: Mutex<Ledger<E>>,
}

#[derive(Debug)]
struct Ledger<E> {
    /// Shards on whose lists a cancelled entry lies, the item's home apart.
    stale: Vec<ShardId>,
    /// The entry that a worker popped while the item ran.
    kept: Option<E>,
}

/// What a queueing came to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Push an entry.
    Push,
    /// It is pending now, by an entry that lies there already.
    Revived,
    /// It was pending before.
    Coalesced,
}

/// What a popped entry is good for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<E> {
    /// The item is running now, in the name of this entry.
    Run(E),
    /// The item runs elsewhere and has the entry. The item may be gone.
    Kept,
    /// The item had the entry, and has run in its name meanwhile: it is over, free it.
    KeptLast,
    /// Complete the entry without a run. The item may be gone.
    Stale(E),
    /// The same, and free the item: it is over.
    Last(E),
}

/// What becomes of an item whose run has ended.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<E> {
    /// Nothing. The item may be gone.
    Idle,
    /// Put this entry at the front of its pool: it is the item's next run.
    PutBack(E),
    /// It is over: free it.
    Last,
}

impl<E> ItemCell<E> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(ItemState::new().into_bits()),
            ledger: Mutex::new(Ledger { stale: Vec::new(), kept: None }),
        }
    }

    pub(crate) fn load(&self) -> ItemState {
        ItemState::from_bits(self.state.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn queue(&self, shard: ShardId) -> Queued {
        match self.update(|state| state.queue(shard)) {
            Queue::Push => Queued::Push,
            Queue::Revived => Queued::Revived,
            Queue::Coalesced => Queued::Coalesced,
            Queue::Ledger => self.queue_by_ledger(shard),
        }
    }

    /// Queues the item only if that needs no new entry: it is pending, or a cancelled entry lies at `shard`.
    pub(crate) fn queue_without_entry(&self, shard: ShardId) -> Option<Queued> {
        match self.update(|state| state.queue_without_entry(shard)) {
            Queue::Coalesced => Some(Queued::Coalesced),
            Queue::Revived => Some(Queued::Revived),
            Queue::Push | Queue::Ledger => None,
        }
    }

    #[cold]
    fn queue_by_ledger(&self, shard: ShardId) -> Queued {
        let mut ledger = self.ledger.lock();
        let named = ledger.stale.iter().position(|id| *id == shard);
        let (answer, left) = self.update(|state| {
            let (next, answer) = state.queue_by_ledger(shard, named.is_some());
            (next, (answer, state.leaves(shard).then_some(state.home())))
        });
        if let Some(home) = left {
            ledger.stale.push(home);
        }
        match answer {
            Queue::Push | Queue::Ledger => Queued::Push,
            Queue::Coalesced => Queued::Coalesced,
            Queue::Revived => {
                // Either by the entry at home, or by the one that the ledger names: it never names a home at which
                // an entry is listed.
                if let Some(at) = named {
                    ledger.stale.swap_remove(at);
                    self.forget_stale(&ledger);
                }
                Queued::Revived
            }
        }
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
            Begin::Meet | Begin::Ledger => self.begin_by_ledger(shard, entry),
        }
    }

    /// What the word said before the lock was taken may not hold any more: it is asked again.
    #[cold]
    fn begin_by_ledger(&self, shard: ShardId, entry: E) -> Popped<E> {
        self.add_handle();
        let popped = {
            let mut ledger = self.ledger.lock();
            match self.update(|state| state.begin_by_ledger(shard)) {
                Begin::Run => Popped::Run(entry),
                Begin::Stale => Popped::Stale(entry),
                Begin::Meet => {
                    ledger.kept = Some(entry);
                    Popped::Kept
                }
                Begin::Ledger => {
                    if let Some(at) = ledger.stale.iter().position(|id| *id == shard) {
                        ledger.stale.swap_remove(at);
                        self.forget_stale(&ledger);
                    }
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
            End::PutBack => self.end_by_ledger(),
        }
    }

    #[cold]
    fn end_by_ledger(&self) -> Ended<E> {
        self.add_handle();
        let kept = {
            let mut ledger = self.ledger.lock();
            match self.update(ItemState::end_by_ledger) {
                End::Idle => None,
                End::PutBack => ledger.kept.take(),
            }
        };
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

    /// Takes a pending queueing back: was there one, and an entry to be completed without a run at once? The caller
    /// has a handle.
    pub(crate) fn cancel(&self) -> (bool, Option<E>) {
        match self.update(ItemState::cancel) {
            Cancel::NotPending => (false, None),
            Cancel::Done => (true, None),
            Cancel::Ledger => {
                let mut ledger = self.ledger.lock();
                match self.update(ItemState::cancel_by_ledger) {
                    Cancel::NotPending => (false, None),
                    Cancel::Done => (true, None),
                    Cancel::Ledger => (true, ledger.kept.take()),
                }
            }
        }
    }

    fn forget_stale(&self, ledger: &Ledger<E>) {
        if ledger.stale.is_empty() {
            self.update(|state| (state.nothing_stale(), ()));
        }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(ItemState) -> (ItemState, A)) -> A {
        super::update(&self.state, Ordering::AcqRel, ItemState::from_bits, ItemState::into_bits, transition)
    }
}
