//! Decides whether a thread that needs the manager makes the manager's thread.
//!
//! At most one attempt to make the manager is under way at any time, however long it takes, because two managers would
//! each keep only some of the deadlines. If an attempt fails, the next attempt begins at least a second after its end.

#![forbid(unsafe_code)]

use super::manager::CREATION_COOLDOWN;
use super::time::Time;

/// The state of the manager's thread, which the lock of the manager's inbox protects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// A thread is making the manager.
    Starting,
    /// The manager exists. The manager ends only when its executor ends.
    There,
    /// The last attempt to make the manager has failed. No thread begins another attempt before the time `until`.
    Missing { until: Time },
}

/// The next step of a thread that needs the manager.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// Make the manager, and then call [`made`](Presence::made) or [`failed`](Presence::failed).
    Make,
    /// Ask the manager, which exists.
    Ask,
    /// Continue without a manager, because there is none, and this thread does not make one now.
    GoWithout,
}

impl Presence {
    /// Returns the next step of a thread that needs the manager.
    pub(crate) fn needed(&mut self, now: Time) -> Attempt {
        match *self {
            Self::There => Attempt::Ask,
            Self::Missing { until } if until <= now => {
                *self = Self::Starting;
                Attempt::Make
            }
            Self::Missing { .. } | Self::Starting => Attempt::GoWithout,
        }
    }

    /// Notes that the attempt to make the manager has succeeded. The manager's new thread calls this function too, so
    /// that the new thread never finds the manager missing.
    pub(crate) fn made(&mut self) {
        debug_assert!(!matches!(self, Self::Missing { .. }), "an attempt succeeded that no thread had begun");
        *self = Self::There;
    }

    /// Notes that the attempt to make the manager has failed. `now` is the time at which the attempt ended.
    pub(crate) fn failed(&mut self, now: Time) {
        debug_assert_eq!(*self, Self::Starting, "an attempt failed that no thread had begun");
        *self = Self::Missing { until: now + CREATION_COOLDOWN };
    }

    pub(crate) fn is_there(self) -> bool {
        self == Self::There
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    /// spec: P1 (the manager itself cannot be made; at most one attempt per second after a failure)
    #[test]
    fn one_attempt_is_made_at_a_time_however_long_it_takes() {
        let mut presence = Presence::Starting;
        assert_eq!(presence.needed(at(0)), Attempt::GoWithout, "the builder makes the first attempt");
        presence.failed(at(100));
        assert_eq!(presence.needed(at(1099)), Attempt::GoWithout);
        assert_eq!(presence.needed(at(1100)), Attempt::Make);
        for now in [1100, 2100, 3_600_000] {
            assert_eq!(presence.needed(at(now)), Attempt::GoWithout, "an attempt is under way");
        }
        presence.failed(at(4_000_000));
        assert_eq!(
            presence.needed(at(4_000_999)),
            Attempt::GoWithout,
            "less than a second after the last attempt"
        );
        assert_eq!(presence.needed(at(4_001_000)), Attempt::Make);
        presence.made();
        presence.made();
        assert_eq!(presence.needed(at(9_000_000)), Attempt::Ask);
    }
}
