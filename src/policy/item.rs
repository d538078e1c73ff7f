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
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const A: ShardId = ShardId::new(0);
    const B: ShardId = ShardId::new(1);
    const C: ShardId = ShardId::new(2);
    const SHARDS: [ShardId; 3] = [A, B, C];

    fn idle() -> ItemState {
        ItemState::default()
    }

    /// Pending, its entry on a list of A.
    fn pending() -> ItemState {
        idle().queue(A).0
    }

    /// Cancelled, its entry still on a list of A.
    fn cancelled() -> ItemState {
        pending().cancel().0
    }

    fn running() -> ItemState {
        pending().begin(A).0
    }

    /// Running, and queued to A once more.
    fn running_and_pending() -> ItemState {
        running().queue(A).0
    }

    /// Running; the next entry, of A, was met.
    fn met() -> ItemState {
        running_and_pending().begin_by_ledger(A).0
    }

    /// Queued to A, cancelled, queued to B and cancelled: the ledger names A.
    fn stale() -> ItemState {
        cancelled().queue_by_ledger(B, false).0.cancel().0
    }

    /// spec: W9 (an item may drop its own last handle): it is over once, with the last of handles, entries and runs.
    #[test]
    fn an_item_is_over_when_nobody_knows_it() {
        let new = ItemState::new();
        assert!(!new.is_over());
        assert!(new.drop_handle().is_over(), "never queued");
        let cloned = new.add_handle().unwrap();
        assert!(!cloned.drop_handle().is_over());

        let queued = new.queue(A).0.drop_handle();
        assert!(!queued.is_over(), "what was accepted runs");
        let running = queued.begin(A).0;
        assert!(!running.is_over());
        assert!(running.end().0.is_over());

        let cancelled = new.queue(A).0.cancel().0.drop_handle();
        assert!(!cancelled.is_over(), "its entry still points at it");
        assert!(cancelled.begin(A).0.is_over());

        let full = ItemState(u64::MAX);
        assert_eq!(full.add_handle(), None);
    }

    /// spec: W2 (true: now pending; false: was pending already), W3 (queued again while it runs).
    #[test]
    fn queueing_an_item() {
        let table = [
            (idle(), A, Queue::Push),
            (pending(), A, Queue::Coalesced),
            (pending(), B, Queue::Coalesced),
            (cancelled(), A, Queue::Revived),
            (cancelled(), B, Queue::Ledger),
            (running(), A, Queue::Push),
            (running(), B, Queue::Push),
            (running_and_pending(), B, Queue::Coalesced),
            (met(), A, Queue::Coalesced),
            (met(), B, Queue::Coalesced),
            (stale(), B, Queue::Revived),
            (stale(), A, Queue::Ledger),
            (stale(), C, Queue::Ledger),
        ];
        for (word, shard, answer) in table {
            let (next, queue) = word.queue(shard);
            assert_eq!(queue, answer, "{word:?} to {shard:?}");
            let takes_effect = matches!(answer, Queue::Push | Queue::Revived);
            assert!(!takes_effect || next.is_pending() && next.home() == shard, "{next:?}");
            assert!(takes_effect || next == word, "{next:?}");
        }
    }

    #[test]
    fn queueing_an_item_elsewhere_notes_or_revives_its_cancelled_entries() {
        assert!(cancelled().leaves(B) && !cancelled().leaves(A));
        let (word, queue) = cancelled().queue_by_ledger(B, false);
        assert_eq!(queue, Queue::Push);
        assert!(word.is_pending() && word.is_stale() && word.home() == B);

        // Back to A, whose entry the ledger names; that of B takes its place there.
        assert!(stale().leaves(A));
        let (word, queue) = stale().queue_by_ledger(A, true);
        assert_eq!(queue, Queue::Revived);
        assert!(word.is_pending() && word.is_stale() && word.home() == A);

        // The entry of B has been popped meanwhile: nothing is left behind.
        let popped = stale().begin(B).0;
        assert!(!popped.leaves(C));
        assert_eq!(popped.queue_by_ledger(C, false).1, Queue::Push);
    }

    /// spec: W3 (at most one worker executes it)
    #[test]
    fn popping_an_entry() {
        let table = [
            (pending(), A, Begin::Run),
            (cancelled(), A, Begin::Stale),
            (running_and_pending(), A, Begin::Meet),
            (running_and_pending().cancel().0, A, Begin::Stale),
            (stale(), A, Begin::Ledger),
            (stale(), B, Begin::Stale),
            (cancelled().queue_by_ledger(B, false).0, A, Begin::Ledger),
            (cancelled().queue_by_ledger(B, false).0, B, Begin::Run),
        ];
        for (word, shard, answer) in table {
            let (next, begin) = word.begin(shard);
            assert_eq!(begin, answer, "{word:?} from {shard:?}");
            assert_eq!(next.is_running(), word.is_running() || answer == Begin::Run);
        }
    }

    /// spec: W3 (it runs again after)
    #[test]
    fn an_item_that_met_itself_is_put_back_by_its_runner() {
        assert_eq!(running().end(), (idle(), End::Idle));
        assert_eq!(running_and_pending().end(), (pending(), End::Idle));
        assert_eq!(met().end(), (met(), End::PutBack));
        assert_eq!(met().end_by_ledger(), (pending(), End::PutBack));
        // It ended, or was cancelled, before the other worker had the ledger's lock.
        assert_eq!(running_and_pending().end().0.begin_by_ledger(A).1, Begin::Run);
        assert_eq!(running_and_pending().cancel().0.begin_by_ledger(A).1, Begin::Stale);
    }

    /// spec: F3 (true if it was pending)
    #[test]
    fn cancelling_an_item() {
        let table = [
            (idle(), Cancel::NotPending),
            (pending(), Cancel::Done),
            (cancelled(), Cancel::NotPending),
            (running(), Cancel::NotPending),
            (running_and_pending(), Cancel::Done),
            (met(), Cancel::Ledger),
        ];
        for (word, answer) in table {
            let (next, cancel) = word.cancel();
            assert_eq!(cancel, answer, "{word:?}");
            assert_eq!(next.is_pending(), answer == Cancel::Ledger);
        }
        assert_eq!(met().cancel_by_ledger(), (running(), Cancel::Ledger));
        // The runner put the entry back before the canceller had the ledger's lock.
        assert_eq!(met().end_by_ledger().0.cancel_by_ledger(), (cancelled(), Cancel::Done));
    }

    /// A worker popped the entry of A, which the ledger names, and waits for the ledger's lock. Meanwhile the
    /// item is queued to A again, which revives this very entry: asking again is what runs it.
    #[test]
    fn an_entry_revived_between_its_pop_and_the_ledger_runs() {
        let (word, begin) = stale().begin(A);
        assert_eq!(begin, Begin::Ledger);
        let (word, queue) = word.queue_by_ledger(A, true);
        assert_eq!(queue, Queue::Revived);
        assert_eq!(word.begin_by_ledger(A).1, Begin::Run);
    }

    #[test]
    fn shards_are_told_apart_up_to_the_last_one() {
        let last = ShardId::new(ShardId::MAX);
        let word = idle().queue(last).0;
        assert_eq!(word.home(), last);
        assert_eq!(word.begin(last).1, Begin::Run);
    }

    /// An item with its ledger, and what must be true of it.
    #[derive(Default)]
    struct Item {
        word: ItemState,
        stale: Vec<ShardId>,
        kept: Option<ShardId>,
        /// The model: where it was queued to, if that queueing waits for its run.
        wanted: Option<ShardId>,
        /// The model: a worker is inside its function.
        runs: bool,
    }

    /// A step that was answered with a look into the ledger, and has not got the ledger's lock yet.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Late {
        Queue(usize, ShardId),
        Begin(usize, ShardId),
        End(usize),
        Cancel(usize),
    }

    /// Two items and three shards.
    #[derive(Default)]
    struct World {
        items: [Item; 2],
        lists: [VecDeque<usize>; 3],
        late: Vec<Late>,
        pushed: usize,
        completed: usize,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Queue(usize, usize),
        Cancel(usize),
        Pop(usize),
        End(usize),
        /// Somebody gets the ledger's lock.
        GoOn(usize),
    }

    impl World {
        fn step(&mut self, step: Step) {
            match step {
                Step::Queue(id, shard) => {
                    let (word, queue) = self.items[id].word.queue(SHARDS[shard]);
                    self.items[id].word = word;
                    self.queued(id, SHARDS[shard], queue);
                }
                Step::Cancel(id) => {
                    let (word, cancel) = self.items[id].word.cancel();
                    self.items[id].word = word;
                    match cancel {
                        Cancel::Ledger => self.late.push(Late::Cancel(id)),
                        answer => self.cancelled(id, answer),
                    }
                }
                Step::Pop(shard) => {
                    let Some(id) = self.lists[shard].pop_front() else { return };
                    let (word, begin) = self.items[id].word.begin(SHARDS[shard]);
                    self.items[id].word = word;
                    match begin {
                        Begin::Meet | Begin::Ledger => self.late.push(Late::Begin(id, SHARDS[shard])),
                        answer => self.begun(id, SHARDS[shard], answer),
                    }
                }
                Step::End(id) => {
                    if !self.items[id].runs || self.late.contains(&Late::End(id)) {
                        return;
                    }
                    let (word, end) = self.items[id].word.end();
                    self.items[id].word = word;
                    match end {
                        End::PutBack => self.late.push(Late::End(id)),
                        End::Idle => self.ended(id),
                    }
                }
                Step::GoOn(index) => {
                    if !self.late.is_empty() {
                        let late = self.late.remove(index % self.late.len());
                        self.go_on(late);
                    }
                }
            }
            self.check();
        }

        /// What is done holding the ledger's lock.
        fn go_on(&mut self, late: Late) {
            match late {
                Late::Queue(id, shard) => {
                    let item = &mut self.items[id];
                    let (word, queue) = item.word.queue_by_ledger(shard, item.stale.contains(&shard));
                    if item.word.leaves(shard) {
                        item.stale.push(item.word.home());
                    }
                    item.word = word;
                    if queue == Queue::Revived {
                        item.strike_out(shard);
                    }
                    assert_ne!(queue, Queue::Ledger);
                    self.queued(id, shard, queue);
                }
                Late::Begin(id, shard) => {
                    let item = &mut self.items[id];
                    let (word, begin) = item.word.begin_by_ledger(shard);
                    item.word = word;
                    match begin {
                        Begin::Meet => assert_eq!(item.kept.replace(shard), None, "two entries were kept"),
                        Begin::Ledger => {
                            assert!(item.stale.contains(&shard), "an entry that nobody knows of");
                            item.strike_out(shard);
                        }
                        Begin::Run | Begin::Stale => {}
                    }
                    self.begun(id, shard, begin);
                }
                Late::End(id) => {
                    let (word, end) = self.items[id].word.end_by_ledger();
                    self.items[id].word = word;
                    if end == End::PutBack {
                        let shard = self.items[id].kept.take().expect("an entry was kept");
                        self.lists[shard.0 as usize].push_front(id);
                    }
                    self.ended(id);
                }
                Late::Cancel(id) => {
                    let (word, cancel) = self.items[id].word.cancel_by_ledger();
                    self.items[id].word = word;
                    if cancel == Cancel::Ledger {
                        assert!(self.items[id].kept.take().is_some(), "an entry was kept");
                        self.completed += 1;
                    }
                    self.cancelled(id, cancel);
                }
            }
        }

        fn queued(&mut self, id: usize, shard: ShardId, queue: Queue) {
            let wanted = &mut self.items[id].wanted;
            match queue {
                Queue::Ledger => self.late.push(Late::Queue(id, shard)),
                Queue::Coalesced => assert!(wanted.is_some(), "coalesced with nothing"),
                Queue::Push | Queue::Revived => {
                    assert_eq!(wanted.replace(shard), None, "accepted while pending");
                    if queue == Queue::Push {
                        self.pushed += 1;
                        self.lists[shard.0 as usize].push_back(id);
                    }
                }
            }
        }

        fn begun(&mut self, id: usize, shard: ShardId, begin: Begin) {
            let item = &mut self.items[id];
            match begin {
                Begin::Run => {
                    assert!(!item.runs, "two workers execute it");
                    assert_eq!(item.wanted.take(), Some(shard), "not where it was queued to last");
                    item.runs = true;
                }
                Begin::Meet => {}
                Begin::Stale | Begin::Ledger => self.completed += 1,
            }
        }

        fn ended(&mut self, id: usize) {
            self.items[id].runs = false;
            self.completed += 1;
        }

        fn cancelled(&mut self, id: usize, cancel: Cancel) {
            let was_pending = self.items[id].wanted.take().is_some();
            assert_eq!(was_pending, cancel != Cancel::NotPending);
        }

        /// For each shard, the entries on its lists, or just popped from there, are those that the word and
        /// the ledger tell of.
        fn check(&self) {
            for (id, item) in self.items.iter().enumerate() {
                let word = item.word;
                assert_eq!((word.is_pending(), word.is_running()), (item.wanted.is_some(), item.runs));
                assert_eq!((word.is_stale(), word.is_met()), (!item.stale.is_empty(), item.kept.is_some()));
                for (shard, list) in SHARDS.iter().zip(&self.lists) {
                    let popped = usize::from(self.late.contains(&Late::Begin(id, *shard)));
                    let entries = list.iter().filter(|other| **other == id).count() + popped;
                    let at_home = word.is_listed() && word.home() == *shard;
                    let told =
                        usize::from(at_home) + item.stale.iter().filter(|named| *named == shard).count();
                    assert_eq!(
                        entries, told,
                        "entries of item {id} in {shard:?}: {word:?}, {:?}",
                        item.stale
                    );
                    assert!(entries <= 1, "item {id} has {entries} entries in {shard:?}");
                }
            }
        }

        /// Lets everything run to its end.
        fn finish(&mut self) {
            while !self.late.is_empty()
                || self.items.iter().any(|item| item.runs)
                || self.pushed > self.completed
            {
                let before = (self.late.len(), self.completed);
                self.step(Step::GoOn(0));
                (0..self.items.len()).for_each(|id| self.step(Step::End(id)));
                (0..self.lists.len()).for_each(|shard| self.step(Step::Pop(shard)));
                let idles = self.late.is_empty() && self.items.iter().all(|item| !item.runs);
                assert!(!idles || before != (0, self.completed), "an entry was lost");
            }
        }
    }

    impl Item {
        fn strike_out(&mut self, shard: ShardId) {
            self.stale.retain(|named| *named != shard);
            if self.stale.is_empty() {
                self.word = self.word.nothing_stale();
            }
        }
    }

    proptest! {
        /// spec: W2, W3, F3. Against a plain model: at most one run at a time; a queueing that was accepted
        /// and not cancelled leads to exactly one run, in the shard it was queued to; a cancelled one to
        /// none; every entry is completed once; nothing is left behind.
        #[test]
        fn agrees_with_a_plain_model(steps in prop::collection::vec(
            prop_oneof![
                5 => (0usize..2, 0usize..3).prop_map(|(item, shard)| Step::Queue(item, shard)),
                3 => (0usize..2).prop_map(Step::Cancel),
                4 => (0usize..3).prop_map(Step::Pop),
                2 => (0usize..2).prop_map(Step::End),
                4 => (0usize..8).prop_map(Step::GoOn),
            ],
            0..100,
        )) {
            let mut world = World::default();
            for step in steps {
                world.step(step);
            }
            world.finish();
            for item in &world.items {
                prop_assert_eq!(item.word.0 & ((1 << HOME) - 1), 0, "{:?}", item.word);
                prop_assert_eq!((&item.stale, item.kept, item.wanted), (&vec![], None, None));
            }
            prop_assert_eq!(world.pushed, world.completed);
        }
    }
}
