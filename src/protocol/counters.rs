//! The numbers of what one worker has done for one shard, and the account in which a shard adds them up.
//!
//! A cell has one owner, the thread that made it, and only the owner writes to it. So a change is a load and a store,
//! and no read-modify-write.
//!
//! **In flight.** An item starts before it completes, and `completed` is stored with release. A reader loads
//! `completed` first, with acquire, and `started` last. So the number of items in flight is never below zero. The
//! orderings forbid this:
//!
//! * worker: stores `started` = 1, then `completed` = 1;
//! * reader: loads `completed` = 1, then `started` = 0.
//!
//! **Opened and settled.** A shard's account lists the cells of its threads. A thread that does not need a cell any
//! more settles it: under the account's lock it adds the cell's numbers to the account's own, and takes the cell off
//! the list. Readers add up under the same lock. So they count each number once, and no sum ever falls. The owner has
//! no item of the shard then, so the cell does not change any more.
//!
//! **After the shard.** Accounts and cells have reference counts. If a thread writes to a cell after the shard is
//! gone, no thread reads it, and no harm is done.
//!
//! **CPU time.** The owner first publishes the reading of its clock, and then adds the time to the cell, with
//! release. A reader first loads the cell, with acquire, and then adds the time since the published reading. The
//! orderings forbid that it counts a time twice:
//!
//! * owner: publishes the reading 5 ms; adds 5 ms to the cell;
//! * reader: loads the cell with the 5 ms, then the old reading, and adds the 5 ms once more.

use std::sync::Arc;

use crate::policy::time::Time;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct CounterCell {
    started: AtomicU64,
    completed: AtomicU64,
    /// Nanoseconds.
    cpu_time: AtomicU64,
    away: AtomicU64,
    stolen: AtomicU64,
}

/// The numbers of a cell at one moment, or a sum of such numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) cpu_time: u64,
    pub(crate) away: u64,
    pub(crate) stolen: u64,
}

/// The numbers of all threads for one shard. `W` stands for the worker that owns a cell.
#[derive(Debug)]
pub(crate) struct Account<W> {
    /// It is boxed, because a thread may keep the rest of an account alive after the shard is gone.
    book: Mutex<Box<Book<W>>>,
}

#[derive(Debug)]
struct Book<W> {
    /// The sum of the cells that were settled.
    settled: Counts,
    open: Vec<(Arc<CounterCell>, W)>,
}

/// Where an item starts, compared with its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// On a CPU of the pool's pod, by a worker of the pool.
    Home,
    /// On another CPU, by a worker of the pool: the system has moved the worker there.
    Away,
    /// By a worker of another pool.
    Stolen,
}

impl CounterCell {
    pub(crate) fn new() -> Self {
        Self {
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            cpu_time: AtomicU64::new(0),
            away: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// Counts an item of the shard that begins. Called by the owner.
    #[inline]
    pub(crate) fn start(&self, start: Start) {
        add(&self.started, 1, Ordering::Relaxed);
        match start {
            Start::Home => {}
            Start::Away => add(&self.away, 1, Ordering::Relaxed),
            Start::Stolen => add(&self.stolen, 1, Ordering::Relaxed),
        }
    }

    /// Counts the end of the item. Called by the owner.
    #[inline]
    pub(crate) fn complete(&self) {
        add(&self.completed, 1, Ordering::Release);
    }

    /// Returns how many items the owner has begun. Called by the owner.
    pub(crate) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Returns the numbers of the cell.
    pub(crate) fn load(&self) -> Counts {
        let completed = self.completed.load(Ordering::Acquire);
        Counts {
            completed,
            cpu_time: self.cpu_time.load(Ordering::Acquire),
            away: self.away.load(Ordering::Relaxed),
            stolen: self.stolen.load(Ordering::Relaxed),
            // Last: so it is not less than `completed`.
            started: self.started.load(Ordering::Relaxed),
        }
    }
}

impl<W> Account<W> {
    pub(crate) fn new() -> Self {
        Self { book: Mutex::new(Box::new(Book { settled: Counts::default(), open: Vec::new() })) }
    }

    /// Adds a cell to the account. Called by the owner of the cell.
    pub(crate) fn open(&self, cell: Arc<CounterCell>, worker: W) {
        self.book.lock().open.push((cell, worker));
    }

    /// Settles a cell: its numbers stay in the account, and the cell counts no more. Called by the owner of the cell,
    /// which has no item of the shard.
    pub(crate) fn settle(&self, cell: &Arc<CounterCell>) {
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

    /// Returns the sum of all numbers. Calls `in_flight` with the worker of each cell in which more items have
    /// started than completed.
    pub(crate) fn total(&self, mut in_flight: impl FnMut(&W)) -> Counts {
        let book = self.book.lock();
        let mut total = book.settled;
        for (cell, worker) in &book.open {
            let counts = cell.load();
            if counts.is_in_flight() {
                in_flight(worker);
            }
            total.add(counts);
        }
        total
    }
}

impl Counts {
    /// Returns whether more items have started than completed.
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

/// The last readings of a worker's clocks, for threads that ask about its present item. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct ReadingCell {
    /// The CPU time of the thread.
    cpu_time: AtomicU64,
    time: AtomicU64,
    /// The sequence number of the item that came next.
    before: AtomicU64,
}

impl ReadingCell {
    pub(crate) fn new() -> Self {
        Self { cpu_time: AtomicU64::new(0), time: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    /// Sets the CPU time that the owner has used before its first item. Called by the owner.
    pub(crate) fn begin(&self, cpu_time: u64) {
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
    }

    /// Charges CPU time to a cell: the time since the last reading. `cpu_time` is what the owner has used in all.
    /// Called by the owner.
    pub(crate) fn charge(&self, cpu_time: u64, cell: &CounterCell) {
        let used = self.since(cpu_time);
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
        add(&cell.cpu_time, used, Ordering::Release);
    }

    /// Publishes a time that the owner has read before the item with this sequence number. Called by the owner.
    ///
    /// The sequence number is stored first. So a reader that sees the time finds that number, or a later one.
    pub(crate) fn publish(&self, time: Time, before: u64) {
        self.before.store(before, Ordering::Release);
        self.time.store(time.as_nanos(), Ordering::Release);
    }

    /// Returns the part of `cpu_time` that the thread has used since the last reading. A caller that adds it to cells
    /// has loaded the cells before it read the thread's clock.
    pub(crate) fn since(&self, cpu_time: u64) -> u64 {
        cpu_time.saturating_sub(self.cpu_time.load(Ordering::Relaxed))
    }

    /// Returns whether the item with this sequence number came next after the last reading. Asked before
    /// [`since`](Self::since).
    pub(crate) fn was_before(&self, item: u64) -> bool {
        self.before.load(Ordering::Acquire) == item
    }

    /// Returns the last time that was published before the item with this sequence number, which the caller has seen
    /// begun. Returns `None` if a time was published since, because then the item has ended. The owner publishes that
    /// time before its word says that the item has ended. Without the check this could happen:
    ///
    /// * owner: ends the item, publishes the time;
    /// * reader: reads that time; finds the item in the owner's word; takes an item of several seconds for one that
    ///   has just begun.
    pub(crate) fn time_before(&self, item: u64) -> Option<Time> {
        let time = Time::from_nanos(self.time.load(Ordering::Acquire));
        (self.before.load(Ordering::Relaxed) <= item).then_some(time)
    }
}

/// Adds where only the caller writes.
#[inline]
fn add(count: &AtomicU64, more: u64, ordering: Ordering) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), ordering);
}
