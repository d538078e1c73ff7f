//! How fast a pool may grow because of what the detector finds.
//!
//! Whoever is taken out of the count is replaced. A few at once are what detection is for; a crowd of them is not:
//! blocked threads cost memory, and spinning ones cost each other's CPU. So as many as the pool has CPUs are taken out
//! at once, and each one beyond after a gap that grows with how many are out already. The gaps of hogs are longer: they
//! are no help to each other. Declared blocks (guards) are not paced.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;

/// A gap that grows by a part of itself for each that is out already.
struct Gap {
    first: Duration,
    /// The next one is this many times as long, in eighths.
    growth: u32,
    longest: Duration,
}

/// At forty blocked ones beyond the CPUs, a second and a half.
const OF_SLEEPERS: Gap =
    Gap { first: Duration::from_micros(200), growth: 10, longest: Duration::from_secs(10) };

/// At ten hogs beyond the CPUs, a bit more than half a second.
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

/// Why somebody is taken out of the count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Asleep,
    Hog,
}

/// When somebody was taken out last.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    sleeper: Option<Time>,
    hog: Option<Time>,
}

impl Pace {
    /// Nobody was taken out so far.
    pub(crate) const NEW: Self = Self { sleeper: None, hog: None };

    /// From when on one more may be taken out, if so many are out already of a pool of `cpus` CPUs.
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

    /// One was taken out.
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

    /// How many are out after this time, if there is always one more to be taken.
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

    /// spec: S5.1 (as many as there are CPUs at once, then after growing gaps)
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

    /// spec: S5.1 (no crowd, however long it goes on)
    #[test]
    fn an_hour_makes_no_crowd() {
        let hour = Duration::from_secs(3600);
        assert!(out_after(Why::Asleep, 2, hour) < 500, "{}", out_after(Why::Asleep, 2, hour));
        assert!(out_after(Why::Hog, 2, hour) < 100, "{}", out_after(Why::Hog, 2, hour));
    }

    #[test]
    fn who_comes_back_makes_room() {
        let now = Time::default() + Duration::from_secs(1);
        let mut pace = Pace::default();
        pace.took(Why::Asleep, now);
        assert!(pace.next(Why::Asleep, 2, 2) > now);
        assert!(pace.next(Why::Asleep, 1, 2) <= now);
        assert!(pace.next(Why::Hog, 2, 2) <= now, "the two do not wait for each other");
    }
}
