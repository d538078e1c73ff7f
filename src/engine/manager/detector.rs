//! The detector: the manager's view of the workers of watched pools. The detector supplies the facts for
//! [`policy::blocking_detector`](crate::policy::blocking_detector).
//!
//! The manager's thread owns the detector. For a worker, the detector opens an *eye* and a *ring*. The detector reads
//! the state of the worker's thread through the eye, which is a descriptor. The system's scheduler writes records of
//! the thread's context switches to the ring. While a pool is watched, its workers' eyes and rings are opened as soon
//! as they are needed. The eyes and rings are closed when the watch ends. So an idle executor keeps no eye and no ring
//! open.
//!
//! Only the state of a worker's thread proves that the worker sleeps. A record in the ring only tells the manager when
//! to check. The record says that the thread gave its CPU away, but by now the thread may have a CPU again. However, a
//! ring can prove that a worker is awake. The manager empties all rings in each round.
//!
//! A worker sleeps for a good reason if it is inside a guard or has no item. The manager ignores the ring of a worker
//! that sleeps for a good reason, until a check finds the worker at work again. So a worker that only sleeps for good
//! reasons wakes the manager at most once between two checks. Rare checks suffice only while the rings of all workers
//! with items can wake the manager. So if a ring cannot wake the manager any more, the next check comes soon. While the
//! rings together give too many false alarms, the manager ignores all rings, opens no further rings, and checks often
//! instead.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::alarms::{FalseAlarms, Hearing};
use crate::policy::blocking_detector::Facts;
use crate::policy::detection::Detection;
use crate::policy::idle_set::WorkerId;
use crate::policy::time::Time;
use crate::policy::watch::Look;
use crate::policy::worker::Phase;
use crate::sys::affinity;
use crate::sys::probe::Probe;
use crate::sys::switches::{Ring, Switch};
use crate::sys::thread_state::{Eye, Seen};

use crate::engine::executor::settings::Settings;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::shared::Worker;

use super::detection::Shortfall;

/// At most this many eyes are kept open. For every further worker, each check opens a new eye.
const KEPT_EYES: usize = 64;

/// At most this many rings are open. Each ring takes up to two descriptors, and a process is often limited to about a
/// thousand descriptors.
const KEPT_RINGS: usize = 64;

/// The detector of one manager.
#[derive(Debug)]
pub(crate) struct Detector {
    probe: Probe,
    /// Whether the detector opens rings, which can wake the manager.
    listens: bool,
    pools: Vec<Watched>,
    /// The total number of eyes that are kept open, over all pools.
    kept: usize,
    /// The recent false alarms of all rings together.
    false_alarms: FalseAlarms,
}

/// A watched pool, and those of its workers that have been checked.
#[derive(Debug)]
struct Watched {
    pool: Weak<Pool>,
    sights: Vec<Sight>,
    /// Whether the pool is being checked for the first time. No ring is opened before the second check, because most
    /// watched pools are quiet by the second check.
    is_new: bool,
}

#[derive(Debug)]
struct Sight {
    worker: Arc<Worker>,
    eye: Option<Eye>,
    ear: Ear,
}

/// The reason why a ring makes the manager check the worker's pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Told {
    /// The worker's ring cannot wake the manager any more, so the worker's next sleep may go unnoticed. The worker may
    /// also be asleep in a `may_block` guard now.
    Deaf,
    /// The worker is asleep, although it should be awake.
    Sleeps,
}

/// Whether the system records a worker's context switches.
#[derive(Debug)]
enum Ear {
    /// No ring is open, and the system has refused no ring for this worker.
    None,
    Opened(Box<Listening>),
    /// The system has refused a ring, or the ring could not be read.
    Denied,
}

#[derive(Debug)]
struct Listening {
    ring: Ring,
    /// Whether the ring can wake the manager.
    heeded: bool,
    /// Whether the ring was opened after the last check. If the thread fell asleep between that check and the opening,
    /// the ring has no record of this sleep.
    is_new: bool,
}

impl Listening {
    fn new(ring: Ring) -> Self {
        Self { ring, heeded: true, is_new: true }
    }

    /// Notes that the present check found the worker at work.
    fn go_on(&mut self) {
        self.is_new = false;
        self.heeded = true;
    }
}

/// The facts about the workers of one pool.
pub(crate) struct PoolFacts<'a> {
    probe: Probe,
    watched: &'a mut Watched,
    kept: &'a mut usize,
    workers: &'a [Arc<Worker>],
    shortfall: &'a Shortfall,
}

impl Detector {
    pub(crate) fn new(settings: &Settings) -> Self {
        let listens = settings.detection == Detection::Switches;
        Self { probe: settings.probe, listens, pools: Vec::new(), kept: 0, false_alarms: FalseAlarms::NEW }
    }

    /// Returns the facts about a pool. `workers` are the pool's workers, sorted by number.
    pub(crate) fn facts<'a>(
        &'a mut self,
        pool: &Weak<Pool>,
        workers: &'a [Arc<Worker>],
        shortfall: &'a Shortfall,
    ) -> PoolFacts<'a> {
        let at = self.find(pool).unwrap_or_else(|| {
            self.pools.push(Watched { pool: pool.clone(), sights: Vec::new(), is_new: true });
            self.pools.len() - 1
        });
        let watched = &mut self.pools[at];
        // The detector forgets a worker that has left the pool, even if another worker has the number of the worker
        // that left.
        let stays = |sight: &Sight| {
            let at = workers.binary_search_by_key(&sight.worker.id, |worker| worker.id);
            at.is_ok_and(|at| Arc::ptr_eq(&workers[at], &sight.worker))
        };
        let before = watched.kept();
        watched.sights.retain(stays);
        self.kept -= before - watched.kept();
        PoolFacts { probe: self.probe, watched, kept: &mut self.kept, workers, shortfall }
    }

    /// Forgets this pool, which is no longer watched, and all pools that no longer exist.
    pub(crate) fn forget(&mut self, pool: &Weak<Pool>) {
        self.pools.retain(|watched| !watched.pool.ptr_eq(pool) && watched.pool.strong_count() > 0);
        self.kept = self.pools.iter().map(Watched::kept).sum();
    }

    /// Listens, through their rings, to the workers that the last check of the pool found at work. If the system may
    /// fail to report the next sleep of one of these workers, returns the time after which the manager must check the
    /// pool again.
    pub(crate) fn listen(
        &mut self,
        pool: &Weak<Pool>,
        look: &Look,
        shortfall: &Shortfall,
    ) -> Option<Duration> {
        let at = self.find(pool).filter(|_| self.listens)?;
        let mut room = KEPT_RINGS.saturating_sub(self.pools.iter().map(Watched::rings).sum());
        let watched = &mut self.pools[at];
        if std::mem::take(&mut watched.is_new) {
            return Hearing::New.check_within(look.shares);
        }
        // After too many false alarms, the detector ignores all rings for a number of checks. Checks of pools without
        // rings count, too. Otherwise the detector could ignore all rings for ever, once the ignored rings are closed.
        // (They are closed when the watch of their pool ends.)
        self.false_alarms = self.false_alarms.checked();
        let mut look_in = None;
        for sight in &mut watched.sights {
            let word = look.workers.binary_search_by_key(&sight.worker.id, |(id, _)| *id);
            let phase = word.map_or(Phase::Idle, |at| look.workers[at].1.phase());
            if !matches!(phase, Phase::Running | Phase::Asleep) {
                sight.ignore();
                continue;
            }
            let is_there = !matches!(sight.ear, Ear::None);
            let hearing = if self.false_alarms.is_ignored() {
                sight.ignore();
                Hearing::Ignored
            } else if !is_there && room == 0 {
                Hearing::NoRoom
            } else {
                let runs = phase == Phase::Running && sight.is_elsewhere();
                if let Err(error) = sight.listen(self.probe, runs) {
                    let tell = || format!("not every worker's context switches can be recorded: {error}");
                    shortfall.note(tell);
                }
                room -= usize::from(!is_there && sight.ear.ring().is_some());
                sight.ear.hearing()
            };
            look_in = look_in.into_iter().chain(hearing.check_within(look.shares)).min();
        }
        look_in
    }

    /// Closes the rings of the workers of a brisk or covered pool. These workers sleep and wake up again and again, and
    /// each context switch of a worker with a ring costs time.
    pub(crate) fn stop_listening(&mut self, pool: &Weak<Pool>) {
        let Some(at) = self.find(pool) else { return };
        let sights = &mut self.pools[at].sights;
        sights
            .iter_mut()
            .filter(|sight| matches!(sight.ear, Ear::Opened(_)))
            .for_each(|sight| sight.ear = Ear::None);
    }

    /// Returns the rings that can wake the manager.
    pub(crate) fn rings(&self) -> Vec<&Ring> {
        self.pools.iter().flat_map(|watched| &watched.sights).filter_map(|sight| sight.ear.ring()).collect()
    }

    /// Empties all rings. Returns the pools that the manager must check because of their rings. `early` is the present
    /// time if a ring may have woken the manager, or `None` if the manager has slept for as long as it had planned.
    pub(super) fn told(&mut self, early: Option<Time>, shortfall: &Shortfall) -> Vec<(Weak<Pool>, Told)> {
        let (probe, alarms) = (self.probe, &mut self.false_alarms);
        let told = |watched: &mut Watched| {
            Some((watched.pool.clone(), watched.told(early, probe, alarms, shortfall)?))
        };
        self.pools.iter_mut().filter_map(told).collect()
    }

    fn find(&self, pool: &Weak<Pool>) -> Option<usize> {
        self.pools.iter().position(|watched| watched.pool.ptr_eq(pool))
    }
}

impl Watched {
    fn rings(&self) -> usize {
        self.sights.iter().filter(|sight| matches!(sight.ear, Ear::Opened(_))).count()
    }

    fn kept(&self) -> usize {
        self.sights.iter().filter(|sight| sight.eye.is_some()).count()
    }

    /// Empties all rings of the pool. Returns the most urgent reason for a check of the pool, if there is one.
    fn told(
        &mut self,
        early: Option<Time>,
        probe: Probe,
        alarms: &mut FalseAlarms,
        shortfall: &Shortfall,
    ) -> Option<Told> {
        let told = |sight: &mut Sight| {
            sight.told(early, probe, alarms).unwrap_or_else(|error| {
                shortfall.note(|| format!("a worker's context switches cannot be read any more: {error}"));
                Some(Told::Deaf)
            })
        };
        self.sights.iter_mut().filter_map(told).max()
    }
}

impl Sight {
    /// Returns whether the worker was last seen on a CPU other than the caller's. A worker on the caller's CPU cannot
    /// be running while the caller runs.
    fn is_elsewhere(&self) -> bool {
        affinity::current_cpu() != Some(self.worker.cpu())
    }

    /// Listens to the worker through a ring, unless the system refuses a ring. `runs` says whether the worker is
    /// running at the moment. Returns an error only when the system refuses a ring of this worker for the first time.
    fn listen(&mut self, probe: Probe, runs: bool) -> io::Result<()> {
        match &mut self.ear {
            Ear::None => {
                // A worker that has left the pool has no thread to listen to.
                let Some(ring) = self.worker.with_thread(|thread| probe.attach(thread, runs)) else {
                    return Ok(());
                };
                self.ear = Ear::Denied;
                let listening = ring.map(Listening::new)?;
                self.ear = Ear::Opened(Box::new(listening));
            }
            Ear::Opened(listening) => listening.go_on(),
            Ear::Denied => {}
        }
        Ok(())
    }

    /// Ignores the ring of a worker that sleeps for a good reason. A ring can tell the kind of a record only if every
    /// earlier record was read, so an ignored ring stays open.
    fn ignore(&mut self) {
        if let Ear::Opened(listening) = &mut self.ear {
            listening.heeded = false;
        }
    }

    /// Empties the worker's ring. If the ring is a reason to check the worker's pool, returns the reason. If the ring
    /// cannot be read, closes the ring and returns the error.
    fn told(
        &mut self,
        early: Option<Time>,
        probe: Probe,
        alarms: &mut FalseAlarms,
    ) -> io::Result<Option<Told>> {
        let Ear::Opened(listening) = &mut self.ear else { return Ok(None) };
        let was_heeded = listening.heeded;
        let mut last = None;
        if let Err(error) = probe.drain(&mut listening.ring, |switch| last = Some(switch)) {
            self.ear = Ear::Denied;
            return Err(error);
        }
        let slept = last == Some(Switch::Slept);
        let sleeps = slept && self.worker.cell.load().phase() == Phase::Running;
        if sleeps {
            *alarms = FalseAlarms::NEW;
        } else if slept {
            // The worker sleeps for a good reason, so its ring is ignored until the worker is at work again.
            listening.heeded = false;
        } else if let Some(now) = early.filter(|_| last.is_some()) {
            // The ring woke the manager although the worker does not sleep.
            *alarms = alarms.one_more(now);
            listening.heeded &= !alarms.is_ignored();
        }
        let is_deaf = was_heeded && !(listening.heeded && listening.ring.is_primed());
        Ok(if sleeps { Some(Told::Sleeps) } else { is_deaf.then_some(Told::Deaf) })
    }
}

impl Ear {
    fn hearing(&self) -> Hearing {
        match self {
            Self::Opened(listening) if listening.is_new => Hearing::New,
            Self::Opened(listening) if listening.ring.is_primed() => Hearing::Wakes,
            _ => Hearing::Deaf,
        }
    }

    fn ring(&self) -> Option<&Ring> {
        match self {
            Self::Opened(listening) if listening.heeded => Some(&listening.ring),
            _ => None,
        }
    }
}

impl PoolFacts<'_> {
    fn worker(&self, id: WorkerId) -> Option<&Arc<Worker>> {
        let at = self.workers.binary_search_by_key(&id, |worker| worker.id).ok()?;
        Some(&self.workers[at])
    }

    fn sight(&mut self, id: WorkerId) -> Option<&mut Sight> {
        let worker = Arc::clone(self.worker(id)?);
        let sights = &mut self.watched.sights;
        let known = sights.iter().position(|sight| Arc::ptr_eq(&sight.worker, &worker));
        let at = known.unwrap_or_else(|| {
            sights.push(Sight { worker, eye: None, ear: Ear::None });
            sights.len() - 1
        });
        Some(&mut sights[at])
    }

    /// If the worker's ring shows that the worker is awake, returns the worker's CPU. The ring was emptied before the
    /// present check.
    fn heard_on(&mut self, id: WorkerId) -> Option<usize> {
        match &self.sight(id)?.ear {
            Ear::Opened(listening) => listening.ring.is_awake_on(),
            Ear::None | Ear::Denied => None,
        }
    }

    /// Reads the state of the worker's thread, through the eye that is kept open or through a new eye.
    fn see(&mut self, id: WorkerId) -> Option<io::Result<Seen>> {
        let (probe, may_keep) = (self.probe, *self.kept < KEPT_EYES);
        let sight = self.sight(id)?;
        if let Some(eye) = &sight.eye {
            return Some(eye.look());
        }
        let eye = match sight.worker.with_thread(|thread| probe.open(thread))? {
            Ok(eye) => eye,
            Err(error) => return Some(Err(error)),
        };
        let seen = eye.look();
        if may_keep {
            sight.eye = Some(eye);
            *self.kept += 1;
        }
        Some(seen)
    }
}

impl Facts for PoolFacts<'_> {
    fn sleeps(&mut self, id: WorkerId) -> Option<bool> {
        // The detector notes the worker's CPU, because the system may have moved the worker since its item began. The
        // pool places no woken worker on a CPU that is noted for a worker at work.
        let worker = Arc::clone(self.worker(id)?);
        if let Some(cpu) = self.heard_on(id) {
            worker.seen_on(cpu);
            return Some(false);
        }
        match self.see(id)? {
            Ok(seen) => {
                seen.cpu.inspect(|cpu| worker.seen_on(*cpu));
                Some(seen.state.is_blocked())
            }
            Err(error) => {
                let tell = || {
                    format!(
                        "the states of threads cannot be read ({error}), \
                        so a worker that uses no CPU time counts as asleep"
                    )
                };
                self.shortfall.note(tell);
                None
            }
        }
    }

    fn cpu_time(&mut self, id: WorkerId) -> Option<Duration> {
        self.worker(id)?.with_thread(|thread| self.probe.cpu_time(thread))?.ok()
    }

    fn sleeps_so_far(&mut self, id: WorkerId) -> Option<u64> {
        self.worker(id)?.with_thread(|thread| self.probe.voluntary_switches(thread))?.ok()
    }
}

#[cfg(test)]
mod tests;
