//! Lets async tasks wait for a queue. Each function in this module serves tasks in the same way as the function of the
//! same name serves threads. Each function returns a future, which keeps a handle to the queue. Dropping the future
//! ends only the wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::protocol::flush::Flush;

use crate::engine::item::waits;
use crate::engine::item::waits::task::SignalWait;
use crate::engine::refusal::WaitError;

use super::drain::Draining;
use super::workqueue::{Queue, QueueHandle};

/// A flush that has begun. The flush is over when all items that were in flight at its beginning are done.
#[derive(Debug)]
struct Flushing {
    queue: Arc<QueueHandle>,
    /// The flush and the wait for it. `None` if the flush was over immediately.
    flush: Option<(SignalWait, Flush)>,
}

/// Begins a flush. The returned future is ready when the flush is over.
pub(crate) fn flush(
    queue: Arc<QueueHandle>,
) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + 'static + use<> {
    let begun = Flushing::begin(queue);
    async { begun?.await }
}

/// Waits for a moment at which the queue is empty. During the wait, the queue admits items from all issuers.
pub(crate) async fn idle(queue: Arc<QueueHandle>) -> Result<(), WaitError> {
    wait_until(&queue, Queue::was_idle).await
}

/// Shuts the queue to all issuers except its own items. The returned future is ready when the queue is empty. The queue
/// opens again when the future has returned or is dropped.
pub(crate) fn drain(
    queue: Arc<QueueHandle>,
) -> impl Future<Output = Result<(), WaitError>> + Send + Sync + 'static + use<> {
    let begun = waits::check_origin(queue.queue().executor.origin)
        .map(|()| (Draining::begin(Arc::clone(&queue)), queue));
    async {
        let (_draining, queue) = begun?;
        emptied(&queue).await
    }
}

/// Begins to end the queue. The returned future is ready when the queue is empty, and returns the number of armed
/// timers that were given up. Even if the future is dropped, the queue still refuses all issuers except its own items.
pub(crate) fn destroy(
    queue: Arc<QueueHandle>,
) -> impl Future<Output = Result<usize, WaitError>> + Send + Sync + 'static + use<> {
    end(queue, Queue::begin_destroy)
}

/// Begins to end the queue as [`destroy`] does. Also gives up the items that have not begun, and asks the running items
/// to stop.
pub(crate) fn destroy_now(
    queue: Arc<QueueHandle>,
) -> impl Future<Output = Result<usize, WaitError>> + Send + Sync + 'static + use<> {
    end(queue, Queue::begin_destroy_now)
}

/// Ends the queue with `begin`, which returns false if the queue was destroyed before.
fn end(
    queue: Arc<QueueHandle>,
    begin: impl FnOnce(&Queue) -> bool,
) -> impl Future<Output = Result<usize, WaitError>> + Send + Sync + 'static {
    let begun = waits::check_origin(queue.queue().executor.origin).map(|()| begin(queue.queue()));
    async move {
        if !begun? {
            return Ok(0);
        }
        emptied(&queue).await?;
        Ok(queue.queue().finish_destroy())
    }
}

/// Waits until no item of the queue is in flight. The queue is already shut to all issuers except its own items.
async fn emptied(queue: &Arc<QueueHandle>) -> Result<(), WaitError> {
    wait_until(queue, Queue::was_empty).await
}

/// Flushes the queue until `is_over` returns true. In a forked process, returns an error without looking at the queue,
/// because a thread of the parent may have held a lock of the queue at the fork.
async fn wait_until(queue: &Arc<QueueHandle>, is_over: fn(&Queue) -> bool) -> Result<(), WaitError> {
    loop {
        waits::check_origin(queue.queue().executor.origin)?;
        if is_over(queue.queue()) {
            return Ok(());
        }
        Flushing::begin(Arc::clone(queue))?.await?;
    }
}

impl Flushing {
    fn begin(queue: Arc<QueueHandle>) -> Result<Self, WaitError> {
        let origin = queue.queue().executor.origin;
        waits::check_origin(origin)?;
        let flush = queue.queue().begin_flush();
        let flush = flush.map(|flush| (SignalWait::new(flush.signal(), origin), flush));
        Ok(Self { queue, flush })
    }
}

impl Future for Flushing {
    type Output = Result<(), WaitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((wait, _)) = &self.flush else { return Poll::Ready(Ok(())) };
        let over = wait.poll(|| waits::check_queue(self.queue.queue()), context);
        if over == Poll::Ready(Ok(())) {
            self.flush = None;
        }
        over
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        let queue = self.queue.queue();
        if let Some((wait, flush)) = self.flush.take().filter(|_| !queue.executor.origin.is_forked()) {
            // `wait` shares the flush's signal, so `wait` is dropped before the flush is abandoned. If `wait` still
            // existed, `abandon` would conclude that another thread or task still waits for the flush.
            drop(wait);
            queue.flush.abandon(flush);
        }
    }
}
