//! The cell of an executor's [`Threads`] word. From this word, threads learn that a thread of the executor leaves or is
//! gone.
//!
//! **Room.** If the manager finds no room for a worker, it asks in the same step to be told when there is room. When a
//! worker leaves, it learns in the same step whether the manager has asked for this notice. If the manager looked for
//! room in one step and asked for the notice in another step, this could happen:
//!
//! * manager: finds no room;
//! * worker: leaves; sees no request of the manager;
//! * manager: asks for the notice. So there is room, but no thread tells the manager.
//!
//! **Request to give way.** Suppose that a pool starves while the executor has as many threads as its cap permits. Then
//! a worker of another pool *gives way*: its thread ends. The manager first asks a busy worker to give way. Then the
//! manager looks for an idle worker, under the lock of that worker's pool. If the manager finds an idle worker, that
//! worker leaves instead of a busy one. A worker first becomes idle, under the same lock, and then reads whether the
//! manager has asked a worker to give way. The order of the steps and the lock forbid these steps:
//!
//! * manager: asks; locks the pool: no worker is idle;
//! * worker: locks the pool, becomes idle; sees no request of the manager. So an idle worker stays, although its
//!   thread is needed.
//!
//! If the manager locks the pool first, the worker reads the word after the manager has made its request. If the worker
//! locks the pool first, the manager finds the worker idle. A busy worker reads the request between two items. The step
//! in which a worker decides to give way also ends the request. So only one worker gives way for each request. For the
//! same reason, a worker that has become idle first ends the request, and then sends an idle worker of its pool away.
//! The worker holds the pool's lock during both steps. If the worker did the two steps in the opposite order, this
//! could happen:
//!
//! * worker: sends an idle worker away, whose place goes to the pool that starves;
//! * manager: asks for another pool that starves;
//! * worker: ends the request. So the other pool waits, but no worker gives way to it.
//!
//! **The end.** `gone` releases and the waiting thread acquires:
//!
//! * ending thread: runs its thread-local destructors, which write; then calls `gone`;
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

    /// Returns the word, which may be out of date when the caller uses it.
    pub(crate) fn load(&self) -> Threads {
        Threads::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Counts a worker that is about to be made. Returns false if there are already `max` workers.
    pub(crate) fn worker_comes(&self, max: u64) -> bool {
        self.update(|word| word.worker_comes(max))
    }

    /// Asks a busy worker to give way, because a pool starves. `idle_leaves` makes an idle worker leave instead, and
    /// returns whether there was an idle worker.
    pub(crate) fn ask(&self, idle_leaves: impl FnOnce() -> bool) {
        self.update(|word| (word.ask(), ()));
        if idle_leaves() {
            self.withdraw();
        }
    }

    /// Permits any worker to give way, because no worker has answered the request within a whole turn (see
    /// [`room`](crate::policy::room)).
    pub(crate) fn hurry(&self) {
        self.update(|word| (word.hurry(), ()));
    }

    /// Withdraws the request to give way, because no worker needs to give way any more.
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

    /// Returns whether the calling worker, which is idle or between two items, gives way. A worker that gives way ends
    /// the request. `others_run` says whether the pool can spare this worker, because this worker is idle or other
    /// workers of the pool run.
    #[cold]
    pub(crate) fn give_way(&self, others_run: bool) -> bool {
        self.update(|word| word.give_way(others_run))
    }

    /// Answers a request after the calling worker has become idle. If a worker is asked to give way, calls `leaves`.
    /// `leaves` locks the caller's pool. If a worker of this pool is idle, `leaves` ends the request by
    /// [`give_way`](Self::give_way), and then makes the idle worker leave. Returns whether a worker leaves.
    pub(crate) fn rested(&self, leaves: impl FnOnce() -> bool) -> bool {
        self.is_asked() && leaves()
    }

    /// Counts a rescuer that is about to be made.
    pub(crate) fn rescuer_comes(&self) {
        self.update(|word| (word.rescuer_comes(), ()));
    }

    /// Counts a manager or a cleaner that is about to be made.
    pub(crate) fn other_comes(&self) {
        self.update(|word| (word.other_comes(), ()));
    }

    /// Frees the room of a thread that has reached the end of its own code (only thread-local destructors still run),
    /// or that could not be made. Returns whether the caller must tell the manager that there is room.
    #[must_use]
    pub(crate) fn leaves(&self, kind: Kind) -> bool {
        self.update(|word| word.leaves(kind))
    }

    /// Takes a thread out of the count of living threads, because the thread has run its last user code, or could not
    /// be made.
    pub(crate) fn gone(&self) {
        if self.update(Threads::gone) {
            wait::wake_all(self.key());
        }
    }

    /// Waits until all threads are gone, or until the time runs out. Returns the number of threads that are not gone.
    pub(crate) fn wait(&self, until: Until) -> u64 {
        while self.alive() > 0 && wait::sleep(self.key(), || self.alive() > 0, until) {}
        self.alive()
    }

    /// Returns the number of threads that are not gone. The load acquires, as the module says.
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
