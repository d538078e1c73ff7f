//! What one worker has done for one shard, in numbers that it alone writes, and anybody reads.
//!
//! No read-modify-write: each change is a load and a store of the owner's. Whoever is the owner next, another worker, has
//! got the cell through a lock, so there is one writer at a time, who sees what was written before.
//!
//! **The end before the beginning.** A reader loads `completed`, which is stored with release, with acquire and before
//! `started`. So whoever sees an item's end sees its beginning, and what is in flight is never below none.
//!
//! **Whose.** A cell has the place of a shard's number, and a number is given again when its shard is gone. The cell
//! belongs to the shard whose `serial` it bears; serials are given once. The owner sets the numbers back before it writes
//! a new serial, with release, and a reader who sees its own serial, with acquire, sees what came after that. What is
//! written for a shard that is gone harms nobody, and so nobody needs to keep a shard in place for it.
//!
//! **CPU time** goes to the cell after the owner has published up to where it has read its clock, with release. A reader
//! loads the cell first, with acquire: what it adds for the time since the reading is in no cell that it has seen.

use crate::policy::time::Time;
use crate::sys::sync::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct TallyCell {
    serial: AtomicU64,
    started: AtomicU64,
    completed: AtomicU64,
    /// Nanoseconds.
    cpu_time: AtomicU64,
    away: AtomicU64,
    stolen: AtomicU64,
}

/// The same at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) cpu_time: u64,
    pub(crate) away: u64,
    pub(crate) stolen: u64,
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
    /// Of nobody yet: no shard has serial 0.
    pub(crate) fn new() -> Self {
        Self {
            serial: AtomicU64::new(0),
            started: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            cpu_time: AtomicU64::new(0),
            away: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
        }
    }

    /// By the owner: an item of the shard with this serial begins.
    #[inline]
    pub(crate) fn start(&self, serial: u64, start: Start) {
        if self.serial.load(Ordering::Relaxed) != serial {
            self.begin_anew(serial);
        }
        add(&self.started, 1, Ordering::Relaxed);
        match start {
            Start::Home => {}
            Start::Away => add(&self.away, 1, Ordering::Relaxed),
            Start::Stolen => add(&self.stolen, 1, Ordering::Relaxed),
        }
    }

    #[cold]
    fn begin_anew(&self, serial: u64) {
        for count in [&self.started, &self.completed, &self.cpu_time, &self.away, &self.stolen] {
            count.store(0, Ordering::Relaxed);
        }
        self.serial.store(serial, Ordering::Release);
    }

    /// By the owner: the item has ended.
    #[inline]
    pub(crate) fn complete(&self) {
        add(&self.completed, 1, Ordering::Release);
    }

    /// By the owner: which item, of which shard, it has begun last.
    pub(crate) fn last_start(&self) -> (u64, u64) {
        (self.serial.load(Ordering::Relaxed), self.started.load(Ordering::Relaxed))
    }

    /// What was counted for the shard with this serial. Whoever asks keeps the shard in place.
    pub(crate) fn load(&self, serial: u64) -> Tally {
        if self.serial.load(Ordering::Acquire) != serial {
            return Tally::default();
        }
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

    /// By the owner: it has used so much in all; what is new of it goes to this cell. Returns how much that is.
    pub(crate) fn charge(&self, cpu_time: u64, cell: &TallyCell) -> u64 {
        let used = cpu_time.saturating_sub(self.cpu_time.load(Ordering::Relaxed));
        self.cpu_time.store(cpu_time, Ordering::Relaxed);
        add(&cell.cpu_time, used, Ordering::Release);
        used
    }

    /// By the owner: the time is known before the item of this sequence.
    pub(crate) fn publish(&self, time: Time, before: u64) {
        self.time.store(time.as_nanos(), Ordering::Relaxed);
        self.before.store(before, Ordering::Release);
    }

    /// Of what the thread has used in all, what it has used since. Was the item of this sequence the next one? Whoever adds
    /// that to cells has loaded them before it has asked the clock.
    pub(crate) fn since(&self, cpu_time: u64, item: u64) -> (u64, bool) {
        let is_first = self.before.load(Ordering::Acquire) == item;
        (cpu_time.saturating_sub(self.cpu_time.load(Ordering::Relaxed)), is_first)
    }

    /// When that was.
    pub(crate) fn time(&self) -> Time {
        Time::from_nanos(self.time.load(Ordering::Relaxed))
    }
}

/// Where nobody else writes.
#[inline]
fn add(count: &AtomicU64, more: u64, ordering: Ordering) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), ordering);
}
