//! Which worker of a pool has more local entries than it needs.
//!
//! The word is a hint for the other workers of the pool. Two handshakes meet at a local list. In each of them, each
//! side issues a fence between its write and its read, so at least one side sees what the other side wrote:
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
//! The fence of `kept` also does for a local entry what the fence of [`RunningCell::pushed`] does for an entry of the
//! worklist: after it, the owner checks whether its pool was abandoned, whether it was taken out of the count, and
//! whether the route of its entry was turned. The threads that do these things then take the entries of the list. Each
//! removal by another thread than the owner issues a fence before it reads the list.
//!
//! A worker may overwrite the name of another worker. The overwritten worker names itself again with its next entry,
//! and otherwise runs its entries itself.
//!
//! [`RunningCell::kept`]: super::running::RunningCell::kept
//! [`RunningCell::look`]: super::running::RunningCell::look
//! [`RunningCell::pushed`]: super::running::RunningCell::pushed

use crate::policy::idle_set::WorkerId;
use crate::sys::sync::{AtomicU64, Ordering};

const NONE: u64 = u64::MAX;

/// The number of a worker, or of none. See the module.
#[derive(Debug)]
pub(crate) struct CrowdedCell(AtomicU64);

impl CrowdedCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// Returns the worker that is named, if one is.
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

    /// Takes the name of this worker back, unless another worker is named by now.
    #[inline]
    pub(crate) fn unname(&self, worker: WorkerId) {
        if self.named() == Some(worker) {
            _ = self.0.compare_exchange(worker.into(), NONE, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}
