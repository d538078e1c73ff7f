//! A model of a pool that is given up: [`RunningCell::abandon`](crate::protocol::running::RunningCell::abandon) against
//! a push.
//!
//! The pool is saturated and its worker is stuck, so a push would wake nobody. An entry that is pushed while the pool is
//! abandoned is given up by whoever abandons it, or by who pushed it: none stays.
//!
//! Red under: `abandon-without-fence`, `abandon-tells-nobody`, `push-without-fence`.

use std::sync::Arc;

use loom::thread;

use super::{List, check_all};
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::running::RunningCell;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};

struct Pool {
    running: RunningCell,
    worklist: List,
    abandoned: Mutex<bool>,
    given_up: AtomicU64,
}

impl Pool {
    /// One worker may run, and does.
    fn new() -> Self {
        let running = RunningCell::new(Running::managed(1).unwatchable());
        running.come_back();
        Self { running, worklist: List::new(), abandoned: Mutex::new(false), given_up: AtomicU64::new(0) }
    }

    fn push(&self) {
        self.worklist.push();
        match self.running.pushed() {
            Kick::Wake(reserved) => {
                assert!(*self.abandoned.lock(), "the pool is saturated");
                self.running.drop_reservation(reserved);
                self.give_up();
            }
            Kick::Enough => {}
            Kick::Watch | Kick::Offer | Kick::Starve => {
                panic!("no manager watches, and there are no siblings")
            }
        }
    }

    fn abandon(&self) {
        *self.abandoned.lock() = true;
        self.running.abandon();
        self.give_up();
    }

    fn give_up(&self) {
        while self.worklist.pop() {
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// spec: E5.3
#[test]
fn nothing_stays_in_a_pool_that_was_abandoned() {
    check_all(|| {
        let pool = Arc::new(Pool::new());
        pool.push();
        let thread = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        pool.abandon();
        thread.join().unwrap();
        assert!(!pool.worklist.has_work(), "an entry stays for ever");
        assert_eq!(pool.given_up.load(Ordering::Relaxed), 2);
    });
}
