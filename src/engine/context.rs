//! What the calling thread works for, asked from inside of an item.
#![allow(unsafe_code, reason = "what a worker works for is known to it by address")]

use std::ptr::NonNull;
use std::sync::Arc;

use super::queue::{Queue, QueueHandle};
use super::work_item::WorkHandle;
use super::worker::{self, Current};

/// A handle of the reusable item inside whose function the caller is.
pub(crate) fn current_work() -> Option<WorkHandle> {
    let current = current().filter(Current::is_reusable)?;
    let item = NonNull::new(current.item.cast_mut())?;
    // SAFETY: it is reusable, and the caller inside of it.
    Some(unsafe { WorkHandle::of_running(item) })
}

/// A handle of the queue for whose item the caller works, if there still is one.
pub(crate) fn current_queue() -> Option<Arc<QueueHandle>> {
    with_queue(Queue::handle)?
}

/// The name of that queue, whether it has a handle or not.
pub(crate) fn current_queue_name() -> Option<String> {
    with_queue(|queue| queue.name().to_owned())
}

/// Does the caller work for an item?
pub(crate) fn has_item() -> bool {
    current().is_some()
}

/// The item for which the caller works says what it does.
pub(crate) fn describe(text: String) {
    worker::with_current(|worker| {
        if let Some(worker) = worker {
            worker.describe(text);
        }
    });
}

fn current() -> Option<Current> {
    worker::with_current(|worker| worker?.current())
}

fn with_queue<R>(look: impl FnOnce(&Queue) -> R) -> Option<R> {
    let queue = current()?.queue;
    // SAFETY: a worker knows what it works for until it completes the entry, which keeps the queue in place. It does so
    // on this thread, after the caller.
    Some(look(unsafe { queue.as_ref() }?))
}
