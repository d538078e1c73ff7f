//! When a worker reads its clocks, and whose the CPU time is that it has used.
//!
//! A reading of the thread's CPU clock costs as much as several short items, one of the coarse clock a tenth of one. So
//! items are taken together into *windows*, at the end of which the clock is read: as many items as use a tenth of a
//! millisecond, by the last window; one, if they are longer. A window also ends where a tick of the coarse clock has
//! passed, for which every sixteenth item looks, and everyone that follows one of another queue; so an item that is longer
//! than a tick shares its window with what came before it only. And it ends with an item that was interrupted (one that
//! slept may have been long without any CPU time), after which the next item has a window of its own.
//!
//! Most windows are of one queue. If there are several in one, all of it goes to the one whose item a tick met last, as
//! the kernel's does, if it has a part in the window; so each has its share on average. What ends by a tick goes to whom
//! that met. An item that was interrupted is met by none; what is more than such windows use is its own.

#![forbid(unsafe_code)]

use std::time::Duration;

/// What a window is to use, so that its reading costs one per cent of it or so.
const WINDOW: Duration = Duration::from_micros(100);
/// The most items of a window.
const MOST_ITEMS: u32 = 1024;
/// So often the coarse clock is looked at while items are short.
const STRIDE: u32 = 16;
/// What is not worth to be told apart.
const LITTLE: Duration = Duration::from_micros(5);
/// An item that was not the first of its window has used what is not yet accounted for, if that is more than all windows
/// before it may have left.
const SURELY_OWN: Duration = Duration::from_millis(10);

/// How far a worker is in its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metering {
    /// Items in this window.
    items: u32,
    /// Items until the coarse clock is looked at.
    left: u32,
    /// How many items this window may have.
    span: u32,
}

impl Metering {
    /// A worker of which nothing is known.
    pub(crate) const fn new() -> Self {
        Self { items: 0, left: 1, span: 1 }
    }

    /// One more item has ended. True if the coarse clock is to be looked at.
    #[inline]
    pub(crate) fn item_ended(&mut self) -> bool {
        self.items += 1;
        self.left -= 1;
        self.left == 0
    }

    /// The coarse clock was looked at. True if the window is as long as it may be.
    pub(crate) fn looked(&mut self) -> bool {
        self.left = self.span.saturating_sub(self.items).clamp(1, STRIDE);
        self.items >= self.span
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// So much was used in a window that ends with an item that was interrupted: is it that item's? Yes if those before it
    /// would have to be more than twice as long as those of the window before.
    pub(crate) fn is_of_the_interrupted(self, used: Duration) -> bool {
        let before = self.items.saturating_sub(1);
        used >= LITTLE + 2 * WINDOW * before / self.span
    }

    /// The window has ended, in which so much CPU time was used.
    pub(crate) fn ended(&mut self, used: Duration) {
        let items = self.items.max(1);
        let each = (used.as_nanos() / u128::from(items)).max(1);
        // Slowly up: one short window is no stream of short items.
        let most = u128::from(self.span.saturating_mul(2).min(MOST_ITEMS));
        let span = (WINDOW.as_nanos() / each).clamp(1, most) as u32;
        *self = Self { items: 0, left: span.min(STRIDE), span };
    }
}

/// How much of what a worker has used since its last reading is surely its present item's. `is_first`: the window began
/// with that item.
pub(crate) fn surely_own(used: Duration, is_first: bool) -> Duration {
    if is_first || used >= SURELY_OWN { used } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many items are taken together, and how often the coarse clock is looked at, once items of this length have
    /// come for a while.
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

    /// spec: O1.4 (CPU time is read per batch)
    #[test]
    fn short_items_are_taken_together() {
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
        assert_eq!(metering.span, 2, "slowly up");
    }

    #[test]
    fn what_short_items_cannot_have_used_is_the_interrupted_ones() {
        let (micros, mut metering) = (Duration::from_micros, Metering::new());
        metering.item_ended();
        assert!(metering.is_of_the_interrupted(micros(6)), "there is nobody else");
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
    fn an_item_owns_what_nobody_else_can_have_used() {
        let (little, much) = (Duration::from_micros(300), Duration::from_millis(200));
        assert_eq!(surely_own(little, true), little);
        assert_eq!(surely_own(little, false), Duration::ZERO);
        assert_eq!(surely_own(much, false), much);
    }
}
