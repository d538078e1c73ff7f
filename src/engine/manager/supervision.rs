//! The manager goes on after a panic of its own code.
//!
//! Code of users cannot end it: see [`user_code`](super::super::user_code). Should code of this crate panic on its thread,
//! the manager is made anew there. Its schedule and the requests that it has taken are kept; what it knows of the machine
//! and of its workers' threads is read again. What it was doing is put off for a second, and other work goes on before it.

use std::cell::Cell;
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
use super::super::user_code::{Managing, call, discard, report};
use super::{ManagerThread, Request, cleaner};

/// So long the manager rests after a panic, unless it is rung for: one that comes again and again does not take a CPU.
const REST: Duration = Duration::from_millis(10);

/// One thing that the manager does.
#[derive(Debug)]
pub(super) enum Job {
    Request(Request),
    Duty(Duty<Weak<Pool>>),
    Timer(TimerName, Timer),
}

/// Where a test may have the manager panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    Request,
    Duty,
    Timer,
    /// Between two jobs.
    Round,
}

impl ManagerThread {
    /// The whole life of the manager. At its end, the thread is a manager's still.
    pub(super) fn live(mut self) -> Managing {
        let has_panicked = Cell::new(false);
        let mut live = || {
            if has_panicked.take() {
                self.recover();
            }
            while self.round() {}
        };
        while let Err(payload) = catch_unwind(AssertUnwindSafe(&mut live)) {
            discard(payload);
            has_panicked.set(true);
        }
        self.end()
    }

    fn recover(&mut self) {
        report!(
            error,
            "the manager has panicked, which is a defect of cmwq: it goes on, and tries again in a second"
        );
        let now = clock::now();
        self.put_off(now + CREATION_COOLDOWN);
        self.lookout = Lookout::again(now);
        if let Some(core) = self.core.upgrade() {
            self.detector = Detector::new(&core.settings);
        }
        self.handle.bell.sleep(Some(REST), &[]);
    }

    /// What the manager was doing when it panicked is tried again at `at`.
    fn put_off(&mut self, at: Time) {
        match self.in_hand.take() {
            None => {}
            // It may have set its next deadline already.
            Some(Job::Duty(duty)) => self.schedule.put_off(duty, Weak::ptr_eq, at),
            Some(job) => drop(self.put_off.set(at, job)),
        }
    }

    /// The executor has ended: threads that wait for an answer get one, and no timer fires any more.
    fn end(self) -> Managing {
        let put_off = self.put_off.into_all().chain(self.in_hand);
        for job in self.requests.into_iter().map(Job::Request).chain(put_off) {
            match job {
                Job::Request(request) => request.refuse(),
                Job::Timer(name, timer) => timer.fire(&name),
                Job::Duty(_) => {}
            }
        }
        if let Some(core) = self.core.upgrade() {
            core.cleaner.leave(self.managing.left());
            if cleaner::make(&core).is_err() {
                // This thread serves nothing any more, so it may wait as long as a destructor takes.
                call(|| core.cleaner.clean());
            }
        }
        self.managing
    }
}
