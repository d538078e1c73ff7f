//! The manager's bell: how the manager sleeps, and how other threads wake it.
//!
//! After its sleep, the manager sees what a thread wrote before it rang. If the manager is awake, its next sleep ends
//! at once. User code on the manager's thread may park or unpark that thread.

use std::time::Duration;

use crate::protocol::bell::BellCell;
use crate::sys::pause::Pause;
use crate::sys::switches::Ring;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bell {
    cell: BellCell,
    pause: Pause,
}

impl Bell {
    pub(crate) fn new(pause: Pause) -> Self {
        Self { cell: BellCell::new(), pause }
    }

    /// Wakes the manager, or ends its next sleep. Any thread may ring. Costs a system call only if the manager
    /// sleeps.
    pub(crate) fn ring(&self) {
        if self.cell.ring() {
            self.pause.wake();
        }
    }

    /// Sleeps until the bell rings, the time is over, or one of `rings` has a record, if the manager listens to
    /// those. May also end without a reason. Called by the manager.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, rings: &[&Ring]) {
        self.pause.sleep(|| self.cell.rest(), timeout, rings);
        self.cell.awake();
    }
}
