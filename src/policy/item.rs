//! The state of a reusable work item.
//!
//! | part | meaning |
//! |---|---|
//! | pending | it will run: an entry for it lies on the lists of `home`, or is kept (`met`), or a timer is armed |
//! | running | a worker executes its function |
//! | met | its next entry was popped while it ran; the item's slow-path state keeps that entry for the runner |
//! | listed | an entry lies on the lists of `home`; if the item is not pending, that entry is cancelled |
//! | stale | other cancelled entries lie on lists; the slow-path state names their shards |
//! | armed | it is pending by a timer, which the slow-path state names; no entry on a list is pending |
//! | disabled | it cannot be queued; the slow-path state counts how often it was disabled |
//! | waited | a thread waits for the pending submission, or for the run; the slow-path state names the thread |
//! | home | the shard to which it was queued last |
//! | handles | the number of handles; an armed timer has one |
//!
//! The item is *over* when it has no handle and is neither pending, running nor on any list. The thread whose
//! transition brings it there frees it. An item that is over stays so.
//!
//! One worker at a time executes an item. A worker that pops an entry of a running item leaves the entry with the
//! item. When the run ends, the runner puts that entry back at the front of the entry's pool. The item then runs
//! there, in the slot that the entry holds.
//!
//! Lists cannot be searched, so a cancelled item leaves its entry behind. A submission to the same shard revives
//! that entry; a submission to another shard notes the old entry in the slow-path state. There are two exceptions. In
//! an ordered queue, a revived entry would overtake the items that were queued meanwhile. And a flush that waits for
//! the old entry would wait for a later submission. In both cases the old entry is noted too, and the item gets a
//! new one at the end.
//!
//! For each shard, the entries on its lists number `(home is this shard and listed) + (how often the slow-path state
//! names this shard)`. In an ordered queue, the last of these entries is the one at home. In other queues it is the one
//! with its ticket (see [`Known`]), since entries may be popped in another order than pushed. Of several entries
//! with one ticket, any may be taken for it: each flush waits for all of them, or for none.
//!
//! The slow-path state has a lock, which only the rare paths take: transitions that answer `Slow` on the fast path, and
//! all `_slowly` transitions, which are made under the lock.

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
/// The bits that keep an item without handles alive.
const ALIVE: u64 = PENDING | RUNNING | MET | LISTED | STALE | ARMED;

/// The id of a shard, unique among the shards that exist. While an item has an entry on the shard's lists, the
/// entry keeps the shard. The id is not used otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ShardId(u64);

impl ShardId {
    /// 26 bits: as many shards take more than 100 GiB.
    pub(crate) const MAX: u64 = (1 << (HANDLES - HOME)) - 1;

    pub(crate) const fn new(id: u64) -> Self {
        assert!(id <= Self::MAX, "too many shards for the 26 bits of an item's word");
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
    /// Whether entries of its queue begin in the order in which they were pushed.
    pub(crate) ordered: bool,
    /// Whether a cancelled entry that lies there is used again. It is not in an ordered queue, nor while a flush of
    /// the queue waits.
    pub(crate) revives: bool,
}

/// What the slow-path state tells about an item's entries on the lists of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Known {
    /// The slow-path state names the shard: a cancelled entry lies there, besides the one at home if there is one.
    pub(crate) named: bool,
    /// The entry in question, popped or to be pushed, has the ticket of the one at home. False if the slow-path state
    /// does not know that ticket, names no shard, or the entries are in order.
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

    /// Returns whether a submission makes it pending by a new entry.
    pub(crate) const fn is_idle(self) -> bool {
        self.0 & (PENDING | LISTED | STALE | DISABLED) == 0
    }

    /// Returns whether an entry of it lies on a list.
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

    /// Returns whether it is pending by an entry. An armed item is not, but may have a cancelled entry on a list.
    pub(crate) const fn is_pending_on_list(self) -> bool {
        self.is_pending() && !self.is_armed()
    }

    pub(crate) const fn is_listed_at(self, shard: ShardId) -> bool {
        self.is_listed() && self.home().0 == shard.0
    }

    /// The shard to which it was queued last.
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

    /// Returns whether the item is to be freed: it has no handle, and nothing refers to it.
    pub(crate) const fn is_over(self) -> bool {
        self.handles() == 0 && self.0 & ALIVE == 0
    }

    /// Counts a cloned handle. `None` if there are a billion already.
    pub(crate) const fn add_handle(self) -> Option<Self> {
        match self.0.checked_add(Self::HANDLE.0) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }

    /// Counts a dropped handle.
    pub(crate) const fn drop_handle(self) -> Self {
        debug_assert!(self.handles() > 0);
        Self(self.0 - Self::HANDLE.0)
    }

    /// Queues the item.
    pub(crate) fn queue(self, target: Target) -> (Self, Queue) {
        if self.is_disabled() {
            (self, Queue::Refused)
        } else if self.is_pending() {
            (self, Queue::Coalesced)
        } else if self.is_listed_at(target.shard) && target.revives {
            (Self(self.0 | PENDING), Queue::Revived)
        } else if self.is_listed() || self.is_stale() {
            (self, Queue::Slow)
        } else {
            (Self(self.0 | PENDING | LISTED).with_home(target.shard), Queue::Push)
        }
    }

    /// Queues the item where there is no room for an entry. `Push` and `Slow` leave the word unchanged.
    pub(crate) fn queue_without_entry(self, target: Target) -> (Self, Queue) {
        match self.queue(target) {
            (_, answer @ (Queue::Push | Queue::Slow)) => (self, answer),
            queued => queued,
        }
    }

    /// Queues the item, holding the slow-path state's lock. `known` is about the target's shard and the entry that
    /// would be pushed. The caller then updates the slow-path state. After `Revived`, it strikes the shard out, unless
    /// the word before [listed](Self::is_listed_at) its entry there. If [`leaves`](Self::leaves) holds for the word
    /// before, it notes that word's home.
    pub(crate) fn queue_slowly(self, target: Target, known: Known) -> (Self, Queue) {
        match self.queue(target) {
            (_, Queue::Slow) if self.is_listed_at(target.shard) && known.alike => {
                (Self(self.0 | PENDING), Queue::Revived)
            }
            (_, Queue::Slow) => {
                let stale = if self.is_listed() { STALE } else { 0 };
                let next = Self(self.0 | PENDING | LISTED | stale).with_home(target.shard);
                (next, if known.named && target.revives { Queue::Revived } else { Queue::Push })
            }
            answer => answer,
        }
    }

    /// Returns whether a submission to this target leaves a cancelled entry behind at `home`.
    pub(crate) fn leaves(self, target: Target, known: Known) -> bool {
        !self.is_pending()
            && !self.is_disabled()
            && self.is_listed()
            && !(self.home() == target.shard && (target.revives || known.alike))
    }

    /// Begins a run for an entry that a worker popped from a list of `shard`.
    pub(crate) fn begin(self, shard: ShardId) -> (Self, Begin) {
        if self.0 & (STALE | WAITED) != 0 {
            (self, Begin::Slow)
        } else {
            match self.begin_at_home(shard) {
                (_, Begin::Meet) => (self, Begin::Slow),
                answer => answer,
            }
        }
    }

    /// Like [`begin`](Self::begin), holding the slow-path state's lock. `known` is about this shard and this entry.
    /// After `Meet`, the worker puts the entry into the slow-path state.
    pub(crate) fn begin_slowly(self, shard: ShardId, known: Known) -> (Self, Begin) {
        if self.is_named(shard, known) { (self, Begin::Strike) } else { self.begin_at_home(shard) }
    }

    /// Returns whether the entry is one that the slow-path state names, and not the one at home.
    fn is_named(self, shard: ShardId, known: Known) -> bool {
        known.named && !(known.alike && self.is_listed_at(shard))
    }

    fn begin_at_home(self, shard: ShardId) -> (Self, Begin) {
        if !self.is_listed_at(shard) {
            // The entry is not the one at home, so the slow-path state names it. The fast path has not looked there
            // yet. `begin_slowly` has, and does not get here.
            (self, Begin::Slow)
        } else if !self.is_pending_on_list() {
            (Self(self.0 & !LISTED), Begin::Stale)
        } else if self.is_running() {
            (Self(self.0 & !LISTED | MET), Begin::Meet)
        } else {
            (Self(self.0 & !(LISTED | PENDING) | RUNNING), Begin::Run)
        }
    }

    /// Drops an entry that was popped from a list of `shard`, instead of running it. `Stale` is as in
    /// [`begin_slowly`](Self::begin_slowly). `Run`: the item was pending, and is no longer.
    pub(crate) fn abandon_slowly(self, shard: ShardId, known: Known) -> (Self, Begin) {
        if self.is_named(shard, known) {
            (self, Begin::Strike)
        } else if !self.is_listed_at(shard) {
            (self, Begin::Slow)
        } else {
            let (kept, answer) = if self.is_pending_on_list() {
                (!(LISTED | PENDING), Begin::Run)
            } else {
                (!LISTED, Begin::Stale)
            };
            (Self(self.0 & kept), answer)
        }
    }

    /// Notes that the slow-path state names no shard any more.
    pub(crate) const fn nothing_stale(self) -> Self {
        Self(self.0 & !STALE)
    }

    /// Ends the run: the function returned, or panicked.
    pub(crate) const fn end(self) -> (Self, End) {
        debug_assert!(self.is_running());
        if self.0 & (MET | WAITED) != 0 { (self, End::Slow) } else { (Self(self.0 & !RUNNING), End::Idle) }
    }

    /// Like [`end`](Self::end), holding the slow-path state's lock. The caller wakes the threads that wait for the run.
    pub(crate) const fn end_slowly(self) -> (Self, End) {
        if self.is_met() {
            (Self(self.0 & !(RUNNING | MET) | LISTED), End::PutBack)
        } else {
            (Self(self.0 & !RUNNING), End::Idle)
        }
    }

    /// Cancels the pending submission.
    pub(crate) const fn cancel(self) -> (Self, Cancel) {
        if !self.is_pending() {
            (self, Cancel::NotPending)
        } else if self.0 & (MET | ARMED | WAITED) != 0 {
            (self, Cancel::Slow)
        } else {
            (Self(self.0 & !PENDING), Cancel::Done)
        }
    }

    /// Like [`cancel`](Self::cancel), holding the slow-path state's lock. Returns whether the item was pending. If so,
    /// the caller removes from the slow-path state what belongs to that submission: a kept entry, a timer, and the
    /// threads that wait for it.
    pub(crate) const fn cancel_slowly(self) -> (Self, bool) {
        (Self(self.0 & !(PENDING | MET | ARMED)), self.is_pending())
    }

    /// Cancels the pending submission, and refuses others until the item is enabled. Returns whether the item was
    /// pending.
    pub(crate) const fn disable_slowly(self) -> (Self, bool) {
        let (next, was_pending) = self.cancel_slowly();
        (Self(next.0 | DISABLED), was_pending)
    }

    /// Lets the item be queued again. The caller does so once it was enabled as often as it was disabled.
    pub(crate) const fn enable_slowly(self) -> Self {
        Self(self.0 & !DISABLED)
    }

    /// Makes the item pending by a timer. `again`: if it is pending already, replaces that submission.
    pub(crate) const fn arm_slowly(self, again: bool) -> (Self, Arm) {
        if self.is_disabled() {
            (self, Arm::Refused)
        } else if self.is_pending() && !again {
            (self, Arm::Coalesced)
        } else {
            let (cancelled, was_pending) = self.cancel_slowly();
            (Self(cancelled.0 | PENDING | ARMED), Arm::Armed { was_pending })
        }
    }

    /// Returns what arming a timer takes of the target's bound. `named`: the slow-path state names the shard. `now`:
    /// the timer is due at once. `again` is as in [`arm_slowly`](Self::arm_slowly). So where entries are not
    /// revived, an item leaves no more of them than the bound, plus one of a timer that fires later.
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

    /// Queues an armed item when its timer is due: like [`queue_slowly`](Self::queue_slowly) for an item that
    /// is not pending, in one step.
    pub(crate) fn fire_slowly(self, target: Target, known: Known) -> (Self, Queue) {
        debug_assert!(self.is_armed());
        self.disarmed().queue_slowly(target, known)
    }

    /// The word to ask [`leaves`](Self::leaves) about when its timer fires.
    pub(crate) const fn disarmed(self) -> Self {
        Self(self.0 & !(PENDING | ARMED))
    }

    /// Notes that a thread waits for the pending submission or, if there is none, for the run that has begun.
    pub(crate) const fn wait_slowly(self) -> (Self, Instance) {
        let waited = Self(self.0 | WAITED);
        if self.is_pending() { (waited, Instance::Pending) } else { self.wait_for_run_slowly() }
    }

    /// Notes that a thread waits for the run that has begun.
    pub(crate) const fn wait_for_run_slowly(self) -> (Self, Instance) {
        if self.is_running() { (Self(self.0 | WAITED), Instance::Running) } else { (self, Instance::None) }
    }

    /// Notes that the slow-path state names no waiting thread any more.
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
