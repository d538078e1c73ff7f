//! Decides whether the items of a pool are so short that its siblings leave a small backlog to it.
//!
//! A woken worker of a sibling arrives after some 5 to 50 µs. If the pool's own workers run the backlog in that time,
//! the sibling's worker arrives in vain, and has moved cache lines that all pods share. With many pods, such moves can
//! cost a hundred times as much as the items. So a pool is *brisk* while its items are short. A brisk pool keeps
//! [`AHEAD`] items for each of its workers. A push of an item offers nothing to siblings. Instead, each worker *takes
//! stock* after every [`STRIDE`] of its items: it reads the clock, judges the pool, and offers what the pool does not
//! keep.
//!
//! Items may turn out to be long while the pool is brisk. So the manager checks a pool with siblings at least every 1.5
//! ms, unless it checks the pool rarely, which it never does with a brisk pool. Each check offers what the pool does
//! not keep. If the pool has begun no more items since the last check than it keeps, it is not brisk any more. So after
//! two checks, an item has begun, or it may leave the pool: either the pool's workers have taken all the items before
//! it, or it was offered. This relies on the order of the items. While the sideline comes first, the pool keeps
//! nothing. Between the [parts](super::parts) of a worklist there is no order. So a kept item of a CPU whose worker is
//! busy may wait for some stretches of 25 µs more, until the part was passed over often enough.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A worker takes stock after this many items.
pub(crate) const STRIDE: u32 = 16;

/// Items are short if [`STRIDE`] of them take at most this long.
const SHORT: Duration = Duration::from_micros(100);

/// Items make a pool brisk only if [`STRIDE`] of them run within this time, pauses included.
const WITHIN: Duration = Duration::from_millis(1);

/// The number of items for each worker that a brisk pool keeps. While items are short, they take 25 µs at most.
pub(crate) const AHEAD: u64 = 4;

/// What a worker's last [`STRIDE`] items show about its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Items {
    /// The items were short.
    Short,
    /// The items were short, but the worker had long pauses between them.
    Few,
    /// The items were not short.
    Long,
}

/// The time that a worker's last items have taken. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stock {
    items: u32,
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
        Self { items: 0, first: Time::NEVER, taken: Duration::ZERO, since: Time::NEVER }
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

    /// Counts an item that has ended. Returns whether the worker now takes stock.
    #[inline]
    #[must_use]
    pub(crate) const fn item_ended(self) -> (Self, bool) {
        let items = self.items + 1;
        (Self { items, ..self }, items >= STRIDE)
    }

    /// Takes stock.
    #[must_use]
    pub(crate) fn take(self, now: Time) -> (Self, Items) {
        let items = match self.taken + now.since(self.since) {
            taken if taken > SHORT => Items::Long,
            _ if now.since(self.first) > WITHIN => Items::Few,
            _ => Items::Short,
        };
        (Self::new().begins(now), items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    fn ended(mut stock: Stock, items: u32) -> (Stock, bool) {
        let mut is_time = false;
        for _ in 0..items {
            assert!(!is_time);
            (stock, is_time) = stock.item_ended();
        }
        (stock, is_time)
    }

    #[test]
    fn sixteen_items_are_short_if_they_take_a_tenth_of_a_millisecond() {
        for (micros, items) in
            [(0, Items::Short), (100, Items::Short), (101, Items::Long), (3000, Items::Long)]
        {
            let (stock, is_time) = ended(Stock::new().begins(at(5)), 16);
            assert!(is_time);
            let taken = stock.take(at(5 + micros));
            assert_eq!(taken, (Stock::new().begins(at(5 + micros)), items), "{micros}");
        }
    }

    #[test]
    fn the_time_without_items_does_not_count() {
        let (stock, _) = ended(Stock::new().begins(at(0)), 10);
        let (stock, is_time) = ended(stock.rests(at(60)).begins(at(900)), 6);
        assert!(is_time);
        assert_eq!((stock.take(at(940)).1, stock.take(at(941)).1), (Items::Short, Items::Long));
    }

    /// spec: A3.10 (a pod that runs few items is quiet)
    #[test]
    fn few_items_in_a_long_time_make_no_pool_brisk() {
        let (stock, _) = ended(Stock::new().begins(at(0)), 10);
        let (stock, is_time) = ended(stock.rests(at(10)).begins(at(995)), 6);
        assert!(is_time);
        assert_eq!((stock.take(at(1000)).1, stock.take(at(1001)).1), (Items::Short, Items::Few));
    }
}
