//! The deadlines of a pool: when idle workers leave, when rescuers are called, and when woken workers may be late.
//!
//! Each part of the pool's state has its own deadline. When the first of these deadlines comes, the manager checks all
//! parts. A thread that changes the state calls [`State::unknown_deadline`] before it releases the pool's lock, and
//! afterwards tells the manager the returned deadline.

use std::sync::Arc;

use crate::policy::time::Time;
use crate::sys::clock;

use crate::engine::manager::inbox::Request;

use super::worker_pool::{Pool, State};

impl Pool {
    /// Tells the manager the pool's first deadline if the manager does not know it.
    #[inline]
    pub(super) fn tell_deadline(&self, unknown: Option<Time>) {
        if let Some(at) = unknown {
            self.core.manager.ask(Request::Deadline(self.this.clone(), at));
        }
    }

    /// Does everything that is due in the pool. The manager calls this function at each deadline of the pool that the
    /// manager knows. Returns the next deadline if the manager does not know it.
    pub(crate) fn deadline_has_come(self: &Arc<Self>) -> Option<Time> {
        let now = clock::now();
        if !self.state.lock().known_deadlines.has_come(now) {
            return None;
        }
        self.look_for_late_workers(now);
        self.mayday(now);
        self.cull(now);
        let mut state = self.state.lock();
        let next = state.next_deadline();
        state.known_deadlines.seen_to(now, next)
    }

    /// Sends away the surplus workers that have been idle for the idle timeout.
    fn cull(&self, now: Time) {
        let mut state = self.state.lock();
        let leaving = state.idle_set.cull(now);
        let leaving = state.send_away(&leaving);
        drop(state);
        leaving.iter().for_each(|worker| worker.unpark());
    }

    /// Tells a new manager all deadlines that the former manager was told.
    pub(super) fn repeat_deadlines(&self) {
        let known = self.state.lock().known_deadlines.all().to_vec();
        known.into_iter().for_each(|at| self.tell_deadline(Some(at)));
    }
}

impl State {
    /// Returns the pool's first deadline, unless the manager knows this deadline or an earlier one. The caller
    /// [tells](Pool::tell_deadline) the manager after it has released all its locks.
    #[must_use]
    pub(super) fn unknown_deadline(&mut self) -> Option<Time> {
        self.known_deadlines.changed(self.next_deadline())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.late.next_look().into_iter().chain(self.idle_set.next_deadline()).min()
    }
}
