//! The state of the machine, the clock, and the choice of the thread that takes the next step.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::class::Class;
use super::conserve::Ledger;
use super::cpus::Cpu;
use super::detection::Finds;
use super::issuer::Blocks;
use super::pool::{Gate, GateId, Notice, Pool, PoolId, Thread, ThreadId, Worker};
use super::prng::Prng;
use super::script::{Event, FlagId, Item, ItemId, Op, What};
use super::scrutiny::LookStep;
use super::threads::{Flag, Known};
use crate::policy::deadlines::Deadlines;
use crate::policy::manager::Manager;
use crate::policy::threads::Threads;
use crate::policy::time::Time;
use crate::policy::watch::Rules;

/// No workload lasts this long, even if many creations fail.
const ENDLESS: Time = Time::from_nanos(3_600_000_000_000);

/// Rules under which a run fails if a pool has work and no worker on it for `patience`.
pub(super) const PATIENT: Rules = Rules {
    sleepers: false,
    is_told: false,
    hogs: None,
    watchdog: None,
    patience: Some(Duration::from_millis(100)),
};

/// How the machine behaves.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) cpus: usize,
    /// Chooses the interleaving, latencies and failures. Without it, the manager goes first, then the outsiders,
    /// then the CPUs in order. There are no latencies, and every creation succeeds.
    pub(super) prng: Option<Prng>,
    /// The longest time from unparking a thread until it is runnable.
    pub(super) wake_latency: Duration,
    /// The longest time that the manager needs to make a thread.
    pub(super) creation_latency: Duration,
    /// The longest time from counting an item as waiting until it is on the list.
    pub(super) listing_delay: Duration,
    /// How many percent of the creations fail.
    pub(super) failing_creations: usize,
    /// The time slice: after this time a burning thread goes to the tail of the run queue, if another thread wants its
    /// CPU. `None`: no slices.
    pub(super) slice: Option<Duration>,
    /// Other threads may run between the steps of a handover.
    pub(super) racy: bool,
    /// Tie-break: a thread that is going to burn goes to the tail of the run queue first.
    ///
    /// In the documents two items start in the same instant on the same CPU (d, t = 5). So steps that take no time,
    /// such as a start, come before steps that do.
    pub(super) yield_before_burn: bool,
    /// Tie-break: a worker goes to the tail of the run queue after each item.
    ///
    /// In the documents `w1` wakes and finishes at the instant at which `w0` finishes, and `w2` starts after that
    /// (c, t = 20). Without this tie-break the worker of `w0` goes on with `w2` before `w1` gets the CPU.
    pub(super) yield_after_item: bool,
    /// What the manager looks for in watched pools.
    pub(super) rules: Rules,
    /// Which facts the system tells about threads.
    pub(super) known: Known,
    /// How likely the manager is to lose its CPU between two steps of a look, in a racy run: percent.
    pub(super) held_up: usize,
    /// The CPU time that the manager takes for a look at a pool.
    pub(super) look_cost: Duration,
    /// Print every step.
    pub(super) trace: bool,
}

/// How often each path was taken: random runs must reach the rare ones.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) refused: usize,
    pub(super) shed: usize,
    pub(super) started_from_rest: usize,
    pub(super) taken_slots: usize,
    pub(super) culled: usize,
    pub(super) failed_creations: usize,
    pub(super) unwatched: usize,
    pub(super) left_uncounted: usize,
    pub(super) raised: usize,
    pub(super) lowered: usize,
    pub(super) maydays: usize,
    pub(super) rescued: usize,
    pub(super) stood_down: usize,
    pub(super) offered: usize,
    pub(super) sought: usize,
    pub(super) passed_on: usize,
    pub(super) stalled: usize,
    pub(super) handed_over: usize,
    pub(super) sooner: usize,
    pub(super) diverted: usize,
    pub(super) set_aside: usize,
    pub(super) at_home: usize,
    pub(super) away: usize,
    pub(super) put_off: usize,
    pub(super) found_asleep: usize,
    pub(super) found_hogs: usize,
    pub(super) found_blocked: usize,
    pub(super) found_running: usize,
    pub(super) stale: usize,
    pub(super) looks: usize,
    pub(super) no_room: usize,
    pub(super) waited_its_turn: usize,
    pub(super) gave_way: usize,
    pub(super) idle_gave_way: usize,
    pub(super) hurried: usize,
    pub(super) recovered: usize,
}

/// Something that happens at a given time.
#[derive(Debug)]
pub(super) enum Timer {
    /// One outsider queues these items, one after the other.
    Issue(Vec<ItemId>),
    /// The system moves an issuer to another CPU.
    Move { issuer: usize, cpu: usize },
    /// A thread that needs a CPU comes.
    Comes(Thread),
    /// An outsider sets the limit of a gate.
    SetMax(GateId, usize),
    /// A sleep or a pause ends.
    Resume(ThreadId),
    /// A burn, or a slice of it, ends.
    Burnt { cpu: usize, spent: Duration },
    /// An unparked thread becomes runnable.
    Unparked(ThreadId),
    /// The manager has tried to make a worker.
    Tried(PoolId),
    /// The manager learns that a thread has left.
    Room,
    /// The manager continues a look.
    GoesOn,
    /// The system reports that a worker of this pool fell asleep.
    Told(PoolId),
}

#[derive(Clone, Copy, Debug)]
enum Actor {
    Manager,
    Outsider(ThreadId),
    Cpu(usize),
}

pub(super) struct Machine {
    pub(super) config: Config,
    pub(super) now: Time,
    pub(super) timers: Deadlines<Timer>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) threads: Vec<Thread>,
    /// Runnable threads without a CPU. Each CPU takes the first one that may use it; threads with a claim come first.
    pub(super) ready: VecDeque<ThreadId>,
    /// Runnable outsiders that need none of the CPUs.
    pub(super) outsiders: Vec<ThreadId>,
    pub(super) pools: Vec<Pool>,
    pub(super) classes: Vec<Class>,
    pub(super) ledger: Ledger,
    pub(super) blocks: Blocks,
    pub(super) gates: Vec<Gate>,
    pub(super) items: Vec<Item>,
    /// Gates that have a rescuer, and its thread.
    pub(super) rescuers: Vec<(GateId, ThreadId)>,
    pub(super) manager: Manager<PoolId>,
    /// How many workers there are, and whether one is asked to give way.
    pub(super) word: Threads,
    /// The limit on workers.
    pub(super) max_threads: u64,
    /// At the limit: the delay before the manager learns that a thread has left. A random latency is added.
    pub(super) told_after: Duration,
    /// The manager is making a thread, or has lost its CPU.
    pub(super) manager_busy: bool,
    /// The steps of the current look, which the manager does before its next duty.
    pub(super) look: VecDeque<LookStep>,
    pub(super) flags: BTreeMap<FlagId, Flag>,
    pub(super) finds: Finds,
    /// Checkers only: no creation is tried before this time.
    pub(super) cooling_until: Time,
    pub(super) log: Vec<Event>,
    /// How many steps threads have taken.
    pub(super) steps: usize,
    pub(super) accepted: usize,
    pub(super) completed: usize,
    pub(super) seen: Seen,
}

impl Machine {
    pub(super) fn new(config: Config, pools: Vec<Pool>, gates: Vec<Gate>, items: Vec<Item>) -> Self {
        let mut machine = Self {
            now: Time::default(),
            timers: Deadlines::new(),
            cpus: vec![Cpu::default(); config.cpus],
            threads: Vec::new(),
            ready: VecDeque::new(),
            outsiders: Vec::new(),
            pools,
            classes: Vec::new(),
            ledger: Ledger::default(),
            blocks: Blocks::default(),
            gates,
            items,
            manager: Manager::new(config.rules),
            word: Threads::none(),
            max_threads: u64::MAX,
            told_after: Duration::ZERO,
            rescuers: Vec::new(),
            manager_busy: false,
            look: VecDeque::new(),
            flags: BTreeMap::new(),
            finds: Finds::default(),
            cooling_until: Time::default(),
            log: Vec::new(),
            steps: 0,
            accepted: 0,
            completed: 0,
            seen: Seen::default(),
            config,
        };
        machine.make_rescuers();
        machine
    }

    /// Lets one outsider queue these items at `at`, in this order.
    pub(super) fn issue(&mut self, at: Time, items: Vec<ItemId>) {
        self.timers.set(at, Timer::Issue(items));
    }

    /// Lets an outsider set the limit of `gate` at `at`.
    pub(super) fn set_max_at(&mut self, at: Time, gate: GateId, max: usize) {
        self.timers.set(at, Timer::SetMax(gate, max));
    }

    /// Runs until nothing is left to do, not even culling.
    pub(super) fn run(&mut self) {
        loop {
            // All threads that become runnable at an instant are in a queue before any thread runs at that instant.
            while let Some((_, timer)) = self.timers.take_due(self.now) {
                self.expire(timer);
            }
            while let Some(actor) = self.choose() {
                self.act(actor);
            }
            let manager_at = if self.manager_busy { None } else { self.manager.next_wake() };
            let next = [self.timers.next(), manager_at].into_iter().flatten().min();
            match next {
                Some(at) if at <= self.now => continue,
                Some(at) => {
                    self.check_instant();
                    self.check_detection(at);
                    self.time_passes(at);
                    assert!(at < ENDLESS, "the run does not come to rest");
                    self.now = at;
                }
                None => break,
            }
        }
        self.check_instant();
        self.check_quiet();
    }

    fn expire(&mut self, timer: Timer) {
        match timer {
            Timer::Issue(items) => self.outsider(items.into_iter().rev().map(Op::Admit).collect()),
            Timer::Comes(thread) => {
                self.threads.push(thread);
                self.make_runnable(self.threads.len() - 1);
            }
            Timer::Move { issuer, cpu } => self.move_issuer(issuer, cpu),
            Timer::SetMax(gate, max) => self.outsider(vec![Op::SetMax(gate, max)]),
            Timer::Resume(thread) => self.make_runnable(thread),
            Timer::Burnt { cpu, spent } => self.burnt(cpu, spent),
            Timer::Unparked(thread) => self.unparked(thread),
            Timer::Tried(pool) => {
                self.manager_busy = false;
                self.tried_to_create(pool);
            }
            Timer::Room => self.manager.room(self.now),
            Timer::GoesOn => self.manager_busy = false,
            Timer::Told(pool) => self.told(pool),
        }
    }

    pub(super) fn outsider(&mut self, todo: Vec<Op>) {
        self.outsiders.push(self.threads.len());
        self.threads.push(Thread::outsider(todo));
    }

    /// Returns the thread or CPU that takes the next step; `None` if every remaining step costs time.
    fn choose(&mut self) -> Option<Actor> {
        let is_due = !self.look.is_empty() || self.manager.next_wake().is_some_and(|at| at <= self.now);
        let manager_is_due = !self.manager_busy && is_due;
        let manager = manager_is_due.then_some(Actor::Manager);
        let outsiders = self.outsiders.iter().map(|thread| Actor::Outsider(*thread));
        let cpus = (0..self.cpus.len()).filter(|cpu| self.has_free_step(*cpu)).map(Actor::Cpu);
        let actors: Vec<_> = manager.into_iter().chain(outsiders).chain(cpus).collect();
        match &mut self.config.prng {
            Some(prng) if !actors.is_empty() => Some(prng.pick(&actors)),
            _ => actors.first().copied(),
        }
    }

    fn act(&mut self, actor: Actor) {
        match actor {
            Actor::Manager => self.manage(),
            Actor::Outsider(thread) => {
                self.advance(thread);
                if self.threads[thread].todo.is_empty() {
                    self.outsiders.retain(|outsider| *outsider != thread);
                }
            }
            Actor::Cpu(cpu) => self.use_cpu(cpu),
        }
    }

    /// Performs a thread's next step.
    pub(super) fn advance(&mut self, thread: ThreadId) {
        loop {
            let op = self.threads[thread].todo.pop().expect("a runnable thread has something to do");
            if self.config.trace {
                eprintln!("{:>9} ns  thread {thread:<3} {op:?}", self.now.as_nanos());
            }
            self.steps += 1;
            self.perform(thread, op);
            let goes_on = self.threads[thread].todo.last().is_some_and(Op::continues);
            if self.config.racy || !goes_on {
                break;
            }
        }
    }

    /// Makes these steps the thread's next ones, in this order.
    pub(super) fn then<const N: usize>(&mut self, thread: ThreadId, ops: [Op; N]) {
        self.threads[thread].todo.extend(ops.into_iter().rev());
    }

    /// Wakes a worker, after the latency of the machine.
    pub(super) fn unpark(&mut self, pool: PoolId, id: u32, notice: Notice) {
        let thread = self.pools[pool].workers[&id];
        let previous = self.worker_mut(thread).notice.replace(notice);
        assert_eq!(previous, None, "a worker was taken off the idle stack twice");
        let latency = self.up_to(self.config.wake_latency);
        if latency.is_zero() {
            self.unparked(thread);
        } else {
            self.timers.set(self.now + latency, Timer::Unparked(thread));
        }
    }

    fn unparked(&mut self, thread: ThreadId) {
        // A worker that has not parked yet reads its notice before it parks, so no wake-up is lost.
        if self.worker_mut(thread).parked {
            self.worker_mut(thread).parked = false;
            self.then(thread, [Op::Park]);
            self.make_runnable(thread);
        }
    }

    /// Returns a random time up to `longest`; zero on a machine without a random number generator.
    pub(super) fn up_to(&mut self, longest: Duration) -> Duration {
        self.config.prng.as_mut().map_or(Duration::ZERO, |prng| prng.duration(longest))
    }

    pub(super) fn record(&mut self, item: ItemId, what: What) {
        self.log.push(Event { at: self.now, item, what });
    }

    pub(super) fn worker(&self, thread: ThreadId) -> &Worker {
        self.threads[thread].worker.as_ref().expect("only a worker does this")
    }

    pub(super) fn worker_mut(&mut self, thread: ThreadId) -> &mut Worker {
        self.threads[thread].worker.as_mut().expect("only a worker does this")
    }

    pub(super) fn gate_of(&self, item: ItemId) -> GateId {
        self.items[item].gate
    }
}
