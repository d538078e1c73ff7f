//! Testing code that uses queues, in virtual time and in many orders.
//!
//! The feature `testing` adds the module `cmwq::testing`. Enable it for tests only:
//!
//! ```toml
//! [dev-dependencies]
//! cmwq = { version = "0.1", default-features = false, features = ["testing"] }
//! ```
//!
//! Cargo builds tests with the features of the line in `[dev-dependencies]` and of the line in `[dependencies]`
//! together. So only the line in `[dependencies]` decides whether tests have the default feature `hwloc`.
//!
//! `testing::run(|| …)` runs a closure with a clock, CPUs and a global executor of its own. The clock stands still
//! while any thread can run, and advances when all threads wait. `testing::explore(1000, || …)` runs the closure a
//! thousand times, each time with another order of the threads' steps. The code under test is the program's own code.
//! The code under test must follow only these rules:
//!
//! * The code reads times from [`clock::now`](crate::clock::now) instead of `Instant::now`.
//! * The code sleeps, locks, sends messages and makes threads with the functions of [`blocking`](mod@crate::blocking).
//!   Threads that are made in another way do not belong to a run. So the code does not wait for a channel or a lock of
//!   `std`, tokio or crossbeam. A test of an async service uses an ordinary executor: `Executor::builder().build()`.
//! * The code makes its queues within the run, or takes them as arguments, as `&WorkQueue`. A queue in a `static`
//!   belongs to the first run that uses it, and other runs cannot use it. Tests that run at the same time must not
//!   share a lock of `blocking` that is in a `static`.
//!
//! # A debouncer
//!
//! An editor saves two seconds after the last change. A reusable item with a delay saves at that time, because
//! [`reschedule`](crate::Submission::reschedule) replaces the delay of a pending item. The test simulates an hour of
//! typing, and takes milliseconds.
//!
//! ```
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")] fn main() {
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//!
//! use cmwq::{Work, WorkQueue, testing};
//!
//! struct Editor {
//!     queue: WorkQueue,
//!     save: Work,
//! }
//!
//! impl Editor {
//!     fn new(save: impl FnMut() + Send + 'static) -> Self {
//!         Self { queue: WorkQueue::new("saves"), save: Work::new(save) }
//!     }
//!
//!     fn change(&self) {
//!         let submission = self.queue.item(&self.save).after(Duration::from_secs(2));
//!         submission.reschedule().expect("the queue lives as long as the editor");
//!     }
//! }
//!
//! testing::run(|| {
//!     let saves = Arc::new(AtomicU32::new(0));
//!     let count = Arc::clone(&saves);
//!     let editor = Editor::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
//!     for _minute in 0..60 {
//!         for _key in 0..30 {
//!             editor.change();
//!             testing::advance(Duration::from_secs(1));
//!         }
//!         testing::advance(Duration::from_secs(30)); // a pause to think
//!     }
//!     assert_eq!(saves.load(Ordering::Relaxed), 60);
//!     assert!(testing::pending_timers().is_empty());
//! });
//! # }
//! ```
//!
//! # A client that tries again
//!
//! A client sends a request again after one, two and four seconds. The test replaces the network by a function, and
//! checks the times of the attempts exactly.
//!
//! ```
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")] fn main() {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use cmwq::blocking::sync::Mutex;
//! use cmwq::{blocking, clock, testing};
//!
//! /// Calls `request` up to four times, with growing pauses.
//! fn persistent<T, E>(mut request: impl FnMut() -> Result<T, E>) -> Result<T, E> {
//!     let mut pause = Duration::from_secs(1);
//!     for _attempt in 0..3 {
//!         if let Ok(answer) = request() {
//!             return Ok(answer);
//!         }
//!         blocking::thread::sleep(pause);
//!         pause *= 2;
//!     }
//!     request()
//! }
//!
//! testing::run(|| {
//!     let (begin, attempts) = (clock::now(), Arc::new(Mutex::new(Vec::new())));
//!     let seen = Arc::clone(&attempts);
//!     let queue = cmwq::WorkQueue::new("requests");
//!     let request = move || {
//!         let mut attempts = attempts.lock();
//!         attempts.push((clock::now() - begin).as_secs());
//!         if attempts.len() < 4 { Err("no route") } else { Ok("hello") }
//!     };
//!     let answer = queue.spawn(|| persistent(request)).expect("the queue is open");
//!     assert_eq!(answer.join().expect("it does not panic"), Ok("hello"));
//!     assert_eq!(*seen.lock(), [0, 1, 3, 7]);
//! });
//! # }
//! ```
//!
//! # A cache that refreshes itself
//!
//! A cache loads its value when an item first asks for it, and again every minute. If several items ask at the same
//! time, the cache loads the value only once. Whether two items ask at the same time depends on the order of their
//! steps. So the test explores orders. Without the second check, which `get` makes under the write lock, a run would
//! fail, and the message would name its seed.
//!
//! ```
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")] fn main() {
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//!
//! use cmwq::blocking::sync::RwLock;
//! use cmwq::{PeriodicHandle, WorkQueue, testing};
//!
//! #[derive(Default)]
//! struct Cache {
//!     value: RwLock<Option<u32>>,
//!     loads: AtomicU32,
//! }
//!
//! impl Cache {
//!     fn get(&self) -> u32 {
//!         if let Some(value) = *self.value.read() {
//!             return value;
//!         }
//!         let mut value = self.value.write();
//!         *value.get_or_insert_with(|| self.load()) // another item may have been faster
//!     }
//!
//!     fn load(&self) -> u32 {
//!         self.loads.fetch_add(1, Ordering::Relaxed)
//!     }
//!
//!     fn refresh(self: &Arc<Self>, queue: &WorkQueue) -> PeriodicHandle {
//!         let cache = Arc::clone(self);
//!         let refresh = move || *cache.value.write() = Some(cache.load());
//!         queue.item(refresh).spawn_every(Duration::from_secs(60)).expect("the queue is open")
//!     }
//! }
//!
//! testing::explore(200, || {
//!     let (queue, cache) = (WorkQueue::new("cache"), Arc::new(Cache::default()));
//!     queue.for_each(0..3, |_| assert_eq!(cache.get(), 0)).expect("no item panics");
//!     assert_eq!(cache.loads.load(Ordering::Relaxed), 1);
//!     let _refreshes = cache.refresh(&queue);
//!     testing::run_until(|| cache.get() == 10); // ten minutes later
//!     assert_eq!(cache.loads.load(Ordering::Relaxed), 11);
//! });
//! # }
//! ```
//!
//! # A shutdown
//!
//! A service stops accepting work, and then finishes the accepted work. The test submits work and shuts the service
//! down at the same time, in many orders. A run has its own [`build_global`](crate::ExecutorBuilder::build_global), so
//! a test can shut the global executor down a thousand times.
//!
//! ```
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")] fn main() {
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use std::time::Duration;
//!
//! use cmwq::blocking::thread;
//! use cmwq::{Executor, WorkQueue, testing};
//!
//! testing::explore(200, || {
//!     let executor = Executor::builder().build_global().expect("the run has none yet");
//!     let (mail, sent) = (WorkQueue::new("mail"), Arc::new(AtomicU32::new(0)));
//!     let clients = {
//!         let sent = Arc::clone(&sent);
//!         thread::spawn(move || {
//!             let send = || {
//!                 let sent = Arc::clone(&sent);
//!                 move || {
//!                     thread::sleep(Duration::from_secs(1));
//!                     sent.fetch_add(1, Ordering::Relaxed);
//!                 }
//!             };
//!             (0..5).filter(|_| mail.spawn_detached(send()).is_ok()).count() as u32
//!         })
//!     };
//!     let report = executor.shutdown(Duration::from_secs(60)).expect("this thread may shut it down");
//!     let accepted = clients.join().expect("the clients do not panic");
//!     assert!(report.is_complete(), "{report}");
//!     assert_eq!(sent.load(Ordering::Relaxed), accepted, "accepted work is done");
//! });
//! # }
//! ```
//!
//! # Faults
//!
//! A plan of faults, `testing::Faults`, says what fails in a run. In the following test, an outbox must know which
//! mails were sent, even if the executor is shut down, the queue refuses submissions, or items panic. Each seed draws
//! its faults from all kinds. If a mail is lost, the message shows the seed and its faults.
//!
//! ```
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")] fn main() {
//! use std::sync::Arc;
//!
//! use cmwq::blocking::sync::Mutex;
//! use cmwq::testing::{FaultKind, Faults, Setup};
//! use cmwq::{Executor, WorkQueue};
//!
//! /// Sends the mails. Returns those that were not sent.
//! fn send(executor: &Executor, mails: &[u32], sent: &Arc<Mutex<Vec<u32>>>) -> Vec<u32> {
//!     let builder = WorkQueue::builder("mails").max_pending(10);
//!     let Ok(queue) = builder.build_on(executor) else { return mails.to_vec() };
//!     let job = |mail: u32| {
//!         let sent = Arc::clone(sent);
//!         queue.spawn(move || sent.lock().push(mail))
//!     };
//!     let jobs: Vec<_> = mails.iter().map(|mail| (*mail, job(*mail))).collect();
//!     let is_left = |job: Result<cmwq::JoinHandle<()>, _>| job.map_or(true, |job| job.join().is_err());
//!     jobs.into_iter().filter_map(|(mail, job)| is_left(job).then_some(mail)).collect()
//! }
//!
//! Setup::new().faults(Faults::random(FaultKind::ALL)).explore(200, || {
//!     let executor = Executor::builder().build_global().expect("the first thread can be made");
//!     let (mut left, sent) = (vec![1, 2, 3], Arc::new(Mutex::new(Vec::new())));
//!     for _attempt in 0..20 {
//!         left = send(&executor, &left, &sent);
//!     }
//!     let is_down = WorkQueue::builder("another").build_on(&executor).is_err();
//!     assert!(left.is_empty() || is_down, "not sent: {left:?}");
//!     left.extend(&*sent.lock());
//!     left.sort();
//!     assert_eq!(left, [1, 2, 3]);
//! });
//! # }
//! ```
//!
//! # If a run fails
//!
//! The message on standard error shows the seed and the order of events. `CMWQ_TEST_SEED=17 cargo test name` repeats
//! the run of seed 17. In the code of a test that stays in the program, `testing::seed(17).run(|| …)` does the same.
//! `CMWQ_TEST_RUNS=100000` lets `explore` make a hundred thousand runs, for a long search. The documentation of the
//! module lists what a run finds, and what the kit cannot do.
