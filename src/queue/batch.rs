//! [`Batch`]: the submission of many items.

mod cancellable;

use std::borrow::Cow;
use std::fmt;
use std::iter;
use std::time::Duration;

use crate::engine::item::batch::{Cut, CutDetached};
use crate::engine::item::closure::Closure;
use crate::engine::item::one_shot::handle::RawHandle;
use crate::engine::item::place::Place;
use crate::engine::item::with_options::{ClosureOptions, Name};
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::QueueError;
use crate::error::batch::{EnqueueBatchError, RefusedBatch};
use crate::join::JoinHandle;
use crate::policy::item::Arm;
use crate::queue::WorkQueue;
use crate::queue::cancellable::Leash;
use crate::queue::options::{Options, options};
use crate::queue::submission;
use crate::work::Work;

/// The submission of many items: see [`WorkQueue::items`].
///
/// A batch has the options of a [`Submission`](crate::Submission), except for a [permit](crate::Permit), because a
/// permit is a place for one item. Each option applies to every item of the batch. The options can be combined in every
/// way and in any order.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("squares");
/// let first = cmwq::Executor::global().cpus().first().unwrap();
/// let squares = queue.items((1..=3).map(|n| move || n * n)).on_cpu(first).named("squaring").spawn()?;
/// let sum: i32 = squares.into_iter().map(|square| square.join()).sum::<Result<_, _>>()?;
/// assert_eq!(sum, 14);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until it is ended by `spawn`, `spawn_detached` or `enqueue`"]
pub struct Batch<'queue, C> {
    queue: &'queue WorkQueue,
    items: C,
    options: Options,
    leash: Leash,
    bytes: u64,
}

impl WorkQueue {
    /// Begins the submission of many items: an iterator of closures, or a slice or vector of [`Work`]. The items are
    /// queued in order, on one CPU. The CPU is that of the caller, unless [`on_cpu`](Batch::on_cpu) or
    /// [`on_node`](Batch::on_node) chooses another. The pool is notified once for every 256 items, or once for a
    /// shorter batch, and not once per item. Items with a delay or with bytes are submitted one by one. An item with a
    /// delay or with bytes goes to the CPU on which the caller runs when it submits this item, unless `on_cpu` or
    /// `on_node` chooses a CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares");
    /// let squares = queue.items((1..=3).map(|n| move || n * n)).spawn()?;
    /// let sum: i32 = squares.into_iter().map(|square| square.join()).sum::<Result<_, _>>()?;
    /// assert_eq!(sum, 14);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "spawn_batch")]
    #[doc(alias = "spawn_batch_detached")]
    #[doc(alias = "queue_batch")]
    pub fn items<C>(&self, items: C) -> Batch<'_, C> {
        Batch { queue: self, items, options: Options::default(), leash: Leash::default(), bytes: 0 }
    }
}

/// Options of all items of the batch.
impl<C> Batch<'_, C> {
    options!("each item", "items([|| println!(\"one\"), || println!(\"two\")])", "spawn_detached()");
}

/// Batches of closures.
impl<C: IntoIterator> Batch<'_, C> {
    /// Gives each item this name, as [`Submission::named`](crate::Submission::named) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("thumbnails");
    /// let dump = || cmwq::Executor::global().dump().to_string();
    /// for snapshot in queue.items([dump, dump]).named("resizing").spawn()? {
    ///     assert!(snapshot.join()?.contains("resizing"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn named<T>(mut self, name: impl Into<Cow<'static, str>>) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.options.name = Some(name.into());
        self
    }

    /// Says how many bytes each closure keeps in memory until it runs, as
    /// [`Submission::bytes`](crate::Submission::bytes) does. Closures with bytes are admitted one by one, and the pool
    /// is notified for each of them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().max_pending_bytes(64 << 20).build()?;
    /// let queue = cmwq::WorkQueue::builder("thumbnails").build_on(&executor)?;
    /// let tiles = (0..4).map(|_| vec![0_u8; 1 << 20]);
    /// let sizes = queue.items(tiles.map(|tile| move || tile.len())).bytes(1 << 20).spawn()?;
    /// for size in sizes {
    ///     assert_eq!(size.join()?, 1 << 20);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes<T>(mut self, bytes: u64) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.bytes = bytes;
        self
    }

    /// Queues the closures and returns their handles. Each closure runs once. The call first runs the iterator to its
    /// end, and then queues the closures. If the iterator panics, no closure is queued.
    ///
    /// # Errors
    ///
    /// If a closure is refused, the error contains the reason, which is one of those of
    /// [`Submission::spawn`](crate::Submission::spawn). The error also contains the handles of the earlier closures,
    /// which stay accepted. It gives back the refused closure and all later closures.
    #[expect(clippy::type_complexity, reason = "an alias would hide what the call returns")]
    pub fn spawn<T>(self) -> Result<Vec<JoinHandle<T>>, RefusedBatch<C::Item, Vec<JoinHandle<T>>>>
    where
        C::Item: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let queue = self.queue.handle().queue();
        let closures: Vec<C::Item> = self.items.into_iter().collect();
        let place = match self.options.place(self.queue.executor()) {
            Ok(place) => place,
            Err(error) => return Err(RefusedBatch::new(error, 0, Vec::new(), closures)),
        };
        let (after, bytes) = (self.options.delay(), self.bytes);
        let to = To { queue: self.queue, place, after, bytes, name: self.options.name, leash: &self.leash };
        let spawned = to.spawn::<C::Item, T>(closures);
        let handles = |raw: Vec<_>| raw.into_iter().map(JoinHandle::new).collect::<Vec<_>>();
        spawned.map(handles).map_err(|cut| {
            let accepted = handles(cut.accepted);
            let error = queue.count_refusals(cut.error, cut.rest.len());
            RefusedBatch::new(error, accepted.len(), accepted, cut.rest)
        })
    }

    /// Queues the closures like [`spawn`](Self::spawn), but returns no handles, and costs less. The items cannot be
    /// joined or cancelled. The worker that runs a closure also drops the closure's result. To wait until all closures
    /// have run, flush the queue.
    ///
    /// The call takes up to 256 closures from the iterator, queues them, and then takes the next ones. If the iterator
    /// panics, the closures that are already queued run, and the others are dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares");
    /// let (send, squares) = std::sync::mpsc::channel();
    /// let items = (1..=3).map(|n| {
    ///     let send = send.clone();
    ///     move || send.send(n * n)
    /// });
    /// queue.items(items).spawn_detached()?;
    /// drop(send);
    /// assert_eq!(squares.iter().sum::<i32>(), 14);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If a closure is refused, the error contains the reason, which is one of those of [`spawn`](Self::spawn). The
    /// error also contains the number of closures that were accepted earlier. It gives back the refused closure and all
    /// later closures.
    pub fn spawn_detached<T>(self) -> Result<(), RefusedBatch<C::Item, usize>>
    where
        C::Item: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let queue = self.queue.handle().queue();
        let closures = self.items.into_iter();
        let place = match self.options.place(self.queue.executor()) {
            Ok(place) => place,
            Err(error) => return Err(RefusedBatch::new(error, 0, 0, closures.collect())),
        };
        let (after, bytes) = (self.options.delay(), self.bytes);
        let to = To { queue: self.queue, place, after, bytes, name: self.options.name, leash: &self.leash };
        to.spawn_detached::<C::Item, T>(closures).map_err(|cut| {
            let error = queue.count_refusals(cut.error, cut.rest.len());
            RefusedBatch::new(error, cut.accepted, cut.accepted, cut.rest)
        })
    }
}

/// Batches of reusable items.
impl<C: AsRef<[Work]>> Batch<'_, C> {
    /// Queues the items, each as [`Submission::enqueue`](crate::Submission::enqueue) does. Returns the number of items
    /// that this call made pending. The other items were already pending.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Work, WorkQueue};
    ///
    /// let queue = WorkQueue::new("caches");
    /// let refreshes = [Work::new(|| println!("users")), Work::new(|| println!("groups"))];
    /// assert_eq!(queue.items(&refreshes).enqueue()?, 2);
    /// queue.flush()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If an item is refused, the error contains the item's index and the reason. The reasons are those of
    /// [`Submission::enqueue`](crate::Submission::enqueue). The earlier items stay queued. The call does not try the
    /// later items.
    pub fn enqueue(self) -> Result<usize, EnqueueBatchError> {
        let place = self.options.place(self.queue.executor());
        let place = place.map_err(|error| EnqueueBatchError::new(error, 0, 0))?;
        let items = self.items.as_ref();
        let works = items.iter().map(|work| &work.item);
        let (handle, after) = (self.queue.handle(), self.options.delay());
        // The refused item itself is already counted as a refusal. This closure counts the items after it.
        let cut_short = |error, index, newly_pending| {
            let error = handle.queue().count_refusals(error, items.len() - index - 1);
            EnqueueBatchError::new(error, index, newly_pending)
        };
        if after.is_zero() {
            let queued = handle.queue().queue_batch(place, works);
            return queued.map_err(|cut| cut_short(cut.error, cut.index, cut.newly_pending));
        }
        let mut newly_pending = 0;
        for (index, work) in works.enumerate() {
            match Queue::arm(handle, place, None, after, work, false) {
                Ok(arm) => newly_pending += usize::from(matches!(arm, Arm::Armed { .. })),
                Err(error) => {
                    let error = handle.queue().count_refusal(error);
                    return Err(cut_short(error, index, newly_pending));
                }
            }
        }
        Ok(newly_pending)
    }
}

/// The queue, the place and the options with which a batch queues its closures.
struct To<'batch> {
    queue: &'batch WorkQueue,
    place: Place,
    after: Duration,
    /// The number of bytes that each closure keeps in memory.
    bytes: u64,
    name: Option<Name>,
    leash: &'batch Leash,
}

impl To<'_> {
    /// Returns whether the closures are submitted one by one, because they have a delay or bytes.
    fn goes_one_by_one(&self) -> bool {
        !self.after.is_zero() || self.bytes > 0
    }

    /// Returns the queue and the options with which one closure is submitted alone.
    fn way_of_one(&self) -> submission::To<'_> {
        submission::To {
            queue: self.queue.handle(),
            after: self.after,
            name: self.name.clone(),
            token: self.leash.token(),
            bytes: self.bytes,
        }
    }

    /// Returns the options of one closure.
    fn options(&self) -> ClosureOptions {
        ClosureOptions { name: self.name.clone(), token: self.leash.token(), ..ClosureOptions::default() }
    }

    fn spawn<F, T>(self, closures: Vec<F>) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let (place, queue) = (self.place, self.queue.handle().queue());
        if self.goes_one_by_one() {
            let places = || (queue.place_of_batch(place), None);
            let one = |closure| self.way_of_one().spawn(places(), closure);
            return one_by_one(closures.into_iter(), one).map_err(|(error, accepted, rest)| Cut {
                error,
                accepted,
                rest,
            });
        }
        if self.name.is_none() && !self.leash.is_set() {
            return queue.spawn_batch(place, closures, None);
        }
        let mut tokens = Vec::new();
        let options = || {
            let options = self.options();
            tokens.extend(options.token.clone());
            options
        };
        let own = self.leash.token();
        let mut spawned = queue.spawn_batch_with(place, closures, own.as_ref(), options);
        let accepted = match &mut spawned {
            Ok(handles) => handles,
            Err(cut) => &mut cut.accepted,
        };
        for (handle, token) in accepted.iter_mut().zip(tokens) {
            handle.set_token(token, &queue.executor.upkeep.timers);
        }
        spawned
    }

    fn spawn_detached<F, T>(self, closures: impl Iterator<Item = F>) -> Result<(), CutDetached<F>>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        let (place, queue) = (self.place, self.queue.handle().queue());
        if self.goes_one_by_one() {
            let places = || (queue.place_of_batch(place), None);
            let one = |closure| self.way_of_one().spawn_detached::<F, T>(places(), closure);
            return one_by_one(closures, one).map(drop).map_err(|(error, accepted, rest)| CutDetached {
                error,
                accepted: accepted.len(),
                rest,
            });
        }
        if self.name.is_none() && !self.leash.is_set() {
            return queue.spawn_batch_detached::<F, T>(place, closures, None);
        }
        let own = self.leash.token();
        queue.spawn_batch_detached_with::<F, T>(place, closures, own.as_ref(), || self.options())
    }
}

/// The reason why a closure was refused, the results of submitting the earlier closures, and a list of the refused
/// closure and all later closures.
type Rest<H, F> = (QueueError, Vec<H>, Vec<F>);

/// Submits closures in order, and stops at the first closure that is refused.
fn one_by_one<F, H>(
    mut closures: impl Iterator<Item = F>,
    submit: impl Fn(F) -> Result<H, (QueueError, F)>,
) -> Result<Vec<H>, Rest<H, F>> {
    let mut accepted = Vec::with_capacity(closures.size_hint().0);
    while let Some(closure) = closures.next() {
        match submit(closure) {
            Ok(handle) => accepted.push(handle),
            Err((error, refused)) => {
                return Err((error, accepted, iter::once(refused).chain(closures).collect()));
            }
        }
    }
    Ok(accepted)
}

impl<C> fmt::Debug for Batch<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("queue", self.queue)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
