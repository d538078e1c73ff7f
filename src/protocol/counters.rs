//! The cell of the numbers that one thread counts for one shard, and the account in which the shard adds up the numbers
//! of all cells.
//!
//! The thread that made a cell owns the cell, and only the owner writes to it. So the owner changes a cell with a load
//! and a store instead of a read-modify-write.
//!
//! **In flight.** An item starts before it completes, and `completed` is stored with release. A reader loads
//! `completed` first, with acquire, and `started` last. So the number of items in flight is never below zero. The
//! orderings forbid these steps:
//!
//! * worker: stores `started` = 1, then `completed` = 1;
//! * reader: loads `completed` = 1, then `started` = 0.
//!
//! **Opened and settled.** The account of a shard lists the shard's open cells. When a thread no longer needs a cell,
//! it settles the cell. In one step under the account's lock, the thread adds the cell's numbers to the account's own
//! numbers, and takes the cell off the list. Readers add up all numbers under the same lock. So a reader counts each
//! number once, and no sum ever falls. The owner settles a cell only while the owner has no item of the shard in
//! flight. So a cell does not change after its owner has settled it.
//!
//! **After the shard.** Accounts and cells are reference-counted. So a thread can still write to a cell after the shard
//! was freed. Such a late write does no harm, because no thread reads the cell any more.
//!
//! **CPU time.** The owner first publishes the new reading of its clock, and then adds the time since the previous
//! reading to the cell, with release. A reader first loads the cell, with acquire, and then adds the time since the
//! published reading. Without these orderings, a reader could count a time twice:
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
    /// The CPU time with which the owner has charged the cell, in nanoseconds.
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

/// The numbers that all threads count for one shard. `W` identifies the worker that owns a cell.
#[derive(Debug)]
pub(crate) struct Account<W> {
    /// The book is boxed, because a thread may hold a weak reference to the account after the shard was freed. The weak
    /// reference keeps the account allocated, but not the book.
    book: Mutex<Box<Book<W>>>,
}

#[derive(Debug)]
struct Book<W> {
    /// The sum of the numbers of all settled cells.
    settled: Counts,
    open: Vec<(Arc<CounterCell>, W)>,
}

/// The place at which an item starts, as seen from the item's pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// A worker of the pool starts the item on a CPU of the pool's pod.
    Home,
    /// A worker of the pool starts the item on a CPU outside the pool's pod, because the system has moved the worker to
    /// that CPU.
    Away,
    /// A worker of another pool starts the item.
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

    /// Notes that an item of the shard has begun. Only the owner of the cell calls this.
    #[inline]
    pub(crate) fn start(&self, start: Start) {
        add(&self.started, 1, Ordering::Relaxed);
        match start {
            Start::Home => {}
            Start::Away => add(&self.away, 1, Ordering::Relaxed),
            Start::Stolen => add(&self.stolen, 1, Ordering::Relaxed),
        }
    }

    /// Counts the end of the item. Only the owner of the cell calls this.
    #[inline]
    pub(crate) fn complete(&self) {
        add(&self.completed, 1, Ordering::Release);
    }

    /// Returns the number of the shard's items that the owner has begun. Only the owner of the cell calls this.
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
            // `started` is loaded last, so that it is not less than `completed`.
            started: self.started.load(Ordering::Relaxed),
        }
    }
}

impl<W> Account<W> {
    pub(crate) fn new() -> Self {
        Self { book: Mutex::new(Box::new(Book { settled: Counts::default(), open: Vec::new() })) }
    }

    /// Adds a cell to the account. Only the owner of the cell calls this.
    pub(crate) fn open(&self, cell: Arc<CounterCell>, worker: W) {
        self.book.lock().open.push((cell, worker));
    }

    /// Settles a cell: adds the cell's numbers to the account, and takes the cell off the list. Only the owner of the
    /// cell calls this, and only while the owner has no item of the shard in flight.
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

    /// Returns the sum of the numbers of all cells. For each cell with more started items than completed items, calls
    /// `in_flight` with the cell's worker.
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

/// The last readings of a worker's clocks, for threads that ask about the worker's present item. Times are in
/// nanoseconds.
#[derive(Debug)]
pub(crate) struct ReadingCell {
    /// The CPU time that the thread had used at the last reading.
    cpu_time: AtomicU64,
    time: AtomicU64,
    /// The sequence number of the first item after the reading.
    before: AtomicU64,
}

impl ReadingCell {
    pub(crate) fn new() -> Self {
        Self { cpu_time: AtomicU64::new(0), time: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    /// Sets the CPU time that the owner has used before its first item. Only the owner calls this.
    pub(crate) fn begin(&self, cpu_time: u64) {
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
    }

    /// Leaves the CPU time `used`, which the owner has used since the last reading, out of all counts. Only the owner
    /// calls this.
    pub(crate) fn leave_out(&self, used: u64) {
        add(&self.cpu_time, used, Ordering::Relaxed);
    }

    /// Charges a cell with the CPU time that the owner has used since the last reading. `cpu_time` is the total CPU
    /// time that the owner has used. Only the owner calls this.
    pub(crate) fn charge(&self, cpu_time: u64, cell: &CounterCell) {
        let used = self.since(cpu_time);
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
        add(&cell.cpu_time, used, Ordering::Release);
    }

    /// Publishes a time that the owner has read from its clock. `before` is the sequence number of the next item that
    /// the owner begins. Only the owner calls this.
    ///
    /// The sequence number is stored before the time. So a reader that sees the time also sees this sequence number, or
    /// a later one.
    pub(crate) fn publish(&self, time: Time, before: u64) {
        self.before.store(before, Ordering::Release);
        self.time.store(time.as_nanos(), Ordering::Release);
    }

    /// Returns the part of `cpu_time` that the thread has used since the last reading. If a caller adds this time to
    /// the numbers of cells, it loads the cells before it reads the thread's clock.
    pub(crate) fn since(&self, cpu_time: u64) -> u64 {
        cpu_time.saturating_sub(self.cpu_time.load(Ordering::Relaxed))
    }

    /// Returns whether the item with this sequence number is the first item after the last reading. A caller calls this
    /// function before [`since`](Self::since).
    pub(crate) fn was_before(&self, item: u64) -> bool {
        self.before.load(Ordering::Acquire) == item
    }

    /// Returns the time of the owner's last reading before the owner began the item with this sequence number. The
    /// caller has seen that this item has begun. Returns `None` if the owner has published a later reading. A later
    /// reading means that the item has ended. The owner publishes the later reading shortly before its word says that
    /// the item has ended. Without the check of the sequence number, this could happen:
    ///
    /// * owner: finishes the item, and publishes the present time;
    /// * reader: reads the published time, and then still finds the item in the owner's word. So an item that took
    ///   several seconds appears to have begun just now.
    pub(crate) fn time_before(&self, item: u64) -> Option<Time> {
        let time = Time::from_nanos(self.time.load(Ordering::Acquire));
        (self.before.load(Ordering::Relaxed) <= item).then_some(time)
    }
}

/// Adds `more` to a count that only the calling thread changes.
#[inline]
fn add(count: &AtomicU64, more: u64, ordering: Ordering) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), ordering);
}
