//! Decides, from the running word, which workers get the pending items: the workers that run, further workers of the
//! pool, or workers of sibling pools.

#![forbid(unsafe_code)]

use super::super::brisk::{AHEAD, MANY};
use super::{BRISK, CHECKED_SOON, Kick, RARELY_CHECKED, Running, WATCHED};

impl Running {
    /// Returns whether the pool has items that siblings may take. `pending` is the number of items that are pending in
    /// the pool. `helpers` is the number of siblings' workers that were woken for these items and have not arrived yet.
    ///
    /// Each worker that was woken in this pool takes one item, if the worker gets a CPU. While the pool runs fewer
    /// workers than it may, no helper is needed, because a worker of this pool is woken first. A brisk pool keeps some
    /// items for its own workers, but only if few later items can overtake them. `has_order` says whether the workers
    /// take the entries of each part of the worklist in order, so that few later items can overtake kept items. Local
    /// items and heirs (`local.rs`) overtake kept items only in rows of limited length.
    pub(crate) const fn has_excess(self, pending: u64, helpers: u64, has_order: bool) -> bool {
        if self.is_late() {
            pending > helpers
        } else {
            let keeps = if has_order && self.is_brisk() { self.ahead() } else { 0 };
            !self.need_more_worker() && pending > self.waking() + helpers + keeps
        }
    }

    /// Returns whether a brisk pool has begun too few items since the manager's last check. A pool that has begun fewer
    /// than [`MANY`] items is no longer brisk. If a pool has begun no more items than it leaves to its workers, its
    /// backlog may have to wait until the next check.
    pub(crate) const fn is_slow(self, begun: u64) -> bool {
        self.is_brisk() && (begun < MANY || begun <= self.ahead())
    }

    /// Returns whether a thread that sees work leaves it to workers that run or were woken. These workers take the work
    /// sooner than another worker would. If no worker runs and only one was woken, the thread wakes another, because
    /// the first may get no CPU. In an abandoned pool, the thread leaves no work to workers, because each thread that
    /// pushes an item must find out that the pool is abandoned.
    pub(super) const fn leaves_items_to_workers(self) -> bool {
        let has_workers = self.running() > 0 || self.waking() > 1;
        self.is_brisk() && has_workers && !self.is_late() && !self.is_abandoned()
    }

    /// Returns whether the running and the woken workers have so many items that another worker should take some.
    /// `pending` and `has_order` are as in [`has_excess`](Self::has_excess).
    pub(crate) fn wants_worker_for_rest(self, pending: impl FnOnce() -> u64, has_order: bool) -> bool {
        let ahead = if has_order { self.ahead() } else { 0 };
        self.is_brisk() && self.need_more_worker() && pending() > ahead
    }

    /// Returns the number of pending items that are left to the running and the woken workers.
    const fn ahead(self) -> u64 {
        AHEAD * (self.running() + self.waking())
    }

    /// Does the same as [`kick`](Self::kick), but never returns [`Kick::Leave`], even if the pool is brisk. The caller
    /// uses this function in two cases: the pool's workers will not run the items soon, or a worker of the pool no
    /// longer needs its CPU.
    pub(crate) const fn kick_anyway(self) -> (Self, Kick) {
        if self.starves() { self.kick() } else { self.kick_further() }
    }

    /// Notes that the pool's items are many and short. Returns whether the caller must tell the manager, because the
    /// next check of the pool may be too far away. Between two checks, the manager is told at most once.
    pub(crate) const fn brisk(self) -> (Self, bool) {
        let is_checked_soon = self.0 & CHECKED_SOON != 0 && !self.is_rarely_checked();
        (Self(self.0 & !RARELY_CHECKED | BRISK | WATCHED | CHECKED_SOON), !is_checked_soon)
    }

    /// Notes that the manager checks the pool. Returns whether the pool is brisk. The next check of a brisk pool comes
    /// soon.
    pub(crate) const fn checked(self) -> (Self, bool) {
        if self.is_brisk() { (self, true) } else { (Self(self.0 & !CHECKED_SOON), false) }
    }

    /// Notes that the pool's items are not short any more. Returns whether the pool was brisk. If the pool was brisk,
    /// the caller wakes workers for the backlog, and offers the backlog to siblings.
    pub(crate) const fn not_brisk(self) -> (Self, bool) {
        (Self(self.0 & !BRISK), self.is_brisk())
    }
}
