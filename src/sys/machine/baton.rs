//! The baton of a machine: which thread runs, and how this thread gives way to another thread.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::schedule::{Config, Schedule, State, Tid};
use super::{Check, Key, ME, Me, Moment, quietly};
use crate::policy::time::Time;
use crate::sys::lock::apart_from_all;

/// See the module.
pub(super) struct Machine {
    pub(super) inner: parking_lot::Mutex<Inner>,
}

pub(super) struct Inner {
    pub(super) schedule: Schedule,
    /// The thread that has the baton.
    turn: Tid,
    /// For each thread, the condition variable on which the thread waits for the baton.
    pub(super) batons: Vec<Arc<parking_lot::Condvar>>,
    /// The threads that sleep on each key, in the order in which they went to sleep.
    pub(super) sleepers: HashMap<Key, Vec<Tid>>,
    /// The threads by their ids in the standard library.
    pub(super) names: HashMap<std::thread::ThreadId, Tid>,
    /// The check that runs whenever time is about to pass.
    pub(super) check: Option<Check>,
    /// The reason why the run cannot go on.
    failure: Option<String>,
}

impl Machine {
    /// Makes a machine whose main thread is the calling thread.
    pub(super) fn new(config: Config) -> Self {
        Self {
            inner: parking_lot::Mutex::new(Inner {
                schedule: Schedule::new(config),
                turn: 0,
                batons: vec![Arc::default()],
                sleepers: HashMap::new(),
                names: HashMap::from([(std::thread::current().id(), 0)]),
                check: None,
                failure: None,
            }),
        }
    }

    pub(super) fn point(&self, me: Tid) {
        let mut inner = self.inner.lock();
        if let Some(other) = inner.schedule.switches(me) {
            inner.pass_to(other);
            self.wait_for_turn(inner, me);
        }
    }

    pub(super) fn sleep(&self, me: Tid, key: Key, until: Option<Time>) -> bool {
        let mut inner = self.inner.lock();
        inner.sleepers.entry(key).or_default().push(me);
        inner.schedule.sleep(me, until);
        inner.schedule.threads[me].in_a_step = matches!(key, Key::Address(_));
        self.hand_over(inner, me);
        let mut inner = self.inner.lock();
        let timed_out = inner.schedule.threads[me].timed_out;
        if timed_out {
            inner.forget_sleeper(me);
        }
        !timed_out
    }

    /// Passes the baton on, and waits until the caller's turn comes again.
    pub(super) fn hand_over(&self, inner: Guard<'_>, me: Tid) {
        let inner = self.pass_on(inner);
        self.wait_for_turn(inner, me);
    }

    /// Passes the baton to the thread whose turn it is. If no thread can ever take a turn again, passes the baton to
    /// the main thread, which fails if it has not ended.
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
                let woken = std::mem::take(&mut inner.schedule.woken);
                let moment = Moment { machine: self, now: inner.schedule.now, until: next, woken };
                drop(inner);
                let result = quietly(|| catch_unwind(AssertUnwindSafe(|| apart_from_all(|| check(&moment)))));
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

    /// Ends the main thread, and lets the other threads go on until they have ended or wait for ever.
    pub(super) fn rest(&self) {
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

fn panic_text(payload: &(dyn Any + Send)) -> String {
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

    pub(super) fn forget_sleeper(&mut self, thread: Tid) {
        self.sleepers.values_mut().for_each(|sleepers| sleepers.retain(|other| *other != thread));
    }
}

/// The place of a thread that has not begun yet.
pub(super) struct Place {
    machine: Arc<Machine>,
    pub(super) tid: Tid,
    taken: bool,
}

impl Place {
    /// Makes the place of a thread with this name, which the calling thread is about to make.
    pub(super) fn of_child(machine: &Arc<Machine>, me: Tid, name: &str) -> Self {
        let mut inner = machine.inner.lock();
        let tid = inner.schedule.spawn(me, name.to_owned());
        inner.batons.push(Arc::default());
        Self { machine: Arc::clone(machine), tid, taken: false }
    }

    /// Gives the place to the calling thread, which waits for the baton.
    pub(super) fn take(mut self) {
        self.taken = true;
        let (machine, tid) = (Arc::clone(&self.machine), self.tid);
        // This thread-local value is registered first and so destroyed last. The thread belongs to the machine until
        // then.
        ME.set(Some(Me { machine: Arc::clone(&machine), tid }));
        machine.wait_for_turn(machine.inner.lock(), tid);
    }
}

impl Drop for Place {
    /// Ends the place's thread if the thread could not be made.
    fn drop(&mut self) {
        if !self.taken {
            self.machine.inner.lock().schedule.end(self.tid);
        }
    }
}

impl Drop for Me {
    /// Ends the thread, unless it is the main thread, which has already ended.
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
