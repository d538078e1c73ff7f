//! What a worker works on, for whoever looks at it from outside: the type of its item, and the number of its shard.
//!
//! No lock and no read-modify-write: the owner stores both between two items, before its word says that the next one
//! has begun. Release and acquire, in both directions. An onlooker that has seen the word of an item sees what was stored
//! before that, or something newer; and if newer, it also sees that the word has gone on since, when it looks at that
//! again. So what is found belongs to the item whose word was seen, or nothing is found.

use std::ptr;

use crate::policy::item::ShardId;
use crate::policy::worker::WorkerState;
use crate::sys::sync::{AtomicPtr, AtomicU64, Ordering};

use super::worker::WorkerCell;

/// See the module. `T` describes a type of items.
#[derive(Debug)]
pub(crate) struct SubjectCell<T> {
    item_type: AtomicPtr<T>,
    shard: AtomicU64,
}

impl<T> SubjectCell<T> {
    pub(crate) fn new() -> Self {
        Self { item_type: AtomicPtr::new(ptr::null_mut()), shard: AtomicU64::new(0) }
    }

    /// By the owner, between two items.
    #[inline]
    pub(crate) fn publish(&self, item_type: *const T, shard: ShardId) {
        self.item_type.store(item_type.cast_mut(), Ordering::Release);
        self.shard.store(shard.index() as u64, Ordering::Release);
    }

    /// What the worker worked on when its word was `seen`. `None` if it had no item then, or has another one by now.
    pub(crate) fn of(&self, word: &WorkerCell, seen: WorkerState) -> Option<(*const T, ShardId)> {
        let item_type = self.item_type.load(Ordering::Acquire).cast_const();
        let shard = ShardId::new(self.shard.load(Ordering::Acquire));
        let now = word.load();
        let same = now.phase().has_item() && now.sequence() == seen.sequence();
        (seen.phase().has_item() && same).then_some((item_type, shard))
    }

    /// Calls `find` with the number of the shard that the worker worked for when its word was `seen`. `find` looks up what
    /// has that number, keeps it in place, and asks then whether that is the shard still.
    ///
    /// An item keeps its shard in place. So as long as the worker has the item, the number is no other shard's. Without the
    /// second question:
    ///
    /// * onlooker: reads the number. Worker: ends the item, which was the last one of its queue. The queue goes, and the number
    ///   becomes that of another queue's shard. Onlooker: finds that one.
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
