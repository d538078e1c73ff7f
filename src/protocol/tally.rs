//! What one worker has done for one shard, in numbers that it alone writes, and the account in which a shard adds them up.
//!
//! No read-modify-write: each change is a load and a store of the owner's. A cell has one owner, the thread that made it,
//! for as long as it exists.
//!
//! **The end before the beginning.** A reader loads `completed`, which is stored with release, with acquire and before
//! `started`. So a reader that sees an item's end sees its beginning, and what is in flight is never below none.
//!
//! **Opened and settled.** A shard's account lists the cells that threads hold for it. A thread that needs a cell no more
//! settles it: its numbers are added to the account's own, and the cell leaves the list, both under the lock that
//! readers hold while they add up. So a reader finds each count once, and no sum ever falls. The owner has no item of
//! the shard then, so the cell does not change any more.
//!
//! **Late.** Account and cell are shared by reference counts. What a thread writes to a cell after the shard has gone is
//! read by no thread, and harms none.
//!
//! **CPU time** goes to the cell after the owner has published up to where it has read its clock, with release. A reader
//! loads the cell first, with acquire: what it adds for the time since the reading is in no cell that it has seen.

use std::sync::Arc;

use crate::policy::time::Time;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct TallyCell {
    started: AtomicU64,
    completed: AtomicU64,
    /// Nanoseconds.
    cpu_time: AtomicU64,
    away: AtomicU64,
    stolen: AtomicU64,
}

/// The same at one moment, or a sum of such.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) cpu_time: u64,
    pub(crate) away: u64,
    pub(crate) stolen: u64,
}

/// What all threads have counted for one shard. `W`: the worker that owns a cell.
#[derive(Debug)]
pub(crate) struct Account<W> {
    /// Boxed, since a thread may hold what remains of an account after the shard has gone.
    book: Mutex<Box<Book<W>>>,
}

#[derive(Debug)]
struct Book<W> {
    /// Of the cells that were settled.
    settled: Tally,
    open: Vec<(Arc<TallyCell>, W)>,
}

/// Where an item starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// In the pod of the CPU that it was queued on.
    Home,
    /// Elsewhere, on a worker of that pod: the system has put it there.
    Away,
    /// On a worker of another pod.
    Stolen,
}

impl TallyCell {
    pub(crate) fn new() -> Self {
        Self {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            cpu_time: AtomicU64::new(0),
            away: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// By the owner: an item of the shard begins.
    #[inline]
    pub(crate) fn start(&self, start: Start) {
        add(&self.started, 1, Ordering::Relaxed);
        match start {
            Start::Home => {}
            Start::Away => add(&self.away, 1, Ordering::Relaxed),
            Start::Stolen => add(&self.stolen, 1, Ordering::Relaxed),
        }
    }

    /// By the owner: the item has ended.
    #[inline]
    pub(crate) fn complete(&self) {
        add(&self.completed, 1, Ordering::Release);
    }

    /// By the owner: how many items it has begun.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// What was counted so far.
    pub(crate) fn load(&self) -> Tally {
        let completed = self.completed.load(Ordering::Acquire);
        Tally {
            completed,
            cpu_time: self.cpu_time.load(Ordering::Acquire),
            away: self.away.load(Ordering::Relaxed),
            stolen: self.stolen.load(Ordering::Relaxed),
            // Last: it is no less than what the others say.
            started: self.started.load(Ordering::Relaxed),
        }
    }
}

impl<W> Account<W> {
    pub(crate) fn new() -> Self {
        Self { book: Mutex::new(Box::new(Book { settled: Tally::default(), open: Vec::new() })) }
    }

    /// By its owner: this cell counts from now on.
    pub(crate) fn open(&self, cell: Arc<TallyCell>, worker: W) {
        self.book.lock().open.push((cell, worker));
    }

    /// By its owner, which has no item of the shard: the cell counts no more, and what it has counted stays.
    pub(crate) fn settle(&self, cell: &Arc<TallyCell>) {
        let mut book = self.book.lock();
        book.settled.add(cell.load());
        let place = book.open.iter().position(|(open, _)| Arc::ptr_eq(open, cell));
        let settled = place.map(|place| book.open.swap_remove(place));
        let open = book.open.len();
        if book.open.capacity() > 8 * open.max(1) {
            book.open.shrink_to(2 * open);
        }
        drop(book);
        drop(settled);
    }

    /// What was counted so far. `in_flight` is told the worker of each cell in which more has started than completed.
    pub(crate) fn total(&self, mut in_flight: impl FnMut(&W)) -> Tally {
        let book = self.book.lock();
        let mut total = book.settled;
        for (cell, worker) in &book.open {
            let tally = cell.load();
            if tally.is_in_flight() {
                in_flight(worker);
            }
            total.add(tally);
        }
        total
    }
}

impl Tally {
    /// More has started than completed.
    pub(crate) fn is_in_flight(self) -> bool {
        self.started > self.completed
    }

    fn add(&mut self, other: Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.cpu_time += other.cpu_time;
        self.away += other.away;
        self.stolen += other.stolen;
    }
}

/// The clocks of a worker as it has read them last, for whoever asks about its present item. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct ReadingCell {
    /// What its thread has used.
    cpu_time: AtomicU64,
    time: AtomicU64,
    /// Which item was the next one.
    before: AtomicU64,
}

impl ReadingCell {
    pub(crate) fn new() -> Self {
        Self { cpu_time: AtomicU64::new(0), time: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    /// By the owner: it has used so much before its first item.
    pub(crate) fn begin(&self, cpu_time: u64) {
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
    }

    /// By the owner: it has used so much in all; what is new of it goes to this cell.
    pub(crate) fn charge(&self, cpu_time: u64, cell: &TallyCell) {
        let used = self.since(cpu_time);
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
        add(&cell.cpu_time, used, Ordering::Release);
    }

    /// By the owner: the time is known before the item of this sequence.
    ///
    /// In this order: an onlooker that finds the time finds that item, or a later one.
    pub(crate) fn publish(&self, time: Time, before: u64) {
        self.before.store(before, Ordering::Release);
        self.time.store(time.as_nanos(), Ordering::Release);
    }

    /// Of what the thread has used in all, what it has used since. Whoever adds that to cells has loaded them before it has
    /// asked the clock.
    pub(crate) fn since(&self, cpu_time: u64) -> u64 {
        cpu_time.saturating_sub(self.cpu_time.load(Ordering::Relaxed))
    }

    /// Was the item of this sequence the next one? Asked before [`since`](Self::since).
    pub(crate) fn was_before(&self, item: u64) -> bool {
        self.before.load(Ordering::Acquire) == item
    }

    /// The last time that was published before the item of this sequence, which the caller has seen begun. `None` if one was
    /// published since: the item has ended. An owner does that before its word says so:
    ///
    /// * owner: ends the item, publishes the time. Onlooker: reads that time, and finds the item in the owner's word. It would
    ///   take an item of seconds for one that has just begun.
    pub(crate) fn time_before(&self, item: u64) -> Option<Time> {
        let time = Time::from_nanos(self.time.load(Ordering::Acquire));
        (self.before.load(Ordering::Relaxed) <= item).then_some(time)
    }
}

/// Where nobody else writes.
#[inline]
fn add(count: &AtomicU64, more: u64, ordering: Ordering) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), ordering);
}
