//! The cell of an executor's [`Threads`] word: which thread learns that another one has left, or is gone.
//!
//! A manager that finds no room asks in the same step to be told of some. A worker that leaves learns in one step whether
//! the manager has asked. So one of them sees the other.
//!
//! At the cap, the manager asks for a thread that is in use: first it asks, then it looks for an idle worker. A worker first
//! becomes idle, in the critical section in which the manager would find it, and then looks whether it is asked. So an
//! idle worker is found, or gives way of itself:
//!
//! * manager: ask; lock of the pool: no worker is idle. Worker: lock of the pool: idle; is it asked?
//!
//! If the manager locks first, the worker's look comes after the request. If the worker does, the manager finds it. A busy
//! worker looks between its items, and sees the request sooner or later; to give way is one step, so that one worker does.
//!
//! `gone` releases and the waiter acquires:
//!
//! * thread: what its thread-local destructors wrote, then `gone`;
//! * waiter: reads that no thread is alive, then sees what they wrote.

use crate::policy::threads::{Kind, Threads};
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

    /// A pool starves: asks a worker to give way, unless `idle_leaves` finds an idle one that leaves instead.
    pub(crate) fn ask(&self, idle_leaves: impl FnOnce() -> bool) {
        self.update(|word| (word.ask(), ()));
        if idle_leaves() {
            self.withdraw();
        }
    }

    /// A turn has passed since the request: every worker may answer it.
    pub(crate) fn hurry(&self) {
        self.update(|word| (word.hurry(), ()));
    }

    /// No worker needs to give way.
    pub(crate) fn withdraw(&self) {
        if self.is_asked() {
            self.update(|word| (word.withdraw(), ()));
        }
    }

    /// Is a worker asked to give way?
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.load().is_asked()
    }

    /// The calling worker is between two items. Returns whether it gives way. `others_run`: its pool has other workers that
    /// run.
    #[cold]
    pub(crate) fn give_way(&self, others_run: bool) -> bool {
        self.update(|word| word.give_way(others_run))
    }

    /// The calling worker has become idle. If one is asked to give way, `leaves` has an idle one leave.
    pub(crate) fn rested(&self, leaves: impl FnOnce() -> bool) {
        if self.is_asked() && leaves() {
            self.withdraw();
        }
    }

    /// Counts a rescuer that is about to be made.
    pub(crate) fn rescuer_comes(&self) {
        self.update(|word| (word.rescuer_comes(), ()));
    }

    /// Counts a manager or a cleaner that is about to be made.
    pub(crate) fn other_comes(&self) {
        self.update(|word| (word.other_comes(), ()));
    }

    /// A thread has ended its own code, or could not be made: it takes no room. True if the manager is to be told.
    #[must_use]
    pub(crate) fn leaves(&self, kind: Kind) -> bool {
        self.update(|word| word.leaves(kind))
    }

    /// A thread that has left runs no user code any more, or could not be made.
    pub(crate) fn gone(&self) {
        if self.update(Threads::gone) {
            wait::wake_all(self.key());
        }
    }

    /// Waits until all threads are gone. Returns how many are not when the time runs out.
    pub(crate) fn wait(&self, until: Until) -> u64 {
        while self.alive() > 0 && wait::sleep(self.key(), || self.alive() > 0, until) {}
        self.alive()
    }

    /// Acquire, as the module says.
    fn alive(&self) -> u64 {
        Threads::from_bits(self.0.load(Ordering::Acquire)).alive()
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn update<A>(&self, transition: impl FnMut(Threads) -> (Threads, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Threads::from_bits, Threads::into_bits, transition)
    }
}
