//! One pool: a worklist, and the workers that serve it. Only the code in `wake` wakes workers and asks for new ones.
//!
//! `running` decides whether a worker is wanted, and `state.idle_set` decides which worker. Each reservation goes
//! through `Pool::wake`, which unparks an idle worker for the reservation or asks the manager for a new one.

use std::fmt;
use std::sync::{Arc, Weak};

use crossbeam_utils::CachePadded;

use crate::policy::concurrency::{Reserved, Running};
use crate::policy::idle_set::{IdleSet, Prepare, Rest, WorkerId};
use crate::policy::known_deadlines::KnownDeadlines;
use crate::policy::late::LateWorkers;
use crate::policy::locks::Rank;
use crate::policy::pace::Pace;
use crate::policy::parts::Division;
use crate::policy::room::Famine;
use crate::policy::time::Time;
use crate::policy::worker::{Phase, WorkerState};
use crate::protocol::crowded::CrowdedCell;
use crate::protocol::forks::ForkBits;
use crate::protocol::route::RouteEpoch;
use crate::protocol::running::RunningCell;
use crate::protocol::search::SearchCell;
use crate::protocol::sideline::{Shown, Sideline};
use crate::sys::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::sys::{affinity, clock};

use crate::engine::executor::core::Core;
use crate::engine::item::entry::Entry;
use crate::engine::worker::shared::Worker;

use super::binding::Binding;
use super::class::Seat;
use super::parts::Worklist;
use super::spec::PoolSpec;

/// A worker pool: a worklist, and the workers that serve it.
pub(crate) struct Pool {
    pub(crate) spec: PoolSpec,                    // I
    pub(crate) core: Arc<Core>,                   // I
    pub(crate) running: CachePadded<RunningCell>, // A
    pub(crate) worklist: Worklist,                // A
    /// The number of times that a shard's route (the way of its entries to a pool) was turned away from this pool.
    pub(crate) route_epoch: RouteEpoch, // A
    /// The numbers that the sideline shows to threads without the lock. Each worker reads these numbers between its
    /// items, so the numbers have a cache line of their own, apart from fields that are written more often.
    pub(super) aside: CachePadded<Shown>, // A, written under S
    /// Whether the pool starves. The manager writes this hint, and so does a worker that finds that the pool no longer
    /// starves.
    pub(super) starves: Starving, // A
    /// A hint that names the worker that searches for work before it sleeps.
    pub(crate) search: SearchCell, // A
    /// A hint that names a worker that has more local entries than it needs.
    pub(super) crowded: CrowdedCell, // A
    /// A hint that names the workers that may have forks.
    pub(super) forks: ForkBits, // A
    /// The number of the pool's threads that wait for forks.
    pub(super) joining: AtomicU64, // A
    /// The pool's place among the siblings with which it shares items.
    pub(super) seat: Option<Seat>, // I
    /// No thread holds this lock while it wakes another thread or runs user code.
    pub(super) state: Mutex<State>, // S
    pub(crate) binding: Binding,                  // K
    /// Whether the pool is managed and serves several CPUs. If so, it matters on which of these CPUs its workers run.
    pub(super) several_cpus: bool, // I
    /// A reference to the pool itself, for requests to the manager.
    pub(super) this: Weak<Self>, // I
}

/// The state that the pool's lock, `S`, protects.
pub(super) struct State {
    pub(super) idle_set: IdleSet,
    /// The entries that were put back or moved aside, and the lines of weighted queues. Entries that were put back or
    /// moved aside come before the entries of the worklist.
    pub(super) sideline: Sideline<Entry>,
    /// The number of entries that siblings and rescuers have taken.
    pub(super) given: u64,
    /// The woken workers that have not arrived yet. This field is used only if the pool has siblings.
    pub(super) late: LateWorkers,
    /// The deadlines of which the manager was told.
    pub(super) known_deadlines: KnownDeadlines,
    /// The time for which the pool has waited for a thread and begun no item.
    pub(super) famine: Famine,
    /// The limit on how fast the pool may grow when the detector finds workers to replace. The manager writes this
    /// field.
    pub(super) pace: Pace,
    /// The time since which the pool has started no item, or `None` if no stall of the pool was reported. The manager
    /// writes this field.
    pub(super) stalled_since: Option<Time>,
    /// The workers by number. An element without a worker is free, or reserved for a worker that is being made.
    pub(super) workers: Vec<Numbered>,
}

/// Whether a worker number is free, reserved, or taken by a worker.
pub(super) enum Numbered {
    Free,
    Reserved,
    Worker(Arc<Worker>),
}

/// Whether the pool starved at the manager's last check, and whether a worker has since told the manager that the pool
/// no longer starves. For a worker that is busy, this value is only a hint. An outdated value costs a needless change
/// of threads or a needless request.
pub(super) struct Starving(pub(super) AtomicUsize);

impl Starving {
    pub(super) const NO: usize = 0;
    pub(super) const YES: usize = 1;
    pub(super) const TOLD: usize = 2;

    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(Self::NO))
    }

    /// Notes whether the pool starves. The manager calls this function, and checks the pool again after each request
    /// for a worker. The store is a release, and pairs with `Pool::give_up_one_to_another`.
    pub(super) fn note(&self, starves: bool) {
        self.0.store(if starves { Self::YES } else { Self::NO }, Ordering::Release);
    }
}

/// The state of a pool at one moment, for dumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolCounts {
    pub(crate) running: Running,
    pub(crate) workers: usize,
    pub(crate) idle: usize,
    pub(crate) creating: bool,
    pub(crate) pending: usize,
    /// The time since which the pool has started no item, or `None` if no stall of the pool was reported.
    pub(crate) stalled_since: Option<Time>,
}

impl Pool {
    pub(crate) fn new(spec: PoolSpec, core: Arc<Core>, seat: Option<Seat>) -> Arc<Self> {
        let (binding, target) = Binding::new(&core.environment.present(), &spec);
        let running = if spec.managed { Running::managed(target) } else { Running::unmanaged() };
        let running = if spec.is_watched(&core.settings.rules()) { running } else { running.unwatchable() };
        let running = if seat.is_some() { running.sharing() } else { running };
        let limits = core.settings.idle_limits;
        let idle_set = if spec.is_bh() { IdleSet::of_one(limits) } else { IdleSet::new(limits) };
        let several_cpus = spec.managed && spec.cpus.len() > 1;
        Arc::new_cyclic(|this| Self {
            several_cpus,
            worklist: Worklist::new(if several_cpus { Division::new(&spec.cpus) } else { Division::WHOLE }),
            binding,
            spec,
            running: CachePadded::new(RunningCell::new(running)),
            route_epoch: RouteEpoch::new(),
            aside: CachePadded::new(Shown::new()),
            starves: Starving::new(),
            search: SearchCell::new(),
            crowded: CrowdedCell::new(),
            forks: ForkBits::new(),
            joining: AtomicU64::new(0),
            seat,
            state: Mutex::ranked(
                Rank::Pool,
                State {
                    idle_set,
                    sideline: Sideline::new(),
                    given: 0,
                    late: LateWorkers::default(),
                    known_deadlines: KnownDeadlines::default(),
                    famine: Famine::default(),
                    pace: Pace::NEW,
                    stalled_since: None,
                    workers: Vec::new(),
                },
            ),
            this: this.clone(),
            core,
        })
    }

    pub(crate) fn shared(&self) -> Arc<Self> {
        self.this.upgrade().expect("a reference to a pool comes from an `Arc` of it")
    }

    /// Adds a worker whose thread has begun. Returns what the worker does next. The worker does not count as running
    /// yet.
    pub(crate) fn arrive(&self, worker: &Arc<Worker>) -> Rest {
        let now = clock::now();
        let mut state = self.state.lock();
        state.workers[worker.id as usize] = Numbered::Worker(Arc::clone(worker));
        self.running.unshort();
        let rest = state.idle_set.arrived(worker.id, affinity::current_cpu(), now);
        let next = state.idle_set.next_ahead();
        self.settle(state, worker, &rest);
        if next == Prepare::CreateSpare {
            self.ask_for_worker();
        }
        rest
    }

    /// Makes workers before the pool has work for them.
    pub(crate) fn prestart(&self) {
        let first = self.state.lock().idle_set.prestart();
        if first == Prepare::CreateSpare && !self.ask_for_worker() {
            self.no_worker_comes();
        }
    }

    /// Returns what the calling worker, which has no item, does next. `counted` says whether the worker still counts as
    /// running. A worker that still counts leaves the count of running workers in the same critical section in which it
    /// becomes idle. So a thread that sees the lower count finds the idle worker.
    pub(crate) fn rest(&self, worker: &Worker, counted: bool) -> Rest {
        let now = clock::now();
        let mut state = self.state.lock();
        if counted {
            self.running.leave();
        }
        let rest = state.idle_set.rest(worker.id, affinity::current_cpu(), now);
        self.settle(state, worker, &rest);
        rest
    }

    /// Returns whether the pool is managed and serves several CPUs. If so, it matters on which of these CPUs its
    /// workers run.
    #[inline]
    pub(crate) fn has_several_cpus(&self) -> bool {
        self.several_cpus
    }

    /// Returns whether it matters on which CPU a worker begins an item.
    #[inline]
    pub(crate) fn has_home_or_several_cpus(&self) -> bool {
        self.several_cpus || self.spec.home.is_some()
    }

    /// Takes the reservation of a woken worker. Returns the reservation, and what the worker does before it begins.
    pub(crate) fn woken(&self) -> (Reserved, Prepare) {
        let mut state = self.state.lock();
        self.came(&mut state, 1);
        let woken = state.idle_set.woken();
        let deadline = state.unknown_deadline();
        drop(state);
        self.tell_deadline(deadline);
        woken
    }

    /// Carries out the idle set's decision about a worker. A worker that parks sets its phase to idle in the same
    /// critical section in which the idle set records it as idle.
    fn settle(&self, mut state: MutexGuard<'_, State>, worker: &Worker, rest: &Rest) {
        match rest {
            Rest::Park => {
                if self.spec.home.is_some() || self.has_several_cpus() {
                    worker.note_cpu();
                }
                worker.cell.set_phase(Phase::Idle);
            }
            Rest::Start(..) => self.came(&mut state, 1),
            Rest::Exit => {}
        }
        let deadline = state.unknown_deadline();
        drop(state);
        self.tell_deadline(deadline);
    }

    /// Reserves a number for a worker that is about to be made.
    pub(crate) fn reserve_id(&self) -> WorkerId {
        let mut state = self.state.lock();
        let free = state.workers.iter().position(|number| matches!(number, Numbered::Free));
        let at = free.unwrap_or_else(|| {
            state.workers.push(Numbered::Free);
            state.workers.len() - 1
        });
        state.workers[at] = Numbered::Reserved;
        at as WorkerId
    }

    /// Returns whether the manager now makes the worker that it was asked for. The manager makes the worker if the pool
    /// still wants one, and if the manager is not making it already.
    pub(crate) fn begin_making(&self) -> bool {
        self.state.lock().idle_set.begin_making()
    }

    /// Notes that the manager could not make the worker that it was asked for. Returns whether the worker is still
    /// wanted.
    pub(crate) fn still_wants_worker(&self) -> bool {
        self.state.lock().idle_set.still_wanted()
    }

    /// Frees the number of a worker that has left, or could not be made.
    pub(crate) fn left(&self, id: WorkerId) {
        self.state.lock().workers[id as usize] = Numbered::Free;
    }

    /// Returns the state of the pool at one moment, and each of its workers with its state word.
    pub(crate) fn counts(&self) -> (PoolCounts, Vec<(Arc<Worker>, WorkerState)>) {
        let state = self.state.lock();
        let workers = state.workers.iter().filter_map(Numbered::worker);
        let workers = workers.map(|worker| (Arc::clone(worker), worker.cell.load())).collect();
        let counts = PoolCounts {
            running: self.running.load(),
            workers: state.idle_set.alive(),
            idle: state.idle_set.idle(),
            creating: state.idle_set.is_creating(),
            pending: self.worklist.len() + state.sideline.len() + state.local(),
            stalled_since: state.stalled_since,
        };
        (counts, workers)
    }

    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.state.lock().workers.iter().filter_map(Numbered::worker).map(Arc::clone).collect()
    }
}

impl State {
    pub(super) fn worker(&self, id: WorkerId) -> &Arc<Worker> {
        self.workers[id as usize].worker().expect("the idle set named a worker that is not there")
    }

    pub(super) fn send_away(&self, ids: &[WorkerId]) -> Vec<Arc<Worker>> {
        let leaving: Vec<_> = ids.iter().map(|id| Arc::clone(self.worker(*id))).collect();
        leaving.iter().for_each(|worker| worker.cell.set_phase(Phase::Exiting));
        leaving
    }
}

impl Numbered {
    pub(super) fn worker(&self) -> Option<&Arc<Worker>> {
        match self {
            Self::Worker(worker) => Some(worker),
            Self::Free | Self::Reserved => None,
        }
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        Some(self.worker()?.cell.load().phase())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("kind", &self.spec.kind)
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}
