//! The one door through which workers are woken and made.

use std::sync::Arc;

use crate::policy::concurrency::{Kick, Reserved};
use crate::policy::crew::Wake;
use crate::policy::worker::Phase;
use crate::sys::{affinity, clock};

use super::super::manager::Request;
use super::Pool;
use super::scrutiny::is_watched;

/// Where whoever is woken should run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Near {
    Anywhere,
    /// The calling thread is about to leave this CPU.
    Leaves(usize),
    /// Nobody of the pool runs on this one.
    Free(usize),
}

impl Near {
    fn cpu(self) -> Option<usize> {
        match self {
            Self::Anywhere => None,
            Self::Leaves(cpu) | Self::Free(cpu) => Some(cpu),
        }
    }
}

impl Pool {
    /// The caller gave up running, or used up a reservation, or cleared the watched bit: if there is work, sees to
    /// it that somebody comes for it.
    #[inline]
    pub(crate) fn look(&self) {
        self.perform(self.running.look(|| self.has_work()), Near::Anywhere);
        self.seek(Near::Anywhere);
    }

    /// The same for a worker that is about to block on this CPU. Was somebody woken?
    #[inline]
    pub(crate) fn look_before_blocking(&self) -> bool {
        let kick = self.running.look(|| self.has_work());
        let near = || affinity::current_cpu().map_or(Near::Anywhere, Near::Leaves);
        let wakes = matches!(kick, Kick::Wake(_));
        if kick != Kick::Enough {
            self.perform(kick, near());
        }
        self.seek(if self.has_several_cpus() { near() } else { Near::Anywhere }) || wakes
    }

    /// The same for one that has left the count, as the manager has found out. Whoever is woken begins on a CPU that is free:
    /// the manager's own looks busy to the system at the moment.
    pub(super) fn look_for_free(&self, free: Option<usize>) -> bool {
        let near = free.map_or(Near::Anywhere, Near::Free);
        let kick = self.running.look(|| self.has_work());
        let wakes = matches!(kick, Kick::Wake(_));
        self.perform(kick, near);
        self.seek(near) || wakes
    }

    /// The one door: wakes or makes a worker, or tells the manager, if that is what the word says.
    #[inline]
    pub(super) fn perform(&self, kick: Kick, near: Near) {
        match kick {
            Kick::Enough => {}
            Kick::Wake(reserved) => self.wake(reserved, near),
            Kick::Offer => self.offer(),
            Kick::Starve => self.starve(),
            Kick::Watch => {
                self.ask_to_watch();
                self.offer();
            }
        }
    }

    /// There was no room for a worker, and none runs any more: the manager is told.
    #[cold]
    fn starve(&self) {
        self.ask_for_worker();
        self.look();
    }

    /// The pool is full, and the manager does not watch it so far.
    #[cold]
    pub(super) fn ask_to_watch(&self) {
        self.core.manager.ask(Request::Watch(self.this.clone()));
    }

    #[cold]
    pub(super) fn wake(&self, reserved: Reserved, near: Near) {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            drop(state);
            self.drop_reservation(reserved);
            return self.give_up_worklist();
        }
        let look_at = if self.seat.is_some() { state.stall.woke(clock::now()) } else { None };
        match state.crew.kick(reserved, near.cpu()) {
            Wake::Unpark(id) => {
                let worker = Arc::clone(state.worker(id));
                drop(state);
                match near {
                    Near::Free(cpu) => self.place_on(cpu, &worker),
                    Near::Leaves(cpu) if self.must_take(cpu, &worker) => self.place_on(cpu, &worker),
                    Near::Anywhere | Near::Leaves(_) => self.bring_home(&worker),
                }
                // Last: whoever sees this begins, parked or not, and nobody would let it roam who is placed later.
                worker.cell.set_phase(Phase::Waking);
                worker.unpark();
            }
            Wake::Create => {
                drop(state);
                if !self.ask_for_worker() {
                    self.nobody_comes();
                }
            }
            Wake::Wait => drop(state),
            Wake::Call(call) => {
                drop(state);
                self.core.manager.ask(Request::Call(self.this.clone(), call));
            }
        }
        self.ask_for_a_look(look_at);
    }

    /// Nobody comes for this reservation. The caller looks at the work afterwards.
    pub(super) fn drop_reservation(&self, reserved: Reserved) {
        let errand = reserved.errand();
        self.running.drop_reservation(reserved);
        self.end_errand(errand);
    }

    /// False if there is no manager, and none can be made now.
    pub(crate) fn ask_for_worker(&self) -> bool {
        self.core.manager.ask(Request::Create(self.this.clone()))
    }

    /// There is no manager, so there are no workers either. Work waits until somebody, by the next push or otherwise,
    /// has brought a manager about: it looks at every pool.
    #[cold]
    pub(super) fn nobody_comes(&self) {
        let mut state = self.state.lock();
        let dropped = state.crew.nobody_comes();
        let _no_manager = self.came(&mut state, dropped.len());
        drop(state);
        dropped.into_iter().for_each(|reserved| self.drop_reservation(reserved));
        // One that came about meanwhile may have looked here before that, and found the work reserved for. One look is
        // enough for several reservations: each worker that arrives looks again before it parks.
        if !self.core.manager.is_missing() {
            self.look();
        }
    }

    /// There is a manager now, and was none so far: it does not know what was asked before. One look is enough for several
    /// items: the manager makes one worker after the other, and each that arrives looks again before it parks.
    #[cold]
    pub(crate) fn manager_came(&self) {
        let look_at = self.state.lock().stall.next_look();
        self.ask_for_a_look(look_at);
        if is_watched(&self.spec, &self.core.settings) {
            // Whoever found the pool saturated had nobody to tell.
            self.running.unwatch();
        }
        self.look();
    }
}
