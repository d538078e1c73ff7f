//! A closure that runs once, and its handle: one heap cell of header, state, closure and result.
//!
//! ```text
//! OneShot<F, T, O>: { head: { header: { execute }, cell: state word }, stage: closure and owner | result }
//! ```
//!
//! An [`Owner`] is told what became of the item, run or not, once nothing that may borrow from it is in use any more.
//! Most items have none.
//!
//! Who may touch `stage` and who frees the cell is decided by the state word alone: see `policy::one_shot`.
#![allow(
    unsafe_code,
    reason = "the cell is shared by an entry and a handle, and freed by whoever leaves last"
)]

mod handle;

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::thread::Result as RunResult;

use crate::policy::one_shot::{Finish, Take};
use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;

use super::cells::Room;
use super::entry::{Entry, Header, ItemOperations};
use super::item_type::ItemType;
use super::shard::Gate;
use super::user_code::contain;
use super::worker::WorkerThread;

pub(crate) use self::handle::RawHandle;

#[repr(C)]
struct OneShot<F, T, O> {
    head: Head,
    stage: UnsafeCell<Stage<F, T, O>>,
}

/// Who is told that an item is over. Dropped, after the closure, if the item is dropped without a run.
pub(crate) trait Owner: Send {
    /// A worker is about to run it, as this item.
    fn begins(&self, _item: NonNull<Header>) {}

    /// It ran, its closure is gone, and so is its result if it has no handle.
    fn ran(self, ended: Ended);
}

/// How an item ended that ran.
pub(crate) enum Ended {
    Well,
    /// It panicked, and its handle has the payload.
    Panicked,
    /// It panicked, and has no handle.
    PanickedAlone(Box<dyn Any + Send>),
}

/// Most items have no owner.
pub(crate) struct Nobody;

impl Owner for Nobody {
    #[inline]
    fn ran(self, ended: Ended) {
        if let Ended::PanickedAlone(payload) = ended {
            contain(|| drop(payload));
        }
    }
}

/// What the handle knows of the cell. `repr(C)`: a pointer to the cell is one to its head, and to its header.
#[repr(C)]
struct Head {
    header: Header,
    cell: OneShotCell,
}

enum Stage<F, T, O> {
    /// In this order they are dropped.
    Closure(F, O),
    Gone,
    Result(RunResult<T>),
}

/// The handle's side of the cell, for one closure type.
struct Operations {
    drop_closure: unsafe fn(NonNull<Head>),
    /// Moves the result to where the second pointer leads.
    take_result: unsafe fn(NonNull<Head>, NonNull<()>),
    free: unsafe fn(NonNull<Head>),
}

/// Makes a cell: its entry's side, and its handle.
#[inline]
pub(crate) fn make<F, T>(function: F, gate: *const Gate, origin: Origin) -> (NonNull<Header>, RawHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: neither closure nor result borrows anything.
    unsafe { make_owned(function, gate, origin, Nobody) }
}

/// The same for an item that has an owner.
///
/// # Safety
///
/// What the closure, the result and the owner borrow is there until the owner is told that the item ran, or is dropped;
/// and what the result borrows, also until the handle is gone.
#[inline]
pub(crate) unsafe fn make_owned<F, T, O>(
    function: F,
    gate: *const Gate,
    origin: Origin,
    owner: O,
) -> (NonNull<Header>, RawHandle<T>)
where
    F: FnOnce() -> T + Send,
    T: Send,
    O: Owner,
{
    let cell = make_cell::<F, T, O>(function, owner, OneShotCell::new());
    (cell.cast(), RawHandle::new(cell, operations::<F, T, O>(), gate, origin))
}

/// Makes a cell that has no handle. The worker that makes the result drops it, so it need not be `Send`.
#[inline]
pub(crate) fn make_detached<F, T>(function: F) -> NonNull<Header>
where
    F: FnOnce() -> T + Send + 'static,
    T: 'static,
{
    make_cell::<F, T, Nobody>(function, Nobody, OneShotCell::detached()).cast()
}

#[inline]
fn make_cell<F, T, O>(function: F, owner: O, cell: OneShotCell) -> NonNull<Head>
where
    F: FnOnce() -> T + Send,
    O: Owner,
{
    let item = const {
        &ItemOperations {
            execute: execute::<F, T, O>,
            abandon: abandon::<F, T, O>,
            item_type: |_| ItemType::of::<F>(),
        }
    };
    let cell = OneShot {
        head: Head { header: Header::new(item), cell },
        stage: UnsafeCell::new(Stage::<F, T, O>::Closure(function, owner)),
    };
    Room::find().fill(cell).cast()
}

/// # Safety
///
/// The cell was made for `F`, `T` and `O`, and nobody else knows it any more.
unsafe fn free<F, T, O>(cell: NonNull<OneShot<F, T, O>>) {
    // SAFETY: the caller says so. The room goes last, whatever a destructor does.
    let _room = unsafe { Room::of(cell) };
    // SAFETY: and what is left in it has not been dropped.
    unsafe { cell.drop_in_place() };
}

/// Takes a cell apart that nobody else has seen, and gives the closure back.
///
/// # Safety
///
/// The item was made by [`make`] for `F` and `T`, with this handle, and the entry's side of it is the caller's.
pub(crate) unsafe fn unmake<F, T>(item: NonNull<Header>, handle: RawHandle<T>) -> F {
    // Its side of the cell ends here, with the cell.
    let _handle = ManuallyDrop::new(handle);
    // SAFETY: the caller has both sides.
    unsafe { unmake_detached::<F, T>(item) }
}

/// The same for a cell that has no handle.
///
/// # Safety
///
/// The item was made by [`make_detached`], or by [`make`], for `F` and `T`, and all of it is the caller's.
pub(crate) unsafe fn unmake_detached<F, T>(item: NonNull<Header>) -> F {
    let cell: NonNull<OneShot<F, T, Nobody>> = item.cast();
    // SAFETY: the caller has all of it.
    let _room = unsafe { Room::of(cell) };
    // SAFETY: as above; what was in the cell is dropped here, or goes to the caller.
    match unsafe { cell.read() }.stage.into_inner() {
        Stage::Closure(function, Nobody) => function,
        Stage::Gone | Stage::Result(_) => unreachable!("a one-shot that nobody ran has its closure"),
    }
}

/// # Safety
///
/// The entry is of a cell made for `F`, `T` and `O`.
unsafe fn execute<F, T, O>(entry: Entry, worker: &WorkerThread)
where
    F: FnOnce() -> T + Send,
    O: Owner,
{
    let cell: NonNull<OneShot<F, T, O>> = entry.item().cast();
    // SAFETY: the entry's bit keeps the cell in place until `finish`, `take` or the detached path lets it go.
    let state = unsafe { &cell.as_ref().head.cell };
    // A detached cell belongs to its entry alone: nothing needs to be agreed on any more.
    let detached = state.load().is_detached();
    if !detached {
        match state.take() {
            Take::Run => {}
            Take::Leave => return worker.pass_over(entry),
            Take::Free => {
                worker.own(&entry);
                // SAFETY: `take` said that the handle is gone.
                contain(|| unsafe { free(cell) });
                return worker.pass_over(entry);
            }
        }
    }
    // SAFETY: the state says that the closure has begun, so neither a cancel nor the handle looks at the stage until
    // `finish`; a detached cell has no handle.
    let stage = unsafe { &mut *cell.as_ref().stage.get() };
    let Stage::Closure(function, owner) = std::mem::replace(stage, Stage::Gone) else {
        unreachable!("a one-shot that has not begun has its closure")
    };
    owner.begins(entry.item());
    let result = worker.call(&entry, ItemType::of::<F>(), None, function);
    let ended = if result.is_ok() { Ended::Well } else { Ended::Panicked };
    *stage = Stage::Result(result);
    let key = state.key();
    match if detached { Finish::Free } else { state.finish() } {
        Finish::Leave => owner.ran(ended),
        Finish::Wake => {
            OneShotCell::wake(key);
            owner.ran(ended);
        }
        Finish::Free => {
            // The cell goes last: while its result is dropped, and the owner told, the item goes by its address.
            // SAFETY: the handle is gone, so the stage is nobody else's.
            let stage = unsafe { &mut *cell.as_ref().stage.get() };
            owner.ran(clear(stage, ended));
            // SAFETY: and the entry's side ends here. The stage is empty now.
            drop(unsafe { Room::of(cell) });
        }
    }
    worker.complete(entry);
}

/// Drops a result that nobody has a handle for.
#[inline]
fn clear<F, T, O>(stage: &mut Stage<F, T, O>, ended: Ended) -> Ended {
    match std::mem::replace(stage, Stage::Gone) {
        Stage::Result(Err(payload)) => Ended::PanickedAlone(payload),
        Stage::Result(Ok(result)) => {
            contain(|| drop(result));
            ended
        }
        Stage::Closure(..) | Stage::Gone => ended,
    }
}

/// # Safety
///
/// The item is a cell made for `F`, `T` and `O`, and the entry's side of it is the caller's.
unsafe fn abandon<F, T, O>(item: NonNull<Header>, _entry: Option<&Entry>) -> bool {
    let cell: NonNull<OneShot<F, T, O>> = item.cast();
    // SAFETY: the entry's bit keeps the cell in place until `take` or `abandon` lets it go.
    let state = unsafe { &cell.as_ref().head.cell };
    let (finish, would_have_run) = match state.take() {
        Take::Leave => return false,
        Take::Free => (Finish::Free, false),
        Take::Run => {
            // SAFETY: the state says that the closure has begun, so nobody else looks at the stage.
            let stage = unsafe { &mut *cell.as_ref().stage.get() };
            let closure = std::mem::replace(stage, Stage::Gone);
            contain(|| drop(closure));
            let key = state.key();
            match state.abandon() {
                Finish::Wake => {
                    OneShotCell::wake(key);
                    return true;
                }
                finish => (finish, true),
            }
        }
    };
    if finish == Finish::Free {
        // SAFETY: the handle is gone, and the entry's side ends here.
        contain(|| unsafe { free(cell) });
    }
    would_have_run
}

fn operations<F, T, O>() -> &'static Operations {
    &Operations {
        drop_closure: |head| {
            let cell: NonNull<OneShot<F, T, O>> = head.cast();
            // SAFETY: the caller has cancelled the cell, so the closure is its own.
            let stage = unsafe { &mut *cell.as_ref().stage.get() };
            *stage = Stage::Gone;
        },
        take_result: |head, to| {
            let cell: NonNull<OneShot<F, T, O>> = head.cast();
            // SAFETY: the caller has seen the cell done, so the result is its own.
            let stage = unsafe { &mut *cell.as_ref().stage.get() };
            let Stage::Result(result) = std::mem::replace(stage, Stage::Gone) else {
                unreachable!("a one-shot that is done has its result")
            };
            // SAFETY: the caller passes room for this very type.
            unsafe { to.cast::<RunResult<T>>().write(result) };
        },
        free: |head| {
            // SAFETY: the caller is the last owner.
            unsafe { free(head.cast::<OneShot<F, T, O>>()) };
        },
    }
}
