//! A reusable item: a function that is queued again and again.
//!
//! Handles, entries and the run all point at the same cell. Who of them is the last is decided by the state word
//! alone (see `policy::item`), so that queueing counts no reference.
#![allow(unsafe_code, reason = "handles and entries share the item, and whoever is last frees it")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::item::{Ended, ItemCell, NotDisabled, Popped, TakenBack};
use crate::protocol::signal::Signal;
use crate::sys::fork::Origin;
use crate::sys::wait::Until;

use super::entry::{Entry, Header, ItemOperations};
use super::item_type::ItemType;
use super::refusal::WaitError;
use super::route;
use super::shard;
use super::timers::TimerName;
use super::user_code::{contain, destroy, discard};
use super::waits;
use super::worker::WorkerThread;

/// See the module. `repr(C)`: a pointer to the item is one to its header.
#[repr(C)]
pub(crate) struct WorkItem {
    pub(super) header: Header,
    pub(crate) cell: ItemCell<Entry, TimerName>,
    /// The process in which it was made: it can be queued, and waited for, in no other.
    pub(crate) origin: Origin,
    pub(super) item_type: &'static ItemType,
    function: Box<Function>,
}

static OPERATIONS: ItemOperations = ItemOperations { execute, abandon, item_type };

pub(crate) type Function = dyn Fn(&WorkHandle) + Send + Sync;

/// A user's handle of an item.
pub(crate) struct WorkHandle(NonNull<WorkItem>);

// SAFETY: an item is shared by threads: its function is `Send` and `Sync`, its cell is made for it, and the entries in
// its ledger are `Send`.
unsafe impl Send for WorkHandle {}
// SAFETY: as above.
unsafe impl Sync for WorkHandle {}

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

    /// A handle more of an item that is running.
    ///
    /// # Safety
    ///
    /// The header is of a reusable item, inside whose function the caller is.
    pub(super) unsafe fn of_running(item: NonNull<Header>) -> Self {
        // Borrowed from the run, which counts in the item's word; the clone is counted by itself.
        let running = ManuallyDrop::new(Self(item.cast()));
        Self::clone(&running)
    }

    /// What an entry points at. The word that says so keeps the item in place for it.
    #[inline]
    pub(crate) fn item(&self) -> NonNull<Header> {
        self.0.cast()
    }
}

impl Deref for WorkHandle {
    type Target = WorkItem;

    #[inline]
    fn deref(&self) -> &WorkItem {
        // SAFETY: this handle is counted in the item's word, or borrowed from its run; both keep it in place.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for WorkHandle {
    fn clone(&self) -> Self {
        self.cell.add_handle();
        Self(self.0)
    }
}

impl Drop for WorkHandle {
    fn drop(&mut self) {
        if self.cell.drop_handle() {
            // SAFETY: the word says that this was the last one to know the item.
            unsafe { free(self.0) };
        }
    }
}

impl WorkItem {
    pub(crate) fn type_name(&self) -> &'static str {
        self.item_type.name()
    }

    /// Takes a pending queueing back: was there one? In a forked process there is none, since nobody would run it; and
    /// the ledger is not touched there by any of these.
    pub(crate) fn cancel(&self) -> bool {
        if self.origin.is_forked() {
            return false;
        }
        self.complete_taken_back(self.cell.cancel())
    }

    /// Takes a pending queueing back and keeps others out.
    pub(crate) fn disable(&self) -> bool {
        if self.origin.is_forked() {
            return false;
        }
        let (taken, _) = self.cell.disable(false);
        self.complete_taken_back(taken)
    }

    /// The same, and waits for the run that has begun.
    pub(crate) fn disable_sync(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        self.wait(run, until).map(|_waited| was_pending)
    }

    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        if self.origin.is_forked() {
            return Err(NotDisabled);
        }
        self.cell.enable()
    }

    /// Takes a pending queueing back, waits for the run that has begun, and keeps queueings out meanwhile.
    pub(crate) fn cancel_sync(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        let waited = self.wait(run, until);
        // Refused if somebody has enabled it once too often meanwhile, and so taken this one's place.
        let _enabled = self.cell.enable();
        waited.map(|_waited| was_pending)
    }

    /// Waits for the last queueing, or for the run that has begun: false if there is neither. What a timer holds is
    /// queued now.
    pub(crate) fn flush(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        waits::check_queueing(self)?;
        // First: what is fired may have run before the next line.
        let last = self.cell.last_queueing();
        if self.cell.load().is_armed() {
            if let Some(name) = self.cell.timer() {
                name.lane().map_or(Ok(()), waits::check_lane)?;
                name.take().into_iter().for_each(|timer| timer.fire(&name));
            }
        }
        self.wait(last, until)
    }

    /// True if there was something to wait for.
    fn wait(&self, signal: Option<Arc<Signal>>, until: Until) -> Result<bool, WaitError> {
        let Some(signal) = signal else { return Ok(false) };
        let target = waits::Target::Work { item: self, signal: &signal };
        waits::wait(target, until, |until| signal.wait(until)).map(|()| true)
    }

    /// Sees to what a queueing leaves behind that was taken back.
    pub(crate) fn complete_taken_back(&self, taken: TakenBack<Entry, TimerName>) -> bool {
        if let Some(entry) = taken.kept {
            // It had been popped, so no worker will come for it.
            entry.shard().events.cancelled.raise();
            entry.shard().queue().left_pending();
            if let Some(next) = shard::complete(entry) {
                route::submit(next);
            }
        }
        // The timer's handles of the item and of the queue go here, where no lock is held.
        drop(taken.timer.and_then(|timer| timer.take()));
        taken.was_pending
    }
}

/// # Safety
///
/// The item's word says that it is over, and this thread brought it there.
unsafe fn free(item: NonNull<WorkItem>) {
    // SAFETY: items come from boxes, and nobody else has a way to this one.
    let item = unsafe { Box::from_raw(item.as_ptr()) };
    destroy(move || drop(item));
}

/// # Safety
///
/// The entry is of a reusable item.
unsafe fn execute(entry: Entry, worker: &WorkerThread) {
    let shard = entry.shard().id();
    let item: NonNull<WorkItem> = entry.item().cast();
    // SAFETY: the item's word counts this entry, so it is in place until `begin` has taken the entry out of it, and
    // through the run if that is what `begin` says.
    let work = unsafe { item.as_ref() };
    match work.cell.begin(shard, entry) {
        // The item has it now; its slot stays with it.
        Popped::Kept => waits::slot_was_kept(),
        // SAFETY: `begin` said so.
        Popped::KeptLast => contain(|| unsafe { free(item) }),
        Popped::Stale(entry) => worker.pass_over(entry),
        Popped::Last(entry) => {
            // What is dropped here is the item's: if it waits for the queue, it waits for this very entry.
            worker.own(&entry);
            // SAFETY: `begin` said so.
            contain(|| unsafe { free(item) });
            worker.pass_over(entry);
        }
        Popped::Run(entry) => {
            // Borrowed from the run, not counted.
            let handle = ManuallyDrop::new(WorkHandle(item));
            let result = worker.call(&entry, work.item_type, Some(work), || (work.function)(&handle));
            if let Err(payload) = result {
                discard(payload);
            }
            match work.cell.end() {
                Ended::Idle => {}
                Ended::PutBack(next) => route::put_back(next),
                // SAFETY: `end` said so.
                Ended::Last => contain(|| unsafe { free(item) }),
            }
            worker.complete(entry);
        }
    }
}

/// # Safety
///
/// As [`ItemOperations`] says; the entry was popped from a list.
unsafe fn abandon(item: NonNull<Header>, entry: Option<&Entry>) -> bool {
    let item: NonNull<WorkItem> = item.cast();
    let entry = entry.expect("a reusable item that is on no list has no entry to give up");
    // SAFETY: the item's word counts the entry until `abandon` has taken it out.
    let (would_have_run, over) = unsafe { item.as_ref() }.cell.abandon(entry.shard().id(), entry.ticket());
    if over {
        // SAFETY: `abandon` said so.
        contain(|| unsafe { free(item) });
    }
    would_have_run
}

/// # Safety
///
/// The item is a reusable one, and the caller has an entry of it.
unsafe fn item_type(item: NonNull<Header>) -> &'static ItemType {
    // SAFETY: the item's word counts the entry, which keeps it in place.
    unsafe { item.cast::<WorkItem>().as_ref() }.item_type
}

impl fmt::Debug for WorkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("function", &self.type_name())
            .field("state", &self.cell.load())
            .finish()
    }
}
