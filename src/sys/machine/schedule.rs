//! The schedule of a machine: it decides which thread takes the next step, and when time passes.
//!
//! A thread that has a CPU *runs*: its steps cost no time. A thread *burns* while it uses its CPU for some time. If no
//! thread runs, the time moves on to the next timer. So everything that can be done at an instant is done at that
//! instant.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;

use super::faults::Faults;
use super::plan::Plan;
use super::rests::Rests;
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;

/// The number of a thread of the machine. The main thread is 0.
pub(crate) type Tid = usize;

/// After this number of steps without any time passing, the machine assumes that a thread waits in a loop for another
/// thread.
const ENDLESS: u64 = 10_000_000;

/// A run counts as restless if time passes more than this many times without a step of the main thread.
const RESTLESS: u64 = 1_000_000;

/// The behaviour of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) cpus: usize,
    /// The seed of the order of steps. Without a seed, each thread runs until it waits. The next thread is one that
    /// needs no CPU or, if no such thread can run, the thread on the lowest CPU.
    pub(crate) seed: Option<u64>,
    /// With a seed and [`Order::Random`], the machine chooses the next thread anew at this many of a thousand points.
    pub(crate) switches: u32,
    /// The time for which a thread uses its CPU before it gives this CPU to a thread that waits for it.
    pub(crate) slice: Duration,
    /// The longest time from the wake-up of a thread until the thread is ready. Without a seed, this time is zero.
    pub(crate) latency: Duration,
    /// A thread whose name ends in one of these texts is ready as soon as it is woken.
    pub(crate) prompt: &'static [&'static str],
    /// Threads whose names end in one of these texts need no CPU. The main thread needs no CPU either.
    pub(crate) apart: &'static [&'static str],
    /// Whether each access to an atomic or a lock is a point. If this is false, only the [steps](super::step) are
    /// points.
    pub(crate) fine: bool,
    /// If there is a seed, the rule by which the machine chooses the thread that takes the next step.
    pub(crate) order: Order,
    /// The costs of communication between CPUs. Without costs, all accesses to memory take no time. With costs, the
    /// same seed need not give the same run, because the cache lines are those of real addresses.
    #[cfg(test)]
    pub(crate) costs: Option<super::lines::Costs>,
    /// A run counts as endless after this number of steps during which no time passes.
    pub(crate) endless: u64,
    /// If time passes this many times without a step of the main thread, a run counts as restless: it never comes to
    /// an end.
    pub(crate) restless: u64,
}

/// The rule by which a machine chooses the thread that takes the next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Each thread that can take the next step is as likely as any other.
    Random,
    /// Each thread has a random rank, and the thread of the highest rank takes the next step. `falls` lists points by
    /// their numbers. A thread that reaches a point of this list gets the lowest rank of all.
    Ranks { falls: Vec<u64> },
}

impl Config {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            cpus,
            seed: None,
            switches: 100,
            slice: Duration::from_micros(700),
            latency: Duration::ZERO,
            prompt: &[],
            apart: &["/manager"],
            fine: true,
            order: Order::Random,
            #[cfg(test)]
            costs: None,
            endless: ENDLESS,
            restless: RESTLESS,
        }
    }

    pub(crate) fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }
}

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The thread waits for a CPU.
    Ready,
    /// The thread has a CPU, and takes steps.
    Runs,
    /// The thread has been using its CPU since this time.
    Burns(Time),
    Sleeps,
    /// The thread was woken, and will soon be ready.
    Wakes,
    Ended,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) state: State,
    /// The CPUs on which the thread may run, or `None` if it needs no CPU.
    pub(super) mask: Option<CpuSet>,
    /// The CPU on which the thread runs, or ran last.
    pub(super) cpu: usize,
    /// A number that grows with each sleep, wake-up and burn of the thread. A timer with an older number is out of
    /// date.
    pub(super) number: u64,
    /// Whether the thread belongs to another process.
    pub(super) is_foreign: bool,
    /// Whether the thread has a claim, which means that it gets a CPU before all threads without a claim.
    pub(super) claims: bool,
    /// The time for which the thread still has to use its CPU.
    pub(super) left: Duration,
    pub(super) cpu_time: Duration,
    pub(super) sleeps: u64,
    /// Whether the last sleep ended because its time had come.
    pub(super) timed_out: bool,
    /// Whether the thread's last sleep was in the middle of a step: the thread waited for a lock or at another address.
    pub(super) in_a_step: bool,
    /// Whether the thread was unparked and has not parked since.
    pub(super) token: bool,
    /// The condition under which the machine itself wakes the sleeping thread.
    pub(super) rests: Rests,
    /// Whether the thread *keeps house*: it repeats routine work, which leads nowhere unless another thread takes a
    /// step.
    pub(super) keeps_house: bool,
    /// The thread's rank. The thread of the highest rank takes the next step.
    rank: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// The thread's sleep with this number is over.
    Wakes(Tid, u64),
    /// The thread's burn (its use of a CPU) with this number is over.
    Burnt(Tid, u64),
    /// The thread on this CPU has used up its time slice.
    Slice(usize),
    /// The thread was woken, and is ready now.
    Woken(Tid),
    /// A CPU goes away or comes back.
    Cpus,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) config: Config,
    random: Option<Rng>,
    pub(super) now: Time,
    pub(super) threads: Vec<Thread>,
    /// For each CPU, the thread that has it.
    pub(super) cpus: Vec<Option<Tid>>,
    /// The CPUs on which no thread may run at the moment.
    pub(super) away: CpuSet,
    /// For each CPU, whether a timer is set for the end of a time slice.
    pub(super) slices: Vec<bool>,
    /// The threads that wait for a CPU. An idle CPU goes to the first of them that may run on it.
    pub(super) ready: VecDeque<Tid>,
    /// The threads that need no CPU, and run.
    pub(super) apart: Vec<Tid>,
    /// The timers, ordered by time. Timers with equal times are in the order in which they were set.
    pub(super) timers: BTreeMap<(Time, u64), Timer>,
    next_timer: u64,
    /// Of a thousand attempts to make a thread, this many are refused.
    pub(super) refuses: u32,
    /// Each attempt to make a thread whose name contains one of these parts is refused.
    pub(super) refused: Vec<String>,
    /// The threads that were unparked or made since time last passed.
    pub(super) woken: Vec<Tid>,
    /// The number of steps since time last passed.
    steps: u64,
    /// The number of times that time has passed.
    pub(super) moves: u64,
    /// The number of times that time has passed since the main thread last took a step. The main thread takes no step
    /// if it only checks whether its wait is over, and then continues to wait.
    pub(super) alone: u64,
    /// The time at which a thread that does not keep house last took a step, and the value of `moves` at that time.
    pub(super) quiet_since: (Time, u64),
    /// The number of points that threads have reached so far.
    pub(super) points: u64,
    /// Whether a thread has taken a step since the machine last woke threads to look again.
    pub(super) changed: bool,
    /// The number of times that threads have parked in vain since another thread took a step, or since time last
    /// passed.
    pub(super) in_vain: u32,
    /// The lowest rank so far.
    lowest: i64,
    /// The thread that has just yielded. If the order is not random, this thread takes the next step only if no other
    /// thread can take a step.
    yielded: Option<Tid>,
    pub(super) faults: Faults,
}

impl Schedule {
    /// Makes the schedule of a machine whose main thread runs.
    pub(super) fn new(config: Config) -> Self {
        let cpus = config.cpus;
        let mut schedule = Self {
            random: config.seed.map(Rng::with_seed),
            config,
            now: Time::default(),
            threads: Vec::new(),
            cpus: vec![None; cpus],
            away: CpuSet::new(),
            slices: vec![false; cpus],
            ready: VecDeque::new(),
            apart: Vec::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            refuses: 0,
            refused: Vec::new(),
            woken: Vec::new(),
            steps: 0,
            moves: 0,
            alone: 0,
            quiet_since: (Time::default(), 0),
            points: 0,
            changed: false,
            in_vain: 0,
            lowest: 0,
            yielded: None,
            faults: Faults::new(Plan::default()),
        };
        let main = schedule.add("main".to_owned(), None);
        schedule.make_ready(main);
        schedule
    }

    pub(super) fn add(&mut self, name: String, mask: Option<CpuSet>) -> Tid {
        let ranked = matches!(self.config.order, Order::Ranks { .. });
        let rank = self.random.as_mut().filter(|_| ranked).map_or(0, |random| random.i64(1..i64::MAX));
        self.threads.push(Thread {
            name,
            state: State::Sleeps,
            mask,
            cpu: 0,
            number: 0,
            is_foreign: false,
            claims: false,
            left: Duration::ZERO,
            cpu_time: Duration::ZERO,
            sleeps: 0,
            timed_out: false,
            in_a_step: false,
            token: false,
            rests: Rests::No,
            keeps_house: false,
            rank,
        });
        self.threads.len() - 1
    }

    /// Adds a new thread, which `parent` makes.
    pub(super) fn spawn(&mut self, parent: Tid, name: String) -> Tid {
        let apart = self.config.apart.iter().any(|end| name.ends_with(end));
        let mask = (!apart).then(|| self.threads[parent].mask.clone().unwrap_or_else(|| self.all()));
        let thread = self.add(name, mask);
        self.woken.push(thread);
        self.make_ready(thread);
        thread
    }

    pub(super) fn set_timer(&mut self, at: Time, timer: Timer) {
        self.timers.insert((at, self.next_timer), timer);
        self.next_timer += 1;
    }

    /// Lets the thread sleep until it is woken or this time has come.
    pub(super) fn sleep(&mut self, thread: Tid, until: Option<Time>) {
        self.leave_cpu(thread);
        let sleeper = &mut self.threads[thread];
        sleeper.state = State::Sleeps;
        sleeper.number += 1;
        sleeper.sleeps += 1;
        sleeper.timed_out = false;
        sleeper.in_a_step = false;
        if let Some(at) = until {
            let number = sleeper.number;
            self.set_timer(at.max(self.now), Timer::Wakes(thread, number));
        }
        self.fill();
    }

    /// Returns whether the thread sleeps, and has neither been woken nor timed out.
    pub(super) fn sleeps(&self, thread: Tid) -> bool {
        self.threads[thread].state == State::Sleeps
    }

    /// Wakes the thread if it sleeps.
    pub(super) fn wake(&mut self, thread: Tid) {
        if self.threads[thread].state != State::Sleeps {
            return;
        }
        let longest = self.config.latency.as_nanos() as u64;
        let is_prompt = self.config.prompt.iter().any(|end| self.threads[thread].name.ends_with(end));
        match self.random.as_mut().filter(|_| longest > 0 && !is_prompt) {
            Some(random) => {
                let at = self.now + Duration::from_nanos(random.u64(0..=longest));
                self.threads[thread].state = State::Wakes;
                self.threads[thread].number += 1;
                self.set_timer(at, Timer::Woken(thread));
            }
            None => self.make_ready(thread),
        }
    }

    /// Returns whether the machine refuses to make a thread with this name.
    pub(super) fn refuses(&mut self, name: &str) -> bool {
        if self.refused.iter().any(|part| name.contains(part)) {
            return true;
        }
        let refuses = self.refuses;
        self.random.as_mut().is_some_and(|random| random.u32(0..1000) < refuses)
    }

    pub(super) fn end(&mut self, thread: Tid) {
        self.leave_cpu(thread);
        self.ready.retain(|other| *other != thread);
        self.threads[thread].state = State::Ended;
        self.fill();
    }

    /// Decides which thread takes the next step when `thread` is at a point. Returns the chosen thread, or `None` if
    /// `thread` itself goes on.
    pub(super) fn switches(&mut self, thread: Tid) -> Option<Tid> {
        self.steps += 1;
        self.points += 1;
        self.changed = true;
        self.takes_a_step(thread);
        let random = self.random.as_mut()?;
        let switches = match &self.config.order {
            Order::Random => random.u32(0..1000) < self.config.switches,
            Order::Ranks { falls } => {
                if falls.contains(&self.points) {
                    self.lowest -= 1;
                    self.threads[thread].rank = self.lowest;
                }
                true
            }
        };
        if switches { self.choose().filter(|other| *other != thread) } else { None }
    }

    /// Takes the CPU from the thread, and puts the thread behind those that wait for a CPU. Unless the order is random,
    /// this thread takes the next step only if no other thread can take a step.
    pub(super) fn yields(&mut self, thread: Tid) {
        self.steps += 1;
        self.leave_cpu(thread);
        self.make_ready(thread);
        self.yielded = Some(thread);
    }

    /// Returns whether the run counts as endless, because too many steps were taken since time last passed.
    pub(super) fn is_endless(&self) -> bool {
        self.steps >= self.config.endless
    }

    /// Returns whether the run is restless, which means that it does not come to rest. When the clock has reached
    /// [`Time::NEVER`], no timer can move it on. So a thread that sleeps again and again then never comes to rest.
    pub(super) fn is_restless(&self) -> bool {
        self.alone > self.config.restless || self.now == Time::NEVER
    }

    /// Returns the time of the first timer, or `None` if no timer is set.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves the time on to the first timer, because no thread can take a step. All timers of an instant expire before
    /// any thread takes a step at that instant.
    pub(super) fn move_on(&mut self) {
        let Some(at) = self.next_timer() else { return };
        if at > self.now {
            (self.now, self.steps, self.in_vain) = (at, 0, 0);
            self.woken.clear();
            self.moves += 1;
            self.alone += 1;
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let timer = entry.remove();
            self.expire(timer);
        }
    }

    fn expire(&mut self, timer: Timer) {
        match timer {
            Timer::Wakes(thread, number) if self.threads[thread].number == number => {
                self.threads[thread].timed_out = true;
                self.make_ready(thread);
            }
            Timer::Burnt(thread, number) if self.threads[thread].number == number => {
                self.burn_ends(thread);
            }
            Timer::Wakes(..) | Timer::Burnt(..) => {}
            Timer::Woken(thread) => self.make_ready(thread),
            Timer::Slice(cpu) => self.slice_ends(cpu),
            Timer::Cpus => self.change_cpus(),
        }
    }

    /// Returns the thread that takes the next step. Returns `None` if no thread can take a step before time passes.
    pub(super) fn choose(&mut self) -> Option<Tid> {
        let (threads, yielded) = (&self.threads, self.yielded.take());
        let runs = |thread: &Tid| threads[*thread].state == State::Runs;
        let mut can = self.apart.iter().copied().chain(self.cpus.iter().flatten().copied()).filter(runs);
        match (&mut self.random, &self.config.order) {
            (Some(random), Order::Random) => {
                let can: Vec<_> = can.collect();
                random.choice(can)
            }
            (Some(_), Order::Ranks { .. }) => {
                let rank = |thread: &Tid| (Some(*thread) != yielded, threads[*thread].rank);
                can.max_by_key(rank)
            }
            (None, _) => {
                let first = can.next();
                if first.is_some() && first == yielded { can.next().or(first) } else { first }
            }
        }
    }

    pub(super) fn name(&self, thread: Tid) -> &str {
        &self.threads[thread].name
    }
}
