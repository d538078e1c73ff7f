//! Wakes a pool's workers for work, and asks the manager for new workers. No other code wakes workers for work or asks
//! for new workers.

use std::cell::Cell;
use std::sync::Arc;

use crate::policy::brisk::{Habit, Left};
use crate::policy::concurrency::{Kick, Reserved};
use crate::policy::idle_set::Wake;
use crate::policy::worker::Phase;
use crate::sys::{affinity, clock};

use crate::engine::manager::inbox::Request;
use crate::engine::worker::shared::Worker;

use super::binding::Near;
use super::worker_pool::Pool;

thread_local! {
    static HABIT: Cell<Habit> = const { Cell::new(Habit::NEW) };
}

impl Pool {
    /// Checks for work after the caller has left the count of running workers, used up a reservation or cleared the
    /// watched bit. If there is work, makes sure that a worker takes it. Then checks siblings for excess items.
    #[inline]
    pub(crate) fn look(&self) {
        self.perform(self.running.look(|| self.has_work()), Near::Anywhere);
        self.wake_for_rest();
        self.look_for_forks(|| Near::Anywhere, true);
        self.seek(Near::Anywhere);
    }

    /// Does the same as [`look`](Self::look), for a worker that is about to block on its CPU. Returns whether a worker
    /// was woken for an item. `joins` says whether the worker waits for a fork of its own pool, and so keeps its place
    /// (see [`keep_place_during`](Self::keep_place_during)).
    #[inline]
    pub(crate) fn look_before_blocking(&self, joins: bool) -> bool {
        let kick = self.running.look_for_another(|| self.has_work());
        let near = || affinity::current_cpu().map_or(Near::Anywhere, Near::Leaves);
        let wakes = matches!(kick, Kick::Wake(_));
        if kick != Kick::Enough {
            self.perform(kick, near());
        }
        self.look_for_forks(near, joins);
        self.seek(if self.has_several_cpus() { near() } else { Near::Anywhere }) || wakes
    }

    /// Does the same as [`look`](Self::look), for a worker that the manager has taken out of the count of running
    /// workers. `free` is a free CPU, if there is one, and the woken worker begins on it. The free CPU may be the
    /// manager's own CPU, which the system would not choose, because that CPU looks busy.
    pub(super) fn look_for_free(&self, free: Option<usize>) -> bool {
        let near = free.map_or(Near::Anywhere, Near::Free);
        let kick = self.running.look_for_another(|| self.has_work());
        let wakes = matches!(kick, Kick::Wake(_));
        self.perform(kick, near);
        self.look_for_forks(|| near, false);
        self.seek(near) || wakes
    }

    /// Leaves an item to the workers of the brisk pool (a pool with short items), unless the calling thread pushes
    /// items slowly. The thread counts the items that it leaves to the workers of all pools, because items may have
    /// become long. After some of these items, the thread checks whether the workers of this pool have too many items.
    pub(super) fn leave_to_workers(&self) {
        let (habit, left) = HABIT.get().pushes(clock::now);
        HABIT.set(habit);
        match left {
            Left::Leave => {}
            Left::Check => _ = self.wake_for_rest(),
            Left::Wake => self.perform(self.running.kick_anyway(), Near::Anywhere),
        }
    }

    /// Wakes a worker for the *rest* of the brisk pool's items, if there is a rest. The rest are the items that the
    /// pool's workers will not run soon. The pushes of these items have woken no worker. Later, the woken worker wakes
    /// the next worker if there is still a rest. Returns whether there is a rest.
    pub(super) fn wake_for_rest(&self) -> bool {
        let pending = || if self.crowded.named().is_some() { u64::MAX } else { self.pending() as u64 };
        let wants = self.running.load().wants_worker_for_rest(pending, !self.sideline_comes_first());
        if wants {
            self.perform(self.running.kick_anyway(), Near::Anywhere);
        }
        wants
    }

    /// Carries out the decision of the running word: wakes a worker or asks for one, offers items to siblings, or tells
    /// the manager.
    #[inline]
    pub(super) fn perform(&self, kick: Kick, near: Near) {
        match kick {
            // `Leave` needs no action here. A caller that has pushed an entry handles `Leave` itself. Other callers
            // check afterwards whether the workers have too many items.
            Kick::Enough | Kick::Leave => {}
            Kick::Wake(reserved) => {
                let _comes = self.wake(reserved, near);
            }
            Kick::Offer => self.offer(),
            Kick::Starve => self.starve(),
            Kick::Watch => {
                self.ask_to_watch();
                self.offer();
            }
        }
    }

    /// Tells the manager that no worker of this pool runs any more. The executor had no room for the worker that the
    /// pool had asked for.
    #[cold]
    fn starve(&self) {
        self.ask_for_worker();
        self.perform(self.running.look_further(|| self.has_work()), Near::Anywhere);
        self.seek(Near::Anywhere);
    }

    /// Tells the manager that a worker has started, if the manager checks the pool only rarely. The manager then checks
    /// the pool often again, because the system does not record the context switches of this worker yet.
    #[inline]
    pub(crate) fn started(&self) {
        if self.running.load().is_rarely_checked() && self.running.check_often() {
            self.ask_to_watch();
        }
    }

    /// Asks the manager to watch the pool, or to check it often again.
    #[cold]
    pub(super) fn ask_to_watch(&self) {
        self.core.manager.ask(Request::Watch(self.this.clone()));
    }

    /// Serves a reservation: wakes an idle worker, asks the manager for a new one, or calls for help. Returns false if
    /// there is no manager that could make a worker. If this function returns false, the caller must not try again.
    #[cold]
    pub(super) fn wake(&self, reserved: Reserved, near: Near) -> bool {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            let is_emptied = state.sideline.is_emptied();
            drop(state);
            self.drop_reservation(reserved);
            if is_emptied {
                self.give_up_worklist();
            }
            return true;
        }
        if self.has_siblings() {
            state.late.woke(clock::now());
        }
        let wake = state.idle_set.kick(reserved, near.cpu(), clock::now);
        let woken = if let Wake::Unpark(id) = wake { Some(Arc::clone(state.worker(id))) } else { None };
        let deadline = state.unknown_deadline();
        drop(state);
        if let Some(worker) = woken {
            self.unpark(&worker, near);
        }
        let comes = wake != Wake::Create || self.ask_for_worker();
        if !comes {
            self.no_worker_comes();
        }
        self.tell_deadline(deadline);
        comes
    }

    /// Wakes an idle worker that the idle set has chosen, and decides on which CPU the worker begins.
    fn unpark(&self, worker: &Worker, near: Near) {
        match near {
            Near::Free(cpu) => self.place_on(cpu, worker),
            Near::Leaves(cpu) if self.must_take(cpu, worker) => self.place_on(cpu, worker),
            Near::Anywhere | Near::Leaves(_) => self.bring_home(worker),
        }
        // The phase is set last, because a worker begins as soon as it sees this phase, even if it has not parked yet.
        // If the worker were placed after the change of its phase, it might miss the placement, and stay bound to the
        // CPUs on which it began.
        worker.cell.set_phase(Phase::Waking);
        worker.unpark();
    }

    /// Drops a reservation that no worker will use. The caller calls [`look`](Self::look) afterwards, unless the pool
    /// is abandoned.
    pub(super) fn drop_reservation(&self, reserved: Reserved) {
        let errand = reserved.errand();
        self.running.drop_reservation(reserved);
        self.end_errand(errand);
    }

    /// Asks the manager for a worker. Returns false if the manager does not exist and cannot be made now.
    pub(crate) fn ask_for_worker(&self) -> bool {
        self.core.manager.ask(Request::Create(self.this.clone()))
    }

    /// Drops all reservations that wait for a worker, because there is no manager that could make a worker. Pending
    /// work waits until a thread that pushes an item, or waits for an item, has made a manager. That thread then calls
    /// [`manager_came`](Self::manager_came) on every pool.
    #[cold]
    pub(super) fn no_worker_comes(&self) {
        // A reservation with an *errand* was made for the items of a sibling. When such a reservation is dropped, the
        // sibling offers its items again. Without the call of `gets_no_worker`, the sibling would offer these items to
        // this pool again and again, from inside of the refused offer.
        if let Some(seat) = &self.seat {
            seat.class.exchange.gets_no_worker(seat.pod);
        }
        let mut state = self.state.lock();
        let dropped = state.idle_set.no_worker_comes();
        self.came(&mut state, dropped.len());
        let deadline = state.unknown_deadline();
        drop(state);
        self.tell_deadline(deadline);
        dropped.into_iter().for_each(|reserved| self.drop_reservation(reserved));
        // Another thread may have made a manager in the meantime. That manager may have checked this pool before the
        // reservations were dropped, and may have found enough reservations. One check is enough for several dropped
        // reservations, because each worker that arrives checks again before it parks. The check also shows siblings
        // that the pool has room again.
        if !self.core.manager.is_missing() {
            self.look();
        }
    }

    /// Asks the new manager for everything that the pool needs, because the new manager does not know earlier requests.
    /// One check is enough for several items, because the manager makes one worker after the other, and each worker
    /// checks again before it parks.
    #[cold]
    pub(crate) fn manager_came(&self) {
        self.repeat_deadlines();
        if self.spec.is_watched(&self.core.settings.rules()) {
            // The new manager does not know whether the pool is saturated (has pending work, but starts no further
            // worker for it). The next thread that finds the pool saturated tells the manager.
            self.running.unwatch();
        }
        self.look();
        self.spread();
    }
}
