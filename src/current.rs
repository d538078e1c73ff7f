//! What the calling thread is to the executor.

use crate::engine::worker;

/// Is the calling thread a rescuer, which runs the item because no worker could be made?
///
/// An item that others wait for may do less then: its pool is short of threads, and its queue has only this one.
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
    worker::with_current(|worker| worker.is_some_and(|worker| worker.is_rescuer()))
}
