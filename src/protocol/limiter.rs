//! The cell of a limiter's [`Admission`] word, which tells when a waiting item starts, and which thread starts the
//! item.
//!
//! All counts of the limiter except `held` are in one word. So every transition is one read-modify-write, and no slot
//! can get lost between two steps of a transition. The waiting list is a separate location. An issuer pushes an item to
//! the list, and then counts the item as listed, with release. A thread takes a listed item out of the count, with
//! acquire, and then pops an item. So a thread that was given a slot finds an item on the list:
//!
//! * issuer: pushes the item to the list, then counts it as listed;
//! * worker: takes a listed item out of the count, then pops: the list is not empty.
//!
//! The step in which an item gives up its slot also returns whether a flush has counted the item. See
//! [`protocol::flush`](super::flush).

use crate::policy::admission::{
    Admission, Admit, AdmitMany, Admitted, Arrived, Found, HELD_AS_COMING, Intake, NotAdmitted, Slot,
};
use crate::sys::sync::{AtomicU64, Ordering};

/// The answer to a request to admit one item.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// The item has a slot.
    Started,
    /// The caller puts the item on the waiting list, and then calls [`LimiterCell::list`].
    Waits,
    /// The item is not admitted yet, because the limiter is *flushing*: a flush has counted its items, and new items
    /// take tickets. The caller tries again with [`LimiterCell::admit_beside_flush`].
    Flushing,
    /// The item was not admitted.
    Not(NotAdmitted),
}

/// The answer to the caller that has put an item on the waiting list.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// Whether the caller must start the list's first item.
    pub(crate) handed: bool,
    /// Whether the limiter is flushing. If the limiter is flushing and the item has no ticket, a flush has counted the
    /// item as coming. Then the item's issuer tells the flush that the item [has
    /// arrived](super::flush::FlushCell::arrived).
    pub(crate) was_counted: bool,
}

/// The answer to the caller whose item has left its limiter.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) slot: Slot,
    /// Whether the limiter is flushing. If the limiter is flushing and the item has no ticket, a flush has counted the
    /// item. The caller then [reports](super::flush::Unreported::report) the item.
    pub(crate) was_counted: bool,
}

/// The slots of a whole queue, or of one shard of a queue.
#[derive(Debug)]
pub(crate) struct LimiterCell {
    word: AtomicU64,
    /// The number of items that the queue's flushes hold back. This number changes only under the lock of the flushes.
    held: AtomicU64,
}

impl Came {
    /// Returns the admission of the item, or `None` if the item was not admitted.
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

    /// Returns the word, which may be out of date when the caller uses it.
    #[inline]
    pub(crate) fn load(&self) -> Admission {
        Admission::from_bits(self.word.load(Ordering::Relaxed))
    }

    /// Returns the number of items that were accepted and are not done. This number is a hint. The number includes the
    /// held items that the word does not count.
    pub(crate) fn len(&self) -> u64 {
        let uncounted = self.held.load(Ordering::Relaxed).saturating_sub(HELD_AS_COMING);
        self.in_flight() + uncounted
    }

    /// Returns whether no item is in flight. If the answer is true, the caller sees all effects of the items that are
    /// done.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight() == 0
    }

    /// Returns whether the queue should refuse further items.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.load().is_full()
    }

    /// Returns the number of items that the word counts as accepted and not done. The caller sees all effects of the
    /// items that are done.
    pub(crate) fn in_flight(&self) -> u64 {
        Admission::from_bits(self.word.load(Ordering::Acquire)).in_flight()
    }

    /// Admits an item.
    #[inline]
    pub(crate) fn admit(&self) -> Came {
        self.admit_by(Admission::admit)
    }

    /// Admits an item, unless the limiter is full. One read of the word serves both the check and the admission. The
    /// word changes all the time, so each further read may have to fetch it from the cache of another CPU.
    #[inline]
    pub(crate) fn admit_unless_full(&self) -> Came {
        self.admit_by(Admission::admit_unless_full)
    }

    /// Admits an item that the intake `by` permits. Refuses the item if the limiter's own intake is shut or is stricter
    /// than `by`. The caller counts the item in the queue's `CountedItems`.
    #[cold]
    pub(crate) fn admit_counted(&self, by: Intake) -> Came {
        self.admit_by(|word| word.admit_counted(by))
    }

    /// Repeats an admission under the lock of the queue's flushes. The admission is
    /// [`admit_counted`](Self::admit_counted) if an intake is given, and [`admit`](Self::admit) otherwise.
    #[cold]
    pub(crate) fn admit_beside_flush(&self, by: Option<Intake>) -> Came {
        self.admit_by(|word| match by {
            None => word.beside_flush(Admission::admit),
            Some(by) => word.beside_flush(|word| word.admit_counted(by)),
        })
    }

    /// Admits an item that the issuer itself runs without delay. The item is admitted only if it gets a slot.
    #[cold]
    pub(crate) fn admit_here(&self) -> Came {
        self.admit_by(Admission::admit_here)
    }

    /// Repeats [`admit_here`](Self::admit_here) under the lock of the queue's flushes.
    #[cold]
    pub(crate) fn admit_here_beside_flush(&self) -> Came {
        self.admit_by(|word| word.beside_flush(Admission::admit_here))
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

    /// Admits as many of the caller's `items` items as one step can admit, beginning with the first one. `items` is at
    /// least 1. The first admitted items get the free slots. The caller puts the other admitted items on the waiting
    /// list, and then calls [`list_many`](Self::list_many).
    pub(crate) fn admit_many(&self, items: usize) -> AdmitMany {
        self.update(|word| word.admit_many(items))
    }

    /// Repeats [`admit_many`](Self::admit_many) under the lock of the queue's flushes.
    #[cold]
    pub(crate) fn admit_many_beside_flush(&self, items: usize) -> AdmitMany {
        self.update(|word| word.beside_flush(|word| word.admit_many(items)))
    }

    /// Sets the limit of active items, and the intake. After a caller has raised the limit, it calls
    /// [`start_listed`](Self::start_listed) until `start_listed` returns false.
    pub(crate) fn set(&self, max: usize, intake: Intake) {
        self.update(|word| (word.with_max(max).with_intake(intake), ()));
    }

    /// Takes a free slot for a listed item, if a slot is free and an item is listed. Returns whether the call took a
    /// slot. If the result is true, the caller starts the list's first item, and calls this function again.
    #[must_use]
    pub(crate) fn start_listed(&self) -> bool {
        self.update(Admission::start_listed) == Slot::Handed
    }

    /// Counts a listed item as active, even if the number of active items then exceeds the limit. The intake was shut
    /// before the call. Returns whether the call counted an item. If the result is true, the caller pops the list's
    /// first item, completes that item without a run, and calls this function again.
    #[must_use]
    pub(crate) fn recall(&self) -> bool {
        self.update(Admission::recall) == Slot::Handed
    }

    /// Counts the caller's item as listed. The caller has already put the item on the list.
    #[inline]
    pub(crate) fn list(&self) -> Listed {
        self.update(|word| {
            let (next, slot) = word.list();
            (next, Listed { handed: slot == Slot::Handed, was_counted: word.is_flushing() })
        })
    }

    /// Counts the caller's `items` items as listed. `items` is at least 1, and the caller has already put the items on
    /// the list. Returns how many of the items have arrived on the list, and [`was_counted`](Listed::was_counted) for
    /// these items.
    pub(crate) fn list_many(&self, items: usize) -> (Arrived, bool) {
        self.update(|word| {
            let (next, arrived) = word.list_many(items);
            (next, (arrived, word.is_flushing()))
        })
    }

    /// Completes an item, which gives up its slot.
    ///
    /// If the slot is `Free` or `Last`, the caller's item no longer keeps the limiter in memory, unless a flush has
    /// counted the item. If the slot is `Last`, the limiter stays in memory until the caller has told the limiter's
    /// owner that the limiter is empty.
    #[inline]
    pub(crate) fn complete(&self) -> Left {
        self.update(|word| {
            let (next, slot) = word.complete();
            (next, Left { slot, was_counted: word.is_flushing() })
        })
    }

    /// Withdraws an item for which [`admit`](Self::admit) has returned [`Came::Waits`]. The caller holds a handle to
    /// the queue.
    #[cold]
    pub(crate) fn withdraw(&self) -> Left {
        self.update(|word| {
            let left = Left { slot: Slot::Free, was_counted: word.is_flushing() };
            (word.withdraw(), left)
        })
    }

    /// Marks the limiter as flushing. Returns the numbers of items in flight and of coming items. The caller holds the
    /// lock of the queue's flushes.
    pub(crate) fn begin_flush(&self) -> Found {
        self.update(Admission::begin_flush)
    }

    /// Ends the flushing of this limiter, because all counted items are done. New items of the limiter then need no
    /// ticket. The caller holds the lock of the queue's flushes.
    pub(crate) fn end_flush(&self) {
        self.update(Admission::end_flush);
    }

    /// Holds back a coming item until [`list_held`](Self::list_held) counts the item as listed. The caller holds the
    /// lock of the queue's flushes.
    ///
    /// While items are held, the word counts at least one of them as coming. So the limiter does not count as empty,
    /// and no other item overtakes a held item.
    #[cold]
    pub(crate) fn hold(&self) {
        if self.held.fetch_add(1, Ordering::Relaxed) >= HELD_AS_COMING {
            self.update(|word| (word.withdraw(), ()));
        }
    }

    /// Counts a held item as listed. The caller has already put the item on the list, and holds the lock of the queue's
    /// flushes. Returns whether the caller must start the list's first item.
    #[cold]
    #[must_use]
    pub(crate) fn list_held(&self) -> bool {
        let is_uncounted = self.held.fetch_sub(1, Ordering::Relaxed) > HELD_AS_COMING;
        self.update(if is_uncounted { Admission::list_uncounted } else { Admission::list }) == Slot::Handed
    }

    /// Closes the limiter. The caller knows that no further item asks for admission. Returns whether no item is in
    /// flight in the limiter.
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

    /// spec: Q3.4 (full): a limiter immediately refuses an item that the limiter cannot count, and does not wait until
    /// other items are done.
    #[test]
    fn a_limiter_refuses_an_item_that_it_cannot_count() {
        let limiter = LimiterCell::new(Admission::new(1));
        while limiter.admit() != Came::Not(NotAdmitted::Full) {}
        let word = limiter.load();
        assert!(word.is_full() && word.coming() > 2000, "{word:?}");
        assert_eq!(limiter.admit_counted(Intake::Draining), Came::Not(NotAdmitted::Full));
        assert_eq!(limiter.admit_many(3), AdmitMany::Full);
        assert_eq!(limiter.load(), word);
    }

    /// spec: Q3.4 (full): held items never fill the limiter, no matter how many items are held, and each held item is
    /// listed in the end.
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
