//! The threads of an executor: how many exist, whether there is room for one more, and when the last one is gone.
//!
//! A thread is *alive* from before it is made until its thread-local destructors, which are user code, have run. A
//! worker or a rescuer *leaves* at the end of its own code, before these destructors run. A thread that has left does
//! not count towards the cap, because its destructors may wait for an item that needs the thread's place.
//!
//! One word holds all counts. So if the manager finds no room while a worker leaves, the manager learns of the new
//! room. There is also a single moment at which the last thread of any kind is gone.
//!
//! At the cap, the word also holds the manager's request that a busy worker give way to a pool that starves (see
//! [`room`](super::room)). In the first turn, a worker gives way only if its pool has another running worker. After the
//! first turn, any worker gives way. Only one worker gives way for each request.

#![forbid(unsafe_code)]

use std::fmt;

/// A Linux process has fewer threads than 2^22.
const ALIVE_MASK: u64 = (1 << 22) - 1;
const RESCUERS: u32 = 22;
const RESCUERS_MASK: u64 = (1 << 19) - 1;
const WORKERS: u32 = 41;
const WORKERS_MASK: u64 = (1 << 20) - 1;
const ASKED: u64 = 1 << 61;
const URGENT: u64 = 1 << 62;
const FULL: u64 = 1 << 63;

/// The default cap on a small machine. With this cap, about 500 items can be blocked while others run.
const DEFAULT_CAP: usize = 512;
/// The default cap per CPU on a machine with many CPUs.
const DEFAULT_CAP_PER_CPU: usize = 8;
/// The smallest default cap per CPU. This cap allows for a worker and a spare at each of the two priorities.
const LEAST_CAP_PER_CPU: usize = 4;

/// Returns the maximum number of workers of an executor whose builder sets no cap. `task_limit` is the system's limit
/// on the threads of the process, if known. The cap leaves half of this limit to the rest of the program, unless the
/// smallest cap exceeds the other half.
pub(crate) fn default_cap(cpus: usize, task_limit: Option<u64>) -> usize {
    let cpus = cpus.max(1);
    let usual = DEFAULT_CAP.max(cpus.saturating_mul(DEFAULT_CAP_PER_CPU));
    let half = task_limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX));
    usual.min(half).max(cpus.saturating_mul(LEAST_CAP_PER_CPU))
}

/// The threads that exist or are being made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads(u64);

/// The purpose of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Worker,
    Rescuer,
    Manager,
    /// A thread that destroys the values that the manager must not destroy.
    Cleaner,
}

impl Threads {
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    /// Returns the number of workers that have not left.
    pub(crate) const fn workers(self) -> u64 {
        self.0 >> WORKERS & WORKERS_MASK
    }

    /// Returns the number of rescuers that have not left.
    pub(crate) const fn rescuers(self) -> u64 {
        self.0 >> RESCUERS & RESCUERS_MASK
    }

    /// Returns the number of threads of every kind that are not gone.
    pub(crate) const fn alive(self) -> u64 {
        self.0 & ALIVE_MASK
    }

    /// Counts a worker that the manager is about to make. Returns false if there are `max` workers already. After a
    /// refusal, the next worker that leaves tells the manager that there is room. A new worker begins a new turn. So if
    /// another pool starves, a worker gives way for now only if its own pool has another running worker.
    pub(crate) const fn worker_comes(self, max: u64) -> (Self, bool) {
        if self.workers() < max && self.workers() < WORKERS_MASK && self.alive() < ALIVE_MASK {
            (Self((self.0 & !URGENT) + (1 << WORKERS) + 1), true)
        } else {
            (Self(self.0 | FULL), false)
        }
    }

    /// Asks a worker to give way, because a pool starves.
    pub(crate) const fn ask(self) -> Self {
        Self(self.0 | ASKED)
    }

    /// If the request is still unanswered after a whole turn, permits any worker to give way.
    pub(crate) const fn hurry(self) -> Self {
        if self.is_asked() { Self(self.0 | URGENT) } else { self }
    }

    /// Withdraws the request that a worker give way.
    pub(crate) const fn withdraw(self) -> Self {
        Self(self.0 & !(ASKED | URGENT))
    }

    /// Returns whether a worker is asked to give way.
    #[inline]
    pub(crate) const fn is_asked(self) -> bool {
        self.0 & ASKED != 0
    }

    /// Returns whether the calling worker, which is idle or between two items, gives way. A worker that gives way ends
    /// the request. `others_run` says whether the pool can spare this worker, because this worker is idle or other
    /// workers of the pool run.
    pub(crate) const fn give_way(self, others_run: bool) -> (Self, bool) {
        let gives_way = self.is_asked() && (others_run || self.0 & URGENT != 0);
        if gives_way { (self.withdraw(), true) } else { (self, false) }
    }

    pub(crate) const fn rescuer_comes(self) -> Self {
        debug_assert!(self.rescuers() < RESCUERS_MASK && self.alive() < ALIVE_MASK);
        Self(self.0 + (1 << RESCUERS) + 1)
    }

    /// Counts a manager or a cleaner.
    pub(crate) const fn other_comes(self) -> Self {
        debug_assert!(self.alive() < ALIVE_MASK);
        Self(self.0 + 1)
    }

    /// Notes that a thread has ended its own code, or could not be made. The thread still counts as alive. Returns
    /// whether the caller must tell the manager that there is room.
    pub(crate) const fn leaves(self, kind: Kind) -> (Self, bool) {
        match kind {
            Kind::Worker => {
                debug_assert!(self.workers() > 0);
                (Self((self.0 & !FULL) - (1 << WORKERS)), self.0 & FULL != 0)
            }
            Kind::Rescuer => {
                debug_assert!(self.rescuers() > 0);
                (Self(self.0 - (1 << RESCUERS)), false)
            }
            Kind::Manager | Kind::Cleaner => (self, false),
        }
    }

    /// Notes that a thread is gone, because it has left and has run its thread-local destructors, or because it could
    /// not be made. Returns whether this was the last thread.
    pub(crate) const fn gone(self) -> (Self, bool) {
        debug_assert!(self.alive() > 0);
        let next = Self(self.0 - 1);
        (next, next.alive() == 0)
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("alive", &self.alive())
            .field("workers", &self.workers())
            .field("rescuers", &self.rescuers())
            .field("full", &(self.0 & FULL != 0))
            .field("asked", &self.is_asked())
            .field("urgent", &(self.0 & URGENT != 0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; 3] = [Kind::Worker, Kind::Rescuer, Kind::Manager];

    #[test]
    fn the_manager_is_told_of_room_once_after_it_found_none() {
        let (word, comes) = Threads::none().worker_comes(2).0.worker_comes(2);
        assert!(comes);
        let (full, comes) = word.worker_comes(2);
        assert_eq!((comes, full.workers()), (false, 2));
        let (word, room) = full.leaves(Kind::Worker);
        assert!(room);
        assert!(!word.leaves(Kind::Worker).1);
    }

    /// spec: E2.5, X3: a worker that leaves makes room for another worker, because the leaving worker's destructors may
    /// wait for work of its executor.
    #[test]
    fn a_worker_that_leaves_makes_room_and_stays_alive() {
        let (word, _) = Threads::none().worker_comes(1).0.leaves(Kind::Worker);
        assert_eq!((word.workers(), word.alive()), (0, 1));
        let (word, comes) = word.worker_comes(1);
        assert!(comes);
        assert_eq!((word.workers(), word.alive()), (1, 2));
    }

    /// spec: E2.5 (a busy worker gives way between items): one worker answers each request. In the first turn, only a
    /// worker that its pool can spare answers.
    #[test]
    fn one_worker_gives_way_for_one_request() {
        let none = Threads::none();
        assert_eq!(none.give_way(true), (none, false), "no worker is asked");
        assert_eq!(none.hurry(), none, "a request that has been answered is not repeated");
        let asked = none.ask();
        assert_eq!(asked.give_way(false), (asked, false), "a pool keeps its only worker for a turn");
        assert_eq!(asked.give_way(true), (none, true));
        assert_eq!(asked.hurry().give_way(false), (none, true));
        assert_eq!(asked.hurry().withdraw(), none);
    }

    /// spec: E2.5 (pools take turns): a new worker begins a new turn, even if another pool still starves.
    #[test]
    fn a_worker_that_comes_begins_a_new_turn() {
        let (full, comes) = Threads::none().worker_comes(1);
        assert!(comes);
        let (left, _) = full.ask().hurry().leaves(Kind::Worker);
        let (word, comes) = left.worker_comes(1);
        assert!(comes && word.is_asked());
        assert_eq!(word.give_way(false), (word, false), "a pool keeps its only worker for a turn");
        assert!(word.give_way(true).1 && word.hurry().give_way(false).1);
    }

    /// spec: E2.5: the default cap on workers follows the number of CPUs and the system's limit on threads.
    #[test]
    fn the_default_cap_follows_the_machine_and_its_task_limit() {
        for (cpus, task_limit, cap) in [
            (1, None, 512),
            (2, Some(u64::MAX), 512),
            (64, None, 512),
            (65, None, 520),
            (256, None, 2048),
            // In these rows, the executor runs in a container with a task limit.
            (2, Some(1024), 512),
            (2, Some(300), 150),
            (64, Some(600), 300),
            // The cap allows for one worker and one spare per CPU and priority, whatever the task limit is.
            (64, Some(100), 256),
            (2, Some(1), 8),
            (0, Some(0), 4),
        ] {
            assert_eq!(default_cap(cpus, task_limit), cap, "{cpus} CPUs, {task_limit:?} tasks");
        }
    }

    #[test]
    fn there_are_never_more_workers_than_the_word_can_count() {
        let all = Threads((WORKERS_MASK - 1) << WORKERS);
        let (word, comes) = all.worker_comes(u64::MAX);
        assert!(comes && !word.worker_comes(u64::MAX).1);
        assert!(!Threads(ALIVE_MASK).worker_comes(u64::MAX).1);
    }

    /// spec: E5.1
    #[test]
    fn the_last_thread_may_be_of_any_kind() {
        let all = Threads::none().other_comes().rescuer_comes().worker_comes(1).0;
        assert_eq!((all.alive(), all.workers(), all.rescuers()), (3, 1, 1));
        for first in 0..3 {
            let left = (0..3).fold(all, |word, n| word.leaves(ALL[(first + n) % 3]).0);
            assert_eq!((left.alive(), left.workers(), left.rescuers()), (3, 0, 0));
            let (word, last) = left.gone();
            assert!(!last);
            let (word, last) = word.gone();
            assert!(!last);
            assert_eq!(word.gone(), (Threads::none(), true));
        }
    }
}
