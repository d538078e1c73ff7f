//! A pool whose executor has reached its cap on threads. The pool tells how urgently it needs a thread, and its workers
//! leave so that other pools can get threads.

use crate::policy::room::Shortage;
use crate::policy::time::Time;
use crate::policy::worker::Phase;
use crate::sys::sync::Ordering;

use crate::engine::worker::shared::Worker;

use super::worker_pool::{Numbered, Pool, Starving, State};

impl Pool {
    /// The manager calls this function when there is no thread for the worker that the pool asked for. Returns how
    /// urgently the pool needs this worker. The pool no longer needs the worker if other workers have run the work
    /// since, or if the item that made a fork has taken the fork back.
    pub(crate) fn no_room(&self, now: Time) -> Shortage {
        let mut state = self.state.lock();
        let has_work = self.has_work() || state.local() > 0 || self.find_forks(&state);
        let begun = state.begun();
        let is_stuck = state.famine.refused(begun, now);
        let is_idle = self.running.short();
        let (shortage, dropped) = state.idle_set.no_room(has_work, is_idle, is_stuck);
        self.came(&mut state, dropped.len());
        if shortage == Shortage::Starves {
            self.starves.note(true);
        }
        if shortage != Shortage::Waits {
            self.running.unshort();
        }
        if shortage == Shortage::None {
            state.famine.ends();
        }
        let deadline = state.unknown_deadline();
        drop(state);
        self.tell_deadline(deadline);
        self.stand_down(dropped);
        shortage
    }

    /// Notes that the manager is about to make a worker of this pool.
    pub(crate) fn has_room(&self) {
        self.state.lock().famine.ends();
    }

    /// Notes that the pool no longer starves. Before this call, the manager withdraws its request that a worker gives
    /// way (leaves so that another pool gets its thread), unless another pool starves. If the manager withdrew the
    /// request after this call, a worker of this pool could still see the request, and would give way although no pool
    /// needs its thread.
    pub(crate) fn starves_no_more(&self) {
        self.starves.note(false);
    }

    /// A worker calls this function if it is asked to give way while it is idle or between two items. Returns true if
    /// this pool is known to starve, because the pool would gain nothing by giving this thread away. The first call
    /// that returns true also asks the manager to check the pool again, because the pool has a worker now.
    #[cold]
    pub(crate) fn has_recovered(&self) -> bool {
        match self.starves.0.load(Ordering::Relaxed) {
            Starving::NO => return false,
            Starving::TOLD => {}
            _ => {
                self.starves.0.store(Starving::TOLD, Ordering::Relaxed);
                self.ask_for_worker();
            }
        }
        true
    }

    /// A worker calls this function when it has become idle while the manager asks some worker to give way. Sends an
    /// idle worker of this pool away, unless the manager made the request for this pool. The request ends before the
    /// idle worker leaves.
    ///
    /// The manager notes under the pool's lock that the pool starves, before it makes the request. The manager
    /// withdraws the request before it notes that the pool no longer starves. So a request that is in force while this
    /// pool does not starve was made for another pool.
    pub(crate) fn give_up_one_to_another(&self) -> bool {
        let is_of_another = || {
            let starves = self.starves.0.load(Ordering::Acquire); // pairs with `Starving::note`
            starves == Starving::NO && self.core.threads.cell.give_way(true)
        };
        !self.has_recovered() && self.give_up_one_if(is_of_another)
    }

    /// Sends an idle worker away, because another pool needs its thread more. Returns false if no worker is idle.
    pub(crate) fn give_up_one(&self) -> bool {
        self.give_up_one_if(|| true)
    }

    /// If a worker is idle, calls `may` under the pool's lock, and sends the worker away if `may` returns true.
    fn give_up_one_if(&self, may: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        if state.idle_set.idle() == 0 || !may() {
            return false;
        }
        let Some(id) = state.idle_set.give_up_one() else { return false };
        let leaving = state.send_away(&[id]);
        drop(state);
        leaving.iter().for_each(|worker| worker.unpark());
        true
    }

    /// Takes the calling worker out of the pool between two items, because another pool gets its thread. Until this
    /// call, the worker counts as running.
    pub(crate) fn give_way(&self, worker: &Worker) {
        let mut state = self.state.lock();
        self.running.leave();
        state.idle_set.give_way();
        worker.cell.set_phase(Phase::Exiting);
        drop(state);
        self.look();
    }
}

impl State {
    /// Returns a number that grows by one with each item that a worker begins in this pool, or that a sibling or a
    /// rescuer takes. The number may also change when a worker arrives or leaves.
    fn begun(&self) -> u64 {
        let workers = self.workers.iter().filter_map(Numbered::worker);
        workers.fold(self.given, |sum, worker| sum.wrapping_add(worker.cell.load().sequence()))
    }
}
