//! The end of the process, step by step.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The steps, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A signal has come. The consumer takes no new jobs.
    Asked,
    /// The grace period is over. The consumer makes no more attempts.
    Over,
}

pub(crate) struct Ending {
    asked: Arc<AtomicBool>,
    over: AtomicBool,
}

impl Ending {
    /// Handles SIGTERM and SIGINT. The first signal begins the end. A second signal ends the process immediately.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            flag::register_conditional_shutdown(signal, 1, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self { asked, over: AtomicBool::new(false) })
    }

    pub(crate) fn has_come(&self, step: Step) -> bool {
        match step {
            Step::Asked => self.asked.load(SeqCst),
            Step::Over => self.over.load(SeqCst),
        }
    }

    pub(crate) fn set_over(&self) {
        self.over.store(true, SeqCst);
    }

    /// Sleeps for this time, or until this step comes.
    pub(crate) fn sleep(&self, time: Duration, step: Step) {
        let end = Instant::now() + time;
        while !self.has_come(step) {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            // The loop polls, because a signal handler cannot notify a condition variable.
            sleep(rest.min(Duration::from_millis(50)));
        }
    }
}
