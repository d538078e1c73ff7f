//! What must hold, whatever the workload. A broken rule panics and says which one.
//!
//! Most rules hold whenever time is about to advance: in between, somebody is always in the middle of
//! something. The facts are the machine's own (who is in which item, who is off the CPU), not policy's words.

#![forbid(unsafe_code)]

use super::machine::Machine;
use super::pool::{GateId, Pool, PoolId, Queueing, ThreadId, Worker};
use super::script::{ItemId, Op};
use crate::policy::crew::WorkerId;
use crate::policy::worker::Phase;

impl Machine {
    /// Somebody was told to wake a worker of `pool`.
    ///
    /// spec: C3 (a woken worker counts as running from the wake-up): a burst wakes no more than may run, and
    /// an unmanaged pool wakes one at a time.
    pub(super) fn check_wake(&self, pool: PoolId) {
        let on_their_way = self.waking(&self.pools[pool]) + self.pools[pool].owed.len() as u64;
        match self.pools[pool].word.target() {
            Some(target) => {
                let counted =
                    self.workers(&self.pools[pool]).filter(|worker| worker.is_counted()).count() as u64;
                assert!(counted + on_their_way < target, "pool {pool} wakes one more than {target}");
            }
            None => assert_eq!(on_their_way, 0, "unmanaged pool {pool} wakes two at a time"),
        }
    }

    /// A worker of `pool` has just been permitted to take an item.
    ///
    /// spec: C1 (one at a time while it is runnable), C5 (at most `target` runnable ones).
    pub(super) fn check_permission(&self, pool: PoolId) {
        if let Some(target) = self.pools[pool].word.target() {
            let runnable = self.counted_items(pool);
            assert!(runnable < target, "pool {pool} starts one more than {target} with {runnable} runnable");
        }
    }

    /// A worker of `pool` begins an item.
    ///
    /// spec: C1. On one CPU nothing comes between the permission and the start, so the rule holds here too; unless the
    /// manager, who has a CPU of its own, puts somebody back into the count.
    pub(super) fn check_begin(&mut self, pool: PoolId, item: ItemId) {
        let home = self.gates[self.gate_of(item)].pool;
        *if pool == home { &mut self.seen.at_home } else { &mut self.seen.away } += 1;
        assert!(pool == home || self.pools[home].seat.is_some(), "item {item} of {home} starts in {pool}");
        if self.pools[pool].cpus.count_ones() == 1 && !self.config.rules.sleepers {
            self.check_permission(pool);
        }
    }

    /// Items of `pool` that are counted; all of them want a CPU.
    fn counted_items(&self, pool: PoolId) -> u64 {
        self.workers(&self.pools[pool]).filter(|worker| worker.is_counted() && worker.item.is_some()).count()
            as u64
    }

    /// A worker of `pool` has decided to go idle although it is not one too many.
    ///
    /// spec: C3 (keep working).
    pub(super) fn check_rest(&self, pool: PoolId) {
        let others_come_between = self.config.racy || self.pools[pool].seat.is_some();
        assert!(
            others_come_between || !self.pools[pool].has_work(),
            "a worker of pool {pool} goes idle and leaves work behind"
        );
    }

    /// An idle worker is told to leave.
    ///
    /// spec: C8 (kept for the idle timeout).
    pub(super) fn check_cull(&self, pool: PoolId, id: WorkerId) {
        let idle_for = self.now.since(self.worker(self.pools[pool].workers[&id]).idle_since);
        assert!(idle_for >= self.pools[pool].idle_timeout, "worker {id} of {pool} leaves after {idle_for:?}");
    }

    /// An item was given a slot.
    ///
    /// spec: Q3 (max_active is never exceeded), F8 (nor when it is lowered), Q4 (at most one of an ordered queue).
    pub(super) fn check_slots(&self, gate: GateId) {
        let (active, ceiling) = (self.gates[gate].active, self.gates[gate].ceiling);
        assert!(active <= ceiling, "gate {gate} has {active} active items, at most {ceiling} are allowed");
    }

    /// Somebody begins to queue `item`.
    pub(super) fn queueing_began(&mut self, item: ItemId) {
        let (gate, queueing) = (self.gate_of(item), Queueing { began: self.steps, ended: None });
        self.gates[gate].queued.insert(item, queueing);
    }

    /// From here on, whatever is queued comes after `item`. It may have been popped already.
    pub(super) fn queueing_ended(&mut self, item: ItemId) {
        let (gate, now) = (self.gate_of(item), self.steps);
        if let Some(queueing) = self.gates[gate].queued.get_mut(&item) {
            queueing.ended = Some(now);
        }
    }

    /// A worker popped `item`: did it overtake one of its gate whose queueing had ended before its own began?
    ///
    /// spec: Q4 (in queueing order), F8 (also when the limit is raised). In a racy run, neighbours may swap where
    /// several may be active.
    pub(super) fn check_order(&mut self, item: ItemId) {
        let id = self.gate_of(item);
        self.ends_to_wait(item);
        let gate = &mut self.gates[id];
        let own = gate.queued.remove(&item).expect("what is popped was queued");
        let may_swap = self.config.racy && gate.may_be_several;
        let came_before = |other: &Queueing| other.ended.is_some_and(|ended| ended < own.began);
        let overtaken = gate.queued.iter().find(|(_, other)| came_before(other));
        assert!(may_swap || overtaken.is_none(), "item {item} of gate {id} overtook {overtaken:?}");
    }

    /// Time is about to advance.
    pub(super) fn check_instant(&mut self) {
        self.check_rescuers();
        for cpu in &self.cpus {
            let burns = |thread: usize| matches!(self.threads[thread].todo.last(), Some(Op::Burn(_)));
            assert!(cpu.thread.is_none_or(burns), "a CPU stands still with a thread on it");
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

    /// No count leaks: the word says what the workers do, and each reservation belongs to somebody.
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
        assert_eq!(pool.word.is_watched(), pool.looked_at, "somebody looks at pool {id} if it is watched");
        // Otherwise an item that blocks without a guard would hold the others back unnoticed.
        if pool.has_work() && pool.word.waking() == 0 {
            assert!(pool.looked_at, "pool {id} has work, wakes nobody, and nobody looks at it");
        }
    }

    /// spec: C1 (another worker starts at once), C3 (need more), C5.
    fn check_work_is_served(&self, id: PoolId, pool: &Pool) {
        if !pool.has_work() {
            return;
        }
        let word = pool.word;
        let Some(target) = word.target() else {
            // As soon as possible: a waiting item always has a worker on its way.
            assert!(word.waking() > 0, "unmanaged pool {id} has work and wakes nobody: {word:?}");
            return;
        };
        // Below the target, each waiting item has a worker of its own on its way.
        let wanted = target.min(word.running() + pool.pending() as u64);
        assert!(word.running() + word.waking() >= wanted, "pool {id} has work and wakes too few: {word:?}");
        let immediate = self.config.wake_latency.is_zero() && self.config.creation_latency.is_zero();
        // Nobody is made while the manager has lost its CPU.
        let failing = pool.crew.is_starving() && (self.now <= self.cooling_until || self.manager_busy);
        // A worker may be shed because the manager, in the middle of a look, counts one that sleeps; it looks afterwards.
        let settled = self.out_of_step(id) == 0;
        if immediate && settled && !failing && !self.is_full() {
            // Whoever is missing among the running is there and waits for a CPU, so no CPU idles.
            let of_pool = |cpu: &usize| pool.cpus & 1 << cpu != 0;
            let busy = (0..self.cpus.len()).filter(of_pool).filter(|cpu| self.cpus[*cpu].thread.is_some());
            // Whoever sleeps without a guard is the detector's matter.
            let sleeps = |thread: &&ThreadId| self.worker(**thread).is_counted() && self.sleeps(**thread);
            let sleepers = pool.workers.values().filter(sleeps).count() as u64;
            assert!(busy.count() as u64 + sleepers >= wanted, "pool {id} has work and an idle CPU: {word:?}");
        }
    }

    /// spec: C3 (a worker keeps one idle spare before it starts working): whenever work runs, an idle worker
    /// remains, is being made, or the one that was woken last has not begun yet and will see to it.
    fn check_spare(&self, id: PoolId, pool: &Pool) {
        let works = self.workers(pool).any(|worker| worker.item.is_some());
        let spare = pool.crew.idle() > 0 || pool.crew.is_creating() || self.waking(pool) > 0;
        let may_have_one = self.max_threads == u64::MAX;
        assert!(spare || !works || !may_have_one, "pool {id} works without a spare");
    }

    /// Nothing is left to do: everything accepted was done, and only the workers that stay are left.
    ///
    /// spec: C8 (culled beyond two when nobody is busy).
    pub(super) fn check_quiet(&mut self) {
        assert_eq!(self.accepted, self.completed, "accepted and completed items");
        assert_eq!(self.manager.next_wake(), None, "an idle executor wakes nobody");
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

    /// Workers that were woken and have not begun.
    fn waking(&self, pool: &Pool) -> u64 {
        self.workers(pool).filter(|worker| worker.state.phase() == Phase::Waking).count() as u64
    }

    pub(super) fn workers<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Worker> {
        pool.workers.values().map(|thread| self.worker(*thread))
    }
}
