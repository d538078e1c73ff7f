//! A queue's part on one CPU (the kernel's pool_workqueue): the limiter through which its items pass, and the route to
//! their pool.
#![allow(unsafe_code, reason = "a shard points at its queue, which owns it")]

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crossbeam_deque::Injector;
use crossbeam_utils::CachePadded;

use crate::policy::admission::Admission;
use crate::policy::effective_state::EffectiveState;
use crate::policy::flush::Ticket;
use crate::policy::item::{ItemState, ShardId, Target};
use crate::policy::worker::WorkerState;
use crate::protocol::limiter::LimiterCell;
use crate::protocol::route::RouteCell;
use crate::sys::sync::Mutex;

use crate::engine::item::entry::{Entry, Header, steal};
use crate::engine::item::latency::Timing;
use crate::engine::pool::class::PoolChoice;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::worker::counters::{Account, Events};
use crate::engine::worker::shared::Worker;

use super::workqueue::Queue;

/// The slots of a shard, or of a whole queue, and the items that wait for a slot.
#[derive(Debug)]
pub(crate) struct Limiter {
    pub(crate) cell: CachePadded<LimiterCell>, // A
    /// Made when the first item has to wait, since an empty list takes as much memory as the rest of a queue.
    waiting: OnceLock<Injector<Entry>>, // A
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard {
    id: OwnedId, // I
    /// Leads its items to a pool. The pools stay in memory as long as the queue.
    pub(crate) route: RouteCell<Pool, Entry, PoolChoice>, // A, R
    /// If its pool is a bh context: the lane of all shards of that pool. Null otherwise.
    context: *const Limiter, // I
    /// `None` if the queue has one limiter for all its shards, because it is limited as a whole.
    own_limiter: Option<Limiter>, // I
    /// Whether a worker stops counting as running when it starts an item: the items are CPU intensive, in a managed
    /// pool.
    pub(crate) cpu_intensive: bool, // I
    /// The account in which workers count what they do for it.
    pub(crate) account: Arc<Account>, // K
    pub(super) queue: NonNull<Queue>, // I
    pub(crate) timing: Timing, // A
    pub(crate) events: Events, // A
}

// SAFETY: the queue, which threads share, outlives its shards; the context is an address to compare with.
unsafe impl Send for Shard {}
// SAFETY: as above; all other fields are `Sync`.
unsafe impl Sync for Shard {}

impl Limiter {
    /// Makes a limiter for a queue with this effective state.
    pub(crate) fn new(effective_state: EffectiveState) -> Self {
        let word = Admission::new(effective_state.max()).with_intake(effective_state.intake());
        Self { cell: CachePadded::new(LimiterCell::new(word)), waiting: OnceLock::new() }
    }

    /// Puts an entry that was admitted to wait onto the list. The caller counts it afterwards, by [`LimiterCell::list`]
    /// or [`list_many`](Self::list_many).
    pub(crate) fn push_waiting(&self, entry: Entry) {
        self.waiting.get_or_init(Injector::new).push(entry);
    }

    /// Takes the first entry of the list, which was given a slot.
    pub(crate) fn first_waiting(&self) -> Entry {
        let first = self.waiting.get().and_then(steal);
        first.expect("a slot was given to a listed item, and the list is empty")
    }
}

impl Entry {
    #[inline]
    pub(crate) fn new(item: NonNull<Header>, shard: &Shard, ticket: Option<Ticket>, bound: bool) -> Self {
        Self::at(shard, item, ticket, bound)
    }

    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        // SAFETY: entries are made for shards: by `new` above, and by `Shard::marker`. This entry is in flight in the
        // shard's limiter, or is a marker with a reference. A queue frees its shards only when nothing is in flight in
        // its limiters and it has no reference. So the shard outlives the entry, and with it what is borrowed here.
        unsafe { &*self.shard_address().cast() }
    }
}

impl Shard {
    pub(crate) fn new(
        queue: NonNull<Queue>,
        choice: PoolChoice,
        own_limiter: Option<Limiter>,
        cpu_intensive: bool,
        timing: Timing,
    ) -> Self {
        let context = context_of(&choice.pool);
        let id = OwnedId::new(context);
        let account = Arc::new(Account::new());
        let route = RouteCell::new(Arc::as_ptr(&choice.pool), choice);
        Self {
            id,
            route,
            context,
            own_limiter,
            cpu_intensive,
            account,
            queue,
            timing,
            events: Events::default(),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> ShardId {
        self.id.0
    }

    /// Calls `queue` with the target for an item in this state.
    pub(crate) fn with_target<R>(&self, item: ItemState, queue: impl FnOnce(Target) -> R) -> R {
        if item.has_entry() { self.with_former_place(queue) } else { queue(self.new_place()) }
    }

    #[cold]
    fn with_former_place<R>(&self, queue: impl FnOnce(Target) -> R) -> R {
        let target = self.new_place();
        match target.ordered {
            true => queue(target),
            false => self.queue().flush.with_awaited(|awaited| queue(Target { revives: !awaited, ..target })),
        }
    }

    /// The target for an item that has no entry on a list, or is not to use it again.
    #[inline]
    pub(crate) fn new_place(&self) -> Target {
        Target { shard: self.id.0, ordered: self.queue().spec.ordered, revives: false }
    }

    #[inline]
    pub(crate) fn queue(&self) -> &Queue {
        // SAFETY: a queue owns its shards and is freed after them.
        unsafe { self.queue.as_ref() }
    }

    #[inline]
    pub(crate) fn limiter(&self) -> &Limiter {
        match &self.own_limiter {
            Some(limiter) => limiter,
            None => self
                .queue()
                .shared_limiter()
                .expect("a shard without a limiter belongs to a queue that has one"),
        }
    }

    /// The *lane* of its items: its limiter, or its bh context, which items of several queues share. While an item has
    /// a lane for itself, no other item of the lane can run. An address to compare with, not to follow.
    #[inline]
    pub(crate) fn lane(&self) -> *const Limiter {
        if self.context.is_null() { self.limiter() } else { self.context }
    }

    /// Returns whether it has items that wait for this bh context, or run there.
    pub(crate) fn needs_context(&self, context: *const Limiter) -> bool {
        let in_context = !self.context.is_null() && std::ptr::eq(context, self.context);
        in_context && self.limiter().cell.load().in_flight() > 0
    }

    pub(crate) fn own_limiter(&self) -> Option<&Limiter> {
        self.own_limiter.as_ref()
    }
}

/// Returns the lane of all shards of this pool if it is a bh context, and null otherwise.
fn context_of(pool: &Arc<Pool>) -> *const Limiter {
    if pool.spec.is_bh() { Arc::as_ptr(pool).cast() } else { std::ptr::null() }
}

/// Returns whether an item is queued on this bh context. `home` returns the shard on whose lists the item has an
/// entry, if it has one. No shard is made or freed while it looks.
pub(crate) fn is_in_context(home: impl FnOnce() -> Option<ShardId>, context: *const Limiter) -> bool {
    let ids = IDS.lock();
    let known = home().and_then(|home| ids.shards.get(home.index()));
    known.is_some_and(|known| known.context == Some(context.addr()))
}

/// A shard's number. When the shard is freed, the number becomes free: nothing is in flight in the shard by then, so
/// no item has an entry there.
#[derive(Debug)]
struct OwnedId(ShardId);

#[derive(Debug)]
struct Ids {
    /// Numbers below the length of the table that are free. The lowest is used again first, so the table becomes
    /// short when there are few shards.
    free: BTreeSet<ShardId>,
    /// Indexed by number.
    shards: Vec<Known>,
}

/// What a shard's number leads to.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The address of its bh context, if it is on one.
    context: Option<usize>,
    /// The shard itself, while it is in its queue's table.
    shard: Option<NonNull<Shard>>,
}

// SAFETY: it points at a shard, which threads share.
unsafe impl Send for Known {}

static IDS: Mutex<Ids> = Mutex::new(Ids { free: BTreeSet::new(), shards: Vec::new() });

impl Ids {
    fn take(&mut self, known: Known) -> ShardId {
        if let Some(id) = self.free.pop_first() {
            self.shards[id.index()] = known;
            return id;
        }
        self.shards.push(known);
        ShardId::new(self.shards.len() as u64 - 1)
    }

    /// Amortised O(log n) for n numbers.
    fn give_back(&mut self, id: ShardId) {
        self.free.insert(id);
        while self.free.last().is_some_and(|last| last.index() + 1 == self.shards.len()) {
            self.free.pop_last();
            self.shards.pop();
        }
        if self.shards.len() < self.shards.capacity() / 4 {
            self.shards.shrink_to(2 * self.shards.len());
        }
    }
}

impl OwnedId {
    fn new(context: *const Limiter) -> Self {
        let context = (!context.is_null()).then(|| context.addr());
        Self(IDS.lock().take(Known { context, shard: None }))
    }
}

impl Drop for OwnedId {
    fn drop(&mut self) {
        IDS.lock().give_back(self.0);
    }
}

/// Makes the shard known by its number, until [`leaves`].
pub(crate) fn enters(shard: NonNull<Shard>, id: ShardId) {
    IDS.lock().shards[id.index()].shard = Some(shard);
}

/// Forgets a shard that is about to be freed.
pub(crate) fn leaves(id: ShardId) {
    IDS.lock().shards[id.index()].shard = None;
}

/// Calls `act` with the shard that has this number now, if there is one. A reference keeps the shard in memory
/// meanwhile.
#[cold]
pub(crate) fn with_shard(id: ShardId, act: impl FnOnce(&Shard)) {
    let ids = IDS.lock();
    let Some(shard) = ids.shards.get(id.index()).and_then(|known| known.shard) else { return };
    // SAFETY: a shard leaves under the lock, which is held, before it and its queue are freed.
    let shard = unsafe { shard.as_ref() };
    // There is no reference if the queue is about to be freed.
    let Some(_reference) = shard.queue().try_reference() else { return };
    drop(ids);
    act(shard);
}

impl Worker {
    /// Returns the name of the queue of the item that the worker had when its word was `seen`. Takes locks for a moment.
    pub(crate) fn queue_name(&self, seen: WorkerState) -> Option<String> {
        self.with_queue(seen, |queue| queue.name().to_owned())
    }

    /// Calls `look` with that item's queue, which is kept alive meanwhile. Takes locks for a moment.
    pub(crate) fn with_queue<R>(&self, seen: WorkerState, look: impl FnOnce(&Queue) -> R) -> Option<R> {
        self.with_shard(seen, |shard| look(shard.queue()))
    }

    /// Calls `act` with the shard of that item. The shard and its queue are kept alive meanwhile.
    pub(crate) fn with_shard<R>(&self, seen: WorkerState, act: impl FnOnce(&Shard) -> R) -> Option<R> {
        self.current_item.with_shard(&self.cell, seen, |number, is_the_same| {
            let mut result = None;
            with_shard(number, |shard| result = is_the_same().then(|| act(shard)));
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: O1.11 (memory comes back)
    #[test]
    fn the_table_of_numbers_becomes_short_again() {
        const SHARDS: u64 = 10_000;
        let mut ids = Ids { free: BTreeSet::new(), shards: Vec::new() };
        let take = |ids: &mut Ids| ids.take(Known { context: None, shard: None });
        for number in 0..SHARDS {
            assert_eq!(take(&mut ids), ShardId::new(number));
        }
        // One in the middle stays.
        let stays = ShardId::new(SHARDS / 2);
        (0..SHARDS).map(ShardId::new).filter(|id| *id != stays).for_each(|id| ids.give_back(id));
        assert_eq!((ids.shards.len(), ids.free.len()), (stays.index() + 1, stays.index()));
        assert_eq!(take(&mut ids), ShardId::new(0));
        [stays, ShardId::new(0)].into_iter().for_each(|id| ids.give_back(id));
        assert!(ids.shards.is_empty() && ids.free.is_empty());
        assert!(ids.shards.capacity() < 100, "{}", ids.shards.capacity());
    }
}
