//! A kit for tests of code that uses this crate: virtual time, and schedules that a seed determines.
//!
//! A [run](Setup::run) calls a closure on a made-up machine. The machine has its own clock and its own CPUs, and
//! everything in the run uses this clock and these CPUs: queues, items, timers, scopes, joins, and the sleeps, locks,
//! channels and threads of [`blocking`](mod@crate::blocking). User code needs no change.
//! [`Executor::global`](crate::Executor::global) and [`WorkQueue::new`](crate::WorkQueue::new) use an executor that
//! belongs to the run. The engine is the same as in a program. Only the clock, the order of the threads, and the CPUs
//! are made up.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//!
//! use cmwq::{Work, WorkQueue, testing};
//!
//! testing::run(|| {
//!     let (queue, saved) = (WorkQueue::new("saves"), Arc::new(AtomicU32::new(0)));
//!     let counter = Arc::clone(&saved);
//!     let save = Work::new(move || drop(counter.fetch_add(1, Ordering::Relaxed)));
//!     for _key in 0..5 {
//!         queue.item(&save).after(Duration::from_secs(10)).reschedule().expect("the queue is open");
//!         testing::advance(Duration::from_secs(9));
//!     }
//!     assert_eq!(saved.load(Ordering::Relaxed), 0);
//!     testing::advance(Duration::from_secs(1));
//!     assert_eq!(saved.load(Ordering::Relaxed), 1); // after 46 seconds, which took less than a millisecond
//! });
//! ```
//!
//! # Time
//!
//! The clock stands still unless all threads of the run wait. When all threads wait, the clock moves on to the first
//! time for which a thread or a timer waits. So an hour of virtual time takes only as long as the code that runs in
//! this hour. Code reads the clock through [`clock::now`](crate::clock::now).
//!
//! | to wait in a test | |
//! |---|---|
//! | until an item or a queue is done | as in any program: `join`, `flush`, … |
//! | for a time, and for everything that happens until then | [`advance`] |
//! | until everything that can run now has run | [`run_until_idle`] |
//! | until a condition holds, whatever time that takes | [`run_until`] |
//!
//! # Schedules
//!
//! The threads of a run are real threads, but only one of them runs at a time. Without a seed, a thread runs until it
//! waits. With a [`seed`], the run may also switch to another thread at each operation of this crate, at the start and
//! the end of each item, and at each [`point`]. The seed alone determines which thread runs next. So the same seed
//! leads to the same order of [`events`], in each process and in each build of the same code. [`explore`] tries many
//! seeds.
//!
//! ```
//! use cmwq::{WorkQueue, testing};
//!
//! testing::explore(100, || {
//!     let queue = WorkQueue::ordered("journal").build().expect("the settings are right");
//!     let first = queue.spawn(|| testing::point()).expect("the queue is open");
//!     queue.spawn(move || assert!(first.is_finished())).expect("the queue is open");
//! });
//! ```
//!
//! # Faults
//!
//! By default, nothing fails. [`Faults`] plans what fails in a run: threads that cannot be made, refused submissions,
//! late timers, CPUs that go and come back, panics of items, and a shutdown at any step. With a seed, faults can also
//! be [drawn at random](Faults::random). The same seed then leads to the same faults.
//!
//! ```
//! use cmwq::WorkQueue;
//! use cmwq::testing::{FaultKind, Faults, Setup};
//!
//! let faults = Faults::random(&[FaultKind::Timers, FaultKind::Panics]).refuse("mails", 3);
//! Setup::new().faults(faults).explore(100, || {
//!     let queue = WorkQueue::new("mails");
//!     let mails: Vec<_> = (0..5).map(|number| queue.spawn(move || number)).collect();
//!     assert_eq!(mails.iter().filter(|mail| mail.is_err()).count(), 1);
//!     let sent = mails.into_iter().flatten().filter_map(|mail| mail.join().ok());
//!     assert!(sent.count() >= 3);
//! });
//! ```
//!
//! # Failures
//!
//! A run fails with a panic if its closure panics, and also in the cases below. The message of the panic has the seed
//! and the last events, and names each thread together with its item.
//!
//! * All threads wait, and nothing will wake them. The message says which thread waits for which other thread.
//! * An item does not end: it computes for too long, it takes too many steps while no time passes, or it still waits
//!   when the rest of the run is over.
//! * A thread waits outside of the kit for longer than the [`patience`](Setup::patience). For example, it waits for a
//!   lock of another crate whose holder was interrupted. All real-time sleeps of a run together may take at most a
//!   tenth of the patience.
//! * A thread that does not belong to the run uses one of its queues.
//! * An item panics, and the panic reaches neither a `join`, nor a scope, nor a
//!   [`panic_handler`](crate::ExecutorBuilder::panic_handler).
//!
//! A run ends with its closure, as a process ends with `main`. At its end, the run drops the items that have not begun,
//! cancels the timers, and waits for the items that have begun. If a run has failed, its threads stay where they are
//! until the process ends.
//!
//! # Limits
//!
//! * A thread gives way only at operations of this crate, and nothing interrupts it between two such operations. To let
//!   other threads run between two accesses to an atomic, put a [`point`] between them.
//! * Waits of other crates and of the standard library stop the run, because no other thread runs during such a wait. A
//!   lock of another crate that is held across an operation of this crate can stop the run, too. Use the waits and the
//!   locks of [`blocking`](mod@crate::blocking). Files, processes and sockets may be used, but take real time. The peer
//!   of a socket must be another process or a thread outside of the run. A peer inside of the run could not run while
//!   another thread of the run waits for it.
//! * `Instant::now`, `SystemTime` and timers of other crates do not follow virtual time. The times that they return,
//!   random numbers, addresses, and the order of a `HashMap` differ from run to run. If code depends on any of these
//!   values, the same seed may lead to another run.
//! * Code takes no virtual time, unless it calls [`compute`]. So the run shows no effect of slow code.
//! * Only threads that this crate makes ([`blocking::thread`](mod@crate::blocking::thread)) belong to the run. Other
//!   threads cannot wake the threads of the run.
//! * A queue in a `static` belongs to the run that has made it, and other runs cannot use it. Two runs that take place
//!   at the same time must not share a lock of [`blocking::sync`](mod@crate::blocking::sync) either.
//! * On systems other than Linux, the kit does not see what a thread waits for. On such systems, the kit reports a wait
//!   outside of the kit only after ten times the patience, and reports it as an item that does not end. The order of
//!   events for a seed may differ between operating systems.
//! * A channel of capacity 0 transmits no messages. The receivers of such a channel learn only that it is closed.
//!   `select!` stops the run.
//! * A parked thread ([`blocking::thread::park`](crate::blocking::thread::park)) also wakes up when no other thread can
//!   go on. The contract of `park` permits this. Locks are not fair, and readers overtake a waiting writer.
//! * Only one thread runs at a time, so a run does not show wrong memory orderings. Models of `loom` show them.
//! * A closure that calls [`Executor::global`](crate::Executor::global) or
//!   [`build_global`](crate::ExecutorBuilder::build_global) leaves its executor in memory.
//! * The threads of a run take turns on one real CPU. If code in a run starts threads of other crates, or programs,
//!   these threads and programs stay on that CPU, too.
//! * If the threads take a million steps while no time passes, the kit reports an item without an end. So a loop that
//!   polls must sleep in between. A test that submits hundreds of thousands of items at one moment must [permit more
//!   steps](Setup::max_steps).
//! * If the clock moves more than a million times while the test's own thread waits, the kit reports a wait without an
//!   end. A periodic item keeps the clock moving. So if threads are in a deadlock while a periodic item goes on, only
//!   this limit ends the run. If an item has a period of 50 ms, a test that advances by a day must [permit more
//!   moves](Setup::max_steps).
//! * If a debugger stops the process for several seconds of real time, the run may fail, because the run takes no step
//!   in this time.

mod explore;
mod faults;
mod setup;

use std::time::Duration;

use crate::executor::of_run::OfRun;
use crate::sys::machine::{self, Event};

pub use self::faults::{FaultKind, Faults};
pub use self::setup::Setup;

/// Runs a test in virtual time, with the default [`Setup`]. Returns the result of the closure.
///
/// # Panics
///
/// Panics as [`Setup::run`] does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// cmwq::testing::run(|| cmwq::blocking::thread::sleep(Duration::from_secs(3600)));
/// ```
#[track_caller]
pub fn run<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    Setup::new().run(test)
}

/// Returns a setup with this seed. The seed determines when threads interrupt each other.
///
/// # Examples
///
/// ```
/// cmwq::testing::seed(7).cpus(4).run(|| assert_eq!(cmwq::Executor::global().cpus().len(), 4));
/// ```
pub fn seed(seed: u64) -> Setup {
    Setup::new().seed(seed)
}

/// Runs a test with this many seeds, with the default [`Setup`]. See [`Setup::explore`].
///
/// # Panics
///
/// Panics as [`Setup::explore`] does.
///
/// # Examples
///
/// ```
/// use cmwq::WorkQueue;
///
/// cmwq::testing::explore(20, || {
///     let sum = WorkQueue::new("sums").map(0..4_u64, |n| n).sum::<Result<u64, _>>();
///     assert_eq!(sum.unwrap(), 6);
/// });
/// ```
#[track_caller]
pub fn explore(runs: u64, test: impl Fn() + Send + Sync + 'static) {
    Setup::new().explore(runs, test);
}

/// Lets this virtual time pass, and then does the same as [`run_until_idle`].
///
/// # Panics
///
/// Panics if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, testing};
/// use std::time::Duration;
///
/// testing::run(|| {
///     let timer = WorkQueue::new("timers").item(|| ()).after(Duration::from_secs(60)).spawn().unwrap();
///     testing::advance(Duration::from_secs(59));
///     assert!(!timer.is_finished());
///     testing::advance(Duration::from_secs(1));
///     assert!(timer.is_finished());
/// });
/// ```
#[track_caller]
pub fn advance(time: Duration) {
    in_a_run(machine::nap(time));
    run_until_idle();
}

/// Waits until no other thread of the run can go on before time passes. So all items that can run at the present
/// virtual time have run.
///
/// # Panics
///
/// Panics if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, testing};
///
/// testing::run(|| {
///     let item = WorkQueue::new("now").spawn(|| ()).unwrap();
///     testing::run_until_idle();
///     assert!(item.is_finished());
/// });
/// ```
#[track_caller]
pub fn run_until_idle() {
    in_a_run(machine::settle());
}

/// Lets virtual time pass until a condition holds. Checks the condition each time the clock is about to move on.
///
/// # Panics
///
/// Panics if no thread and no timer waits for a time any more, because then the condition can never hold. The message
/// says which thread waits for which other thread. Also panics if the clock has moved as often as [`Setup::max_steps`]
/// permits, and if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, clock, testing};
/// use std::time::Duration;
///
/// testing::run(|| {
///     let ticks = WorkQueue::new("ticks").item(|| ()).spawn_every(Duration::from_secs(7)).unwrap();
///     let begin = clock::now();
///     testing::run_until(|| ticks.runs() == 3);
///     assert_eq!(clock::now() - begin, Duration::from_secs(21));
/// });
/// ```
#[track_caller]
pub fn run_until(mut condition: impl FnMut() -> bool) {
    run_until_idle();
    let moves = in_a_run(machine::most_moves());
    for _move in 0..moves {
        if condition() {
            return;
        }
        if !machine::let_time_pass() {
            let waiting = machine::waiting_threads();
            panic!("the condition never holds: nothing waits for a time any more{waiting}");
        }
    }
    let waiting = machine::waiting_threads();
    panic!("the condition does not hold, although the clock has moved {moves} times{waiting}");
}

/// Returns, for each timer of the run, the time until the timer fires. The times are in ascending order. The timers are
/// those of the delayed and periodic items of all executors of the run.
///
/// # Panics
///
/// Panics if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, testing};
/// use std::time::Duration;
///
/// testing::run(|| {
///     let queue = WorkQueue::new("retries");
///     let retry = queue.item(|| ()).after(Duration::from_secs(3)).spawn().unwrap();
///     assert_eq!(testing::pending_timers(), [Duration::from_secs(3)]);
///     assert!(retry.cancel() && testing::pending_timers().is_empty());
/// });
/// ```
#[must_use]
#[track_caller]
pub fn pending_timers() -> Vec<Duration> {
    let run = in_a_run(OfRun::current());
    let now = machine::now().unwrap_or_default();
    let times = run.all().into_iter().flat_map(|executor| executor.upkeep.timers.times());
    let mut times: Vec<_> = times.map(|at| at.since(now)).collect();
    times.sort();
    times
}

/// Uses the virtual CPU of the calling thread for this time. During this time, other threads run on the other CPUs, and
/// take turns with the calling thread on this CPU.
///
/// # Panics
///
/// Panics if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, clock, testing};
/// use std::time::Duration;
///
/// testing::Setup::new().cpus(2).run(|| {
///     let begin = clock::now();
///     WorkQueue::new("renders").for_each(0..6, |_| testing::compute(Duration::from_secs(1))).unwrap();
///     assert_eq!((clock::now() - begin).as_secs(), 3);
/// });
/// ```
#[track_caller]
pub fn compute(time: Duration) {
    in_a_run(machine::now());
    machine::burn(time);
}

/// Marks a point at which another thread of the run may take over, if the run has a seed. Outside of a run, does
/// nothing.
///
/// Each operation of this crate is such a point by itself. If a crate enables the feature `testing` only for its
/// tests, it calls this function under `#[cfg(test)]`.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// fn add(sum: &AtomicU32) {
///     let before = sum.load(Ordering::Relaxed);
///     cmwq::testing::point();
///     sum.store(before + 1, Ordering::Relaxed); // wrong: an addition may be lost
/// }
/// # add(&AtomicU32::new(0));
/// ```
pub fn point() {
    machine::step();
}

/// Returns the events of the run so far, in their order, each with its time and its thread. The run keeps only the last
/// 10 000 events.
///
/// # Panics
///
/// Panics if the calling thread belongs to no run.
///
/// # Examples
///
/// ```
/// use cmwq::{WorkQueue, testing};
///
/// let events = testing::run(|| {
///     WorkQueue::new("mail").spawn(|| ()).unwrap().join().unwrap();
///     testing::events()
/// });
/// assert!(events[0].contains("queues") && events[1].contains("begins"), "{events:?}");
/// ```
#[must_use]
#[track_caller]
pub fn events() -> Vec<String> {
    let (events, _) = in_a_run(machine::events());
    events.iter().map(Event::to_string).collect()
}

/// Returns a value that only threads of a run have. Panics if the calling thread belongs to no run.
#[track_caller]
fn in_a_run<T: OfARun>(value: T) -> T::Value {
    value.value().expect("only a thread of a test run can call this: see `cmwq::testing::run`")
}

/// A value that only threads of a run have.
trait OfARun {
    type Value;

    fn value(self) -> Option<Self::Value>;
}

impl OfARun for bool {
    type Value = ();

    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> OfARun for Option<T> {
    type Value = T;

    fn value(self) -> Self {
        self
    }
}
