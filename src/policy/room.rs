//! Which pool gets the next thread when an executor has as many threads as it may have.
//!
//! A pool whose work waits for a thread stands in the [`Line`]. A thread becomes free when a worker ends, or when
//! an idle worker of another pool is sent away. Where all threads are busy, a worker *gives way* between two items,
//! but only for a pool that *starves*. A pool starves if its work waits and none of its workers runs. It also
//! starves if it has begun no item for [`FAMINE`], since a pool that does not manage concurrency counts a blocked
//! worker as a running one. A pool that only wants more workers than it has waits until a thread is free.
//!
//! **Order.** While a pool stands in the line, each thread goes to the first pool in the line. Starving pools come
//! first. Of these, every second thread goes to the pool that has waited longest. The other threads go to the pool
//! of the highest priority, and of several such pools to the oldest. So the pool that is `k`-th by age gets one of
//! the next `2k` threads, however many pools of a higher priority come.
//!
//! **Turns.** Giving way costs the end of one thread and the making of another. At first a worker gives way only if
//! its pool has other running workers. Each thread that changes its pool then leaves one pool fewer without a
//! worker. If no worker has given way for a [`TURN`], every worker may. So pools that share too few threads take
//! turns of that length, however short their items are.
//!
//! **The bound.** The pool that is `k`-th by age waits for at most `2k` times the sum of: a turn, the first item to
//! end after it on any thread, and the time to make a thread.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// After this long without an answer, even the only running worker of a pool gives way.
pub(crate) const TURN: Duration = Duration::from_millis(1);

/// A pool starves if it has waited for a thread for this long and has begun no item meanwhile, even if its workers
/// seem to run.
pub(crate) const FAMINE: Duration = Duration::from_secs(1);

/// What a pool lacks without another thread.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    /// Only a spare.
    None,
    /// Its work would go on sooner with one more thread.
    Waits,
    /// Its work does not go on at all.
    Starves,
}

/// How urgently a pool in the line needs a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) starves: bool,
    /// The nice level of its workers.
    pub(crate) nice: i32,
}

/// The pools that wait for a thread.
#[derive(Debug)]
pub(crate) struct Line<P> {
    /// The pools, the one that has waited longest first.
    waiting: Vec<(P, Claim)>,
    /// The next thread goes to the pool that has waited longest.
    by_age: bool,
}

impl<P> Line<P> {
    pub(crate) const fn new() -> Self {
        Self { waiting: Vec::new(), by_age: false }
    }

    /// Puts the pool in the line. A pool that waits already keeps its place. Returns whether it starved before and
    /// no longer does.
    pub(crate) fn wait(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim) -> bool {
        match self.waiting.iter_mut().find(|(known, _)| is_it(known)) {
            Some((_, known)) => std::mem::replace(known, claim).starves && !claim.starves,
            None => {
                self.waiting.push((pool, claim));
                false
            }
        }
    }

    /// Removes the pool from the line. Returns whether it waited.
    pub(crate) fn leave(&mut self, is_it: impl Fn(&P) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(known, _)| !is_it(known));
        self.waiting.len() < before
    }

    /// Removes the pool from the line, because it gets a thread.
    pub(crate) fn served(&mut self, is_it: impl Fn(&P) -> bool) {
        if self.leave(is_it) {
            self.by_age = !self.by_age;
        }
    }

    /// Returns the pool that gets the next thread.
    pub(crate) fn first(&self) -> Option<&P> {
        let starves = self.starves();
        let mut best = self.waiting.iter().filter(|(_, claim)| claim.starves == starves);
        let (pool, _) = if self.by_age { best.next() } else { best.min_by_key(|(_, claim)| claim.nice) }?;
        Some(pool)
    }

    /// Returns whether a pool in the line starves.
    pub(crate) fn starves(&self) -> bool {
        self.waiting.iter().any(|(_, claim)| claim.starves)
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &P> {
        self.waiting.iter().map(|(pool, _)| pool)
    }
}

/// How long a pool has waited for a thread without beginning an item.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Famine {
    since: Option<(Time, u64)>,
}

impl Famine {
    /// Notes that the pool was refused a thread, after its workers had begun `begun` items. Returns whether it has
    /// begun none for [`FAMINE`].
    pub(crate) fn refused(&mut self, begun: u64, now: Time) -> bool {
        match self.since {
            Some((since, known)) if known == begun => now.since(since) >= FAMINE,
            _ => {
                self.since = Some((now, begun));
                false
            }
        }
    }

    /// Notes that the pool gets a thread, or waits for none any more. Its next wait is timed anew.
    pub(crate) fn ends(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pools: &[(char, bool, i32)]) -> Line<char> {
        let mut line = Line::new();
        pools.iter().for_each(|pool| wait(&mut line, *pool));
        line
    }

    fn wait(line: &mut Line<char>, (pool, starves, nice): (char, bool, i32)) {
        let _recovers = line.wait(pool, |known| *known == pool, Claim { starves, nice });
    }

    fn serve(line: &mut Line<char>) -> Option<char> {
        let first = *line.first()?;
        line.served(|known| *known == first);
        Some(first)
    }

    /// spec: E2.5 (high priority first, and none for ever)
    #[test]
    fn threads_go_to_the_highest_priority_and_to_the_oldest_by_turns() {
        let mut line =
            line(&[('a', true, 0), ('b', true, 0), ('h', true, -20), ('i', true, -20), ('c', true, 5)]);
        let order: String = std::iter::from_fn(|| serve(&mut line)).collect();
        assert_eq!(order, "haibc");
    }

    /// spec: E2.5: two pools of a higher priority come again each time. The `k`-th pool by age is among the next
    /// `2k`.
    #[test]
    fn a_pool_gets_one_of_twice_as_many_threads_as_its_place_by_age() {
        let low = ['a', 'b', 'c', 'd'];
        let mut line = line(&low.map(|pool| (pool, true, 0)));
        let mut served = Vec::new();
        for _ in 0..2 * low.len() {
            for high in ['x', 'y'] {
                wait(&mut line, (high, true, -20));
            }
            served.extend(serve(&mut line));
        }
        for (before, pool) in low.iter().enumerate() {
            let at = served.iter().position(|known| known == pool).expect("it gets one");
            assert!(at < 2 * (before + 1), "{pool} is number {at}: {served:?}");
        }
    }

    /// spec: E2.5: a pool that has running workers waits until the pools without any are served.
    #[test]
    fn pools_that_starve_come_first() {
        let mut line = line(&[('a', false, -20), ('b', true, 0), ('c', false, 0)]);
        assert!(line.starves());
        assert_eq!(serve(&mut line), Some('b'));
        assert!(!line.starves());
        wait(&mut line, ('c', true, 0));
        assert_eq!(serve(&mut line), Some('c'), "it starves by now");
        assert!(line.leave(|pool| *pool == 'a') && !line.leave(|pool| *pool == 'a'));
        assert_eq!(line.first(), None);
    }

    /// spec: E2.5: workers that seem to run, but do not.
    #[test]
    fn a_pool_that_begins_no_item_for_a_second_starves() {
        let at = |millis| Time::default() + Duration::from_millis(millis);
        let mut famine = Famine::default();
        assert!(!famine.refused(7, at(0)) && !famine.refused(7, at(999)));
        assert!(!famine.refused(8, at(1000)), "it has begun an item");
        assert!(!famine.refused(8, at(1999)));
        assert!(famine.refused(8, at(2000)));
        famine.ends();
        assert!(!famine.refused(8, at(2001)) && !famine.refused(8, at(3000)), "it was served meanwhile");
        assert!(famine.refused(8, at(3001)));
    }
}
