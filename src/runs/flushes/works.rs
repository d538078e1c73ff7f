//! The reusable items of the flush runs. The runs call the cells in the same order as the engine does.

#![forbid(unsafe_code)]

mod exception;

use super::{Item, State, World};
use crate::policy::flush::Ticket;
use crate::policy::item::{ShardId, Target};
use crate::protocol::item::{Ended, HasTicket, ItemCell, Popped, Queued};

pub(super) struct Work {
    cell: ItemCell<Entry, ()>,
    /// The pending submission.
    submission: Submission,
    /// The item's entries that were pushed and not popped, in the order of the pushes.
    pushed: Vec<usize>,
}

/// The flush for which a submission's run waits, and the number of flushes that had begun when the submission began.
#[derive(Clone, Copy, Debug, Default)]
struct Submission {
    begun: usize,
    waits_for: Option<usize>,
}

/// A thread that is queueing an item. The item has been admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    work: usize,
    item: usize,
    submission: Submission,
}

#[derive(Debug)]
struct Entry {
    item: usize,
    ticket: Option<Ticket>,
}

impl HasTicket for Entry {
    fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }
}

impl Work {
    pub(super) fn new() -> Self {
        Self { cell: ItemCell::new(), submission: Submission::default(), pushed: Vec::new() }
    }

    pub(super) fn assert_quiet(&self) {
        let state = self.cell.load();
        assert!(state.is_idle() && !state.is_running(), "{state:?}");
    }
}

impl World {
    pub(super) fn begin_to_queue(&mut self) {
        let (work, limiter) = (self.prng.below(self.works.len()), self.prng.below(self.limiters.len()));
        // A run of the item may keep the entry of another submission of the item. A flush that began after that
        // submission was admitted may then wait for this run (see `exception`). So while other submissions of the item
        // are under way, its run may wait only for flushes that began before the first of these submissions.
        let issues = self.issues.iter().filter(|issue| issue.work == work);
        let begun = issues.map(|issue| issue.submission.begun).min();
        let waits_for = self.choose_a_flush(begun.unwrap_or(usize::MAX));
        self.begin_issue(work, limiter, waits_for);
    }

    /// Lets a thread begin to queue an item. If the item needs a new entry, the thread continues in
    /// [`end_issue`](Self::end_issue).
    fn begin_issue(&mut self, work: usize, limiter: usize, waits_for: Option<usize>) {
        let submission = Submission { begun: self.flushers.len(), waits_for };
        let queued = self.queue_by(limiter, |target| self.works[work].cell.queue_without_entry(target));
        self.say(format_args!("work {work} may be queued to limiter {limiter}: {queued:?} {submission:?}"));
        match queued {
            Some(queued) => self.is_queued(work, submission, queued),
            None => {
                let (ticket, state) = self.admit(limiter);
                let item = self.items.len();
                self.items.push(Item {
                    work: Some(work),
                    limiter,
                    ticket,
                    state,
                    waits_for: None,
                    is_arriving: false,
                });
                // The entry is on no list yet, so no worker can take it.
                self.items[item].state = if state == State::Active { State::Admitted } else { State::Coming };
                self.issues.push(Issue { work, item, submission });
            }
        }
    }

    pub(super) fn queue_work(&mut self) {
        if self.issues.is_empty() {
            return;
        }
        let index = self.prng.below(self.issues.len());
        self.end_issue(index);
    }

    fn end_issue(&mut self, index: usize) {
        let Issue { work, item, submission } = self.issues.swap_remove(index);
        let Item { limiter, ticket, state, .. } = self.items[item];
        let queued = self.queue_by(limiter, |target| self.works[work].cell.queue(target, ticket));
        self.say(format_args!("work {work} is queued as item {item}: {queued:?}"));
        if queued == Queued::Push {
            let is_there = |other: &usize| self.items[*other].limiter == limiter;
            let is_moved = self.works[work].pushed.iter().any(is_there);
            self.seen.moved += usize::from(is_moved);
            self.works[work].pushed.push(item);
            if state == State::Admitted {
                self.items[item].state = State::Active;
            } else {
                self.list(item);
            }
        } else {
            let leave = if state == State::Admitted { Self::leave } else { Self::take_back };
            leave(self, item);
        }
        self.is_queued(work, submission, queued);
    }

    fn queue_by<R>(&self, limiter: usize, queue: impl FnOnce(Target) -> R) -> R {
        let target = |revives| Target { shard: ShardId::new(limiter as u64), ordered: false, revives };
        self.cell.with_awaited(|awaited| queue(target(!awaited)))
    }

    fn is_queued(&mut self, work: usize, submission: Submission, queued: Queued) {
        if matches!(queued, Queued::Push | Queued::Revived) {
            self.works[work].submission = submission;
        }
        self.seen.revived += usize::from(queued == Queued::Revived);
    }

    pub(super) fn cancel_work(&mut self) {
        let work = self.prng.below(self.works.len());
        let taken = self.works[work].cell.cancel();
        self.say(format_args!("work {work} is cancelled: {taken:?}"));
        if let Some(entry) = taken.kept {
            self.leave(entry.item);
        }
    }

    /// Lets a worker pop this entry.
    pub(super) fn begin_work(&mut self, work: usize, item: usize) {
        let Item { limiter, ticket, .. } = self.items[item];
        let pushed = &mut self.works[work].pushed;
        let at = pushed.iter().position(|pushed| *pushed == item);
        // `at` is `None` if the last run has put the entry back.
        let overtaken =
            at.is_some_and(|at| pushed[..at].iter().any(|other| self.items[*other].limiter == limiter));
        pushed.retain(|pushed| *pushed != item);
        self.seen.swapped += usize::from(overtaken);
        let popped = self.works[work].cell.begin(ShardId::new(limiter as u64), Entry { item, ticket });
        self.say(format_args!("work {work} begins: {popped:?}"));
        match popped {
            Popped::Run(entry) | Popped::RunCarrying(entry) => self.run_work(work, entry.item),
            Popped::Kept => self.items[item].state = State::Kept,
            Popped::Stale(entry) => self.leave(entry.item),
            Popped::KeptLast | Popped::Last(_) => unreachable!("it has a handle"),
        }
    }

    fn run_work(&mut self, work: usize, item: usize) {
        let Submission { begun, waits_for } = self.works[work].submission;
        for (number, flusher) in self.flushers[..begun].iter().enumerate() {
            let is_waited_for = flusher.waits() && !flusher.is_over() && flusher.before.contains(&item);
            assert!(!is_waited_for, "flush {number} waits for an item that was queued after it");
        }
        self.items[item].state = State::Running;
        self.items[item].waits_for = waits_for;
    }

    pub(super) fn end_work(&mut self, item: usize) {
        if self.waits(item) {
            return;
        }
        let work = self.items[item].work.expect("only reusable items are in this state");
        match self.works[work].cell.end(|| ()) {
            Ended::Idle => {}
            Ended::PutBack(next) => self.items[next.item].state = State::Active,
            Ended::Last => unreachable!("it has a handle"),
        }
        self.leave(item);
    }
}
