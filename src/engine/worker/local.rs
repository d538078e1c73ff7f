//! The worker's side of its local list: which entries the worker keeps there, which entry it takes next, and how it
//! gives entries up. [`policy::local`](crate::policy::local) has the rules.
//!
//! A *row* is a series of local items that the worker runs one after the other. A *stretch* is a series of entries that
//! the worker takes from one part of the worklist. The *heir* of an item is the entry that gets the item's slot.

use std::time::Duration;

use crate::policy::local::{Row, keeps};
use crate::policy::parts::Stretch;
use crate::policy::worker::Phase;
use crate::protocol::turns::OwnedTurn;
use crate::sys::clock;

use crate::engine::COUNTED;
use crate::engine::item::entry::Entry;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::{route, shard};

use super::worker_thread::{WorkerThread, with_current};

/// Keeps an entry on the local list of the calling thread, if this thread is a worker of the pool. Returns the entry if
/// it goes to the pool's list instead.
#[inline]
pub(crate) fn keep(pool: &Pool, entry: Entry) -> Option<Entry> {
    with_current(|worker| match worker {
        Some(worker) if std::ptr::eq(&raw const *worker.pool, pool) => worker.keep(entry),
        _ => Some(entry),
    })
}

impl WorkerThread {
    #[inline]
    fn keep(&self, entry: Entry) -> Option<Entry> {
        let kept = self.local.len();
        // A worker that does not count as running may take no entry from its list for a long time.
        if !keeps(self.meter.span(), kept) || self.shared.cell.load().phase() != Phase::Running {
            return Some(entry);
        }
        self.local.push(entry);
        self.pool.kept(self.shared.id, &self.local, kept + 1);
        // Another thread may have emptied this list before the push. After the fence in `kept`, the worker sees the
        // reason: its pool is abandoned, or another thread has taken this worker out of the count.
        if self.pool.running.load().is_abandoned() || self.shared.cell.load().phase() != Phase::Running {
            self.give_up_local();
        }
        None
    }

    /// Returns the worker's next entry.
    #[inline]
    pub(super) fn next(&self) -> Option<Entry> {
        if let Some(entry) = self.next_entry.take() {
            self.end_turn();
            return Some(entry);
        }
        let row = self.row.get();
        let goes_on = !self.local.is_empty() && row.goes_on(self.meter.span()) && !self.is_row_over();
        let takes_aside = self.pool.sideline_comes_first();
        if !takes_aside {
            self.end_turn();
            if goes_on {
                if let Some(entry) = self.local.pop() {
                    self.row.set(row.longer());
                    return Some(entry);
                }
            }
        }
        let entry = if takes_aside { self.next_aside() } else { self.next_listed() };
        if row != Row::default() {
            self.row.set(if entry.is_some() { row.gives_way() } else { Row::default() });
        }
        entry.or_else(|| self.next_local()).or_else(|| self.pool.take_fork())
    }

    /// Returns the next entry of the worklist.
    #[inline]
    fn next_listed(&self) -> Option<Entry> {
        if self.pool.worklist.is_whole() {
            return self.pool.pop();
        }
        let entry = if self.stretch_goes_on() { self.pool.pop_from(self.stretch.get().part()) } else { None };
        if entry.is_some() {
            self.stretch.set(self.stretch.get().taken());
            return entry;
        }
        self.begin_stretch()
    }

    /// Returns whether the worker takes another entry from the same part.
    #[inline]
    fn stretch_goes_on(&self) -> bool {
        !self.is_row_over() && self.stretch.get().goes_on(self.meter.span(), clock::now)
    }

    /// Returns whether the manager has ended the worker's row since the last call. If so, also ends the worker's
    /// stretch.
    #[inline]
    fn is_row_over(&self) -> bool {
        let is_over = self.shared.is_row_over();
        if is_over {
            self.stretch.set(self.stretch.get().ended());
        }
        is_over
    }

    /// Chooses a part of the worklist, and returns its first entry.
    #[inline(never)]
    fn begin_stretch(&self) -> Option<Entry> {
        let (last, span) = (self.stretch.get(), self.meter.span());
        loop {
            let part = self.pool.worklist.choose(self.shared.cpu(), last, span)?;
            // Another worker may have taken the last entry of the part.
            if let Some(entry) = self.pool.pop_from(part) {
                self.stretch.set(Stretch::begin(part, last, span, clock::now).taken());
                return Some(entry);
            }
        }
    }

    /// Returns whether other entries of the pool come before this entry, which is the heir of the worker's last item.
    /// If no other entries come first, the worker executes the heir next, and counts the heir as an entry of the
    /// present stretch.
    #[inline(always)] // for the same reason as `work_for`
    pub(super) fn gives_way_to_others(&self, heir: &Entry) -> bool {
        // While turns are in force, each item is charged to its queue when it begins, so the heir waits for its turn. A
        // queue that has used more than its share keeps turns in force, even if the pool has no entries.
        if !self.local.is_empty() || self.pool.sideline_comes_first() {
            return true;
        }
        if self.pool.worklist.is_whole() {
            return self.pool.has_work();
        }
        if self.pool.has_stray_work() {
            return true;
        }
        let (row, cpu) = (self.row.get(), heir.shard().cpu);
        let in_row = row.takes_heir(self.meter.span(), self.pool.running.load().is_brisk());
        let comes_first = if in_row {
            // During a row of items, the worker does not check for each item whether the part of the heir's CPU has
            // entries. If several workers take entries from this part, each check moves a cache line.
            self.stretch_goes_on() || self.begins_stretch_with_heir(cpu)
        } else {
            !self.pool.worklist.has_entries_of(cpu) && (self.stretch_goes_on() || !self.pool.has_work())
        };
        if comes_first {
            self.stretch.set(self.stretch.get().taken());
            self.row.set(if in_row { row.longer() } else { row });
        }
        !comes_first
    }

    /// Begins a stretch with an heir, unless entries of another part come before the heir. `cpu` is the CPU of the
    /// heir's shard. Returns whether the worker has begun the stretch.
    #[inline(never)]
    fn begins_stretch_with_heir(&self, cpu: usize) -> bool {
        let (last, span) = (self.stretch.get(), self.meter.span());
        if last.is_ended() {
            // The manager has ended the last stretch, because items became long. So all other entries come before the
            // heir.
            return !self.pool.has_work();
        }
        let worklist = &self.pool.worklist;
        let comes_first = worklist.heir_comes_first(self.shared.cpu(), cpu, last, span);
        if comes_first {
            self.stretch.set(Stretch::begin(worklist.part_number(cpu), last, span, clock::now));
        }
        comes_first
    }

    /// Returns the next entry of the pool's sideline, or the entry whose turn it is. Ends the worker's last turn.
    #[cold]
    fn next_aside(&self) -> Option<Entry> {
        if self.pool.takes_turns() {
            // On the local list, the local entries would wait until no entry is left on the pool's lists. On the
            // worklist, the local entries take turns with the entries of weighted queues.
            self.give_up_local();
        }
        let (entry, turn) = self.pool.pop_aside(self.take_turn());
        if turn.is_some() {
            self.meter.begins_turn();
        }
        self.turn.set(turn);
        entry
    }

    /// Ends the worker's turn. Returns the turn, and the CPU time that the item of this turn has used. If this build
    /// counts nothing (`cmwq_uncounted`), returns `None`, so the charge that was made at the beginning of the turn
    /// remains.
    fn take_turn(&self) -> Option<(OwnedTurn, Option<Duration>)> {
        let turn = self.turn.take()?;
        let used = self.meter.ends_turn();
        COUNTED.then_some((turn, used))
    }

    /// Reports the worker's turn, if the worker has one. The worker calls this function if it does not take its next
    /// entry with [`next_aside`](Self::next_aside), which reports the turn under the same lock.
    #[inline]
    pub(super) fn end_turn(&self) {
        if self.meter.is_turn() {
            self.report_turn();
        }
    }

    #[cold]
    fn report_turn(&self) {
        if let Some(ended) = self.take_turn() {
            self.pool.end_turn(ended);
        }
    }

    /// Returns a local entry, or steals one from another worker. The worker calls this if the pool's lists have no
    /// entry.
    fn next_local(&self) -> Option<Entry> {
        if !self.pool.has_local_lists() {
            return None;
        }
        if self.pool.running.load().is_abandoned() {
            self.give_up_local();
            return None;
        }
        self.local.pop().or_else(|| {
            self.pool.is_not_crowded(self.shared.id);
            self.pool.steal_local(self.shared.id, &self.local)
        })
    }

    /// Submits an entry that goes to this pool's worklist. `route_epoch` is the pool's route epoch (the number of
    /// routes that were turned away from the pool), which the caller read before it read the entry's route.
    #[inline(always)] // for the same reason as `work_for`
    pub(super) fn submit_next(&self, next: Entry, route_epoch: u64) {
        let (shard, cpu) = (next.shard().id(), next.shard().cpu);
        self.pool.submit(next, cpu);
        if self.pool.route_epoch.load() != route_epoch {
            // By now, the entry may be completed and its shard freed.
            shard::with_shard(shard, |shard| shard.came_late(&self.pool));
        }
    }

    /// Submits an entry that does not go to this pool's worklist. There is one exception: if the entry belongs to the
    /// line of a weighted queue in this pool, and the pool has no other work, the entry becomes the worker's next
    /// entry.
    #[cold]
    pub(super) fn hand_on(&self, next: Entry) {
        if next.shard().leads_to_line(&self.pool) && !self.pool.has_work() && self.local.is_empty() {
            self.next_entry.set(Some(next));
        } else {
            route::submit(next);
        }
    }

    /// Moves the local entries to the pool's list, and wakes workers for all of them. The worker calls this if it will
    /// not execute these entries soon.
    #[inline]
    pub(super) fn give_up_local(&self) {
        let given = self.take_out_local();
        if given > 0 {
            self.pool.pushed_many(given);
        }
    }

    /// Moves the local entries to the pool's list. Returns how many entries were moved. The caller makes sure that
    /// workers take them.
    #[inline]
    pub(super) fn take_out_local(&self) -> usize {
        if self.local.is_empty() {
            self.pool.is_not_crowded(self.shared.id);
            return 0;
        }
        self.pool.take_local(&self.shared)
    }
}
