//! Guards: they tell the executor that an item may block.

use std::marker::PhantomData;

use crate::engine::worker::worker_thread;

/// Runs `f`, which may block. Returns its result. Meanwhile the worker does not count as running, and another one takes
/// its place if work is pending.
///
/// Costs some 30 to 45 ns if nothing is pending, never fails, and never panics by itself. On a thread that is not a
/// worker it only calls `f`. Nesting is free. After the block the item goes on at once. If more items run then than
/// there are CPUs, the pool reduces its running workers as items end.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("files").build()?;
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

/// The worker of this thread does not count as running while this exists. See [`blocking()`].
///
/// Guards may be nested, and dropped in any order: the worker counts again when the last one is dropped. A guard that
/// is leaked, or kept beyond the end of its item, ends with the item.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::BlockingGuard;
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("naps").build()?;
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
    /// The item in which it was entered, if this thread is a worker.
    item: Option<u64>,
    /// Makes the guard `!Send`, since it belongs to this thread.
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

/// Runs `f`, which may block, but usually for a short time. Returns its result. Another worker takes this one's place
/// only if `f` still runs after 1 ms and work is pending.
///
/// For calls that are usually quick: a read of a file that is mostly in memory, or a lock that is mostly free. Costs
/// less than [`blocking()`], because it does not look for pending work on entry, and wakes no worker for a short block.
/// The manager looks at such guards from time to time while work is pending, so it may take some milliseconds until
/// another worker starts. A [`blocking()`] inside works as usual.
///
/// Works whether or not blocking without a guard is [detected](crate::ExecutorBuilder::detection).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("templates").build()?;
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

/// The worker of this thread stops counting as running if this exists for more than 1 ms. See [`may_block`].
///
/// It may be nested and leaked as a [`BlockingGuard`] may.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("reads").build()?;
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
    /// The item in which it was entered, if this thread is a worker.
    item: Option<u64>,
    /// Makes the guard `!Send`, since it belongs to this thread.
    thread: PhantomData<*const ()>,
}

impl MayBlockGuard {
    /// Marks that the calling thread's item may block.
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
