//! The queue that takes the place of a peer's threads.

use std::sync::LazyLock;

use cmwq::WorkQueue;

/// The largest limit that a queue can have.
const LIMIT: usize = 512;

/// Whether queues are managed. The environment variable `PEERS_QUEUE` is `managed` or `unbound` (the default).
static IS_MANAGED: LazyLock<bool> = LazyLock::new(|| match std::env::var("PEERS_QUEUE").as_deref() {
    Ok("managed") => true,
    Err(_) | Ok("unbound") => false,
    Ok(other) => panic!("PEERS_QUEUE is {other}; it must be managed or unbound"),
});

/// Makes a queue of the global executor that runs at most `threads` items at a time.
///
/// # Panics
///
/// If the queue cannot be built.
#[must_use]
pub fn queue(name: &str, threads: usize) -> WorkQueue {
    let builder = if *IS_MANAGED { WorkQueue::builder(name) } else { WorkQueue::unbound(name) };
    builder.max_active_total(threads.min(LIMIT)).build().expect("the queue can be built")
}

/// Runs a job of a peer. The caller is an item of such a queue.
///
/// The jobs of these pools block without guards. A managed queue would detect the blocking late, and would start
/// further threads only at a slow pace to keep them few. So each job runs under a guard in managed queues.
pub fn run<T>(job: impl FnOnce() -> T) -> T {
    if *IS_MANAGED { cmwq::blocking(job) } else { job() }
}
