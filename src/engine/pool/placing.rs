//! Binds the workers of a pool to the pool's CPUs, brings them back to their pod, and chooses the CPU where a woken
//! worker begins.
//!
//! Two threads bind a worker: the worker itself when it begins, and the manager when the CPUs have changed. The newer
//! binding must take effect last, and the manager must not miss a worker. So the two threads proceed like this:
//!
//! * The manager writes the new binding, then reads the list of workers, and then binds each worker.
//! * A worker reads the binding, binds itself, enters the list of workers, and reads the binding again. If the binding
//!   has changed, the worker binds itself and reads the binding again.
//!
//! If the manager finds the worker on the list, it binds the worker. A worker that has read the old binding may bind
//! itself to the old CPUs after the manager has bound it. In that case, the worker's next read of the binding finds the
//! change. If the manager does not find the worker on the list, the worker enters the list after the manager wrote the
//! new binding. So the worker's next read of the binding finds the change, too.
//!
//! The manager binds a thread only while the thread lives, and a rescuer only while the rescuer serves the pool. For
//! this purpose, [`Worker::pin`] holds a lock while it binds a thread, and a worker that ends waits for that lock.

use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::{free_cpu, must_take, should_shed};
use crate::policy::worker::Phase;
use crate::sys::affinity;

use crate::engine::executor::environment::Present;
use crate::engine::worker::shared::Worker;

use super::binding::{Bound, Near};
use super::spec::PoolKind;
use super::worker_pool::{Numbered, Pool, State};

impl Pool {
    /// Binds the calling thread, which works for the pool. If the system denies the binding, the denial is reported
    /// once, and shown in dumps.
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
        // If the binding fails because the CPU has just been lost, the failure is not a denial. The manager will notice
        // the loss.
        self.core.denials.affinity(bound || self.core.environment.is_behind(), &cpus);
        Bound(number)
    }

    /// Checks whether the pool's binding has changed since the calling thread was bound. If so, binds the thread again
    /// and repeats the check. Before this call, the thread has entered the list of workers or guests, on which the
    /// manager finds it.
    pub(crate) fn keep_bound(&self, mut bound: Bound) {
        while bound != Bound(self.binding.state.lock().number) {
            bound = self.bind();
        }
    }

    /// Before a worker is woken, sends it back to its home pod if the system has moved it elsewhere.
    #[inline]
    pub(super) fn bring_home(&self, worker: &Worker) {
        if let Some(home) = self.left_home(worker) {
            self.bring_to(home, worker);
        }
    }

    /// Returns the worker's home pod if the worker was last seen outside this pod.
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

    /// Binds the calling thread, which is about to become a worker, to its pod. Afterwards the caller
    /// [binds](Self::bind) the thread to all CPUs that the thread may use. The first binding has moved the thread to
    /// its pod, so the thread begins there. If the system denies the binding to the pod, the thread begins on the CPU
    /// where it is.
    pub(crate) fn begin_at_home(&self) {
        if let Some(home) = &self.spec.home {
            let home = home.intersection(&self.binding.state.lock().cpus);
            drop(affinity::pin_to_set(&home));
        }
    }

    /// Before a worker is woken, binds the worker to `cpu` if the pool still has this CPU. So the worker begins on
    /// `cpu`. Without this call, the system would put the worker on the CPU where it ran last, behind the thread that
    /// runs there, and `cpu` would stay idle.
    pub(super) fn place_on(&self, cpu: usize, worker: &Worker) {
        if self.binding.state.lock().cpus.contains(cpu) {
            let comes_home = self.left_home(worker).is_some_and(|home| home.contains(cpu));
            worker.place(&CpuSet::single(cpu), comes_home);
            // From now on this CPU counts as taken, even before the worker begins.
            worker.seen_on(cpu);
        }
    }

    /// Binds the calling worker to all CPUs of the pool's workers again, after it was placed on some of these CPUs.
    #[cold]
    pub(crate) fn let_roam(&self) {
        let bound = self.bind();
        self.keep_bound(bound);
    }

    /// Adopts a change of the CPUs: sets the pool's target, and binds the pool's workers.
    ///
    /// The workers are bound even if the pool's CPUs have not changed, because the system may have bound them to other
    /// CPUs. The system binds a thread to other CPUs when the thread loses all its CPUs.
    pub(crate) fn adapt(&self, present: &Present) {
        let share = self.spec.share(present);
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
        self.wake_for_rest();
        // After the change, the pool may have room for forks, and for items of siblings.
        self.look_for_forks(|| Near::Anywhere, true);
        self.seek(Near::Anywhere);
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.pin(&share.binding));
    }

    /// Rebinds all workers that the system has bound to other CPUs. The system binds a thread to other CPUs when the
    /// thread's CPU goes offline. A change of a cpuset also overwrites the bindings of threads.
    pub(crate) fn keep_workers_bound(&self) {
        let (cpus, mut threads) = {
            let state = self.binding.state.lock();
            (state.cpus.clone(), state.guests.clone())
        };
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.keep_pinned(&cpus));
    }

    /// Returns whether this worker must begin on the CPU `left`, which the waking thread is about to leave. If the
    /// waking thread does not leave `left` after all, the worker waits on that CPU for the end of a time slice.
    pub(super) fn must_take(&self, left: usize, worker: &Worker) -> bool {
        self.has_several_cpus() && must_take(left, worker.cpu(), self.running.load())
    }

    /// Returns whether this worker must go idle. The worker calls this function when more workers run than the pool's
    /// limit allows.
    #[cold]
    pub(crate) fn should_shed(&self, worker: &Worker) -> bool {
        if !self.has_several_cpus() {
            return true;
        }
        let state = self.state.lock();
        let others = state.cpus_of(|other| other.id != worker.id && other.cell.load().phase().is_counted());
        should_shed(worker.cpu(), others)
    }

    /// Returns a free CPU, which is `preferred` if that CPU is free. A CPU is not free if a worker that was last seen
    /// on this CPU counts as running, or is being woken. Considers only the present CPUs of the pool's home. If the
    /// home has no present CPU, considers all present CPUs.
    pub(super) fn free_cpu(&self, preferred: usize) -> Option<usize> {
        let present = self.binding.cpus();
        let uses = |phase: Phase| phase.is_counted() || phase == Phase::Waking;
        let taken = self.state.lock().cpus_of(|worker| uses(worker.cell.load().phase())).collect();
        free_cpu(&present, self.spec.home.as_ref(), &taken, preferred)
    }

    /// Returns whether a worker or a rescuer works for the pool, or is about to do so. A worker inside a blocking guard
    /// does not count, because it calls
    /// [`LiveEnvironment::active`](crate::engine::executor::environment::LiveEnvironment::active) when it leaves the
    /// guard.
    pub(crate) fn is_active(&self) -> bool {
        let at_work = |phase| !matches!(phase, Phase::Idle | Phase::Blocked | Phase::Exiting);
        let is_served = || !self.binding.state.lock().guests.is_empty();
        // A worker that leaves a guard raises the count of running workers before it changes its phase.
        self.running.load().running() > 0
            || self.state.lock().workers.iter().filter_map(Numbered::phase).any(at_work)
            || is_served()
    }
}

impl State {
    /// Returns the CPUs on which the workers that satisfy `which` were last seen.
    fn cpus_of(&self, which: impl Fn(&Worker) -> bool) -> impl Iterator<Item = usize> {
        let workers = self.workers.iter().filter_map(Numbered::worker);
        workers.filter(move |worker| which(worker)).map(|worker| worker.cpu())
    }
}
