//! Records what the threads of a machine do: the events in their order, the running items, and the reasons for waits.
//! Reports of failures are made from the record.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Write};

use super::baton::{Inner, NONE};
use super::schedule::{State, Tid};
use crate::policy::time::Time;
use crate::sys::affinity::ThreadId;

/// A record keeps at most this many events, and only counts older events.
const KEPT: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Record {
    events: VecDeque<Event>,
    /// The number of older events, which the record has dropped.
    forgotten: usize,
    threads: BTreeMap<Tid, Doing>,
    /// For the address of each lock, the threads that hold the lock.
    holders: BTreeMap<usize, Vec<Tid>>,
    /// The panics of items, except the panics of which a thread was told.
    pub(super) panics: Vec<Panic>,
}

/// The present activity of a thread.
#[derive(Default, Debug)]
struct Doing {
    /// The items that the thread runs, in the order in which they began. While an item waits in `join` for another
    /// item, the waiting thread may run the other item.
    items: Vec<Item>,
    waits: Option<Waits>,
    /// The thread's id in the system.
    system: Option<ThreadId>,
}

/// An item that a thread runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// The address of the item.
    pub(super) address: usize,
    pub(super) name: &'static str,
    pub(super) queue: String,
    /// Whether the plan of faults makes this run of the item panic.
    pub(super) panics: bool,
}

/// The panic of an item.
#[derive(Debug)]
pub(super) struct Panic {
    pub(super) thread: Tid,
    pub(super) address: usize,
    pub(super) item: String,
    /// Whether the test knows of the panic in another way: it has planned the panic, or the executor has a panic
    /// handler.
    pub(super) is_known: bool,
}

/// The reason for a thread's wait, and a description for reports.
#[derive(Clone, Debug)]
pub(super) enum Waits {
    /// The thread waits for the item at this address.
    Item(usize, String),
    /// The thread waits for the items of the queue with this name.
    Queue(String, String),
    /// The thread waits for the lock at this address.
    Lock(usize),
    /// The thread waits for the end of the thread with this number.
    Thread(Tid),
    Other(&'static str),
}

/// An event of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) thread: String,
    pub(crate) what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.at.as_nanos();
        let (seconds, micros) = (nanos / 1_000_000_000, nanos / 1000 % 1_000_000);
        write!(f, "{seconds:5}.{micros:06}  {:18} {}", self.thread, self.what)
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {} of queue {:?}", self.name, self.queue)
    }
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            forgotten: 0,
            threads: BTreeMap::new(),
            holders: BTreeMap::new(),
            panics: Vec::new(),
        }
    }

    /// Notes that the calling thread is the machine's thread with this number.
    pub(super) fn arrives(&mut self, thread: Tid) {
        self.threads.entry(thread).or_default().system = Some(ThreadId::of_system());
    }

    pub(super) fn system_id(&self, thread: Tid) -> Option<ThreadId> {
        self.threads.get(&thread)?.system
    }

    pub(super) fn begins(&mut self, thread: Tid, item: Item) {
        self.threads.entry(thread).or_default().items.push(item);
    }

    pub(super) fn ends(&mut self, thread: Tid) -> Option<Item> {
        self.threads.get_mut(&thread)?.items.pop()
    }

    /// Sets the reason for the thread's wait. Returns the former reason.
    pub(super) fn waits(&mut self, thread: Tid, what: Option<Waits>) -> Option<Waits> {
        std::mem::replace(&mut self.threads.entry(thread).or_default().waits, what)
    }

    pub(super) fn holds(&mut self, thread: Tid, lock: usize) {
        self.holders.entry(lock).or_default().push(thread);
    }

    pub(super) fn lets_go(&mut self, thread: Tid, lock: usize) {
        if let Some(holders) = self.holders.get_mut(&lock) {
            // A guard may be dropped on a thread other than the one that took the lock.
            let at = holders.iter().position(|holder| *holder == thread).unwrap_or(0);
            holders.remove(at);
            if holders.is_empty() {
                self.holders.remove(&lock);
            }
        }
    }

    /// Returns the events that the record has kept, and the number of older events.
    pub(super) fn events(&self) -> (Vec<Event>, usize) {
        (self.events.iter().cloned().collect(), self.forgotten)
    }

    /// Returns the items of whose panics no thread was told.
    pub(super) fn untold_panics(&self) -> Vec<String> {
        self.panics.iter().filter(|panic| !panic.is_known).map(|panic| panic.item.clone()).collect()
    }

    /// Removes the last panic that `which` selects, because a thread was told of this panic.
    pub(super) fn panic_is_told(&mut self, which: impl Fn(&Panic) -> bool) {
        if let Some(at) = self.panics.iter().rposition(which) {
            self.panics.remove(at);
        }
    }

    fn item(&self, thread: Tid) -> Option<&Item> {
        self.threads.get(&thread)?.items.last()
    }
}

impl Inner {
    pub(super) fn note(&mut self, thread: Tid, what: String) {
        self.note_of(self.schedule.name(thread).to_owned(), what);
    }

    pub(super) fn note_of(&mut self, thread: String, what: String) {
        let event = Event { at: self.schedule.now, thread, what };
        let events = &mut self.record.events;
        if events.len() == KEPT {
            events.pop_front();
            self.record.forgotten += 1;
        }
        events.push_back(event);
    }

    /// Returns whether the machine refuses to make a thread with this name. Notes a refusal that the plan of faults
    /// causes.
    pub(super) fn refuses_thread(&mut self, me: Tid, name: &str) -> bool {
        let now = self.schedule.now;
        let is_fault = self.schedule.faults.refuses_thread(now);
        if is_fault {
            self.note(me, format!("fault: makes no thread {name:?}"));
        }
        is_fault || self.schedule.refuses(name)
    }

    /// If CPUs have gone away or come back, notes this change as an event.
    pub(super) fn note_changes(&mut self) {
        if let Some(change) = self.schedule.faults.take_change() {
            self.note_of("the machine".to_owned(), change);
        }
    }

    /// Returns whether the plan of faults makes the thread's present item panic. Notes the planned panic as an event.
    pub(super) fn panics_as_planned(&mut self, thread: Tid) -> bool {
        let Some(item) = self.record.item(thread).filter(|item| item.panics) else { return false };
        let what = format!("fault: lets {item} panic");
        self.note(thread, what);
        true
    }

    /// Returns the name of a thread, with the item that it runs.
    pub(super) fn thread_with_item(&self, thread: Tid) -> String {
        let name = self.schedule.name(thread);
        self.record.item(thread).map_or_else(|| name.to_owned(), |item| format!("{name}, in {item},"))
    }

    /// Returns the threads for which this thread waits.
    fn waits_for(&self, thread: Tid) -> Vec<Tid> {
        let threads = &self.record.threads;
        let runs = |test: &dyn Fn(&Item) -> bool| {
            let all = threads.iter().filter(|(_, doing)| doing.items.iter().any(test));
            all.map(|(thread, _)| *thread).collect()
        };
        match threads.get(&thread).and_then(|doing| doing.waits.as_ref()) {
            Some(Waits::Item(address, _)) => runs(&|item| item.address == *address),
            Some(Waits::Queue(queue, _)) => runs(&|item| item.queue == *queue),
            Some(Waits::Lock(lock)) => self.record.holders.get(lock).cloned().unwrap_or_default(),
            Some(Waits::Thread(other)) => vec![*other],
            Some(Waits::Other(_)) | None => Vec::new(),
        }
    }

    /// Returns a line for the main thread, if it waits, and for each waiting thread that runs an item or gives a
    /// reason for its wait.
    pub(super) fn waiting(&self) -> String {
        let sleeps =
            |thread: &Tid| matches!(self.schedule.threads[*thread].state, State::Sleeps | State::Wakes);
        let is_of_interest = |thread: &Tid| {
            let doing = self.record.threads.get(thread);
            *thread == 0 || doing.is_some_and(|doing| doing.waits.is_some() || !doing.items.is_empty())
        };
        let mut text = String::new();
        for thread in (0..self.schedule.threads.len()).filter(sleeps).filter(is_of_interest) {
            let key = || self.sleepers.iter().find(|(_, all)| all.contains(&thread)).map(|(key, _)| *key);
            let what = match self.record.threads.get(&thread).and_then(|doing| doing.waits.as_ref()) {
                Some(Waits::Item(_, what) | Waits::Queue(_, what)) => what.clone(),
                Some(Waits::Lock(_)) => "a lock".to_owned(),
                Some(Waits::Thread(_)) => "the end of a thread".to_owned(),
                Some(Waits::Other(what)) => (*what).to_owned(),
                None => key().map_or_else(|| "a time".to_owned(), |key| format!("{key:?}")),
            };
            let awaited = self.waits_for(thread);
            let by: Vec<_> = awaited.iter().map(|thread| self.schedule.name(*thread)).collect();
            let by = if by.is_empty() { String::new() } else { format!(" (of {})", by.join(", ")) };
            _ = write!(text, "\n  {} waits for {what}{by}", self.thread_with_item(thread));
        }
        text
    }

    /// Returns a line about threads that wait for each other in a circle. If there are none, returns an empty text.
    fn circle(&self) -> String {
        let starts = self.record.threads.keys();
        let found = starts.filter_map(|start| self.way_back(*start, *start, &mut Vec::new())).next();
        let Some(circle) = found else { return String::new() };
        let names: Vec<_> = circle.iter().map(|thread| self.thread_with_item(*thread)).collect();
        format!("\nin a circle: {} waits for the first", names.join(" waits for "))
    }

    fn way_back(&self, start: Tid, at: Tid, passed: &mut Vec<Tid>) -> Option<Vec<Tid>> {
        passed.push(at);
        let awaited = self.waits_for(at);
        if awaited.contains(&start) {
            return Some(passed.clone());
        }
        let further = awaited
            .into_iter()
            .find_map(|next| if passed.contains(&next) { None } else { self.way_back(start, next, passed) });
        passed.pop();
        further
    }

    /// Ends the run as failed, because the calling thread uses this machine but does not belong to it.
    pub(super) fn meets_a_stranger(&mut self) {
        let stranger = std::thread::current();
        let stranger = stranger.name().unwrap_or("a thread without a name");
        let failure = format!(
            "{stranger}, which is not a thread of this test, uses a queue of this test: make threads with \
             cmwq::blocking::thread::spawn"
        );
        if self.turn != NONE {
            self.fail(failure);
        }
    }

    /// Returns the lines of a report about the threads that wait, and about threads that wait for each other in a
    /// circle.
    pub(super) fn waits_and_circle(&self) -> String {
        format!("{}{}", self.waiting(), self.circle())
    }

    pub(super) fn stuck(&self) -> String {
        format!(
            "all threads wait for ever:{}\nThreads that `cmwq::blocking::thread` has not made do not belong to \
             the run, and wake none of its threads.",
            self.waits_and_circle()
        )
    }

    pub(super) fn restless(&self) -> String {
        format!("time passes, but this wait does not end:{}", self.waits_and_circle())
    }

    pub(super) fn endless(&self, thread: Tid) -> String {
        let steps = self.schedule.config.endless;
        let thread = self.thread_with_item(thread);
        format!("{steps} steps were taken, and no time passes: {thread} does not come to an end")
    }

    /// Returns a line about the threads that could go on if this thread gave the baton away. If there are none, returns
    /// an empty text.
    pub(super) fn interrupted(&self, thread: Tid) -> String {
        let could = |other: &Tid| *other != thread && self.schedule.threads[*other].state == State::Runs;
        let others = (0..self.schedule.threads.len()).filter(could);
        let names: Vec<_> = others.map(|other| self.thread_with_item(other)).collect();
        if names.is_empty() {
            String::new()
        } else {
            format!("\nmeanwhile, these could go on: {}", names.join("; "))
        }
    }

    /// Returns the names of the threads that have not ended, and why they wait. The main thread is left out.
    pub(super) fn unended(&self) -> Option<String> {
        let lives = |thread: &Tid| self.schedule.threads[*thread].state != State::Ended;
        let left: Vec<_> = (1..self.schedule.threads.len()).filter(lives).collect();
        if left.is_empty() {
            return None;
        }
        let names: Vec<_> = left.iter().map(|thread| self.thread_with_item(*thread)).collect();
        Some(format!("{}{}", names.join("; "), self.waiting()))
    }
}
