//! A thread that is *lent* to an item: the thread runs the item inside a call to this crate. There are two cases. In
//! the first case, the thread submits the item itself, and runs the item because the item's queue is full. In the
//! second case, the item is a part of a fork for which the thread waits.
//!
//! Any thread can be lent, even a worker that executes another item, the *outer* item. The item to which the thread is
//! lent is the *inner* item. While the thread is lent, it has a second [`WorkerThread`], which no pool counts. So code
//! that asks for the thread's item finds the inner item. When the inner item is over, the thread has its former state
//! again.
//!
//! * **The count.** The inner item runs on the CPU of the outer item. So the outer item's worker stays in its pool's
//!   count, and each guard of the inner item is also a guard of that worker.
//! * **Waits.** The outer item cannot end before the inner item. So the inner item must not wait for anything for which
//!   the outer item must not wait.
//! * **Numbers.** A guard knows its item only by the item's sequence number. The items on one thread may exchange their
//!   guards through thread-local variables. So each time that a thread is lent, the sequence numbers of its items begin
//!   at a value that belongs to this loan. No other item on the thread has one of these numbers.
//! * **CPU time.** The queue of the outer item is not charged for the CPU time of the inner item.
//! * **The stack.** While a thread is lent, it is lent again only to parts of a fork. So apart from parts of forks, the
//!   thread has at most two items on its stack.
#![allow(unsafe_code, reason = "the worker of the outer item is known by its address")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_deque::Worker as List;

use crate::policy::idle_set::WorkerId;
use crate::policy::worker::Phase;
use crate::sys::thread_state;

use crate::engine::item::cancellation;
use crate::engine::item::entry::Entry;
use crate::engine::item::waits::{block_on, register};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::route;
use crate::engine::trace::subscriber;

use super::current::{self, Current};
use super::shared::Worker;
use super::worker_thread::{self, Role, WorkerThread};

/// The sequence numbers of items on lent threads begin at this number. No worker of a pool begins so many items.
const FIRST_NUMBER: u64 = 1 << 47;
/// The distance between the first sequence numbers of two successive loans of a thread. During a loan, only a few
/// numbers are used.
const NUMBERS: u64 = 1 << 8;

thread_local! {
    /// How often this thread was lent.
    static LOANS: Cell<u64> = const { Cell::new(0) };
}

/// Returns whether the calling thread is lent to an item.
pub(crate) fn is_lent() -> bool {
    worker_thread::with_current(|worker| worker.is_some_and(WorkerThread::is_lent))
}

/// Lends the calling thread to an entry, and executes the entry. The entry has a slot. The caller keeps the entry's
/// queue in memory, and the thread is not lent yet.
pub(crate) fn execute(entry: Entry) {
    worker_thread::with_current(|outer| match outer {
        None => execute_within(None, entry.shard().pool().shared(), entry, false),
        Some(worker) => execute_beside(worker, entry.shard().pool().shared(), entry, false),
    });
}

/// Executes a part of a fork for which the calling worker's item waits. The entry has a slot.
pub(crate) fn execute_part(entry: Entry) {
    worker_thread::with_current(|outer| match outer {
        None => unreachable!("only a worker joins forks"),
        Some(worker) => execute_beside(worker, Arc::clone(&worker.pool), entry, true),
    });
}

fn execute_beside(worker: &WorkerThread, pool: Arc<Pool>, entry: Entry, runs_part: bool) {
    let (guards, used) = (worker.open_guards(), thread_state::own_cpu_time());
    execute_within(Some(worker), pool, entry, runs_part);
    // The inner item may have leaked guards.
    worker.leave_guards_beyond(guards);
    if let Some((before, now)) = used.zip(thread_state::own_cpu_time()) {
        worker.meter.leaves_out(now.saturating_sub(before));
    }
}

fn execute_within(outer: Option<&WorkerThread>, pool: Arc<Pool>, entry: Entry, runs_part: bool) {
    // No worker of a pool has the number `WorkerId::MAX`, and no thread looks up a lent thread by its number.
    let local = List::new_fifo();
    let shared = Arc::new(Worker::new(WorkerId::MAX, Phase::Between, local.stealer()));
    let loan = LOANS.get();
    LOANS.set(loan + 1);
    shared.cell.set_sequence(FIRST_NUMBER + loan * NUMBERS);
    let worker =
        WorkerThread::new(pool, shared, local, Role::Lent { outer: outer.map(NonNull::from), runs_part });
    let registered = register::lends_to(&worker);
    let aside =
        (cancellation::set_aside(), block_on::set_aside(), current::set_aside(), subscriber::set_aside());
    worker.with_thread(|| worker.execute(entry));
    worker.end_level();
    drop((aside, registered));
    worker.shared.leaves();
}

impl WorkerThread {
    /// Returns the worker that executes the outer item, if the thread is lent and there is an outer item.
    #[inline]
    pub(super) fn outer(&self) -> Option<&Self> {
        match self.role {
            // SAFETY: the outer worker is further up the stack of this thread, so it outlives this value.
            Role::Lent { outer: Some(outer), .. } => Some(unsafe { outer.as_ref() }),
            _ => None,
        }
    }

    /// Returns whether this is the worker of a lent thread.
    #[inline]
    pub(super) fn is_lent(&self) -> bool {
        matches!(self.role, Role::Lent { .. })
    }

    /// Returns the items that cannot end before the present item, beginning with the present item. These are the items
    /// on the thread's stack. If an item on the stack is a fork, the items that wait for this fork are included, too.
    #[inline]
    pub(crate) fn items(&self) -> impl Iterator<Item = Current> {
        let levels = std::iter::successors(Some(self), |worker| worker.outer());
        levels.flat_map(|level| level.current().into_iter().chain(level.forking_items()))
    }

    /// Submits an entry to which an entry of this thread has passed its slot. The submitted entry does not go to this
    /// pool's worklist, or must not run on this thread.
    #[cold]
    pub(super) fn hand_over(&self, next: Entry) {
        match &self.role {
            Role::Rescuer(rescuer) => rescuer.hand_on(next, &self.pool),
            Role::Own => self.hand_on(next),
            Role::Lent { .. } => route::submit(next),
        }
    }
}
