//! Watches the runs of a machine from a thread outside of the machine. The watcher is told if the run fails. The
//! watcher also notices if a thread keeps the *baton* (the right to run) for too long: the thread computes without an
//! end, or waits for an event that the machine does not know.
//!
//! If a run fails, its threads stay where they are, because they cannot be ended: a thread may be in the middle of a
//! step, or in a wait that must not unwind. So a failed run costs memory and threads, until the process ends.

#![forbid(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use super::as_main_thread;
use super::baton::{Machine, NONE};
use super::record::Event;
use super::schedule::{Config, Tid};
use crate::sys::thread_state::{self, Eye};

/// Between two steps, a thread may compute for this many times the *patience*, which is an argument of [`run_watched`].
const COMPUTES: u32 = 10;

/// The number of times that the watcher looks at the machine in a period as long as the patience.
const LOOKS: u32 = 20;

/// The watcher ends the run after this many looks at which it has seen a thread sleep in real time. The number is a
/// tenth of [`LOOKS`]. A wait for a file or a process does not count as a sleep in real time.
const NAPS: u32 = LOOKS / 10;

/// A function that tells the watcher why the run has failed.
pub(super) struct Teller(Box<dyn Fn(String) + Send>);

impl Teller {
    pub(super) fn tell(&self, failure: String) {
        (self.0)(failure);
    }
}

/// The result and the events of a run.
pub(crate) struct Outcome<R> {
    /// The result of the main function, or the reason why the run could not go on.
    pub(crate) result: Result<thread::Result<R>, String>,
    /// The events of the run, and the number of earlier events that the record has dropped.
    pub(crate) events: (Vec<Event>, usize),
}

enum Said<R> {
    Over(thread::Result<R>),
    Failed(String),
}

/// Makes a machine and its main thread, and runs `main` on that thread. Then waits until all threads of the machine
/// have ended. A thread that sleeps in a system call may keep the baton for at most `patience`.
///
/// # Errors
///
/// Returns an error if the system cannot make the main thread.
pub(crate) fn run_watched<R: Send + 'static>(
    config: Config,
    patience: Duration,
    main: impl FnOnce() -> R + Send + 'static,
) -> io::Result<Outcome<R>> {
    let machine = Machine::new(config);
    let (tell, told) = channel();
    machine.inner.lock().watcher = Some(teller(tell.clone()));
    let name = thread::current().name().unwrap_or("test").to_owned();
    let its_machine = Arc::clone(&machine);
    let body = move || {
        let said = as_main_thread(&its_machine, main, |result| verdict(&its_machine, result));
        // The send fails if the watcher has given up.
        _ = tell.send(said);
    };
    let main = Builder::new().name(name).spawn(body)?;
    let said = wait(&machine, &told, patience);
    let events = machine.inner.lock().record.events();
    let result = match said {
        Said::Over(result) => {
            _ = main.join();
            Ok(result)
        }
        Said::Failed(text) => Err(text),
    };
    Ok(Outcome { result, events })
}

fn teller<R: Send + 'static>(tell: Sender<Said<R>>) -> Teller {
    Teller(Box::new(move |failure| _ = tell.send(Said::Failed(failure))))
}

/// Waits until all threads of the machine have ended or wait for ever. Then returns how the run ended. `result` is the
/// result of the main function.
fn verdict<R>(machine: &Machine, result: thread::Result<R>) -> Said<R> {
    machine.rest();
    let inner = machine.inner.lock();
    let (left, panics) = (inner.unended(), inner.record.untold_panics());
    drop(inner);
    match (left, &result) {
        (Some(left), Ok(_)) => Said::Failed(format!("the test has ended, but not these threads: {left}")),
        // An item may panic, or be joined, after the test's closure has returned.
        (None, Ok(_)) if !panics.is_empty() => {
            Said::Failed(format!("a panic was told to no one: it was in {}", panics.join(", and in ")))
        }
        _ => Said::Over(result),
    }
}

/// Waits until the run is over, or until a thread has kept the baton for too long.
fn wait<R>(machine: &Machine, told: &Receiver<Said<R>>, patience: Duration) -> Said<R> {
    let mut holder = Holder::new(patience);
    loop {
        match told.recv_timeout(patience / LOOKS) {
            Ok(said) => return said,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(text) = holder.look(machine) {
                    return Said::Failed(text);
                }
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("the machine keeps a sender"),
        }
    }
}

/// The thread that has the baton, as the watcher sees it.
struct Holder {
    patience: Duration,
    /// The thread, and a number that grows when the baton is passed on or when a thread reaches a point.
    seen: (Tid, u64),
    since: Instant,
    /// If the thread sleeps, the number of its sleeps so far, and the time at which the watcher first saw this number.
    asleep: Option<(u64, Instant)>,
    /// The number of looks at which a thread of the run slept in real time.
    naps: u32,
}

impl Holder {
    #[allow(clippy::disallowed_methods, reason = "the watcher lives in real time")]
    fn new(patience: Duration) -> Self {
        Self { patience, seen: (NONE, 0), since: Instant::now(), asleep: None, naps: 0 }
    }

    /// Looks at the thread that has the baton. If this thread has kept the baton for too long, ends the run and returns
    /// the reason.
    #[allow(clippy::disallowed_methods, reason = "the watcher lives in real time")]
    fn look(&mut self, machine: &Machine) -> Option<String> {
        let mut inner = machine.inner.lock();
        let now = Instant::now();
        let seen = (inner.turn, inner.passes + inner.schedule.points);
        if seen != self.seen {
            (self.seen, self.since, self.asleep) = (seen, now, None);
        }
        // After a failure, no thread has the baton, and the watcher is about to receive the reason.
        let thread = Some(inner.turn).filter(|turn| *turn != NONE)?;
        let system = inner.record.system_id(thread)?;
        let slept = thread_state::voluntary_switches(system).ok();
        // On a busy machine, a thread may get the baton long before it wakes up.
        let sleeps = inner.is_taken
            && Eye::open(system).and_then(|eye| eye.look()).is_ok_and(|seen| seen.state.is_blocked());
        self.asleep = slept.filter(|_| sleeps).map(|slept| match self.asleep {
            Some((before, since)) if before == slept => (slept, since),
            _ => (slept, now),
        });
        let function = if sleeps { thread_state::wait_channel(system) } else { None };
        self.naps += u32::from(function.as_deref().is_some_and(is_nap));
        let asleep_since = self.asleep.map(|(_, since)| since);
        let waits = asleep_since.is_some_and(|since| now.duration_since(since) >= self.patience);
        let told = if waits || self.naps >= NAPS {
            let thread = inner.thread_with_item(thread);
            format!("{thread} waits outside of the test kit: {}", where_it_sleeps(function))
        } else if now.duration_since(self.since) >= self.patience * COMPUTES {
            let thread = inner.thread_with_item(thread);
            let time = now.duration_since(self.since);
            format!("{thread} does not come to an end: it has taken no step for {time:.1?}")
        } else {
            return None;
        };
        let text = format!("{told}{}{}", inner.interrupted(thread), inner.waiting());
        inner.turn = NONE;
        Some(text)
    }
}

/// Returns whether a thread that sleeps in this function of the kernel only waits for time to pass.
fn is_nap(function: &str) -> bool {
    function.contains("nanosleep")
}

/// Describes in words the wait of a thread that sleeps in this function of the kernel.
fn where_it_sleeps(function: Option<String>) -> String {
    match function {
        Some(function) if is_nap(&function) => {
            "it sleeps in real time (use cmwq::blocking::thread::sleep)".to_owned()
        }
        Some(function) if function.contains("futex") => {
            "it waits for a lock, a channel, a thread or a future of another crate (use cmwq::blocking, and hold no \
             other lock across an operation of cmwq)"
                .to_owned()
        }
        Some(function) => format!("it sleeps in the system ({function})"),
        None => "it sleeps in the system (use the sleeps, locks and channels of cmwq::blocking)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{SOON, holds_within};

    /// spec: T1.5: a thread that has the baton and has not woken up yet does not wait outside of the test kit.
    #[test]
    fn a_thread_that_has_not_taken_the_baton_yet_waits_for_nothing() {
        if crate::sys::PORTABLE {
            return testkit::skip("portable", "the system does not tell what a thread does");
        }
        let machine = Machine::new(Config::new(1));
        let (its, (tell, told), (end, ends)) = (Arc::clone(&machine), channel(), channel::<()>());
        let sleeper = Builder::new().spawn(move || {
            its.inner.lock().record.arrives(0);
            tell.send(()).unwrap();
            _ = ends.recv();
        });
        told.recv().unwrap();
        let is_told_within = |time| {
            let mut holder = Holder::new(Duration::from_millis(200));
            holds_within(time, || {
                holder.look(&machine).is_some_and(|text| text.contains("waits outside of the test kit"))
            })
        };
        machine.inner.lock().pass_to(0);
        assert!(!is_told_within(Duration::from_millis(400)), "the baton is on its way");
        machine.inner.lock().pass_to(0);
        machine.inner.lock().is_taken = true;
        assert!(is_told_within(SOON), "the thread has the baton, and sleeps");
        drop(end);
        sleeper.unwrap().join().unwrap();
    }
}
