//! Errors for batches that a queue did not accept in full.

use std::fmt;

use crate::engine::refusal::QueueError;
use crate::join::JoinHandle;

/// Why not all closures of a batch were accepted.
///
/// The closures before the refused one stay accepted. The error gives back the refused closure and all closures after
/// it, untouched.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{QueueError, WorkQueue};
/// use std::sync::mpsc;
///
/// let queue = WorkQueue::ordered("three at most").max_pending(3).build()?;
/// let (open, door) = mpsc::channel::<()>();
/// let (began, has_begun) = mpsc::channel();
/// let busy = queue.spawn(move || {
///     began.send(()).unwrap();
///     cmwq::blocking(|| door.recv())
/// })?;
/// has_begun.recv()?;
/// let mut refused = queue.spawn_batch((0..5).map(|n| move || n)).unwrap_err();
/// assert_eq!(refused.error, QueueError::Full);
/// assert_eq!((refused.accepted.len(), refused.closures.len()), (3, 2));
/// open.send(())?;
/// let mut results = Vec::new();
/// for accepted in refused.accepted {
///     results.push(accepted.join()?);
/// }
/// for again in queue.spawn_batch(refused.closures)? {
///     results.push(again.join()?);
/// }
/// assert_eq!(results, [0, 1, 2, 3, 4]);
/// # busy.join()?.unwrap();
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct RefusedBatch<F, T> {
    /// Why the first of `closures` was refused.
    pub error: QueueError,
    /// The handles of the accepted closures, in the order of the batch.
    pub accepted: Vec<JoinHandle<T>>,
    /// The refused closure, and the closures after it, which were not tried.
    pub closures: Vec<F>,
}

impl<F, T> RefusedBatch<F, T> {
    pub(crate) fn new(error: QueueError, accepted: Vec<JoinHandle<T>>, closures: Vec<F>) -> Self {
        Self { error, accepted, closures }
    }
}

impl<F, T> fmt::Debug for RefusedBatch<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedBatch")
            .field("error", &self.error)
            .field("accepted", &self.accepted.len())
            .field("closures", &self.closures.len())
            .finish()
    }
}

impl<F, T> fmt::Display for RefusedBatch<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_refused(f, self.accepted.len(), self.closures.len(), self.error)
    }
}

impl<F, T> std::error::Error for RefusedBatch<F, T> {}

/// Keeps the error, drops the refused closures and detaches the accepted items.
impl<F, T> From<RefusedBatch<F, T>> for QueueError {
    fn from(refused: RefusedBatch<F, T>) -> Self {
        refused.error
    }
}

/// Why not all closures of a batch without handles were accepted.
///
/// The closures before the refused one stay accepted. The error gives back the refused closure and all closures after
/// it, untouched.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{QueueError, WorkQueue};
///
/// let queue = WorkQueue::new("no more").build()?;
/// queue.destroy()?;
/// let refused = queue.spawn_batch_detached((0..5).map(|n| move || n)).unwrap_err();
/// assert_eq!(refused.error, QueueError::Destroyed);
/// assert_eq!((refused.accepted, refused.closures.len()), (0, 5));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct RefusedDetachedBatch<F> {
    /// Why the first of `closures` was refused.
    pub error: QueueError,
    /// The number of closures that were accepted before the refused one.
    pub accepted: usize,
    /// The refused closure, and the closures after it, which were not tried.
    pub closures: Vec<F>,
}

impl<F> RefusedDetachedBatch<F> {
    pub(crate) fn new(error: QueueError, accepted: usize, closures: Vec<F>) -> Self {
        Self { error, accepted, closures }
    }
}

impl<F> fmt::Debug for RefusedDetachedBatch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedDetachedBatch")
            .field("error", &self.error)
            .field("accepted", &self.accepted)
            .field("closures", &self.closures.len())
            .finish()
    }
}

impl<F> fmt::Display for RefusedDetachedBatch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_refused(f, self.accepted, self.closures.len(), self.error)
    }
}

impl<F> std::error::Error for RefusedDetachedBatch<F> {}

/// Keeps the error and drops the closures.
impl<F> From<RefusedDetachedBatch<F>> for QueueError {
    fn from(refused: RefusedDetachedBatch<F>) -> Self {
        refused.error
    }
}

fn write_refused(
    f: &mut fmt::Formatter<'_>,
    accepted: usize,
    refused: usize,
    error: QueueError,
) -> fmt::Result {
    write!(f, "{accepted} of {} items were accepted: {error}", accepted + refused)
}

/// Why not all items of a batch of reusable items were accepted.
///
/// The items before the refused one stay queued. The items after it were not tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QueueBatchError {
    /// Why the item at `index` was not accepted.
    pub error: QueueError,
    /// The index of the refused item. To continue from there, queue `&works[index..]`.
    pub index: usize,
    /// The number of items before `index` that this call made pending. The other items before `index` were pending
    /// already.
    pub newly_pending: usize,
}

impl QueueBatchError {
    pub(crate) fn new(error: QueueError, index: usize, newly_pending: usize) -> Self {
        Self { error, index, newly_pending }
    }
}

impl fmt::Display for QueueBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the item at index {} was not accepted: {}", self.index, self.error)
    }
}

impl std::error::Error for QueueBatchError {}

impl From<QueueBatchError> for QueueError {
    fn from(error: QueueBatchError) -> Self {
        error.error
    }
}
