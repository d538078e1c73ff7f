//! Cancels a whole queue: items that have not begun do not run, and running items are asked to stop.
//!
//! Lists cannot be searched, and a queue's entries lie on the worklists of pools, which the queue shares with other
//! queues. So the thread that cancels a queue sets flags, which each worker reads before it runs an item. A worker that
//! finds the flags set completes the entry without running its item. The waiting lists belong to the queue alone, so
//! the thread that cancels the queue empties them itself. Therefore the owners of the items on the waiting lists learn
//! of the cancel even while the running items hold all slots.

use std::sync::OnceLock;

use crate::policy::effective_state::End;
use crate::policy::time::Time;
use crate::sys::sync::Ordering;
use crate::sys::wait::Until;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::item::entry::Entry;
use crate::engine::item::token::Token;
use crate::engine::refusal::WaitError;
use crate::engine::user_code::destroy;

use super::admission::complete;
use super::drain::wait_until_empty;
use super::route;
use super::workqueue::Queue;

/// Returns the token in the cell. If the cell is empty, first makes a token, and then puts it into the cell, unless
/// another thread was faster. While a thread makes a token, it may have to wait for a lock or, on a simulated
/// machine, until the simulation lets it run. Other threads do not wait for the cell during that time.
fn made_outside(cell: &OnceLock<Token>, make: impl FnOnce() -> Token) -> &Token {
    cell.get().unwrap_or_else(|| {
        let token = make();
        cell.get_or_init(|| token)
    })
}

impl ExecutorInner {
    /// Returns the executor's token. The executor's token is the parent of the queues' tokens. A shutdown that runs out
    /// of time cancels the executor's token.
    pub(crate) fn token(&self) -> &Token {
        made_outside(&self.token, || Token::new(Time::NEVER))
    }
}

impl Queue {
    /// Returns the queue's token. The queue's token is the parent of the tokens of the queue's items.
    pub(crate) fn token(&self) -> &Token {
        made_outside(&self.token, || self.executor.token().child(Time::NEVER))
    }

    /// Returns whether the queue's items are asked to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        let own = self.token.get().is_some_and(Token::is_cancelled);
        own || self.executor.token.get().is_some_and(Token::is_cancelled)
    }

    /// Returns whether the queue gives its items up instead of running them. A worker calls this function only if the
    /// queue's flag `is_unusual` is set.
    pub(crate) fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Relaxed)
    }

    /// Ends the queue as [`destroy`](Self::destroy) does, with two differences: items that have not begun do not run,
    /// and running items are asked to stop. If the time runs out, the caller may try again. The caller holds a handle
    /// to the queue.
    pub(crate) fn destroy_now(&self, until: Until) -> Result<usize, WaitError> {
        self.check_wait()?;
        if !self.begin_destroy_now() {
            return Ok(0);
        }
        wait_until_empty(&[self], until)?;
        Ok(self.finish_destroy())
    }

    /// Ends the queue, gives up the items that have not begun, and asks the running items to stop. Returns false if the
    /// queue was destroyed before. The caller holds a handle to the queue.
    pub(super) fn begin_destroy_now(&self) -> bool {
        if !self.begin_destroy() {
            return false;
        }
        self.change(|requested| {
            if requested.end == End::Begun {
                requested.end = End::Now;
            }
            // The flags are set before the intakes are shut. A limiter that is shut may give slots to more items than
            // its limit permits. The workers that get items beyond the limit must find the flags set. These workers
            // find the flags because of the order of the writes: the limiter's word makes the flags visible to the
            // item's issuer, and the worklist makes the flags visible to the worker.
            self.gives_up.store(true, Ordering::Relaxed);
            self.is_unusual.store(true, Ordering::Relaxed);
        });
        // The owners of the items on the waiting lists are told of the cancel before the token is cancelled. The reason
        // is that cancelling the token may call a waker, whose code may wait for one of these items.
        self.cancel_listed();
        self.token().cancel();
        true
    }

    /// Completes the entries of the waiting lists without running their items. An item that reaches a list later gets a
    /// slot immediately, and goes to a worker. If very many items come, some of them stay on a waiting list until they
    /// get the slots of items that complete.
    fn cancel_listed(&self) {
        for limiter in self.limiters() {
            while limiter.cell.recall() {
                let entry = limiter.first_waiting();
                destroy(move || cancel_entry(entry));
            }
        }
    }
}

/// Completes an entry that was taken off a waiting list. The entry's item does not run, and the item's owner is told of
/// the cancel.
#[cold]
fn cancel_entry(entry: Entry) {
    let given_up = entry.abandon();
    entry.shard().events.cancelled(given_up.is_late());
    entry.shard().queue().left_pending();
    if let Some(next) = complete(entry) {
        route::submit(next);
    }
}
