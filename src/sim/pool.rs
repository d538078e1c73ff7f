//! The state of pools, workers and gates. The words and the crew are policy's own types.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::script::{ItemId, Op};
use crate::policy::admission::Admission;
use crate::policy::concurrency::{PodId, Running};
use crate::policy::crew::{Crew, CrewLimits, WorkerId};
use crate::policy::pace::Pace;
use crate::policy::room::Famine;
use crate::policy::stall::StallWatch;
use crate::policy::time::Time;
use crate::policy::worker::{Phase, WorkerState};

pub(super) type ClassId = usize;
pub(super) type PoolId = usize;
pub(super) type GateId = usize;
pub(super) type ThreadId = usize;

/// A worker pool.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) word: Running,
    pub(super) crew: Crew,
    pub(super) worklist: VecDeque<ItemId>,
    /// Items that run before the worklist's. A thief may not take them, and has moved them here from the worklist.
    pub(super) sideline: VecDeque<ItemId>,
    /// Its place among siblings that take each other's items.
    pub(super) seat: Option<Seat>,
    pub(super) stall: StallWatch,
    pub(super) pace: Pace,
    pub(super) famine: Famine,
    /// The manager has found that it starves.
    pub(super) starves: bool,
    pub(super) nice: i32,
    /// The system makes no thread for it.
    pub(super) has_no_threads: bool,
    /// The CPUs that its workers may use, one bit each.
    pub(super) cpus: u64,
    pub(super) workers: BTreeMap<WorkerId, ThreadId>,
    /// Checkers only: for each reservation that has no worker yet, since when it waits.
    pub(super) owed: Vec<Time>,
    /// Checkers only: for each worker that is on its way on an errand, the pool that called it.
    pub(super) errands: Vec<PoolId>,
    /// Checkers only: how many workers the manager was asked for and has not made.
    pub(super) asked_for: i64,
    /// Checkers only: the manager has been told to look at it.
    pub(super) looked_at: bool,
    /// Checkers only: how long an idle worker stays at least.
    pub(super) idle_timeout: Duration,
}

impl Pool {
    pub(super) fn new(word: Running, limits: CrewLimits, cpus: u64) -> Self {
        Self {
            word,
            crew: Crew::new(limits),
            worklist: VecDeque::new(),
            sideline: VecDeque::new(),
            seat: None,
            stall: StallWatch::default(),
            pace: Pace::NEW,
            famine: Famine::default(),
            starves: false,
            nice: 0,
            has_no_threads: false,
            cpus,
            workers: BTreeMap::new(),
            owed: Vec::new(),
            errands: Vec::new(),
            asked_for: 0,
            looked_at: false,
            idle_timeout: limits.idle_timeout,
        }
    }

    /// Returns whether it is a managed pool of one CPU whose items stay there.
    pub(super) fn is_per_cpu(&self) -> bool {
        self.cpus.count_ones() == 1 && self.seat.is_none() && self.word.target().is_some()
    }

    pub(super) fn has_work(&self) -> bool {
        self.pending() > 0
    }

    pub(super) fn pending(&self) -> usize {
        self.worklist.len() + self.sideline.len()
    }

    /// Returns the length of the worklist, from which siblings take. Some of these items may be bound to this pool:
    /// only the thief finds that out.
    pub(super) fn movable(&self) -> u64 {
        self.worklist.len() as u64
    }

    pub(super) fn pop(&mut self) -> Option<ItemId> {
        self.sideline.pop_front().or_else(|| self.worklist.pop_front())
    }

    /// Returns the lowest number that no worker has.
    pub(super) fn free_id(&self) -> WorkerId {
        (0..).find(|id| !self.workers.contains_key(id)).expect("there are fewer workers than numbers")
    }
}

/// The place of a pool in a class whose items move.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) class: ClassId,
    pub(super) pod: PodId,
    /// Workers of siblings that were woken for items of this pool, and have not come.
    pub(super) helpers: u64,
}

/// The slots of one queue on one CPU (or of a whole ordered queue), and the pool that its items go to.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) word: Admission,
    pub(super) waiting: VecDeque<ItemId>,
    pub(super) pool: PoolId,
    pub(super) cpu_intensive: bool,
    /// Its items were placed by their issuers, and stay in their pool.
    pub(super) bound: bool,
    /// Checkers only: its limit may be above one, because its queue is not ordered.
    pub(super) may_be_several: bool,
    /// Checkers only: how many items may be active. Above the limit while items are active that began under a higher
    /// limit.
    pub(super) ceiling: u64,
    pub(super) has_rescuer: bool,
    /// Checkers only: how many items hold a slot, from the worklist to completion.
    pub(super) active: u64,
    /// Checkers only: how many items were counted as coming and are not on the list yet.
    pub(super) coming: u64,
    /// Checkers only: items that have not been popped, and when they were queued.
    pub(super) queued: BTreeMap<ItemId, Queueing>,
}

impl Gate {
    pub(super) fn new(max_active: usize, pool: PoolId) -> Self {
        Self {
            word: Admission::new(max_active),
            waiting: VecDeque::new(),
            pool,
            cpu_intensive: false,
            bound: false,
            may_be_several: max_active > 1,
            ceiling: max_active as u64,
            has_rescuer: false,
            active: 0,
            coming: 0,
            queued: BTreeMap::new(),
        }
    }

    /// Called after the limit was set, or a slot freed: from now on no more items may be active than the limit says, or
    /// than are active now.
    pub(super) fn limit_holds(&mut self) {
        self.ceiling = self.word.max().max(self.word.active());
    }

    pub(super) fn cpu_intensive(self) -> Self {
        Self { cpu_intensive: true, ..self }
    }

    pub(super) fn bound(self) -> Self {
        Self { bound: true, ..self }
    }

    pub(super) fn rescuer(self) -> Self {
        Self { has_rescuer: true, ..self }
    }
}

/// The steps of the run at which the queueing of an item began and ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    pub(super) began: usize,
    pub(super) ended: Option<usize>,
}

/// A thread: a worker, an outsider that queues items, or another process.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its next steps, in reverse order: the last one is next.
    pub(super) todo: Vec<Op>,
    /// The CPU it holds.
    pub(super) cpu: Option<usize>,
    /// The CPUs that it may use, one bit each; 0 if it needs no CPU.
    pub(super) mask: u64,
    /// If no CPU is idle, it takes one from a thread without a claim.
    pub(super) claims: bool,
    pub(super) worker: Option<Worker>,
    /// The CPU time that it has used, without its current burn.
    pub(super) used: Duration,
    /// How often it has slept.
    pub(super) slept: u64,
}

impl Thread {
    /// A thread that needs no CPU.
    pub(super) fn outsider(todo: Vec<Op>) -> Self {
        Self { todo, cpu: None, mask: 0, claims: false, worker: None, used: Duration::ZERO, slept: 0 }
    }

    pub(super) fn worker(todo: Vec<Op>, mask: u64, worker: Worker) -> Self {
        Self { mask, worker: Some(worker), ..Self::outsider(todo) }
    }

    pub(super) fn needs_cpu(&self) -> bool {
        self.mask != 0
    }
}

/// The part of a thread that only workers have.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pool: PoolId,
    pub(super) id: WorkerId,
    pub(super) state: WorkerState,
    /// The item whose function it is in.
    pub(super) item: Option<ItemId>,
    pub(super) parked: bool,
    /// It has taken no item since it was woken.
    pub(super) just_woken: bool,
    /// The pod for whose work it was woken, until its errand ends.
    pub(super) errand: Option<PodId>,
    /// Why it was unparked, until it reads this.
    pub(super) notice: Option<Notice>,
    /// The number of blocking guards that it is in.
    pub(super) guards: u32,
    /// The number of `may_block` guards that it is in.
    pub(super) weak_guards: u32,
    /// Checkers only: how often it counts in the pool's running count: 0 or 1, except for moments.
    pub(super) counted: i32,
    /// Checkers only: the number of its current stretch. Raised when an item or a guard begins or ends, and when the
    /// manager finds that the worker runs again. Findings about one stretch do not hold for the next.
    pub(super) stretch: u64,
    /// Checkers only: its CPU time when it began its item, or last slept in it.
    pub(super) awake_from: Duration,
    /// Checkers only: since when it is on its way.
    pub(super) on_its_way: Option<Time>,
    /// Checkers only: when it became idle.
    pub(super) idle_since: Time,
    /// Rescuers only: the gate whose items it runs while `pool` cannot have a worker. It is not a worker of `pool`.
    pub(super) rescues: Option<GateId>,
    /// Rescuers only: it was called, and has not looked yet.
    pub(super) called: bool,
    /// Checkers only: since when this rescuer sleeps though it is needed.
    pub(super) neglects_since: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notice {
    Begin,
    Leave,
}

impl Worker {
    pub(super) fn new(pool: PoolId, id: WorkerId) -> Self {
        Self {
            pool,
            id,
            state: WorkerState::new(Phase::Idle),
            item: None,
            parked: false,
            just_woken: false,
            errand: None,
            on_its_way: None,
            notice: None,
            guards: 0,
            weak_guards: 0,
            counted: 0,
            stretch: 0,
            awake_from: Duration::ZERO,
            idle_since: Time::default(),
            rescues: None,
            called: false,
            neglects_since: None,
        }
    }

    /// A rescuer that sleeps.
    pub(super) fn rescuer(pool: PoolId, gate: GateId) -> Self {
        let worker = Self::new(pool, WorkerId::MAX);
        Self { state: WorkerState::new(Phase::Uncounted), rescues: Some(gate), parked: true, ..worker }
    }

    pub(super) fn is_counted(&self) -> bool {
        self.counted > 0
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.state = self.state.with_phase(phase);
    }
}
