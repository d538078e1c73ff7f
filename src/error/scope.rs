//! Why a scope has no result.

use std::fmt;

/// Why a scope has no result. Except after a fork, no item of the scope is left: each item has run, was cancelled, or
/// was dropped.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, ScopeError, WorkQueue};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let executor = Executor::builder().build()?;
/// let queue = WorkQueue::ordered("parts").build_on(&executor)?;
/// let ((go, door), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
/// let result = queue.try_scope(|s| {
///     drop(s.spawn(move || {
///         begin.send(()).unwrap();
///         cmwq::blocking(|| door.recv())
///     }));
///     begun.recv().unwrap();
///     drop(s.spawn(|| unreachable!("there was no time")));
///     drop(executor.shutdown(Duration::ZERO));
///     drop(go);
/// });
/// assert_eq!(result, Err(ScopeError::Dropped { items: 1 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScopeError {
    /// Items of the scope were dropped before they began, because a shutdown of the executor ran out of time, or
    /// because [`destroy_now`](crate::WorkQueue::destroy_now) ended the queue. Items that were cancelled by their
    /// handles, tokens or deadlines are not counted. The result of the scope's body was dropped, too.
    Dropped {
        /// The number of items that were dropped.
        items: usize,
    },
    /// The process was forked inside the scope's body, and this is the child. The items belong to the parent.
    Forked,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped { items } => {
                write!(
                    f,
                    "{items} items of the scope never ran, because the queue was destroyed at once, or the executor's \
                     shutdown ran out of time"
                )
            }
            Self::Forked => write!(f, "the scope belongs to the process that this one was forked from"),
        }
    }
}

impl std::error::Error for ScopeError {}
