//! The manager's eyes on the workers of watched pools: facts for [`policy::suspect`](crate::policy::suspect).
//!
//! Owned by the manager's thread. What is kept of a worker (a descriptor through which its state is read, and a ring that
//! the system's scheduler writes to) is opened when it is first needed while its pool is watched, and closed when the pool is
//! watched no more: an idle executor keeps none.
//!
//! Whether a worker sleeps is always read from its thread's state. What rings tell is only that it is time to look: a
//! record says that a thread gave its CPU away, and by now it may have one again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::policy::crew::WorkerId;
use crate::policy::suspect::Facts;
use crate::sys::thread_state::{self, Eye};

use super::pool::Pool;
use super::worker::Worker;

/// So many descriptors are kept open for states; of further workers, the state's file is opened for each look.
const KEPT_EYES: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    pools: Vec<Watched>,
    /// How many eyes are kept in all.
    kept: usize,
}

/// A watched pool, and those of its workers that were looked at.
#[derive(Debug)]
struct Watched {
    pool: Weak<Pool>,
    sights: Vec<Sight>,
}

#[derive(Debug)]
struct Sight {
    worker: Arc<Worker>,
    eye: Option<Eye>,
}

/// What can be learnt of the workers of one pool.
pub(crate) struct PoolFacts<'a> {
    watched: &'a mut Watched,
    kept: &'a mut usize,
    workers: &'a [Arc<Worker>],
}

impl Detector {
    /// The facts of a pool, of which these workers were seen, by number.
    pub(crate) fn facts<'a>(&'a mut self, pool: &Weak<Pool>, workers: &'a [Arc<Worker>]) -> PoolFacts<'a> {
        let known = self.pools.iter().position(|watched| watched.pool.ptr_eq(pool));
        let at = known.unwrap_or_else(|| {
            self.pools.push(Watched { pool: pool.clone(), sights: Vec::new() });
            self.pools.len() - 1
        });
        let watched = &mut self.pools[at];
        // Who has left is another one, also if it had the same number.
        let stays = |sight: &Sight| workers.iter().any(|worker| Arc::ptr_eq(worker, &sight.worker));
        let before = watched.kept();
        watched.sights.retain(stays);
        self.kept -= before - watched.kept();
        PoolFacts { watched, kept: &mut self.kept, workers }
    }

    /// A pool is watched no more.
    pub(crate) fn forget(&mut self, pool: &Weak<Pool>) {
        self.pools.retain(|watched| !watched.pool.ptr_eq(pool) && watched.pool.strong_count() > 0);
        self.kept = self.pools.iter().map(Watched::kept).sum();
    }
}

impl Watched {
    fn kept(&self) -> usize {
        self.sights.iter().filter(|sight| sight.eye.is_some()).count()
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
            sights.push(Sight { worker, eye: None });
            sights.len() - 1
        });
        Some(&mut sights[at])
    }
}

impl Facts for PoolFacts<'_> {
    fn sleeps(&mut self, id: WorkerId) -> Option<bool> {
        let may_keep = *self.kept < KEPT_EYES;
        let sight = self.sight(id)?;
        let state = match &sight.eye {
            Some(eye) => eye.state().ok()?,
            None => {
                let eye = sight.worker.with_thread(|thread| Eye::open(thread))?.ok()?;
                let state = eye.state().ok()?;
                if may_keep {
                    sight.eye = Some(eye);
                    *self.kept += 1;
                }
                state
            }
        };
        Some(state.is_blocked())
    }

    fn cpu_time(&mut self, id: WorkerId) -> Option<Duration> {
        self.worker(id)?.with_thread(thread_state::cpu_time)?.ok()
    }

    fn sleeps_so_far(&mut self, id: WorkerId) -> Option<u64> {
        self.worker(id)?.with_thread(thread_state::voluntary_switches)?.ok()
    }
}
