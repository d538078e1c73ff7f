//! Guards, which tell the executor that an item may block.

use std::marker::PhantomData;

use crate::engine::worker::worker_thread;

/// Runs `f`, which may block, and returns its result. While `f` runs, the worker does not count as running, and another
/// worker takes its place if work is pending.
///
/// If no work is pending, a call costs 10 to 30 ns. `blocking` never fails, and panics only if `f` panics. On a thread
/// that is not a worker, `blocking` only calls `f`. Nested calls are free. After the block, the item continues
/// immediately. If more items then run than there are CPUs, the pool reduces the number of its running workers as items
/// end.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("files");
/// let text = queue.spawn(|| cmwq::blocking(|| std::fs::read_to_string("Cargo.toml")))?.join()??;
/// assert!(text.contains("cmwq"));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "wq_worker_sleeping")]
#[inline]
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let _guard = BlockingGuard::enter();
    f()
}

/// A guard. While the guard exists, the worker of this thread does not count as running. See [`blocking()`].
///
/// Guards may be nested, and may be dropped in any order. The worker counts as running again when the item's last guard
/// is dropped. When an item ends, each guard that the item has leaked or kept loses its effect.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::BlockingGuard;
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("naps");
/// queue
///     .spawn(|| {
///         let _guard = BlockingGuard::enter();
///         std::thread::sleep(Duration::from_millis(1));
///     })?
///     .join()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the worker counts as running again as soon as the guard is dropped"]
#[derive(Debug)]
pub struct BlockingGuard {
    /// The sequence number of the item in which the guard was entered. `None` if this thread is not a worker.
    item: Option<u64>,
    /// Makes the guard `!Send`, because it belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl BlockingGuard {
    /// Marks the calling thread's item as blocking.
    #[inline]
    pub fn enter() -> Self {
        let item = worker_thread::with_current(|worker| worker.map(|worker| worker.enter_guard()));
        Self { item, thread: PhantomData }
    }
}

impl Drop for BlockingGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(item) = self.item {
            worker_thread::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_guard(item);
                }
            });
        }
    }
}

/// Runs `f`, which may block but usually takes a short time, and returns its result. Another worker takes the place of
/// this worker only if `f` still runs after 1 ms and work is pending.
///
/// Use this function for calls that are usually quick, such as a read of a file that is mostly in memory, or a lock
/// that is mostly free. `may_block` costs less than [`blocking()`], because it does not check for pending work on
/// entry, and wakes no worker for a short block. While work is pending, the manager checks from time to time whether a
/// call of `may_block` has lasted 1 ms. So the worker that takes the place of this worker may start some milliseconds
/// late. With [`Detection::Switches`](crate::Detection::Switches), that worker may start up to 25 ms later if `f` uses
/// the CPU and does not sleep. A [`blocking()`] inside `f` works as usual.
///
/// `may_block` works even if the executor does not [detect](crate::ExecutorBuilder::detection) blocks without a guard.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("templates");
/// let page = queue.spawn(|| cmwq::may_block(|| std::fs::read_to_string("README.md")))?.join()??;
/// assert!(page.contains("cmwq"));
/// # Ok(())
/// # }
/// ```
#[inline]
pub fn may_block<R>(f: impl FnOnce() -> R) -> R {
    let _guard = MayBlockGuard::enter();
    f()
}

/// A guard for a block that is usually short. If the guard exists for more than 1 ms while work is pending, the worker
/// of this thread no longer counts as running. See [`may_block`].
///
/// This guard may be nested and leaked like a [`BlockingGuard`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("reads");
/// let bytes = queue.spawn(|| {
///     let _guard = cmwq::MayBlockGuard::enter();
///     std::fs::read("Cargo.toml").map(|text| text.len())
/// })?;
/// assert!(bytes.join()?? > 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "the worker counts as running as soon as the guard is dropped"]
#[derive(Debug)]
pub struct MayBlockGuard {
    /// The sequence number of the item in which the guard was entered. `None` if this thread is not a worker.
    item: Option<u64>,
    /// Makes the guard `!Send`, because it belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl MayBlockGuard {
    /// Marks the calling thread's item as an item that may block.
    #[inline]
    pub fn enter() -> Self {
        let item = worker_thread::with_current(|worker| worker.map(|worker| worker.enter_may_block_guard()));
        Self { item, thread: PhantomData }
    }
}

impl Drop for MayBlockGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(item) = self.item {
            worker_thread::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_may_block_guard(item);
                }
            });
        }
    }
}
