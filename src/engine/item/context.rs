//! The item and the queue for which the calling thread works. Code inside an item can ask for its item and its queue.
#![allow(unsafe_code, reason = "a worker stores the address of its item")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::worker::current::Current;
use crate::engine::worker::worker_thread;

use super::work::WorkHandle;

/// Returns a handle to the reusable item whose function the caller executes.
pub(crate) fn current_work() -> Option<WorkHandle> {
    let current = current().filter(Current::is_reusable)?;
    let item = NonNull::new(current.item.cast_mut())?;
    // SAFETY: the item is reusable, and the caller is inside its function.
    Some(unsafe { WorkHandle::of_running(item) })
}

/// If the caller works for an item, returns a handle to the item's queue. Returns `None` if that queue has no handle
/// any more.
pub(crate) fn current_queue() -> Option<Arc<QueueHandle>> {
    with_queue(Queue::handle)?
}

/// If the caller works for an item, returns the name of the item's queue, even if that queue has no handle any more.
pub(crate) fn current_queue_name() -> Option<String> {
    with_queue(|queue| queue.name().to_owned())
}

/// Returns whether the caller works for an item.
pub(crate) fn has_item() -> bool {
    current().is_some()
}

/// Stores a description of the item for which the caller works.
pub(crate) fn describe(text: String) {
    worker_thread::with_current(|worker| {
        if let Some(worker) = worker {
            worker.describe(text);
        }
    });
}

pub(crate) fn current() -> Option<Current> {
    worker_thread::with_current(|worker| worker?.current())
}

fn with_queue<R>(look: impl FnOnce(&Queue) -> R) -> Option<R> {
    Some(look(current()?.queue()))
}
