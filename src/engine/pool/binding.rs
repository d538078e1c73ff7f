//! Where the workers of a pool run, at present: its own CPUs, or others while these are lost.
//!
//! Two parties bind a worker: itself, when it begins, and the manager, when the CPUs have changed. The newer of two
//! bindings must come last, and nobody be passed over:
//!
//! * The manager writes the new binding down, then takes the list of workers, then binds each.
//! * A worker reads the binding and binds itself, enters the list, and reads again: until nothing has changed since it
//!   read what it is bound by.
//!
//! If the manager's list has the worker, the manager binds it; and if the worker bound itself by the old binding after
//! that, it had read before the new one was written, so its next reading finds a change. If the list does not have it,
//! the worker entered after the new binding was written, and its next reading finds that.
//!
//! A thread is bound from outside only while it lives, and a rescuer only while it is lent: [`Worker::pin`] holds a lock
//! over the call, and the worker's end waits for that.

use std::sync::Arc;

use crate::policy::cpu_set::CpuSet;
use crate::policy::crew::{free_cpu, must_take, should_shed};
use crate::policy::worker::Phase;
use crate::sys::affinity;
use crate::sys::sync::Mutex;

use super::super::environment::Present;
use super::super::worker::Worker;
use super::door::Near;
use super::{Pool, PoolKind, Slot};

/// The binding of a pool.
#[derive(Debug)]
pub(crate) struct Binding {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// That of the change by which the pool goes.
    number: u64,
    cpus: CpuSet,
    /// Rescuers that serve the pool: they are none of its workers.
    guests: Vec<Arc<Worker>>,
}

/// What a thread is bound by: a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound(u64);

impl Binding {
    /// Of a new pool whose workers may run on these CPUs of the topology, and its target.
    pub(super) fn new(present: &Present, reach: &CpuSet) -> (Self, usize) {
        let share = present.cpus.share(reach);
        let state = State { number: present.number, cpus: share.binding, guests: Vec::new() };
        (Self { state: Mutex::new(state) }, share.target)
    }

    /// The real CPUs that its workers are bound to at present.
    pub(crate) fn cpus(&self) -> CpuSet {
        self.state.lock().cpus.clone()
    }

    /// The rescuers that serve the pool at the moment.
    pub(crate) fn guests(&self) -> Vec<Arc<Worker>> {
        self.state.lock().guests.clone()
    }

    /// A rescuer begins to serve the pool.
    pub(crate) fn enter(&self, guest: &Arc<Worker>) {
        self.state.lock().guests.push(Arc::clone(guest));
    }

    /// It has ended to.
    pub(crate) fn leave(&self, guest: &Arc<Worker>) {
        self.state.lock().guests.retain(|known| !Arc::ptr_eq(known, guest));
    }
}

impl Pool {
    /// Binds the calling thread, which works for the pool. What the system denies is told once and shown in dumps.
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
        // A CPU that was lost a moment ago is not denied: the manager will see that, too.
        self.core.denials.affinity(bound || self.core.environment.is_behind(), &cpus);
        Bound(number)
    }

    /// The calling thread can be found by others now, as a worker of the pool or a guest: what has changed before is
    /// made up for.
    pub(crate) fn keep_bound(&self, mut bound: Bound) {
        while bound != Bound(self.binding.state.lock().number) {
            bound = self.bind();
        }
    }

    /// The system may have put a worker, which is about to be woken, where it is not at home: then it begins at home.
    #[inline]
    pub(super) fn bring_home(&self, worker: &Worker) {
        if let Some(home) = self.left_home(worker) {
            self.bring_to(home, worker);
        }
    }

    /// The home of a worker that was seen elsewhere.
    #[inline]
    fn left_home(&self, worker: &Worker) -> Option<&CpuSet> {
        self.spec.home.as_ref().filter(|home| !home.contains(worker.cpu()))
    }

    /// Of its home, only what there is at present.
    #[cold]
    fn bring_to(&self, home: &CpuSet, worker: &Worker) {
        let home = home.intersection(&self.binding.state.lock().cpus);
        if !home.is_empty() {
            worker.place(&home, true);
        }
    }

    /// The calling thread, which is about to be a worker, is put into its pod before it is [bound](Self::bind) to where it
    /// may go from there. If that cannot be, it begins wherever it is.
    pub(crate) fn begin_at_home(&self) {
        if let Some(home) = &self.spec.home {
            let home = home.intersection(&self.binding.state.lock().cpus);
            drop(affinity::pin_to_set(&home));
        }
    }

    /// A worker that is about to be woken begins on this CPU, if the pool still has it. Where it ran last, the system would
    /// put it behind whoever runs there, and leave this one idle.
    pub(super) fn place_on(&self, cpu: usize, worker: &Worker) {
        if self.binding.state.lock().cpus.contains(cpu) {
            let comes_home = self.left_home(worker).is_some_and(|home| home.contains(cpu));
            worker.place(&CpuSet::single(cpu), comes_home);
            // Until it has begun, too, that CPU is taken.
            worker.seen_on(cpu);
        }
    }

    /// The calling worker was placed, and may go wherever the pool's workers may from there.
    #[cold]
    pub(crate) fn let_roam(&self) {
        let bound = self.bind();
        self.keep_bound(bound);
    }

    /// Takes over what has changed: its target, and where its workers run.
    ///
    /// They are bound in any case: for lost CPUs, the system may have bound them anew by itself.
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
        // There may be room for the work of siblings.
        self.seek(Near::Anywhere);
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.pin(&share.binding));
    }

    /// Binds again whom the system has bound to something else: it lets go of a thread that runs while its CPU goes, and
    /// a cpuset overwrites what threads are bound to.
    pub(crate) fn keep_workers_bound(&self) {
        let (cpus, mut threads) = {
            let state = self.binding.state.lock();
            (state.cpus.clone(), state.guests.clone())
        };
        threads.extend(self.workers());
        threads.iter().for_each(|worker| worker.keep_pinned(&cpus));
    }

    /// Whoever is about to leave this CPU wakes this worker: does it have to begin there? If the other one does not leave it
    /// after all, it waits there for the end of a time slice.
    pub(super) fn must_take(&self, left: usize, worker: &Worker) -> bool {
        self.has_several_cpus() && must_take(left, worker.cpu(), self.running.load())
    }

    /// More workers run than should: is it this one that leaves?
    #[cold]
    pub(crate) fn should_shed(&self, worker: &Worker) -> bool {
        if !self.has_several_cpus() {
            return true;
        }
        let state = self.state.lock();
        let others = state.cpus_of(|other| other.id != worker.id && other.cell.load().phase().is_counted());
        should_shed(worker.cpu(), others)
    }

    /// A CPU on which nobody counts, or is on the way, who was seen there last: this one, if that is so. At home, if the pool
    /// has one.
    pub(super) fn free_cpu(&self, preferred: usize) -> Option<usize> {
        let present = self.binding.cpus();
        let uses = |phase: Phase| phase.is_counted() || phase == Phase::Waking;
        let taken = self.state.lock().cpus_of(|worker| uses(worker.cell.load().phase())).collect();
        free_cpu(&present, self.spec.home.as_ref(), &taken, preferred)
    }

    /// Does anybody work here, or is about to? Not who waits inside a blocking guard: whoever returns from that says so.
    pub(crate) fn is_active(&self) -> bool {
        let at_work = |phase| !matches!(phase, Phase::Idle | Phase::Blocked | Phase::Exiting);
        let is_served = || !self.binding.state.lock().guests.is_empty();
        // Who leaves a guard is counted before its phase is seen.
        self.running.load().running() > 0
            || self.state.lock().workers.iter().filter_map(Slot::phase).any(at_work)
            || is_served()
    }
}

impl super::State {
    /// Where those workers were seen last of which this is true.
    fn cpus_of(&self, which: impl Fn(&Worker) -> bool + Clone) -> impl Iterator<Item = usize> + Clone {
        let workers = self.workers.iter().filter_map(Slot::worker);
        workers.filter(move |worker| which(worker)).map(|worker| worker.cpu())
    }
}
