//! The operations on a reusable item: how threads cancel it, disable it and wait for it, and how a worker executes it.
#![allow(unsafe_code, reason = "handles and entries share the item, and the last of them frees it")]

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::item::{Ended, ItemCell, NotDisabled, Popped, TakenBack};
use crate::protocol::signal::Signal;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::wait::Until;

use crate::engine::carrier::Carried;
use crate::engine::queue::{admission, route};
use crate::engine::refusal::WaitError;
use crate::engine::trace::subscriber::Parent;
use crate::engine::user_code::{contain, discard};
use crate::engine::worker::worker_thread::WorkerThread;

use super::entry::{Abandoned, ByWorker, Entry, Header, ItemOperations, ItemType, Share};
use super::timers::TimerName;
use super::token::Token;
use super::waits::register::{self, Target};
use super::waits::task::SignalWait;
use super::waits::{self};
use super::work::{Function, WorkHandle, WorkItem, free};

/// The number that the next reusable item gets.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

static OPERATIONS: ItemOperations = ItemOperations { execute, abandon, item_type };

impl WorkHandle {
    pub(crate) fn new(item_type: &'static ItemType, function: Box<Function>) -> Self {
        Self::with_token(item_type, None, function)
    }

    /// Makes a reusable item. `token` is the token of the item's runs, if they have one, and `function` itself enters
    /// the token.
    pub(crate) fn with_token(
        item_type: &'static ItemType,
        token: Option<Token>,
        function: Box<Function>,
    ) -> Self {
        let item = WorkItem {
            header: Header::new(&OPERATIONS),
            cell: ItemCell::new(),
            origin: Origin::here(),
            item_type,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            token,
            function: UnsafeCell::new(function),
        };
        Self(NonNull::from(Box::leak(Box::new(item))))
    }
}

/// Begins to wait for the item's last submission, as [`WorkItem::flush`] does. The returned future keeps the item in
/// memory.
pub(crate) fn flush(
    item: WorkHandle,
) -> impl Future<Output = Result<bool, WaitError>> + Send + Sync + 'static + use<> {
    let begun = waits::check_origin(item.origin).map(|()| item.cell.last_submission());
    if let Ok(Some((_, Some(timer)))) = &begun {
        timer.fire();
    }
    async move {
        let Some((signal, timer)) = begun? else { return Ok(false) };
        let wait = SignalWait::new(Arc::clone(&signal), item.origin);
        wait.wait(|| waits::check_submission(&item, &signal, timer.as_ref())).await.map(|()| true)
    }
}

impl WorkItem {
    /// Cancels a pending submission. Returns whether a submission was pending.
    ///
    /// In a forked process this returns false, because no thread there would run a submission. A thread of the parent
    /// may have held the lock of the slow-path state at the fork. So in a forked process, neither this function nor the
    /// following functions use the slow-path state.
    pub(crate) fn cancel(&self) -> bool {
        machine::step();
        if self.origin.is_forked() {
            return false;
        }
        self.complete_taken_back(self.cell.cancel())
    }

    /// Cancels a pending submission, and asks a run that has begun to stop. Returns whether a submission was pending.
    pub(crate) fn stop(&self) -> bool {
        let was_pending = self.cancel();
        if !self.origin.is_forked() {
            self.cell.stop();
        }
        was_pending
    }

    /// Cancels a pending submission, and makes the item refuse all later submissions. Returns whether a submission was
    /// pending.
    pub(crate) fn disable(&self) -> bool {
        machine::step();
        if self.origin.is_forked() {
            return false;
        }
        let (taken, _) = self.cell.disable(false);
        self.complete_taken_back(taken)
    }

    /// Disables the item, and waits for the end of a run that has begun. Returns whether a submission was pending.
    pub(crate) fn disable_and_wait(&self, until: Until) -> Result<bool, WaitError> {
        machine::step();
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        let waited = self.wait(run, until);
        if waited == Err(WaitError::WouldDeadlock) {
            let _enabled = self.cell.enable();
        }
        waited.map(|_waited| was_pending)
    }

    /// Undoes one `disable`. Returns whether every `disable` has now been undone.
    pub(crate) fn enable(&self) -> Result<bool, NotDisabled> {
        if self.origin.is_forked() {
            return Err(NotDisabled);
        }
        self.cell.enable()
    }

    /// Cancels a pending submission, and waits for the end of a run that has begun. During the wait, the item refuses
    /// submissions. Returns whether a submission was pending.
    pub(crate) fn cancel_and_wait(&self, until: Until) -> Result<bool, WaitError> {
        machine::step();
        waits::check_origin(self.origin)?;
        waits::check_run(self)?;
        let (taken, run) = self.cell.disable(true);
        let was_pending = self.complete_taken_back(taken);
        let waited = self.wait(run, until);
        // This call fails if another thread has called `enable` without a `disable` of its own, and has thus undone the
        // `disable` above.
        let _enabled = self.cell.enable();
        waited.map(|_waited| was_pending)
    }

    /// Waits for the end of the last submission. If no submission is pending, waits for the end of a run that has
    /// begun. Returns false if there is neither a submission nor a run. If a timer is armed, fires the timer now.
    pub(crate) fn flush(&self, until: Until) -> Result<bool, WaitError> {
        waits::check_origin(self.origin)?;
        // `check_run` is called first, so that a refused call leaves no signal in the item.
        waits::check_run(self)?;
        // The signal is taken before the timer is fired, because the item may run before `fire` returns.
        let Some((signal, timer)) = self.cell.last_submission() else { return Ok(false) };
        waits::check_submission(self, &signal, timer.as_ref())?;
        // If another thread has taken the timer to fire it, that thread has admitted the item before it took the timer.
        timer.iter().for_each(TimerName::fire);
        self.wait(Some(signal), until)
    }

    /// Waits for the signal, if there is one. Returns whether there was a signal to wait for.
    fn wait(&self, signal: Option<Arc<Signal>>, until: Until) -> Result<bool, WaitError> {
        let Some(signal) = signal else { return Ok(false) };
        let target = Target::Work { item: self, signal: &signal };
        waits::wait(target, until, || signal.is_set(), |until| signal.wait(until)).map(|()| true)
    }

    /// Completes the entry and drops the timer that a cancelled submission leaves behind. Returns whether a submission
    /// was cancelled.
    pub(crate) fn complete_taken_back(&self, mut taken: TakenBack<Entry, TimerName, Carried>) -> bool {
        complete_kept(&mut taken);
        // The drops may run user code, so this thread holds no lock here. The thread drops the values that the
        // cancelled submission carried, and the timer's handles to the item and to the queue.
        drop(taken.carried);
        drop(taken.timer.and_then(|timer| timer.take()));
        taken.was_pending
    }
}

/// Completes the entry that a cancelled submission leaves behind, if a worker has popped this entry already, and left
/// it with the item. Only the calling thread can complete the entry, which has a slot. So a caller that may run user
/// code calls this function first, because the user code may wait for the entry's queue.
pub(super) fn complete_kept(taken: &mut TakenBack<Entry, TimerName, Carried>) {
    if let Some(entry) = taken.kept.take() {
        entry.shard().events.cancelled.raise();
        entry.shard().queue().left_pending();
        if let Some(next) = admission::complete(entry) {
            route::submit(next);
        }
    }
}

/// # Safety
///
/// The entry belongs to a reusable item.
unsafe fn execute(entry: Entry, by: ByWorker<'_>) {
    let worker = WorkerThread::of(by);
    let shard = entry.shard().id();
    let item: NonNull<WorkItem> = entry.item().cast();
    // SAFETY: the item's word records this entry. So the item stays in memory until `begin` has taken the entry out of
    // the word. If `begin` begins a run, the run then keeps the item in memory.
    let work = unsafe { item.as_ref() };
    match work.cell.begin(shard, entry) {
        // The item holds the entry now, and the entry keeps its slot.
        Popped::Kept => register::slot_was_kept(item.addr().get()),
        // SAFETY: according to `begin`, the item is over.
        Popped::KeptLast => worker.between_items(|| unsafe { free(item) }),
        Popped::Stale(entry) => worker.pass_over(entry),
        Popped::Last(entry) => {
            // The worker owns the entry while the item's function is dropped. So if a destructor waits for the queue,
            // the wait is refused, because it would be a wait for this entry.
            worker.own(&entry);
            // SAFETY: according to `begin`, the item is over.
            contain(|| unsafe { free(item) });
            worker.pass_over(entry);
        }
        // SAFETY: according to `begin`, this worker executes the item.
        Popped::Run(entry) => unsafe {
            run(item, entry, worker, Parent::default(), |function, handle| function(handle));
        },
        // SAFETY: according to `begin`, this worker executes the item.
        Popped::RunCarrying(entry) => unsafe { run_carrying(item, entry, worker) },
    }
}

/// Runs the function of an item whose submission carries values.
///
/// # Safety
///
/// The worker executes the item according to the item's word, and the item is not running yet.
#[cold]
#[inline(never)]
unsafe fn run_carrying(item: NonNull<WorkItem>, entry: Entry, worker: &WorkerThread) {
    // SAFETY: the present run keeps the item in memory.
    let mut carried = unsafe { item.as_ref() }.cell.take_carried();
    let parent = carried.as_mut().map(|carried| carried.parent()).unwrap_or_default();
    let call = |function: &mut Function, handle: &WorkHandle| match (carried, &handle.token) {
        (None, _) => function(handle),
        (Some(carried), None) => carried.run(|| function(handle)),
        // The hooks may ask for the item's token, so the worker enters this token first.
        (Some(carried), Some(token)) => token.enter_item(|| carried.run(|| function(handle))),
    };
    // SAFETY: the caller promises that this worker executes the item, and that the item is not running yet.
    unsafe { run(item, entry, worker, parent, call) }
}

/// Runs an item through `call`, which calls the item's function. Then ends the run.
///
/// # Safety
///
/// The worker executes the item according to the item's word, and the item is not running yet.
#[inline]
unsafe fn run(
    item: NonNull<WorkItem>,
    entry: Entry,
    worker: &WorkerThread,
    parent: Parent,
    call: impl FnOnce(&mut Function, &WorkHandle),
) {
    // The run keeps the item in memory. This handle has no count of its own, so it must not be dropped.
    let handle = ManuallyDrop::new(WorkHandle(item));
    let work: &WorkItem = &handle;
    // SAFETY: this worker executes the item, and until `end` no other worker does so. So no other reference to the
    // function exists.
    let function = unsafe { &mut *work.function.get() };
    let result = worker.call(&entry, work.item_type, work, parent, || call(function, &handle));
    if let Err(payload) = result {
        discard(payload);
    }
    match work.cell.end(|| worker.outlives(item.cast())) {
        Ended::Idle => {}
        Ended::PutBack(next) => route::put_back(next),
        // SAFETY: according to `end`, the item is over.
        Ended::Last => contain(|| unsafe { free(item) }),
    }
    worker.complete(entry);
}

/// # Safety
///
/// The conditions of [`ItemOperations`] hold, and the entry was popped from a list.
unsafe fn abandon(item: NonNull<Header>, share: Share<'_>) -> Abandoned {
    let item: NonNull<WorkItem> = item.cast();
    let Share::Listed(entry) = share else { unreachable!("a reusable item is given up only for an entry") };
    // SAFETY: the item's word records the entry until `abandon` has taken the entry out of the word.
    let (would_have_run, over) = unsafe { item.as_ref() }.cell.abandon(entry.shard().id(), entry.ticket());
    if over {
        // SAFETY: according to `abandon`, the item is over.
        contain(|| unsafe { free(item) });
    }
    if would_have_run { Abandoned::Ready } else { Abandoned::Cancelled { late: false } }
}

/// # Safety
///
/// The item is reusable, and the caller holds an entry of the item.
unsafe fn item_type(item: NonNull<Header>) -> &'static ItemType {
    // SAFETY: the item's word records the entry, which keeps the item in memory.
    unsafe { item.cast::<WorkItem>().as_ref() }.item_type
}
