//! A queue of deadlines: the soonest first, equal ones in the order in which they were set.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::time::Time;

/// Deadlines, and the thing that is due at each. Setting, cancelling and taking cost O(log n).
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    queue: BTreeMap<Deadline, T>,
    set: u64,
}

/// A deadline that was set. It is the key to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Deadline {
    at: Time,
    sequence: u64,
}

impl Deadline {
    pub(crate) fn at(self) -> Time {
        self.at
    }
}

impl<T> Deadlines<T> {
    pub(crate) const fn new() -> Self {
        Self { queue: BTreeMap::new(), set: 0 }
    }

    pub(crate) fn set(&mut self, at: Time, what: T) -> Deadline {
        let deadline = Deadline { at, sequence: self.set };
        self.set += 1;
        self.queue.insert(deadline, what);
        deadline
    }

    /// Takes the first thing that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Deadline, T)> {
        let first = self.queue.first_entry()?;
        if first.key().at <= now { Some(first.remove_entry()) } else { None }
    }

    /// Returns the thing that was set for this deadline, unless it was taken.
    pub(crate) fn get(&self, deadline: Deadline) -> Option<&T> {
        self.queue.get(&deadline)
    }

    /// Takes the thing that was set for this deadline, unless it was taken before.
    pub(crate) fn cancel(&mut self, deadline: Deadline) -> Option<T> {
        self.queue.remove(&deadline)
    }

    /// Takes all things that `is_wanted` selects, in order. Costs O(n).
    pub(crate) fn take_all(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<(Deadline, T)> {
        let wanted = self.queue.iter().filter(|(_, what)| is_wanted(what)).map(|(deadline, _)| *deadline);
        let wanted: Vec<Deadline> = wanted.collect();
        wanted.into_iter().filter_map(|deadline| Some((deadline, self.cancel(deadline)?))).collect()
    }

    /// Returns whether this is the first deadline of all.
    pub(crate) fn is_first(&self, deadline: Deadline) -> bool {
        self.queue.first_key_value().is_some_and(|(first, _)| *first == deadline)
    }

    /// Returns when the next thing is due; `None` if there is nothing to wait for.
    pub(crate) fn next(&self) -> Option<Time> {
        Some(self.queue.first_key_value()?.0.at).filter(|at| *at != Time::NEVER)
    }
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: W5.1
    #[test]
    fn due_things_come_soonest_first_and_equal_ones_in_order() {
        let at = Time::from_nanos;
        let mut deadlines = Deadlines::new();
        deadlines.set(at(5), 'b');
        deadlines.set(at(3), 'a');
        deadlines.set(at(5), 'c');
        deadlines.set(Time::NEVER, 'z');
        assert_eq!(deadlines.next(), Some(at(3)));
        assert_eq!(deadlines.take_due(at(2)), None);
        let due: String = std::iter::from_fn(|| deadlines.take_due(at(5))).map(|(_, what)| what).collect();
        assert_eq!(due, "abc");
        assert_eq!(deadlines.next(), None, "a thing at `NEVER` needs no wake-up");
    }

    #[test]
    fn a_cancelled_thing_is_taken_once() {
        let at = Time::from_nanos;
        let mut deadlines = Deadlines::new();
        let (late, soon) = (deadlines.set(at(5), 'b'), deadlines.set(at(3), 'a'));
        assert!(deadlines.is_first(soon) && !deadlines.is_first(late));
        assert_eq!(deadlines.get(soon), Some(&'a'));
        assert_eq!((deadlines.cancel(soon), deadlines.cancel(soon)), (Some('a'), None));
        assert_eq!(deadlines.get(soon), None);
        assert_eq!(deadlines.take_due(at(9)), Some((late, 'b')));
        assert_eq!(deadlines.cancel(late), None);
    }
}
