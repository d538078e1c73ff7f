//! What a worker works on, for readers on other threads: the type of its item, and the number of the item's shard.
//!
//! There is no lock and no read-modify-write. The owner stores both between two items, before its word says that the
//! next item has begun. A reader loads the word, then both values, and then the word again. If the word still shows
//! the same item, the values are that item's; otherwise the reader finds nothing.
//!
//! The stores of the word and of the values release, and the loads acquire:
//!
//! * owner: stores the values of item 1; its word says that item 1 has begun;
//! * reader: sees item 1 in the word, then reads the values of item 1, or later ones.
//!
//! The other direction. Without it the reader would take the values of item 2 for those of item 1:
//!
//! * owner: its word says that item 1 has ended; it stores the values of item 2;
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

    /// Stores what the next item is. Called by the owner, between two items.
    #[inline]
    pub(crate) fn publish(&self, item_type: *const T, shard: ShardId) {
        self.item_type.store(item_type.cast_mut(), Ordering::Release);
        self.shard.store(shard.index() as u64, Ordering::Release);
    }

    /// Returns what the worker worked on when its word was `seen`. Returns `None` if it had no item then, or has
    /// another one by now.
    pub(crate) fn of(&self, word: &WorkerCell, seen: WorkerState) -> Option<(*const T, ShardId)> {
        let item_type = self.item_type.load(Ordering::Acquire).cast_const();
        let shard = ShardId::new(self.shard.load(Ordering::Acquire));
        let now = word.load();
        let same = now.phase().has_item() && now.sequence() == seen.sequence();
        (seen.phase().has_item() && same).then_some((item_type, shard))
    }

    /// Calls `find` with the number of the shard that the worker worked for when its word was `seen`. `find` looks up
    /// the queue with a shard of that number, keeps it in place, and then asks its second argument whether the worker
    /// still has the item.
    ///
    /// An item keeps its shard in place. So while the worker has the item, no other shard has the number. Without the
    /// second question this could happen:
    ///
    /// * reader: reads the number of the shard;
    /// * worker: ends the item, which was the last one of its queue. The queue is freed, and a shard of another queue
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
