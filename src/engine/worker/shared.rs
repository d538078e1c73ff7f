//! The shared side of a worker, which other threads can read and act on.
#![allow(unsafe_code, reason = "an item's type is known by address")]

use std::time::Duration;

use crossbeam_deque::Stealer;

use crate::policy::cpu_set::CpuSet;
use crate::policy::idle_set::WorkerId;
use crate::policy::item::ShardId;
use crate::policy::metering::{as_nanos, surely_own};
use crate::policy::worker::{Phase, WorkerState};
use crate::protocol::alive::AliveCell;
use crate::protocol::counters::ReadingCell;
use crate::protocol::current_item::CurrentItemCell;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::sys::thread::Sleeper;
use crate::sys::{affinity, clock, thread_state};

use crate::engine::item::entry::{Entry, ItemType};

use super::levels::Levels;

/// The shared side of a worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,     // I
    pub(crate) cell: WorkerCell, // A
    /// The type and the shard of the current item. The worker writes both before it begins the item.
    pub(crate) current_item: CurrentItemCell<ItemType>, // A
    /// The worker's last readings of its clocks.
    pub(crate) reading: ReadingCell, // A
    /// The CPU on which the worker was last seen. This is a hint, and it is used only if the pool's workers may run on
    /// different CPUs. The worker itself, a thread that places the worker, and the manager write this field.
    cpu: AtomicUsize, // A
    /// Whether the waking thread has bound the worker to the CPUs on which the worker is to begin. After it wakes up,
    /// the worker binds itself to all CPUs of its pool's workers. The waking thread writes `placed` and `brought_home`
    /// before it marks the worker as woken in `cell`. The worker reads both fields after it has seen this mark. So
    /// `cell` orders these accesses, and the model of `cell` covers them.
    placed: AtomicBool, // A
    /// Whether the binding that `placed` notes has brought the worker home to its pod.
    brought_home: AtomicBool, // A
    /// A handle to the list of the worker's local entries, for all threads. An entry moves from there to another list
    /// only under the pool's lock.
    pub(crate) local: Stealer<Entry>, // A
    /// The lists of the forks that the items on this worker's thread have made.
    pub(crate) forks: Levels, // K
    /// The sequence number of the worker's item at the manager's last check. Only the manager uses this field.
    checked: AtomicU64, // A
    /// Whether the worker's row (series of local items) is over. If the row is over, the worker takes its next item
    /// from the pool's list, even if the worker has local entries. The manager sets this hint, and the worker clears
    /// it.
    row_is_over: AtomicBool, // A
    /// The sequence number of an item, and the item's description of itself. The number and the description are out of
    /// date once the worker has begun another item. Threads read and write both together under the lock, so there is no
    /// race to model.
    description: Mutex<Option<(u64, String)>>, // K
    thread: Sleeper,             // I
    /// The system's number for the thread, until the worker leaves.
    system: AliveCell<affinity::ThreadId>, // K
}

impl Worker {
    /// Makes the shared side of a worker on the calling thread.
    pub(crate) fn new(id: WorkerId, phase: Phase, local: Stealer<Entry>) -> Self {
        Self {
            id,
            cell: WorkerCell::new(phase),
            current_item: CurrentItemCell::new(),
            reading: ReadingCell::new(),
            cpu: AtomicUsize::new(0),
            placed: AtomicBool::new(false),
            brought_home: AtomicBool::new(false),
            local,
            forks: Levels::new(),
            checked: AtomicU64::new(0),
            row_is_over: AtomicBool::new(false),
            description: Mutex::new(None),
            thread: Sleeper::current(),
            system: AliveCell::new(affinity::ThreadId::current()),
        }
    }

    /// Calls `ask` with the thread's number. If the worker has left, returns `None` without calling `ask`, because the
    /// system may have given the number to another thread.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(affinity::ThreadId) -> R) -> Option<R> {
        self.system.with(ask)
    }

    /// Returns the name of the worker's thread.
    pub(crate) fn name(&self) -> &str {
        self.thread.name().unwrap_or_default()
    }

    /// Binds the worker's thread to these CPUs, unless the worker has left. Ignores errors: if the process has lost
    /// these CPUs, the manager notices the loss at its next check of the process's CPUs.
    pub(crate) fn pin(&self, cpus: &CpuSet) {
        drop(self.system.with(|thread| thread.pin_to_set(cpus)));
    }

    /// Does the same as [`pin`](Self::pin), but only if the system has bound the thread to other CPUs.
    pub(crate) fn keep_pinned(&self, cpus: &CpuSet) {
        self.system.with(|thread| {
            if thread.cpus().is_ok_and(|bound| bound != *cpus) {
                drop(thread.pin_to_set(cpus));
            }
        });
    }

    /// Removes the thread's number. The worker calls this when it leaves. From then on, other threads no longer use the
    /// number, because the system may give it to a new thread.
    pub(super) fn leaves(&self) {
        self.system.leave();
    }

    pub(crate) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// Notes the CPU on which the worker runs. The worker itself calls this.
    #[inline]
    pub(crate) fn note_cpu(&self) {
        self.cpu.store(affinity::current_cpu().unwrap_or(0), Ordering::Relaxed);
    }

    /// Notes the CPU on which the worker runs, or on which another thread has seen or placed it.
    #[inline]
    pub(crate) fn seen_on(&self, cpu: usize) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Binds a sleeping worker to the CPUs on which it is to begin. The caller wakes the worker afterwards.
    /// `brings_home` says whether this binding brings the worker home to its pod.
    pub(crate) fn place(&self, cpus: &CpuSet, brings_home: bool) {
        self.pin(cpus);
        self.brought_home.store(brings_home, Ordering::Relaxed);
        self.placed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the waking thread brought the worker home when it [placed](Self::place) the worker, or `None`
    /// if the waking thread did not place the worker. The worker calls this after it wakes up.
    pub(super) fn was_placed(&self) -> Option<bool> {
        let placed = self.placed.swap(false, Ordering::Relaxed);
        placed.then(|| self.brought_home.load(Ordering::Relaxed))
    }

    /// Stores the present item's description of itself. Returns the previous description.
    pub(super) fn describe(&self, said: Option<(u64, String)>) -> Option<(u64, String)> {
        std::mem::replace(&mut *self.description.lock(), said)
    }

    /// Returns the compiler's name for the type of the item that the worker had when its word had the value `seen`.
    /// Returns `None` if the worker had no item then, or has another item by now.
    pub(crate) fn item_type(&self, seen: WorkerState) -> Option<&'static str> {
        let (item_type, _) = self.current_item.of(&self.cell, seen)?;
        // SAFETY: the address points to a static, which `work_for` has published as the type of the worker's item.
        Some(unsafe { item_type.as_ref() }?.name())
    }

    /// Returns how long the worker has been executing the item that it had when its word had the value `seen`. Returns
    /// `None` if the worker had no item then, or has another item by now. The result can be a few milliseconds too
    /// high. If items take only microseconds, the result includes the time of earlier items.
    pub(crate) fn age(&self, seen: WorkerState) -> Option<Duration> {
        let since = self.reading.time_before(seen.sequence())?;
        let age = clock::now().since(since);
        self.current_item.of(&self.cell, seen).map(|_| age)
    }

    /// Returns a lower bound of the CPU time that an item has used and that no counter includes yet. The item is the
    /// one that the worker had when its word had the value `seen`.
    pub(crate) fn cpu_time(&self, seen: WorkerState) -> Option<Duration> {
        let used = self.with_thread(thread_state::cpu_time)?.ok()?;
        let is_first = self.reading.was_before(seen.sequence());
        let since = self.reading.since(as_nanos(used));
        let own = surely_own(Duration::from_nanos(since), is_first);
        self.current_item.of(&self.cell, seen).map(|_| own)
    }

    /// Returns the [CPU time](Self::cpu_time) of the present item, if that item belongs to this shard.
    pub(crate) fn cpu_time_for(&self, shard: ShardId) -> Option<Duration> {
        let seen = self.cell.load();
        let (_, own) = self.current_item.of(&self.cell, seen)?;
        if own == shard { self.cpu_time(seen) } else { None }
    }

    /// Returns the latest description that an item has given of itself. The item is the one that the worker had when
    /// its word had the value `seen`.
    pub(crate) fn description_of(&self, seen: WorkerState) -> Option<String> {
        let description = self.description.lock();
        let (item, text) = description.as_ref()?;
        (seen.phase().has_item() && *item == seen.sequence()).then(|| text.clone())
    }

    /// Returns the number of items that the worker has begun since the last check. The manager calls this at each
    /// check of the pool.
    pub(crate) fn begun_since_last_check(&self) -> u64 {
        let begun = self.cell.load().sequence();
        let before = self.checked.load(Ordering::Relaxed);
        self.checked.store(begun, Ordering::Relaxed);
        begun.wrapping_sub(before)
    }

    /// Ends the worker's row, so that the worker takes its next item from the pool's list. The manager calls this.
    pub(crate) fn end_row(&self) {
        self.row_is_over.store(true, Ordering::Relaxed);
    }

    /// Returns whether the manager has ended the worker's row since the last call. The worker calls this.
    #[inline]
    pub(crate) fn is_row_over(&self) -> bool {
        let is_over = self.row_is_over.load(Ordering::Relaxed);
        if is_over {
            self.row_is_over.store(false, Ordering::Relaxed);
        }
        is_over
    }

    /// Unparks the worker's thread. Callers do not hold the pool's lock, because unparking is a system call.
    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }
}
