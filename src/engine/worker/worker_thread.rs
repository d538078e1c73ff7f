//! The private side of a worker thread: its current item, and how it runs and completes an entry. The main loop is in
//! `life`.
#![allow(
    unsafe_code,
    reason = "a thread-local pointer leads to the worker that lives on the thread's own stack"
)]

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_deque::Worker as List;

use crate::policy::idle_set::WorkerId;
use crate::policy::item::ShardId;
use crate::policy::local::Row;
use crate::policy::parts::Stretch;
use crate::policy::worker::Phase;
use crate::protocol::counters::Start;
use crate::protocol::turns::OwnedTurn;
use crate::sys::fork::{self, Origin};
use crate::sys::sync::Ordering;
use crate::sys::{self, affinity, machine};

use crate::engine::executor::core::Core;
use crate::engine::executor::reports::PanicReport;
use crate::engine::item::entry::{ByWorker, Entry, ItemType};
use crate::engine::item::fork_head::ForkAddress;
use crate::engine::item::work::WorkItem;
use crate::engine::pool::calls::Rescuer;
use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::admission;
use crate::engine::queue::shard::Shard;
use crate::engine::queue::workqueue::Queue;
use crate::engine::trace;
use crate::engine::trace::subscriber::Parent;
use crate::engine::user_code::contain;

use super::counters::meter::{Course, Meter};
use super::current::{self, Current};
use super::shared::Worker;
use super::stock::Stocktaking;

/// The exit status of a process that was ended by a panic. The standard library uses the same status.
pub(crate) const STATUS_OF_A_PANIC: i32 = 101;

/// The payload that [`WorkerThread::call`] returns for an item that did not run, because its queue gives its items up.
pub(crate) struct NotRun;

thread_local! {
    static CURRENT: Cell<*const WorkerThread> = const { Cell::new(std::ptr::null()) };
}

/// The private side of a worker, or of a rescuer while it serves a pool. The value lives on its thread's own stack, and
/// no other thread has a reference to it. So all fields are `O` (only their owner uses them).
pub(crate) struct WorkerThread {
    pub(crate) pool: Arc<Pool>,
    /// The process of the executor. With this value, the thread can tell whether it runs in a forked child process.
    origin: Origin,
    pub(super) shared: Arc<Worker>,
    /// The number of blocking guards that the present item has open.
    pub(super) guards: Cell<u32>,
    /// The number of `may_block` guards that the present item has open.
    pub(super) weak_guards: Cell<u32>,
    /// The item that the worker executes, until the item's entry is completed. [`current`](Self::current) adds the
    /// item's `work`, which is null here.
    pub(super) current: Cell<Option<Current>>,
    /// The current item's [`work`](Current::work). It is in a cell of its own because it changes during a run.
    called: Cell<*const WorkItem>,
    /// The entry that the worker executes next, bypassing the worklist. The last completed entry passed its slot to
    /// this entry.
    pub(super) next_entry: Cell<Option<Entry>>,
    /// The entries that this worker's items have pushed, and that have stayed with this worker.
    pub(super) local: List<Entry>,
    /// The forks that this worker's current item has made. The list is made with the first fork.
    pub(super) forks: OnceCell<List<ForkAddress>>,
    /// Whether the thread waits for a fork, and keeps its place in the pool. Only the outermost level uses this field.
    pub(super) keeps_place: Cell<bool>,
    /// The fork that this worker runs, if its current item is a fork.
    pub(super) runs: Cell<Option<ForkAddress>>,
    /// The number of local items that the worker has run in a row.
    pub(super) row: Cell<Row>,
    /// The entries that the worker takes from one part of the worklist. Unused if the worklist has only one part.
    pub(super) stretch: Cell<Stretch>,
    pub(super) meter: Meter,
    pub(super) stocktaking: Stocktaking,
    /// The turn of a weighted queue in which the worker's item runs. The worker reports the item's CPU time when it
    /// takes its next entry, or when it takes no further entry.
    pub(super) turn: Cell<Option<OwnedTurn>>,
    /// The id of the queue whose name the thread has taken on. 0 if the thread has its own name.
    pub(super) named_after: Cell<u64>,
    /// Whether the worker was brought home to its pod since the last item.
    pub(super) brought_back: Cell<bool>,
    pub(super) role: Role,
    /// Whether the pool's count stays the same when an item on this thread blocks. The count stays the same for each
    /// thread that is not the pool's own, and for each worker of a pool that does not manage concurrency.
    uncounted: bool,
}

/// The kind of a thread that executes items in a pool.
pub(super) enum Role {
    /// A worker of the pool.
    Own,
    /// A rescuer, which does not belong to the pool's idle set.
    Rescuer(Arc<Rescuer>),
    /// A thread that is [lent](super::lent) to one item. If the thread was already executing another item, `outer` is
    /// the worker of that item. This worker is further up the stack, so it outlives this value. `runs_part` says
    /// whether the item is a part of a fork for which the outer item waits.
    Lent { outer: Option<NonNull<WorkerThread>>, runs_part: bool },
}

/// Calls `look` with the worker that runs on the calling thread, or with `None` if the thread is not a worker. In a
/// child process that an item forked, the thread is no longer a worker.
#[inline]
pub(crate) fn with_current<R>(look: impl FnOnce(Option<&WorkerThread>) -> R) -> R {
    let worker = CURRENT.get();
    // SAFETY: `with_thread` sets the pointer to a worker on this thread's stack, and resets it before that worker is
    // dropped. Otherwise it is null.
    look(unsafe { worker.as_ref() }.filter(|worker| !worker.origin.is_forked()))
}

/// Runs a worker thread from its beginning to its end.
pub(crate) fn run(pool: Arc<Pool>, id: WorkerId) {
    pool.begin_at_home();
    let bound = pool.bind();
    set_nice(&pool.core, pool.spec.nice);
    pool.core.thread_starts();
    let local = List::new_fifo();
    let shared = Arc::new(Worker::new(id, Phase::Waking, local.stealer()));
    let rest = pool.arrive(&shared);
    pool.keep_bound(bound);
    let core = Arc::clone(&pool.core);
    {
        let worker = WorkerThread::new(pool, shared, local, Role::Own);
        worker.with_thread(|| worker.live(rest));
        debug_assert!(worker.local.is_empty(), "a worker that leaves has given its local entries up");
        worker.shared.leaves();
        worker.pool.left(id);
    }
    core.thread_stops();
}

/// Gives the calling thread the nice level of the pools that it works for.
pub(crate) fn set_nice(core: &Core, nice: i32) {
    let granted =
        sys::thread::current_nice().is_ok_and(|own| own == nice) || sys::thread::set_nice(nice).is_ok();
    core.denials.nice(granted, nice);
}

impl WorkerThread {
    pub(super) fn new(pool: Arc<Pool>, shared: Arc<Worker>, local: List<Entry>, role: Role) -> Self {
        let uncounted = !matches!(role, Role::Own) || !pool.spec.manages_concurrency();
        let meter = Meter::new(Arc::clone(&shared));
        Self {
            origin: pool.core.origin,
            stocktaking: Stocktaking::new(pool.may_be_brisk()),
            pool,
            shared,
            guards: Cell::new(0),
            weak_guards: Cell::new(0),
            current: Cell::new(None),
            called: Cell::new(std::ptr::null()),
            next_entry: Cell::new(None),
            local,
            forks: OnceCell::new(),
            keeps_place: Cell::new(false),
            runs: Cell::new(None),
            row: Cell::new(Row::default()),
            stretch: Cell::new(Stretch::default()),
            meter,
            turn: Cell::new(None),
            named_after: Cell::new(0),
            brought_back: Cell::new(false),
            role,
            uncounted,
        }
    }

    /// Makes this value the worker of the calling thread during the call.
    pub(super) fn with_thread(&self, work: impl FnOnce()) {
        /// Makes the former worker the worker of the thread again.
        struct Former(*const WorkerThread);
        impl Drop for Former {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _former = Former(CURRENT.replace(std::ptr::from_ref(self)));
        work();
    }

    /// Returns the worker that executes an entry.
    #[inline]
    pub(crate) fn of(by: ByWorker<'_>) -> &Self {
        // SAFETY: only `execute` below makes a `ByWorker`, and makes it from a worker of this type.
        unsafe { by.worker() }
    }

    #[inline]
    pub(crate) fn execute(&self, entry: Entry) {
        // SAFETY: workers are of this type, and no other function executes entries.
        entry.execute(unsafe { ByWorker::new(self) });
    }

    pub(super) fn has_next(&self) -> bool {
        let entry = self.next_entry.take();
        let has = entry.is_some();
        self.next_entry.set(entry);
        has
    }

    /// Calls an item's function. If the function panics, reports the panic and returns its payload. If the item's queue
    /// gives its items up, drops the function instead, counts the item as cancelled, and returns the payload
    /// [`NotRun`]. `work` is the reusable item, or [`ONE_SHOT`](current::ONE_SHOT). `parent` is the issuer's span.
    #[inline]
    pub(crate) fn call<R>(
        &self,
        entry: &Entry,
        item_type: &'static ItemType,
        work: *const WorkItem,
        parent: Parent,
        function: impl FnOnce() -> R,
    ) -> std::thread::Result<R> {
        // The shard is read only once, because finding it takes one more load if the entry has a ticket.
        let shard = entry.shard();
        let is_usual = !shard.queue().is_unusual.load(Ordering::Relaxed) && self.named_after.get() == 0;
        if !is_usual && !self.runs_unusual(shard.queue()) {
            self.own(entry);
            contain(|| drop(function));
            self.skip(entry);
            return Err(Box::new(NotRun));
        }
        self.begin(entry, shard, item_type, work);
        let execution = trace::execute_start(entry, item_type, &self.pool, parent);
        let timed = entry.begins(&shard.timing);
        let result = if machine::MAY_EXIST && !is_usual {
            trace::call_on_machine(entry, item_type, &self.pool, function)
        } else {
            catch_unwind(AssertUnwindSafe(function))
        };
        if self.origin.is_forked() {
            // The item has forked, and this is the child process. The child must not go on as a worker, because only
            // the parent may complete the entry.
            fork::end_process(if result.is_ok() { 0 } else { STATUS_OF_A_PANIC });
        }
        if let Some(begun) = &timed {
            shard.timing.ends(begun);
        }
        trace::execute_end(execution, entry, item_type, &self.pool, result.is_err());
        self.end();
        self.meter.ended(|| self.course());
        if let Err(payload) = &result {
            shard.events.panicked.raise();
            self.report_panic(shard.queue(), item_type, payload.as_ref());
        }
        result
    }

    /// Publishes the CPU on which the worker runs, if its pool's workers may run on different CPUs.
    #[inline]
    fn note_cpu(&self) {
        if self.pool.has_several_cpus() {
            self.shared.note_cpu();
        }
    }

    #[cold]
    pub(super) fn is_the_one_to_shed(&self) -> bool {
        // The system may have moved the worker while it ran or was blocked.
        self.note_cpu();
        self.pool.should_shed(&self.shared)
    }

    /// Notes that this thread works for the entry from now on, until the entry is completed.
    pub(crate) fn own(&self, entry: &Entry) {
        self.work_for(entry, entry.shard(), ItemType::LEFT_BEHIND, std::ptr::null());
    }

    // This function is always inlined, because two more calls for each item would cost 17 instructions. Without the
    // attribute, code in other modules would decide whether the compiler inlines this function.
    #[inline(always)]
    fn work_for(&self, entry: &Entry, shard: &Shard, item_type: &'static ItemType, work: *const WorkItem) {
        self.current.set(Some(Current {
            shard: NonNull::from(shard),
            item: entry.item().as_ptr(),
            work: std::ptr::null(),
        }));
        self.called.set(work);
        current::begins(entry, item_type);
        self.shared.current_item.publish(item_type, shard.id());
        self.shared.cell.begin_item(if self.uncounted { Phase::Uncounted } else { Phase::Running });
    }

    #[inline(always)] // for the same reason as `work_for`
    fn begin(&self, entry: &Entry, shard: &Shard, item_type: &'static ItemType, work: *const WorkItem) {
        // An uncounted worker finds out its CPU for each item, because it may sleep and be moved within a window.
        let looks_around = self.meter.approaches(&shard.account) || self.uncounted;
        self.work_for(entry, shard, item_type, work);
        shard.queue().left_pending();
        if looks_around {
            self.look_around(shard);
        }
        self.meter.begins();
        if shard.cpu_intensive && !self.uncounted {
            if self.shared.cell.uncount() {
                self.pool.running.leave();
            }
            self.pool.look();
        }
    }

    /// Finds out where the worker runs. A counted worker does this for the first item of a window, and for each item
    /// that follows an item of another shard. Any other item starts at the place of the item before it.
    #[inline(never)]
    fn look_around(&self, shard: &Shard) {
        // Both uses of `cpu` below share one system call.
        let cpu = if self.pool.has_home_or_several_cpus() { affinity::current_cpu() } else { None };
        self.meter.starts(self.start_of(shard, cpu));
        if self.brought_back.take() {
            shard.events.brought_back.raise();
        }
        if !self.uncounted && self.pool.has_several_cpus() {
            self.shared.seen_on(cpu.unwrap_or(0));
        }
    }

    /// Returns where an item starts. `cpu` is this thread's CPU, which is known if the pool has a home or several CPUs.
    #[inline]
    fn start_of(&self, shard: &Shard, cpu: Option<usize>) -> Start {
        if !shard.is_led_to(&self.pool) && shard.pool().is_sibling_of(&self.pool) {
            Start::Stolen
        } else if self.pool.spec.is_home(|| cpu) {
            Start::Home
        } else {
            Start::Away
        }
    }

    /// Returns the course of the item whose function has just ended.
    #[inline]
    fn course(&self) -> Course {
        let word = self.shared.cell.load();
        match word.phase() {
            _ if word.runs_straight() => Course::Straight,
            Phase::Uncounted => Course::Unknown,
            _ => Course::Interrupted,
        }
    }

    /// Ends the guards that are still open when the item's function has ended. The item has forgotten these guards with
    /// `mem::forget`, or has stored them where the guards outlive the item.
    #[inline(always)] // for the same reason as `work_for`
    fn end(&self) {
        self.called.set(std::ptr::null());
        if self.weak_guards.take() != 0 {
            self.leave_may_block();
        }
        if self.guards.take() != 0 {
            self.unblock(false);
        }
    }

    /// Puts the worker back into the pool's count if a guard, the detector or a CPU-intensive queue has taken the
    /// worker out. The worker calls this before it passes the item's slot on, so that the issuer of the next item finds
    /// a running worker.
    #[inline]
    fn item_ends(&self) {
        self.guards.set(0);
        self.weak_guards.set(0);
        if self.uncounted {
            self.shared.cell.set_phase(Phase::Between);
        } else if self.shared.cell.end_item() {
            self.pool.running.come_back();
            self.has_come_back();
        }
    }

    /// Completes an entry and passes its slot to its *heir*: the first entry that waits for a slot, if there is one. If
    /// the heir belongs to this pool, and need not [give way](Self::gives_way_to_others) to other entries, this worker
    /// executes it next, bypassing the worklist. Rescuers and lent threads submit the heir in every case.
    #[inline(always)] // for the same reason as `work_for`
    pub(crate) fn complete(&self, entry: Entry) {
        self.current.set(None);
        self.item_ends();
        if let Some(next) = admission::complete(entry) {
            let route_epoch = self.pool.route_epoch.load();
            if !matches!(self.role, Role::Own) || !next.shard().leads_to(&self.pool) {
                self.hand_over(next);
            } else if self.gives_way_to_others(&next) {
                self.submit_next(next, route_epoch);
            } else {
                self.next_entry.set(Some(next));
            }
        }
    }

    /// Runs code that may call a user's destructor. The destructor may block. So if the worker is between two items,
    /// guards and the blocking detector treat the code as an item, whose shard is unknown.
    #[cold]
    pub(crate) fn between_items(&self, code: impl FnOnce()) {
        if self.shared.cell.load().phase() != Phase::Between {
            return contain(code);
        }
        self.shared.current_item.publish(ItemType::LEFT_BEHIND, ShardId::UNKNOWN);
        self.shared.cell.begin_item(if self.uncounted { Phase::Uncounted } else { Phase::Running });
        contain(code);
        self.item_ends();
    }

    /// Completes an entry without running it, because its submission was cancelled.
    pub(crate) fn pass_over(&self, entry: Entry) {
        self.skip(&entry);
        self.complete(entry);
    }

    /// Completes an entry as [`pass_over`](Self::pass_over) does. `late` says whether the item's deadline had passed.
    pub(crate) fn pass_over_late(&self, entry: Entry, late: bool) {
        if late {
            entry.shard().events.expired.raise();
        }
        self.pass_over(entry);
    }

    /// Counts an item as cancelled. The item's entry is completed without a run.
    fn skip(&self, entry: &Entry) {
        entry.shard().events.cancelled.raise();
        entry.shard().queue().left_pending();
    }

    #[cold]
    fn report_panic(&self, queue: &Queue, item_type: &'static ItemType, payload: &(dyn Any + Send)) {
        let report = PanicReport { queue: queue.name(), item_type: item_type.name(), payload };
        self.pool.core.item_panicked(&report);
    }

    /// Notes that the worker counts as running again.
    #[inline]
    pub(super) fn has_come_back(&self) {
        // The system may have moved the worker while it slept. Meanwhile, other workers may have taken entries.
        self.note_cpu();
        self.stretch.set(self.stretch.get().over());
        self.pool.core.environment.active();
    }

    pub(crate) fn current(&self) -> Option<Current> {
        Some(Current { work: self.called.get(), ..self.current.get()? })
    }
}
