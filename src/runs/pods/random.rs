//! Random loads on machines of several caches, whose pods take each other's items.
//!
//! As for all runs, `CMWQ_SIM_RUNS` sets the number of runs, and `CMWQ_SIM_SEED=n` repeats one of them.
//!
//! Red under: `parks-without-a-look`.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::{Caches, DOCUMENTED, Setup};
use crate::runs::seeds::runs;
use crate::runs::setup::micros;
use crate::sys::machine::{Config, burn, pause, run, stand_on, take_cpu};
use crate::sys::thread;
use crate::sys::wait::Until;
use crate::{AffinityScope, WorkQueue, blocking};

/// The number of loads that are run, unless `CMWQ_SIM_RUNS` sets another number.
const RUNS: u64 = 250;

/// A step of an item.
#[derive(Clone, Copy, Debug)]
enum Step {
    Burn(Duration),
    /// Sleeps under a guard.
    Block(Duration),
    /// Sleeps without a guard.
    Nap(Duration),
    /// Queues the item with this number, from the present item's CPU.
    Queue(usize),
}

/// An act of the director, which is the thread that plays the load.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Queues the item with the first number, from the CPU with the second number.
    Queue(usize, usize),
    /// Queues the item with the first number, bound to the CPU with the second number.
    QueueBound(usize, usize),
    /// From this CPU, queues an item of another class that takes the given time.
    QueueOther(usize, Duration),
    /// Lets an issuer queue the item with the first number on the CPU with the second number. Then the issuer uses the
    /// CPU for the given time.
    QueueAndBurn(usize, usize, Duration),
    /// From this CPU, queues this many items, each of which takes the given time.
    QueueShort(usize, usize, Duration),
    /// Lets another process take this CPU for the given time.
    TakeCpu(usize, Duration),
}

#[derive(Debug)]
struct Load {
    caches: Caches,
    config: Config,
    items: Arc<Vec<Vec<Step>>>,
    /// The acts, in the order of their times.
    acts: Vec<(Duration, Act)>,
}

/// The numbers of items that began in their own pod and in another pod, and the longest wait while a pod had room.
#[derive(Default, Debug)]
struct Seen {
    home: usize,
    away: usize,
    longest: Duration,
}

fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

fn percent(random: &mut Rng, chance: u32) -> bool {
    random.u32(..100) < chance
}

/// Returns a random duration. Only five durations are possible, so several events happen at the same time. Such ties
/// make a run interesting.
fn duration(random: &mut Rng, longest: Duration) -> Duration {
    longest * random.u32(..=4) / 4
}

impl Load {
    fn new(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        let caches = match percent(random, 25) {
            true => DOCUMENTED,
            false => Caches {
                caches: random.usize(2..=4),
                cores: random.usize(1..=2),
                threads: random.usize(1..=2),
            },
        };
        let latency = if percent(random, 30) { 0 } else { pick(random, &[0, 20, 100]) };
        let config = Config {
            switches: pick(random, &[0, 0, 20, 200]),
            slice: micros(pick(random, &[100, 700, 3000])),
            latency: micros(latency),
            prompt: &["/manager"],
            ..Config::new(caches.cpus()).seed(seed)
        };
        let count = random.usize(1..=60);
        let longest = micros(pick(random, &[0, 100, 1000, 4000]));
        let mut chained = vec![false; count];
        let items = (0..count).map(|item| script(random, item, longest, &mut chained)).collect();
        let mut acts = acts(random, caches, &chained);
        acts.sort_by_key(|(at, _)| *at);
        Self { caches, config, items: Arc::new(items), acts }
    }

    fn run(&self) -> Seen {
        run(self.config.clone(), || {
            let setup = Setup::new(self.caches, AffinityScope::Cache, &self.config);
            let other = WorkQueue::builder("other").high_priority(true).build_on(&setup.executor).unwrap();
            let mut issuers = Vec::new();
            for (at, act) in &self.acts {
                setup.at(*at);
                let item = |item| body(&setup, &self.items, item);
                match *act {
                    Act::Queue(number, cpu) => {
                        stand_on(cpu);
                        setup.queue_here(setup.pod_of(cpu), item(number));
                    }
                    Act::QueueBound(number, cpu) => drop(setup.queue_bound_to(cpu, item(number))),
                    Act::QueueOther(cpu, time) => {
                        stand_on(cpu);
                        assert!(other.spawn_detached(move || burn(time)).is_ok());
                    }
                    Act::QueueAndBurn(number, cpu, time) => {
                        let item = item(number);
                        issuers.push(setup.on_cpu(cpu, move |setup| {
                            setup.queue_here(setup.pod_of(cpu), item);
                            burn(time);
                        }));
                    }
                    Act::QueueShort(cpu, count, time) => {
                        setup.queue(setup.pod_of(cpu), count, move || burn(time));
                    }
                    Act::TakeCpu(cpu, time) => take_cpu(cpu, time),
                }
            }
            issuers.into_iter().for_each(|issuer| thread::join(issuer, Until::FOREVER).unwrap());
            setup.end();
            let seen = Seen { home: setup.home(), away: setup.away(), longest: setup.longest_wait() };
            drop(other);
            setup.executor.shutdown(Duration::MAX).unwrap();
            seen
        })
    }
}

/// Draws the steps of an item. Items queue only later items, and each later item is queued at most once. So every
/// chain ends.
fn script(random: &mut Rng, item: usize, longest: Duration, chained: &mut [bool]) -> Vec<Step> {
    let mut script = Vec::new();
    for _ in 0..random.usize(0..=3) {
        let step = match random.usize(..10) {
            0..=5 => Step::Burn(duration(random, longest)),
            6 => Step::Block(duration(random, 2 * longest)),
            7 => Step::Nap(duration(random, 2 * longest)),
            _ => match (item + 1..chained.len()).find(|later| !chained[*later]) {
                Some(later) => {
                    chained[later] = true;
                    Step::Queue(later)
                }
                None => continue,
            },
        };
        script.push(step);
    }
    script
}

fn acts(random: &mut Rng, caches: Caches, chained: &[bool]) -> Vec<(Duration, Act)> {
    let cpus = caches.cpus();
    let length = micros(pick(random, &[200, 2000, 20_000]));
    let moments: Vec<_> = (0..random.usize(1..=6)).map(|_| duration(random, length)).collect();
    let mut acts = Vec::new();
    // Most items go to one pod.
    let favourite = random.usize(..cpus);
    let mut at = pick(random, &moments);
    for item in (0..chained.len()).filter(|item| !chained[*item]) {
        let cpu = if percent(random, 60) { favourite } else { random.usize(..cpus) };
        if percent(random, 30) {
            at = pick(random, &moments);
        }
        let act = match random.u32(..100) {
            0..20 => Act::QueueAndBurn(item, cpu, duration(random, micros(2000))),
            20..28 => Act::QueueBound(item, cpu),
            _ => Act::Queue(item, cpu),
        };
        acts.push((at, act));
        if percent(random, 10) {
            acts.push((at, Act::QueueOther(cpu, duration(random, micros(2000)))));
        }
    }
    if percent(random, 40) {
        // Short items make a pod brisk, so that it leaves items to its running workers. The load's other items, and
        // items that are not quite so short, come behind these short items.
        for _ in 0..random.usize(1..=4) {
            let (time, most) = pick(random, &[(0, 800), (1, 800), (3, 800), (6, 500), (60, 100), (250, 50)]);
            let count = random.usize(20..=most);
            acts.push((pick(random, &moments), Act::QueueShort(favourite, count, micros(time))));
        }
    }
    let longest = micros(pick(random, &[100, 1000, 10_000]));
    for _ in 0..pick(random, &[0, 0, 1, cpus / 2, cpus]) {
        let at = duration(random, micros(2000));
        acts.push((at, Act::TakeCpu(random.usize(..cpus), longest * random.u32(1..=4) / 4)));
    }
    acts
}

fn body(setup: &Setup, items: &Arc<Vec<Vec<Step>>>, item: usize) -> Box<dyn FnOnce() + Send> {
    let (setup, items) = (setup.clone(), Arc::clone(items));
    Box::new(move || {
        for step in &items[item] {
            match *step {
                Step::Burn(time) => burn(time),
                Step::Block(time) => blocking(|| pause(time)),
                Step::Nap(time) => pause(time),
                Step::Queue(later) => drop(setup.queue_here(setup.own_pod(), body(&setup, &items, later))),
            }
        }
    })
}

/// spec: A3.5, A3.8 (no CPU idles while items of its class wait elsewhere; an item leaves a pod only if the pod cannot
/// run it)
#[test]
fn work_is_conserved_in_random_runs() {
    let mut seen = Seen::default();
    let all = runs(RUNS, |seed, trace| {
        let load = Load::new(seed);
        if trace {
            eprintln!("{load:#?}");
        }
        let one = load.run();
        seen.home += one.home;
        seen.away += one.away;
        seen.longest = seen.longest.max(one.longest);
    });
    // Over all runs, rare events must also happen.
    assert!(!all || seen.home > 500 && seen.away > 100 && seen.longest > micros(200), "{seen:?}");
}
