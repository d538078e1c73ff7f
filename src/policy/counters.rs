//! Counts of what happened to the items of a queue.

#![forbid(unsafe_code)]

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Counts of what happened to the items of a queue, or of the queue's part on one CPU, since that queue or part was
/// made.
///
/// [`WorkQueue::counters`](crate::WorkQueue::counters) returns these counts. The counts only grow. While items run, the
/// counts are read at slightly different times, but [`in_flight`](Self::in_flight) never falls below zero. The counts
/// are exact once no item is pending or running, for example after a [flush](crate::WorkQueue::flush) while no thread
/// queues items. Exact counts add up as follows:
///
/// > accepted submissions = `started` + `cancelled` + submissions that a [shutdown](crate::Executor::shutdown) gave up
///
/// # Memory
///
/// A queue has a part for each CPU on which it was used. Each thread has its own counts for each part whose items it
/// executes. All counters of a process take about
///
/// > 0.2 KiB × parts + 0.1 KiB × pairs of a thread and a part
///
/// A thread keeps its counts for at most 256 parts, in at most 32 KiB. To make room for another part, the thread moves
/// its counts for one part into that part's own counts. So the memory does not grow with the number of queues that have
/// existed. After a queue's end, each thread keeps its counts of that queue until the thread ends or needs the memory
/// for other queues.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queues = ["thumbnails", "mail"].map(cmwq::WorkQueue::new);
/// # queues.iter().try_for_each(|queue| queue.spawn(|| ()).map(drop))?;
/// # queues.iter().try_for_each(|queue| queue.flush())?;
/// let total: cmwq::Counters = queues.iter().map(|queue| queue.counters()).sum();
/// assert_eq!((total.started, total.in_flight()), (2, 0));
/// assert_eq!(total.home() + total.stolen + total.away, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Counters {
    /// Items that have begun, on a worker, on the [rescuer](crate::WorkQueueBuilder::rescuer), or on [the caller's
    /// thread](crate::WhenFull::CallerRuns).
    #[doc(alias = "PWQ_STAT_STARTED")]
    pub started: u64,
    /// Items whose function has returned, or panicked.
    #[doc(alias = "PWQ_STAT_COMPLETED")]
    pub completed: u64,
    /// The CPU time of the items, and of the workers' own work between items. The CPU time is read from time to time,
    /// not for each item. If a worker alternates between queues whose items take a few microseconds, the executor
    /// divides the worker's CPU time between the queues by samples. This division is right on average. Outside of
    /// Linux, the value is zero, because the CPU time of threads is not known.
    #[doc(alias = "PWQ_STAT_CPU_TIME")]
    #[cfg_attr(feature = "serde", serde(rename = "cpu_time_ns", with = "super::nanos"))]
    pub cpu_time: Duration,
    /// Items that the executor found to keep a CPU busy for longer than the
    /// [threshold](crate::ExecutorBuilder::hog_threshold).
    #[doc(alias = "PWQ_STAT_CPU_INTENSIVE")]
    pub cpu_hogs: u64,
    /// Workers that the pool woke or requested because an item of this queue blocked, and the item's worker no longer
    /// counted as running.
    #[doc(alias = "PWQ_STAT_CM_WAKEUP")]
    pub concurrency_wakeups: u64,
    /// Items that began on a CPU of another pod, on a worker of their own pod. This happens only in plain
    /// [`unbound`](crate::WorkQueue::unbound) queues that are not strict, because only such queues let the system move
    /// workers.
    pub away: u64,
    /// Items that began in another pod, on a worker of that pod, because their own pod could not take them.
    pub stolen: u64,
    /// Items whose worker was brought back to its pod before the items began, because the system had moved the worker
    /// elsewhere. Workers are brought back only in plain [`unbound`](crate::WorkQueue::unbound) queues that are not
    /// strict.
    #[doc(alias = "PWQ_STAT_REPATRIATED")]
    #[doc(alias = "repatriated")]
    pub brought_back: u64,
    /// The number of calls to the queue's [rescuer](crate::WorkQueueBuilder::rescuer) by pools for which no worker
    /// could be made.
    #[doc(alias = "PWQ_STAT_MAYDAY")]
    #[doc(alias = "maydays")]
    pub rescuer_calls: u64,
    /// Items that the rescuer took, including cancelled items.
    #[doc(alias = "PWQ_STAT_RESCUED")]
    pub rescued: u64,
    /// Items that panicked.
    pub panicked: u64,
    /// Submissions that were cancelled, or that [`reschedule`](crate::Submission::reschedule) replaced, before they
    /// began. A cancelled or replaced submission is counted when the queue reaches its place, or when the item's next
    /// submission takes that place. An armed timer counts as a submission only when it fires.
    pub cancelled: u64,
    /// The cancelled submissions whose [deadline](crate::Submission::deadline) passed before they could begin.
    #[cfg_attr(feature = "serde", serde(default))]
    pub expired: u64,
    /// Items and [permits](crate::Permit) that the queue refused with [`QueueError::Full`](crate::QueueError::Full).
    /// Refused items and permits are neither accepted nor cancelled. A batch that is cut short counts each item that
    /// was not accepted. [`map`](crate::WorkQueue::map) and [`for_each`](crate::WorkQueue::for_each) count an item only
    /// if they return the error, and not if they wait for room in the queue.
    #[cfg_attr(feature = "serde", serde(default))]
    pub refused: u64,
    /// The number of times that the executor found an item blocked without a [guard](crate#guards).
    pub undeclared_blocks: u64,
}

impl Counters {
    /// Returns the number of items that have begun and have not returned.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.completed)
    }

    /// Returns the number of items that began in the pod of the CPU that they were queued on.
    #[must_use]
    pub fn home(&self) -> u64 {
        self.started.saturating_sub(self.away.saturating_add(self.stolen))
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            started,
            completed,
            cpu_time,
            cpu_hogs,
            concurrency_wakeups,
            away,
            stolen,
            brought_back,
            rescuer_calls,
            rescued,
            panicked,
            cancelled,
            expired,
            refused,
            undeclared_blocks,
        } = other;
        self.started = self.started.saturating_add(started);
        self.completed = self.completed.saturating_add(completed);
        self.cpu_time = self.cpu_time.saturating_add(cpu_time);
        self.cpu_hogs = self.cpu_hogs.saturating_add(cpu_hogs);
        self.concurrency_wakeups = self.concurrency_wakeups.saturating_add(concurrency_wakeups);
        self.away = self.away.saturating_add(away);
        self.stolen = self.stolen.saturating_add(stolen);
        self.brought_back = self.brought_back.saturating_add(brought_back);
        self.rescuer_calls = self.rescuer_calls.saturating_add(rescuer_calls);
        self.rescued = self.rescued.saturating_add(rescued);
        self.panicked = self.panicked.saturating_add(panicked);
        self.cancelled = self.cancelled.saturating_add(cancelled);
        self.expired = self.expired.saturating_add(expired);
        self.refused = self.refused.saturating_add(refused);
        self.undeclared_blocks = self.undeclared_blocks.saturating_add(undeclared_blocks);
    }
}

impl Add for Counters {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(counters: I) -> Self {
        counters.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Counters {
        Counters {
            started: 10,
            completed: 7,
            cpu_time: Duration::from_millis(3),
            cpu_hogs: 1,
            concurrency_wakeups: 2,
            away: 3,
            stolen: 4,
            brought_back: 5,
            rescuer_calls: 6,
            rescued: 7,
            panicked: 8,
            cancelled: 9,
            expired: 8,
            refused: 11,
            undeclared_blocks: 10,
        }
    }

    /// spec: O1.3
    #[test]
    fn a_sum_adds_up_each_count() {
        let one = one();
        assert_eq!((one.in_flight(), one.home()), (3, 3));
        let sum: Counters = [one, one, Counters::default()].into_iter().sum();
        assert_eq!((sum.started, sum.completed, sum.cpu_time), (20, 14, Duration::from_millis(6)));
        assert_eq!((sum.cpu_hogs, sum.concurrency_wakeups, sum.away, sum.stolen), (2, 4, 6, 8));
        assert_eq!((sum.brought_back, sum.rescuer_calls, sum.rescued, sum.panicked), (10, 12, 14, 16));
        assert_eq!((sum.cancelled, sum.expired, sum.refused, sum.undeclared_blocks), (18, 16, 22, 20));
    }

    /// spec: O1.3: a sum of counters saturates, because counters that were received may have any values.
    #[test]
    fn a_sum_of_counters_saturates() {
        let one = Counters { started: u64::MAX, cpu_time: Duration::MAX, stolen: u64::MAX, away: 1, ..one() };
        let sum = one + one;
        assert_eq!(
            (sum.started, sum.cpu_time, sum.stolen, sum.home()),
            (u64::MAX, Duration::MAX, u64::MAX, 0)
        );
        assert_eq!(sum.expired, 16);
    }
}
