//! [`Faults`]: the plan of what fails in a run.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use crate::sys::machine::{Absence, Chosen, Plan};

use super::setup::magnitude;

/// A plan of the faults that happen in a run. A [`Setup`](super::Setup) takes the plan with
/// [`faults`](super::Setup::faults).
///
/// Each method adds a fault, so faults can be combined. Virtual times count from the start of the run, and numbers
/// count from 1. Where a method takes a part of a name, an empty text stands for all names. After the test's closure
/// has returned, no more faults happen. If a run fails, the message contains the plan. Each fault that has happened is
/// one of the [`events`](super::events).
///
/// # Examples
///
/// A client tries again if a queue is full, even if the process has no CPU to spare and timers are late.
///
/// ```
/// use cmwq::testing::{Faults, Setup};
/// use cmwq::{QueueError, WorkQueue, blocking};
/// use std::time::Duration;
///
/// let (ms, sec) = (Duration::from_millis, Duration::from_secs);
/// let faults = Faults::new().refuse("mails", 1).refuse("mails", 2).late_timers(ms(50)).no_cpu(1, sec(0)..sec(60));
/// assert!(faults.to_string().ends_with("CPU 1 is away from 0ns to 60s"));
/// Setup::new().faults(faults).run(|| {
///     let queue = WorkQueue::builder("mails").max_pending(100).build().unwrap();
///     let mut refusals = 0;
///     while let Err(refused) = queue.spawn(|| ()) {
///         assert_eq!(refused.error, QueueError::Full);
///         refusals += 1;
///         blocking::thread::sleep(Duration::from_secs(1));
///     }
///     assert_eq!(refusals, 2);
/// });
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[must_use]
pub struct Faults {
    plan: Plan,
    /// The kinds of faults that each seed draws.
    drawn: Vec<FaultKind>,
}

/// A kind of faults that [`Faults::random`] draws.
///
/// # Examples
///
/// ```
/// use cmwq::testing::FaultKind;
///
/// assert!(FaultKind::OF_THE_SYSTEM.iter().all(|kind| FaultKind::ALL.contains(kind)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// For some time, no thread can be made. This time begins at one of the attempts 2 to 8 to make a thread, or at
    /// least 1 ms after the start of the run. So if a test begins by making an executor, the executor gets its manager.
    Threads,
    /// Queues refuse some submissions.
    Refusals,
    /// Timers are late.
    Timers,
    /// A CPU goes away and comes back, if the run has several CPUs.
    Cpus,
    /// An item panics.
    Panics,
    /// The executors are shut down at one of the first 1024 steps.
    Shutdown,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: &'static [Self] =
        &[Self::Threads, Self::Refusals, Self::Timers, Self::Cpus, Self::Panics, Self::Shutdown];

    /// The faults of the system: [`Threads`](Self::Threads), [`Timers`](Self::Timers) and [`Cpus`](Self::Cpus). These
    /// faults delay items, but queues keep their promises. So a program that does not depend on time notices nothing.
    pub const OF_THE_SYSTEM: &'static [Self] = &[Self::Threads, Self::Timers, Self::Cpus];
}

impl Faults {
    /// Makes a plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets each seed draw faults of these kinds. For each kind, about half of the seeds have faults of this kind. Runs
    /// without a seed have the faults of seed 0. The drawn faults can be combined with planned faults, and never
    /// contradict them: no seed takes the last CPU away, or replaces a planned shutdown.
    ///
    /// # Panics
    ///
    /// Panics if `kinds` is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::WorkQueue;
    /// use cmwq::testing::{FaultKind, Faults, Setup};
    ///
    /// let faults = Faults::random(FaultKind::OF_THE_SYSTEM);
    /// Setup::new().faults(faults).explore(50, || {
    ///     let sum = WorkQueue::new("sums").map(0..10_u64, |n| n).sum::<Result<u64, _>>();
    ///     assert_eq!(sum.unwrap(), 45);
    /// });
    /// ```
    #[track_caller]
    pub fn random(kinds: &[FaultKind]) -> Self {
        assert!(!kinds.is_empty(), "there is no kind of faults to draw");
        Self { drawn: kinds.to_vec(), ..Self::new() }
    }

    /// Beginning with the `nth` attempt to make a thread, refuses all threads for this time. The attempts of executors
    /// and of [`blocking::thread::spawn`](crate::blocking::thread::spawn) are numbered. The first thread of an executor
    /// is its manager. [`Duration::MAX`] means for ever.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    ///
    /// # Examples
    ///
    /// A rescuer executes the items of its queue if no other thread can be made.
    ///
    /// ```
    /// use cmwq::WorkQueue;
    /// use cmwq::testing::{Faults, Setup};
    /// use std::time::Duration;
    ///
    /// Setup::new().faults(Faults::new().no_threads_from(3, Duration::MAX)).run(|| {
    ///     let queue = WorkQueue::builder("vital").rescuer(true).build().unwrap(); // threads 1 and 2
    ///     assert_eq!(queue.spawn(|| 7).unwrap().join().unwrap(), 7);
    /// });
    /// ```
    #[track_caller]
    pub fn no_threads_from(mut self, nth: u64, time: Duration) -> Self {
        assert_counted(nth, "thread");
        self.plan.no_threads_from.push((nth, time));
        self
    }

    /// Refuses all attempts to make a thread during this time. The end [`Duration::MAX`] means for ever.
    ///
    /// # Panics
    ///
    /// Panics if the range is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{Faults, Setup, advance};
    /// use cmwq::{WorkQueue, clock};
    /// use std::time::Duration;
    ///
    /// let sec = Duration::from_secs;
    /// Setup::new().faults(Faults::new().no_threads_during(sec(1)..sec(10))).run(move || {
    ///     let (begin, queue) = (clock::now(), WorkQueue::new("later"));
    ///     advance(sec(5));
    ///     queue.spawn(|| ()).unwrap().join().unwrap();
    ///     assert!(clock::now() - begin >= sec(10));
    /// });
    /// ```
    #[track_caller]
    pub fn no_threads_during(mut self, times: Range<Duration>) -> Self {
        assert_some(&times);
        self.plan.no_threads_during.push(times);
        self
    }

    /// Refuses the `nth` submission to the queues with this text in their names. The error is
    /// [`QueueError::Full`](crate::QueueError::Full). Only submissions that need a place among the pending items are
    /// numbered. So an item that is pending already and a submission with a permit are never refused. An item with a
    /// delay is refused only if a cancelled entry of this item is still on a list. Closures of a batch that the queue
    /// admits in one step count as one submission. An issuer that [waits](crate::WhenFull::Wait) for a place is not
    /// refused, and gets its place. On a queue whose [callers run](crate::WhenFull::CallerRuns) items, the issuer runs
    /// the item itself or waits for a place.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{Faults, Setup};
    /// use cmwq::{QueueError, WorkQueue};
    ///
    /// Setup::new().faults(Faults::new().refuse("jobs", 2)).run(|| {
    ///     let queue = WorkQueue::new("jobs");
    ///     let errors: Vec<_> = (0..3).map(|_| queue.spawn_detached(|| ()).err()).collect();
    ///     assert!(matches!(&errors[..], [None, Some(refused), None] if refused.error == QueueError::Full));
    /// });
    /// ```
    #[track_caller]
    pub fn refuse(mut self, queue: &str, nth: u64) -> Self {
        assert_counted(nth, "submission");
        self.plan.refusals.push(Chosen { text: queue.to_owned(), nth });
        self
    }

    /// Refuses about this many of a thousand submissions to the queues with this text in their names, as
    /// [`refuse`](Self::refuse) does. The seed determines which submissions are refused. Without a seed, seed 0
    /// determines them.
    ///
    /// # Panics
    ///
    /// Panics if the number is larger than 1000.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::WorkQueue;
    /// use cmwq::testing::{Faults, Setup};
    ///
    /// let accepted = Setup::new().seed(1).faults(Faults::new().refuse_some("", 500)).run(|| {
    ///     let queue = WorkQueue::new("half");
    ///     (0..100).filter(|_| queue.spawn_detached(|| ()).is_ok()).count()
    /// });
    /// assert!((25..75).contains(&accepted));
    /// ```
    #[track_caller]
    pub fn refuse_some(mut self, queue: &str, of_a_thousand: u32) -> Self {
        assert!(of_a_thousand <= 1000, "a rate is at most 1000 of 1000 submissions, not {of_a_thousand}");
        self.plan.refusal_rates.push((queue.to_owned(), of_a_thousand));
        self
    }

    /// Makes the timers of delayed and periodic items fire late, by this time at most. The seed determines how late
    /// each timer is. Sleeps and timeouts are not late.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{Faults, Setup};
    /// use cmwq::{WorkQueue, clock};
    /// use std::time::Duration;
    ///
    /// let sec = Duration::from_secs;
    /// Setup::new().seed(1).faults(Faults::new().late_timers(sec(2))).run(move || {
    ///     let begin = clock::now();
    ///     WorkQueue::new("timers").item(|| ()).after(sec(1)).spawn().unwrap().join().unwrap();
    ///     let took = clock::now() - begin;
    ///     assert!(took > sec(1) && took <= sec(3), "{took:?}");
    /// });
    /// ```
    pub fn late_timers(mut self, at_most: Duration) -> Self {
        self.plan.late = self.plan.late.max(at_most);
        self
    }

    /// Takes a CPU from the process during this time, as if the CPU went offline. The threads on this CPU move to the
    /// other CPUs. An executor that has work notices the change in less than a second. An executor that is made during
    /// this time does not use the CPU.
    ///
    /// # Panics
    ///
    /// Panics if the range is empty. The run panics if it has no such CPU, or if all of its CPUs would be away.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{self, Faults, Setup};
    /// use cmwq::{WorkQueue, clock};
    /// use std::time::Duration;
    ///
    /// let sec = Duration::from_secs;
    /// Setup::new().cpus(2).faults(Faults::new().no_cpu(1, sec(2)..sec(6))).run(move || {
    ///     let begin = clock::now();
    ///     // Four seconds on two CPUs, and four seconds on one of them.
    ///     WorkQueue::new("renders").for_each(0..12, |_| testing::compute(sec(1))).unwrap();
    ///     assert_eq!((clock::now() - begin).as_secs(), 8);
    /// });
    /// ```
    #[track_caller]
    pub fn no_cpu(mut self, cpu: usize, times: Range<Duration>) -> Self {
        assert_some(&times);
        self.plan.absences.push(Absence { cpu, times });
        self
    }

    /// Makes an item panic at the start of one of its runs. The runs of all items with this text in their description
    /// are numbered. The [`events`](super::events) have the descriptions, for example
    /// `item my_crate::send::{{closure}} of queue "mails"`. This panic by itself does not make the run fail, even if no
    /// thread learns of the panic.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::testing::{Faults, Setup};
    /// use cmwq::WorkQueue;
    ///
    /// Setup::new().faults(Faults::new().panic_at("of queue \"mails\"", 2)).run(|| {
    ///     let queue = WorkQueue::ordered("mails").build().unwrap();
    ///     let mails: Vec<_> = (0..3).map(|number| queue.spawn(move || number).unwrap()).collect();
    ///     let sent: Vec<_> = mails.into_iter().map(|mail| mail.join().ok()).collect();
    ///     assert_eq!(sent, [Some(0), None, Some(2)]);
    /// });
    /// ```
    #[track_caller]
    pub fn panic_at(mut self, item: &str, nth: u64) -> Self {
        assert_counted(nth, "run");
        self.plan.panics.push(Chosen { text: item.to_owned(), nth });
        self
    }

    /// Shuts all executors of the run down, with this timeout, at the step with this number. A thread of the run
    /// performs the shutdown, as a program might do on a signal. A step is an operation of this crate, the start or the
    /// end of an item, or a [`point`](super::point). A plan has one shutdown, so a later call replaces an earlier one.
    /// A run that takes fewer steps has no shutdown.
    ///
    /// The shutdown also ends a global executor that was made on first use. In a program, such an executor lives as
    /// long as the process.
    ///
    /// # Panics
    ///
    /// Panics if the number is 0.
    ///
    /// # Examples
    ///
    /// No matter at which step the shutdown begins, an accepted item runs or is reported as cancelled.
    ///
    /// ```
    /// use cmwq::testing::{Faults, Setup};
    /// use cmwq::{Executor, JoinError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// for step in 1..20 {
    ///     let faults = Faults::new().shutdown_at(step, Duration::ZERO);
    ///     Setup::new().seed(step).faults(faults).run(|| {
    ///         let executor = Executor::builder().build_global().unwrap();
    ///         let Ok(queue) = WorkQueue::builder("mails").build_on(&executor) else { return };
    ///         let mails: Vec<_> = (0..3).filter_map(|number| queue.spawn(move || number).ok()).collect();
    ///         for mail in mails {
    ///             assert!(matches!(mail.join(), Ok(_) | Err(JoinError::Cancelled)));
    ///         }
    ///     });
    /// }
    /// ```
    #[track_caller]
    pub fn shutdown_at(mut self, step: u64, timeout: Duration) -> Self {
        assert_counted(step, "step");
        self.plan.shutdown = Some((step, timeout));
        self
    }

    /// Returns the faults of the run with this seed and this number of CPUs.
    ///
    /// # Panics
    ///
    /// Panics if the plan does not fit a run with this number of CPUs.
    #[track_caller]
    pub(super) fn plan(&self, seed: u64, cpus: usize) -> Plan {
        let random = &mut Rng::with_seed(seed.rotate_left(17) ^ 0xFA17);
        let mut plan = self.clone();
        // All kinds are drawn in a fixed order, and each kind takes one number from `random`. So the faults of one kind
        // do not depend on the other kinds.
        for &kind in FaultKind::ALL {
            let own = &mut Rng::with_seed(random.u64(..));
            if self.drawn.contains(&kind) && own.bool() {
                plan = plan.with_drawn(kind, own, cpus);
            }
        }
        if plan.plan != Plan::default() {
            plan.plan.seed = random.u64(..);
        }
        check_cpus(&plan.plan, cpus);
        plan.plan
    }

    fn with_drawn(self, kind: FaultKind, random: &mut Rng, cpus: usize) -> Self {
        match kind {
            FaultKind::Threads if random.bool() => self.no_threads_from(random.u64(2..=8), time(random)),
            FaultKind::Threads => self.no_threads_during(times(random)),
            FaultKind::Refusals => self.refuse_some("", [10, 100, 500][random.usize(..3)]),
            FaultKind::Timers => self.late_timers(time(random)),
            FaultKind::Cpus if cpus > 1 => {
                let more = self.clone().no_cpu(random.usize(..cpus), times(random));
                if without_cpus(&more.plan, cpus).is_none() { more } else { self }
            }
            FaultKind::Cpus => self,
            FaultKind::Panics => self.panic_at("", magnitude(random, 6)),
            FaultKind::Shutdown if self.plan.shutdown.is_some() => self,
            FaultKind::Shutdown => {
                let timeout = if random.bool() { Duration::ZERO } else { time(random) };
                self.shutdown_at(magnitude(random, 10), timeout)
            }
        }
    }
}

impl fmt::Display for Faults {
    /// Describes the planned faults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.drawn.is_empty(), self.plan == Plan::default()) {
            (true, _) => write!(f, "{}", self.plan),
            (false, true) => write!(f, "drawn by the seed, of {:?}", self.drawn),
            (false, false) => write!(f, "{}, others drawn by the seed, of {:?}", self.plan, self.drawn),
        }
    }
}

/// Draws a time between 1 ms and 131 s. All orders of magnitude are about equally likely.
fn time(random: &mut Rng) -> Duration {
    Duration::from_millis(magnitude(random, 17))
}

fn times(random: &mut Rng) -> Range<Duration> {
    let begin = if random.bool() { Duration::from_millis(1) } else { time(random) };
    begin..begin + time(random)
}

#[track_caller]
fn assert_counted(nth: u64, what: &str) {
    assert!(nth > 0, "the first {what} has the number 1, and none has the number 0");
}

#[track_caller]
fn assert_some(times: &Range<Duration>) {
    assert!(!times.is_empty(), "the times of a fault end after they begin, not {times:?}");
}

#[track_caller]
fn check_cpus(plan: &Plan, cpus: usize) {
    if let Some(absence) = plan.absences.iter().find(|absence| absence.cpu >= cpus) {
        panic!("CPU {} cannot go away: the CPUs of this run are 0 to {}", absence.cpu, cpus - 1);
    }
    if let Some(at) = without_cpus(plan, cpus) {
        panic!("at {at:?}, all CPUs would be away");
    }
}

/// Returns a time at which all of the CPUs would be away, if there is one.
fn without_cpus(plan: &Plan, cpus: usize) -> Option<Duration> {
    plan.changes().find(|at| (0..cpus).all(|cpu| plan.away(*at).any(|away| away == cpu)))
}
