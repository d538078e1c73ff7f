//! The manager's eyes on the workers of watched pools: facts for [`policy::suspect`](crate::policy::suspect).
//!
//! Owned by the manager's thread. What is kept of a worker (a descriptor through which its state is read, and a ring that
//! the system's scheduler writes to) is opened when it is first needed while its pool is watched, and closed when the pool is
//! watched no more: an idle executor keeps none.
//!
//! That a worker sleeps is always read from its thread's state. A ring only tells that it is time to look: a record says
//! that the thread gave its CPU away, and by now it may have one again. That a worker does not sleep is told by its ring, too,
//! which is emptied in each round of the manager. A worker that sleeps for a good reason, in a guard or without
//! an item, is not listened to until a look finds it at work. So it wakes the manager at most once between two looks.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::crew::WorkerId;
use crate::policy::detection::Detection;
use crate::policy::suspect::Facts;
use crate::policy::watch::{LONGEST, PERIOD, SHORTEST};
use crate::policy::worker::{Phase, WorkerState};
use crate::sys::affinity;
use crate::sys::probe::Probe;
use crate::sys::switches::{Ring, Switch};
use crate::sys::thread_state::{Eye, Seen};

use super::core::Settings;
use super::detection::Shortfall;
use super::pool::Pool;
use super::worker::Worker;

/// So many descriptors are kept open for states; of further workers, the state's file is opened for each look.
const KEPT_EYES: usize = 64;

/// So many workers are listened to: each takes two descriptors, and the process may have a thousand.
const KEPT_RINGS: usize = 64;

/// After so many, a ring is not heeded for so many looks.
const FALSE_ALARMS: u8 = 16;
const MISTRUST: u8 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Detector {
    probe: Probe,
    /// The manager sleeps on rings, too.
    listens: bool,
    pools: Vec<Watched>,
    /// How many eyes are kept in all.
    kept: usize,
}

/// A watched pool, and those of its workers that were looked at.
#[derive(Debug)]
struct Watched {
    pool: Weak<Pool>,
    sights: Vec<Sight>,
    /// It is looked at for the first time. Most pools that are watched are quiet at the second look: nobody is listened to
    /// before that.
    is_new: bool,
}

#[derive(Debug)]
struct Sight {
    worker: Arc<Worker>,
    eye: Option<Eye>,
    ear: Ear,
}

/// How the system tells of a worker's switches.
#[derive(Debug)]
enum Ear {
    /// Not yet asked for.
    None,
    Opened(Box<Listening>),
    /// It cannot be had.
    Denied,
}

#[derive(Debug)]
struct Listening {
    ring: Ring,
    /// The manager sleeps on it, too.
    heeded: bool,
    /// It was opened after the last look, and the thread may have slept in between.
    is_new: bool,
    /// How often in a row it woke the manager for nothing: others take the thread's CPU.
    false_alarms: u8,
    /// For so many looks it is not heeded for that.
    mistrusted: u8,
}

impl Listening {
    fn new(ring: Ring) -> Self {
        Self { ring, heeded: true, is_new: true, false_alarms: 0, mistrusted: 0 }
    }

    /// The worker was at work at this look.
    fn go_on(&mut self) {
        self.is_new = false;
        self.mistrusted = self.mistrusted.saturating_sub(1);
        self.heeded = self.mistrusted == 0;
    }

    /// It has told something else than that the worker sleeps.
    fn false_alarm(&mut self) {
        self.false_alarms += 1;
        if self.false_alarms == FALSE_ALARMS {
            // One more chance after that.
            (self.false_alarms, self.mistrusted) = (FALSE_ALARMS - 1, MISTRUST);
            self.heeded = false;
        }
    }
}

/// What can be learnt of the workers of one pool.
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

    /// The facts of a pool, of which these workers were seen, by number.
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
        // Who has left is another one, also if it had the same number.
        let stays = |sight: &Sight| {
            let at = workers.binary_search_by_key(&sight.worker.id, |worker| worker.id);
            at.is_ok_and(|at| Arc::ptr_eq(&workers[at], &sight.worker))
        };
        let before = watched.kept();
        watched.sights.retain(stays);
        self.kept -= before - watched.kept();
        PoolFacts { probe: self.probe, watched, kept: &mut self.kept, workers, shortfall }
    }

    /// A pool is watched no more.
    pub(crate) fn forget(&mut self, pool: &Weak<Pool>) {
        self.pools.retain(|watched| !watched.pool.ptr_eq(pool) && watched.pool.strong_count() > 0);
        self.kept = self.pools.iter().map(Watched::kept).sum();
    }

    /// The pool was looked at: listens to those who were at work then. If the system may fail to tell of the next one who
    /// sleeps: after how long to look for that.
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
                    // It is looked for by its state alone.
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

    /// What the manager sleeps on.
    pub(crate) fn rings(&self) -> Vec<&Ring> {
        self.pools.iter().flat_map(|watched| &watched.sights).filter_map(|sight| sight.ear.ring()).collect()
    }

    /// In which pools somebody sleeps, as the rings tell, who should not.
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

    /// Empties all rings, whatever the first ones tell.
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
    /// Returns whether the worker was last seen on another CPU than the caller's, which waits for no other thread.
    fn is_elsewhere(&self) -> bool {
        affinity::current_cpu() != Some(self.worker.cpu())
    }

    /// Listens to the worker, if that is not denied. `runs`: whether it does at the moment. The answer is an error once.
    fn listen(&mut self, probe: Probe, runs: bool) -> io::Result<()> {
        match &mut self.ear {
            Ear::None => {
                // Nobody is there to listen to if it leaves.
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

    /// It sleeps for a good reason: what the ring tells of that is of no interest. It goes on, so that none of the records is
    /// missed by which it knows what comes next.
    fn ignore(&mut self) {
        if let Ear::Opened(listening) = &mut self.ear {
            listening.heeded = false;
        }
    }

    /// Returns whether the ring tells that it sleeps, and its word that it should not. A ring that cannot be read is closed:
    /// the answer is an error once.
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
            // For a good reason: of no interest until it is at work again.
            listening.heeded = false;
        } else if last.is_some() {
            listening.false_alarm();
        }
        Ok(sleeps)
    }
}

impl Ear {
    /// If the system may fail to tell when it sleeps next: after how long to look.
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

    /// The CPU of a worker whose thread does not sleep, as its ring tells, which was emptied before this look.
    fn heard_on(&mut self, id: WorkerId) -> Option<usize> {
        match &self.sight(id)?.ear {
            Ear::Opened(listening) => listening.ring.is_awake_on(),
            Ear::None | Ear::Denied => None,
        }
    }

    /// The thread, by the eye that is kept, or one for this look.
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
        // Where the system has put it since it began its item: one that is woken must not go there.
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
                    format!("the states of threads cannot be read ({error}): who makes no progress sleeps")
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
