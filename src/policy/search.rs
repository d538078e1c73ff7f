//! Decides whether a thread searches for a short time before it sleeps.
//!
//! A sleeping thread is expensive to wake. The waker pays 2 to 5 µs for the system call. On another CPU, the woken
//! thread starts up to 50 µs later. So an idle worker, or a thread that joins an item, first *searches* for at most
//! [`LIMIT`]: it stays awake, and sleeps only if its event has not happened within this time. A search in vain costs
//! less than the wake-up that it might have saved.
//!
//! Two rules bound the cost:
//!
//! * At most one worker of a pool searches. The searcher is the worker that became idle last, because the pool wakes
//!   this worker first.
//! * Searches spend a *credit*. A search that finds its event earns the time of a wake-up. Any other search spends
//!   credit for the time that it took. Without credit, the thread skips the search. Each skipped search earns 1/64 of a
//!   `LIMIT`. So if events are far apart, searches take about 1/64 of a `LIMIT` for each event.
//!
//! A search is most expensive if another thread wants the CPU. The system may let that thread run for milliseconds,
//! whereas a sleeping thread gets its CPU soon after it is woken. So if a thread searches while it waits for an item,
//! it also spends credit for the time in which it lost its CPU. The thread spends this credit even if the item has
//! ended in the meantime. An idle worker spends credit only for the CPU time that its search has used. The reason is
//! that an idle worker often loses its CPU to the issuer of the next item, and that other workers can take items in the
//! meantime.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::idle_set::WorkerId;

/// A thread searches for at most this time.
pub(crate) const LIMIT: Duration = Duration::from_micros(20);

/// The time of a wake-up, in ns. A search that finds its event saves this time.
const SAVES: i32 = LIMIT.as_nanos() as i32;

/// The credit in ns that a skipped search earns.
const SKIP_EARNS: i32 = SAVES / 64;

/// The credit in ns before the first search.
const FIRST_CREDIT: i32 = 5 * SAVES;

/// The greatest credit in ns, and the greatest debt. 1600 skipped searches earn back the greatest debt. So threads
/// notice soon that no other thread wants their CPU any more. If one search in 1600 loses its CPU for a time slice of
/// 3 ms, the cost is 2 µs for each skipped search.
const MOST_CREDIT: i32 = 20 * SAVES;
const MOST_DEBT: i32 = 25 * SAVES;

/// Whether a search is worthwhile, judged by the last searches. `Patience` is a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    /// The credit in ns, or the debt if it is negative.
    credit: i32,
}

impl Patience {
    /// The patience before the first search.
    pub(crate) const NEW: Self = Self { credit: FIRST_CREDIT };

    /// Returns whether the thread searches at this opportunity.
    #[must_use]
    pub(crate) const fn begin(self) -> (Self, bool) {
        if self.credit > 0 { (self, true) } else { (Self { credit: self.credit + SKIP_EARNS }, false) }
    }

    /// Notes the result of a search that took this long. If the thread searched while it waited for an item, `took`
    /// includes the time in which other threads used the CPU.
    #[must_use]
    pub(crate) const fn end(self, found: bool, took: Duration) -> Self {
        let has_lost_cpu = took.as_nanos() > 2 * LIMIT.as_nanos();
        let spent = if took.as_nanos() < MOST_DEBT as u128 { took.as_nanos() as i32 } else { MOST_DEBT };
        let credit = if found && !has_lost_cpu { self.credit + SAVES } else { self.credit - spent };
        if credit > MOST_CREDIT {
            Self { credit: MOST_CREDIT }
        } else if credit < -MOST_DEBT {
            Self { credit: -MOST_DEBT }
        } else {
            Self { credit }
        }
    }
}

/// A plain value that holds the id of the worker that searches in a pool, and the patience of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Searching {
    searcher: WorkerId,
    patience: Patience,
}

impl Searching {
    /// The word of a pool in which no worker has searched yet.
    pub(crate) const NEW: Self = Self { searcher: WorkerId::MAX, patience: Patience::NEW };

    /// Begins the search of a worker that has become idle, if the pool has credit. Returns whether the worker searches.
    /// If the worker searches, a worker that became idle earlier stops its search.
    #[must_use]
    pub(crate) const fn begin(self, worker: WorkerId) -> (Self, bool) {
        let (patience, searches) = self.patience.begin();
        (Self { searcher: if searches { worker } else { WorkerId::MAX }, patience }, searches)
    }

    /// Returns whether this worker still searches. If it does not, another worker has become idle since this worker
    /// began its search.
    #[must_use]
    pub(crate) const fn is_by(self, worker: WorkerId) -> bool {
        self.searcher == worker
    }

    /// Notes that this worker ends its search. If another worker has taken over the search, that worker continues to
    /// search. In this case, the result of this worker's search counts only if it has found work.
    #[must_use]
    pub(crate) const fn end(self, worker: WorkerId, found: bool, used: Duration) -> Self {
        match (self.searcher == worker, found) {
            (true, _) => Self { searcher: WorkerId::MAX, patience: self.patience.end(found, used) },
            (false, true) => Self { patience: self.patience.end(true, used), ..self },
            (false, false) => self,
        }
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.searcher as u64 | (self.patience.credit as u32 as u64) << 32
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        let patience = Patience { credit: (bits >> 32) as i32 };
        Self { searcher: bits as WorkerId, patience }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers this many opportunities to search. Each search takes `took`. Returns the number of searches.
    fn searches(patience: &mut Patience, opportunities: u32, found: bool, took: Duration) -> u32 {
        (0..opportunities)
            .map(|_| {
                let (next, search) = patience.begin();
                *patience = if search { next.end(found, took) } else { next };
                u32::from(search)
            })
            .sum()
    }

    /// spec: C8.2
    #[test]
    fn searches_in_vain_become_rare_and_successes_restore_them() {
        let mut patience = Patience::NEW;
        let in_vain = searches(&mut patience, 10_000, false, LIMIT);
        assert!((150..=170).contains(&in_vain), "{in_vain} of 10 000 opportunities were used");
        assert!(
            searches(&mut patience, 100, true, LIMIT / 10) > 30,
            "a success makes the next search possible"
        );
        assert_eq!(searches(&mut patience, 100, true, LIMIT / 10), 100);
        assert!((20..=30).contains(&searches(&mut patience, 100, false, LIMIT)), "the credit is bounded");
    }

    /// spec: C8.2: a search during which the thread loses its CPU spends credit, even if it finds its event.
    #[test]
    fn a_search_that_loses_the_cpu_is_a_success_in_no_case() {
        for found in [false, true] {
            let mut patience = Patience::NEW;
            let lost = Duration::from_millis(3);
            let tries = searches(&mut patience, 100_000, found, lost);
            assert!((60..=64).contains(&tries), "{tries} of 100 000 opportunities were used");
            searches(&mut patience, 1, found, Duration::from_secs(3600));
            assert!(patience.end(found, Duration::MAX).credit >= -MOST_DEBT, "the debt is bounded");
        }
    }

    /// spec: C8.2: a search with a short interruption costs no more credit than the time that the search takes.
    #[test]
    fn a_short_interruption_among_successes_stops_no_search() {
        let mut patience = Patience::NEW;
        assert_eq!(searches(&mut patience, 1000, true, LIMIT / 10), 1000);
        patience = patience.end(true, 10 * LIMIT);
        assert_eq!(searches(&mut patience, 1000, true, LIMIT / 10), 1000);
    }

    /// spec: C8.2: one worker of each pool searches, and a worker that becomes idle later takes the search over.
    #[test]
    fn the_worker_that_became_idle_last_takes_the_search_over() {
        let (word, first) = Searching::NEW.begin(3);
        let (word, second) = word.begin(5);
        assert!(first && second && word.is_by(5) && !word.is_by(3));
        assert_eq!(word.end(3, false, LIMIT), word, "a search that was taken over says nothing");
        assert!(word.end(3, true, LIMIT).is_by(5), "the other worker goes on");
        let word = word.end(5, false, 10 * LIMIT);
        assert!(!word.is_by(5));
        let (word, searches) = word.begin(5);
        assert!(!searches && !word.is_by(5), "opportunities are skipped");
    }

    #[test]
    fn the_word_survives_the_way_through_its_bits() {
        let mut word = Searching::NEW;
        for step in 0..200 {
            assert_eq!(Searching::from_bits(word.into_bits()), word);
            let worker = step % 3;
            let (next, searches) = word.begin(worker);
            word = if searches { next.end(worker, step % 50 == 0, LIMIT) } else { next };
        }
    }
}
