//! The work of a pool in distress: rescuers take this work if the manager cannot make a worker.
//!
//! The parts of the worklist are `Injector`s. No thread can scan an `Injector`, or unlink an entry from it. So before a
//! thread searches for the entries of one queue, it takes the pool's lock, and moves all entries to the sideline (a
//! list that the lock protects). The entries of each part keep their order. There are few entries to move: each entry
//! on a worklist holds a slot, so there are at most `max_active` entries for each queue and CPU. A worker that pops an
//! entry during the move may run this entry before the moved entries.
//!
//! The lines of weighted queues can be searched, so the entries in these lines stay where they are. The entries of
//! weighted queues take turns with the entries that were moved to the sideline.

use std::sync::Arc;

use crate::policy::concurrency::Reserved;
use crate::policy::idle_set::Mayday;
use crate::policy::time::Time;
use crate::protocol::running::RunningCell;
use crate::sys::clock;

use crate::engine::item::entry::Entry;

use super::calls::Rescuer;
use super::worker_pool::{Pool, State};

impl Pool {
    /// Notes that the pool has asked for a worker that cannot be made now. If a reservation waits for that worker, a
    /// call for help begins. Returns the pool's first deadline, unless the manager knows this deadline or an earlier
    /// one. A bh context makes no call for help, because no rescuer could serve it.
    pub(crate) fn unserved(&self) -> Option<Time> {
        if self.spec.is_bh() {
            return None;
        }
        let mut state = self.state.lock();
        state.idle_set.unserved(clock::now);
        state.unknown_deadline()
    }

    /// Returns whether work of the pool waits for a worker that cannot be made.
    pub(crate) fn needs_help(&self) -> bool {
        self.state.lock().idle_set.needs_help()
    }

    /// If the deadline of a call for help has come, calls the rescuers of all queues that have work in the pool. The
    /// manager calls this function.
    pub(super) fn mayday(self: &Arc<Self>, now: Time) {
        if self.needs_help() {
            // Perhaps no worker ever begins the entries on the local lists. So the pool moves these entries to the
            // worklist, from which rescuers can take them.
            self.spread();
        }
        let mut state = self.state.lock();
        // The entries of an abandoned pool are given up, so they need no rescuer.
        let has_work = self.has_work() && !state.sideline.is_abandoned();
        match state.idle_set.mayday(now, has_work) {
            Mayday::StandDown(dropped) => {
                self.came(&mut state, dropped.len());
                drop(state);
                self.stand_down(dropped);
            }
            Mayday::Call if self.core.has_rescuers() => {
                self.move_aside(&mut state);
                let called = state.list_with_rescuers(self);
                drop(state);
                self.moved_aside();
                called.iter().for_each(|rescuer| rescuer.call(self));
            }
            Mayday::Nothing | Mayday::Call => {}
        }
    }

    /// Takes the pool's first entry of the rescuer's queue, if the pool still needs help.
    pub(crate) fn take_for(&self, rescuer: &Arc<Rescuer>) -> Option<Entry> {
        let mut state = self.state.lock();
        if !state.idle_set.needs_help() || state.sideline.is_abandoned() {
            return None;
        }
        self.move_aside(&mut state);
        let entry = state.sideline.take_any(&self.aside, |entry| is_of(entry, rescuer));
        self.note_given(&mut state, entry.as_ref());
        drop(state);
        self.moved_aside();
        entry
    }

    /// Ends the pool's call for help if the pool has no work left. A rescuer calls this function when it leaves the
    /// pool, even if the pool did not need the rescuer.
    pub(crate) fn relieved(&self) {
        let mut state = self.state.lock();
        let dropped = state.idle_set.relieved(self.has_work());
        self.came(&mut state, dropped.len());
        let deadline = state.unknown_deadline();
        drop(state);
        self.tell_deadline(deadline);
        self.stand_down(dropped);
    }

    /// Drops these reservations, because no work is left that needs another worker. The next push reserves a worker
    /// again, and calls for help if that worker cannot be made.
    pub(super) fn stand_down(&self, dropped: Vec<Reserved>) {
        RunningCell::stand_down(dropped, |reserved| self.drop_reservation(reserved), || self.look());
    }
}

impl State {
    /// Adds the pool to the list of each rescuer whose queue has entries on the sideline. Returns the rescuers that
    /// the caller must call after it has released all its locks. The entries stay on the sideline while the pool's
    /// lock is held, so each call is counted before the called rescuer takes an entry.
    fn list_with_rescuers(&self, pool: &Arc<Pool>) -> Vec<Arc<Rescuer>> {
        let mut found: Vec<&Arc<Rescuer>> = Vec::new();
        let mut called = Vec::new();
        for entry in self.sideline.iter() {
            let Some(rescuer) = entry.shard().queue().rescuer() else { continue };
            // The search begins with the last rescuer found, because entries of one queue mostly lie together.
            if found.iter().rev().any(|known| Arc::ptr_eq(known, rescuer)) {
                continue;
            }
            found.push(rescuer);
            if rescuer.list(pool) {
                entry.shard().events.rescuer_calls.raise();
                called.push(Arc::clone(rescuer));
            }
        }
        called
    }
}

/// Returns whether the entry belongs to this rescuer's queue. Queues are compared by their rescuers, because the
/// address of a queue that is gone may by now belong to another queue.
fn is_of(entry: &Entry, rescuer: &Arc<Rescuer>) -> bool {
    entry.shard().queue().rescuer().is_some_and(|own| Arc::ptr_eq(own, rescuer))
}
