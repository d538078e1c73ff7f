//! Errors for batches that a queue did not accept in full.

use std::fmt;

use crate::engine::refusal::QueueError;
use crate::error::refused::ByValue;

/// The reason why a queue did not accept all closures of a batch.
///
/// The closures before the refused one stay accepted. The error gives back the refused closure and all closures after
/// it, untouched. The type `A` is the type that the batch returns for its accepted closures: the closures' handles, or
/// their number.
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
/// let refused = queue.items((0..5).map(|n| move || n)).spawn().unwrap_err();
/// assert_eq!(refused.error, QueueError::Full);
/// let (mut handles, closures) = refused.into_parts();
/// assert_eq!((handles.len(), closures.len()), (3, 2));
/// open.send(())?;
/// while !queue.is_empty() {
///     queue.flush()?;
/// }
/// handles.extend(queue.items(closures).spawn()?);
/// let results: Vec<i32> = handles.into_iter().map(|handle| handle.join()).collect::<Result<_, _>>()?;
/// assert_eq!(results, [0, 1, 2, 3, 4]);
/// # busy.join()?.unwrap();
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct RefusedBatch<F, A> {
    /// Why the first of the returned closures was refused.
    pub error: QueueError,
    count: usize,
    total: usize,
    accepted: A,
    closures: ByValue<Vec<F>>,
}

impl<F, A> RefusedBatch<F, A> {
    pub(crate) fn new(error: QueueError, count: usize, accepted: A, closures: Vec<F>) -> Self {
        Self { error, count, total: count + closures.len(), accepted, closures: ByValue::new(closures) }
    }

    /// Returns the number of closures that were accepted before the refused one.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = cmwq::WorkQueue::builder("two").max_pending(1).build()?;
    /// queue.destroy().unwrap();
    /// let refused = queue.items([|| (), || ()]).spawn_detached().unwrap_err();
    /// assert_eq!(refused.accepted(), 0);
    /// # Ok::<(), cmwq::BuildQueueError>(())
    /// ```
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.count
    }

    /// Returns the handles of the accepted closures or, for a batch without handles, their number. Also returns the
    /// refused closure and all closures after it. The batch did not submit the closures after the refused one. Handles
    /// and closures have the order of the batch.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = cmwq::WorkQueue::new("no more");
    /// queue.destroy()?;
    /// let refused = queue.items((0..5).map(|n| move || n)).spawn_detached().unwrap_err();
    /// let (accepted, closures) = refused.into_parts();
    /// assert_eq!((accepted, closures.len()), (0, 5));
    /// # Ok::<(), cmwq::WaitError>(())
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (A, Vec<F>) {
        (self.accepted, self.closures.into_inner())
    }
}

impl<F, A> fmt::Debug for RefusedBatch<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusedBatch")
            .field("error", &self.error)
            .field("accepted", &self.count)
            .finish_non_exhaustive()
    }
}

impl<F, A> fmt::Display for RefusedBatch<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} items were accepted: {}", self.count, self.total, self.error)
    }
}

impl<F, A> std::error::Error for RefusedBatch<F, A> {}

/// Keeps the error, drops the refused closures and detaches the accepted items.
impl<F, A> From<RefusedBatch<F, A>> for QueueError {
    fn from(refused: RefusedBatch<F, A>) -> Self {
        refused.error
    }
}

/// The error of a batch of reusable items, if the queue refused one of them.
///
/// The items before the refused one stay queued. The batch did not submit the items after the refused one.
///
/// # Examples
///
/// ```
/// use cmwq::{QueueError, Work, WorkQueue};
///
/// let (queue, works) = (WorkQueue::new("three"), [(); 3].map(|()| Work::new(|| ())));
/// works[1].disable();
/// let error = queue.items(&works).enqueue().unwrap_err();
/// assert_eq!((error.error, error.index, error.newly_pending), (QueueError::Disabled, 1, 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EnqueueBatchError {
    /// Why the item at `index` was not accepted.
    pub error: QueueError,
    /// The index of the refused item in the batch. To continue with the refused item, enqueue `&works[index..]`.
    pub index: usize,
    /// The number of items before `index` that this call made pending. The other items before `index` were pending
    /// already.
    pub newly_pending: usize,
}

impl EnqueueBatchError {
    pub(crate) fn new(error: QueueError, index: usize, newly_pending: usize) -> Self {
        Self { error, index, newly_pending }
    }
}

impl fmt::Display for EnqueueBatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the item at index {} was not accepted: {}", self.index, self.error)
    }
}

impl std::error::Error for EnqueueBatchError {}

impl From<EnqueueBatchError> for QueueError {
    fn from(error: EnqueueBatchError) -> Self {
        error.error
    }
}
