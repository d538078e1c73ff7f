//! The manager's bell: how the manager sleeps, and how other threads wake it.
//!
//! After its sleep, the manager sees everything that a thread wrote before the thread rang the bell. If a thread rings
//! while the manager is awake, the manager's next sleep ends immediately. No ring is lost even if user code on the
//! manager's thread parks or unparks that thread.

use crate::policy::time::Time;
use crate::protocol::bell::BellCell;
use crate::sys::pause::Pause;
use crate::sys::switches::Ring;

/// The bell of one manager.
#[derive(Debug)]
pub(crate) struct Bell {
    cell: BellCell,
    pause: Pause,
}

impl Bell {
    pub(crate) fn new(pause: Pause) -> Self {
        Self { cell: BellCell::new(), pause }
    }

    /// Wakes the manager or, if it is awake, makes its next sleep end immediately. Any thread may ring the bell. A ring
    /// of the bell costs a system call only if the manager sleeps.
    pub(crate) fn ring(&self) {
        if self.cell.ring() {
            self.pause.wake();
        }
    }

    /// Sleeps until the bell rings, the time `until` comes, or one of `rings` has a record. `rings` are buffers in
    /// which the system records context switches. A manager that sleeps by parking its thread ignores `rings`. The
    /// sleep may also end spuriously. Only the manager calls this.
    pub(crate) fn sleep(&self, until: Option<Time>, rings: &[&Ring]) {
        self.pause.sleep(|| self.cell.rest(), until, rings);
        self.cell.awake();
    }
}
