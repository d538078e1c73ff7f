//! Rules that hold for every workload. A broken rule panics and says which one.
//!
//! Most rules are checked whenever time is about to advance. Between two such moments, some thread is always in the
//! middle of an operation. The rules rely on the machine's own facts (which item each thread is in, and which threads
//! have a CPU), not on policy's words.

#![forbid(unsafe_code)]

use super::machine::Machine;
use super::pool::{GateId, Pool, PoolId, Queueing, ThreadId, Worker};
use super::script::{ItemId, Op};
use crate::policy::crew::WorkerId;
use crate::policy::worker::Phase;

impl Machine {
    /// Called before a worker of `pool` is woken.
    ///
    /// spec: C3 (a woken worker counts as running from the wake-up): a burst wakes no more workers than may run, and an
    /// unmanaged pool wakes one at a time.
    pub(super) fn check_wake(&self, pool: PoolId) {
        let on_their_way = self.waking(&self.pools[pool]) + self.pools[pool].owed.len() as u64;
        match self.pools[pool].word.target() {
            Some(target) => {
                let counted =
                    self.workers(&self.pools[pool]).filter(|worker| worker.is_counted()).count() as u64;
                assert!(counted + on_their_way < target, "pool {pool} wakes more workers than {target}");
            }
            None => assert_eq!(on_their_way, 0, "unmanaged pool {pool} wakes two workers at a time"),
        }
    }

    /// Called when a worker of `pool` has just been permitted to take an item.
    ///
    /// spec: C1 (one item at a time while it is runnable), C5 (at most `target` runnable items).
    pub(super) fn check_permission(&self, pool: PoolId) {
        if let Some(target) = self.pools[pool].word.target() {
            let runnable = self.counted_items(pool);
            assert!(
                runnable < target,
                "pool {pool} starts an item beside {runnable}, its target is {target}"
            );
        }
    }

    /// Called when a worker of `pool` begins an item.
    ///
    /// spec: C1. On one CPU no other thread runs between the permission and the start. So the rule holds here too,
    /// unless the manager, which has a CPU of its own, puts a worker back into the count.
    pub(super) fn check_begin(&mut self, pool: PoolId, item: ItemId) {
        let home = self.gates[self.gate_of(item)].pool;
        *if pool == home { &mut self.seen.at_home } else { &mut self.seen.away } += 1;
        assert!(pool == home || self.pools[home].seat.is_some(), "item {item} of {home} starts in {pool}");
        if self.pools[pool].cpus.count_ones() == 1 && !self.config.rules.sleepers {
            self.check_permission(pool);
        }
    }

    /// Returns how many counted workers of `pool` have an item. All of these items want a CPU.
    fn counted_items(&self, pool: PoolId) -> u64 {
        self.workers(&self.pools[pool]).filter(|worker| worker.is_counted() && worker.item.is_some()).count()
            as u64
    }

    /// Called when a worker of `pool` goes idle although the pool has no worker too many.
    ///
    /// spec: C3 (keep working).
    pub(super) fn check_rest(&self, pool: PoolId) {
        let others_come_between = self.config.racy || self.pools[pool].seat.is_some();
        assert!(
            others_come_between || !self.pools[pool].has_work(),
            "a worker of pool {pool} goes idle and leaves work behind"
        );
    }

    /// Called when an idle worker is told to leave.
    ///
    /// spec: C8 (kept for the idle timeout).
    pub(super) fn check_cull(&self, pool: PoolId, id: WorkerId) {
        let idle_for = self.now.since(self.worker(self.pools[pool].workers[&id]).idle_since);
        assert!(idle_for >= self.pools[pool].idle_timeout, "worker {id} of {pool} leaves after {idle_for:?}");
    }

    /// Called when an item was given a slot.
    ///
    /// spec: Q3 (max_active is never exceeded), F8 (nor when it is lowered), Q4 (at most one item of an ordered queue).
    pub(super) fn check_slots(&self, gate: GateId) {
        let (active, ceiling) = (self.gates[gate].active, self.gates[gate].ceiling);
        assert!(active <= ceiling, "gate {gate} has {active} active items, at most {ceiling} are allowed");
    }

    /// Called when a thread begins to queue `item`.
    pub(super) fn queueing_began(&mut self, item: ItemId) {
        let (gate, queueing) = (self.gate_of(item), Queueing { began: self.steps, ended: None });
        self.gates[gate].queued.insert(item, queueing);
    }

    /// Called when `item` is queued: every item whose queueing begins from now on comes after it. `item` may have been
    /// popped already.
    pub(super) fn queueing_ended(&mut self, item: ItemId) {
        let (gate, now) = (self.gate_of(item), self.steps);
        if let Some(queueing) = self.gates[gate].queued.get_mut(&item) {
            queueing.ended = Some(now);
        }
    }

    /// Called when a worker has popped `item`. The item must not overtake one of its gate whose queueing had ended
    /// before the item's own began.
    ///
    /// spec: Q4 (in queueing order), F8 (also when the limit is raised). In a racy run, neighbours may swap where
    /// several items may be active.
    pub(super) fn check_order(&mut self, item: ItemId) {
        let id = self.gate_of(item);
        self.ends_to_wait(item);
        let gate = &mut self.gates[id];
        let own = gate.queued.remove(&item).expect("a popped item was queued");
        let may_swap = self.config.racy && gate.may_be_several;
        let came_before = |other: &Queueing| other.ended.is_some_and(|ended| ended < own.began);
        let overtaken = gate.queued.iter().find(|(_, other)| came_before(other));
        assert!(may_swap || overtaken.is_none(), "item {item} of gate {id} overtook {overtaken:?}");
    }

    /// Called when time is about to advance. Checks the rules that hold then.
    pub(super) fn check_instant(&mut self) {
        self.check_rescuers();
        for cpu in &self.cpus {
            let burns = |thread: usize| matches!(self.threads[thread].todo.last(), Some(Op::Burn(_)));
            assert!(cpu.thread.is_none_or(burns), "a thread has a CPU and does not burn");
        }
        self.check_no_pool_starves_unheard();
        for (id, pool) in self.pools.iter().enumerate() {
            self.check_counts(id, pool);
            self.check_work_is_served(id, pool);
            self.check_spare(id, pool);
        }
        for (id, gate) in self.gates.iter().enumerate() {
            let word = gate.word;
            assert_eq!(word.active(), gate.active, "slots of gate {id}: {word:?}");
            let waiting = (gate.coming, gate.waiting.len() as u64);
            assert_eq!((word.coming(), word.listed()), waiting, "waiting items of gate {id}");
            assert!(word.active() <= gate.ceiling, "gate {id} exceeds its limit: {word:?}");
            assert!(word.listed() == 0 || word.active() >= word.max(), "gate {id} wastes a slot: {word:?}");
        }
    }

    /// Checks that no count leaks: the pool's word agrees with the workers, and each reservation belongs to a worker
    /// that is on its way or is owed.
    fn check_counts(&self, id: PoolId, pool: &Pool) {
        let is_counted = |worker: &&Worker| match worker.state.phase() {
            Phase::Uncounted => pool.word.target().is_none(),
            phase => phase.is_counted(),
        };
        let counted = self.workers(pool).filter(is_counted).count() as u64;
        let counted = counted + self.out_of_step(id);
        assert_eq!(pool.word.running(), counted, "running count of pool {id}");
        let waking = self.waking(pool);
        let owed = pool.owed.len() as u64;
        assert_eq!(pool.word.waking(), waking + owed, "waking count of pool {id}, {owed} owed");
        assert_eq!(pool.crew.is_starving(), owed > 0, "owed reservations of pool {id}");
        let creating = i64::from(pool.crew.is_creating());
        assert_eq!(pool.asked_for, creating, "workers of pool {id} that are being made");
        assert_eq!(pool.word.is_watched(), pool.looked_at, "the manager looks at pool {id} if it is watched");
        // Otherwise an item that blocks without a guard would hold the others back unnoticed.
        if pool.has_work() && pool.word.waking() == 0 {
            assert!(pool.looked_at, "pool {id} has work, wakes no worker, and is not watched");
        }
    }

    /// Checks that enough workers run or are on their way for the pending work.
    ///
    /// spec: C1 (another worker starts at once), C3 (need more), C5.
    fn check_work_is_served(&self, id: PoolId, pool: &Pool) {
        if !pool.has_work() {
            return;
        }
        let word = pool.word;
        let Some(target) = word.target() else {
            // As soon as possible: a waiting item always has a worker on its way.
            assert!(word.waking() > 0, "unmanaged pool {id} has work and wakes no worker: {word:?}");
            return;
        };
        // Below the target, each waiting item has a worker of its own on its way.
        let wanted = target.min(word.running() + pool.pending() as u64);
        assert!(word.running() + word.waking() >= wanted, "pool {id} has work and wakes too few: {word:?}");
        let immediate = self.config.wake_latency.is_zero() && self.config.creation_latency.is_zero();
        // No worker is made while the manager has lost its CPU.
        let failing = pool.crew.is_starving() && (self.now <= self.cooling_until || self.manager_busy);
        // In the middle of a look the manager may count a worker that sleeps. Then another worker may be shed, and the
        // manager looks at the work again afterwards.
        let settled = self.out_of_step(id) == 0;
        if immediate && settled && !failing && !self.is_full() {
            // The pool's workers run or wait for a CPU, so enough of its CPUs are busy, with any threads.
            let of_pool = |cpu: &usize| pool.cpus & 1 << cpu != 0;
            let busy = (0..self.cpus.len()).filter(of_pool).filter(|cpu| self.cpus[*cpu].thread.is_some());
            // Counted workers that sleep without a guard are for the detector to find.
            let sleeps = |thread: &&ThreadId| self.worker(**thread).is_counted() && self.sleeps(**thread);
            let sleepers = pool.workers.values().filter(sleeps).count() as u64;
            assert!(busy.count() as u64 + sleepers >= wanted, "pool {id} has work and an idle CPU: {word:?}");
        }
    }

    /// spec: C3 (a worker keeps one idle spare before it starts working): whenever work runs, an idle worker remains,
    /// or one is being made, or the worker that was woken last has not begun yet and will ask for one.
    fn check_spare(&self, id: PoolId, pool: &Pool) {
        let works = self.workers(pool).any(|worker| worker.item.is_some());
        let spare = pool.crew.idle() > 0 || pool.crew.is_creating() || self.waking(pool) > 0;
        let may_have_one = self.max_threads == u64::MAX;
        assert!(spare || !works || !may_have_one, "pool {id} works without a spare");
    }

    /// Called when nothing is left to do. Checks that every accepted item was done, and that no pool keeps too many
    /// workers.
    ///
    /// spec: C8 (culled beyond two when no worker is busy).
    pub(super) fn check_quiet(&mut self) {
        assert_eq!(self.accepted, self.completed, "accepted and completed items");
        assert_eq!(self.manager.next_wake(), None, "the manager of an idle executor has no deadline");
        for (id, gate) in self.gates.iter().enumerate() {
            assert_eq!(gate.word.in_flight(), 0, "gate {id} is not empty: {:?}", gate.word);
        }
        assert!(self.rescuers.iter().all(|(_, thread)| self.worker(*thread).parked), "a rescuer is up");
        for (id, pool) in self.pools.iter().enumerate() {
            assert!(pool.seat.as_ref().is_none_or(|seat| seat.helpers == 0), "pool {id} waits for helpers");
            assert!(!pool.has_work(), "pool {id} has work left");
            assert_eq!((pool.word.running(), pool.word.waking()), (0, 0), "pool {id}");
            assert!(!pool.crew.is_help_coming(), "pool {id} waits for a worker");
            assert!(pool.crew.idle() <= 2, "pool {id} keeps {} idle workers", pool.crew.idle());
            assert_eq!(pool.crew.alive(), pool.workers.len(), "workers of pool {id}");
            assert!(self.workers(pool).all(|worker| worker.parked), "a worker of pool {id} is up");
        }
    }

    /// Returns how many workers were woken and have not begun.
    fn waking(&self, pool: &Pool) -> u64 {
        self.workers(pool).filter(|worker| worker.state.phase() == Phase::Waking).count() as u64
    }

    pub(super) fn workers<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Worker> {
        pool.workers.values().map(|thread| self.worker(*thread))
    }
}
