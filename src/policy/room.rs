//! Decides which pool gets the next thread when an executor has reached its cap on threads.
//!
//! A pool whose work waits for a thread stands in the [`Line`]. A thread becomes free when a worker ends, or when an
//! idle worker of another pool is sent away. If all threads are busy, a worker *gives way* between two items, but only
//! to a pool that *starves*. A pool starves if its work waits and none of its workers runs. A pool also starves if its
//! work has waited for [`FAMINE`] and it has begun no item in that time. The rule about [`FAMINE`] is for pools that do
//! not manage concurrency, because these pools count blocked workers as running. In such a pool, the other workers may
//! all be blocked when a worker gives way. A pool that wants more workers, but does not starve, waits until a thread
//! becomes free. The manager tries a waiting pool again after [`FAMINE`]. So the rule about [`FAMINE`] takes effect
//! after one to two times this duration.
//!
//! **Order.** While any pool stands in the line, each thread that becomes free goes to a pool in the line. Pools that
//! starve come before all others. Among the starving pools, and among the others, threads go alternately to the pool
//! with the highest priority and to the *oldest* pool, which has waited longest. If several pools have the highest
//! priority, the oldest of these pools gets the thread. So a starving pool that is the `k`-th oldest in the line gets
//! one of the next `2k` threads, however many pools with a higher priority arrive.
//!
//! **Turns.** Giving way is expensive, because one thread ends and another thread is made. In the first turn after a
//! request, a worker gives way only if its pool has another running worker. So each thread that passes to a starving
//! pool reduces the number of pools without a running worker by one. If no worker has given way for a [`TURN`], every
//! worker is asked to give way, even the only running worker of a pool. So pools that share too few threads take turns
//! of the length [`TURN`], however short their items are.
//!
//! **The bound.** A starving pool that is the `k`-th oldest in the line waits for at most `2k` rounds. The longest
//! round is the sum of three durations: a turn, the time from the end of the turn until an item ends on any thread, and
//! the time to make a thread.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// If no worker answers a request to give way for this long, even the only running worker of a pool gives way.
pub(crate) const TURN: Duration = Duration::from_millis(1);

/// A pool starves if it has waited for a thread for this long and has begun no item in that time, even if its workers
/// seem to run.
pub(crate) const FAMINE: Duration = Duration::from_secs(1);

/// The degree to which a pool needs another thread.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortage {
    /// The pool lacks only a spare worker.
    None,
    /// The pool's work makes progress, but would make more progress with one more thread.
    Waits,
    /// The pool's work makes no progress.
    Starves,
}

/// The urgency with which a pool in the line needs a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) starves: bool,
    /// The nice level of the pool's workers.
    pub(crate) nice: i32,
}

/// The pools that wait for a thread.
#[derive(Debug)]
pub(crate) struct Line<P> {
    /// The pools that wait, beginning with the pool that has waited longest.
    waiting: Vec<(P, Claim)>,
    /// Whether the next thread goes to the pool that has waited longest.
    by_age: bool,
}

impl<P> Line<P> {
    pub(crate) const fn new() -> Self {
        Self { waiting: Vec::new(), by_age: false }
    }

    /// Puts the pool in the line. A pool that already stands in the line keeps its place. Returns whether the pool
    /// starved before and no longer starves.
    pub(crate) fn wait(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim) -> bool {
        match self.waiting.iter_mut().find(|(known, _)| is_it(known)) {
            Some((_, known)) => std::mem::replace(known, claim).starves && !claim.starves,
            None => {
                self.waiting.push((pool, claim));
                false
            }
        }
    }

    /// Removes the pool from the line. Returns whether the pool was in the line.
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

/// The time during which a pool has waited for a thread and has begun no item.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Famine {
    since: Option<(Time, u64)>,
}

impl Famine {
    /// Notes that the pool was refused a thread. `begun` changes whenever an item of the pool is begun. Returns whether
    /// the pool has begun no item for [`FAMINE`].
    pub(crate) fn refused(&mut self, begun: u64, now: Time) -> bool {
        match self.since {
            Some((since, known)) if known == begun => now.since(since) >= FAMINE,
            _ => {
                self.since = Some((now, begun));
                false
            }
        }
    }

    /// Notes that the pool gets a thread, or no longer waits for a thread. The timing of the pool's next wait starts
    /// from zero.
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

    /// spec: E2.5: threads go alternately to the pool with the highest priority and to the oldest pool in the line.
    #[test]
    fn threads_go_to_the_highest_priority_and_to_the_oldest_by_turns() {
        let mut line =
            line(&[('a', true, 0), ('b', true, 0), ('h', true, -20), ('i', true, -20), ('c', true, 5)]);
        let order: String = std::iter::from_fn(|| serve(&mut line)).collect();
        assert_eq!(order, "haibc");
    }

    /// spec: E2.5: two pools with a higher priority join the line before each thread is given away. Still, the `k`-th
    /// oldest pool is among the next `2k` pools that get a thread.
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
            let at = served.iter().position(|known| known == pool).expect("each pool gets a thread");
            assert!(at < 2 * (before + 1), "{pool} is number {at}: {served:?}");
        }
    }

    /// spec: E2.5: a pool that has running workers waits until the pools without running workers are served.
    #[test]
    fn pools_that_starve_come_first() {
        let mut line = line(&[('a', false, -20), ('b', true, 0), ('c', false, 0)]);
        assert!(line.starves());
        assert_eq!(serve(&mut line), Some('b'));
        assert!(!line.starves());
        wait(&mut line, ('c', true, 0));
        assert_eq!(serve(&mut line), Some('c'), "the pool starves by now");
        assert!(line.leave(|pool| *pool == 'a') && !line.leave(|pool| *pool == 'a'));
        assert_eq!(line.first(), None);
    }

    /// spec: E2.5: a pool that has begun no item for a second starves, even if its workers seem to run.
    #[test]
    fn a_pool_that_begins_no_item_for_a_second_starves() {
        let at = |millis| Time::default() + Duration::from_millis(millis);
        let mut famine = Famine::default();
        assert!(!famine.refused(7, at(0)) && !famine.refused(7, at(999)));
        assert!(!famine.refused(8, at(1000)), "the pool has begun an item");
        assert!(!famine.refused(8, at(1999)));
        assert!(famine.refused(8, at(2000)));
        famine.ends();
        assert!(!famine.refused(8, at(2001)) && !famine.refused(8, at(3000)), "it was served before");
        assert!(famine.refused(8, at(3001)));
    }
}
