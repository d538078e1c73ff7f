//! The queue that stands for a peer's threads.

use std::sync::LazyLock;

use cmwq::WorkQueue;

/// The largest limit that a queue can have.
const LIMIT: usize = 512;

/// Whether queues are managed. The environment variable `PEERS_QUEUE` says so: `managed`, or `unbound`, its default.
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
    let builder = if *IS_MANAGED { WorkQueue::new(name) } else { WorkQueue::unbound(name) };
    builder.max_active_total(threads.min(LIMIT)).build().expect("the queue can be built")
}

/// Runs a job of a peer in an item of such a queue.
///
/// The jobs of these pools block as they like and say nothing. A managed queue would start the next one late, at a pace
/// that keeps threads few, so it is told that each of them may block.
pub fn run<T>(job: impl FnOnce() -> T) -> T {
    if *IS_MANAGED { cmwq::blocking(job) } else { job() }
}
