//! The threads of an executor: how many there are, whether there is room for one more, and when none is left.
//!
//! One word, so that a worker that leaves and a manager that finds no room cannot miss each other, and so that there is
//! one moment at which the last thread has left, whichever kind it was.

#![forbid(unsafe_code)]

use std::fmt;

const WORKERS: u32 = 0;
const RESCUERS: u32 = 30;
/// Those that have ended their work, and are about to leave, are counted beside a new one.
const CLEANERS: u32 = 52;
const COUNT_MASK: u64 = (1 << 30) - 1;
const RESCUERS_MASK: u64 = (1 << 22) - 1;
const CLEANERS_MASK: u64 = (1 << 8) - 1;
const MANAGER: u64 = 1 << 60;
const FULL: u64 = 1 << 61;

/// The threads that exist or are being made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads(u64);

/// Who is to be told that a thread has left?
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The manager: it found no room for a worker.
    pub(crate) room: bool,
    /// Whoever waits for the end: it was the last one.
    pub(crate) last: bool,
}

impl Threads {
    pub(crate) const fn none() -> Self {
        Self(0)
    }

    pub(crate) const fn workers(self) -> u64 {
        self.0 >> WORKERS & COUNT_MASK
    }

    pub(crate) const fn rescuers(self) -> u64 {
        self.0 >> RESCUERS & RESCUERS_MASK
    }

    const fn cleaners(self) -> u64 {
        self.0 >> CLEANERS & CLEANERS_MASK
    }

    /// All of them, the manager too.
    pub(crate) const fn all(self) -> u64 {
        self.workers() + self.rescuers() + self.cleaners() + (self.0 & MANAGER != 0) as u64
    }

    /// The manager is about to make a worker. False if there are `max` already: it is told when one leaves.
    pub(crate) const fn worker_comes(self, max: u64) -> (Self, bool) {
        if self.workers() < max && self.workers() < COUNT_MASK {
            (Self(self.0 + (1 << WORKERS)), true)
        } else {
            (Self(self.0 | FULL), false)
        }
    }

    /// A worker has left, or could not be made.
    pub(crate) const fn worker_left(self) -> (Self, Left) {
        debug_assert!(self.workers() > 0);
        let next = Self((self.0 & !FULL) - (1 << WORKERS));
        (next, Left { room: self.0 & FULL != 0, last: next.all() == 0 })
    }

    pub(crate) const fn rescuer_comes(self) -> Self {
        debug_assert!(self.rescuers() < RESCUERS_MASK);
        Self(self.0 + (1 << RESCUERS))
    }

    pub(crate) const fn rescuer_left(self) -> (Self, Left) {
        debug_assert!(self.rescuers() > 0);
        Self(self.0 - (1 << RESCUERS)).left()
    }

    /// A thread is about to be made that destroys what the manager has left.
    pub(crate) const fn cleaner_comes(self) -> Self {
        debug_assert!(self.cleaners() < CLEANERS_MASK);
        Self(self.0 + (1 << CLEANERS))
    }

    pub(crate) const fn cleaner_left(self) -> (Self, Left) {
        debug_assert!(self.cleaners() > 0);
        Self(self.0 - (1 << CLEANERS)).left()
    }

    pub(crate) const fn manager_comes(self) -> Self {
        Self(self.0 | MANAGER)
    }

    /// The manager's thread has ended, or could not be made.
    pub(crate) const fn manager_left(self) -> (Self, Left) {
        Self(self.0 & !MANAGER).left()
    }

    const fn left(self) -> (Self, Left) {
        (self, Left { room: false, last: self.all() == 0 })
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
            .field("workers", &self.workers())
            .field("rescuers", &self.rescuers())
            .field("cleaners", &self.cleaners())
            .field("manager", &(self.0 & MANAGER != 0))
            .field("full", &(self.0 & FULL != 0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_of_room_once_after_it_found_none() {
        let (word, comes) = Threads::none().worker_comes(2).0.worker_comes(2);
        assert!(comes);
        let (full, comes) = word.worker_comes(2);
        assert_eq!((comes, full.workers()), (false, 2));
        let (word, left) = full.worker_left();
        assert_eq!(left, Left { room: true, last: false });
        assert_eq!(word.worker_left(), (Threads::none(), Left { room: false, last: true }));
    }

    #[test]
    fn the_last_thread_of_any_kind_is_the_last() {
        let all = Threads::none().manager_comes().rescuer_comes().cleaner_comes().worker_comes(1).0;
        assert_eq!((all.all(), all.rescuers(), all.workers()), (4, 1, 1));
        let leave = [
            |word: Threads| word.manager_left(),
            |word: Threads| word.cleaner_left(),
            |word: Threads| word.rescuer_left(),
            |word: Threads| word.worker_left(),
        ];
        for first in 0..4 {
            let word = (0..3).fold(all, |word, next| {
                let (word, left) = leave[(first + next) % 4](word);
                assert!(!left.last);
                word
            });
            assert_eq!(leave[(first + 3) % 4](word), (Threads::none(), Left { room: false, last: true }));
        }
    }
}
