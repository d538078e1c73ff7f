//! The manager: one thread per executor that makes workers and rescuers, repeats failed attempts, calls rescuers, culls
//! idle workers, and watches pools.
//!
//! The manager sleeps until a request arrives in its inbox, or until the next deadline of its schedule. The manager
//! makes all other threads of the executor, so no worker inherits anything from a user's thread. The manager begins by
//! replacing the attributes that its own thread has inherited. The manager handles no signals, but its workers adopt
//! the main thread's signal mask.
//!
//! If the manager's thread cannot be made, the next thread that sends a request to the manager or waits inside this
//! crate tries again. Only one thread at a time tries to make the manager's thread, and at most once a second. Once the
//! manager exists, it lives until its executor ends, even if its own code panics (`supervision`).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::policy::deadlines::Deadlines;
use crate::policy::manager::{Duty, Manager};
use crate::policy::time::Time;
use crate::policy::watch::{BRISK_LONGEST, Verdict, Watch};
use crate::sys::{affinity, clock, machine, thread};

use crate::engine::executor::threads::ThreadPlace;
use crate::engine::executor::upkeep::Upkeep;
use crate::engine::item::timers::{Timer, TimerName};
use crate::engine::pool::worker_pool::Pool;
use crate::engine::trace;
use crate::engine::user_code::{self, Leftover, Managing, report};
use crate::engine::worker::worker_thread;

use super::detector::{Detector, Told};
use super::inbox::{Maker, ManagerHandle, Point, Request};
use super::lookout::Lookout;
use super::{cleaner, watchdog};

/// The time for which a worker runs without interruption while another thread waits for the worker's CPU. The system's
/// default grows with the number of CPUs, up to 3 ms. The manager sets its own time slice, and the threads that it
/// makes inherit this slice.
///
/// A worker that returns from a block may wait for another thread's time slice to end. While the worker waits for a
/// CPU, its item makes no progress, and its thread can do nothing else.
pub(crate) const TIME_SLICE: Duration = Duration::from_micros(700);

/// Starts the manager of an executor that no other thread knows yet.
///
/// # Errors
///
/// Returns an error if the thread cannot be made. The next thread that sends a request to the manager tries again.
pub(crate) fn start(upkeep: &Arc<Upkeep>) -> io::Result<()> {
    let maker: Arc<dyn Maker> = Arc::clone(upkeep) as _;
    upkeep.core.manager.start(&maker)
}

impl Maker for Upkeep {
    fn make(self: Arc<Self>) -> io::Result<()> {
        let core = Arc::clone(&self.core);
        let name = format!("{}/manager", core.settings.name_prefix);
        let last = cleaner::Last::new(&core);
        ThreadPlace::of_manager(&core).spawn(&core, name, move || {
            let managing = ManagerThread::new(self).live();
            // If this thread has dropped the last reference to the executor, the executor's hooks are among the values
            // that the thread leaves to the cleaner.
            let left = managing.left();
            drop(managing);
            last.clean(left);
        })
    }

    fn made_late(&self) {
        self.pools.all().iter().for_each(|pool| pool.manager_came());
    }

    fn manager(&self) -> Option<&ManagerHandle> {
        (!self.core.origin.is_forked()).then(|| &*self.core.manager)
    }
}

/// A job of the manager.
#[derive(Debug)]
pub(super) enum Job {
    Request(Request),
    Duty(Duty<Weak<Pool>>),
    /// The name of a timer to fire. The timer itself is here only while it is off the map and its item is not queued.
    Timer(TimerName, Option<Timer>),
}

/// The state of the manager. Only the manager's own thread uses this state, so all fields are `O`.
pub(super) struct ManagerThread {
    /// This reference to the executor is weak, and is upgraded only while the manager is awake. So the executor can end
    /// while the manager sleeps, and another thread then frees the executor.
    pub(super) upkeep: Weak<Upkeep>,
    pub(super) handle: Arc<ManagerHandle>,
    pub(super) schedule: Manager<Weak<Pool>>,
    pub(super) lookout: Lookout,
    pub(super) detector: Detector,
    /// The time until which the manager has planned to sleep. `None` if it has planned to sleep until another thread
    /// wakes it.
    planned: Option<Time>,
    /// The requests that were taken from the inbox and are not yet handled.
    pub(super) requests: VecDeque<Request>,
    /// The job that the manager is doing now.
    pub(super) current_job: Option<Job>,
    /// The requests and timers that a panic of the manager has interrupted, and the times at which the manager will try
    /// them again.
    pub(super) put_off: Deadlines<Job>,
    /// This field is declared last so that it is dropped last. Until this field is dropped, the thread counts as a
    /// manager's thread.
    pub(super) managing: Managing,
}

impl ManagerThread {
    /// Makes the calling thread a manager's thread.
    pub(super) fn new(upkeep: Arc<Upkeep>) -> Self {
        let managing = Managing::begin();
        let core = &upkeep.core;
        Self {
            upkeep: Arc::downgrade(&upkeep),
            handle: Arc::clone(&core.manager),
            schedule: Manager::new(core.settings.rules()),
            detector: Detector::new(&core.settings),
            lookout: Lookout::new(),
            planned: None,
            requests: VecDeque::new(),
            current_job: None,
            put_off: Deadlines::new(),
            managing,
        }
    }

    /// Notes that the manager exists. Replaces the CPUs, the nice level and the time slice that the manager's thread
    /// has inherited.
    pub(super) fn arrive(&self) {
        self.handle.arrive();
        self.handle.strike(Point::Arrival);
        let Some(upkeep) = self.upkeep.upgrade() else { return };
        let core = &upkeep.core;
        // Errors are ignored. If the system denies the CPUs or the nice level, it denies them to each worker as well,
        // and the worker reports the denial.
        drop(affinity::pin_to_set(&core.environment.present().cpus.home()));
        drop(thread::set_nice(core.settings.nice));
        drop(thread::set_slice(TIME_SLICE));
    }

    /// Does everything that is due, and then sleeps. Returns false if the executor has ended.
    pub(super) fn round(&mut self) -> bool {
        let (requests, stop) = self.handle.empty();
        self.requests.extend(requests);
        let Some(upkeep) = self.upkeep.upgrade().filter(|_| !stop) else { return false };
        self.handle.strike(Point::Round);
        let now = clock::now();
        while let Some((_, job)) = self.put_off.take_due(now) {
            self.take_up(&upkeep, job, now);
        }
        while let Some(request) = self.requests.pop_front() {
            self.take_up(&upkeep, Job::Request(request), now);
        }
        self.lookout.look(&upkeep, now);
        let early = self.planned.is_none_or(|at| now < at).then_some(now);
        for (pool, told) in self.detector.told(early, &upkeep.shortfall) {
            let is_meant = |known: &Weak<Pool>| known.ptr_eq(&pool);
            match told {
                Told::Sleeps => self.schedule.told(is_meant, now),
                Told::Deaf => self.schedule.look_by(is_meant, now + BRISK_LONGEST),
            }
        }
        while let Some(duty) = self.schedule.take_due(now) {
            self.take_up(&upkeep, Job::Duty(duty), now);
        }
        while let Some(name) = upkeep.timers.hold_due(now) {
            self.take_up(&upkeep, Job::Timer(name, None), now);
        }
        let ring = |waker: Waker| Box::new(move || waker.wake()) as Leftover;
        let due = std::iter::from_fn(|| upkeep.timers.take_due_waker(now)).map(ring).collect();
        let leaves = [upkeep.cleaner.leave(self.managing.left()), upkeep.ringer.leave(due)];
        if leaves.contains(&true) {
            self.schedule.clean(now);
        }
        let timers = upkeep.timers.next();
        drop(upkeep);
        self.planned = self.next_deadline(timers);
        self.sleep();
        true
    }

    /// Does one job. The job stays in `current_job` until it is done, so that a panic does not lose it.
    fn take_up(&mut self, upkeep: &Arc<Upkeep>, job: Job, now: Time) {
        match job {
            Job::Request(request) => {
                self.current_job = Some(Job::Request(request.clone()));
                self.handle.strike(Point::Request);
                self.see_to(upkeep, request, now);
            }
            Job::Duty(duty) => {
                self.current_job = Some(Job::Duty(duty.again(now)));
                self.handle.strike(Point::Duty);
                self.perform(upkeep, duty, now);
            }
            Job::Timer(..) => {
                let job = self.current_job.insert(job);
                self.handle.strike(Point::Timer);
                if let Job::Timer(name, timer) = job {
                    name.fire_from(timer);
                }
            }
        }
        self.current_job = None;
    }

    fn see_to(&mut self, upkeep: &Arc<Upkeep>, request: Request, now: Time) {
        match request {
            Request::Create(pool) => self.schedule.create(pool, now),
            Request::Watch(pool) => self.watch(&pool, now),
            Request::Deadline(pool, at) => self.schedule.deadline(pool, at),
            Request::Rescuer(order) => order.fulfil(&upkeep.core),
            Request::Room => self.schedule.room(now),
        }
    }

    /// Returns the time at which the manager has something to do, if no other thread brings work before.
    fn next_deadline(&self, timers: Option<Time>) -> Option<Time> {
        let others = [self.schedule.next_wake(), self.lookout.next(), self.put_off.next()];
        // In a test on a made-up machine, timers may be late.
        let due = timers.map(|at| at + machine::lateness());
        machine::keeps_house(timers.is_none());
        others.into_iter().flatten().chain(due).min()
    }

    /// Sleeps until there is something to do. If another thread brings work after the manager has checked for work,
    /// that thread rings the bell, which ends the sleep or prevents it.
    fn sleep(&self) {
        self.handle.bell.sleep(self.planned, &self.detector.rings());
    }

    fn perform(&mut self, upkeep: &Arc<Upkeep>, duty: Duty<Weak<Pool>>, now: Time) {
        match duty {
            Duty::Create(pool) => self.create(upkeep, &pool, now),
            Duty::Unserved(pool) => {
                let Some(shared) = pool.upgrade() else { return };
                // The watch begins here, because there may be no further push that would start the watch.
                if shared.has_work() && shared.running.watch() {
                    self.watch(&pool, now);
                }
                if let Some(at) = shared.unserved() {
                    self.schedule.deadline(pool, at);
                }
            }
            Duty::Deadline(pool) => {
                if let Some(at) = pool.upgrade().and_then(|pool| pool.deadline_has_come()) {
                    self.schedule.deadline(pool, at);
                }
            }
            Duty::Look(pool, watch) => self.look(upkeep, &pool, watch),
            Duty::Hurry => upkeep.core.threads.cell.hurry(),
            Duty::TryLine => unreachable!("the schedule handles this duty itself"),
            Duty::Clean => self.clean(upkeep),
        }
    }

    /// Makes the threads for the values and the wakers that the manager has left. One thread destroys the values, and
    /// another thread calls the wakers. If one of these threads cannot be made, the manager tries again later to make
    /// both.
    pub(super) fn clean(&mut self, upkeep: &Arc<Upkeep>) {
        for cleaner in [&upkeep.cleaner, &upkeep.ringer] {
            if let Err(error) = cleaner::make(cleaner, &upkeep.core) {
                let now = clock::now();
                self.schedule.cleaner_failed(now);
                return cannot_be_made("the cleaner", error);
            }
        }
    }

    /// Watches a pool from now on. If the manager already watches the pool, brings the pool's next check forward,
    /// because that check might be too far away.
    fn watch(&mut self, pool: &Weak<Pool>, now: Time) {
        self.schedule.watch(pool, Weak::ptr_eq, now);
    }

    /// Checks a watched pool, and acts on the findings.
    fn look(&mut self, upkeep: &Arc<Upkeep>, weak: &Weak<Pool>, watch: Watch) {
        let Some(pool) = weak.upgrade() else { return self.detector.forget(weak) };
        pool.check_progress();
        let may_be_rare = pool.may_be_checked_rarely();
        if may_be_rare {
            pool.running.check_rarely();
        }
        let (look, workers) = pool.observe();
        let mut facts = self.detector.facts(weak, &workers, &upkeep.shortfall);
        let now = clock::now();
        let outcome = self.schedule.looked(weak.clone(), watch, &look, &mut facts, now);
        if (outcome.pace, outcome.stalled_since) != (look.pace, look.stalled_since) {
            pool.keep(outcome.pace, outcome.stalled_since);
        }
        pool.cover(outcome.covers);
        let mut offences = Vec::new();
        for found in outcome.found {
            let Ok(at) = workers.binary_search_by_key(&found.worker, |worker| worker.id) else { continue };
            let worker = &workers[at];
            // The item's type is read before the manager acts on the finding, because afterwards the worker may have
            // another item.
            let item_type = worker.item_type(found.seen);
            if pool.carry_out(worker, found) {
                offences.extend(item_type.map(|item_type| (worker, item_type, found)));
            }
        }
        let look_in = if outcome.listens {
            self.detector.listen(weak, &look, &upkeep.shortfall)
        } else {
            self.detector.stop_listening(weak);
            None
        };
        if let Some(time) = look_in {
            self.schedule.look_by(|pool| pool.ptr_eq(weak), now + time);
        }
        if may_be_rare && (look_in.is_some() || !outcome.is_calm) {
            pool.running.check_often();
        }
        // The manager acts on all findings before it reports any, because subscribers and loggers are user code.
        for (worker, item_type, found) in offences {
            trace::found(&pool, worker, item_type, found);
            upkeep.offenders.note(worker, item_type, found);
        }
        match outcome.verdict {
            Verdict::Watching => {}
            Verdict::Unwatch => {
                self.detector.forget(weak);
                pool.running.unwatch();
                pool.look();
                pool.spread();
            }
            Verdict::Stalled(since) => {
                watchdog::report(upkeep, &pool, since, &look, &workers, &outcome.began, now);
            }
            Verdict::Stuck(since) => (upkeep.stuck)(upkeep, &pool, since),
        }
    }

    fn create(&mut self, upkeep: &Arc<Upkeep>, weak: &Weak<Pool>, now: Time) {
        let core = &upkeep.core;
        let Some(pool) = weak.upgrade().filter(|pool| pool.begin_making()) else {
            return self.needs_no_room(upkeep, weak, now);
        };
        self.handle.strike(Point::Making);
        if !self.schedule.is_next(|known| known.ptr_eq(weak)) {
            return self.wait_its_turn(upkeep, &pool, now);
        }
        let Some(place) = ThreadPlace::of_worker(core) else { return self.make_room(upkeep, &pool, now) };
        self.has_room(upkeep, &pool, now);
        let id = pool.reserve_id();
        let name = pool.spec.kind.worker_name(&core.settings.name_prefix, id);
        let its_pool = Arc::clone(&pool);
        if let Err(error) = place.spawn(core, name, move || worker_thread::run(its_pool, id)) {
            pool.left(id);
            let still_wanted = pool.still_wants_worker().then(|| Arc::downgrade(&pool));
            // The clock is read again instead of using `now`, because the attempt to make the thread may have taken
            // long.
            self.schedule.creation_failed(still_wanted, clock::now());
            cannot_be_made("a worker", error);
        }
    }
}

/// Logs that a thread cannot be made, and destroys the error.
fn cannot_be_made(what: &str, error: io::Error) {
    report!(warn, "{what} cannot be made: {error}; trying again in a second");
    user_code::destroy_error(error);
}
