//! A shutdown for which an async task waits. A separate thread performs the shutdown, because a shutdown has to wait
//! until the executor's threads have ended. An executor is shut down only once, so the separate thread costs little.

use std::sync::Arc;

use crate::protocol::signal::Signal;
use crate::sys::sync::{self, Mutex};
use crate::sys::thread;
use crate::sys::wait::Until;

use crate::engine::item::waits::guarded;
use crate::engine::item::waits::task::SignalWait;
use crate::engine::refusal::{ShutdownError, WaitError};

use super::inner::ExecutorInner;
use super::shutdown::Remains;

/// The result of the shutdown. The thread that performs the shutdown stores the result, and then sets the signal.
#[derive(Debug)]
struct Outcome {
    remains: Mutex<Option<Result<Remains, ShutdownError>>>,
    over: sync::Arc<Signal>,
}

/// Begins a shutdown, as [`ExecutorInner::shutdown`] does. The returned future is ready when the shutdown is over. If
/// the future is dropped, the shutdown goes on.
pub(crate) fn shutdown(
    executor: Arc<ExecutorInner>,
    until: Until,
) -> impl Future<Output = Result<Remains, ShutdownError>> + Send + Sync + 'static + use<> {
    let origin = executor.origin;
    let begun = if origin.is_forked() { Err(ShutdownError::Forked) } else { Ok(begin(&executor, until)) };
    async move {
        let outcome = begun?;
        let wait = SignalWait::new(outcome.over.clone(), origin);
        let check = || executor.check_shutdown().map_err(|_refused| WaitError::WouldDeadlock);
        wait.wait(check).await.map_err(|error| match error {
            WaitError::Forked => ShutdownError::Forked,
            _ => ShutdownError::WouldDeadlock,
        })?;
        outcome.remains.lock().take().expect("the result is stored before the signal is set")
    }
}

fn begin(executor: &Arc<ExecutorInner>, until: Until) -> Arc<Outcome> {
    let outcome = Arc::new(Outcome { remains: Mutex::new(None), over: sync::Arc::new(Signal::new()) });
    let perform = {
        let (executor, outcome) = (Arc::clone(executor), Arc::clone(&outcome));
        move || {
            let remains = executor.shutdown(until);
            // The waiting task may drop the last handle of the executor as soon as the task is woken. So this thread
            // drops its own reference to the executor before it sets the signal.
            drop(executor);
            *outcome.remains.lock() = Some(remains);
            outcome.over.set();
        }
    };
    let on_thread = {
        let (executor, perform) = (Arc::clone(executor), perform.clone());
        move || {
            // The shutdown may destroy items. The destructors of items are user code, so the thread takes the signal
            // mask for user code.
            executor.core.threads.take_on_signals();
            drop(executor);
            perform();
        }
    };
    if thread::spawn("cmwq/shutdown".to_owned(), None, on_thread).is_err() {
        // If no other thread can be made, the calling thread performs the shutdown. The calling thread may be a worker
        // of another executor. The blocking guard lets the other items of that executor run during the shutdown.
        guarded(perform);
    }
    outcome
}
