//! The manager goes on after a panic of its own code.
//!
//! Code of users cannot end it: see [`user_code`](super::super::user_code). Should code of this crate panic on its thread,
//! the manager is made anew there. Its schedule and the requests that it has taken are kept; what it knows of the machine
//! and of its workers' threads is read again, and it looks at the work of all pools. What it was doing is put off for a
//! second, and other work goes on before it. A timer stays in its hand until its item is on its way.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Weak;
use std::time::Duration;

use crate::policy::manager::{CREATION_COOLDOWN, Duty};
use crate::policy::time::Time;
use crate::sys::clock;

use super::super::detector::Detector;
use super::super::environment::Lookout;
use super::super::pool::Pool;
use super::super::timers::{Timer, TimerName};
use super::super::user_code::{Managing, call, contain, discard, report};
use super::{ManagerThread, Request, cleaner};

/// So long the manager rests after a panic, unless it is rung for: one that comes again and again does not take a CPU.
const REST: Duration = Duration::from_millis(10);

/// One thing that the manager does.
#[derive(Debug)]
pub(super) enum Job {
    Request(Request),
    Duty(Duty<Weak<Pool>>),
    /// None: its item is on its way, or was given up.
    Timer(TimerName, Option<Timer>),
}

/// Where a test may have the manager panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// Its thread has begun.
    Arrival,
    Request,
    Duty,
    /// The making of a worker was begun.
    Making,
    Timer,
    /// The item of a timer was admitted to its queue.
    Admission,
    /// The making of a cleaner was begun.
    Cleaner,
    /// There, the system refuses it.
    NoCleaner,
    /// Between two jobs.
    Round,
    /// Its executor has ended.
    End,
}

impl ManagerThread {
    /// The whole life of the manager. At its end, the thread is a manager's still.
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
        // Once more after each panic: it takes each thing once.
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
        let Some(core) = self.core.upgrade() else { return };
        self.detector = Detector::new(&core.settings);
        // It may have changed something that it has not looked at. A pool at which it panics again keeps it from nothing else.
        let present = core.environment.present();
        for pool in core.pools() {
            contain(|| {
                pool.adapt(&present);
                pool.look();
            });
        }
    }

    /// What the manager was doing when it panicked is tried again at `at`.
    fn put_off(&mut self, at: Time) {
        match self.in_hand.take() {
            None | Some(Job::Timer(_, None)) => {}
            Some(Job::Duty(duty)) => {
                let begun = if let Duty::Create(pool) = &duty { pool.upgrade() } else { None };
                // It may have set its next deadline already.
                self.schedule.put_off(duty, Weak::ptr_eq, at);
                // A worker that was begun does not come, unless it is there by now: then one more is made.
                begun.inspect(|pool| _ = pool.still_wants_worker());
            }
            Some(job) => drop(self.put_off.set(at, job)),
        }
    }

    /// The executor has ended: threads that wait for an answer get one, and no timer fires any more.
    fn end(&mut self) {
        self.handle.strike(Point::End);
        while let Some(job) = self.next_left() {
            match job {
                Job::Request(request) => request.refuse(),
                Job::Timer(name, Some(timer)) => timer.cancel(&name),
                Job::Timer(_, None) | Job::Duty(_) => {}
            }
        }
        if let Some(core) = mem::take(&mut self.core).upgrade() {
            core.cleaner.leave(self.managing.left());
            if cleaner::make(&core).is_err() {
                // This thread serves nothing any more, so it may wait as long as a destructor takes.
                call(|| core.cleaner.clean());
            }
        }
    }

    /// What was begun, or is not begun.
    fn next_left(&mut self) -> Option<Job> {
        let put_off = || self.put_off.take_due(Time::NEVER).map(|(_, job)| job);
        self.in_hand.take().or_else(put_off).or_else(|| self.requests.pop_front().map(Job::Request))
    }
}
