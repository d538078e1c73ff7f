//! Whether the manager watches the workers, or rests until a worker becomes active.
//!
//! A worker that becomes active makes that visible (by its phase, or by its pool's count), fences, and reads this
//! cell. A manager that goes to rest says so in this cell, fences, and reads the counts and phases. At least one of
//! the two sees what the other wrote. The two fences forbid this:
//!
//! * worker: counts as active; reads the cell: the manager watches;
//! * manager: says that it rests; reads the counts: no worker is active. It rests, and the worker is not watched.

use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

const RESTS: u64 = 0;
const ASKED: u64 = 1;
const WATCHES: u64 = 2;

/// One of three: the manager rests; a worker has told it that it is active; it watches.
#[derive(Debug)]
pub(crate) struct AttentionCell(AtomicU64);

impl AttentionCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RESTS))
    }

    /// Tells the manager that the calling worker is active. Returns whether the caller must wake the manager.
    ///
    /// The worker's phase says before that it is active, and the worker has done a read-modify-write since; or its
    /// pool's count says so, which the worker has changed by a read-modify-write.
    #[inline]
    pub(crate) fn active(&self) -> bool {
        fence_after_update(); // with `rest`; see the module
        self.0.load(Ordering::Relaxed) == RESTS && self.ask()
    }

    #[cold]
    fn ask(&self) -> bool {
        self.0.compare_exchange(RESTS, ASKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns whether a worker has told the manager that it is active. The manager asks before it sleeps.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASKED
    }

    /// Notes that the manager watches from now on.
    pub(crate) fn watch(&self) {
        self.0.store(WATCHES, Ordering::Release);
    }

    /// Notes that the manager rests. Then the manager reads the counts and phases again, and watches if a worker is
    /// active.
    pub(crate) fn rest(&self) {
        self.0.store(RESTS, Ordering::Release);
        fence(Ordering::SeqCst); // with `active`; see the module
    }
}
