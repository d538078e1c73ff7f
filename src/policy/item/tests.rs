//! The item's word against tables, and against a plain model with real lists.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const A: ShardId = ShardId::new(0);
const B: ShardId = ShardId::new(1);
const C: ShardId = ShardId::new(2);
const SHARDS: [ShardId; 3] = [A, B, C];

fn to(shard: ShardId) -> Target {
    Target { shard, ordered: false }
}

fn idle() -> ItemState {
    ItemState::default()
}

/// Pending, its entry on a list of A.
fn pending() -> ItemState {
    idle().queue(to(A)).0
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
    running().queue(to(A)).0
}

/// Running; the next entry, of A, was met.
fn met() -> ItemState {
    running_and_pending().begin_by_ledger(A, false).0
}

/// Queued to A, cancelled, queued to B and cancelled: the ledger names A.
fn stale() -> ItemState {
    cancelled().queue_by_ledger(to(B), false).0.cancel().0
}

/// spec: W9 (an item may drop its own last handle): it is over once, with the last of handles, entries and runs.
#[test]
fn an_item_is_over_when_nobody_knows_it() {
    let new = ItemState::new();
    assert!(!new.is_over());
    assert!(new.drop_handle().is_over(), "never queued");
    let cloned = new.add_handle().unwrap();
    assert!(!cloned.drop_handle().is_over());

    let queued = new.queue(to(A)).0.drop_handle();
    assert!(!queued.is_over(), "what was accepted runs");
    let running = queued.begin(A).0;
    assert!(!running.is_over());
    assert!(running.end().0.is_over());

    let cancelled = new.queue(to(A)).0.cancel().0.drop_handle();
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
        let (next, queue) = word.queue(to(shard));
        assert_eq!(queue, answer, "{word:?} to {shard:?}");
        let takes_effect = matches!(answer, Queue::Push | Queue::Revived);
        assert!(!takes_effect || next.is_pending() && next.home() == shard, "{next:?}");
        assert!(takes_effect || next == word, "{next:?}");
    }
}

#[test]
fn queueing_an_item_elsewhere_notes_or_revives_its_cancelled_entries() {
    assert!(cancelled().leaves(to(B)) && !cancelled().leaves(to(A)));
    let (word, queue) = cancelled().queue_by_ledger(to(B), false);
    assert_eq!(queue, Queue::Push);
    assert!(word.is_pending() && word.is_stale() && word.home() == B);

    // Back to A, whose entry the ledger names; that of B takes its place there.
    assert!(stale().leaves(to(A)));
    let (word, queue) = stale().queue_by_ledger(to(A), true);
    assert_eq!(queue, Queue::Revived);
    assert!(word.is_pending() && word.is_stale() && word.home() == A);

    // The entry of B has been popped meanwhile: nothing is left behind.
    let popped = stale().begin_by_ledger(B, false).0;
    assert!(!popped.leaves(to(C)));
    assert_eq!(popped.queue_by_ledger(to(C), false).1, Queue::Push);
}

/// spec: W3 (at most one worker executes it)
#[test]
fn popping_an_entry() {
    let table = [
        (pending(), A, Begin::Run),
        (cancelled(), A, Begin::Stale),
        (running_and_pending(), A, Begin::Ledger),
        (running_and_pending().cancel().0, A, Begin::Stale),
        (stale(), A, Begin::Ledger),
        (stale(), B, Begin::Ledger),
        (cancelled().queue_by_ledger(to(B), false).0, A, Begin::Ledger),
        (cancelled().queue_by_ledger(to(B), false).0, B, Begin::Ledger),
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
    assert_eq!(met().end(), (met(), End::Ledger));
    assert_eq!(met().end_by_ledger(), (pending(), End::PutBack));
    // It ended, or was cancelled, before the other worker had the ledger's lock.
    assert_eq!(running_and_pending().end().0.begin_by_ledger(A, false).1, Begin::Run);
    assert_eq!(running_and_pending().cancel().0.begin_by_ledger(A, false).1, Begin::Stale);
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
    assert_eq!(met().cancel_by_ledger(), (running(), true));
    // The runner put the entry back before the canceller had the ledger's lock.
    assert_eq!(met().end_by_ledger().0.cancel_by_ledger(), (cancelled(), true));
}

/// A worker popped the entry of A, which the ledger names, and waits for the ledger's lock. Meanwhile the
/// item is queued to A again, which revives this very entry: asking again is what runs it.
#[test]
fn an_entry_revived_between_its_pop_and_the_ledger_runs() {
    let (word, begin) = stale().begin(A);
    assert_eq!(begin, Begin::Ledger);
    let (word, queue) = word.queue_by_ledger(to(A), true);
    assert_eq!(queue, Queue::Revived);
    assert_eq!(word.begin_by_ledger(A, false).1, Begin::Run);
}

#[test]
fn shards_are_told_apart_up_to_the_last_one() {
    let last = ShardId::new(ShardId::MAX);
    let word = idle().queue(to(last)).0;
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
                let (word, queue) = self.items[id].word.queue(to(SHARDS[shard]));
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
                    Begin::Ledger => self.late.push(Late::Begin(id, SHARDS[shard])),
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
                    End::Ledger => self.late.push(Late::End(id)),
                    End::Idle => self.ended(id),
                    End::PutBack => unreachable!("that takes the ledger"),
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
                let (word, queue) = item.word.queue_by_ledger(to(shard), item.stale.contains(&shard));
                if item.word.leaves(to(shard)) {
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
                let (word, begin) = item.word.begin_by_ledger(shard, item.stale.contains(&shard));
                item.word = word;
                match begin {
                    Begin::Meet => assert_eq!(item.kept.replace(shard), None, "two entries were kept"),
                    Begin::Ledger => unreachable!("an entry that nobody knows of"),
                    Begin::Strike => {
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
                let (word, was_pending) = self.items[id].word.cancel_by_ledger();
                self.items[id].word = word;
                if was_pending && self.items[id].kept.take().is_some() {
                    self.completed += 1;
                }
                self.cancelled(id, if was_pending { Cancel::Done } else { Cancel::NotPending });
            }
        }
    }

    fn queued(&mut self, id: usize, shard: ShardId, queue: Queue) {
        let wanted = &mut self.items[id].wanted;
        match queue {
            Queue::Ledger => self.late.push(Late::Queue(id, shard)),
            Queue::Refused => unreachable!("nobody disabled it"),
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
            Begin::Stale | Begin::Strike => self.completed += 1,
            Begin::Ledger => unreachable!("it was asked holding the lock"),
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
                let told = usize::from(at_home) + item.stale.iter().filter(|named| *named == shard).count();
                assert_eq!(entries, told, "entries of item {id} in {shard:?}: {word:?}, {:?}", item.stale);
                assert!(entries <= 1, "item {id} has {entries} entries in {shard:?}");
            }
        }
    }

    /// Lets everything run to its end.
    fn finish(&mut self) {
        while !self.late.is_empty() || self.items.iter().any(|item| item.runs) || self.pushed > self.completed
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
