//! Detection, exactly: how soon a worker that sleeps, or keeps a CPU, is found, and how fast a pool may grow by such
//! findings.
//!
//! A worker of a watched pool is *overlooked* while detection is on and one of these holds without a break. In the
//! first two cases the pool has pending work as well.
//!
//! * Its word says that it runs, its thread sleeps, and one more sleeper may be taken out. Bound: [`LONGEST`]; where
//!   only CPU clocks are known, [`STILL`] + [`SHORTEST`] more.
//! * Its word says that it runs, its thread uses the CPU of a per-CPU pool, and one more hog may be taken out. Bound,
//!   in CPU time: [`LONGEST`], and [`SHORTEST`] + the greater one of [`LONGEST`] and the threshold. The sum counts
//!   twice if the worker has slept before in this stretch.
//! * Its word says that it may block. Bound: [`LONGEST`] + [`MAY_BLOCK`] + [`SHORTEST`].
//!
//! Where the system tells states, a worker that was found asleep and uses the CPU again counts again after [`LONGEST`]
//! at most.
//!
//! One more worker *may be taken out* if fewer are out for that reason than the pool keeps CPUs busy, or if the gap
//! since the last finding is over. The gap is computed here by a formula of its own.
//!
//! The times at which the manager makes a thread, or has lost its own CPU, are not counted.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::Machine;
use super::pool::{Pool, PoolId, ThreadId};
use super::scrutiny::Seen;
use super::threads::Known;
use crate::policy::suspect::{Found, MAY_BLOCK, STILL};
use crate::policy::time::Time;
use crate::policy::watch::{LONGEST, Look, SHORTEST};
use crate::policy::worker::{Finding, Phase, WorkerState};

/// The findings so far.
#[derive(Default, Debug)]
pub(super) struct Finds {
    /// How long the manager could not look.
    held_up: Duration,
    /// When a sleeper or a hog of this pool was found last.
    last: BTreeMap<(PoolId, Why), Time>,
    overlooked: BTreeMap<ThreadId, Overlooked>,
    /// The longest time for which a sleeper was overlooked.
    pub(super) longest: Duration,
    /// The most threads that a pool had.
    pub(super) most_workers: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Why {
    Asleep,
    Hog,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Sleeps,
    Burns,
    MayBlock,
    RunsAgain,
}

/// A worker that should be found.
#[derive(Clone, Copy, Debug)]
struct Overlooked {
    state: State,
    stretch: u64,
    slept: u64,
    since: Duration,
    cpu_time: Duration,
    held_up: Duration,
    /// Whether it had not slept in this stretch before this entry began.
    is_first: bool,
}

impl Machine {
    /// Called when nothing happens until `until`.
    ///
    /// spec: S1, S2, C2 (`may_block`)
    pub(super) fn check_detection(&mut self, until: Time) {
        let from = self.looking_time(self.now);
        if self.manager_busy {
            self.finds.held_up += until.since(self.now);
        }
        let to = self.looking_time(until);
        let most = self.pools.iter().map(|pool| pool.workers.len()).max();
        self.finds.most_workers = self.finds.most_workers.max(most.unwrap_or(0));
        let known = std::mem::take(&mut self.finds.overlooked);
        let mut overlooked = BTreeMap::new();
        for (id, pool) in self.pools.iter().enumerate().filter(|(_, pool)| pool.looked_at) {
            for thread in pool.workers.values().copied() {
                let Some(state) = self.should_be_found(pool, thread) else { continue };
                let (stretch, slept) = (self.worker(thread).stretch, self.threads[thread].slept);
                let before = known.get(&thread).filter(|known| known.state == state);
                let same = before.filter(|known| (known.stretch, known.slept) == (stretch, slept));
                let fresh = || Overlooked {
                    state,
                    stretch,
                    slept,
                    since: from,
                    cpu_time: self.cpu_time(thread),
                    held_up: self.finds.held_up,
                    is_first: before.is_none_or(|before| before.stretch != stretch),
                };
                let entry = same.copied().unwrap_or_else(fresh);
                let waited = self.check_overlooked(id, thread, &entry, from, to);
                if state == State::Sleeps {
                    self.finds.longest = self.finds.longest.max(waited);
                }
                overlooked.insert(thread, entry);
            }
        }
        self.finds.overlooked = overlooked;
    }

    fn should_be_found(&self, pool: &Pool, thread: ThreadId) -> Option<State> {
        let (rules, known) = (self.config.rules, self.config.known);
        let counts = pool.word.target().is_some();
        let sleeps = self.sleeps(thread);
        match self.worker(thread).state.phase() {
            Phase::Running if !pool.has_work() || !counts => None,
            Phase::Running if sleeps => (rules.sleepers && known != Known::Nothing).then_some(State::Sleeps),
            Phase::Running => {
                let looks = rules.hogs.is_some() && pool.is_per_cpu() && known != Known::Nothing;
                looks.then_some(State::Burns)
            }
            Phase::MayBlock => Some(State::MayBlock),
            Phase::Asleep if !sleeps => {
                let has_run = self.cpu_time(thread) > self.worker(thread).awake_from;
                (has_run && known == Known::States).then_some(State::RunsAgain)
            }
            _ => None,
        }
    }

    /// Checks the worker's bound. Returns for how long it has been overlooked, without the time in which the pace did
    /// not permit a finding; for a hog, the CPU time.
    fn check_overlooked(
        &self,
        pool: PoolId,
        thread: ThreadId,
        entry: &Overlooked,
        from: Duration,
        to: Duration,
    ) -> Duration {
        let permitted = |why| {
            let at = self.permitted_from(pool, why);
            if at > self.now { from + at.since(self.now) } else { from.saturating_sub(self.now.since(at)) }
        };
        let clocks = if self.config.known == Known::Clocks { STILL + SHORTEST } else { Duration::ZERO };
        let (since, bound) = match entry.state {
            State::Sleeps => (entry.since.max(permitted(Why::Asleep)), LONGEST + clocks),
            State::MayBlock => (entry.since, LONGEST + MAY_BLOCK + SHORTEST),
            State::RunsAgain => (entry.since, LONGEST),
            State::Burns => return self.check_burns(pool, thread, entry, permitted(Why::Hog), to),
        };
        let waited = to.saturating_sub(since);
        assert!(waited <= bound, "thread {thread} of pool {pool} is overlooked for {waited:?}: {entry:?}");
        waited
    }

    fn check_burns(
        &self,
        pool: PoolId,
        thread: ThreadId,
        entry: &Overlooked,
        permitted: Duration,
        to: Duration,
    ) -> Duration {
        let threshold = self.config.rules.hogs.unwrap_or(Duration::MAX);
        let once = threshold.saturating_add(SHORTEST).max(LONGEST + SHORTEST);
        let burns = if entry.is_first { once } else { 2 * once };
        let used = self.cpu_time(thread) - entry.cpu_time;
        let paced = to.saturating_sub(permitted) <= LONGEST;
        // It may have burned for all of the time in which the manager could not look.
        let unseen = self.finds.held_up - entry.held_up;
        let bound = LONGEST.saturating_add(burns).saturating_add(unseen);
        assert!(used <= bound || paced, "thread {thread} of pool {pool} burns {used:?} unseen: {entry:?}");
        used
    }

    /// Returns the time since the beginning of the run, without the times at which the manager could not look.
    fn looking_time(&self, at: Time) -> Duration {
        at.since(Time::default()) - self.finds.held_up
    }

    /// Returns from when on one more worker of a pool may be found.
    fn permitted_from(&self, pool: PoolId, why: Why) -> Time {
        let of_pool = &self.pools[pool];
        let out = |thread: &&ThreadId| is_out(self.worker(**thread).state, why);
        let out = of_pool.workers.values().filter(out).count();
        self.paced(pool, why, out)
    }

    /// Returns from when on one more worker of a pool may be found, if `out` are out already.
    fn paced(&self, pool: PoolId, why: Why, out: usize) -> Time {
        let cpus = self.pools[pool].word.target().map_or(usize::MAX, |target| target as usize);
        let last = self.finds.last.get(&(pool, why));
        match last {
            Some(last) if out >= cpus => *last + gap(why, out - cpus),
            _ => Time::default(),
        }
    }

    /// Checks the findings of policy against the facts and the pace.
    ///
    /// spec: S1 (a sleeper sleeps), S2 (a hog has used the CPU), S5 (paced)
    pub(super) fn check_finds(&mut self, pool: PoolId, look: &Look, found: &[Found], seen: &Seen) {
        for why in [Why::Asleep, Why::Hog] {
            let words = look.workers.iter();
            let mut out = words.filter(|(_, word)| is_out(*word, why)).count();
            for found in found {
                match (found.finding, why) {
                    (Finding::Asleep, Why::Asleep) => self.check_sleeper(seen[&found.worker].thread),
                    (Finding::Hog, Why::Hog) => self.check_hog(pool, seen[&found.worker].thread),
                    _ => continue,
                }
                let permitted = self.paced(pool, why, out);
                assert!(permitted <= self.now, "pool {pool} grows too fast: {found:?}, {out} are out");
                self.finds.last.insert((pool, why), self.now);
                out += 1;
            }
        }
    }

    fn check_sleeper(&self, thread: ThreadId) {
        assert!(self.config.rules.sleepers, "a sleeper was found though detection of sleepers is off");
        if self.config.known == Known::States {
            assert!(self.sleeps(thread), "thread {thread} does not sleep");
        }
    }

    fn check_hog(&self, pool: PoolId, thread: ThreadId) {
        let threshold = self.config.rules.hogs.expect("detection of hogs is on");
        assert!(self.pools[pool].is_per_cpu(), "a hog was found in a pool of several CPUs");
        let used = self.cpu_time(thread) - self.worker(thread).awake_from;
        // A sleep between the first two looks of a stretch is not seen.
        let exact = self.config.known == Known::States && !self.config.racy;
        assert!(!exact || used + LONGEST >= threshold, "thread {thread} is no hog after {used:?}");
    }
}

/// Returns the gap before the next finding, if `beyond` more workers are out than the pool has CPUs to keep busy.
fn gap(why: Why, beyond: usize) -> Duration {
    let (first, growth, longest) = match why {
        Why::Asleep => (200e-6, 1.25_f64, 10.0),
        Why::Hog => (10e-3, 1.5, 60.0),
    };
    let seconds = f64::min(longest, first * growth.powi(i32::try_from(beyond).unwrap_or(i32::MAX)));
    Duration::from_secs_f64(seconds).saturating_sub(Duration::from_micros(1))
}

/// Returns whether a worker with this word is out of the count for that reason.
fn is_out(word: WorkerState, why: Why) -> bool {
    word.phase()
        == match why {
            Why::Asleep => Phase::Asleep,
            Why::Hog => Phase::Hog,
        }
}
