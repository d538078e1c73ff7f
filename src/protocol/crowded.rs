//! The name of a worker that has more entries on its local list than it needs. A pool has at most one such name at a
//! time.
//!
//! The word is a hint for the other workers of the pool. Two handshakes concern a local list. In each of them, each
//! side issues a fence between its write and its read, so at least one side sees the other side's write:
//!
//! * **Crowd against leave.** The fences in [`RunningCell::kept`] and [`RunningCell::look`] forbid this:
//!   * owner: puts a second entry on its list and names itself here; reads the running word, which says that the pool
//!     is full;
//!   * other worker: leaves the count; reads this word, which names no worker. So the entries wait for the owner,
//!     although a CPU is free.
//! * **Keep against unwatch.** The same fences forbid this:
//!   * owner: puts its first entry on its list; reads the running word, which says that the manager watches the pool;
//!   * manager: clears the watched bit; finds the list empty. So the entry waits until the owner's present item ends,
//!     however long that takes.
//!
//! The fence of `kept` has one more purpose. For entries of the worklist, the fence of [`RunningCell::pushed`] has the
//! same purpose. After the fence, the owner checks three things: whether its pool was abandoned, whether the owner
//! itself was taken out of the count, and whether the route of its entry was turned. A thread that makes one of these
//! three changes then takes the entries off the list. Between the change and its first look at the list, it issues a
//! fence.
//!
//! A worker may overwrite the name of another worker. The overwritten worker names itself again when it puts another
//! entry on its list. If it puts no further entry on its list, it runs the listed entries itself.
//!
//! [`RunningCell::kept`]: super::running::RunningCell::kept
//! [`RunningCell::look`]: super::running::RunningCell::look
//! [`RunningCell::pushed`]: super::running::RunningCell::pushed

use crate::policy::idle_set::WorkerId;
use crate::sys::sync::{AtomicU64, Ordering};

const NONE: u64 = u64::MAX;

/// The number of the named worker, or `NONE`. See the module.
#[derive(Debug)]
pub(crate) struct CrowdedCell(AtomicU64);

impl CrowdedCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// Returns the worker that is named, if there is one.
    #[inline]
    pub(crate) fn named(&self) -> Option<WorkerId> {
        match self.0.load(Ordering::Relaxed) {
            NONE => None,
            worker => Some(worker as WorkerId),
        }
    }

    /// Names the worker.
    #[inline]
    pub(crate) fn name(&self, worker: WorkerId) {
        if self.named() != Some(worker) {
            self.0.store(worker.into(), Ordering::Relaxed);
        }
    }

    /// Removes the name of this worker. If another worker is named by now, does nothing.
    #[inline]
    pub(crate) fn unname(&self, worker: WorkerId) {
        if self.named() == Some(worker) {
            _ = self.0.compare_exchange(worker.into(), NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
