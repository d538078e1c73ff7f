//! The bell of the manager's door: how it sleeps, and how everybody else wakes it.
//!
//! Whatever was written before somebody rings, the manager sees after its sleep; if it is awake, its next sleep ends at
//! once. User code that runs on the manager's thread may park or unpark that as it likes.

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

    /// By anybody. Costs a system call only if the manager sleeps.
    pub(crate) fn ring(&self) {
        if self.cell.ring() {
            self.pause.wake();
        }
    }

    /// By the manager: sleeps until somebody rings, the time is over, or one of `rings` has something to tell, if this
    /// listens. It may also end for nothing.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, rings: &[&Ring]) {
        self.pause.sleep(|| self.cell.rest(), timeout, rings);
        self.cell.awake();
    }
}
