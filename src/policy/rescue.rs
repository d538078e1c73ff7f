//! When a pool that needs a worker and cannot have one calls rescuers, and how long a rescuer stays.
//!
//! [`Distress`] is a part of the idle set, inside the pool's mutex. A call begins when a reservation waits for a worker
//! that the manager could not make at once, and ends when no reservation waits. The manager has one deadline for
//! it. A call that ends leaves its deadline behind. Calls are numbered, so the deadline of an old call has no
//! effect.
//!
//! The call goes on if no queue has a rescuer, which costs ten wake-ups of the manager per second: a queue with a
//! rescuer may be built while the pool waits, and its items may come to this pool.

#![forbid(unsafe_code)]

use std::time::Duration;

/// How long a pool is in need before rescuers are called.
pub(crate) const MAYDAY_INITIAL: Duration = Duration::from_millis(10);

/// How often rescuers are called while the need lasts.
pub(crate) const MAYDAY_INTERVAL: Duration = Duration::from_millis(100);

/// After this many items in one pool, a rescuer goes on to the next pool that called it.
const TURN: usize = 16;

/// The number of a call for help.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Call(u64);

/// Whether a pool is in need of a worker that cannot be made, and has called for help.
#[derive(Debug, Default)]
pub(crate) struct Distress {
    /// The manager could not make the requested worker at once.
    unserved: bool,
    /// The manager has a deadline for the call `last`.
    calling: bool,
    last: Call,
}

impl Distress {
    /// Notes that the manager cannot make the worker now.
    pub(crate) fn unserved(&mut self) {
        self.unserved = true;
    }

    /// Notes that the worker has come, or is not wanted any more.
    pub(crate) fn served(&mut self) {
        self.unserved = false;
        self.calling = false;
    }

    /// Ends the call, because no reservation waits any more. The worker still cannot be made.
    pub(crate) fn calm(&mut self) {
        self.calling = false;
    }

    /// Notes that a reservation waits for a worker. If a call begins with that, returns it; the manager sets its
    /// deadline.
    pub(crate) fn call(&mut self) -> Option<Call> {
        if !self.unserved || self.calling {
            return None;
        }
        self.calling = true;
        self.last = Call(self.last.0 + 1);
        Some(self.last)
    }

    /// Returns whether this call is the present one. Asked when the deadline of a call comes.
    pub(crate) fn is_calling(&self, call: Call) -> bool {
        self.calling && self.last == call
    }

    pub(crate) fn is_unserved(&self) -> bool {
        self.unserved
    }
}

/// Returns whether a rescuer leaves a pool for others that wait, after it ran `rescued` items there.
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
        let second = distress.call().expect("a worker is still missing, and a reservation waits again");
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
