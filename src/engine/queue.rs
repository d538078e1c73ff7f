//! One workqueue: its shards, made when a CPU first uses it, and its end.
//!
//! A queue lives as long as it has a handle or an item in flight. The last handle closes every gate; a gate that is
//! empty then is done with, another one when its last item completes. Whoever finishes the last gate frees the
//! queue. So neither queueing nor completing counts references to it.
#![allow(unsafe_code, reason = "a queue is owned by its handle first, and then by its last item in flight")]

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use crate::policy::item::ShardId;
use crate::policy::pods::AffinityScope;
use crate::sys::sync::{AtomicPtr, AtomicUsize, Mutex, Ordering};
use crate::sys::wait::Until;

use super::context::Current;
use super::executor::{ExecutorInner, PoolChoice};
use super::flush::Flush;
use super::refusal::WaitError;
use super::rescuer::{OwnedRescuer, Rescuer};
use super::shard::{Gate, Shard};
use super::waits;

/// What a queue was told by its builder.
#[derive(Debug)]
pub(crate) struct QueueSpec {
    pub(crate) name: Box<str>,
    pub(crate) kind: QueueKind,
    pub(crate) limit: Limit,
    pub(crate) max_pending: Option<usize>,
    pub(crate) cpu_intensive: bool,
    /// Its items run in queueing order.
    pub(crate) ordered: bool,
    /// Ends with the queue.
    pub(crate) rescuer: Option<OwnedRescuer>,
}

/// Which pools a queue's items go to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum QueueKind {
    /// To the pool of the CPU that they were queued on.
    PerCpu { high: bool },
    /// To the bh context of that CPU.
    Bh { high: bool },
    /// To the pool of that CPU's pod.
    Unbound { managed: bool, scope: AffinityScope, nice: i32, cpus: crate::policy::cpu_set::CpuSet },
}

/// How many items may be active.
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
    pub(crate) flush: Flush,
    /// By the slot of the CPU; null until made. Swappable: whoever loads a shard uses it under a handle, and shards
    /// are freed with the queue.
    table: Box<[AtomicPtr<Shard>]>,
    /// Owns the shards. Held while one is made.
    making: Mutex<Vec<NonNull<Shard>>>,
    shared_gate: Option<Gate>,
    /// Items that were accepted and not begun; counted only under `max_pending`.
    pending: AtomicUsize,
    /// Gates that have not finished; set when the last handle goes.
    open_gates: AtomicUsize,
    /// Itself, as it came from its box: who frees it, frees it by this pointer.
    this: NonNull<Self>,
    /// What its handles share, as long as there is one.
    handle: Weak<QueueHandle>,
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
    pub(crate) fn new(spec: QueueSpec, executor: Arc<ExecutorInner>) -> Arc<Self> {
        Arc::new_cyclic(|handle| Self::make(spec, executor, handle.clone()))
    }

    fn make(spec: QueueSpec, executor: Arc<ExecutorInner>, handle: Weak<Self>) -> Self {
        let slots = executor.placement.slots();
        let shared_gate = match spec.limit {
            Limit::Total(max) => Some(Gate::new(max)),
            Limit::PerCpu(_) => None,
        };
        let queue = Queue {
            spec,
            executor,
            flush: Flush::new(),
            table: (0..slots).map(|_| AtomicPtr::default()).collect(),
            making: Mutex::new(Vec::new()),
            shared_gate,
            pending: AtomicUsize::new(0),
            open_gates: AtomicUsize::new(0),
            this: NonNull::dangling(),
            handle,
        };
        let this = NonNull::from(Box::leak(Box::new(queue)));
        // SAFETY: nobody else knows the queue yet.
        unsafe { (*this.as_ptr()).this = this };
        Self(this)
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
        // One more than there are gates, so that the queue stays while they are closed.
        let gates: Vec<NonNull<Gate>> = self.queue().gates().map(NonNull::from).collect();
        self.queue().open_gates.store(gates.len() + 1, Ordering::Relaxed);
        for gate in gates {
            // SAFETY: the queue still waits for this gate and for one more.
            if unsafe { gate.as_ref() }.cell.close() {
                // SAFETY: the gate is closed, and nothing was in flight in it.
                unsafe { Queue::gate_drained(queue) };
            }
        }
        // SAFETY: this is the one more that was counted above.
        unsafe { Queue::gate_drained(queue) };
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
        self.handle.upgrade()
    }

    pub(crate) fn shared_gate(&self) -> Option<&Gate> {
        self.shared_gate.as_ref()
    }

    /// The shard for items queued on the CPU of this slot.
    #[inline]
    pub(crate) fn shard(&self, slot: usize) -> &Shard {
        let shard = self.table[slot].load(Ordering::Acquire);
        // SAFETY: a shard that is in the table is freed only with the queue.
        unsafe { shard.as_ref() }.unwrap_or_else(|| self.make_shard(slot))
    }

    #[cold]
    fn make_shard(&self, slot: usize) -> &Shard {
        let mut making = self.making.lock();
        let present = self.table[slot].load(Ordering::Acquire);
        // SAFETY: as in `shard`.
        if let Some(shard) = unsafe { present.as_ref() } {
            return shard;
        }
        let own_gate = match self.spec.limit {
            Limit::PerCpu(max) => Some(Gate::new(max)),
            Limit::Total(_) => None,
        };
        let PoolChoice { pool, user } = self.executor.pool_for(&self.spec.kind, slot);
        let cpu_intensive = self.spec.cpu_intensive && pool.spec.target.is_some();
        let shard = Box::new(Shard::new(self.this, (pool, user), own_gate, cpu_intensive));
        let shard = NonNull::from(Box::leak(shard));
        making.push(shard);
        self.table[slot].store(shard.as_ptr(), Ordering::Release);
        // SAFETY: as in `shard`.
        unsafe { shard.as_ref() }
    }

    /// The shards that have been made.
    fn shards(&self) -> impl Iterator<Item = &Shard> + Clone {
        // SAFETY: as in `shard`.
        self.table.iter().filter_map(|shard| unsafe { shard.load(Ordering::Acquire).as_ref() })
    }

    /// The gates that have been made.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &Gate> + Clone {
        self.shared_gate.iter().chain(self.shards().filter_map(Shard::own_gate))
    }

    /// Waits until everything is done that is in flight now.
    pub(crate) fn flush_until(&self, until: Until) -> Result<(), WaitError> {
        waits::check_origin(self.executor.origin)?;
        waits::check_queue(self)?;
        waits::check_rescuers(self);
        let number = self.flush.next();
        let target = waits::Target::Flush { queue: self, number };
        waits::wait(target, until, |until| self.flush.wait(number, self.gates(), until))
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

    /// An item comes that was accepted before, whether there is room or not.
    pub(crate) fn comes_anyway(&self) {
        if self.spec.max_pending.is_some() {
            self.pending.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An item begins, is passed over, or did not come after all.
    #[inline]
    pub(crate) fn left_pending(&self) {
        if self.spec.max_pending.is_some() {
            self.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A closed gate has nothing in flight any more. The last one frees the queue.
    ///
    /// # Safety
    ///
    /// To be called once for each gate, and once for the handle. The caller must not touch the queue afterwards.
    pub(crate) unsafe fn gate_drained(queue: NonNull<Self>) {
        // SAFETY: the queue is freed by the last of these calls, and this one is still to be counted.
        let open = unsafe { &queue.as_ref().open_gates };
        // Acquire and release: who frees the queue has seen all that was done with it.
        if open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: the queue came from a box, and nobody else has a way to it any more.
            drop(unsafe { Box::from_raw(queue.as_ptr()) });
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for shard in self.making.get_mut().drain(..) {
            // SAFETY: shards come from boxes and are owned by this list; nothing is in flight in their gates.
            drop(unsafe { Box::from_raw(shard.as_ptr()) });
        }
    }
}
