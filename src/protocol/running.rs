//! The cell of a pool's [`Running`] word. The word tells an issuer whether to wake a worker, and tells a woken worker
//! whether it may start.
//!
//! This header describes several handshakes of the cell, and [`crowded`](super::crowded) and [`forks`](super::forks)
//! describe more. In each handshake, each of two threads makes a write, and then reads a location that the other thread
//! writes. At least one of the two threads must see the other thread's write.
//!
//! * **Push against leave.** A worker no longer counts as running, because it blocks, goes idle, or begins a
//!   CPU-intensive item. Fences in [`pushed`](RunningCell::pushed) and [`look`](RunningCell::look) forbid these steps:
//!   * issuer: pushes an item; reads the word: a worker runs, so the issuer wakes no worker;
//!   * worker: lowers the word; reads the worklist: it is empty. So the item waits, and no worker is woken for it.
//! * **Push against retarget.** A thread raises the pool's target, which is the number of workers that should run. The
//!   fences in `pushed` and `look` also forbid these steps:
//!   * issuer: pushes an item; reads the word: the pool is full, so the issuer wakes no worker;
//!   * other thread: raises the target; reads the worklist: it is empty.
//! * **Push against unwatch.** The manager stops watching a *saturated* pool, which has work but wakes no further
//!   worker. The fences in `pushed` and `look` also forbid these steps:
//!   * issuer: pushes an item; reads the word: the manager watches the pool, so the issuer does not notify the manager;
//!   * manager: clears the watched bit; reads the worklist: it is empty. So work is pending, and the manager does not
//!     watch the pool.
//! * **Start or keep against a rare check.** The manager checks a pool rarely if no worker is about to start and no
//!   worker has local entries. The manager sets a bit of the word before it checks these two conditions. When a worker
//!   starts, it first changes the same word. So either the worker sees the bit, or the manager sees that the worker was
//!   woken. The fences in `kept` and `check_rarely` forbid these steps:
//!   * worker: puts an entry on its own list; reads the word: the manager checks the pool often;
//!   * manager: sets the bit; reads the worker's list: it is empty. So the entry may wait until the next rare check.
//! * **Push against the end of briskness.** A pool stops being [brisk](crate::policy::brisk), because its items are no
//!   longer short and many. The fences in `pushed` and [`not_brisk`](RunningCell::not_brisk) forbid these steps:
//!   * issuer: pushes an item; reads the word: the pool is brisk, so the issuer wakes no worker and offers nothing;
//!   * other thread: changes the word; reads the worklist: it is empty, so this thread also wakes no worker and offers
//!     nothing.
//! * **A worker leaves while the manager is short of room.** The manager has no room for a worker that the pool asked
//!   for. In one step, the manager sets the short bit and learns whether a worker of the pool runs. No fence is needed,
//!   because both sides change the same word. If the manager read the word and set the bit in two separate steps, this
//!   could happen:
//!   * manager: reads the word: a worker runs;
//!   * worker: leaves the count; reads the word: the short bit is not set;
//!   * manager: sets the short bit. So no worker runs, and the manager does not know this.
//!
//! `SeqCst` accesses to the word could not replace the fences, because they would not order the accesses to the
//! worklist. The accesses to the worklist only acquire and release.

use crate::policy::concurrency::{Kick, Reserved, Running};
use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

/// A pool's count of running and waking workers.
#[derive(Debug)]
pub(crate) struct RunningCell(AtomicU64);

impl RunningCell {
    pub(crate) fn new(word: Running) -> Self {
        Self(AtomicU64::new(word.into_bits()))
    }

    /// Returns the word, which may be out of date when the caller uses it.
    pub(crate) fn load(&self) -> Running {
        Running::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Decides what the caller does about an item that it has just made visible to workers. The caller has made the
    /// item visible with a read-modify-write. A push to the worklist reserves its place with a read-modify-write,
    /// because the worklist has several producers. A push to the sideline takes a lock.
    #[inline]
    pub(crate) fn pushed(&self) -> Kick {
        fence_after_update(); // with `look`; see the module
        self.kick()
    }

    /// Decides what the calling worker does about an entry that it has put on its own list. `wakes` says whether the
    /// worker wants another worker to take entries from the list.
    #[inline]
    pub(crate) fn kept(&self, wakes: bool) -> Kick {
        // This fence pairs with those of `look` and `check_rarely`. It is a full fence, because a push to the worker's
        // own list is not a read-modify-write.
        fence(Ordering::SeqCst);
        if wakes { self.decide(Running::kick_anyway) } else { self.decide(Running::keep) }
    }

    /// Reserves a worker for forks, if the pool wants a worker for them. Before the call, one of two things has
    /// happened. Either the caller has made a fork and called [`ForkBits::set`](super::forks::ForkBits::set). Or the
    /// caller has lowered the word, then issued a fence, and then found forks.
    ///
    /// `joining` returns the number of the pool's threads that wait for forks. A thread that begins to wait for a fork
    /// raises this number before it lowers the word. The loads of the word acquire, so if this call sees the lowered
    /// word, `joining` returns the raised number.
    #[cold]
    pub(crate) fn reserve_for_fork(&self, joining: impl Fn() -> u64) -> Option<Reserved> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (next, reserved) = Running::from_bits(seen).fork(joining());
            let reserved = reserved?;
            match self.0.compare_exchange_weak(seen, next.into_bits(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(reserved),
                Err(actual) => seen = actual,
            }
        }
    }

    /// Decides what the caller does about pending work. The caller has already changed the word: for example, the
    /// caller has left the count, used up a reservation, or cleared the watched bit.
    #[inline]
    pub(crate) fn look(&self, has_work: impl FnOnce() -> bool) -> Kick {
        self.look_and(Running::kick, has_work)
    }

    /// Decides like [`look`](Self::look), but may wake a worker even if the pool is brisk (its items are short and
    /// many). A thread calls this function if a worker of the pool no longer needs its CPU, or if items may wait behind
    /// a long item.
    #[inline]
    pub(crate) fn look_for_another(&self, has_work: impl FnOnce() -> bool) -> Kick {
        self.look_and(Running::kick_anyway, has_work)
    }

    /// Decides like [`look`](Self::look), for a caller that has just told the manager that the pool starves. The answer
    /// is never [`Kick::Starve`].
    ///
    /// The manager may have set the short bit again, because a woken worker is on its way. If the woken worker starts,
    /// it looks for work later. If its reservation is dropped, the thread that drops the reservation looks for work.
    /// Until the worker starts or the reservation is dropped, the caller must not tell the manager again. Otherwise the
    /// caller and the manager would repeat these steps until the worker gets a CPU.
    #[cold]
    pub(crate) fn look_further(&self, has_work: impl FnOnce() -> bool) -> Kick {
        self.look_and(Running::kick_further, has_work)
    }

    #[inline]
    fn look_and(
        &self,
        decision: impl Fn(Running) -> (Running, Kick),
        has_work: impl FnOnce() -> bool,
    ) -> Kick {
        fence_after_update(); // with `pushed`; see the module
        if has_work() { self.decide(decision) } else { Kick::Enough }
    }

    /// Decides what the caller does about items that the pool's workers will not run soon, even if the pool is brisk.
    /// The pushes of these items were complete before the call, so the call needs no fence.
    #[cold]
    pub(crate) fn kick_anyway(&self) -> Kick {
        self.decide(Running::kick_anyway)
    }

    /// Decides what the caller does about pending work. The common answer, "enough", costs one load. The loaded word
    /// may be out of date. An outdated word does no harm, because a thread that lowers the word checks for work
    /// afterwards.
    #[inline]
    fn kick(&self) -> Kick {
        self.decide(Running::kick)
    }

    #[inline]
    fn decide(&self, decision: impl Fn(Running) -> (Running, Kick)) -> Kick {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (next, kick) = decision(Running::from_bits(seen));
            if matches!(kick, Kick::Enough | Kick::Offer | Kick::Leave) {
                return kick;
            }
            match self.0.compare_exchange_weak(seen, next.into_bits(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return kick,
                Err(actual) => seen = actual,
            }
        }
    }

    /// Reserves a worker of this pool for the work of a sibling, if this pool has room for that work.
    pub(crate) fn reserve(&self) -> Option<Reserved> {
        self.update(Running::reserve)
    }

    /// Notes that a woken worker does not get a CPU. The caller then offers the pool's work to the sibling pools. The
    /// fences of the caller and of a sibling's worker forbid these steps:
    ///
    /// * caller: sets the late bit; reads the room bits of the siblings: none is set;
    /// * worker of a sibling: sets the room bit of its pool; reads this word: the late bit is not set, so the worker
    ///   takes nothing.
    #[cold]
    pub(crate) fn late(&self) {
        self.update(|word| (word.late(), ()));
        fence_after_update(); // with `PodBits::set` of a sibling that sets its room bit
    }

    /// Notes that no woken worker is late any more. Afterwards, one of two threads [looks](Self::look) for work: the
    /// late worker, which has now arrived, or the thread that has dropped the late worker's reservation.
    #[cold]
    pub(crate) fn in_time(&self) {
        self.update(|word| (word.in_time(), ()));
    }

    /// Sets the short bit, because the manager has no room for a worker that the pool asked for. Returns true if no
    /// worker of the pool runs.
    #[cold]
    pub(crate) fn short(&self) -> bool {
        self.update(Running::short)
    }

    /// Clears the bit that [`short`](Self::short) sets, because a worker has arrived or the manager needs no further
    /// notice.
    #[cold]
    pub(crate) fn unshort(&self) {
        self.update(|word| (word.unshort(), ()));
    }

    /// Uses up the reservation of a woken worker. Returns whether this worker may begin to work.
    pub(crate) fn start(&self, reserved: Reserved) -> bool {
        let _used_up = reserved;
        self.update(Running::start)
    }

    /// Gives up a reservation that no worker can serve. The next push then reserves a worker again.
    #[cold]
    pub(crate) fn drop_reservation(&self, reserved: Reserved) {
        let _used_up = reserved;
        self.update(|word| (word.drop_reservation(), ()));
    }

    /// Gives up these reservations with `give_up`, because no work is left. After each reservation, calls the argument
    /// `look`, which looks for work as [`RunningCell::look`] does.
    ///
    /// If this function called `look` only once, after the last reservation, this could happen:
    ///
    /// * two issuers: each pushes an item, and wakes no worker, because the word counts a reservation for the item;
    /// * manager: gives up both reservations;
    /// * manager: calls `look` once, and wakes a worker for only one of the items.
    pub(crate) fn stand_down(
        dropped: Vec<Reserved>,
        mut give_up: impl FnMut(Reserved),
        mut look: impl FnMut(),
    ) {
        for reserved in dropped {
            give_up(reserved);
            look();
        }
    }

    /// Takes a running worker out of the count. The caller must call [`look`](Self::look) afterwards.
    #[inline]
    pub(crate) fn leave(&self) {
        let before = self.0.fetch_sub(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert!(
            Running::from_bits(before).running() > 0,
            "a worker left a pool in which none was running"
        );
    }

    /// Puts a worker back into the count of running workers.
    #[inline]
    pub(crate) fn come_back(&self) {
        let before = self.0.fetch_add(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert_eq!(
            Running::from_bits(before).come_back(),
            Running::from_bits(before + Running::ONE.into_bits())
        );
    }

    /// Takes the calling worker out of the count of running workers between two items, if more workers run than should
    /// run. Returns whether the worker was taken out. In the common case, the worker stays in the count, and the call
    /// costs one load.
    #[inline]
    pub(crate) fn shed(&self) -> bool {
        self.load().too_many_running() && self.update(Running::shed)
    }

    /// Marks the pool as abandoned, so that it runs nothing any more. From now on, an issuer that pushes tries to wake
    /// a worker, and thereby finds that the sideline is marked as abandoned. The caller has already marked the
    /// sideline, and checks the worklist afterwards. The fences in `pushed` and `abandon` forbid these steps:
    ///
    /// * issuer: pushes an item; reads the word: the pool is saturated, so the issuer wakes no worker;
    /// * caller: marks the word; reads the worklist: it is empty. So the item stays on the worklist for ever.
    #[cold]
    pub(crate) fn abandon(&self) {
        self.update(|word| (word.abandoned(), ()));
        fence_after_update(); // with `pushed`
    }

    /// Notes that the manager watches the pool from now on. Returns true if the manager was not watching the pool.
    pub(crate) fn watch(&self) -> bool {
        self.update(Running::watch)
    }

    /// Notes that the manager is about to check the pool. This check decides whether the manager checks the pool rarely
    /// from then on. If the manager decides against rare checks, it calls [`check_often`](Self::check_often). The
    /// module describes the fence.
    pub(crate) fn check_rarely(&self) {
        self.update(|word| (word.check_rarely(), ()));
        fence_after_update(); // with `kept`
    }

    /// Notes that the manager checks the pool often from now on. Returns whether the manager checked the pool rarely
    /// before. If the result is true and the caller is not the manager, the caller tells the manager of the change.
    #[cold]
    pub(crate) fn check_often(&self) -> bool {
        self.update(Running::check_often)
    }

    /// Notes that the pool's items are short and many. Returns whether the caller must tell the manager to watch the
    /// pool and to check it often.
    #[cold]
    pub(crate) fn brisk(&self) -> bool {
        self.update(Running::brisk)
    }

    /// Notes that the manager checks the pool. Returns whether the pool is brisk. If the pool is brisk, the manager
    /// soon checks it again.
    pub(crate) fn checked(&self) -> bool {
        self.update(Running::checked)
    }

    /// Notes that the pool's items are no longer short and many. Returns whether the pool was brisk. If the pool was
    /// brisk, the caller wakes workers for the backlog, and offers the backlog to siblings, as after a push.
    #[cold]
    pub(crate) fn not_brisk(&self) -> bool {
        let was_brisk = self.update(Running::not_brisk);
        fence_after_update(); // with `pushed`, and with `PodBits::set` of a sibling that sets its room bit
        was_brisk
    }

    /// Notes that the manager stops watching the pool. The caller must call [`look`](Self::look) afterwards.
    pub(crate) fn unwatch(&self) {
        self.update(|word| (word.unwatch(), ()));
    }

    /// Sets the pool's target, which is the number of workers that should run. If the call changes the target,
    /// [looks](Self::look) for work, because the pool may now need more workers, or may have more work than its workers
    /// can do.
    #[cold]
    pub(crate) fn retarget(&self, target: usize, has_work: impl FnOnce() -> bool) -> Kick {
        if self.update(|word| word.retarget(target)) { self.look(has_work) } else { Kick::Enough }
    }

    /// Notes whether the pool is *covered*, which means that up to twice as many workers run as its target says. If the
    /// call changes the word, looks for work, as [`retarget`](Self::retarget) does.
    #[cold]
    pub(crate) fn cover(&self, covers: bool, has_work: impl FnOnce() -> bool) -> Kick {
        if self.update(|word| word.cover(covers)) { self.look(has_work) } else { Kick::Enough }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(Running) -> (Running, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Running::from_bits, Running::into_bits, transition)
    }
}
