//! Places among a queue's pending items that are reserved before their items exist.
//!
//! A reserved place counts like a pending item. When the pending items and the reserved places of a queue together
//! reach `max_pending`, the queue has no room for another item or place. Forks and the items of fired timers need no
//! room. If neither the queue nor its executor has a `max_pending`, the queue always has room.

use std::sync::Arc;

use crate::policy::when_full::WhenFull;
use crate::protocol::places::{Reserve, Turn};
use crate::protocol::signal::Signal;
use crate::sys::machine;
use crate::sys::wait::Until;

use crate::engine::item::place::Place;
use crate::engine::item::token::Token;
use crate::engine::item::waits;
use crate::engine::item::waits::task::SignalWait;
use crate::engine::refusal::{Cancelled, QueueError, WaitError};

use super::places::Kept;
use super::shard::Shard;
use super::workqueue::{Queue, QueueHandle};

/// A place that is reserved for a submission. Dropping this value gives the place back.
#[derive(Debug)]
pub(crate) struct ReservedPlace {
    queue: Arc<QueueHandle>,
    is_handed_over: bool,
}

/// An issuer that waits in line for a place. `Q` keeps the queue in memory. Dropping this value ends the issuer's turn.
struct InLine<Q: AsRef<Queue>> {
    queue: Q,
    /// `None` if the turn has ended.
    turn: Option<Arc<Turn>>,
}

/// Reserves a place if one is free now. Does not wait.
pub(crate) fn try_reserve(queue: &Arc<QueueHandle>) -> Result<ReservedPlace, QueueError> {
    queue.queue().check_reserve()?;
    queue.queue().take_place()?.leave();
    Ok(ReservedPlace::new(Arc::clone(queue)))
}

/// Reserves a place. Waits in line until a place is free, or until the time runs out.
pub(crate) fn reserve(queue: &Arc<QueueHandle>, until: Until) -> Result<ReservedPlace, QueueError> {
    queue.queue().wait_for_place(until, None)?.leave();
    Ok(ReservedPlace::new(Arc::clone(queue)))
}

/// Reserves a place. Waits in line until a place is free, or until `token` counts as cancelled. The outer error says
/// why the token counts as cancelled.
pub(crate) fn reserve_unless(
    queue: &Arc<QueueHandle>,
    token: &Token,
) -> Result<Result<ReservedPlace, QueueError>, Cancelled> {
    let reserved = queue.queue().wait_for_place(Until::FOREVER, Some(token)).map(Kept::leave);
    if let (Err(QueueError::Full), Some(reason)) = (reserved, token.reason()) {
        return Err(reason);
    }
    Ok(reserved.map(|()| ReservedPlace::new(Arc::clone(queue))))
}

/// Joins the line for a place. The returned future is ready when the issuer has got a place. If the future is dropped,
/// the issuer leaves the line.
pub(crate) fn reserve_async(
    queue: &Arc<QueueHandle>,
) -> impl Future<Output = Result<ReservedPlace, QueueError>> + Send + Sync + 'static + use<> {
    let handle = Arc::clone(queue);
    // If a place is free already, the future owns this place from now on, and gives it back if the future is dropped
    // before the first poll.
    let place_or_line = InLine::join(Owned(Arc::clone(queue)))
        .map(|in_line| in_line.ok_or_else(|| ReservedPlace::new(Arc::clone(queue))));
    async {
        let origin = handle.queue().executor.origin;
        let check_origin = || waits::check_origin(origin).map_err(|_| QueueError::Forked);
        let in_line = match place_or_line? {
            Ok(in_line) => in_line,
            Err(place) => return check_origin().map(|()| place),
        };
        let wait = SignalWait::new(Arc::clone(in_line.turn().signal()), origin);
        let check = || in_line.check().map_err(|_| WaitError::WouldDeadlock);
        wait.wait(check).await.map_err(|error| match error {
            WaitError::Forked => QueueError::Forked,
            _ => QueueError::WouldDeadlock,
        })?;
        // After a fork, a thread that ends the turn could wait for a lock that a thread of the parent held.
        check_origin()?;
        in_line.end()?;
        Ok(ReservedPlace::new(handle))
    }
}

/// A handle through which a future reaches its queue.
struct Owned(Arc<QueueHandle>);

impl AsRef<Queue> for Owned {
    fn as_ref(&self) -> &Queue {
        self.0.queue()
    }
}

impl Queue {
    /// Takes a place for a submission. If no place is free, waits or fails, as the queue's `when_full` says. `token` is
    /// as in [`when_full`](Self::when_full).
    #[inline]
    pub(crate) fn place_for_submission(&self, token: Option<&Token>) -> Result<Kept<'_>, QueueError> {
        self.take_place().or_else(|full| self.when_full(full, token))
    }

    /// Takes a place for a submission that found the queue full. Waits or fails, as the queue's `when_full` says.
    /// `token` is the submission's own token. If this token counts as cancelled, the wait for a place ends, and the
    /// submission is refused.
    #[cold]
    pub(crate) fn when_full(&self, full: QueueError, token: Option<&Token>) -> Result<Kept<'_>, QueueError> {
        if self.may_wait_for_room() { self.wait_for_place(Until::FOREVER, token) } else { Err(full) }
    }

    /// Returns whether a submission that found the queue full waits for room.
    pub(super) fn may_wait_for_room(&self) -> bool {
        // An item of the queue itself does not wait, because it may hold a slot that the pending items need before they
        // can begin and make room. A hook on the manager's thread does not wait either, because workers and timers need
        // the manager.
        self.spec.when_full != WhenFull::Refuse
            && !self.executor.core.manager.is_current_thread()
            && waits::check_queue(self).is_ok()
    }

    /// Refuses the wait of an item that holds all slots of one of the queue's limiters. The places belong to the whole
    /// queue, so an item in a slot of another limiter may make room. But the check cannot know whether an item in
    /// another slot will make room for this issuer. That item may have made its room already, may make room for an
    /// earlier issuer in line, or may wait in line itself. So the check refuses the wait in any case.
    pub(super) fn check_wait_in_line(&self) -> Result<(), QueueError> {
        let blocks = |shard: &Shard| waits::check_lane(shard.lane()).is_err();
        if self.shards().any(blocks) { Err(QueueError::WouldDeadlock) } else { Ok(()) }
    }

    /// Takes a place for a submission. Waits in line until a place is free, the time runs out, or `token` counts as
    /// cancelled.
    fn wait_for_place(&self, until: Until, token: Option<&Token>) -> Result<Kept<'_>, QueueError> {
        if let Some(in_line) = InLine::join(self)? {
            in_line.check()?;
            let _says =
                machine::waits_for_queue(self.name(), || format!("a place on queue {:?}", self.name()));
            wait_for_turn(in_line.turn().signal(), until, token);
            in_line.end()?;
        }
        Ok(Kept::take_over(self))
    }

    /// Returns an error if the queue would refuse a submission of the caller. The answer may be out of date when the
    /// caller submits.
    pub(super) fn check_reserve(&self) -> Result<(), QueueError> {
        if self.executor.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        self.may_revive(self.shard_here().limiter())
    }

    /// Returns the shard to which the calling thread would queue an item now.
    pub(super) fn shard_here(&self) -> &Shard {
        self.shard(self.executor.placement.index_for(Place::Here))
    }
}

/// Waits under a blocking guard until the issuer's turn in line is over, the time runs out, or `token` counts as
/// cancelled.
pub(super) fn wait_for_turn(over: &Signal, until: Until, token: Option<&Token>) {
    let _watch = token.map(|token| token.nudge_on_cancel(over.key()));
    let until = token.map_or(until, |token| until.or_at(token.deadline()));
    waits::guarded(|| over.wait_unless(until, || token.is_some_and(Token::is_cancelled)));
}

impl ReservedPlace {
    fn new(queue: Arc<QueueHandle>) -> Self {
        Self { queue, is_handed_over: false }
    }

    pub(crate) fn queue(&self) -> &Arc<QueueHandle> {
        &self.queue
    }

    /// Hands the place over to a submission to the same queue.
    pub(crate) fn hand_over(mut self, queue: &Queue) -> Kept<'_> {
        debug_assert!(std::ptr::eq(self.queue.queue(), queue));
        self.is_handed_over = true;
        Kept::take_over(queue)
    }
}

impl Drop for ReservedPlace {
    fn drop(&mut self) {
        // A forked process does not give the place back, because a thread of the parent may have held the waiting
        // line's lock at the fork.
        if !self.is_handed_over && !self.queue.queue().executor.origin.is_forked() {
            self.queue.queue().left_pending();
        }
    }
}

impl<Q: AsRef<Queue>> InLine<Q> {
    /// Takes a place, or joins the line. Returns `None` if the caller has got a place. The caller then owns this place.
    fn join(queue: Q) -> Result<Option<Self>, QueueError> {
        queue.as_ref().check_reserve()?;
        match queue.as_ref().reserve_place()? {
            Reserve::Place => Ok(None),
            Reserve::Wait(turn) => {
                queue.as_ref().waits_in_line();
                Ok(Some(Self { queue, turn: Some(turn) }))
            }
        }
    }

    fn turn(&self) -> &Arc<Turn> {
        self.turn.as_ref().expect("only `end` and the destructor end the turn")
    }

    /// See [`Queue::check_wait_in_line`].
    fn check(&self) -> Result<(), QueueError> {
        self.queue.as_ref().check_wait_in_line()
    }

    /// Ends the issuer's turn, because its wait is over. Returns an error if the issuer got no place. On success, the
    /// issuer owns a place.
    fn end(mut self) -> Result<(), QueueError> {
        let has_place = self.end_turn();
        let kept = has_place.then(|| Kept::take_over(self.queue.as_ref()));
        self.queue.as_ref().check_reserve()?;
        kept.ok_or(QueueError::Full).map(Kept::leave)
    }

    /// Ends the issuer's turn in line. Returns whether the issuer got a place.
    fn end_turn(&mut self) -> bool {
        let Some(turn) = self.turn.take() else { return false };
        let has_place = self.queue.as_ref().places.end_turn(&turn);
        self.queue.as_ref().left_line();
        has_place
    }
}

impl<Q: AsRef<Queue>> Drop for InLine<Q> {
    fn drop(&mut self) {
        // A forked process does nothing here, because a thread of the parent may have held the waiting line's lock at
        // the fork.
        if !self.queue.as_ref().executor.origin.is_forked() && self.end_turn() {
            self.queue.as_ref().left_pending();
        }
    }
}
