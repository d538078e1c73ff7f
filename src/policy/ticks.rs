//! Decides when a periodic item is due again.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// The ticks of a periodic item. Ticks come at fixed times, one period apart, however long the item's runs take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticks {
    /// The time of the tick for which the item runs next, or runs now.
    pub(crate) next: Time,
    /// The number of missed ticks. A tick is missed if it passes before the run for an earlier tick has ended.
    pub(crate) missed: u64,
}

impl Ticks {
    /// Returns the ticks of an item. The first tick comes at `now + first`.
    pub(crate) fn new(first: Duration, now: Time) -> Self {
        Self { next: now + first, missed: 0 }
    }

    /// Ends a run at the time `now`. Counts each tick after the run's own tick, up to `now`, as missed. The next run is
    /// for the first tick after `now`. A run that ends before the next tick is an extra run, for no tick: the item was
    /// queued in another way. `period` is not zero.
    pub(crate) fn ran(self, period: Duration, now: Time) -> Self {
        if now < self.next {
            return self;
        }
        let next = self.next + period;
        let late = now.since(next).as_nanos();
        if next > now {
            return Self { next, ..self };
        }
        let passed = u64::try_from(late / period.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        let skipped = u128::from(passed).saturating_mul(period.as_nanos());
        let skipped = Duration::from_nanos(u64::try_from(skipped).unwrap_or(u64::MAX));
        Self { next: next + skipped, missed: self.missed.saturating_add(passed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: W5.5 (periodic, missed ticks counted): ticks keep their times, however long a run takes.
    #[test]
    fn ticks_that_pass_during_a_run_are_missed() {
        let millis = Duration::from_millis;
        let at = |ms| Time::default() + millis(ms);
        let first = Ticks::new(millis(10), at(100));
        assert_eq!(first, Ticks { next: at(110), missed: 0 });
        let table = [
            // ended at, next tick, missed
            (105, 110, 0),
            (110, 120, 0),
            (119, 120, 0),
            (120, 130, 1),
            (125, 130, 1),
            (130, 140, 2),
            (1111, 1120, 100),
        ];
        for (ended, next, missed) in table {
            assert_eq!(first.ran(millis(10), at(ended)), Ticks { next: at(next), missed }, "{ended}");
        }
        let end = Ticks { next: Time::NEVER, missed: 0 }.ran(millis(1), Time::NEVER);
        assert_eq!(end.next, Time::NEVER, "the end of time is not passed");
    }
}
