//! A pool's word that names a worker with more entries on its local list than this worker needs. Each pool has one such
//! word, which names at most one worker at a time.
//!
//! The word is a hint for the other workers of the pool. Three handshakes concern a local list. In each handshake, each
//! of two threads issues a fence between its write and its read. So at least one of the threads sees the other thread's
//! write:
//!
//! * **An owner names itself while another worker leaves the count.** The fences in [`RunningCell::kept`] and
//!   [`RunningCell::look`] forbid these steps:
//!   * owner: puts a second entry on its list and writes its own name to this word; reads the running word, which says
//!     that the pool is full;
//!   * other worker: leaves the count; reads this word, which names no worker. So the entries wait for the owner,
//!     although a CPU is free.
//! * **An owner keeps an entry while the manager stops watching the pool.** The fences in [`RunningCell::kept`] and
//!   [`RunningCell::look`] also forbid these steps:
//!   * owner: puts its first entry on its list; reads the running word, which says that the manager watches the pool;
//!   * manager: clears the watched bit; finds the list empty. So the entry waits until the owner's present item ends,
//!     however long that takes.
//! * **An owner adds an entry while a thief removes the owner's name.** The fences in [`RunningCell::kept`] and
//!   [`CrowdedCell::unname_short`] forbid these steps:
//!   * owner: puts a second entry on its list; reads this word, which still names it;
//!   * thief: removes the name; reads the length of the list, which is one. So the word names no worker, although the
//!     list has two entries.
//!
//! The fence of `kept` has one more purpose, which the fence of [`RunningCell::pushed`] has for entries of the
//! worklist. After the fence of `kept`, the owner checks three things: whether its pool was abandoned, whether the
//! owner itself was taken out of the count, and whether the route of its entry was turned. A thread that abandons the
//! pool, takes the owner out of the count, or turns the route then takes the entries off the owner's list. This thread
//! issues a fence between its change and its first read of the list.
//!
//! A worker may overwrite the name of another worker. A worker whose name was overwritten names itself again when it
//! puts another entry on its list. If this worker puts no further entry on its list, it runs the listed entries itself.
//! A thief that has stolen several entries while another worker is named also runs these entries itself, unless it puts
//! another entry on its list.
//!
//! [`RunningCell::kept`]: super::running::RunningCell::kept
//! [`RunningCell::look`]: super::running::RunningCell::look
//! [`RunningCell::pushed`]: super::running::RunningCell::pushed

use crate::policy::idle_set::WorkerId;
use crate::sys::sync::{AtomicU64, Ordering, fence_after_update};

const NONE: u64 = u64::MAX;

/// The number of the named worker, or `NONE`. See the module.
#[derive(Debug)]
pub(crate) struct CrowdedCell(AtomicU64);

impl CrowdedCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// Returns the named worker, if a worker is named.
    #[inline]
    pub(crate) fn named(&self) -> Option<WorkerId> {
        match self.0.load(Ordering::Relaxed) {
            NONE => None,
            worker => Some(worker as WorkerId),
        }
    }

    /// Writes the name of this worker. The name replaces the name of another worker, if there is one.
    #[inline]
    pub(crate) fn name(&self, worker: WorkerId) {
        if self.named() != Some(worker) {
            self.0.store(worker.into(), Ordering::Relaxed);
        }
    }

    /// Removes the name of this worker, and returns true. If this worker is not named any more, changes nothing and
    /// returns false.
    #[inline]
    pub(crate) fn unname(&self, worker: WorkerId) -> bool {
        self.named() == Some(worker)
            && self.0.compare_exchange(worker.into(), NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Removes the name of this worker, because its list has become short. Then calls `is_crowd`, which returns whether
    /// the owner has put further entries on the list in the meantime. If the owner has done so and no worker is named,
    /// names the owner again, and returns true. The caller then calls
    /// [`RunningCell::kept`](super::running::RunningCell::kept), as the owner does.
    pub(crate) fn unname_short(&self, worker: WorkerId, is_crowd: impl FnOnce() -> bool) -> bool {
        if !self.unname(worker) {
            return false;
        }
        fence_after_update(); // with `RunningCell::kept`
        is_crowd() && self.name_if_none(worker)
    }

    /// Names the worker if no worker is named. Returns whether the call has named the worker. The owner of a list with
    /// several entries calls this function after the fence of [`RunningCell::kept`](super::running::RunningCell::kept),
    /// because a thief may have removed the name that the owner saw before. If the result is true, the owner calls
    /// `kept` again.
    #[inline]
    pub(crate) fn name_if_none(&self, worker: WorkerId) -> bool {
        self.named().is_none()
            && self.0.compare_exchange(NONE, worker.into(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
