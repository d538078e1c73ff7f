//! The cell of an executor's [`Threads`] word: who is told that a thread has left.
//!
//! Finding no room and asking to be told of some is one step, so is leaving and learning who is to be told: a worker
//! that leaves is either seen by the manager, or sees that it looked.
//!
//! Every leave releases and the waiter acquires: whoever has seen that no thread is left sees what all of them did.

use crate::policy::threads::{Left, Threads};
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::{self, Until};

/// The threads of one executor.
#[derive(Debug)]
pub(crate) struct ThreadsCell(AtomicU64);

impl ThreadsCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Threads::none().into_bits()))
    }

    /// A look at the word that nothing is decided by.
    pub(crate) fn load(&self) -> Threads {
        Threads::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Counts a worker that is about to be made. False if there are `max` already.
    pub(crate) fn worker_comes(&self, max: u64) -> bool {
        self.update(|word| word.worker_comes(max))
    }

    /// A worker has left, or could not be made. True if the manager is to be told.
    #[must_use]
    pub(crate) fn worker_left(&self) -> bool {
        self.leave(Threads::worker_left)
    }

    pub(crate) fn rescuer_comes(&self) {
        self.update(|word| (word.rescuer_comes(), ()));
    }

    pub(crate) fn rescuer_left(&self) {
        self.leave(Threads::rescuer_left);
    }

    /// By the manager, before it ends.
    pub(crate) fn cleaner_comes(&self) {
        self.update(|word| (word.cleaner_comes(), ()));
    }

    pub(crate) fn cleaner_left(&self) {
        self.leave(Threads::cleaner_left);
    }

    /// The manager's thread is about to be made.
    pub(crate) fn manager_comes(&self) {
        self.update(|word| (word.manager_comes(), ()));
    }

    /// It has ended, or could not be made.
    pub(crate) fn manager_left(&self) {
        self.leave(Threads::manager_left);
    }

    /// Waits until all threads have left. How many have not when the time runs out?
    pub(crate) fn wait(&self, until: Until) -> u64 {
        while self.left() > 0 && wait::sleep(self.key(), || self.left() > 0, until) {}
        self.left()
    }

    /// How many there are. Acquire, as the module says.
    fn left(&self) -> u64 {
        Threads::from_bits(self.0.load(Ordering::Acquire)).all()
    }

    fn leave(&self, transition: impl FnMut(Threads) -> (Threads, Left)) -> bool {
        let left = self.update(transition);
        if left.last {
            wait::wake_all(self.key());
        }
        left.room
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn update<A>(&self, transition: impl FnMut(Threads) -> (Threads, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Threads::from_bits, Threads::into_bits, transition)
    }
}
