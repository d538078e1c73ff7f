//! Decides whether the manager heeds the rings of context-switch records, or ignores them because of false alarms. The
//! system writes a record into a worker's *ring* when the worker's thread gives its CPU away.
//!
//! In a *false alarm*, a ring wakes the manager although the ring's worker does not sleep: another thread has only
//! taken the worker's CPU. Many false alarms cost more than checks of the pools without rings would cost. So after many
//! false alarms, the manager ignores the rings for some checks of the pools.
//!
//! The false alarms of all rings count together, because a check of a pool costs about the same for one ring and for
//! many. If each ring were judged by itself, many workers that share their CPUs with other threads could wake the
//! manager thousands of times per second.
//!
//! Opening a ring also costs several microseconds. So if the rings soon give too many false alarms again, the manager
//! ignores them for twice as many checks as the last time, up to [`MOST_IGNORED_CHECKS`]. If a ring that is still open
//! reports a true sleep, the manager heeds the rings again.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::time::Time;
use super::watch::{BRISK_LONGEST, LONGEST, PERIOD, SHORTEST};

/// After this many false alarms, the manager ignores the rings.
const MOST: u8 = 16;

/// Each time this much time has passed, the manager forgets one false alarm. So the manager ignores the rings only if
/// their false alarms wake the manager more often than checks without rings would.
const FORGOTTEN_AFTER: Duration = LONGEST;

/// The number of checks for which the manager ignores the rings at first.
const IGNORED_CHECKS: u16 = 16;

/// The manager ignores the rings for at most this many checks at a time. The checks of one pool reach this number in
/// 6 s if the pool has siblings, and in 12 s otherwise.
const MOST_IGNORED_CHECKS: u16 = 4096;

/// The recent false alarms of all rings, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FalseAlarms {
    /// The number of false alarms that are not forgotten yet.
    recent: u8,
    /// The manager forgets one more of the recent false alarms when `FORGOTTEN_AFTER` has passed since this time.
    since: Time,
    /// The number of further checks for which the manager ignores the rings.
    ignored: u16,
    /// The number of checks for which the manager ignored the rings the last time.
    last_ignored: u16,
    /// The number of checks since the manager began to heed the rings again.
    heeded: u16,
}

impl FalseAlarms {
    /// The value before the first false alarm.
    pub(crate) const NEW: Self =
        Self { recent: 0, since: Time::from_nanos(0), ignored: 0, last_ignored: 0, heeded: 0 };

    /// Returns whether the manager ignores the rings at present.
    pub(crate) const fn is_ignored(self) -> bool {
        self.ignored > 0
    }

    /// Notes a false alarm.
    #[must_use]
    pub(crate) fn one_more(self, now: Time) -> Self {
        let forgotten = now.since(self.since).as_nanos() / FORGOTTEN_AFTER.as_nanos();
        let forgotten = u8::try_from(forgotten).unwrap_or(u8::MAX);
        let since = if forgotten > 0 { now } else { self.since };
        let recent = self.recent.saturating_sub(forgotten) + 1;
        if recent < MOST {
            return Self { recent, since, ..self };
        }
        // If the manager has heeded the rings for fewer checks than it ignored them the last time, it now ignores them
        // for twice as many checks as the last time.
        let is_soon = self.heeded < self.last_ignored;
        let ignored = if is_soon { (2 * self.last_ignored).min(MOST_IGNORED_CHECKS) } else { IGNORED_CHECKS };
        // If a ring gives one more false alarm soon after the ignored checks, the manager ignores the rings again.
        Self { recent: MOST - 1, since, ignored, last_ignored: ignored, heeded: 0 }
    }

    /// Notes a check of a pool. Each check counts, whether the manager heeds the pool's rings or ignores them.
    #[must_use]
    pub(crate) const fn checked(self) -> Self {
        match self.ignored {
            0 => Self { heeded: self.heeded.saturating_add(1), ..self },
            _ => Self { ignored: self.ignored - 1, ..self },
        }
    }
}

/// Whether the manager is woken when a worker that runs an item goes to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hearing {
    /// The worker's ring has room for the record of the next sleep, which wakes the manager.
    Wakes,
    /// The worker's ring was opened only after the check, or will be opened at the next check. So the worker may have
    /// fallen asleep before the ring was open.
    New,
    /// All rings are in use, so only a check finds out whether the worker sleeps.
    NoRoom,
    /// The system has refused a ring, or the ring cannot wake the manager any more.
    Deaf,
    /// The manager ignores all rings because of their false alarms.
    Ignored,
}

impl Hearing {
    /// Returns the time within which the manager must check the worker's pool again. Returns `None` if no check is
    /// needed, because the ring wakes the manager. `shares` says whether the pool has siblings, which can take the
    /// pool's items.
    pub(crate) const fn check_within(self, shares: bool) -> Option<Duration> {
        match self {
            Self::Wakes => None,
            Self::New | Self::NoRoom => Some(SHORTEST),
            Self::Deaf => Some(PERIOD),
            // The pool is checked as often as in an executor that has no rings.
            Self::Ignored if shares => Some(BRISK_LONGEST),
            Self::Ignored => Some(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of false alarms after which the manager ignores the rings, if the alarms come at this
    /// interval. Returns `None` if the manager still heeds the rings after 1000 alarms.
    fn ignored_after(mut alarms: FalseAlarms, interval: Duration) -> Option<u32> {
        let mut now = Time::from_nanos(0) + Duration::from_secs(1);
        (1..=1000).find(|_| {
            alarms = alarms.one_more(now);
            now = now + interval;
            alarms.is_ignored()
        })
    }

    /// spec: S1.10: a pool goes unchecked only if a ring wakes the manager when the worker falls asleep.
    #[test]
    fn a_pool_is_checked_soon_if_a_sleep_may_go_unnoticed() {
        let within = |hearing: Hearing, shares| hearing.check_within(shares).map(|time| time.as_micros());
        let hearings = [Hearing::Wakes, Hearing::New, Hearing::NoRoom, Hearing::Deaf, Hearing::Ignored];
        let alone = hearings.map(|hearing| within(hearing, false));
        assert_eq!(alone, [None, Some(250), Some(250), Some(1000), Some(3000)]);
        let with_siblings = hearings.map(|hearing| within(hearing, true));
        assert_eq!(with_siblings, [None, Some(250), Some(250), Some(1000), Some(1500)]);
    }

    /// spec: S1.10 (the cost of records): the manager ignores rings whose false alarms come too often.
    #[test]
    fn rings_are_ignored_if_they_alarm_more_often_than_checks_would() {
        let micros = Duration::from_micros;
        assert_eq!(ignored_after(FalseAlarms::NEW, micros(700)), Some(19), "every fifth is forgotten");
        assert_eq!(ignored_after(FalseAlarms::NEW, Duration::ZERO), Some(16));
        for interval in [LONGEST, 2 * LONGEST, Duration::from_secs(3600)] {
            assert_eq!(ignored_after(FalseAlarms::NEW, interval), None, "{interval:?}");
        }
    }

    #[test]
    fn ignored_rings_are_heeded_after_some_checks_and_ignored_again_after_one_alarm() {
        let now = Time::from_nanos(0) + LONGEST;
        let mut alarms = (0..16).fold(FalseAlarms::NEW, |alarms, _| alarms.one_more(now));
        for _ in 0..16 {
            assert!(alarms.is_ignored());
            alarms = alarms.checked();
        }
        assert!(!alarms.is_ignored());
        assert!(alarms.one_more(now).is_ignored());
        assert!(!alarms.one_more(now + 20 * LONGEST).is_ignored(), "the former alarms are forgotten");
    }

    /// Gives false alarms until the manager ignores the rings. Returns the number of checks for which the rings are
    /// ignored.
    fn ignored_for(alarms: &mut FalseAlarms, now: Time) -> u32 {
        while !alarms.is_ignored() {
            *alarms = alarms.one_more(now);
        }
        let mut checks = 0;
        while alarms.is_ignored() {
            (*alarms, checks) = (alarms.checked(), checks + 1);
        }
        checks
    }

    /// spec: S1.10 (the cost of records): the manager seldom heeds rings that give false alarms again and again.
    #[test]
    fn rings_that_soon_alarm_again_are_ignored_for_longer() {
        let second = Duration::from_secs(1);
        let mut now = Time::from_nanos(0) + second;
        let mut alarms = FalseAlarms::NEW;
        for expected in [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096] {
            now = now + second;
            assert_eq!(ignored_for(&mut alarms, now), expected);
        }
        for _ in 0..4095 {
            alarms = alarms.checked();
        }
        assert_eq!(ignored_for(&mut alarms, now + second), 4096, "too soon");
        for _ in 0..4096 {
            alarms = alarms.checked();
        }
        assert_eq!(ignored_for(&mut alarms, now + 2 * second), 16, "the rings were heeded for as long");
    }
}
