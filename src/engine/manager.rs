//! The manager: one thread per executor that makes workers and rescuers, tries again, calls rescuers, culls, and
//! watches.
//!
//! It sleeps until somebody puts a request into its inbox, or until its schedule's next deadline. All threads are
//! made here, so that no worker inherits anything from a user's thread; what the manager itself inherited it puts
//! right first. If the manager cannot be made, the next thread that brings a request, or waits for something, tries
//! again: one thread at a time, and at most once a second.

mod handle;
mod missing;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::manager::{Duty, Manager};
use crate::policy::time::Time;
use crate::policy::watch::{Verdict, Watch};
use crate::sys::{affinity, clock, thread};

use super::core::Core;
use super::detector::Detector;
use super::environment::Lookout;
use super::pool::Pool;
use super::trace;
use super::user_code::{call, report};
use super::watchdog;
use super::worker;

pub(crate) use self::handle::{ManagerHandle, Request};

/// So long a worker runs at a time while another thread waits for its CPU; by default that is up to 3 ms, the more, the more
/// CPUs there are. The manager has it, and the threads that it makes inherit it.
///
/// Who returns from a block waits for the end of somebody's slice, and holds up its item, and its thread, meanwhile.
pub(crate) const TIME_SLICE: Duration = Duration::from_micros(700);

fn spawn(core: &Arc<Core>) -> io::Result<()> {
    let name = format!("{}/manager", core.settings.name_prefix);
    core.settings.hooks.may_spawn(&name)?;
    let core = Arc::clone(core);
    let lives = Lives::new(&core);
    thread::spawn(name, None, move || {
        let _until_the_end = lives;
        core.manager.arrive();
        // Best effort: what is denied here is denied to each worker as well, and told there.
        drop(affinity::pin_to_set(&core.environment.present().cpus.home()));
        drop(thread::set_nice(core.settings.nice));
        drop(thread::set_slice(TIME_SLICE));
        ManagerThread {
            schedule: Manager::new(core.settings.rules()),
            detector: Detector::new(&core.settings),
            lookout: Lookout::new(),
            core,
        }
        .live();
    })?;
    Ok(())
}

/// Says that the manager's thread is about to be made, and when it is gone, or could not be made.
struct Lives(Arc<Core>);

impl Lives {
    fn new(core: &Arc<Core>) -> Self {
        core.manager_lives(true);
        Self(Arc::clone(core))
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.0.manager_lives(false);
    }
}

struct ManagerThread {
    core: Arc<Core>,
    schedule: Manager<Weak<Pool>>,
    lookout: Lookout,
    detector: Detector,
}

impl ManagerThread {
    fn live(mut self) {
        loop {
            let (requests, stop) = self.core.manager.empty();
            if stop {
                requests.into_iter().for_each(Request::refuse);
                return;
            }
            let now = clock::now();
            for request in requests {
                match request {
                    Request::Create(pool) => self.schedule.create(pool, now),
                    Request::Cull(pool, at) => self.schedule.cull(pool, at),
                    Request::Watch(pool) => self.schedule.watch(pool, now),
                    Request::Stall(pool, at) => self.schedule.stall(pool, at),
                    Request::Call(pool, call) => self.schedule.call(pool, call, now),
                    Request::Rescuer(order) => order.fulfil(&self.core),
                    Request::Room => self.schedule.room(now),
                }
            }
            self.lookout.look(&self.core, now);
            for told in self.detector.told() {
                self.schedule.told(|pool| pool.ptr_eq(&told), now);
            }
            while let Some(duty) = self.schedule.take_due(now) {
                self.perform(duty, now);
            }
            while let Some((name, timer)) = self.core.timers.take_due(&self.core, now) {
                timer.fire(&name);
            }
            self.sleep();
        }
    }

    /// Sleeps until there is something to do. Whoever has something new for this thread since it looked has rung, or
    /// does so when it sleeps.
    fn sleep(&self) {
        let timers = self.core.timers.next();
        let duties = self.schedule.next_wake();
        let next = duties.into_iter().chain(timers).chain(self.lookout.next()).min();
        self.core.manager.bell.sleep(next.map(|at| at.since(clock::now())), &self.detector.rings());
    }

    fn perform(&mut self, duty: Duty<Weak<Pool>>, now: Time) {
        match duty {
            Duty::Create(pool) => self.create(&pool, now),
            Duty::Unserved(pool) => {
                let Some(shared) = pool.upgrade() else { return };
                // Nobody may push again, and find that nobody watches.
                if shared.has_work() && shared.running.watch() {
                    self.schedule.watch(pool.clone(), now);
                }
                if let Some(call) = shared.unserved() {
                    self.schedule.call(pool, call, now);
                }
            }
            Duty::Mayday(weak, call) => {
                if weak.upgrade().is_some_and(|pool| pool.mayday(call)) {
                    self.schedule.call_again(weak, call, now);
                }
            }
            Duty::Cull(pool) => {
                if let Some(at) = pool.upgrade().and_then(|pool| pool.cull(now)) {
                    self.schedule.cull(pool, at);
                }
            }
            Duty::Stall(pool) => {
                if let Some(at) = pool.upgrade().and_then(|pool| pool.look_for_stall(clock::now())) {
                    self.schedule.stall(pool, at);
                }
            }
            Duty::Look(pool, watch) => self.look(&pool, watch),
        }
    }

    /// Looks at a watched pool.
    fn look(&mut self, weak: &Weak<Pool>, watch: Watch) {
        let Some(pool) = weak.upgrade() else { return self.detector.forget(weak) };
        let (look, workers) = pool.observe();
        let mut facts = self.detector.facts(weak, &workers, &self.core.shortfall);
        let now = clock::now();
        let outcome = self.schedule.looked(weak.clone(), watch, &look, &mut facts, now);
        if (outcome.pace, outcome.stalled_since) != (look.pace, look.stalled_since) {
            pool.keep(outcome.pace, outcome.stalled_since);
        }
        let mut offences = Vec::new();
        for found in outcome.found {
            let Ok(at) = workers.binary_search_by_key(&found.worker, |worker| worker.id) else { continue };
            let worker = &workers[at];
            // Before: afterwards it may have another item.
            let item_type = worker.item_type(found.seen);
            if pool.carry_out(worker, found) {
                offences.extend(item_type.map(|item_type| (worker, item_type, found)));
            }
        }
        if let Some(time) = self.detector.listen(weak, &look.workers, &self.core.shortfall) {
            self.schedule.look_by(|pool| pool.ptr_eq(weak), now + time);
        }
        // Last, since that may be told to a subscriber and to a logger.
        for (worker, item_type, found) in offences {
            trace::found(&pool, worker, item_type, found);
            self.core.offenders.note(worker, item_type, found);
        }
        match outcome.verdict {
            Verdict::Watching => {}
            Verdict::Unwatch => {
                self.detector.forget(weak);
                pool.running.unwatch();
                pool.look();
            }
            Verdict::Stalled(since) => watchdog::report(&pool, since, &look, &workers, &outcome.began, now),
            Verdict::Stuck(since) => {
                if let Some(check) = self.core.settings.progress_check {
                    (check.stuck)(&self.core, &pool, since);
                }
            }
        }
    }

    fn create(&mut self, weak: &Weak<Pool>, now: Time) {
        let Some(pool) = weak.upgrade().filter(|pool| pool.begin_making()) else { return };
        if !self.core.thread_comes() {
            return self.make_room(&pool, now);
        }
        let id = pool.reserve_id();
        let name = pool.spec.kind.worker_name(&self.core.settings.name_prefix, id);
        let made = self.core.settings.hooks.may_spawn(&name).and_then(|()| {
            let pool = Arc::clone(&pool);
            thread::spawn(name, self.core.settings.stack_size, move || worker::run(pool, id))
        });
        if let Err(error) = made {
            pool.left(id);
            self.core.thread_left();
            let still_wanted = pool.still_wants_worker().then(|| Arc::downgrade(&pool));
            // The attempt itself may have taken long.
            self.schedule.creation_failed(still_wanted, clock::now());
            // The error may be a hook's, so its destructor is user code, too.
            call(move || {
                report!(warn, "a worker cannot be made: {error}; trying again in a second");
                drop(error);
            });
        }
    }

    /// The cap is reached. If work waits for a thread, an idle one of another pool gives way.
    fn make_room(&mut self, pool: &Arc<Pool>, now: Time) {
        if pool.no_room() {
            self.schedule.no_room(Arc::downgrade(pool), now);
            let others = self.core.pools().into_iter().filter(|other| !Arc::ptr_eq(other, pool));
            let _found = others.into_iter().any(|other| other.give_up_one());
        }
    }
}
