//! What other threads know of a worker, and may do with it.
#![allow(unsafe_code, reason = "an item's type is known by address")]

use std::time::Duration;

use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::WorkerId;
use crate::policy::item::ShardId;
use crate::policy::metering::{as_nanos, surely_own};
use crate::policy::worker::{Phase, WorkerState};
use crate::protocol::alive::AliveCell;
use crate::protocol::counters::ReadingCell;
use crate::protocol::current_item::CurrentItemCell;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::sys::thread::Sleeper;
use crate::sys::{affinity, clock, thread_state};

use crate::engine::item::entry::ItemType;

/// See the module.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,     // I
    pub(crate) cell: WorkerCell, // A
    /// Written by the owner, before it begins an item.
    pub(crate) current_item: CurrentItemCell<ItemType>, // A
    /// Its clocks, as it has last read them.
    pub(crate) reading: ReadingCell, // A
    /// The CPU on which it was last seen. Used only if the pool's workers may run on different CPUs. Written by the
    /// worker itself, by a thread that places it, and by the manager. A hint.
    cpu: AtomicUsize, // A
    /// The thread that wakes the worker has bound it to the CPUs on which it begins. After that it binds itself to
    /// all CPUs of its pool's workers. This and `brought_home` are written before `cell` says that the worker is
    /// woken. The worker reads them after it has seen that. `cell` orders the accesses, and its model covers them.
    placed: AtomicBool, // A
    /// Whether that has brought the worker home to its pod.
    brought_home: AtomicBool, // A
    /// The sequence number of an item, and its description of itself. Out of date once the worker has begun another
    /// item. Both are read and written together, under the lock, so there is no race to model.
    description: Mutex<Option<(u64, String)>>, // K
    thread: Sleeper,             // I
    /// The thread as the system knows it, until the worker leaves.
    system: AliveCell<affinity::ThreadId>, // K
}

impl Worker {
    /// Makes the shared side of a worker on the calling thread.
    pub(crate) fn new(id: WorkerId, phase: Phase) -> Self {
        Self {
            id,
            cell: WorkerCell::new(phase),
            current_item: CurrentItemCell::new(),
            reading: ReadingCell::new(),
            cpu: AtomicUsize::new(0),
            placed: AtomicBool::new(false),
            brought_home: AtomicBool::new(false),
            description: Mutex::new(None),
            thread: Sleeper::current(),
            system: AliveCell::new(affinity::ThreadId::current()),
        }
    }

    /// Calls `ask` with the thread's number, unless the worker has left: then that may soon be the number of another
    /// thread.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(affinity::ThreadId) -> R) -> Option<R> {
        self.system.with(ask)
    }

    /// The name of its thread.
    pub(crate) fn name(&self) -> &str {
        self.thread.name().unwrap_or_default()
    }

    /// Binds the thread, unless the worker has left. Errors are ignored: if the CPUs are gone meanwhile, the
    /// manager's next look sees that.
    pub(crate) fn pin(&self, cpus: &CpuSet) {
        drop(self.system.with(|thread| thread.pin_to_set(cpus)));
    }

    /// As [`pin`](Self::pin), but only if the system has bound the thread to other CPUs.
    pub(crate) fn keep_pinned(&self, cpus: &CpuSet) {
        self.system.with(|thread| {
            if thread.cpus().is_ok_and(|bound| bound != *cpus) {
                drop(thread.pin_to_set(cpus));
            }
        });
    }

    /// Called by the worker when it leaves. No other thread uses its thread's number from now on: that may soon be
    /// the number of another thread.
    pub(super) fn leaves(&self) {
        self.system.leave();
    }

    pub(crate) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// Notes the CPU on which the worker runs. Called by the worker.
    #[inline]
    pub(crate) fn note_cpu(&self) {
        self.cpu.store(affinity::current_cpu().unwrap_or(0), Ordering::Relaxed);
    }

    /// Notes the CPU on which another thread has seen or placed the worker.
    pub(crate) fn seen_on(&self, cpu: usize) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Binds a sleeping worker to the CPUs on which it is about to be woken. `brings_home`: whether that brings it
    /// home to its pod.
    pub(crate) fn place(&self, cpus: &CpuSet, brings_home: bool) {
        self.pin(cpus);
        self.brought_home.store(brings_home, Ordering::Relaxed);
        self.placed.store(true, Ordering::Relaxed);
    }

    /// Called by the worker when it was woken. If it was placed, returns whether that brought it home.
    pub(super) fn was_placed(&self) -> Option<bool> {
        let placed = self.placed.swap(false, Ordering::Relaxed);
        placed.then(|| self.brought_home.load(Ordering::Relaxed))
    }

    /// Stores the present item's description of itself. Returns the previous description.
    pub(super) fn describe(&self, said: Option<(u64, String)>) -> Option<(u64, String)> {
        std::mem::replace(&mut *self.description.lock(), said)
    }

    /// Returns the type of the item that the worker had when its word was `seen`, as the compiler names it. `None` if
    /// it had no item then, or has another one by now.
    pub(crate) fn item_type(&self, seen: WorkerState) -> Option<&'static str> {
        let (item_type, _) = self.current_item.of(&self.cell, seen)?;
        // SAFETY: the address is that of a static, which `work_for` has published for the worker's item.
        Some(unsafe { item_type.as_ref() }?.name())
    }

    /// Returns how long the worker has been at the item that it had when its word was `seen`. `None` if it had no
    /// item then, or has another one by now. The result is up to some milliseconds too high. Among items of
    /// microseconds it includes the time of earlier items.
    pub(crate) fn age(&self, seen: WorkerState) -> Option<Duration> {
        let since = self.reading.time_before(seen.sequence())?;
        let age = clock::now().since(since);
        self.current_item.of(&self.cell, seen).map(|_| age)
    }

    /// Returns the CPU time that this item has surely used and that is in no count yet.
    pub(crate) fn cpu_time(&self, seen: WorkerState) -> Option<Duration> {
        let used = self.with_thread(thread_state::cpu_time)?.ok()?;
        let is_first = self.reading.was_before(seen.sequence());
        let since = self.reading.since(as_nanos(used));
        let own = surely_own(Duration::from_nanos(since), is_first);
        self.current_item.of(&self.cell, seen).map(|_| own)
    }

    /// As [`cpu_time`](Self::cpu_time), for the present item, if it is one of this shard.
    pub(crate) fn cpu_time_for(&self, shard: ShardId) -> Option<Duration> {
        let seen = self.cell.load();
        let (_, own) = self.current_item.of(&self.cell, seen)?;
        if own == shard { self.cpu_time(seen) } else { None }
    }

    /// Returns the present item's description of itself.
    pub(crate) fn description(&self) -> Option<String> {
        self.description_of(self.cell.load())
    }

    /// Returns the description, so far, of the item that the worker had when its word was `seen`.
    pub(crate) fn description_of(&self, seen: WorkerState) -> Option<String> {
        let description = self.description.lock();
        let (item, text) = description.as_ref()?;
        (seen.phase().has_item() && *item == seen.sequence()).then(|| text.clone())
    }

    /// Called without the pool's lock, since this is a system call.
    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }
}
