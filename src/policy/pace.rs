//! Limits how fast a pool grows when the detector finds workers that sleep, or that use their CPUs for a long time.
//!
//! The pool replaces each worker that the detector takes *out* of the count of running workers. Detection is meant to
//! replace a few workers at a time, but not a crowd. Blocked threads cost memory, and spinning threads take CPU time
//! from each other. So the detector takes workers out without delay only while fewer workers are out than the pool has
//! CPUs. The detector takes out each further worker only after a gap. The gap grows with the number of workers that are
//! out already. The gaps are longer for hogs, because further threads do not help against hogs. Declared blocks
//! (guards) are not paced.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// The time that must pass before the detector takes out the next worker. It grows by a constant factor for each worker
/// that is out in excess of the number of CPUs.
struct Gap {
    first: Duration,
    /// The factor by which the gap grows for each further worker, in eighths.
    growth: u32,
    longest: Duration,
}

/// The gap is a second and a half if the number of sleepers that are out exceeds the number of the pool's CPUs by 40.
const OF_SLEEPERS: Gap =
    Gap { first: Duration::from_micros(200), growth: 10, longest: Duration::from_secs(10) };

/// The gap is a bit more than half a second if the number of hogs that are out exceeds the number of the pool's CPUs by
/// ten.
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

/// The time at which a worker was last taken out, for each reason.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    sleeper: Option<Time>,
    hog: Option<Time>,
}

impl Pace {
    /// The pace of a pool from which no worker has been taken out yet.
    pub(crate) const NEW: Self = Self { sleeper: None, hog: None };

    /// Returns the earliest time at which the detector takes out the next worker for the reason `why`. `out` workers
    /// are out for this reason already, and the pool has `cpus` CPUs.
    pub(crate) fn next(&self, why: Why, out: usize, cpus: usize) -> Time {
        let (last, gap) = match why {
            Why::Asleep => (self.sleeper, OF_SLEEPERS),
            Why::Hog => (self.hog, OF_HOGS),
        };
        match last {
            Some(last) if out >= cpus => last + gap.after(out + 1 - cpus),
            _ => Time::default(),
        }
    }

    /// Notes that a worker was taken out.
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

    /// Returns how many workers are out after `time` if there is always another worker to take out.
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

    /// spec: S5.1 (no crowd, however long workers are taken out)
    #[test]
    fn an_hour_makes_no_crowd() {
        let hour = Duration::from_secs(3600);
        assert!(out_after(Why::Asleep, 2, hour) < 500, "{}", out_after(Why::Asleep, 2, hour));
        assert!(out_after(Why::Hog, 2, hour) < 100, "{}", out_after(Why::Hog, 2, hour));
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
