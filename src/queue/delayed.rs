//! Queueing later, once or by the clock.

use std::time::Duration;

use crate::engine::item_type::ItemType;
use crate::engine::periodic;
use crate::engine::placement::Place;
use crate::engine::queue::Queue;
use crate::policy::item::Arm;
use crate::{EnableError, JoinHandle, PeriodicHandle, QueueError, Refused, Work, WorkQueue};

impl WorkQueue {
    /// Queues a reusable item in `delay`. True: it is pending now. False: it was pending already, to run now or later,
    /// and that stays as it is.
    ///
    /// The item is queued no earlier than asked, to the CPU that this was called on; items with equal deadlines in the
    /// order in which this was called. Until then it is pending, but not queued: a [`flush`](Self::flush) does not wait
    /// for it. No delay queues it at once. Arming costs O(log n) for n armed timers, and an armed timer keeps the queue
    /// and the item alive.
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
    /// As [`queue`](Self::queue), but for [`QueueError::Full`]: what was armed is queued when it is due, also beyond
    /// `max_pending`. There must be room only if the queue is ordered, or is being flushed, and has not reached the place of an
    /// earlier, cancelled queueing of the item.
    #[doc(alias = "queue_delayed_work")]
    #[doc(alias = "schedule_delayed_work")]
    pub fn queue_delayed(&self, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        self.queue_delayed_at(Place::Here, work, delay)
    }

    /// As [`queue_delayed`](Self::queue_delayed), to this CPU. Which one serves a CPU that the executor does not use:
    /// [`queue_on`](Self::queue_on).
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
    /// [`QueueError::UnknownCpu`] if the topology has no such CPU, and those of [`queue_delayed`](Self::queue_delayed).
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

    /// Queues a reusable item in `delay`, whatever was: a queueing that is pending, now or later and on whichever queue,
    /// is taken back. Was there one?
    ///
    /// For debouncing: called at each change, it makes the item run once, `delay` after the last one. With no delay the
    /// item is queued at once, behind what is queued already.
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
    /// As [`queue_delayed`](Self::queue_delayed). Without a delay, also [`QueueError::Full`] if the item needs another place
    /// than it has, and there is no room. What was pending stays so.
    #[doc(alias = "mod_delayed_work")]
    pub fn mod_delayed(&self, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        self.mod_delayed_at(Place::Here, work, delay)
    }

    /// As [`mod_delayed`](Self::mod_delayed), to this CPU. Which one serves a CPU that the executor does not use:
    /// [`queue_on`](Self::queue_on).
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
    /// [`QueueError::UnknownCpu`] if the topology has no such CPU, and those of [`queue_delayed`](Self::queue_delayed).
    /// What was pending stays so.
    #[doc(alias = "mod_delayed_work_on")]
    pub fn mod_delayed_on(&self, cpu: usize, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        let place = self.executor().place_on_cpu(cpu)?;
        self.mod_delayed_at(place, work, delay)
    }

    fn mod_delayed_at(&self, place: Place, work: &Work, delay: Duration) -> Result<bool, QueueError> {
        let arm = Queue::arm(&self.handle, place, delay, &work.item, true)?;
        Ok(matches!(arm, Arm::Armed { was_pending: true }))
    }

    /// Queues a closure that runs once, in `delay`. See [`queue_delayed`](Self::queue_delayed) for what that means, and
    /// [`spawn`](Self::spawn).
    ///
    /// [`JoinHandle::cancel`] takes it back, and its timer with it.
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
    /// As [`queue_delayed`](Self::queue_delayed), with the closure.
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

    /// Calls `function` every `period`, first after one period, until the handle is cancelled or dropped.
    ///
    /// Calls never overlap. Ticks are at fixed times, so the calls do not drift; a tick that comes while the function
    /// still runs, or has not begun for the tick before, is missed and counted. A panic ends that call only.
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
    /// As [`queue_delayed`](Self::queue_delayed), with the function, and [`QueueError::ZeroPeriod`].
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

    /// Takes one [`Work::disable`] back and, if it was the last one, queues the item: true if so.
    ///
    /// What was refused while the item was disabled may have been important: one run makes up for all of it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let (queue, render) = (WorkQueue::new("frames").build()?, Work::new(|| ()));
    /// render.disable_sync()?; // Nobody renders while the window is rebuilt.
    /// assert!(queue.enable_and_queue(&render)?);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If it is not disabled, or the queue does not accept it; it stays enabled then.
    #[doc(alias = "enable_and_queue_work")]
    pub fn enable_and_queue(&self, work: &Work) -> Result<bool, EnableError> {
        if !work.enable()? {
            return Ok(false);
        }
        self.queue(work).map_err(EnableError::Refused)?;
        Ok(true)
    }
}
