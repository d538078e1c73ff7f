//! Where the entries of a shard go that have a slot: to the pool that its route leads to, in order.
//!
//! The attributes of a queue change while it is used: see [`protocol::route`](crate::protocol::route) for how the order
//! is kept. Gates know nothing of that. So limits hold, and flushes and drains wait, as if nothing had changed; and what
//! waits for a slot at that moment goes to the new pool when it gets one.
//!
//! **Markers** are entries of an item of their own, which has no state: what there is to know lies in the route. They
//! count in no gate, and keep their queue in place by a pin. Whoever pops one, worker or rescuer, or gives it up, tells
//! the route.
//!
//! **Pools stay in memory as long as the queues that used them**: an issuer wakes a worker after its entry was pushed,
//! maybe run and counted off, and has nothing but a handle of the queue. A pool that nobody uses is closed all the same,
//! has no threads, and serves again if the same attributes come back; so what this costs is bounded by how many
//! different attributes a queue has had. Whoever pushes to one that was closed meanwhile finds the route turned, and opens
//! it until that entry has been popped.
#![allow(unsafe_code, reason = "markers are entries, and routes lead to pools by address")]

use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::route::Turned;

use super::class::Class;
use super::entry::{Entry, Header, ItemOperations};
use super::executor::PoolChoice;
use super::item_type::ItemType;
use super::pool::Pool;
use super::register::Pin;
use super::shard::Shard;
use super::worker::WorkerThread;

static MARKER: Header = Header::new(&ItemOperations { execute, abandon, item_type });

/// What is left to do about a route that was turned, once no lock is held.
#[must_use]
pub(super) struct Turn<'q> {
    /// It may have been opened.
    new: Option<Arc<Class>>,
    /// To be told of a marker.
    marked: Option<&'q Pool>,
    /// Used no longer. Dropped last.
    _left: Option<PoolChoice>,
}

impl Turn<'_> {
    pub(super) fn finish(self) {
        self.new.inspect(|class| class.attend());
        self.marked.inspect(|pool| pool.pushed());
    }
}

impl Shard {
    /// The pool that the route leads to.
    pub(crate) fn pool(&self) -> &Pool {
        // SAFETY: the queue, which keeps this shard, keeps all pools in memory that its routes have led to.
        unsafe { &*self.route.pool() }
    }

    /// The same while nothing is held back.
    #[inline]
    pub(super) fn open_pool(&self) -> Option<&Pool> {
        // SAFETY: as in `pool`.
        self.route.open().map(|pool| unsafe { &*pool })
    }

    /// Does the next entry go to this pool's worklist?
    #[inline]
    pub(super) fn leads_to(&self, pool: &Pool) -> bool {
        self.route.open().is_some_and(|open| std::ptr::eq(open, pool))
    }

    /// The same, open or not.
    #[inline]
    pub(super) fn is_led_to(&self, pool: &Pool) -> bool {
        std::ptr::eq(self.route.pool(), pool)
    }

    /// An entry was admitted, with a slot or not: it goes where it belongs. The caller keeps the queue in place.
    #[inline]
    pub(super) fn put(&self, entry: Entry, has_slot: bool) {
        if has_slot {
            self.submit(entry);
        } else {
            self.wait(entry);
        }
    }

    /// Starts an entry that has a slot. The caller keeps the queue in place.
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

    /// The caller has submitted an entry to this pool, or several.
    #[inline]
    pub(super) fn submitted(&self, pool: &Pool) {
        if self.route.has_left(pool) {
            self.came_late(pool);
        }
    }

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

    /// Starts an entry before all others. The caller keeps the queue in place.
    #[cold]
    pub(super) fn put_back(&self, entry: Entry) {
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

    /// An entry has come to the end of this pool after the route was turned away from there, which may be closed.
    #[cold]
    pub(super) fn came_late(&self, pool: &Pool) {
        let making = self.queue().making.lock();
        if !self.route.has_left(pool) {
            // It has come back, and is open; or another route has left it.
            return;
        }
        // Not among them: the caller knew this shard by a number that had another one before.
        let Some(used) = making.used.iter().find(|used| used.has(pool)) else { return };
        let choice = PoolChoice { pool: pool.shared(), user: Some(used.open()) };
        let class = choice.class();
        self.route.late(choice, || pool.push(self.marker()));
        drop(making);
        class.inspect(|class| class.attend());
        pool.pushed();
    }

    /// Turns the route, with the queue's `making` locked.
    pub(super) fn turn(&self, choice: PoolChoice) -> Turn<'_> {
        let former = self.pool();
        let new = choice.class();
        let pool = Arc::as_ptr(&choice.pool);
        let has_backlog = || self.gate().cell.load().in_flight() > 0 && former.has_entries();
        let mark = || former.push(self.marker());
        match self.route.turn(pool, choice, || former.departures.raise(), has_backlog, mark) {
            Turned::Clear(left) => Turn { new, marked: None, _left: Some(left) },
            Turned::Marked => Turn { new, marked: Some(former), _left: None },
        }
    }

    fn marker(&self) -> Entry {
        // Taken back by who pops the marker.
        std::mem::forget(self.queue().pin());
        // Bound: it stays behind what is. See `Pool::give`.
        Entry::new(NonNull::from(&MARKER), self, None, true)
    }

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

/// Starts an entry that was given a slot, on behalf of nobody who keeps its queue in place: once it is on a worklist it
/// may be executed, and its queue and their pool would be gone before the kick is done.
pub(crate) fn submit(entry: Entry) {
    pinned(entry, Shard::submit);
}

/// The same for an entry that comes before all others.
pub(super) fn put_back(entry: Entry) {
    pinned(entry, Shard::put_back);
}

fn pinned(entry: Entry, submit: impl FnOnce(&Shard, Entry)) {
    let pin = entry.shard().queue().pin();
    let shard: *const Shard = entry.shard();
    // SAFETY: the pin keeps the queue in place, and the queue its shards.
    submit(unsafe { &*shard }, entry);
    drop(pin);
}

/// Is it a marker, and no item?
pub(super) fn is_marker(entry: &Entry) -> bool {
    std::ptr::eq(entry.item().as_ptr(), &MARKER)
}

/// A marker was popped.
pub(super) fn meet(marker: Entry) {
    let shard = marker.shard();
    // SAFETY: the marker was made with this pin.
    let _pin = unsafe { Pin::remembered(shard.queue()) };
    shard.marker_popped();
}

/// # Safety
///
/// The entry is a marker.
unsafe fn execute(marker: Entry, _worker: &WorkerThread) {
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
