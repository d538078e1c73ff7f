//! Models of a pool in distress: its only worker cannot be made, and a rescuer does the work.
//!
//! Two kinds of items must not be lost. For one kind no reservation is made, so no worker and no rescuer is called.
//! The other kind is between the worklist and the sideline while a thread looks for work.
//!
//! Red under: `push-without-fence`, `look-without-fence`, `drop-keeps-reservation`,
//! `deadline-leaves-the-reservation`, `looks-once-for-all-dropped`.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::{List, check, check_all};
use crate::policy::concurrency::{Kick, Reserved, Running};
use crate::policy::idle_set::{IdleLimits, IdleSet, Mayday, Wake};
use crate::policy::rescue::Call;
use crate::protocol::running::RunningCell;
use crate::sys::sync::Mutex;

const LIMITS: IdleLimits = IdleLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

struct Pool {
    list: List,
    running: RunningCell,
    idle_set: Mutex<IdleSet>,
}

impl Pool {
    /// Makes a pool with one item, and the call for help that the item led to.
    fn in_distress() -> (Self, Call) {
        Self::of_cpus(1)
    }

    /// Makes a pool with as many items as CPUs. A worker is wanted for each of them.
    fn of_cpus(cpus: usize) -> (Self, Call) {
        let pool = Self {
            list: List::new(),
            running: RunningCell::new(Running::managed(cpus).unwatchable()),
            idle_set: Mutex::new(IdleSet::new(LIMITS)),
        };
        for number in 0..cpus {
            pool.list.push();
            let Kick::Wake(reserved) = pool.running.pushed() else { panic!("no worker is there") };
            let wake = if number == 0 { Wake::Create } else { Wake::Wait };
            assert_eq!(pool.idle_set.lock().kick(reserved, None), wake);
        }
        let call = pool.idle_set.lock().unserved().expect("work waits");
        (pool, call)
    }

    /// Pushes an item. Returns the call that the caller tells the manager of, if any.
    fn push(&self) -> Option<Call> {
        self.list.push();
        self.perform(self.running.pushed())
    }

    fn perform(&self, kick: Kick) -> Option<Call> {
        let Kick::Wake(reserved) = kick else { return None };
        match self.idle_set.lock().kick(reserved, None) {
            Wake::Call(call) => Some(call),
            Wake::Wait => None,
            other => panic!("the worker was asked for, and no worker is idle: {other:?}"),
        }
    }

    /// The rescuer takes the items that it finds, and leaves.
    fn rescue(&self) -> Option<Call> {
        while self.idle_set.lock().needs_help() && self.list.pop() {}
        let dropped = self.idle_set.lock().relieved(self.list.has_work());
        self.stand_down(dropped)
    }

    /// Handles the deadline of a call. Returns the call to tell the manager of, if any, and whether the present call
    /// goes on.
    fn mayday(&self, call: Call) -> (Option<Call>, bool) {
        let mayday = self.idle_set.lock().mayday(call, self.list.has_work());
        match mayday {
            Mayday::Lapsed => (None, false),
            Mayday::StandDown(dropped) => (self.stand_down(dropped), false),
            Mayday::Call => (None, true),
        }
    }

    fn stand_down(&self, dropped: Vec<Reserved>) -> Option<Call> {
        let mut call = None;
        let look = || call = self.perform(self.running.look(|| self.list.has_work())).or(call.take());
        RunningCell::stand_down(dropped, |reserved| self.running.drop_reservation(reserved), look);
        call
    }

    /// Checks that a worker is wanted for each item, and that the manager has a deadline for a call if work is left.
    fn assert_called(&self, calls: &[Call]) {
        let idle_set = self.idle_set.lock();
        let word = self.running.load();
        let wanted = word.target().map_or(0, |target| target.min(self.list.len()));
        assert!(word.waking() >= wanted, "{} items wait, and {} workers are wanted", wanted, word.waking());
        if self.list.has_work() {
            assert!(
                calls.iter().any(|call| idle_set.still_calls(*call)),
                "work waits, and no rescuer is called"
            );
        } else if !idle_set.needs_help() {
            assert_eq!(self.running.load().waking(), 0, "a reservation has leaked");
        }
    }
}

/// spec: P2.8 (nothing is left behind without anybody)
#[test]
fn an_item_is_pushed_while_the_rescuer_leaves() {
    check_all(|| {
        let (pool, first) = Pool::in_distress();
        let pool = Arc::new(pool);
        let rescuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.rescue())
        };
        let pushed = pool.push();
        let left = rescuer.join().unwrap();
        let calls: Vec<_> = [Some(first), pushed, left].into_iter().flatten().collect();
        pool.assert_called(&calls);
    });
}

#[test]
fn two_items_are_pushed_while_the_rescuer_leaves() {
    check(2, || {
        let (pool, first) = Pool::in_distress();
        let pool = Arc::new(pool);
        let rescuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.rescue())
        };
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        let calls = [Some(first), pool.push(), issuer.join().unwrap(), rescuer.join().unwrap()];
        let calls: Vec<_> = calls.into_iter().flatten().collect();
        pool.assert_called(&calls);
    });
}

/// A worker of another CPU has taken the item, and the next item comes together with the deadline.
///
/// spec: P2 (then every 100 ms)
#[test]
fn an_item_is_pushed_at_the_deadline_of_a_call() {
    check_all(|| {
        let (pool, first) = Pool::in_distress();
        assert!(pool.list.pop());
        let pool = Arc::new(pool);
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.mayday(first))
        };
        let pushed = pool.push();
        let (again, goes_on) = manager.join().unwrap();
        let calls: Vec<_> = [goes_on.then_some(first), pushed, again].into_iter().flatten().collect();
        pool.assert_called(&calls);
    });
}

/// The same for a pool of two CPUs. Its two reservations are given up, and each of two issuers relied on one of them.
///
/// spec: P2 (nothing is left behind without anybody)
#[test]
fn two_items_are_pushed_at_the_deadline_of_a_call() {
    check(2, || {
        let (pool, first) = Pool::of_cpus(2);
        assert!(pool.list.pop() && pool.list.pop());
        let pool = Arc::new(pool);
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.mayday(first))
        };
        let pushed = [pool.push(), pool.push()];
        let (again, goes_on) = manager.join().unwrap();
        let calls = pushed.into_iter().chain([goes_on.then_some(first), again]);
        pool.assert_called(&calls.flatten().collect::<Vec<_>>());
    });
}

/// The manager moves an item from the worklist to the sideline. Meanwhile the only worker finds both lists empty, and
/// goes idle.
///
/// spec: P2.8
#[test]
fn an_item_on_its_way_to_the_sideline_is_seen() {
    check_all(|| {
        let running = RunningCell::new(Running::managed(1).unwatchable());
        let Kick::Wake(reserved) = running.pushed() else { panic!("the pool is empty") };
        assert!(running.start(reserved));
        let pool = Arc::new((List::new(), List::new(), running));
        pool.0.push();
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || {
                let (worklist, sideline, running) = &*pool;
                worklist.pop() && {
                    sideline.push();
                    matches!(running.pushed(), Kick::Wake(_))
                }
            })
        };
        let (worklist, sideline, running) = &*pool;
        let taken = sideline.pop() || worklist.pop();
        running.leave();
        let look = running.look(|| sideline.has_work() || worklist.has_work());
        let woken = manager.join().unwrap() | matches!(look, Kick::Wake(_));
        assert!(taken || woken, "the item waits, and no worker comes for it");
    });
}
