//! The type of a worker's current item and the number of the item's shard, for readers on other threads.
//!
//! Neither the worker nor a reader uses a lock or a read-modify-write. The worker owns the cell. The worker stores both
//! values between two items, before the worker's word says that the next item has begun. A reader loads the word, then
//! both values, and then the word again. If the word still shows the same item, the values belong to that item. If the
//! word shows another item or no item, the reader gets no values.
//!
//! Threads write the word and the values with release, and readers load them with acquire. So the values that a reader
//! gets are not too old:
//!
//! * owner: stores the values of item 1; notes in its word that item 1 has begun;
//! * reader: sees item 1 in the word, then reads the values of item 1, or later ones.
//!
//! The values are not too new either, so a reader never mistakes the values of item 2 for those of item 1:
//!
//! * owner: notes in its word that item 1 has ended; stores the values of item 2;
//! * reader: reads the values of item 2, then the word, which does not show item 1 any more.

use std::ptr;

use crate::policy::item::ShardId;
use crate::policy::worker::WorkerState;
use crate::sys::sync::{AtomicPtr, AtomicU64, Ordering};

use super::worker::WorkerCell;

/// See the module. `T` describes a type of items.
#[derive(Debug)]
pub(crate) struct CurrentItemCell<T> {
    item_type: AtomicPtr<T>,
    shard: AtomicU64,
}

impl<T> CurrentItemCell<T> {
    pub(crate) fn new() -> Self {
        Self { item_type: AtomicPtr::new(ptr::null_mut()), shard: AtomicU64::new(0) }
    }

    /// Stores the type and the shard of the next item. The owner calls this between two items.
    #[inline]
    pub(crate) fn publish(&self, item_type: *const T, shard: ShardId) {
        self.item_type.store(item_type.cast_mut(), Ordering::Release);
        self.shard.store(shard.index() as u64, Ordering::Release);
    }

    /// Returns the type and the shard of the item that the worker had when its word was `seen`. Returns `None` if the
    /// worker had no item at that time, or no longer has that item.
    pub(crate) fn of(&self, word: &WorkerCell, seen: WorkerState) -> Option<(*const T, ShardId)> {
        let item_type = self.item_type.load(Ordering::Acquire).cast_const();
        let shard = ShardId::new(self.shard.load(Ordering::Acquire));
        let now = word.load();
        let same = now.phase().has_item() && now.sequence() == seen.sequence();
        (seen.phase().has_item() && same).then_some((item_type, shard))
    }

    /// Calls `find` with the shard number of the item that the worker had when its word was `seen`. `find` looks up the
    /// shard with that number, and keeps the shard's queue in memory. `find` then calls its second argument, which
    /// returns whether the worker still has the item.
    ///
    /// An item keeps its shard in memory. So while the worker has the item, no other shard has the same number. If
    /// `find` did not call its second argument, this could happen:
    ///
    /// * reader: reads the number of the shard;
    /// * worker: ends the item, which was the last item of its queue. The queue is freed, and a shard of another queue
    ///   gets the number;
    /// * reader: finds that other queue.
    pub(crate) fn with_shard<R>(
        &self,
        word: &WorkerCell,
        seen: WorkerState,
        find: impl FnOnce(ShardId, &dyn Fn() -> bool) -> Option<R>,
    ) -> Option<R> {
        let (_, shard) = self.of(word, seen)?;
        find(shard, &|| self.of(word, seen).is_some())
    }
}
