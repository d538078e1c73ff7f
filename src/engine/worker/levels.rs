//! The lists of the forks that a worker's items have made. Other threads take forks from these lists.
//!
//! The items on the stack of a worker's thread are *levels*: the item that the worker has taken from its pool, and the
//! parts of forks that the thread runs while it waits. Each level has a list of its own, so a thread that waits for a
//! fork finds the parts of this fork, and no other forks. The worker's own thread pushes and pops forks at one end of a
//! list. Other threads take forks from the other end, where the largest forks are.

use std::sync::Arc;

use crossbeam_deque::{Steal, Stealer};

use crate::sys::sync::Mutex;

use crate::engine::item::fork_head::ForkAddress;

use super::shared::Worker;

/// The parts of a fork: the forks that the fork itself has made on its thread, and the parts of these forks.
#[derive(Clone, Debug)]
pub(crate) struct Forks {
    worker: Arc<Worker>,
    /// The number that identifies the present run of the fork.
    run: u64,
}

/// The lists of a worker's levels. Only levels that have made forks, or that run a fork, have a list.
#[derive(Debug)]
pub(crate) struct Levels(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    /// The levels that have a list, from the outermost to the innermost.
    lists: Vec<Level>,
    /// The number that was last given to a run of a fork.
    last_run: u64,
}

#[derive(Debug)]
struct Level {
    forks: Stealer<ForkAddress>,
    /// If this level runs a fork, the number of that run. Otherwise 0.
    run: u64,
    /// The parts of the fork for which this level waits.
    joins: Option<Forks>,
}

impl Forks {
    pub(crate) fn new(worker: Arc<Worker>, run: u64) -> Self {
        Self { worker, run }
    }

    /// Takes a part of the fork, if there is one. Prefers the oldest part that the fork's thread has made. If that
    /// thread has no part left, but waits for a part that it has made, takes a part of the awaited part.
    pub(crate) fn take(&self) -> Option<ForkAddress> {
        self.find(Level::take)
    }

    /// Returns whether there is a part to [take](Self::take).
    pub(crate) fn are_any(&self) -> bool {
        self.find(|level| (!level.forks.is_empty()).then_some(())).is_some()
    }

    /// Calls `find` for the levels that can have parts of the fork, until `find` returns a value. The search may reach
    /// a level in many ways, because threads may wait for parts of each other's items. So each level is searched only
    /// once.
    fn find<R>(&self, find: impl Fn(&Level) -> Option<R>) -> Option<R> {
        let mut left = vec![self.clone()];
        // For each worker whose levels were searched, the index of the outermost searched level. All levels inside that
        // level were searched, too.
        let mut searched: Vec<(Arc<Worker>, usize)> = Vec::new();
        while let Some(forks) = left.pop() {
            let lists = forks.worker.forks.0.lock();
            // While the fork's thread waits, the levels inside the fork's level run parts of the fork. If no level has
            // the number of this run, the fork is over.
            let Some(from) = lists.lists.iter().position(|level| level.run == forks.run) else { continue };
            let known = searched.iter_mut().find(|(worker, _)| Arc::ptr_eq(worker, &forks.worker));
            let to = known.as_ref().map_or(usize::MAX, |(_, outermost)| *outermost).min(lists.lists.len());
            let levels = lists.lists.get(from..to).unwrap_or_default();
            let found = levels.iter().find_map(&find);
            if found.is_some() {
                return found;
            }
            left.extend(levels.iter().filter_map(|level| level.joins.clone()));
            drop(lists);
            match known {
                Some((_, outermost)) => *outermost = from.min(*outermost),
                None => searched.push((forks.worker, from)),
            }
        }
        None
    }
}

impl Level {
    fn take(&self) -> Option<ForkAddress> {
        loop {
            match self.forks.steal() {
                Steal::Success(fork) => return Some(fork),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}

impl Levels {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Lists::default()))
    }

    /// Adds the list of a level. This level is the innermost one from now on.
    pub(crate) fn add(&self, forks: Stealer<ForkAddress>) {
        self.0.lock().lists.push(Level { forks, run: 0, joins: None });
    }

    /// Removes the list of the innermost level, which is empty.
    pub(crate) fn remove_innermost(&self) {
        let level = self.0.lock().lists.pop();
        drop(level);
    }

    /// Notes that the innermost level begins to run a fork. Returns the number of the run.
    pub(crate) fn begins_run(&self) -> Option<u64> {
        let mut lists = self.0.lock();
        let run = lists.last_run + 1;
        lists.lists.last_mut()?.run = run;
        lists.last_run = run;
        Some(run)
    }

    /// Notes that the innermost level's fork is about to end.
    pub(crate) fn ends_run(&self) {
        if let Some(level) = self.0.lock().lists.last_mut() {
            level.run = 0;
        }
    }

    /// Notes the parts of the fork for which the innermost level waits from now on. `None` means that no parts are
    /// known yet, or that the level no longer waits.
    pub(crate) fn joins(&self, parts: Option<&Forks>) {
        let mut parts = parts.cloned();
        if let Some(level) = self.0.lock().lists.last_mut() {
            std::mem::swap(&mut level.joins, &mut parts);
        }
        // The former parts may hold the last reference to a worker, so this thread drops them after it has released the
        // lock.
        drop(parts);
    }

    /// Takes the oldest fork of the outermost level that has forks.
    pub(crate) fn take(&self) -> Option<ForkAddress> {
        self.0.lock().lists.iter().find_map(Level::take)
    }

    /// Returns whether any level of the worker has forks on its list.
    pub(crate) fn have_forks(&self) -> bool {
        self.0.lock().lists.iter().any(|level| !level.forks.is_empty())
    }
}
