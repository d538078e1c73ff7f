//! Where the items of a queue have started.

use crate::sys::sync::{AtomicU64, Ordering};

/// Counts of one gate: beside its word, which the same worker writes anyway.
#[derive(Debug)]
pub(crate) struct Starts {
    home: AtomicU64,
    away: AtomicU64,
    stolen: AtomicU64,
    repatriated: AtomicU64,
}

/// Where an item starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// In the pod of the CPU that it was queued on.
    Home,
    /// Elsewhere, on a worker of that pod: the system has put it there.
    Away,
    /// On a worker of another pod.
    Stolen,
}

/// How many items of a queue have started where.
///
/// From [`WorkQueue::starts`](crate::WorkQueue::starts).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct StartCounts {
    /// In the pod of the CPU that they were queued on.
    pub home: u64,
    /// On a CPU of another pod, by a worker of their own: only plain [`unbound`](crate::WorkQueue::unbound) queues that
    /// are not strict let the system move workers.
    pub away: u64,
    /// On a CPU of another pod, by a worker there, because their own pod could not take them.
    pub stolen: u64,
    /// For so many items, the worker that was woken had been put elsewhere by the system, and was brought back to the pod
    /// first: of plain [`unbound`](crate::WorkQueue::unbound) queues that are not strict.
    #[doc(alias = "PWQ_STAT_REPATRIATED")]
    pub repatriated: u64,
}

impl Starts {
    pub(crate) fn new() -> Self {
        Self {
            home: AtomicU64::new(0),
            away: AtomicU64::new(0),
            stolen: AtomicU64::new(0),
            repatriated: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn count(&self, start: Start, repatriated: bool) {
        let count = match start {
            Start::Home => &self.home,
            Start::Away => &self.away,
            Start::Stolen => &self.stolen,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if repatriated {
            self.repatriated.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_to(&self, counts: &mut StartCounts) {
        counts.home += self.home.load(Ordering::Relaxed);
        counts.away += self.away.load(Ordering::Relaxed);
        counts.stolen += self.stolen.load(Ordering::Relaxed);
        counts.repatriated += self.repatriated.load(Ordering::Relaxed);
    }
}
