//! How a pool handles the local lists of its workers. The pool remembers a worker that has more local entries than it
//! needs, so that other threads find entries to take. [`policy::local`](crate::policy::local) says what a local list is
//! for.
//!
//! The worker that owns a local list pushes and pops its entries. Idle workers of the pool steal half of a list that
//! has several entries. The manager, and threads that end or abandon the pool, move whole lists to the worklist.
//!
//! [`protocol::crowded`](crate::protocol::crowded) stores the number of a worker whose list had several entries. That
//! module also has the handshakes between the owner of a list and the other threads.

use crossbeam_deque::{Steal, Stealer, Worker as List};

use crate::engine::item::entry::Entry;
use crate::engine::worker::shared::Worker;
use crate::policy::idle_set::WorkerId;
use crate::policy::local::{CROWD, ends_row};

use super::binding::Near;
use super::worker_pool::{Numbered, Pool, State};

impl Pool {
    /// Returns whether the pool's workers may have local lists. The workers of a per-CPU pool have none, because the
    /// items of such a pool start in the order in which they were queued.
    #[inline]
    pub(crate) fn has_local_lists(&self) -> bool {
        self.several_cpus
    }

    /// Makes sure that the entries on the calling worker's own list do not wait too long. `kept` is the number of these
    /// entries, including the one that was just added.
    #[inline]
    pub(crate) fn kept(&self, worker: WorkerId, list: &List<Entry>, kept: usize) {
        let is_crowd = kept >= CROWD;
        if is_crowd {
            self.crowded.name(worker);
        }
        self.perform(self.running.kept(is_crowd), Near::Anywhere);
        // A worker that steals may have removed this worker's name from `crowded` before the new entry was visible.
        if is_crowd && self.crowded.named().is_none() && list.len() >= CROWD {
            self.show_crowd(worker);
        }
    }

    /// Writes to `crowded` the name of a worker that has several local entries, unless `crowded` names another worker.
    /// If this call names the worker, it also wakes another worker for these entries.
    #[cold]
    fn show_crowd(&self, worker: WorkerId) {
        if self.crowded.name_if_none(worker) {
            self.perform(self.running.kept(true), Near::Anywhere);
        }
    }

    /// Notes that the list of the calling worker is empty.
    #[inline]
    pub(crate) fn is_not_crowded(&self, worker: WorkerId) {
        self.crowded.unname(worker);
    }

    /// Steals half of the local entries of a worker that has several. Returns the first stolen entry. The other stolen
    /// entries go to the calling worker's own list, which is empty. If the victim still has several entries, it stays
    /// named in `crowded`, because its present item may be long.
    pub(crate) fn steal_local(&self, thief: WorkerId, own: &List<Entry>) -> Option<Entry> {
        while let Some(victim) = self.crowded.named().filter(|victim| *victim != thief) {
            let state = self.state.lock();
            let list =
                state.workers.get(victim as usize).and_then(Numbered::worker).map(|worker| &worker.local);
            let is_abandoned = state.sideline.is_abandoned();
            let has_crowd = || !is_abandoned && list.is_some_and(|list| list.len() >= CROWD);
            let stolen = list.filter(|_| has_crowd()).and_then(|list| steal_half(list, own));
            let is_named_again = !has_crowd() && self.crowded.unname_short(victim, has_crowd);
            drop(state);
            if is_named_again {
                self.perform(self.running.kept(true), Near::Anywhere);
            }
            let left = own.len();
            if left >= CROWD && self.crowded.named().is_none() {
                self.kept(thief, own, left);
            }
            if stolen.is_some() {
                return stolen;
            }
        }
        None
    }

    /// Moves a worker's local entries to the worklist. The caller calls this function if the worker will not begin
    /// these entries soon. Returns how many entries were moved. The caller makes sure that workers take the moved
    /// entries.
    pub(crate) fn take_local(&self, worker: &Worker) -> usize {
        let state = self.state.lock();
        self.take_local_of(&state, worker)
    }

    /// Does the same as [`take_local`](Self::take_local). The caller holds the pool's lock, because an entry that moves
    /// is on no list for a moment. Without the lock, a thread that turns a shard's route away from this pool at that
    /// moment could find no entry, and close the pool.
    fn take_local_of(&self, _state: &State, worker: &Worker) -> usize {
        let mut moved = 0;
        loop {
            while let Some(entry) = steal_one(&worker.local) {
                self.push_any(entry);
                moved += 1;
            }
            if !self.crowded.unname_short(worker.id, || worker.local.len() >= CROWD) {
                return moved;
            }
        }
    }

    /// Moves the local entries of a worker to the worklist if the worker will not get to them soon. The manager calls
    /// this function at each check of the pool. A worker will not get to its entries soon if it still has the item that
    /// it had at the last check, or if it does not count as running. If the pool has a free CPU, or has siblings that
    /// may have one, moves the local entries of all workers. Also ends rows (series of local items) that last too long.
    /// If a brisk pool (a pool with short items) has become slow, ends its briskness. If the pool stays brisk, wakes a
    /// worker for pending items, and offers siblings the items that the pool does not keep.
    pub(crate) fn check_progress(&self) {
        let (keeps_local, shares) = (self.has_local_lists(), self.has_siblings());
        if !keeps_local && !shares {
            return;
        }
        let has_room = shares || self.running.load().has_free_cpu();
        let state = self.state.lock();
        let (mut moved, mut all_begun) = (0, 0);
        for worker in state.workers.iter().filter_map(Numbered::worker) {
            let begun = worker.begun_since_last_check();
            all_begun += begun;
            if keeps_local && ends_row(begun) {
                worker.end_row();
            }
            if keeps_local && (has_room || begun == 0 || !worker.cell.load().phase().is_counted()) {
                moved += self.take_local_of(&state, worker);
            }
        }
        drop(state);
        let word = self.running.load();
        if word.is_slow(all_begun) {
            self.end_briskness();
        } else if word.is_brisk() {
            // A few items may wait behind a long item.
            self.perform(self.running.look_for_another(|| self.has_work()), Near::Anywhere);
            self.share_rest();
        }
        self.moved(moved);
    }

    /// Moves all local entries to the worklist, and wakes workers for them.
    pub(crate) fn spread(&self) {
        let moved = self.take_all_local();
        self.moved(moved);
    }

    /// Wakes workers for entries that were moved to the worklist.
    fn moved(&self, entries: usize) {
        if entries > 0 {
            self.pushed_many(entries);
        }
    }

    /// Moves all local entries to the worklist. Returns how many entries were moved. The caller makes sure that workers
    /// take the moved entries.
    pub(crate) fn take_all_local(&self) -> usize {
        if !self.has_local_lists() {
            return 0;
        }
        let state = self.state.lock();
        state
            .workers
            .iter()
            .filter_map(Numbered::worker)
            .map(|worker| self.take_local_of(&state, worker))
            .sum()
    }

    /// Returns the number of entries on the pool's lists and on the local lists.
    pub(crate) fn pending_everywhere(&self) -> usize {
        let local = self.state.lock().local();
        self.pending() + local
    }
}

impl State {
    /// Returns the number of local entries of all workers.
    pub(super) fn local(&self) -> usize {
        self.workers.iter().filter_map(Numbered::worker).map(|worker| worker.local.len()).sum()
    }
}

fn steal_half(list: &Stealer<Entry>, own: &List<Entry>) -> Option<Entry> {
    loop {
        match list.steal_batch_and_pop(own) {
            Steal::Success(entry) => return Some(entry),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}

fn steal_one(list: &Stealer<Entry>) -> Option<Entry> {
    loop {
        match list.steal() {
            Steal::Success(entry) => return Some(entry),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
