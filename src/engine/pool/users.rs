//! A pool without users is closed, and all its workers leave. The pool opens again when it gets a user.

use std::sync::Arc;

use crate::policy::idle_set::Prepare;

use crate::engine::worker::shared::Worker;

use super::worker_pool::Pool;

impl Pool {
    /// Opens the pool for issuers. The pool may be new, open or closed. The caller calls [`attend`](Self::attend) after
    /// it has released all its locks.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        // An abandoned pool has no workers any more.
        if !state.sideline.is_abandoned() {
            state.idle_set.open();
        }
    }

    /// Asks for a worker if a reservation waits for one. Such a reservation may have been made before the pool was
    /// opened. Then checks the pool for work, because a worker that left the closed pool did not check for work. An
    /// issuer may have pushed an entry while the leaving worker still counted as running.
    pub(crate) fn attend(&self) {
        let prepare = self.state.lock().idle_set.attend();
        if prepare == Prepare::CreateSpare && !self.ask_for_worker() {
            self.no_worker_comes();
        }
        self.look();
    }

    /// Closes the pool, because no issuer will push entries to it any more. Idle workers leave at once. Busy workers
    /// leave when they find no more work.
    pub(crate) fn close(&self) {
        self.send_idle_away().iter().for_each(|worker| worker.unpark());
    }

    /// Does the same as [`close`](Self::close), but does not unpark the workers that leave. The caller unparks these
    /// workers after it has released all its locks.
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
