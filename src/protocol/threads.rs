//! The cell of an executor's [`Threads`] word: how its threads learn that another one leaves, or is gone.
//!
//! **Room.** A manager that finds no room asks in the same step to be told of some. A worker that leaves learns in
//! one step whether the manager has asked. In two steps this could happen:
//!
//! * manager: finds no room;
//! * worker: leaves; the manager has not asked;
//! * manager: asks. There is room, and the manager is not told.
//!
//! **Request to give way.** At the cap, the manager first asks for a thread that is in use, and then looks for an
//! idle worker, under the pool's lock. A worker first becomes idle, under the same lock, and then reads whether the
//! manager has asked. The order of the steps and the lock forbid this:
//!
//! * manager: asks; locks the pool: no worker is idle;
//! * worker: locks the pool, becomes idle; reads that no worker is asked. So an idle worker stays, though its thread
//!   is needed.
//!
//! If the manager locks first, the worker reads after the request. If the worker locks first, the manager finds it
//! idle. A busy worker reads the request between its items. Giving way is one step, so one worker gives way for one
//! request.
//!
//! **The end.** `gone` releases and the waiting thread acquires:
//!
//! * ending thread: its thread-local destructors write; then `gone`;
//! * waiting thread: reads that no thread is alive, then sees what the destructors wrote.

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

    /// Returns the word. It may be out of date when it is used.
    pub(crate) fn load(&self) -> Threads {
        Threads::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Counts a worker that is about to be made. Returns false if there are `max` already.
    pub(crate) fn worker_comes(&self, max: u64) -> bool {
        self.update(|word| word.worker_comes(max))
    }

    /// Asks a worker to give way, because a pool starves. `idle_leaves` makes an idle worker leave instead, and
    /// returns whether there was one.
    pub(crate) fn ask(&self, idle_leaves: impl FnOnce() -> bool) {
        self.update(|word| (word.ask(), ()));
        if idle_leaves() {
            self.withdraw();
        }
    }

    /// Lets every worker answer the request, because a turn has passed since.
    pub(crate) fn hurry(&self) {
        self.update(|word| (word.hurry(), ()));
    }

    /// Withdraws the request: no worker needs to give way.
    pub(crate) fn withdraw(&self) {
        if self.is_asked() {
            self.update(|word| (word.withdraw(), ()));
        }
    }

    /// Returns whether a worker is asked to give way.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.load().is_asked()
    }

    /// Returns whether the calling worker gives way. It asks between two items. `others_run`: its pool has other
    /// running workers.
    #[cold]
    pub(crate) fn give_way(&self, others_run: bool) -> bool {
        self.update(|word| word.give_way(others_run))
    }

    /// Answers the request for the calling worker, which has become idle. If a worker is asked to give way, `leaves`
    /// makes an idle one leave, and returns whether there was one.
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

    /// Takes away the room of a thread that has ended its own code, or could not be made. Returns whether to tell the
    /// manager.
    #[must_use]
    pub(crate) fn leaves(&self, kind: Kind) -> bool {
        self.update(|word| word.leaves(kind))
    }

    /// Takes a thread out of the count that has run its last user code, or could not be made.
    pub(crate) fn gone(&self) {
        if self.update(Threads::gone) {
            wait::wake_all(self.key());
        }
    }

    /// Waits until all threads are gone. Returns the number of threads that are left when the time runs out.
    pub(crate) fn wait(&self, until: Until) -> u64 {
        while self.alive() > 0 && wait::sleep(self.key(), || self.alive() > 0, until) {}
        self.alive()
    }

    /// Returns the number of threads that are not gone. Acquires, as the module says.
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
