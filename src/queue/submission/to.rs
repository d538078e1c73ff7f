//! The number of bytes that a submission declares, and the way in which a submission queues its closure.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::item::closure::Closure;
use crate::engine::item::one_shot::handle::RawHandle;
use crate::engine::item::place::Place;
use crate::engine::item::token::{Armed, ArmedTimer, Token};
use crate::engine::item::with_options::{ClosureOptions, Name};
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
    /// Says how many bytes the closure keeps in memory until it runs, such as the length of a buffer. The executor may
    /// have a limit on the bytes of pending items ([`max_pending_bytes`](crate::ExecutorBuilder::max_pending_bytes)).
    /// Without a limit, this option has no effect. With a limit, the bytes count from the submission until the closure
    /// begins, so the bytes of a [delayed](Self::after) item count during the delay, too. If the closure never begins,
    /// its bytes count until it is dropped. By default, a closure has no bytes. If this method is called several times,
    /// the last call applies. More than 2^48 bytes count as 2^48.
    ///
    /// If there is no room for the bytes, the queue's [`when_full`](crate::WorkQueueBuilder::when_full) decides: the
    /// queue refuses the submission with [`QueueError::Full`](crate::QueueError::Full), the issuer waits, or the issuer
    /// runs the item itself. While an issuer waits for room, it occupies a place among the pending items. This wait may
    /// last until the delay of another item ends. A permit reserves no bytes. A [periodic](Self::spawn_every) item has
    /// no bytes, because it keeps its closure in memory even while it runs.
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
pub(in crate::queue) struct To<'queue> {
    pub(in crate::queue) queue: &'queue Arc<QueueHandle>,
    pub(in crate::queue) after: Duration,
    pub(in crate::queue) name: Option<Name>,
    pub(in crate::queue) token: Option<Token>,
    pub(in crate::queue) bytes: u64,
}

/// The [`Place`] (which CPU) for an item, and the place among the pending items that a permit has reserved for it, if
/// there is one.
pub(in crate::queue) type Places<'queue> = (Place, Option<Kept<'queue>>);

impl<'queue, F> Submission<'queue, F> {
    /// Checks the options of a closure. Returns the closure, its two [`Places`], and the other options.
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

impl To<'_> {
    fn is_plain(&self) -> bool {
        self.name.is_none() && self.token.is_none() && self.bytes == 0
    }

    /// Queues a closure.
    pub(in crate::queue) fn spawn<F, T>(
        self,
        (place, kept): Places<'_>,
        closure: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.is_plain() {
            return Queue::spawn_after::<F, T>(self.queue, place, kept, self.after, closure);
        }
        let Parts { queue, after, token, options, timer } = self.into_parts();
        let mut handle = Queue::spawn_after_with(queue, place, kept, after, options, closure)?;
        if let Some(token) = token {
            if let (Some(timer), Some(name)) = (timer, handle.timer()) {
                timer.is(name);
            }
            handle.set_token(token, &queue.queue().executor.upkeep.timers);
        }
        Ok(handle)
    }

    /// Queues a closure without a handle.
    pub(in crate::queue) fn spawn_detached<F, T>(
        self,
        (place, kept): Places<'_>,
        closure: F,
    ) -> Result<(), (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        if self.is_plain() {
            let spawned = Queue::spawn_detached_after::<F, T>(self.queue, place, kept, self.after, closure);
            return spawned.map(drop);
        }
        let Parts { queue, after, options, timer, .. } = self.into_parts();
        let name = Queue::spawn_detached_after_with::<F, T>(queue, place, kept, after, options, closure)?;
        if let (Some(timer), Some(name)) = (timer, name) {
            timer.is(name);
        }
        Ok(())
    }
}

/// The parts of a submission with options.
struct Parts<'queue> {
    queue: &'queue Arc<QueueHandle>,
    after: Duration,
    token: Option<Token>,
    options: ClosureOptions,
    /// Takes the name of the timer once the timer is armed. `None` if the item has no delay or no token.
    timer: Option<ArmedTimer>,
}

impl<'queue> To<'queue> {
    fn into_parts(self) -> Parts<'queue> {
        let Self { queue, after, name, token, bytes } = self;
        let after = token.as_ref().map_or(after, |token| token.delay(after));
        let armed = token.as_ref().filter(|_| !after.is_zero()).map(Armed::new);
        let timer = armed.as_ref().map(Armed::timer);
        let options = ClosureOptions { name, token: token.clone(), armed, bytes };
        Parts { queue, after, token, options, timer }
    }
}

/// Checks the options of a submission. Returns the [`Place`] (which CPU) for the item, and the place among the pending
/// items that the permit has reserved for it, if there is a permit.
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
