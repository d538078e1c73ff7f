//! The route of a shard leads its entries, once they have a slot, to a pool, in order.
//!
//! The attributes of a queue may change while it is used: see [`protocol::route`](crate::protocol::route) for how the
//! order is kept. Limiters are not involved: limits hold, and flushes and drains wait, as if nothing had changed. An
//! item that waits for a slot at that moment goes to the new pool when it gets one.
//!
//! **Markers** are entries of one static item, which has no state: the route keeps the state. They count in no limiter,
//! and each has a reference to its queue. The thread that pops a marker or gives it up tells the route.
//!
//! **Pools stay in memory as long as the queues that used them.** An issuer wakes a worker after it has pushed its
//! entry. By then the entry may be completed, and the issuer has only a handle of the queue. A pool without users is
//! closed nevertheless, and has no threads; it is opened again if the same attributes come back. So the cost is
//! bounded by how many different attributes a queue has had. An issuer that pushes to a pool after it was closed sees
//! that the route has changed, and opens the pool until that entry has been popped.
#![allow(unsafe_code, reason = "markers are entries, and routes lead to pools by address")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::route::Turned;

use crate::engine::item::entry::{ByWorker, Entry, Header, ItemOperations, ItemType};
use crate::engine::pool::class::{Class, PoolChoice};
use crate::engine::pool::worker_pool::Pool;

use super::register::QueueRef;
use super::shard::Shard;

static MARKER: Header = Header::new(&ItemOperations { execute, abandon, item_type });

/// The rest of the work for a route that was turned, to be done when no lock is held.
#[must_use]
pub(crate) struct Turn<'q> {
    /// The class of the new pool, which may have been opened.
    new: Option<Arc<Class>>,
    /// The pool to which a marker was pushed, and which needs a kick.
    marked: Option<&'q Pool>,
    /// The former pool, if the route does not use it any more. Dropped last.
    _left: Option<PoolChoice>,
}

impl Turn<'_> {
    pub(crate) fn finish(self) {
        self.new.inspect(|class| class.attend());
        self.marked.inspect(|pool| pool.pushed());
    }
}

impl Shard {
    /// The pool that the route leads to.
    pub(crate) fn pool(&self) -> &Pool {
        // SAFETY: the queue of this shard keeps all pools in memory to which its routes have led.
        unsafe { &*self.route.pool() }
    }

    /// The pool that the route leads to; `None` while the route is plugged, and holds entries back.
    #[inline]
    pub(crate) fn open_pool(&self) -> Option<&Pool> {
        // SAFETY: as in `pool`.
        self.route.open().map(|pool| unsafe { &*pool })
    }

    /// Returns whether the next entry goes to this pool's worklist.
    #[inline]
    pub(crate) fn leads_to(&self, pool: &Pool) -> bool {
        self.route.open().is_some_and(|open| std::ptr::eq(open, pool))
    }

    /// Returns whether the route leads to this pool, plugged or not.
    #[inline]
    pub(crate) fn is_led_to(&self, pool: &Pool) -> bool {
        std::ptr::eq(self.route.pool(), pool)
    }

    /// Puts an admitted entry on the worklist if it has a slot, and else on the waiting list. The caller keeps the
    /// queue in memory.
    #[inline]
    pub(crate) fn put(&self, entry: Entry, has_slot: bool) {
        if has_slot {
            self.submit(entry);
        } else {
            self.wait(entry);
        }
    }

    /// Starts an entry that has a slot. The caller keeps the queue in memory.
    #[inline]
    pub(crate) fn submit(&self, entry: Entry) {
        match self.open_pool() {
            Some(pool) => {
                pool.submit(entry);
                self.submitted(pool);
            }
            None => self.hold_back(entry),
        }
    }

    /// Checks the route again. The caller has pushed one or more entries to this pool, and given the kick.
    #[inline]
    pub(crate) fn submitted(&self, pool: &Pool) {
        if self.route.has_left(pool) {
            self.came_late(pool);
        }
    }

    /// Leaves an entry with the route while that is plugged, and starts it if the route was opened meanwhile.
    #[cold]
    fn hold_back(&self, entry: Entry) {
        let mut opened = self.route.hold_back(entry);
        while let Err(entry) = opened {
            match self.open_pool() {
                Some(pool) => {
                    pool.submit(entry);
                    return self.submitted(pool);
                }
                None => opened = self.route.hold_back(entry),
            }
        }
    }

    /// Starts an entry before all others. The caller keeps the queue in memory.
    #[cold]
    pub(crate) fn put_back(&self, entry: Entry) {
        let mut entry = entry;
        loop {
            if let Some(pool) = self.open_pool() {
                pool.put_back(entry);
                return self.submitted(pool);
            }
            match self.route.hold_back_first(entry) {
                Ok(()) => return,
                Err(again) => entry = again,
            }
        }
    }

    /// Plugs the route by a marker if an entry was pushed to this pool after the route had left it. Opens the pool
    /// until the marker is popped.
    #[cold]
    pub(crate) fn came_late(&self, pool: &Pool) {
        let making = self.queue().making.lock();
        if !self.route.has_left(pool) {
            // The route has come back to the pool, and is open; or another shard's route has left the pool.
            return;
        }
        // There is none if the caller found this shard by a number that another shard had before.
        let Some(used) = making.used.iter().find(|used| used.has(pool)) else { return };
        let choice = PoolChoice { pool: pool.shared(), user: Some(used.open()) };
        let class = choice.class();
        self.route.late(choice, || pool.push(self.marker()));
        drop(making);
        class.inspect(|class| class.attend());
        pool.pushed();
    }

    /// Turns the route, with the queue's `making` locked.
    pub(crate) fn turn(&self, choice: PoolChoice) -> Turn<'_> {
        let former = self.pool();
        let new = choice.class();
        let pool = Arc::as_ptr(&choice.pool);
        let has_backlog = || self.limiter().cell.load().in_flight() > 0 && former.has_entries();
        let mark = || former.push(self.marker());
        match self.route.turn(pool, choice, || former.route_epoch.advance(), has_backlog, mark) {
            Turned::Clear(left) => Turn { new, marked: None, _left: Some(left) },
            Turned::Marked => Turn { new, marked: Some(former), _left: None },
        }
    }

    fn marker(&self) -> Entry {
        // The thread that pops the marker drops this reference.
        std::mem::forget(self.queue().reference());
        // Bound, so that it stays behind bound entries: see `Pool::give`.
        Entry::marker_at(self, NonNull::from(&MARKER))
    }

    /// Tells the route that a marker was popped, and pushes the entries that the route releases.
    fn marker_popped(&self) {
        let mut released = None;
        let left = self.route.marker_popped(|pool, entry| {
            // SAFETY: as in `pool`.
            let pool = unsafe { &*pool };
            pool.push(entry);
            let (_, entries) = released.get_or_insert((pool, 0));
            *entries += 1;
        });
        released.inspect(|(pool, entries)| pool.pushed_many(*entries));
        drop(left);
    }
}

/// Starts an entry that was given a slot. A reference keeps its queue in memory meanwhile: once the entry is on a
/// worklist it may be executed, and the queue and its pool could be gone before the kick.
pub(crate) fn submit(entry: Entry) {
    with_reference(entry, Shard::submit);
}

/// Starts an entry before all others. A reference keeps its queue in memory meanwhile.
pub(crate) fn put_back(entry: Entry) {
    with_reference(entry, Shard::put_back);
}

fn with_reference(entry: Entry, submit: impl FnOnce(&Shard, Entry)) {
    let reference = entry.shard().queue().reference();
    let shard: *const Shard = entry.shard();
    // SAFETY: the reference keeps the queue in memory, and the queue its shards.
    submit(unsafe { &*shard }, entry);
    drop(reference);
}

/// Handles a marker that was popped.
pub(crate) fn meet(marker: Entry) {
    let shard = marker.shard();
    // SAFETY: `Shard::marker` has forgotten this reference when it made the marker.
    let _reference = unsafe { QueueRef::remembered(shard.queue()) };
    shard.marker_popped();
}

/// # Safety
///
/// The entry is a marker.
unsafe fn execute(marker: Entry, _by: ByWorker<'_>) {
    meet(marker);
}

/// # Safety
///
/// None: this does nothing.
unsafe fn abandon(_item: NonNull<Header>, _entry: Option<&Entry>) -> bool {
    false
}

/// # Safety
///
/// None: a marker has no type.
unsafe fn item_type(_item: NonNull<Header>) -> &'static ItemType {
    ItemType::MARKER
}
