//! The manager's eyes on the workers of watched pools: facts for [`policy::suspect`](crate::policy::suspect).
//!
//! Owned by the manager's thread. What is kept of a worker (a descriptor through which its state is read, and a ring that
//! the system's scheduler writes to) is opened when it is first needed while its pool is watched, and closed when the pool is
//! watched no more: an idle executor keeps none.
//!
//! Whether a worker sleeps is always read from its thread's state. What rings tell is only that it is time to look: a
//! record says that a thread gave its CPU away, and by now it may have one again. Those who sleep for a good reason, in a
//! guard or without an item, are not listened to until a look finds them at work, so each of them wakes the manager once
//! between two looks at most.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::crew::WorkerId;
use crate::policy::detection::Detection;
use crate::policy::suspect::Facts;
use crate::policy::watch::{PERIOD, SHORTEST};
use crate::policy::worker::{Phase, WorkerState};
use crate::sys::probe::Probe;
use crate::sys::switches::{Ring, Switch};
use crate::sys::thread_state::{Eye, Seen};

use super::core::Settings;
use super::detection::Shortfall;
use super::pool::Pool;
use super::worker::Worker;

/// So many descriptors are kept open for states; of further workers, the state's file is opened for each look.
const KEPT_EYES: usize = 64;

/// Who was just begun to be listened to is looked at so many times soon after each other.
const YOUNG: u8 = 8;

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
    /// `heeded`: the manager sleeps on it, too. `young`: for so many looks, the thread's first switches are still to be
    /// expected, of which the ring cannot tell.
    Opened { ring: Ring, heeded: bool, young: u8 },
    /// It cannot be had.
    Denied,
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
        let stays = |sight: &Sight| workers.iter().any(|worker| Arc::ptr_eq(worker, &sight.worker));
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
        let watched = &mut self.pools[at];
        if std::mem::take(&mut watched.is_new) {
            return Some(SHORTEST);
        }
        let mut look_in = None;
        for sight in &mut watched.sights {
            let word = words.binary_search_by_key(&sight.worker.id, |(id, _)| *id);
            let phase = word.map_or(Phase::Idle, |at| words[at].1.phase());
            if matches!(phase, Phase::Running | Phase::Asleep) {
                if let Err(error) = sight.listen(self.probe) {
                    shortfall
                        .note(|| format!("not every worker's context switches can be recorded: {error}"));
                }
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
    pub(crate) fn told(&mut self) -> Vec<Weak<Pool>> {
        let told = |watched: &mut Watched| {
            let someone = watched.sights.iter_mut().fold(false, |before, sight| sight.has_slept() || before);
            someone.then(|| watched.pool.clone())
        };
        self.pools.iter_mut().filter_map(told).collect()
    }

    fn find(&self, pool: &Weak<Pool>) -> Option<usize> {
        self.pools.iter().position(|watched| watched.pool.ptr_eq(pool))
    }
}

impl Watched {
    fn kept(&self) -> usize {
        self.sights.iter().filter(|sight| sight.eye.is_some()).count()
    }
}

impl Sight {
    /// Listens to the worker, if that is not denied. The answer is an error once.
    fn listen(&mut self, probe: Probe) -> io::Result<()> {
        match &mut self.ear {
            Ear::None => {
                // Nobody is there to listen to if it leaves.
                let Some(ring) = self.worker.with_thread(|thread| probe.attach(thread)) else {
                    return Ok(());
                };
                self.ear = Ear::Denied;
                self.ear = Ear::Opened { ring: ring?, heeded: true, young: YOUNG };
            }
            Ear::Opened { heeded, young, .. } => (*heeded, *young) = (true, young.saturating_sub(1)),
            Ear::Denied => {}
        }
        Ok(())
    }

    /// It sleeps for a good reason: what the ring tells of that is of no interest. It goes on, so that none of the records is
    /// missed by which it knows what comes next.
    fn ignore(&mut self) {
        if let Ear::Opened { heeded, .. } = &mut self.ear {
            *heeded = false;
        }
    }

    /// Does the ring tell that it sleeps, and its word that it should not?
    fn has_slept(&mut self) -> bool {
        let Ear::Opened { ring, .. } = &mut self.ear else { return false };
        let mut last = None;
        if ring.drain(|switch| last = Some(switch)).is_err() {
            self.ear = Ear::Denied;
            return false;
        }
        if last != Some(Switch::Slept) {
            return false;
        }
        let counts = self.worker.cell.load().phase() == Phase::Running;
        if !counts {
            self.ignore();
        }
        counts
    }
}

impl Ear {
    /// If the system may fail to tell when it sleeps next: after how long to look.
    fn may_miss(&self) -> Option<Duration> {
        match self {
            Self::Opened { ring, .. } if ring.is_primed() => None,
            Self::Opened { young: 1.., .. } => Some(SHORTEST),
            _ => Some(PERIOD),
        }
    }

    fn ring(&self) -> Option<&Ring> {
        match self {
            Self::Opened { ring, heeded: true, .. } => Some(ring),
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
        match self.see(id)? {
            Ok(seen) => {
                // Where the system has put it since it began its item: one that is woken must not go there.
                seen.cpu.zip(self.worker(id)).inspect(|(cpu, worker)| worker.seen_on(*cpu));
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
