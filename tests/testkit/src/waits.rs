//! Waiting for an event, with a limit.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A generous limit for events that happen immediately on a quiet machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Polls until `condition` holds, with this pause between two checks. Returns false if it does not hold within
/// `patience`.
pub fn polled(pause: Duration, patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(pause);
    }
}

/// Polls until `condition` holds. Returns false if it does not hold within `patience`.
pub fn holds_within(patience: Duration, condition: impl FnMut() -> bool) -> bool {
    polled(Duration::from_micros(200), patience, condition)
}

/// Polls until `condition` holds, and panics if it does not hold soon.
#[track_caller]
pub fn eventually(what: impl fmt::Display, condition: impl FnMut() -> bool) {
    assert!(holds_within(SOON, condition), "this never happened: {what}");
}

/// Aborts the process unless this value is dropped in time. So a lost wake-up does not hang a run.
#[must_use]
pub struct TimeLimit {
    _over: mpsc::Sender<()>,
}

impl TimeLimit {
    /// Begins the time. `report` describes what hangs before the process is aborted.
    pub fn new(patience: Duration, report: impl FnOnce() -> String + Send + 'static) -> Self {
        let (over, wait) = mpsc::channel::<()>();
        thread::spawn(move || {
            if wait.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
                // `eprintln!` does not help, because the test harness would capture its output and lose it.
                let _best_effort = writeln!(io::stderr(), "{}", report());
                std::process::abort();
            }
        });
        Self { _over: over }
    }
}
