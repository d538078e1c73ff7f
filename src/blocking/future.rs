//! Waiting for a future.

use crate::engine::item::waits::block_on as engine;

/// Waits until the future is ready, and returns its output. Between two polls, the thread sleeps under a blocking
/// guard.
///
/// The calling item cannot end before the future is ready. So a wait of this crate inside the future can deadlock.
/// Inside the future, a wait for the calling item itself, or for an item that needs the calling item's slot, ends with
/// the same error as a blocking wait. The `block_on` functions of other crates do not notice a deadlock of this kind.
/// This crate does not detect a deadlock of several items that wait for each other in a cycle under `block_on`.
///
/// The future is polled only on the calling thread. If a future needs a runtime, for example for tokio's timers or
/// sockets, await it in that runtime, or block on it with the runtime's own function.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("sums");
/// let (left, right) = (queue.spawn(|| 1 + 2)?, queue.spawn(|| 3 + 4)?);
/// let sum = cmwq::blocking::block_on(async { Ok::<_, cmwq::JoinError>(left.await? + right.await?) })?;
/// assert_eq!(sum, 10);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Panics if the future panics.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    engine::block_on(future.into_future())
}
