//! A pool's users: it is closed with the last one, and serves again if another comes.

use crate::policy::crew::Prepare;
use crate::sys::sync::MutexGuard;

use super::{Pool, State};

impl Pool {
    /// Somebody pushes from now on, until [`let_go`](Self::let_go); maybe again, after the pool was closed. The caller owes
    /// an [`attend`](Self::attend), once no lock is held.
    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        state.users += 1;
        // What was abandoned has no workers any more.
        if !self.is_abandoned() {
            state.crew.open();
        }
    }

    /// Whoever was reserved before the pool was opened, and is not made yet, is asked for.
    pub(crate) fn attend(&self) {
        let prepare = self.state.lock().crew.attend();
        if prepare == Prepare::CreateSpare && !self.ask_for_worker() {
            self.nobody_comes();
        }
    }

    /// A user of an unbound pool pushes no more; the last one closes it.
    pub(crate) fn let_go(&self) {
        let mut state = self.state.lock();
        state.users -= 1;
        if state.users == 0 {
            send_idle_away(state);
        }
    }

    /// Nobody will push any more: the idle workers leave, the others when they are done.
    pub(crate) fn close(&self) {
        send_idle_away(self.state.lock());
    }

    /// Does somebody use it, or has it something to finish?
    pub(crate) fn is_in_use(&self) -> bool {
        let state = self.state.lock();
        !state.crew.is_closing() || state.crew.alive() > 0 || self.has_work()
    }
}

fn send_idle_away(mut state: MutexGuard<'_, State>) {
    let idle = state.crew.close();
    let leaving = state.send_away(&idle);
    drop(state);
    leaving.iter().for_each(|worker| worker.unpark());
}
