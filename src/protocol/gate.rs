//! The cell of a gate's [`Admission`] word: who starts which waiting item.
//!
//! All counts are one word, so every transition is one read-modify-write and no slot is ever lost between two. The
//! waiting list is another location: an item is pushed there before it is counted as listed (release), and only
//! who takes a listed one out of the count (acquire) pops. So whoever was given a slot finds an item.
//!
//! An item that gives its slot up learns in the same step whether a flush has counted it: see
//! [`protocol::flush`](super::flush).

use crate::policy::admission::{
    Admission, Admit, AdmitMany, Admitted, Arrived, Door, Found, HELD_AS_COMING, NotAdmitted, Slot,
};
use crate::sys::sync::{AtomicU64, Ordering};

/// What becomes of an item that comes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// It has a slot.
    Started,
    /// The caller must put it on the waiting list and then call [`GateCell::list`].
    Waits,
    /// It did not come yet: [`GateCell::admit_beside_flush`] lets it in.
    Flushing,
    /// It did not come.
    Not(NotAdmitted),
}

/// What follows for an item that was put on the waiting list.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// The caller must start the list's first item.
    pub(crate) handed: bool,
    /// A flush found it coming, if it has no ticket: its issuer is to say that it has arrived.
    pub(crate) was_counted: bool,
}

/// What an item leaves behind.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) slot: Slot,
    /// A flush has counted it, if it has no ticket: it is to report.
    pub(crate) was_counted: bool,
}

/// The slots of a queue on one CPU, or of a whole queue.
#[derive(Debug)]
pub(crate) struct GateCell {
    word: AtomicU64,
    /// Items that the queue's flushes hold back. Under the lock of these.
    held: AtomicU64,
}

impl Came {
    /// What came, if it did.
    pub(crate) fn admitted(self) -> Option<Admitted> {
        match self {
            Self::Started => Some(Admitted::one(true)),
            Self::Waits => Some(Admitted::one(false)),
            Self::Flushing | Self::Not(_) => None,
        }
    }
}

impl GateCell {
    pub(crate) fn new(word: Admission) -> Self {
        Self { word: AtomicU64::new(word.into_bits()), held: AtomicU64::new(0) }
    }

    /// A look at the word that nothing is decided by.
    pub(crate) fn load(&self) -> Admission {
        Admission::from_bits(self.word.load(Ordering::Relaxed))
    }

    /// Items that were accepted and are not done, those too that are held back and not counted in the word. A look.
    pub(crate) fn len(&self) -> u64 {
        let uncounted = self.held.load(Ordering::Relaxed).saturating_sub(HELD_AS_COMING);
        self.in_flight() + uncounted
    }

    /// Is nothing in flight? Then all that was done in it is seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight() == 0
    }

    /// Should no more items come?
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.load().is_full()
    }

    /// Items that were accepted and are not done. What was done by items that are not among them is seen.
    pub(crate) fn in_flight(&self) -> u64 {
        Admission::from_bits(self.word.load(Ordering::Acquire)).in_flight()
    }

    /// An item comes.
    #[inline]
    pub(crate) fn admit(&self) -> Came {
        self.admit_by(Admission::admit)
    }

    /// The same for an item that was found to continue work that is in flight.
    #[cold]
    pub(crate) fn admit_chained(&self) -> Came {
        self.admit_by(Admission::admit_chained)
    }

    /// [`admit`](Self::admit), or [`admit_chained`](Self::admit_chained), under the lock of the queue's flushes.
    #[cold]
    pub(crate) fn admit_beside_flush(&self, chained: bool) -> Came {
        let admit = if chained { Admission::admit_chained } else { Admission::admit };
        self.admit_by(|word| word.beside_flush(admit))
    }

    #[inline]
    fn admit_by(&self, transition: impl Fn(Admission) -> (Admission, Admit)) -> Came {
        match self.update(transition) {
            Admit::Start => Came::Started,
            Admit::Wait => Came::Waits,
            Admit::Flushing => Came::Flushing,
            Admit::Full => Came::Not(NotAdmitted::Full),
            Admit::Refused => Came::Not(NotAdmitted::Door),
        }
    }

    /// So many items come, at least one. Those that have a slot come first; the caller must put the others on the waiting
    /// list and then call [`list_many`](Self::list_many). It may be fewer than asked for.
    pub(crate) fn admit_many(&self, items: usize) -> AdmitMany {
        self.update(|word| word.admit_many(items))
    }

    /// The same under the lock of the queue's flushes.
    #[cold]
    pub(crate) fn admit_many_beside_flush(&self, items: usize) -> AdmitMany {
        self.update(|word| word.beside_flush(|word| word.admit_many(items)))
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

    /// The caller's item is on the list now.
    #[inline]
    pub(crate) fn list(&self) -> Listed {
        self.update(|word| {
            let (next, slot) = word.list();
            (next, Listed { handed: slot == Slot::Handed, was_counted: word.is_flushing() })
        })
    }

    /// So many of the caller's items, at least one, are on the list now. True: as of [`Listed`], those that have arrived
    /// were counted.
    pub(crate) fn list_many(&self, items: usize) -> (Arrived, bool) {
        self.update(|word| {
            let (next, arrived) = word.list_many(items);
            (next, (arrived, word.is_flushing()))
        })
    }

    /// An item is done.
    ///
    /// After `Free` and `Last` the caller holds nothing that keeps the gate in place any more, unless the item was
    /// counted; after `Last` the gate stays until the caller has told its owner.
    #[inline]
    pub(crate) fn complete(&self) -> Left {
        self.update(|word| {
            let (next, slot) = word.complete();
            (next, Left { slot, was_counted: word.is_flushing() })
        })
    }

    /// An item that [`admit`](Self::admit) told to wait does not come after all. The caller has a handle of the queue.
    #[cold]
    pub(crate) fn withdraw(&self) -> Left {
        self.update(|word| {
            let left = Left { slot: Slot::Free, was_counted: word.is_flushing() };
            (word.withdraw(), left)
        })
    }

    /// A flush counts what is in flight: how much is it? Under the lock of the queue's flushes.
    pub(crate) fn begin_flush(&self) -> Found {
        self.update(Admission::begin_flush)
    }

    /// All that was counted is done, and items need no ticket. Under the lock of the queue's flushes.
    pub(crate) fn end_flush(&self) {
        self.update(Admission::end_flush);
    }

    /// An item that is coming is held back until [`list_held`](Self::list_held). Under the lock of the queue's flushes.
    ///
    /// While any is, one is counted as coming: so nothing overtakes it, and the gate is not empty.
    #[cold]
    pub(crate) fn hold(&self) {
        if self.held.fetch_add(1, Ordering::Relaxed) >= HELD_AS_COMING {
            self.update(|word| (word.withdraw(), ()));
        }
    }

    /// An item that was held back is on the list now. True if the caller must start the list's first item. Under the lock of
    /// the queue's flushes.
    #[cold]
    #[must_use]
    pub(crate) fn list_held(&self) -> bool {
        let is_uncounted = self.held.fetch_sub(1, Ordering::Relaxed) > HELD_AS_COMING;
        self.update(if is_uncounted { Admission::list_uncounted } else { Admission::list }) == Slot::Handed
    }

    /// Nothing comes any more. True if nothing is in flight either.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.update(Admission::close) == Slot::Last
    }

    #[inline]
    fn update<A>(&self, transition: impl FnMut(Admission) -> (Admission, A)) -> A {
        super::update(&self.word, Ordering::AcqRel, Admission::from_bits, Admission::into_bits, transition)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// spec: Q3.4 (full): what cannot be counted is refused at once, without a wait for others.
    #[test]
    fn a_gate_that_can_count_no_more_refuses() {
        let gate = GateCell::new(Admission::new(1));
        while gate.admit() != Came::Not(NotAdmitted::Full) {}
        let word = gate.load();
        assert!(word.is_full() && word.coming() > 4000, "{word:?}");
        assert_eq!(gate.admit_chained(), Came::Not(NotAdmitted::Full));
        assert_eq!(gate.admit_many(3), AdmitMany::Full);
        assert_eq!(gate.load(), word);
    }

    /// spec: Q3.4 (full): items that are held back do not fill the gate, however many, and each is listed in the end.
    #[test]
    fn what_is_held_back_fills_no_gate() {
        let gate = GateCell::new(Admission::new(2));
        assert_eq!((gate.admit(), gate.admit(), gate.admit()), (Came::Started, Came::Started, Came::Waits));
        for _ in 0..10_000 {
            assert_eq!(gate.admit(), Came::Waits);
            gate.hold();
            assert!(!gate.is_full());
        }
        assert_eq!((gate.len(), gate.load().coming()), (10_003, HELD_AS_COMING + 1));
        assert!(gate.list() == Listed { handed: false, was_counted: false });
        assert_eq!(gate.complete().slot, Slot::Handed);
        assert_eq!(gate.complete().slot, Slot::Free);
        assert_eq!(gate.admit(), Came::Waits, "nothing overtakes what is held");
        assert!(gate.list().handed, "in its place");
        for n in 0..10_000 {
            assert!(!gate.list_held(), "{n}");
        }
        let word = gate.load();
        assert_eq!((word.active(), word.coming(), word.listed()), (2, 0, 10_000));
    }
}
