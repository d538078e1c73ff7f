//! How a thread asks the present run of an item to stop. The parent module describes the protocol.

use std::mem;

use crate::policy::item::{Instance, ItemState};
use crate::sys::wakers::Alarm;

use super::slow_state::Stop;
use super::{HasTicket, ItemCell};

impl<E: HasTicket, T: PartialEq, C> ItemCell<E, T, C> {
    /// Asks the item's present run to stop, and rings the run's alarm. Returns false if the item does not run. The
    /// caller holds a handle, and no lock.
    pub(crate) fn stop(&self) -> bool {
        let mut slow_state = self.slow_state.lock();
        if self.update(ItemState::attach_to_run_slowly) != Instance::Running {
            return false;
        }
        let before = mem::replace(&mut slow_state.stop, Stop::Asked);
        drop(slow_state);
        if let Stop::Listens(Alarm { waker, ring }) = before {
            ring(waker);
        }
        true
    }

    /// Returns whether the present run was asked to stop. The run itself calls this function.
    pub(crate) fn is_stopped(&self) -> bool {
        self.load().is_attached() && matches!(self.slow_state.lock().stop, Stop::Asked)
    }

    /// Stores the alarm of the present run. The alarm rings when a thread asks the run to stop. Returns false if a
    /// thread has already asked the run to stop. The run itself calls this function.
    pub(crate) fn listen(&self, alarm: Alarm) -> bool {
        let mut slow_state = self.slow_state.lock();
        if matches!(slow_state.stop, Stop::Asked) {
            return false;
        }
        let _running = self.update(ItemState::attach_to_run_slowly);
        let before = mem::replace(&mut slow_state.stop, Stop::Listens(alarm));
        drop(slow_state);
        // The destructor of an earlier alarm may take other locks, so it runs after this lock is released.
        drop(before);
        true
    }
}
