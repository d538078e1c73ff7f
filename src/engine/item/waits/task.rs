//! The wait of a task for a signal.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::protocol::signal::Signal;
use crate::sys::fork::Origin;
use crate::sys::sync::Arc;
use crate::sys::wakers::Watcher;

use crate::engine::refusal::WaitError;

/// Watches a signal until it is set. Dropping this value ends the wait.
#[derive(Debug)]
pub(crate) struct SignalWait {
    signal: Arc<Signal>,
    watcher: Watcher,
    origin: Origin,
}

impl SignalWait {
    pub(crate) fn new(signal: Arc<Signal>, origin: Origin) -> Self {
        Self { signal, watcher: Watcher::next(), origin }
    }

    /// Waits until the signal is set. [`poll`](super::poll) describes `check`.
    pub(crate) async fn wait(&self, check: impl Fn() -> Result<(), WaitError>) -> Result<(), WaitError> {
        poll_fn(|context| self.poll(&check, context)).await
    }

    /// Polls the wait, which is ready once the signal is set. If the signal is not set yet, it will wake the task of
    /// `context` when it is set. [`poll`](super::poll) describes `check`.
    pub(crate) fn poll(
        &self,
        check: impl FnOnce() -> Result<(), WaitError>,
        context: &Context<'_>,
    ) -> Poll<Result<(), WaitError>> {
        if self.signal.is_set() {
            return Poll::Ready(Ok(()));
        }
        super::poll(self.origin, check, context.waker(), |alarm| self.signal.watch(self.watcher, alarm))
    }
}

impl Drop for SignalWait {
    fn drop(&mut self) {
        // If the signal is set, the thread that set it removes the alarm.
        if !self.signal.is_set() {
            self.signal.unwatch(self.watcher);
        }
    }
}
