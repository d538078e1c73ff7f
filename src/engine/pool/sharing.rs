//! A pool that shares items with its siblings: how it offers items, gives them away, and takes items of siblings.
//!
//! [`Exchange`](crate::protocol::exchange::Exchange) and the running word's `has_excess` decide when items move, from
//! which pool, and to which pool. Bound entries, for which the issuer has named a place, stay in the pool. A worker of
//! a sibling that finds bound entries on the worklist moves these entries to the sideline, where they come before the
//! worklist's other entries. So bound entries keep their order, and each of them is moved only once.

use std::sync::Arc;

use crate::policy::brisk::Items;
use crate::policy::concurrency::{PodId, Reserved};
use crate::policy::time::Time;
use crate::protocol::exchange::{Helpers, Member};
use crate::protocol::running::RunningCell;
use crate::sys::clock;

use crate::engine::item::entry::Entry;

use super::binding::Near;
use super::class::Seat;
use super::worker_pool::{Pool, State};

impl Member for Pool {
    fn running(&self) -> &RunningCell {
        &self.running
    }

    fn helpers(&self) -> &Helpers {
        &self.seat.as_ref().expect("only members of a class have siblings").helpers
    }

    fn movable(&self) -> u64 {
        self.aside.movable().map_or(0, |aside| self.worklist.len() as u64 + aside)
    }

    fn has_order(&self) -> bool {
        !self.sideline_comes_first()
    }

    fn has_excess_forks(&self, helpers: u64) -> bool {
        self.forks.are_any() && self.running.load().has_excess_forks(self.joining(), helpers)
    }

    fn takes_forks(&self) -> bool {
        let word = self.running.load();
        word.takes_errands() && word.wants_worker_for_fork(self.joining())
    }

    fn reserve_for_forks(&self) -> Option<Reserved> {
        if self.takes_forks() { self.running.reserve_for_fork(|| self.joining()) } else { None }
    }
}

impl Seat {
    fn sibling(&self, pod: PodId) -> Option<Arc<Pool>> {
        self.class.pool(pod)
    }
}

impl Pool {
    /// Returns whether the pool has siblings, with which it shares its items.
    #[inline]
    pub(crate) fn has_siblings(&self) -> bool {
        self.seat.is_some()
    }

    /// Returns whether the pool becomes [brisk](crate::policy::brisk) when its items are short. Briskness would change
    /// nothing in a pool that has no siblings and only one CPU.
    pub(crate) fn may_be_brisk(&self) -> bool {
        self.spec.manages_concurrency() && (self.has_siblings() || self.has_several_cpus())
    }

    /// Returns whether items may move from the other pool to this pool.
    pub(crate) fn is_sibling_of(&self, other: &Self) -> bool {
        let classes = self.seat.as_ref().zip(other.seat.as_ref());
        classes.is_some_and(|(own, others)| Arc::ptr_eq(&own.class, &others.class))
    }

    /// Offers the pool's excess items to siblings that have room. Before the call, the caller has pushed to this pool,
    /// or has withdrawn a worker or a helper from this pool. (A helper is a sibling's worker that was called for this
    /// pool's items.) Wakes all the needed workers itself, because the last worker would arrive late if each worker
    /// woke the next.
    #[inline]
    pub(super) fn offer(&self) {
        let Some(seat) = &self.seat else { return };
        let sibling = |pod| seat.sibling(pod);
        while let Some((helper, reserved)) = seat.class.exchange.offer(seat.pod, self, sibling) {
            helper.wake(reserved, Near::Anywhere);
        }
    }

    /// Looks for siblings with excess items. The caller has lowered this pool's count of running workers, so the pool
    /// may have room for these items. Wakes or requests workers for the items, and returns whether it did so. `near` is
    /// the place where a woken worker of this pool should run.
    #[inline]
    pub(super) fn seek(&self, near: Near) -> bool {
        let Some(seat) = &self.seat else { return false };
        let sibling = |pod| seat.sibling(pod);
        let mut wakes = false;
        while let Some((other, reserved)) = seat.class.exchange.seek(seat.pod, self, sibling) {
            let comes = match other {
                Some(other) => other.wake(reserved, Near::Anywhere),
                None => self.wake(reserved, near),
            };
            if !comes {
                // When a manager has been made, every pool looks for siblings with excess items again.
                break;
            }
            wakes = true;
        }
        wakes
    }

    /// Notes what the last items of a worker show about the pool. If the pool stays brisk (its items are short), wakes
    /// a worker if too many items wait, and offers siblings the items that the pool does not keep. A worker that has
    /// run few items shows nothing about the pool, because other workers may have run many items.
    #[cold]
    pub(crate) fn note_items(&self, items: Items) {
        let word = self.running.load();
        match items {
            Items::Long => self.end_briskness(),
            Items::Brisk | Items::Few if word.is_brisk() => self.share_rest(),
            Items::Few => {}
            Items::Brisk => {
                if self.running.brisk() {
                    self.ask_to_watch();
                }
            }
        }
    }

    /// Wakes a worker for items that the workers of the brisk pool will not run soon, and offers siblings the items
    /// that the pool does not keep. The threads that pushed these items have neither woken a worker for them nor
    /// offered them.
    pub(super) fn share_rest(&self) {
        self.wake_for_rest();
        if self.has_siblings() && self.has_rest() {
            self.offer();
        }
    }

    /// Notes that the pool's items are not short. Wakes workers for the pending items, and offers these items to
    /// siblings.
    pub(super) fn end_briskness(&self) {
        if self.running.load().is_brisk() && self.running.not_brisk() && self.has_work() {
            self.pushed_many(self.pending().max(1));
        }
    }

    /// Takes an item from a sibling that has excess items, for a worker of this pool that has nothing to do. `errand`
    /// is the sibling for whose work the worker was woken.
    #[inline]
    pub(crate) fn take_elsewhere(&self, errand: Option<PodId>) -> Option<Entry> {
        self.seat.as_ref().and_then(|seat| self.take_from_siblings(seat, errand))
    }

    fn take_from_siblings(&self, seat: &Seat, errand: Option<PodId>) -> Option<Entry> {
        let sibling = |pod| seat.sibling(pod);
        let called_by = errand.and_then(sibling).filter(|home| home.has_excess_for_thief());
        if let Some(entry) = called_by.and_then(|home| home.give().or_else(|| home.take_fork())) {
            return Some(entry);
        }
        loop {
            let home = seat.class.exchange.source(seat.pod, self, sibling)?;
            if let Some(entry) = home.give().or_else(|| home.take_fork()) {
                return Some(entry);
            }
        }
    }

    /// Ends an errand (the call of a worker for a sibling's work), if there is one. The called worker has arrived, or
    /// it will not arrive. Afterwards offers the sibling's remaining items to the sibling's own siblings.
    #[inline]
    pub(crate) fn end_errand(&self, errand: Option<PodId>) {
        if let Some(home) = errand {
            self.end_errand_to(home);
        }
    }

    #[cold]
    fn end_errand_to(&self, home: PodId) {
        let Some(seat) = &self.seat else { return };
        if let Some(home) = seat.sibling(home) {
            home.helpers().came();
            home.offer();
        }
    }

    /// Notes that this many woken workers have arrived, or will not arrive.
    pub(super) fn came(&self, state: &mut State, many: usize) {
        (0..many).for_each(|_| state.late.came());
        if state.late.is_late() && state.late.ease(clock::now()) {
            self.running.in_time();
        }
    }

    /// Permits siblings to take the pool's items if a woken worker does not get a CPU. The manager calls this function.
    pub(super) fn look_for_late_workers(&self, now: Time) {
        let mut state = self.state.lock();
        if state.late.look(now) {
            // The word's `late` bit is set under the lock, so that the bit agrees with `state.late`. The bit is set
            // before other pools are offered the items for which this pool's workers were called. So no sibling calls a
            // worker of this pool again for such items.
            self.running.late();
            let errands = state.idle_set.hand_over_errands();
            drop(state);
            errands.into_iter().for_each(|home| self.end_errand_to(home));
            self.offer();
        }
    }
}
