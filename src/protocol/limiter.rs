//! The cell of a limiter's [`Admission`] word, which says when a waiting item starts, and which thread starts it.
//!
//! All counts are in one word, so every transition is one read-modify-write. Between two of them no slot is lost. The
//! waiting list is another location. An item is pushed there before it is counted as listed, with release. A thread
//! pops an item only after it has taken a listed one out of the count, with acquire. So a thread that was given a
//! slot finds an item:
//!
//! * issuer: pushes the item to the list, then counts it as listed;
//! * worker: takes a listed item out of the count, then pops: the list is not empty.
//!
//! An item that gives its slot up learns in the same step whether a flush has counted it: see
//! [`protocol::flush`](super::flush).

use crate::policy::admission::{
    Admission, Admit, AdmitMany, Admitted, Arrived, Found, HELD_AS_COMING, Intake, NotAdmitted, Slot,
};
use crate::sys::sync::{AtomicU64, Ordering};

/// The answer to an item that comes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// It has a slot.
    Started,
    /// The caller puts the item on the waiting list, and then calls [`LimiterCell::list`].
    Waits,
    /// The item was not admitted yet, because the limiter is flushing: [`LimiterCell::admit_beside_flush`] admits it.
    Flushing,
    /// The item was not admitted.
    Not(NotAdmitted),
}

/// What the caller does after it has put an item on the waiting list.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// The caller starts the list's first item.
    pub(crate) handed: bool,
    /// Whether the limiter is flushing. If so, and if the item has no ticket, a flush has found it coming. Then its
    /// issuer says that it [has arrived](super::flush::FlushCell::arrived).
    pub(crate) was_counted: bool,
}

/// What the caller does after an item has left its limiter.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) slot: Slot,
    /// Whether the limiter is flushing. If so, and if the item has no ticket, a flush has counted it. Then the item
    /// [reports](super::flush::Unreported::report).
    pub(crate) was_counted: bool,
}

/// The slots of a queue: of the whole queue, or of one of its shards.
#[derive(Debug)]
pub(crate) struct LimiterCell {
    word: AtomicU64,
    /// The number of items that the queue's flushes hold back. It changes under the lock of the flushes.
    held: AtomicU64,
}

impl Came {
    /// Returns the item that was admitted, if it was.
    pub(crate) fn admitted(self) -> Option<Admitted> {
        match self {
            Self::Started => Some(Admitted::one(true)),
            Self::Waits => Some(Admitted::one(false)),
            Self::Flushing | Self::Not(_) => None,
        }
    }
}

impl LimiterCell {
    pub(crate) fn new(word: Admission) -> Self {
        Self { word: AtomicU64::new(word.into_bits()), held: AtomicU64::new(0) }
    }

    /// Returns the word. It may be out of date when it is used.
    pub(crate) fn load(&self) -> Admission {
        Admission::from_bits(self.word.load(Ordering::Relaxed))
    }

    /// Returns the number of items that were accepted and are not done, with those that are held back and not counted
    /// in the word. A hint.
    pub(crate) fn len(&self) -> u64 {
        let uncounted = self.held.load(Ordering::Relaxed).saturating_sub(HELD_AS_COMING);
        self.in_flight() + uncounted
    }

    /// Returns whether no item is in flight. If so, the caller sees what all items did.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight() == 0
    }

    /// Returns whether the queue should refuse more items.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.load().is_full()
    }

    /// Returns the number of items that were accepted and are not done. The caller sees what all other items did.
    pub(crate) fn in_flight(&self) -> u64 {
        Admission::from_bits(self.word.load(Ordering::Acquire)).in_flight()
    }

    /// Admits an item.
    #[inline]
    pub(crate) fn admit(&self) -> Came {
        self.admit_by(Admission::admit)
    }

    /// Admits an item that continues work in flight.
    #[cold]
    pub(crate) fn admit_chained(&self) -> Came {
        self.admit_by(Admission::admit_chained)
    }

    /// Repeats [`admit`](Self::admit) or [`admit_chained`](Self::admit_chained) under the lock of the queue's
    /// flushes.
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
            Admit::Refused => Came::Not(NotAdmitted::Intake),
        }
    }

    /// Admits `items` items, at least one, or only the first of them. Those that get a slot come first. The caller
    /// puts the others on the waiting list, and then calls [`list_many`](Self::list_many).
    pub(crate) fn admit_many(&self, items: usize) -> AdmitMany {
        self.update(|word| word.admit_many(items))
    }

    /// Repeats [`admit_many`](Self::admit_many) under the lock of the queue's flushes.
    #[cold]
    pub(crate) fn admit_many_beside_flush(&self, items: usize) -> AdmitMany {
        self.update(|word| word.beside_flush(|word| word.admit_many(items)))
    }

    /// Sets the limit of active items, and the intake. A caller that raises the limit then calls
    /// [`start_listed`](Self::start_listed) until that returns false.
    pub(crate) fn set(&self, max: usize, intake: Intake) {
        self.update(|word| (word.with_max(max).with_intake(intake), ()));
    }

    /// Takes a free slot for a listed item. Returns true if there is one: the caller starts the list's first item,
    /// and calls again.
    #[must_use]
    pub(crate) fn start_listed(&self) -> bool {
        self.update(Admission::start_listed) == Slot::Handed
    }

    /// Takes an item off the list after the intake was shut. Returns true if there is one: the caller completes the
    /// list's first item without a run, and calls again.
    #[must_use]
    pub(crate) fn recall(&self) -> bool {
        self.update(Admission::recall) == Slot::Handed
    }

    /// Counts the caller's item as listed. It is on the list now.
    #[inline]
    pub(crate) fn list(&self) -> Listed {
        self.update(|word| {
            let (next, slot) = word.list();
            (next, Listed { handed: slot == Slot::Handed, was_counted: word.is_flushing() })
        })
    }

    /// Counts `items` of the caller's items as listed, at least one. They are on the list now. Also returns
    /// [`was_counted`](Listed::was_counted) for those that have arrived.
    pub(crate) fn list_many(&self, items: usize) -> (Arrived, bool) {
        self.update(|word| {
            let (next, arrived) = word.list_many(items);
            (next, (arrived, word.is_flushing()))
        })
    }

    /// Completes an item.
    ///
    /// After `Free` and `Last` the caller has nothing that keeps the limiter in place any more, unless the item was
    /// counted. After `Last` the limiter stays until the caller has told its owner.
    #[inline]
    pub(crate) fn complete(&self) -> Left {
        self.update(|word| {
            let (next, slot) = word.complete();
            (next, Left { slot, was_counted: word.is_flushing() })
        })
    }

    /// Takes back an item that [`admit`](Self::admit) told to wait. The caller has a handle of the queue.
    #[cold]
    pub(crate) fn withdraw(&self) -> Left {
        self.update(|word| {
            let left = Left { slot: Slot::Free, was_counted: word.is_flushing() };
            (word.withdraw(), left)
        })
    }

    /// Begins a flush. Returns how many items are in flight. Called under the lock of the queue's flushes.
    pub(crate) fn begin_flush(&self) -> Found {
        self.update(Admission::begin_flush)
    }

    /// Ends the flush: all counted items are done, and new items need no ticket. Called under the lock of the queue's
    /// flushes.
    pub(crate) fn end_flush(&self) {
        self.update(Admission::end_flush);
    }

    /// Holds back an item that is coming, until [`list_held`](Self::list_held). Called under the lock of the queue's
    /// flushes.
    ///
    /// While items are held, at least one of them is counted as coming. So no item overtakes it, and the limiter is not
    /// empty.
    #[cold]
    pub(crate) fn hold(&self) {
        if self.held.fetch_add(1, Ordering::Relaxed) >= HELD_AS_COMING {
            self.update(|word| (word.withdraw(), ()));
        }
    }

    /// Counts an item as listed that was held back, and is on the list now. Returns whether the caller starts the
    /// list's first item. Called under the lock of the queue's flushes.
    #[cold]
    #[must_use]
    pub(crate) fn list_held(&self) -> bool {
        let is_uncounted = self.held.fetch_sub(1, Ordering::Relaxed) > HELD_AS_COMING;
        self.update(if is_uncounted { Admission::list_uncounted } else { Admission::list }) == Slot::Handed
    }

    /// Closes the limiter: no item comes any more. Returns whether no item is in flight either.
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

    /// spec: Q3.4 (full): a limiter refuses an item at once if it cannot count it, and waits for no other item.
    #[test]
    fn a_limiter_refuses_an_item_that_it_cannot_count() {
        let limiter = LimiterCell::new(Admission::new(1));
        while limiter.admit() != Came::Not(NotAdmitted::Full) {}
        let word = limiter.load();
        assert!(word.is_full() && word.coming() > 4000, "{word:?}");
        assert_eq!(limiter.admit_chained(), Came::Not(NotAdmitted::Full));
        assert_eq!(limiter.admit_many(3), AdmitMany::Full);
        assert_eq!(limiter.load(), word);
    }

    /// spec: Q3.4 (full): any number of held items does not fill the limiter, and each of them is listed in the end.
    #[test]
    fn held_items_do_not_fill_a_limiter() {
        let limiter = LimiterCell::new(Admission::new(2));
        assert_eq!(
            (limiter.admit(), limiter.admit(), limiter.admit()),
            (Came::Started, Came::Started, Came::Waits)
        );
        for _ in 0..10_000 {
            assert_eq!(limiter.admit(), Came::Waits);
            limiter.hold();
            assert!(!limiter.is_full());
        }
        assert_eq!((limiter.len(), limiter.load().coming()), (10_003, HELD_AS_COMING + 1));
        assert!(limiter.list() == Listed { handed: false, was_counted: false });
        assert_eq!(limiter.complete().slot, Slot::Handed);
        assert_eq!(limiter.complete().slot, Slot::Free);
        assert_eq!(limiter.admit(), Came::Waits, "no item overtakes a held one");
        assert!(limiter.list().handed, "the listed item takes the free slot");
        for n in 0..10_000 {
            assert!(!limiter.list_held(), "{n}");
        }
        let word = limiter.load();
        assert_eq!((word.active(), word.coming(), word.listed()), (2, 0, 10_000));
    }
}
