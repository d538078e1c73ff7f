//! Helpers of the integration tests: executors of many shapes, ways to wait for an event, and facts about threads.
#![allow(unsafe_code, reason = "threads and their nice levels are named through libc")]

use std::io;
use std::ops::RangeBounds;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::observe::PoolSnapshot;
use cmwq::{Detection, Executor, ExecutorBuilder, JoinHandle, TopologySource, Work, WorkQueue};
use testkit::threads::{name_of, status_of, tasks};
use testkit::{TimeLimit, skip};

pub(crate) use testkit::threads::{block_only, main_status, own_status};
pub(crate) use testkit::{SOON, burn, eventually, has_yields, holds_within, stress};

/// The patience of the progress check. Even on a busy machine, no thread waits so long for its next step. But a lost
/// wake-up lasts for ever, so the check finds it. The time is shorter than [`SOON`], so the check aborts the test
/// before a wait of the test fails.
pub(crate) const PROGRESS: Duration = Duration::from_secs(10);

/// If an executor did something at intervals, it would do so within this time. Some tests also use this time as a
/// threshold or a deadline.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The machines that tests run on: 1, 2 and 8 CPUs, and several pods.
const SHAPES: [&str; 5] = [
    "l3:1 core:1 pu:1",
    "l3:1 core:2 pu:1",
    "l3:1 core:8 pu:1",
    "l3:2 core:4 pu:1",
    "numa:2 l3:2 core:2 pu:2",
];

/// Returns the builder that all tests use, with a made-up machine, a unique prefix and an active progress check. Also
/// returns the prefix.
pub(crate) fn builder(shape: &str) -> (ExecutorBuilder, String) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let prefix = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let builder = Executor::builder()
        .topology(TopologySource::Synthetic(shape.to_owned()))
        .thread_name_prefix(prefix.clone())
        .progress_check(PROGRESS);
    (builder, prefix)
}

/// Makes an executor with one CPU.
pub(crate) fn one_cpu() -> Executor {
    builder("core:1 pu:1").0.build().unwrap()
}

/// Makes an executor with `cpus` CPUs in one pod, which places items at random.
pub(crate) fn cpus(cpus: usize) -> Executor {
    builder(&format!("l3:1 core:{cpus} pu:1")).0.random_placement(cpus as u64).build().unwrap()
}

/// Switches the detection of undeclared blocking and of hogs off. Tests need this if they hold a worker on purpose,
/// test a guard, or count the workers on each CPU exactly.
pub(crate) fn unseen(builder: ExecutorBuilder) -> ExecutorBuilder {
    builder.detection(Detection::Off).hog_threshold(None)
}

/// Makes an executor with one CPU. An item keeps this CPU until it ends or enters a guard.
pub(crate) fn one_cpu_unseen() -> Executor {
    unseen(builder("core:1 pu:1").0).build().unwrap()
}

/// Runs an item that queues a second item, and waits for it under a guard.
pub(crate) fn a_blocked_item_lets_another_one_in(queue: &WorkQueue) {
    let (door, behind) = (Door::default(), queue.clone());
    let opens = door.clone();
    let outer = queue.spawn(move || {
        drop(behind.spawn(move || opens.open()).unwrap());
        door.wait();
    });
    outer.unwrap().join().unwrap();
}

/// Returns whether this build can neither observe nor bind threads. If so, the test is reported as skipped.
#[track_caller]
pub(crate) fn is_portable(executor: &Executor) -> bool {
    let portable = executor.dump().portable;
    if portable {
        skip("portable", "this build neither observes nor binds threads, and cannot read their CPU time");
    }
    portable
}

/// Returns whether the test lacks a second CPU to bind threads to. If so, the test is reported as skipped.
#[track_caller]
pub(crate) fn has_no_elsewhere(executor: &Executor) -> bool {
    let one = core_affinity::get_core_ids().is_none_or(|cpus| cpus.len() < 2);
    if one {
        skip("one-cpu", "the process has one CPU only");
    }
    one || is_portable(executor)
}

/// Runs `test` on an executor of every shape, with local and with random placement.
#[track_caller]
pub(crate) fn on_each_executor(test: impl Fn(&Executor)) {
    on_each(|builder| builder, test);
}

/// As [`on_each_executor`], with detection off ([`unseen`]).
#[track_caller]
pub(crate) fn on_each_executor_unseen(test: impl Fn(&Executor)) {
    on_each(unseen, test);
}

#[track_caller]
fn on_each(settings: fn(ExecutorBuilder) -> ExecutorBuilder, test: impl Fn(&Executor)) {
    let _limit = time_limit();
    for shape in SHAPES {
        for random in [None, Some(7)] {
            let (builder, _) = builder(shape);
            let builder = match random {
                Some(seed) => builder.random_placement(seed),
                None => builder,
            };
            let executor = settings(builder).build().unwrap();
            let placement = if random.is_some() { "random" } else { "local" };
            let described = OnFailure(format!("on {shape:?} with {placement} placement"));
            test(&executor);
            drop(described);
        }
    }
}

/// Prints the executor on which a test failed.
struct OnFailure(String);

impl Drop for OnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Aborts the process unless the returned value is dropped within three minutes. So a lost wake-up does not hang a run.
#[track_caller]
pub(crate) fn time_limit() -> TimeLimit {
    let test = Location::caller();
    TimeLimit::new(Duration::from_secs(180), move || format!("the test at {test} hangs"))
}

/// Returns how many times as long items take under an emulator. An emulated crate itself uses more CPU time for an item
/// than a short item uses.
pub(crate) fn stretch() -> u32 {
    if testkit::emulator().is_some() { 10 } else { 1 }
}

/// Makes an item that counts its runs.
pub(crate) fn counting(runs: &Arc<AtomicUsize>) -> Work {
    let runs = Arc::clone(runs);
    Work::new(move || bump(&runs))
}

/// Queues an item that waits at a door, and returns when it has begun. The last returned value counts the item's runs.
pub(crate) fn begun_on(queue: &WorkQueue) -> (Work, Door, Arc<AtomicUsize>) {
    let (door, runs) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (door.clone(), Arc::clone(&runs));
    let work = Work::new(move || {
        bump(&count);
        wait.wait();
    });
    assert_eq!(queue.enqueue(&work), Ok(true));
    eventually("the item began", || runs.load(Ordering::SeqCst) == 1);
    (work, door, runs)
}

/// Queues an item that keeps its worker, and counts as running, until the door opens. Returns when it has begun.
/// Detection must be off ([`unseen`]).
pub(crate) fn held(queue: &WorkQueue) -> (JoinHandle<()>, Door) {
    let (door, (begin, begun)) = (Door::default(), mpsc::channel());
    let wait = door.clone();
    let item = queue.spawn(move || {
        begin.send(()).unwrap();
        wait.wait_unguarded();
    });
    begun.recv().unwrap();
    (item.unwrap(), door)
}

/// Makes one queue of each kind.
pub(crate) fn all_kinds(executor: &Executor) -> [WorkQueue; 5] {
    [
        WorkQueue::builder("n"),
        WorkQueue::per_cpu("p"),
        WorkQueue::unbound("u"),
        WorkQueue::ordered("o"),
        WorkQueue::builder("w").weight(70),
    ]
    .map(|queue| queue.build_on(executor).unwrap())
}

/// A door at which items wait, with a guard or without.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub(crate) fn wait(&self) {
        cmwq::blocking(|| self.wait_unguarded());
    }

    /// Waits without a guard, so the executor is not told of the wait.
    pub(crate) fn wait_unguarded(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            let (guard, timeout) = self.0.1.wait_timeout(open, 3 * SOON).unwrap();
            assert!(!timeout.timed_out(), "the door was not opened");
            open = guard;
        }
    }
}

/// Waits until all timers of the executor have fired that are due within `delay`. For that, it waits for a timer with
/// this delay, because the manager fires timers in the order of their deadlines. No item may keep the executor's CPUs.
pub(crate) fn timers_have_fired(executor: &Executor, delay: Duration) {
    let queue = WorkQueue::unbound("last timer").build_on(executor).unwrap();
    queue.item(|| ()).after(delay).spawn().unwrap().join().unwrap();
}

/// Counts how many items are inside, and records the largest count so far.
#[derive(Default)]
pub(crate) struct Crowd {
    inside: AtomicUsize,
    peak: AtomicUsize,
}

impl Crowd {
    pub(crate) fn enter(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(inside, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }
}

/// Counts its drops.
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Spawns ten items. Returns their handles, and a counter of the items that have run or were dropped.
pub(crate) fn ten_counted(queue: &WorkQueue) -> (Vec<JoinHandle<()>>, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let spawn = |_| {
        let counted = Counted(Arc::clone(&drops));
        queue.spawn(move || drop(counted)).unwrap()
    };
    ((0..10).map(spawn).collect(), drops)
}

/// Panics when it is dropped, unless the thread is panicking already.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a bomb went off");
        }
    }
}

/// Returns the name of the calling worker's pool: `0`, `0H`, `bh0`, `u4`.
pub(crate) fn current_pool() -> String {
    let thread = std::thread::current();
    let name = thread.name().expect("workers have names");
    let (_, worker) = name.split_once('/').expect("a worker's name has a prefix");
    let Some((pool, number)) = worker.split_once(':') else {
        assert!(worker.starts_with("bh"), "a worker's name has a number");
        return worker.to_owned();
    };
    format!("{pool}{}", if number.ends_with('H') { "H" } else { "" })
}

/// Returns the snapshot of the pool with this name.
pub(crate) fn pool(executor: &Executor, name: &str) -> PoolSnapshot {
    let pools = executor.dump().pools;
    pools.into_iter().find(|pool| pool.name == name).unwrap_or_else(|| panic!("there is no pool {name}"))
}

/// Returns the names of the process's threads that begin with this prefix and a slash, as the system shows them.
pub(crate) fn threads_of(prefix: &str) -> Vec<String> {
    let prefix = format!("{prefix}/");
    tasks().into_iter().map(|task| name_of(&task)).filter(|name| name.starts_with(&prefix)).collect()
}

/// Returns whether every thread of this prefix has ended. Reads the list of threads twice. During the first reading, a
/// manager may make one more worker and end, but after that no thread is made.
pub(crate) fn no_thread_of(prefix: &str) -> bool {
    threads_of(prefix).is_empty() && threads_of(prefix).is_empty()
}

/// Returns how often threads of this prefix went to sleep voluntarily.
pub(crate) fn sleeps_of(prefix: &str) -> u64 {
    let prefix = format!("{prefix}/");
    let of_ours = tasks().into_iter().filter(|task| name_of(task).starts_with(&prefix));
    of_ours.map(|task| status_of(&task, "voluntary_ctxt_switches").parse::<u64>().unwrap_or(0)).sum()
}

/// Waits until no thread of this prefix has woken up for a second. Even if it is late, the manager checks watched pools
/// and the CPUs more often than that. It stops after a few checks that find nothing.
#[track_caller]
pub(crate) fn falls_quiet(prefix: &str) {
    falls_quiet_but_for(prefix, 0);
}

/// Waits until the threads of this prefix have woken up at most `wakeups` times in a second.
#[track_caller]
pub(crate) fn falls_quiet_but_for(prefix: &str, wakeups: u64) {
    let mut before = sleeps_of(prefix);
    eventually(format_args!("in a second, threads woke up {wakeups} times at most"), || {
        std::thread::sleep(PATIENCE);
        let now = sleeps_of(prefix);
        now.saturating_sub(std::mem::replace(&mut before, now)) <= wakeups
    });
}

/// Blocks the calling thread for this time without a guard, like a library that sleeps, or a thread that makes load at
/// intervals. A test that waits for an event uses `eventually`, a channel, or [`timers_have_fired`] instead.
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Returns whether the thread sleeps.
pub(crate) fn is_asleep(thread: u32) -> bool {
    status_of(&thread.to_string(), "State").starts_with('S')
}

/// Waits until the thread sleeps for longer than a moment. Short sleeps do not count, such as waits for a lock that
/// will soon be free, and the sleeps that builds with yields insert.
#[track_caller]
pub(crate) fn falls_asleep(what: &str, thread: u32) {
    eventually(what, || {
        let slept = || status_of(&thread.to_string(), "voluntary_ctxt_switches");
        let before = slept();
        std::thread::sleep(PATIENCE / 10);
        is_asleep(thread) && slept() == before
    });
}

/// Returns the field `field` of the status of each thread with this prefix. Also returns the thread's number and name.
pub(crate) fn statuses_of(prefix: &str, field: &str) -> Vec<(i32, String, String)> {
    let prefix = format!("{prefix}/");
    let number = |task: &String| task.parse().expect("a task has a number");
    let tasks = tasks().into_iter();
    let tasks = tasks.map(|task| (number(&task), name_of(&task), status_of(&task, field)));
    tasks.filter(|(_, name, _)| name.starts_with(&prefix)).collect()
}

pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call has no arguments and touches no memory of the program.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns the nice level of the calling thread.
pub(crate) fn own_nice() -> i32 {
    // SAFETY: the call takes plain numbers and touches no memory of the program.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, thread_id()) }
}

pub(crate) fn set_own_nice(nice: i32) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id(), nice) }, 0);
}

pub(crate) fn is_root() -> bool {
    // SAFETY: the call has no arguments and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// A hook that decides which attempts to make a worker fail. Attempts are numbered from 0. The manager and rescuers can
/// always be made.
#[derive(Clone)]
pub(crate) struct Spawns(Arc<Attempts>);

struct Attempts {
    fails: Box<dyn Fn(usize) -> bool + Send + Sync>,
    over: AtomicBool,
    /// When each attempt was made, and whether it failed.
    made: Mutex<Vec<(Instant, bool)>>,
}

impl Spawns {
    /// Makes the attempts of this range fail: `3..=3` means only the fourth attempt, and `..` means all.
    pub(crate) fn failing(range: impl RangeBounds<usize> + Send + Sync + 'static) -> Self {
        Self::failing_if(move |attempt| range.contains(&attempt))
    }

    pub(crate) fn failing_if(fails: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        let fails = Box::new(fails);
        Self(Arc::new(Attempts { fails, over: AtomicBool::new(false), made: Mutex::new(Vec::new()) }))
    }

    /// From now on, makes all attempts succeed.
    pub(crate) fn recover(&self) {
        self.0.over.store(true, Ordering::SeqCst);
    }

    /// Returns the hook for `before_spawn`.
    pub(crate) fn hook(&self) -> impl Fn(&str) -> io::Result<()> + Send + Sync + 'static {
        let attempts = Arc::clone(&self.0);
        move |name: &str| {
            if name.ends_with("/manager") || name.contains("/R-") {
                return Ok(());
            }
            let mut made = attempts.made.lock().unwrap();
            let fails = !attempts.over.load(Ordering::SeqCst) && (attempts.fails)(made.len());
            made.push((Instant::now(), fails));
            // The system reports its limit with this error.
            if fails { Err(io::Error::from_raw_os_error(libc::EAGAIN)) } else { Ok(()) }
        }
    }

    /// Returns the number of attempts so far, and how many of them failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let made = self.0.made.lock().unwrap();
        (made.len(), made.iter().filter(|(_, failed)| *failed).count())
    }

    /// Returns the shortest time from a failure to the next attempt.
    pub(crate) fn shortest_pause(&self) -> Option<Duration> {
        let made = self.0.made.lock().unwrap();
        let after_failures = made.windows(2).filter(|pair| pair[0].1);
        after_failures.map(|pair| pair[1].0 - pair[0].0).min()
    }
}

/// Adds one to the counter.
pub(crate) fn bump(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::SeqCst);
}
