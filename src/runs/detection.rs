//! Exact checks of detection: how soon a worker that sleeps or keeps a CPU is found, and how fast a pool may grow
//! because of such findings.
//!
//! A worker of a watched pool is *overlooked* while one of the following holds without a break. In the first two cases,
//! the pool also has pending work.
//!
//! * The worker's word says that the worker runs, but its thread sleeps, and one more sleeper may be taken out. Bound:
//!   [`LONGEST`].
//! * The worker's word says that the worker runs, its thread uses the CPU of a per-CPU pool, and one more hog may be
//!   taken out. Bound, in CPU time: [`LONGEST`] + 2 × ([`SHORTEST`] + the greater of [`LONGEST`] and the threshold).
//!   The factor is 2 because the count of CPU time restarts after a sleep, such as a sleep for a lock. If the threshold
//!   is short, the count also restarts when the number of sleeps is first read.
//! * The worker's word says that the worker may block. Bound: [`LONGEST`] + [`MAY_BLOCK`] + [`SHORTEST`].
//! * The worker was found asleep, and uses the CPU again. Bound: [`LONGEST`].
//!
//! One more worker *may be taken out* of the count of running workers if one of two conditions holds. First, the number
//! of workers that are out of the count for this reason is below the number of CPUs that the pool keeps busy. Second,
//! the gap since the last finding is over. Each sleeper that has come back may permit one more finding of a sleeper
//! before the gap is over. The numbers are those that the documentation promises. This file computes the gap with its
//! own formula, not with that of policy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::seeds::runs;
use super::setup::{executor, micros, ms};
use crate::engine::pool::spec::PoolKind;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::shared::Worker;
use crate::policy::detection::Detection;
use crate::policy::time::Time;
use crate::policy::worker::{Phase, WorkerState};
use crate::sys::affinity::ThreadId;
use crate::sys::machine::{self, Config, Moment, Tid, burn, pause, run, stand_on};
use crate::sys::sync::{AtomicU64, Ordering::Relaxed};
use crate::{AffinityScope, Attrs, Executor, WorkQueue, blocking, may_block};

const RUNS: u64 = 150;

/// The longest and the shortest time between two checks of a pool.
const LONGEST: Duration = Duration::from_millis(3);
const SHORTEST: Duration = Duration::from_micros(250);

/// The time after which a worker in a `may_block` guard no longer counts as running.
const MAY_BLOCK: Duration = Duration::from_millis(1);

/// The reason why a worker is out of the count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Why {
    Asleep,
    Hog,
}

/// The reason why the detector should find a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Sleeps,
    Burns,
    MayBlock,
    RunsAgain,
}

/// A worker that the detector should find.
#[derive(Clone, Copy, Debug)]
struct Overlooked {
    case: Case,
    /// The worker's word, and the number of times that its thread had slept.
    word: WorkerState,
    slept: u64,
    since: Time,
    cpu_time: Duration,
    /// Whether this test has seen that the thread's CPU time differs from `cpu_time`.
    has_run: bool,
}

/// The workers that the detector has found, and those that it has overlooked so far.
struct Detective {
    detection: Detection,
    hogs: Option<Duration>,
    /// The time of the last look at the pools.
    looked: Time,
    /// For each pool and reason, the earliest time at which the last finding may have been made.
    last: HashMap<(String, Why), Time>,
    /// For each pool, the time until which the pace last permitted no finding of a further hog.
    paced: HashMap<String, Time>,
    /// For each pool, the number of sleepers that have come back into the count.
    returns: HashMap<String, usize>,
    /// What this test last saw of each thread: the thread's state word, whether the thread slept, and how many times
    /// the thread had slept.
    before: HashMap<Tid, (WorkerState, bool, u64)>,
    overlooked: HashMap<Tid, Overlooked>,
    found: Arc<Found>,
}

/// The numbers of workers that were found asleep or as hogs in all runs.
#[derive(Default, Debug)]
struct Found {
    asleep: AtomicU64,
    hogs: AtomicU64,
}

/// The facts about a worker at one moment.
struct Sight {
    thread: Tid,
    word: WorkerState,
    sleeps: bool,
    slept: u64,
    cpu_time: Duration,
}

fn sights(moment: &Moment<'_>, pool: &Pool) -> Vec<Sight> {
    let (_, workers) = pool.counts();
    let thread = |worker: &Worker| worker.with_thread(ThreadId::made_up).flatten();
    let sight = |(worker, word): (Arc<Worker>, WorkerState)| {
        let thread = thread(&worker)?;
        let (slept, cpu_time) = moment.used(thread);
        Some(Sight { thread, word, sleeps: moment.sleeps(thread), slept, cpu_time })
    };
    workers.into_iter().filter_map(sight).collect()
}

fn is_out(phase: Phase, why: Why) -> bool {
    phase
        == match why {
            Why::Asleep => Phase::Asleep,
            Why::Hog => Phase::Hog,
        }
}

/// Returns the gap between the last finding and the next one. `beyond` is the number by which the workers that are out
/// of the count exceed the permitted number.
fn gap(why: Why, beyond: usize) -> Duration {
    let (first, growth, longest) = match why {
        Why::Asleep => (200e-6, 1.25_f64, 10.0),
        Why::Hog => (10e-3, 1.5, 60.0),
    };
    let seconds = f64::min(longest, first * growth.powi(i32::try_from(beyond).unwrap_or(i32::MAX)));
    Duration::from_secs_f64(seconds).saturating_sub(Duration::from_micros(1))
}

impl Detective {
    /// spec: S1, S2, C2 (`may_block`)
    fn look(&mut self, moment: &Moment<'_>, pools: &[Arc<Pool>]) {
        self.look_at_pools(moment, pools);
        self.looked = moment.now;
    }

    fn look_at_pools(&mut self, moment: &Moment<'_>, pools: &[Arc<Pool>]) {
        for pool in pools.iter().filter(|pool| pool.spec.manages_concurrency()) {
            let sights = sights(moment, pool);
            let came_back = |sight: &&Sight| {
                let before = self.before.get(&sight.thread);
                before.is_some_and(|(word, ..)| word.phase() == Phase::Asleep && *word != sight.word)
            };
            let returns = sights.iter().filter(came_back).count();
            *self.returns.entry(pool.spec.kind.name()).or_default() += returns;
            for why in [Why::Asleep, Why::Hog] {
                self.check_finds(moment, pool, &sights, why);
            }
            for sight in &sights {
                let seen = (sight.word, sight.sleeps, sight.slept);
                self.before.insert(sight.thread, seen);
            }
            let out = sights.iter().filter(|sight| is_out(sight.word.phase(), Why::Hog)).count();
            if self.permitted_from(pool, Why::Hog, out, 0) > moment.now {
                self.paced.insert(pool.spec.kind.name(), moment.until);
            }
            let is_watched = pool.running.load().is_watched();
            for sight in &sights {
                let case = self.case(pool, sight).filter(|_| is_watched);
                let before = self.overlooked.remove(&sight.thread);
                if let Some(case) = case {
                    self.check_overlooked(moment, pool, &sights, sight, case, before);
                }
            }
        }
    }

    /// Checks the findings since the last moment against the facts and the pace.
    ///
    /// spec: S1 (a sleeper sleeps), S5 (paced)
    fn check_finds(&mut self, moment: &Moment<'_>, pool: &Pool, sights: &[Sight], why: Why) {
        let name = pool.spec.kind.name();
        // If the worker's word is the same, the worker has been out of the count since the last moment.
        let was_out =
            |sight: &&Sight| self.before.get(&sight.thread).is_some_and(|(word, ..)| *word == sight.word);
        let (old, new): (Vec<_>, Vec<_>) =
            sights.iter().filter(|sight| is_out(sight.word.phase(), why)).partition(was_out);
        for (out, sight) in (old.len()..).zip(new) {
            // The worker may have slept for a lock since the last moment, or since it was made.
            let before = self.before.get(&sight.thread);
            let (slept_then, times) = before.map_or((false, 0), |(_, sleeps, times)| (*sleeps, *times));
            let slept = slept_then || times < sight.slept;
            let is_right = why == Why::Hog || sight.sleeps || slept;
            assert!(is_right, "thread {} of pool {name} does not sleep: {moment:?}", sight.thread);
            // The finding was made after the last look at the pools. The test does not look while a thread is in the
            // middle of a step. So one look may see several findings that were made at different times.
            let returns = if why == Why::Asleep { self.returns[&name] } else { 0 };
            let earliest = self.permitted_from(pool, why, out, returns).max(self.looked);
            assert!(earliest <= moment.now, "pool {name} grows too fast, {out} are out: {moment:?}");
            self.last.insert((name.clone(), why), earliest);
            let count = if why == Why::Asleep { &self.found.asleep } else { &self.found.hogs };
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the time from which one more worker may be found, if `out` workers are out of the count. `returns` is
    /// the number of sleepers that have come back. Each such sleeper permits one finding before the gap is over.
    fn permitted_from(&self, pool: &Pool, why: Why, out: usize, returns: usize) -> Time {
        let cpus = pool.running.load().target().map_or(usize::MAX, |target| target as usize);
        let spared = cpus.saturating_add(returns);
        let last = self.last.get(&(pool.spec.kind.name(), why));
        last.filter(|_| out >= spared).map_or(Time::default(), |last| *last + gap(why, out - spared))
    }

    fn case(&self, pool: &Pool, sight: &Sight) -> Option<Case> {
        let looks = self.detection == Detection::Sampling;
        let is_per_cpu = matches!(pool.spec.kind, PoolKind::PerCpu { .. });
        match sight.word.phase() {
            Phase::Running if pool.pending() == 0 => None,
            Phase::Running if sight.sleeps => looks.then_some(Case::Sleeps),
            Phase::Running => (looks && self.hogs.is_some() && is_per_cpu).then_some(Case::Burns),
            Phase::MayBlock => Some(Case::MayBlock),
            Phase::Asleep if !sight.sleeps => Some(Case::RunsAgain),
            _ => None,
        }
    }

    fn check_overlooked(
        &mut self,
        moment: &Moment<'_>,
        pool: &Pool,
        sights: &[Sight],
        sight: &Sight,
        case: Case,
        before: Option<Overlooked>,
    ) {
        let same = before.filter(|old| (old.case, old.word, old.slept) == (case, sight.word, sight.slept));
        let mut entry = same.unwrap_or(Overlooked {
            case,
            word: sight.word,
            slept: sight.slept,
            since: moment.now,
            cpu_time: sight.cpu_time,
            has_run: false,
        });
        let permitted = |why| {
            let out = sights.iter().filter(|sight| is_out(sight.word.phase(), why)).count();
            self.permitted_from(pool, why, out, 0)
        };
        let (since, bound) = match case {
            Case::Sleeps => (entry.since.max(permitted(Why::Asleep)), LONGEST),
            Case::MayBlock => (entry.since, LONGEST + MAY_BLOCK + SHORTEST),
            Case::RunsAgain => {
                // The bound is counted from the first moment at which this test sees that the thread has used a CPU.
                // The thread may have got the CPU just before, because the test does not look in the middle of a step.
                if !entry.has_run {
                    entry.has_run = sight.cpu_time != entry.cpu_time;
                    entry.since = if entry.has_run { moment.now } else { moment.until };
                }
                (entry.since, LONGEST)
            }
            Case::Burns => {
                let once = self.hogs.unwrap_or(Duration::MAX).max(LONGEST) + SHORTEST;
                let bound = LONGEST + 2 * once;
                // The pace also permits the finding of a further hog when another hog ends. The next check may come up
                // to [`LONGEST`] later.
                let paced = self.paced.get(&pool.spec.kind.name()).copied().unwrap_or_default();
                let is_paced = moment.until.since(permitted(Why::Hog).max(paced)) <= LONGEST;
                let used = sight.cpu_time - entry.cpu_time;
                assert!(used <= bound || is_paced, "{used:?} of CPU time, unseen: {entry:?} {moment:?}");
                (moment.until, bound)
            }
        };
        let waited = moment.until.since(since);
        assert!(waited <= bound, "overlooked for {waited:?}: {entry:?} {moment:?}");
        self.overlooked.insert(sight.thread, entry);
    }
}

/// A step of an item.
#[derive(Clone, Copy, Debug)]
enum Step {
    Burn(Duration),
    Nap(Duration),
    Block(Duration),
    MayBlock(Duration),
}

fn perform(step: Step) {
    match step {
        Step::Burn(time) => burn(time),
        Step::Nap(time) => pause(time),
        Step::Block(time) => blocking(|| pause(time)),
        Step::MayBlock(time) => may_block(|| pause(time)),
    }
}

fn draw(random: &mut Rng) -> Step {
    let time = micros([10, 300, 1000, 4000, 12_000, 40_000][random.usize(..6)]);
    match random.usize(..10) {
        0..=3 => Step::Burn(time),
        4..=6 => Step::Nap(time),
        7 => Step::Block(time),
        _ => Step::MayBlock(time.min(ms(4))),
    }
}

fn watch(executor: &Executor, mut detective: Detective) {
    let upkeep = Arc::downgrade(&executor.inner.upkeep);
    machine::check(Box::new(move |moment| {
        if !moment.is_in_a_step() {
            detective.look(moment, &upkeep.upgrade().map_or(Vec::new(), |upkeep| upkeep.pools.all()));
        }
    }));
}

fn simulate(seed: u64, found: &Arc<Found>) {
    let random = &mut Rng::with_seed(seed);
    let cpus = random.usize(1..=4);
    let config = Config {
        switches: [0, 0, 50][random.usize(..3)],
        slice: micros([100, 700, 3000][random.usize(..3)]),
        latency: micros([0, 50][random.usize(..2)]),
        prompt: &["/manager"],
        ..Config::new(cpus)
    };
    let detection = if random.usize(..5) == 0 { Detection::Off } else { Detection::Sampling };
    let hogs = [None, Some(ms(1)), Some(ms(4)), Some(ms(10))][random.usize(..4)];
    run(config.seed(seed), || {
        let executor = executor(&format!("l3:1 core:{cpus} pu:1"), |builder| {
            builder.detection(detection).hog_threshold(hogs)
        });
        let (last, paced, returns) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (before, overlooked) = (HashMap::new(), HashMap::new());
        watch(
            &executor,
            Detective {
                detection,
                hogs,
                looked: Time::default(),
                last,
                paced,
                returns,
                before,
                overlooked,
                found: Arc::clone(found),
            },
        );
        let system = Attrs::new().scope(AffinityScope::System);
        let queues = [WorkQueue::per_cpu("per CPU"), WorkQueue::builder("managed").attrs(system)];
        let queues = queues.map(|queue| queue.build_on(&executor).unwrap());
        for _ in 0..random.usize(1..=60) {
            let steps: Vec<_> = (0..random.usize(1..=3)).map(|_| draw(random)).collect();
            stand_on(random.usize(..cpus));
            let queue = &queues[random.usize(..2)];
            assert!(queue.spawn_detached(move || steps.into_iter().for_each(perform)).is_ok());
            if random.usize(..8) == 0 {
                pause(micros([100, 3000, 20_000][random.usize(..3)]));
            }
        }
        queues.iter().for_each(|queue| queue.flush().unwrap());
        drop(queues);
        executor.shutdown(Duration::MAX).unwrap();
    });
}

/// spec: S1.8, S2.4, S5.3 (in virtual time, in any interleaving)
#[test]
fn sleepers_and_hogs_are_found_in_time_and_at_a_measured_pace() {
    let found = Arc::new(Found::default());
    let all = runs(RUNS, |seed, _| simulate(seed, &found));
    let [asleep, hogs] = [&found.asleep, &found.hogs].map(|count| count.load(Relaxed));
    assert!(!all || asleep > 100 && hogs > 100, "{found:?}");
}
