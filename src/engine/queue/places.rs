//! The places of a queue's pending items: each pending item occupies one place.
//!
//! A queue counts its pending items if it has a limit on them, or if its executor has a bound on the pending items of
//! all queues. The module [`policy::backlog`](crate::policy::backlog) turns the executor's bound into a limit for each
//! queue. The limit of a queue changes with the number of pending items of all queues. So threads take, await and give
//! back a queue's places in the same way, whether the executor has a bound or not.

use crate::protocol::places::Reserve;
use crate::sys::machine;

use crate::engine::refusal::QueueError;

use super::backlog::Backlog;
use super::workqueue::Queue;

/// A place for one pending item of a queue. Dropping this value gives the place back to the queue.
#[must_use]
#[derive(Debug)]
pub(crate) struct Kept<'queue>(&'queue Queue);

impl<'queue> Kept<'queue> {
    /// Makes the value for a place of this queue that the caller has already taken.
    pub(crate) fn take_over(queue: &'queue Queue) -> Self {
        Self(queue)
    }

    /// Takes a place in this queue even if none is free.
    pub(crate) fn anyway(queue: &'queue Queue) -> Self {
        queue.take_place_anyway();
        Self(queue)
    }

    /// Leaves the place to an item. The thread that runs the item gives the place back when the item begins.
    #[inline]
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Kept<'_> {
    #[inline]
    fn drop(&mut self) {
        // A forked process does not give the place back. A thread of the parent may have held the lock of the queue's
        // line of issuers at the fork, and in the child that lock stays locked.
        if !self.0.executor.origin.is_forked() {
            self.0.left_pending();
        }
    }
}

impl Queue {
    /// Takes one of the places for the queue's pending items.
    #[inline]
    pub(crate) fn take_place(&self) -> Result<Kept<'_>, QueueError> {
        if self.is_on_machine() && machine::refuses_submission(|| self.name()) {
            return Err(QueueError::Full);
        }
        match self.most_pending() {
            None => {}
            Some(most) if self.places.take(most) => _ = self.came(1),
            Some(_) => return Err(QueueError::Full),
        }
        Ok(Kept::take_over(self))
    }

    /// Takes places for `items` items, or for fewer items if there is not enough room. Returns the number of taken
    /// places.
    pub(crate) fn take_places(&self, items: usize) -> usize {
        // If a made-up machine refuses the submission, the queue counts as full for these items. An issuer that waits
        // for room then gets a place for one of these items.
        if self.is_on_machine() && machine::refuses_submission(|| self.name()) {
            return 0;
        }
        let Some(most) = self.most_pending() else { return items };
        let taken = self.places.take_many(most, items as u64);
        // Issuers of other queues may have taken the same room of the executor at the same time. In that case, this
        // issuer gives its surplus places back, but keeps at least one place. So each issuer makes progress.
        let surplus = self.came(taken).min(taken.saturating_sub(1));
        if surplus > 0 {
            self.left_pending_many(surplus as usize);
        }
        (taken - surplus) as usize
    }

    /// Counts a refused item if `error` says that the queue has no room. Returns the error. Each submission whose error
    /// reaches the user calls this function once. Code that may try the submission again does not call this function.
    #[cold]
    pub(crate) fn count_refusal(&self, error: QueueError) -> QueueError {
        self.count_refusals(error, 1)
    }

    /// Counts several refused items if `error` says that the queue has no room. Returns the error.
    #[cold]
    pub(crate) fn count_refusals(&self, error: QueueError, items: usize) -> QueueError {
        if error == QueueError::Full {
            self.shard_here().events.refused.raise_by(items);
        }
        error
    }

    /// Takes a place in this queue, or joins the line of the issuers that wait for a place in this queue. An issuer
    /// that has joined the line then calls [`waits_in_line`](Self::waits_in_line).
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

    /// Lists the queue in the executor's backlog, because an issuer has joined the queue's line. From now on, items of
    /// other queues can make room for this issuer. When the issuer leaves the line, it calls
    /// [`left_line`](Self::left_line).
    pub(super) fn waits_in_line(&self) {
        if let Some(backlog) = &self.executor.backlog {
            backlog.waits(self);
            // An item of another queue may have made room before this queue was listed.
            self.hand_places();
        }
    }

    pub(super) fn left_line(&self) {
        if let Some(backlog) = &self.executor.backlog {
            backlog.waits_no_more(self);
            self.line_may_be_empty();
        }
    }

    /// Ends the line of waiting issuers if the last issuer has left the line. Otherwise the empty line would withhold
    /// free places from other issuers. If the executor has no bound, this function has nothing to do: all places are
    /// taken, and the thread that gives the next place back ends the line. If the executor has a bound, items of other
    /// queues may make room, but threads hand this room only to the issuers of listed queues.
    #[cold]
    fn line_may_be_empty(&self) {
        if self.executor.backlog.is_some() {
            self.hand_places();
        }
    }

    /// Returns whether a submission to this queue would get a place at present.
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

    /// Gives the place of an item back, because the item begins or will not run.
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
        // The answer of `leave` is not needed. Each issuer in line either has listed the queue already, or will list
        // the queue and then hand out free places once more. The last issuer that leaves the line clears the *line*
        // bit, which says that issuers wait in line.
        _ = self.places.leave(items);
        backlog.left(items);
    }

    /// Hands free places to the issuers in line.
    #[cold]
    pub(super) fn hand_places(&self) {
        if let Some(most) = self.most_pending() {
            self.places.hand(most, |handed| _ = self.came(handed));
        }
    }

    /// Adds `items` to the number of pending items under the executor's bound. The caller has just taken places for
    /// these items. Returns by how many items the executor is beyond its bound afterwards.
    #[inline]
    fn came(&self, items: u64) -> u64 {
        self.executor.backlog.as_ref().map_or(0, |backlog| backlog.came(items))
    }

    /// Returns how many items of this queue may be pending at present. Returns `None` if the queue does not count its
    /// pending items.
    #[inline]
    fn most_pending(&self) -> Option<u64> {
        self.counts_pending.map(|most| match &self.executor.backlog {
            None => most,
            Some(backlog) => most.min(backlog.most(self.places.taken())),
        })
    }
}
