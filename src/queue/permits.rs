//! [`Permit`]: a place in a queue that is reserved before there is an item.

use std::fmt;
use std::time::Duration;

use crate::engine::item::cancellation;
use crate::engine::queue::permits::{self, ReservedPlace};
use crate::engine::refusal::{Cancelled, QueueError};
use crate::error::refused::Refused;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

/// A reserved place in a queue for one submission. A submission that uses a permit already has its place, so the queue
/// does not refuse the submission as [full](QueueError::Full) for lack of a place.
///
/// [`WorkQueue::reserve`] returns a permit when the queue has room. So a caller can wait for room in the queue before
/// it makes the item, for example before it takes a job from a connection. Until a permit is used or dropped, it counts
/// towards [`max_pending`](crate::WorkQueueBuilder::max_pending), as a pending item does.
///
/// Callers that wait for permits get them in the order in which they began to wait. While callers wait for permits, the
/// queue refuses other submissions as full.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::builder("uploads").max_pending(2).build()?;
/// for name in ["a.jpg", "b.jpg", "c.jpg", "d.jpg"] {
///     let permit = queue.reserve()?;
///     let image = format!("the content of {name}"); // Loaded only when there is room for it.
///     permit.spawn_detached(move || println!("uploaded {image}"))?;
/// }
/// let permit = queue.reserve()?;
/// println!("one more upload to {}", permit.queue().name());
/// assert_eq!(permit.spawn(|| "e.jpg")?.join()?, "e.jpg");
/// # queue.flush()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a permit that is dropped gives its place back"]
pub struct Permit {
    pub(super) reserved: ReservedPlace,
}

impl WorkQueue {
    /// Waits under a [blocking guard](crate#guards) until the queue has room for one more item, and reserves a place
    /// for it. Returns immediately if the queue has room, or if neither the queue nor its executor has a
    /// [`max_pending`](crate::WorkQueueBuilder::max_pending).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::ordered("log").max_pending(1).build()?;
    /// for line in 1..=3 {
    ///     queue.reserve()?.spawn_detached(move || println!("line {line}"))?;
    /// }
    /// # queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// * [`QueueError::Draining`], [`QueueError::Destroyed`] or [`QueueError::ShutDown`] if the queue refuses
    ///   submissions of the caller, or ends while the caller waits. While a `destroy` or a shutdown still waits for
    ///   items of the queue, the caller waits, too.
    /// * [`QueueError::WouldDeadlock`] if the queue has no room, and the calling item holds the only slot in which the
    ///   items of one of the CPUs can run. The wait is refused even if items of other CPUs could make room.
    /// * [`QueueError::Forked`] in a forked process.
    #[doc(alias = "spawn_wait")]
    pub fn reserve(&self) -> Result<Permit, QueueError> {
        permits::reserve(&self.handle, Until::FOREVER).map(Permit::new)
    }

    /// Reserves a place if the queue has room for one more item now. Does not wait for room.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::QueueError;
    ///
    /// let queue = cmwq::WorkQueue::builder("uploads").max_pending(1).build()?;
    /// let permit = queue.try_reserve()?;
    /// assert_eq!(queue.try_reserve().unwrap_err(), QueueError::Full);
    /// assert_eq!(permit.spawn(|| "uploaded")?.join()?, "uploaded");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::Full`] if the queue has no room, or if other callers wait for room. Also returns the
    /// errors of [`reserve`](Self::reserve) except [`QueueError::WouldDeadlock`].
    pub fn try_reserve(&self) -> Result<Permit, QueueError> {
        permits::try_reserve(&self.handle)
            .map(Permit::new)
            .map_err(|error| self.handle.queue().count_refusal(error))
    }

    /// Reserves a place as [`reserve`](Self::reserve) does, but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::QueueError;
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::builder("uploads").max_pending(1).build()?;
    /// let permit = queue.reserve()?;
    /// assert_eq!(queue.reserve_timeout(Duration::from_millis(1)).unwrap_err(), QueueError::Full);
    /// drop(permit);
    /// queue.reserve_timeout(Duration::from_secs(1))?.spawn_detached(|| ())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reserve`](Self::reserve), and [`QueueError::Full`] if the caller gets no place before
    /// the timeout.
    pub fn reserve_timeout(&self, timeout: Duration) -> Result<Permit, QueueError> {
        let reserved = permits::reserve(&self.handle, Until::after(timeout));
        reserved.map(Permit::new).map_err(|error| self.handle.queue().count_refusal(error))
    }

    /// Reserves a place as [`reserve`](Self::reserve) does. The wait ends early if the caller is
    /// [cancelled](crate::is_cancelled).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, Cancelled};
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::builder("uploads").max_pending(1).build()?;
    /// let patience = CancelToken::new().child_within(Duration::from_millis(1));
    /// let _first = queue.reserve_cancellable()??;
    /// assert_eq!(patience.enter(|| queue.reserve_cancellable()).unwrap_err(), Cancelled::DeadlinePassed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the caller was cancelled before there was room, returns the reason of the cancel as the outer error. The
    /// errors of [`reserve`](Self::reserve) are inside `Ok`.
    pub fn reserve_cancellable(&self) -> Result<Result<Permit, QueueError>, Cancelled> {
        let Some(token) = cancellation::current_token() else { return Ok(self.reserve()) };
        permits::reserve_unless(&self.handle, &token).map(|reserved| reserved.map(Permit::new))
    }

    /// Reserves a place as [`reserve`](Self::reserve) does, for a task of an async runtime. If the queue has no room,
    /// the caller joins the line of waiting callers in this call, and not when the future is first polled. If the
    /// returned future is dropped, the caller leaves the line.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// async fn upload(queue: &cmwq::WorkQueue) -> Result<&'static str, Box<dyn std::error::Error>> {
    ///     let permit = queue.reserve_async().await?;
    ///     Ok(permit.spawn(|| "uploaded")?.await?)
    /// }
    /// let queue = cmwq::WorkQueue::builder("uploads").max_pending(1).build()?;
    /// # assert_eq!(cmwq::blocking::block_on(upload(&queue))?, "uploaded");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`reserve`](Self::reserve). The future returns [`QueueError::WouldDeadlock`]
    /// only under [`block_on`](crate::blocking::block_on).
    pub fn reserve_async(&self) -> impl Future<Output = Result<Permit, QueueError>> + Send + Sync + use<> {
        let reserved = permits::reserve_async(&self.handle);
        async { reserved.await.map(Permit::new) }
    }
}

impl Permit {
    fn new(reserved: ReservedPlace) -> Self {
        Self { reserved }
    }

    /// Queues a closure in the reserved place: see [`WorkQueue::spawn`]. To submit a closure with options, or a
    /// [`Work`](crate::Work), give the permit to [`Submission::with`](crate::Submission::with).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WorkQueue::spawn`], with the closure. After an error, the reserved place is free again.
    /// [`QueueError::Full`] is returned only if a hundred million items wait.
    pub fn spawn<F, T>(self, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let queue = self.queue();
        queue.item(closure).with(self).spawn()
    }

    /// Queues a closure in the reserved place, without a handle: see [`WorkQueue::spawn_detached`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Self::spawn).
    pub fn spawn_detached<F, T>(self, closure: F) -> Result<(), Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let queue = self.queue();
        queue.item(closure).with(self).spawn_detached()
    }

    /// Returns the queue in which the place is reserved.
    #[must_use]
    pub fn queue(&self) -> WorkQueue {
        WorkQueue { handle: self.reserved.queue().clone() }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("queue", &self.queue()).finish()
    }
}
