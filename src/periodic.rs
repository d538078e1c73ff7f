//! [`PeriodicHandle`]: the handle of a function that is called every period.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::periodic::Period;
use crate::engine::refusal::WaitError;
use crate::work::Work;

/// The handle of a function that is called every period: see [`WorkQueue::spawn_every`](crate::WorkQueue::spawn_every).
///
/// Dropping it cancels the calls, without waiting for a call that has begun.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("metrics").build()?;
/// let (tick, ticks) = mpsc::channel();
/// let report = queue.spawn_every(Duration::from_millis(1), move || tick.send(()).unwrap_or(()))?;
/// ticks.recv()?;
/// assert!(report.runs() >= 1);
/// report.cancel_sync()?;
/// assert!(!report.is_running());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle cancels the calls; write `detach()` if they are to go on for ever"]
pub struct PeriodicHandle {
    work: Work,
    period: Arc<Period>,
    detached: bool,
}

impl PeriodicHandle {
    pub(crate) fn new(work: Work, period: Arc<Period>) -> Self {
        Self { work, period, detached: false }
    }

    /// Ends the calls. A call that has begun goes on. May be called from inside the function, and more than once.
    pub fn cancel(&self) {
        self.work.disable();
    }

    /// Ends the calls, and waits under a blocking guard for a call that has begun.
    ///
    /// # Errors
    ///
    /// [`WaitError::WouldDeadlock`] from inside the function, [`WaitError::Forked`] in a forked process. In both cases
    /// nothing is cancelled.
    pub fn cancel_sync(&self) -> Result<(), WaitError> {
        self.work.disable_sync().map(drop)
    }

    /// As [`cancel_sync`](Self::cancel_sync), but waits for `timeout` at most.
    ///
    /// # Errors
    ///
    /// As [`cancel_sync`](Self::cancel_sync). [`WaitError::TimedOut`] if the call has not returned in time: the calls
    /// are ended nevertheless.
    pub fn cancel_sync_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.work.disable_sync_timeout(timeout).map(drop)
    }

    /// Lets the calls go on for as long as the process, or the queue, lives.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Returns how many calls have begun.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.period.runs()
    }

    /// Returns how many ticks passed without a call, because the call before had not ended. They are counted when that
    /// call ends.
    #[must_use]
    pub fn missed(&self) -> u64 {
        // In a forked process the count's lock may be held for ever.
        if self.work.item.origin.is_forked() { 0 } else { self.period.missed() }
    }

    /// Returns whether a worker executes the function. A hint: it may change at any time.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.work.is_running()
    }
}

impl Drop for PeriodicHandle {
    fn drop(&mut self) {
        if !self.detached {
            self.cancel();
        }
    }
}

impl fmt::Debug for PeriodicHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicHandle").field("runs", &self.runs()).field("missed", &self.missed()).finish()
    }
}
