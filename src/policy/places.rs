//! Decides which submissions get one of the places for a queue's pending items.
//!
//! A submission takes a place if one is free. If no place is free, the submission is refused, or its issuer waits in a
//! line. While issuers wait in line, all other submissions are refused, so a place that becomes free goes to the first
//! issuer in line. The item of a timer is accepted before the timer fires. So when the timer fires, the item takes a
//! place even if no place is free. So a queue's pending items may take more places than the queue has.

#![forbid(unsafe_code)]

use std::fmt;

/// The highest bit, which says that issuers wait in line. While this bit is set, the word is larger than any number of
/// places.
const LINE: u64 = 1 << 63;

/// The number of places that are taken, and whether issuers wait in line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places(u64);

impl Places {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    /// Takes a place, if one of the `max` places is free and no issuer waits in line.
    #[inline]
    pub(crate) const fn take(self, max: u64) -> Option<Self> {
        if self.0 < max { Some(Self(self.0 + 1)) } else { None }
    }

    /// Takes this many places, or as many as are free. If an issuer waits in line, takes none. Also returns the number
    /// of places that it took.
    #[inline]
    pub(crate) const fn take_many(self, max: u64, places: u64) -> (Self, u64) {
        let free = max.saturating_sub(self.0);
        let taken = if places < free { places } else { free };
        (Self(self.0 + taken), taken)
    }

    /// Takes a place, or puts the issuer in line. Returns whether the issuer got a place. The caller holds the lock of
    /// the line.
    pub(crate) const fn take_or_wait(self, max: u64) -> (Self, bool) {
        match self.take(max) {
            Some(taken) => (taken, true),
            None => (Self(self.0 | LINE), false),
        }
    }

    /// Hands a place to the first issuer in line, if a place is free. The caller holds the lock of the line.
    pub(crate) const fn hand(self, max: u64) -> Option<Self> {
        if self.taken() < max { Some(Self(self.0 + 1)) } else { None }
    }

    /// Notes that no issuer waits in line any more. The caller holds the lock of the line.
    pub(crate) const fn line_is_empty(self) -> Self {
        Self(self.0 & !LINE)
    }

    pub(crate) const fn has_line(self) -> bool {
        self.0 & LINE != 0
    }

    /// Returns whether a submission would get a place.
    pub(crate) const fn has_room(self, max: u64) -> bool {
        self.0 < max
    }

    pub(crate) const fn taken(self) -> u64 {
        self.0 & !LINE
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("taken", &self.taken()).field("line", &self.has_line()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: B1.1, Q5: submissions take at most as many places as the queue has (`max_pending`).
    #[test]
    fn places_are_taken_up_to_their_number() {
        let one = Places::new().take(2).unwrap();
        let two = one.take(2).unwrap();
        assert_eq!((two.take(2), two.taken()), (None, 2));
        assert_eq!(one.take_many(2, 5), (two, 1));
        assert_eq!(two.take_many(2, 5), (two, 0));
        let anyway = Places::from_bits(two.into_bits() + 1);
        assert_eq!((anyway.take(2), anyway.take_many(2, 1).1, anyway.hand(2)), (None, 0, None));
    }

    /// spec: B1.3: a place that becomes free goes to the first issuer in line, and not to another submission.
    #[test]
    fn a_free_place_goes_to_the_line() {
        let full = Places::new().take(1).unwrap();
        let (waits, got) = full.take_or_wait(1);
        assert!(!got && waits.has_line());
        let left = Places::from_bits(waits.into_bits() - 1);
        assert_eq!((left.take(1), left.take_many(1, 1).1), (None, 0), "no submission overtakes the line");
        assert!(!left.has_room(1));
        assert!(!left.take_or_wait(1).1, "nor does an issuer that waits otherwise");
        let handed = left.hand(1).unwrap();
        assert_eq!((handed.taken(), handed.hand(1)), (1, None));
        assert_eq!(handed.line_is_empty(), full);
    }
}
