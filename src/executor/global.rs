//! The process-wide executor, and the right to end it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::engine::refusal::ShutdownError;
use crate::executor::Executor;
use crate::executor::shutdown::ShutdownReport;

/// The process-wide executor, together with the right to shut it down. The code that configures the executor gets this
/// value.
///
/// The whole process uses [`Executor::global`], including its libraries, and no library may shut that executor down for
/// the others. So [`Executor::shutdown`] refuses to shut the global executor down. Only the one value that
/// [`build_global`] returns can shut the executor down. The value cannot be cloned, so keep it in the code that ends
/// the program. Dropping the value only gives up the right to shut the executor down, and the executor stays until the
/// process ends.
///
/// A `GlobalExecutor` dereferences to the [`Executor`].
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
/// assert_eq!(global.executor(), Executor::global());
/// let queue = WorkQueue::new("mail");
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
    /// Makes the value for the process's executor. Only the thread that has just made that executor calls this
    /// function, and only once.
    pub(super) fn new(executor: &'static Executor) -> Self {
        Self { executor }
    }

    /// Returns the executor that [`Executor::global`] returns.
    #[must_use]
    pub fn executor(&self) -> &'static Executor {
        self.executor
    }

    /// Shuts the process-wide executor down, as [`Executor::shutdown`] does with other executors. From then on, a queue
    /// can be built only on an executor that the caller names, because this process gets no second global executor.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Executor::shutdown`], except for [`ShutdownError::Global`].
    pub fn shutdown(&self, timeout: Duration) -> Result<ShutdownReport, ShutdownError> {
        self.executor.end(timeout)
    }

    /// Begins to shut the process-wide executor down, as [`Executor::shutdown_async`] does with other executors.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let global = cmwq::Executor::builder().build_global()?;
    /// let end = async { global.shutdown_async(std::time::Duration::from_secs(10)).await };
    /// # let report = cmwq::blocking::block_on(end)?;
    /// # assert!(report.is_complete(), "{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Executor::shutdown_async`], except for [`ShutdownError::Global`].
    pub fn shutdown_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<ShutdownReport, ShutdownError>> + Send + Sync + use<> {
        self.executor.end_async(timeout)
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
