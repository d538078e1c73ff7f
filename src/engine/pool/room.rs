//! A pool at the executor's cap on threads: what it does without, and how its workers leave for the sake of others.

use crate::policy::room::Shortage;
use crate::policy::time::Time;
use crate::policy::worker::Phase;
use crate::sys::sync::Ordering;

use crate::engine::worker::shared::Worker;

use super::worker_pool::{Pool, Slot, Starving, State};

impl Pool {
    /// There are as many threads as may be. What does the pool do without?
    pub(crate) fn no_room(&self, now: Time) -> Shortage {
        let mut state = self.state.lock();
        let begun = state.begun();
        let is_stuck = state.famine.refused(begun, now);
        let is_idle = self.running.short();
        let shortage = state.idle_set.no_room(is_idle, is_stuck);
        if shortage == Shortage::Starves {
            self.starves.note(true);
        }
        if shortage != Shortage::Waits {
            self.running.unshort();
        }
        if shortage == Shortage::None {
            state.famine.ends();
        }
        shortage
    }

    /// A worker is about to be made.
    pub(crate) fn has_room(&self) {
        self.state.lock().famine.ends();
    }

    /// By the manager, after the request for this pool was withdrawn: a worker that still saw it would give way in vain.
    pub(crate) fn starves_no_more(&self) {
        self.starves.note(false);
    }

    /// A worker of the pool is between two items, or idle, and one is asked to give way. If that is for this pool, nothing is won by
    /// it: the manager is told instead that a worker runs here. Returns whether that is so.
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

    /// An idle worker leaves, because another pool needs its thread more. False if none is idle.
    pub(crate) fn give_up_one(&self) -> bool {
        let mut state = self.state.lock();
        let Some(id) = state.idle_set.give_up_one() else { return false };
        let leaving = state.send_away(&[id]);
        drop(state);
        leaving.iter().for_each(|worker| worker.unpark());
        true
    }

    /// The calling worker, which counts as running, leaves between two items: another pool gets its thread.
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
    /// How many items were begun or taken away, but for a number that changes when a worker comes or leaves.
    fn begun(&self) -> u64 {
        let workers = self.workers.iter().filter_map(Slot::worker);
        workers.fold(self.given, |sum, worker| sum.wrapping_add(worker.cell.load().sequence()))
    }
}
