//! The *baton* of a machine, which is the right to run: which thread has it, and how this thread passes it on.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::record::Record;
use super::rests::Rests;
use super::schedule::{Config, Schedule, State, Tid};
use super::{Check, Key, MACHINES, ME, Me, Moment, QUIET, quietly, watch};
use crate::policy::time::Time;
use crate::sys::held_locks::{apart_from_all, held};

/// A function that each sleeping thread calls at intervals, until the function returns true.
pub(crate) type Chore = Arc<dyn Fn() -> bool + Send + Sync>;

/// See the module.
pub(crate) struct Machine {
    pub(super) inner: parking_lot::Mutex<Inner>,
    /// The machine's number, which is unique in this process. The numbers begin with 1, and 0 stands for no machine.
    pub(super) number: u64,
    /// See [`Config::fine`].
    pub(super) fine: bool,
    /// Whether communication between CPUs costs time.
    #[cfg(test)]
    pub(super) has_costs: bool,
    /// Functions that sleeping threads call at intervals.
    pub(super) chores: parking_lot::Mutex<Vec<Chore>>,
    /// The value that the machine keeps for its user.
    pub(super) kept: parking_lot::Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

pub(super) struct Inner {
    #[cfg(test)]
    pub(super) lines: Option<super::lines::Lines>,
    pub(super) schedule: Schedule,
    /// The thread that has the baton, or [`NONE`] after a failure.
    pub(super) turn: Tid,
    /// Whether the thread that has the baton has woken up and gone on. Until then, the thread sleeps in the machine's
    /// own wait for the baton.
    pub(super) is_taken: bool,
    /// For each thread, the condition variable on which the thread waits for the baton.
    pub(super) batons: Vec<Arc<parking_lot::Condvar>>,
    /// The threads that sleep on each key, in the order in which they went to sleep.
    pub(super) sleepers: HashMap<Key, Vec<Tid>>,
    /// The numbers of the machine's threads, by the id that [`std::thread`] gives each thread.
    pub(super) names: HashMap<std::thread::ThreadId, Tid>,
    /// The check that runs whenever time is about to pass.
    pub(super) check: Option<Check>,
    /// The reason why the run cannot go on, if it has failed.
    failure: Option<String>,
    /// The number of times that the baton was passed on.
    pub(super) passes: u64,
    /// The events and the present activities of the threads, for reports.
    pub(super) record: Record,
    /// Tells a failure to a thread outside of the machine. If this field is `None`, the machine's main thread panics
    /// with the failure.
    pub(super) watcher: Option<watch::Teller>,
}

/// All machines of this process.
static ALL: parking_lot::Mutex<Vec<Weak<Machine>>> = parking_lot::Mutex::new(Vec::new());

/// The value of `turn` while no thread has the baton.
pub(super) const NONE: Tid = Tid::MAX;

impl Machine {
    /// Makes a machine whose main thread is the calling thread.
    pub(super) fn new(config: Config) -> Arc<Self> {
        let machine = Arc::new(Self::made(config));
        let mut all = ALL.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&machine));
        machine
    }

    /// Returns the machine with this number, if it exists.
    pub(super) fn by_number(number: u64) -> Option<Arc<Self>> {
        ALL.lock().iter().filter_map(Weak::upgrade).find(|machine| machine.number == number)
    }

    fn made(config: Config) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        MACHINES.fetch_add(1, Ordering::Relaxed);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            fine: config.fine,
            #[cfg(test)]
            has_costs: config.costs.is_some(),
            chores: parking_lot::Mutex::default(),
            kept: parking_lot::Mutex::new(None),
            inner: parking_lot::Mutex::new(Inner {
                #[cfg(test)]
                lines: config.costs.map(super::lines::Lines::new),
                schedule: Schedule::new(config),
                turn: 0,
                is_taken: true,
                batons: vec![Arc::default()],
                sleepers: HashMap::new(),
                names: HashMap::from([(std::thread::current().id(), 0)]),
                check: None,
                failure: None,
                passes: 0,
                record: Record::new(),
                watcher: None,
            }),
        }
    }

    /// Takes the machine's lock for one of its threads. If no thread has the baton because the run has failed, the
    /// calling thread never returns.
    pub(super) fn enter(&self) -> Guard<'_> {
        let mut inner = self.inner.lock();
        if inner.turn == NONE {
            let never = parking_lot::Condvar::new();
            loop {
                never.wait(&mut inner);
            }
        }
        inner
    }

    /// Marks a point, at which the baton may pass from the calling thread to another thread.
    pub(super) fn point(&self, me: Tid) {
        let mut inner = self.enter();
        let other = inner.schedule.switches(me);
        let shuts_down = inner.schedule.faults.step();
        if shuts_down.is_some() {
            inner.wake(Key::Shutdown, true);
        }
        let other = shuts_down.or(other);
        if inner.schedule.is_endless() {
            let text = inner.endless(me);
            inner.fail(text);
            self.wait_for_turn(inner, me);
        } else if let Some(other) = other {
            inner.pass_to(other);
            self.wait_for_turn(inner, me);
        }
    }

    /// Puts the calling thread to sleep on a key until another thread or the machine (see [`Rests`]) wakes it, or until
    /// the time `until` has come. Returns false if the time comes first.
    pub(super) fn sleep(&self, me: Tid, key: Key, until: Option<Time>, rests: Rests) -> bool {
        let mut inner = self.enter();
        if !self.fine && until.is_some_and(|until| until <= inner.schedule.now) {
            // The time `until` has come already. A thread whose timeout is over before it sleeps is polling, so it
            // first lets the other threads take their turns.
            if !QUIET.get() {
                self.let_others_go_on(inner, me);
            }
            return false;
        }
        inner.sleepers.entry(key).or_default().push(me);
        inner.schedule.sleep(me, until);
        inner.schedule.threads[me].in_a_step = matches!(key, Key::Address(_));
        inner.schedule.threads[me].rests = rests;
        self.hand_over(inner, me);
        let mut inner = self.inner.lock();
        inner.schedule.threads[me].rests = Rests::No;
        let timed_out = inner.schedule.threads[me].timed_out;
        if timed_out || rests != Rests::No {
            inner.forget_sleeper(me);
        }
        !timed_out
    }

    /// Puts the calling thread behind all other threads that can go on, and waits until the calling thread's turn
    /// comes again.
    pub(super) fn let_others_go_on(&self, mut inner: Guard<'_>, me: Tid) {
        inner.schedule.yields(me);
        if inner.schedule.is_endless() {
            let text = inner.endless(me);
            inner.fail(text);
        }
        self.hand_over(inner, me);
    }

    /// Passes the baton on, and waits until the caller's turn comes again.
    pub(super) fn hand_over(&self, inner: Guard<'_>, me: Tid) {
        let inner = self.pass_on(inner);
        self.wait_for_turn(inner, me);
    }

    /// Passes the baton to the thread whose turn it is. If no thread can ever take a turn again, the run fails, unless
    /// the main thread has ended.
    pub(super) fn pass_on<'a>(&'a self, mut inner: Guard<'a>) -> Guard<'a> {
        loop {
            if inner.turn == NONE {
                return inner;
            }
            if let Some(next) = inner.schedule.choose() {
                inner.pass_to(next);
                return inner;
            }
            if inner.schedule.rouse() {
                continue;
            }
            let next = inner.schedule.next_timer().filter(|_| !inner.schedule.is_deserted());
            if next.is_none() && inner.schedule.rouse_in_vain() {
                continue;
            }
            let Some(next) = next.filter(|_| !inner.schedule.is_restless()) else {
                if inner.schedule.threads[0].state == State::Ended {
                    inner.pass_to(0);
                } else {
                    let text = if next.is_some() { inner.restless() } else { inner.stuck() };
                    inner.fail(text);
                }
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
                    inner.check = None;
                    inner.fail(panic_text(&*payload));
                    return inner;
                }
            }
            inner.schedule.move_on();
            inner.note_changes();
        }
    }

    fn wait_for_turn(&self, mut inner: Guard<'_>, me: Tid) {
        if let Some(lock) = held().filter(|_| !self.fine) {
            // If another thread of the machine needed the lock, that thread would wait for it without giving the baton
            // away.
            inner.fail(format!("a thread gives the baton away while it holds {lock}"));
        }
        let baton = Arc::clone(&inner.batons[me]);
        while inner.turn != me {
            baton.wait(&mut inner);
        }
        inner.is_taken = true;
        inner.schedule.goes_on(me);
        if let Some(failure) = inner.failure.take() {
            drop(inner);
            panic!("{failure}");
        }
    }

    /// Ends the main thread, and lets the other threads go on until they have ended or wait for ever.
    pub(super) fn rest(&self) {
        let mut inner = self.enter();
        inner.schedule.end(0);
        inner = self.pass_on(inner);
        let baton = Arc::clone(&inner.batons[0]);
        while inner.turn != 0 {
            baton.wait(&mut inner);
        }
        inner.is_taken = true;
        let failure = inner.failure.take();
        drop(inner);
        if let Some(failure) = failure {
            panic!("{failure}");
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        MACHINES.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) type Guard<'a> = parking_lot::MutexGuard<'a, Inner>;

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a check failed").to_owned()
}

impl Inner {
    pub(super) fn pass_to(&mut self, thread: Tid) {
        self.turn = thread;
        self.is_taken = false;
        self.passes += 1;
        self.batons[thread].notify_one();
    }

    /// Ends the run with a failure. If a thread outside of the machine watches the run, that thread learns of the
    /// failure, and no thread of the machine goes on. If no thread watches the run, the machine's main thread panics.
    pub(super) fn fail(&mut self, failure: String) {
        match &self.watcher {
            Some(watcher) => {
                watcher.tell(failure);
                self.turn = NONE;
            }
            None => {
                self.failure = Some(failure);
                self.pass_to(0);
            }
        }
    }

    pub(super) fn forget_sleeper(&mut self, thread: Tid) {
        self.sleepers.values_mut().for_each(|sleepers| sleepers.retain(|other| *other != thread));
    }
}

/// The place on a machine for a thread that has not begun yet.
pub(crate) struct Place {
    machine: Arc<Machine>,
    pub(super) tid: Tid,
    taken: bool,
}

impl Place {
    /// Makes a place for the thread that the calling thread is about to make under this name.
    pub(super) fn of_child(machine: &Arc<Machine>, me: Tid, name: &str) -> Self {
        let mut inner = machine.enter();
        let tid = inner.schedule.spawn(me, name.to_owned());
        inner.batons.push(Arc::default());
        Self { machine: Arc::clone(machine), tid, taken: false }
    }

    /// Gives the place to the calling thread, which waits for the baton.
    pub(crate) fn take(mut self) {
        self.taken = true;
        let (machine, tid) = (Arc::clone(&self.machine), self.tid);
        // Of the thread's thread-local values, `ME` is registered first and so destroyed last. The thread belongs to
        // the machine until `ME` is destroyed.
        ME.set(Some(Me { machine: Arc::clone(&machine), tid }));
        let mut inner = machine.inner.lock();
        inner.record.arrives(tid);
        machine.wait_for_turn(inner, tid);
    }
}

impl Drop for Place {
    /// Marks the thread of this place as ended, if the system could not make the thread.
    fn drop(&mut self) {
        if !self.taken {
            self.machine.inner.lock().schedule.end(self.tid);
        }
    }
}

impl Drop for Me {
    /// Marks the thread as ended, unless it is the main thread.
    fn drop(&mut self) {
        if self.tid != 0 {
            let mut inner = self.machine.enter();
            inner.schedule.end(self.tid);
            let waiting = inner.sleepers.remove(&Key::End(self.tid)).unwrap_or_default();
            waiting.into_iter().for_each(|thread| inner.schedule.wake(thread));
            drop(self.machine.pass_on(inner));
        }
    }
}
