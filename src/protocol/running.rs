//! The cell of a pool's [`Running`] word, which tells an issuer whether to wake a worker, and a worker whether it may
//! start.
//!
//! Four handshakes meet here. In each, two threads write one thing and then read the other, and at least one of them
//! must see what the other wrote.
//!
//! * **Push against leave.** A worker stops counting: it blocks, goes idle, or begins a CPU-intensive item. Fences in
//!   [`pushed`](RunningCell::pushed) and [`look`](RunningCell::look) forbid this:
//!   * issuer: pushes an item; reads the word: a worker runs, so the issuer wakes none;
//!   * worker: lowers the word; reads the worklist: it is empty. So the item waits, and no worker comes for it.
//! * **Push against retarget.** The same fences, if a thread raises the target:
//!   * issuer: pushes an item; reads the word: the pool is full;
//!   * other thread: raises the target; reads the worklist: it is empty.
//! * **Push against unwatch.** The same fences, if the manager stops watching a saturated pool:
//!   * issuer: pushes an item; reads the word: the manager watches;
//!   * manager: clears the watched bit; reads the worklist: it is empty. So work is pending, and the manager does not
//!     watch.
//! * **Leave against short.** The manager has no room for a worker that the pool asked for. In one step it sets the
//!   short bit and learns whether a worker runs. No fence is needed, because both sides change the same word. In two
//!   steps this could happen:
//!   * manager: reads the word: a worker runs;
//!   * worker: leaves the count, and looks at the word: the short bit is not set;
//!   * manager: sets the short bit. So no worker runs, and the manager does not know.
//!
//! `SeqCst` accesses instead of the fences would not do. They do not order the accesses of the worklist, which only
//! acquire and release.

use crate::policy::concurrency::{Kick, Next, Reserved, Running};
use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

/// A pool's count of running and waking workers.
#[derive(Debug)]
pub(crate) struct RunningCell(AtomicU64);

impl RunningCell {
    pub(crate) fn new(word: Running) -> Self {
        Self(AtomicU64::new(word.into_bits()))
    }

    /// Returns the word. It may be out of date when it is used.
    pub(crate) fn load(&self) -> Running {
        Running::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Asks what to do about an item that the caller has just made visible.
    #[inline]
    pub(crate) fn pushed(&self) -> Kick {
        fence(Ordering::SeqCst); // with `look`; see the module
        self.kick()
    }

    /// Asks what to do about the work that is left, after the caller has changed the word: it has left the count,
    /// used up a reservation, or cleared the watched bit.
    #[inline]
    pub(crate) fn look(&self, has_work: impl FnOnce() -> bool) -> Kick {
        fence_after_update(); // with `pushed`; see the module
        if has_work() { self.kick() } else { Kick::Enough }
    }

    /// Asks what to do about pending work. The common answer, "enough", costs one load. The loaded word may be out of
    /// date, but a thread that lowers the word looks at the work afterwards.
    #[inline]
    fn kick(&self) -> Kick {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let (next, kick) = Running::from_bits(seen).kick();
            if matches!(kick, Kick::Enough | Kick::Offer) {
                return kick;
            }
            match self.0.compare_exchange_weak(seen, next.into_bits(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return kick,
                Err(actual) => seen = actual,
            }
        }
    }

    /// Reserves a worker for the work of a sibling, if there is room for it.
    pub(crate) fn reserve(&self) -> Option<Reserved> {
        self.update(Running::reserve)
    }

    /// Notes that a woken worker does not get a CPU. The caller then offers the work to the sibling pools. The fences
    /// forbid this:
    ///
    /// * caller: sets the stalled bit; reads the room bits of the siblings: none is set;
    /// * worker of a sibling: sets the room bit of its pool; reads this word: it is not stalled, so there is nothing
    ///   to take.
    #[cold]
    pub(crate) fn stall(&self) {
        self.update(|word| (word.stall(), ()));
        fence_after_update(); // with `PodBits::set` of a sibling that sets its room bit
    }

    /// Notes that no woken worker is late any more. The caller owes a [`look`](Self::look).
    #[cold]
    pub(crate) fn unstall(&self) {
        self.update(|word| (word.unstall(), ()));
    }

    /// Notes that the manager has no room for a worker that the pool asked for. Returns whether no worker runs.
    #[cold]
    pub(crate) fn short(&self) -> bool {
        self.update(Running::short)
    }

    /// Takes back the note of [`short`](Self::short): the manager knows that no worker runs, or a worker has come.
    #[cold]
    pub(crate) fn unshort(&self) {
        self.update(|word| (word.unshort(), ()));
    }

    /// Uses up a reservation. Returns whether the worker begins.
    pub(crate) fn start(&self, reserved: Reserved) -> bool {
        let _used_up = reserved;
        self.update(Running::start)
    }

    /// Gives up a reservation that no worker can serve. So the next push reserves again.
    #[cold]
    pub(crate) fn drop_reservation(&self, reserved: Reserved) {
        let _used_up = reserved;
        self.update(|word| (word.drop_reservation(), ()));
    }

    /// Gives up these reservations by `give_up`, because no work is left. After each of them, calls `look`, the
    /// [`look`](Self::look) that the caller owes.
    ///
    /// One look for all of them would miss an item:
    ///
    /// * manager: gives up two reservations;
    /// * two issuers: each pushes an item, and relied on one of the reservations;
    /// * manager: looks once, and wakes a worker for one item.
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

    /// Takes a running worker out of the count. The caller owes a [`look`](Self::look).
    #[inline]
    pub(crate) fn leave(&self) {
        let before = self.0.fetch_sub(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert!(
            Running::from_bits(before).running() > 0,
            "a worker left a pool in which none was running"
        );
    }

    /// Counts a worker that has come back.
    #[inline]
    pub(crate) fn come_back(&self) {
        let before = self.0.fetch_add(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert_eq!(
            Running::from_bits(before).come_back(),
            Running::from_bits(before + Running::ONE.into_bits())
        );
    }

    /// Asks what a worker does between two items. [`Next::Shed`] has taken it out of the count.
    #[inline]
    pub(crate) fn between_items(&self, work: bool) -> Next {
        let seen = self.load();
        if seen.too_many_running() {
            self.update(|word| word.between_items(work))
        } else {
            seen.between_items(work).1
        }
    }

    /// Marks the pool as abandoned: it runs nothing any more. From now on every push is told to wake a worker, and
    /// its issuer then finds the mark. The caller has marked the sideline before, and looks at the worklist
    /// afterwards. The fences forbid this:
    ///
    /// * issuer: pushes an item; reads the word: the pool is saturated, so the issuer wakes no worker;
    /// * caller: marks the word; reads the worklist: it is empty. So the item stays for ever.
    #[cold]
    pub(crate) fn abandon(&self) {
        self.update(|word| (word.abandoned(), ()));
        fence_after_update(); // with `pushed`
    }

    /// Notes that the manager watches from now on. Returns whether it did not watch before.
    pub(crate) fn watch(&self) -> bool {
        self.update(Running::watch)
    }

    /// Notes that the manager stops watching. It owes a [`look`](Self::look).
    pub(crate) fn unwatch(&self) {
        self.update(|word| (word.unwatch(), ()));
    }

    /// Sets the target. If that changes it, [looks](Self::look) at the work: the pool may need more workers for it,
    /// or may have more of it than its workers can do.
    #[cold]
    pub(crate) fn retarget(&self, target: usize, has_work: impl FnOnce() -> bool) -> Kick {
        if self.update(|word| word.retarget(target)) { self.look(has_work) } else { Kick::Enough }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(Running) -> (Running, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Running::from_bits, Running::into_bits, transition)
    }
}
