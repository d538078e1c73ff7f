//! Draining and destroying a queue.

use std::time::Duration;

use crate::blocking;
use crate::engine::refusal::WaitError;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl WorkQueue {
    /// Waits under a [blocking guard](crate#guards) until the queue is empty. During the drain, the queue accepts only
    /// submissions by its own items, which is called chained queueing. The queue refuses all other submissions, which
    /// come *from outside*, with [`QueueError::Draining`](crate::QueueError::Draining). A refused item or closure stays
    /// as it was. A submission of an item that is already pending still returns false, and is not refused.
    ///
    /// If an item queues itself again and again, the drain never ends. A timer that fires during the drain is *held*:
    /// its item is queued only when the drain has ended. So an item of the queue must not join an item whose timer is
    /// held. But it may [flush](crate::Work::flush) a reusable item whose timer is held, because the flush queues the
    /// reusable item immediately. If another timer fires just as the drain ends, its item may be queued before the
    /// items of the held timers. If several drains overlap, the queue refuses submissions from outside until the last
    /// one has ended. If the queue is frozen, its waiting items start only after it has thawed, and the drain waits for
    /// them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::WorkQueue;
    ///
    /// let queue = WorkQueue::new("walk");
    /// let again = queue.clone();
    /// queue.spawn(move || drop(again.spawn(|| println!("a later step"))))?;
    /// queue.drain()?;
    /// assert!(queue.is_empty(), "the later step was waited for, too");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the calling item belongs to this queue, is pending on this queue, or
    /// occupies a bh thread that the queue's items need. Returns [`WaitError::Forked`] in a forked process. In both
    /// cases, the call changes nothing.
    #[doc(alias = "drain_workqueue")]
    pub fn drain(&self) -> Result<(), WaitError> {
        blocking(|| self.handle.drain(Until::FOREVER))
    }

    /// Drains the queue as [`drain`](Self::drain) does, but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{WaitError, WorkQueue};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("walk");
    /// let (go, door) = mpsc::channel::<()>();
    /// let busy = queue.spawn(move || cmwq::blocking(|| door.recv()))?;
    /// assert_eq!(queue.drain_timeout(Duration::from_millis(1)), Err(WaitError::TimedOut));
    /// queue.spawn(|| ())?.join()?; // It accepts items again.
    /// go.send(())?;
    /// queue.drain()?;
    /// # busy.join()?.unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`drain`](Self::drain). Returns [`WaitError::TimedOut`] if the queue is not empty in
    /// time. After a timeout, the queue accepts submissions again, as after any drain.
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        blocking(|| self.handle.drain(Until::after(timeout)))
    }

    /// Ends the queue, and waits under a blocking guard until the queue is empty. Items that the queue has accepted
    /// still run. From the call on, the queue accepts only submissions by its own items, and refuses all others with
    /// [`QueueError::Destroyed`](crate::QueueError::Destroyed). After the call has returned, the queue refuses every
    /// submission. The call cancels the queue's armed timers and returns their number. A timer does not count if its
    /// item was already cancelled before. If a timer becomes due during the call, it either fires or is cancelled. A
    /// timer that is cancelled just as the call returns may be missing from the number. The
    /// [`JoinHandle`](crate::JoinHandle) of an item whose timer was cancelled returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled), whether or not the timer was counted.
    ///
    /// The call costs O(n) for the n timers that are armed in the whole executor. While it searches these timers, other
    /// threads that arm or fire timers wait.
    ///
    /// To give up a queue without waiting, drop its handles. Its accepted items then still run. Call `destroy` to
    /// ensure that no item of the queue runs any more, even if other threads still hold handles to the queue. If the
    /// queue was destroyed before, the call changes nothing and returns 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("plugin");
    /// let reminder = queue.item(|| ()).after(Duration::from_secs(3600)).spawn()?;
    /// queue.spawn(|| println!("still runs"))?;
    /// assert_eq!(queue.destroy()?, 1, "the reminder");
    /// assert!(matches!(reminder.join(), Err(cmwq::JoinError::Cancelled)));
    /// assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Destroyed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`WaitError::WouldDeadlock`] if the calling item belongs to this queue, is pending on this queue, or
    /// occupies a bh thread that the queue's items need. Returns [`WaitError::Forked`] in a forked process. In both
    /// cases, the call changes nothing. There is one exception: if an item of the queue queues the calling item again
    /// during the wait, the call returns `WouldDeadlock`, and the queue refuses submissions as after a timeout.
    #[doc(alias = "destroy_workqueue")]
    pub fn destroy(&self) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::FOREVER))
    }

    /// Destroys the queue as [`destroy`](Self::destroy) does, but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("plugin");
    /// drop(queue.spawn(|| println!("still runs"))?);
    /// assert_eq!(queue.destroy_timeout(Duration::from_secs(60)), Ok(0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`destroy`](Self::destroy). Returns [`WaitError::TimedOut`] if the queue is not empty
    /// in time. After a timeout, the queue still runs its items, and still refuses submissions from outside. Call
    /// `destroy` or `destroy_timeout` again to continue the wait. The later call returns the number of cancelled
    /// timers.
    pub fn destroy_timeout(&self, timeout: Duration) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::after(timeout)))
    }
}
