//! Keeps the manager going after its own code has panicked.
//!
//! User code cannot end the manager: see [`user_code`](super::super::user_code). If code of this crate panics on the
//! manager's thread, the manager starts again on the same thread. The manager keeps its schedule and the requests that
//! it has taken from the inbox. After a panic, the manager examines the machine and its workers' threads anew, and
//! checks the work of all pools. The interrupted job is put off for a second, and the manager does other work in the
//! meantime. A timer that fires stays the manager's current job until the timer's item is queued.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Weak;
use std::time::Duration;

use crate::policy::manager::{CREATION_COOLDOWN, Duty};
use crate::policy::time::Time;
use crate::sys::clock;

use super::super::user_code::{Managing, call, contain, discard, report};
use super::cleaner;
use super::detector::Detector;
use super::inbox::Point;
use super::lookout::Lookout;
use super::manager_thread::{Job, ManagerThread};

/// The time for which the manager rests after a panic, unless the bell rings. Because of this rest, a manager that
/// panics again and again does not use up a CPU.
const REST: Duration = Duration::from_millis(10);

impl ManagerThread {
    /// Runs the manager until its executor has ended. The thread counts as a manager's thread as long as the returned
    /// value lives.
    pub(super) fn live(mut self) -> Managing {
        let (mut has_arrived, mut has_panicked) = (false, false);
        loop {
            let lives = || {
                if mem::take(&mut has_panicked) {
                    self.recover();
                }
                if !mem::replace(&mut has_arrived, true) {
                    self.arrive();
                }
                while self.round() {}
            };
            let Err(payload) = catch_unwind(AssertUnwindSafe(lives)) else { break };
            discard(payload);
            has_panicked = true;
        }
        // If `end` panics, the manager calls it again. Each call of `end` takes the jobs that earlier calls have left,
        // so each job is taken only once.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.end())) {
            discard(payload);
        }
        self.managing
    }

    fn recover(&mut self) {
        self.put_off(clock::now() + CREATION_COOLDOWN);
        report!(
            error,
            "the manager has panicked, which is a defect of cmwq: it goes on, and tries again in a second"
        );
        self.handle.bell.sleep(Some(clock::now() + REST), &[]);
        self.lookout = Lookout::again(clock::now());
        let Some(upkeep) = self.upkeep.upgrade() else { return };
        self.detector = Detector::new(&upkeep.core.settings);
        // The panic may have happened between a change to a pool and the check of the pool that must follow this
        // change. If the check of one pool panics, the manager still checks the other pools.
        let present = upkeep.core.environment.present();
        for pool in upkeep.pools.all() {
            contain(|| {
                pool.adapt(&present);
                pool.look();
            });
        }
    }

    /// Puts off, until `at`, the job that the manager was doing when it panicked.
    fn put_off(&mut self, at: Time) {
        match self.current_job.take() {
            None => {}
            Some(Job::Duty(duty)) => {
                let begun = if let Duty::Create(pool) = &duty { pool.upgrade() } else { None };
                // The interrupted duty may already have set its next deadline. The deadline `at` replaces the deadline
                // that the duty has set.
                self.schedule.put_off(duty, Weak::ptr_eq, at);
                // If the manager had begun to make a worker, the pool no longer expects that worker. If the worker
                // starts nevertheless, the pool has one worker more.
                begun.inspect(|pool| _ = pool.still_wants_worker());
            }
            Some(job) => drop(self.put_off.set(at, job)),
        }
    }

    /// Ends the manager, because its executor has ended. Refuses the requests and cancels the timers that the manager
    /// has taken.
    fn end(&mut self) {
        self.handle.strike(Point::End);
        while let Some(job) = self.next_left() {
            match job {
                Job::Request(request) => request.refuse(),
                Job::Timer(name, Some(timer)) => timer.cancel(&name),
                // The thread that ends the executor takes the timers off the map.
                Job::Timer(_, None) | Job::Duty(_) => {}
            }
        }
        if let Some(upkeep) = mem::take(&mut self.upkeep).upgrade() {
            upkeep.cleaner.leave(self.managing.left());
            if cleaner::make(&upkeep.cleaner, &upkeep.core).is_err() {
                // No other thread depends on this thread any more, so a destructor may block this thread for any length
                // of time.
                call(|| upkeep.cleaner.clean());
            }
        }
    }

    /// Takes the next unfinished job, whether or not the job has begun.
    fn next_left(&mut self) -> Option<Job> {
        let put_off = || self.put_off.take_due(Time::NEVER).map(|(_, job)| job);
        self.current_job.take().or_else(put_off).or_else(|| self.requests.pop_front().map(Job::Request))
    }
}
