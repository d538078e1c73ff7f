//! Telling the executor that an item is about to block.

use std::marker::PhantomData;

use crate::engine::worker;

/// Runs `f`, which may block: meanwhile, the worker does not count as running, and another one takes its place if
/// work is pending.
///
/// Costs nothing worth mentioning if nothing is pending (some 30 to 45 ns), never fails, and never panics by itself. On
/// a thread that is no worker it just calls `f`. Nesting is free. After the block the item goes on at once; should
/// more items run then than there are CPUs, workers are shed as their items end.
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
/// Guards may be nested, and left in any order: the worker counts again when the last one goes. A guard that is
/// forgotten, or kept beyond the end of its item, ends with the item.
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
    /// The item that it belongs to, if this thread is a worker.
    item: Option<u64>,
    /// `!Send`: it is about this thread.
    thread: PhantomData<*const ()>,
}

impl BlockingGuard {
    /// The calling thread's item begins to block.
    #[inline]
    pub fn enter() -> Self {
        let item = worker::with_current(|worker| worker.map(|worker| worker.enter_guard()));
        Self { item, thread: PhantomData }
    }
}

impl Drop for BlockingGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(item) = self.item {
            worker::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_guard(item);
                }
            });
        }
    }
}

/// Runs `f`, which may block, but seldom does for long: another worker takes this one's place only if it is still
/// inside after 1 ms and work is pending.
///
/// For what is mostly quick, a read of a file that is mostly in memory, or a lock that is mostly free. Costs less than
/// [`blocking()`] (nothing is looked at on the way in), and wakes nobody for a block that is over in a moment. The manager
/// looks at such guards from time to time while work is pending, so it may take some milliseconds until somebody comes.
/// Inside, [`blocking()`] counts by itself.
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
/// Nested and forgotten as a [`BlockingGuard`] is.
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
    /// The item that it belongs to, if this thread is a worker.
    item: Option<u64>,
    /// `!Send`: it is about this thread.
    thread: PhantomData<*const ()>,
}

impl MayBlockGuard {
    /// The calling thread's item begins something that may block.
    #[inline]
    pub fn enter() -> Self {
        let item = worker::with_current(|worker| worker.map(|worker| worker.enter_may_block_guard()));
        Self { item, thread: PhantomData }
    }
}

impl Drop for MayBlockGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(item) = self.item {
            worker::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_may_block_guard(item);
                }
            });
        }
    }
}
