//! Draining and destroying a queue.

use std::time::Duration;

use crate::sys::wait::Until;
use crate::{WaitError, WorkQueue, blocking};

impl WorkQueue {
    /// Waits, under a blocking guard, until the queue is empty, and meanwhile lets only its own items queue to it; that
    /// is called chained queueing. Others are refused with [`QueueError::Draining`](crate::QueueError::Draining): what
    /// they wanted to queue is untouched. An item that is pending is still found pending by everybody.
    ///
    /// Items that queue themselves again and again never let it end. A timer that fires meanwhile is held until the
    /// drain has ended; one that fires just then may come before it. Several drains at once are possible: outsiders are
    /// refused until the last one has ended. A frozen queue is drained when it has thawed.
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
    /// [`WaitError::WouldDeadlock`] if the caller is an item of this queue, or one that is pending on it;
    /// [`WaitError::Forked`] in a forked process. Nothing was changed.
    #[doc(alias = "drain_workqueue")]
    pub fn drain(&self) -> Result<(), WaitError> {
        blocking(|| self.handle.queue().drain(Until::FOREVER))
    }

    /// As [`drain`](Self::drain), for so long at most.
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
    /// As [`drain`](Self::drain), and [`WaitError::TimedOut`]: then the queue accepts items again, as after any drain.
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        blocking(|| self.handle.queue().drain(Until::after(timeout)))
    }

    /// Ends the queue, under a blocking guard: what was accepted runs, and from the call on all others than its own items
    /// are refused with [`QueueError::Destroyed`](crate::QueueError::Destroyed); when it returns, everybody is, for ever.
    /// Armed timers of the queue come to nothing: returns how many, apart from items that were cancelled before.
    ///
    /// Costs O(n) for the n timers that are armed in the whole executor; arming and firing wait for that.
    ///
    /// To let go of a queue, drop its handles; nothing is lost by that. Destroying is for those who must know that
    /// nothing of it runs any more, while others may still have handles. A queue that was destroyed before is left as it
    /// is, and 0 returned.
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
    /// [`WaitError::WouldDeadlock`] if the caller is an item of this queue, or one that is pending on it;
    /// [`WaitError::Forked`] in a forked process. Nothing was changed.
    #[doc(alias = "destroy_workqueue")]
    pub fn destroy(&self) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::FOREVER))
    }

    /// As [`destroy`](Self::destroy), for so long at most.
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
    /// As [`destroy`](Self::destroy), and [`WaitError::TimedOut`]: then the queue goes on to run what it has, and to
    /// refuse all others than its own items. Call it again to wait on; the timers are counted then.
    pub fn destroy_timeout(&self, timeout: Duration) -> Result<usize, WaitError> {
        blocking(|| self.handle.queue().destroy(Until::after(timeout)))
    }
}
