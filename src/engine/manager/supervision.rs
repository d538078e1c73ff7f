//! The manager goes on after a panic of its own code.
//!
//! User code cannot end it: see [`user_code`](super::super::user_code). If code of this crate panics on the manager's
//! thread, the manager begins again there. It keeps its schedule and the requests that it has taken. It reads again
//! what it knows of the machine and of its workers' threads, and checks the work of all pools. The job that it was
//! doing is put off for a second, and other work goes on before it. A timer stays the current job until its item is
//! queued.

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

/// How long the manager rests after a panic, unless the bell rings. So a panic that comes again and again does not
/// use up a CPU.
const REST: Duration = Duration::from_millis(10);

impl ManagerThread {
    /// Runs the manager until its executor has ended. The thread counts as a manager's as long as the returned value
    /// lives.
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
        // Repeated after each panic: each attempt takes the jobs that are left, and each job is taken once.
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
        self.handle.bell.sleep(Some(REST), &[]);
        self.lookout = Lookout::again(clock::now());
        let Some(upkeep) = self.upkeep.upgrade() else { return };
        self.detector = Detector::new(&upkeep.core.settings);
        // The panic may have come between a change and the look that must follow. A panic at one pool does not keep
        // the manager from the others.
        let present = upkeep.core.environment.present();
        for pool in upkeep.pools.all() {
            contain(|| {
                pool.adapt(&present);
                pool.look();
            });
        }
    }

    /// Puts off the job that the manager was doing when it panicked, until `at`.
    fn put_off(&mut self, at: Time) {
        match self.current_job.take() {
            None | Some(Job::Timer(_, None)) => {}
            Some(Job::Duty(duty)) => {
                let begun = if let Duty::Create(pool) = &duty { pool.upgrade() } else { None };
                // The duty may have set its next deadline already, which this one replaces.
                self.schedule.put_off(duty, Weak::ptr_eq, at);
                // If the making of a worker has begun, the pool no longer counts on that worker. If it comes
                // nevertheless, the pool gets one worker more.
                begun.inspect(|pool| _ = pool.still_wants_worker());
            }
            Some(job) => drop(self.put_off.set(at, job)),
        }
    }

    /// Ends the manager, because its executor has ended. Refuses the requests and cancels the timers that it has
    /// taken.
    fn end(&mut self) {
        self.handle.strike(Point::End);
        while let Some(job) = self.next_left() {
            match job {
                Job::Request(request) => request.refuse(),
                Job::Timer(name, Some(timer)) => timer.cancel(&name),
                Job::Timer(_, None) | Job::Duty(_) => {}
            }
        }
        if let Some(upkeep) = mem::take(&mut self.upkeep).upgrade() {
            upkeep.cleaner.leave(self.managing.left());
            if cleaner::make(&upkeep.cleaner, &upkeep.core).is_err() {
                // No thread depends on this one any more, so it may wait as long as a destructor takes.
                call(|| upkeep.cleaner.clean());
            }
        }
    }

    /// Takes the next job that is not done, whether it has begun or not.
    fn next_left(&mut self) -> Option<Job> {
        let put_off = || self.put_off.take_due(Time::NEVER).map(|(_, job)| job);
        self.current_job.take().or_else(put_off).or_else(|| self.requests.pop_front().map(Job::Request))
    }
}
