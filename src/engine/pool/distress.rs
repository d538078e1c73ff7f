//! A pool that needs a worker and cannot have one: how its work comes to the rescuers.
//!
//! An `Injector` can be neither scanned nor unlinked from, so the worklist is moved to the sideline first, under the
//! pool's lock, in order. That is not much: what lies on a worklist holds a slot, and so is at most `max_active` for
//! each queue and CPU. A worker that pops at the same time may get one entry before those that were just moved.

use std::sync::Arc;

use crate::policy::concurrency::Reserved;
use crate::policy::crew::Mayday;
use crate::policy::rescue::Call;
use crate::protocol::running::RunningCell;

use super::super::rescuer::Rescuer;
use super::super::shard::steal;
use super::door::Near;
use super::{Entry, Pool, State};

impl Pool {
    /// The worker that was asked for cannot be made now. If that begins a call for help: which. Nobody could come to the
    /// help of a bh context.
    pub(crate) fn unserved(&self) -> Option<Call> {
        if self.spec.is_bh() {
            return None;
        }
        self.state.lock().crew.unserved()
    }

    /// Does work wait here for a worker that cannot be made?
    pub(crate) fn needs_help(&self) -> bool {
        self.state.lock().crew.needs_help()
    }

    /// The deadline of a call for help has come: calls the rescuers of all queues that have work here. False if the
    /// call is over.
    pub(crate) fn mayday(self: &Arc<Self>, call: Call) -> bool {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            return false;
        }
        match state.crew.mayday(call, self.has_work()) {
            Mayday::Lapsed => return false,
            Mayday::StandDown(dropped) => {
                let look_at = self.came(&mut state, dropped.len());
                drop(state);
                self.ask_for_a_look(look_at);
                self.stand_down(dropped);
                return false;
            }
            Mayday::Call => {}
        }
        if self.core.has_rescuers() {
            self.move_aside(&mut state);
            let called = state.list_with_rescuers(self);
            drop(state);
            self.moved_aside();
            called.iter().for_each(|rescuer| rescuer.call(self));
        }
        true
    }

    /// The first entry of the rescuer's queue, if the pool still needs help.
    pub(crate) fn take_for(&self, rescuer: &Arc<Rescuer>) -> Option<Entry> {
        let mut state = self.state.lock();
        if !state.crew.needs_help() || state.sideline.is_abandoned() {
            return None;
        }
        self.move_aside(&mut state);
        let entry = state.sideline.take_first(&self.aside, |entry| is_of(entry, rescuer));
        state.given += u64::from(entry.is_some());
        drop(state);
        self.moved_aside();
        entry
    }

    /// A rescuer leaves, or was not needed.
    pub(crate) fn relieved(&self) {
        let mut state = self.state.lock();
        let dropped = state.crew.relieved(self.has_work());
        let look_at = self.came(&mut state, dropped.len());
        drop(state);
        self.ask_for_a_look(look_at);
        self.stand_down(dropped);
    }

    /// No work is left, so the pool waits for no worker any more. The next push reserves one anew, and calls if it cannot be
    /// made.
    fn stand_down(&self, dropped: Vec<Reserved>) {
        RunningCell::stand_down(dropped, |reserved| self.drop_reservation(reserved), || self.look());
    }

    /// Moves the worklist to the end of the sideline. The caller owes [`moved_aside`](Self::moved_aside).
    fn move_aside(&self, state: &mut State) {
        // What is pushed from now on stays: a stream of pushes does not keep the lock.
        for _ in 0..self.worklist.len() {
            let Some(entry) = steal(&self.worklist) else { break };
            state.sideline.push_back(entry);
        }
        state.sideline.show(&self.aside);
    }

    /// Whoever looked for work while entries were on their way from one list to the other may have seen none.
    pub(super) fn moved_aside(&self) {
        if self.has_work() {
            self.perform(self.running.pushed(), Near::Anywhere);
        }
    }
}

impl State {
    /// Lists the pool with the rescuers of the queues that have entries on the sideline. Returns those that are to be
    /// called now, once no lock is held. Under this one, entries stay, and nobody is rescued before that is counted.
    fn list_with_rescuers(&self, pool: &Arc<Pool>) -> Vec<Arc<Rescuer>> {
        let mut found: Vec<&Arc<Rescuer>> = Vec::new();
        let mut called = Vec::new();
        for entry in self.sideline.iter() {
            let Some(rescuer) = entry.shard().queue().rescuer() else { continue };
            // Entries of one queue lie together, mostly.
            if found.iter().rev().any(|known| Arc::ptr_eq(known, rescuer)) {
                continue;
            }
            found.push(rescuer);
            if rescuer.list(pool) {
                entry.shard().events.maydays.raise();
                called.push(Arc::clone(rescuer));
            }
        }
        called
    }
}

/// Is it an entry of the queue that this rescuer belongs to? Queues are told apart by their rescuers, since the
/// address of one that is gone may be another one's by now.
fn is_of(entry: &Entry, rescuer: &Arc<Rescuer>) -> bool {
    entry.shard().queue().rescuer().is_some_and(|own| Arc::ptr_eq(own, rescuer))
}
