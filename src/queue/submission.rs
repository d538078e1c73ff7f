//! [`Submission`]: the submission of one item, with options.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::time::Duration;

use crate::engine::item::periodic::{self, Schedule};
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::QueueError;
use crate::error::refused::Refused;
use crate::join::JoinHandle;
use crate::periodic::PeriodicHandle;
use crate::policy::item::Arm;
use crate::queue::WorkQueue;
use crate::queue::cancellable::Leash;
use crate::queue::options::{Options, options};
use crate::queue::permits::Permit;
use crate::work::Work;

pub(super) use self::to::To;
use self::to::places;

mod to;

/// The submission of one item, with options: see [`WorkQueue::item`].
///
/// Each submission has three options: the CPU or node ([`on_cpu`](Self::on_cpu), [`on_node`](Self::on_node)), a delay
/// ([`after`](Self::after)) and a permit ([`with`](Self::with)). The submission of a closure has four more options: a
/// name ([`named`](Self::named)), a [`token`](Self::token), a deadline ([`deadline`](Self::deadline),
/// [`within`](Self::within)) and a number of [`bytes`](Self::bytes). The options can be combined in every way and in
/// any order. A [`Work`] gets its name from [`Work::named`] instead. A `Work` takes neither a token nor a deadline,
/// because several submissions may lead to one run, and each run has [its own token](crate::cancel_token). A `Work`
/// takes no bytes, because it occupies memory even while it is not pending. One of these methods ends the submission:
///
/// | item | ended by | result |
/// |---|---|---|
/// | closure | [`spawn`](Self::spawn) | a [`JoinHandle`] |
/// | closure | [`spawn_detached`](Self::spawn_detached) | nothing, and it costs less |
/// | closure, called again and again | [`spawn_every`](Self::spawn_every) | a [`PeriodicHandle`] |
/// | [`Work`] | [`enqueue`](Self::enqueue) | whether this call made the item pending |
/// | [`Work`] | [`reschedule`](Self::reschedule) | whether a pending run was replaced |
///
/// If an option is wrong, the method that ends the submission returns an error with the closure, and changes nothing.
///
/// A closure that runs once costs one allocation more if it has a name or bytes. A closure also costs one allocation
/// more if its queue has a [hook](crate::WorkQueueBuilder::carry), or while a subscriber receives traces. A
/// [token](Self::token) or a deadline costs about four allocations.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let queue = cmwq::WorkQueue::new("reports");
/// let first = cmwq::Executor::global().cpus().first().unwrap();
/// let report = queue.item(|| "all is well").on_cpu(first).after(Duration::from_millis(2)).named("report").spawn()?;
/// assert_eq!(report.join()?, "all is well");
/// # Ok(())
/// # }
/// ```
#[must_use = "a submission does nothing until it is ended, for example by `spawn` or `enqueue`"]
pub struct Submission<'queue, I> {
    queue: &'queue WorkQueue,
    item: I,
    options: Options,
    permit: Option<Permit>,
    pub(super) leash: Leash,
    /// The number of bytes that the item keeps in memory until it begins.
    bytes: u64,
}

impl WorkQueue {
    /// Begins the submission of a closure or of a [`Work`] with options, such as a CPU or a delay. Nothing is submitted
    /// until a further method, such as [`spawn`](Submission::spawn) or [`enqueue`](Submission::enqueue), ends the
    /// submission. Without options, [`spawn`](Self::spawn), [`spawn_detached`](Self::spawn_detached) and
    /// [`enqueue`](Self::enqueue) do the same in one call.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Executor, Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("saves");
    /// let answer = queue.item(|| 42).after(Duration::from_millis(2)).spawn()?;
    /// let save = Work::new(|| println!("saved"));
    /// assert!(queue.item(&save).after(Duration::from_secs(60)).enqueue()?);
    /// assert!(queue.item(&save).reschedule()?, "now, not in a minute");
    /// assert_eq!(answer.join()?, 42);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn item<I>(&self, item: I) -> Submission<'_, I> {
        let (options, leash) = (Options::default(), Leash::default());
        Submission { queue: self, item, options, permit: None, leash, bytes: 0 }
    }
}

/// Options of closures and of reusable items.
impl<I> Submission<'_, I> {
    options!("the item", "item(|| println!(\"done\"))", "spawn_detached()");
}

impl<I> Submission<'_, I> {
    /// Queues the item in a place that was [reserved](WorkQueue::reserve), so the queue does not refuse the item for
    /// lack of a place. An item with a delay needs no place yet, so its submission gives the place back. A submission
    /// that is refused for another reason also gives its place back. If the permit is for another queue, the method
    /// that ends the submission returns [`QueueError::ForeignPermit`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::builder("uploads").max_pending(100).build()?;
    /// let permit = queue.reserve()?;
    /// let upload = queue.item(|| println!("uploaded")).with(permit).named("cat.jpg").spawn()?;
    /// # upload.join()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with(mut self, permit: Permit) -> Self {
        self.permit = Some(permit);
        self
    }
}

/// Submissions of closures.
impl<I> Submission<'_, I> {
    /// Gives the item a name. Snapshots show the name while the item runs, until the item
    /// [describes](crate::set_description) itself otherwise. When the item runs, the name costs one more allocation
    /// and one lock. [`Work::named`] gives a reusable item a name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails");
    /// let dump = || cmwq::Executor::global().dump().to_string();
    /// let snapshot = queue.item(dump).named("resizing cat.jpg").spawn()?.join()?;
    /// assert!(snapshot.contains("resizing cat.jpg"));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "set_worker_desc")]
    pub fn named<T>(mut self, name: impl Into<Cow<'static, str>>) -> Self
    where
        I: FnOnce() -> T,
    {
        self.options.name = Some(name.into());
        self
    }

    /// Queues the closure, which runs once. Returns a handle with which to join or cancel it: see [`WorkQueue::spawn`].
    /// [`JoinHandle::cancel`] also removes the timer of an item that is [delayed](Self::after).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("later");
    /// let never = queue.item(|| unreachable!()).after(Duration::from_secs(3600)).spawn()?;
    /// assert!(never.cancel());
    ///
    /// let refused = queue.item(|| "here instead").on_cpu(1 << 20).spawn().unwrap_err();
    /// assert_eq!(refused.error, cmwq::QueueError::UnknownCpu { cpu: 1 << 20 });
    /// assert_eq!((refused.into_closure())(), "here instead");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WorkQueue::spawn`], with the closure. A delayed item without bytes is never refused
    /// with [`QueueError::Full`]. Also returns the errors of [`on_cpu`](Self::on_cpu) and [`on_node`](Self::on_node).
    pub fn spawn<T>(self) -> Result<JoinHandle<T>, Refused<I>>
    where
        I: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let queue = self.queue.handle().queue();
        let (closure, places, to) = self.into_parts()?;
        to.spawn::<I, T>(places, closure)
            .map(JoinHandle::new)
            .map_err(|(error, closure)| Refused::new(queue.count_refusal(error), closure))
    }

    /// Queues the closure, which runs once, without a handle: see [`WorkQueue::spawn_detached`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let queue = cmwq::WorkQueue::new("later");
    /// queue.item(move || tell.send("a message")).after(std::time::Duration::from_millis(1)).spawn_detached()?;
    /// assert_eq!(told.recv()?, "a message");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn), with the closure.
    pub fn spawn_detached<T>(self) -> Result<(), Refused<I>>
    where
        I: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let queue = self.queue.handle().queue();
        let (closure, places, to) = self.into_parts()?;
        to.spawn_detached::<I, T>(places, closure)
            .map_err(|(error, closure)| Refused::new(queue.count_refusal(error), closure))
    }

    /// Calls the closure once in every `period` until the handle is cancelled or dropped. The first call comes after
    /// the delay that [`after`](Self::after) sets or, without that option, after one period.
    ///
    /// Calls never overlap, so the closure may change what it owns. Ticks, which are the times at which calls are due,
    /// come one period apart, so the calls do not drift. A tick is missed if the call for an earlier tick has not
    /// ended, or has not even begun, when the tick comes. A missed tick leads to no call, and is counted as missed. A
    /// panic ends only the call in which it happens.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let queue = cmwq::WorkQueue::new("heartbeat");
    /// let (beat, beats) = std::sync::mpsc::channel();
    /// let heart = queue.item(move || beat.send(()).unwrap_or(())).spawn_every(Duration::from_millis(1))?;
    /// assert_eq!(beats.iter().take(3).count(), 3);
    /// heart.cancel_and_wait()?;
    /// println!("{} beats, {} missed", heart.runs(), heart.missed());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QueueError::ZeroPeriod`] if the period is zero, or an error of [`spawn`](Self::spawn). All errors
    /// return the closure.
    pub fn spawn_every(self, period: Duration) -> Result<PeriodicHandle, Refused<I>>
    where
        I: FnMut() + Send + 'static,
    {
        let Self { queue, item: function, options, permit, leash, bytes: _ } = self;
        let places = match period {
            Duration::ZERO => Err(QueueError::ZeroPeriod),
            _ => places(queue, &options, permit),
        };
        let (place, kept) = match places {
            Ok(places) => places,
            Err(error) => return Err(Refused::new(error, function)),
        };
        let schedule = Schedule { place, first: options.after.unwrap_or(period), period };
        match periodic::spawn_every(queue.handle(), schedule, kept, (options.name, leash.token()), function) {
            Ok((item, period)) => Ok(PeriodicHandle::new(Work { item }, period)),
            Err((error, function)) => {
                Err(Refused::new(queue.handle().queue().count_refusal(error), function))
            }
        }
    }
}

/// Submissions of reusable items.
impl<I: Borrow<Work>> Submission<'_, I> {
    /// Queues the item. Returns true if this call made the item pending. If the item was pending already, returns
    /// false, and the pending run or the timer stays as it is. See [`WorkQueue::enqueue`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::{Duration, Instant};
    ///
    /// let queue = WorkQueue::new("reminders");
    /// let armed_at = Instant::now();
    /// let reminder = Work::new(move || assert!(armed_at.elapsed() >= Duration::from_millis(5)));
    /// assert!(queue.item(&reminder).after(Duration::from_millis(5)).enqueue()?);
    /// assert!(!queue.item(&reminder).after(Duration::from_secs(60)).enqueue()?, "it is armed already");
    /// assert!(reminder.is_pending());
    /// # reminder.cancel();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WorkQueue::enqueue`], and those of [`on_cpu`](Self::on_cpu) and
    /// [`on_node`](Self::on_node). If the item has a delay, [`QueueError::Full`] is returned only if the full queue
    /// still holds a cancelled submission of the same item. This refusal can happen only in an ordered queue, in a bh
    /// queue, or in a queue that is being flushed.
    pub fn enqueue(self) -> Result<bool, QueueError> {
        let Self { queue, item, options, permit, .. } = self;
        let (place, kept) = places(queue, &options, permit)?;
        let (handle, work, after) = (queue.handle(), &item.borrow().item, options.delay());
        if after.is_zero() {
            return handle.queue().queue_in(place, kept, work);
        }
        let arm = Queue::arm(handle, place, kept, after, work, false);
        let arm = arm.map_err(|error| handle.queue().count_refusal(error))?;
        Ok(matches!(arm, Arm::Armed { .. }))
    }

    /// Queues the item. If the item is pending on any queue, replaces the pending run. Returns whether a pending run
    /// was replaced.
    ///
    /// `reschedule` is suitable for debouncing. If it is called at each change, the item runs once: one
    /// [delay](Self::after) after the last change. Without a delay, the item is queued immediately, behind the items
    /// that are queued already.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let queue = WorkQueue::new("saves");
    /// let save = Work::new(|| println!("saved"));
    /// assert!(!queue.item(&save).after(Duration::from_secs(1)).reschedule()?);
    /// assert!(queue.item(&save).after(Duration::from_secs(1)).reschedule()?, "later");
    /// assert!(queue.item(&save).reschedule()?, "now");
    /// save.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`enqueue`](Self::enqueue). Also returns [`QueueError::Full`] if there is no delay,
    /// the item needs a new place, and the queue has no room. After an error, a pending run stays as it was.
    #[doc(alias = "mod_delayed")]
    #[doc(alias = "mod_delayed_work")]
    pub fn reschedule(self) -> Result<bool, QueueError> {
        let Self { queue, item, options, permit, .. } = self;
        let (place, kept) = places(queue, &options, permit)?;
        let (handle, work) = (queue.handle(), &item.borrow().item);
        let arm = Queue::arm(handle, place, kept, options.delay(), work, true);
        let arm = arm.map_err(|error| handle.queue().count_refusal(error))?;
        Ok(matches!(arm, Arm::Armed { was_pending: true }))
    }
}

impl<I> fmt::Debug for Submission<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("queue", self.queue).field("options", &self.options).finish()
    }
}
