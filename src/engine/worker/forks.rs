//! The worker's side of forks: how a worker's items make forks, take them back, run them, and wait for them.
//! `item::fork` says what a fork is, and [`levels`](super::levels) has the lists of forks. A *level* is one of the
//! items on the thread's stack.
#![allow(unsafe_code, reason = "a fork and the item's shard are known by their addresses")]

use std::sync::Arc;

use crossbeam_deque::Worker as List;

use crate::policy::idle_set::WorkerId;
use crate::policy::worker::Phase;

use crate::engine::item::fork_head::ForkAddress;

use super::current::Current;
use super::levels::Forks;
use super::worker_thread::{Role, WorkerThread};

impl WorkerThread {
    /// Returns the current item, if this item is allowed to make a fork now.
    ///
    /// The item is allowed to fork only while its worker is in [`Phase::Running`], its pool permits forks, and its
    /// limiter has a free slot and an open intake. In any other case, no other worker could run the fork now.
    #[inline]
    pub(crate) fn forking_item(&self) -> Option<Current> {
        let may_fork = self.pool.permits_forks()
            && self.outermost().is_some_and(|worker| worker.shared.cell.load().phase() == Phase::Running);
        let item = if may_fork { self.current()? } else { return None };
        item.shard().limiter().cell.load().takes_fork().then_some(item)
    }

    /// If this level runs a fork, returns the item that has made the fork. If this fork is a part of other forks, also
    /// returns the items that have made those forks.
    pub(super) fn forking_items(&self) -> impl Iterator<Item = Current> {
        // SAFETY: this thread runs the fork.
        let items = self.fork_at_work().map(|fork| unsafe { fork.forking() });
        // SAFETY: the address is that of the `Current` on the stack of a thread that waits for the fork.
        items.into_iter().flatten().map(|item| unsafe { *item.cast().as_ref() })
    }

    /// Returns the worker whose item is the outermost level on this thread. Returns `None` if the thread does not
    /// belong to a pool.
    #[inline]
    fn outermost(&self) -> Option<&Self> {
        let mut level = self;
        loop {
            match level.role {
                Role::Own => return Some(level),
                Role::Lent { runs_part: true, .. } => level = level.outer()?,
                Role::Lent { .. } | Role::Rescuer(_) => return None,
            }
        }
    }

    fn level(&self) -> &List<ForkAddress> {
        self.forks.get_or_init(|| {
            let list = List::new_lifo();
            if let Some(outermost) = self.outermost() {
                outermost.shared.forks.add(list.stealer());
            }
            list
        })
    }

    /// Notes that this level begins to run a fork. Returns the parts of the fork.
    pub(crate) fn begins_fork(&self, fork: ForkAddress) -> Option<Forks> {
        self.runs.set(Some(fork));
        self.level();
        let worker = &self.outermost()?.shared;
        let run = worker.forks.begins_run()?;
        Some(Forks::new(Arc::clone(worker), run))
    }

    /// Notes that this level's fork is about to end. Forks that this level makes from now on are not parts of the
    /// ending fork. So no thread that waits for the ending fork takes these forks.
    pub(crate) fn ends_fork(&self) {
        self.runs.set(None);
        if let Some(outermost) = self.outermost() {
            outermost.shared.forks.ends_run();
        }
    }

    /// Puts a fork on this level's list, and finds a thread for the fork if the pool has a free CPU or has siblings.
    #[inline]
    pub(crate) fn fork(&self, fork: ForkAddress) {
        self.level().push(fork);
        let has_free_cpu = self.pool.forked(self.number());
        if has_free_cpu || self.pool.has_siblings() {
            self.find_thread(has_free_cpu);
        }
    }

    /// Finds a thread for a fork. If this thread itself runs a fork, calls a thread that waits for that fork. If no
    /// thread waits for that fork, finds a worker. The waiting thread is called even if this thread's pool has no free
    /// CPU, because the pool of the waiting thread may have one.
    #[cold]
    fn find_thread(&self, has_free_cpu: bool) {
        // SAFETY: this thread runs the fork.
        let was_called = self.fork_at_work().is_some_and(|fork| unsafe { fork.call_waiting_thread() });
        if !was_called {
            self.pool.find_worker_for_fork(has_free_cpu);
        }
    }

    /// Returns the fork that this thread runs, if its current item is a fork.
    #[inline]
    pub(crate) fn fork_at_work(&self) -> Option<ForkAddress> {
        self.runs.get()
    }

    /// Notes the parts of the fork for which this level waits from now on. `None` says that no parts of the fork are
    /// known yet, or that this level does not wait any more.
    pub(crate) fn joins(&self, parts: Option<&Forks>) {
        if let Some(outermost) = self.outermost() {
            outermost.shared.forks.joins(parts);
        }
    }

    /// Calls `sleep`, in which the thread waits for a fork. The thread keeps its place in its pool: the pool wakes no
    /// worker for a fork instead of this thread.
    pub(crate) fn sleeps_for_fork(&self, sleep: impl FnOnce()) {
        let outermost = self.outermost().unwrap_or(self);
        outermost.keeps_place.set(true);
        self.pool.keep_place_during(sleep);
        outermost.keeps_place.set(false);
    }

    /// Takes the current item's last fork off the list again. Returns false if another thread has taken this fork.
    #[inline]
    pub(crate) fn takes_back(&self, fork: ForkAddress) -> bool {
        // Other threads take older forks first. So if this fork is gone, the list is empty.
        let last = self.level().pop();
        debug_assert!(
            last.is_none_or(|last| last == fork),
            "an item joins its forks in the order of a stack"
        );
        last.is_some()
    }

    /// Removes this level's list, which is empty. The level is the innermost one, and is about to end.
    pub(super) fn end_level(&self) {
        if self.forks.get().is_some() {
            if let Some(outermost) = self.outermost() {
                outermost.shared.forks.remove_innermost();
            }
        }
    }

    /// Returns the number under which the pool finds the forks of this thread.
    #[inline]
    fn number(&self) -> WorkerId {
        self.outermost().map_or(self.shared.id, |worker| worker.shared.id)
    }
}
