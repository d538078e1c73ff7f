//! Models of [`ItemCell`](crate::protocol::item::ItemCell): an item is submitted, run, cancelled and submitted again.
//!
//! There are two shards. Each shard has a list for the item's entries. Every accepted submission that is not cancelled
//! makes the item run exactly once. No two workers run the item at the same time. A run sees what issuers wrote before
//! each submission that the run serves. No entry of either list is lost or doubled. At the end, the item is as good as
//! new. The thread that drops the last reference to the item frees the item.
//!
//! Red under: `coalesce-by-load`, `item-without-acquire`, `end-ignores-met`, `meet-without-asking-again`,
//! `stale-without-asking-again`, `cancel-loses-the-entry`, `slow-state-forgets-home`, `met-item-is-not-freed`,
//! `slow-state-without-a-handle`.
//!
//! `carried` models submissions that carry values, `stops` models requests to stop, `timers` models timers, and `waits`
//! models waits and ordered queues.

mod carried;
mod stops;
mod timers;
mod waits;

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Data, List, Owned, check, check_all};
use crate::policy::flush::Ticket;
use crate::policy::item::{Arm, ShardId, Target};
use crate::protocol::item::{Ended, HasTicket, ItemCell, Popped, Queued, TakenBack};
use crate::sys::wait::Until;

/// An entry, which is neither `Copy` nor `Clone`. The field is the number of the shard whose slot the entry has.
#[derive(Debug, PartialEq, Eq)]
struct Entry(usize);

/// These models contain no flushes, so entries have no tickets.
impl HasTicket for Entry {
    fn ticket(&self) -> Option<Ticket> {
        None
    }
}

/// The value of `Model::again` if the run does not submit the item again.
const NOWHERE: u64 = u64::MAX;

/// The item and the lists of two shards. Accesses to the counts are relaxed, so that the counts do not order the
/// threads in place of the cell.
struct Model {
    item: Owned<ItemCell<Entry, usize, u64>>,
    /// The list of timers. A model arms at most two timers, which are identified by their numbers.
    timers: [AtomicU64; 2],
    /// The shard to which the next run submits the item, or [`NOWHERE`].
    again: AtomicU64,
    ordered: bool,
    lists: [List; 2],
    pushed: AtomicU64,
    completed: AtomicU64,
    /// The number of accepted submissions, minus the cancelled submissions.
    due: AtomicU64,
    runs: AtomicU64,
    /// `carried` is the sum of the values that accepted submissions carry, without those of cancelled submissions.
    /// `found` is the sum of the values that the runs find.
    carried: AtomicU64,
    found: AtomicU64,
    /// Data that belongs to the thread that runs the item.
    inside: Data<u64>,
    /// The value that each issuer writes before it submits the item, and whether a run has seen the value.
    written: [AtomicU64; 2],
    seen: [AtomicU64; 2],
}

impl Model {
    fn new() -> Self {
        let zeros = || [0, 0].map(AtomicU64::new);
        Self {
            item: Owned::new(ItemCell::new()),
            timers: zeros(),
            again: AtomicU64::new(NOWHERE),
            ordered: false,
            lists: [List::new(), List::new()],
            pushed: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            due: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            found: AtomicU64::new(0),
            inside: Data::new(0),
            written: zeros(),
            seen: zeros(),
        }
    }

    fn ordered() -> Self {
        Self { ordered: true, ..Self::new() }
    }

    fn target(&self, shard: usize) -> Target {
        Target { shard: ShardId::new(shard as u64), ordered: self.ordered, revives: !self.ordered }
    }

    fn queue(&self, shard: usize) {
        match self.item.queue(self.target(shard), None) {
            Queued::Push => {
                self.pushed.fetch_add(1, Ordering::Relaxed);
                self.put(shard);
            }
            Queued::Revived => {}
            Queued::Coalesced | Queued::Refused => return,
        }
        self.due.fetch_add(1, Ordering::Relaxed);
    }

    /// Arms the item with this timer, which holds a handle to the item.
    fn arm(&self, timer: usize, again: bool) {
        self.item.add_handle();
        let (arm, taken) = self.item.arm(again, None, || {
            self.timers[timer].store(1, Ordering::Release);
            timer
        });
        match arm {
            Arm::Armed { was_pending: false } => drop(self.due.fetch_add(1, Ordering::Relaxed)),
            // This submission replaces the previous one.
            Arm::Armed { was_pending: true } => {}
            Arm::Coalesced | Arm::Refused => self.drop_handle(),
        }
        self.leave_behind(taken);
    }

    /// Takes the timer off the list of timers. Returns whether the timer was on the list. If so, the timer's handle to
    /// the item passes to the caller.
    fn take_timer(&self, timer: usize) -> bool {
        self.timers[timer].swap(0, Ordering::AcqRel) == 1
    }

    /// Fires the timer, which is due.
    fn fire(&self, timer: usize, shard: usize) {
        if self.take_timer(timer) {
            match self.item.fire(&timer, self.target(shard), None) {
                Some(Queued::Push) => {
                    self.pushed.fetch_add(1, Ordering::Relaxed);
                    self.put(shard);
                }
                Some(Queued::Revived) | None => {}
                Some(other) => panic!("{other:?}, though the item was armed"),
            }
            self.drop_handle();
        }
    }

    fn leave_behind(&self, taken: TakenBack<Entry, usize, u64>) {
        self.carried.fetch_sub(taken.carried.unwrap_or(0), Ordering::Relaxed);
        if let Some(entry) = taken.kept {
            self.complete(entry);
        }
        if taken.timer.is_some_and(|timer| self.take_timer(timer)) {
            self.drop_handle();
        }
    }

    /// Waits for the last submission. After this call, the caller sees what the run of that submission did.
    fn flush(&self) {
        if let Some((signal, _)) = self.item.last_submission() {
            signal.wait(Until::FOREVER);
        }
    }

    /// Cancels the item and waits for its run. Afterwards the item neither runs nor is pending, and the caller sees
    /// what the item's runs did.
    fn cancel_and_wait(&self) {
        let (taken, run) = self.item.disable(true);
        if taken.was_pending {
            self.due.fetch_sub(1, Ordering::Relaxed);
        }
        self.leave_behind(taken);
        if let Some(signal) = run {
            signal.wait(Until::FOREVER);
        }
        let state = self.item.load();
        assert!(!state.is_pending() && !state.is_running(), "{state:?}");
        self.inside.read(|_| ());
        assert_eq!(self.item.enable(), Ok(true));
    }

    /// Writes this issuer's value, and then submits the item.
    fn write_and_queue(&self, issuer: usize, shard: usize) {
        self.written[issuer].store(1, Ordering::Relaxed);
        self.queue(shard);
    }

    fn put(&self, shard: usize) {
        let before = self.lists[shard].push();
        assert!(before == 0 || self.ordered, "two entries of one item lie on one list");
    }

    fn cancel(&self) {
        let taken = self.item.cancel();
        if taken.was_pending {
            self.due.fetch_sub(1, Ordering::Relaxed);
        }
        self.leave_behind(taken);
    }

    /// Works as a worker of this shard's pool, until the shard's list looks empty.
    fn work(&self, shard: usize) {
        while self.lists[shard].pop() {
            match self.item.begin(ShardId::new(shard as u64), Entry(shard)) {
                Popped::Run(entry) => {
                    self.run();
                    self.end(entry);
                }
                Popped::RunCarrying(entry) => {
                    let carried = self.item.take_carried().expect("the submission carries a value");
                    self.found.fetch_add(carried, Ordering::Relaxed);
                    self.run();
                    self.end(entry);
                }
                Popped::Kept => {}
                Popped::KeptLast => self.item.free(),
                Popped::Stale(entry) => self.complete(entry),
                Popped::Last(entry) => {
                    self.item.free();
                    self.complete(entry);
                }
            }
        }
    }

    fn end(&self, entry: Entry) {
        match self.item.end(|| ()) {
            Ended::Idle => {}
            Ended::PutBack(Entry(shard)) => self.put(shard),
            Ended::Last => self.item.free(),
        }
        self.complete(entry);
    }

    fn complete(&self, _entry: Entry) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_handle(&self) {
        if self.item.drop_handle() {
            self.item.free();
        }
    }

    fn run(&self) {
        self.inside.write(|runs| *runs += 1);
        for (written, seen) in self.written.iter().zip(&self.seen) {
            seen.fetch_max(written.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let again = self.again.swap(NOWHERE, Ordering::Relaxed);
        if again != NOWHERE {
            self.queue(again as usize);
        }
        // If another run began before this write, loom would report that the run and the write are not ordered.
        self.inside.write(|_| ());
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs the remaining entries, and drops the last handle. Must be called after all threads of the model have ended.
    fn assert_quiet(&self) {
        for timer in [0, 1] {
            self.fire(timer, 0);
        }
        self.drain();
        let state = self.item.load();
        assert!(!state.is_pending() && !state.is_running(), "{state:?}");
        // The item is as good as new: the next submission to each shard needs an entry, and this entry runs the item.
        for shard in [0, 1, 0] {
            let id = ShardId::new(shard);
            assert_eq!(
                self.item.queue(self.target(shard as usize), None),
                Queued::Push,
                "{:?}",
                self.item.load()
            );
            assert!(matches!(self.item.begin(id, Entry(shard as usize)), Popped::Run(_)));
            assert_eq!(self.item.end(|| ()), Ended::Idle);
        }
        self.drop_handle();
        self.assert_gone();
    }

    fn drain(&self) {
        for shard in [0, 1, 0] {
            self.work(shard);
        }
    }

    fn assert_gone(&self) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!(count(&self.runs), count(&self.due), "runs, and accepted submissions");
        assert_eq!(
            count(&self.found),
            count(&self.carried),
            "what the runs found, and what submissions carry"
        );
        assert_eq!(count(&self.completed), count(&self.pushed), "an entry was lost or doubled");
        for shard in [0, 1] {
            assert!(!self.lists[shard].has_work());
        }
        assert!(self.item.is_freed(), "no thread freed the item");
    }
}

/// Starts a worker, which is a thread without a handle.
fn spawn(model: &Arc<Model>, f: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
    let model = model.clone();
    thread::spawn(move || f(&model))
}

/// Starts a thread that holds its own handle while it calls `f`. Then the thread becomes a worker of the shard.
fn issue(model: &Arc<Model>, shard: usize, f: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
    model.item.add_handle();
    spawn(model, move |model| {
        f(model);
        model.drop_handle();
        model.work(shard);
    })
}

/// Two issuers submit the item to one shard while it runs. Each submission is served by a run that sees what the
/// submission's issuer wrote.
///
/// spec: W4.1
#[test]
fn a_run_sees_what_was_written_before_each_submission_that_it_answers() {
    check(3, || {
        let model = Arc::new(Model::new());
        let other = issue(&model, 0, |model| model.write_and_queue(1, 0));
        model.write_and_queue(0, 0);
        model.work(0);
        other.join().unwrap();
        model.assert_quiet();
        for seen in &model.seen {
            assert_eq!(seen.load(Ordering::Relaxed), 1, "no run saw what an issuer wrote");
        }
    });
}

/// An issuer submits the item again while a worker begins the item. A run then sees what the issuer wrote.
#[test]
fn a_coalesced_submission_is_answered() {
    check_all(|| {
        let model = Arc::new(Model::new());
        model.queue(0);
        let worker = spawn(&model, |model| model.work(0));
        model.write_and_queue(0, 0);
        worker.join().unwrap();
        model.assert_quiet();
        assert_eq!(model.seen[0].load(Ordering::Relaxed), 1, "no run saw what the issuer wrote");
    });
}

/// The item is submitted again while it runs. Another worker pops the entry of this submission, and the item stores
/// this entry. The worker that runs the item then puts the entry back on the list.
///
/// spec: W3.1
#[test]
fn an_item_is_submitted_again_while_it_runs() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let runner = spawn(&model, |model| model.work(0));
        model.queue(1);
        model.work(1);
        runner.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: F3.1
#[test]
fn an_item_is_cancelled_while_it_begins() {
    check_all(|| {
        let model = Arc::new(Model::new());
        model.queue(0);
        let worker = spawn(&model, |model| model.work(0));
        model.cancel();
        model.queue(0);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// A running item is cancelled while another worker pops the item's next entry, or after the item has stored this
/// entry.
#[test]
fn an_item_that_runs_and_is_pending_is_cancelled() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let runner = spawn(&model, |model| model.work(0));
        let other = issue(&model, 1, |model| model.queue(1));
        model.cancel();
        runner.join().unwrap();
        other.join().unwrap();
        model.assert_quiet();
    });
}

/// A cancelled entry is on the list of one shard while the item is submitted to the other shard.
#[test]
fn a_cancelled_item_is_submitted_to_another_shard() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let worker = spawn(&model, |model| model.work(0));
        model.cancel();
        model.queue(1);
        model.work(1);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// A worker pops a cancelled entry that the slow-path state names, while a submission uses this entry again.
#[test]
fn a_stale_entry_is_popped_while_it_is_revived() {
    check(4, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        model.queue(1);
        model.cancel();
        let worker = spawn(&model, |model| model.work(0));
        model.queue(0);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// While an issuer submits the item to shard 0, one worker pops a cancelled entry of shard 0, and another worker runs
/// the item for shard 1.
#[test]
fn a_stale_entry_is_popped_while_the_item_runs_for_another_shard() {
    check(2, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        model.queue(1);
        let worker = spawn(&model, |model| model.work(0));
        let other = spawn(&model, |model| model.work(1));
        model.queue(0);
        worker.join().unwrap();
        other.join().unwrap();
        model.assert_quiet();
    });
}

/// The item runs and has no handle any more. Another worker pops the item's next entry, and the item stores this entry.
/// The first worker puts the entry back. The item then runs with this entry while the other worker still uses the item.
#[test]
fn an_item_without_a_handle_runs_and_is_pending() {
    check(4, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        assert!(model.lists[0].pop());
        let Popped::Run(entry) = model.item.begin(ShardId::new(0), Entry(0)) else {
            panic!("the item is pending")
        };
        model.run();
        model.queue(0);
        model.drop_handle();
        let other = spawn(&model, |model| model.work(0));
        model.end(entry);
        model.work(0);
        other.join().unwrap();
        model.drain();
        model.assert_gone();
    });
}

/// The last handle is dropped while workers pop the item's entries. One entry belongs to a cancelled submission.
#[test]
fn the_last_handle_is_dropped_while_stale_entries_are_popped() {
    check(2, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        model.queue(1);
        let first = spawn(&model, |model| model.work(0));
        let second = spawn(&model, |model| model.work(1));
        model.cancel();
        model.drop_handle();
        first.join().unwrap();
        second.join().unwrap();
        model.drain();
        model.assert_gone();
    });
}
