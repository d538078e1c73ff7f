//! Helpers of the checks.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, CpuSet, Executor, WorkQueue};
use rustix::thread::sched_getcpu;
use testkit::{pin, polled};

/// A generous limit for any event. It is this long, because few real CPUs emulate many CPUs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const SCOPES: [AffinityScope; 6] = [
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::Cache,
    AffinityScope::CacheShard,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// The executor of the current check. If the check hangs, its dump is printed.
static EXECUTOR: Mutex<Option<Executor>> = Mutex::new(None);

/// Makes an executor on all CPUs of the machine. Its progress check is active, so a lost wake-up aborts the process.
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

/// The place where a thread has run some code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The CPU.
    pub(crate) cpu: usize,
    /// The CPUs on which the kernel permits this thread to run.
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

/// Runs `f` on a thread that is bound to a CPU.
pub(crate) fn on<T: Send>(cpu: usize, f: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        pin(cpu).unwrap();
        f()
    };
    std::thread::scope(|threads| threads.spawn(pinned).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Polls until `condition` holds. The pause between two checks leaves the real CPUs to the other emulated CPUs.
#[track_caller]
pub(crate) fn eventually(what: impl fmt::Display, condition: impl FnMut() -> bool) {
    assert!(polled(Duration::from_millis(20), PATIENCE, condition), "this never happened: {what}");
}

/// Ends the process if a check does not drop this value in time. So a lost wake-up does not hang the machine.
#[must_use]
pub(crate) struct TimeLimit(#[allow(dead_code, reason = "its drop ends the wait")] testkit::TimeLimit);

impl TimeLimit {
    pub(crate) fn of(check: &'static str) -> Self {
        Self(testkit::TimeLimit::new(5 * PATIENCE, move || {
            let executor = EXECUTOR.lock().unwrap();
            // The failure is printed, because `run` reads the results from the output.
            println!("FAILED {check}: it hangs");
            if let Some(executor) = &*executor {
                println!("{}", executor.dump());
            }
            format!("{check} hangs")
        }))
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        *EXECUTOR.lock().unwrap() = None;
    }
}
