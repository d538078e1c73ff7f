//! The engine's part of a pool in small: a worklist, the crew under its mutex, workers that park.
//!
//! All workers have arrived before the model begins; a reservation for which a thread would have to be made
//! waits for the next of them that rests. The worker that ends the last item closes the crew, so that
//! everybody leaves: an item that nobody runs ends the model in a deadlock, which loom reports.

use std::time::Duration;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU64, Ordering};

use super::{Data, List};
use crate::policy::concurrency::{Kick, Next, Reserved, Running};
use crate::policy::crew::{Crew, CrewLimits, Rest, Wake, WorkerId};
use crate::policy::time::Time;
use crate::policy::worker::{Finding, Phase, WorkerState};
use crate::protocol::running::RunningCell;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::Mutex;

const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

pub(super) struct Pool {
    pub(super) list: List,
    pub(super) running: RunningCell,
    crew: Mutex<Crew>,
    workers: Vec<Worker>,
    /// Items that have not ended. Relaxed: it orders nothing that the protocols should order.
    left: AtomicU64,
}

pub(super) struct Worker {
    pub(super) cell: WorkerCell,
    /// What it parks on.
    bell: Notify,
    /// Whoever wakes it decides first where it begins.
    placed: Data<bool>,
    /// The owner's own: it has not begun an item since it was woken.
    woken_just_now: Data<bool>,
}

impl Pool {
    /// A pool of idle workers that will see so many items.
    pub(super) fn new(word: Running, workers: u32, items: u64) -> Self {
        let mut crew = Crew::new(LIMITS);
        for id in 0..workers {
            assert!(matches!(crew.arrived(id, None, Time::default()), Rest::Park(_)));
        }
        let workers = (0..workers).map(|_| Worker::idle());
        Self {
            list: List::new(),
            running: RunningCell::new(word),
            crew: Mutex::new(crew),
            workers: workers.collect(),
            left: AtomicU64::new(items),
        }
    }

    pub(super) fn worker(&self, id: WorkerId) -> &Worker {
        &self.workers[id as usize]
    }

    /// The same, and it has an item.
    pub(super) fn start_in_item(&self) -> WorkerId {
        let id = self.start_one();
        self.worker(id).cell.begin_item(Phase::Running);
        id
    }

    /// Before the threads of the model start: the most recently idle worker is running.
    pub(super) fn start_one(&self) -> WorkerId {
        let Kick::Wake(reserved) = self.running.pushed() else { panic!("the pool is full") };
        let mut crew = self.crew.lock();
        let Wake::Unpark(id) = crew.kick(reserved, None) else { panic!("nobody is idle") };
        assert!(self.running.start(crew.woken().0));
        self.worker(id).cell.set_phase(Phase::Between);
        id
    }

    pub(super) fn push(&self) {
        self.list.push();
        self.perform(self.running.pushed());
    }

    pub(super) fn perform(&self, kick: Kick) {
        let Kick::Wake(reserved) = kick else { return };
        let mut crew = self.crew.lock();
        let wake = crew.kick(reserved, None);
        drop(crew);
        if let Wake::Unpark(id) = wake {
            let worker = self.worker(id);
            worker.placed.write(|placed| *placed = true);
            worker.cell.set_phase(Phase::Waking);
            worker.bell.notify();
        }
    }

    pub(super) fn retarget(&self, target: usize) {
        self.perform(self.running.retarget(target, || self.list.has_work()));
    }

    fn look(&self) {
        self.perform(self.running.look(|| self.list.has_work()));
    }

    /// A worker with a reservation begins, or rests again.
    fn start(&self, id: WorkerId, reserved: Reserved) {
        if self.running.start(reserved) {
            self.worker(id).cell.set_phase(Phase::Between);
            self.worker(id).woken_just_now.write(|woken| *woken = true);
        } else {
            self.rest(id, false);
        }
    }

    /// The life of a worker, from whatever phase it is in until it leaves.
    pub(super) fn work(&self, id: WorkerId, run: impl Fn()) {
        loop {
            match self.worker(id).cell.load().phase() {
                Phase::Idle => self.worker(id).bell.wait(),
                Phase::Waking => {
                    assert!(self.worker(id).placed.write(std::mem::take), "it began before it was placed");
                    let (reserved, _prepare) = self.crew.lock().woken();
                    self.start(id, reserved);
                }
                Phase::Between => {
                    if self.list.pop() {
                        if self.worker(id).woken_just_now.write(std::mem::take) {
                            // The reservation is used up: a pool without a target goes on with the next
                            // wake-up.
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

    /// A guard is entered.
    pub(super) fn block(&self, id: WorkerId) {
        if self.worker(id).cell.block() {
            self.running.leave();
            self.look();
        }
    }

    /// A guard is left.
    pub(super) fn unblock(&self, id: WorkerId) {
        self.worker(id).cell.unblock(false, &self.running);
    }

    /// The detector has read `seen`, then looked at the thread. True if the worker was moved.
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
        match self.running.between_items(self.list.has_work()) {
            Next::Keep => {}
            Next::Shed => self.rest(id, false),
            Next::Rest => self.rest(id, true),
        }
    }

    /// A worker has nothing to do; `counts`: it is among the running ones.
    fn rest(&self, id: WorkerId, counts: bool) {
        let mut crew = self.crew.lock();
        if counts {
            self.running.leave();
        }
        let rest = crew.rest(id, None, Time::default());
        let cell = &self.worker(id).cell;
        match rest {
            Rest::Park(_) => {
                cell.set_phase(Phase::Idle);
                drop(crew);
                self.look();
            }
            Rest::Start(reserved, _prepare) => {
                drop(crew);
                self.start(id, reserved);
            }
            Rest::Exit => {
                drop(crew);
                cell.set_phase(Phase::Exiting);
            }
        }
    }

    fn close(&self) {
        let mut crew = self.crew.lock();
        let leaving = crew.close();
        for id in &leaving {
            self.worker(*id).cell.set_phase(Phase::Exiting);
        }
        drop(crew);
        for id in &leaving {
            self.worker(*id).bell.notify();
        }
    }

    /// After all threads of the model have ended.
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
