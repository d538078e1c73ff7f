//! Models of a pool in distress: its only worker cannot be made, so a rescuer does the work.
//!
//! The models rule out two ways in which an item could be lost. First, no thread makes a reservation for the item, so
//! no thread calls a worker or a rescuer. Second, a thread looks for work while the item is between the worklist and
//! the sideline, and so misses the item.
//!
//! Red under: `push-without-fence`, `look-without-fence`, `drop-keeps-reservation`,
//! `deadline-leaves-the-reservation`, `looks-once-for-all-dropped`.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::{List, check, check_all};
use crate::policy::concurrency::{Kick, Reserved, Running};
use crate::policy::idle_set::{IdleLimits, IdleSet, Mayday, Wake};
use crate::policy::known_deadlines::KnownDeadlines;
use crate::policy::rescue::MAYDAY_INITIAL;
use crate::policy::time::Time;
use crate::protocol::running::RunningCell;
use crate::sys::sync::Mutex;

const LIMITS: IdleLimits = IdleLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4, min_idle: 2 };

/// The time from the beginning of the model to the deadline at which rescuers are first called.
const FIRST: Duration = MAYDAY_INITIAL;

struct Pool {
    list: List,
    running: RunningCell,
    state: Mutex<(IdleSet, KnownDeadlines)>,
}

impl Pool {
    /// Makes a pool with one item. A call for help has begun, because no worker can be made for this item.
    fn in_distress() -> Arc<Self> {
        Self::of_cpus(1)
    }

    /// Makes a pool that has as many items as CPUs, and wants a worker for each item.
    fn of_cpus(cpus: usize) -> Arc<Self> {
        let pool = Self {
            list: List::new(),
            running: RunningCell::new(Running::managed(cpus).unwatchable()),
            state: Mutex::new((IdleSet::new(LIMITS), KnownDeadlines::default())),
        };
        for number in 0..cpus {
            pool.list.push();
            let Kick::Wake(reserved) = pool.running.pushed() else { panic!("no worker is there") };
            let wake = if number == 0 { Wake::Create } else { Wake::Wait };
            assert_eq!(pool.state.lock().0.kick(reserved, None, Time::default), wake);
        }
        let mut state = pool.state.lock();
        state.0.unserved(Time::default);
        assert_eq!(unknown_deadline(&mut state), Some(Time::default() + FIRST), "work waits");
        drop(state);
        Arc::new(pool)
    }

    /// Pushes an item. Returns the deadline that the caller must report to the manager, if there is one.
    fn push(&self) -> Option<Time> {
        self.list.push();
        self.perform(self.running.pushed())
    }

    fn perform(&self, kick: Kick) -> Option<Time> {
        let Kick::Wake(reserved) = kick else { return None };
        let mut state = self.state.lock();
        let wake = state.0.kick(reserved, None, Time::default);
        assert_eq!(wake, Wake::Wait, "the worker was asked for, and no worker is idle");
        unknown_deadline(&mut state)
    }

    /// Takes the items on the list, and then leaves, as the rescuer does.
    fn rescue(&self) -> Option<Time> {
        while self.state.lock().0.needs_help() && self.list.pop() {}
        let dropped = self.state.lock().0.relieved(self.list.has_work());
        self.stand_down(dropped)
    }

    /// Handles the deadline of the first call for help. Returns the next deadline.
    fn mayday(&self) -> Option<Time> {
        let mayday = self.state.lock().0.mayday(Time::default() + FIRST, self.list.has_work());
        if let Mayday::StandDown(dropped) = mayday {
            assert_eq!(self.stand_down(dropped), None, "the manager learns it below");
        }
        let mut state = self.state.lock();
        let next = state.0.next_deadline();
        state.1.seen_to(Time::default() + FIRST, next)
    }

    fn stand_down(&self, dropped: Vec<Reserved>) -> Option<Time> {
        let mut told = None;
        let look = || told = self.perform(self.running.look(|| self.list.has_work())).or(told.take());
        RunningCell::stand_down(dropped, |reserved| self.running.drop_reservation(reserved), look);
        told
    }

    /// Checks that a worker is reserved for each item, as far as the pool's target permits. If work is left, also
    /// checks that the manager was told of a deadline at which rescuers are called, or of an earlier deadline.
    fn assert_called(&self, told: impl IntoIterator<Item = Option<Time>>) {
        let state = self.state.lock();
        let word = self.running.load();
        let wanted = word.target().map_or(0, |target| target.min(self.list.len()));
        assert!(word.waking() >= wanted, "{} items wait, and {} workers are wanted", wanted, word.waking());
        if self.list.has_work() {
            let deadline = state.0.next_deadline().filter(|_| state.0.needs_help());
            let deadline = deadline.expect("work waits, and no rescuer is called");
            assert!(
                told.into_iter().flatten().any(|at| at <= deadline),
                "the manager does not know {deadline:?}"
            );
        } else if !state.0.needs_help() {
            assert_eq!(self.running.load().waking(), 0, "a reservation has leaked");
        }
    }
}

fn unknown_deadline((idle_set, known): &mut (IdleSet, KnownDeadlines)) -> Option<Time> {
    known.changed(idle_set.next_deadline())
}

/// The deadline that the manager knows when the model begins.
fn first() -> Option<Time> {
    Some(Time::default() + FIRST)
}

/// spec: P2.8 (no item is left behind without a worker)
#[test]
fn an_item_is_pushed_while_the_rescuer_leaves() {
    check_all(|| {
        let pool = Pool::in_distress();
        let rescuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.rescue())
        };
        let pushed = pool.push();
        pool.assert_called([first(), pushed, rescuer.join().unwrap()]);
    });
}

#[test]
fn two_items_are_pushed_while_the_rescuer_leaves() {
    check(2, || {
        let pool = Pool::in_distress();
        let rescuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.rescue())
        };
        let issuer = {
            let pool = pool.clone();
            thread::spawn(move || pool.push())
        };
        pool.assert_called([first(), pool.push(), issuer.join().unwrap(), rescuer.join().unwrap()]);
    });
}

/// A worker of another CPU has taken the pool's only item. The next item is pushed while the manager handles the
/// deadline of the pool's call for help.
///
/// spec: P2 (after its first call for help, a pool calls again every 100 ms)
#[test]
fn an_item_is_pushed_at_the_deadline_of_a_call() {
    check_all(|| {
        let pool = Pool::in_distress();
        assert!(pool.list.pop());
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.mayday())
        };
        let pushed = pool.push();
        pool.assert_called([pushed, manager.join().unwrap()]);
    });
}

/// Two items are pushed to a pool of two CPUs while the manager handles the deadline of the pool's call for help. The
/// pool gives up its two reservations, while each of the two pushes relies on one of the reservations.
///
/// spec: P2 (no item is left behind without a worker)
#[test]
fn two_items_are_pushed_at_the_deadline_of_a_call() {
    check(2, || {
        let pool = Pool::of_cpus(2);
        assert!(pool.list.pop() && pool.list.pop());
        let manager = {
            let pool = pool.clone();
            thread::spawn(move || pool.mayday())
        };
        let pushed = [pool.push(), pool.push()];
        pool.assert_called(pushed.into_iter().chain([manager.join().unwrap()]));
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
