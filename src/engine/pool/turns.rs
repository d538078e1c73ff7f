//! The entries of weighted queues: how they arrive in their queue's line, and how workers take them by turns.
//!
//! The lines are a part of the sideline, so the pool's lock protects them. *Turns are in force* while an entry of a
//! weighted queue waits, or while a weighted queue has debts from earlier turns. While turns are not in force, workers
//! pop entries from the worklist without the pool's lock. [`policy::fairness`](crate::policy::fairness) decides whose
//! turn it is.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::fairness::FlowId;
use crate::protocol::turns::{FairShare, OwnedTurn};

use crate::engine::item::entry::Entry;

use super::worker_pool::{Pool, State};

/// A turn, and the CPU time that its item has used. The time is `None` if the item did not run.
type EndedTurn = (OwnedTurn, Option<Duration>);

impl Pool {
    /// Adds an entry to its queue's line, and wakes or requests a worker for the entry if the pool needs another
    /// worker.
    #[cold]
    pub(crate) fn submit_in_line(&self, entry: Entry, of: (FlowId, &Arc<FairShare>)) {
        let is_bound = entry.is_bound();
        self.push_in_line(entry, of);
        self.pushed_one(is_bound);
    }

    /// Adds an entry to its queue's line, which is the first half of [`submit_in_line`](Self::submit_in_line).
    #[cold]
    pub(crate) fn push_in_line(&self, entry: Entry, of: (FlowId, &Arc<FairShare>)) {
        let put = self.state.lock().sideline.push_in_line(of, entry, &self.aside);
        if let Err(entry) = put {
            // The pool is abandoned, so the entry goes to the worklist. `put_back` says which thread gives the entry
            // up.
            self.push_any(entry);
        }
    }

    /// Returns whether turns are in force. The answer is a hint.
    pub(crate) fn takes_turns(&self) -> bool {
        self.aside.takes_turns()
    }

    /// Takes the first entry that was put back, or else the entry whose turn it is. Returns `None` if there is no
    /// entry, or if the pool is abandoned. `ended` is the calling worker's last turn. Also returns the turn that begins
    /// now, if turns are in force.
    #[cold]
    pub(crate) fn pop_aside(&self, ended: Option<EndedTurn>) -> (Option<Entry>, Option<OwnedTurn>) {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            return (None, None);
        }
        let sideline = &mut state.sideline;
        if let Some((turn, used)) = ended {
            sideline.ends(turn, used, &self.aside);
        }
        // `pop_by_turn` takes a route's marker off the worklist only while the sideline has no entry that was put back
        // or moved aside, so the marker need not go back to the list.
        let entry = sideline.pop_front(&self.aside).or_else(|| {
            sideline.pop_by_turn(&self.aside, || !self.worklist.is_empty(), || self.worklist.take())
        });
        let turn = entry.as_ref().and_then(|entry| self.begin_turn(&mut state, entry));
        (entry, turn)
    }

    /// Ends a turn of a worker that does not take its next entry with [`pop_aside`](Self::pop_aside).
    pub(crate) fn end_turn(&self, (turn, used): EndedTurn) {
        let mut state = self.state.lock();
        if !state.sideline.is_abandoned() {
            state.sideline.ends(turn, used, &self.aside);
        }
    }

    /// Counts an entry that a thread other than the pool's workers takes, and charges the entry's queue. The queue is
    /// charged for the item's expected length, because the thread does not report how much CPU time the item uses.
    pub(super) fn note_given(&self, state: &mut State, given: Option<&Entry>) {
        if let Some(entry) = given {
            state.given += 1;
            let _charged = self.begin_turn(state, entry);
        }
    }

    /// Charges the entry's queue, if turns are in force. A route's marker costs nothing.
    fn begin_turn(&self, state: &mut State, entry: &Entry) -> Option<OwnedTurn> {
        if entry.is_marker() {
            return None;
        }
        state.sideline.begins(entry.shard().queue().flow(), &self.aside)
    }
}
