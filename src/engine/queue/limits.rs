//! Changes a queue's limits at run time, and reads the queue's counters.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::admission::Intake;
use crate::policy::counters::Counters;
use crate::policy::effective_state::RequestedSettings;
use crate::policy::histogram::Latency;
use crate::policy::metering::as_nanos;
use crate::sys::sync::Ordering;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::item::latency::Timing;

use super::route;
use super::shard::{Limiter, Shard};
use super::workqueue::{Limit, Queue};

impl Queue {
    /// Returns the requested limit on active items, even while the queue is frozen.
    pub(crate) fn max_active(&self) -> usize {
        if self.executor.origin.is_forked() {
            // A forked process does not take the lock, because a thread of the parent may have held it at the fork.
            let (Limit::PerCpu(built_with) | Limit::Total(built_with)) = self.spec.limit;
            return built_with;
        }
        self.making.lock().requested.max_active
    }

    /// Sets the maximum number of active items for each limiter.
    pub(crate) fn set_max_active(&self, items: usize) {
        if self.executor.origin.is_forked() {
            // A forked process starts no item, so it needs no limit. The process does not take the lock, because a
            // thread of the parent may have held the lock at the fork.
            return;
        }
        self.change(|requested| requested.max_active = items);
    }

    /// Changes the queue's requested settings, or adopts a change of the executor's settings. Sets the limits and
    /// intakes of the limiters accordingly, and starts the items that may start now. The caller keeps the queue alive
    /// with a handle or a reference.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut RequestedSettings) -> R) -> R {
        let mut making = self.making.lock();
        let result = change(&mut making.requested);
        let effective_state = self.effective_state(making.requested);
        // This thread still holds the lock `making` here. So all limiters agree with the requested settings, even a
        // limiter that another thread makes at the same time. A thread that changes the executor's settings calls this
        // function after the change, so the last call gives the limiters the latest state.
        self.limiters().for_each(|limiter| limiter.cell.set(effective_state.max(), effective_state.intake()));
        drop(making);
        if effective_state.intake() == Intake::Shut {
            self.places.refuse_line();
            self.refuse_byte_line();
        }
        self.limiters().for_each(Limiter::start_listed);
        result
    }

    /// Returns the number of items that were accepted and are not done. The number is only a hint, because items come
    /// and go while the limiters are read.
    pub(crate) fn len(&self) -> usize {
        self.limiters().map(|limiter| limiter.cell.len() as usize).sum()
    }

    /// Returns the number of items that have begun and not ended. The number is only a hint. The caller keeps the queue
    /// alive.
    pub(crate) fn running(&self) -> usize {
        if self.executor.origin.is_forked() {
            // A forked process runs no item. The process does not take the lock of an account (a shard's counters),
            // because a thread of the parent may have held this lock at the fork.
            return 0;
        }
        let running = |shard: &Shard| {
            let counts = shard.account.total(|_worker| ());
            counts.started.saturating_sub(counts.completed)
        };
        self.shards_by_index().map(|(_, shard)| running(shard) as usize).sum()
    }

    /// Returns the counters of the queue's items. The caller keeps the queue alive.
    pub(crate) fn counters(&self) -> Counters {
        if self.executor.origin.is_forked() {
            // A forked process counts no items. The process does not take the locks of the shards' accounts, because
            // threads of the parent may have held these locks at the fork.
            return Counters::default();
        }
        self.shards_by_index().map(|(_, shard)| shard.counters()).sum()
    }

    /// Begins or ends the timing of items. The caller keeps the queue alive.
    pub(crate) fn time_items(&self, on: bool) {
        if self.executor.origin.is_forked() {
            // A forked process does not take the lock, because a thread of the parent may have held it at the fork.
            return;
        }
        let making = self.making.lock();
        if self.times_items.swap(on, Ordering::Relaxed) != on {
            self.shards_by_index().for_each(|(_, shard)| shard.timing.set(on));
        }
        drop(making);
    }

    /// Returns the timing for a shard that is being made. The caller holds the lock of `making`.
    pub(crate) fn timing(&self) -> Timing {
        Timing::new(self.times_items.load(Ordering::Relaxed))
    }

    /// Returns how long the queue's items waited and ran. Returns `None` while the items are not timed.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let on = self.times_items.load(Ordering::Relaxed);
        on.then(|| self.shards_by_index().map(|(_, shard)| shard.timing.latency()).sum())
    }

    /// Returns whether the queue is at its limit, so that items from the CPU with this index have to wait. The
    /// answer is only a hint.
    pub(crate) fn is_congested(&self, index: usize) -> bool {
        let limiter = self.shared_limiter().or_else(|| self.present_shard(index)?.own_limiter());
        limiter.is_some_and(|limiter| limiter.cell.load().waiting() > 0)
    }
}

impl Limiter {
    /// Starts items of the waiting list while there are free slots for them. The items leave the list in order. But if
    /// this thread is preempted before it pushes an item to the worklist, later items can overtake this item. The
    /// caller keeps the limiter alive.
    fn start_listed(&self) {
        while self.cell.start_listed() {
            route::submit(self.next_active());
        }
    }
}

impl ExecutorInner {
    /// Freezes or thaws all freezable queues. A frozen queue starts no item. Makes each queue adopt the change even if
    /// the queues already count as frozen, because the thread that froze them may not have reached all queues yet.
    pub(crate) fn freeze(&self, frozen: bool) {
        if !self.origin.is_forked() && self.queues.freeze(frozen) {
            self.queues
                .refs()
                .iter()
                .filter(|queue| queue.spec.freezable)
                .for_each(|queue| queue.change(|_| ()));
        }
    }

    /// Returns whether an item is active in a freezable queue.
    pub(crate) fn freeze_busy(&self) -> bool {
        let is_active = |limiter: &Limiter| limiter.cell.load().active() > 0;
        !self.origin.is_forked()
            && self.queues.any(|queue| queue.spec.freezable && queue.limiters().any(is_active))
    }
}

impl Shard {
    /// Returns the shard's counts so far. The caller keeps the shard in memory. This function must not be called in a
    /// forked process, because a thread of the parent may have held the account's lock.
    pub(crate) fn counters(&self) -> Counters {
        let events = &self.events;
        let mut at_it = Vec::new();
        let counts = self.account.total(|worker| at_it.push(Arc::clone(worker)));
        // `in_flight` yields the CPU time that the current items have used so far, which no counter contains yet. This
        // thread does not hold the account's lock here, because each reading of a worker's CPU time is a system call.
        let in_flight = at_it.iter().filter_map(|worker| worker.cpu_time_for(self.id()));
        let cpu_time = counts.cpu_time + in_flight.map(as_nanos).sum::<u64>();
        // The reported time never decreases, although the time of a current item may later be charged to another shard.
        let told = events.told_cpu_time.fetch_max(cpu_time, Ordering::Relaxed).max(cpu_time);
        Counters {
            started: counts.started,
            completed: counts.completed,
            away: counts.away,
            stolen: counts.stolen,
            cpu_time: Duration::from_nanos(told),
            cpu_hogs: events.cpu_hogs.load(),
            concurrency_wakeups: events.concurrency_wakeups.load(),
            brought_back: events.brought_back.load(),
            rescuer_calls: events.rescuer_calls.load(),
            rescued: events.rescued.load(),
            panicked: events.panicked.load(),
            cancelled: events.cancelled.load(),
            expired: events.expired.load(),
            refused: events.refused.load(),
            undeclared_blocks: events.undeclared_blocks.load(),
        }
    }
}
