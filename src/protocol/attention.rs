//! Says whether the manager watches the process's CPUs, or rests until a worker becomes active.
//!
//! When a worker becomes active, its *phase* (a part of its state word) or its pool's count of running workers shows
//! the activity. The worker then issues a fence, and reads this cell. When the manager begins to rest, it writes to the
//! cell that it rests. The manager then issues a fence, and reads all workers' phases and all pools' counts. At least
//! one of the two threads sees what the other thread wrote. The two fences forbid these steps:
//!
//! * worker: becomes active; reads this cell, which says that the manager watches;
//! * manager: writes that it rests; reads the counts and phases, and finds no active worker. So the manager rests
//!   although a worker is active.

use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

const RESTS: u64 = 0;
const ASKED: u64 = 1;
const WATCHES: u64 = 2;

/// Holds one of three states: the manager rests, the manager watches, or a worker has told the resting manager that the
/// worker is active.
#[derive(Debug)]
pub(crate) struct AttentionCell(AtomicU64);

impl AttentionCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RESTS))
    }

    /// Tells the manager that the calling worker is active. Returns whether the caller must wake the manager.
    ///
    /// Before the call, the worker's activity has become visible in one of two ways. Either the worker has raised its
    /// pool's count of running workers with a read-modify-write. Or the worker's phase says that the worker is active,
    /// and the worker has done a read-modify-write since then.
    #[inline]
    pub(crate) fn active(&self) -> bool {
        fence_after_update(); // pairs with `rest`; see the module
        self.0.load(Ordering::Relaxed) == RESTS && self.ask()
    }

    #[cold]
    fn ask(&self) -> bool {
        self.0.compare_exchange(RESTS, ASKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns whether a worker has told the manager that the worker is active. The manager calls this function before
    /// it sleeps.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASKED
    }

    /// Notes that the manager watches from now on.
    pub(crate) fn watch(&self) {
        self.0.store(WATCHES, Ordering::Release);
    }

    /// Notes that the manager rests. The manager then reads the counts and phases again. If a worker is active, the
    /// manager continues to watch.
    pub(crate) fn rest(&self) {
        self.0.store(RESTS, Ordering::Release);
        fence(Ordering::SeqCst); // pairs with `active`; see the module
    }
}
