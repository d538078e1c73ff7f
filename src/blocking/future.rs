//! Waiting for a future.

use crate::engine::item::waits::block_on as engine;

/// Waits until the future is ready, and returns its output. Between two polls, the thread sleeps under a blocking guard.
///
/// If the future awaits handles, flushes or other waits of this crate, these waits end with an error instead of a
/// deadlock, as the blocking waits do: the calling item cannot end before the future does. Other ways to block on a
/// future do not notice such a deadlock.
///
/// The future is polled on the calling thread alone. A future that needs a runtime, for example because it uses tokio's
/// timers or sockets, is awaited there, or with that runtime's own function.
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
