//! Which thread of a machine takes the next step, and when time passes.
//!
//! A thread that has a CPU *runs*: its steps cost no time. It *burns* when it uses its CPU for some time. If no thread
//! runs, the time moves on to the next timer. So whatever can be done at an instant is done at that instant.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;

use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;

/// The number of a thread of the machine. The main thread is 0.
pub(crate) type Tid = usize;

/// So many steps without any time passing are a loop that waits for another thread.
const ENDLESS: u64 = 10_000_000;

/// So many times does time pass in a run: it does not come to rest.
const RESTLESS: u64 = 1_000_000;

/// How a machine behaves.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) cpus: usize,
    /// Chooses the order of steps. Without it the lowest CPU comes first, and a thread goes on until it waits.
    pub(crate) seed: Option<u64>,
    /// With a seed: at how many of a thousand points another thread goes on.
    pub(crate) switches: u32,
    /// For how long a thread burns before another one that waits for its CPU gets that.
    pub(crate) slice: Duration,
    /// With a seed: a woken thread is ready after this time at most.
    pub(crate) latency: Duration,
    /// Threads whose name ends like this are ready at once.
    pub(crate) prompt: &'static [&'static str],
    /// Threads whose name ends like this need no CPU. The main thread needs none either.
    pub(crate) apart: &'static [&'static str],
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
        }
    }

    pub(crate) fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }
}

/// What a thread is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It waits for a CPU.
    Ready,
    /// It has a CPU, and takes steps.
    Runs,
    /// It uses its CPU since this time.
    Burns(Time),
    Sleeps,
    /// It was woken, and is ready in a moment.
    Wakes,
    Ended,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: String,
    pub(super) state: State,
    /// Where it may run. `None`: it needs no CPU.
    pub(super) mask: Option<CpuSet>,
    /// Where it runs, or ran last.
    pub(super) cpu: usize,
    /// Counts its sleeps and burns: a timer of an older one is out of date.
    pub(super) number: u64,
    /// It belongs to another process.
    pub(super) is_foreign: bool,
    /// It goes before threads without a claim.
    pub(super) claims: bool,
    /// How long it still burns.
    pub(super) left: Duration,
    pub(super) cpu_time: Duration,
    pub(super) sleeps: u64,
    /// Its last sleep ended because the time was over.
    pub(super) timed_out: bool,
    /// It slept in the middle of a step last, for a lock or at another address.
    pub(super) in_a_step: bool,
    /// It was unparked, and has not parked since.
    pub(super) token: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// A sleep of this number is over.
    Wakes(Tid, u64),
    /// A burn of this number is over.
    Burnt(Tid, u64),
    /// The thread of this CPU has used its slice.
    Slice(usize),
    /// The thread was woken a moment ago.
    Woken(Tid),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) config: Config,
    random: Option<Rng>,
    pub(super) now: Time,
    pub(super) threads: Vec<Thread>,
    /// The thread that has each CPU.
    pub(super) cpus: Vec<Option<Tid>>,
    /// Is there a timer for the end of its slice?
    pub(super) slices: Vec<bool>,
    /// They wait for a CPU, in this order.
    pub(super) ready: VecDeque<Tid>,
    /// Those that need no CPU, and run.
    pub(super) apart: Vec<Tid>,
    /// By time, and by their order.
    timers: BTreeMap<(Time, u64), Timer>,
    next_timer: u64,
    /// Of a thousand attempts to make a thread, so many fail.
    pub(super) refuses: u32,
    /// All attempts fail to make a thread whose name contains one of these.
    pub(super) refused: Vec<String>,
    /// The threads that were unparked or made since time has passed last.
    pub(super) woken: Vec<Tid>,
    /// Since time has passed last.
    steps: u64,
    /// How often time has passed.
    moves: u64,
    /// The thread that yielded last: another one goes first.
    yielded: Option<Tid>,
}

impl Schedule {
    /// Of a machine whose main thread runs.
    pub(super) fn new(config: Config) -> Self {
        let cpus = config.cpus;
        let mut schedule = Self {
            random: config.seed.map(Rng::with_seed),
            config,
            now: Time::default(),
            threads: Vec::new(),
            cpus: vec![None; cpus],
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
            yielded: None,
        };
        let main = schedule.add("main".to_owned(), None);
        schedule.make_ready(main);
        schedule
    }

    pub(super) fn add(&mut self, name: String, mask: Option<CpuSet>) -> Tid {
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
        });
        self.threads.len() - 1
    }

    /// A new thread, made by `parent`.
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

    /// The thread sleeps until it is woken, or this time has come.
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

    /// Does the system refuse to make a thread?
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

    /// Does another thread take the next step, at a point of this one?
    pub(super) fn switches(&mut self, thread: Tid) -> Option<Tid> {
        self.steps += 1;
        assert!(
            self.steps < ENDLESS,
            "thread {} waits in a loop, without any time passing",
            self.name(thread)
        );
        let switches = self.config.switches;
        if self.random.as_mut().is_some_and(|random| random.u32(0..1000) < switches) {
            self.choose().filter(|other| *other != thread)
        } else {
            None
        }
    }

    /// The thread goes behind all others that have or want a CPU.
    pub(super) fn yields(&mut self, thread: Tid) {
        self.steps += 1;
        assert!(
            self.steps < ENDLESS,
            "thread {} waits in a loop, without any time passing",
            self.name(thread)
        );
        self.leave_cpu(thread);
        self.make_ready(thread);
        self.yielded = Some(thread);
    }

    /// Does the run come to no rest?
    pub(super) fn is_restless(&self) -> bool {
        self.moves > RESTLESS
    }

    /// When the first timer is due. `None` if there is none.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// No thread can take a step: the time moves on to the first timer. All that becomes ready at an instant is in a queue
    /// before anything runs at that instant.
    pub(super) fn move_on(&mut self) {
        let Some(at) = self.next_timer() else { return };
        if at > self.now {
            (self.now, self.steps) = (at, 0);
            self.woken.clear();
            self.moves += 1;
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
        }
    }

    /// The thread that takes the next step. `None` if none can before time passes.
    pub(super) fn choose(&mut self) -> Option<Tid> {
        let (threads, yielded) = (&self.threads, self.yielded.take());
        let runs = |thread: &Tid| threads[*thread].state == State::Runs;
        let mut can = self.apart.iter().copied().chain(self.cpus.iter().flatten().copied()).filter(runs);
        match &mut self.random {
            Some(random) => {
                let can: Vec<_> = can.collect();
                random.choice(can)
            }
            None => {
                let first = can.next();
                if first.is_some() && first == yielded { can.next().or(first) } else { first }
            }
        }
    }

    pub(super) fn name(&self, thread: Tid) -> &str {
        &self.threads[thread].name
    }
}
