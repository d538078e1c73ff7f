//! The transitions of an item with a timer: a thread arms the item, disarms it, or fires its timer.

use crate::policy::flush::Ticket;
use crate::policy::item::{Arm, ItemState, Room, Target};

use super::{HasTicket, ItemCell, Queued, TakenBack, tell};

impl<E: HasTicket, T: PartialEq, C> ItemCell<E, T, C> {
    /// Arms the item with a timer, so that the item becomes pending. `set` puts the timer on the list of timers. `arm`
    /// calls `set` only if the item becomes armed. If `again` is true, the new submission replaces a submission that is
    /// already pending. The new submission carries `carried` into its run. Also returns the remains of the replaced
    /// submission, which the caller cleans up. If the item does not become armed, the returned value holds only
    /// `carried`.
    pub(crate) fn arm(
        &self,
        again: bool,
        carried: Option<C>,
        set: impl FnOnce() -> T,
    ) -> (Arm, TakenBack<E, T, C>) {
        let mut slow_state = self.slow_state.lock();
        let arm = self.update(|state| state.arm_slowly(again));
        match arm {
            Arm::Armed { was_pending } => {
                let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
                slow_state.timer = Some(set());
                if carried.is_some() {
                    slow_state.carried = carried;
                    self.update(|state| (state.attached(), ()));
                }
                drop(slow_state);
                tell(waiting);
                (arm, taken)
            }
            Arm::Coalesced | Arm::Refused => {
                (arm, TakenBack { was_pending: false, kept: None, timer: None, carried })
            }
        }
    }

    /// Returns how much room of the target queue the item needs in order to become armed. The answer is only a hint,
    /// because it may change at any moment.
    pub(crate) fn room_to_arm(&self, target: Target, now: bool, again: bool) -> Room {
        let state = self.load();
        let named = state.is_stale() && self.slow_state.lock().stale.contains(&target.shard);
        state.room_to_arm(target, named, now, again)
    }

    /// Submits the item, because the timer is due. `ticket` means the same as in [`queue`](Self::queue). Returns `None`
    /// if the item is no longer armed with this timer.
    pub(crate) fn fire(&self, timer: &T, target: Target, ticket: Option<Ticket>) -> Option<Queued> {
        let mut slow_state = self.slow_state.lock();
        slow_state.timer.take_if(|meant| meant == timer)?;
        let (before, transition) = (ItemState::disarmed, ItemState::fire_slowly);
        Some(self.queue_slowly(&mut slow_state, target, ticket, before, transition))
    }

    /// Returns the timer that has armed the item, if the item is armed.
    pub(crate) fn timer(&self) -> Option<T>
    where
        T: Clone,
    {
        self.slow_state.lock().timer.clone()
    }

    /// Cancels the pending submission, because the submission's timer is given up and does not fire. Returns false if
    /// the item is no longer armed with this timer.
    pub(crate) fn disarm(&self, timer: &T) -> bool {
        let mut slow_state = self.slow_state.lock();
        if slow_state.timer.as_ref() != Some(timer) {
            return false;
        }
        let was_pending = self.update(ItemState::cancel_slowly);
        let (taken, waiting) = self.take_back(&mut slow_state, was_pending);
        drop(slow_state);
        tell(waiting);
        taken.was_pending
    }
}
