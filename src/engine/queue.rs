//! One workqueue: its shards, made when a CPU first uses it, and its end.
//!
//! A queue lives as long as it has a handle, an item in flight or a pin. The last handle closes every gate. A gate that is
//! empty then is finished; another one is finished by its last item. The thread that gives up the last hold (the handles', that
//! of a closed gate, a pin's, that of a flush's count) frees the queue. So neither queueing nor completing counts references
//! to it, except for items that come while a flush counts.
#![allow(unsafe_code, reason = "a queue is owned by its handle first, and then by its last item in flight")]

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use crate::policy::attrs::{Attrs, PoolAttrs};
use crate::policy::item::ShardId;
use crate::policy::standing::{Stage, Standing, Wishes};
use crate::protocol::drain::ChainedCount;
use crate::protocol::flush::FlushCell;
use crate::protocol::given_up::GivenUpCount;
use crate::protocol::holds::HoldCount;
use crate::sys::sync::{AtomicBool, AtomicPtr, AtomicUsize, Mutex, Ordering};

use super::class::{Division, KeptClass};
use super::context::Current;
use super::entry::Entry;
use super::executor::{ExecutorInner, PoolChoice};
use super::rescuer::{OwnedRescuer, Rescuer};
use super::shard::{self, Gate, Shard};
use super::timers::{Timer, TimerName};

/// What a queue was told by its builder.
#[derive(Debug)]
pub(crate) struct QueueSpec {
    pub(crate) name: Box<str>,
    /// If it has attributes: what they leave open.
    pub(crate) unbound: Option<Unbound>,
    pub(crate) is_bh: bool,
    pub(crate) limit: Limit,
    pub(crate) max_pending: Option<usize>,
    pub(crate) high_priority: bool,
    pub(crate) cpu_intensive: bool,
    /// Its items run in queueing order.
    pub(crate) ordered: bool,
    pub(crate) freezable: bool,
    /// It may be changed from outside of the process.
    pub(crate) control: bool,
    /// Ends with the queue.
    pub(crate) rescuer: Option<OwnedRescuer>,
}

/// What the attributes of an unbound queue leave open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unbound {
    pub(crate) managed: bool,
    /// Its nice level, unless the attributes name one.
    pub(crate) nice: i32,
}

/// Which pools a queue's items go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QueueKind {
    /// To the pool of the CPU that they were queued on.
    PerCpu { high: bool },
    /// To the bh context of that CPU.
    Bh { high: bool },
    /// To the pool of that CPU's pod.
    Unbound(PoolAttrs),
}

/// How many items may be active, until it is told otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    PerCpu(usize),
    Total(usize),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,
    pub(crate) executor: Arc<ExecutorInner>,
    pub(crate) flush: FlushCell<Entry>,
    pub(super) chained: ChainedCount,
    /// By the slot of the CPU; null until made. Whoever loads a shard uses it under a handle, and shards are freed with the
    /// queue.
    table: Box<[AtomicPtr<Shard>]>,
    pub(super) making: Mutex<Making>,
    shared_gate: Option<Gate>,
    /// Items that were accepted and not begun; counted only under `max_pending`.
    pending: AtomicUsize,
    /// Items that were given up when the executor was shut down.
    pub(super) given_up: GivenUpCount,
    /// Are its items timed? Changed while `making` is locked.
    pub(super) times_items: AtomicBool,
    /// What keeps it in place: the handles together, pins, a flush's count, an item with a ticket while it leaves, and, when the
    /// last handle goes, gates that have not finished.
    holds: HoldCount,
    /// In the executor's register; 0 if it came too late to enter.
    pub(super) number: u64,
    /// Itself, as it came from its box: who frees it, frees it by this pointer.
    this: NonNull<Self>,
    /// What its handles share, as long as there is one.
    handle: OnceLock<Weak<QueueHandle>>,
}

/// The shards, owned, and what was asked of the queue. Locked while a shard is made, while gates are told something, and
/// while routes are turned: so every gate is told, and every route turned.
#[derive(Debug)]
pub(super) struct Making {
    shards: Vec<NonNull<Shard>>,
    /// Which pools its items go to from now on.
    pub(super) kind: QueueKind,
    /// How its attributes divide the CPUs, as far as that was asked.
    pub(super) division: Option<Division>,
    /// The classes of pools that its routes have led to, each once.
    pub(super) used: Vec<KeptClass>,
    /// What the queue's user asked for.
    pub(super) attrs: Attrs,
    pub(super) wishes: Wishes,
    /// Timers that fired while the queue was drained.
    pub(super) held: Vec<(TimerName, Timer)>,
    /// Timers that came to nothing because the queue or its executor ends, or because the queue could count no more items, and
    /// that neither `destroy` nor the report of a shutdown has told of.
    pub(super) cancelled_timers: usize,
}

impl Making {
    fn new(wishes: Wishes, kind: QueueKind, attrs: Attrs) -> Self {
        Self {
            shards: Vec::new(),
            kind,
            division: None,
            used: Vec::new(),
            attrs,
            wishes,
            held: Vec::new(),
            cancelled_timers: 0,
        }
    }

    /// The pool for the shard of this slot, which stays in memory from now on.
    pub(super) fn choose(&mut self, executor: &ExecutorInner, slot: usize) -> PoolChoice {
        let choice = executor.pool_for(&self.kind, slot, &mut self.division);
        if let Some(user) = &choice.user {
            if !self.used.iter().any(|used| used.is(user.class())) {
                self.used.push(user.class().keep());
            }
        }
        choice
    }
}

/// The strong side of a queue: its handles share one of these.
#[derive(Debug)]
pub(crate) struct QueueHandle(NonNull<Queue>);

// SAFETY: leads to a `Queue`, all of whose fields are shared by threads already.
unsafe impl Send for QueueHandle {}
// SAFETY: as above.
unsafe impl Sync for QueueHandle {}
// SAFETY: the owned shards are `Send` and `Sync`; the pointers only lead to them.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl QueueHandle {
    /// Also: is the executor open? One that is, or was, shut down makes queues for its own items only.
    pub(crate) fn new(
        spec: QueueSpec,
        (kind, attrs): (QueueKind, Attrs),
        times_items: bool,
        executor: Arc<ExecutorInner>,
    ) -> (Arc<Self>, bool) {
        let slots = executor.placement.slots();
        let (Limit::PerCpu(max_active) | Limit::Total(max_active)) = spec.limit;
        let wishes = Wishes::new(max_active);
        let standing = Standing { wishes, frozen: false, stage: Stage::Open };
        let shared_gate = matches!(spec.limit, Limit::Total(_)).then(|| Gate::new(standing));
        let queue = Queue {
            spec,
            executor,
            flush: FlushCell::new(),
            chained: ChainedCount::new(),
            table: (0..slots).map(|_| AtomicPtr::default()).collect(),
            making: Mutex::new(Making::new(wishes, kind, attrs)),
            shared_gate,
            pending: AtomicUsize::new(0),
            given_up: GivenUpCount::new(),
            times_items: AtomicBool::new(times_items),
            holds: HoldCount::new(),
            number: 0,
            this: NonNull::dangling(),
            handle: OnceLock::new(),
        };
        let this = NonNull::from(Box::leak(Box::new(queue)));
        // SAFETY: nobody else knows the queue yet.
        let queue = unsafe { &mut *this.as_ptr() };
        queue.this = this;
        // In a forked process, the register's lock may be held by nobody who is here.
        let in_time = !queue.executor.origin.is_forked() && {
            let Queue { executor, number, .. } = queue;
            executor.queues.enter(this, |entered| *number = entered)
        };
        let handle = Arc::new(Self(this));
        // Nobody has set it before, and nobody asks for it before there is an item.
        let _set = handle.queue().handle.set(Arc::downgrade(&handle));
        if !handle.queue().executor.origin.is_forked() {
            // Only now: who changes the executor from here on finds the queue in the register.
            handle.queue().change(|_| ());
            handle.queue().resolve_again();
        }
        (handle, in_time)
    }

    #[inline]
    pub(crate) fn queue(&self) -> &Queue {
        // SAFETY: the queue is freed only after `drop` below closed its gates.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        if self.queue().executor.origin.is_forked() {
            // What is in flight stays so for ever in this process, and the queue with it.
            return;
        }
        let queue = self.0;
        let gates: Vec<NonNull<Gate>> = self.queue().gates().map(NonNull::from).collect();
        // Beside the handles' own hold, which is given up last: the queue stays while its gates are closed.
        self.queue().holds.add(gates.len());
        for gate in gates {
            // SAFETY: the queue still waits for this gate and for one more.
            if unsafe { gate.as_ref() }.cell.close() {
                // SAFETY: the gate is closed, and nothing was in flight in it.
                unsafe { Queue::let_go(queue) };
            }
        }
        // SAFETY: the hold of the handles, of which this was the last.
        unsafe { Queue::let_go(queue) };
    }
}

impl Queue {
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(crate) fn rescuer(&self) -> Option<&Arc<Rescuer>> {
        self.spec.rescuer.as_ref().map(OwnedRescuer::shared)
    }

    /// A handle like those that there are; `None` if the last one is gone.
    pub(crate) fn handle(&self) -> Option<Arc<QueueHandle>> {
        self.handle.get()?.upgrade()
    }

    pub(crate) fn shared_gate(&self) -> Option<&Gate> {
        self.shared_gate.as_ref()
    }

    /// The shard for items queued on the CPU of this slot.
    #[inline]
    pub(crate) fn shard(&self, slot: usize) -> &Shard {
        self.present_shard(slot).unwrap_or_else(|| self.make_shard(slot))
    }

    /// The same if it has been made.
    #[inline]
    pub(crate) fn present_shard(&self, slot: usize) -> Option<&Shard> {
        let shard = self.table[slot].load(Ordering::Acquire);
        // SAFETY: a shard that is in the table is freed only with the queue.
        unsafe { shard.as_ref() }
    }

    #[cold]
    fn make_shard(&self, slot: usize) -> &Shard {
        let mut making = self.making.lock();
        if let Some(shard) = self.present_shard(slot) {
            return shard;
        }
        let own_gate =
            matches!(self.spec.limit, Limit::PerCpu(_)).then(|| Gate::new(self.standing(making.wishes)));
        let choice = making.choose(&self.executor, slot);
        let class = choice.class();
        let cpu_intensive = self.spec.cpu_intensive && choice.pool.spec.managed;
        let shard = Shard::new(self.this, choice, own_gate, cpu_intensive, self.timing());
        let id = shard.id();
        let made = NonNull::from(Box::leak(Box::new(shard)));
        making.shards.push(made);
        shard::enters(made, id);
        // SAFETY: as in `present_shard`.
        let shard = unsafe { made.as_ref() };
        let gate = shard.own_gate().map(|gate| &*gate.cell);
        self.flush.add_gate(gate, || self.table[slot].store(made.as_ptr(), Ordering::Release));
        drop(making);
        class.inspect(|class| class.attend());
        shard
    }

    /// The shards that have been made.
    fn shards(&self) -> impl Iterator<Item = &Shard> + Clone {
        self.shards_by_slot().map(|(_, shard)| shard)
    }

    pub(super) fn shards_by_slot(&self) -> impl Iterator<Item = (usize, &Shard)> + Clone {
        (0..self.table.len()).filter_map(|slot| Some((slot, self.present_shard(slot)?)))
    }

    /// The gates that have been made.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &Gate> + Clone {
        self.shared_gate.iter().chain(self.shards().filter_map(Shard::own_gate))
    }

    /// Is this one of its shards, and does it have this gate?
    pub(crate) fn has_shard(&self, id: ShardId, gate: *const Gate) -> bool {
        self.shards().any(|shard| shard.id() == id && std::ptr::eq(shard.lane(), gate))
    }

    /// The lane of its shard of this number, if it has that.
    pub(crate) fn lane_of(&self, id: ShardId) -> Option<*const Gate> {
        self.shards().find(|shard| shard.id() == id).map(Shard::lane)
    }

    /// Are there items that cannot run before the one that `current` tells of, since it is on their bh context?
    pub(crate) fn needs_context_of(&self, current: &Current) -> bool {
        self.shards().any(|shard| shard.needs_context_of(current))
    }

    /// An item wants to come. False if `max_pending` items are there already.
    #[inline]
    pub(crate) fn becomes_pending(&self) -> bool {
        let Some(max) = self.spec.max_pending else { return true };
        let count = |pending: usize| (pending < max).then_some(pending + 1);
        self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
    }

    /// The same for so many items: how many of them there is room for.
    pub(super) fn become_pending(&self, items: usize) -> usize {
        let Some(max) = self.spec.max_pending else { return items };
        let count = |pending: usize| Some(pending + items.min(max.saturating_sub(pending)));
        let before = self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        items.min(max.saturating_sub(before.unwrap_or_else(|pending| pending)))
    }

    /// Are there fewer items than `max_pending`?
    pub(super) fn has_room(&self) -> bool {
        self.spec.max_pending.is_none_or(|max| self.pending.load(Ordering::Relaxed) < max)
    }

    /// An item comes that was accepted before, whether there is room or not.
    pub(crate) fn comes_anyway(&self) {
        if self.spec.max_pending.is_some() {
            self.pending.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An item begins, is passed over, or did not come after all.
    #[inline]
    pub(crate) fn left_pending(&self) {
        self.left_pending_many(1);
    }

    /// The same for so many items.
    #[inline]
    pub(super) fn left_pending_many(&self, items: usize) {
        if self.spec.max_pending.is_some() {
            self.pending.fetch_sub(items, Ordering::Relaxed);
        }
    }

    /// What was asked of it, and what its executor asks.
    pub(super) fn standing(&self, wishes: Wishes) -> Standing {
        let (frozen, stage) = self.executor.queues.condition();
        Standing { wishes, frozen: frozen && self.spec.freezable, stage }
    }

    /// One more hold, of what this leads to. `None` if there is none any more: the queue is being freed.
    pub(super) fn hold(&self) -> Option<NonNull<Self>> {
        self.holds.try_hold().then_some(self.this)
    }

    /// One more hold, for who has one, or an entry.
    pub(super) fn held(&self) -> NonNull<Self> {
        self.holds.add(1);
        self.this
    }

    pub(super) fn this(&self) -> NonNull<Self> {
        self.this
    }

    /// A hold is given up: a pin's, that of a closed gate in which nothing is in flight any more, that of the handles.
    /// The last one frees the queue.
    ///
    /// # Safety
    ///
    /// To be called once for each hold. The caller must not touch the queue afterwards.
    pub(crate) unsafe fn let_go(queue: NonNull<Self>) {
        // SAFETY: the queue is freed by the last of these calls, and this one is still to be counted.
        if unsafe { queue.as_ref() }.holds.let_go() {
            // SAFETY: the queue came from a box, and nobody else has a way to it any more.
            drop(unsafe { Box::from_raw(queue.as_ptr()) });
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.executor.queues.leave(self.number);
        for shard in self.making.get_mut().shards.drain(..) {
            // SAFETY: shards are owned by this list.
            shard::leaves(unsafe { shard.as_ref() }.id());
            // SAFETY: they come from boxes, and nothing is in flight in their gates.
            drop(unsafe { Box::from_raw(shard.as_ptr()) });
        }
    }
}
