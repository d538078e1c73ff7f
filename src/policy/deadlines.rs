//! A queue of deadlines. The soonest deadline is first, and equal deadlines are in the order in which they were set.

#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::time::Time;

/// A queue of deadlines. Each deadline has an entry, which is due at the time of the deadline. Setting, cancelling or
/// taking a deadline costs O(log n).
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    queue: BTreeMap<Deadline, T>,
    set: u64,
}

/// A deadline that was set. This value is the key for cancelling the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Deadline {
    at: Time,
    sequence: u64,
}

impl Deadline {
    pub(crate) fn at(self) -> Time {
        self.at
    }
}

impl Ord for Deadline {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        tests::COMPARISONS.set(tests::COMPARISONS.get() + 1);
        self.at.cmp(&other.at).then_with(|| self.sequence.cmp(&other.sequence))
    }
}

impl PartialOrd for Deadline {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
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

    /// Adds the entry of a deadline that was taken out of this queue or out of another queue.
    pub(crate) fn adopt(&mut self, deadline: Deadline, what: T) {
        self.queue.insert(deadline, what);
    }

    /// Takes the first entry, if it is due at `now`.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<(Deadline, T)> {
        let first = self.queue.first_entry()?;
        if first.key().at <= now { Some(first.remove_entry()) } else { None }
    }

    /// Returns the entry of this deadline, unless it was taken or cancelled.
    pub(crate) fn get(&self, deadline: Deadline) -> Option<&T> {
        self.queue.get(&deadline)
    }

    /// Cancels this deadline. Returns its entry, unless the entry was taken or cancelled before.
    pub(crate) fn cancel(&mut self, deadline: Deadline) -> Option<T> {
        self.queue.remove(&deadline)
    }

    /// Takes all entries that `is_wanted` selects, in the order of their deadlines. Costs O(n + k log n) for k wanted
    /// entries.
    pub(crate) fn take_all(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<(Deadline, T)> {
        let wanted = self.find_all(is_wanted);
        wanted.into_iter().filter_map(|deadline| Some((deadline, self.cancel(deadline)?))).collect()
    }

    /// Returns the deadlines of all entries that `is_wanted` selects, in ascending order. Costs O(n).
    pub(crate) fn find_all(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<Deadline> {
        let wanted = self.queue.iter().filter(|(_, what)| is_wanted(what));
        wanted.map(|(deadline, _)| *deadline).collect()
    }

    /// Returns whether `deadline` is the first deadline of the queue.
    pub(crate) fn is_first(&self, deadline: Deadline) -> bool {
        self.queue.first_key_value().is_some_and(|(first, _)| *first == deadline)
    }

    /// Returns the times at which the entries are due, in ascending order.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "the test kit tells them"))]
    pub(crate) fn times(&self) -> impl Iterator<Item = Time> + '_ {
        self.queue.keys().map(|deadline| deadline.at).filter(|at| *at != Time::NEVER)
    }

    /// Returns the time at which the next entry is due, or `None` if no entry will ever be due.
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
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The number of times that the thread has compared two deadlines.
        pub(super) static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns how many comparisons each of four calls costs on average while `armed` deadlines are set. The first call
    /// sets a deadline, the second cancels it, the third finds the next deadline, and the fourth takes the next
    /// deadline.
    fn costs_beside(armed: u64) -> [f64; 4] {
        const CALLS: u64 = 1000;
        // Multiples of this odd number look random.
        let at = |n: u64| Time::from_nanos(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1);
        let mut deadlines = Deadlines::new();
        for n in 0..armed {
            deadlines.set(at(n), n);
        }
        let mut costs = [0; 4];
        for n in armed..armed + CALLS {
            let mut count = |call: usize, before: usize| costs[call] += COMPARISONS.get() - before;
            let begin = COMPARISONS.get();
            let deadline = deadlines.set(at(n), n);
            count(0, begin);
            let begin = COMPARISONS.get();
            assert_eq!(deadlines.cancel(deadline), Some(n));
            count(1, begin);
            let begin = COMPARISONS.get();
            let next = deadlines.next().unwrap();
            count(2, begin);
            let begin = COMPARISONS.get();
            let (_, first) = deadlines.take_due(next).unwrap();
            count(3, begin);
            deadlines.set(at(n + CALLS), first);
        }
        costs.map(|comparisons| comparisons as f64 / CALLS as f64)
    }

    /// spec: W5.8: a timer costs a number of comparisons that grows with the logarithm of the number of armed timers.
    /// In an ordered list, a timer would cost tens of thousands of comparisons.
    #[test]
    fn the_cost_of_a_timer_grows_with_the_logarithm_of_their_number() {
        for armed in [1_000, 100_000] {
            let doublings = (armed as f64).log2();
            let costs = costs_beside(armed);
            assert!(costs.iter().all(|cost| *cost <= 3.0 * doublings), "{costs:?} beside {armed}");
            assert!(costs[0] > doublings / 2.0, "comparisons are counted: {costs:?}");
        }
    }

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
        assert_eq!(deadlines.next(), None, "an entry at `NEVER` needs no wake-up");
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
