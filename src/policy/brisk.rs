//! Decides whether the items of a pool are so short that a small backlog is left to the workers that run.
//!
//! A woken worker arrives after some 5 to 50 µs, and the thread that wakes it pays some 2 µs. If the workers that run
//! take the backlog in that time, the woken worker arrives in vain. In a pool of several CPUs, an issuer that wakes a
//! worker for each no-op is slower than a single worker. Then the pool is idle between the items, so that the issuer
//! has to wake a worker for each of them. If the worker is a sibling's, it has also moved cache lines that all pods
//! share, which can cost a hundred times as much as the items.
//!
//! So a pool is *brisk* while its items are short and many. A brisk pool leaves [`AHEAD`] items to each of its workers.
//! While a worker runs, or two are on their way, a push neither wakes another worker nor offers anything to siblings.
//! Instead, each worker *takes stock* after some of its items: it judges the pool, wakes a worker if there are too many
//! items for the workers that run, and offers siblings what the pool does not keep. A worker that was woken wakes the
//! next one by the same rule. After every [`STRIDE`] items that a thread has left to workers, it checks the pool of the
//! last of these items in the same way. A worker that blocks is replaced at once, as in any pool.
//!
//! Items may turn out to be long while the pool is brisk. So the manager checks a brisk pool, and any pool with
//! siblings, at least every 1.5 ms, unless it checks the pool rarely, which it never does with a brisk pool. If work is
//! pending and a CPU is free, each check wakes a worker. Each check also offers what the pool does not keep. If the
//! pool has begun few items since the last check, or no more than it leaves to its workers, it is not brisk any more,
//! and workers are woken for all its items. So after two checks, an item has begun, or a worker is woken for it, or it
//! may leave the pool: either the pool's workers have taken all the items before it, or it was offered. This relies on
//! the order of the items. While the sideline comes first, the pool keeps nothing. Between the [parts](super::parts) of
//! a worklist there is no order. So a kept item of a CPU whose worker is busy may wait for some stretches of 25 µs
//! more, until the part was passed over often enough.
//!
//! The length of items is that of the worker's last items, as the CPU time that they have used. So in a build with
//! `cmwq_uncounted`, which measures no items, no pool becomes brisk.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A worker takes stock after this many items, and a thread checks the backlog after it has left so many items to
/// workers.
pub(crate) const STRIDE: u32 = 16;

/// If so many items take a tenth of a millisecond, a worker takes stock after [`LONG_STRIDE`] items. Otherwise, the
/// reading of the clock would be a considerable part of the costs of such items.
const VERY_SHORT: u32 = 8 * STRIDE;

/// See [`VERY_SHORT`].
const LONG_STRIDE: u32 = 4 * STRIDE;

/// Items are short if at least so many of them take a tenth of a millisecond.
const SHORT: u32 = STRIDE;

/// Items make a pool brisk only if [`STRIDE`] of them run within this time, pauses included.
const WITHIN: Duration = Duration::from_millis(1);

/// If the workers of a pool have begun fewer items since the manager's last check, it is not brisk any more.
pub(crate) const MANY: u64 = 24;

/// The number of items for each worker that a brisk pool keeps. While items are short, they take 25 µs at most.
pub(crate) const AHEAD: u64 = 4;

/// What a worker's last items show about its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Items {
    /// The items were short and many.
    Brisk,
    /// The items were short, but the worker has run few of them in this time.
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

/// What a worker needs to judge its next items. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stock {
    /// The number of items of which the worker takes stock.
    of: u32,
    /// The time at which the worker last took stock.
    since: Time,
}

impl Stock {
    /// Returns the stock of a worker that begins now.
    pub(crate) const fn new(now: Time) -> Self {
        Self { of: STRIDE, since: now }
    }

    /// Takes stock. `span` is the number of the worker's items that take 0.1 ms. Returns what the items show, and the
    /// number of items until the worker takes stock again.
    #[must_use]
    pub(crate) fn take(self, span: u32, now: Time) -> (Self, Items, Countdown) {
        let items = match () {
            () if span < SHORT => Items::Long,
            () if now.since(self.since) > WITHIN * (self.of / STRIDE) => Items::Few,
            () => Items::Brisk,
        };
        let of = if span >= VERY_SHORT { LONG_STRIDE } else { STRIDE };
        (Self { of, since: now }, items, Countdown(of))
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
    fn items_are_short_if_sixteen_of_them_take_a_tenth_of_a_millisecond() {
        for (span, items) in [(1, Items::Long), (15, Items::Long), (16, Items::Brisk)] {
            let stock = Stock::new(at(5)).take(span, at(100));
            assert_eq!(stock, (Stock { of: 16, since: at(100) }, items, Countdown(16)), "{span}");
        }
    }

    #[test]
    fn a_worker_takes_stock_of_very_short_items_more_rarely() {
        for (span, of) in [(127, 16), (128, 64), (1024, 64)] {
            assert_eq!(Stock::new(at(0)).take(span, at(10)).2, Countdown(of), "{span}");
        }
    }

    /// spec: A3.10 (a pod that runs few items is quiet)
    #[test]
    fn few_items_in_a_long_time_make_no_pool_brisk() {
        let stock = Stock::new(at(0));
        assert_eq!((stock.take(16, at(1000)).1, stock.take(16, at(1001)).1), (Items::Brisk, Items::Few));
        let (of_64, ..) = stock.take(1024, at(10));
        assert_eq!((of_64.take(16, at(4010)).1, of_64.take(16, at(4011)).1), (Items::Brisk, Items::Few));
    }
}
