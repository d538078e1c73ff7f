//! The route of a shard. When an entry of the shard has a slot, the route leads the entry to a pool. The route keeps
//! these entries in order.
//!
//! The attributes of a queue may change while the queue is in use. [`protocol::route`](crate::protocol::route) explains
//! how the entries keep their order when the attributes change. A change of attributes does not involve the limiters,
//! so it affects neither the queue's limits nor the waits of flushes and drains. An item that waits for a slot during
//! the change goes to the new pool when it gets a slot.
//!
//! **Markers** lie in a pool that a route has left. A marker lies behind the entries that the route led to this pool.
//! All markers are entries of one static item. The static item has no state of its own, because the route keeps the
//! state. No limiter counts a marker, and each marker has a reference to its queue. When a thread pops a marker or
//! gives it up, the thread notifies the route.
//!
//! **Pools stay in memory as long as the queues that used them.** An issuer first pushes its entry, and then wakes a
//! worker of the pool. When the issuer wakes the worker, the entry may already be completed. At that moment, the
//! issuer's handle still keeps the queue in memory, so the queue must keep the pool in memory. Nevertheless, a pool
//! without users is closed and has no threads. The queue opens the pool again if the queue gets the same attributes
//! again. So the memory for a queue's pools is bounded by the number of different attributes that the queue has had. An
//! issuer that has pushed an entry to a closed pool sees after the push that the route has changed. The issuer then
//! opens the pool, and the pool stays open until the entry has been popped.
#![allow(unsafe_code, reason = "markers are entries, and routes store the addresses of pools")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::policy::fairness::FlowId;
use crate::protocol::route::Turned;
use crate::protocol::turns::FairShare;

use crate::engine::item::entry::{Abandoned, ByWorker, Entry, Header, ItemOperations, ItemType, Share};
use crate::engine::pool::class::{Class, PoolChoice};
use crate::engine::pool::worker_pool::Pool;

use super::register::QueueRef;
use super::shard::Shard;

static MARKER: Header = Header::new(&ItemOperations { execute, abandon, item_type });

/// The work that remains after a thread has turned a route. The thread does this work after it has released its locks.
#[must_use]
pub(crate) struct Turn<'q> {
    /// The class of the new pool, if the pool has one. The turn may have opened the class, so
    /// `finish_all` calls [`attend`](Class::attend).
    new: Option<Arc<Class>>,
    /// The pool to which a marker was pushed, if one was pushed. `finish_all` kicks the pool, so that a worker pops
    /// the marker.
    marked: Option<&'q Pool>,
    /// The former pool, if the route does not use it any more. This field is dropped last.
    _left: Option<PoolChoice>,
}

impl Turn<'_> {
    /// Does the work that remains after a change of attributes has turned the queue's routes. After a change of
    /// attributes, all routes of the queue lead to pools of one class.
    pub(crate) fn finish_all(turns: Vec<Self>) {
        let class = turns.iter().find_map(|turn| turn.new.as_ref());
        class.inspect(|class| class.attend());
        turns.iter().filter_map(|turn| turn.marked).for_each(Pool::pushed);
    }
}

impl Shard {
    /// Returns the pool that the route leads to.
    pub(crate) fn pool(&self) -> &Pool {
        // SAFETY: the queue of this shard keeps in memory all pools to which its routes have led.
        unsafe { &*self.route.pool() }
    }

    /// Returns the pool to whose worklist the route leads. Returns `None` while the route is plugged and holds entries
    /// back, and always if the queue has a weight.
    #[inline]
    pub(crate) fn open_pool(&self) -> Option<&Pool> {
        // SAFETY: the queue of this shard keeps in memory all pools to which its routes have led.
        self.route.open().map(|pool| unsafe { &*pool })
    }

    /// Returns the pool in which the entries of this weighted queue take turns with those of other queues. Also returns
    /// the queue's flow and share. Returns `None` while the route is plugged, and always if the queue has no weight.
    fn open_line(&self) -> Option<(&Pool, (FlowId, &Arc<FairShare>))> {
        let pool = self.route.open_for_turns()?;
        // SAFETY: the queue of this shard keeps in memory all pools to which its routes have led.
        Some((unsafe { &*pool }, self.queue().flow()?))
    }

    /// Returns whether the shard's next entry goes to this pool's worklist.
    #[inline]
    pub(crate) fn leads_to(&self, pool: &Pool) -> bool {
        self.route.open().is_some_and(|open| std::ptr::eq(open, pool))
    }

    /// Returns whether the shard's next entry goes to the queue's line in this pool.
    pub(crate) fn leads_to_line(&self, pool: &Pool) -> bool {
        self.route.open_for_turns().is_some_and(|open| std::ptr::eq(open, pool))
    }

    /// Returns whether the route leads to this pool, even if the route is plugged.
    #[inline]
    pub(crate) fn is_led_to(&self, pool: &Pool) -> bool {
        std::ptr::eq(self.route.pool(), pool)
    }

    /// Puts an admitted entry on the pool's worklist if the entry has a slot, and otherwise on the limiter's waiting
    /// list. The caller keeps the queue in memory.
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
                pool.submit(entry, self.cpu);
                self.submitted(pool);
            }
            None => self.submit_otherwise(entry),
        }
    }

    /// Checks whether the route still leads to this pool. Before this call, the caller has pushed one or more entries
    /// to the pool's worklist, and has kicked the pool.
    #[inline]
    pub(crate) fn submitted(&self, pool: &Pool) {
        if self.route.has_left_worklist(pool) {
            self.came_late(pool);
        }
    }

    /// Does the same as [`submitted`](Self::submitted), but also serves a weighted queue, whose entries wait in the
    /// queue's line.
    fn submitted_or_lined_up(&self, pool: &Pool) {
        if self.route.has_left(pool) {
            self.came_late(pool);
        }
    }

    /// Starts an entry that does not go to an open worklist. An entry of a weighted queue goes into the queue's line. A
    /// plugged route holds the entry back. If another thread opens the plugged route before the route takes the entry,
    /// the entry goes to the worklist.
    #[cold]
    fn submit_otherwise(&self, entry: Entry) {
        let mut entry = entry;
        loop {
            if let Some((pool, of)) = self.open_line() {
                pool.submit_in_line(entry, of);
                return self.submitted_or_lined_up(pool);
            }
            match self.route.hold_back(entry) {
                Ok(()) => return,
                Err(again) => entry = again,
            }
            if let Some(pool) = self.open_pool() {
                pool.submit(entry, self.cpu);
                return self.submitted(pool);
            }
        }
    }

    /// Pushes an entry to the worklist of a pool, or to the queue's line in this pool.
    fn push_to(&self, pool: &Pool, entry: Entry) {
        match self.queue().flow() {
            None => pool.push(entry, self.cpu),
            Some(of) => pool.push_in_line(entry, of),
        }
    }

    /// Starts an entry ahead of all other entries of the pool. The caller keeps the queue in memory.
    #[cold]
    pub(crate) fn put_back(&self, entry: Entry) {
        let mut entry = entry;
        loop {
            if let Some(pool) = self.open_pool().or_else(|| self.open_line().map(|(pool, _)| pool)) {
                pool.put_back(entry);
                return self.submitted_or_lined_up(pool);
            }
            match self.route.hold_back_first(entry) {
                Ok(()) => return,
                Err(again) => entry = again,
            }
        }
    }

    /// Plugs the route with a marker if an entry was pushed to this pool after the route had left the pool. Opens the
    /// pool, and keeps it open until the marker is popped.
    #[cold]
    pub(crate) fn came_late(&self, pool: &Pool) {
        let making = self.queue().making.lock();
        if !self.route.has_left(pool) {
            // Either this shard's route has come back to the pool and is open again, or only another shard's route has
            // left the pool.
            return;
        }
        // The caller may have found this shard by a number that belonged to another shard before. In that case, this
        // queue may never have used the pool.
        let Some(used) = making.used.iter().find(|used| used.has(pool)) else { return };
        let choice = PoolChoice { pool: pool.shared(), user: Some(used.open()) };
        let class = choice.class();
        self.route.late(choice, || {
            pool.take_all_local();
            self.push_to(pool, self.marker());
        });
        drop(making);
        class.inspect(|class| class.attend());
        pool.pushed();
    }

    /// Turns the route to the chosen pool. The caller has locked the queue's `making`.
    pub(crate) fn turn(&self, choice: PoolChoice) -> Turn<'_> {
        let former = self.pool();
        let new = choice.class();
        let pool = Arc::as_ptr(&choice.pool);
        let has_backlog = || {
            // If nothing is in flight, no marker is pushed, and so no worker is woken. Therefore the *local* entries of
            // other queues, which lie on lists of single workers, stay where they are.
            if self.limiter().cell.load().in_flight() == 0 {
                return false;
            }
            // The marker must lie behind the local entries, too, so these are moved to the worklist first. If an issuer
            // makes another local entry later, it sees the turn, and calls `came_late`.
            former.take_all_local();
            former.has_entries()
        };
        let mark = || self.push_to(former, self.marker());
        match self.route.turn(pool, choice, || former.route_epoch.advance(), has_backlog, mark) {
            Turned::Clear(left) => Turn { new, marked: None, _left: Some(left) },
            Turned::Marked => Turn { new, marked: Some(former), _left: None },
        }
    }

    fn marker(&self) -> Entry {
        // The thread that pops the marker drops this reference.
        std::mem::forget(self.queue().reference());
        // The marker counts as *bound* to its pool, so that it stays behind other bound entries: see `Pool::give`.
        Entry::marker_at(self, NonNull::from(&MARKER))
    }

    /// Tells the route that a marker was popped, and pushes the entries that the route releases.
    fn marker_popped(&self) {
        let mut released = None;
        let left = self.route.marker_popped(|pool, entry| {
            // SAFETY: the queue of this shard keeps in memory all pools to which its routes have led.
            let pool = unsafe { &*pool };
            self.push_to(pool, entry);
            let (_, entries) = released.get_or_insert((pool, 0));
            *entries += 1;
        });
        released.inspect(|(pool, entries)| pool.pushed_many(*entries));
        drop(left);
    }
}

/// Starts an entry that was given a slot. A reference keeps the entry's queue in memory during the call. A worker can
/// execute the entry as soon as the entry is on a worklist. So without the reference, the queue and its pool could be
/// freed before the pool is kicked.
pub(crate) fn submit(entry: Entry) {
    with_reference(entry, Shard::submit);
}

/// Starts an entry ahead of all other entries of its pool. A reference keeps the entry's queue in memory during the
/// call.
pub(crate) fn put_back(entry: Entry) {
    with_reference(entry, Shard::put_back);
}

fn with_reference(entry: Entry, submit: impl FnOnce(&Shard, Entry)) {
    let reference = entry.shard().queue().reference();
    let shard: *const Shard = entry.shard();
    // SAFETY: the reference keeps the queue in memory, and the queue keeps its shards in memory.
    submit(unsafe { &*shard }, entry);
    drop(reference);
}

/// Handles a marker that was popped or given up.
pub(crate) fn meet(marker: Entry) {
    let shard = marker.shard();
    // SAFETY: `Shard::marker` took this reference and forgot it when it made the marker.
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
/// There is no requirement, because this function does nothing.
unsafe fn abandon(_item: NonNull<Header>, _share: Share<'_>) -> Abandoned {
    Abandoned::Cancelled { late: false }
}

/// # Safety
///
/// There is no requirement, because a marker has no type.
unsafe fn item_type(_item: NonNull<Header>) -> &'static ItemType {
    ItemType::MARKER
}
