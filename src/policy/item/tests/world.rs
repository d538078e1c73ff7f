//! A simulated world of items, their slow-path states, lists, timers and a clock. The world consists of plain data. The
//! tests compare the world with a plain model of each item.
//!
//! In the engine, other threads can make steps after a transition has answered `Slow`, and before the thread has taken
//! the slow-path state's lock. In this world, a step that waits for the lock is *late*, and continues at
//! [`Step::GoOn`]. An operation that holds the lock from its beginning is one step.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::policy::deadlines::{Deadline, Deadlines};
use crate::policy::time::Time;

/// C is a shard of an ordered queue.
const SHARDS: [ShardId; 3] = [A, B, C];

/// The number of an accepted submission.
type Submission = u64;

/// The number of the last flush that had begun when an entry was pushed, or when an item was queued.
type Ticket = u64;

/// An entry of the item with the number `id`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    id: usize,
    ticket: Ticket,
}

/// An item with its slow-path state, and the plain model of the item.
#[derive(Default)]
struct Item {
    word: ItemState,
    stale: Vec<ShardId>,
    home: Option<Ticket>,
    /// The number of times that the item was queued to a shard other than the shard of its cancelled entry.
    moves: usize,
    kept: Option<(ShardId, Ticket)>,
    timer: Option<Deadline>,
    disabled: u32,
    /// The signals in the slow-path state. Here, a signal is the number of the submission that threads wait for.
    pending: Option<Submission>,
    running: Option<Submission>,
    /// A part of the model: the submission that has not begun to run, and its shard. The shard is `None` while a timer
    /// is armed.
    wanted: Option<(Submission, Option<ShardId>)>,
    /// A part of the model: no entry with a lower ticket may run the item, because flushes wait for such entries.
    not_before: Ticket,
    /// A part of the model: the submission that a worker is running now.
    runs: Option<Submission>,
    /// A part of the model: the submissions for which threads wait.
    waited: Vec<Submission>,
}

/// A step that was answered with `Slow`, and that does not hold the slow-path state's lock yet.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Late {
    Queue(usize, Target, Ticket),
    Begin(Entry, ShardId),
    End(usize),
    Cancel(usize),
    /// A timer that is due and was taken off the list of timers, but has not fired yet.
    Fire(usize, ShardId, Deadline),
}

impl Item {
    /// Returns the facts that the slow-path state knows about a shard, and about an entry with this ticket.
    fn known(&self, shard: ShardId, ticket: Ticket) -> Known {
        Known { named: self.stale.contains(&shard), alike: self.home == Some(ticket) }
    }
}

/// Two items and three shards.
#[derive(Default)]
struct World {
    items: [Item; 2],
    lists: [VecDeque<Entry>; 3],
    timers: Deadlines<(usize, ShardId)>,
    now: Time,
    late: Vec<Late>,
    /// The number of flushes that have begun, in all queues together. `waiting` says whether the last flushes still
    /// wait.
    flushes: Ticket,
    waiting: bool,
    submissions: Submission,
    pushed: usize,
    completed: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Queue(usize, usize),
    Cancel(usize),
    Pop(usize),
    /// A worker drops an entry instead of running it.
    Abandon(usize),
    End(usize),
    Arm {
        item: usize,
        shard: usize,
        delay: u64,
        again: bool,
    },
    /// Time passes.
    Advance(u64),
    Disable {
        item: usize,
        wait: bool,
    },
    Enable(usize),
    Flush(usize),
    /// A flush begins in every queue.
    FlushAll,
    /// All waiting flushes end.
    FlushesEnd,
    /// A late step gets the slow-path state's lock.
    GoOn(usize),
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Queue(id, shard) => {
                let target = self.target(SHARDS[shard]);
                let (word, queue) = self.items[id].word.queue(target);
                self.items[id].word = word;
                self.queued(id, target, self.flushes, queue);
            }
            Step::Cancel(id) => {
                let (word, cancel) = self.items[id].word.cancel();
                self.items[id].word = word;
                match cancel {
                    Cancel::Slow => self.late.push(Late::Cancel(id)),
                    answer => self.taken_back(id, answer == Cancel::Done),
                }
            }
            Step::Pop(shard) => self.pop(shard),
            Step::Abandon(shard) => self.abandon(shard),
            Step::End(id) => {
                if self.items[id].runs.is_none() || self.late.contains(&Late::End(id)) {
                    return;
                }
                let (word, end) = self.items[id].word.end();
                self.items[id].word = word;
                match end {
                    End::Slow => self.late.push(Late::End(id)),
                    End::Idle => self.ended(id),
                    End::PutBack => unreachable!("that takes the slow-path state"),
                }
            }
            Step::Arm { item, shard, delay, again } => self.arm(item, SHARDS[shard], delay, again),
            Step::Advance(millis) => self.advance(millis),
            Step::Disable { item, wait } => self.disable(item, wait),
            Step::Enable(id) => {
                let item = &mut self.items[id];
                item.disabled = item.disabled.saturating_sub(1);
                if item.disabled == 0 {
                    item.word = item.word.enable_slowly();
                }
            }
            Step::Flush(id) => self.wait(id, ItemState::wait_slowly),
            Step::FlushAll => {
                self.flushes += 1;
                self.waiting = true;
            }
            Step::FlushesEnd => {
                self.waiting = false;
                self.items.iter_mut().for_each(|item| item.not_before = 0);
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

    fn pop(&mut self, shard: usize) {
        // An ordered queue has one slot.
        if SHARDS[shard] == C && self.is_one_popped(C) {
            return;
        }
        let Some(entry) = self.lists[shard].pop_front() else { return };
        let item = &mut self.items[entry.id];
        let (word, begin) = item.word.begin(SHARDS[shard]);
        item.word = word;
        match begin {
            Begin::Slow => self.late.push(Late::Begin(entry, SHARDS[shard])),
            answer => self.begun(entry, SHARDS[shard], answer),
        }
    }

    fn abandon(&mut self, shard: usize) {
        // An entry that a worker has already popped must begin before another entry is dropped.
        if self.is_one_popped(SHARDS[shard]) {
            return;
        }
        let Some(Entry { id, ticket }) = self.lists[shard].pop_front() else { return };
        let item = &mut self.items[id];
        let (word, answer) = item.word.abandon_slowly(SHARDS[shard], item.known(SHARDS[shard], ticket));
        item.word = word;
        match answer {
            Begin::Run => self.taken_back_slowly(id, true),
            Begin::Strike => item.strike_out(SHARDS[shard]),
            Begin::Stale => {}
            Begin::Meet | Begin::Slow => unreachable!("an entry that the slow-path state does not know"),
        }
        self.completed += 1;
    }

    /// Returns whether a worker has popped an entry of this shard, and does not hold the slow-path state's lock yet.
    fn is_one_popped(&self, shard: ShardId) -> bool {
        self.late.iter().any(|late| matches!(late, Late::Begin(_, at) if *at == shard))
    }

    fn arm(&mut self, id: usize, shard: ShardId, delay: u64, again: bool) {
        let (word, arm) = self.items[id].word.arm_slowly(again);
        self.items[id].word = word;
        match arm {
            Arm::Armed { was_pending } => {
                self.taken_back_slowly(id, was_pending);
                let at = self.now + Duration::from_millis(delay);
                self.submissions += 1;
                let item = &mut self.items[id];
                item.timer = Some(self.timers.set(at, (id, shard)));
                item.wanted = Some((self.submissions, None));
            }
            Arm::Coalesced => assert!(self.items[id].wanted.is_some(), "coalesced with nothing"),
            Arm::Refused => assert!(self.items[id].disabled > 0, "refused though enabled"),
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        while let Some((timer, (id, shard))) = self.timers.take_due(self.now) {
            self.late.push(Late::Fire(id, shard, timer));
        }
    }

    fn disable(&mut self, id: usize, wait: bool) {
        self.items[id].disabled += 1;
        let (word, was_pending) = self.items[id].word.disable_slowly();
        self.items[id].word = word;
        self.taken_back_slowly(id, was_pending);
        if wait {
            self.wait(id, ItemState::attach_to_run_slowly);
        }
    }

    fn wait(&mut self, id: usize, ask: impl Fn(ItemState) -> (ItemState, Instance)) {
        let item = &mut self.items[id];
        let (word, instance) = ask(item.word);
        item.word = word;
        let (submission, place) = match instance {
            Instance::Pending => (item.wanted.map(|wanted| wanted.0), &mut item.pending),
            Instance::Running => (item.runs, &mut item.running),
            Instance::None => return assert!(item.runs.is_none(), "it runs, and no thread can wait for it"),
        };
        *place = submission;
        item.waited.extend(submission);
    }

    /// Continues a late step, under the slow-path state's lock.
    fn go_on(&mut self, late: Late) {
        match late {
            Late::Queue(id, target, ticket) => {
                let item = &mut self.items[id];
                let queue = item.queue_slowly(target, ticket, |word| word, ItemState::queue_slowly);
                assert_ne!(queue, Queue::Slow);
                self.queued(id, target, ticket, queue);
            }
            Late::Begin(entry, shard) => self.begin_late(entry, shard),
            Late::End(id) => {
                let item = &mut self.items[id];
                let (word, end) = item.word.end_slowly();
                item.word = word;
                if end == End::PutBack {
                    let (shard, ticket) = item.kept.take().expect("an entry was kept");
                    self.lists[shard.0 as usize].push_front(Entry { id, ticket });
                }
                self.ended(id);
                let item = &mut self.items[id];
                item.running.take().into_iter().for_each(|submission| item.tell(submission));
                item.forget_waiters();
            }
            Late::Cancel(id) => {
                let (word, was_pending) = self.items[id].word.cancel_slowly();
                self.items[id].word = word;
                self.taken_back_slowly(id, was_pending);
            }
            Late::Fire(id, shard, timer) => {
                let (target, ticket) = (self.target(shard), self.flushes);
                let item = &mut self.items[id];
                if item.timer.take_if(|meant| *meant == timer).is_none() {
                    return;
                }
                let submission = item.wanted.take().expect("it is armed").0;
                let queue = item.queue_slowly(target, ticket, ItemState::disarmed, ItemState::fire_slowly);
                assert!(matches!(queue, Queue::Push | Queue::Revived), "{queue:?} though it was armed");
                item.wanted = Some((submission, Some(shard)));
                self.push(id, target, ticket, queue);
            }
        }
    }

    fn begin_late(&mut self, entry: Entry, shard: ShardId) {
        let item = &mut self.items[entry.id];
        let (word, begin) = item.word.begin_slowly(shard, item.known(shard, entry.ticket));
        item.word = word;
        match begin {
            Begin::Meet => {
                let kept = item.kept.replace((shard, entry.ticket));
                assert_eq!(kept, None, "two entries were kept");
            }
            Begin::Run => item.running = item.pending.take(),
            Begin::Strike => item.strike_out(shard),
            Begin::Stale => {}
            Begin::Slow => unreachable!("an entry that the slow-path state does not know"),
        }
        self.begun(entry, shard, begin);
    }

    fn target(&self, shard: ShardId) -> Target {
        let ordered = shard == C;
        Target { shard, ordered, revives: !ordered && !self.waiting }
    }

    fn queued(&mut self, id: usize, target: Target, ticket: Ticket, queue: Queue) {
        match queue {
            Queue::Slow => self.late.push(Late::Queue(id, target, ticket)),
            Queue::Coalesced => assert!(self.items[id].wanted.is_some(), "coalesced with nothing"),
            Queue::Refused => assert!(self.items[id].disabled > 0, "refused though enabled"),
            Queue::Push | Queue::Revived => {
                self.submissions += 1;
                let wanted = self.items[id].wanted.replace((self.submissions, Some(target.shard)));
                assert_eq!(wanted, None, "accepted while pending");
                self.push(id, target, ticket, queue);
            }
        }
    }

    fn push(&mut self, id: usize, target: Target, ticket: Ticket, queue: Queue) {
        // A flush may treat a submission that began before the flush as an earlier submission.
        let is_later = self.waiting && !target.revives;
        self.items[id].not_before = if is_later { ticket } else { 0 };
        if queue == Queue::Push {
            self.pushed += 1;
            self.lists[target.shard.0 as usize].push_back(Entry { id, ticket });
        }
    }

    fn begun(&mut self, Entry { id, ticket }: Entry, shard: ShardId, begin: Begin) {
        let item = &mut self.items[id];
        match begin {
            Begin::Run => {
                assert!(ticket >= item.not_before, "a flush waits for a later submission");
                assert_eq!(item.runs, None, "two workers execute it");
                let (submission, at) = item.wanted.take().expect("it runs though no submission is pending");
                assert_eq!(at, Some(shard), "it runs in another shard than its last submission names");
                item.runs = Some(submission);
            }
            Begin::Meet => {}
            Begin::Stale | Begin::Strike => self.completed += 1,
            Begin::Slow => unreachable!("it was asked holding the lock"),
        }
    }

    fn ended(&mut self, id: usize) {
        self.items[id].runs = None;
        self.completed += 1;
    }

    fn taken_back(&mut self, id: usize, was_pending: bool) {
        let wanted = self.items[id].wanted.take();
        assert_eq!(wanted.is_some(), was_pending);
    }

    /// Does the same as [`taken_back`](Self::taken_back), and removes everything that belongs to the cancelled
    /// submission from the slow-path state.
    fn taken_back_slowly(&mut self, id: usize, was_pending: bool) {
        self.taken_back(id, was_pending);
        if was_pending {
            let item = &mut self.items[id];
            self.completed += usize::from(item.kept.take().is_some());
            if let Some(timer) = item.timer.take() {
                // The timer may have left the list of timers already, so that only its late step remains.
                let _removed = self.timers.cancel(timer);
            }
            item.pending.take().into_iter().for_each(|submission| item.tell(submission));
            item.forget_waiters();
        }
    }

    /// Checks that the word and the slow-path state name exactly the entries that lie on each shard's lists or were
    /// just popped from these lists. Also checks that each waiting thread waits for a submission that has not ended.
    fn check(&self) {
        for (id, item) in self.items.iter().enumerate() {
            let word = item.word;
            assert_eq!((word.is_pending(), word.is_running()), (item.wanted.is_some(), item.runs.is_some()));
            assert_eq!((word.is_stale(), word.is_met()), (!item.stale.is_empty(), item.kept.is_some()));
            assert_eq!((word.is_armed(), word.is_disabled()), (item.timer.is_some(), item.disabled > 0));
            let open = [item.wanted.map(|wanted| wanted.0), item.runs];
            assert!(
                item.waited.iter().all(|submission| open.contains(&Some(*submission))),
                "a waiting thread was not woken"
            );
            for (shard, list) in SHARDS.iter().zip(&self.lists) {
                let is_popped =
                    |late: &&Late| matches!(late, Late::Begin(entry, at) if (entry.id, at) == (id, shard));
                let popped = self.late.iter().filter(is_popped).count();
                let entries = list.iter().filter(|entry| entry.id == id).count() + popped;
                let at_home = word.is_listed() && word.home() == *shard;
                let told = usize::from(at_home) + item.stale.iter().filter(|named| *named == shard).count();
                assert_eq!(entries, told, "entries of item {id} in {shard:?}: {word:?}, {:?}", item.stale);
                // The slow-path state knows only the ticket of the entry at home. So while an item stays in one shard,
                // it has at most one entry for each flush, plus one.
                let at_most = self.flushes as usize + 1 + item.moves;
                assert!(entries <= at_most || *shard == C, "item {id} has {entries} entries in {shard:?}");
            }
        }
    }

    /// Runs every item to its end.
    fn finish(&mut self) {
        self.step(Step::Advance(1_000_000));
        while !self.late.is_empty()
            || self.items.iter().any(|item| item.runs.is_some())
            || self.pushed > self.completed
        {
            let before = (self.late.len(), self.completed);
            self.step(Step::GoOn(0));
            (0..self.items.len()).for_each(|id| self.step(Step::End(id)));
            (0..self.lists.len()).for_each(|shard| self.step(Step::Pop(shard)));
            let idles = self.late.is_empty() && self.items.iter().all(|item| item.runs.is_none());
            assert!(!idles || before != (0, self.completed), "an entry was lost");
        }
    }
}

impl Item {
    fn queue_slowly(
        &mut self,
        target: Target,
        ticket: Ticket,
        before: impl Fn(ItemState) -> ItemState,
        transition: impl Fn(ItemState, Target, Known) -> (ItemState, Queue),
    ) -> Queue {
        let known = self.known(target.shard, ticket);
        let (word, queue) = transition(self.word, target, known);
        let before = before(self.word);
        if before.leaves(target, known) {
            self.stale.push(before.home());
            self.moves += usize::from(before.home() != target.shard);
        }
        self.word = word;
        match queue {
            Queue::Push => self.home = (!target.ordered && !self.stale.is_empty()).then_some(ticket),
            Queue::Revived if !before.is_listed_at(target.shard) => {
                self.home = None;
                self.strike_out(target.shard);
            }
            _ => {}
        }
        queue
    }

    fn strike_out(&mut self, shard: ShardId) {
        if let Some(at) = self.stale.iter().position(|named| *named == shard) {
            self.stale.remove(at);
        }
        if self.stale.is_empty() {
            self.home = None;
            self.word = self.word.nothing_stale();
        }
    }

    fn tell(&mut self, submission: Submission) {
        let open = [self.wanted.map(|wanted| wanted.0), self.runs];
        assert!(!open.contains(&Some(submission)), "told too soon");
        self.waited.retain(|waited| *waited != submission);
    }

    fn forget_waiters(&mut self) {
        if self.pending.is_none() && self.running.is_none() {
            self.word = self.word.nothing_attached();
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (item, shard) = (0usize..2, 0usize..3);
    let arm = (item.clone(), shard.clone(), 0u64..20, any::<bool>());
    let step = prop_oneof![
        8 => (item.clone(), shard.clone()).prop_map(|(item, shard)| Step::Queue(item, shard)),
        4 => item.clone().prop_map(Step::Cancel),
        8 => shard.clone().prop_map(Step::Pop),
        1 => shard.prop_map(Step::Abandon),
        4 => item.clone().prop_map(Step::End),
        4 => arm.prop_map(|(item, shard, delay, again)| Step::Arm { item, shard, delay, again }),
        3 => (0u64..15).prop_map(Step::Advance),
        2 => (item.clone(), any::<bool>()).prop_map(|(item, wait)| Step::Disable { item, wait }),
        3 => item.clone().prop_map(Step::Enable),
        3 => item.prop_map(Step::Flush),
        2 => Just(Step::FlushAll),
        1 => Just(Step::FlushesEnd),
        8 => (0usize..8).prop_map(Step::GoOn),
    ];
    prop::collection::vec(step, 0..100)
}

/// Returns the number of test cases: the value of `CMWQ_ITEM_CASES`, or 5 000 if this variable is not set.
fn cases() -> u32 {
    std::env::var_os("CMWQ_ITEM_CASES").map_or(5_000, |cases| {
        let number = cases.to_str().and_then(|cases| cases.parse().ok());
        number.unwrap_or_else(|| panic!("CMWQ_ITEM_CASES is {cases:?}; it must be a number"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// spec: W2, W3.1, W5.2, F1.2, F2, F3, Q4. Compares the word with a plain model, in virtual time. An item runs at
    /// most once at a time. An accepted submission that is not cancelled leads to exactly one run, in the shard to
    /// which it was queued. A cancelled submission leads to no run. If a flush waits for an entry, this entry is not
    /// used for the run of a submission that came after the flush. Each waiting thread is woken after its submission
    /// has ended, and never earlier. Every entry is completed once. At the end, no item leaves any state behind.
    #[test]
    fn agrees_with_a_plain_model(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
        }
        world.finish();
        for item in &world.items {
            prop_assert_eq!(item.word.0 & (((1 << HOME) - 1) & !DISABLED), 0, "{:?}", item.word);
            prop_assert_eq!((&item.stale, item.kept, item.wanted, item.timer), (&vec![], None, None, None));
            prop_assert_eq!((&item.waited, item.pending, item.running), (&vec![], None, None));
        }
        prop_assert_eq!(world.pushed, world.completed);
    }
}
