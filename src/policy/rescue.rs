//! Decides when a pool calls rescuers because a worker that it needs cannot be made, and how long a rescuer stays.
//!
//! [`Distress`] is part of the idle set, which the pool's mutex protects. A call begins when a reservation waits for a
//! worker that the manager could not make immediately. The call ends when no reservation waits any more. While the call
//! lasts, its deadline is one of the pool's deadlines.
//!
//! The call continues even if no queue has a rescuer, because a queue with a rescuer may be built while the pool waits,
//! and items of that queue may come to this pool. Without a rescuer, the manager wakes ten times per second for
//! nothing.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A pool that needs a worker that cannot be made waits this long before it calls rescuers.
pub(crate) const MAYDAY_INITIAL: Duration = Duration::from_millis(10);

/// The interval at which a pool calls rescuers again while it waits for a worker.
pub(crate) const MAYDAY_INTERVAL: Duration = Duration::from_millis(100);

/// After this many items in one pool, a rescuer moves to the next pool that called it.
const TURN: usize = 16;

/// Whether a pool needs a worker that cannot be made, and whether it has called for help.
#[derive(Debug, Default)]
pub(crate) struct Distress {
    /// Whether the manager could not make the requested worker immediately.
    unserved: bool,
    /// The deadline of the present call, at which rescuers are called next, or `None` if no call is under way.
    mayday_at: Option<Time>,
}

impl Distress {
    /// Notes that the manager cannot make the requested worker now.
    pub(crate) fn unserved(&mut self) {
        self.unserved = true;
    }

    /// Notes that the requested worker has arrived, or that the pool does not want it any more.
    pub(crate) fn served(&mut self) {
        *self = Self::default();
    }

    /// Ends the call, because no reservation waits any more. The manager still cannot make the requested worker.
    pub(crate) fn calm(&mut self) {
        self.mayday_at = None;
    }

    /// Notes that a reservation waits for a worker. Begins a call if the worker cannot be made and no call is under
    /// way.
    pub(crate) fn call(&mut self, now: impl FnOnce() -> Time) {
        if self.unserved && self.mayday_at.is_none() {
            self.mayday_at = Some(now() + MAYDAY_INITIAL);
        }
    }

    /// Returns whether it is time to call rescuers. If it is time, sets the next deadline of the call.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let is_due = self.mayday_at.is_some_and(|at| at <= now);
        if is_due {
            self.mayday_at = Some(now + MAYDAY_INTERVAL);
        }
        is_due
    }

    /// Returns the deadline of the present call, or `None` if no call is under way.
    pub(crate) fn mayday_at(&self) -> Option<Time> {
        self.mayday_at
    }

    pub(crate) fn is_unserved(&self) -> bool {
        self.unserved
    }
}

/// Returns whether a rescuer that has run `rescued` items in a pool now leaves this pool for other pools that wait.
pub(crate) fn gives_way(rescued: usize, others_wait: bool) -> bool {
    others_wait && rescued >= TURN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    /// spec: P2.3 (a pool that is served immediately never calls rescuers; otherwise it calls after 10 ms, then every
    /// 100 ms)
    #[test]
    fn a_distress_has_a_deadline_from_its_beginning_to_its_end() {
        let mut distress = Distress::default();
        distress.call(|| unreachable!("the worker is being made"));
        assert_eq!(distress.mayday_at(), None);
        distress.unserved();
        distress.call(|| at(0));
        distress.call(|| unreachable!("the call has a deadline already"));
        assert!(!distress.is_due(at(9)) && distress.is_due(at(10)) && !distress.is_due(at(109)));
        assert_eq!(distress.mayday_at(), Some(at(110)));
        distress.calm();
        assert!(!distress.is_due(at(110)));
        distress.call(|| at(200));
        assert_eq!(
            distress.mayday_at(),
            Some(at(210)),
            "a worker is still missing, and a reservation waits again"
        );
        distress.served();
        distress.call(|| unreachable!("the worker was made"));
        assert!(!distress.is_due(at(210)));
    }

    /// spec: P2.6: a rescuer leaves a pool after sixteen items if other pools wait for it.
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
