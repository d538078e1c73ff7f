//! Models of a pool that is abandoned through [`RunningCell::abandon`](crate::protocol::running::RunningCell::abandon)
//! and [`Sideline::abandon`](crate::protocol::sideline::Sideline::abandon), while another thread adds an entry or a
//! worker takes an entry.
//!
//! The pool permits one running worker, and its running worker is stuck. So a push wakes no worker. The models rule out
//! four outcomes. First, an entry stays on the worklist of the abandoned pool:
//!
//! * abandoning thread: finds the worklist empty;
//! * issuer: pushes an entry, and reads a word that tells it to wake no worker;
//! * abandoning thread: marks the word.
//!
//! Second, an entry stays on the sideline of the abandoned pool:
//!
//! * worker: reads that the pool is not abandoned;
//! * abandoning thread: sets the mark, and takes the entries;
//! * worker: puts its entry back.
//!
//! Third, a worker continues to run entries of the abandoned pool:
//!
//! * worker: takes the last entry of the sideline;
//! * abandoning thread: sets the mark;
//! * worker: overwrites the mark with the number of entries, which is zero, and continues with the worklist.
//!
//! Fourth, a shutdown reports an item as running although the item never began:
//!
//! * abandoning thread: marks the word;
//! * worker: looks for work before it parks, and takes an entry to give it up;
//! * abandoning thread: gives up the other entries, and reports;
//! * worker: gives up its entry.
//!
//! Red under: `abandon-without-fence`, `abandon-tells-no-issuer`, `push-without-fence`, `put-back-behind-the-mark`,
//! `mark-gives-way-to-a-count`, `abandoned-is-emptied`, `never-emptied`.

use std::sync::Arc;

use loom::thread;

use super::{List, check_all};
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::running::RunningCell;
use crate::protocol::sideline::{Bound, Shown, Sideline};
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

struct Entry;

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        false
    }
}

struct Pool {
    running: RunningCell,
    worklist: List,
    sideline: Mutex<Sideline<Entry>>,
    aside: Shown,
    given_up: AtomicU64,
}

impl Pool {
    /// Makes a pool that permits one running worker, and in which one worker runs.
    fn new() -> Arc<Self> {
        let running = RunningCell::new(Running::managed(1).unwatchable());
        running.come_back();
        Arc::new(Self {
            running,
            worklist: List::new(),
            sideline: Mutex::new(Sideline::new()),
            aside: Shown::new(),
            given_up: AtomicU64::new(0),
        })
    }

    fn push(&self) {
        self.worklist.push();
        self.pushed();
    }

    fn put_back(&self) {
        let put = self.sideline.lock().put_back(Entry, &self.aside);
        match put {
            Ok(()) => self.pushed(),
            Err(Entry) => self.push(),
        }
    }

    fn pushed(&self) {
        self.perform(self.running.pushed());
    }

    fn perform(&self, kick: Kick) {
        match kick {
            Kick::Wake(reserved) => {
                let sideline = self.sideline.lock();
                assert!(sideline.is_abandoned(), "the pool is saturated");
                let is_emptied = sideline.is_emptied();
                drop(sideline);
                self.running.drop_reservation(reserved);
                if is_emptied {
                    self.give_up_worklist();
                }
            }
            Kick::Enough => {}
            Kick::Leave | Kick::Watch | Kick::Offer | Kick::Starve => {
                panic!("no manager watches, and there are no siblings")
            }
        }
    }

    /// Takes an entry of the pool for the worker. Returns whether the pool had an entry that the worker may take.
    fn pop(&self) -> bool {
        if self.aside.comes_first() {
            let mut sideline = self.sideline.lock();
            let first = sideline.pop_front(&self.aside);
            if first.is_some() || sideline.is_abandoned() {
                return first.is_some();
            }
        }
        self.worklist.pop()
    }

    fn abandon(&self) {
        let mut sideline = self.sideline.lock();
        let aside = sideline.abandon(&self.aside);
        self.running.abandon();
        drop(sideline);
        self.give_up(aside.len() as u64);
        loop {
            self.give_up_worklist();
            let mut sideline = self.sideline.lock();
            if !self.worklist.has_work() {
                return sideline.emptied();
            }
        }
    }

    fn give_up_worklist(&self) {
        while self.worklist.pop() {
            self.give_up(1);
        }
    }

    fn give_up(&self, entries: u64) {
        self.given_up.fetch_add(entries, Ordering::Relaxed);
    }

    fn assert_empty(&self) {
        let aside = self.sideline.lock().len();
        assert!(aside == 0 && !self.worklist.has_work(), "an entry stays in the abandoned pool");
    }

    fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }
}

/// spec: E5.3
#[test]
fn no_pushed_entry_stays_in_a_pool_that_was_abandoned() {
    check_all(|| {
        let pool = Pool::new();
        pool.push();
        let thread = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        pool.abandon();
        thread.join().unwrap();
        pool.assert_empty();
        assert_eq!(pool.given_up(), 2);
    });
}

/// spec: E5.3
#[test]
fn no_entry_that_is_put_back_stays_in_a_pool_that_was_abandoned() {
    check_all(|| {
        let pool = Pool::new();
        pool.put_back();
        let thread = {
            let pool = pool.clone();
            thread::spawn(move || pool.put_back())
        };
        pool.abandon();
        thread.join().unwrap();
        pool.assert_empty();
        assert_eq!(pool.given_up(), 2);
    });
}

/// spec: E5.3: the thread that abandons the pool itself gives up each entry that was pushed before the abandonment,
/// even if another thread looks for work at the same time.
#[test]
fn earlier_entries_are_left_to_the_thread_that_abandons_the_pool() {
    check_all(|| {
        let pool = Pool::new();
        pool.push();
        let thread = {
            let pool = pool.clone();
            thread::spawn(move || pool.perform(pool.running.look(|| pool.worklist.has_work())))
        };
        pool.abandon();
        assert_eq!(pool.given_up(), 1, "another thread has the entry");
        thread.join().unwrap();
        pool.assert_empty();
    });
}

/// A worker takes an entry while another thread abandons the pool. Once the pool is abandoned, the worker takes no
/// further entry of the pool.
///
/// spec: E5.3
#[test]
fn a_worker_takes_no_entry_of_a_pool_that_was_abandoned() {
    check_all(|| {
        let pool = Pool::new();
        pool.put_back();
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || u64::from(pool.pop()))
        };
        pool.abandon();
        let ran = worker.join().unwrap();
        pool.assert_empty();
        assert_eq!(ran + pool.given_up(), 1);
        pool.worklist.push();
        assert!(!pool.pop(), "the worker takes an entry of an abandoned pool");
    });
}
