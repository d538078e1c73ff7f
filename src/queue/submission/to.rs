//! The bytes of a submission, and the way of its closure into the queue.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::closure::{Closure, Name, Weighed};
use crate::engine::item::one_shot::handle::RawHandle;
use crate::engine::item::place::Place;
use crate::engine::item::timers::{TimerName, Timers};
use crate::engine::item::token::Token;
use crate::engine::queue::places::Kept;
use crate::engine::queue::workqueue::{Queue, QueueHandle};
use crate::engine::refusal::QueueError;
use crate::error::refused::Refused;
use crate::queue::WorkQueue;
use crate::queue::options::Options;
use crate::queue::permits::Permit;

use super::Submission;

/// Submissions of closures that keep much memory.
impl<I> Submission<'_, I> {
    /// Says how many bytes the closure keeps in memory until it runs, such as the length of a buffer. If the executor
    /// has a limit on the bytes of pending items
    /// ([`max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes)), the bytes count from the submission until
    /// the closure begins. If it never begins, they count until it is dropped. So those of a [delayed](Self::after)
    /// item count during the delay, too. Without a limit, this option has no effect. By default, a closure has no
    /// bytes. Of several calls, the last one applies. More than 2^48 bytes count as 2^48.
    ///
    /// If there is no room for the bytes, the submission is refused with [`QueueError::Full`], waits, or lets the
    /// issuer run the item, as the queue's [`when_full`](crate::WorkQueueBuilder::when_full) says. An issuer that waits
    /// occupies a place among the pending items meanwhile, and may have to wait until a delay ends. A permit reserves
    /// no bytes. A [periodic](Self::spawn_every) item has none, because it keeps its closure while it runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().max_pending_bytes(64 << 20).build()?;
    /// let queue = cmwq::WorkQueue::builder("thumbnails").build_on(&executor)?;
    /// let image = vec![0_u8; 1 << 20];
    /// let bytes = image.len() as u64;
    /// let size = queue.item(move || image.len()).bytes(bytes).spawn()?;
    /// assert_eq!(size.join()?, 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bytes<T>(mut self, bytes: u64) -> Self
    where
        I: FnOnce() -> T,
    {
        self.bytes = bytes;
        self
    }
}

/// The queue, the delay, the name, the token and the bytes with which a closure is queued.
#[derive(Clone)]
pub(in crate::queue) struct To<'queue> {
    queue: &'queue Arc<QueueHandle>,
    pub(in crate::queue) after: Duration,
    pub(super) name: Option<Name>,
    pub(super) token: Option<Token>,
    bytes: u64,
}

/// The place for an item, and its reserved place among the pending items.
pub(in crate::queue) type Places<'queue> = (Place, Option<Kept<'queue>>);

impl<'queue, F> Submission<'queue, F> {
    /// Checks the options of a closure. Returns the closure, its places, and the other options.
    pub(super) fn into_parts(self) -> Result<(F, Places<'queue>, To<'queue>), Refused<F>> {
        let Self { queue, item: closure, options, permit, leash, bytes } = self;
        match places(queue, &options, permit) {
            Ok(places) => {
                let (queue, after) = (queue.handle(), options.delay());
                Ok((closure, places, To { queue, after, name: options.name, token: leash.token(), bytes }))
            }
            Err(error) => Err(Refused::new(error, closure)),
        }
    }
}

impl<'queue> To<'queue> {
    /// Leads to this queue after a delay, with these bytes and without any other option.
    pub(in crate::queue) fn new(queue: &'queue WorkQueue, after: Duration, bytes: u64) -> Self {
        Self { queue: queue.handle(), after, name: None, token: None, bytes }
    }

    /// Returns the timers of the queue's executor.
    pub(in crate::queue) fn timers(&self) -> &'queue Arc<Timers> {
        &self.queue.queue().executor.upkeep.timers
    }

    /// Queues a closure with its bytes.
    pub(in crate::queue) fn spawn<C, T>(
        self,
        (place, kept): Places<'_>,
        closure: C,
    ) -> Result<RawHandle<T>, (QueueError, C)>
    where
        C: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let Self { queue, after, bytes, .. } = self;
        if bytes == 0 {
            return Queue::spawn_after::<C, T>(queue, place, kept, after, closure);
        }
        let weighed = Weighed::new(bytes, closure);
        Queue::spawn_after::<Weighed<C>, T>(queue, place, kept, after, weighed)
            .map_err(|(error, weighed)| (error, weighed.closure))
    }

    /// Queues a closure with its bytes, without a handle.
    pub(in crate::queue) fn spawn_detached<C, T>(
        self,
        (place, kept): Places<'_>,
        closure: C,
    ) -> Result<Option<TimerName>, (QueueError, C)>
    where
        C: Closure<T> + Send + 'static,
        T: 'static,
    {
        let Self { queue, after, bytes, .. } = self;
        if bytes == 0 {
            return Queue::spawn_detached_after::<C, T>(queue, place, kept, after, closure);
        }
        let weighed = Weighed::new(bytes, closure);
        Queue::spawn_detached_after::<Weighed<C>, T>(queue, place, kept, after, weighed)
            .map_err(|(error, weighed)| (error, weighed.closure))
    }
}

/// Checks the options. Returns the place for the item, and its reserved place among the pending items.
pub(super) fn places<'queue>(
    queue: &'queue WorkQueue,
    options: &Options,
    permit: Option<Permit>,
) -> Result<Places<'queue>, QueueError> {
    let place = options.place(queue.executor())?;
    match permit {
        None => Ok((place, None)),
        Some(permit) if permit.queue() == *queue => {
            Ok((place, Some(permit.reserved.hand_over(queue.handle().queue()))))
        }
        Some(_) => Err(QueueError::ForeignPermit),
    }
}
