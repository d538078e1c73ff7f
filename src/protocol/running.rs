//! The cell of a pool's [`Running`] word: who sees work, who sees a free place.
//!
//! Four handshakes meet here, and each loses a wake-up if either side's fence is missing:
//!
//! * **Push against leave.** The issuer makes an item visible, fences, and reads the word. A worker that stops
//!   counting (it blocks, goes idle, begins a CPU-intensive item) lowers the word, fences, and reads the worklist.
//!   With both fences at least one of the two sees what the other wrote, and wakes a worker.
//! * **Push against retarget.** Likewise for who raises the target.
//! * **Leave against short.** The manager has no room for a worker that the pool asked for. In one step it says so and learns
//!   whether a worker runs: manager: "short", one runs. Worker: leaves; the word is "short". If the worker leaves first, the
//!   manager learns that none runs. If the manager comes first, the look of the last worker to leave finds the word "short",
//!   and so does the push of an item that comes later. Both are one word, so no fence is needed between them.
//! * **Push against unwatch.** The manager clears the watched bit, fences, and looks at the worklist; the issuer is
//!   as above. At least one of the two sees to it that a saturated pool stays watched.
//!
//! `SeqCst` accesses instead of fences would not do: they order nothing with the worklist's own accesses, which
//! are acquire and release.

use crate::policy::concurrency::{Kick, Next, Reserved, Running};
use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

/// A pool's count of running and waking workers.
#[derive(Debug)]
pub(crate) struct RunningCell(AtomicU64);

impl RunningCell {
    pub(crate) fn new(word: Running) -> Self {
        Self(AtomicU64::new(word.into_bits()))
    }

    /// A look at the word that nothing is decided by.
    pub(crate) fn load(&self) -> Running {
        Running::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// The caller has just made an item visible.
    #[inline]
    pub(crate) fn pushed(&self) -> Kick {
        fence(Ordering::SeqCst); // with `look`
        self.kick()
    }

    /// The caller has just changed the word: left the count, used up a reservation, or cleared the watched bit. Is
    /// there something to be done about the work that it finds?
    #[inline]
    pub(crate) fn look(&self, has_work: impl FnOnce() -> bool) -> Kick {
        fence_after_update(); // with `pushed`
        if has_work() { self.kick() } else { Kick::Enough }
    }

    /// Work is pending. The common answer, "enough", costs one load: who lowers the word looks at the work after.
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

    /// Reserves a worker if there is room for one: for the work of a sibling.
    pub(crate) fn reserve(&self) -> Option<Reserved> {
        self.update(Running::reserve)
    }

    /// Somebody who was woken does not get a CPU. The caller owes an offer.
    #[cold]
    pub(crate) fn stall(&self) {
        self.update(|word| (word.stall(), ()));
        fence_after_update(); // with the fence of who sets its room bit
    }

    /// Nobody is late any more. The caller owes a [`look`](Self::look).
    #[cold]
    pub(crate) fn unstall(&self) {
        self.update(|word| (word.unstall(), ()));
    }

    /// The manager has no room for a worker that was asked for. Returns whether none runs.
    #[cold]
    pub(crate) fn short(&self) -> bool {
        self.update(Running::short)
    }

    /// The manager knows that none runs, or a worker has come.
    #[cold]
    pub(crate) fn unshort(&self) {
        self.update(|word| (word.unshort(), ()));
    }

    /// Uses up a reservation: true if the worker begins.
    pub(crate) fn start(&self, reserved: Reserved) -> bool {
        let _used_up = reserved;
        self.update(Running::start)
    }

    /// Nobody can serve a reservation: the next push tries anew.
    #[cold]
    pub(crate) fn drop_reservation(&self, reserved: Reserved) {
        let _used_up = reserved;
        self.update(|word| (word.drop_reservation(), ()));
    }

    /// No work is left, so these reservations are given up by `give_up`, each of which owes a [`look`](Self::look). One look
    /// for all would not do: of several issuers that push meanwhile, each has relied on another one of them.
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

    /// A running worker stops counting. The caller owes a [`look`](Self::look).
    #[inline]
    pub(crate) fn leave(&self) {
        let before = self.0.fetch_sub(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert!(
            Running::from_bits(before).running() > 0,
            "a worker left a pool in which none was running"
        );
    }

    /// A worker counts again.
    #[inline]
    pub(crate) fn come_back(&self) {
        let before = self.0.fetch_add(Running::ONE.into_bits(), Ordering::AcqRel);
        debug_assert_eq!(
            Running::from_bits(before).come_back(),
            Running::from_bits(before + Running::ONE.into_bits())
        );
    }

    /// A worker is between two items: [`Next::Shed`] has taken it out of the count.
    #[inline]
    pub(crate) fn between_items(&self, work: bool) -> Next {
        let seen = self.load();
        if seen.too_many_running() {
            self.update(|word| word.between_items(work))
        } else {
            seen.between_items(work).1
        }
    }

    /// The pool runs nothing any more. The caller has made that known before, and looks at the work afterwards: who
    /// pushed before this, unseen, is seen by that look; who pushes later is told to wake somebody, and finds out.
    #[cold]
    pub(crate) fn abandon(&self) {
        self.update(|word| (word.abandoned(), ()));
        fence_after_update(); // with `pushed`
    }

    /// The manager watches from now on. True if it did not so far.
    pub(crate) fn watch(&self) -> bool {
        self.update(Running::watch)
    }

    /// The manager stops watching. It owes a [`look`](Self::look).
    pub(crate) fn unwatch(&self) {
        self.update(|word| (word.unwatch(), ()));
    }

    /// The target is set. If that changes it, as in [`look`](Self::look): more workers may be needed for the work there
    /// is, or less of it can be done here.
    #[cold]
    pub(crate) fn retarget(&self, target: usize, has_work: impl FnOnce() -> bool) -> Kick {
        if self.update(|word| word.retarget(target)) { self.look(has_work) } else { Kick::Enough }
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(Running) -> (Running, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Running::from_bits, Running::into_bits, transition)
    }
}
