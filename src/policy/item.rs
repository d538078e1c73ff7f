//! The state of a reusable work item.
//!
//! | part | meaning |
//! |---|---|
//! | pending | it will run: an entry for it lies on the lists of `home`, or is kept (`met`), or a timer is armed |
//! | running | a worker is inside its function |
//! | met | its next entry was popped while it ran; that entry is kept in the item's ledger for the runner |
//! | listed | an entry lies on the lists of `home`; without pending it is a cancelled one |
//! | stale | other cancelled entries lie on lists; the ledger says on those of which shards |
//! | armed | it is pending by a timer, which the ledger names; nothing lies on a list for it |
//! | disabled | nobody may queue it; the ledger says how often it was disabled |
//! | waited | somebody waits for the pending queueing, or for the run; the ledger says who |
//! | home | the shard it was queued to last |
//! | handles | how many handles there are; an armed timer has one |
//!
//! The item is *over*, and to be freed, when it has no handle and is neither pending, running nor on any list.
//! Whoever makes the transition that brings it there frees it; there is no way back.
//!
//! An item is executed by one worker at a time. A worker that pops an item which is running leaves the entry with
//! it; the runner, when it ends, puts that entry back at the front of its pool, so that the item runs there, in
//! the slot that the entry holds.
//!
//! Lists cannot be searched, so a cancelled item leaves its entry behind. Queueing it again to the same shard
//! revives that entry; queueing it to another shard notes the old entry in the ledger. In an ordered queue a revived
//! entry would overtake what was queued meanwhile; and a flush that waits for the old entry would wait for what is queued
//! after it. In both cases the old entry is noted, too, and the item gets a new one at the end. For each shard, the entries
//! on its lists are `(home is this shard and listed) + (how often the ledger names this shard)`. Which of them is the one at
//! home: in an ordered queue the last one; in others the one with its ticket (see [`Known`]), since they may be popped in
//! another order than pushed. Of entries with one ticket each may be taken for it: every flush waits for all of them, or none.
//!
//! The ledger has a lock, which only the rare paths take: those that are answered by `Ledger`, and all `_by_ledger`
//! transitions, which are made holding it.

#![forbid(unsafe_code)]

mod answers;

use std::fmt;

pub(crate) use self::answers::{Arm, Begin, Cancel, End, Instance, Queue, Room};

const PENDING: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const MET: u64 = 1 << 2;
const LISTED: u64 = 1 << 3;
const STALE: u64 = 1 << 4;
const ARMED: u64 = 1 << 5;
const DISABLED: u64 = 1 << 6;
const WAITED: u64 = 1 << 7;
const HOME: u32 = 8;
const HOME_MASK: u64 = ShardId::MAX << HOME;
const HANDLES: u32 = 34;
/// What keeps an item without handles.
const ALIVE: u64 = PENDING | RUNNING | MET | LISTED | STALE | ARMED;

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

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shard that an item is queued to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) shard: ShardId,
    /// Entries of its queue begin in the order in which they were pushed.
    pub(crate) ordered: bool,
    /// A cancelled entry that lies there is used again. Never of an ordered queue, nor while a flush of the queue waits.
    pub(crate) revives: bool,
}

/// What the ledger knows of an item's entries on the lists of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Known {
    /// It names the shard: a cancelled entry lies there beside the one at home, if that is there.
    pub(crate) named: bool,
    /// The entry in question, popped or to be pushed, has the ticket of the one at home. False if the ledger does not know that
    /// ticket, or names nothing, or the entries are in order.
    pub(crate) alike: bool,
}

/// The state word of a reusable item.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ItemState(u64);

impl ItemState {
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    pub(crate) const fn is_running(self) -> bool {
        self.0 & RUNNING != 0
    }

    pub(crate) const fn is_armed(self) -> bool {
        self.0 & ARMED != 0
    }

    pub(crate) const fn is_disabled(self) -> bool {
        self.0 & DISABLED != 0
    }

    /// May it be queued by nothing but a new entry?
    pub(crate) const fn is_idle(self) -> bool {
        self.0 & (PENDING | LISTED | STALE | DISABLED) == 0
    }

    /// Is an entry on a list that it may be queued by, if it is not pending by that already?
    pub(crate) const fn has_entry(self) -> bool {
        self.0 & (LISTED | STALE) != 0
    }

    const fn is_met(self) -> bool {
        self.0 & MET != 0
    }

    const fn is_listed(self) -> bool {
        self.0 & LISTED != 0
    }

    pub(crate) const fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    /// Is it pending by an entry? An armed item may have a cancelled entry on a list.
    pub(crate) const fn is_pending_on_list(self) -> bool {
        self.is_pending() && !self.is_armed()
    }

    pub(crate) const fn is_listed_at(self, shard: ShardId) -> bool {
        self.is_listed() && self.home().0 == shard.0
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
        self.handles() == 0 && self.0 & ALIVE == 0
    }

    /// A handle is cloned. `None` if there are a billion already.
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

    /// Somebody queues it.
    pub(crate) fn queue(self, target: Target) -> (Self, Queue) {
        if self.is_disabled() {
            (self, Queue::Refused)
        } else if self.is_pending() {
            (self, Queue::Coalesced)
        } else if self.is_listed_at(target.shard) && target.revives {
            (Self(self.0 | PENDING), Queue::Revived)
        } else if self.is_listed() || self.is_stale() {
            (self, Queue::Ledger)
        } else {
            (Self(self.0 | PENDING | LISTED).with_home(target.shard), Queue::Push)
        }
    }

    /// Somebody wants to queue it where there is no room for an entry. `Push` and `Ledger` change nothing.
    pub(crate) fn queue_without_entry(self, target: Target) -> (Self, Queue) {
        match self.queue(target) {
            (_, answer @ (Queue::Push | Queue::Ledger)) => (self, answer),
            queued => queued,
        }
    }

    /// As [`queue`](Self::queue). `known`: of the target's shard, and of the entry that would be pushed. If the answer is
    /// `Revived`, and no entry was [listed there](Self::is_listed_at) as the one at home, strike the shard out. If
    /// [`leaves`](Self::leaves) says so of the word before, note its home.
    pub(crate) fn queue_by_ledger(self, target: Target, known: Known) -> (Self, Queue) {
        match self.queue(target) {
            (_, Queue::Ledger) if self.is_listed_at(target.shard) && known.alike => {
                (Self(self.0 | PENDING), Queue::Revived)
            }
            (_, Queue::Ledger) => {
                let stale = if self.is_listed() { STALE } else { 0 };
                let next = Self(self.0 | PENDING | LISTED | stale).with_home(target.shard);
                (next, if known.named && target.revives { Queue::Revived } else { Queue::Push })
            }
            answer => answer,
        }
    }

    /// Does queueing to this target leave a cancelled entry behind at `home`?
    pub(crate) fn leaves(self, target: Target, known: Known) -> bool {
        !self.is_pending()
            && !self.is_disabled()
            && self.is_listed()
            && !(self.home() == target.shard && (target.revives || known.alike))
    }

    /// A worker popped an entry of it from a list of `shard`.
    pub(crate) fn begin(self, shard: ShardId) -> (Self, Begin) {
        if self.0 & (STALE | WAITED) != 0 {
            (self, Begin::Ledger)
        } else {
            match self.begin_at_home(shard) {
                (_, Begin::Meet) => (self, Begin::Ledger),
                answer => answer,
            }
        }
    }

    /// The same. `known`: of this shard and this entry. `Meet`: the entry goes into the ledger.
    pub(crate) fn begin_by_ledger(self, shard: ShardId, known: Known) -> (Self, Begin) {
        if self.is_named(shard, known) { (self, Begin::Strike) } else { self.begin_at_home(shard) }
    }

    /// Is the entry one of those that the ledger names, and not the one at home?
    fn is_named(self, shard: ShardId, known: Known) -> bool {
        known.named && !(known.alike && self.is_listed_at(shard))
    }

    fn begin_at_home(self, shard: ShardId) -> (Self, Begin) {
        if !self.is_listed_at(shard) {
            // The fast path has not looked into the ledger yet; who has finds no such entry.
            (self, Begin::Ledger)
        } else if !self.is_pending_on_list() {
            (Self(self.0 & !LISTED), Begin::Stale)
        } else if self.is_running() {
            (Self(self.0 & !LISTED | MET), Begin::Meet)
        } else {
            (Self(self.0 & !(LISTED | PENDING) | RUNNING), Begin::Run)
        }
    }

    /// An entry of it, popped from a list of `shard`, is dropped instead of run. `Stale`: as
    /// [`begin_by_ledger`](Self::begin_by_ledger); `Run`: it was pending, and is not any more.
    pub(crate) fn abandon_by_ledger(self, shard: ShardId, known: Known) -> (Self, Begin) {
        if self.is_named(shard, known) {
            (self, Begin::Strike)
        } else if !self.is_listed_at(shard) {
            (self, Begin::Ledger)
        } else {
            let (kept, answer) = if self.is_pending_on_list() {
                (!(LISTED | PENDING), Begin::Run)
            } else {
                (!LISTED, Begin::Stale)
            };
            (Self(self.0 & kept), answer)
        }
    }

    /// The ledger names no shard any more.
    pub(crate) const fn nothing_stale(self) -> Self {
        Self(self.0 & !STALE)
    }

    /// The function returned, or panicked.
    pub(crate) const fn end(self) -> (Self, End) {
        debug_assert!(self.is_running());
        if self.0 & (MET | WAITED) != 0 { (self, End::Ledger) } else { (Self(self.0 & !RUNNING), End::Idle) }
    }

    /// The same. Who waits for the run is to be told.
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
        } else if self.0 & (MET | ARMED | WAITED) != 0 {
            (self, Cancel::Ledger)
        } else {
            (Self(self.0 & !PENDING), Cancel::Done)
        }
    }

    /// The same: was it pending? Then whatever the ledger holds of that queueing (an entry that is kept, a timer,
    /// those who wait for it) is to be taken out.
    pub(crate) const fn cancel_by_ledger(self) -> (Self, bool) {
        (Self(self.0 & !(PENDING | MET | ARMED)), self.is_pending())
    }

    /// The same, and it cannot be queued until it is enabled.
    pub(crate) const fn disable_by_ledger(self) -> (Self, bool) {
        let (next, was_pending) = self.cancel_by_ledger();
        (Self(next.0 | DISABLED), was_pending)
    }

    /// It was enabled as often as it was disabled.
    pub(crate) const fn enable_by_ledger(self) -> Self {
        Self(self.0 & !DISABLED)
    }

    /// Somebody wants it to be queued later. `again`: also if it is pending, in place of that.
    pub(crate) const fn arm_by_ledger(self, again: bool) -> (Self, Arm) {
        if self.is_disabled() {
            (self, Arm::Refused)
        } else if self.is_pending() && !again {
            (self, Arm::Coalesced)
        } else {
            let (cancelled, was_pending) = self.cancel_by_ledger();
            (Self(cancelled.0 | PENDING | ARMED), Arm::Armed { was_pending })
        }
    }

    /// What arming a timer for this target takes of the target's bound. `named`: does the ledger name the shard? `now`: the
    /// timer is due at once. `again`: as in [`arm_by_ledger`](Self::arm_by_ledger). So an item leaves no more entries where
    /// they are not revived than the bound, and one that fires later.
    pub(crate) fn room_to_arm(self, target: Target, named: bool, now: bool, again: bool) -> Room {
        let lies_there = self.is_listed_at(target.shard) || named;
        match (now && again, target.revives) {
            _ if self.is_disabled() || self.is_pending() && !again => Room::None,
            (true, true) if lies_there => Room::None,
            (true, _) => Room::Place,
            (false, false) if lies_there => Room::Left,
            (false, _) => Room::None,
        }
    }

    /// The armed timer is due, and this is the queueing that it stands for: as
    /// [`queue_by_ledger`](Self::queue_by_ledger) for an item that is not pending, without a moment in between.
    pub(crate) fn fire_by_ledger(self, target: Target, known: Known) -> (Self, Queue) {
        debug_assert!(self.is_armed());
        self.disarmed().queue_by_ledger(target, known)
    }

    /// What the word is for [`leaves`](Self::leaves) when its timer fires.
    pub(crate) const fn disarmed(self) -> Self {
        Self(self.0 & !(PENDING | ARMED))
    }

    /// Somebody wants to wait for the queueing that is pending or, if none is, for the run that has begun.
    pub(crate) const fn wait_by_ledger(self) -> (Self, Instance) {
        let waited = Self(self.0 | WAITED);
        if self.is_pending() { (waited, Instance::Pending) } else { self.wait_for_run_by_ledger() }
    }

    /// Somebody wants to wait for the run that has begun.
    pub(crate) const fn wait_for_run_by_ledger(self) -> (Self, Instance) {
        if self.is_running() { (Self(self.0 | WAITED), Instance::Running) } else { (self, Instance::None) }
    }

    /// The ledger knows of nobody who waits any more.
    pub(crate) const fn nobody_waits(self) -> Self {
        Self(self.0 & !WAITED)
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
        let bits = [
            (PENDING, "pending"),
            (RUNNING, "running"),
            (MET, "met"),
            (LISTED, "listed"),
            (STALE, "stale"),
            (ARMED, "armed"),
            (DISABLED, "disabled"),
            (WAITED, "waited"),
        ];
        let set = bits.iter().filter(|bit| self.0 & bit.0 != 0).map(|bit| bit.1);
        let flags: Vec<_> = set.collect();
        f.debug_struct("ItemState")
            .field("flags", &flags)
            .field("home", &self.home())
            .field("handles", &self.handles())
            .finish()
    }
}

#[cfg(test)]
mod tests;
