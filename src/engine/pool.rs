//! One pool: a worklist, the workers that serve it, and the one door through which they are woken and made.
//!
//! `running` says whether a worker is wanted, `state.crew` says which. Whoever is told to wake somebody comes
//! through [`Pool::perform`]; nothing else unparks a worker or asks for one.
//!
//! | field | who may touch it |
//! |---|---|
//! | `running` | everybody, by its own transitions |
//! | `worklist` | everybody |
//! | `state` | its lock; never held across a wake-up or user code |
//! | `binding` | its own lock |
//! | `departures` | everybody: raised when a shard's route is turned away from the pool |
//! | `aside` | written under `state`'s lock, read by everybody: what the sideline shows |
//! | `starves` | a hint: the manager has found so; a worker that ends an item finds otherwise |

mod abandon;
mod binding;
mod distress;
mod door;
mod room;
mod scrutiny;
mod sharing;
mod sideline;
mod spec;
#[cfg(test)]
mod tests;
mod users;

use std::fmt;
use std::sync::{Arc, Weak};

use crossbeam_deque::Injector;
use crossbeam_utils::CachePadded;

use crate::policy::concurrency::{Kick, Reserved, Running};
use crate::policy::crew::{Crew, Prepare, Rest, WorkerId};
use crate::policy::pace::Pace;
use crate::policy::room::Famine;
use crate::policy::stall::StallWatch;
use crate::policy::time::Time;
use crate::policy::worker::{Phase, WorkerState};
use crate::protocol::route::Departures;
use crate::protocol::running::RunningCell;
use crate::protocol::sideline::{Shown, Sideline};
use crate::sys::sync::{Mutex, MutexGuard};
use crate::sys::{affinity, clock};

use super::class::Seat;
use super::core::Core;
use super::entry::Entry;
use super::shutdown::give_up;
use super::worker::Worker;

use self::binding::Binding;
use self::door::Near;
use self::room::Starving;
use self::scrutiny::is_watched;
pub(crate) use self::spec::{PoolKind, PoolSpec};

/// See the module.
pub(crate) struct Pool {
    pub(crate) spec: PoolSpec,
    pub(crate) core: Arc<Core>,
    pub(crate) running: CachePadded<RunningCell>,
    worklist: Injector<Entry>,
    pub(super) departures: Departures,
    aside: Shown,
    starves: Starving,
    /// Its place among siblings that take items from each other.
    seat: Option<Seat>,
    state: Mutex<State>,
    pub(crate) binding: Binding,
    /// Does it serve several CPUs, and does it matter on which of them its workers run?
    several_cpus: bool,
    /// Itself, to be handed to the manager.
    this: Weak<Self>,
}

struct State {
    crew: Crew,
    /// Entries that come before the worklist's: put back, or moved aside.
    sideline: Sideline<Entry>,
    /// How many entries others than its workers have taken.
    given: u64,
    /// Those whom this pool woke and who have not come, if siblings are to know of that.
    stall: StallWatch,
    /// For how long it has waited for a thread in vain.
    famine: Famine,
    /// How fast the pool may grow by what the detector finds. Written by the manager.
    pace: Pace,
    /// Since when it has started nothing, if that was told. Written by the manager.
    stalled_since: Option<Time>,
    /// By number; a slot without a worker is free, or reserved for one that is being made.
    workers: Vec<Slot>,
}

enum Slot {
    Free,
    Reserved,
    Worker(Arc<Worker>),
}

/// A pool as it was at one moment, for dumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolCounts {
    pub(crate) running: Running,
    pub(crate) workers: usize,
    pub(crate) idle: usize,
    pub(crate) creating: bool,
    pub(crate) pending: usize,
    /// Since when it has started nothing, if that was told.
    pub(crate) stalled_since: Option<Time>,
}

impl Pool {
    pub(crate) fn new(spec: PoolSpec, core: Arc<Core>, seat: Option<Seat>) -> Arc<Self> {
        let (binding, target) = Binding::new(&core.environment.present(), &spec.reach);
        let running = if spec.managed { Running::managed(target) } else { Running::unmanaged() };
        let running = if is_watched(&spec, &core.settings) { running } else { running.unwatchable() };
        let running = if seat.is_some() { running.sharing() } else { running };
        let limits = core.settings.crew_limits;
        let crew = if spec.is_bh() { Crew::of_one(limits) } else { Crew::new(limits) };
        Arc::new_cyclic(|this| Self {
            several_cpus: spec.managed && spec.cpus.len() > 1,
            binding,
            spec,
            running: CachePadded::new(RunningCell::new(running)),
            worklist: Injector::new(),
            departures: Departures::new(),
            aside: Shown::new(),
            starves: Starving::new(),
            seat,
            state: Mutex::new(State {
                crew,
                sideline: Sideline::new(),
                given: 0,
                stall: StallWatch::default(),
                famine: Famine::default(),
                pace: Pace::NEW,
                stalled_since: None,
                workers: Vec::new(),
            }),
            this: this.clone(),
            core,
        })
    }

    pub(crate) fn shared(&self) -> Arc<Self> {
        self.this.upgrade().expect("who has a reference has it from somebody who shares the pool")
    }

    /// Adds an entry at the end of the worklist.
    #[inline]
    pub(crate) fn submit(&self, entry: Entry) {
        let is_bound = entry.is_bound();
        self.push(entry);
        match self.running.pushed() {
            // No sibling may take what is bound, and what may be taken was offered when it came.
            Kick::Offer if is_bound => {}
            Kick::Watch if is_bound => self.ask_to_watch(),
            kick => self.perform(kick, Near::Anywhere),
        }
    }

    /// The first half of [`submit`](Self::submit): until the second one, nobody may come for the entry.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) {
        self.worklist.push(entry);
    }

    /// The second half, for the entry that this thread has pushed.
    #[inline]
    pub(crate) fn pushed(&self) {
        self.perform(self.running.pushed(), Near::Anywhere);
    }

    /// The second half, for so many entries: woken one by another, the last worker would come late.
    pub(crate) fn pushed_many(&self, entries: usize) {
        self.pushed();
        for _ in 1..entries {
            if !self.running.load().need_more_worker() {
                break;
            }
            self.pushed();
        }
        self.offer();
    }

    /// Adds an entry before all others.
    #[cold]
    pub(crate) fn put_back(&self, entry: Entry) {
        let put = self.state.lock().sideline.put_back(entry, &self.aside);
        if let Err(entry) = put {
            return give_up(entry);
        }
        self.perform(self.running.pushed(), Near::Anywhere);
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.aside.len() > 0 || !self.worklist.is_empty()
    }

    /// The same, also while entries are moved from one list to the other.
    #[cold]
    pub(crate) fn has_entries(&self) -> bool {
        let _state = self.state.lock();
        self.has_work()
    }

    /// How many entries lie on the worklist: a hint.
    pub(crate) fn pending(&self) -> usize {
        self.worklist.len() + self.aside.len() as usize
    }

    /// A new worker begins its life. It was counted in nothing so far.
    pub(crate) fn arrive(&self, worker: &Arc<Worker>) -> Rest {
        let now = clock::now();
        let mut state = self.state.lock();
        state.workers[worker.id as usize] = Slot::Worker(Arc::clone(worker));
        self.running.unshort();
        let rest = state.crew.arrived(worker.id, affinity::current_cpu(), now);
        self.settle(state, worker, &rest);
        rest
    }

    /// A worker has nothing to do. `counted`: it still counts as running, and stops to do so together with entering
    /// the idle stack, so that nobody who sees a free place finds no idle worker for it.
    pub(crate) fn rest(&self, worker: &Worker, counted: bool) -> Rest {
        let now = clock::now();
        let mut state = self.state.lock();
        if counted {
            self.running.leave();
        }
        let rest = state.crew.rest(worker.id, affinity::current_cpu(), now);
        self.settle(state, worker, &rest);
        rest
    }

    /// Can its workers run on different CPUs, and does it matter on which?
    #[inline]
    pub(crate) fn has_several_cpus(&self) -> bool {
        self.several_cpus
    }

    /// A woken worker takes its reservation.
    pub(crate) fn woken(&self) -> (Reserved, Prepare) {
        let mut state = self.state.lock();
        let look_at = self.came(&mut state, 1);
        let woken = state.crew.woken();
        drop(state);
        self.ask_for_a_look(look_at);
        woken
    }

    /// A worker that parks becomes idle in the same critical section in which the crew learns of it.
    fn settle(&self, mut state: MutexGuard<'_, State>, worker: &Worker, rest: &Rest) {
        let look_at = match rest {
            Rest::Park(_) => {
                if self.spec.home.is_some() || self.has_several_cpus() {
                    worker.note_cpu();
                }
                worker.cell.set_phase(Phase::Idle);
                None
            }
            Rest::Start(..) => self.came(&mut state, 1),
            Rest::Exit => None,
        };
        drop(state);
        self.ask_for_a_look(look_at);
    }

    /// A number for a worker that is about to be made.
    pub(crate) fn reserve_id(&self) -> WorkerId {
        let mut state = self.state.lock();
        let free = state.workers.iter().position(|slot| matches!(slot, Slot::Free));
        let at = free.unwrap_or_else(|| {
            state.workers.push(Slot::Free);
            state.workers.len() - 1
        });
        state.workers[at] = Slot::Reserved;
        at as WorkerId
    }

    /// Is the worker still to be made that the manager was asked for?
    pub(crate) fn begin_making(&self) -> bool {
        self.state.lock().crew.begin_making()
    }

    /// The worker that was asked for could not be made: is it still wanted?
    pub(crate) fn still_wants_worker(&self) -> bool {
        self.state.lock().crew.still_wanted()
    }

    /// A worker has left for good, or could not be made.
    pub(crate) fn left(&self, id: WorkerId) {
        self.state.lock().workers[id as usize] = Slot::Free;
    }

    /// Idle workers beyond the limits leave. Returns when to cull again.
    pub(crate) fn cull(&self, now: Time) -> Option<Time> {
        let mut state = self.state.lock();
        let cull = state.crew.cull(now);
        let leaving = state.send_away(&cull.leaving);
        drop(state);
        leaving.iter().for_each(|worker| worker.unpark());
        cull.again_at
    }

    /// What it is like, and its workers at that moment, each with its word.
    pub(crate) fn counts(&self) -> (PoolCounts, Vec<(Arc<Worker>, WorkerState)>) {
        let state = self.state.lock();
        let workers = state.workers.iter().filter_map(Slot::worker);
        let workers = workers.map(|worker| (Arc::clone(worker), worker.cell.load())).collect();
        let counts = PoolCounts {
            running: self.running.load(),
            workers: state.crew.alive(),
            idle: state.crew.idle(),
            creating: state.crew.is_creating(),
            pending: self.worklist.len() + state.sideline.len(),
            stalled_since: state.stalled_since,
        };
        (counts, workers)
    }

    /// Its workers.
    pub(crate) fn workers(&self) -> Vec<Arc<Worker>> {
        self.state.lock().workers.iter().filter_map(Slot::worker).map(Arc::clone).collect()
    }
}

impl State {
    fn worker(&self, id: WorkerId) -> &Arc<Worker> {
        self.workers[id as usize].worker().expect("the crew named a worker that is not there")
    }

    fn send_away(&self, ids: &[WorkerId]) -> Vec<Arc<Worker>> {
        let leaving: Vec<_> = ids.iter().map(|id| Arc::clone(self.worker(*id))).collect();
        leaving.iter().for_each(|worker| worker.cell.set_phase(Phase::Exiting));
        leaving
    }
}

impl Slot {
    fn worker(&self) -> Option<&Arc<Worker>> {
        match self {
            Self::Worker(worker) => Some(worker),
            Self::Free | Self::Reserved => None,
        }
    }

    fn phase(&self) -> Option<Phase> {
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
