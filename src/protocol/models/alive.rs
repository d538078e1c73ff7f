//! A model of [`AliveCell`](crate::protocol::alive::AliveCell): the manager changes the settings of a thread while the
//! thread ends.
//!
//! If the cell did not protect the system's name for the thread, the manager could reach a thread that no longer
//! exists.
//!
//! Red under: `alive-only-when-asked`.

use std::sync::Arc;

use loom::thread;

use super::{Owned, check_all};
use crate::protocol::alive::AliveCell;
use crate::sys::sync::{AtomicU64, Ordering};

#[test]
fn the_manager_reaches_no_thread_that_has_left() {
    check_all(|| {
        // The value stands for the system's data about the thread. The manager finds this data by the system's name for
        // the thread. All accesses to the value are relaxed, so that only the cell's lock orders them.
        let shared = Arc::new((AliveCell::new(1), Owned::new(AtomicU64::new(0))));
        let manager = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (alive, thread) = &*shared;
                alive.with(|name| thread.fetch_add(name, Ordering::Relaxed))
            })
        };
        let (alive, thread) = &*shared;
        alive.leave();
        let bound = thread.load(Ordering::Relaxed);
        thread.free();
        assert_eq!(manager.join().unwrap().is_some(), bound == 1);
        assert_eq!(alive.with(|_| ()), None);
    });
}
