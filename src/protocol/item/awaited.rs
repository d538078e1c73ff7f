//! The signals of an item's submission and run, for which threads wait.

use crate::policy::item::{Instance, ItemState};
use crate::protocol::signal::Signal;
use crate::sys::sync::Arc;

use super::{HasTicket, ItemCell};

impl<E: HasTicket, T: PartialEq, C> ItemCell<E, T, C> {
    /// Returns the signal of the pending submission or, if there is none, of the run that has begun. Also returns the
    /// timer that has armed the item, if the pending submission waits for a timer.
    pub(crate) fn last_submission(&self) -> Option<(Arc<Signal>, Option<T>)>
    where
        T: Clone,
    {
        let mut slow_state = self.slow_state.lock();
        let signal = self.wait_for(&mut slow_state, ItemState::wait_slowly)?;
        Some((signal, slow_state.timer.clone()))
    }

    /// Returns whether this signal belongs to the pending submission or to the run that has begun. The signal of a run
    /// that is over belongs to neither of them, although this signal may not be set yet.
    pub(crate) fn instance_of(&self, signal: &Signal) -> Instance {
        let slow_state = self.slow_state.lock();
        let is_of = |own: &Option<Arc<Signal>>| own.as_ref().is_some_and(|own| own.key() == signal.key());
        if is_of(&slow_state.pending) {
            Instance::Pending
        } else if is_of(&slow_state.running) {
            Instance::Running
        } else {
            Instance::None
        }
    }
}
