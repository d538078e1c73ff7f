//! Why a queue's limit of active items, or its weight, was not changed.

use std::fmt;

/// Why a queue's limit of active items was not changed. The limit stays as it was.
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

/// Why the weight of a queue was not changed. The weight stays as it was.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{SetWeightError, WorkQueue};
///
/// let queue = WorkQueue::new("thumbnails");
/// assert_eq!(queue.set_weight(200), Err(SetWeightError::Unweighted));
/// assert_eq!(queue.weight(), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetWeightError {
    /// The queue was built without a weight.
    Unweighted,
    /// The value is 0, or above the limit.
    Weight {
        /// The value that was given.
        value: u32,
        /// The highest value that is accepted.
        limit: u32,
    },
}

impl fmt::Display for SetWeightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unweighted => write!(f, "the queue was built without a weight, so it cannot get one now"),
            Self::Weight { value, limit } => write!(f, "weight is {value}; it must be 1 to {limit}"),
        }
    }
}

impl std::error::Error for SetWeightError {}
