//! Whether a thread searches for a short time before it sleeps.
//!
//! A thread that sleeps is expensive to wake. The waker pays 2 to 5 µs for the system call, and on another CPU the
//! woken thread starts up to 50 µs later. So an idle worker, or a thread that joins an item, first *searches*: it stays
//! awake for at most [`LIMIT`], and sleeps only if its event has not happened by then. A search that is in vain costs
//! less than the wake-up that it might have saved.
//!
//! Two rules bound the cost:
//!
//! * At most one worker of a pool searches. This is the worker that became idle last, because the pool wakes this
//!   worker first.
//! * After each search in vain, the thread or the pool skips about twice as many opportunities as before, up to 63. So
//!   if events are far apart, searches take less than 1/64 of a `LIMIT` for each event.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::idle_set::WorkerId;

/// The longest time for which a thread searches.
pub(crate) const LIMIT: Duration = Duration::from_micros(20);

/// How many searches in a row were in vain, up to this number, decides how many opportunities are skipped.
const MOST_IN_VAIN: u8 = 6;

/// Whether it is worth searching, according to the last searches. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Patience {
    /// The number of the last searches that were in vain, at most [`MOST_IN_VAIN`].
    in_vain: u8,
    /// The number of opportunities to skip.
    skips: u8,
}

impl Patience {
    /// Before the first search.
    pub(crate) const NEW: Self = Self { in_vain: 0, skips: 0 };

    /// Returns whether the thread searches at this opportunity.
    #[must_use]
    pub(crate) const fn begin(self) -> (Self, bool) {
        match self.skips {
            0 => (self, true),
            skips => (Self { skips: skips - 1, ..self }, false),
        }
    }

    /// Notes the result of a search.
    #[must_use]
    pub(crate) const fn end(self, found: bool) -> Self {
        if found {
            return Self::NEW;
        }
        let in_vain = if self.in_vain < MOST_IN_VAIN { self.in_vain + 1 } else { MOST_IN_VAIN };
        Self { in_vain, skips: (1 << in_vain) - 1 }
    }
}

/// The worker of a pool that searches, and the patience of the pool. This is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Searching {
    searcher: WorkerId,
    patience: Patience,
}

impl Searching {
    /// The word of a pool in which no worker has searched yet.
    pub(crate) const NEW: Self = Self { searcher: WorkerId::MAX, patience: Patience::NEW };

    /// Called by a worker that has become idle. Returns whether the worker searches. If so, it takes the search over
    /// from any worker that became idle earlier.
    #[must_use]
    pub(crate) const fn begin(self, worker: WorkerId) -> (Self, bool) {
        let (patience, searches) = self.patience.begin();
        (Self { searcher: if searches { worker } else { WorkerId::MAX }, patience }, searches)
    }

    /// Returns whether this worker still searches. If not, a worker that became idle later has taken the search over.
    #[must_use]
    pub(crate) const fn is_by(self, worker: WorkerId) -> bool {
        self.searcher == worker
    }

    /// Notes that this worker ends its search. If another worker has taken the search over, that worker goes on. A
    /// search in vain that was taken over says nothing.
    #[must_use]
    pub(crate) const fn end(self, worker: WorkerId, found: bool) -> Self {
        match (self.searcher == worker, found) {
            (true, _) => Self { searcher: WorkerId::MAX, patience: self.patience.end(found) },
            (false, true) => Self { patience: self.patience.end(true), ..self },
            (false, false) => self,
        }
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.searcher as u64 | (self.patience.in_vain as u64) << 32 | (self.patience.skips as u64) << 40
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        let patience = Patience { in_vain: (bits >> 32) as u8, skips: (bits >> 40) as u8 };
        Self { searcher: bits as WorkerId, patience }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: C8.2
    #[test]
    fn searches_in_vain_become_rare_and_one_success_restores_them() {
        let mut patience = Patience::NEW;
        let mut searches = 0;
        for _ in 0..10_000 {
            let (next, search) = patience.begin();
            patience = if search { next.end(false) } else { next };
            searches += u32::from(search);
        }
        assert!((150..=170).contains(&searches), "{searches} of 10 000 opportunities were used");
        while !patience.begin().1 {
            patience = patience.begin().0;
        }
        patience = patience.end(true);
        assert_eq!((patience, patience.begin().1), (Patience::NEW, true));
    }

    /// spec: C8.2
    #[test]
    fn the_skips_double_after_each_search_in_vain() {
        let mut patience = Patience::NEW;
        let mut skipped = Vec::new();
        for _ in 0..8 {
            let mut skips = 0;
            while let (next, false) = patience.begin() {
                patience = next;
                skips += 1;
            }
            skipped.push(skips);
            patience = patience.end(false);
        }
        assert_eq!(skipped, [0, 1, 3, 7, 15, 31, 63, 63]);
    }

    /// spec: C8.2 (one worker of each pool)
    #[test]
    fn the_worker_that_became_idle_last_takes_the_search_over() {
        let (word, first) = Searching::NEW.begin(3);
        let (word, second) = word.begin(5);
        assert!(first && second && word.is_by(5) && !word.is_by(3));
        assert_eq!(word.end(3, false), word, "a search that was taken over says nothing");
        assert!(word.end(3, true).is_by(5), "the other worker goes on");
        let word = word.end(5, false);
        assert!(!word.is_by(5));
        let (word, searches) = word.begin(5);
        assert!(!searches && !word.is_by(5), "one opportunity is skipped");
    }

    #[test]
    fn the_word_survives_the_way_through_its_bits() {
        let mut word = Searching::NEW;
        for step in 0..200 {
            assert_eq!(Searching::from_bits(word.into_bits()), word);
            let worker = step % 3;
            let (next, searches) = word.begin(worker);
            word = if searches { next.end(worker, step % 50 == 0) } else { next };
        }
    }
}
