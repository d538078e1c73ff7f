//! A queue's part for one CPU (the kernel's pool_workqueue): the limiter through which the items pass, and the route to
//! their pool.
#![allow(unsafe_code, reason = "a shard points at its queue, which owns it")]

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use crate::policy::admission::Admission;
use crate::policy::effective_state::EffectiveState;
use crate::policy::fairness::FlowId;
use crate::policy::flush::Ticket;
use crate::policy::item::{ItemState, ShardId, Target};
use crate::policy::worker::WorkerState;
use crate::protocol::limiter::LimiterCell;
use crate::protocol::route::RouteCell;
use crate::protocol::turns::FairShare;
use crate::sys::sync::Mutex;

use crate::engine::item::entry::{Entry, Header};
use crate::engine::item::entry_list::EntryList;
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
    /// The waiting list. The list is created only when the first item has to wait, because even an empty list takes as
    /// much memory as the rest of a queue.
    waiting: OnceLock<EntryList>, // A
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard {
    id: OwnedId, // I
    /// The operating system's number of the CPU for which the shard was made. The shard's entries go to the part of a
    /// pool's worklist that belongs to this CPU.
    pub(crate) cpu: usize, // I
    /// The route of the shard's items to a pool. The pools to which the route has led stay in memory as long as the
    /// queue.
    pub(crate) route: RouteCell<Pool, Entry, PoolChoice>, // A, R
    /// If the shard's pool is a *bh context*, which runs one item at a time, this is the lane that all shards of the
    /// pool share (see `lane`). Otherwise, the pointer is null.
    context: *const Limiter, // I
    /// The shard's own limiter. `None` if the queue is limited as a whole and has one limiter for all of its shards.
    own_limiter: Option<Limiter>, // I
    /// Whether the items are CPU intensive and the pool is managed. In that case, a worker does not count as running
    /// while it executes an item of this shard.
    pub(crate) cpu_intensive: bool, // I
    /// The account in which workers count their work for the shard.
    pub(crate) account: Arc<Account>, // K
    pub(super) queue: NonNull<Queue>, // I
    pub(crate) timing: Timing, // A
    pub(crate) events: Events, // A
}

// SAFETY: the queue, which threads share, outlives its shards. The context is an address that is only compared.
unsafe impl Send for Shard {}
// SAFETY: the queue, which threads share, outlives its shards. All other fields are `Sync`.
unsafe impl Sync for Shard {}

impl Limiter {
    /// Makes a limiter for a queue with this effective state.
    pub(crate) fn new(effective_state: EffectiveState) -> Self {
        let word = Admission::new(effective_state.max()).with_intake(effective_state.intake());
        Self { cell: CachePadded::new(LimiterCell::new(word)), waiting: OnceLock::new() }
    }

    /// Puts an entry on the waiting list. The entry was admitted without a slot. Afterwards the caller counts the entry
    /// as listed, with [`LimiterCell::list`], [`LimiterCell::list_held`] or [`list_many`](Self::list_many).
    pub(crate) fn push_waiting(&self, entry: Entry) {
        self.waiting.get_or_init(EntryList::new).push(entry);
    }

    /// Takes the first entry off the waiting list. The entry has just been given a slot.
    pub(crate) fn first_waiting(&self) -> Entry {
        let first = self.waiting.get().and_then(EntryList::take);
        first.expect("a slot was given to a listed item, but the list is empty")
    }
}

impl Entry {
    #[inline]
    pub(crate) fn new(item: NonNull<Header>, shard: &Shard, ticket: Option<Ticket>, bound: bool) -> Self {
        Self::at(shard, item, ticket, bound)
    }

    #[inline]
    pub(crate) fn shard(&self) -> &Shard {
        // SAFETY: `new` above and `Shard::marker` make entries for shards. This entry is in flight in the shard's
        // limiter, or is a marker with a reference. A queue frees its shards after all such entries are gone. So the
        // shard outlives the entry, and the result borrows from the entry.
        unsafe { &*self.shard_address().cast() }
    }
}

impl Shard {
    pub(crate) fn new(
        queue: NonNull<Queue>,
        cpu: usize,
        choice: PoolChoice,
        own_limiter: Option<Limiter>,
        cpu_intensive: bool,
        timing: Timing,
    ) -> Self {
        let context = context_of(&choice.pool);
        let id = OwnedId::new(context);
        let account = Arc::new(Account::new());
        let pool = Arc::as_ptr(&choice.pool);
        // SAFETY: the queue, which makes its shards, outlives them.
        let is_weighted = unsafe { queue.as_ref() }.flow().is_some();
        let route =
            if is_weighted { RouteCell::with_turns(pool, choice) } else { RouteCell::new(pool, choice) };
        Self {
            id,
            cpu,
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

    /// Finds the target for the submission of an item that is in this state. Calls `queue` with the target, and returns
    /// the result of `queue`.
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

    /// Returns the target for an item that has no entry on a list, or that must not use its former entry again.
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

    /// Returns the *lane* of the shard's items. The lane is the shard's bh context, if the shard has one, and otherwise
    /// its limiter. Items of several queues share a bh context. While one item holds all slots of a limiter, or runs in
    /// a bh context, no other item of that lane can run. The result is an address that is only compared, and never
    /// dereferenced.
    #[inline]
    pub(crate) fn lane(&self) -> *const Limiter {
        if self.is_in_context() { self.context } else { self.limiter() }
    }

    /// Returns whether the shard's items run in a bh context.
    pub(crate) fn is_in_context(&self) -> bool {
        !self.context.is_null()
    }

    /// Returns whether items of the shard wait for this bh context or run in it.
    pub(crate) fn needs_context(&self, context: *const Limiter) -> bool {
        let in_context = self.is_in_context() && std::ptr::eq(context, self.context);
        in_context && self.limiter().cell.load().in_flight() > 0
    }

    pub(crate) fn own_limiter(&self) -> Option<&Limiter> {
        self.own_limiter.as_ref()
    }
}

impl Queue {
    /// Returns the flow number and the share with which the queue's entries take turns with the entries of other
    /// queues. Returns `None` if the queue has no weight.
    pub(crate) fn flow(&self) -> Option<(FlowId, &Arc<FairShare>)> {
        Some((FlowId::of_queue(self.id), self.spec.share.as_ref()?))
    }

    /// Returns the lane of the queue's shard with this number, if there is such a shard.
    pub(crate) fn lane_of(&self, id: ShardId) -> Option<*const Limiter> {
        self.shards().find(|shard| shard.id() == id).map(Shard::lane)
    }

    /// Returns whether items of the queue wait for this bh context or run in it.
    pub(crate) fn needs_context(&self, context: *const Limiter) -> bool {
        self.shards().any(|shard| shard.needs_context(context))
    }
}

/// Returns the lane of all shards of this pool if the pool is a bh context, and null otherwise.
fn context_of(pool: &Arc<Pool>) -> *const Limiter {
    if pool.spec.is_bh() { Arc::as_ptr(pool).cast() } else { std::ptr::null() }
}

/// Returns whether an item is queued on this bh context. `home` returns the number of the shard on whose lists the item
/// has an entry, if there is such a shard. No shard is made or freed during the call.
pub(crate) fn is_in_context(home: impl FnOnce() -> Option<ShardId>, context: *const Limiter) -> bool {
    let ids = IDS.lock();
    let known = home().and_then(|home| ids.shards.get(home.index()));
    known.is_some_and(|known| known.context == Some(context.addr()))
}

/// A shard's number, which becomes free for other shards when the shard is freed. At that time nothing is in flight in
/// the shard, so no item has an entry of this shard.
#[derive(Debug)]
struct OwnedId(ShardId);

#[derive(Debug)]
struct Ids {
    /// The free numbers below the length of the table. The lowest free number is reused first, so the table shrinks
    /// when few shards remain.
    free: BTreeSet<ShardId>,
    /// The table of shards, indexed by number.
    shards: Vec<Known>,
}

/// The bh context and the shard that belong to one number in the table.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The address of the shard's bh context, if the shard has one.
    context: Option<usize>,
    /// The shard itself, while it is in its queue's table.
    shard: Option<NonNull<Shard>>,
}

// SAFETY: a `Known` points at a shard, which threads share.
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

    /// Makes a number free again, in amortised O(log n) time for n numbers.
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

/// Lets other threads find the shard by its number, until [`leaves`] is called.
pub(crate) fn enters(shard: NonNull<Shard>, id: ShardId) {
    IDS.lock().shards[id.index()].shard = Some(shard);
}

/// Forgets a shard that is about to be freed. From now on, no thread finds the shard by its number.
pub(crate) fn leaves(id: ShardId) {
    IDS.lock().shards[id.index()].shard = None;
}

/// Calls `act` with the shard that has this number now, if there is one. A reference keeps the shard in memory during
/// the call.
#[cold]
pub(crate) fn with_shard(id: ShardId, act: impl FnOnce(&Shard)) {
    let ids = IDS.lock();
    let Some(shard) = ids.shards.get(id.index()).and_then(|known| known.shard) else { return };
    // SAFETY: this thread holds the lock. `leaves` takes this lock before the shard and its queue are freed.
    let shard = unsafe { shard.as_ref() };
    // A queue that is about to be freed has no reference left.
    let Some(_reference) = shard.queue().try_reference() else { return };
    drop(ids);
    act(shard);
}

impl Worker {
    /// Finds the item that the worker had when the worker's word had the value `seen`, and returns the name of the
    /// item's queue. Takes locks briefly.
    pub(crate) fn queue_name(&self, seen: WorkerState) -> Option<String> {
        self.with_queue(seen, |queue| queue.name().to_owned())
    }

    /// Finds the item that the worker had when the worker's word had the value `seen`, and calls `look` with the item's
    /// queue. The queue is kept alive during the call. Takes locks briefly.
    pub(crate) fn with_queue<R>(&self, seen: WorkerState, look: impl FnOnce(&Queue) -> R) -> Option<R> {
        self.with_shard(seen, |shard| look(shard.queue()))
    }

    /// Finds the item that the worker had when the worker's word had the value `seen`, and calls `act` with the item's
    /// shard. The shard and its queue are kept alive during the call.
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

    /// spec: O1.11 (memory comes back): the numbers of freed shards become free again, and the table of shards gives
    /// its memory back.
    #[test]
    fn the_table_of_numbers_becomes_short_again() {
        const SHARDS: u64 = 10_000;
        let mut ids = Ids { free: BTreeSet::new(), shards: Vec::new() };
        let take = |ids: &mut Ids| ids.take(Known { context: None, shard: None });
        for number in 0..SHARDS {
            assert_eq!(take(&mut ids), ShardId::new(number));
        }
        // One number in the middle stays in use.
        let stays = ShardId::new(SHARDS / 2);
        (0..SHARDS).map(ShardId::new).filter(|id| *id != stays).for_each(|id| ids.give_back(id));
        assert_eq!((ids.shards.len(), ids.free.len()), (stays.index() + 1, stays.index()));
        assert_eq!(take(&mut ids), ShardId::new(0));
        [stays, ShardId::new(0)].into_iter().for_each(|id| ids.give_back(id));
        assert!(ids.shards.is_empty() && ids.free.is_empty());
        assert!(ids.shards.capacity() < 100, "{}", ids.shards.capacity());
    }
}
