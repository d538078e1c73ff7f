//! A pool that nobody uses is closed: it has no threads, and serves again if somebody uses it.

use std::sync::Arc;

use crate::policy::crew::Prepare;

use super::super::worker::Worker;
use super::Pool;

impl Pool {
    /// Somebody pushes from now on, maybe after the pool was closed. The caller owes an [`attend`](Self::attend), once no
    /// lock is held.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        // What was abandoned has no workers any more.
        if !state.sideline.is_abandoned() {
            state.crew.open();
        }
    }

    /// Whoever was reserved before the pool was opened, and is not made yet, is asked for. And a worker that has left it
    /// since it was closed has not looked at the work: somebody may have pushed while that one counted.
    pub(crate) fn attend(&self) {
        let prepare = self.state.lock().crew.attend();
        if prepare == Prepare::CreateSpare && !self.ask_for_worker() {
            self.nobody_comes();
        }
        self.look();
    }

    /// Nobody will push any more: the idle workers leave, the others when they are done.
    pub(crate) fn close(&self) {
        self.send_idle_away().iter().for_each(|worker| worker.unpark());
    }

    /// The same, but that the caller has to unpark these, once no lock is held.
    #[must_use]
    pub(crate) fn send_idle_away(&self) -> Vec<Arc<Worker>> {
        let mut state = self.state.lock();
        let idle = state.crew.close();
        state.send_away(&idle)
    }

    /// Does somebody use it, or has it something to finish?
    pub(crate) fn is_in_use(&self) -> bool {
        let state = self.state.lock();
        !state.crew.is_closing() || state.crew.alive() > 0 || self.has_work()
    }
}
