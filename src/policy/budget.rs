//! Decides for how long a bh context (the only worker of a bh pool) works before it yields the CPU to other threads.
//!
//! A *run* begins with a batch, which consists of the pending items. When the items of a batch are done, the items that
//! have arrived in the meantime are the next batch. Beginning the next batch is a *restart*. A run ends when it reaches
//! its limit of time or of restarts. After a run, the context yields its CPU once before it begins the next run. So
//! even if new items keep arriving, or items keep queueing themselves, they delay other threads only until the run
//! ends.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// The time limit of a run.
const TIME: Duration = Duration::from_millis(2);

/// A run may restart at most this many times. At a restart, the run continues with the items that have arrived since
/// its present batch began.
const RESTARTS: u32 = 10;

/// The time and the restarts that a run has left, and the rest of its present batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    until: Time,
    restarts: u32,
    /// The number of items of the present batch that have not ended.
    batch: usize,
}

/// The next step of a bh context after an item.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterItem {
    /// Take the next item, or rest if no item is pending.
    GoOn(Budget),
    /// Yield the CPU to other threads, then begin a new run.
    Yield,
}

impl Budget {
    /// Begins a run with `pending` items.
    pub(crate) fn begin(now: Time, pending: usize) -> Self {
        Self { until: now + TIME, restarts: RESTARTS, batch: pending }
    }

    /// Notes that an item has ended while `pending` items are pending.
    pub(crate) fn item_ended(self, now: Time, pending: usize) -> AfterItem {
        let rest = Self { batch: self.batch.saturating_sub(1), ..self };
        if pending == 0 {
            // No item is left. The next item begins a new batch.
            return AfterItem::GoOn(Self { batch: 0, ..rest });
        }
        if now >= self.until {
            return AfterItem::Yield;
        }
        match (rest.batch, rest.restarts) {
            (0, 0) => AfterItem::Yield,
            (0, restarts) => AfterItem::GoOn(Self { batch: pending, restarts: restarts - 1, ..rest }),
            _ => AfterItem::GoOn(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// Ends an item every `step` microseconds. At the end of each item, `pending` returns how many items still wait.
    /// Returns the number of the item whose end led to a yield.
    fn items_until_yield(step: u64, first: usize, mut pending: impl FnMut(usize) -> usize) -> Option<usize> {
        let mut budget = Budget::begin(at(0), first);
        for item in 1..=10_000 {
            match budget.item_ended(at(step * item as u64), pending(item)) {
                AfterItem::GoOn(rest) => budget = rest,
                AfterItem::Yield => return Some(item),
            }
        }
        None
    }

    /// spec: Q1.5 (bh: a budget per run): a backlog of any size is one batch, and its run ends after 2 ms.
    #[test]
    fn a_run_ends_after_two_milliseconds() {
        assert_eq!(items_until_yield(1, 5000, |ended| 5000 - ended), Some(2000));
        assert_eq!(items_until_yield(1999, 5000, |ended| 5000 - ended), Some(2));
        assert_eq!(items_until_yield(9000, 2, |_| 1), Some(1), "one item that took long");
        assert_eq!(items_until_yield(1, 1500, |ended| 1500usize.saturating_sub(ended)), None);
    }

    /// spec: Q1.5 (bh: a budget per run): an item that queues itself is a batch of one item each time.
    #[test]
    fn a_run_starts_over_ten_times() {
        assert_eq!(items_until_yield(1, 1, |_| 1), Some(11));
        assert_eq!(items_until_yield(1, 3, |_| 3), Some(33), "three that queue themselves");
        assert_eq!(items_until_yield(1, 0, |_| 1), Some(11), "the count at the start is only a hint");
    }

    /// spec: Q1.5: a bh context without a pending item does not yield.
    #[test]
    fn a_context_that_is_done_does_not_yield() {
        assert_eq!(items_until_yield(1, 1, |_| 0), None);
        assert_eq!(
            Budget::begin(at(0), 1).item_ended(at(9000), 0),
            AfterItem::GoOn(Budget { batch: 0, ..Budget::begin(at(0), 1) })
        );
    }
}
