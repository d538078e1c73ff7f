//! Settings of the blocking detector, the hog detector and the watchdog.

use std::time::Duration;

use crate::engine::executor::reports::StallReport;
use crate::error::BuildExecutorError;
use crate::executor::builder::ExecutorBuilder;
use crate::policy::detection::Detection;
use crate::sys::probe::Probe;

/// The shortest accepted threshold for hogs and stalls. The manager checks a pool only about once a millisecond, so it
/// could not meet a shorter threshold.
const LEAST: Duration = Duration::from_millis(1);

/// The settings of the blocking detector, the hog detector and the watchdog.
pub(super) struct SelfManagement {
    pub(super) detection: Detection,
    /// The functions that inspect threads, and the failures that tests inject into these functions.
    pub(super) probe: Probe,
    /// `None` turns the search for hogs off.
    pub(super) hog_threshold: Option<Duration>,
    /// `None` turns the watchdog off.
    pub(super) watchdog_threshold: Option<Duration>,
}

impl Default for SelfManagement {
    fn default() -> Self {
        Self {
            detection: Detection::Auto,
            probe: Probe::default(),
            hog_threshold: Some(Duration::from_millis(10)),
            watchdog_threshold: Some(Duration::from_secs(30)),
        }
    }
}

impl SelfManagement {
    pub(super) fn check(&self) -> Result<(), BuildExecutorError> {
        let too_short = |threshold: Option<Duration>| threshold.filter(|threshold| *threshold < LEAST);
        if let Some(threshold) = too_short(self.hog_threshold) {
            return Err(BuildExecutorError::HogThreshold(threshold));
        }
        if let Some(threshold) = too_short(self.watchdog_threshold) {
            return Err(BuildExecutorError::WatchdogThreshold(threshold));
        }
        Ok(())
    }
}

impl ExecutorBuilder {
    /// Sets how the executor detects that an item blocks without a guard. Default: [`Detection::Auto`].
    ///
    /// With [`Detection::Off`], the executor does not inspect threads, so it also finds no [hogs](Self::hog_threshold).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{Detection, Executor};
    ///
    /// let executor = Executor::builder().detection(Detection::Auto).build()?;
    /// let snapshot = executor.dump();
    /// match snapshot.detection_fallback {
    ///     Some(why) => println!("{} ({why})", snapshot.detection),
    ///     None => println!("{}", snapshot.detection),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn detection(mut self, detection: Detection) -> Self {
        self.self_management.detection = detection;
        self
    }

    /// Sets how much CPU time an item may use without blocking before it counts as a hog. A hog does not count as
    /// running, just like an item of a [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive) queue. So other items
    /// of the hog's pool start beside it. The default is 10 ms, and the minimum is 1 ms. `None` turns the search for
    /// hogs off.
    ///
    /// The threshold is a lower bound. The manager looks for hogs only in the pools of
    /// [per-CPU](crate::WorkQueue::per_cpu) queues, and only while other items wait for the CPU of such a pool. With
    /// [`Detection::Off`], the manager does not look for hogs at all. The executor counts hogs by item type (see
    /// [`Executor::hogs`](crate::Executor::hogs)). The executor logs an item type at the fourth hog of this type, and
    /// then less and less often.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().hog_threshold(Duration::from_millis(50)).build()?;
    /// # drop(executor);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cpu_intensive_thresh_us")]
    pub fn hog_threshold(mut self, cpu_time: impl Into<Option<Duration>>) -> Self {
        self.self_management.hog_threshold = cpu_time.into();
        self
    }

    /// Sets the time after which the watchdog reports a pool that has work and starts none of it. The report tells what
    /// the pool's workers are doing. If there is a [`stall_handler`](Self::stall_handler), the report goes to this
    /// handler. Otherwise, it is logged as an error. The default is 30 s, and the minimum is 1 ms. `None` turns the
    /// watchdog off.
    ///
    /// The watchdog reports each stall once. A stall is over when the pool starts an item, or has no item left to
    /// start. A report can come up to a second late, because the manager checks pools only from time to time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let executor = cmwq::Executor::builder().watchdog_threshold(Duration::from_secs(5)).build()?;
    /// # drop(executor);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "watchdog_thresh")]
    #[doc(alias = "wq_watchdog_thresh")]
    pub fn watchdog_threshold(mut self, patience: impl Into<Option<Duration>>) -> Self {
        self.self_management.watchdog_threshold = patience.into();
        self
    }

    /// Sets a handler for each stall that the [watchdog](Self::watchdog_threshold) finds. With a handler, stalls are
    /// not logged. A panic of the handler is contained. See [`on_thread_start`](Self::on_thread_start) for the values
    /// that a hook must not own.
    ///
    /// The manager's thread calls the handler, with no lock held. The handler may inspect the executor, and may queue
    /// items. While the handler runs, no worker is made, no timer fires, and the manager detects nothing. So the
    /// handler must not wait for work of the same executor. The manager's thread blocks all signals, and a program that
    /// the handler starts would inherit the blocked signals. To start a program, queue an item that starts it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder()
    ///     .stall_handler(|report| {
    ///         eprintln!("{report}");
    ///         for worker in &report.workers {
    ///             eprintln!("{} is in {}", worker.thread, worker.item_type);
    ///         }
    ///     })
    ///     .build()?;
    /// # drop(executor);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stall_handler(mut self, handler: impl Fn(&StallReport<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.stall_handler = Some(Box::new(handler));
        self
    }

    /// For tests of this crate: aborts the process, with a dump on standard error, if a pool has had work, but no
    /// worker on it, for longer than `patience`. The cause is always a lost wake-up in this crate, never a fault of the
    /// program. `patience` must be at least one millisecond. While pools are saturated, the manager checks each of them
    /// a few times per `patience`.
    #[cfg(any(test, feature = "__testing"))]
    #[doc(hidden)]
    pub fn progress_check(mut self, patience: Duration) -> Self {
        self.progress_check = Some(patience);
        self
    }

    /// For tests: sets which inspections of threads fail, as if the system had refused them.
    #[cfg(test)]
    pub(crate) fn probe(mut self, probe: Probe) -> Self {
        self.self_management.probe = probe;
        self
    }
}
