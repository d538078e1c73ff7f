//! The manager's view of a watched pool, and how the manager acts on its findings about workers.

use std::sync::Arc;

use crate::policy::blocking_detector::Found;
use crate::policy::pace::Pace;
use crate::policy::time::Time;
use crate::policy::watch::Look;

use crate::engine::queue::shard::Shard;
use crate::engine::worker::shared::Worker;

use super::binding::Near;
use super::spec::PoolKind;
use super::worker_pool::{Numbered, Pool};

impl Pool {
    /// Returns the state of the pool for the manager's watch, and the pool's workers at the same moment. Both results
    /// list the workers in the order of their numbers.
    pub(crate) fn observe(&self) -> (Look, Vec<Arc<Worker>>) {
        let counts = self.spec.manages_concurrency();
        let forks = self.has_forks();
        let cpus = self.binding.state.lock().cpus.len();
        let state = self.state.lock();
        let workers: Vec<_> = state.workers.iter().filter_map(Numbered::worker).map(Arc::clone).collect();
        let words: Vec<_> = workers.iter().map(|worker| (worker.id, worker.cell.load())).collect();
        let word = self.running.load();
        let target = word.target();
        let keeps_local = state.local() > 0;
        let look = Look {
            pending: self.has_work() || keeps_local,
            forks,
            keeps_local,
            shares: self.has_siblings(),
            is_limited: target.is_some_and(|target| (target as usize) < cpus),
            is_brisk: self.running.checked(),
            workers_tell: word.is_rarely_checked(),
            help_coming: state.idle_set.is_help_coming(),
            cpus: target.filter(|_| counts).map(|target| target as usize),
            per_cpu: self.is_per_cpu(),
            pace: state.pace,
            stalled_since: state.stalled_since,
            given: state.given,
            workers: words,
        };
        (look, workers)
    }

    /// Begins to cover the pool if `covers` is true, and stops covering the pool if `covers` is false. While a pool is
    /// covered, further workers run in place of those that sleep without the manager's knowledge.
    pub(crate) fn cover(&self, covers: bool) {
        if covers != self.running.load().is_covered() {
            let kick = self.running.cover(covers, || self.has_work());
            self.perform(kick, Near::Anywhere);
        }
    }

    fn is_per_cpu(&self) -> bool {
        matches!(self.spec.kind, PoolKind::PerCpu { .. })
    }

    /// Returns whether the rules of the executor ever permit the manager to check this pool rarely.
    pub(crate) fn may_be_checked_rarely(&self) -> bool {
        self.core.settings.rules().may_check_rarely(self.spec.manages_concurrency(), self.is_per_cpu())
    }

    /// Stores the results of a check of the pool: the pool's pace, and the start of its stall.
    pub(crate) fn keep(&self, pace: Pace, stalled_since: Option<Time>) {
        let mut state = self.state.lock();
        (state.pace, state.stalled_since) = (pace, stalled_since);
    }

    /// Acts on a finding: takes the worker out of the count of running workers, or puts it back. Returns false if the
    /// worker has begun something else since the finding.
    pub(crate) fn carry_out(&self, worker: &Worker, found: Found) -> bool {
        // The item's shard is looked up first, so the shard can count the finding even if the item ends right
        // afterwards. There is no shard if the worker is destroying the item's queue.
        let carried_out =
            worker.with_shard(found.seen, |shard| self.carry_out_for(worker, found, Some(shard)));
        carried_out.unwrap_or_else(|| self.carry_out_for(worker, found, None))
    }

    fn carry_out_for(&self, worker: &Worker, found: Found, shard: Option<&Shard>) -> bool {
        let carried = worker.cell.carry_out(found.seen, found.finding, &self.running);
        let events = shard.map(|shard| &shard.events);
        if let Some(events) = events.filter(|_| carried.holds) {
            events.found(found.finding);
        }
        if carried.owes_look {
            self.take_local(worker);
            let free = if self.has_several_cpus() { self.free_cpu(worker.cpu()) } else { None };
            let woken = self.look_for_free(free);
            if let Some(events) = events.filter(|_| woken && carried.holds && found.finding.blocks()) {
                events.concurrency_wakeups.raise();
            }
        }
        carried.holds
    }
}
