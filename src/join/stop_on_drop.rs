//! [`StopOnDrop`]: a handle that stops its item when the handle is dropped.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{JoinHandle, join_error};
use crate::engine::refusal::WaitError;
use crate::error::join::JoinError;
use crate::sys::wait::Until;

/// A handle that stops its item when the handle is dropped: see [`JoinHandle::stop_on_drop`].
///
/// A `StopOnDrop` is a future with the output of the [`JoinHandle`], and derefs to that handle. So a `StopOnDrop` also
/// has methods such as [`is_finished`](JoinHandle::is_finished) and [`stop`](JoinHandle::stop).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("pages");
/// let page = queue.spawn(|| "a page")?.stop_on_drop();
/// match page.join_timeout(Duration::from_secs(5)) {
///     Ok(page) => println!("{}", page?),
///     Err(late) => drop(late), // The item is stopped.
/// }
/// assert_eq!(queue.spawn(|| 1)?.stop_on_drop().join()?, 1);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "AbortOnDropHandle")]
#[must_use = "dropping the handle stops the item"]
pub struct StopOnDrop<T> {
    /// `None` once `detach` has taken the handle out.
    handle: Option<JoinHandle<T>>,
}

impl<T> JoinHandle<T> {
    /// Makes a handle that [stops](Self::stop) the item when the handle is dropped: the item is cancelled if it has not
    /// begun, and is asked to stop if it runs. Use such a handle for work whose result is useless once the owner of the
    /// handle is gone, such as a request whose client goes away. A plain [`JoinHandle`] detaches its item when the
    /// handle is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("pages");
    /// let page = queue.spawn(|| "a page")?.stop_on_drop();
    /// assert_eq!(page.join()?, "a page");
    ///
    /// let endless = queue.spawn(|| cmwq::cancel_token().wait())?;
    /// drop(endless.stop_on_drop()); // The client has gone.
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cancel_on_drop")]
    #[doc(alias = "abort_on_drop")]
    pub fn stop_on_drop(self) -> StopOnDrop<T> {
        StopOnDrop { handle: Some(self) }
    }
}

impl<T> StopOnDrop<T> {
    /// Waits as [`JoinHandle::join`] does. If the wait is refused, stops the item.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`JoinHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.wait()?;
        self.detach().join()
    }

    /// Waits as [`join`](Self::join) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Returns the handle if the item has not ended in time. The errors of [`join`](Self::join) are inside `Ok`.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        match self.raw.wait(Until::after(timeout)) {
            Ok(()) => Ok(self.detach().join()),
            Err(WaitError::TimedOut) => Err(self),
            Err(refused) => Ok(Err(join_error(refused))),
        }
    }

    /// Returns the plain handle. Dropping the plain handle does not stop the item.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("pages");
    /// let page = queue.spawn(|| "a page")?.stop_on_drop();
    /// drop(page.detach()); // The page will be stored for later requests.
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) -> JoinHandle<T> {
        let Some(handle) = self.handle.take() else { unreachable!("only this method takes the handle out") };
        handle
    }

    fn handle(&mut self) -> &mut JoinHandle<T> {
        self.handle.as_mut().expect("as in `detach`")
    }
}

impl<T> Deref for StopOnDrop<T> {
    type Target = JoinHandle<T>;

    fn deref(&self) -> &JoinHandle<T> {
        self.handle.as_ref().expect("as in `detach`")
    }
}

/// The future has the output of the [`JoinHandle`]. If the future is dropped before it has returned the output, the
/// item is stopped.
///
/// # Panics
///
/// A poll panics if an earlier poll has returned the result of the item.
impl<T> Future for StopOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(self.handle()).poll(context)
    }
}

impl<T> Drop for StopOnDrop<T> {
    fn drop(&mut self) {
        // In a forked process, the item belongs to the parent, so the child does not stop it.
        if let Some(handle) = self.handle.as_ref().filter(|handle| !handle.raw.is_forked()) {
            handle.stop();
        }
    }
}

impl<T> fmt::Debug for StopOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopOnDrop").field("finished", &self.is_finished()).finish()
    }
}
