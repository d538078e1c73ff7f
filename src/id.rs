//! Numbers that identify queues and reusable items. Handles are compared by these numbers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::cancel::CancelToken;
use crate::executor::builder::ExecutorBuilder;
use crate::queue::WorkQueue;
use crate::queue::builder::WorkQueueBuilder;
use crate::queue::permits::Permit;
use crate::queue::scope::ScopedJoinHandle;
use crate::work::Work;

/// The number of a queue. No other queue of the process ever has the same number.
///
/// # Examples
///
/// ```
/// use cmwq::WorkQueue;
///
/// let (one, other) = (WorkQueue::new("mail"), WorkQueue::new("mail"));
/// assert_eq!(one.id(), one.clone().id());
/// assert_ne!(one.id(), other.id());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(u64);

/// The number of a reusable item. No other reusable item of the process ever has the same number.
///
/// # Examples
///
/// ```
/// use cmwq::Work;
///
/// let (one, other) = (Work::new(|| ()), Work::new(|| ()));
/// assert_eq!(one.id(), one.clone().id());
/// assert_ne!(one.id(), other.id());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkId(u64);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl WorkQueue {
    /// Returns the number of the queue. All handles to the queue have this number, and are equal.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("mail");
    /// let inside = queue.spawn(|| cmwq::current_queue().unwrap())?.join()?;
    /// assert_eq!((inside.id(), &inside), (queue.id(), &queue));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn id(&self) -> QueueId {
        QueueId(self.handle().queue().id)
    }
}

impl Work {
    /// Returns the number of the item. All handles to the item have this number, and are equal.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::Work;
    /// use std::collections::HashSet;
    ///
    /// let work = Work::new(|| ());
    /// let works = HashSet::from([work.clone(), work.clone(), Work::new(|| ())]);
    /// assert!(works.len() == 2 && works.contains(&work));
    /// println!("item {}", work.id());
    /// ```
    #[must_use]
    pub fn id(&self) -> WorkId {
        WorkId(self.item.id)
    }
}

/// Two handles are equal if they refer to the same queue.
impl PartialEq for WorkQueue {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for WorkQueue {}

impl Hash for WorkQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// Two handles are equal if they refer to the same item.
impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Work {}

impl Hash for Work {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// A panic cannot leave a queue in a wrong state.
impl UnwindSafe for WorkQueue {}
impl RefUnwindSafe for WorkQueue {}

/// An item stays usable after a panic of its function: the next run calls the function again.
impl UnwindSafe for Work {}
impl RefUnwindSafe for Work {}

/// A panic cannot leave a token half cancelled.
impl UnwindSafe for CancelToken {}
impl RefUnwindSafe for CancelToken {}

/// If a panic drops a permit, the permit gives its place back.
impl UnwindSafe for Permit {}
impl RefUnwindSafe for Permit {}

/// A builder only stores its hooks, and calls none of them.
impl UnwindSafe for WorkQueueBuilder {}
impl RefUnwindSafe for WorkQueueBuilder {}

/// A builder of an executor also calls none of its hooks.
impl UnwindSafe for ExecutorBuilder {}
impl RefUnwindSafe for ExecutorBuilder {}

/// A panic cannot leave a handle in a wrong state.
impl<T> UnwindSafe for ScopedJoinHandle<'_, T> {}
impl<T> RefUnwindSafe for ScopedJoinHandle<'_, T> {}
