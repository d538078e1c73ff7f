//! [`Setup`]: the machine of a run, and the run itself.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use fastrand::Rng;

use crate::executor::of_run::OfRun;
use crate::sys::machine::{self, Config, Order, Outcome, Plan};
use crate::sys::thread::spawn;
use crate::sys::wait::Until;

use super::faults::Faults;

/// The number of CPUs of a run, unless the setup says otherwise.
const CPUS: usize = 2;

/// The time for which a thread may wait outside of the kit, unless the setup says otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of steps that a run may take while no time passes, unless the setup says otherwise.
const MAX_STEPS: u64 = 1_000_000;

/// The name of the thread that performs planned shutdowns.
const FAULTS: &str = "test/faults";

/// The message of a failure has at most this many events.
const TOLD: usize = 200;

/// Describes the runs of a test, and performs them.
///
/// # Examples
///
/// ```
/// use cmwq::testing::Setup;
/// use std::time::Duration;
///
/// let sum = Setup::new().cpus(4).seed(3).patience(Duration::from_secs(5)).run(|| {
///     cmwq::WorkQueue::new("sums").map(0..10, |n| n * n).sum::<Result<u32, _>>()
/// });
/// assert_eq!(sum.unwrap(), 285);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Setup {
    cpus: usize,
    seed: Option<u64>,
    patience: Duration,
    max_steps: u64,
    faults: Faults,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// Returns the default setup: two CPUs, no seed, and one second of patience.
    pub fn new() -> Self {
        Self { cpus: CPUS, seed: None, patience: PATIENCE, max_steps: MAX_STEPS, faults: Faults::new() }
    }

    /// Sets the number of virtual CPUs of the run. By default, the executors of a run use all of these CPUs, which
    /// share one cache. The number of real CPUs does not matter.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0, or larger than 1024.
    #[track_caller]
    pub fn cpus(mut self, cpus: usize) -> Self {
        assert!((1..=1024).contains(&cpus), "a run has 1 to 1024 CPUs, not {cpus}");
        self.cpus = cpus;
        self
    }

    /// Sets the seed, which determines when threads interrupt each other. Without a seed, threads do not interrupt each
    /// other.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how long a thread may wait in real time for something outside of the kit, such as a file. If a thread waits
    /// longer, the run fails. A thread may compute for at most ten times the patience without calling this crate. All
    /// sleeps in real time that the kit notices may together take at most a tenth of the patience. The default patience
    /// is one second.
    ///
    /// # Panics
    ///
    /// Panics if the time is shorter than a millisecond.
    #[track_caller]
    pub fn patience(mut self, patience: Duration) -> Self {
        assert!(
            patience >= Duration::from_millis(1),
            "the patience is a millisecond at least, not {patience:?}"
        );
        self.patience = patience;
        self
    }

    /// Sets the number of steps after which a run counts as endless, if no time passes meanwhile. The clock may also
    /// move at most this many times while the test's own thread waits. The default is a million. A test needs a higher
    /// limit if it submits hundreds of thousands of items at one moment, or advances by a year while an item has a
    /// short period.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{self, Setup};
    /// use std::time::Duration;
    ///
    /// let runs = Setup::new().max_steps(10_000_000).run(|| {
    ///     let ticks = cmwq::WorkQueue::new("ticks").item(|| ()).spawn_every(Duration::from_millis(100)).unwrap();
    ///     testing::advance(Duration::from_secs(3600));
    ///     ticks.runs()
    /// });
    /// assert_eq!(runs, 36_000);
    /// ```
    #[track_caller]
    pub fn max_steps(mut self, steps: u64) -> Self {
        assert!(steps > 0, "a run takes at least one step");
        self.max_steps = steps;
        self
    }

    /// Sets the faults that happen in the run. By default, nothing fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::WorkQueue;
    /// use cmwq::testing::{Faults, Setup};
    ///
    /// Setup::new().faults(Faults::new().panic_at("", 1)).run(|| {
    ///     let queue = WorkQueue::new("renders");
    ///     assert!(queue.spawn(|| ()).unwrap().join().is_err());
    ///     assert!(queue.spawn(|| ()).unwrap().join().is_ok());
    /// });
    /// ```
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Calls the closure on the main thread of a new machine, and returns its result. See the [module](super).
    ///
    /// # Panics
    ///
    /// Panics if the closure panics, or if the run [fails](super#failures). Also panics if the calling thread itself
    /// belongs to a run, if the system cannot make a thread, or if the plan of [`faults`](Self::faults) does not fit
    /// the number of CPUs.
    #[track_caller]
    pub fn run<R: Send + 'static>(&self, test: impl FnOnce() -> R + Send + 'static) -> R {
        match self.perform(test) {
            Ok(result) => result,
            Err(failure) => {
                eprintln!("{}", failure.story(self));
                failure.panic()
            }
        }
    }

    /// Runs the closure. Returns a failure without reporting it.
    #[track_caller]
    pub(super) fn perform<R: Send + 'static>(
        &self,
        test: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Failure> {
        assert!(!machine::listens(), "a run inside of a run");
        let plan = self.faults.plan(self.seed.unwrap_or(0), self.cpus);
        let faults = (self.faults != Faults::new()).then(|| plan.to_string());
        let outcome = machine::run_watched(self.config(), self.patience, || main(plan, test));
        let Outcome { result, events: (events, forgotten) } =
            outcome.expect("the system can make the main thread of a run");
        let cause = match result {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(payload)) => Cause::Panic(payload),
            Err(text) => Cause::Kit(text),
        };
        let forgotten = forgotten + events.len().saturating_sub(TOLD);
        let last = events.len().saturating_sub(TOLD);
        let events = events[last..].iter().map(ToString::to_string).collect();
        Err(Failure { cause, faults, events, forgotten })
    }

    /// Returns the seed of the first run of [`explore`](Self::explore).
    pub(super) fn first(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Returns the setup as code, without the patience and without the details of the faults.
    fn code(&self) -> String {
        let mut code = match self.seed {
            Some(seed) => format!("cmwq::testing::seed({seed})"),
            None => "cmwq::testing::Setup::new()".to_owned(),
        };
        if self.cpus != CPUS {
            _ = write!(code, ".cpus({})", self.cpus);
        }
        if self.max_steps != MAX_STEPS {
            _ = write!(code, ".max_steps({})", self.max_steps);
        }
        if self.faults != Faults::new() {
            code += ".faults(...)";
        }
        code
    }

    fn config(&self) -> Config {
        let mut config = Config::new(self.cpus);
        config.fine = false;
        (config.endless, config.restless) = (self.max_steps, self.max_steps);
        config.apart = &["/manager", FAULTS];
        let Some(seed) = self.seed else { return config };
        let random = &mut Rng::with_seed(seed.rotate_left(32));
        // A wrong order often shows after a few interruptions at the right moments, or after many interruptions at
        // random moments. So some seeds interrupt threads a few times, and others many times.
        (config.switches, config.order) = match seed % 4 {
            0 => (100, Order::Random),
            1 => (0, Order::Ranks { falls: (0..random.u32(1..=3)).map(|_| magnitude(random, 10)).collect() }),
            2 => (500, Order::Random),
            _ => (0, Order::Random),
        };
        config.seed(seed)
    }
}

/// Draws a bound, and then draws a number from 1 to this bound. The bound is one of the first `powers` powers of two,
/// beginning with 2.
pub(super) fn magnitude(random: &mut Rng, powers: u32) -> u64 {
    let magnitude = random.u32(0..powers);
    random.u64(1..=2_u64 << magnitude)
}

/// The main thread of a run.
fn main<R>(plan: Plan, test: impl FnOnce() -> R) -> R {
    begin(plan);
    let result = catch_unwind(AssertUnwindSafe(test));
    machine::no_more_faults();
    end();
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Lets the planned faults happen from now on. If a shutdown is among these faults, makes the thread that performs the
/// shutdown.
fn begin(plan: Plan) {
    if plan == Plan::default() {
        return;
    }
    if let Some((_, timeout)) = plan.shutdown {
        let body = move || {
            if machine::until_shutdown() {
                shut_down(Until::after(timeout));
            }
        };
        spawn(FAULTS.to_owned(), None, body).expect("the system can make a thread");
        // After this call, the new thread waits for the step of the shutdown.
        machine::settle();
    }
    machine::carry_out(plan);
}

/// Ends the executors of the run, and drops the items that have not begun.
fn end() {
    shut_down(Until::after(Duration::ZERO));
}

fn shut_down(until: Until) {
    let Some(run) = OfRun::current() else { return };
    for executor in run.all() {
        // If the test has shut the executor down already, this call changes nothing.
        _ = executor.shutdown(until);
    }
}

/// A run that has failed.
pub(super) struct Failure {
    cause: Cause,
    /// The faults of the run, if any were planned.
    faults: Option<String>,
    /// The last events.
    events: Vec<String>,
    /// The number of earlier events, which `events` leaves out.
    forgotten: usize,
}

enum Cause {
    /// The test has panicked.
    Panic(Box<dyn std::any::Any + Send>),
    /// The run could not go on.
    Kit(String),
}

impl Failure {
    /// Returns a text about the events of the run, and about how to repeat the run with this setup.
    pub(super) fn story(&self, setup: &Setup) -> String {
        let mut story = String::from("cmwq::testing: ");
        _ = match setup.seed {
            Some(seed) => write!(
                story,
                "the run of seed {seed} has failed; to repeat it: {}, or {SEED}={seed} for a test that explores",
                setup.code()
            ),
            None => write!(story, "the run has failed"),
        };
        if let Some(faults) = &self.faults {
            _ = write!(story, "\nthe faults of this run: {faults}");
        }
        story += "\nthe order of events:";
        if self.forgotten > 0 {
            _ = write!(story, "\n    ... after {} earlier events", self.forgotten);
        }
        self.events.iter().for_each(|event| _ = write!(story, "\n  {event}"));
        story
    }

    /// Panics with the cause of the failure. A panic of the test continues here without a second report.
    #[track_caller]
    pub(super) fn panic(self) -> ! {
        match self.cause {
            Cause::Panic(payload) if !std::thread::panicking() => resume_unwind(payload),
            Cause::Panic(_) => panic!("the test has panicked"),
            Cause::Kit(text) => panic!("{text}"),
        }
    }
}

/// The environment variable that makes [`Setup::explore`] repeat one seed.
pub(super) const SEED: &str = "CMWQ_TEST_SEED";
