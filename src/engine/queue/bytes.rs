//! Counts the bytes that pending items keep in memory, if the executor has a bound on these bytes.
//!
//! The executor counts the bytes of a submission only if the submission names a number of bytes. An item keeps its
//! bytes from its submission until it begins. An item that never begins keeps its bytes until its closure is dropped,
//! because the closure owns the [`KeptBytes`].
//!
//! An issuer takes its place among the pending items first, and its bytes last. So an issuer never waits while it owns
//! bytes, and each wait for bytes ends when other items begin. If issuers took their bytes first, two issuers could
//! wait for each other: one owns bytes and waits for a place, while the other owns this place and waits for these
//! bytes. An issuer takes its bytes only after the hooks of its submission have run, because a hook may submit items,
//! too.
//!
//! An item with a delay keeps its bytes during the delay. So an issuer may have to wait for room until the delay of
//! another item ends.

use crate::policy::backlog;
use crate::protocol::bytes::{ByteCell, ByteTurn, QueueBytes};
use crate::sys::machine;
use crate::sys::sync::Arc;
use crate::sys::wait::Until;

use crate::engine::item::token::Token;
use crate::engine::refusal::QueueError;

use super::permits::wait_for_turn;
use super::register::QueueRef;
use super::workqueue::Queue;

/// The bytes of an item that has not begun. Dropping this value gives the bytes back.
#[must_use]
#[derive(Debug)]
pub(crate) struct KeptBytes {
    queue: QueueRef,
    bytes: u64,
}

/// How an issuer asks for the bytes of its item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// The issuer does not wait for room.
    Now,
    /// The issuer waits in line if its queue's `when_full` permits this.
    InLine,
    /// The issuer waits as with `InLine`, and its item has a delay. A queue accepts an item with a delay even while the
    /// queue is being drained.
    OfTimer,
}

impl Queue {
    /// Takes room for this many bytes of an item. Returns `None` if the executor does not count bytes, or if the item
    /// has no bytes. Once the caller owns the bytes, it must not wait before it has submitted the item.
    ///
    /// `token` is the submission's own token. If this token counts as cancelled, the wait for room ends and the
    /// submission is refused.
    pub(crate) fn take_bytes(
        &self,
        bytes: u64,
        ask: Ask,
        token: Option<&Token>,
    ) -> Result<Option<KeptBytes>, QueueError> {
        let bytes = backlog::counted(bytes);
        let Some((cell, own)) = self.byte_cell().filter(|_| bytes > 0) else { return Ok(None) };
        if self.executor.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        if !cell.take(own, bytes) {
            if ask == Ask::Now || !self.may_wait_for_room() {
                return Err(QueueError::Full);
            }
            self.wait_for_bytes((cell, own), bytes, ask, token)?;
        }
        Ok(Some(KeptBytes { queue: self.reference(), bytes }))
    }

    /// Takes room for the bytes of an item. Waits in line until there is room, or until `token` counts as cancelled.
    #[cold]
    fn wait_for_bytes(
        &self,
        (cell, own): (&ByteCell, &Arc<QueueBytes>),
        bytes: u64,
        ask: Ask,
        token: Option<&Token>,
    ) -> Result<(), QueueError> {
        let turn = cell.reserve(own, bytes, || self.check_ask(ask)).map_err(|(error, has_room)| {
            if has_room {
                cell.give_back(own, bytes);
            }
            error
        })?;
        let Some(turn) = turn else { return Ok(()) };
        let in_line = InLine { queue: self, cell, turn: Some(Arc::clone(&turn)) };
        self.check_wait_in_line()?;
        let says = || format!("room for {bytes} bytes on queue {:?}", self.name());
        let _says = machine::waits_for_queue(self.name(), says);
        wait_for_turn(turn.signal(), Until::FOREVER, token);
        self.check_ask(ask)?;
        in_line.end()
    }

    /// Returns an error if the queue would refuse the submission.
    fn check_ask(&self, ask: Ask) -> Result<(), QueueError> {
        match ask {
            Ask::Now | Ask::InLine => self.check_reserve(),
            Ask::OfTimer => self.may_arm(self.shard_here().limiter(), false),
        }
    }

    /// Returns the executor's count of bytes, and the queue's count. Returns `None` if the executor does not count
    /// bytes.
    fn byte_cell(&self) -> Option<(&ByteCell, &Arc<QueueBytes>)> {
        self.executor.bytes.as_ref().zip(self.bytes.as_ref())
    }

    /// Refuses the issuers that wait for room for their bytes, because the queue is shut.
    pub(super) fn refuse_byte_line(&self) {
        if let Some((cell, own)) = self.byte_cell() {
            cell.refuse_line(own);
        }
    }
}

/// An issuer that waits in line for room for its item's bytes. Dropping this value ends the issuer's turn.
struct InLine<'queue> {
    queue: &'queue Queue,
    cell: &'queue ByteCell,
    /// `None` if the turn has ended.
    turn: Option<Arc<ByteTurn>>,
}

impl InLine<'_> {
    /// Ends the issuer's turn, because its wait is over. Returns an error if the issuer got no room. On success, the
    /// issuer owns room for its item's bytes.
    fn end(mut self) -> Result<(), QueueError> {
        let has_room = self.turn.take().is_some_and(|turn| self.cell.end_turn(&turn));
        if has_room { Ok(()) } else { Err(QueueError::Full) }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        // A forked process does nothing here, because a thread of the parent may have held the waiting line's lock at
        // the fork.
        let turn = self.turn.take().filter(|_| !self.queue.executor.origin.is_forked());
        if let Some(turn) = turn.filter(|turn| self.cell.end_turn(turn)) {
            self.cell.give_back(turn.queue(), turn.bytes());
        }
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        // A forked process gives nothing back, because a thread of the parent may have held the waiting line's lock at
        // the fork.
        let cell = self.queue.byte_cell().filter(|_| !self.queue.executor.origin.is_forked());
        if let Some((cell, own)) = cell {
            cell.give_back(own, self.bytes);
        }
    }
}
