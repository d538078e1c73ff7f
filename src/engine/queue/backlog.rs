//! The places of pending items, and the executor's bound on all pending items.
//!
//! A queue counts its pending items if it has a limit on them, or if its executor has a bound on the pending items of
//! all queues. The policy of the [bound](crate::policy::backlog) turns it into a limit for each queue, which changes
//! with the number of all pending items. So the places of a queue are taken, waited for and given back in one way.
//!
//! If there is a bound, an item of one queue may make room for the issuers of other queues. Such issuers are listed, and
//! a thread that makes room then looks after all lines of the listed queues.

use crossbeam_utils::CachePadded;

use crate::policy::backlog;
use crate::protocol::backlog::BacklogCell;
use crate::protocol::places::Reserve;
use crate::sys::machine;
use crate::sys::sync::Mutex;

use crate::engine::refusal::QueueError;

use super::limits::Kept;
use super::register::QueueRef;
use super::workqueue::Queue;

/// The pending items of all queues of an executor.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// How many items may be pending.
    bound: u64, // I
    cell: CachePadded<BacklogCell>, // A
    /// The queues whose issuers wait for a place, each with the number of these issuers. Each of these issuers keeps
    /// its queue in memory.
    waiting: Mutex<Vec<(QueueRef, usize)>>, // K
}

impl Backlog {
    pub(crate) fn new(bound: usize) -> Self {
        let cell = CachePadded::new(BacklogCell::new());
        Self { bound: bound as u64, cell, waiting: Mutex::new(Vec::new()) }
    }

    /// Returns the number of pending items. The number is only a hint.
    pub(crate) fn pending(&self) -> usize {
        self.cell.pending() as usize
    }

    /// Lists a queue whose issuer waits for a place.
    #[cold]
    fn waits(&self, queue: &Queue) {
        let mut waiting = self.waiting.lock();
        match waiting.iter_mut().find(|(listed, _)| std::ptr::eq(&**listed, queue)) {
            Some((_, issuers)) => *issuers += 1,
            None => waiting.push((queue.reference(), 1)),
        }
        drop(waiting);
        self.cell.waits();
    }

    /// Notes that an issuer no longer waits for a place of this queue.
    #[cold]
    fn waits_no_more(&self, queue: &Queue) {
        self.cell.waits_no_more();
        let mut waiting = self.waiting.lock();
        let place = waiting.iter().position(|(listed, _)| std::ptr::eq(&**listed, queue));
        let place = place.expect("an issuer is listed as long as it waits");
        waiting[place].1 -= 1;
        let ended = (waiting[place].1 == 0).then(|| waiting.swap_remove(place));
        drop(waiting);
        drop(ended);
    }

    /// Hands the places that have become free to the issuers of the listed queues.
    #[cold]
    fn hand(&self) {
        let queues: Vec<_> = self.waiting.lock().iter().map(|(queue, _)| queue.reference()).collect();
        queues.iter().for_each(|queue| queue.hand_places());
    }
}

impl Queue {
    /// Takes a place among the items that may be pending.
    #[inline]
    pub(crate) fn take_place(&self) -> Result<Kept<'_>, QueueError> {
        if machine::refuses_submission(|| self.name()) {
            return Err(QueueError::Full);
        }
        match self.most_pending() {
            None => {}
            Some(most) if self.places.take(most) => self.came(1),
            Some(_) => return Err(QueueError::Full),
        }
        Ok(Kept::take_over(self))
    }

    /// Takes places for `items` items, or for as many of them as there is room for. Returns the number of places.
    pub(crate) fn take_places(&self, items: usize) -> usize {
        // On a made-up machine, the items of a batch are admitted one by one.
        if machine::refuses_submission(|| self.name()) {
            return 0;
        }
        let Some(most) = self.most_pending() else { return items };
        let taken = self.places.take_many(most, items as u64);
        self.came(taken);
        taken as usize
    }

    /// Takes a place, or joins the line of issuers that wait for one. An issuer in line calls
    /// [`waits_in_line`](Self::waits_in_line).
    pub(super) fn reserve_place(&self) -> Result<Reserve, QueueError> {
        let Some(most) = self.most_pending() else { return Ok(Reserve::Place) };
        let reserved = self.places.reserve(most, || self.check_reserve());
        let reserved = reserved.map_err(|(error, has_place)| {
            if has_place {
                self.left_pending();
            }
            self.line_may_be_empty();
            error
        })?;
        if let Reserve::Place = reserved {
            self.came(1);
        }
        Ok(reserved)
    }

    /// Lets items of other queues make room for an issuer that has joined the line. The issuer calls
    /// [`left_line`](Self::left_line) in the end.
    pub(super) fn waits_in_line(&self) {
        if let Some(backlog) = &self.executor.backlog {
            backlog.waits(self);
            // An item of another queue may have made room before the issuer was listed.
            self.hand_places();
        }
    }

    pub(super) fn left_line(&self) {
        if let Some(backlog) = &self.executor.backlog {
            backlog.waits_no_more(self);
            self.line_may_be_empty();
        }
    }

    /// Sees to it that the queue does not keep its places for a line that has become empty. Without a bound, this is
    /// done when the next of the places that are all taken is given back. With a bound, items of other queues may make
    /// room, and they know only of listed queues.
    #[cold]
    fn line_may_be_empty(&self) {
        if self.executor.backlog.is_some() {
            self.hand_places();
        }
    }

    /// Returns whether a submission would get a place.
    pub(crate) fn has_room(&self) -> bool {
        !machine::refuses_submission(|| self.name())
            && self.most_pending().is_none_or(|most| self.places.has_room(most))
    }

    /// Takes a place for an item that was accepted earlier, even if there is no room.
    pub(crate) fn take_place_anyway(&self) {
        if self.counts_pending.is_some() {
            self.places.take_anyway();
            self.came(1);
        }
    }

    /// Gives the place of an item back, because the item begins or is passed over.
    #[inline]
    pub(crate) fn left_pending(&self) {
        self.left_pending_many(1);
    }

    /// Gives the places of this many items back.
    #[inline]
    pub(crate) fn left_pending_many(&self, items: usize) {
        if let Some(most) = self.counts_pending {
            match &self.executor.backlog {
                None => self.places.give_back(most, items as u64),
                Some(backlog) => self.left_backlog(backlog, items as u64),
            }
        }
    }

    fn left_backlog(&self, backlog: &Backlog, items: u64) {
        // The issuers in line are listed, or look for room once more after they were listed. After the last of them has
        // left the line, the thread of that issuer clears the mark of the line.
        _ = self.places.leave(items);
        if backlog.cell.left(items) {
            backlog.hand();
        }
    }

    /// Hands free places to the issuers in line.
    #[cold]
    fn hand_places(&self) {
        if let Some(most) = self.most_pending() {
            self.places.hand(most, |handed| self.came(handed));
        }
    }

    /// Counts items that have got their places.
    #[inline]
    fn came(&self, items: u64) {
        if let Some(backlog) = &self.executor.backlog {
            backlog.cell.came(items);
        }
    }

    /// Returns how many items may be pending at present. `None` if the queue does not count them.
    #[inline]
    fn most_pending(&self) -> Option<u64> {
        self.counts_pending.map(|most| match &self.executor.backlog {
            None => most,
            Some(backlog) => {
                most.min(backlog::most(backlog.bound, backlog.cell.pending(), self.places.taken()))
            }
        })
    }
}
