//! Who helps a pool that needs a worker and cannot have one? When rescuers are called, and how long one stays.
//!
//! [`Distress`] is a part of the crew, inside the pool's mutex. A call lasts from the moment in which somebody waits
//! for a worker that the manager could not make at once, to the moment in which nobody does; the manager has one
//! deadline for it. A call that is over leaves its deadline behind, so calls are numbered: a deadline of an old one
//! finds out, and lapses.
//!
//! The call goes on if no queue has a rescuer, at ten wake-ups of the manager a second: a queue with one may be built while
//! the pool waits, and its items may come to this pool.

#![forbid(unsafe_code)]

use std::time::Duration;

/// How long a pool must have been in need before rescuers are called.
pub(crate) const MAYDAY_INITIAL: Duration = Duration::from_millis(10);

/// How often they are called while it still is.
pub(crate) const MAYDAY_INTERVAL: Duration = Duration::from_millis(100);

/// After so many items in one pool, a rescuer goes on to the next pool that called it.
const TURN: usize = 16;

/// The number of a call for help.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Call(u64);

/// Whether a pool is in need of a worker that cannot be made, and has called for help.
#[derive(Debug, Default)]
pub(crate) struct Distress {
    /// The manager could not make the worker at once that it was asked for.
    unserved: bool,
    /// The manager has a deadline for the call `last`.
    calling: bool,
    last: Call,
}

impl Distress {
    /// The manager cannot make the worker now.
    pub(crate) fn unserved(&mut self) {
        self.unserved = true;
    }

    /// The worker has come, or is not wanted any more.
    pub(crate) fn served(&mut self) {
        self.unserved = false;
        self.calling = false;
    }

    /// Nobody waits for a worker any more; that it cannot be made is true all the same.
    pub(crate) fn calm(&mut self) {
        self.calling = false;
    }

    /// Somebody waits for a worker. If that is the beginning of a distress: the call for which the manager sets a
    /// deadline.
    pub(crate) fn call(&mut self) -> Option<Call> {
        if !self.unserved || self.calling {
            return None;
        }
        self.calling = true;
        self.last = Call(self.last.0 + 1);
        Some(self.last)
    }

    /// A deadline has come: is its call the present one?
    pub(crate) fn is_calling(&self, call: Call) -> bool {
        self.calling && self.last == call
    }

    pub(crate) fn is_unserved(&self) -> bool {
        self.unserved
    }
}

/// Does a rescuer that has run so many items of one pool leave it for those that wait?
pub(crate) fn gives_way(rescued: usize, others_wait: bool) -> bool {
    others_wait && rescued >= TURN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: P2.3 (a pool that is served at once never calls)
    #[test]
    fn a_distress_is_one_call_from_its_beginning_to_its_end() {
        let mut distress = Distress::default();
        assert_eq!(distress.call(), None, "the worker is being made");
        distress.unserved();
        let first = distress.call().expect("it cannot be made");
        assert_eq!(distress.call(), None, "one deadline is enough");
        assert!(distress.is_calling(first));
        distress.calm();
        assert!(!distress.is_calling(first));
        let second = distress.call().expect("a worker is still missing, and somebody waits again");
        assert!(!distress.is_calling(first), "the deadline that the first call left behind lapses");
        assert!(distress.is_calling(second));
        distress.served();
        assert!(!distress.is_calling(second));
        assert_eq!(distress.call(), None);
    }

    /// spec: P2.6 (taking turns among pools)
    #[test]
    fn a_rescuer_leaves_after_sixteen_items_if_others_wait() {
        for (rescued, others_wait, leaves) in
            [(0, true, false), (15, true, false), (16, true, true), (16, false, false), (500, true, true)]
        {
            assert_eq!(
                gives_way(rescued, others_wait),
                leaves,
                "{rescued} items, others wait: {others_wait}"
            );
        }
    }
}
