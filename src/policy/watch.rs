//! What the manager does about a watched pool: one with pending work and no free place.
//!
//! The thread that finds a pool in this state, by a push or a look, begins the watch. The manager looks at the pool from
//! time to time, and ends the watch after some quiet looks.
//!
//! * Pools that count running workers are looked at within milliseconds: a worker that counts may sleep, or keep a
//!   CPU for itself. The first look is at once, and the next after a millisecond. Looks that find nothing become
//!   rarer; a finding makes them frequent for a while.
//! * In other pools no worker keeps another from starting, unless threads are missing. They are looked at rarely,
//!   for the watchdog.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::blocking_detector::{Criteria, Facts, Findings, Found, Suspects};
use super::idle_set::WorkerId;
use super::pace::Pace;
use super::time::Time;
use super::watchdog::Watchdog;
use super::worker::WorkerState;

/// The watch of a pool ends after this many quiet looks.
const QUIET_LOOKS: u8 = 2;

/// The time between the first look and the second.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);
/// One block is often followed by others: after a finding, this many looks come soon after each other before they
/// become rare again.
const ALERT_LOOKS: u8 = 8;
/// The shortest and the longest time between two looks.
pub(crate) const SHORTEST: Duration = Duration::from_micros(250);
pub(crate) const LONGEST: Duration = Duration::from_millis(3);

/// The same for pools that are looked at only for the watchdog.
const WATCHDOG_PERIOD: Duration = Duration::from_millis(10);
const WATCHDOG_LONGEST: Duration = Duration::from_secs(1);

/// What the looks at all pools of an executor search for.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Workers that sleep without a guard.
    pub(crate) sleepers: bool,
    /// The system reports most of these sleeps.
    pub(crate) is_told: bool,
    /// Workers that use this much CPU time.
    pub(crate) hogs: Option<Duration>,
    /// Pools that start no item for this long.
    pub(crate) watchdog: Option<Duration>,
    /// Pools with work and no worker on it for this long: then the executor itself is at fault.
    pub(crate) patience: Option<Duration>,
}

/// The state of a pool at a look, taken under the pool's mutex.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Items lie on the pool's worklist.
    pub(crate) pending: bool,
    /// A worker is on its way or being made.
    pub(crate) help_coming: bool,
    /// How many CPUs the pool keeps busy, if it counts running workers.
    pub(crate) cpus: Option<usize>,
    /// Whether it is the pool of one CPU. Looks search for hogs only there: in a pod, the other CPUs go on.
    pub(crate) per_cpu: bool,
    /// How fast findings may make the pool grow.
    pub(crate) pace: Pace,
    /// [`Outcome::stalled_since`] of the last look.
    pub(crate) stalled_since: Option<Time>,
    /// How many items of it siblings and rescuers have taken.
    pub(crate) given: u64,
    /// Its workers, sorted by number. Their words are read before any facts about their threads.
    pub(crate) workers: Vec<(WorkerId, WorkerState)>,
}

impl Look {
    /// Returns whether a worker is at work, or about to be.
    fn is_served(&self) -> bool {
        self.workers.iter().any(|(_, word)| word.phase().is_at_work(self.cpus.is_some()))
    }
}

/// What a look leads to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Findings, each to be carried out if its word is still the same.
    pub(crate) found: Vec<Found>,
    /// The pool's pace after the look. It outlives the watch.
    pub(crate) pace: Pace,
    /// Since when the pool has started no item, if that was reported; until it starts one.
    pub(crate) stalled_since: Option<Time>,
    pub(crate) verdict: Verdict,
    /// If the pool has stalled: since when, at the latest, each worker has been at its item. Sorted by number.
    pub(crate) began: Vec<(WorkerId, Time)>,
}

#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The pool will be looked at again.
    Watching,
    /// Stop watching: clear the bit, then check the worklist once more.
    Unwatch,
    /// The pool has started no item for this long. Reported once.
    Stalled(Duration),
    /// Work has waited for this long without a worker: the executor itself is at fault.
    Stuck(Duration),
}

/// What has been seen of a watched pool so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    quiet_looks: u8,
    /// Since when, without a break, there has been work without a worker.
    stuck_since: Option<Time>,
    /// The time between the last look and the next.
    period: Duration,
    /// How many looks still come soon after each other.
    alert: u8,
    /// The system has reported a sleeping worker, which causes the next look.
    told: bool,
    suspects: Suspects,
    watchdog: Watchdog,
    /// [`Look::given`] at the last look.
    given: u64,
}

impl Watch {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            quiet_looks: 0,
            stuck_since: None,
            period: Duration::ZERO,
            alert: 0,
            told: false,
            suspects: Suspects::default(),
            watchdog: Watchdog::new(now),
            given: 0,
        }
    }

    /// Notes that the system reports a sleeping worker.
    pub(crate) fn tell(&mut self) {
        self.told = true;
    }

    /// Looks at the pool. Returns the outcome, and when to look again.
    pub(crate) fn look(
        &mut self,
        look: &Look,
        rules: Rules,
        facts: &mut impl Facts,
        now: Time,
    ) -> (Outcome, Time) {
        let findings = self.inspect(look, rules, facts, now);
        // A reported sleep is no reason to look often. A sleep that should have been reported is.
        let told = std::mem::take(&mut self.told) && rules.is_told;
        if !findings.found.is_empty() && !told {
            self.alert = ALERT_LOOKS;
        }
        self.period = self.next_period(look, rules, &findings);
        self.alert = self.alert.saturating_sub(1);
        self.quiet_looks = if look.pending { 0 } else { self.quiet_looks + 1 };
        let stuck = look.pending && !look.is_served() && !look.help_coming;
        self.stuck_since = if stuck { self.stuck_since.or(Some(now)) } else { None };
        let stuck_for = self.stuck_since.map_or(Duration::ZERO, |since| now.since(since));
        let progress = findings.progress || look.given != self.given;
        self.given = look.given;
        let stalled_for =
            rules.watchdog.and_then(|threshold| self.watchdog.looked(look.pending, progress, threshold, now));
        let verdict = match stalled_for {
            _ if self.quiet_looks >= QUIET_LOOKS => Verdict::Unwatch,
            _ if rules.patience.is_some_and(|patience| stuck_for > patience) => Verdict::Stuck(stuck_for),
            Some(stalled_for) => Verdict::Stalled(stalled_for),
            None => Verdict::Watching,
        };
        let began = if matches!(verdict, Verdict::Stalled(_)) { self.suspects.began() } else { Vec::new() };
        let bark_at = rules.watchdog.and_then(|threshold| self.watchdog.next(threshold));
        let soonest = findings.next.into_iter().chain(bark_at).min();
        let shortest = now + SHORTEST;
        let next = soonest.map_or(Time::NEVER, |at| at.max(shortest)).min(now + self.period);
        let stalled_since = self.watchdog.told_since();
        (Outcome { found: findings.found, pace: findings.pace, stalled_since, verdict, began }, next)
    }

    fn inspect(&mut self, look: &Look, rules: Rules, facts: &mut impl Facts, now: Time) -> Findings {
        let counts = look.cpus.is_some() && look.pending;
        let criteria = Criteria {
            sleepers: counts && rules.sleepers,
            hogs: rules.hogs.filter(|_| counts && look.per_cpu),
            cpus: look.cpus.unwrap_or(1),
        };
        self.suspects.look(&look.workers, (criteria, look.pace), facts, now)
    }

    fn next_period(&self, look: &Look, rules: Rules, findings: &Findings) -> Duration {
        let (first, longest) = match look.cpus {
            Some(_) => (PERIOD, LONGEST),
            None => (WATCHDOG_PERIOD, WATCHDOG_LONGEST),
        };
        let period = match self.period {
            _ if self.alert > 0 => SHORTEST,
            _ if !findings.found.is_empty() => PERIOD,
            // The next look soon tells whether the pool stays quiet, and then the wake-ups end.
            _ if !look.pending => first,
            Duration::ZERO => first,
            last => longest.min(last * 2),
        };
        // Four looks within the patience, so a pool is reported only if it was seen stuck several times in a row.
        rules.patience.map_or(period, |patience| period.min((patience / 4).max(SHORTEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::Phase;
    use super::*;

    const STUCK: Look = Look {
        pending: true,
        help_coming: false,
        cpus: Some(1),
        per_cpu: true,
        stalled_since: None,
        pace: Pace::NEW,
        given: 0,
        workers: Vec::new(),
    };

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// All threads have the same facts.
    struct Threads {
        sleep: bool,
    }

    impl Facts for Threads {
        fn sleeps(&mut self, _: WorkerId) -> Option<bool> {
            Some(self.sleep)
        }

        fn cpu_time(&mut self, _: WorkerId) -> Option<Duration> {
            Some(Duration::ZERO)
        }

        fn sleeps_so_far(&mut self, _: WorkerId) -> Option<u64> {
            Some(0)
        }
    }

    const RUN: Threads = Threads { sleep: false };

    fn patient() -> Rules {
        Rules { patience: Some(Duration::from_millis(100)), ..Rules::default() }
    }

    #[test]
    fn work_without_a_worker_is_reported_once_patience_runs_out() {
        let mut watch = Watch::new(at(0));
        for millis in [25, 50, 75, 100, 125] {
            let (outcome, _) = watch.look(&STUCK, patient(), &mut { RUN }, at(1000 * millis));
            assert_eq!(outcome.verdict, Verdict::Watching, "{millis}");
        }
        let (outcome, _) = watch.look(&STUCK, patient(), &mut { RUN }, at(150_000));
        assert_eq!(outcome.verdict, Verdict::Stuck(Duration::from_millis(125)));
    }

    #[test]
    fn help_and_progress_start_the_patience_anew() {
        for relief in [Look { help_coming: true, ..STUCK }, Look { workers: vec![(0, running())], ..STUCK }] {
            let mut watch = Watch::new(at(0));
            for (millis, look) in [(90, &STUCK), (180, &relief), (270, &STUCK)] {
                let (outcome, _) = watch.look(look, patient(), &mut { RUN }, at(1000 * millis));
                assert_eq!(outcome.verdict, Verdict::Watching);
            }
        }
    }

    /// spec: S1 (an idle executor makes no wake-ups)
    #[test]
    fn a_quiet_pool_is_watched_no_more() {
        let quiet = Look { pending: false, ..STUCK };
        let mut watch = Watch::new(at(0));
        let verdicts = [0, 1000].map(|now| watch.look(&quiet, patient(), &mut { RUN }, at(now)).0.verdict);
        assert_eq!(verdicts, [Verdict::Watching, Verdict::Unwatch]);
    }

    fn running() -> WorkerState {
        WorkerState::new(Phase::Between).begin_item(Phase::Running)
    }

    /// Returns the times between the looks at a pool. Its one worker goes from item to item, and sleeps from the
    /// sixth look to the seventh.
    fn looks(rules: Rules, cpus: Option<usize>) -> Vec<u64> {
        let mut watch = Watch::new(at(0));
        let (mut now, mut word, mut looks) = (at(0), running(), Vec::new());
        for number in 1..=10 {
            let sleep = number == 6;
            let look = Look { cpus, workers: vec![(0, word)], ..STUCK };
            let (outcome, next) = watch.look(&look, rules, &mut Threads { sleep }, now);
            assert_eq!(outcome.found.is_empty(), !sleep || cpus.is_none(), "{number}");
            word = word.end_item().0.begin_item(Phase::Running);
            looks.push(next.since(now).as_micros() as u64);
            now = next;
        }
        looks
    }

    /// spec: S1.1 (within 5 ms by sampling)
    #[test]
    fn looks_become_rare_without_findings_and_frequent_after_one() {
        let rules = Rules { sleepers: true, ..Rules::default() };
        let expected = [1000, 2000, 3000, 3000, 3000, 250, 250, 250, 250, 250];
        assert_eq!(looks(rules, Some(1)), expected);
        let told = Rules { is_told: true, ..rules };
        assert_eq!(looks(told, Some(1)), expected, "the system should have reported the sleep, and has not");
    }

    /// spec: S1 (by the scheduler's own records)
    #[test]
    fn a_reported_sleep_is_no_reason_to_look_often() {
        let rules = Rules { sleepers: true, is_told: true, ..Rules::default() };
        let look = Look { workers: vec![(0, running())], ..STUCK };
        let mut watch = Watch::new(at(0));
        let (_, next) = watch.look(&look, rules, &mut { RUN }, at(0));
        assert_eq!(next, at(1000));
        watch.tell();
        let (outcome, next) = watch.look(&look, rules, &mut Threads { sleep: true }, at(500));
        assert_eq!((outcome.found.len(), next), (1, at(1500)));
    }

    #[test]
    fn a_pool_that_does_not_count_is_looked_at_for_the_watchdog() {
        let rules = Rules { sleepers: true, watchdog: Some(Duration::from_secs(30)), ..Rules::default() };
        let looks = looks(rules, None);
        assert_eq!(looks[..3], [10_000, 20_000, 40_000]);
        assert_eq!(looks[9], 1_000_000);
    }

    /// spec: S1 (an idle executor makes no wake-ups): a watch ends soon after the pool is idle, whatever its
    /// purpose.
    #[test]
    fn a_pool_that_becomes_quiet_is_soon_left_alone() {
        let rules = Rules { watchdog: Some(Duration::from_secs(30)), ..Rules::default() };
        for cpus in [None, Some(1)] {
            let (mut watch, mut now, mut last) = (Watch::new(at(0)), at(0), None);
            while last.is_none_or(|last| now.since(last) < Duration::from_secs(60)) {
                let pending = now < at(10_000_000);
                let look = Look { pending, cpus, ..STUCK };
                let (outcome, next) = watch.look(&look, rules, &mut { RUN }, now);
                last = Some(now);
                if outcome.verdict == Verdict::Unwatch {
                    break;
                }
                now = next;
            }
            assert!(now < at(11_100_000), "{now:?}");
        }
    }

    /// spec: S4.1
    #[test]
    fn a_pool_that_starts_nothing_is_reported_once() {
        let rules = Rules { watchdog: Some(Duration::from_millis(30)), ..Rules::default() };
        let look = Look { workers: vec![(0, running())], ..STUCK };
        let mut watch = Watch::new(at(0));
        let (mut now, mut reports) = (at(0), Vec::new());
        while now < at(200_000) {
            let (outcome, next) = watch.look(&look, rules, &mut { RUN }, now);
            match outcome.verdict {
                Verdict::Stalled(since) => reports.push((now, since, outcome.began)),
                _ => assert_eq!(outcome.began, []),
            }
            now = next;
        }
        assert_eq!(reports, [(at(30_000), Duration::from_millis(30), vec![(0, at(0))])]);
    }

    /// spec: S4.4
    #[test]
    fn items_that_siblings_and_rescuers_take_are_progress() {
        let rules = Rules { watchdog: Some(Duration::from_millis(30)), ..Rules::default() };
        let mut watch = Watch::new(at(0));
        let mut told = Vec::new();
        for millis in 0..100 {
            // The pool's worker enters a guard, and leaves it.
            let word = if millis % 2 == 0 { running() } else { running().block().0 };
            let given = if millis < 50 { millis } else { 50 };
            let look = Look { given, workers: vec![(3, word)], ..STUCK };
            let outcome = watch.look(&look, rules, &mut { RUN }, at(1000 * millis)).0;
            if let Verdict::Stalled(since) = outcome.verdict {
                told.push((millis, since, outcome.began));
            }
        }
        assert_eq!(told, [(80, Duration::from_millis(30), vec![(3, at(0))])]);
    }
}
