//! The threads of an executor: how many there are, whether there is room for one more, and when the last one is gone.
//!
//! A thread is *alive* from before it is made until its thread-local destructors have run, which are user code. A worker
//! or a rescuer *leaves* before that, at the end of its own code. From then on it takes no room: a destructor may wait
//! for an item that needs the place of its thread.
//!
//! One word, so that a worker that leaves and a manager that finds no room cannot miss each other, and so that there is
//! one moment at which the last thread is gone, whatever its kind.

#![forbid(unsafe_code)]

use std::fmt;

/// A process of Linux has fewer threads than that (2^22).
const ALIVE_MASK: u64 = (1 << 22) - 1;
const RESCUERS: u32 = 22;
const RESCUERS_MASK: u64 = (1 << 21) - 1;
const WORKERS: u32 = 43;
const WORKERS_MASK: u64 = (1 << 20) - 1;
const FULL: u64 = 1 << 63;

/// The threads that exist or are being made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads(u64);

/// What a thread is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Worker,
    Rescuer,
    Manager,
    /// Destroys what the manager has left.
    Cleaner,
}

impl Threads {
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    /// Workers that have not left.
    pub(crate) const fn workers(self) -> u64 {
        self.0 >> WORKERS & WORKERS_MASK
    }

    /// Rescuers that have not left.
    pub(crate) const fn rescuers(self) -> u64 {
        self.0 >> RESCUERS & RESCUERS_MASK
    }

    /// Threads of every kind that are not gone.
    pub(crate) const fn alive(self) -> u64 {
        self.0 & ALIVE_MASK
    }

    /// The manager is about to make a worker. Returns false if there are `max` already. Then the next worker that leaves
    /// tells the manager.
    pub(crate) const fn worker_comes(self, max: u64) -> (Self, bool) {
        if self.workers() < max && self.workers() < WORKERS_MASK && self.alive() < ALIVE_MASK {
            (Self(self.0 + (1 << WORKERS) + 1), true)
        } else {
            (Self(self.0 | FULL), false)
        }
    }

    pub(crate) const fn rescuer_comes(self) -> Self {
        debug_assert!(self.rescuers() < RESCUERS_MASK && self.alive() < ALIVE_MASK);
        Self(self.0 + (1 << RESCUERS) + 1)
    }

    /// The same for a manager or a cleaner.
    pub(crate) const fn other_comes(self) -> Self {
        debug_assert!(self.alive() < ALIVE_MASK);
        Self(self.0 + 1)
    }

    /// The thread has ended its own code, or could not be made. It stays alive. Returns whether the manager is to be told
    /// that there is room.
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

    /// A thread that has left has run its thread-local destructors, or could not be made. Returns whether it was the last
    /// one.
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

    /// spec: E2.5, X3: a destructor may wait for work of its executor.
    #[test]
    fn a_worker_that_leaves_makes_room_and_stays_alive() {
        let (word, _) = Threads::none().worker_comes(1).0.leaves(Kind::Worker);
        assert_eq!((word.workers(), word.alive()), (0, 1));
        let (word, comes) = word.worker_comes(1);
        assert!(comes);
        assert_eq!((word.workers(), word.alive()), (1, 2));
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
    fn the_last_thread_that_is_gone_is_the_last_whatever_its_kind() {
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
