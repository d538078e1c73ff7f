//! Models of [`WorkerCell`](crate::protocol::worker::WorkerCell): a word with one writer at a time.
//!
//! A woken worker that has not parked yet sees what its waker wrote. The right to write the word passes from the worker
//! to the thread that takes the worker off the idle stack, and back. No write to the word is lost.
//!
//! Red under: `worker-without-acquire`, `worker-without-release`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check_all};
use crate::policy::worker::Phase;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::Mutex;

/// A worker is already awake when its waker wakes it. So it neither parks nor takes the lock, and only the word orders
/// the worker after its waker.
#[test]
fn a_woken_worker_sees_what_its_waker_wrote() {
    check_all(|| {
        let cell = Arc::new(WorkerCell::new(Phase::Idle));
        let data = Arc::new(Data::new(false));
        let waker = {
            let (cell, data) = (cell.clone(), data.clone());
            thread::spawn(move || {
                data.write(|data| *data = true);
                cell.set_phase(Phase::Waking);
            })
        };
        if cell.load().phase() == Phase::Waking {
            assert!(data.read(|data| *data));
        }
        waker.join().unwrap();
    });
}

/// In this model, the idle stack is a flag under the mutex.
#[test]
fn the_right_to_write_goes_from_owner_to_waker_and_back() {
    check_all(|| {
        let cell = Arc::new(WorkerCell::new(Phase::Waking));
        let idle = Arc::new(Mutex::new(false));
        let waker = {
            let (cell, idle) = (cell.clone(), idle.clone());
            thread::spawn(move || {
                let mut idle = idle.lock();
                let taken = std::mem::take(&mut *idle);
                if taken {
                    cell.set_phase(Phase::Waking);
                }
                taken
            })
        };
        cell.begin_item(Phase::Running);
        {
            let mut idle = idle.lock();
            *idle = true;
            cell.set_phase(Phase::Idle);
        }
        let begins = cell.load().phase() == Phase::Waking;
        if begins {
            cell.begin_item(Phase::Running);
        }
        let taken = waker.join().unwrap();
        assert!(taken || !begins);
        let phase = match (taken, begins) {
            (_, true) => Phase::Running,
            (true, false) => Phase::Waking,
            (false, false) => Phase::Idle,
        };
        assert_eq!((cell.load().phase(), cell.load().sequence()), (phase, 1 + u64::from(begins)));
    });
}
