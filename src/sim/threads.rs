//! The facts about threads, exactly; and the guards and flags that items use in their functions.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::{Machine, Timer};
use super::pool::{PoolId, ThreadId};
use super::script::{Guard, Op, What};
use crate::policy::crew::WorkerId;
use crate::policy::suspect::Facts;

/// How long a thread spins before another one gets the CPU, if the machine has no slices.
const SPIN: Duration = Duration::from_millis(1);

/// A report that comes during a look is repeated to the manager after this time.
const SOON: Duration = Duration::from_micros(10);

/// Which facts the system tells about threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// Everything.
    States,
    /// How much CPU time they have used, and nothing else.
    Clocks,
    Nothing,
}

/// A flag that items set and wait for.
#[derive(Default, Debug)]
pub(super) struct Flag {
    set: bool,
    waiters: Vec<ThreadId>,
}

/// The facts about a thread at the moment of a look.
#[derive(Clone, Copy, Debug)]
struct Sight {
    sleeps: bool,
    cpu_time: Duration,
    slept: u64,
}

/// The facts about the workers of a pool.
pub(super) struct PoolFacts {
    known: Known,
    sights: BTreeMap<WorkerId, Sight>,
}

impl PoolFacts {
    fn tell<T>(&self, worker: WorkerId, by: &[Known], what: impl Fn(&Sight) -> T) -> Option<T> {
        if by.contains(&self.known) { self.sights.get(&worker).map(what) } else { None }
    }
}

impl Facts for PoolFacts {
    fn sleeps(&mut self, worker: WorkerId) -> Option<bool> {
        self.tell(worker, &[Known::States], |sight| sight.sleeps)
    }

    fn cpu_time(&mut self, worker: WorkerId) -> Option<Duration> {
        self.tell(worker, &[Known::States, Known::Clocks], |sight| sight.cpu_time)
    }

    fn sleeps_so_far(&mut self, worker: WorkerId) -> Option<u64> {
        self.tell(worker, &[Known::States], |sight| sight.slept)
    }
}

impl Machine {
    /// Returns whether this thread sleeps. Waiting for a CPU is no sleep.
    pub(super) fn sleeps(&self, thread: ThreadId) -> bool {
        self.threads[thread].cpu.is_none() && !self.ready.contains(&thread)
    }

    /// Returns the facts about these workers of a pool.
    pub(super) fn facts(&self, workers: &BTreeMap<WorkerId, ThreadId>) -> PoolFacts {
        let sight = |(id, thread): (&WorkerId, &ThreadId)| {
            let slept = self.threads[*thread].slept;
            (*id, Sight { sleeps: self.sleeps(*thread), cpu_time: self.cpu_time(*thread), slept })
        };
        PoolFacts { known: self.config.known, sights: workers.iter().map(sight).collect() }
    }

    /// Called when a thread has given its CPU up by itself. Where the system reports sleeps, the manager then looks at
    /// a watched pool.
    pub(super) fn fell_asleep(&mut self, thread: ThreadId) {
        self.threads[thread].slept += 1;
        let cpu_time = self.cpu_time(thread);
        let Some(worker) = &mut self.threads[thread].worker else { return };
        worker.awake_from = cpu_time;
        let pool = worker.pool;
        if self.config.rules.is_told && self.pools[pool].looked_at {
            let latency = self.up_to(self.config.wake_latency);
            self.timers.set(self.now + latency, Timer::Told(pool));
        }
    }

    pub(super) fn told(&mut self, pool: PoolId) {
        if self.look.is_empty() {
            self.manager.told(|looked_at| *looked_at == pool, self.now);
        } else {
            // The manager learns of the sleep after its current look.
            self.timers.set(self.now + SOON, Timer::Told(pool));
        }
    }

    /// Enters or leaves a guard, as `engine/worker/guards.rs` does.
    pub(super) fn guard(&mut self, me: ThreadId, guard: Guard) {
        let worker = self.worker_mut(me);
        let (guards, weak) = (worker.guards, worker.weak_guards);
        match guard {
            Guard::Block => {
                worker.guards += 1;
                let (state, leaves) = if guards == 0 { worker.state.block() } else { (worker.state, false) };
                let pool = worker.pool;
                self.worker_mut(me).state = state;
                self.worker_mut(me).stretch += 1;
                if leaves {
                    self.then(me, [Op::Leave, Op::Look(pool)]);
                }
            }
            Guard::Unblock if guards > 0 => {
                worker.guards -= 1;
                if guards == 1 {
                    let (state, comes_back) = worker.state.unblock(weak > 0);
                    self.moved(me, state, comes_back);
                }
            }
            Guard::MayBlock => {
                worker.weak_guards += 1;
                if weak == 0 && guards == 0 {
                    let state = worker.state.enter_may_block();
                    self.moved(me, state, false);
                }
            }
            Guard::MayNotBlock if weak > 0 => {
                worker.weak_guards -= 1;
                if weak == 1 && guards == 0 {
                    let (state, comes_back) = worker.state.leave_may_block();
                    self.moved(me, state, comes_back);
                }
            }
            Guard::Unblock | Guard::MayNotBlock => {}
        }
    }

    fn moved(&mut self, me: ThreadId, state: crate::policy::worker::WorkerState, comes_back: bool) {
        let worker = self.worker_mut(me);
        worker.stretch += u64::from(worker.state != state);
        worker.state = state;
        if comes_back {
            self.then(me, [Op::ComeBack]);
        }
    }

    pub(super) fn end_guards(&mut self, me: ThreadId) {
        if std::mem::take(&mut self.worker_mut(me).weak_guards) != 0 {
            let (state, comes_back) = self.worker(me).state.leave_may_block();
            self.moved(me, state, comes_back);
        }
        if std::mem::take(&mut self.worker_mut(me).guards) != 0 {
            let (state, comes_back) = self.worker(me).state.unblock(false);
            self.moved(me, state, comes_back);
        }
    }

    pub(super) fn use_flag(&mut self, me: ThreadId, op: Op) {
        match op {
            Op::Await(flag) if !self.flags.entry(flag).or_default().set => {
                self.flags.entry(flag).or_default().waiters.push(me);
                self.record_own(me, What::Sleeps);
                self.then(me, [Op::Awake]);
                self.give_up_cpu(me);
                self.fell_asleep(me);
            }
            Op::Spin(flag) if !self.flags.entry(flag).or_default().set => {
                let spin = self.config.slice.unwrap_or(SPIN);
                self.then(me, [Op::Burn(spin), Op::Yield, Op::Spin(flag)]);
            }
            Op::Set(flag) => {
                let flag = self.flags.entry(flag).or_default();
                flag.set = true;
                let waiters = std::mem::take(&mut flag.waiters);
                waiters.into_iter().for_each(|thread| self.make_runnable(thread));
            }
            _ => {}
        }
    }
}
