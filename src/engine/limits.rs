//! What a queue's gates are told at run time, and how much is in them.

use crate::policy::counters::Counters;
use crate::policy::histogram::Latency;
use crate::policy::standing::Wishes;
use crate::sys::sync::Ordering;

use super::executor::ExecutorInner;
use super::latency::Timing;
use super::queue::{Limit, Queue};
use super::route;
use super::shard::Gate;

impl Queue {
    /// The limit that was asked for, also while the queue is frozen.
    pub(crate) fn max_active(&self) -> usize {
        if self.executor.origin.is_forked() {
            // The lock may have been held in the parent.
            let (Limit::PerCpu(built_with) | Limit::Total(built_with)) = self.spec.limit;
            return built_with;
        }
        self.making.lock().wishes.max_active
    }

    /// At most so many items are active from now on, per gate.
    pub(crate) fn set_max_active(&self, items: usize) {
        if self.executor.origin.is_forked() {
            // Nothing starts here, and the lock may have been held in the parent.
            return;
        }
        self.change(|wishes| wishes.max_active = items);
    }

    /// Changes what is asked of the queue, or takes note of what its executor asks; tells the gates, and starts what
    /// may start now. The caller keeps the queue in place, by a handle or a pin.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Wishes) -> R) -> R {
        let mut making = self.making.lock();
        let result = change(&mut making.wishes);
        let standing = self.standing(making.wishes);
        // Under the lock: gates agree with what is written there, those that are made meanwhile as well. Whoever
        // changes the executor comes here afterwards, so the last one to come tells what holds.
        self.gates().for_each(|gate| gate.cell.set(standing.max(), standing.door()));
        drop(making);
        self.gates().for_each(Gate::start_listed);
        result
    }

    /// Items that were accepted and are not done. A look, while everything goes on.
    pub(crate) fn len(&self) -> usize {
        self.gates().map(|gate| gate.cell.len() as usize).sum()
    }

    /// What has become of its items. The caller keeps it in place.
    pub(crate) fn counters(&self) -> Counters {
        if self.executor.origin.is_forked() {
            // Nothing is counted here, and the locks may have been held in the parent.
            return Counters::default();
        }
        self.shards_by_slot().map(|(_, shard)| shard.counters()).sum()
    }

    /// Items are timed from now on, or no more. The caller keeps the queue in place.
    pub(crate) fn time_items(&self, on: bool) {
        if self.executor.origin.is_forked() {
            // The lock may have been held in the parent.
            return;
        }
        let making = self.making.lock();
        if self.times_items.swap(on, Ordering::Relaxed) != on {
            self.shards_by_slot().for_each(|(_, shard)| shard.timing.set(on));
        }
        drop(making);
    }

    /// For a shard that is being made, with `making` locked.
    pub(super) fn timing(&self) -> Timing {
        Timing::new(self.times_items.load(Ordering::Relaxed))
    }

    /// How long its items waited and ran; `None` while they are not timed.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let on = self.times_items.load(Ordering::Relaxed);
        on.then(|| self.shards_by_slot().map(|(_, shard)| shard.timing.latency()).sum())
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
            route::submit(self.next_active());
        }
    }
}

impl ExecutorInner {
    /// Freezable queues start nothing, or start again.
    pub(crate) fn freeze(&self, frozen: bool) {
        if !self.origin.is_forked() && self.queues.freeze(frozen) {
            self.queues
                .pins()
                .iter()
                .filter(|queue| queue.spec.freezable)
                .for_each(|queue| queue.change(|_| ()));
        }
    }

    /// Is an item active in a freezable queue?
    pub(crate) fn freeze_busy(&self) -> bool {
        let is_active = |gate: &Gate| gate.cell.load().active() > 0;
        !self.origin.is_forked()
            && self.queues.any(|queue| queue.spec.freezable && queue.gates().any(is_active))
    }
}
