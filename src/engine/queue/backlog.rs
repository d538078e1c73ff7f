//! The executor's bound on the pending items of all queues.
//!
//! An item of one queue may make room below the executor's bound for the issuers of other queues. So the executor's
//! `Backlog` lists each queue while issuers of that queue wait for a place. A thread that makes room hands the free
//! places to the issuers that wait at the listed queues.

use crossbeam_utils::CachePadded;

use crate::policy::backlog;
use crate::protocol::backlog::BacklogCell;
use crate::sys::sync::Mutex;

use super::register::QueueRef;
use super::workqueue::Queue;

/// The pending items of all queues of an executor.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// The limit on pending items. Each queue may exceed the limit by one item (see [`backlog`]).
    bound: u64, // I
    cell: CachePadded<BacklogCell>, // A
    /// The queues whose issuers wait for a place. Each queue is listed with the number of its waiting issuers. Each
    /// waiting issuer keeps its queue in memory.
    waiting: Mutex<Vec<(QueueRef, usize)>>, // K
}

impl Backlog {
    pub(crate) fn new(bound: usize) -> Self {
        let cell = CachePadded::new(BacklogCell::new());
        Self { bound: bound as u64, cell, waiting: Mutex::new(Vec::new()) }
    }

    /// Returns the number of pending items. The number is only a hint.
    pub(crate) fn pending(&self) -> usize {
        self.cell.pending() as usize
    }

    /// Returns how many items of a queue may be pending at present. `own` is the number of the queue's items that are
    /// pending now.
    #[inline]
    pub(super) fn most(&self, own: u64) -> u64 {
        backlog::most(self.bound, self.cell.pending(), own)
    }

    /// Counts items that have become pending. Returns the number of pending items beyond the bound.
    #[inline]
    pub(super) fn came(&self, items: u64) -> u64 {
        self.cell.came(items).saturating_sub(self.bound)
    }

    /// Counts items that are not pending any more. If issuers wait, hands them the places that have become free.
    #[inline]
    pub(super) fn left(&self, items: u64) {
        if self.cell.left(items) {
            self.hand();
        }
    }

    /// Lists a queue whose issuer waits for a place.
    #[cold]
    pub(super) fn waits(&self, queue: &Queue) {
        let mut waiting = self.waiting.lock();
        match waiting.iter_mut().find(|(listed, _)| std::ptr::eq(&**listed, queue)) {
            Some((_, issuers)) => *issuers += 1,
            None => waiting.push((queue.reference(), 1)),
        }
        drop(waiting);
        self.cell.waits();
    }

    /// Notes that one issuer no longer waits for a place of this queue.
    #[cold]
    pub(super) fn waits_no_more(&self, queue: &Queue) {
        self.cell.waits_no_more();
        let mut waiting = self.waiting.lock();
        let place = waiting.iter().position(|(listed, _)| std::ptr::eq(&**listed, queue));
        let place = place.expect("an issuer is listed as long as it waits");
        waiting[place].1 -= 1;
        let ended = (waiting[place].1 == 0).then(|| waiting.swap_remove(place));
        drop(waiting);
        drop(ended);
    }

    /// Hands the places that have become free to the issuers of the listed queues.
    #[cold]
    fn hand(&self) {
        let queues: Vec<_> = self.waiting.lock().iter().map(|(queue, _)| queue.reference()).collect();
        queues.iter().for_each(|queue| queue.hand_places());
    }
}
