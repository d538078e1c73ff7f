//! [`PeriodicHandle`]: the handle of a function that is called once per period.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::periodic::Period;
use crate::engine::refusal::WaitError;
use crate::work::Work;

/// The handle of a function that is called once per period: see
/// [`Submission::spawn_every`](crate::Submission::spawn_every).
///
/// Dropping the handle cancels all further calls, without waiting for a call that has begun.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("metrics");
/// let (tick, ticks) = mpsc::channel();
/// let report = queue.item(move || tick.send(()).unwrap_or(())).spawn_every(Duration::from_millis(1))?;
/// ticks.recv()?;
/// println!("{} runs, and {} ticks without a run", report.runs(), report.missed());
/// report.cancel_and_wait()?;
/// assert!(!report.is_running());
///
/// let endless = queue.item(|| println!("still there")).spawn_every(Duration::from_secs(60))?;
/// endless.detach(); // until the queue or the process ends
/// let once = queue.item(|| println!("never")).spawn_every(Duration::from_secs(60))?;
/// once.cancel();
/// once.cancel_and_wait_timeout(Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle cancels the calls; call `detach()` to let them continue"]
pub struct PeriodicHandle {
    work: Work,
    period: Arc<Period>,
    detached: bool,
}

impl PeriodicHandle {
    pub(crate) fn new(work: Work, period: Arc<Period>) -> Self {
        Self { work, period, detached: false }
    }

    /// Cancels all further calls. A call that has begun continues. The function itself may call this method, and the
    /// method may be called more than once.
    pub fn cancel(&self) {
        self.work.disable();
    }

    /// Cancels all further calls, and asks a call that has begun to stop. In that call,
    /// [`is_cancelled`](crate::is_cancelled) becomes true. This method does not wait until the call has ended, but
    /// [`cancel_and_wait`](Self::cancel_and_wait) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("polls");
    /// let poll = queue.item(|| while !cmwq::is_cancelled() {}).spawn_every(Duration::from_millis(1))?;
    /// poll.stop();
    /// poll.cancel_and_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) {
        self.work.disable();
        self.work.stop();
    }

    /// Cancels all further calls. If a call has begun, waits under a [blocking guard](crate#guards) until it has ended.
    ///
    /// # Errors
    ///
    /// Fails with [`WaitError::WouldDeadlock`] if the function itself calls this method, and with [`WaitError::Forked`]
    /// in a forked process. If the method fails, it cancels no call.
    pub fn cancel_and_wait(&self) -> Result<(), WaitError> {
        self.work.disable_and_wait().map(drop)
    }

    /// Works like [`cancel_and_wait`](Self::cancel_and_wait), but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Fails with the errors of [`cancel_and_wait`](Self::cancel_and_wait), and with [`WaitError::TimedOut`] if a call
    /// has not returned in time. All further calls stay cancelled even after a timeout.
    pub fn cancel_and_wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.work.disable_and_wait_timeout(timeout).map(drop)
    }

    /// Consumes the handle and lets the calls continue until the queue or the process ends.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Returns how many calls of the function have begun.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.period.runs()
    }

    /// Returns how many ticks were missed. A tick is a time at which a call is due. A tick is missed if no call begins
    /// at that time, because an earlier call has not ended. Missed ticks are counted when the earlier call ends.
    #[must_use]
    pub fn missed(&self) -> u64 {
        // In a forked process, the lock of the count may stay locked for ever, because a thread of the parent may have
        // held the lock at the fork.
        if self.work.item.origin.is_forked() { 0 } else { self.period.missed() }
    }

    /// Returns whether a worker executes the function now. The answer is only a hint, because it can change at any
    /// time.
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

/// A panic cannot leave a handle in a wrong state.
impl UnwindSafe for PeriodicHandle {}
impl RefUnwindSafe for PeriodicHandle {}

impl fmt::Debug for PeriodicHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeriodicHandle").field("runs", &self.runs()).field("missed", &self.missed()).finish()
    }
}
