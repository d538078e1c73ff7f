//! [`JoinHandle`]: the handle of an item that runs once.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::engine::item::cancellation;
use crate::engine::item::one_shot::handle::RawHandle;
use crate::engine::refusal::WaitError;
use crate::error::join::{JoinError, PanicPayload};
use crate::sys::wait::Until;

pub(crate) mod fork;
pub(crate) mod stop_on_drop;

/// The handle of an item that runs once. If the handle is dropped, the item still runs, unless the handle was made to
/// [stop the item](JoinHandle::stop_on_drop).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::JoinError;
///
/// let queue = cmwq::WorkQueue::new("joins");
/// let sum = queue.spawn(|| 1 + 1)?;
/// queue.flush()?;
/// assert!(sum.is_finished());
/// assert_eq!(sum.join()?, 2);
/// let error = queue.spawn(|| panic!("oh no"))?.join().unwrap_err();
/// assert!(matches!(error, JoinError::Panicked(_)));
/// assert_eq!(error.to_string(), "the item panicked: oh no");
/// # Ok(())
/// # }
/// ```
pub struct JoinHandle<T> {
    raw: RawHandle<T>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(raw: RawHandle<T>) -> Self {
        Self { raw }
    }

    /// Returns whether the item has ended or was cancelled.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.raw.has_finished()
    }

    /// Waits under a blocking guard until the item ends, and returns its result. Everything that the run does happens
    /// before this call returns.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::JoinError;
    ///
    /// let queue = cmwq::WorkQueue::new("joins");
    /// match queue.spawn(|| "12".parse::<u32>().unwrap())?.join() {
    ///     Ok(number) => assert_eq!(number, 12),
    ///     Err(JoinError::Panicked(panic)) => std::panic::resume_unwind(panic.into_inner()),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`JoinError::Panicked`] with the payload, if the item panicked.
    /// * [`JoinError::Cancelled`] if the item was cancelled before it began, and [`JoinError::DeadlinePassed`] if its
    ///   deadline had passed before it began.
    /// * [`JoinError::WouldDeadlock`] if the caller is the item, or holds the only slot in which the item can run. If
    ///   the item has a deadline, a caller that holds the only slot waits until the deadline instead.
    /// * [`JoinError::Forked`] in a forked process, if the item had not ended before the fork.
    pub fn join(mut self) -> Result<T, JoinError> {
        self.wait()?;
        self.result()
    }

    /// Waits until the item has ended. In contrast to [`join`](Self::join), keeps the handle if the wait is refused.
    pub(crate) fn wait(&self) -> Result<(), JoinError> {
        self.raw.wait(Until::FOREVER).map_err(join_error)
    }

    /// Waits as [`join`](Self::join) does, but for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("patience");
    /// let (go, wait) = mpsc::channel::<u32>();
    /// let handle = queue.spawn(move || cmwq::blocking(|| wait.recv()))?;
    /// let handle = handle.join_timeout(Duration::from_millis(1)).unwrap_err();
    /// go.send(7)?;
    /// assert_eq!(handle.join()??, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the handle if the item has not ended in time. The errors of [`join`](Self::join) are inside `Ok`.
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<T, JoinError>, Self> {
        self.join_until(Until::after(timeout))
    }

    pub(crate) fn join_until(mut self, until: Until) -> Result<Result<T, JoinError>, Self> {
        match self.raw.wait(until) {
            Ok(()) => Ok(self.result()),
            Err(WaitError::TimedOut) => Err(self),
            Err(error) => Ok(Err(join_error(error))),
        }
    }

    /// Cancels the item if it has not begun. Returns whether this call has cancelled the item. After a call that
    /// returns true, the item's closure has been dropped, and a join returns [`JoinError::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::ordered("one").build()?;
    /// let first = queue.spawn(|| cmwq::blocking(|| std::thread::sleep(std::time::Duration::from_millis(5))))?;
    /// let second = queue.spawn(|| unreachable!("it was cancelled"))?;
    /// if second.cancel() {
    ///     assert!(matches!(second.join(), Err(cmwq::JoinError::Cancelled)));
    /// }
    /// # first.join()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> bool {
        self.raw.cancel()
    }

    /// Cancels the item if it has not begun, as [`cancel`](Self::cancel) does. If the item runs, asks the item to stop:
    /// in the item, [`is_cancelled`](crate::is_cancelled) becomes true, and the item's [token](crate::cancel_token) is
    /// cancelled. Returns whether the item was cancelled before it began.
    ///
    /// After the request to stop, a [join](Self::join) still returns the item's result, as for any other item.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::blocking::channel;
    ///
    /// let queue = cmwq::WorkQueue::new("readers");
    /// let (_send, receive) = channel::unbounded::<u32>();
    /// let reader = queue.spawn(move || receive.recv_cancellable())?; // no message ever comes
    /// reader.stop();
    /// println!("{:?}", reader.join());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "kthread_stop")]
    #[doc(alias = "abort")]
    pub fn stop(&self) -> bool {
        self.raw.stop()
    }

    /// Waits as [`join`](Self::join) does, but only until the calling item is [cancelled](crate::is_cancelled).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let endless = WorkQueue::new("service").spawn(|| cmwq::cancel_token().wait())?;
    /// let patience = CancelToken::new().child_within(Duration::from_millis(1));
    /// let endless = patience.enter(|| endless.join_cancellable()).unwrap_err();
    /// endless.stop();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the handle if the calling item was cancelled before the awaited item had ended. The errors of
    /// [`join`](Self::join) are inside `Ok`.
    pub fn join_cancellable(mut self) -> Result<Result<T, JoinError>, Self> {
        let Some(token) = cancellation::current_token() else { return Ok(self.join()) };
        match self.raw.wait_unless(&token) {
            Ok(true) => Ok(self.result()),
            Ok(false) => Err(self),
            Err(error) => Ok(Err(join_error(error))),
        }
    }

    fn result(&mut self) -> Result<T, JoinError> {
        match self.raw.take_result() {
            Some(result) => result.map_err(|payload| JoinError::Panicked(PanicPayload::new(payload))),
            None if self.raw.is_late() => Err(JoinError::DeadlinePassed),
            None => Err(JoinError::Cancelled),
        }
    }
}

pub(crate) fn join_error(error: WaitError) -> JoinError {
    if error == WaitError::Forked { JoinError::Forked } else { JoinError::WouldDeadlock }
}

/// A handle can be awaited from any runtime. The output is the result of [`join`](JoinHandle::join). A task that waits
/// holds no thread. So the error [`JoinError::WouldDeadlock`] is possible only under
/// [`block_on`](crate::blocking::block_on), which holds a thread. Dropping the handle, or a future that awaits it,
/// detaches the item, which still runs.
///
/// The thread that ends the item calls the task's waker, and contains a panic of the waker. A waker should not wait for
/// items or for room in a queue. The thread that calls the waker may hold an item that it is about to start or to
/// complete, and a waker that waits for this item waits for ever.
///
/// # Panics
///
/// A poll panics if an earlier poll has returned the result of the item.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// async fn thumbnail(image: Vec<u8>) -> Result<usize, Box<dyn std::error::Error>> {
///     let queue = cmwq::WorkQueue::new("thumbnails");
///     Ok(queue.spawn(move || image.len() / 2)?.await?)
/// }
/// # assert_eq!(cmwq::blocking::block_on(thumbnail(vec![0; 64]))?, 32);
/// # Ok(())
/// # }
/// ```
impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.raw.poll(context.waker()) {
            Poll::Ready(Ok(())) => Poll::Ready(self.result()),
            Poll::Ready(Err(error)) => Poll::Ready(Err(join_error(error))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The handle does not contain the result, so the handle may move.
impl<T> Unpin for JoinHandle<T> {}

/// A panic cannot leave a handle in a wrong state.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
