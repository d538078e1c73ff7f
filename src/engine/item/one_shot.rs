//! A closure that runs once, and its handle. One heap cell holds the header, the state, and the closure or its result.
//!
//! ```text
//! OneShot<F, T, O>: { head: { header: { execute }, cell: state word }, contents: closure and owner | result }
//! ```
//!
//! An item may have an [`Owner`]. The owner learns when the item is over, whether or not the item ran. When the owner
//! learns this, the item no longer uses anything that it may have borrowed from the owner. Most items have no owner.
//!
//! The state word alone decides which thread may use `contents`, and which thread frees the cell. See
//! `policy::one_shot`.
#![allow(unsafe_code, reason = "an entry and a handle share the cell, and the last of them frees it")]

pub(crate) mod handle;

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, needs_drop};
use std::ptr::NonNull;
use std::thread::Result as RunResult;

use crate::policy::one_shot::{Finish, Take, Waiting};
use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;

use crate::engine::queue::shard::Limiter;
use crate::engine::refusal::Cancelled;
use crate::engine::user_code::contain;
use crate::engine::worker::current::ONE_SHOT;
use crate::engine::worker::worker_thread::{self, NotRun, WorkerThread};

use self::handle::RawHandle;
use super::cells::Chunk;
use super::closure::{Closure, TypeOfClosure};
use super::entry::{Abandoned, ByWorker, Entry, Head, Header, ItemOperations, Share};
use super::one_shot::handle::Operations;

#[repr(C)]
struct OneShot<F: Closure<T>, T, O> {
    head: Head,
    /// Tells the type of the closure. Unlike the closure, this value stays in the cell during and after the run.
    closure_type: F::Type,
    contents: UnsafeCell<Contents<F, T, O>>,
}

/// An object that learns when its item is over. If the item has run, `ran` is called. If the item's token or handle has
/// cancelled the item, `cancelled` is called. If the item does not run for another reason, the owner is dropped. In
/// each case, the item's closure is already gone when the owner learns of the end.
pub(crate) trait Owner: Send {
    /// Notes that the item begins. The worker that is about to run the item calls this with the item's address. If the
    /// item has lost its handle during the run, the worker calls this again, after [`ends`](Self::ends) and before it
    /// drops the result.
    fn begins(&self, _item: NonNull<Header>) {}

    /// Notes that the item is about to be over. After this call, another item may get the item's address. The thread
    /// that takes the item's entry off its list calls this.
    fn ends(&self) {}

    /// Tells the owner that the item was cancelled through its token or its handle, and did not run. The item's closure
    /// is already gone.
    fn cancelled(self)
    where
        Self: Sized,
    {
    }

    /// Notes that the item has run. The item's closure is already gone. If the item has no handle, its result is gone
    /// too.
    fn ran(self, ended: Ended);
}

/// The way in which a run ended.
pub(crate) enum Ended {
    Well,
    /// The item panicked, and its handle owns the payload.
    Panicked,
    /// The item panicked and has no handle, so its owner gets the payload.
    PanickedAlone(Box<dyn Any + Send>),
}

/// The owner type of items without an owner, which are most items.
pub(crate) struct NoOwner;

impl Owner for NoOwner {
    #[inline]
    fn ran(self, ended: Ended) {
        if let Ended::PanickedAlone(payload) = ended {
            contain(|| drop(payload));
        }
    }
}

/// A guard that tells the owner that the item was cancelled. The guard tells the owner even if the closure's destructor
/// panics.
struct Cancels<O: Owner>(Option<O>);

impl<O: Owner> Drop for Cancels<O> {
    fn drop(&mut self) {
        if let Some(owner) = self.0.take() {
            owner.cancelled();
        }
    }
}

enum Contents<F, T, O> {
    /// The closure, and the item's owner. If both are dropped, the closure is dropped first.
    Closure(F, O),
    Gone,
    Result(RunResult<T>),
}

/// Makes the cell of a one-shot. Returns the entry's side of the cell, and the cell's handle.
#[inline]
pub(crate) fn make<F, T>(
    function: F,
    limiter: *const Limiter,
    origin: Origin,
) -> (NonNull<Header>, RawHandle<T>)
where
    F: Closure<T> + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: neither the closure nor the result borrows anything.
    unsafe { make_owned(function, limiter, origin, NoOwner) }
}

/// Makes a cell for an item that has an owner.
///
/// # Safety
///
/// Everything that the closure, the result or the owner borrows stays valid until one of two things happens: the owner
/// is told that the item ran or was cancelled, or the owner is dropped. Everything that the result borrows also stays
/// valid until the handle is gone.
#[inline]
pub(crate) unsafe fn make_owned<F, T, O>(
    function: F,
    limiter: *const Limiter,
    origin: Origin,
    owner: O,
) -> (NonNull<Header>, RawHandle<T>)
where
    F: Closure<T> + Send,
    T: Send,
    O: Owner,
{
    let cell = make_cell::<F, T, O>(function, owner, OneShotCell::new());
    (cell.cast(), RawHandle::new(cell, operations::<F, T, O>(), limiter, origin))
}

/// Makes a cell that has no handle. The worker that makes the result also drops it, so the result need not be `Send`.
#[inline]
pub(crate) fn make_detached<F, T>(function: F) -> NonNull<Header>
where
    F: Closure<T> + Send + 'static,
    T: 'static,
{
    make_cell::<F, T, NoOwner>(function, NoOwner, OneShotCell::detached()).cast()
}

#[inline]
fn make_cell<F, T, O>(function: F, owner: O, cell: OneShotCell) -> NonNull<Head>
where
    F: Closure<T> + Send,
    O: Owner,
{
    let item = const {
        &ItemOperations {
            execute: execute::<F, T, O>,
            abandon: abandon::<F, T, O>,
            item_type: |item| {
                // SAFETY: the caller's share of the item keeps the cell in memory. No thread writes this field.
                unsafe { item.cast::<OneShot<F, T, O>>().as_ref() }.closure_type.item_type()
            },
        }
    };
    let chunk = Chunk::find();
    // The cell is made after the chunk was found, so that the compiler can build the cell directly in the chunk.
    let cell = OneShot {
        head: Head { header: Header::new(item), cell },
        closure_type: function.type_of_closure(),
        contents: UnsafeCell::new(Contents::<F, T, O>::Closure(function, owner)),
    };
    chunk.fill(cell).cast()
}

/// # Safety
///
/// The cell was made for `F`, `T` and `O`, and the caller is the cell's last owner.
unsafe fn free<F: Closure<T>, T, O>(cell: NonNull<OneShot<F, T, O>>) {
    // SAFETY: the caller is the cell's last owner. The chunk is dropped last, so its memory is given back even if a
    // destructor panics.
    let _chunk = unsafe { Chunk::of(cell) };
    // SAFETY: the caller is the cell's last owner. The content of the cell has not been dropped yet.
    unsafe { cell.drop_in_place() };
}

/// Takes apart a cell that was not queued. Returns its closure.
///
/// # Safety
///
/// The item was made by [`make`] for `F` and `T`, with this handle, and the caller owns the entry's side of the item.
pub(crate) unsafe fn unmake<F: Closure<T>, T>(item: NonNull<Header>, handle: RawHandle<T>) -> F {
    // The handle is not dropped, because the handle's side ends with the cell.
    let _handle = ManuallyDrop::new(handle);
    // SAFETY: the caller owns both sides of the cell.
    unsafe { unmake_detached::<F, T>(item) }
}

/// Takes apart a cell that was not queued and has no handle. Returns its closure.
///
/// # Safety
///
/// The item was made by [`make_detached`] or [`make`] for `F` and `T`, and the caller owns both sides of the item.
pub(crate) unsafe fn unmake_detached<F: Closure<T>, T>(item: NonNull<Header>) -> F {
    let cell: NonNull<OneShot<F, T, NoOwner>> = item.cast();
    // SAFETY: the caller owns the whole cell.
    let _chunk = unsafe { Chunk::of(cell) };
    // SAFETY: the caller owns the whole cell. The content is moved out, so the chunk is given back without content.
    match unsafe { cell.read() }.contents.into_inner() {
        Contents::Closure(function, NoOwner) => function,
        Contents::Gone | Contents::Result(_) => {
            unreachable!("a one-shot that was not queued has its closure")
        }
    }
}

/// # Safety
///
/// The entry's item is a cell made for `F`, `T` and `O`.
unsafe fn execute<F, T, O>(entry: Entry, by: ByWorker<'_>)
where
    F: Closure<T> + Send,
    O: Owner,
{
    let worker = WorkerThread::of(by);
    let cell: NonNull<OneShot<F, T, O>> = entry.item().cast();
    // SAFETY: the entry's bit keeps the cell in memory until `finish` or `take` clears the bit. A detached cell stays
    // in memory until it is freed below.
    let state = unsafe { &cell.as_ref().head.cell };
    // A detached cell belongs to its entry alone, so no other thread changes its state.
    let detached = state.load().is_detached();
    if !detached {
        match state.take() {
            Take::Run => {}
            Take::Leave { late } => return worker.pass_over_late(entry, late),
            Take::Free { late } => {
                worker.own(&entry);
                // SAFETY: according to `take`, the handle is gone.
                contain(|| unsafe { free(cell) });
                return worker.pass_over_late(entry, late);
            }
        }
    }
    // SAFETY: the state says that the closure has begun. So the handle does not use the contents until `finish`. A
    // detached cell has no handle.
    let contents = unsafe { &mut *cell.as_ref().contents.get() };
    let Contents::Closure(mut function, owner) = std::mem::replace(contents, Contents::Gone) else {
        unreachable!("a one-shot that has not begun has its closure")
    };
    if let Some(reason) = function.obstacle() {
        worker.own(&entry);
        let late = reason == Cancelled::DeadlinePassed;
        // SAFETY: the worker has taken the item, and has moved its closure and owner out of the cell.
        unsafe { end_without_run(cell, (Some(function), owner), detached, Abandoned::Obstructed(reason)) };
        return worker.pass_over_late(entry, late);
    }
    owner.begins(entry.item());
    let (parent, item_type) = (function.parent(), function.type_of_closure().item_type());
    let result = worker.call(&entry, item_type, ONE_SHOT, parent, || function.call());
    if result.as_ref().is_err_and(|payload| payload.is::<NotRun>()) {
        // SAFETY: the worker has taken the item, has dropped its closure, and has moved its owner out of the cell.
        unsafe { end_without_run(cell, (None, owner), detached, Abandoned::Ready) };
    } else if detached {
        // SAFETY: the cell has no handle, and its contents are gone.
        unsafe { end_alone(cell, result, owner) };
    } else {
        let ended = if result.is_ok() { Ended::Well } else { Ended::Panicked };
        *contents = Contents::Result(result);
        let key = state.key();
        owner.ends();
        match state.finish() {
            Finish::Leave => owner.ran(ended),
            Finish::Wake(waiting) => {
                owner.ran(ended);
                wake(entry.item(), key, waiting);
            }
            // SAFETY: according to `finish`, the handle is gone, so only this thread uses the cell and its result.
            Finish::Free => unsafe { end_left_alone(cell, owner) },
            Finish::Unlisten => unreachable!("`finish` removes the alarm of an item that listens"),
        }
    }
    worker.complete(entry);
}

/// Ends an item whose handle was dropped during the run, and whose result is in the cell.
///
/// # Safety
///
/// The cell was made for `F`, `T` and `O`, it has no handle, and the entry's side ends here.
#[inline]
unsafe fn end_left_alone<F: Closure<T>, T, O: Owner>(cell: NonNull<OneShot<F, T, O>>, owner: O) {
    // The destructor of the result may wait for the owner.
    owner.begins(cell.cast());
    // SAFETY: the caller promises that no other thread uses the contents.
    let contents = unsafe { &mut *cell.as_ref().contents.get() };
    let Contents::Result(result) = std::mem::replace(contents, Contents::Gone) else {
        unreachable!("only a handle takes the result of an item that has run")
    };
    // SAFETY: the handle is gone, and so are the contents.
    unsafe { end_alone(cell, result, owner) };
}

/// Ends an item that has run and has no handle. Drops the item's result, or passes the payload of its panic to the
/// owner.
///
/// # Safety
///
/// The cell was made for `F`, `T` and `O`, it has no handle, and its contents are gone. The entry's side ends here.
#[inline]
unsafe fn end_alone<F: Closure<T>, T, O: Owner>(
    cell: NonNull<OneShot<F, T, O>>,
    result: RunResult<T>,
    owner: O,
) {
    owner.ran(match result {
        Ok(result) => {
            if needs_drop::<T>() {
                contain(|| drop(result));
            }
            Ended::Well
        }
        Err(payload) => Ended::PanickedAlone(payload),
    });
    // The cell is freed last, because the cell's address identifies the item until the owner has been told.
    // SAFETY: the caller promises that no other thread uses the cell, and that its contents are gone.
    drop(unsafe { Chunk::of(cell) });
}

/// Ends an item without a run. `given_up` is the state in which the item was given up. Drops the closure, if the worker
/// has not dropped it already, and tells the owner.
///
/// # Safety
///
/// The cell was made for `F`, `T` and `O`. The caller has taken the item, and has moved its closure and owner out of
/// the cell.
#[cold]
unsafe fn end_without_run<F: Closure<T>, T, O: Owner>(
    cell: NonNull<OneShot<F, T, O>>,
    (closure, owner): (Option<F>, O),
    detached: bool,
    given_up: Abandoned,
) {
    contain(|| drop(closure));
    // SAFETY: the entry's bit keeps the cell in memory until `abandon` clears the bit. A detached cell stays in memory
    // until it is freed below.
    let state = unsafe { &cell.as_ref().head.cell };
    let key = state.key();
    owner.ends();
    let finish = if detached { Finish::Free } else { state.abandon(given_up.is_late()) };
    match given_up {
        // The queue or the executor gave the item up, so the owner is only dropped.
        Abandoned::Ready => drop(owner),
        Abandoned::Obstructed(_) | Abandoned::Cancelled { .. } => owner.cancelled(),
    }
    match finish {
        Finish::Wake(waiting) => wake(cell.cast(), key, waiting),
        // SAFETY: the handle is gone, and the entry's side ends here. The contents are gone.
        Finish::Free => drop(unsafe { Chunk::of(cell) }),
        Finish::Leave | Finish::Unlisten => {}
    }
}

/// Wakes the thread and the task that wait for an item that is over. The handle may have freed the item's cell. The
/// owner was told of the item's end before this call, because the waker of the task may wait for the owner.
fn wake(item: NonNull<Header>, key: usize, waiting: Waiting) {
    if waiting.has_task() {
        worker_thread::with_current(|worker| {
            if let Some(worker) = worker {
                worker.outlives(item);
            }
        });
    }
    OneShotCell::wake(key, waiting);
}

/// # Safety
///
/// The item is a cell made for `F`, `T` and `O`, and the caller owns the entry's side of the item.
unsafe fn abandon<F, T, O>(item: NonNull<Header>, share: Share<'_>) -> Abandoned
where
    F: Closure<T> + Send,
    O: Owner,
{
    let cell: NonNull<OneShot<F, T, O>> = item.cast();
    // SAFETY: the entry's bit keeps the cell in memory until `take` or `abandon` clears the bit.
    let state = unsafe { &cell.as_ref().head.cell };
    let take = match share {
        Share::Listed(_) => state.take(),
        Share::Taken(take) => take,
    };
    match take {
        Take::Leave { late } => return Abandoned::Cancelled { late },
        Take::Free { late } => {
            // SAFETY: the handle is gone, and the entry's side ends here.
            contain(|| unsafe { free(cell) });
            return Abandoned::Cancelled { late };
        }
        Take::Run => {}
    }
    // SAFETY: the state says that the closure has begun, so no other thread uses the contents.
    let contents = unsafe { &mut *cell.as_ref().contents.get() };
    let Contents::Closure(function, owner) = std::mem::replace(contents, Contents::Gone) else {
        unreachable!("a one-shot that has not begun has its closure")
    };
    let given_up = function.obstacle().map_or(Abandoned::Ready, Abandoned::Obstructed);
    // SAFETY: the caller has taken the item, and its closure and owner are out of the cell.
    unsafe { end_without_run(cell, (Some(function), owner), false, given_up) };
    given_up
}

fn operations<F: Closure<T>, T, O: Owner>() -> &'static Operations {
    &Operations {
        drop_closure: |head| {
            let cell: NonNull<OneShot<F, T, O>> = head.cast();
            // SAFETY: the caller has cancelled the item, and so owns the closure.
            let contents = unsafe { &mut *cell.as_ref().contents.get() };
            let Contents::Closure(function, owner) = std::mem::replace(contents, Contents::Gone) else {
                unreachable!("an item that was cancelled before it began has its closure")
            };
            let _told = Cancels(Some(owner));
            drop(function);
        },
        take_result: |head, to| {
            let cell: NonNull<OneShot<F, T, O>> = head.cast();
            // SAFETY: the caller has seen that the item is done, and so owns the result.
            let contents = unsafe { &mut *cell.as_ref().contents.get() };
            let Contents::Result(result) = std::mem::replace(contents, Contents::Gone) else {
                panic!("the handle has given out the result of its item before")
            };
            // SAFETY: the caller passes memory for a result of this type.
            unsafe { to.cast::<RunResult<T>>().write(result) };
        },
        free: |head| {
            // SAFETY: the caller is the last owner.
            unsafe { free(head.cast::<OneShot<F, T, O>>()) };
        },
    }
}
