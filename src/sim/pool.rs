//! What a pool, its workers and a gate consist of. The words and the crew are policy's own.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::script::{ItemId, Op};
use crate::policy::admission::Admission;
use crate::policy::concurrency::Running;
use crate::policy::crew::{Crew, CrewLimits, WorkerId};
use crate::policy::time::Time;
use crate::policy::worker::{Phase, WorkerState};

pub(super) type PoolId = usize;
pub(super) type GateId = usize;
pub(super) type ThreadId = usize;

/// A worker pool.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) word: Running,
    pub(super) crew: Crew,
    pub(super) worklist: VecDeque<ItemId>,
    /// The CPUs that its workers may use, one bit each.
    pub(super) cpus: u64,
    pub(super) workers: BTreeMap<WorkerId, ThreadId>,
    /// Checkers only: reservations that wait for a worker.
    pub(super) owed: u64,
    /// Checkers only: workers that the manager was asked for and has not delivered.
    pub(super) asked_for: u64,
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
            cpus,
            workers: BTreeMap::new(),
            owed: 0,
            asked_for: 0,
            looked_at: false,
            idle_timeout: limits.idle_timeout,
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.worklist.is_empty()
    }

    /// The lowest number that no worker has.
    pub(super) fn free_id(&self) -> WorkerId {
        (0..).find(|id| !self.workers.contains_key(id)).expect("there are fewer workers than numbers")
    }
}

/// The slots of one queue on one CPU (or of a whole ordered queue), and the pool that its items go to.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) word: Admission,
    pub(super) waiting: VecDeque<ItemId>,
    pub(super) pool: PoolId,
    pub(super) cpu_intensive: bool,
    pub(super) has_rescuer: bool,
    /// Checkers only: items that hold a slot, from the worklist to completion.
    pub(super) active: u64,
    /// Checkers only: items that were counted as coming and are not on the list yet.
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
            has_rescuer: false,
            active: 0,
            coming: 0,
            queued: BTreeMap::new(),
        }
    }

    pub(super) fn cpu_intensive(self) -> Self {
        Self { cpu_intensive: true, ..self }
    }

    pub(super) fn rescuer(self) -> Self {
        Self { has_rescuer: true, ..self }
    }
}

/// From which step of the run to which an item was being queued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing {
    pub(super) began: usize,
    pub(super) ended: Option<usize>,
}

/// A thread: a worker, or somebody outside who queues items.
#[derive(Debug)]
pub(super) struct Thread {
    /// What it does next, the very next last.
    pub(super) todo: Vec<Op>,
    /// The CPU it holds.
    pub(super) cpu: Option<usize>,
    pub(super) worker: Option<Worker>,
}

/// What makes a thread a worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pool: PoolId,
    pub(super) id: WorkerId,
    pub(super) state: WorkerState,
    /// The item whose function it is in.
    pub(super) item: Option<ItemId>,
    pub(super) parked: bool,
    /// Why it was unparked, until it looks.
    pub(super) notice: Option<Notice>,
    /// Checkers only: it is one of the pool's running ones.
    pub(super) counted: bool,
    /// Checkers only: when it became idle.
    pub(super) idle_since: Time,
    /// The gate whose items it runs while `pool` cannot have a worker; it is none of that pool's.
    pub(super) rescues: Option<GateId>,
    /// A rescuer was called, and has not looked yet.
    pub(super) called: bool,
    /// Checkers only: since when a rescuer sleeps though it is needed.
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
            notice: None,
            counted: false,
            idle_since: Time::default(),
            rescues: None,
            called: false,
            neglects_since: None,
        }
    }

    /// A rescuer, asleep.
    pub(super) fn rescuer(pool: PoolId, gate: GateId) -> Self {
        let worker = Self::new(pool, WorkerId::MAX);
        Self { state: WorkerState::new(Phase::Uncounted), rescues: Some(gate), parked: true, ..worker }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.state = self.state.with_phase(phase);
    }
}
