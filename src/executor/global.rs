//! The process-wide executor, and the right to end it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::engine::refusal::ShutdownError;
use crate::executor::Executor;
use crate::executor::shutdown::ShutdownReport;

/// The process-wide executor, as returned to the code that configured it, with the right to shut it down.
///
/// The whole process uses [`Executor::global`], libraries included, and none of them may shut it down for the others.
/// So [`Executor::shutdown`] refuses there. Only the one value that [`build_global`] returns can do it. The value
/// cannot be cloned: keep it where the program ends. Dropping it gives the right up, and changes nothing else. The
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
    /// Called once, by the thread that has just made the process's executor.
    pub(super) fn new(executor: &'static Executor) -> Self {
        Self { executor }
    }

    /// Returns the executor that [`Executor::global`] returns.
    #[must_use]
    pub fn executor(&self) -> &'static Executor {
        self.executor
    }

    /// Shuts the process-wide executor down, as [`Executor::shutdown`] does with others. From then on, no queue can be
    /// built without naming an executor: this process has no second global one.
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
