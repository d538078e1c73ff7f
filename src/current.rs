//! Functions for an item about itself: the item, its queue, its description, and whether a rescuer executes it.

use std::fmt;

use crate::engine::item::context;
use crate::engine::worker::worker_thread;
use crate::queue::WorkQueue;
use crate::work::Work;

/// Returns the reusable item whose function the caller executes. `None` in a one-shot, and outside of items.
///
/// # Examples
///
/// An item that queues itself again until it is done:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Work, WorkQueue, current_queue, current_work};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::sync::mpsc;
///
/// let (done, is_done) = mpsc::channel();
/// let left = AtomicU32::new(3);
/// let sweep = Work::new(move || {
///     if left.fetch_sub(1, Ordering::Relaxed) > 1 {
///         current_queue().unwrap().queue(&current_work().unwrap()).unwrap();
///     } else {
///         done.send("swept").unwrap();
///     }
/// });
/// let queue = WorkQueue::new("sweeps").build()?;
/// queue.queue(&sweep)?;
/// assert_eq!(is_done.recv()?, "swept");
/// assert!(current_work().is_none(), "this is no item");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_work() -> Option<Work> {
    context::current_work().map(|item| Work { item })
}

/// Returns the queue of the item that the caller executes. `None` outside of items, and if the last handle of the queue
/// is gone: then the queue accepts no more items.
///
/// An item here is more than its function: the destructors of what it captured, and the panic handler, run on its
/// behalf.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("parents").build()?;
/// let child = queue.spawn(|| cmwq::current_queue().unwrap().spawn(|| "a child of the same queue").unwrap())?;
/// assert_eq!(child.join()?.join()?, "a child of the same queue");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_queue() -> Option<WorkQueue> {
    context::current_queue().map(WorkQueue::from_handle)
}

/// Returns the name of the queue of the item that the caller executes, even if the last handle of that queue is gone.
/// `None` outside of items.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("thumbnails").build()?;
/// assert_eq!(queue.spawn(cmwq::current_queue_name)?.join()?.as_deref(), Some("thumbnails"));
/// assert_eq!(cmwq::current_queue_name(), None, "this is no item");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_queue_name() -> Option<String> {
    context::current_queue_name()
}

/// Sets the description of the item that the caller executes, for [`Executor::dump`](crate::Executor::dump). It holds
/// until the item sets another one, or ends. Outside of items, nothing happens, and nothing is formatted.
///
/// Costs an allocation and a lock, which only snapshots take besides. Items that set no description pay nothing.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = cmwq::Executor::global();
/// let queue = cmwq::WorkQueue::new("thumbnails").build()?;
/// let snapshot = queue.spawn(|| {
///     cmwq::set_description(format_args!("resizing {}", "cat.jpg"));
///     executor.dump().to_string()
/// })?;
/// assert!(snapshot.join()?.contains("resizing cat.jpg"));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "set_worker_desc")]
pub fn set_description(description: impl fmt::Display) {
    if context::has_item() {
        context::describe(description.to_string());
    }
}

/// Returns whether the calling thread is a rescuer, which executes the item because no worker could be made.
///
/// An item that other items wait for may do less then: its pool is short of threads, and its queue has only this one.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("flusher").rescuer().build()?;
/// let batch = queue.spawn(|| if cmwq::is_rescuer() { 1 } else { 64 })?.join()?;
/// # assert_eq!(batch, 64);
/// assert!(!cmwq::is_rescuer());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "current_is_workqueue_rescuer")]
#[must_use]
pub fn is_rescuer() -> bool {
    worker_thread::with_current(|worker| worker.is_some_and(|worker| worker.is_rescuer()))
}
