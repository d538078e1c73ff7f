//! What others know of a worker, and may do with it.
#![allow(unsafe_code, reason = "an item's type is known by address")]

use std::thread::Thread;
use std::time::Duration;

use crate::policy::cpu_set::CpuSet;
use crate::policy::crew::WorkerId;
use crate::policy::item::ShardId;
use crate::policy::metering::surely_own;
use crate::policy::worker::{Phase, WorkerState};
use crate::protocol::alive::AliveCell;
use crate::protocol::subject::SubjectCell;
use crate::protocol::tally::ReadingCell;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::sys::{affinity, clock, thread_state};

use super::super::item_type::ItemType;
use super::super::queue::Queue;
use super::super::shard::{self, Shard};
use super::super::tally::as_nanos;

/// See the module.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) cell: WorkerCell,
    /// Written by the owner, before it begins an item.
    pub(super) subject: SubjectCell<ItemType>,
    /// Its clocks as it has read them last.
    pub(in super::super) reading: ReadingCell,
    /// The CPU on which it was seen last, if that can differ from another worker's of its pool. Written by the owner;
    /// a hint.
    cpu: AtomicUsize,
    /// The thread that woke it has bound it to where it is to begin: from there it may go where its pool's workers may.
    /// This and `brought_home` are written before `cell` says that the worker is woken, and read by the worker after it has
    /// seen that. `cell` orders both, and has the model.
    placed: AtomicBool,
    /// By that it came home.
    brought_home: AtomicBool,
    /// What an item said of itself, and which: it is out of date once the worker has begun another one. Both are read and
    /// written together, under the lock, so there is no race to model.
    description: Mutex<Option<(u64, String)>>,
    thread: Thread,
    /// The same as the system knows it.
    system: AliveCell<affinity::ThreadId>,
}

impl Worker {
    /// For the calling thread.
    pub(in super::super) fn new(id: WorkerId, phase: Phase) -> Self {
        Self {
            id,
            cell: WorkerCell::new(phase),
            subject: SubjectCell::new(),
            reading: ReadingCell::new(),
            cpu: AtomicUsize::new(0),
            placed: AtomicBool::new(false),
            brought_home: AtomicBool::new(false),
            description: Mutex::new(None),
            thread: std::thread::current(),
            system: AliveCell::new(affinity::ThreadId::current()),
        }
    }

    /// Asks something about the thread, unless it works here no more: then its number may soon be another one's.
    pub(crate) fn with_thread<R>(&self, ask: impl FnOnce(affinity::ThreadId) -> R) -> Option<R> {
        self.system.with(ask)
    }

    /// The name of its thread.
    pub(crate) fn name(&self) -> &str {
        self.thread.name().unwrap_or_default()
    }

    /// Binds the thread, unless it works here no more. That CPUs may have gone meanwhile is seen by the next look.
    pub(crate) fn pin(&self, cpus: &CpuSet) {
        drop(self.system.with(|thread| thread.pin_to_set(cpus)));
    }

    /// As [`pin`](Self::pin), if the system has bound the thread to something else.
    pub(crate) fn keep_pinned(&self, cpus: &CpuSet) {
        self.system.with(|thread| {
            if thread.cpus().is_ok_and(|bound| bound != *cpus) {
                drop(thread.pin_to_set(cpus));
            }
        });
    }

    /// No other thread binds the calling one from now on: its number may soon be another one's.
    pub(super) fn leaves(&self) {
        self.system.leave();
    }

    pub(crate) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// It runs on this CPU at the moment.
    #[inline]
    pub(crate) fn note_cpu(&self) {
        self.cpu.store(affinity::current_cpu().unwrap_or(0), Ordering::Relaxed);
    }

    /// It was seen on this CPU by somebody else.
    pub(crate) fn seen_on(&self, cpu: usize) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// Binds a sleeping worker to where it is about to be woken.
    pub(crate) fn place(&self, cpus: &CpuSet, brings_home: bool) {
        self.pin(cpus);
        self.brought_home.store(brings_home, Ordering::Relaxed);
        self.placed.store(true, Ordering::Relaxed);
    }

    /// The owner has been woken: was it placed, and brought home by that?
    pub(super) fn was_placed(&self) -> Option<bool> {
        let placed = self.placed.swap(false, Ordering::Relaxed);
        placed.then(|| self.brought_home.load(Ordering::Relaxed))
    }

    /// Keeps what the present item says of itself. Returns what it said before.
    pub(super) fn describe(&self, said: Option<(u64, String)>) -> Option<(u64, String)> {
        std::mem::replace(&mut *self.description.lock(), said)
    }

    /// The type of the item that it had when its word was `seen`, as the compiler names it. `None` if it had none then, or
    /// has another one by now.
    pub(crate) fn item_type(&self, seen: WorkerState) -> Option<&'static str> {
        let (item_type, _) = self.subject.of(&self.cell, seen)?;
        // SAFETY: of a worker that has an item, it is what `work_for` has published: the address of something static.
        Some(unsafe { item_type.as_ref() }?.name())
    }

    /// The name of that item's queue. Takes locks for a moment.
    pub(crate) fn queue_name(&self, seen: WorkerState) -> Option<String> {
        self.with_queue(seen, |queue| queue.name().to_owned())
    }

    /// Looks at that item's queue, which is kept in place meanwhile. Takes locks for a moment.
    pub(crate) fn with_queue<R>(&self, seen: WorkerState, look: impl FnOnce(&Queue) -> R) -> Option<R> {
        self.with_shard(seen, |shard| look(shard.queue()))
    }

    /// Calls `act` with the shard of that item, which is kept in place meanwhile, as is its queue.
    pub(in super::super) fn with_shard<R>(
        &self,
        seen: WorkerState,
        act: impl FnOnce(&Shard) -> R,
    ) -> Option<R> {
        self.subject.with_shard(&self.cell, seen, |number, is_the_same| {
            let mut result = None;
            shard::with_shard(number, |shard| result = is_the_same().then(|| act(shard)));
            result
        })
    }

    /// For how long it has been at the item that it had when its word was `seen`. `None` if it had none then, or has another
    /// one by now. Among items of microseconds, also what those before have taken; otherwise some milliseconds too much at
    /// most.
    pub(crate) fn age(&self, seen: WorkerState) -> Option<Duration> {
        let since = self.reading.time_before(seen.sequence())?;
        let age = clock::now().since(since);
        self.subject.of(&self.cell, seen).map(|_| age)
    }

    /// How much CPU time that item has surely used, and is in no count yet.
    pub(crate) fn cpu_time(&self, seen: WorkerState) -> Option<Duration> {
        let used = self.with_thread(thread_state::cpu_time)?.ok()?;
        let is_first = self.reading.was_before(seen.sequence());
        let since = self.reading.since(as_nanos(used));
        let own = surely_own(Duration::from_nanos(since), is_first);
        self.subject.of(&self.cell, seen).map(|_| own)
    }

    /// The same if it is an item of this shard.
    pub(in super::super) fn cpu_time_for(&self, shard: ShardId) -> Option<Duration> {
        let seen = self.cell.load();
        let (_, own) = self.subject.of(&self.cell, seen)?;
        if own == shard { self.cpu_time(seen) } else { None }
    }

    /// What the item that it executes has said of itself.
    pub(crate) fn description(&self) -> Option<String> {
        self.description_of(self.cell.load())
    }

    /// What the item that it had when its word was `seen` has said of itself so far.
    pub(crate) fn description_of(&self, seen: WorkerState) -> Option<String> {
        let description = self.description.lock();
        let (item, text) = description.as_ref()?;
        (seen.phase().has_item() && *item == seen.sequence()).then(|| text.clone())
    }

    /// Outside of the pool's lock: this is a system call.
    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }
}
