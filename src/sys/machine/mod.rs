//! A machine with simulated CPUs and simulated time, on which tests run the real engine.
//!
//! The threads are real, but only one of them runs at a time: the thread that has the *baton*. At a *point*, the
//! machine may give the baton to another thread that has a CPU. A thread that waits through this crate gives the baton
//! away, until it is woken or its waiting time is over. If every thread waits, the machine's time moves on. So a run
//! takes no more real time than its steps take. The same seed gives the same run.
//!
//! There are two kinds of machines. [`run`] makes a machine for the crate's own unit tests. On such a machine, each
//! access to an atomic or a lock of the crate is a point ([`Config::fine`]). [`run_watched`] makes a machine for the
//! tests of users, and notices if a run hangs. On a watched machine, points are only at operations of the crate and at
//! wake-ups, and a thread that reaches a point holds no lock of the crate. On a watched machine, the order of events
//! depends on nothing but the seed. With the feature `testing`, the crate's atomics are those of the standard library.
//! As long as the process has no machine, each step costs a thread one load of an atomic.
//!
//! The threads that a thread of the machine makes through this crate belong to the machine, too. All other threads of
//! the process have the system's CPUs and time. On a machine, user code can use the CPU with [`burn`], wait with
//! [`pause`], and call the crate. A thread that waits in any other way keeps the baton.

#![cfg_attr(
    not(all(test, feature = "testing")),
    allow(dead_code, unused_imports, reason = "unit tests and the test kit use different parts")
)]

mod baton;
mod cpus;
mod faults;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod lock;
mod moment;
#[cfg(not(test))]
pub(crate) mod plain;
mod plan;
mod record;
mod rests;
mod scene;
mod schedule;
mod steps;
mod watch;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

pub(crate) use self::baton::Place;
use self::baton::{Inner, Machine};
#[cfg(test)]
pub(crate) use self::lines::Costs;
#[cfg(test)]
pub(crate) use self::lock::{Condvar, Mutex, MutexGuard, locks_taken};
pub(crate) use self::moment::{Check, Moment};
pub(crate) use self::plan::{Absence, Chosen, Plan};
pub(crate) use self::record::Event;
use self::record::Waits;
use self::rests::Rests;
pub(crate) use self::scene::{
    bind, bound, burn, check, claim, cpu_time, cpus, current, current_cpu, pause, present_cpus,
    refuse_threads, refuse_threads_named, seen, sleeps_so_far, stand_on, stays_awake, take_cpu, threads,
};
#[cfg(test)]
pub(crate) use self::scene::{moved, touch};
use self::schedule::State;
pub(crate) use self::schedule::{Config, Order, Tid};
pub(crate) use self::steps::{
    add_chore, begins, carry_out, ends, events, fail_if, has_chores, holds, keeps_house, lateness,
    let_time_pass, listens, most_moves, name_of_spawned, no_more_faults, note, number, own_panic_is_told,
    panic_as_planned, panic_is_told, park_a_while, perform_chores, refuses_submission, released, settle,
    step, step_to, until_locked, until_ready, until_shutdown, until_woken, waiting_threads, waits_for,
    waits_for_item, waits_for_queue, wake_object,
};
pub(crate) use self::watch::{Outcome, run_watched};
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::sys::affinity;

/// The event for which a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// A wake-up at an address in memory.
    Address(usize),
    /// An unpark of the thread.
    Parked(Tid),
    /// The end of a thread.
    End(Tid),
    /// A change of the user's lock, channel or condition variable at this address.
    Object(usize),
    /// The moment at which no thread can take a step.
    Quiet,
    /// The step at which the plan shuts the executors down.
    Shutdown,
}

/// The calling thread's place in its machine.
struct Me {
    machine: Arc<Machine>,
    tid: Tid,
}

/// Whether this build has machines.
pub(crate) const MAY_EXIST: bool = true;

thread_local! {
    static ME: RefCell<Option<Me>> = const { RefCell::new(None) };
    /// Whether the thread passes its points without giving the baton away, because it must keep the baton for now.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The number of machines in this process. A thread that belongs to a machine always reads at least 1.
static MACHINES: AtomicUsize = AtomicUsize::new(0);

/// Returns whether the process has a machine. Without a machine, a call costs a thread only this load.
#[inline(always)]
fn any() -> bool {
    MACHINES.load(Ordering::Relaxed) != 0
}

/// Calls `ask` if the calling thread belongs to a machine. The function may be called even while the thread's
/// thread-local values are destroyed.
#[inline(always)]
fn with<R>(ask: impl FnOnce(&Arc<Machine>, Tid) -> R) -> Option<R> {
    if any() { with_own(ask) } else { None }
}

#[cold]
#[inline(never)]
fn with_own<R>(ask: impl FnOnce(&Arc<Machine>, Tid) -> R) -> Option<R> {
    let me = ME.try_with(|me| me.borrow().as_ref().map(|me| (Arc::clone(&me.machine), me.tid)));
    me.ok().flatten().map(|(machine, tid)| ask(&machine, tid))
}

/// Runs `main` on a new thread, which is the main thread of a new machine. Then waits until all threads of the machine
/// have ended or wait for ever.
///
/// # Panics
///
/// Panics if `main` panics, or if all threads wait for ever before `main` has returned.
pub(crate) fn run<R: Send>(config: Config, main: impl FnOnce() -> R + Send) -> R {
    assert!(machine().is_none(), "a machine inside of a machine");
    let machine = Machine::new(config);
    let name = thread::current().name().unwrap_or("test").to_owned();
    let main = || {
        as_main_thread(&machine, main, |result| {
            // After a panic, the other threads might never end.
            if result.is_ok() {
                machine.rest();
            }
            result
        })
    };
    // The main function runs on a new thread, whose thread-local values contain nothing from an earlier run. Values of
    // an earlier run would change the order of steps.
    let result = thread::scope(|scope| {
        let main = thread::Builder::new().name(name).spawn_scoped(scope, main);
        main.expect("the system makes a thread").join()
    });
    result.and_then(|result| result).unwrap_or_else(|payload| resume_unwind(payload))
}

/// Calls `main`, and then `end` with the result of `main`. During both calls, the calling thread is the main thread of
/// this machine.
fn as_main_thread<R, E>(
    machine: &Arc<Machine>,
    main: impl FnOnce() -> R,
    end: impl FnOnce(thread::Result<R>) -> E,
) -> E {
    // Only one thread runs at a time. If all threads are on one CPU, they pass the baton on without waking another CPU.
    let _one_cpu = OneCpu::new();
    let mut inner = machine.inner.lock();
    inner.names.insert(thread::current().id(), 0);
    inner.record.arrives(0);
    drop(inner);
    ME.set(Some(Me { machine: Arc::clone(machine), tid: 0 }));
    let result = catch_unwind(AssertUnwindSafe(main));
    let end = end(result);
    // The machine's other threads may have used the kept value until now. The machine must not keep the value any
    // longer, because the value may refer to the machine.
    let kept = machine.kept.lock().take();
    drop(kept);
    ME.take();
    end
}

/// Returns the address of the calling thread's machine.
#[inline(always)]
fn machine() -> Option<usize> {
    with(|machine, _| Arc::as_ptr(machine) as usize)
}

/// Calls `act`. During this call, the calling thread keeps the baton, unless it waits.
pub(crate) fn quietly<R>(act: impl FnOnce() -> R) -> R {
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            QUIET.set(self.0);
        }
    }

    let _before = Before(QUIET.replace(true));
    act()
}

/// Keeps the calling thread, and the threads that it makes, on one CPU of the system.
struct OneCpu(Option<CpuSet>);

impl OneCpu {
    /// Binds the calling thread to its current CPU. If the system refuses to bind the thread, the run is only slower.
    fn new() -> Self {
        let cpus = affinity::ThreadId::current().cpus().ok();
        let one = affinity::current_cpu().map(CpuSet::single);
        let bound = one.is_some_and(|one| affinity::pin_to_set(&one).is_ok());
        Self(cpus.filter(|_| bound))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        if let Some(cpus) = &self.0 {
            drop(affinity::pin_to_set(cpus));
        }
    }
}

/// Marks a point, at which the baton may pass to another thread. Returns whether the calling thread belongs to a
/// machine.
#[inline(always)]
pub(crate) fn point() -> bool {
    with(|machine, me| {
        if machine.fine && !QUIET.get() {
            machine.point(me);
        }
    })
    .is_some()
}

/// Returns the value that the calling thread's machine keeps for its user. The first call makes the value. While a
/// thread makes the value, no other thread of the machine runs.
#[inline(always)]
pub(crate) fn own<T: Any + Send + Sync>(make: impl FnOnce() -> T) -> Option<Arc<T>> {
    with(|machine, _| {
        let kept = machine.kept.lock().clone();
        let kept = kept.unwrap_or_else(|| {
            let made: Arc<dyn Any + Send + Sync> = Arc::new(quietly(make));
            machine.kept.lock().get_or_insert(made).clone()
        });
        kept.downcast().expect("a machine keeps one value")
    })
}

/// Returns the time of the calling thread's machine, or `None` if the thread belongs to no machine.
#[inline(always)]
pub(crate) fn now() -> Option<Time> {
    with(|machine, _| machine.inner.lock().schedule.now)
}

/// Puts the calling thread to sleep for this time. Returns false if the thread belongs to no machine.
#[inline]
pub(crate) fn nap(time: Duration) -> bool {
    with(|machine, me| {
        let mut inner = machine.enter();
        let end = inner.schedule.now + time;
        inner.schedule.sleep(me, Some(end));
        machine.hand_over(inner, me);
    })
    .is_some()
}

/// If `validate` returns true, the calling thread sleeps on the key until another thread wakes it, or until the time
/// `until` has come. Returns false if the time `until` has come. Returns `None` if the calling thread belongs to no
/// machine, and then does not call `validate`.
#[inline(always)]
pub(crate) fn sleep(key: Key, validate: &mut dyn FnMut() -> bool, until: Option<Time>) -> Option<bool> {
    with(|machine, me| {
        let valid = quietly(validate);
        // No other thread has had the baton since `validate` was called.
        !valid || machine.sleep(me, key, until, Rests::No)
    })
}

/// Wakes all threads that sleep on the key, or only the first of them if `all` is false. The caller must hold no lock.
#[inline(always)]
pub(crate) fn wake(key: Key, all: bool) {
    with(|machine, me| {
        machine.enter().wake(key, all);
        if !QUIET.get() {
            machine.point(me);
        }
    });
}

/// Wakes threads as [`wake`] does. The caller may hold locks of the crate.
#[cfg(test)]
fn wake_under_locks(key: Key, all: bool) {
    with(|machine, me| {
        machine.enter().wake(key, all);
        if machine.fine && !QUIET.get() {
            machine.point(me);
        }
    });
}

impl Inner {
    /// Wakes all threads that sleep on the key, or only the first of them if `all` is false. Returns the number of
    /// woken threads. A thread whose sleep has timed out does not count as asleep, and takes itself off the list.
    fn wake(&mut self, key: Key, all: bool) -> usize {
        let Some(sleepers) = self.sleepers.get_mut(&key) else { return 0 };
        let asleep = sleepers.iter().copied().filter(|thread| self.schedule.sleeps(*thread));
        let woken: Vec<_> = asleep.take(if all { usize::MAX } else { 1 }).collect();
        sleepers.retain(|thread| !woken.contains(thread));
        woken.iter().for_each(|thread| self.schedule.wake(*thread));
        woken.len()
    }
}

/// Offers the baton to the other threads that have a CPU. Returns false if the calling thread belongs to no machine.
#[inline(always)]
pub(crate) fn yield_now() -> bool {
    with(|machine, me| machine.let_others_go_on(machine.enter(), me)).is_some()
}

/// A handle that unparks a thread of a machine. The handle may outlive the machine.
#[derive(Clone)]
pub(crate) struct Parked(Weak<Machine>, Tid);

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parked").field(&self.1).finish()
    }
}

impl Parked {
    #[inline(always)]
    pub(crate) fn current() -> Option<Self> {
        with(|machine, me| Self(Arc::downgrade(machine), me))
    }

    pub(crate) fn unpark(&self) {
        let Some(its_machine) = self.0.upgrade() else { return };
        let mut inner = its_machine.inner.lock();
        if inner.watcher.is_some() && with(|machine, _| Arc::ptr_eq(machine, &its_machine)) != Some(true) {
            return inner.meets_a_stranger();
        }
        inner.schedule.threads[self.1].token = true;
        inner.schedule.woken.push(self.1);
        inner.forget_sleeper(self.1);
        #[cfg(test)]
        let slept = inner.schedule.sleeps(self.1);
        inner.schedule.wake(self.1);
        drop(inner);
        #[cfg(test)]
        if slept {
            scene::wakes();
        }
        with(|machine, me| {
            if !QUIET.get() {
                machine.point(me);
            }
        });
    }
}

/// Parks the calling thread. Returns false if the timeout has expired. Returns `None` if the calling thread belongs to
/// no machine.
pub(crate) fn park(timeout: Option<Duration>) -> Option<bool> {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let until = timeout.map(|timeout| inner.schedule.now + timeout);
        let unparked = std::mem::take(&mut inner.schedule.threads[me].token);
        drop(inner);
        let woken = unparked || machine.sleep(me, Key::Parked(me), until, Rests::No);
        machine.inner.lock().schedule.threads[me].token = false;
        woken
    })
}

/// Returns the body of a thread that the calling thread is about to make. The new thread belongs to the calling
/// thread's machine, if there is one. After the thread is made, the caller [reports its id](made).
pub(crate) fn adopt<R, F: FnOnce() -> R + Send + 'static>(
    name: &str,
    body: F,
) -> io::Result<(impl FnOnce() -> R + Send + 'static + use<R, F>, Option<Tid>)> {
    if with(|machine, me| machine.enter().refuses_thread(me, name)) == Some(true) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let place = with(|machine, me| Place::of_child(machine, me, name));
    let tid = place.as_ref().map(|place| place.tid);
    let body = move || {
        if let Some(place) = place {
            place.take();
        }
        body()
    };
    Ok((body, tid))
}

/// Notes the id that the adopted thread has in the standard library.
pub(crate) fn made(tid: Option<Tid>, name: std::thread::ThreadId) {
    let _outside = tid.and_then(|tid| with(|machine, _| machine.inner.lock().names.insert(name, tid)));
}

/// Returns whether a thread of the calling thread's machine has ended. Returns `None` if the thread or the caller
/// belongs to no machine.
pub(crate) fn has_ended(thread: std::thread::ThreadId) -> Option<bool> {
    with(|machine, _| {
        let inner = machine.enter();
        let tid = inner.names.get(&thread).copied()?;
        Some(inner.schedule.threads[tid].state == State::Ended)
    })
    .flatten()
}

/// Waits for the end of a thread. Returns false if the time `until` comes first. Returns `None` if the thread or the
/// caller belongs to no machine.
pub(crate) fn wait_for_end(thread: std::thread::ThreadId, until: Option<Time>) -> Option<bool> {
    with(|machine, me| {
        let inner = machine.inner.lock();
        let tid = inner.names.get(&thread).copied()?;
        let ended = inner.schedule.threads[tid].state == State::Ended;
        drop(inner);
        let _says = steps::waits(|| Waits::Thread(tid));
        Some(ended || machine.sleep(me, Key::End(tid), until, Rests::No))
    })
    .flatten()
}

#[cfg(test)]
mod tests;
