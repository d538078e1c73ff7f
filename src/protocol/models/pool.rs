//! The models' substitute for the engine's part of a pool: a worklist, the idle set under its mutex, and workers that
//! park.
//!
//! All workers are in the idle set before the model begins. If no worker is idle, a reservation waits for the next
//! worker that rests. The engine would make a thread instead. The worker that ends the last item closes the idle set,
//! so all workers leave. If an item does not run, the model ends in a deadlock, which loom reports.

use std::time::Duration;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU64, Ordering};

use super::{Data, List};
use crate::policy::concurrency::{Kick, Reserved, Running};
use crate::policy::idle_set::{IdleLimits, IdleSet, Rest, Wake, WorkerId};
use crate::policy::time::Time;
use crate::policy::worker::{Finding, Phase, WorkerState};
use crate::protocol::running::RunningCell;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::Mutex;

const LIMITS: IdleLimits = IdleLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4, min_idle: 2 };

pub(super) struct Pool {
    pub(super) list: List,
    pub(super) running: RunningCell,
    idle_set: Mutex<IdleSet>,
    workers: Vec<Worker>,
    /// The number of items that have not ended. Accesses are relaxed, so that this number does not order the threads in
    /// place of the protocols.
    left: AtomicU64,
}

pub(super) struct Worker {
    pub(super) cell: WorkerCell,
    /// The bell for which the parked worker waits.
    bell: Notify,
    /// Whether the waking thread has decided on which CPU the worker begins. The thread decides this before it wakes
    /// the worker.
    placed: Data<bool>,
    /// Whether the worker has begun no item since it was woken. Only the worker itself uses this value.
    woken_just_now: Data<bool>,
}

impl Pool {
    /// Makes a pool of idle workers. The model pushes `items` items to this pool.
    pub(super) fn new(word: Running, workers: u32, items: u64) -> Self {
        let mut idle_set = IdleSet::new(LIMITS);
        for id in 0..workers {
            assert!(idle_set.arrived(id, None, Time::default()) == Rest::Park);
        }
        let workers = (0..workers).map(|_| Worker::idle());
        Self {
            list: List::new(),
            running: RunningCell::new(word),
            idle_set: Mutex::new(idle_set),
            workers: workers.collect(),
            left: AtomicU64::new(items),
        }
    }

    pub(super) fn worker(&self, id: WorkerId) -> &Worker {
        &self.workers[id as usize]
    }

    /// Starts a worker as [`start_one`](Self::start_one) does, and gives this worker an item.
    pub(super) fn start_in_item(&self) -> WorkerId {
        let id = self.start_one();
        self.worker(id).cell.begin_item(Phase::Running);
        id
    }

    /// Starts the worker that became idle last. Must be called before the threads of the model start.
    pub(super) fn start_one(&self) -> WorkerId {
        let Kick::Wake(reserved) = self.running.pushed() else { panic!("the pool is full") };
        let mut idle_set = self.idle_set.lock();
        let Wake::Unpark(id) = idle_set.kick(reserved, None, Time::default) else {
            panic!("no worker is idle")
        };
        assert!(self.running.start(idle_set.woken().0));
        self.worker(id).cell.set_phase(Phase::Between);
        id
    }

    pub(super) fn push(&self) {
        self.list.push();
        self.perform(self.running.pushed());
    }

    pub(super) fn perform(&self, kick: Kick) {
        let Kick::Wake(reserved) = kick else { return };
        let mut idle_set = self.idle_set.lock();
        let wake = idle_set.kick(reserved, None, Time::default);
        drop(idle_set);
        if let Wake::Unpark(id) = wake {
            let worker = self.worker(id);
            worker.placed.write(|placed| *placed = true);
            worker.cell.set_phase(Phase::Waking);
            worker.bell.notify();
        }
    }

    pub(super) fn cover(&self, covers: bool) {
        self.perform(self.running.cover(covers, || self.list.has_work()));
    }

    pub(super) fn retarget(&self, target: usize) {
        self.perform(self.running.retarget(target, || self.list.has_work()));
    }

    fn look(&self) {
        self.perform(self.running.look(|| self.list.has_work()));
    }

    /// Uses up the worker's reservation. The worker then begins to work, or rests again.
    fn start(&self, id: WorkerId, reserved: Reserved) {
        if self.running.start(reserved) {
            self.worker(id).cell.set_phase(Phase::Between);
            self.worker(id).woken_just_now.write(|woken| *woken = true);
        } else {
            self.rest(id, false);
        }
    }

    /// Runs a worker from its present phase until it leaves.
    pub(super) fn work(&self, id: WorkerId, run: impl Fn()) {
        loop {
            match self.worker(id).cell.load().phase() {
                Phase::Idle => self.worker(id).bell.wait(),
                Phase::Waking => {
                    assert!(
                        self.worker(id).placed.write(std::mem::take),
                        "the worker began before it was placed"
                    );
                    let (reserved, _prepare) = self.idle_set.lock().woken();
                    self.start(id, reserved);
                }
                Phase::Between => {
                    if self.list.pop() {
                        if self.worker(id).woken_just_now.write(std::mem::take) {
                            // The worker's reservation is used up. In a pool without a target, this call therefore
                            // wakes the next worker.
                            self.look();
                        }
                        self.worker(id).cell.begin_item(Phase::Running);
                        run();
                        self.item_ended(id);
                    } else {
                        self.rest(id, true);
                    }
                }
                Phase::Exiting => return,
                phase => panic!("no worker is {phase:?} between its items"),
            }
        }
    }

    /// Does what a worker does when it enters a blocking guard.
    pub(super) fn block(&self, id: WorkerId) {
        if self.worker(id).cell.block() {
            self.running.leave();
            self.look();
        }
    }

    /// Does what a worker does when it leaves a blocking guard.
    pub(super) fn unblock(&self, id: WorkerId) {
        self.worker(id).cell.unblock(false, &self.running);
    }

    /// Applies a finding of the detector. The detector has read the word `seen`, and has then inspected the thread.
    /// Returns whether the finding still applied.
    pub(super) fn found(&self, id: WorkerId, seen: WorkerState, finding: Finding) -> bool {
        let carried = self.worker(id).cell.carry_out(seen, finding, &self.running);
        if carried.owes_look {
            self.look();
        }
        carried.holds
    }

    pub(super) fn item_ended(&self, id: WorkerId) {
        if self.worker(id).cell.end_item() {
            self.running.come_back();
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.close();
        }
        if self.running.shed() {
            self.rest(id, false);
        } else if !self.list.has_work() {
            self.rest(id, true);
        }
    }

    /// Does what a worker does when it has no work. `counts` tells whether this worker counts as running.
    fn rest(&self, id: WorkerId, counts: bool) {
        let mut idle_set = self.idle_set.lock();
        if counts {
            self.running.leave();
        }
        let rest = idle_set.rest(id, None, Time::default());
        let cell = &self.worker(id).cell;
        match rest {
            Rest::Park => {
                cell.set_phase(Phase::Idle);
                drop(idle_set);
                self.look();
            }
            Rest::Start(reserved, _prepare) => {
                drop(idle_set);
                self.start(id, reserved);
            }
            Rest::Exit => {
                drop(idle_set);
                cell.set_phase(Phase::Exiting);
            }
        }
    }

    fn close(&self) {
        let mut idle_set = self.idle_set.lock();
        let leaving = idle_set.close();
        for id in &leaving {
            self.worker(*id).cell.set_phase(Phase::Exiting);
        }
        drop(idle_set);
        for id in &leaving {
            self.worker(*id).bell.notify();
        }
    }

    /// Checks that all items of the pool have run, and that no worker counts as running. Must be called after all
    /// threads of the model have ended.
    pub(super) fn assert_quiet(&self) {
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "an item was not run");
        assert!(!self.list.has_work());
        assert_eq!(self.running.load().running(), 0, "workers that have left are still counted");
    }
}

impl Worker {
    fn idle() -> Self {
        Self {
            cell: WorkerCell::new(Phase::Idle),
            bell: Notify::new(),
            placed: Data::new(false),
            woken_just_now: Data::new(false),
        }
    }
}
