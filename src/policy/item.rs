//! The state of a reusable work item.
//!
//! | part | meaning |
//! |---|---|
//! | pending | it will run: an entry for it lies on the lists of `home`, or is kept (`met`) |
//! | running | a worker is inside its function |
//! | met | its next entry was popped while it ran; that entry is kept in the item's ledger for the runner |
//! | listed | an entry lies on the lists of `home`; without pending it is a cancelled one |
//! | stale | cancelled entries lie on the lists of other shards; the ledger says of which |
//! | home | the shard it was queued to last |
//! | handles | how many handles users have |
//!
//! The item is *over*, and to be freed, when it has no handle and none of the bits. Whoever makes the transition that
//! brings it there frees it; there is no way back.
//!
//! An item is executed by one worker at a time. A worker that pops an item which is running leaves the entry with
//! it; the runner, when it ends, puts that entry back at the front of its pool, so that the item runs there, in
//! the slot that the entry holds.
//!
//! Lists cannot be searched, so a cancelled item leaves its entry behind. Queueing it again to the same shard
//! revives that entry; queueing it to another shard notes the old entry in the ledger. So every item has at most
//! one entry per shard, whatever is done to it: for each shard, the entries on its lists are
//! `(home is this shard and listed) + (the ledger names this shard)`.
//!
//! The ledger has a lock, which only the rare paths take: those that return `Ledger`, `Meet` or `PutBack`.

#![forbid(unsafe_code)]

use std::fmt;

const PENDING: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const MET: u64 = 1 << 2;
const LISTED: u64 = 1 << 3;
const STALE: u64 = 1 << 4;
const FLAGS: u64 = (1 << HOME) - 1;
const HOME: u32 = 6;
const HOME_MASK: u64 = ShardId::MAX << HOME;
const HANDLES: u32 = 32;

/// The number of a shard: unique among those that exist. An item that names a shard has an entry there, which keeps
/// the shard, or does not care.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ShardId(u64);

impl ShardId {
    /// 26 bits: the shards that they number take more than 100 GiB.
    pub(crate) const MAX: u64 = (1 << (HANDLES - HOME)) - 1;

    pub(crate) const fn new(id: u64) -> Self {
        assert!(id <= Self::MAX, "there are more shards than an item can tell apart");
        Self(id)
    }
}

/// The state word of a reusable item.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ItemState(u64);

/// What somebody does who queues the item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// It is pending now: push an entry.
    Push,
    /// It is pending now: the entry of a cancelled queueing serves again.
    Revived,
    /// It was pending already: that run sees everything written before this call.
    Coalesced,
    /// Look into the ledger first.
    Ledger,
}

/// What a worker does with an entry it popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It is running now: call its function.
    Run,
    /// It runs elsewhere: leave the entry in the ledger.
    Meet,
    /// The entry was cancelled: complete it without a run.
    Stale,
    /// The entry was cancelled and is named in the ledger, unless that has just changed: ask again under its lock,
    /// and if this is still the answer, strike the shard out and complete the entry without a run.
    Ledger,
}

/// What the runner does after the function returned.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing more.
    Idle,
    /// An entry was left in the ledger: put it back at the front of its pool.
    PutBack,
}

/// What a cancel did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It was not pending.
    NotPending,
    /// It was pending; its entry stays on the list and will be passed over.
    Done,
    /// It was pending and its entry was kept in the ledger: take the ledger's lock and ask again.
    Ledger,
}

impl ItemState {
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    pub(crate) const fn is_running(self) -> bool {
        self.0 & RUNNING != 0
    }

    /// Is it neither pending, nor an entry of it on any list?
    pub(crate) const fn is_idle(self) -> bool {
        self.0 & (PENDING | LISTED | STALE) == 0
    }

    const fn is_met(self) -> bool {
        self.0 & MET != 0
    }

    const fn is_listed(self) -> bool {
        self.0 & LISTED != 0
    }

    const fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// The shard it was queued to last.
    pub(crate) const fn home(self) -> ShardId {
        ShardId((self.0 & HOME_MASK) >> HOME)
    }

    const fn with_home(self, home: ShardId) -> Self {
        Self(self.0 & !HOME_MASK | home.0 << HOME)
    }

    /// A new item, with one handle.
    pub(crate) const fn new() -> Self {
        Self(Self::HANDLE.0)
    }

    /// What one handle adds to the word.
    pub(crate) const HANDLE: Self = Self(1 << HANDLES);

    pub(crate) const fn handles(self) -> u64 {
        self.0 >> HANDLES
    }

    /// Nobody knows it any more, and nothing will happen to it.
    pub(crate) const fn is_over(self) -> bool {
        self.handles() == 0 && self.0 & FLAGS == 0
    }

    /// A handle is cloned. `None` if there are four billion already.
    pub(crate) const fn add_handle(self) -> Option<Self> {
        match self.0.checked_add(Self::HANDLE.0) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }

    /// A handle goes.
    pub(crate) const fn drop_handle(self) -> Self {
        debug_assert!(self.handles() > 0);
        Self(self.0 - Self::HANDLE.0)
    }

    /// Somebody queues it to `shard`.
    pub(crate) fn queue(self, shard: ShardId) -> (Self, Queue) {
        if self.is_pending() {
            (self, Queue::Coalesced)
        } else if self.is_listed() && self.home() == shard {
            (Self(self.0 | PENDING), Queue::Revived)
        } else if self.is_listed() || self.is_stale() {
            (self, Queue::Ledger)
        } else {
            (Self(self.0 | PENDING | LISTED).with_home(shard), Queue::Push)
        }
    }

    /// Somebody wants to queue it to `shard` where there is no room for an entry. `Push` and `Ledger` change nothing.
    pub(crate) fn queue_without_entry(self, shard: ShardId) -> (Self, Queue) {
        match self.queue(shard) {
            (_, answer @ (Queue::Push | Queue::Ledger)) => (self, answer),
            queued => queued,
        }
    }

    /// The same where [`Queue::Ledger`] was the answer, holding the ledger's lock. `named`: does the ledger name
    /// `shard`? If the answer is `Revived`, strike it out. If [`leaves`](Self::leaves) says so of the word before,
    /// note its home.
    pub(crate) fn queue_by_ledger(self, shard: ShardId, named: bool) -> (Self, Queue) {
        match self.queue(shard) {
            (_, Queue::Ledger) => {
                let stale = if self.is_listed() { STALE } else { 0 };
                let next = Self(self.0 | PENDING | LISTED | stale).with_home(shard);
                (next, if named { Queue::Revived } else { Queue::Push })
            }
            answer => answer,
        }
    }

    /// Does queueing to another shard leave a cancelled entry behind at `home`?
    pub(crate) fn leaves(self, shard: ShardId) -> bool {
        !self.is_pending() && self.is_listed() && self.home() != shard
    }

    /// A worker popped an entry of it from a list of `shard`.
    pub(crate) fn begin(self, shard: ShardId) -> (Self, Begin) {
        if !self.is_listed() || self.home() != shard {
            (self, Begin::Ledger)
        } else if !self.is_pending() {
            (Self(self.0 & !LISTED), Begin::Stale)
        } else if self.is_running() {
            (self, Begin::Meet)
        } else {
            (Self(self.0 & !(LISTED | PENDING) | RUNNING), Begin::Run)
        }
    }

    /// The same where [`Begin::Meet`] or [`Begin::Ledger`] was the answer, holding the ledger's lock. `Meet`: the entry
    /// goes into the ledger. `Ledger`: strike `shard` out.
    pub(crate) fn begin_by_ledger(self, shard: ShardId) -> (Self, Begin) {
        match self.begin(shard) {
            (_, Begin::Meet) => (Self(self.0 & !LISTED | MET), Begin::Meet),
            answer => answer,
        }
    }

    /// The ledger, whose lock is held, names no shard any more.
    pub(crate) const fn nothing_stale(self) -> Self {
        Self(self.0 & !STALE)
    }

    /// The function returned, or panicked. `PutBack` changes nothing: take the ledger's lock and ask
    /// [`end_by_ledger`](Self::end_by_ledger).
    pub(crate) const fn end(self) -> (Self, End) {
        debug_assert!(self.is_running());
        if self.is_met() { (self, End::PutBack) } else { (Self(self.0 & !RUNNING), End::Idle) }
    }

    /// The same, holding the ledger's lock. `PutBack`: take the entry out of the ledger.
    pub(crate) const fn end_by_ledger(self) -> (Self, End) {
        if self.is_met() {
            (Self(self.0 & !(RUNNING | MET) | LISTED), End::PutBack)
        } else {
            (Self(self.0 & !RUNNING), End::Idle)
        }
    }

    /// Somebody cancels it.
    pub(crate) const fn cancel(self) -> (Self, Cancel) {
        if !self.is_pending() {
            (self, Cancel::NotPending)
        } else if self.is_met() {
            (self, Cancel::Ledger)
        } else {
            (Self(self.0 & !PENDING), Cancel::Done)
        }
    }

    /// The same, holding the ledger's lock. `Ledger`: take the entry out of the ledger and complete it.
    pub(crate) const fn cancel_by_ledger(self) -> (Self, Cancel) {
        match self.cancel() {
            (_, Cancel::Ledger) => (Self(self.0 & !(PENDING | MET)), Cancel::Ledger),
            answer => answer,
        }
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for ItemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemState")
            .field("pending", &self.is_pending())
            .field("running", &self.is_running())
            .field("met", &self.is_met())
            .field("listed", &self.is_listed())
            .field("stale", &self.is_stale())
            .field("home", &self.home())
            .field("handles", &self.handles())
            .finish()
    }
}

#[cfg(test)]
mod tests;
