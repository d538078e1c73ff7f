//! Random runs of several flushes at the same time, over several limiters. Some items that are queued after a flush has
//! begun wait for this flush. Some items are reusable, and are cancelled and queued again during the flushes.
//!
//! The runs use the crate's own cells. Each step of a thread is one call into these cells. The loom models cover
//! interleavings *within* such a call. `CMWQ_SIM_RUNS` and `CMWQ_SIM_SEED` have the same meaning as for all runs.
//!
//! Red under: `counts-what-has-a-ticket`, `later-item-is-not-held`, `waits-for-its-own-tickets`.

#![forbid(unsafe_code)]

mod arrivals;
mod seen;
mod works;

use std::cell::RefCell;
use std::collections::VecDeque;

use self::seen::Seen;
use self::works::{Issue, Work};
use super::prng::Prng;
use super::seeds::runs;
use crate::policy::admission::{Admission, Intake, Slot};
use crate::policy::flush::Ticket;
use crate::protocol::flush::{Flush, FlushCell, Rest};
use crate::protocol::limiter::{Came, Left, LimiterCell};

const RUNS: u64 = 20_000;
const STEPS: usize = 60;

/// spec: F1.2, F1.5, F1.6 (a flush waits for exactly the items that were queued before it, however many threads flush.
/// The flush ends even if a later item waits for it. In some runs, the later item is a reusable item that was queued
/// and cancelled before the flush. In other runs, an earlier item that needs the later item's slot is still on its
/// way.)
#[test]
fn a_flush_ends_with_the_last_item_that_was_queued_before_it() {
    let mut seen = Seen::default();
    let complete = runs(RUNS, |seed, trace| {
        let mut world = World::new(seed, trace);
        (0..STEPS).for_each(|_| world.step());
        world.run_out();
        seen.add(&world.seen);
    });
    if complete {
        seen.assert_complete();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The item's issuer is about to put the item on the waiting list.
    Coming,
    /// The item has a slot, but its issuer has not queued it yet.
    Admitted,
    Listed,
    /// The item has a slot. If it is a one-shot item, it runs. If it is an entry of a reusable item, it waits for a
    /// worker.
    Active,
    /// A worker has taken this entry, and runs the reusable item.
    Running,
    /// The slow-path state of the reusable item keeps this entry until the present run ends.
    Kept,
    /// The item has left its limiter, but its thread has not reported this to the flushes yet.
    Reporting,
    Done,
}

/// A one-shot item, or one entry of a reusable item.
#[derive(Debug)]
struct Item {
    work: Option<usize>,
    limiter: usize,
    ticket: Option<Ticket>,
    state: State,
    /// The flush that must end before this item can end.
    waits_for: Option<usize>,
    /// Whether a flush counted the item as coming, and the issuer has not yet reported that the item has arrived.
    is_arriving: bool,
}

impl Item {
    fn is_in_flight(&self) -> bool {
        !matches!(self.state, State::Reporting | State::Done)
    }
}

#[derive(Debug)]
struct Flusher {
    /// `None` after the flush was abandoned.
    flush: Option<Flush>,
    /// The items that were in flight when the flush began.
    before: Vec<usize>,
}

impl Flusher {
    fn waits(&self) -> bool {
        self.flush.is_some()
    }

    fn is_over(&self) -> bool {
        self.flush.as_ref().is_none_or(Flush::is_over)
    }
}

struct Limiter {
    cell: LimiterCell,
    list: RefCell<VecDeque<usize>>,
}

struct World {
    prng: Prng,
    trace: bool,
    cell: FlushCell<usize>,
    limiters: Vec<Limiter>,
    items: Vec<Item>,
    works: [Work; 2],
    issues: Vec<Issue>,
    flushers: Vec<Flusher>,
    /// Whether a thread was told to end the flushes' count of items, and has not ended it yet.
    ends_count: bool,
    /// The number of references to the queue that the flushes' counts of items hold.
    references: usize,
    seen: Seen,
}

impl World {
    fn new(seed: u64, trace: bool) -> Self {
        let mut prng = Prng::new(seed);
        let limiters = (0..prng.within(1..=3)).map(|_| Limiter::new(prng.within(1..=3))).collect();
        Self {
            prng,
            trace,
            cell: FlushCell::new(),
            limiters,
            items: Vec::new(),
            works: [Work::new(), Work::new()],
            issues: Vec::new(),
            flushers: Vec::new(),
            ends_count: false,
            references: 0,
            seen: Seen::default(),
        }
    }

    fn step(&mut self) {
        match self.prng.below(29) {
            0..6 => self.come(),
            6..9 => self.with_one(State::Coming, Self::arrive),
            9 => self.with_one(State::Coming, Self::withdraw),
            10..14 => self.with_one(State::Active, Self::go_on),
            14..16 => self.with_one(State::Reporting, Self::report),
            16 => self.flush(),
            17 => self.abandon(),
            18 => self.end_count(),
            19 => self.change_a_limiter(),
            20..22 => self.begin_to_queue(),
            22..24 => self.queue_work(),
            24 => self.cancel_work(),
            25..27 => self.say_arrived(),
            _ => self.with_one(State::Running, Self::end_work),
        }
        self.check();
    }

    /// Lets all items and flushes end in a random order. No further item or flush begins meanwhile. Each limiter gets
    /// at least one slot.
    fn run_out(&mut self) {
        for limiter in 0..self.limiters.len() {
            let max = self.prng.within(1..=3);
            self.set_max(limiter, max);
        }
        let mut steps = 0;
        let is_busy = |world: &Self| {
            let at_work = world.items.iter().any(|item| item.state != State::Done);
            let arrives = world.items.iter().any(|item| item.is_arriving);
            at_work || arrives || world.ends_count || !world.issues.is_empty()
        };
        while is_busy(self) {
            match self.prng.below(7) {
                5 => self.say_arrived(),
                0 => self.with_one(State::Coming, Self::arrive),
                1 => self.with_one(State::Active, Self::go_on),
                2 => self.with_one(State::Reporting, Self::report),
                3 => self.with_one(State::Running, Self::end_work),
                4 => self.queue_work(),
                _ => self.end_count(),
            }
            self.check();
            steps += 1;
            assert!(steps < 100_000, "a flush hangs: {:#?}", self.flushers);
        }
        let (flush, rest) = self.cell.begin(self.cells(), || panic!("nothing is in flight"));
        assert!(flush.is_none() && self.references == 0);
        rest.wake();
        self.works.iter().for_each(Work::assert_quiet);
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        if self.trace {
            eprintln!("{what}");
        }
    }

    fn with_one(&mut self, state: State, act: fn(&mut Self, usize)) {
        let there: Vec<usize> =
            (0..self.items.len()).filter(|item| self.items[*item].state == state).collect();
        if !there.is_empty() {
            let item = self.prng.pick(&there);
            self.say(format_args!("{act_name} item {item}", act_name = std::any::type_name_of_val(&act)));
            act(self, item);
        }
    }

    fn come(&mut self) {
        let limiter = self.prng.below(self.limiters.len());
        let waits_for = self.choose_a_flush(usize::MAX);
        let (ticket, state) = self.admit(limiter);
        self.say(format_args!("item {} comes: {state:?} {ticket:?} {waits_for:?}", self.items.len()));
        self.items.push(Item { work: None, limiter, ticket, state, waits_for, is_arriving: false });
    }

    /// Chooses one of the first `most` flushes, or none. A later item will wait for the chosen flush.
    fn choose_a_flush(&mut self, most: usize) -> Option<usize> {
        let begun = self.flushers.len().min(most);
        let waiting: Vec<usize> = (0..begun).filter(|flush| self.flushers[*flush].waits()).collect();
        let chosen = (self.prng.chance(50) && !waiting.is_empty()).then(|| self.prng.pick(&waiting));
        self.seen.waiting_items += usize::from(chosen.is_some());
        chosen
    }

    fn admit(&mut self, limiter: usize) -> (Option<Ticket>, State) {
        let cell = &self.limiters[limiter].cell;
        let (came, ticket) = match cell.admit() {
            Came::Flushing => self.cell.admit(|| cell.admit_beside_flush(None), |came| came.admitted()),
            came => (came, None),
        };
        self.seen.tickets += usize::from(ticket.is_some());
        self.seen.late_ends += usize::from(self.ends_count);
        (ticket, if came == Came::Started { State::Active } else { State::Coming })
    }

    /// Puts a one-shot item on the waiting list. [`queue_work`](Self::queue_work) puts reusable items on the list.
    fn arrive(&mut self, item: usize) {
        if self.items[item].work.is_none() {
            self.list(item);
        }
    }

    fn withdraw(&mut self, item: usize) {
        if self.items[item].work.is_none() {
            self.take_back(item);
        }
    }

    fn go_on(&mut self, item: usize) {
        match self.items[item].work {
            None => self.complete(item),
            Some(work) => self.begin_work(work, item),
        }
    }

    fn cells(&self) -> impl Iterator<Item = &LimiterCell> + Clone {
        self.limiters.iter().map(|limiter| &limiter.cell)
    }

    fn start_first(&mut self, limiter: usize) {
        let item =
            self.limiters[limiter].list.borrow_mut().pop_front().expect("a slot goes to a listed item");
        self.items[item].state = State::Active;
    }

    fn complete(&mut self, item: usize) {
        if !self.waits(item) {
            self.leave(item);
        }
    }

    fn waits(&self, item: usize) -> bool {
        self.items[item].waits_for.is_some_and(|flush| !self.flushers[flush].is_over())
    }

    /// Lets an item give up its slot.
    fn leave(&mut self, item: usize) {
        let Item { limiter, ticket, .. } = self.items[item];
        let cell = &self.limiters[limiter].cell;
        let left = match ticket {
            None => cell.complete(),
            Some(ticket) => {
                let (left, rest) = self.cell.complete(ticket, || cell.complete());
                self.settle(rest);
                left
            }
        };
        self.left(item, left);
    }

    fn left(&mut self, item: usize, left: Left) {
        let Item { limiter, ticket, .. } = self.items[item];
        let reports = left.was_counted && ticket.is_none();
        self.items[item].state = if reports { State::Reporting } else { State::Done };
        if left.slot == Slot::Handed {
            self.start_first(limiter);
        }
    }

    fn report(&mut self, item: usize) {
        self.items[item].state = State::Done;
        if self.cell.unreported.report() {
            assert!(!self.ends_count, "two threads end a count");
            self.ends_count = true;
        }
    }

    fn end_count(&mut self) {
        if std::mem::take(&mut self.ends_count) {
            let rest = self.cell.end_count(self.cells());
            self.settle(rest);
        }
    }

    fn flush(&mut self) {
        let before: Vec<usize> =
            (0..self.items.len()).filter(|item| self.items[*item].is_in_flight()).collect();
        let mut references = 0;
        let (flush, rest) = self.cell.begin(self.cells(), || references += 1);
        self.references += references;
        self.settle(rest);
        self.say(format_args!("{flush:?} begins after {before:?}"));
        self.seen.flushes += 1;
        let others = self.flushers.iter().any(|flusher| !flusher.is_over());
        self.seen.overlapping += usize::from(others);
        match flush {
            None => assert!(before.is_empty(), "a flush is over before it has begun"),
            Some(flush) => self.flushers.push(Flusher { flush: Some(flush), before }),
        }
    }

    fn abandon(&mut self) {
        let waiting: Vec<usize> =
            (0..self.flushers.len()).filter(|flush| self.flushers[*flush].waits()).collect();
        if !waiting.is_empty() {
            let flusher = self.prng.pick(&waiting);
            self.say(format_args!("flush {flusher} is abandoned"));
            self.flushers[flusher].flush.take().into_iter().for_each(|flush| self.cell.abandon(flush));
            self.seen.abandoned += 1;
        }
    }

    fn change_a_limiter(&mut self) {
        if self.limiters.len() < 4 && self.prng.chance(30) {
            let limiter = Limiter::new(self.prng.within(1..=3));
            self.cell.add_limiter(Some(&limiter.cell), || ());
            self.limiters.push(limiter);
        } else {
            let limiter = self.prng.below(self.limiters.len());
            let max = self.prng.within(0..=3);
            self.set_max(limiter, max);
        }
    }

    fn set_max(&mut self, limiter: usize, max: usize) {
        self.limiters[limiter].cell.set(max, Intake::Open);
        while self.limiters[limiter].cell.start_listed() {
            self.start_first(limiter);
        }
    }

    fn settle(&mut self, mut rest: Rest<usize>) {
        if rest.ends_count {
            self.references -= 1;
        }
        for item in rest.started.drain(..) {
            self.items[item].state = State::Active;
        }
        rest.wake();
    }

    /// Checks that each flush ends only after all items before it have left their limiters. Also checks that the flush
    /// has ended once these items have reported that they have left.
    fn check(&self) {
        for (number, flusher) in self.flushers.iter().enumerate().filter(|(_, flusher)| flusher.waits()) {
            let is_over = flusher.is_over();
            let all_are = |is: fn(&Item) -> bool| flusher.before.iter().all(|item| is(&self.items[*item]));
            assert!(!is_over || all_are(|item| !item.is_in_flight()), "flush {number} ends early");
            let late = |item: &Item| item.state == State::Reporting;
            let is_due =
                all_are(|item| item.state == State::Done) && !self.ends_count && !self.items.iter().any(late);
            assert!(is_over || !is_due, "flush {number} waits for a later item");
        }
    }
}

impl Limiter {
    fn new(max: usize) -> Self {
        Self { cell: LimiterCell::new(Admission::new(max)), list: RefCell::default() }
    }
}
