//! Which workers of a watched pool do not use the CPU that they count for, or use it for too long. Remembers what
//! was seen of the workers from look to look.
//!
//! A worker that counts as running keeps others from starting. If it sleeps without a guard, they wait for
//! nothing. So it is taken out of the count, and put back when it is seen to run again. A worker that runs on
//! without a pause keeps the CPU of its pool for itself. It is taken out too, for the rest of its item. Preemption
//! is no sleep.
//!
//! Facts about threads cost system calls, so a look asks [`Facts`] only for those that make a difference. A finding
//! is about a *word* that was read before the facts. It is carried out only if the word is still the same.
//!
//! Known limits. Each look reads the clock of each worker that was found asleep, by one system call. A worker that
//! sleeps briefly again and again is found and put back again and again; the pace bounds how many are out at once.
//! A worker that was found asleep may run again after its pool's watch has ended. It is put back when the pool is
//! next watched, or at the end of its item. Until then the pool may run one worker more.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::idle_set::WorkerId;
use super::pace::{Pace, Why};
use super::time::Time;
use super::worker::{Finding, Phase, WorkerState};

/// A worker that says that it may block is taken to block after this time.
pub(crate) const MAY_BLOCK: Duration = Duration::from_millis(1);

/// Where the system does not tell whether a thread sleeps, a thread that has used no CPU time for this long does.
pub(crate) const STILL: Duration = Duration::from_millis(3);

/// The facts that the system tells about the thread of a worker; `None` if it does not tell.
pub(crate) trait Facts {
    /// Returns whether the thread sleeps. Waiting for a CPU is no sleep.
    fn sleeps(&mut self, worker: WorkerId) -> Option<bool>;
    /// Returns how much CPU time the thread has used.
    fn cpu_time(&mut self, worker: WorkerId) -> Option<Duration>;
    /// Returns how often the thread has slept.
    fn sleeps_so_far(&mut self, worker: WorkerId) -> Option<u64>;
}

/// What a look searches for in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Criteria {
    /// Workers that sleep without a guard.
    pub(crate) sleepers: bool,
    /// Workers that use this much CPU time without a break.
    pub(crate) hogs: Option<Duration>,
    /// How many CPUs the pool keeps busy.
    pub(crate) cpus: usize,
}

/// A finding about a worker, to be carried out if its word is still `seen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) worker: WorkerId,
    pub(crate) seen: WorkerState,
    pub(crate) finding: Finding,
}

/// The result of a look at the workers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) found: Vec<Found>,
    /// The pool's pace after the look.
    pub(crate) pace: Pace,
    /// When the next finding is possible, if that is before the period ends.
    pub(crate) next: Option<Time>,
    /// Whether a worker has begun an item since the last look, has come, or has gone.
    pub(crate) progress: bool,
}

/// The workers of a pool as of the last look, by number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    sightings: Vec<Sighting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sighting {
    worker: WorkerId,
    word: WorkerState,
    /// Since when the worker has had this word.
    since: Time,
    /// Since when the worker has had the same item, or none.
    began: Time,
    /// The clock of the present stretch, running or asleep.
    clock: Option<Clock>,
}

/// The CPU time of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    /// The time at the first look in this stretch, or when the thread was last known to have slept.
    base: Duration,
    /// How often it had slept by then, from the second look on.
    sleeps: Option<u64>,
    /// The time at the last look.
    last: Duration,
    /// Since when the time is the same.
    still_since: Time,
}

impl Suspects {
    /// Looks at the workers of a pool and their words. `workers` is sorted by number. `pace` is the pool's, from
    /// earlier watches too.
    pub(crate) fn look(
        &mut self,
        workers: &[(WorkerId, WorkerState)],
        (criteria, pace): (Criteria, Pace),
        facts: &mut impl Facts,
        now: Time,
    ) -> Findings {
        let known = std::mem::take(&mut self.sightings);
        let mut look = Look::new(pace, workers, criteria, now);
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

    /// Returns since when, at the latest, each worker has been at its present item, or idle.
    pub(crate) fn began(&self) -> Vec<(WorkerId, Time)> {
        self.sightings.iter().map(|known| (known.worker, known.began)).collect()
    }
}

/// One look.
struct Look {
    findings: Findings,
    pace: Pace,
    criteria: Criteria,
    now: Time,
    /// How many workers are out because they sleep.
    asleep: usize,
    /// How many workers are out because they are hogs.
    hogs: usize,
}

impl Look {
    fn new(pace: Pace, workers: &[(WorkerId, WorkerState)], criteria: Criteria, now: Time) -> Self {
        let out = |phase| workers.iter().filter(|(_, word)| word.phase() == phase).count();
        let (asleep, hogs) = (out(Phase::Asleep), out(Phase::Hog));
        Self { findings: Findings::default(), pace, criteria, now, asleep, hogs }
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
            // The thread's CPU time is counted anew once it runs.
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

    /// Looks for a hog: a worker that runs, and whose clock was read before.
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
        if sleeps.zip(clock.sleeps).is_some_and(|(now, before)| now != before) {
            // The thread has slept between two looks.
            (clock.base, clock.sleeps) = (clock.last, sleeps);
            return;
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
        let cpu_time = facts.cpu_time(sighting.worker);
        let before = sighting.clock.map(|clock| clock.last);
        if cpu_time.is_some() && cpu_time == before {
            return; // It has used no CPU time, so it still sleeps.
        }
        let clock = cpu_time.map(|time| Clock::read(sighting.clock, time, self.now));
        // A worker that is found asleep gets another word than in its last stretch. So this is the first reading of
        // its clock.
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
            // The earlier reading was of another thread, whose worker had the same number and the same word.
            _ => Self { base: time, sleeps: None, last: time, still_since: now },
        }
    }

    fn rebased(self) -> Self {
        Self { base: self.last, sleeps: None, ..self }
    }
}

#[cfg(test)]
mod tests;
