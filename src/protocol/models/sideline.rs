//! A model of [`Sideline`](crate::protocol::sideline::Sideline): an entry is put back while the only worker goes
//! idle.
//!
//! This must not happen:
//!
//! * worker: sees no entry;
//! * other thread: puts an entry back, and sees that a worker runs;
//! * worker: leaves the count, and rests. So the entry waits, and no worker takes it.
//!
//! The fences prevent it. Either the worker, which has left the count, sees that the sideline has an entry, or the
//! other thread, which has shown the entry, sees a free place.
//!
//! Red under: `put-back-shows-nothing`, `push-without-fence`, `look-without-fence`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::running::RunningCell;
use crate::protocol::sideline::{Bound, Shown, Sideline};
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

/// spec: P2.8
#[test]
fn an_entry_that_is_put_back_is_seen() {
    check_all(|| {
        let running = RunningCell::new(Running::managed(1).unwatchable());
        running.come_back();
        let pool = Arc::new(Pool { running, sideline: Mutex::new(Sideline::new()), aside: Shown::new() });
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                assert!(pool.sideline.lock().put_back(Entry, &pool.aside).is_ok());
                matches!(pool.running.pushed(), Kick::Wake(_))
            })
        };
        let pop = || pool.aside.comes_first() && pool.sideline.lock().pop_front(&pool.aside).is_some();
        let taken = pop();
        pool.running.leave();
        let look = pool.running.look(|| pool.aside.len() > 0);
        let woken = other.join().unwrap() | matches!(look, Kick::Wake(_));
        assert!(taken || woken, "the entry waits, and no worker comes for it");
        assert!(taken || pop(), "a worker that was woken finds the entry");
    });
}
