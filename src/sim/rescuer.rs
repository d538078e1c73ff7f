//! The steps of a gate's rescuer, and of the manager for a pool that needs a worker and cannot have one.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::class::Share;
use super::machine::Machine;
use super::pool::{GateId, PoolId, Thread, ThreadId, Worker};
use super::script::Op;
use crate::policy::concurrency::Reserved;
use crate::policy::crew::Mayday;
use crate::policy::rescue::{Call, MAYDAY_INTERVAL};

/// How late the manager may be, because it is making a thread.
const LATE: Duration = Duration::from_millis(50);

impl Machine {
    /// Makes a sleeping rescuer for each gate that is to have one.
    pub(super) fn make_rescuers(&mut self) {
        for gate in 0..self.gates.len() {
            if self.gates[gate].has_rescuer {
                let worker = Worker::rescuer(self.gates[gate].pool, gate);
                self.rescuers.push((gate, self.threads.len()));
                let cpus = self.pools[worker.pool].cpus;
                self.threads.push(Thread::worker(Vec::new(), cpus, worker));
            }
        }
    }

    /// Called at the deadline of a call for help.
    pub(super) fn mayday(&mut self, pool: PoolId, call: Call) {
        let has_work = self.pools[pool].has_work();
        match self.pools[pool].crew.mayday(call, has_work) {
            Mayday::Lapsed => return,
            Mayday::StandDown(reserved) => {
                let drops = reserved.into_iter().flat_map(|one| [Op::Look(pool), Op::Drop(pool, one)]);
                return self.outsider(drops.collect());
            }
            Mayday::Call => {}
        }
        self.seen.maydays += 1;
        for (gate, thread) in self.rescuers.clone() {
            if self.has_work_of(gate, pool) {
                self.worker_mut(thread).called = true;
                if std::mem::take(&mut self.worker_mut(thread).parked) {
                    self.then(thread, [Op::Called]);
                    self.make_runnable(thread);
                }
            }
        }
        self.manager.call_again(pool, call, self.now);
    }

    /// Lets a rescuer check whether it was called, and sleep if not.
    pub(super) fn called(&mut self, me: ThreadId) {
        if std::mem::take(&mut self.worker_mut(me).called) {
            // It answers this call. If it sleeps again, even at this very instant, the time counts from then.
            self.worker_mut(me).neglects_since = None;
            self.then(me, [Op::Rescue]);
        } else {
            self.worker_mut(me).parked = true;
            self.threads[me].slept += 1;
            self.give_up_cpu(me);
        }
    }

    /// Lets a rescuer take an item of its gate, if the pool still needs help.
    pub(super) fn rescue(&mut self, me: ThreadId) {
        let (pool, gate) = (self.worker(me).pool, self.worker(me).rescues.expect("a rescuer has a gate"));
        let needed = self.pools[pool].crew.needs_help();
        let first = self.pools[pool].worklist.iter().position(|item| self.gate_of(*item) == gate);
        let item = first.filter(|_| needed).and_then(|at| self.pools[pool].worklist.remove(at));
        match item {
            Some(item) => {
                self.seen.rescued += 1;
                self.check_order(item);
                self.then(me, [Op::Begin(item)]);
            }
            None => self.then(me, [Op::Relieve]),
        }
    }

    /// Lets a rescuer stop helping. If there is no work, the reservations that wait for a worker are dropped.
    pub(super) fn relieve(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        let has_work = self.pools[pool].has_work();
        let dropped = self.pools[pool].crew.relieved(has_work);
        self.seen.stood_down += usize::from(!dropped.is_empty());
        self.then(me, [Op::Called]);
        dropped.into_iter().for_each(|one| self.then(me, [Op::Drop(pool, one), Op::Look(pool)]));
    }

    /// Drops a reservation that no worker will use. The caller must look at the pool's work afterwards: a push that
    /// came meanwhile has relied on the reservation.
    pub(super) fn drop_reservation(&mut self, me: ThreadId, pool: PoolId, used_up: Reserved) {
        self.came(pool);
        self.pools[pool].word = self.pools[pool].word.drop_reservation();
        self.pools[pool].owed.pop();
        self.errand_ends(pool, used_up.errand());
        if let Some(pod) = used_up.errand() {
            let home = self.sibling(pool, pod);
            self.then(me, [Op::Share(Share::EndErrand(home))]);
        }
    }

    fn has_work_of(&self, gate: GateId, pool: PoolId) -> bool {
        self.pools[pool].worklist.iter().any(|item| self.gate_of(*item) == gate)
    }

    /// Checks that no rescuer sleeps for longer than the interval of calls while its work waits for a worker that
    /// cannot be made.
    ///
    /// spec: P2 (called every 100 ms)
    pub(super) fn check_rescuers(&mut self) {
        for (gate, thread) in self.rescuers.clone() {
            let pool = self.worker(thread).pool;
            let neglected = self.worker(thread).parked
                && self.pools[pool].crew.needs_help()
                && self.has_work_of(gate, pool);
            let now = self.now;
            let since = &mut self.worker_mut(thread).neglects_since;
            *since = if neglected { since.or(Some(now)) } else { None };
            let neglects_for = since.map_or(Duration::ZERO, |since| now.since(since));
            assert!(
                neglects_for <= MAYDAY_INTERVAL + LATE,
                "the rescuer of gate {gate} sleeps on for {neglects_for:?}"
            );
        }
    }
}
