//! A CPU quota, and a pod's share of it.

#![forbid(unsafe_code)]

use std::cmp::Ordering;

/// The CPU time that a process may use per period. Both values are in microseconds. Quotas are ordered by the number of
/// CPUs to which they amount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    micros: u64,
    period: u64,
}

impl Quota {
    /// Makes a quota. Returns `None` if the CPU time or the period is zero.
    pub(crate) fn new(micros: u64, period: u64) -> Option<Self> {
        (micros > 0 && period > 0).then_some(Self { micros, period })
    }

    /// Returns how many CPUs can be busy all the time under the quota.
    pub(crate) fn cpus(self) -> f64 {
        self.micros as f64 / self.period as f64
    }

    /// Returns how many of a pod's `own` CPUs can be busy if the quota is divided evenly among all `cpus` CPUs. The
    /// result is rounded down, but is at least one.
    pub(crate) fn share(self, own: usize, cpus: usize) -> usize {
        let share = u128::from(self.micros) * own as u128 / (u128::from(self.period) * cpus.max(1) as u128);
        usize::try_from(share).unwrap_or(usize::MAX).min(own).max(1)
    }
}

impl Ord for Quota {
    fn cmp(&self, other: &Self) -> Ordering {
        let crosswise = |one: &Self, other: &Self| u128::from(one.micros) * u128::from(other.period);
        crosswise(self, other).cmp(&crosswise(other, self))
    }
}

impl PartialOrd for Quota {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quota {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quota {}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: C5.3 (under a cgroup CPU quota: max(1, ⌊quota × pod CPUs / CPUs⌋), and never more than the pod has)
    #[test]
    fn a_pod_gets_its_share_of_the_quota() {
        let table = [
            // quota, period, pod's CPUs, CPUs, share
            (100_000, 100_000, 1, 1, 1),
            (100_000, 100_000, 8, 8, 1),
            (250_000, 100_000, 8, 8, 2),
            (399_999, 100_000, 8, 8, 3),
            (400_000, 100_000, 8, 8, 4),
            (400_000, 100_000, 4, 8, 2),
            (400_000, 100_000, 1, 8, 1),
            (600_000, 100_000, 6, 24, 1),
            (800_000, 100_000, 6, 24, 2),
            (1_200_000, 100_000, 6, 24, 3),
            (2_400_000, 100_000, 6, 24, 6),
            (99_000_000, 100_000, 6, 24, 6),
            (1_000, 100_000, 6, 24, 1),
            (1, u64::MAX, 6, 24, 1),
            (u64::MAX, 1, 6, 24, 6),
            (u64::MAX, 1, 6, 0, 6),
        ];
        for (micros, period, own, cpus, share) in table {
            let quota = Quota::new(micros, period).unwrap();
            assert_eq!(quota.share(own, cpus), share, "{micros}/{period}: {own} of {cpus}");
        }
    }

    #[test]
    fn quotas_are_ordered_by_cpus_whatever_their_periods() {
        let quota = |micros, period| Quota::new(micros, period).unwrap();
        assert!(quota(50_000, 100_000) < quota(60_000, 100_000));
        assert!(quota(50_000, 100_000) < quota(10_000, 10_000));
        assert_eq!(quota(50_000, 100_000), quota(5_000, 10_000));
        assert_eq!(quota(u64::MAX, 3).min(quota(u64::MAX, 4)), quota(u64::MAX, 4));
        assert_eq!((Quota::new(0, 100_000), Quota::new(100_000, 0)), (None, None));
    }
}
