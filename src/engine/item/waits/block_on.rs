//! Blocks a thread until a task is done.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sys::machine;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

use super::guarded;

thread_local! {
    /// Whether `block_on` is polling a task on this thread. If so, the item of the thread cannot end before the task
    /// is done.
    static POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Puts the thread to sleep until a waker of the task is called. The flag says whether the task was woken and has not
/// been polled since.
struct Parker(AtomicU64);

impl Parker {
    fn sleep(&self) {
        let _says = machine::waits_for("a wake-up of its task");
        while !self.take() {
            // The sleep has no time limit, so its result is always true.
            wait::sleep(self.key(), || self.0.load(Ordering::Acquire) == 0, Until::FOREVER);
        }
    }

    /// Clears the flag, and returns whether the flag was set. Acquires the writes that the waking thread made before it
    /// woke the task.
    fn take(&self) -> bool {
        self.0.swap(0, Ordering::Acquire) != 0
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.0.swap(1, Ordering::Release) == 0 {
            wait::wake_all(self.key());
        }
    }
}

/// Polls the future until it is ready. Between two polls, sleeps under a blocking guard until the task is woken.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Arc::new(Parker(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&parker));
    let mut context = Context::from_waker(&waker);
    loop {
        let polling = Polling::set(true);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        drop(polling);
        if !parker.take() {
            guarded(|| parker.sleep());
        }
    }
}

/// Makes the thread count as not polling a task, until the returned value is dropped.
pub(crate) fn set_aside() -> impl Sized {
    Polling::set(false)
}

/// Returns whether [`block_on`] polls a task on this thread.
pub(super) fn is_polling() -> bool {
    POLLING.get()
}

/// Sets whether the thread counts as polling a task, for as long as this value lives.
struct Polling {
    before: bool,
}

impl Polling {
    fn set(polls: bool) -> Self {
        Self { before: POLLING.replace(polls) }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLING.set(self.before);
    }
}
