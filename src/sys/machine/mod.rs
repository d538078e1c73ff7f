//! A machine whose CPUs and whose time are made up, for tests: it runs the real engine.
//!
//! The threads are real, and one of them runs at a time: it has the *baton*. Each access to an atomic or a lock of this crate
//! is a *point*, where the machine may give the baton to another thread that has a CPU. A thread that waits, in any way
//! that this crate has, gives the baton away until it is woken, or its time has come. If every thread waits, the time
//! moves on. So a run takes no more real time than its steps, and the same seed gives the same run.
//!
//! [`run`] makes a machine, and the calling thread its main thread. The threads that it makes through this crate
//! belong to the machine, too. All other threads of the process have the system's CPUs and time.
//!
//! What user code may do here: use the CPU by [`burn`], wait by [`pause`], and call the crate. A wait of another kind would
//! keep the baton.

mod lock;
mod schedule;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::lock::{Condvar, Mutex, MutexGuard};
pub(crate) use self::schedule::{Config, Tid};
use self::schedule::{Schedule, State};
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;
use crate::sys::affinity;

/// See the module.
pub(crate) struct Machine {
    inner: parking_lot::Mutex<Inner>,
}

struct Inner {
    schedule: Schedule,
    /// The thread that has the baton.
    turn: Tid,
    /// Where each thread waits for the baton.
    batons: Vec<Arc<parking_lot::Condvar>>,
    /// The threads that sleep on each key, in their order.
    sleepers: HashMap<Key, Vec<Tid>>,
    /// By the standard library's names.
    names: HashMap<std::thread::ThreadId, Tid>,
    /// Called whenever time is about to pass.
    check: Option<Check>,
    /// Why the run cannot go on.
    failure: Option<String>,
}

/// What holds whenever time is about to pass: no thread can take a step. It panics if that is not so. It may look at
/// atomics and locks, and does not wait. Its argument is the present time.
pub(crate) type Check = Box<dyn FnMut(Time) + Send>;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// An address in memory.
    Address(usize),
    /// To be unparked.
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
    /// The thread takes no points at the moment: its caller must not be interrupted.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls `ask` if the calling thread belongs to a machine. Also while its thread-local values are destroyed.
fn with<R>(ask: impl FnOnce(&Arc<Machine>, Tid) -> R) -> Option<R> {
    let me = ME.try_with(|me| me.borrow().as_ref().map(|me| (Arc::clone(&me.machine), me.tid)));
    me.ok().flatten().map(|(machine, tid)| ask(&machine, tid))
}

/// Runs `main` as the main thread of a new machine, then waits until all its threads have ended or wait for ever.
///
/// # Panics
///
/// If `main` panics, or all threads wait for ever while `main` has not returned.
pub(crate) fn run<R>(config: Config, main: impl FnOnce() -> R) -> R {
    let machine = Arc::new(Machine {
        inner: parking_lot::Mutex::new(Inner {
            schedule: Schedule::new(config),
            turn: 0,
            batons: vec![Arc::default()],
            sleepers: HashMap::new(),
            names: HashMap::from([(std::thread::current().id(), 0)]),
            check: None,
            failure: None,
        }),
    });
    // The threads take turns: on one CPU, they hand over without waking another one.
    let _one_cpu = OneCpu::new();
    let outer = ME.replace(Some(Me { machine: Arc::clone(&machine), tid: 0 }));
    assert!(outer.is_none(), "a machine inside of a machine");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(main));
    if result.is_ok() {
        machine.rest();
    }
    ME.take();
    result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// The address of the calling thread's machine.
fn machine() -> Option<usize> {
    with(|machine, _| Arc::as_ptr(machine) as usize)
}

/// Calls `act`. The calling thread keeps the baton meanwhile, unless it waits.
fn quietly<R>(act: impl FnOnce() -> R) -> R {
    let quiet = QUIET.replace(true);
    let result = act();
    QUIET.set(quiet);
    result
}

/// The calling thread, and those that it makes, stay on one CPU of the system.
struct OneCpu(Option<CpuSet>);

impl OneCpu {
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

/// A point: another thread may go on here. Returns whether the calling thread belongs to a machine.
#[inline]
pub(crate) fn point() -> bool {
    with(|machine, me| {
        if !QUIET.get() {
            machine.point(me);
        }
    })
    .is_some()
}

/// The time of the machine.
pub(crate) fn now() -> Option<Time> {
    with(|machine, _| machine.inner.lock().schedule.now)
}

/// Sets what is checked whenever time is about to pass on the machine of the calling thread.
pub(crate) fn check(check: Check) {
    with(|machine, _| machine.inner.lock().check = Some(check)).expect("the thread belongs to a machine");
}

/// The calling thread uses its CPU for this time.
pub(crate) fn burn(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        inner.schedule.burn(me, time);
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// The calling thread sleeps for this time.
pub(crate) fn pause(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let end = inner.schedule.now + time;
        inner.schedule.sleep(me, Some(end));
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// Sleeps on a key if `validate` holds, until it is woken or the time has come. Returns false if that was so. `None` if the
/// calling thread belongs to no machine: `validate` was not called.
pub(crate) fn sleep(key: Key, validate: &mut dyn FnMut() -> bool, until: Option<Time>) -> Option<bool> {
    with(|machine, me| {
        let valid = quietly(validate);
        // No other thread has had the baton in between.
        !valid || machine.sleep(me, key, until)
    })
}

/// Wakes all threads that sleep on a key, or the first one.
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

/// Another thread that has a CPU goes on, if there is one.
pub(crate) fn yield_now() -> bool {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        inner.schedule.yields(me);
        machine.hand_over(inner, me);
    })
    .is_some()
}

/// The calling thread, if it belongs to a machine.
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
        inner.forget_sleeper(self.1);
        inner.schedule.wake(self.1);
        drop(inner);
        point();
    }
}

/// Parks the calling thread. Returns false if the time was over. `None` if it belongs to no machine.
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

/// The body of a thread that the calling thread is about to make: it belongs to the same machine, if there is one. Once the
/// thread is made, the caller [says so](made).
pub(crate) fn adopt<F: FnOnce() + Send + 'static>(
    name: &str,
    body: F,
) -> (impl FnOnce() + Send + 'static + use<F>, Option<Tid>) {
    let place = with(|machine, me| {
        let mut inner = machine.inner.lock();
        let tid = inner.schedule.spawn(me, name.to_owned());
        inner.batons.push(Arc::default());
        Place { machine: Arc::clone(machine), tid, taken: false }
    });
    let tid = place.as_ref().map(|place| place.tid);
    let body = move || {
        if let Some(place) = place {
            place.take();
        }
        body();
    };
    (body, tid)
}

/// The adopted thread has this name in the standard library.
pub(crate) fn made(tid: Option<Tid>, name: std::thread::ThreadId) {
    let _outside = tid.and_then(|tid| with(|machine, _| machine.inner.lock().names.insert(name, tid)));
}

/// Waits for the end of a thread. Returns false if the time was over. `None` if it belongs to no machine, or the caller does
/// not.
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

/// The CPU of the calling thread.
pub(crate) fn current_cpu() -> Option<usize> {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu)
}

/// All CPUs of the calling thread's machine.
pub(crate) fn cpus() -> Option<CpuSet> {
    with(|machine, _| machine.inner.lock().schedule.all())
}

/// A thread of the calling thread's machine.
pub(crate) fn current() -> Option<Tid> {
    with(|_, me| me)
}

/// Binds a thread of the calling thread's machine to the CPUs of this set. Returns false if the machine has none of them.
pub(crate) fn bind(thread: Tid, cpus: &CpuSet) -> Option<bool> {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let cpus = inner.schedule.all().intersection(cpus);
        let some = !cpus.is_empty();
        if some {
            inner.schedule.bind(thread, cpus);
            // It may have lost its CPU by that.
            machine.hand_over(inner, me);
        }
        some
    })
}

/// Where a thread of the calling thread's machine may run.
pub(crate) fn bound(thread: Tid) -> Option<CpuSet> {
    with(|machine, _| {
        let inner = machine.inner.lock();
        inner.schedule.threads[thread].mask.clone().unwrap_or_else(|| inner.schedule.all())
    })
}

/// What the machine tells of one of its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) sleeps: bool,
    pub(crate) ended: bool,
    pub(crate) cpu: usize,
    pub(crate) cpu_time: Duration,
    pub(crate) sleeps_so_far: u64,
}

/// What there is to tell of a thread of the calling thread's machine.
pub(crate) fn report(thread: Tid) -> Option<Report> {
    with(|machine, _| {
        let schedule = &mut machine.inner.lock().schedule;
        let cpu_time = schedule.cpu_time(thread);
        let thread = &schedule.threads[thread];
        Report {
            sleeps: thread.state == State::Sleeps,
            ended: thread.state == State::Ended,
            cpu: thread.cpu,
            cpu_time,
            sleeps_so_far: thread.sleeps,
        }
    })
}

impl Machine {
    fn point(&self, me: Tid) {
        let mut inner = self.inner.lock();
        if let Some(other) = inner.schedule.switches(me) {
            inner.pass_to(other);
            self.wait_for_turn(inner, me);
        }
    }

    fn sleep(&self, me: Tid, key: Key, until: Option<Time>) -> bool {
        let mut inner = self.inner.lock();
        inner.sleepers.entry(key).or_default().push(me);
        inner.schedule.sleep(me, until);
        self.hand_over(inner, me);
        let mut inner = self.inner.lock();
        let timed_out = inner.schedule.threads[me].timed_out;
        if timed_out {
            inner.forget_sleeper(me);
        }
        !timed_out
    }

    /// Gives the baton to the thread whose turn it is, and waits until it is the caller's again.
    fn hand_over(&self, inner: Guard<'_>, me: Tid) {
        let inner = self.pass_on(inner);
        self.wait_for_turn(inner, me);
    }

    /// Gives the baton to the thread whose turn it is. If there is none, and never will be, to the main thread, which fails
    /// if it is not done.
    fn pass_on<'a>(&'a self, mut inner: Guard<'a>) -> Guard<'a> {
        loop {
            if let Some(next) = inner.schedule.choose() {
                inner.pass_to(next);
                return inner;
            }
            let next = inner.schedule.next_timer();
            let Some(next) = next.filter(|_| !inner.schedule.is_restless()) else {
                if inner.schedule.threads[0].state != State::Ended {
                    inner.failure = Some(inner.stuck());
                }
                inner.pass_to(0);
                return inner;
            };
            if next > inner.schedule.now
                && let Some(mut check) = inner.check.take()
            {
                let now = inner.schedule.now;
                drop(inner);
                let result =
                    quietly(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(now))));
                inner = self.inner.lock();
                inner.check = Some(check);
                if let Err(payload) = result {
                    inner.failure = Some(panic_text(&*payload));
                    inner.check = None;
                    inner.pass_to(0);
                    return inner;
                }
            }
            inner.schedule.move_on();
        }
    }

    fn wait_for_turn(&self, mut inner: Guard<'_>, me: Tid) {
        let baton = Arc::clone(&inner.batons[me]);
        while inner.turn != me {
            baton.wait(&mut inner);
        }
        if let Some(failure) = inner.failure.take() {
            drop(inner);
            panic!("{failure}");
        }
    }

    /// The main thread has nothing to do any more: lets the others go on until they have ended, or wait for ever.
    fn rest(&self) {
        let mut inner = self.inner.lock();
        inner.schedule.end(0);
        inner = self.pass_on(inner);
        let baton = Arc::clone(&inner.batons[0]);
        while inner.turn != 0 {
            baton.wait(&mut inner);
        }
        let failure = inner.failure.take();
        drop(inner);
        if let Some(failure) = failure {
            panic!("{failure}");
        }
    }
}

type Guard<'a> = parking_lot::MutexGuard<'a, Inner>;

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a check failed").to_owned()
}

impl Inner {
    fn pass_to(&mut self, thread: Tid) {
        self.turn = thread;
        self.batons[thread].notify_one();
    }

    fn stuck(&self) -> String {
        let sleepers =
            self.sleepers.iter().flat_map(|(key, threads)| threads.iter().map(move |at| (at, key)));
        let mut lines: Vec<_> = sleepers
            .map(|(thread, key)| format!("  {} waits for {key:?}", self.schedule.name(*thread)))
            .collect();
        lines.sort();
        format!("all threads wait for ever:\n{}", lines.join("\n"))
    }

    fn forget_sleeper(&mut self, thread: Tid) {
        self.sleepers.values_mut().for_each(|sleepers| sleepers.retain(|other| *other != thread));
    }
}

/// The place of a thread that was not begun so far.
struct Place {
    machine: Arc<Machine>,
    tid: Tid,
    taken: bool,
}

impl Place {
    /// The calling thread is the one, and waits for the baton.
    fn take(mut self) {
        self.taken = true;
        let (machine, tid) = (Arc::clone(&self.machine), self.tid);
        // Registered first, so destroyed last: the thread belongs to the machine until then.
        ME.set(Some(Me { machine: Arc::clone(&machine), tid }));
        machine.wait_for_turn(machine.inner.lock(), tid);
    }
}

impl Drop for Place {
    /// The thread could not be made.
    fn drop(&mut self) {
        if !self.taken {
            self.machine.inner.lock().schedule.end(self.tid);
        }
    }
}

impl Drop for Me {
    /// The thread ends. The main thread has ended before.
    fn drop(&mut self) {
        if self.tid != 0 {
            let mut inner = self.machine.inner.lock();
            inner.schedule.end(self.tid);
            let waiting = inner.sleepers.remove(&Key::End(self.tid)).unwrap_or_default();
            waiting.into_iter().for_each(|thread| inner.schedule.wake(thread));
            drop(self.machine.pass_on(inner));
        }
    }
}

#[cfg(test)]
mod tests;
