//! The counters of queues, in the columns of the kernel's `wq_monitor`.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::engine::executor::inner::ExecutorInner;
use crate::policy::counters::Counters;
use crate::sys::clock;

use super::snapshot::{QueueKind, Snapshot};
use super::take;
use super::text::{NAME, Name};

/// Takes samples of the counters of an executor's queues. A sample contains less than a [`Snapshot`], and is cheaper.
///
/// [`Executor::monitor`](crate::Executor::monitor) makes a monitor. The monitor does not keep the executor alive.
/// After the executor's end, the monitor's samples are empty.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{Executor, WorkQueue};
///
/// let executor = Executor::builder().build()?;
/// let mail = WorkQueue::builder("mail").build_on(&executor)?;
/// let news = WorkQueue::builder("news").build_on(&executor)?;
/// let monitor = executor.monitor().only(["mail"]);
/// mail.spawn(|| ())?.join()?;
/// mail.flush()?;
/// let report = monitor.sample();
/// assert_eq!(report.queues.len(), 1);
/// assert_eq!(report.queues[0].counters.started, 1);
/// print!("{report}");
/// # drop(news);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "wq_monitor")]
#[must_use]
pub struct Monitor {
    executor: Weak<ExecutorInner>,
    shows: Box<Shows>,
}

/// A function that returns whether the monitor shows queues with the given name.
type Shows = dyn Fn(&str) -> bool + Send + Sync;

/// The counters of queues at one moment.
///
/// The report's `Display` writes a header and a row for each queue, as the kernel's `wq_monitor` prints them. A `-`
/// means that a number does not apply to the queue.
///
/// | column | |
/// |---|---|
/// | total | runs that have begun |
/// | infl | runs that have not ended |
/// | CPUtime | seconds of CPU time |
/// | CPUhog | runs that kept the CPU for too long; only for per-CPU and bh queues |
/// | CMW/RPR | workers that were woken because an item blocked; for some queues, a different count (see below) |
/// | mayday, rescued | calls for the rescuer, and items that the rescuer took; only for queues that have a rescuer |
///
/// For plain unbound and ordered queues, the column CMW/RPR counts the workers that were moved back to their pod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MonitorReport {
    /// The version of the format, as in [`Snapshot::format`].
    pub format: u32,
    /// The process id.
    pub pid: u32,
    /// The time at which the sample was taken, since the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(rename = "time_ns", with = "crate::policy::nanos"))]
    pub time: Duration,
    /// The rows of the queues, in the order in which the queues were made.
    pub queues: Vec<MonitorRow>,
}

/// The counters of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MonitorRow {
    /// The queue's number, as in [`QueueSnapshot::number`](super::QueueSnapshot::number).
    pub number: u64,
    /// The queue's name.
    pub name: String,
    /// The kind of the queue.
    pub kind: QueueKind,
    /// Whether the queue has a rescuer.
    pub rescuer: bool,
    /// The counters since the queue was made.
    pub counters: Counters,
}

impl Monitor {
    pub(crate) fn new(executor: &Arc<ExecutorInner>) -> Self {
        Self { executor: Arc::downgrade(executor), shows: Box::new(|_| true) }
    }

    /// Restricts the monitor to queues with these names.
    pub fn only<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.filter(move |name| names.iter().any(|shown| shown == name))
    }

    /// Restricts the monitor to queues for whose names `shows` returns true. The monitor holds no lock while it calls
    /// `shows`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let executor = cmwq::Executor::builder().build()?;
    /// let queue = cmwq::WorkQueue::builder("mail/out").build_on(&executor)?;
    /// let report = executor.monitor().filter(|name| name.starts_with("mail/")).sample();
    /// assert_eq!(report.queues[0].name, queue.name());
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter(self, shows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { shows: Box::new(shows), ..self }
    }

    /// Takes a sample of the counters. A sample costs O(queues × CPUs), and stops no thread. In a forked process, the
    /// sample is empty.
    #[must_use]
    pub fn sample(&self) -> MonitorReport {
        let Some(executor) = self.executor.upgrade() else { return MonitorReport::new(Vec::new()) };
        if executor.core.origin.is_forked() {
            return MonitorReport::new(Vec::new());
        }
        let refs = executor.queues.refs();
        let shown = refs.iter().filter(|queue| (self.shows)(queue.name()));
        MonitorReport::new(shown.map(|queue| take::row(queue)).collect())
    }
}

impl MonitorReport {
    fn new(queues: Vec<MonitorRow>) -> Self {
        Self { format: Snapshot::FORMAT, pid: std::process::id(), time: clock::since_epoch(), queues }
    }
}

impl fmt::Display for MonitorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:NAME$} {:>8} {:>5} {:>8} {:>7} {:>7} {:>7} {:>7}",
            "", "total", "infl", "CPUtime", "CPUhog", "CMW/RPR", "mayday", "rescued"
        )?;
        self.queues.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl fmt::Display for MonitorRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { started, cpu_hogs, concurrency_wakeups, brought_back, rescuer_calls, rescued, .. } =
            self.counters;
        let in_flight = self.counters.in_flight();
        let seconds = self.counters.cpu_time.as_secs_f64();
        let moves = matches!(self.kind, QueueKind::Unbound | QueueKind::Ordered);
        let per_cpu = matches!(self.kind, QueueKind::PerCpu | QueueKind::Bh);
        let shown = |number: u64, yes: bool| if yes { number.to_string() } else { "-".to_owned() };
        write!(
            f,
            "{} {started:8} {in_flight:5} {seconds:8.1} {:>7} {:>7} {:>7} {:>7}",
            Name(&self.name),
            shown(cpu_hogs, per_cpu),
            if moves { brought_back } else { concurrency_wakeups },
            shown(rescuer_calls, self.rescuer),
            shown(rescued, self.rescuer),
        )
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}
