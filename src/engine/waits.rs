//! Waiting under a guard.

use super::worker;

/// Runs `wait`, which may block, under a blocking guard.
pub(crate) fn guarded<R>(wait: impl FnOnce() -> R) -> R {
    let _guard = Guard(worker::with_current(|worker| worker.map(|worker| worker.enter_guard())));
    wait()
}

/// Of the item `sequence`, if this thread is a worker.
struct Guard(Option<u64>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(sequence) = self.0 {
            worker::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_guard(sequence);
                }
            });
        }
    }
}
