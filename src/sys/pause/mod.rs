//! The sleep of one thread, which ends when another thread wakes the sleeper or a descriptor is ready.
//!
//! * `Pause::parking()`: the sleeper parks.
//! * `Pause::listening() -> io::Result<Pause>`: the sleeper waits for descriptors, one of which belongs to the pause
//!   itself. The call fails if the process has no descriptor left.
//! * `wake()`: wakes the sleeper. A thread may call `wake` if it knows that the sleeper sleeps, or that the sleeper's
//!   `validate` has returned true. If the sleeper is awake already, its next sleep may end immediately.
//! * `sleep(validate, until, rings) -> bool`: calls `validate` when other threads can already wake the sleeper, and
//!   sleeps only if `validate` returns true. Only one thread calls `sleep`. Returns false if the time `until` has come.
//!   The sleep may also end for no reason. In a listening pause, each of `rings` can end the sleep. After the sleep,
//!   `is_over` returns true for each ring whose thread has ended. A parking pause ignores `rings`. Between the call of
//!   `validate` and the end of the sleep, the sleeper runs no user code, because user code could consume the wake-up by
//!   parking.
//!
//! The portable version always parks.

use std::io;
use std::sync::OnceLock;

use super::clock;
use super::machine;
use super::switches::Ring;
use super::thread::{self, Sleeper};
use crate::policy::time::Time;

#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod linux;
#[cfg(any(test, cmwq_portable, not(target_os = "linux")))]
#[cfg_attr(test, allow(dead_code, reason = "a type without values cannot be used in a test"))]
mod portable;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod slack;
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
mod timer;

#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
use portable::{Listener, Slack};
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
use {linux::Listener, slack::Slack};

/// The place where one thread sleeps.
#[derive(Debug)]
pub(crate) struct Pause(Kind);

#[derive(Debug)]
enum Kind {
    Parks {
        /// The thread that sleeps in this pause. The field is set when this thread first calls `sleep`.
        sleeper: OnceLock<Sleeper>,
        slack: Slack,
    },
    Listens(Listener),
}

impl Pause {
    pub(crate) fn parking() -> Self {
        Self(Kind::Parks { sleeper: OnceLock::new(), slack: Slack::new() })
    }

    pub(crate) fn listening() -> io::Result<Self> {
        if machine::current().is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Listener::new().map(|listener| Self(Kind::Listens(listener)))
    }

    pub(crate) fn wake(&self) {
        match &self.0 {
            Kind::Parks { sleeper, .. } => {
                if let Some(sleeper) = sleeper.get() {
                    sleeper.unpark();
                }
            }
            Kind::Listens(listener) => listener.wake(),
        }
    }

    pub(crate) fn sleep(
        &self,
        validate: impl FnOnce() -> bool,
        until: Option<Time>,
        rings: &[&Ring],
    ) -> bool {
        if let Kind::Parks { sleeper, .. } = &self.0 {
            let sleeper = sleeper.get_or_init(Sleeper::current);
            debug_assert!(sleeper.is_current(), "one thread sleeps here");
        }
        if !validate() {
            return true;
        }
        match (&self.0, until) {
            (Kind::Listens(listener), _) => listener.sleep(until, rings),
            (Kind::Parks { slack, .. }, Some(until)) => {
                let _on_time = slack.reduce();
                thread::park_timeout(until.since(clock::now()))
            }
            (Kind::Parks { .. }, None) => {
                thread::park();
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::spawn;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_micros(1);

    #[allow(clippy::unnecessary_wraps, reason = "a sleep takes an option")]
    fn after(time: Duration) -> Option<Time> {
        Some(clock::now() + time)
    }

    fn pauses() -> impl Iterator<Item = Pause> {
        [Ok(Pause::parking()), Pause::listening()].into_iter().filter_map(|pause| match pause {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            other => Some(other.unwrap()),
        })
    }

    #[test]
    fn a_wake_up_after_validation_ends_the_sleep() {
        for pause in pauses() {
            let pause = Arc::new(pause);
            let (tell, told) = mpsc::channel();
            let sleeper = {
                let pause = pause.clone();
                spawn("sleeper".to_owned(), None, move || {
                    for _ in 0..100 {
                        assert!(pause.sleep(|| tell.send(()).is_ok(), after(LONG), &[]));
                    }
                })
            };
            for () in told {
                pause.wake();
            }
            sleeper.unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_sleep_ends_by_its_timeout_or_does_not_begin() {
        for pause in pauses() {
            while pause.sleep(|| true, after(SHORT), &[]) {}
            assert!(pause.sleep(|| false, None, &[]));
        }
    }

    /// Several wake-ups before a sleep count as one wake-up.
    #[test]
    fn wake_ups_before_a_sleep_end_only_the_next_one() {
        for pause in pauses() {
            while pause.sleep(|| true, after(SHORT), &[]) {}
            (0..3).for_each(|_| pause.wake());
            assert!(pause.sleep(|| true, after(LONG), &[]));
            while pause.sleep(|| true, after(SHORT), &[]) {}
        }
    }

    /// After a sleep that ended early, the system's timer is still armed for that sleep's time. The next sleep must not
    /// end at the time of the earlier sleep.
    #[test]
    fn each_sleep_has_its_own_time() {
        for pause in pauses() {
            while pause.sleep(|| true, after(SHORT), &[]) {}
            let soon = after(Duration::from_millis(20));
            for until in [after(LONG), soon, None, soon, after(LONG)] {
                pause.wake();
                let is_woken = pause.sleep(|| true, until, &[]);
                assert!(
                    is_woken || until.is_some_and(|until| clock::now() >= until),
                    "the wake-up ends the sleep"
                );
            }
            while pause.sleep(|| true, soon, &[]) {}
            assert!(Some(clock::now()) >= soon);
            // The deadline `soon` is over, so this sleep ends immediately.
            while pause.sleep(|| true, soon, &[]) {}
            while pause.sleep(|| true, after(SHORT), &[]) {}
            pause.wake();
            assert!(pause.sleep(|| true, None, &[]), "a sleep without an end");
        }
    }
}
