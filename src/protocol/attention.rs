//! Does the manager keep an eye on the machine, or has somebody to tell it that there is work again?
//!
//! One handshake, which would leave a busy executor unwatched if either side's fence were missing: a worker says by its
//! phase, or by its pool's count, that it is active, fences, and reads the cell. The manager says here that it rests, fences,
//! and reads counts and phases. At least one of the two sees what the other wrote.

use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

const RESTS: u64 = 0;
const ASKED: u64 = 1;
const WATCHES: u64 = 2;

/// One of: the manager rests; it was told of somebody who is active; it watches.
#[derive(Debug)]
pub(crate) struct AttentionCell(AtomicU64);

impl AttentionCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RESTS))
    }

    /// The caller's phase says that it is active, and a read-modify-write came after that, or its pool's count does, which
    /// is one. True if the manager is to be woken.
    #[inline]
    pub(crate) fn active(&self) -> bool {
        fence_after_update(); // with `rest`
        self.0.load(Ordering::Relaxed) == RESTS && self.ask()
    }

    #[cold]
    fn ask(&self) -> bool {
        self.0.compare_exchange(RESTS, ASKED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// By the manager, before it sleeps: was it told of somebody meanwhile?
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASKED
    }

    /// By the manager: it watches from now on.
    pub(crate) fn watch(&self) {
        self.0.store(WATCHES, Ordering::Release);
    }

    /// By the manager: it rests, unless it finds somebody active who was so before; then it watches again.
    pub(crate) fn rest(&self) {
        self.0.store(RESTS, Ordering::Release);
        fence(Ordering::SeqCst); // with `active`
    }
}
