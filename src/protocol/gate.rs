//! The cell of a gate's [`Admission`] word: who starts which waiting item.
//!
//! All counts are one word, so every transition is one read-modify-write and no slot is ever lost between two. The
//! waiting list is another location: an item is pushed there before it is counted as listed (release), and only
//! who takes a listed one out of the count (acquire) pops. So whoever was given a slot finds an item.
//!
//! A completing item must know whether a flush waits for it in the same step in which its slot goes: once the slot
//! is gone, so may be the queue. [`GateCell::complete`] reports to the flush first, and gives the slot up in a
//! compare-and-swap that fails if the half was flipped meanwhile. That flip may be the next flush's, begun because of
//! this very report: it has counted the slot, so the item, which belongs to the current half since it reported,
//! reports once more.

use crate::policy::admission::{Admission, Admit, AdmitMany, Admitted, Arrived, Door, Half, Slot};
use crate::sys::sync::{AtomicU64, Ordering};

/// The slots of a queue on one CPU, or of a whole queue.
#[derive(Debug)]
pub(crate) struct GateCell(AtomicU64);

impl GateCell {
    pub(crate) fn new(word: Admission) -> Self {
        Self(AtomicU64::new(word.into_bits()))
    }

    /// A look at the word that nothing is decided by.
    pub(crate) fn load(&self) -> Admission {
        Admission::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Is nothing in flight? Then all that was done in it is seen.
    pub(crate) fn is_empty(&self) -> bool {
        Admission::from_bits(self.0.load(Ordering::Acquire)).in_flight() == 0
    }

    /// Should no more items come?
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.load().is_full()
    }

    /// An item comes. True if it has a slot; false if the caller must put it on the waiting list and then call
    /// [`list`](Self::list). `None` if the door is not open.
    #[inline]
    pub(crate) fn admit(&self) -> Option<(Half, bool)> {
        self.admit_by(Admission::admit)
    }

    /// The same for an item that was found to continue work that is in flight. `None` if the door is shut.
    #[cold]
    pub(crate) fn admit_chained(&self) -> Option<(Half, bool)> {
        self.admit_by(Admission::admit_chained)
    }

    #[inline]
    fn admit_by(&self, transition: impl Fn(Admission) -> (Admission, Admit)) -> Option<(Half, bool)> {
        loop {
            match self.update(&transition) {
                Admit::Start(half) => return Some((half, true)),
                Admit::Wait(half) => return Some((half, false)),
                Admit::Refused => return None,
                Admit::Again => std::hint::spin_loop(),
            }
        }
    }

    /// So many items come, at least one. Those that have a slot come first; the caller must put the others on the waiting
    /// list and then call [`list_many`](Self::list_many). It may be fewer than asked for. `None` if the door is not open.
    pub(crate) fn admit_many(&self, items: usize) -> Option<Admitted> {
        loop {
            match self.update(|word| word.admit_many(items)) {
                AdmitMany::In(admitted) => return Some(admitted),
                AdmitMany::Refused => return None,
                AdmitMany::Again => std::hint::spin_loop(),
            }
        }
    }

    /// From here on at most so many are active, and only those come whom the door lets in. Whoever raises the limit
    /// then calls [`start_listed`](Self::start_listed) until it says false.
    pub(crate) fn set(&self, max: usize, door: Door) {
        self.update(|word| (word.with_max(max).with_door(door), ()));
    }

    /// True if the caller must start the list's first item, and ask again.
    #[must_use]
    pub(crate) fn start_listed(&self) -> bool {
        self.update(Admission::start_listed) == Slot::Handed
    }

    /// Nobody is let in any more. True if the caller must complete the list's first item without a run, and ask again.
    #[must_use]
    pub(crate) fn recall(&self) -> bool {
        self.update(Admission::recall) == Slot::Handed
    }

    /// The caller's item is on the list now. True if the caller must start the list's first item.
    #[inline]
    #[must_use]
    pub(crate) fn list(&self) -> bool {
        self.update(Admission::list) == Slot::Handed
    }

    /// So many of the caller's items, at least one, are on the list now.
    pub(crate) fn list_many(&self, items: usize) -> Arrived {
        self.update(|word| word.list_many(items))
    }

    /// An item of the given half is done. `report` is called first for each flush that waits for it: commonly none or
    /// one, but the next flush may begin, and count this item, before its slot is given up.
    ///
    /// After `Free` and `Last` the caller holds nothing that keeps the gate in place any more; after `Last` the gate
    /// stays until the caller has told its owner.
    #[inline]
    pub(crate) fn complete(&self, mut half: Half, mut report: impl FnMut()) -> Slot {
        self.update(|word| {
            // The half cannot flip again before this item has reported.
            if word.is_old(half) {
                half = word.half();
                report();
            }
            word.complete()
        })
    }

    /// An item of the given half that [`admit`](Self::admit) told to wait does not come after all. `report` as in
    /// [`complete`](Self::complete). The caller has a handle of the queue.
    #[cold]
    pub(crate) fn withdraw(&self, mut half: Half, mut report: impl FnMut()) {
        self.update(|word| {
            if word.is_old(half) {
                half = word.half();
                report();
            }
            (word.withdraw(), ())
        });
    }

    /// A flush begins: how many items does it wait for?
    pub(crate) fn flip(&self) -> u64 {
        self.update(Admission::flip)
    }

    /// Nothing comes any more. True if nothing is in flight either.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.update(Admission::close) == Slot::Last
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(Admission) -> (Admission, A)) -> A {
        super::update(&self.0, Ordering::AcqRel, Admission::from_bits, Admission::into_bits, transition)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// spec: F1: the first report ends the flush, and the next one begins before the slot is given up.
    #[test]
    fn an_item_reports_to_each_flush_that_counted_it() {
        let gate = GateCell::new(Admission::new(1));
        let _admitted = gate.admit();
        assert_eq!(gate.flip(), 1);
        let mut reports = 0;
        let slot = gate.complete(Half::Even, || {
            reports += 1;
            if reports == 1 {
                assert_eq!(gate.flip(), 1, "the next flush counts it, too");
            }
        });
        assert_eq!((slot, reports), (Slot::Free, 2));
    }
}
