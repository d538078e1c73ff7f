//! A pool without users is closed: it has no threads. It serves again when it gets a user.

use std::sync::Arc;

use crate::policy::idle_set::Prepare;

use crate::engine::worker::shared::Worker;

use super::worker_pool::Pool;

impl Pool {
    /// Opens the pool for issuers, perhaps after it was closed. The caller calls [`attend`](Self::attend) once it
    /// holds no lock.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        // An abandoned pool has no workers any more.
        if !state.sideline.is_abandoned() {
            state.idle_set.open();
        }
    }

    /// Asks for a worker if a reservation from before the pool was opened still waits for one. Then checks for work:
    /// a worker that left the closed pool did not check, and an issuer may have pushed while that worker counted.
    pub(crate) fn attend(&self) {
        let prepare = self.state.lock().idle_set.attend();
        if prepare == Prepare::CreateSpare && !self.ask_for_worker() {
            self.nobody_comes();
        }
        self.look();
    }

    /// Closes the pool, because no issuer will push any more. Its idle workers leave now, the others when they are
    /// done.
    pub(crate) fn close(&self) {
        self.send_idle_away().iter().for_each(|worker| worker.unpark());
    }

    /// As [`close`](Self::close), but the caller unparks the returned workers once it holds no lock.
    #[must_use]
    pub(crate) fn send_idle_away(&self) -> Vec<Arc<Worker>> {
        let mut state = self.state.lock();
        let idle = state.idle_set.close();
        state.send_away(&idle)
    }

    /// Returns whether the pool has users, workers or work.
    pub(crate) fn is_in_use(&self) -> bool {
        let state = self.state.lock();
        !state.idle_set.is_closing() || state.idle_set.alive() > 0 || self.has_work()
    }
}
