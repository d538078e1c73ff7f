//! One workqueue: its shards, and the end of the queue. Each shard is made when its CPU first uses the queue.
//!
//! A queue lives as long as it has a handle, an item in flight or a [`QueueRef`]. The queue counts *references*. All
//! handles together have one reference. Each `QueueRef`, each count of a flush, and each limiter that is closed and not
//! empty has a reference of its own. Dropping the last handle closes every limiter. When the last item leaves a closed
//! limiter, the limiter's reference is given up. The thread that gives up the last reference frees the queue. So an
//! item in flight needs no reference of its own, unless a flush has given the item a ticket.
//!
//! [`QueueRef`]: super::register::QueueRef
#![allow(unsafe_code, reason = "a queue is owned by its handle first, and then by its last item in flight")]

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

use crate::policy::attrs::{Attrs, PoolAttrs};
use crate::policy::effective_state::{EffectiveState, RequestedSettings, Stage};
use crate::policy::locks::Rank;
use crate::policy::when_full::WhenFull;
use crate::protocol::bytes::QueueBytes;
use crate::protocol::drain::CountedItems;
use crate::protocol::flush::FlushCell;
use crate::protocol::given_up::GivenUpCount;
use crate::protocol::places::PlacesCell;
use crate::protocol::references::ReferenceCount;
use crate::protocol::turns::FairShare;
use crate::sys::machine;
use crate::sys::sync::{AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering};

use crate::engine::carrier::Carrier;
use crate::engine::executor::inner::ExecutorInner;
use crate::engine::item::entry::Entry;
use crate::engine::item::token::Token;
use crate::engine::pool::calls::{OwnedRescuer, Rescuer};
use crate::engine::pool::class::{Division, KeptClass, PoolChoice};

use super::shard::{self, Limiter, Shard};

/// The settings that are fixed when a queue is built.
#[derive(Debug)]
pub(crate) struct QueueSpec {
    pub(crate) name: Box<str>,
    /// The settings of an unbound queue. `None` for any other queue.
    pub(crate) unbound: Option<Unbound>,
    pub(crate) is_bh: bool,
    pub(crate) limit: Limit,
    /// The highest limit of active items that the queue may have.
    pub(crate) most_active: usize,
    pub(crate) max_pending: Option<usize>,
    pub(crate) when_full: WhenFull,
    pub(crate) high_priority: bool,
    pub(crate) cpu_intensive: bool,
    /// Whether the items run in the order in which they were queued.
    pub(crate) ordered: bool,
    pub(crate) freezable: bool,
    /// Whether threads take on the queue's name while they run its items.
    pub(crate) names_threads: bool,
    /// Whether the queue may be changed over the control socket.
    pub(crate) control: bool,
    /// The queue's own carriers. See [`Queue::carriers`].
    pub(crate) carriers: Vec<Carrier>,
    /// The share with which the queue's entries take turns with the entries of other queues. `None` if the queue has no
    /// weight, so that its entries go to the worklists.
    pub(crate) share: Option<Arc<FairShare>>,
    /// The queue's rescuer, which ends with the queue.
    pub(crate) rescuer: Option<OwnedRescuer>,
}

/// The settings that complete an unbound queue's attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unbound {
    pub(crate) managed: bool,
    /// The queue's nice level, unless the attributes specify one.
    pub(crate) nice: i32,
}

/// The pools to which a queue's items go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QueueKind {
    /// The pool of the CPU on which an item was queued.
    PerCpu { high: bool },
    /// The bh context of the CPU on which an item was queued.
    Bh { high: bool },
    /// The pool of the pod that contains the CPU on which an item was queued.
    Unbound(PoolAttrs),
}

/// The `max_active` with which a queue was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    PerCpu(usize),
    Total(usize),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,              // I
    pub(crate) executor: Arc<ExecutorInner>, // I
    /// The hooks that capture the values which submissions carry. The executor's hooks come first, and then those of
    /// the queue. `None` if there are no hooks.
    pub(crate) carriers: Option<Box<[Carrier]>>, // I
    pub(crate) flush: FlushCell<Entry>,      // F
    pub(crate) counted: CountedItems,        // A
    /// The shards, indexed by the CPU's index among the executor's CPUs. A pointer is null until its shard is made. The
    /// shards are freed with the queue, and a thread that loads a shard holds a handle or another reference to the
    /// queue.
    table: Box<[AtomicPtr<Shard>]>, // A, set under M
    pub(crate) making: Mutex<Making>,        // M
    shared_limiter: Option<Limiter>,         // I
    /// The places of the queue's pending items. A pending item was accepted and has not begun. The queue counts these
    /// items only if the queue or its executor has a bound on pending items.
    pub(super) places: PlacesCell, // A, and the line under K
    /// The bytes of the pending items. `None` if the executor has no bound on the bytes of pending items.
    pub(super) bytes: Option<Arc<QueueBytes>>, // K, the lock of the executor's cell
    /// At most this many items of the queue may be pending. `None` if the queue does not count pending items. The
    /// executor's bound may permit fewer items.
    pub(super) counts_pending: Option<u64>, // I
    /// The number of items that were given up because the executor was shut down.
    pub(crate) given_up: GivenUpCount, // A
    /// Whether workers must do more than run the queue's items: take on the queue's name, give the items up, or report
    /// the items to a made-up machine. A worker reads this flag before each item, so one flag serves all cases.
    pub(crate) is_unusual: AtomicBool, // A
    /// Whether workers give the queue's items up instead of running them. A queue that is destroyed after its last item
    /// has ended does not need this flag.
    pub(super) gives_up: AtomicBool, // A, written under M
    /// The queue's token. The token is the parent of the tokens of the queue's items, and is made when it is first
    /// needed.
    pub(super) token: OnceLock<Token>, // A
    /// Whether the queue's items are timed. This setting changes only while `making` is locked.
    pub(crate) times_items: AtomicBool, // A, written under M
    /// The count of references: see the module. An item with a ticket has a reference while it leaves its limiter.
    references: ReferenceCount, // A
    /// The queue's number. No other queue of the process has the same number.
    pub(crate) id: u64, // I
    /// The queue's number in the executor's register, or 0 if the queue is not registered there.
    pub(crate) number: u64, // I
    /// The pointer that came from the queue's box. The queue is freed through this pointer.
    this: NonNull<Self>, // I
    /// A weak pointer to the `QueueHandle` that all handles share. The pointer is dead once the last handle is gone.
    handle: OnceLock<Weak<QueueHandle>>, // A
}

/// The state that owns the queue's shards and stores the settings that were requested of the queue. A thread keeps this
/// struct locked while it makes a shard, changes the limits and intakes of the limiters, or turns the routes. So every
/// change reaches every limiter and every route.
#[derive(Debug)]
pub(crate) struct Making {
    shards: Vec<NonNull<Shard>>,
    /// The pools to which the queue's items go now.
    pub(crate) kind: QueueKind,
    /// The division of the CPUs into pods by the queue's attributes. The division is computed when it is first needed.
    pub(crate) division: Option<Division>,
    /// The classes of pools to which the queue's routes have led. Each class is listed once.
    pub(crate) used: Vec<KeptClass>,
    /// The attributes that the queue's user requested.
    pub(crate) attrs: Attrs,
    pub(crate) requested: RequestedSettings,
    /// The number of timers that were given up because the queue or its executor was ending, or because the queue could
    /// not count any more items. `destroy` and a shutdown report the number and set it to zero.
    pub(crate) cancelled_timers: usize,
}

impl Making {
    fn new(requested: RequestedSettings, kind: QueueKind, attrs: Attrs) -> Self {
        Self {
            shards: Vec::new(),
            kind,
            division: None,
            used: Vec::new(),
            attrs,
            requested,
            cancelled_timers: 0,
        }
    }

    /// Chooses the pool for the shard of the CPU with this index. The pool stays in memory as long as the queue.
    pub(crate) fn choose(&mut self, executor: &ExecutorInner, index: usize) -> PoolChoice {
        let choice = executor.pool_for(&self.kind, index, &mut self.division);
        if let Some(user) = &choice.user {
            if !self.used.iter().any(|used| used.is(user.class())) {
                self.used.push(user.class().keep());
            }
        }
        choice
    }
}

/// The number of the next queue.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The single reference that all handles of a queue share. Each handle is an `Arc` of this struct.
#[derive(Debug)]
pub(crate) struct QueueHandle(NonNull<Queue>);

// SAFETY: a `QueueHandle` points at a `Queue`, which is `Send` and `Sync`.
unsafe impl Send for QueueHandle {}
// SAFETY: a `QueueHandle` points at a `Queue`, which is `Send` and `Sync`.
unsafe impl Sync for QueueHandle {}
// SAFETY: a queue's pointers lead to its shards, which are `Send` and `Sync`, and to the queue itself.
unsafe impl Send for Queue {}
// SAFETY: a queue's pointers lead to its shards, which are `Send` and `Sync`, and to the queue itself.
unsafe impl Sync for Queue {}

impl QueueHandle {
    /// Makes a queue. Also returns whether the executor is open. Once the executor's shutdown has begun, only the
    /// executor's own items may make queues.
    pub(crate) fn new(
        spec: QueueSpec,
        (kind, attrs): (QueueKind, Attrs),
        times_items: bool,
        executor: Arc<ExecutorInner>,
    ) -> (Arc<Self>, bool) {
        let cpus = executor.placement.len();
        let (Limit::PerCpu(max_active) | Limit::Total(max_active)) = spec.limit;
        let requested = RequestedSettings::new(max_active);
        let effective_state = EffectiveState { requested, frozen: false, stage: Stage::Open };
        let carriers: Box<[Carrier]> =
            executor.core.settings.hooks.carriers.iter().chain(&spec.carriers).cloned().collect();
        let shared_limiter = matches!(spec.limit, Limit::Total(_)).then(|| Limiter::new(effective_state));
        let is_unusual = AtomicBool::new(spec.names_threads || executor.machine != 0);
        let is_bounded = executor.backlog.is_some();
        let counts_pending = spec.max_pending.map(|most| most as u64).or(is_bounded.then_some(u64::MAX >> 1));
        let bytes = executor.bytes.as_ref().map(|_| Arc::new(QueueBytes::new()));
        let queue = Queue {
            spec,
            executor,
            carriers: (!carriers.is_empty()).then_some(carriers),
            flush: FlushCell::new(),
            counted: CountedItems::new(),
            table: (0..cpus).map(|_| AtomicPtr::default()).collect(),
            making: Mutex::ranked(Rank::Making, Making::new(requested, kind, attrs)),
            shared_limiter,
            places: PlacesCell::new(),
            bytes,
            counts_pending,
            given_up: GivenUpCount::new(),
            is_unusual,
            gives_up: AtomicBool::new(false),
            token: OnceLock::new(),
            times_items: AtomicBool::new(times_items),
            references: ReferenceCount::new(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            number: 0,
            this: NonNull::dangling(),
            handle: OnceLock::new(),
        };
        let this = NonNull::from(Box::leak(Box::new(queue)));
        // SAFETY: no other thread knows the queue yet.
        let queue = unsafe { &mut *this.as_ptr() };
        queue.this = this;
        // A forked process does not use the register, because a thread of the parent may have held the register's lock.
        let in_time = !queue.executor.origin.is_forked() && {
            let Queue { executor, number, .. } = queue;
            executor.queues.enter(this, |entered| *number = entered)
        };
        let handle = Arc::new(Self(this));
        // The weak pointer is set once, before the queue has any items. After that, threads only read it.
        let _set = handle.queue().handle.set(Arc::downgrade(&handle));
        if !handle.queue().executor.origin.is_forked() {
            // The queue adopts the executor's state after it has entered the register. So the queue misses no change,
            // because a thread that changes the executor later finds the queue in the register.
            handle.queue().change(|_| ());
            handle.queue().resolve_again();
        }
        (handle, in_time)
    }

    #[inline]
    pub(crate) fn queue(&self) -> &Queue {
        // SAFETY: the handles' reference is given up only in `drop` below.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        if self.queue().executor.origin.is_forked() {
            // The queue is leaked, because items that were in flight at the fork never end in this process.
            return;
        }
        let queue = self.0;
        let limiters: Vec<NonNull<Limiter>> = self.queue().limiters().map(NonNull::from).collect();
        // Each limiter gets a reference. The handles' reference is given up last, so the queue stays in memory until
        // then.
        self.queue().references.add(limiters.len());
        for limiter in limiters {
            // SAFETY: the handles' reference keeps the queue and its limiters in memory.
            if unsafe { limiter.as_ref() }.cell.close() {
                // SAFETY: nothing was in flight in the limiter, so this thread gives up the limiter's reference.
                unsafe { Queue::release(queue) };
            }
        }
        // SAFETY: the last handle is gone, so this thread gives up the handles' reference.
        unsafe { Queue::release(queue) };
    }
}

impl Queue {
    pub(crate) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns whether the calling thread belongs to a made-up machine. `is_unusual` is set for all queues of a made-up
    /// machine, so for any other queue, this call costs only one load.
    #[inline]
    pub(crate) fn is_on_machine(&self) -> bool {
        machine::MAY_EXIST && self.is_unusual.load(Ordering::Relaxed) && machine::listens()
    }

    pub(crate) fn rescuer(&self) -> Option<&Arc<Rescuer>> {
        self.spec.rescuer.as_ref().map(OwnedRescuer::shared)
    }

    /// Returns another handle to the queue, or `None` if the last handle is gone.
    pub(crate) fn handle(&self) -> Option<Arc<QueueHandle>> {
        self.handle.get()?.upgrade()
    }

    pub(crate) fn shared_limiter(&self) -> Option<&Limiter> {
        self.shared_limiter.as_ref()
    }

    /// Returns the shard for items that are queued on the CPU with this index. Makes the shard if there is none.
    #[inline]
    pub(crate) fn shard(&self, index: usize) -> &Shard {
        self.present_shard(index).unwrap_or_else(|| self.make_shard(index))
    }

    /// Returns the shard of the CPU with this index, if the shard has been made.
    #[inline]
    pub(crate) fn present_shard(&self, index: usize) -> Option<&Shard> {
        let shard = self.table[index].load(Ordering::Acquire);
        // SAFETY: a shard that is in the table is freed only with the queue.
        unsafe { shard.as_ref() }
    }

    #[cold]
    fn make_shard(&self, index: usize) -> &Shard {
        let mut making = self.making.lock();
        if let Some(shard) = self.present_shard(index) {
            return shard;
        }
        let own_limiter = matches!(self.spec.limit, Limit::PerCpu(_))
            .then(|| Limiter::new(self.effective_state(making.requested)));
        let choice = making.choose(&self.executor, index);
        let class = choice.class();
        let cpu_intensive = self.spec.cpu_intensive && choice.pool.spec.managed;
        let cpu = self.executor.placement.cpu(index).real;
        let shard = Shard::new(self.this, cpu, choice, own_limiter, cpu_intensive, self.timing());
        let id = shard.id();
        let made = NonNull::from(Box::leak(Box::new(shard)));
        making.shards.push(made);
        shard::enters(made, id);
        // SAFETY: the shard was just made, and is freed only with the queue.
        let shard = unsafe { made.as_ref() };
        let limiter = shard.own_limiter().map(|limiter| &*limiter.cell);
        self.flush.add_limiter(limiter, || self.table[index].store(made.as_ptr(), Ordering::Release));
        drop(making);
        class.inspect(|class| class.attend());
        shard
    }

    /// Makes the shards of all CPUs, and makes workers in their pools.
    pub(crate) fn prestart(&self) {
        (0..self.table.len()).for_each(|index| self.shard(index).pool().prestart());
    }

    /// Returns the shards that have been made.
    pub(super) fn shards(&self) -> impl Iterator<Item = &Shard> + Clone {
        self.shards_by_index().map(|(_, shard)| shard)
    }

    pub(crate) fn shards_by_index(&self) -> impl Iterator<Item = (usize, &Shard)> + Clone {
        (0..self.table.len()).filter_map(|index| Some((index, self.present_shard(index)?)))
    }

    /// Returns the limiters that have been made.
    pub(crate) fn limiters(&self) -> impl Iterator<Item = &Limiter> + Clone {
        self.shared_limiter.iter().chain(self.shards().filter_map(Shard::own_limiter))
    }

    /// Combines the settings that were requested of the queue with the state of the queue's executor.
    pub(crate) fn effective_state(&self, requested: RequestedSettings) -> EffectiveState {
        let (frozen, stage) = self.executor.queues.condition();
        EffectiveState { requested, frozen: frozen && self.spec.freezable, stage }
    }

    /// Takes one more reference to the queue. Returns `None` if no reference is left, because the queue is being freed.
    pub(crate) fn try_count_reference(&self) -> Option<NonNull<Self>> {
        self.references.try_ref().then_some(self.this)
    }

    /// Takes one more reference to the queue. The caller already has a reference, or an entry of the queue.
    pub(crate) fn count_reference(&self) -> NonNull<Self> {
        self.references.add(1);
        self.this
    }

    pub(crate) fn this(&self) -> NonNull<Self> {
        self.this
    }

    /// Gives up a reference, and [frees](Self::free) the queue if the reference was the last one. Freeing the queue may
    /// call users' destructors.
    ///
    /// # Safety
    ///
    /// The caller has a reference, which ends with this call. Afterwards the caller must not touch the queue without
    /// another reference.
    pub(crate) unsafe fn release(queue: NonNull<Self>) {
        // SAFETY: only the last such call frees the queue, and the caller's reference is not given up yet.
        if unsafe { queue.as_ref() }.references.release() {
            // SAFETY: the queue came from a box, and this was its last reference.
            unsafe { Box::from_raw(queue.as_ptr()) }.free();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.executor.queues.leave(self.number);
        for shard in self.making.get_mut().shards.drain(..) {
            // SAFETY: this list owns the shards.
            shard::leaves(unsafe { shard.as_ref() }.id());
            // SAFETY: the shard came from a box, and nothing is in flight in its limiter.
            drop(unsafe { Box::from_raw(shard.as_ptr()) });
        }
    }
}
