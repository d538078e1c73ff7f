//! How the workers of a pool are bound to its CPUs, brought home, and placed on the CPU on which they begin.
//!
//! Two threads bind a worker: the worker itself when it begins, and the manager when the CPUs have changed. The newer
//! binding must take effect last, and no worker may be missed:
//!
//! * The manager writes the new binding down, then takes the list of workers, then binds each of them.
//! * A worker reads the binding, binds itself, enters the list, and reads the binding again. If it has changed, the
//!   worker binds itself and reads again.
//!
//! If the worker is on the manager's list, the manager binds it. If the worker then binds itself by the old binding,
//! it has read that before the new one was written, so its next read finds the change. If the worker is not on the
//! list, it enters after the new binding was written, and its next read finds the change.
//!
//! The manager binds a thread only while that lives, and a rescuer only while it serves the pool: [`Worker::pin`]
//! holds a lock during the call, and a worker that ends waits for that lock.

use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::{free_cpu, must_take, should_shed};
use crate::policy::worker::Phase;
use crate::sys::affinity;

use crate::engine::executor::environment::Present;
use crate::engine::worker::shared::Worker;

use super::binding::{Bound, Near};
use super::spec::PoolKind;
use super::worker_pool::{Pool, Slot, State};

impl Pool {
    /// Binds the calling thread, which works for the pool. A denial by the system is reported once and shown in
    /// dumps.
    pub(crate) fn bind(&self) -> Bound {
        let (number, cpus) = {
            let state = self.binding.state.lock();
            (state.number, state.cpus.clone())
        };
        let bound = match (self.spec.kind, cpus.first()) {
            (PoolKind::PerCpu { .. } | PoolKind::Bh { .. }, Some(cpu)) if cpus.len() == 1 => {
                affinity::pin_to_cpu(cpu)
            }
            _ => affinity::pin_to_set(&cpus).is_ok(),
        };
        // If the CPU was lost a moment ago, this is no denial: the manager will see that change, too.
        self.core.denials.affinity(bound || self.core.environment.is_behind(), &cpus);
        Bound(number)
    }

    /// Binds the calling thread again as long as the binding has changed since it was bound. The thread is on the
    /// list of workers or guests by now, so the manager finds it from here on.
    pub(crate) fn keep_bound(&self, mut bound: Bound) {
        while bound != Bound(self.binding.state.lock().number) {
            bound = self.bind();
        }
    }

    /// Makes a worker that is about to be woken begin in its home, if the system has moved it elsewhere.
    #[inline]
    pub(super) fn bring_home(&self, worker: &Worker) {
        if let Some(home) = self.left_home(worker) {
            self.bring_to(home, worker);
        }
    }

    /// Returns the worker's home, if the worker was last seen elsewhere.
    #[inline]
    fn left_home(&self, worker: &Worker) -> Option<&CpuSet> {
        self.spec.home.as_ref().filter(|home| !home.contains(worker.cpu()))
    }

    /// Binds the worker to those CPUs of its home that the pool has at present.
    #[cold]
    fn bring_to(&self, home: &CpuSet, worker: &Worker) {
        let home = home.intersection(&self.binding.state.lock().cpus);
        if !home.is_empty() {
            worker.place(&home, true);
        }
    }

    /// Binds the calling thread, which is about to be a worker, to its pod. Afterwards it is [bound](Self::bind) to
    /// all CPUs that it may use, and begins in the pod. If the system denies this, it begins wherever it is.
    pub(crate) fn begin_at_home(&self) {
        if let Some(home) = &self.spec.home {
            let home = home.intersection(&self.binding.state.lock().cpus);
            drop(affinity::pin_to_set(&home));
        }
    }

    /// Makes a worker that is about to be woken begin on this CPU, if the pool still has it. Otherwise the system
    /// would put the worker where it ran last, behind the thread that runs there now, and leave this CPU idle.
    pub(super) fn place_on(&self, cpu: usize, worker: &Worker) {
        if self.binding.state.lock().cpus.contains(cpu) {
            let comes_home = self.left_home(worker).is_some_and(|home| home.contains(cpu));
            worker.place(&CpuSet::single(cpu), comes_home);
            // From now on this CPU counts as taken, even before the worker begins.
            worker.seen_on(cpu);
        }
    }

    /// Lets the calling worker, which was placed, go to all CPUs of the pool's workers.
    #[cold]
    pub(crate) fn let_roam(&self) {
        let bound = self.bind();
        self.keep_bound(bound);
    }

    /// Takes over a change of the CPUs: the pool's target, and where its workers run.
    ///
    /// The workers are bound even if the pool's CPUs are the same: when a thread loses all its CPUs, the system may
    /// bind it to others.
    pub(crate) fn adapt(&self, present: &Present) {
        let share = present.cpus.share(&self.spec.reach);
        let (kick, mut threads) = {
            let mut state = self.binding.state.lock();
            if present.number <= state.number {
                return;
            }
            state.number = present.number;
            state.cpus = share.binding.clone();
            (self.running.retarget(share.target, || self.has_work()), state.guests.clone())
        };
        self.perform(kick, Near::Anywhere);
        // There may be room now for the work of siblings.
        self.seek(Near::Anywhere);
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.pin(&share.binding));
    }

    /// Binds those workers again that the system has bound to other CPUs. The system does so to a thread that runs on
    /// a CPU that goes offline. A change of a cpuset also overwrites what threads are bound to.
    pub(crate) fn keep_workers_bound(&self) {
        let (cpus, mut threads) = {
            let state = self.binding.state.lock();
            (state.cpus.clone(), state.guests.clone())
        };
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.keep_pinned(&cpus));
    }

    /// Returns whether this worker must begin on the CPU `left`, which the thread that wakes it is about to leave. If
    /// that thread stays after all, the worker waits there for the end of a time slice.
    pub(super) fn must_take(&self, left: usize, worker: &Worker) -> bool {
        self.has_several_cpus() && must_take(left, worker.cpu(), self.running.load())
    }

    /// Called when more workers run than should. Returns whether this worker is the one that leaves.
    #[cold]
    pub(crate) fn should_shed(&self, worker: &Worker) -> bool {
        if !self.has_several_cpus() {
            return true;
        }
        let state = self.state.lock();
        let others = state.cpus_of(|other| other.id != worker.id && other.cell.load().phase().is_counted());
        should_shed(worker.cpu(), others)
    }

    /// Returns a free CPU: none of the workers last seen there counts as running, or is being woken. Takes
    /// `preferred` if it is free. Of the CPUs that are present, considers only those of the pool's home, if there are
    /// any.
    pub(super) fn free_cpu(&self, preferred: usize) -> Option<usize> {
        let present = self.binding.cpus();
        let uses = |phase: Phase| phase.is_counted() || phase == Phase::Waking;
        let taken = self.state.lock().cpus_of(|worker| uses(worker.cell.load().phase())).collect();
        free_cpu(&present, self.spec.home.as_ref(), &taken, preferred)
    }

    /// Returns whether a worker or a rescuer works here, or is about to. A worker inside a blocking guard does not
    /// count: it calls [`LiveEnvironment::active`](crate::engine::executor::environment::LiveEnvironment::active) when
    /// it returns.
    pub(crate) fn is_active(&self) -> bool {
        let at_work = |phase| !matches!(phase, Phase::Idle | Phase::Blocked | Phase::Exiting);
        let is_served = || !self.binding.state.lock().guests.is_empty();
        // A worker that leaves a guard raises the count before it changes its phase.
        self.running.load().running() > 0
            || self.state.lock().workers.iter().filter_map(Slot::phase).any(at_work)
            || is_served()
    }
}

impl State {
    /// Returns the CPUs on which the workers that satisfy `which` were last seen.
    fn cpus_of(&self, which: impl Fn(&Worker) -> bool + Clone) -> impl Iterator<Item = usize> + Clone {
        let workers = self.workers.iter().filter_map(Slot::worker);
        workers.filter(move |worker| which(worker)).map(|worker| worker.cpu())
    }
}
