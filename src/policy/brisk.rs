//! Decides whether the items of a pool are so short that a small backlog is left to the workers that run.
//!
//! A woken worker arrives after some 5 to 50 µs, and the thread that wakes it pays some 2 µs. If the workers that run
//! take the backlog in that time, the woken worker arrives in vain. In a pool of several CPUs, an issuer that wakes a
//! worker for each no-op is slower than a single worker. Then the pool is idle between the items, so that the issuer
//! has to wake a worker for each of them. If the worker is a sibling's, it has also moved cache lines that all pods
//! share, which can cost a hundred times as much as the items.
//!
//! So a pool is *brisk* while its items are short. A brisk pool leaves [`AHEAD`] items to each of its workers. While a
//! worker runs, a push neither wakes another worker nor offers anything to siblings. Instead, each worker *takes stock*
//! after some of its items: it reads the clock, judges the pool, wakes a worker if there are too many items for the
//! workers that run, and offers siblings what the pool does not keep. A worker that was woken wakes the next one by the
//! same rule. So does a thread after every [`STRIDE`] items that it has left to workers.
//!
//! Items may turn out to be long while the pool is brisk. So the manager checks a brisk pool, and any pool with
//! siblings, at least every 1.5 ms, unless it checks the pool rarely, which it never does with a brisk pool. Each check
//! wakes a worker for too many items, and offers what the pool does not keep. If the pool has begun no more items since
//! the last check than it keeps, it is not brisk any more, and workers are woken for all its items. So after two
//! checks, an item has begun, or a worker is woken for it, or it may leave the pool: either the pool's workers have
//! taken all the items before it, or it was offered. This relies on the order of the items. While the sideline comes
//! first, the pool keeps nothing. Between the [parts](super::parts) of a worklist there is no order. So a kept item of
//! a CPU whose worker is busy may wait for some stretches of 25 µs more, until the part was passed over often enough.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A worker takes stock after this many items, and a thread checks the backlog after it has left so many items to
/// workers.
pub(crate) const STRIDE: u32 = 16;

/// If [`STRIDE`] items take at most this long, a worker takes stock after [`LONG_STRIDE`] items. Otherwise, the reading
/// of the clock would be a considerable part of the costs of such items.
const VERY_SHORT: Duration = Duration::from_micros(12);

/// See [`VERY_SHORT`].
const LONG_STRIDE: u32 = 4 * STRIDE;

/// Items are short if [`STRIDE`] of them take at most this long.
const SHORT: Duration = Duration::from_micros(100);

/// Items make a pool brisk only if [`STRIDE`] of them run within this time, pauses included.
const WITHIN: Duration = Duration::from_millis(1);

/// The number of items for each worker that a brisk pool keeps. While items are short, they take 25 µs at most.
pub(crate) const AHEAD: u64 = 4;

/// What a worker's last items show about its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Items {
    /// The items were short.
    Short,
    /// The items were short, but the worker had long pauses between them.
    Few,
    /// The items were not short.
    Long,
}

/// The number of items until a worker takes stock. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Countdown(u32);

impl Countdown {
    pub(crate) const NEW: Self = Self(STRIDE);

    /// Counts an item. Returns whether the worker now takes stock.
    #[inline]
    #[must_use]
    pub(crate) const fn counted(self) -> (Self, bool) {
        if self.0 == 1 { (Self::NEW, true) } else { (Self(self.0 - 1), false) }
    }
}

/// The time that a worker's last items have taken. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stock {
    /// The number of items of which the worker takes stock.
    of: u32,
    /// The time before which the first of the items began.
    first: Time,
    /// The time that the worker has spent on items before `since`.
    taken: Duration,
    /// The time at which the worker began to run items.
    since: Time,
}

impl Stock {
    /// Returns the stock of a worker that has run no items.
    pub(crate) const fn new() -> Self {
        Self { of: STRIDE, first: Time::NEVER, taken: Duration::ZERO, since: Time::NEVER }
    }

    /// Notes that the worker begins to run items.
    #[must_use]
    pub(crate) fn begins(self, now: Time) -> Self {
        Self { first: self.first.min(now), since: now, ..self }
    }

    /// Notes that the worker has no more items.
    #[must_use]
    pub(crate) fn rests(self, now: Time) -> Self {
        Self { taken: self.taken + now.since(self.since), ..self }
    }

    /// Takes stock. Returns what the items show, and the number of items until the worker takes stock again.
    #[must_use]
    pub(crate) fn take(self, now: Time) -> (Self, Items, Countdown) {
        let strides = self.of / STRIDE;
        let taken = (self.taken + now.since(self.since)) / strides;
        let items = match taken {
            taken if taken > SHORT => Items::Long,
            _ if now.since(self.first) / strides > WITHIN => Items::Few,
            _ => Items::Short,
        };
        let of = if taken <= VERY_SHORT { LONG_STRIDE } else { STRIDE };
        (Self { of, ..Self::new().begins(now) }, items, Countdown(of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    #[test]
    fn a_worker_takes_stock_after_each_sixteen_items() {
        let mut countdown = Countdown::NEW;
        for item in 1..=100 {
            let is_time;
            (countdown, is_time) = countdown.counted();
            assert_eq!(is_time, item % 16 == 0, "{item}");
        }
    }

    #[test]
    fn sixteen_items_are_short_if_they_take_a_tenth_of_a_millisecond() {
        for (micros, items) in
            [(0, Items::Short), (100, Items::Short), (101, Items::Long), (3000, Items::Long)]
        {
            let (stock, taken, countdown) = Stock::new().begins(at(5)).take(at(5 + micros));
            let of = if micros <= 12 { 64 } else { 16 };
            let next = Stock { of, ..Stock::new().begins(at(5 + micros)) };
            assert_eq!((stock, taken, countdown), (next, items, Countdown(of)), "{micros}");
        }
    }

    /// Four strides may take four times as long.
    #[test]
    fn a_worker_takes_stock_of_very_short_items_more_rarely() {
        let very_short = Stock::new().begins(at(0)).take(at(12)).0;
        for (micros, items) in [(400, Items::Short), (401, Items::Long)] {
            assert_eq!(very_short.take(at(12 + micros)).1, items, "{micros}");
        }
        assert_eq!(very_short.take(at(12 + 48)).2, Countdown(64));
        assert_eq!(very_short.take(at(12 + 49)).2, Countdown(16));
    }

    #[test]
    fn the_time_without_items_does_not_count() {
        let stock = Stock::new().begins(at(0)).rests(at(60)).begins(at(900));
        assert_eq!((stock.take(at(940)).1, stock.take(at(941)).1), (Items::Short, Items::Long));
    }

    /// spec: A3.10 (a pod that runs few items is quiet)
    #[test]
    fn few_items_in_a_long_time_make_no_pool_brisk() {
        let stock = Stock::new().begins(at(0)).rests(at(10)).begins(at(995));
        assert_eq!((stock.take(at(1000)).1, stock.take(at(1001)).1), (Items::Short, Items::Few));
    }
}
