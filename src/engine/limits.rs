//! What a queue's gates are told at run time, and how much is in them.

use crate::policy::standing::Standing;

use super::queue::Queue;
use super::shard::Gate;
use super::worker;

impl Queue {
    /// The limit that was asked for, also while the queue is held back.
    pub(crate) fn max_active(&self) -> usize {
        self.making.lock().standing.max_active
    }

    /// At most so many items are active from now on, per gate.
    pub(crate) fn set_max_active(&self, items: usize) {
        self.change(|standing| standing.max_active = items);
    }

    /// Changes how the queue stands, tells its gates, and starts what may start now. The caller has a handle of the
    /// queue.
    pub(super) fn change(&self, change: impl FnOnce(&mut Standing)) {
        let mut making = self.making.lock();
        change(&mut making.standing);
        let standing = making.standing;
        // Under the lock: gates agree with what is written there, those that are made meanwhile as well.
        self.gates().for_each(|gate| gate.cell.set(standing.max(), standing.door()));
        drop(making);
        self.gates().for_each(Gate::start_listed);
    }

    /// Items that were accepted and are not done. A look, while everything goes on.
    pub(crate) fn len(&self) -> usize {
        self.gates().map(|gate| gate.cell.load().in_flight() as usize).sum()
    }

    /// Do items that were queued on the CPU of this slot wait for a slot of the queue's? A look.
    pub(crate) fn is_congested(&self, slot: usize) -> bool {
        let gate = self.shared_gate().or_else(|| self.present_shard(slot)?.own_gate());
        gate.is_some_and(|gate| gate.cell.load().waiting() > 0)
    }
}

impl Gate {
    /// Starts listed items for which there are slots. The caller keeps the gate in place.
    fn start_listed(&self) {
        while self.cell.start_listed() {
            worker::submit(self.first_waiting());
        }
    }
}
