//! [`join`]: two closures that may run at the same time.

use crate::engine::item::fork;

/// Calls both closures, possibly at the same time, and returns both results.
///
/// Inside an item, `join` offers the second closure to workers that have nothing else to do, and calls the first
/// closure. If no worker has taken the second closure when the first one returns, `join` calls the second closure, too.
/// So an item can divide its work again and again, down to parts of about a microsecond. The item then uses only CPUs
/// that have nothing else to do, and no CPU that other items need. A closure that no worker takes costs little more
/// than a plain call. For a closure that no worker takes, `join` allocates memory only at the first call in an item,
/// and in a queue that [carries](crate::WorkQueueBuilder::carry) values.
///
/// A closure that another worker takes becomes an item of the same queue. The new item needs a free slot of the queue's
/// [`max_active`](crate::WorkQueueBuilder::max_active), and is counted and traced. The new item has the
/// [token](crate::cancel_token()) and the carried values of the calling item, but not that item's thread-local values.
/// If the first closure ends before the new item, the calling item waits under a [blocking guard](crate::blocking()),
/// and keeps its slot. While the calling item waits, its thread runs only closures that the awaited closure has itself
/// passed to `join`. So an item may hold a lock during the call, as long as the closures do not need that lock.
///
/// In the following cases, no worker takes the second closure, and `join` calls one closure after the other:
///
/// * outside of items. To submit a closure with borrowed values to a queue, use a [scope](crate::WorkQueue::scope).
/// * in items of per-CPU queues, of bh queues, of ordered queues, and of [unbound](crate::WorkQueue::unbound) queues,
///   and in items that a rescuer or their issuer runs.
/// * while the item is inside a guard, while its queue has no free slot, and while its queue is frozen, drained or shut
///   down.
///
/// If an item forks its process after a worker has taken the second closure, the child process ends when `join` needs
/// the result of that closure.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = cmwq::join(|| sum(left), || sum(right));
///     left + right
/// }
///
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// let queue = cmwq::WorkQueue::new("sums");
/// queue.scope(|s| -> Result<(), Box<dyn std::error::Error>> {
///     assert_eq!(s.spawn(|| sum(&numbers))?.join()?, 5_000_050_000);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If a closure panics, `join` first waits until the other closure has ended, or drops the other closure if it has not
/// begun. After that, `join` passes the panic on to its caller. If both closures panic, `join` passes on the panic of
/// the first closure.
#[doc(alias = "fork")]
pub fn join<A, B, T, U>(first: A, second: B) -> (T, U)
where
    A: FnOnce() -> T,
    B: FnOnce() -> U + Send,
    U: Send,
{
    fork::join(first, second)
}
