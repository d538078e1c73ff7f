//! The state of a reusable work item.
//!
//! | part | meaning |
//! |---|---|
//! | pending | the item will run, by an entry on the lists of `home`, by a kept entry (`met`) or by an armed timer |
//! | running | a worker executes its function |
//! | met | a worker popped the item's next entry while the item ran; the slow-path state keeps it for the runner |
//! | listed | an entry lies on the lists of `home`; if the item is armed or not pending, that entry is cancelled |
//! | stale | other cancelled entries lie on lists; the slow-path state names their shards |
//! | armed | the item is pending by a timer, which the slow-path state names, and not by an entry |
//! | disabled | the item cannot be queued; the slow-path state counts the calls of disable that no enable has undone |
//! | attached | the slow-path state holds something for the pending submission or for the run (see below) |
//! | home | the shard to which the item was queued last |
//! | handles | the number of handles; an armed timer holds one of them |
//!
//! Several things can be *attached*. The pending submission can have a signal for waiting threads, and a value that it
//! carries. The run can have a signal for waiting threads, a request to stop, and an alarm that such a request sets
//! off.
//!
//! The item is *over* when it has no handle, is neither pending nor running, and has no entry on any list. The thread
//! whose transition makes the item over frees the item. An item that is over stays over.
//!
//! At most one worker at a time executes an item. A worker that pops an entry of a running item puts the entry into the
//! item's slow-path state. When the run ends, the worker that executed the item puts the kept entry back at the front
//! of the entry's pool. The item then runs in that pool, in the slot (of `max_active`) that the entry holds.
//!
//! Lists cannot be searched, so a cancelled item leaves its entry behind. A submission to the shard of a cancelled
//! entry revives that entry. A submission to another shard notes the cancelled entry in the slow-path state. In two
//! cases, even a submission to the entry's own shard does not revive the cancelled entry, but notes it and pushes a new
//! entry to the end of the list:
//!
//! * The queue is ordered. A revived entry would overtake the items that were queued after it.
//! * A flush of the queue waits. If the flush waits for the cancelled entry, reviving that entry would make the flush
//!   wait for a later submission.
//!
//! The number of an item's entries on the lists of a shard is `(home is this shard and listed) + (number of times that
//! the slow-path state names this shard)`. If home is this shard and the item is listed, one of these entries is the
//! entry *at home*. In an ordered queue, the entry at home is the last of these entries. In other queues, workers may
//! pop entries in any order. So the entry at home is recognised by its flush ticket (see [`Known`]). If several entries
//! have the ticket of the entry at home, any of them can be treated as that entry, because each flush waits for all of
//! these entries or for none of them.
//!
//! A lock protects the slow-path state. A thread takes this lock in two cases only: a transition on the fast path
//! answers `Slow`, or the operation has no fast path. All `_slowly` transitions are made under this lock.

#![forbid(unsafe_code)]

mod answers;
mod target;

use std::fmt;

pub(crate) use self::answers::{Arm, Begin, Cancel, End, Instance, Queue, Room};
pub(crate) use self::target::{Known, ShardId, Target};

const PENDING: u64 = 1 << 0;
const RUNNING: u64 = 1 << 1;
const MET: u64 = 1 << 2;
const LISTED: u64 = 1 << 3;
const STALE: u64 = 1 << 4;
const ARMED: u64 = 1 << 5;
const DISABLED: u64 = 1 << 6;
const ATTACHED: u64 = 1 << 7;
const HOME: u32 = 8;
const HOME_MASK: u64 = ShardId::MAX << HOME;
const HANDLES: u32 = 34;
const _: () =
    assert!(ShardId::MAX == (1 << (HANDLES - HOME)) - 1, "a shard's id fills its place in the word");
/// The bits that keep an item without handles alive.
const ALIVE: u64 = PENDING | RUNNING | MET | LISTED | STALE | ARMED;

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

    /// Returns whether a submission would push a new entry and would not need the slow-path state.
    pub(crate) const fn is_idle(self) -> bool {
        self.0 & (PENDING | LISTED | STALE | DISABLED) == 0
    }

    /// Returns whether an entry of the item lies on a list.
    pub(crate) const fn has_entry(self) -> bool {
        self.0 & (LISTED | STALE) != 0
    }

    /// Returns whether the slow-path state holds something for the pending submission or for the run.
    pub(crate) const fn is_attached(self) -> bool {
        self.0 & ATTACHED != 0
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

    /// Returns whether the item is pending by an entry. An armed item is pending by a timer instead, but may have a
    /// cancelled entry on a list.
    pub(crate) const fn is_pending_on_list(self) -> bool {
        self.is_pending() && !self.is_armed()
    }

    pub(crate) const fn is_listed_at(self, shard: ShardId) -> bool {
        self.is_listed() && self.home().0 == shard.0
    }

    /// Returns the shard to which the item was queued last.
    pub(crate) const fn home(self) -> ShardId {
        ShardId((self.0 & HOME_MASK) >> HOME)
    }

    const fn with_home(self, home: ShardId) -> Self {
        Self(self.0 & !HOME_MASK | home.0 << HOME)
    }

    /// Returns the state of a new item, which has one handle.
    pub(crate) const fn new() -> Self {
        Self(Self::HANDLE.0)
    }

    /// The value that one handle adds to the word.
    pub(crate) const HANDLE: Self = Self(1 << HANDLES);

    pub(crate) const fn handles(self) -> u64 {
        self.0 >> HANDLES
    }

    /// Returns whether the item must be freed: it has no handle, and nothing else refers to it.
    pub(crate) const fn is_over(self) -> bool {
        self.handles() == 0 && self.0 & ALIVE == 0
    }

    /// Counts a cloned handle. Returns `None` if there are a billion handles already.
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

    /// Queues the item if no new entry is needed. The issuer calls this function when the queue has no room for a new
    /// entry. If the answer is `Push` or `Slow`, the word stays unchanged.
    pub(crate) fn queue_without_entry(self, target: Target) -> (Self, Queue) {
        match self.queue(target) {
            (_, answer @ (Queue::Push | Queue::Slow)) => (self, answer),
            queued => queued,
        }
    }

    /// Queues the item. The caller holds the slow-path state's lock. `known` describes the target's shard and the entry
    /// that would be pushed. Afterwards, the caller updates the slow-path state. If [`leaves`](Self::leaves) returns
    /// true for the old word, the caller notes the home of the old word. If the answer is `Revived`, but the old word
    /// did not [list](Self::is_listed_at) the item in the target's shard, the caller removes one mention of this shard.
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

    /// Queues the item as [`queue_slowly`](Self::queue_slowly) does. If the item becomes pending, the caller attaches
    /// the value that the submission carries.
    pub(crate) fn queue_carrying_slowly(self, target: Target, known: Known) -> (Self, Queue) {
        match self.queue_slowly(target, known) {
            (next, answer @ (Queue::Push | Queue::Revived)) => (next.attached(), answer),
            answer => answer,
        }
    }

    /// Queues the item as [`queue_without_entry`](Self::queue_without_entry) does. The caller holds the slow-path
    /// state's lock. If the item becomes pending, the caller attaches the value that the submission carries.
    pub(crate) fn revive_carrying_slowly(self, target: Target) -> (Self, Queue) {
        match self.queue_without_entry(target) {
            (next, Queue::Revived) => (next.attached(), Queue::Revived),
            answer => answer,
        }
    }

    /// Notes that the caller attaches a signal or a value to the pending submission.
    pub(crate) const fn attached(self) -> Self {
        Self(self.0 | ATTACHED)
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
        if self.0 & (STALE | ATTACHED) != 0 {
            (self, Begin::Slow)
        } else {
            match self.begin_at_home(shard) {
                (_, Begin::Meet) => (self, Begin::Slow),
                answer => answer,
            }
        }
    }

    /// Like [`begin`](Self::begin), but the caller holds the slow-path state's lock. `known` describes this shard and
    /// this entry. After `Meet`, the worker puts the entry into the slow-path state.
    pub(crate) fn begin_slowly(self, shard: ShardId, known: Known) -> (Self, Begin) {
        if self.is_named(shard, known) { (self, Begin::Strike) } else { self.begin_at_home(shard) }
    }

    /// Returns whether the slow-path state names the shard because of this entry. If so, the entry is not the entry at
    /// home.
    fn is_named(self, shard: ShardId, known: Known) -> bool {
        known.named && !(known.alike && self.is_listed_at(shard))
    }

    fn begin_at_home(self, shard: ShardId) -> (Self, Begin) {
        if !self.is_listed_at(shard) {
            // The entry is not the entry at home, so the slow-path state names its shard. The fast path has not checked
            // the slow-path state. `begin_slowly` has checked this state, and so never reaches this branch.
            (self, Begin::Slow)
        } else if !self.is_pending_on_list() {
            (Self(self.0 & !LISTED), Begin::Stale)
        } else if self.is_running() {
            (Self(self.0 & !LISTED | MET), Begin::Meet)
        } else {
            (Self(self.0 & !(LISTED | PENDING) | RUNNING), Begin::Run)
        }
    }

    /// Drops an entry that was popped from a list of `shard`, instead of running it. `Run` means that the item was
    /// pending by this entry, and is not pending any more. The other answers are as in
    /// [`begin_slowly`](Self::begin_slowly).
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

    /// Ends the run, because the function has returned or panicked.
    pub(crate) const fn end(self) -> (Self, End) {
        debug_assert!(self.is_running());
        if self.0 & (MET | ATTACHED) != 0 { (self, End::Slow) } else { (Self(self.0 & !RUNNING), End::Idle) }
    }

    /// Like [`end`](Self::end), but the caller holds the slow-path state's lock. The caller then wakes the threads that
    /// wait for the run.
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
        } else if self.0 & (MET | ARMED | ATTACHED) != 0 {
            (self, Cancel::Slow)
        } else {
            (Self(self.0 & !PENDING), Cancel::Done)
        }
    }

    /// Like [`cancel`](Self::cancel), but the caller holds the slow-path state's lock. Returns whether the item was
    /// pending. If so, the caller removes everything of that submission from the slow-path state: a kept entry, a
    /// timer, the signal for waiting threads, and the carried value.
    pub(crate) const fn cancel_slowly(self) -> (Self, bool) {
        (Self(self.0 & !(PENDING | MET | ARMED)), self.is_pending())
    }

    /// Cancels the pending submission, and refuses further submissions until the item is enabled. Returns whether the
    /// item was pending.
    pub(crate) const fn disable_slowly(self) -> (Self, bool) {
        let (next, was_pending) = self.cancel_slowly();
        (Self(next.0 | DISABLED), was_pending)
    }

    /// Allows the item to be queued again. The caller calls this function when the item has been enabled as many times
    /// as it was disabled.
    pub(crate) const fn enable_slowly(self) -> Self {
        Self(self.0 & !DISABLED)
    }

    /// Makes the item pending by a timer. If the item is pending already, `again` says whether the timer replaces the
    /// pending submission.
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

    /// Returns the room that the target's queue must have within its bound (`max_pending`) when a timer is armed.
    /// `named` says that the slow-path state names the target's shard. `now` says that the timer is due immediately.
    /// `again` is as in [`arm_slowly`](Self::arm_slowly). If the queue does not revive entries, this rule limits the
    /// number of an item's entries on lists to the bound, plus one entry for a timer that fires later.
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

    /// Disarms an armed item whose timer is due, and queues the item as [`queue_slowly`](Self::queue_slowly) does, all
    /// in one step.
    pub(crate) fn fire_slowly(self, target: Target, known: Known) -> (Self, Queue) {
        debug_assert!(self.is_armed());
        self.disarmed().queue_slowly(target, known)
    }

    /// Returns the word without the timer. When the timer fires, the caller calls [`leaves`](Self::leaves) on this
    /// word.
    pub(crate) const fn disarmed(self) -> Self {
        Self(self.0 & !(PENDING | ARMED))
    }

    /// Notes that a thread waits for the pending submission or, if there is none, for the run that has begun.
    pub(crate) const fn wait_slowly(self) -> (Self, Instance) {
        let attached = self.attached();
        if self.is_pending() { (attached, Instance::Pending) } else { self.attach_to_run_slowly() }
    }

    /// Notes that a thread attaches something to the run that has begun: the signal of a waiting thread, a request to
    /// stop, or an alarm for such a request.
    pub(crate) const fn attach_to_run_slowly(self) -> (Self, Instance) {
        if self.is_running() { (self.attached(), Instance::Running) } else { (self, Instance::None) }
    }

    /// Notes that the slow-path state holds nothing more for the pending submission or for the run.
    pub(crate) const fn nothing_attached(self) -> Self {
        Self(self.0 & !ATTACHED)
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
            (ATTACHED, "attached"),
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
