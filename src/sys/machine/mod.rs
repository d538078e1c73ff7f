//! A machine with simulated CPUs and simulated time, on which tests run the real engine.
//!
//! The threads are real, but only one of them runs at a time: the thread that has the *baton*. Each access to an atomic
//! or a lock of this crate is a *point*, where the machine may give the baton to another thread that has a CPU. A
//! thread that waits, in any of the ways that this crate has, gives the baton away until it is woken or its time has
//! come. If every thread waits, the time moves on. So a run takes no more real time than its steps, and the same seed
//! gives the same run.
//!
//! [`run`] makes a machine whose main thread is the calling thread. The threads that a thread of the machine makes
//! through this crate belong to the machine, too. All other threads of the process have the system's CPUs and time.
//!
//! On a machine, user code can use the CPU with [`burn`], wait with [`pause`], and call the crate. A thread that waits
//! in any other way would keep the baton.

mod baton;
mod cpus;
mod lock;
mod moment;
mod schedule;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use self::baton::{Machine, Place};
pub(crate) use self::lock::{Condvar, Mutex, MutexGuard, locks_taken};
pub(crate) use self::moment::{Check, Moment};
use self::schedule::State;
pub(crate) use self::schedule::{Config, Tid};
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::sys::affinity;
use crate::sys::thread_state::{self, Seen};

/// The event for which a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// A wake-up at an address in memory.
    Address(usize),
    /// An unpark of the thread.
    Parked(Tid),
    /// The end of a thread.
    End(Tid),
}

/// The calling thread's place in its machine.
struct Me {
    machine: Arc<Machine>,
    tid: Tid,
}

thread_local! {
    static ME: RefCell<Option<Me>> = const { RefCell::new(None) };
    /// Whether the thread takes no points at the moment, because its caller must not be interrupted.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls `ask` if the calling thread belongs to a machine. This also works while the thread's thread-local values are
/// destroyed.
fn with<R>(ask: impl FnOnce(&Arc<Machine>, Tid) -> R) -> Option<R> {
    let me = ME.try_with(|me| me.borrow().as_ref().map(|me| (Arc::clone(&me.machine), me.tid)));
    me.ok().flatten().map(|(machine, tid)| ask(&machine, tid))
}

/// Runs `main` as the main thread of a new machine, and then waits until all threads of the machine have ended or wait
/// for ever.
///
/// # Panics
///
/// Panics if `main` panics, or if all threads wait for ever before `main` has returned.
pub(crate) fn run<R>(config: Config, main: impl FnOnce() -> R) -> R {
    let machine = Arc::new(Machine::new(config));
    // Only one thread runs at a time. If all threads are on one CPU, they pass the baton on without waking another CPU.
    let _one_cpu = OneCpu::new();
    let outer = ME.replace(Some(Me { machine: Arc::clone(&machine), tid: 0 }));
    assert!(outer.is_none(), "a machine inside of a machine");
    let result = catch_unwind(AssertUnwindSafe(main));
    if result.is_ok() {
        machine.rest();
    }
    ME.take();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Returns the address of the calling thread's machine.
fn machine() -> Option<usize> {
    with(|machine, _| Arc::as_ptr(machine) as usize)
}

/// Calls `act`. Meanwhile the calling thread keeps the baton, unless it waits.
fn quietly<R>(act: impl FnOnce() -> R) -> R {
    let quiet = QUIET.replace(true);
    let result = act();
    QUIET.set(quiet);
    result
}

/// Keeps the calling thread, and the threads that it makes, on one CPU of the system.
struct OneCpu(Option<CpuSet>);

impl OneCpu {
    /// If the system refuses, the run is only slower.
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

/// Marks a point, at which another thread may go on. Returns whether the calling thread belongs to a machine.
#[inline]
pub(crate) fn point() -> bool {
    with(|machine, me| {
        if !QUIET.get() {
            machine.point(me);
        }
    })
    .is_some()
}

/// Returns the time of the machine.
pub(crate) fn now() -> Option<Time> {
    with(|machine, _| machine.inner.lock().schedule.now)
}

/// Sets the check that runs whenever time is about to pass on the calling thread's machine.
pub(crate) fn check(check: Check) {
    with(|machine, _| machine.inner.lock().check = Some(check)).expect("the thread belongs to a machine");
}

/// Lets the calling thread use its CPU for this time.
pub(crate) fn burn(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        inner.schedule.burn(me, time);
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// Lets the calling thread sleep for this time.
pub(crate) fn pause(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let end = inner.schedule.now + time;
        inner.schedule.sleep(me, Some(end));
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// If `validate` holds, sleeps on a key until the thread is woken or the time has come. Returns false if the time has
/// come. Returns `None` if the calling thread belongs to no machine. In this case, `validate` was not called.
pub(crate) fn sleep(key: Key, validate: &mut dyn FnMut() -> bool, until: Option<Time>) -> Option<bool> {
    with(|machine, me| {
        let valid = quietly(validate);
        // No other thread has had the baton since `validate` was called.
        !valid || machine.sleep(me, key, until)
    })
}

/// Wakes all threads that sleep on a key, or only the first of them.
pub(crate) fn wake(key: Key, all: bool) {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let sleepers = inner.sleepers.get_mut(&key);
        let woken: Vec<_> = sleepers.map_or(Vec::new(), |sleepers| {
            let count = if all { sleepers.len() } else { sleepers.len().min(1) };
            sleepers.drain(..count).collect()
        });
        woken.into_iter().for_each(|thread| inner.schedule.wake(thread));
        drop(inner);
        if !QUIET.get() {
            machine.point(me);
        }
    });
}

/// Lets another thread that has a CPU go on, if there is such a thread.
pub(crate) fn yield_now() -> bool {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        inner.schedule.yields(me);
        machine.hand_over(inner, me);
    })
    .is_some()
}

/// A thread of a machine, which can be unparked.
#[derive(Clone)]
pub(crate) struct Parked(Arc<Machine>, Tid);

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parked").field(&self.1).finish()
    }
}

impl Parked {
    pub(crate) fn current() -> Option<Self> {
        with(|machine, me| Self(Arc::clone(machine), me))
    }

    pub(crate) fn unpark(&self) {
        let mut inner = self.0.inner.lock();
        inner.schedule.threads[self.1].token = true;
        inner.schedule.woken.push(self.1);
        inner.forget_sleeper(self.1);
        inner.schedule.wake(self.1);
        drop(inner);
        point();
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
        let woken = unparked || machine.sleep(me, Key::Parked(me), until);
        machine.inner.lock().schedule.threads[me].token = false;
        woken
    })
}

/// From now on, refuses this many of a thousand attempts to make a thread, if the calling thread's machine has a seed.
pub(crate) fn refuse_threads(of_a_thousand: u32) {
    with(|machine, _| machine.inner.lock().schedule.refuses = of_a_thousand)
        .expect("the thread belongs to a machine");
}

/// Returns the number of threads that the machine has had so far.
pub(crate) fn threads() -> usize {
    with(|machine, _| machine.inner.lock().schedule.threads.len()).expect("the thread belongs to a machine")
}

/// From now on, refuses each thread whose name contains this part.
pub(crate) fn refuse_threads_named(part: &str) {
    with(|machine, _| machine.inner.lock().schedule.refused.push(part.to_owned()))
        .expect("the thread belongs to a machine");
}

/// From now on, the calling thread goes before all threads without a claim, and takes their CPUs from them.
pub(crate) fn claim() {
    with(|machine, me| machine.inner.lock().schedule.claim(me)).expect("the thread belongs to a machine");
}

/// Lets another process take this CPU for the given time.
pub(crate) fn take_cpu(cpu: usize, time: Duration) {
    with(|machine, _| {
        let mut inner = machine.inner.lock();
        inner.schedule.take(cpu, time);
        inner.batons.push(Arc::default());
    })
    .expect("the thread belongs to a machine");
}

/// From now on, the calling thread, which needs no CPU, counts as being on this CPU.
pub(crate) fn stand_on(cpu: usize) {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu = cpu)
        .expect("the thread belongs to a machine");
}

/// Returns the body of a thread that the calling thread is about to make. The new thread belongs to the calling
/// thread's machine, if there is one. After the thread is made, the caller [reports its id](made).
pub(crate) fn adopt<F: FnOnce() + Send + 'static>(
    name: &str,
    body: F,
) -> io::Result<(impl FnOnce() + Send + 'static + use<F>, Option<Tid>)> {
    if with(|machine, _| machine.inner.lock().schedule.refuses(name)) == Some(true) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let place = with(|machine, me| Place::of_child(machine, me, name));
    let tid = place.as_ref().map(|place| place.tid);
    let body = move || {
        if let Some(place) = place {
            place.take();
        }
        body();
    };
    Ok((body, tid))
}

/// Notes the id that the adopted thread has in the standard library.
pub(crate) fn made(tid: Option<Tid>, name: std::thread::ThreadId) {
    let _outside = tid.and_then(|tid| with(|machine, _| machine.inner.lock().names.insert(name, tid)));
}

/// Waits for the end of a thread. Returns false if the time has come before that. Returns `None` if the thread or the
/// caller belongs to no machine.
pub(crate) fn wait_for_end(thread: std::thread::ThreadId, until: Option<Time>) -> Option<bool> {
    with(|machine, me| {
        let inner = machine.inner.lock();
        let tid = inner.names.get(&thread).copied()?;
        let ended = inner.schedule.threads[tid].state == State::Ended;
        drop(inner);
        Some(ended || machine.sleep(me, Key::End(tid), until))
    })
    .flatten()
}

/// Returns the CPU of the calling thread.
pub(crate) fn current_cpu() -> Option<usize> {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu)
}

/// Returns all CPUs of the calling thread's machine.
pub(crate) fn cpus() -> Option<CpuSet> {
    with(|machine, _| machine.inner.lock().schedule.all())
}

/// Returns the calling thread's number on its machine.
pub(crate) fn current() -> Option<Tid> {
    with(|_, me| me)
}

/// Binds a thread of the calling thread's machine to the CPUs of this set. Returns false if the machine has none of
/// these CPUs.
pub(crate) fn bind(thread: Tid, cpus: &CpuSet) -> Option<bool> {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let cpus = inner.schedule.all().intersection(cpus);
        let some = !cpus.is_empty();
        if some {
            inner.schedule.bind(thread, cpus);
            // The calling thread may have lost its CPU.
            machine.hand_over(inner, me);
        }
        some
    })
}

/// Returns the CPUs on which a thread of the calling thread's machine may run.
pub(crate) fn bound(thread: Tid) -> Option<CpuSet> {
    with(|machine, _| {
        let inner = machine.inner.lock();
        inner.schedule.threads[thread].mask.clone().unwrap_or_else(|| inner.schedule.all())
    })
}

/// Returns the state of a thread of the calling thread's machine.
pub(crate) fn seen(thread: Tid) -> Option<Seen> {
    with(|machine, _| {
        let thread = &machine.inner.lock().schedule.threads[thread];
        let state = match thread.state {
            State::Ready | State::Runs | State::Burns(_) => thread_state::State::Runs,
            State::Sleeps | State::Wakes => thread_state::State::Sleeps,
            State::Ended => thread_state::State::Gone,
        };
        Seen { state, cpu: Some(thread.cpu) }
    })
}

/// Returns the CPU time that a thread of the calling thread's machine has used.
pub(crate) fn cpu_time(thread: Tid) -> Option<Duration> {
    with(|machine, _| machine.inner.lock().schedule.cpu_time(thread))
}

/// Returns how many times a thread of the calling thread's machine has slept.
pub(crate) fn sleeps_so_far(thread: Tid) -> Option<u64> {
    with(|machine, _| machine.inner.lock().schedule.threads[thread].sleeps)
}

#[cfg(test)]
mod tests;
