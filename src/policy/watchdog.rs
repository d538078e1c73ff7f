//! Finds pools that have pending work but have started no item for a long time.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// The watchdog of one watched pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watchdog {
    /// The time of the last check that found that the pool had started an item, or had no pending work. Before the
    /// first such check, the value is the time at which the watch began.
    since: Time,
    /// Whether the present stall was reported.
    told: bool,
}

impl Watchdog {
    pub(crate) const fn new(now: Time) -> Self {
        Self { since: now, told: false }
    }

    /// Notes the result of a check. `pending` says whether the pool has pending work, and `progress` says whether the
    /// pool has started an item since the last check. If a stall must be reported now, returns how long the stall has
    /// lasted so far. Each stall is reported once.
    pub(crate) fn looked(
        &mut self,
        pending: bool,
        progress: bool,
        threshold: Duration,
        now: Time,
    ) -> Option<Duration> {
        if progress || !pending {
            *self = Self::new(now);
        }
        let stalled_for = now.since(self.since);
        let tells = !self.told && stalled_for >= threshold;
        self.told |= tells;
        tells.then_some(stalled_for)
    }

    /// Returns the start of the present stall, if this stall was reported.
    pub(crate) fn told_since(&self) -> Option<Time> {
        self.told.then_some(self.since)
    }

    /// Returns the time at which the present stall must be reported, or `None` if the stall was reported already.
    pub(crate) fn next(&self, threshold: Duration) -> Option<Time> {
        (!self.told).then(|| self.since + threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    /// spec: S4.1 (the watchdog reports each stall of a pool once)
    #[test]
    fn each_stall_is_reported_once() {
        let mut watchdog = Watchdog::new(at(0));
        let table = [
            // at, pending, progress, report
            (29, true, false, None),
            (31, true, false, Some(31)),
            (90, true, false, None),
            (100, true, true, None),
            (129, true, false, None),
            (130, true, false, Some(30)),
            (140, false, false, None),
            (169, true, false, None),
            (171, true, false, Some(31)),
        ];
        for (now, pending, progress, told) in table {
            let answer = watchdog.looked(pending, progress, THRESHOLD, at(now));
            assert_eq!(answer, told.map(Duration::from_secs), "{now}");
            let since = watchdog.told_since().map(|since| at(now).since(since).as_secs());
            assert_eq!(since.is_some(), [31, 90, 130].contains(&now) || now == 171, "{now}: {since:?}");
        }
    }

    #[test]
    fn the_report_has_a_deadline() {
        let mut watchdog = Watchdog::new(at(5));
        assert_eq!(watchdog.next(THRESHOLD), Some(at(35)));
        assert!(watchdog.looked(true, false, THRESHOLD, at(35)).is_some());
        assert_eq!(watchdog.next(THRESHOLD), None);
        assert!(watchdog.looked(true, true, THRESHOLD, at(40)).is_none());
        assert_eq!(watchdog.next(THRESHOLD), Some(at(70)));
    }
}
