//! Decides when a worker reads its clocks, and which queue is charged for the CPU time that the worker has used.
//!
//! A reading of the thread's CPU clock costs as much as several short items, and a reading of the coarse clock costs a
//! tenth of a short item. So a worker groups items into *windows*, and reads the CPU clock at the end of each window. A
//! window has as many items as are expected to use a tenth of a millisecond together, judged by the items of the last
//! window. If items are longer than a tenth of a millisecond, each window has one item.
//!
//! A window also ends when the coarse clock has ticked. The worker reads the coarse clock after sixteen items at the
//! latest, and before each item that follows an item of another queue. So an item that is longer than a tick can share
//! its window only with earlier items. An *interrupted* item (it has blocked, or the manager has found that it takes
//! long) also ends its window, because an item that slept may have taken long without using CPU time. The next item
//! then has a window of its own.
//!
//! In most windows, all items come from a single queue. If a window has items of several queues, its whole CPU time is
//! charged to one queue, as in the kernel. The charged queue is the one whose item was running at the last tick, if
//! that queue has an item in the window. So on average, each queue is charged for its share of the CPU time. If a tick
//! ends the window, the queue of the item that was running at this tick is charged. A tick that comes while the worker
//! reads its CPU clock counts for no item, because the reading is a system call, and a kernel that preempts lazily
//! often preempts a thread during a system call. An interrupted item does not count as running at a tick. But the whole
//! window is charged to the queue of an interrupted item if the earlier items of the window cannot have used so much
//! CPU time.

#![forbid(unsafe_code)]

use std::time::Duration;

/// The CPU time that a window should use. Reading the CPU clock costs about one per cent of this time.
const WINDOW: Duration = Duration::from_micros(100);
/// A window has at most this many items.
const MOST_ITEMS: u32 = 1024;
/// There are at most this many items between two readings of the coarse clock.
const STRIDE: u32 = 16;
/// A duration that is too short to tell which item has used it.
const LITTLE: Duration = Duration::from_micros(5);
/// If the uncharged CPU time is at least this long, it belongs to the present item, because the earlier items of a
/// window use less time than this.
const SURELY_OWN: Duration = Duration::from_millis(10);

/// The state of a worker's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metering {
    /// The number of items so far in this window.
    items: u32,
    /// The number of items until the next reading of the coarse clock.
    left: u32,
    /// The number of items after which this window is full.
    span: u32,
    /// Whether the items may be shorter than `span` suggests, because `span` grows slowly.
    grows: bool,
}

impl Metering {
    /// Returns the window of a worker that has not run any item.
    pub(crate) const fn new() -> Self {
        Self { items: 0, left: 1, span: 1, grows: true }
    }

    /// Notes that an item has ended. Returns whether the worker must now read the coarse clock.
    #[inline]
    pub(crate) fn item_ended(&mut self) -> bool {
        self.items += 1;
        self.left -= 1;
        self.left == 0
    }

    /// Notes that the worker has read the coarse clock. Returns whether the window is full.
    pub(crate) fn looked(&mut self) -> bool {
        self.left = self.span.saturating_sub(self.items).clamp(1, STRIDE);
        self.items >= self.span
    }

    /// Returns the number of items that are expected to take a tenth of a millisecond together.
    pub(crate) const fn span(&self) -> u32 {
        self.span
    }

    /// Returns whether the items may be shorter than the [span](Self::span) says.
    pub(crate) const fn grows(&self) -> bool {
        self.grows
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Returns whether an interrupted item, which ends this window, is charged for the window's whole CPU time, `used`.
    /// The interrupted item is charged if the earlier items alone could have used this time only by being more than
    /// twice as long as the items of the last window.
    pub(crate) fn is_of_the_interrupted(self, used: Duration) -> bool {
        let before = self.items.saturating_sub(1);
        used >= LITTLE + 2 * WINDOW * before / self.span
    }

    /// Ends the window. `used` is the CPU time that the worker used in the window.
    pub(crate) fn ended(&mut self, used: Duration) {
        let items = self.items.max(1);
        let each = (used.as_nanos() / u128::from(items)).max(1);
        // The span grows slowly, because one window of short items does not mean that the next items are short too.
        let most = u128::from(self.span.saturating_mul(2).min(MOST_ITEMS));
        let span = (WINDOW.as_nanos() / each).clamp(1, most) as u32;
        *self = Self { items: 0, left: span.min(STRIDE), span, grows: u128::from(span) == most };
    }
}

/// Returns how much of `used` surely belongs to a worker's present item. `used` is the CPU time that the worker has
/// used since the last reading of its CPU clock. `is_first` says whether the window began with the present item.
pub(crate) fn surely_own(used: Duration, is_first: bool) -> Duration {
    if is_first || used >= SURELY_OWN { used } else { Duration::ZERO }
}

/// Returns a CPU time in nanoseconds, which always fits into 64 bits.
pub(crate) fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many items a window has, and how many times the worker reads the coarse clock in it, after many
    /// items of this length.
    fn settled(item: Duration) -> (u32, u32) {
        let mut metering = Metering::new();
        let (mut items, mut looks) = (0, 0);
        for _ in 0..40 {
            (items, looks) = (0, 0);
            loop {
                items += 1;
                if metering.item_ended() {
                    looks += 1;
                    if metering.looked() {
                        break;
                    }
                }
            }
            metering.ended(item * items);
        }
        (items, looks)
    }

    /// spec: O1.4: short items share a window, so a worker reads its CPU time once for many items.
    #[test]
    fn short_items_share_a_window() {
        let nanos = Duration::from_nanos;
        for (item, expected) in [
            (nanos(0), (1024, 64)),
            (nanos(60), (1024, 64)),
            (nanos(1000), (100, 7)),
            (nanos(20_000), (5, 1)),
            (nanos(60_000), (1, 1)),
            (nanos(u64::MAX), (1, 1)),
        ] {
            assert_eq!(settled(item), expected, "{item:?}");
        }
    }

    #[test]
    fn one_long_window_makes_the_next_one_short() {
        let mut metering = Metering::new();
        for _ in 0..20 {
            while !(metering.item_ended() && metering.looked()) {}
            metering.ended(Duration::from_nanos(100));
        }
        assert_eq!(metering.span, MOST_ITEMS);
        assert!(!metering.item_ended());
        metering.ended(Duration::from_millis(1));
        assert!(metering.item_ended() && metering.looked());
        assert!(!metering.is_empty());
        metering.ended(Duration::ZERO);
        assert!(metering.is_empty());
        assert_eq!((metering.span, metering.grows), (2, true), "the span grows slowly");
    }

    #[test]
    fn an_interrupted_item_is_charged_for_what_short_ones_cannot_use() {
        let (micros, mut metering) = (Duration::from_micros, Metering::new());
        metering.item_ended();
        assert!(metering.is_of_the_interrupted(micros(6)), "there is no other item");
        metering.ended(micros(6));
        for _ in 0..20 {
            while !(metering.item_ended() && metering.looked()) {}
            metering.ended(Duration::from_micros(1) * metering.items);
        }
        for _ in 0..11 {
            if metering.item_ended() {
                metering.looked();
            }
        }
        assert!(!metering.is_of_the_interrupted(micros(20)), "ten items of a microsecond, and a little");
        assert!(metering.is_of_the_interrupted(micros(40)));
    }

    #[test]
    fn an_item_owns_time_that_no_other_can_have_used() {
        let (little, much) = (Duration::from_micros(300), Duration::from_millis(200));
        assert_eq!(surely_own(little, true), little);
        assert_eq!(surely_own(little, false), Duration::ZERO);
        assert_eq!(surely_own(much, false), much);
    }
}
