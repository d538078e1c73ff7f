//! The manager's view of the workers of watched pools: facts for
//! [`policy::blocking_detector`](crate::policy::blocking_detector).
//!
//! The manager's thread owns the detector. For a worker it opens an *eye*, a descriptor through which the thread's
//! state is read, and a *ring*, to which the system's scheduler writes. Both are opened when they are first needed
//! while the pool is watched, and closed when the watch ends. So an idle executor keeps none.
//!
//! Only the state of its thread shows that a worker sleeps. A ring merely shows that it is time to look: a record
//! says that the thread gave its CPU away, and by now the thread may have one again. But a ring can show that a
//! worker is awake. The manager empties all rings in each round.
//!
//! A worker that sleeps for a good reason, in a guard or without an item, is not listened to until a look finds it at
//! work. So it wakes the manager at most once between two looks.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::blocking_detector::Facts;
use crate::policy::detection::Detection;
use crate::policy::idle_set::WorkerId;
use crate::policy::watch::{LONGEST, PERIOD, SHORTEST};
use crate::policy::worker::{Phase, WorkerState};
use crate::sys::affinity;
use crate::sys::probe::Probe;
use crate::sys::switches::{Ring, Switch};
use crate::sys::thread_state::{Eye, Seen};

use crate::engine::executor::settings::Settings;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::shared::Worker;

use super::detection::Shortfall;

/// How many eyes are kept open at most. For further workers, the state's file is opened for each look.
const KEPT_EYES: usize = 64;

/// How many workers are listened to at most. Each takes two descriptors, and a process may have no more than a
/// thousand.
const KEPT_RINGS: usize = 64;

/// After this many false alarms in a row, a ring is not heeded for `MISTRUST` looks.
const FALSE_ALARMS: u8 = 16;
const MISTRUST: u8 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Detector {
    probe: Probe,
    /// Whether rings are used: the manager sleeps on them, too.
    listens: bool,
    pools: Vec<Watched>,
    /// How many eyes are kept open in all pools.
    kept: usize,
}

/// A watched pool, and those of its workers that were looked at.
#[derive(Debug)]
struct Watched {
    pool: Weak<Pool>,
    sights: Vec<Sight>,
    /// The pool is looked at for the first time. Most watched pools are quiet at the second look, so no worker is
    /// listened to before that.
    is_new: bool,
}

#[derive(Debug)]
struct Sight {
    worker: Arc<Worker>,
    eye: Option<Eye>,
    ear: Ear,
}

/// Whether the system records a worker's context switches.
#[derive(Debug)]
enum Ear {
    /// No ring was asked for yet.
    None,
    Opened(Box<Listening>),
    /// The system has refused a ring, or the ring could not be read.
    Denied,
}

#[derive(Debug)]
struct Listening {
    ring: Ring,
    /// The manager sleeps on the ring, too.
    heeded: bool,
    /// The ring was opened after the last look, and the thread may have slept in between.
    is_new: bool,
    /// How often in a row it woke the manager for nothing, because other threads took the worker's CPU.
    false_alarms: u8,
    /// For how many more looks it is not heeded because of that.
    mistrusted: u8,
}

impl Listening {
    fn new(ring: Ring) -> Self {
        Self { ring, heeded: true, is_new: true, false_alarms: 0, mistrusted: 0 }
    }

    /// Notes that this look found the worker at work.
    fn go_on(&mut self) {
        self.is_new = false;
        self.mistrusted = self.mistrusted.saturating_sub(1);
        self.heeded = self.mistrusted == 0;
    }

    /// Notes that the ring woke the manager although the worker does not sleep.
    fn false_alarm(&mut self) {
        self.false_alarms += 1;
        if self.false_alarms == FALSE_ALARMS {
            // After these looks, one more false alarm is enough.
            (self.false_alarms, self.mistrusted) = (FALSE_ALARMS - 1, MISTRUST);
            self.heeded = false;
        }
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
        Self { probe: settings.probe, listens, pools: Vec::new(), kept: 0 }
    }

    /// Returns the facts about a pool. `workers`: its workers, sorted by number.
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
        // A worker that has left is forgotten, even if another worker has its number now.
        let stays = |sight: &Sight| {
            let at = workers.binary_search_by_key(&sight.worker.id, |worker| worker.id);
            at.is_ok_and(|at| Arc::ptr_eq(&workers[at], &sight.worker))
        };
        let before = watched.kept();
        watched.sights.retain(stays);
        self.kept -= before - watched.kept();
        PoolFacts { probe: self.probe, watched, kept: &mut self.kept, workers, shortfall }
    }

    /// Forgets a pool that is no longer watched, and pools that are gone.
    pub(crate) fn forget(&mut self, pool: &Weak<Pool>) {
        self.pools.retain(|watched| !watched.pool.ptr_eq(pool) && watched.pool.strong_count() > 0);
        self.kept = self.pools.iter().map(Watched::kept).sum();
    }

    /// Listens to the workers that the last look at the pool found at work. If the system may fail to report the next
    /// one that sleeps, returns after how long to look for it.
    pub(crate) fn listen(
        &mut self,
        pool: &Weak<Pool>,
        words: &[(WorkerId, WorkerState)],
        shortfall: &Shortfall,
    ) -> Option<Duration> {
        let at = self.find(pool).filter(|_| self.listens)?;
        let mut room = KEPT_RINGS.saturating_sub(self.pools.iter().map(Watched::rings).sum());
        let watched = &mut self.pools[at];
        if std::mem::take(&mut watched.is_new) {
            return Some(SHORTEST);
        }
        let mut look_in = None;
        for sight in &mut watched.sights {
            let word = words.binary_search_by_key(&sight.worker.id, |(id, _)| *id);
            let phase = word.map_or(Phase::Idle, |at| words[at].1.phase());
            if matches!(phase, Phase::Running | Phase::Asleep) {
                let is_there = !matches!(sight.ear, Ear::None);
                if !is_there && room == 0 {
                    // No ring is left for this worker: its state alone shows whether it sleeps.
                } else if let Err(error) =
                    sight.listen(self.probe, phase == Phase::Running && sight.is_elsewhere())
                {
                    shortfall
                        .note(|| format!("not every worker's context switches can be recorded: {error}"));
                }
                room -= usize::from(!is_there && sight.ear.ring().is_some());
                look_in = look_in.into_iter().chain(sight.ear.may_miss()).min();
            } else {
                sight.ignore();
            }
        }
        look_in
    }

    /// Returns the rings that the manager sleeps on.
    pub(crate) fn rings(&self) -> Vec<&Ring> {
        self.pools.iter().flat_map(|watched| &watched.sights).filter_map(|sight| sight.ear.ring()).collect()
    }

    /// Returns the pools in which, as the rings report, a worker sleeps that should not.
    pub(crate) fn told(&mut self, shortfall: &Shortfall) -> Vec<Weak<Pool>> {
        let probe = self.probe;
        let told =
            |watched: &mut Watched| watched.has_sleepers(probe, shortfall).then(|| watched.pool.clone());
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

    /// Returns whether a ring reports a worker that sleeps and should not. Empties all rings, even after the first
    /// such report.
    fn has_sleepers(&mut self, probe: Probe, shortfall: &Shortfall) -> bool {
        let mut slept = false;
        for sight in &mut self.sights {
            slept |= sight.has_slept(probe).unwrap_or_else(|error| {
                shortfall.note(|| format!("a worker's context switches cannot be read any more: {error}"));
                false
            });
        }
        slept
    }
}

impl Sight {
    /// Returns whether the worker was last seen on another CPU than the caller's. On the caller's CPU it cannot be
    /// running now.
    fn is_elsewhere(&self) -> bool {
        affinity::current_cpu() != Some(self.worker.cpu())
    }

    /// Listens to the worker, unless the system refuses that. `runs`: whether the worker runs at the moment. Returns
    /// the refusal once.
    fn listen(&mut self, probe: Probe, runs: bool) -> io::Result<()> {
        match &mut self.ear {
            Ear::None => {
                // A worker that has left has no thread to listen to.
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

    /// Ignores the ring of a worker that sleeps for a good reason. The ring stays open, because it needs each record
    /// to tell what kind the next one is.
    fn ignore(&mut self) {
        if let Ear::Opened(listening) = &mut self.ear {
            listening.heeded = false;
        }
    }

    /// Returns whether the ring reports that the worker sleeps, and the worker's word says that it should not. A ring
    /// that cannot be read is closed, and the error returned once.
    fn has_slept(&mut self, probe: Probe) -> io::Result<bool> {
        let Ear::Opened(listening) = &mut self.ear else { return Ok(false) };
        let mut last = None;
        if let Err(error) = probe.drain(&mut listening.ring, |switch| last = Some(switch)) {
            self.ear = Ear::Denied;
            return Err(error);
        }
        let slept = last == Some(Switch::Slept);
        let sleeps = slept && self.worker.cell.load().phase() == Phase::Running;
        if sleeps {
            listening.false_alarms = 0;
        } else if slept {
            // It sleeps for a good reason. The ring is not heeded until the worker is at work again.
            listening.heeded = false;
        } else if last.is_some() {
            listening.false_alarm();
        }
        Ok(sleeps)
    }
}

impl Ear {
    /// Returns after how long to look, if the system may fail to report the worker's next sleep.
    fn may_miss(&self) -> Option<Duration> {
        match self {
            Self::Opened(listening) if listening.is_new => Some(SHORTEST),
            Self::Opened(listening) if listening.mistrusted > 0 => Some(LONGEST),
            Self::Opened(listening) if listening.ring.is_primed() => None,
            _ => Some(PERIOD),
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

    /// Returns the CPU of a worker that is awake, as its ring reports. The ring was emptied before this look.
    fn heard_on(&mut self, id: WorkerId) -> Option<usize> {
        match &self.sight(id)?.ear {
            Ear::Opened(listening) => listening.ring.is_awake_on(),
            Ear::None | Ear::Denied => None,
        }
    }

    /// Looks at the thread, through the eye that is kept or one opened for this look.
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
        // Notes the CPU to which the system has moved the worker since its item began: a woken worker must not go
        // there.
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
                        "the states of threads cannot be read ({error}): \
                        a worker that uses no CPU time counts as asleep"
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
