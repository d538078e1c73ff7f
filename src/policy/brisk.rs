//! Decides whether the items of a pool are so short that a small backlog is left to the workers that run.
//!
//! A woken worker arrives after some 5 to 50 µs, and the thread that wakes it needs some 2 µs for the wake-up. If the
//! running workers take the backlog before a woken worker arrives, the woken worker finds no item. In a pool of several
//! CPUs, an issuer that wakes a worker for each item that does nothing is slower than a single worker that runs these
//! items. Because the issuer is slower, the pool runs out of work after each item, and the issuer has to wake a worker
//! for the next item. A woken worker of a sibling pool also moves cache lines, which all pods share, to its own CPU.
//! Moving the cache lines can cost a hundred times as much as running the items.
//!
//! So a pool is *brisk* while its items are short and many. A brisk pool leaves [`AHEAD`] items to each of its workers.
//! While a worker of a brisk pool runs, or while two woken workers are on their way, a push wakes no worker and offers
//! nothing to sibling pools. But if a woken worker is late, a push acts as in any other pool. Each worker *takes stock*
//! after some of its items. A worker that takes stock judges whether its items are short and many, and wakes another
//! worker if the running workers have too many items. The worker also offers siblings the items that the pool does not
//! keep for its own workers. A woken worker, too, wakes another worker if the running workers have too many items. A
//! thread counts the items that it leaves to workers. After every [`STRIDE`] such items, the thread checks whether the
//! workers of the last item's pool have too many items. A thread that pushes items slowly leaves few items to workers
//! ([`Habit`]). A worker that blocks is replaced at once, as in any pool.
//!
//! Items may turn out to be long while the pool is brisk. So the manager checks a brisk pool at least every 1.5 ms. The
//! manager checks other pools with siblings equally often, except those that it has reason to check rarely. Each check
//! of a pool wakes a worker if the pool has pending work and a free CPU. Each check also offers siblings the items that
//! the pool does not keep for its own workers. A pool stops being brisk if it has begun fewer than [`MANY`] items since
//! the last check, or no more items than it leaves to its workers. When a pool stops being brisk, workers are woken for
//! all its items. So after two checks, one of three things is true of an item: the item has begun, a worker is woken
//! for it, or siblings may take it. Siblings may take an item if the pool's workers have taken all the items before it,
//! or if the pool has offered it. The bound of two checks on an item's wait holds only if workers take the items in
//! order. So the pool keeps no items for its workers while the workers first take the entries of the pool's sideline (a
//! list beside the worklist). Between the [parts](super::parts) of a worklist there is no order. So if the worker of a
//! CPU is busy, a kept item in the part of this CPU may wait longer, while other workers take items of other parts for
//! 25 µs at a time. When workers have passed over a part often enough, the next worker takes items of this part. *Local
//! items* (which a worker's own items have queued) and *heirs* (which get the slots of a worker's last items) may
//! overtake a kept item, too ([`local`](super::local)). A row of local items and heirs ends, at the latest, with the
//! item that runs at the manager's second check after the beginning of the row. After such a row, at most one local
//! item overtakes a kept item for each item that workers take from the worklist before the kept item.
//!
//! A worker judges its items by the CPU time that it used in its last windows ([`metering`](super::metering)),
//! including its own overhead. So in a build with `cmwq_uncounted`, which measures no items, no pool becomes brisk.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A worker takes stock after this many items. An issuer checks the backlog after it has left this many items to
/// workers.
pub(crate) const STRIDE: u32 = 16;

/// If this many of a worker's items together use at most 0.1 ms of CPU time, the worker takes stock after
/// [`LONG_STRIDE`] items. At shorter intervals, reading the clock would be a considerable part of the cost of such
/// items.
const VERY_SHORT: u32 = 8 * STRIDE;

/// The number of items after which a worker takes stock if its items are very short (see [`VERY_SHORT`]).
const LONG_STRIDE: u32 = 4 * STRIDE;

/// Items are short if this many of them together use at most 0.1 ms of CPU time.
const SHORT: u32 = STRIDE;

/// Items make a pool brisk only if [`STRIDE`] of them that run one after the other take at most this long. Items that
/// take longer have slept, or another thread has used the CPU.
const SHORT_TIME: Duration = Duration::from_micros(100);

/// Items make a pool brisk only if [`STRIDE`] of them run within this time, pauses included.
const WITHIN: Duration = Duration::from_millis(1);

/// If the workers of a pool have begun fewer items than this since the manager's last check, the pool is not brisk any
/// more.
pub(crate) const MANY: u64 = 24;

/// A thread is quick if it pushes [`STRIDE`] items within this time.
const QUICK: Duration = Duration::from_micros(32);

/// A slow thread tries to leave items to workers after it has woken workers for this many items.
const SLOW_STRIDE: u32 = 128;

/// A brisk pool keeps this many items for each of its workers. This many short items together use at most 25 µs of CPU
/// time.
pub(crate) const AHEAD: u64 = 4;

/// A worker's judgement of its last items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Items {
    /// The items were short and many.
    Brisk,
    /// The worker does not know whether the items are short, or it has run them too slowly to count them as many.
    Few,
    /// The items were not short.
    Long,
}

/// The number of items until a worker takes stock (judges its last items), as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Countdown(u32);

impl Countdown {
    pub(crate) const NEW: Self = Self(STRIDE);

    /// Counts an item. Returns whether the worker must now take stock.
    #[inline]
    #[must_use]
    pub(crate) const fn counted(self) -> (Self, bool) {
        if self.0 == 1 { (Self::NEW, true) } else { (Self(self.0 - 1), false) }
    }
}

/// The next step of a thread that pushes an item to a brisk pool with a free CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Leave the item to the workers that run.
    Leave,
    /// Leave the item to the workers that run, but check whether they have too many items.
    Check,
    /// Wake a worker for the item after all.
    Wake,
}

/// A thread's habit of leaving items to the workers of brisk pools, or of waking workers, as a plain value.
///
/// A *quick* thread leaves its items to workers. A slow thread wakes workers instead. A thread may be slow because it
/// waits for each of its items. While such a thread waits, its CPU is free, so a wake-up delays the thread little. But
/// a thread may also be slow because it wakes workers. So now and then, a slow thread leaves some items to workers, and
/// reads the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Habit {
    wakes: bool,
    /// The number of items until the thread reads the clock.
    left: u32,
    /// The time at which the thread last read the clock.
    since: Time,
}

impl Habit {
    /// The habit of a thread that has pushed no item yet.
    pub(crate) const NEW: Self = Self { wakes: true, left: 1, since: Time::from_nanos(0) };

    /// Notes that the thread pushes an item. Calls `now` only for some items.
    pub(crate) fn pushes(self, now: impl FnOnce() -> Time) -> (Self, Left) {
        if self.left > 1 {
            let left = if self.wakes { Left::Wake } else { Left::Leave };
            return (Self { left: self.left - 1, ..self }, left);
        }
        let now = now();
        let is_quick = self.wakes || now.since(self.since) <= QUICK;
        let next = Self { wakes: !is_quick, left: if is_quick { STRIDE } else { SLOW_STRIDE }, since: now };
        (next, if self.wakes { Left::Wake } else { Left::Check })
    }
}

/// A worker's knowledge of its last items, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Last {
    /// This many of the items together use 0.1 ms of CPU time.
    pub(crate) span: u32,
    /// Whether the items may be shorter than `span` says.
    pub(crate) grows: bool,
    /// Whether the worker had no item for a while since it last took stock.
    pub(crate) has_rested: bool,
}

/// The facts that a worker needs to judge its next items, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stock {
    /// The number of items that the worker judges when it next takes stock.
    of: u32,
    /// The time at which the worker last took stock.
    since: Time,
}

impl Stock {
    /// Returns the value for a worker that begins to run items now.
    pub(crate) const fn new(now: Time) -> Self {
        Self { of: STRIDE, since: now }
    }

    /// Judges the worker's last items. Returns the next value, the judgement, and the number of items until the next
    /// judgement.
    #[must_use]
    pub(crate) fn take(self, last: Last, now: Time) -> (Self, Items, Countdown) {
        let Last { span, grows, has_rested } = last;
        let (time, strides) = (now.since(self.since), self.of / STRIDE);
        let items = match () {
            () if span < SHORT && !grows => Items::Long,
            () if span < SHORT || time > WITHIN * strides => Items::Few,
            () if !has_rested && time > SHORT_TIME * strides => Items::Few,
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

    /// Returns what a worker that has rested knows of its last items.
    fn rested(span: u32) -> Last {
        Last { span, grows: false, has_rested: true }
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

    /// Pushes `items` items, one every `nanos` ns. Returns three counts: the items that the thread leaves to workers
    /// without a check, those that it leaves with a check, and those for which it wakes a worker.
    fn pushes(habit: &mut Habit, at: &mut Time, items: u32, nanos: u64) -> [u32; 3] {
        let mut lefts = [0; 3];
        for _ in 0..items {
            *at = *at + Duration::from_nanos(nanos);
            let left;
            (*habit, left) = habit.pushes(|| *at);
            lefts[left as usize] += 1;
        }
        lefts
    }

    /// spec: C3.4
    #[test]
    fn a_quick_thread_leaves_items_to_workers_and_a_slow_one_wakes_them() {
        let (mut habit, mut now) = (Habit::NEW, at(0));
        assert_eq!(pushes(&mut habit, &mut now, 1, 100), [0, 0, 1]);
        assert_eq!(pushes(&mut habit, &mut now, 1600, 2000), [1500, 100, 0]);
        assert_eq!(pushes(&mut habit, &mut now, 16, 2001), [15, 1, 0], "the thread is slow from now on");
        assert_eq!(pushes(&mut habit, &mut now, 128, 3000), [0, 0, 128]);
        assert_eq!(
            pushes(&mut habit, &mut now, 10 * 144, 3000),
            [150, 10, 1280],
            "it tries again now and then"
        );
        assert_eq!(pushes(&mut habit, &mut now, 1600, 200), [1500, 100, 0], "the wake-ups were the reason");
    }

    #[test]
    fn items_are_short_if_sixteen_of_them_take_a_tenth_of_a_millisecond() {
        for (span, items, if_grows) in
            [(1, Items::Long, Items::Few), (15, Items::Long, Items::Few), (16, Items::Brisk, Items::Brisk)]
        {
            for (grows, items) in [(false, items), (true, if_grows)] {
                let stock = Stock::new(at(5)).take(Last { span, grows, has_rested: false }, at(105));
                assert_eq!(stock, (Stock { of: 16, since: at(105) }, items, Countdown(16)), "{span} {grows}");
            }
        }
    }

    #[test]
    fn a_worker_takes_stock_of_very_short_items_more_rarely() {
        for (span, of) in [(127, 16), (128, 64), (1024, 64)] {
            assert_eq!(Stock::new(at(0)).take(rested(span), at(10)).2, Countdown(of), "{span}");
        }
    }

    /// spec: A3.10: a pool that runs few items in a long time is not brisk, even if its items are short.
    #[test]
    fn few_items_in_a_long_time_make_no_pool_brisk() {
        let stock = Stock::new(at(0));
        let (of_64, ..) = stock.take(rested(1024), at(10));
        for (stock, within) in [(stock, at(1000)), (of_64, at(4010))] {
            assert_eq!(stock.take(rested(16), within).1, Items::Brisk);
            assert_eq!(stock.take(rested(16), within + Duration::from_nanos(1)).1, Items::Few);
        }
    }

    /// spec: C3.4: items that sleep use little CPU time, but take too long to make a pool brisk.
    #[test]
    fn items_that_take_long_make_no_pool_brisk() {
        let last = Last { has_rested: false, ..rested(1024) };
        let stock = Stock::new(at(0));
        assert_eq!((stock.take(last, at(100)).1, stock.take(last, at(101)).1), (Items::Brisk, Items::Few));
        let (of_64, ..) = stock.take(last, at(10));
        assert_eq!((of_64.take(last, at(410)).1, of_64.take(last, at(411)).1), (Items::Brisk, Items::Few));
    }
}
