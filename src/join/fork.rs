//! [`join`]: two closures that may run at the same time.

use crate::engine::item::fork;

/// Calls both closures, possibly at the same time, and returns both results.
///
/// Inside an item, `join` offers the second closure to the other workers of the item's pool, and calls the first one.
/// If no worker has taken the second closure by then, `join` calls it, too. So an item that divides its work again and
/// again, down to parts of about a microsecond, uses all CPUs that have nothing else to do, and no CPU that other items
/// need. The calls need no allocation, and a closure that is not taken costs little more than a call.
///
/// A closure that another worker takes becomes an item of the same queue. It needs a free slot of the queue's
/// [`max_active`](crate::QueueBuilder::max_active), is counted and traced, and gets the
/// [token](crate::cancel_token) and the [carried values](crate::QueueBuilder::carry) of the calling item. The calling
/// item then waits under a [blocking guard](crate::blocking), unless it can take over parts that the closure has itself
/// passed to `join`. It never runs other work meanwhile. So it is safe to hold a lock during a call of `join`, as long
/// as the closures do not need the lock.
///
/// `join` only calls one closure after the other:
///
/// * outside of items. Use a [scope](crate::WorkQueue::scope) to enter a queue with borrowed values;
/// * in items of per-CPU queues, bh queues and ordered queues, and of queues without concurrency management, because
///   no other worker would take the second closure;
/// * while the item is inside a guard, or its queue has no free slot.
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
/// let total = queue.scope(|s| s.spawn(|| sum(&numbers))?.join())??;
/// assert_eq!(total, 5_000_050_000);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If a closure panics, `join` waits until the other one has ended or drops it if it has not begun, and then passes the
/// panic on. If both panic, `join` passes on the panic of the first one.
#[doc(alias = "fork")]
pub fn join<A, B, T, U>(first: A, second: B) -> (T, U)
where
    A: FnOnce() -> T,
    B: FnOnce() -> U + Send,
    U: Send,
{
    fork::join(first, second)
}
