//! The counters of queues: who writes them, and how they are read.
//!
//! What is counted for each item lies in *tables*, one for each thread that executes items, with a cell for each shard
//! that it has worked for. Only that thread writes to it, so counting costs a few plain stores. A thread that ends gives
//! its table back, and the next one goes on with it: nothing is moved, and nothing is lost when a worker or pool ends. What
//! is rare is counted in the shard itself.
//!
//! Shards have numbers in these tables, from 0 on, given anew when a shard is gone; see
//! [`protocol::tally`](crate::protocol::tally) for why that mixes nothing up. A cell never moves and goes with its table,
//! which goes with the executor.
//!
//! `--cfg cmwq_uncounted` leaves all of this out, to see what it costs.

mod meter;

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::policy::counters::Counters;
use crate::policy::item::ShardId;
use crate::policy::worker::Finding;
use crate::protocol::tally::TallyCell;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

pub(super) use self::meter::{Course, Meter, as_nanos};
use super::shard::Shard;
use super::worker::Worker;

/// Is anything counted at all?
pub(super) const COUNTED: bool = cfg!(not(cmwq_uncounted));

/// The first chunk of a table has so many cells, and each further one twice as many as the one before.
const FIRST_CHUNK: usize = 16;
/// There are fewer shards than would fill so many.
const CHUNKS: usize = 28;

/// What one thread has counted.
#[derive(Debug)]
pub(super) struct Table {
    chunks: [OnceLock<Box<[TallyCell]>>; CHUNKS],
    /// Whose it is.
    worker: Mutex<Option<Arc<Worker>>>,
}

/// A table, until the thread ends that has taken it.
#[derive(Debug)]
pub(super) struct OwnedTable {
    table: Arc<Table>,
    all: Arc<Tallies>,
}

/// The tables of one executor.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    tables: Mutex<Vec<Arc<Table>>>,
    /// Of threads that have ended.
    free: Mutex<Vec<Arc<Table>>>,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    free: Vec<usize>,
    /// How many there are.
    given: usize,
    serials: u64,
}

/// Where a shard's cells are, and how it knows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TallyId {
    number: usize,
    serial: u64,
}

/// The same, until the shard is gone.
#[derive(Debug)]
pub(super) struct OwnedTallyId {
    pub(super) id: TallyId,
    all: Arc<Tallies>,
}

impl Drop for OwnedTallyId {
    fn drop(&mut self) {
        self.all.numbers.lock().free.push(self.id.number);
    }
}

/// What is counted at a shard itself: what happens rarely, or on threads that have no table.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(super) cpu_hogs: Count,
    pub(super) concurrency_wakeups: Count,
    pub(super) repatriated: Count,
    pub(super) maydays: Count,
    pub(super) rescued: Count,
    pub(super) panicked: Count,
    pub(super) cancelled: Count,
    pub(super) undeclared_blocks: Count,
    /// The most CPU time that was told of. In nanoseconds.
    told_cpu_time: AtomicU64,
}

/// A number that many threads raise.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(super) fn raise(&self) {
        if COUNTED {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Events {
    /// What was found out about one of its items was carried out.
    pub(super) fn found(&self, finding: Finding) {
        match finding {
            Finding::Asleep => self.undeclared_blocks.raise(),
            Finding::Hog => self.cpu_hogs.raise(),
            // It has said so, or does nothing wrong.
            Finding::Blocks | Finding::Runs => {}
        }
    }
}

impl Table {
    fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], worker: Mutex::new(None) }
    }

    /// By the thread whose table it is.
    #[inline]
    fn cell(&self, number: usize) -> &TallyCell {
        let (chunk, place) = place_of(number);
        match self.chunks[chunk].get() {
            Some(cells) => &cells[place],
            None => self.make_chunk(chunk, place),
        }
    }

    #[cold]
    fn make_chunk(&self, chunk: usize, place: usize) -> &TallyCell {
        let make = || (0..FIRST_CHUNK << chunk).map(|_| TallyCell::new()).collect();
        &self.chunks[chunk].get_or_init(make)[place]
    }

    /// By anybody: the cell, if its thread has worked for any shard near this one.
    fn present_cell(&self, number: usize) -> Option<&TallyCell> {
        let (chunk, place) = place_of(number);
        self.chunks[chunk].get().map(|cells| &cells[place])
    }
}

/// The chunk of a number, and its place there.
#[inline]
fn place_of(number: usize) -> (usize, usize) {
    let shifted = number + FIRST_CHUNK;
    let chunk = (shifted.ilog2() - FIRST_CHUNK.ilog2()) as usize;
    (chunk, shifted - (FIRST_CHUNK << chunk))
}

impl Deref for OwnedTable {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Drop for OwnedTable {
    fn drop(&mut self) {
        drop(self.table.worker.lock().take());
        self.all.free.lock().push(Arc::clone(&self.table));
    }
}

impl Tallies {
    /// A table for the calling thread, which is this worker's.
    pub(super) fn take(self: &Arc<Self>, worker: &Arc<Worker>) -> OwnedTable {
        let free = self.free.lock().pop();
        let table = free.unwrap_or_else(|| {
            let table = Arc::new(Table::new());
            self.tables.lock().push(Arc::clone(&table));
            table
        });
        *table.worker.lock() = Some(Arc::clone(worker));
        OwnedTable { table, all: Arc::clone(self) }
    }

    /// For a shard that is being made.
    pub(super) fn enlist(self: &Arc<Self>) -> OwnedTallyId {
        let mut numbers = self.numbers.lock();
        numbers.serials += 1;
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.given += 1;
            numbers.given - 1
        });
        OwnedTallyId { id: TallyId { number, serial: numbers.serials }, all: Arc::clone(self) }
    }

    /// What the counters of shards are read from.
    pub(crate) fn read(&self) -> Reading {
        Reading { tables: self.tables.lock().clone() }
    }
}

/// The tables of an executor that there were at one moment, from which the counters of any number of shards are read.
#[derive(Debug)]
pub(crate) struct Reading {
    tables: Vec<Arc<Table>>,
}

impl Reading {
    /// The counters of a shard, which the caller keeps in place.
    pub(crate) fn counters(&self, shard: &Shard) -> Counters {
        let (events, id) = (&shard.events, shard.tally.id);
        let mut counters = Counters {
            cpu_hogs: events.cpu_hogs.load(),
            concurrency_wakeups: events.concurrency_wakeups.load(),
            repatriated: events.repatriated.load(),
            maydays: events.maydays.load(),
            rescued: events.rescued.load(),
            panicked: events.panicked.load(),
            cancelled: events.cancelled.load(),
            undeclared_blocks: events.undeclared_blocks.load(),
            ..Counters::default()
        };
        let mut cpu_time = 0;
        for table in &self.tables {
            let Some(cell) = table.present_cell(id.number) else { continue };
            let tally = cell.load(id.serial);
            counters.started += tally.started;
            counters.completed += tally.completed;
            counters.away += tally.away;
            counters.stolen += tally.stolen;
            cpu_time += tally.cpu_time;
            if tally.started > tally.completed {
                cpu_time += table.cpu_time_in_flight(shard.id());
            }
        }
        // What was told of an item in flight may go to another shard in the end.
        let told = events.told_cpu_time.fetch_max(cpu_time, Ordering::Relaxed).max(cpu_time);
        counters.cpu_time = Duration::from_nanos(told);
        counters
    }
}

impl Table {
    /// What the thread's present item has used and is in no cell yet, if it is one of this shard. Nanoseconds.
    fn cpu_time_in_flight(&self, shard: ShardId) -> u64 {
        let worker = self.worker.lock().clone();
        as_nanos(worker.and_then(|worker| worker.cpu_time_for(shard)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tally::Start;

    /// spec: O1
    #[test]
    fn every_number_has_a_place_of_its_own() {
        assert_eq!(place_of(0), (0, 0));
        assert_eq!(place_of(FIRST_CHUNK - 1), (0, FIRST_CHUNK - 1));
        let mut expected = (0, 0);
        for number in 0..10_000 {
            assert_eq!(place_of(number), expected);
            expected.1 += 1;
            if expected.1 == FIRST_CHUNK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place_of(1 << 30).0 < CHUNKS);
    }

    /// spec: O1 (nothing is lost, and nothing inherited)
    #[test]
    fn numbers_are_given_again_and_serials_are_not() {
        let tallies = Arc::new(Tallies::default());
        let (first, second) = (tallies.enlist(), tallies.enlist());
        assert_eq!((first.id.number, second.id.number), (0, 1));
        let table = Table::new();
        table.cell(0).start(first.id.serial, Start::Home);
        drop(first);
        let third = tallies.enlist().id;
        assert_eq!(third.number, 0);
        assert_eq!(table.cell(0).load(third.serial).started, 0);
        table.cell(0).start(third.serial, Start::Home);
        assert_eq!(table.cell(0).load(third.serial).started, 1);
        assert!(table.present_cell(1).is_some() && table.present_cell(FIRST_CHUNK).is_none());
    }
}
