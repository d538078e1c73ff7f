//! Decides how the manager watches saturated and brisk pools. A *saturated* pool has pending work but starts no further
//! worker for it. A *brisk* pool leaves pending work to its running workers ([`brisk`](super::brisk)).
//!
//! A thread that finds a pool saturated, after a push or when it checks the worklist, asks the manager to watch the
//! pool. The manager then checks the pool from time to time, and ends the watch when some checks in a row have found no
//! pending work.
//!
//! * The manager checks a pool that counts running workers every few milliseconds, because a worker that counts as
//!   running might sleep, or might keep a CPU for itself. The first check is immediate, and the second check follows
//!   after a millisecond. Checks become rarer while they find nothing. A finding makes checks frequent for a while.
//! * The manager checks a pool that counts running workers *rarely* if the system or the workers report each event for
//!   which the manager searches. Rare checks require that the system records the context switches of all workers that
//!   have items. Rare checks also require that no worker is about to start, is out of the count, or has local items.
//! * If many workers sleep without a guard and come back, the manager *covers* the pool: it lets further workers run in
//!   place of the sleepers ([`pace`](super::pace)). After a finding, the manager checks a covered pool less often than
//!   other pools. A record of a sleep in a covered pool does not wake the manager.
//! * In a pool that does not count running workers, a worker can keep another worker from starting only if no more
//!   threads can be made. The manager checks such a pool rarely, for the watchdog.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::blocking_detector::{BlockingDetector, Criteria, Facts, Findings, Found};
use super::idle_set::WorkerId;
use super::pace::Pace;
use super::time::Time;
use super::watchdog::Watchdog;
use super::worker::{Finding, Phase, WorkerState};

/// The watch of a pool ends after this many checks in a row have found no pending work.
const QUIET_LOOKS: u8 = 2;

/// The time between the first and the second check of a pool that counts running workers.
pub(crate) const PERIOD: Duration = Duration::from_millis(1);
/// A finding is followed by this many checks at short intervals, because a block is often followed by other blocks.
/// After that, checks become rare again.
const ALERT_LOOKS: u8 = 8;
/// The time until the next check after a check has found that all workers that counted as running sleep. If all workers
/// sleep, no work makes progress, and the workers that replace the sleepers may sleep as well.
const URGENT: Duration = Duration::from_micros(100);
/// The shortest time between two checks, unless the second check is [urgent](URGENT).
pub(crate) const SHORTEST: Duration = Duration::from_micros(250);
/// The shortest time between two checks of a covered pool, in which other workers run in place of the sleepers that the
/// manager has not found yet.
const SHORTEST_COVERED: Duration = Duration::from_micros(500);
/// The longest time between two checks of a pool that counts running workers, unless the pool is checked rarely.
pub(crate) const LONGEST: Duration = Duration::from_millis(3);
/// The value that replaces [`LONGEST`] for a brisk pool, and for a pool with siblings. If an item turns out to be long,
/// the second check from then on lets other workers take the items behind it ([`brisk`](super::brisk)).
pub(crate) const BRISK_LONGEST: Duration = Duration::from_micros(1500);
/// The longest time between two checks of a pool that is checked rarely.
const RARE: Duration = Duration::from_millis(24);

/// The time between the first and the second check of a pool that does not count running workers.
const WATCHDOG_PERIOD: Duration = Duration::from_millis(10);
/// The longest time between two checks of a pool that does not count running workers.
const WATCHDOG_LONGEST: Duration = Duration::from_secs(1);

/// The rules by which the manager checks the pools of an executor.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether the manager searches for workers that sleep without a guard.
    pub(crate) sleepers: bool,
    /// Whether the system reports most sleeps without a guard to the manager.
    pub(crate) is_told: bool,
    /// The CPU time that makes a worker a hog, or `None` if the manager does not search for hogs.
    pub(crate) hogs: Option<Duration>,
    /// The time after which a pool that has work, but starts no item, counts as stalled. `None` if there is no
    /// watchdog.
    pub(crate) watchdog: Option<Duration>,
    /// The time after which pending work without a worker shows that the executor itself is at fault. If this is
    /// `None`, the manager does not search for such work.
    pub(crate) patience: Option<Duration>,
}

impl Rules {
    /// Returns whether the manager may ever check a pool rarely. `counts` says whether the pool counts running workers,
    /// and `per_cpu` whether the pool belongs to a single CPU. Only checks find the hogs of a per-CPU pool.
    pub(crate) const fn may_check_rarely(self, counts: bool, per_cpu: bool) -> bool {
        self.is_told && counts && !(per_cpu && self.hogs.is_some())
    }
}

/// The state of a pool at one check, read under the pool's mutex.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Whether the pool has pending work, on its worklist, its sideline or a local list.
    pub(crate) pending: bool,
    /// Whether workers of the pool have forks that no worker has taken.
    pub(crate) forks: bool,
    /// Whether a worker has entries on its local list.
    pub(crate) keeps_local: bool,
    /// Whether the pool has siblings, which may take its items.
    pub(crate) shares: bool,
    /// Whether a quota leaves the pool fewer CPUs than it has.
    pub(crate) is_limited: bool,
    /// Whether the pool is [brisk](super::brisk): it runs many short items.
    pub(crate) is_brisk: bool,
    /// Whether the pool's workers tell the manager if rare checks do not suffice any more.
    pub(crate) workers_tell: bool,
    /// Whether a worker is on its way, or was requested.
    pub(crate) help_coming: bool,
    /// The number of CPUs that the pool keeps busy, or `None` if the pool does not count running workers.
    pub(crate) cpus: Option<usize>,
    /// Whether the pool belongs to a single CPU. The manager searches for hogs only in such pools, because a hog takes
    /// only one of a pod's CPUs.
    pub(crate) per_cpu: bool,
    /// The limit on how fast the pool may grow because of findings.
    pub(crate) pace: Pace,
    /// The [`Outcome::stalled_since`] of the last check.
    pub(crate) stalled_since: Option<Time>,
    /// The number of the pool's items that siblings and rescuers have taken so far.
    pub(crate) given: u64,
    /// The pool's workers and their words, sorted by the workers' numbers. The words are read before any facts about
    /// the workers' threads.
    pub(crate) workers: Vec<(WorkerId, WorkerState)>,
}

impl Look {
    /// Returns whether another worker of the pool would have something to do.
    fn has_something(&self) -> bool {
        self.pending || self.forks
    }

    /// Returns whether the watch continues. The watch of a brisk pool continues even if no work is pending at the
    /// moment, because the pool has begun many items since the last check.
    fn is_busy(&self) -> bool {
        self.has_something() || self.is_brisk
    }

    /// Returns whether a worker of the pool works on items, or is about to work on them.
    fn is_served(&self) -> bool {
        self.workers.iter().any(|(_, word)| word.phase().is_at_work(self.cpus.is_some()))
    }

    /// Returns whether the pool should run further workers in place of sleepers until the next check. Further workers
    /// help only while workers sleep and work is pending. If a sibling has a free CPU, no work is pending for long. A
    /// limited pool would exceed its quota if it were covered. The items of a brisk pool do not sleep.
    fn covers(&self, findings: &Findings) -> bool {
        let sleeps = self.workers.iter().any(|(_, word)| word.phase() == Phase::Asleep)
            || findings.found.iter().any(|found| found.finding == Finding::Asleep);
        let is_of_use = self.has_something() && sleeps && !self.is_limited && !self.is_brisk;
        is_of_use && self.cpus.is_some_and(|cpus| findings.pace.covers(cpus))
    }

    /// Returns whether rare checks suffice if the system records the context switches of all workers that run.
    fn is_calm(&self, rules: Rules) -> bool {
        let is_known = |phase| matches!(phase, Phase::Running | Phase::Idle);
        rules.may_check_rarely(self.cpus.is_some(), self.per_cpu)
            && self.pending
            && !self.keeps_local
            && self.workers_tell
            && self.workers.iter().all(|(_, word)| is_known(word.phase()))
    }
}

/// The result of a check.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The findings. The manager acts on a finding only if the worker still has the word that the check read.
    pub(crate) found: Vec<Found>,
    /// The pool's pace after the check. The pool keeps this pace when the watch ends.
    pub(crate) pace: Pace,
    /// The time since which the pool has started no item, if this stall was reported. The value becomes `None` when the
    /// pool has started an item or has no pending work.
    pub(crate) stalled_since: Option<Time>,
    pub(crate) verdict: Verdict,
    /// Whether further workers should run in place of those that sleep without the manager's knowledge.
    pub(crate) covers: bool,
    /// Whether the manager listens to the records of the workers' context switches, if there are records. The manager
    /// does not listen to the records of a brisk pool, whose workers sleep again and again, nor of a covered pool,
    /// whose sleepers need not be found immediately.
    pub(crate) listens: bool,
    /// Whether rare checks suffice from now on, if the system records the context switches of all workers that run.
    pub(crate) is_calm: bool,
    /// If the pool has stalled, the latest possible time at which each worker began its present item or became idle.
    /// The entries are sorted by the workers' numbers.
    pub(crate) began: Vec<(WorkerId, Time)>,
}

#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is nothing to report, and the watch continues.
    Watching,
    /// The watch ends. The caller clears the watched bit, and then checks the worklist once more.
    Unwatch,
    /// The pool has started no item for this long. Each stall is reported once.
    Stalled(Duration),
    /// Work has waited for this long without a worker, so the executor itself is at fault.
    Stuck(Duration),
}

/// The manager's notes on a watched pool, which the manager keeps from check to check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    quiet_looks: u8,
    /// The time at which work first lacked a worker. Since then, all checks have found work without a worker.
    stuck_since: Option<Time>,
    /// The longest time from the last check to the next.
    period: Duration,
    /// The number of checks that still follow at short intervals.
    alert: u8,
    /// Whether the system has reported a sleeping worker since the last check. Such a report triggers the next check.
    told: bool,
    detector: BlockingDetector,
    watchdog: Watchdog,
    /// The [`Look::given`] of the last check.
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
            detector: BlockingDetector::default(),
            watchdog: Watchdog::new(now),
            given: 0,
        }
    }

    /// Notes that the system has reported a sleeping worker.
    pub(crate) fn tell(&mut self) {
        self.told = true;
    }

    /// Evaluates a check of the pool. Returns the outcome, and the time of the next check.
    pub(crate) fn look(
        &mut self,
        look: &Look,
        rules: Rules,
        facts: &mut impl Facts,
        now: Time,
    ) -> (Outcome, Time) {
        let findings = self.inspect(look, rules, facts, now);
        // Any finding is a reason for frequent checks, except a sleep that the system has reported.
        let covers = look.covers(&findings);
        let told = std::mem::take(&mut self.told) && rules.is_told && !covers;
        if !findings.found.is_empty() && !told {
            self.alert = ALERT_LOOKS;
        }
        self.period = self.next_period(look, rules, &findings, (told, covers));
        self.alert = self.alert.saturating_sub(1);
        self.quiet_looks = if look.is_busy() { 0 } else { self.quiet_looks + 1 };
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
        let began = if matches!(verdict, Verdict::Stalled(_)) { self.detector.began() } else { Vec::new() };
        let bark_at = rules.watchdog.and_then(|threshold| self.watchdog.next(threshold));
        let soonest = findings.next.into_iter().chain(bark_at).min();
        let shortest = now + if covers { SHORTEST_COVERED } else { SHORTEST };
        let next = soonest.map_or(Time::NEVER, |at| at.max(shortest)).min(now + self.period);
        let stalled_since = self.watchdog.told_since();
        let is_calm = findings.found.is_empty() && !covers && look.is_calm(rules);
        let listens = !covers && !look.is_brisk;
        let Findings { found, pace, .. } = findings;
        (Outcome { found, pace, stalled_since, verdict, covers, listens, is_calm, began }, next)
    }

    fn inspect(&mut self, look: &Look, rules: Rules, facts: &mut impl Facts, now: Time) -> Findings {
        let counts = look.cpus.is_some() && look.has_something();
        let criteria = Criteria {
            sleepers: counts && rules.sleepers,
            hogs: rules.hogs.filter(|_| counts && look.per_cpu),
            cpus: look.cpus.unwrap_or(1),
        };
        self.detector.look(&look.workers, (criteria, look.pace), facts, now)
    }

    fn next_period(
        &self,
        look: &Look,
        rules: Rules,
        findings: &Findings,
        (told, covers): (bool, bool),
    ) -> Duration {
        let (first, longest) = match look.cpus {
            Some(_) if !covers && look.is_calm(rules) => (PERIOD, RARE),
            Some(_) if look.shares || look.is_brisk => (PERIOD, BRISK_LONGEST),
            Some(_) => (PERIOD, LONGEST),
            None => (WATCHDOG_PERIOD, WATCHDOG_LONGEST),
        };
        let counted = look.workers.iter().filter(|(_, word)| word.phase() == Phase::Running).count();
        let slept = findings.found.iter().filter(|found| found.finding == Finding::Asleep).count();
        let period = match self.period {
            _ if slept > 0 && slept == counted && !told => URGENT,
            _ if self.alert > 0 && covers => SHORTEST_COVERED,
            _ if self.alert > 0 => SHORTEST,
            _ if !findings.found.is_empty() => PERIOD,
            // If the next check finds no pending work either, the watch ends. So the next check comes soon.
            _ if !look.is_busy() => first,
            Duration::ZERO => first,
            last => longest.min(last * 2),
        };
        // The manager checks the pool at least four times before the patience runs out. So the manager reports the pool
        // only if several checks in a row have found it stuck.
        rules.patience.map_or(period, |patience| period.min((patience / 4).max(SHORTEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::worker::Phase;
    use super::*;

    const STUCK: Look = Look {
        pending: true,
        forks: false,
        keeps_local: false,
        shares: false,
        is_limited: false,
        is_brisk: false,
        workers_tell: true,
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

    /// Threads that all sleep, or that all run.
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

    /// Threads, of which only the thread of worker 0 sleeps.
    struct FirstSleeps;

    impl Facts for FirstSleeps {
        fn sleeps(&mut self, worker: WorkerId) -> Option<bool> {
            Some(worker == 0)
        }

        fn cpu_time(&mut self, _: WorkerId) -> Option<Duration> {
            None
        }

        fn sleeps_so_far(&mut self, _: WorkerId) -> Option<u64> {
            None
        }
    }

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

    /// spec: C3.4: the manager continues to watch a brisk pool that has no pending work at the moment of a check.
    #[test]
    fn a_brisk_pool_is_watched_on() {
        let brisk = Look { pending: false, is_brisk: true, per_cpu: false, ..STUCK };
        let mut watch = Watch::new(at(0));
        let mut now = at(0);
        for period in [1000, 1500, 1500, 1500] {
            let (outcome, next) = watch.look(&brisk, patient(), &mut { RUN }, now);
            assert_eq!(
                (outcome.verdict, next.since(now)),
                (Verdict::Watching, Duration::from_micros(period))
            );
            now = next;
        }
    }

    fn running() -> WorkerState {
        WorkerState::new(Phase::Between).begin_item(Phase::Running)
    }

    /// Returns the times between the checks of a pool, in microseconds. The pool's only worker has a different item at
    /// each check, and only the sixth check finds the worker asleep.
    fn looks(rules: Rules, cpus: Option<usize>) -> Vec<u64> {
        looks_at(&STUCK, rules, cpus)
    }

    fn looks_at(pool: &Look, rules: Rules, cpus: Option<usize>) -> Vec<u64> {
        let mut watch = Watch::new(at(0));
        let (mut now, mut word, mut looks) = (at(0), running(), Vec::new());
        for number in 1..=10 {
            let sleep = number == 6;
            let look = Look { cpus, workers: vec![(0, word)], ..pool.clone() };
            let (outcome, next) = watch.look(&look, rules, &mut Threads { sleep }, now);
            assert_eq!(outcome.found.is_empty(), !sleep || cpus.is_none(), "{number}");
            word = word.end_item().0.begin_item(Phase::Running);
            looks.push(next.since(now).as_micros() as u64);
            now = next;
        }
        looks
    }

    /// spec: S1.1: checks become rarer without findings, at most 3 ms apart, and frequent after a finding.
    #[test]
    fn looks_become_rare_without_findings_and_frequent_after_one() {
        let rules = Rules { sleepers: true, ..Rules::default() };
        let expected = [1000, 2000, 3000, 3000, 3000, 100, 250, 250, 250, 250];
        assert_eq!(looks(rules, Some(1)), expected);
    }

    /// spec: A3.10: checks of a pool with siblings are at most 1.5 ms apart.
    #[test]
    fn looks_at_a_pool_with_siblings_are_at_most_a_millisecond_and_a_half_apart() {
        let rules = Rules { sleepers: true, ..Rules::default() };
        let expected = [1000, 1500, 1500, 1500, 1500, 100, 250, 250, 250, 250];
        assert_eq!(looks_at(&Look { shares: true, ..STUCK }, rules, Some(1)), expected);
    }

    /// spec: S1.10: checks of a calm pool become rare, until a check finds a sleep that the system has not reported.
    #[test]
    fn looks_at_a_calm_pool_become_rarer_still() {
        let told = Rules { sleepers: true, is_told: true, ..Rules::default() };
        let expected = [1000, 2000, 4000, 8000, 16_000, 100, 250, 250, 250, 250];
        assert_eq!(looks(told, Some(1)), expected);
        assert_eq!(looks(Rules { hogs: Some(RARE), ..told }, Some(1))[..5], [1000, 2000, 3000, 3000, 3000]);
    }

    /// spec: S1.10: rare checks suffice only if the manager is told of everything that it searches for.
    #[test]
    fn a_pool_is_calm_if_nothing_happens_unnoticed() {
        let told = Rules { sleepers: true, is_told: true, hogs: Some(RARE), ..Rules::default() };
        let between = WorkerState::new(Phase::Between);
        let workers = vec![(0, running()), (1, WorkerState::new(Phase::Idle)), (2, running())];
        let calm = Look { per_cpu: false, workers, ..STUCK };
        let is_calm = |look: &Look, rules| {
            let outcome = Watch::new(at(0)).look(look, rules, &mut { RUN }, at(0)).0;
            outcome.is_calm
        };
        assert!(is_calm(&calm, told));
        assert!(!is_calm(&calm, Rules { is_told: false, ..told }), "the manager samples");
        for (look, why) in [
            (Look { pending: false, ..calm.clone() }, "the watch ends soon"),
            (Look { per_cpu: true, ..calm.clone() }, "a worker may become a hog"),
            (Look { cpus: None, ..calm.clone() }, "only the watchdog checks the pool"),
            (Look { keeps_local: true, ..calm.clone() }, "the item before a local item may be long"),
            (Look { workers_tell: false, ..calm.clone() }, "the pool may be brisk"),
        ] {
            assert!(!is_calm(&look, told), "{why}");
        }
        for phase in
            [Phase::Waking, Phase::MayBlock, Phase::Blocked, Phase::Asleep, Phase::Hog, Phase::Exiting]
        {
            let mut look = calm.clone();
            look.workers.push((3, between.begin_item(phase)));
            assert!(!is_calm(&look, told), "{phase:?}");
        }
        let asleep = Watch::new(at(0)).look(&calm, told, &mut Threads { sleep: true }, at(0)).0;
        assert!(!asleep.is_calm, "a finding is followed by others");
    }

    /// spec: S5.4: a covered pool is checked less often than other pools with sleepers, but at least every 3 ms.
    #[test]
    fn a_pool_is_covered_while_its_sleepers_come_back() {
        let told = Rules { sleepers: true, is_told: true, ..Rules::default() };
        let sleeps = Look { workers: vec![(0, running()), (1, running())], cpus: Some(2), ..STUCK };
        let sleeps = Look { per_cpu: false, ..sleeps };
        let covered = Look { pace: Pace::NEW.at(at(0), 4, 2, 2), ..sleeps.clone() };
        for (look, covers, period) in [
            (sleeps, false, 250),
            (covered.clone(), true, 500),
            (Look { cpus: Some(4), ..covered.clone() }, false, 250),
            (Look { cpus: Some(1), ..covered.clone() }, false, 250),
            (Look { cpus: None, ..covered.clone() }, false, 10_000),
            (Look { pending: false, ..covered.clone() }, false, 1000),
            (Look { is_limited: true, ..covered.clone() }, false, 250),
            (Look { is_brisk: true, ..covered.clone() }, false, 250),
        ] {
            let (outcome, next) = Watch::new(at(0)).look(&look, told, &mut FirstSleeps, at(0));
            assert_eq!((outcome.covers, next), (covers, at(period)), "{look:?}");
            assert_eq!(outcome.listens, !covers && !look.is_brisk, "{look:?}");
        }
        // A report of a sleep does not delay the next check of a covered pool, because the manager listens for no sleep
        // there.
        let mut watch = Watch::new(at(0));
        watch.tell();
        assert_eq!(watch.look(&covered, told, &mut FirstSleeps, at(0)).1, at(500));
        // One worker has been asleep since an earlier check.
        let asleep =
            Look { workers: vec![(0, running().found(Finding::Asleep).unwrap())], ..covered.clone() };
        // The sleeper's clock could be read again sooner, but a covered pool is next checked after 500 µs.
        let (_, next) = Watch::new(at(0)).look(&asleep, told, &mut Threads { sleep: true }, at(0));
        assert_eq!(next, at(500));
        let (mut watch, mut now) = (Watch::new(at(0)), at(1000));
        for period in [1000, 2000, 3000, 3000] {
            let (outcome, next) = watch.look(&asleep, told, &mut Threads { sleep: true }, now);
            assert!(outcome.covers && !outcome.is_calm);
            assert_eq!(next.since(now), Duration::from_micros(period));
            now = next;
        }
        let (outcome, _) = Watch::new(at(0)).look(&covered, told, &mut { RUN }, at(0));
        assert!(!outcome.covers, "no worker sleeps");
    }

    /// spec: S1: a sleep that the system has reported does not make checks frequent.
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

    /// spec: S1.8: the next check is urgent if all workers sleep. The check is not urgent if one worker is awake.
    #[test]
    fn the_next_look_is_urgent_if_all_workers_slept() {
        let rules = Rules { sleepers: true, ..Rules::default() };
        let next = |workers: Vec<_>| {
            let look = Look { workers, cpus: Some(2), per_cpu: false, ..STUCK };
            Watch::new(at(0)).look(&look, rules, &mut FirstSleeps, at(0)).1
        };
        assert_eq!(next(vec![(0, running())]), at(100));
        assert_eq!(next(vec![(0, running()), (1, running())]), at(250));
    }

    #[test]
    fn a_pool_that_does_not_count_is_looked_at_for_the_watchdog() {
        let rules = Rules { sleepers: true, watchdog: Some(Duration::from_secs(30)), ..Rules::default() };
        let looks = looks(rules, None);
        assert_eq!(looks[..3], [10_000, 20_000, 40_000]);
        assert_eq!(looks[9], 1_000_000);
    }

    /// spec: S1 (an idle executor makes no wake-ups): every watch ends soon after its pool becomes idle, even a watch
    /// that serves only the watchdog.
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
            // The pool's worker alternately enters and leaves guards.
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
