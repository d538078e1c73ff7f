//! Functions that an item calls to find itself and its queue, to set its description, and to learn whether a rescuer
//! executes it.

use std::fmt;

use crate::engine::item::context;
use crate::engine::worker::worker_thread;
use crate::queue::WorkQueue;
use crate::work::Work;

/// Returns the reusable item whose function the caller is executing. Returns `None` in a one-shot, and outside of
/// items.
///
/// # Examples
///
/// This item queues itself again until it is done:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Work, WorkQueue, current_queue, current_work};
/// use std::sync::mpsc;
///
/// let (done, is_done) = mpsc::channel();
/// let mut left = 3;
/// let sweep = Work::new(move || {
///     left -= 1;
///     if left > 0 {
///         current_queue().unwrap().enqueue(&current_work().unwrap()).unwrap();
///     } else {
///         done.send("swept").unwrap();
///     }
/// });
/// let queue = WorkQueue::new("sweeps");
/// queue.enqueue(&sweep)?;
/// assert_eq!(is_done.recv()?, "swept");
/// assert!(current_work().is_none(), "this is no item");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_work() -> Option<Work> {
    context::current_work().map(|item| Work { item })
}

/// Returns the queue of the item that the caller executes. Returns `None` outside of items. Also returns `None` if the
/// last handle of the queue was dropped, because such a queue accepts no more items.
///
/// An item consists of more than its function. The panic handler and the destructors of the function's captured values
/// also run as parts of the item.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("parents");
/// let child = queue.spawn(|| cmwq::current_queue().unwrap().spawn(|| "a child of the same queue").unwrap())?;
/// assert_eq!(child.join()?.join()?, "a child of the same queue");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_queue() -> Option<WorkQueue> {
    context::current_queue().map(WorkQueue::from_handle)
}

/// Returns the name of the queue of the item that the caller executes, even if the last handle of that queue was
/// dropped. Returns `None` outside of items.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("thumbnails");
/// assert_eq!(queue.spawn(cmwq::current_queue_name)?.join()?.as_deref(), Some("thumbnails"));
/// assert_eq!(cmwq::current_queue_name(), None, "this is no item");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_queue_name() -> Option<String> {
    context::current_queue_name()
}

/// Sets the description that [`Executor::dump`](crate::Executor::dump) shows for the item that the caller executes. The
/// description holds until the item sets another description or ends. Outside of items, this function does nothing, and
/// does not format its argument.
///
/// A call in an item costs one allocation and takes one lock. Apart from this function, only snapshots and stall
/// reports take this lock. Items that set no description pay nothing.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let executor = cmwq::Executor::global();
/// let queue = cmwq::WorkQueue::new("thumbnails");
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

/// Returns whether the calling thread is a rescuer, which executes an item because no worker could be made.
///
/// If the calling thread is a rescuer, the item's pool is short of threads, and the rescuer is the only thread on which
/// the item's queue can rely. The item may then choose to do less work, because other items may wait for it.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::builder("flusher").rescuer(true).build()?;
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
