//! Helpers of the checks.

use std::fmt;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{AffinityScope, Attrs, CpuSet, Executor, WorkQueue};
use rustix::thread::{sched_getcpu, sched_setaffinity};

/// A generous limit for any event, on CPUs that are emulated by few real ones.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const SCOPES: [AffinityScope; 6] = [
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::Cache,
    AffinityScope::CacheShard,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// The executor of the present check, whose dump is printed if the check hangs.
static EXECUTOR: Mutex<Option<Executor>> = Mutex::new(None);

/// An executor on all CPUs of the machine, with the progress check armed: lost wake-ups abort.
pub(crate) fn executor() -> Executor {
    let builder = Executor::builder().thread_name_prefix("vm").progress_check(Duration::from_secs(10));
    let executor = builder.build().unwrap();
    *EXECUTOR.lock().unwrap() = Some(executor.clone());
    executor
}

pub(crate) fn strict(executor: &Executor, scope: AffinityScope) -> WorkQueue {
    let attrs = Attrs::new().scope(scope).strict(true);
    WorkQueue::unbound(scope.to_string()).attrs(attrs).build_on(executor).unwrap()
}

/// The place where a piece of code ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The CPU.
    pub(crate) cpu: usize,
    /// The CPUs on which the kernel lets this thread run.
    pub(crate) allowed: CpuSet,
    /// The pool of the worker.
    pub(crate) pool: String,
}

/// Returns the place of the calling item.
pub(crate) fn look() -> Seen {
    Seen { cpu: sched_getcpu(), allowed: allowed(), pool: current_pool() }
}

fn allowed() -> CpuSet {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().parse().unwrap()
}

/// Returns the pool of the calling worker: `vm/3:1` is a worker of pool `3`.
fn current_pool() -> String {
    let thread = std::thread::current();
    let name = thread.name().expect("workers have names");
    name.trim_start_matches("vm/").split(':').next().expect("a worker's name has a pool").to_owned()
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).unwrap();
}

/// Runs `f` on a thread that is bound to a CPU.
pub(crate) fn on<T: Send>(cpu: usize, f: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        pin(cpu);
        f()
    };
    std::thread::scope(|threads| threads.spawn(pinned).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Polls until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: impl fmt::Display, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Keeps a CPU busy for about this long.
pub(crate) fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Ends the process if a check has not dropped this in time: a lost wake-up must not hang the machine.
#[must_use]
pub(crate) struct TimeLimit {
    _over: mpsc::Sender<()>,
}

impl TimeLimit {
    pub(crate) fn of(check: &'static str) -> Self {
        let (over, wait) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if wait.recv_timeout(5 * PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                println!("FAILED {check}: it hangs");
                if let Some(executor) = &*EXECUTOR.lock().unwrap() {
                    println!("{}", executor.dump());
                }
                std::process::abort();
            }
        });
        Self { _over: over }
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        *EXECUTOR.lock().unwrap() = None;
    }
}
