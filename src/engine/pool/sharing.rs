//! A pool whose items may go to siblings: what is offered, taken, and looked for elsewhere.
//!
//! Which of them, and when, is said by [`Exchange`](crate::protocol::exchange::Exchange), and the word's `has_excess`.
//! Entries that were placed by their issuers stay: a thief that meets them on the worklist moves them to the sideline,
//! which this pool's own workers serve first. So their order is kept, and each is moved once.

use std::sync::Arc;

use crate::policy::concurrency::PodId;
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
}

impl Seat {
    fn sibling(&self, pod: PodId) -> Option<Arc<Pool>> {
        self.class.pool(pod)
    }
}

impl Pool {
    /// May items of the other one come here?
    pub(crate) fn is_sibling_of(&self, other: &Self) -> bool {
        let classes = self.seat.as_ref().zip(other.seat.as_ref());
        classes.is_some_and(|(own, others)| Arc::ptr_eq(&own.class, &others.class))
    }

    /// The caller has pushed to this full pool, or given something up: siblings with room are to take what is too much.
    /// As many at once as there is room for: woken one by another, the last one would come late.
    #[inline]
    pub(super) fn offer(&self) {
        let Some(seat) = &self.seat else { return };
        let sibling = |pod| seat.sibling(pod);
        while let Some((helper, reserved)) = seat.class.exchange.offer(seat.pod, self, sibling) {
            helper.wake(reserved, Near::Anywhere);
        }
    }

    /// The caller has lowered the count of this pool, which may have room now for what is too much elsewhere. `near`: the
    /// CPU that it is about to leave. Was somebody woken?
    #[inline]
    pub(super) fn seek(&self, near: Near) -> bool {
        let Some(seat) = &self.seat else { return false };
        let sibling = |pod| seat.sibling(pod);
        let mut wakes = false;
        while let Some((other, reserved)) = seat.class.exchange.seek(seat.pod, self, sibling) {
            match other {
                Some(other) => other.wake(reserved, Near::Anywhere),
                None => self.wake(reserved, near),
            }
            wakes = true;
        }
        wakes
    }

    /// An item of a sibling that cannot run there, for a worker of this pool that has nothing to do. `errand`: the
    /// sibling for whose work it was woken.
    #[inline]
    pub(crate) fn take_elsewhere(&self, errand: Option<PodId>) -> Option<Entry> {
        self.seat.as_ref().and_then(|seat| self.take_from_siblings(seat, errand))
    }

    fn take_from_siblings(&self, seat: &Seat, errand: Option<PodId>) -> Option<Entry> {
        let sibling = |pod| seat.sibling(pod);
        let called_by = errand.and_then(sibling).filter(|home| home.has_excess_for_thief());
        if let Some(entry) = called_by.and_then(|home| home.give()) {
            return Some(entry);
        }
        loop {
            let home = seat.class.exchange.source(seat.pod, sibling)?;
            if let Some(entry) = home.give() {
                return Some(entry);
            }
        }
    }

    /// A worker that was on this errand has come, or does not come: what is left there is offered to others.
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
        (0..many).for_each(|_| state.stall.came());
        if state.stall.is_late() && state.stall.ease(clock::now()) {
            self.running.unstall();
        }
    }

    /// Called by the manager. If a woken worker does not get a CPU, lets siblings take the pool's items.
    pub(super) fn look_for_late_workers(&self, now: Time) {
        let mut state = self.state.lock();
        if state.stall.look(now) {
            // Under the lock, so that the bit is what the watch says; and before the errands are offered elsewhere, so
            // that they do not come back.
            self.running.stall();
            let errands = state.idle_set.hand_over_errands();
            drop(state);
            errands.into_iter().for_each(|home| self.end_errand_to(home));
            self.offer();
        }
    }
}
