//! A model of [`Sideline`](crate::protocol::sideline::Sideline): a thread puts an entry back, or into the line of the
//! entry's queue, while the only worker goes idle.
//!
//! The following must not happen:
//!
//! * worker: sees no entry;
//! * other thread: puts an entry back or into its line, and sees that a worker runs;
//! * worker: leaves the count, and rests. So the entry waits, and no worker takes it.
//!
//! The fences of the two threads prevent these steps. The worker leaves the count, and then reads whether the sideline
//! has an entry. The other thread makes the entry visible, and then reads whether a worker runs. At least one of the
//! two threads sees what the other thread has written.
//!
//! Red under: `put-back-shows-nothing`, `line-shows-nothing`, `push-without-fence`, `look-without-fence`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::concurrency::{Kick, Running};
use crate::policy::fairness::FlowId;
use crate::protocol::running::RunningCell;
use crate::protocol::sideline::{Bound, Shown, Sideline};
use crate::protocol::turns::FairShare;
use crate::sys::sync::Mutex;

struct Entry;

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        true
    }
}

struct Pool {
    running: RunningCell,
    sideline: Mutex<Sideline<Entry>>,
    aside: Shown,
}

/// Takes the first entry, as a worker does.
fn pop(pool: &Pool) -> bool {
    if !pool.aside.comes_first() {
        return false;
    }
    let mut sideline = pool.sideline.lock();
    let first = sideline.pop_front(&pool.aside);
    first.or_else(|| sideline.pop_by_turn(&pool.aside, || false, || None)).is_some()
}

/// Lets a thread push an entry while the only worker goes idle.
fn is_seen(push: fn(&Pool) -> bool) {
    check_all(move || {
        let running = RunningCell::new(Running::managed(1).unwatchable());
        running.come_back();
        let pool = Arc::new(Pool { running, sideline: Mutex::new(Sideline::new()), aside: Shown::new() });
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                assert!(push(&pool));
                matches!(pool.running.pushed(), Kick::Wake(_))
            })
        };
        let taken = pop(&pool);
        pool.running.leave();
        let look = pool.running.look(|| pool.aside.has_entries());
        let woken = other.join().unwrap() | matches!(look, Kick::Wake(_));
        assert!(taken || woken, "the entry waits, and no worker comes for it");
        assert!(taken || pop(&pool), "a worker that was woken finds the entry");
        assert!(!pop(&pool) && !pool.aside.has_entries(), "there is only one entry");
    });
}

/// spec: P2.8
#[test]
fn an_entry_that_is_put_back_is_seen() {
    is_seen(|pool| pool.sideline.lock().put_back(Entry, &pool.aside).is_ok());
}

/// spec: B3.6
#[test]
fn an_entry_in_a_line_is_seen() {
    is_seen(|pool| {
        let share = Arc::new(FairShare::new(1));
        let of = (FlowId::of_queue(1), &share);
        pool.sideline.lock().push_in_line(of, Entry, &pool.aside).is_ok()
    });
}
