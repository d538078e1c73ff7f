//! Finds the workers of a watched pool that count as running but do not use a CPU, and the workers that use a CPU for
//! too long. The detector keeps its observations of each worker from one check to the next.
//!
//! A worker that counts as running keeps other workers from starting. If a worker that counts as running sleeps without
//! a guard, the other workers wait although a CPU is free. So the detector takes the sleeping worker out of the count,
//! and puts it back when the worker is seen to run again. A worker that runs without a pause keeps the CPU of its pool
//! to itself. The detector also takes a worker that runs without a pause out of the count, until the worker's item
//! ends. A preempted worker does not count as asleep.
//!
//! Facts about threads cost system calls, so a check asks [`Facts`] only for the facts that make a difference. A
//! finding is about the *word* of a worker (the worker's shared state), which the check reads before the facts. The
//! manager acts on a finding only if the worker's word is still the same.
//!
//! The detector has these limits. A check makes a system call for each worker that was found asleep, because the check
//! reads the worker's clock. If many workers are asleep, not every check reads their clocks. If a worker sleeps briefly
//! many times, the detector may take the worker out of the count and put the worker back each time. The pace
//! (`pace.rs`) limits how many workers are out of the count at the same time. A worker that was found asleep may run
//! again after the watch of its pool has ended. A worker that runs again returns to the count when its pool is next
//! watched, or when the worker's item ends. Until the worker returns to the count, the pool may run one worker too
//! many.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::idle_set::WorkerId;
use super::pace::{Pace, Why};
use super::time::Time;
use super::worker::{Finding, Phase, WorkerState};

/// A worker that has been in a `may_block` guard for this long is treated as blocked.
pub(crate) const MAY_BLOCK: Duration = Duration::from_millis(1);

/// If the system does not tell whether a thread sleeps, a thread that has used no CPU time for this long is treated as
/// asleep.
pub(crate) const STILL: Duration = Duration::from_millis(3);

/// The detector waits this long, multiplied by the number of sleepers that are out of the count, before it reads the
/// clocks of all sleepers again. A reading takes less than a microsecond, so the readings take a small part of the
/// manager's time.
const PER_SLEEPER: Duration = Duration::from_micros(10);
/// The longest time until the detector reads the clocks of all sleepers again.
const RECHECK: Duration = Duration::from_millis(2);

/// The facts that the system reports about a worker's thread. Each method returns `None` if the system does not report
/// the fact.
pub(crate) trait Facts {
    /// Returns whether the thread sleeps. A thread that waits for a CPU does not sleep.
    fn sleeps(&mut self, worker: WorkerId) -> Option<bool>;
    /// Returns how much CPU time the thread has used.
    fn cpu_time(&mut self, worker: WorkerId) -> Option<Duration>;
    /// Returns how many times the thread has slept.
    fn sleeps_so_far(&mut self, worker: WorkerId) -> Option<u64>;
}

/// The kinds of workers that a check of a pool searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Criteria {
    /// Whether the check searches for workers that sleep without a guard.
    pub(crate) sleepers: bool,
    /// A worker that uses this much CPU time without a sleep is a hog. The value is `None` if the check does not search
    /// for hogs.
    pub(crate) hogs: Option<Duration>,
    /// The number of CPUs that the pool keeps busy.
    pub(crate) cpus: usize,
}

/// A finding about a worker. The manager acts on the finding only if the worker's word is still `seen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) worker: WorkerId,
    pub(crate) seen: WorkerState,
    pub(crate) finding: Finding,
}

/// The result of a check of the workers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) found: Vec<Found>,
    /// The pool's pace after the check. The pace limits how fast workers are taken out of the count.
    pub(crate) pace: Pace,
    /// The earliest time at which a further finding is possible. The value is `None` if this check foresees no further
    /// finding.
    pub(crate) next: Option<Time>,
    /// Whether a worker has begun an item, joined the pool or left the pool since the last check of the pool.
    pub(crate) progress: bool,
}

/// The detector's knowledge of a pool: the workers that the last check saw, sorted by number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockingDetector {
    sightings: Vec<Sighting>,
    /// The time at which a check last read the clocks of all sleepers.
    clocks_read: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sighting {
    worker: WorkerId,
    word: WorkerState,
    /// The time of the first check that saw this word.
    since: Time,
    /// The time of the first check after the worker began its latest item.
    began: Time,
    /// The readings of the worker's CPU time in its present stretch of running or sleeping.
    clock: Option<Clock>,
}

/// The readings of a worker's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// The CPU time at the last check that noticed a sleep of the thread. If no check of the present stretch has
    /// noticed a sleep, this field has the CPU time at the first check of the stretch.
    base: Duration,
    /// The number of times that the thread has slept. A check reads this number once for each value of `base`. The
    /// value is `None` until the number is read.
    sleeps: Option<u64>,
    /// The CPU time at the last reading.
    last: Duration,
    /// The time since which the CPU time has not changed.
    still_since: Time,
}

impl BlockingDetector {
    /// Checks the workers of a pool. `workers` holds the workers and their words, sorted by the workers' numbers.
    /// `pace` is the pool's pace, which earlier watches have influenced too.
    pub(crate) fn look(
        &mut self,
        workers: &[(WorkerId, WorkerState)],
        (criteria, pace): (Criteria, Pace),
        facts: &mut impl Facts,
        now: Time,
    ) -> Findings {
        let known = std::mem::take(&mut self.sightings);
        let mut look = Look::new(pace, &known, workers, criteria, now);
        self.clocks_read = look.decide_on_clocks(self.clocks_read);
        for (worker, word) in workers.iter().copied() {
            let before = known.binary_search_by_key(&worker, |known| known.worker).ok().map(|at| known[at]);
            let same_item = before.is_some_and(|before| before.word.sequence() == word.sequence());
            look.findings.progress |= !same_item;
            let fresh = Sighting { worker, word, since: now, began: now, clock: None };
            let mut sighting = match before {
                Some(before) if before.word == word => before,
                Some(before) if same_item => Sighting { began: before.began, ..fresh },
                _ => fresh,
            };
            look.worker(&mut sighting, facts);
            self.sightings.push(sighting);
        }
        look.findings.progress |= known.len() > workers.len();
        Findings { pace: look.pace, ..look.findings }
    }

    /// Returns for each worker the time of the first check after the worker began its latest item.
    pub(crate) fn began(&self) -> Vec<(WorkerId, Time)> {
        self.sightings.iter().map(|known| (known.worker, known.began)).collect()
    }
}

/// The state of one check.
struct Look {
    findings: Findings,
    pace: Pace,
    criteria: Criteria,
    now: Time,
    /// The number of workers that are out of the count because they sleep.
    asleep: usize,
    /// The number of workers that are out of the count because they are hogs.
    hogs: usize,
    /// Whether the check reads the clocks of all sleepers, or only the clocks that no check has read yet.
    reads_clocks: bool,
}

impl Look {
    fn new(
        pace: Pace,
        known: &[Sighting],
        workers: &[(WorkerId, WorkerState)],
        criteria: Criteria,
        now: Time,
    ) -> Self {
        let out = |phase| workers.iter().filter(|(_, word)| word.phase() == phase).count();
        let (asleep, hogs) = (out(Phase::Asleep), out(Phase::Hog));
        // A sleeper whose word has changed has come back: its sleep has ended.
        let still_sleeps = |known: &Sighting| {
            let at = workers.binary_search_by_key(&known.worker, |(id, _)| *id);
            at.is_ok_and(|at| workers[at].1 == known.word)
        };
        let slept = known.iter().filter(|known| known.word.phase() == Phase::Asleep);
        let returns = slept.filter(|known| !still_sleeps(known)).count();
        let pace = pace.at(now, returns, asleep, criteria.cpus);
        Self { findings: Findings::default(), pace, criteria, now, asleep, hogs, reads_clocks: true }
    }

    /// Decides whether the check reads the clocks of all sleepers. `last` is the time of the last check that read the
    /// clocks of all sleepers. Returns the new value of `last`.
    fn decide_on_clocks(&mut self, last: Time) -> Time {
        let due = last + (self.asleep as u32 * PER_SLEEPER).min(RECHECK);
        self.reads_clocks = due <= self.now;
        if self.reads_clocks {
            return self.now;
        }
        self.come_back(due);
        last
    }

    fn worker(&mut self, sighting: &mut Sighting, facts: &mut impl Facts) {
        match sighting.word.phase() {
            Phase::Running => self.running(sighting, facts),
            Phase::Asleep => self.asleep(sighting, facts),
            Phase::MayBlock => {
                let at = sighting.since + MAY_BLOCK;
                if at <= self.now { self.find(sighting, Finding::Blocks) } else { self.come_back(at) }
            }
            _ => {}
        }
    }

    fn running(&mut self, sighting: &mut Sighting, facts: &mut impl Facts) {
        let sleeps = if self.criteria.sleepers { facts.sleeps(sighting.worker) } else { Some(false) };
        let asks_clock = self.criteria.hogs.is_some() || sleeps.is_none();
        let cpu_time = if asks_clock { facts.cpu_time(sighting.worker) } else { None };
        let clock = cpu_time.map(|time| Clock::read(sighting.clock, time, self.now));
        let still_since = clock.filter(|_| sleeps.is_none()).map(|clock| clock.still_since);
        let sleeps = sleeps.unwrap_or(still_since.is_some_and(|since| self.now.since(since) >= STILL));
        if sleeps {
            // Once the thread runs again, its CPU time is counted from this reading on.
            sighting.clock = clock.map(Clock::rebased);
            return self.sleeper(sighting);
        }
        if let Some(since) = still_since {
            self.come_back(since + STILL);
        }
        let was_known = sighting.clock.is_some();
        sighting.clock = clock;
        if let (Some(threshold), true) = (self.criteria.hogs, was_known) {
            self.hog(sighting, threshold, facts);
        }
    }

    fn sleeper(&mut self, sighting: &Sighting) {
        let at = self.pace.next(Why::Asleep, self.asleep, self.criteria.cpus);
        if at > self.now {
            return self.come_back(at);
        }
        self.pace.took(Why::Asleep, self.now);
        self.asleep += 1;
        self.find(sighting, Finding::Asleep);
    }

    /// Checks whether a worker is a hog. The caller knows that the worker runs, and that an earlier check has read the
    /// worker's clock.
    fn hog(&mut self, sighting: &mut Sighting, threshold: Duration, facts: &mut impl Facts) {
        let Some(clock) = &mut sighting.clock else { return };
        let used = clock.last.saturating_sub(clock.base);
        if used < threshold {
            if clock.sleeps.is_none() {
                clock.sleeps = facts.sleeps_so_far(sighting.worker);
            }
            return self.come_back(self.now + (threshold - used));
        }
        let sleeps = facts.sleeps_so_far(sighting.worker);
        if sleeps.is_some() && sleeps != clock.sleeps {
            // Either the thread has slept between two checks, or no check has read the thread's number of sleeps since
            // `base` was set. The second case occurs if the threshold is short or this check is late. The thread may
            // have slept in this case, too. A thread that sleeps no more is found to be a hog once it has used the
            // threshold's CPU time again.
            (clock.base, clock.sleeps) = (clock.last, sleeps);
            return self.come_back(self.now + threshold);
        }
        let at = self.pace.next(Why::Hog, self.hogs, self.criteria.cpus);
        if at > self.now {
            return self.come_back(at);
        }
        self.pace.took(Why::Hog, self.now);
        self.hogs += 1;
        self.find(sighting, Finding::Hog);
    }

    fn asleep(&mut self, sighting: &mut Sighting, facts: &mut impl Facts) {
        if !self.reads_clocks && sighting.clock.is_some() {
            return;
        }
        let cpu_time = facts.cpu_time(sighting.worker);
        let before = sighting.clock.map(|clock| clock.last);
        if cpu_time.is_some() && cpu_time == before {
            return; // The thread has used no CPU time, so it still sleeps.
        }
        let clock = cpu_time.map(|time| Clock::read(sighting.clock, time, self.now));
        // A worker that is found asleep gets a new word, so its next sighting begins without a clock. The first reading
        // of the clock does not show whether the thread has run, because there is no earlier reading.
        let has_run = before.is_some();
        sighting.clock = clock;
        if !facts.sleeps(sighting.worker).unwrap_or(!has_run) {
            self.find(sighting, Finding::Runs);
        }
    }

    fn find(&mut self, sighting: &Sighting, finding: Finding) {
        let found = Found { worker: sighting.worker, seen: sighting.word, finding };
        self.findings.found.push(found);
    }

    fn come_back(&mut self, at: Time) {
        let next = self.findings.next;
        self.findings.next = Some(next.map_or(at, |next| next.min(at)));
    }
}

impl Clock {
    fn read(before: Option<Self>, time: Duration, now: Time) -> Self {
        match before {
            Some(clock) if clock.last == time => clock,
            Some(clock) if clock.last < time => Self { last: time, still_since: now, ..clock },
            // The earlier reading was taken from another thread, whose worker had the same number and the same word.
            _ => Self { base: time, sleeps: None, last: time, still_since: now },
        }
    }

    fn rebased(self) -> Self {
        Self { base: self.last, sleeps: None, ..self }
    }
}

#[cfg(test)]
mod tests;
