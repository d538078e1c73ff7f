//! Records which deadlines of a pool the manager knows.
//!
//! A pool has several deadlines: for culling idle workers, for calling rescuers, and for checking for late workers. The
//! deadlines of a pool are in the pool's state, and each thread that changes the state may move them. The manager only
//! has to know the soonest deadline. If the soonest deadline is moved to a later time or dropped, no thread has to tell
//! the manager. At the old time, the manager finds nothing to do in the pool, and learns the pool's next deadline.

#![forbid(unsafe_code)]

use super::time::Time;

/// The times at which the manager will check a pool, with the soonest time last. These times are part of the pool's
/// state.
///
/// A thread tells the manager a time only if this time is sooner than all known times. So the known times are in order,
/// and there are few of them.
#[derive(Clone, Default, Debug)]
pub(crate) struct KnownDeadlines(Vec<Time>);

impl KnownDeadlines {
    /// Notes that the pool's deadlines have changed, and that `next` is now the soonest. Returns `next` if the caller
    /// must tell the manager.
    #[must_use]
    pub(crate) fn changed(&mut self, next: Option<Time>) -> Option<Time> {
        let sooner = next.filter(|next| self.0.last().is_none_or(|known| next < known))?;
        self.0.push(sooner);
        Some(sooner)
    }

    /// Returns whether one of the known times has come.
    pub(crate) fn has_come(&self, now: Time) -> bool {
        self.0.last().is_some_and(|known| *known <= now)
    }

    /// Notes that the manager has done everything that was due at `now`, and that `next` is now the soonest deadline.
    /// Returns `next` if the manager does not know it yet.
    #[must_use]
    pub(crate) fn seen_to(&mut self, now: Time, next: Option<Time>) -> Option<Time> {
        while self.has_come(now) {
            self.0.pop();
        }
        self.changed(next)
    }

    /// Returns all known times, for a new manager that does not know any of them.
    pub(crate) fn all(&self) -> &[Time] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Option<Time> {
        Some(Time::from_nanos(nanos))
    }

    /// spec: C8.1, P2.3, A3.2: a pool tells the manager only deadlines that are sooner than all known deadlines.
    #[test]
    fn the_manager_is_told_of_sooner_deadlines_only() {
        let mut known = KnownDeadlines::default();
        assert_eq!(known.changed(None), None);
        assert_eq!(known.changed(at(5)), at(5));
        assert_eq!(known.changed(at(5)), None);
        assert_eq!(known.changed(at(9)), None, "the manager comes too soon, and learns it then");
        assert_eq!(known.changed(at(3)), at(3));
        assert!(!known.has_come(Time::from_nanos(2)) && known.has_come(Time::from_nanos(3)));
        assert_eq!(known.seen_to(Time::from_nanos(3), at(9)), None, "the manager comes at 5");
        assert!(!known.has_come(Time::from_nanos(4)) && known.has_come(Time::from_nanos(5)));
        assert_eq!(known.seen_to(Time::from_nanos(5), at(9)), at(9));
        assert_eq!(known.seen_to(Time::from_nanos(9), None), None);
        assert!(!known.has_come(Time::from_nanos(100)) && known.all().is_empty());
        assert_eq!(known.changed(at(10)), at(10));
    }

    /// The manager is told once of a deadline that is far away, however many other deadlines come and go.
    #[test]
    fn deadlines_that_come_and_go_leave_nothing() {
        let (mut known, far) = (KnownDeadlines::default(), at(1_000_000));
        assert_eq!(known.changed(far), far);
        for nanos in 1..1000 {
            assert_eq!(known.changed(at(nanos)), at(nanos));
            assert_eq!(known.seen_to(Time::from_nanos(nanos), far), None);
        }
        assert_eq!(known.all(), [Time::from_nanos(1_000_000)]);
    }
}
