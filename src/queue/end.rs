//! Draining and destroying a queue.

use std::time::Duration;

use crate::blocking;
use crate::engine::refusal::WaitError;
use crate::queue::WorkQueue;
use crate::sys::wait::Until;

impl WorkQueue {
    /// Waits under a blocking guard until the queue is empty. Meanwhile the queue accepts only submissions by its own
    /// items, which is called chained queueing. It refuses others with
    /// [`QueueError::Draining`](crate::QueueError::Draining), and the item or closure stays as it was. Queueing an item
    /// that is pending already still returns false.
    ///
    /// Items that queue themselves again and again never let the drain end. A timer that fires meanwhile is held until
    /// the drain has ended; a timer that fires just as it ends may be queued before those. If several drains overlap,
    /// the queue refuses submissions from outside until the last one has ended. A frozen queue is drained after it has
    /// thawed.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::WorkQueue;
    ///
    /// let queue = WorkQueue::new("walk").build()?;
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
    /// [`WaitError::WouldDeadlock`] if the caller is an item of this queue, or an item that is pending on it;
    /// [`WaitError::Forked`] in a forked process. Nothing was changed.
    #[doc(alias = "drain_workqueue")]
    pub fn drain(&self) -> Result<(), WaitError> {
        blocking(|| self.handle.queue().drain(Until::FOREVER))
    }

    /// As [`drain`](Self::drain), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{WaitError, WorkQueue};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("walk").build()?;
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
    /// As [`drain`](Self::drain). [`WaitError::TimedOut`] if the queue is not empty in time: it accepts submissions
    /// again, as after any drain.
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        blocking(|| self.handle.queue().drain(Until::after(timeout)))
    }

    /// Ends the queue, and waits under a blocking guard until it is empty. Accepted items run. From the call on, only
    /// the queue's own items may submit; other submissions are refused with
    /// [`QueueError::Destroyed`](crate::QueueError::Destroyed). After it returns, every submission is refused. Armed
    /// timers of the queue are cancelled. Returns how many, without items that were cancelled before. A timer that
    /// fires during the call either fires or is cancelled; if it is cancelled just as the call returns, it is not in
    /// the number. A [`JoinHandle`](crate::JoinHandle) of its item returns the error in any case.
    ///
    /// Costs O(n) for the n timers that are armed in the whole executor; arming and firing wait for that.
    ///
    /// To give up a queue without waiting, drop its handles; nothing is lost by that. Destroy it if none of its items
    /// may run any more, while other threads may still have handles. A queue that was destroyed before stays as it is,
    /// and the call returns 0.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{QueueError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("plugin").build()?;
    /// let reminder = queue.spawn_after(Duration::from_secs(3600), || ())?;
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
    /// [`WaitError::WouldDeadlock`] if the caller is an item of this queue, or an item that is pending on it;
    /// [`WaitError::Forked`] in a forked process. Nothing was changed.
    #[doc(alias = "destroy_workqueue")]
    pub fn destroy(&self) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::FOREVER))
    }

    /// As [`destroy`](Self::destroy), but waits for `timeout` at most.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("plugin").build()?;
    /// drop(queue.spawn(|| println!("still runs"))?);
    /// assert_eq!(queue.destroy_timeout(Duration::from_secs(60)), Ok(0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`destroy`](Self::destroy). [`WaitError::TimedOut`] if the queue is not empty in time: it goes on to run its
    /// items, and to refuse submissions from outside. Call it again to continue the wait; that call returns the number
    /// of timers.
    pub fn destroy_timeout(&self, timeout: Duration) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::after(timeout)))
    }
}
