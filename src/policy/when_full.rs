//! The behaviour of a queue that has no room for a submission.

#![forbid(unsafe_code)]

/// The behaviour of a queue when it has no room for a submission.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{WhenFull, WorkQueue};
///
/// let log = WorkQueue::ordered("log").max_pending(2).when_full(WhenFull::Wait).build()?;
/// for line in 1..=100 {
///     log.spawn_detached(move || println!("line {line}"))?; // Waits for room, and is never refused as full.
/// }
/// let thumbnails = WorkQueue::builder("thumbnails").max_pending(2).when_full(WhenFull::CallerRuns).build()?;
/// for image in 1..=100 {
///     thumbnails.spawn_detached(move || println!("thumbnail of {image}"))?; // May draw a thumbnail itself.
/// }
/// # log.flush()?;
/// # thumbnails.flush()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WhenFull {
    /// The queue refuses the submission with [`QueueError::Full`](crate::QueueError::Full).
    #[default]
    Refuse,
    /// The submitting call waits for room under a blocking guard, in the same line as the callers of
    /// [`reserve`](crate::WorkQueue::reserve). Submissions that wait for room for their
    /// [bytes](crate::Submission::bytes) have a line of their own. The queue refuses a submission by one of its own
    /// items, because there may be no room before that item ends. The queue also refuses a submission by a hook on the
    /// manager's thread, because workers and timers need that thread. A submission with a
    /// [token](crate::Submission::token) or a [deadline](crate::Submission::deadline) waits for room at most until the
    /// token is cancelled or the deadline has passed. After that, the queue refuses the submission.
    Wait,
    /// The submitting call runs the item itself, in one of the queue's [slots](crate::WorkQueueBuilder::max_active). If
    /// no slot is free, the call waits for room, or is refused, as with [`Wait`](Self::Wait). So issuers that are too
    /// fast slow down, and do useful work in the meantime.
    ///
    /// The item is an item of the queue in every way: it is counted and traced, it can be cancelled, and flushes and
    /// drains of the queue wait for it. If the item panics, the panic goes to its handle. But the item runs before the
    /// submitting call returns, on the caller's thread, with that thread's name, CPUs, nice level and stack. So do not
    /// hold a lock during the call if the item takes that lock. The item may overtake items that were queued before it.
    ///
    /// In these cases, the submitting call does not run the item, but waits for room or is refused:
    ///
    /// * The submission is part of a [batch](crate::WorkQueue::items), or names a [CPU](crate::Submission::on_cpu) or a
    ///   [node](crate::Submission::on_node).
    /// * The [`Work`](crate::Work) runs already, or is queued with [`reschedule`](crate::Submission::reschedule).
    /// * The item is periodic.
    /// * The caller is an item that its issuer runs inside a submitting call. So the stack of a thread holds at most
    ///   two items at a time.
    /// * The item has a delay, and there is no room for its [bytes](crate::Submission::bytes).
    /// * The caller's thread unwinds from a panic.
    /// * The queue is being drained, its attributes have become strict, or its attributes leave out CPUs of the
    ///   executor.
    ///
    /// Per-CPU queues, and queues with [strict](crate::Attrs::strict) attributes, cannot have this setting, because a
    /// caller may be on any CPU. Ordered and bh queues cannot have it either, because their items run one at a time,
    /// in order.
    #[doc(alias = "CallerRunsPolicy")]
    CallerRuns,
}
