//! The lists of a pool: how entries arrive, how the pool's workers take them, and how siblings get them.
//!
//! Issuers push to the worklist, which has [parts](super::parts). Workers take the entries of the *sideline* before
//! those of the worklist. The sideline holds entries that were put back or moved aside. Entries can only be taken from
//! the front of a part. So a thread that has to search the worklist first moves the entries of the worklist to the
//! sideline, where they come before the worklist's later entries. The entries of weighted queues do not go to the
//! worklist, but take turns with the worklist's entries: see [`turns`](super::turns).

use crate::policy::concurrency::Kick;
use crate::policy::fairness::FlowId;
use crate::protocol::sideline::Bound;

use crate::engine::item::entry::Entry;
use crate::engine::worker::local;

use super::binding::Near;
use super::worker_pool::{Pool, State};

impl Bound for Entry {
    fn is_bound(&self) -> bool {
        Self::is_bound(self)
    }

    fn is_marker(&self) -> bool {
        Self::is_marker(self)
    }
}

impl Pool {
    /// Adds an entry to the end of the worklist, or to the list of the calling worker. Wakes or requests a worker for
    /// the entry if the pool needs another worker. `cpu` is the CPU of the entry's shard.
    #[inline]
    pub(crate) fn submit(&self, entry: Entry, cpu: usize) {
        let is_bound = entry.is_bound();
        let entry = if is_bound || !self.has_local_lists() { Some(entry) } else { local::keep(self, entry) };
        let Some(entry) = entry else { return };
        self.push(entry, cpu);
        self.pushed_one(is_bound);
    }

    /// Wakes or requests a worker for the entry that the calling thread has pushed, if the pool needs another worker.
    #[inline]
    pub(super) fn pushed_one(&self, is_bound: bool) {
        match self.running.pushed() {
            // No sibling may take a bound entry. Entries that siblings may take were offered when they were pushed.
            Kick::Offer if is_bound => {}
            Kick::Watch if is_bound => self.ask_to_watch(),
            Kick::Leave => self.leave_to_workers(),
            kick => self.perform(kick, Near::Anywhere),
        }
    }

    /// Pushes the entry, which is the first half of [`submit`](Self::submit). Until the second half is done, it is not
    /// certain that a worker takes the entry. `cpu` is the CPU of the entry's shard.
    #[inline]
    pub(crate) fn push(&self, entry: Entry, cpu: usize) {
        self.worklist.push(entry, cpu);
    }

    /// Pushes the entry, as [`push`](Self::push) does.
    pub(super) fn push_any(&self, entry: Entry) {
        let cpu = entry.shard().cpu;
        self.push(entry, cpu);
    }

    /// Does the second half of [`submit`](Self::submit): wakes or requests a worker for an entry that the calling
    /// thread has pushed.
    #[inline]
    pub(crate) fn pushed(&self) {
        self.pushed_one(false);
    }

    /// Does the second half of [`submit`](Self::submit) for several entries. Wakes workers for all of these entries.
    /// If the pool is brisk, wakes workers only for the entries that the pool does not leave to its running workers.
    /// The calling thread wakes all these workers itself, because the last worker would begin late if each worker woke
    /// the next.
    pub(crate) fn pushed_many(&self, entries: usize) {
        self.pushed();
        for _ in 1..entries {
            let word = self.running.load();
            if !word.need_more_worker() {
                break;
            }
            if !word.is_brisk() {
                self.pushed();
            } else if !self.wake_for_rest() {
                break;
            }
        }
        self.offer();
    }

    /// Puts an entry in front of all other entries of the pool.
    #[cold]
    pub(crate) fn put_back(&self, entry: Entry) {
        let put = self.state.lock().sideline.put_back(entry, &self.aside);
        if let Err(entry) = put {
            // The pool is abandoned. The thread that has abandoned the pool gives up this entry, or the calling thread
            // does so in the call of `pushed`.
            self.push_any(entry);
        }
        self.pushed();
    }

    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.has_stray_work() || !self.worklist.is_empty()
    }

    /// Returns whether the pool has work that is not on its worklist. Work that is not on the worklist lies on the
    /// sideline, or on the local list of a worker that has more local entries than it needs.
    #[inline]
    pub(crate) fn has_stray_work(&self) -> bool {
        self.aside.has_entries() || self.crowded.named().is_some()
    }

    /// Returns whether the pool has any entry. In contrast to [`has_work`](Self::has_work), includes all local entries
    /// of the workers, and is correct even while another thread moves entries between two of the pool's lists.
    #[cold]
    pub(crate) fn has_entries(&self) -> bool {
        let state = self.state.lock();
        self.has_work() || state.local() > 0
    }

    /// Returns whether workers take the next entry with [`pop_aside`](Self::pop_aside), because the sideline has
    /// entries, or because [turns](super::turns) are in force. In an abandoned pool, the answer is always true.
    #[inline]
    pub(crate) fn sideline_comes_first(&self) -> bool {
        self.aside.comes_first()
    }

    /// Returns the number of entries on the worklist and the sideline. The number is only a hint.
    pub(crate) fn pending(&self) -> usize {
        self.worklist.len() + self.aside.len() as usize
    }

    /// Takes the first entry of the worklist. Workers call this function only if the sideline does not come first.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Entry> {
        self.popped(self.worklist.take()?)
    }

    /// Takes the first entry of this part of the worklist. Workers call this function only if the sideline does not
    /// come first.
    #[inline]
    pub(crate) fn pop_from(&self, part: usize) -> Option<Entry> {
        self.popped(self.worklist.take_from(part)?)
    }

    #[inline]
    fn popped(&self, entry: Entry) -> Option<Entry> {
        if entry.is_marker() { Some(self.before_marker(entry)) } else { Some(entry) }
    }

    /// Decides whether a marker that was taken off the worklist comes next. If the sideline has received entries since
    /// the marker was taken, puts the marker behind these entries, and returns the first of these entries. Otherwise
    /// returns the marker.
    #[cold]
    fn before_marker(&self, marker: Entry) -> Entry {
        self.state.lock().sideline.swap_front(marker, &self.aside)
    }

    /// Takes the first entry that may leave the pool. Holds the pool's lock while it moves bound entries to the
    /// sideline. Without the lock, a thread that turns a route away from this pool could miss a bound entry that moves
    /// from the worklist to the sideline, and close the pool too early.
    pub(super) fn give(&self) -> Option<Entry> {
        let mut state = self.state.lock();
        if state.sideline.is_abandoned() {
            return None;
        }
        let mut set_aside = false;
        let given = state.sideline.take_first(&self.aside, |entry| !entry.is_bound()).or_else(|| {
            let mut worklist_gives = !self.worklist.is_empty();
            loop {
                let flow = state.sideline.next_movable(worklist_gives)?;
                if flow != FlowId::WORKLIST {
                    break state.sideline.take_movable(flow, &self.aside);
                }
                let given = self.give_from_worklist(&mut state, &mut set_aside);
                if given.is_some() {
                    break given;
                }
                worklist_gives = false;
            }
        });
        if set_aside {
            state.sideline.show(&self.aside);
        }
        self.note_given(&mut state, given.as_ref());
        drop(state);
        if set_aside {
            self.moved_aside();
        }
        given
    }

    /// Takes the first entry of the worklist that may leave the pool, and moves earlier entries to the sideline.
    /// Returns `None` if no entry of the worklist may leave the pool.
    fn give_from_worklist(&self, state: &mut State, set_aside: &mut bool) -> Option<Entry> {
        loop {
            let entry = self.worklist.take()?;
            // No bound entry lies before this marker. So a sibling may take the marker, which need not wait for this
            // pool's workers.
            let is_first_marker = state.sideline.is_clear() && entry.is_marker();
            if !entry.is_bound() || is_first_marker {
                return Some(entry);
            }
            state.sideline.push_back(entry);
            *set_aside = true;
        }
    }

    /// Moves the entries of the worklist to the end of the sideline. The caller calls
    /// [`moved_aside`](Self::moved_aside) once it has released the lock.
    pub(super) fn move_aside(&self, state: &mut State) {
        self.worklist.take_all(|entry| state.sideline.push_back(entry));
        state.sideline.show(&self.aside);
    }

    /// Checks for work again, because a thread that checked while entries moved from the worklist to the sideline may
    /// have found both lists empty.
    pub(super) fn moved_aside(&self) {
        if self.has_work() {
            self.pushed();
        }
    }
}
