//! What has become of the items of a queue, in numbers.

#![forbid(unsafe_code)]

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// What has become of the items of a queue, in numbers that only grow.
///
/// # Examples
///
/// ```
/// use cmwq::observe::Counters;
///
/// let mut counters = Counters::default();
/// counters.started = 3;
/// counters.completed = 1;
/// assert_eq!(counters.in_flight(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Counters {
    /// Runs that have begun.
    #[doc(alias = "PWQ_STAT_STARTED")]
    pub started: u64,
    /// Runs that have ended, by a panic too.
    #[doc(alias = "PWQ_STAT_COMPLETED")]
    pub completed: u64,
    /// The CPU time of all runs.
    #[doc(alias = "PWQ_STAT_CPU_TIME")]
    #[cfg_attr(feature = "serde", serde(rename = "cpu_time_ns", with = "super::nanos"))]
    pub cpu_time: Duration,
    /// Runs that were found to use the CPU for longer than the
    /// [`hog_threshold`](crate::ExecutorBuilder::hog_threshold) without blocking.
    #[doc(alias = "PWQ_STAT_CPU_INTENSIVE")]
    pub cpu_hogs: u64,
    /// Workers that were woken because one that ran an item of the queue blocked.
    #[doc(alias = "PWQ_STAT_CM_WAKEUP")]
    pub concurrency_wakeups: u64,
    /// Runs that began on a CPU of another pod, by a worker of their own: only plain
    /// [`unbound`](crate::WorkQueue::unbound) queues that are not strict let the system move workers.
    pub away: u64,
    /// Runs that began on a CPU of another pod, by a worker there, because their own pod could not take them.
    pub stolen: u64,
    /// Runs whose worker had been put elsewhere by the system, and was brought back to the pod first.
    #[doc(alias = "PWQ_STAT_REPATRIATED")]
    pub repatriated: u64,
    /// Calls of a pool that could not have a worker for the queue's [rescuer](crate::WorkQueueBuilder::rescuer).
    #[doc(alias = "PWQ_STAT_MAYDAY")]
    pub maydays: u64,
    /// Runs that were begun by the rescuer.
    #[doc(alias = "PWQ_STAT_RESCUED")]
    pub rescued: u64,
    /// Runs that have ended by a panic.
    pub panicked: u64,
    /// Queueings that were cancelled before their run began.
    pub cancelled: u64,
    /// Runs that were seen blocking outside of any guard.
    pub undeclared_blocks: u64,
}

impl Counters {
    /// Runs that have begun and not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.started.saturating_sub(self.completed)
    }

    /// Runs that began in the pod of the CPU that their item was queued on.
    #[must_use]
    pub fn home(&self) -> u64 {
        self.started.saturating_sub(self.away).saturating_sub(self.stolen)
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.cpu_time += other.cpu_time;
        self.cpu_hogs += other.cpu_hogs;
        self.concurrency_wakeups += other.concurrency_wakeups;
        self.away += other.away;
        self.stolen += other.stolen;
        self.repatriated += other.repatriated;
        self.maydays += other.maydays;
        self.rescued += other.rescued;
        self.panicked += other.panicked;
        self.cancelled += other.cancelled;
        self.undeclared_blocks += other.undeclared_blocks;
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
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}
