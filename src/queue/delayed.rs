//! Queueing an item once after a delay, or once in every period.

use std::time::Duration;

use crate::engine::item::entry::ItemType;
use crate::engine::item::periodic;
use crate::engine::item::place::Place;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::QueueError;
use crate::error::{EnableError, Refused};
use crate::join::JoinHandle;
use crate::periodic::PeriodicHandle;
use crate::policy::item::Arm;
use crate::queue::WorkQueue;
use crate::work::Work;

impl WorkQueue {
    /// Queues a reusable item after `delay`. Returns true if this call made the item pending. Returns false if the item
    /// was pending already. In that case, its pending run or its timer stays as it is.
    ///
    /// The item is queued no earlier than `delay` from now, on the CPU on which the call was made. Items with equal
    /// deadlines are queued in the order of the calls. Until its deadline, the item is pending but not queued, so a
    /// [`flush`](Self::flush) of the queue does not wait for the item. If the delay is zero, the item is queued
    /// immediately. Arming a timer costs O(log n) for n armed timers. An armed timer keeps the queue and the item
    /// alive.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::{Duration, Instant};
    ///
    /// let queue = WorkQueue::new("reminders").build()?;
    /// let armed_at = Instant::now();
    /// let reminder = Work::new(move || assert!(armed_at.elapsed() >= Duration::from_millis(5)));
    /// assert!(queue.queue_delayed(&reminder, Duration::from_millis(5))?);
    /// assert!(!queue.queue_delayed(&reminder, Duration::from_secs(60))?, "it is armed already");
    /// assert!(reminder.is_pending());
    /// # reminder.cancel();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`queue`](Self::queue), except for [`QueueError::Full`]. When an armed item is due,
    /// it is queued even if the queue holds `max_pending` items. Arming an item fails with [`QueueError::Full`] only if
    /// the full queue still holds a cancelled submission of the same item. This can happen only in an ordered queue, in
    /// a bh queue, or in a queue that is being flushed.
    #[doc(alias = "queue_delayed_work")]
    #[doc(alias = "schedule_delayed_work")]
    pub fn queue_delayed(&self, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        self.queue_delayed_at(Place::Here, work, delay)
    }

    /// Queues a reusable item as [`queue_delayed`](Self::queue_delayed) does, but on the CPU `cpu`. If the executor
    /// does not use this CPU, a CPU near it serves the item: see [`queue_on`](Self::queue_on).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::per_cpu("statistics").build()?;
    /// let fold = Work::new(|| println!("folding the counters of {:?}", std::thread::current().name()));
    /// let last = Executor::global().cpus().iter().last().unwrap();
    /// assert!(queue.queue_delayed_on(last, &fold, Duration::from_millis(1))?);
    /// assert!(fold.flush()?, "now, and there");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownCpu`] if the topology has no such CPU, or an error of
    /// [`queue_delayed`](Self::queue_delayed).
    #[doc(alias = "queue_delayed_work_on")]
    #[doc(alias = "schedule_delayed_work_on")]
    pub fn queue_delayed_on(&self, cpu: usize, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        let place = self.executor().place_on_cpu(cpu)?;
        self.queue_delayed_at(place, work, delay)
    }

    fn queue_delayed_at(&self, place: Place, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        if delay.is_zero() {
            return self.handle.queue().queue(place, &work.item);
        }
        let arm = Queue::arm(&self.handle, place, delay, &work.item, false)?;
        Ok(matches!(arm, Arm::Armed { .. }))
    }

    /// Queues the item after `delay`. If the item is pending on any queue, replaces the pending run. Returns whether a
    /// pending run was replaced.
    ///
    /// This suits debouncing. If the call is made at each change, the item runs once, `delay` after the last change. If
    /// the delay is zero, the item is queued immediately, behind the items that are queued already.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("saves").build()?;
    /// let save = Work::new(|| println!("saved"));
    /// assert!(!queue.mod_delayed(&save, Duration::from_secs(1))?);
    /// assert!(queue.mod_delayed(&save, Duration::from_secs(1))?, "later");
    /// assert!(queue.mod_delayed(&save, Duration::ZERO)?, "now");
    /// save.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`queue_delayed`](Self::queue_delayed). Also returns [`QueueError::Full`] if the
    /// delay is zero, the item needs a new place, and the queue has no room. After an error, a pending run stays as it
    /// was.
    #[doc(alias = "mod_delayed_work")]
    pub fn mod_delayed(&self, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        self.mod_delayed_at(Place::Here, work, delay)
    }

    /// Queues the item as [`mod_delayed`](Self::mod_delayed) does, but on the CPU `cpu`. If the executor does not use
    /// this CPU, a CPU near it serves the item: see [`queue_on`](Self::queue_on).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, fold) = (WorkQueue::per_cpu("statistics").build()?, Work::new(|| ()));
    /// queue.queue_delayed(&fold, Duration::from_secs(60))?;
    /// let first = Executor::global().cpus().first().unwrap();
    /// assert!(queue.mod_delayed_on(first, &fold, Duration::from_millis(1))?, "it was armed");
    /// # fold.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::UnknownCpu`] if the topology has no such CPU, or an error of
    /// [`mod_delayed`](Self::mod_delayed). After an error, a pending run stays as it was.
    #[doc(alias = "mod_delayed_work_on")]
    pub fn mod_delayed_on(&self, cpu: usize, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        let place = self.executor().place_on_cpu(cpu)?;
        self.mod_delayed_at(place, work, delay)
    }

    fn mod_delayed_at(&self, place: Place, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        let arm = Queue::arm(&self.handle, place, delay, &work.item, true)?;
        Ok(matches!(arm, Arm::Armed { was_pending: true }))
    }

    /// Queues a closure that runs once, after `delay`. [`queue_delayed`](Self::queue_delayed) explains the delay, and
    /// [`spawn`](Self::spawn) explains the handle.
    ///
    /// [`JoinHandle::cancel`] cancels the item, and removes its timer.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("later").build()?;
    /// let answer = queue.spawn_after(Duration::from_millis(2), || 42)?;
    /// let never = queue.spawn_after(Duration::from_secs(3600), || unreachable!())?;
    /// assert_eq!(answer.join()?, 42);
    /// assert!(never.cancel());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`queue_delayed`](Self::queue_delayed), with the closure.
    pub fn spawn_after<F, T>(&self, delay: Duration, closure: F) -> Result<JoinHandle<T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match Queue::spawn_after(&self.handle, Place::Here, delay, closure) {
            Ok(handle) => Ok(JoinHandle::new(handle)),
            Err((error, closure)) => Err(Refused::new(error, closure)),
        }
    }

    /// Calls `function` once in every `period` until the handle is cancelled or dropped. The first call is one period
    /// from now.
    ///
    /// Calls never overlap. Ticks are at fixed times, so the calls do not drift. If the function still runs for an
    /// earlier tick, or has not begun for it yet, the new tick is missed, and is counted as missed. A panic ends only
    /// the call in which it happens.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("heartbeat").build()?;
    /// let (beat, beats) = mpsc::channel();
    /// let heart = queue.spawn_every(Duration::from_millis(1), move || beat.send(()).unwrap_or(()))?;
    /// assert_eq!(beats.iter().take(3).count(), 3);
    /// heart.cancel_sync()?;
    /// println!("{} beats, {} missed", heart.runs(), heart.missed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::ZeroPeriod`] if the period is zero, or an error of [`queue_delayed`](Self::queue_delayed).
    /// All errors return the function.
    pub fn spawn_every<F>(&self, period: Duration, function: F) -> Result<PeriodicHandle, Refused<F>>
    where
        F: Fn() + Send + Sync + 'static,
    {
        if period.is_zero() {
            return Err(Refused::new(QueueError::ZeroPeriod, function));
        }
        match periodic::spawn_every(&self.handle, ItemType::of::<F>(), period, function) {
            Ok((item, period)) => Ok(PeriodicHandle::new(Work { item }, period)),
            Err((error, function)) => Err(Refused::new(error, function)),
        }
    }

    /// Undoes one [`Work::disable`]. If this enables the item, queues the item and returns true.
    ///
    /// The run makes up for all submissions that were refused while the item was disabled.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let (queue, render) = (WorkQueue::new("frames").build()?, Work::new(|| ()));
    /// render.disable_sync()?; // No worker renders while the window is rebuilt.
    /// assert!(queue.enable_and_queue(&render)?);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the item is not disabled, or if the queue does not accept the item. In the second case, the
    /// item stays enabled.
    #[doc(alias = "enable_and_queue_work")]
    pub fn enable_and_queue(&self, work: &Work) -> Result<bool, EnableError> {
        if !work.enable()? {
            return Ok(false);
        }
        self.queue(work).map_err(EnableError::Refused)?;
        Ok(true)
    }
}
