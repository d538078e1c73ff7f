//! Why a limit was not changed.

use std::fmt;

/// Why the limit of active items was not changed. The limit stays as it was.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{SetMaxActiveError, WorkQueue};
///
/// let queue = WorkQueue::ordered("log").build()?;
/// assert_eq!(queue.set_max_active(2), Err(SetMaxActiveError::Ordered));
/// assert_eq!(queue.max_active(), Some(1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetMaxActiveError {
    /// The queue is ordered, so it runs one item at a time, in queueing order.
    Ordered,
    /// The queue is a bh queue, which runs one item at a time on each CPU.
    Bh,
    /// The value is 0, or above the limit.
    MaxActive {
        /// The value that was given.
        value: usize,
        /// The highest value that is accepted.
        limit: usize,
    },
}

impl fmt::Display for SetMaxActiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordered => {
                write!(f, "an ordered queue runs one item at a time, in queueing order")
            }
            Self::Bh => write!(f, "a bh queue runs one item at a time on each CPU"),
            Self::MaxActive { value, limit } => {
                write!(f, "max_active is {value}; it must be 1 to {limit}")
            }
        }
    }
}

impl std::error::Error for SetMaxActiveError {}
