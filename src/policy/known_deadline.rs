//! The deadline of a pool that the manager knows.
//!
//! A pool has several deadlines: for a cull, for a call for help, for woken workers that may be late. They are in the
//! pool's state, and any thread that changes the state may move them. The manager only has to know the first one. A
//! deadline that becomes later, or is dropped, needs no message: the manager comes too soon, finds nothing, and learns
//! the next deadline.

#![forbid(unsafe_code)]

use super::time::Time;

/// A part of the pool's state.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct KnownDeadline(Option<Time>);

impl KnownDeadline {
    /// Called after the pool's deadlines have changed: `next` is the first one. Returns it if the manager must be told,
    /// because it knows of none that soon.
    #[must_use]
    pub(crate) fn changed(&mut self, next: Option<Time>) -> Option<Time> {
        let sooner = next.filter(|next| self.0.is_none_or(|known| *next < known))?;
        self.0 = Some(sooner);
        self.0
    }

    /// Returns whether the known deadline has come. If not, the manager was told of a deadline and then of a sooner
    /// one, and has seen to the pool since.
    pub(crate) fn has_come(self, now: Time) -> bool {
        self.0.is_some_and(|known| known <= now)
    }

    /// Called by the manager when it has seen to all that was due: `next` is the first deadline now.
    pub(crate) fn learn(&mut self, next: Option<Time>) {
        self.0 = next;
    }

    /// Returns the known deadline.
    pub(crate) fn get(self) -> Option<Time> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_of_sooner_deadlines_only() {
        let at = |nanos| Some(Time::from_nanos(nanos));
        let mut known = KnownDeadline::default();
        assert_eq!(known.changed(None), None);
        assert_eq!(known.changed(at(5)), at(5));
        assert_eq!(known.changed(at(5)), None);
        assert_eq!(known.changed(at(9)), None, "the manager comes too soon, and learns it then");
        assert_eq!(known.changed(at(3)), at(3));
        assert!(!known.has_come(Time::from_nanos(2)) && known.has_come(Time::from_nanos(3)));
        known.learn(at(9));
        assert!(!known.has_come(Time::from_nanos(5)), "the deadline of which it was told first");
        assert_eq!(known.changed(at(9)), None);
        known.learn(None);
        assert!(!known.has_come(Time::from_nanos(9)));
        assert_eq!(known.changed(at(10)), at(10));
    }
}
