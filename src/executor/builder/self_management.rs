//! How an executor finds out what nobody has told it.

use std::time::Duration;

use crate::engine::watchdog::StallReport;
use crate::policy::detection::Detection;
use crate::sys::probe::Probe;
use crate::{BuildExecutorError, ExecutorBuilder};

/// The shortest time after which somebody counts as a hog, or a pool as stalled: the manager looks once a millisecond.
const LEAST: Duration = Duration::from_millis(1);

/// See the module.
pub(super) struct SelfManagement {
    pub(super) detection: Detection,
    /// What fails by order, in tests.
    pub(super) probe: Probe,
    hog_threshold: Duration,
    watchdog_threshold: Duration,
}

impl Default for SelfManagement {
    fn default() -> Self {
        Self {
            detection: Detection::Auto,
            probe: Probe::default(),
            hog_threshold: Duration::from_millis(10),
            watchdog_threshold: Duration::from_secs(30),
        }
    }
}

impl SelfManagement {
    pub(super) fn check(&self) -> Result<(), BuildExecutorError> {
        let too_short = |threshold: &Duration| !threshold.is_zero() && *threshold < LEAST;
        if too_short(&self.hog_threshold) {
            return Err(BuildExecutorError::HogThreshold(self.hog_threshold));
        }
        if too_short(&self.watchdog_threshold) {
            return Err(BuildExecutorError::WatchdogThreshold(self.watchdog_threshold));
        }
        Ok(())
    }

    /// `None` if nobody looks for hogs.
    pub(super) fn hog_threshold(&self) -> Option<Duration> {
        Some(self.hog_threshold).filter(|threshold| !threshold.is_zero())
    }

    /// `None` if there is no watchdog.
    pub(super) fn watchdog_threshold(&self) -> Option<Duration> {
        Some(self.watchdog_threshold).filter(|threshold| !threshold.is_zero())
    }
}

impl ExecutorBuilder {
    /// How it is noticed that an item blocks without a guard. Default: [`Detection::Auto`].
    ///
    /// With [`Detection::Off`] nobody looks at threads, for [hogs](Self::hog_threshold) neither.
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

    /// How much CPU time an item may use without blocking before it is taken for a hog: it stops counting as running,
    /// as if its queue were [`cpu_intensive`](crate::WorkQueueBuilder::cpu_intensive), so that others of its pool start
    /// beside it. Default: 10 ms. Zero: nobody looks for hogs. Otherwise at least 1 ms.
    ///
    /// The threshold is a lower bound: hogs are looked for while work waits for their place, in pools of one CPU (in
    /// others, the rest of their CPUs go on), and not at all with [`Detection::Off`]. They are counted by type
    /// ([`Executor::hogs`](crate::Executor::hogs)), and logged from the fourth time on, ever more rarely.
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
    pub fn hog_threshold(mut self, cpu_time: Duration) -> Self {
        self.self_management.hog_threshold = cpu_time;
        self
    }

    /// After how long a pool that has work, and starts none of it, is reported, with what its workers are doing: to the
    /// [`stall_handler`](Self::stall_handler), or by an error in the log. Default: 30 s. Zero: there is no watchdog.
    /// Otherwise at least 1 ms.
    ///
    /// Once for each stall: it is over when the pool starts something, or has nothing left to start. A report may come
    /// late by as much as a second, since pools are looked at from time to time.
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
    pub fn watchdog_threshold(mut self, patience: Duration) -> Self {
        self.self_management.watchdog_threshold = patience;
        self
    }

    /// Called for each stall that the [watchdog](Self::watchdog_threshold) finds, instead of logging it. A panic in it is
    /// contained. What it must not own: [`on_thread_start`](Self::on_thread_start).
    ///
    /// It runs on the manager's thread, with no lock held: it may look at the executor and queue items, but while it
    /// runs no worker is made, no timer fires and nothing is detected. So it must not wait for work of the same executor.
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

    /// Aborts the process, with a dump on standard error, if a pool has work and nobody on it for longer than this.
    /// At least one millisecond. Default: off.
    ///
    /// That is never the user's fault but a lost wake-up in this crate, so this is for tests; every test of the crate
    /// runs with it. Watching costs the manager a few looks per pool and period while pools are saturated.
    pub fn progress_check(mut self, patience: Duration) -> Self {
        self.progress_check = Some(patience);
        self
    }

    /// How the executor looks at its threads, for tests of what the system may refuse it.
    #[cfg(test)]
    pub(crate) fn probe(mut self, probe: Probe) -> Self {
        self.self_management.probe = probe;
        self
    }
}
