//! Limits how fast a pool grows when the detector finds workers that sleep, or that use their CPUs for a long time.
//!
//! The pool replaces each worker that the detector takes *out* of the count of running workers. A crowd of workers
//! that all wait for the same thing does not help: each thread costs memory, and spinning threads take CPU time from
//! each other. So the detector takes workers out of the count without delay only while fewer workers are out of it than
//! the pool may *spare*. The detector takes each further worker out of the count only after a gap in time. The gap
//! grows with each worker that is out of the count beyond the number that the pool may spare.
//!
//! A pool may spare as many workers as it has CPUs. Each sleeper that comes back, because its sleep has ended, lets the
//! pool spare one more sleeper. So if items sleep for a while and then end, the number of sleepers may double within
//! the time of one sleep. The number of sleepers grows until the CPUs are busy or the limits of the queues are reached.
//! If no sleeper comes back, the pool grows by only one worker after each gap. Every second, the pool halves the number
//! of returns that it has counted. A return does not count at all if the pool has fewer than half as many sleepers as
//! it may spare. So a pool that no longer has many sleepers may soon spare only a few again.
//!
//! A worker that sleeps without a guard keeps its CPU from other workers until the manager finds this worker asleep.
//! Many sleeps are over before the manager finds the sleeper. So a pool of several CPUs is *covered* while many
//! sleepers come back ([`Pace::covers`]): the pool may run as many further workers as it has CPUs. These workers use
//! the CPUs of the workers that sleep without the manager's knowledge, so checks may be rarer, too. The price of
//! covering a pool is that its workers share CPUs while none of them sleeps.
//!
//! The rule has a known limit. Items that sleep until they get the same lock also come back one after the other. So
//! each return of an item that needs the lock may let one more of these items start, up to the limits of the queues and
//! of the executor. But only one of the items that need the lock can continue at a time.
//!
//! The gaps are longer for *hogs* (workers that use their CPUs for a long time without a sleep), because further
//! threads do not help against hogs. When a hog ends, the pool may spare as many workers as before. A worker whose item
//! declares a block with a guard leaves the count without a gap.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// The time that must pass before the detector takes the next worker out of the count. The gap grows by a constant
/// factor for each worker that is out of the count beyond the number that the pool may spare.
struct Gap {
    first: Duration,
    /// The factor by which the gap grows for each further worker, in eighths.
    growth: u32,
    longest: Duration,
}

/// If 40 more sleepers are out than the pool may spare, the gap is about 1.5 s.
const OF_SLEEPERS: Gap =
    Gap { first: Duration::from_micros(200), growth: 10, longest: Duration::from_secs(10) };

/// If ten more hogs are out than the pool has CPUs, the gap is a bit more than 0.5 s.
const OF_HOGS: Gap = Gap { first: Duration::from_millis(10), growth: 12, longest: Duration::from_secs(60) };

impl Gap {
    fn after(&self, beyond: usize) -> Duration {
        let mut gap = self.first;
        for _ in 1..beyond {
            gap = gap * self.growth / 8;
            if gap >= self.longest {
                return self.longest;
            }
        }
        gap
    }
}

/// The reason for which the detector takes a worker out of the count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Asleep,
    Hog,
}

/// After this time, a return counts only half.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// A pool may be covered if at least this many sleepers for each of its CPUs have come back. A return counts only if
/// the pool has at least half as many sleepers as it may spare. So a pool reaches this number only if about one and a
/// half sleepers for each CPU are out at the same time.
const COVERING: usize = 2;

/// The time at which a worker was last taken out of the count, for each reason, and the number of sleepers that have
/// come back.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    sleeper: Option<Time>,
    hog: Option<Time>,
    /// The number of sleepers that have come back. Old returns count for less.
    returns: usize,
    /// The time at which `returns` was last halved, or at which the first sleeper came back.
    halved: Time,
}

impl Pace {
    /// The pace of a pool from which no worker has been taken out yet.
    pub(crate) const NEW: Self = Self { sleeper: None, hog: None, returns: 0, halved: Time::from_nanos(0) };

    /// Returns the earliest time at which the detector takes out the next worker for the reason `why`. `out` workers
    /// are already out of the count for this reason, and the pool has `cpus` CPUs.
    pub(crate) fn next(&self, why: Why, out: usize, cpus: usize) -> Time {
        let (last, gap, spared) = match why {
            Why::Asleep => (self.sleeper, OF_SLEEPERS, cpus + self.returns),
            Why::Hog => (self.hog, OF_HOGS, cpus),
        };
        match last {
            Some(last) if out >= spared => last + gap.after(out + 1 - spared),
            _ => Time::default(),
        }
    }

    /// Returns the pace at the time `now`. Since the last check, `returns` sleepers have come back, and `out` sleepers
    /// are still out. The pool has `cpus` CPUs.
    #[must_use]
    pub(crate) fn at(self, now: Time, returns: usize, out: usize, cpus: usize) -> Self {
        let halvings = now.since(self.halved).as_nanos() / HALF_LIFE.as_nanos();
        let kept = u32::try_from(halvings).ok().and_then(|by| self.returns.checked_shr(by)).unwrap_or(0);
        // If the pool uses less than half of what it may spare, the returns do not show that it needs more.
        let is_used = 2 * (out + returns) >= cpus + kept;
        match kept + if is_used { returns } else { 0 } {
            0 => Self { sleeper: self.sleeper, hog: self.hog, ..Self::NEW },
            returns => Self { returns, halved: if halvings > 0 { now } else { self.halved }, ..self },
        }
    }

    /// Returns whether so many sleepers have come back that further workers may run in place of those that sleep
    /// without the manager's knowledge. The pool has `cpus` CPUs.
    pub(crate) const fn covers(self, cpus: usize) -> bool {
        cpus > 1 && self.returns >= COVERING * cpus
    }

    /// Notes that a worker was taken out of the count.
    pub(crate) fn took(&mut self, why: Why, now: Time) {
        match why {
            Why::Asleep => self.sleeper = Some(now),
            Why::Hog => self.hog = Some(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many workers are out of the count after `time` if there is always another worker to take out.
    fn out_after(why: Why, cpus: usize, time: Duration) -> usize {
        let (mut pace, mut out, mut now) = (Pace::default(), 0, Time::default() + Duration::from_secs(1));
        let end = now + time;
        loop {
            now = now.max(pace.next(why, out, cpus));
            if now > end {
                return out;
            }
            pace.took(why, now);
            out += 1;
        }
    }

    /// spec: S5.1 (as many as there are CPUs without delay, the others after growing gaps)
    #[test]
    fn growth_is_fast_first_and_slow_later() {
        for cpus in [1, 2, 8] {
            assert_eq!(out_after(Why::Asleep, cpus, Duration::ZERO), cpus);
            assert_eq!(out_after(Why::Hog, cpus, Duration::ZERO), cpus);
            assert!((5..=10).contains(&(out_after(Why::Asleep, cpus, Duration::from_millis(2)) - cpus)));
            assert!((15..=40).contains(&(out_after(Why::Asleep, cpus, Duration::from_secs(1)) - cpus)));
            assert!((3..=5).contains(&(out_after(Why::Hog, cpus, Duration::from_millis(150)) - cpus)));
            assert!((8..=12).contains(&(out_after(Why::Hog, cpus, Duration::from_secs(1)) - cpus)));
        }
    }

    /// spec: S5.1: even within an hour, the detector takes no crowd of workers out of the count.
    #[test]
    fn an_hour_makes_no_crowd() {
        let hour = Duration::from_secs(3600);
        assert!(out_after(Why::Asleep, 2, hour) < 500, "{}", out_after(Why::Asleep, 2, hour));
        assert!(out_after(Why::Hog, 2, hour) < 100, "{}", out_after(Why::Hog, 2, hour));
    }

    /// Returns the largest number of sleepers that are out of the count at the same time. There is always another
    /// worker to take out, each sleep lasts for `sleep`, and a check follows after each millisecond.
    fn most_out(cpus: usize, sleep: Duration, time: Duration) -> usize {
        let (start, step) = (Time::default() + Duration::from_secs(1), Duration::from_millis(1));
        let (mut pace, mut sleepers, mut most, mut now) = (Pace::NEW, Vec::new(), 0, start);
        while now.since(start) < time {
            let before = sleepers.len();
            sleepers.retain(|since| now.since(*since) < sleep);
            pace = pace.at(now, before - sleepers.len(), sleepers.len(), cpus);
            // In a millisecond, no more workers than this can start, sleep and be found.
            for _ in 0..10 * cpus {
                if pace.next(Why::Asleep, sleepers.len(), cpus) <= now {
                    pace.took(Why::Asleep, now);
                    sleepers.push(now);
                }
            }
            most = most.max(sleepers.len());
            now = now + step;
        }
        most
    }

    /// spec: S5.1: while sleepers come back, their number doubles in the time of a sleep. While no sleeper comes back,
    /// the gaps limit the number of sleepers.
    #[test]
    fn sleepers_that_come_back_let_others_leave() {
        let ms = Duration::from_millis;
        for cpus in [1, 2, 8] {
            let grown = most_out(cpus, ms(100), ms(1000));
            assert!(grown >= 256, "{cpus} CPUs: {grown}");
            let stuck = most_out(cpus, ms(10_000), ms(1000));
            assert!(stuck - cpus <= 40, "{cpus} CPUs: {stuck}");
        }
    }

    /// spec: S5.1: a pool that no longer has many sleepers may soon spare only a few again.
    #[test]
    fn returns_count_half_after_each_second() {
        let then = Time::default() + Duration::from_secs(9);
        let spared = |mut pace: Pace, now| {
            pace.took(Why::Asleep, now);
            (0..).find(|out| pace.next(Why::Asleep, *out, 2) > now)
        };
        let begin = Pace::NEW.at(then, 100, 50, 2);
        let expected = [102, 52, 27, 14, 8, 5, 3, 2].map(Some);
        let after = |seconds| {
            let now = then + Duration::from_secs(seconds);
            spared(begin.at(now, 0, 50, 2), now)
        };
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(after), expected);
        assert_eq!(after(3600), Some(2));
        // The number of returns falls just as fast if checks are frequent.
        let (mut pace, mut checked) = (begin, Vec::new());
        for check in 0..=7000 {
            let now = then + Duration::from_millis(check);
            pace = pace.at(now, 0, 50, 2);
            checked.extend((check % 1000 == 0).then(|| spared(pace, now)));
        }
        assert_eq!(checked, expected);
    }

    /// spec: S5.4 (covered after two returns for each of several CPUs, and no more once most of them are forgotten)
    #[test]
    fn a_pool_whose_sleepers_come_back_is_covered() {
        let then = Time::default() + Duration::from_secs(9);
        for (returns, cpus, covers) in [
            (0, 2, false),
            (3, 2, false),
            (4, 2, true),
            (4, 1, false),
            (100, 1, false),
            (15, 8, false),
            (16, 8, true),
        ] {
            let pace = Pace::NEW.at(then, returns, 50, cpus);
            assert_eq!(pace.covers(cpus), covers, "{returns} {cpus}");
        }
        let one_by_one = |out| (0..1000).fold(Pace::NEW, |pace, _| pace.at(then, 1, out, 2)).covers(2);
        assert_eq!([0, 1, 2, 3].map(one_by_one), [false, false, true, true]);
        let pace = Pace::NEW.at(then, 7, 50, 2);
        let after = |seconds| pace.at(then + Duration::from_secs(seconds), 0, 2, 2).covers(2);
        assert_eq!([0, 1, 2].map(after), [true, false, false]);
    }

    /// spec: S5.1: many returns of few sleepers do not let the detector take a crowd of workers out of the count.
    #[test]
    fn returns_count_only_if_they_are_needed() {
        let now = Time::default() + Duration::from_secs(9);
        let mut pace = (0..1000).fold(Pace::NEW, |pace, _| pace.at(now, 1, 4, 2));
        pace.took(Why::Asleep, now);
        let spared = (0..).find(|out| pace.next(Why::Asleep, *out, 2) > now);
        assert_eq!(spared, Some(11), "at most twice as many as are needed, and one more");
    }

    #[test]
    fn a_worker_that_comes_back_makes_room() {
        let now = Time::default() + Duration::from_secs(1);
        let mut pace = Pace::default();
        pace.took(Why::Asleep, now);
        assert!(pace.next(Why::Asleep, 2, 2) > now);
        assert!(pace.next(Why::Asleep, 1, 2) <= now);
        assert!(pace.next(Why::Hog, 2, 2) <= now, "sleepers and hogs do not wait for each other");
    }
}
