//! The process-wide executor, and the right to end it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::{Executor, ShutdownError, ShutdownReport};

/// The process-wide executor, as returned to the code that configured it: the right to shut it down.
///
/// All of the process uses [`Executor::global`], libraries included, and none of them may end it for the others. So
/// [`Executor::shutdown`] refuses there, and only the one value that [`build_global`] returns can do it. The value
/// cannot be cloned, so keep it where the program ends. Dropping it gives the right up, and changes nothing else: the
/// executor stays until the process ends.
///
/// It dereferences to the [`Executor`].
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use cmwq::{Executor, ShutdownError, WorkQueue};
///
/// let global = Executor::builder().build_global()?;
/// let queue = WorkQueue::new("mail").build()?;
/// queue.spawn(|| println!("sent"))?;
///
/// let refused = Executor::global().shutdown(Duration::ZERO);
/// assert_eq!(refused, Err(ShutdownError::Global));
/// let report = global.shutdown(Duration::from_secs(10))?;
/// assert!(report.is_complete(), "{report}");
/// # Ok(())
/// # }
/// ```
///
/// [`build_global`]: crate::ExecutorBuilder::build_global
pub struct GlobalExecutor {
    executor: &'static Executor,
}

impl GlobalExecutor {
    /// The caller has just made the process's executor, and makes this once.
    pub(super) fn new(executor: &'static Executor) -> Self {
        Self { executor }
    }

    /// Returns what [`Executor::global`] returns.
    #[must_use]
    pub fn executor(&self) -> &'static Executor {
        self.executor
    }

    /// Shuts the process-wide executor down, as [`Executor::shutdown`] does with others. From then on, queues that are
    /// built without an executor are refused; there is no second one in this process.
    ///
    /// # Errors
    ///
    /// As [`Executor::shutdown`], but never [`ShutdownError::Global`].
    pub fn shutdown(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        self.executor.end(timeout)
    }
}

impl Deref for GlobalExecutor {
    type Target = Executor;

    fn deref(&self) -> &Executor {
        self.executor
    }
}

impl fmt::Debug for GlobalExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GlobalExecutor").field(self.executor).finish()
    }
}
