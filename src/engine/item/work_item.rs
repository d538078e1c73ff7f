//! What becomes of a reusable item: how it is cancelled, disabled and waited for, and how a worker executes it.
#![allow(unsafe_code, reason = "handles and entries share the item, and the last of them frees it")]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::item::{Ended, ItemCell, NotDisabled, Popped, TakenBack};
use crate::protocol::signal::Signal;
use crate::sys::fork::Origin;
use crate::sys::wait::Until;

use crate::engine::queue::{admission, route};
use crate::engine::refusal::WaitError;
use crate::engine::user_code::{contain, discard};
use crate::engine::worker::worker_thread::WorkerThread;

use super::entry::{ByWorker, Entry, Header, ItemOperations, ItemType};
use super::timers::TimerName;
use super::waits::register::{self, Target};
use super::waits::{self};
use super::work::{Function, WorkHandle, WorkItem, free};

static OPERATIONS: ItemOperations = ItemOperations { execute, abandon, item_type };

impl WorkHandle {
    pub(crate) fn new(item_type: &'static ItemType, function: Box<Function>) -> Self {
        let item = WorkItem {
            header: Header::new(&OPERATIONS),
            cell: ItemCell::new(),
            origin: Origin::here(),
            item_type,
            function,
        };
        Self(NonNull::from(Box::leak(Box::new(item))))
    }
}

impl WorkItem {
    /// Cancels a pending submission. Returns whether there was one. In a forked process there is none, since no
    /// thread would run it. There, this and the following functions do not use the slow-path state, whose lock a thread
    /// of the parent may have held.
    pub(crate) fn cancel(&self) -> bool {
        if self.origin.is_forked() {
            return false;
        }
        self.complete_taken_back(self.cell.cancel())
    }

    /// Cancels a pending submission, and refuses others from now on. Returns whether one was pending.
    pub(crate) fn disable(&self) -> bool {
        if self.origin.is_forked() {
            return false;
        }
        let (taken, _) = self.cell.disable(false);
        self.complete_taken_back(taken)
    }

    /// Disables the item, and waits for the run that has begun. Returns whether a submission was pending.
    pub(crate) fn disable_sync(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        self.wait(run, until).map(|_waited| was_pending)
    }

    /// Undoes one `disable`. Returns whether it was the last one.
    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        if self.origin.is_forked() {
            return Err(NotDisabled);
        }
        self.cell.enable()
    }

    /// Cancels a pending submission, and waits for the run that has begun. Refuses submissions meanwhile. Returns
    /// whether one was pending.
    pub(crate) fn cancel_sync(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        let waited = self.wait(run, until);
        // An error if another thread has enabled the item once too often meanwhile, and so undone the `disable` above.
        let _enabled = self.cell.enable();
        waited.map(|_waited| was_pending)
    }

    /// Waits for the last submission, or for the run that has begun. Returns false if there is neither. If a timer is
    /// armed, fires it now.
    pub(crate) fn flush(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_submission(self)?;
        // Before the timer is fired: the item may run before `fire` returns.
        let last = self.cell.last_submission();
        if self.cell.load().is_armed() {
            if let Some(name) = self.cell.timer() {
                name.lane().map_or(Ok(()), waits::check_lane)?;
                name.take().into_iter().for_each(|timer| timer.fire(&name));
            }
        }
        self.wait(last, until)
    }

    /// Returns whether there was something to wait for.
    fn wait(&self, signal: Option<Arc<Signal>>, until: Until) -> Result<bool, WaitError> {
        let Some(signal) = signal else { return Ok(false) };
        let target = Target::Work { item: self, signal: &signal };
        waits::wait(target, until, |until| signal.wait(until)).map(|()| true)
    }

    /// Completes the entry, and drops the timer, that a cancelled submission leaves behind. Returns whether a
    /// submission was cancelled.
    pub(crate) fn complete_taken_back(&self, taken: TakenBack<Entry, TimerName>) -> bool {
        if let Some(entry) = taken.kept {
            // A worker has popped this entry already, and left it with the item. So this thread completes it.
            entry.shard().events.cancelled.raise();
            entry.shard().queue().left_pending();
            if let Some(next) = admission::complete(entry) {
                route::submit(next);
            }
        }
        // This drops the timer's handles of the item and of the queue, while no lock is held.
        drop(taken.timer.and_then(|timer| timer.take()));
        taken.was_pending
    }
}

/// # Safety
///
/// The entry is of a reusable item.
unsafe fn execute(entry: Entry, by: ByWorker<'_>) {
    let worker = WorkerThread::of(by);
    let shard = entry.shard().id();
    let item: NonNull<WorkItem> = entry.item().cast();
    // SAFETY: the item's word tells of this entry. So the item stays in memory until `begin` has taken the entry out
    // of the word, and during the run if `begin` returns `Run`.
    let work = unsafe { item.as_ref() };
    match work.cell.begin(shard, entry) {
        // The item has the entry now, and the entry keeps its slot.
        Popped::Kept => register::slot_was_kept(),
        // SAFETY: `begin` returned that the item is over.
        Popped::KeptLast => contain(|| unsafe { free(item) }),
        Popped::Stale(entry) => worker.pass_over(entry),
        Popped::Last(entry) => {
            // The worker owns the entry while the item's function is dropped. If a destructor waits for the queue, it
            // would wait for this entry, and is refused.
            worker.own(&entry);
            // SAFETY: `begin` returned that the item is over.
            contain(|| unsafe { free(item) });
            worker.pass_over(entry);
        }
        Popped::Run(entry) => {
            // Not counted, so not dropped: the run keeps the item in memory.
            let handle = ManuallyDrop::new(WorkHandle(item));
            let result = worker.call(&entry, work.item_type, Some(work), || (work.function)(&handle));
            if let Err(payload) = result {
                discard(payload);
            }
            match work.cell.end() {
                Ended::Idle => {}
                Ended::PutBack(next) => route::put_back(next),
                // SAFETY: `end` returned that the item is over.
                Ended::Last => contain(|| unsafe { free(item) }),
            }
            worker.complete(entry);
        }
    }
}

/// # Safety
///
/// As for [`ItemOperations`]; the entry was popped from a list.
unsafe fn abandon(item: NonNull<Header>, entry: Option<&Entry>) -> bool {
    let item: NonNull<WorkItem> = item.cast();
    let entry = entry.expect("a reusable item is given up only for an entry");
    // SAFETY: the item's word tells of the entry until `abandon` has taken it out.
    let (would_have_run, over) = unsafe { item.as_ref() }.cell.abandon(entry.shard().id(), entry.ticket());
    if over {
        // SAFETY: `abandon` returned that the item is over.
        contain(|| unsafe { free(item) });
    }
    would_have_run
}

/// # Safety
///
/// The item is a reusable one, and the caller has an entry of it.
unsafe fn item_type(item: NonNull<Header>) -> &'static ItemType {
    // SAFETY: the item's word tells of the entry, which keeps the item in memory.
    unsafe { item.cast::<WorkItem>().as_ref() }.item_type
}
