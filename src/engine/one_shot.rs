//! A closure that runs once, and its handle: one heap cell of header, state, closure and result.
//!
//! ```text
//! OneShot<F, T>: { head: { header: { execute }, cell: state word }, stage: closure | result }
//! ```
//!
//! Who may touch `stage` and who frees the cell is decided by the state word alone: see `policy::one_shot`.
#![allow(
    unsafe_code,
    reason = "the cell is shared by an entry and a handle, and freed by whoever leaves last"
)]

use std::any::type_name;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::thread::Result as RunResult;

use crate::policy::item::ShardId;
use crate::policy::one_shot::{Finish, Take};
use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;
use crate::sys::wait::Until;

use super::core::contain;
use super::entry::{Entry, Header, ItemOperations};
use super::shard::Gate;
use super::timers::TimerName;
use super::worker::{self, WorkerThread};

#[repr(C)]
struct OneShot<F, T> {
    head: Head,
    stage: UnsafeCell<Stage<F, T>>,
}

/// What the handle knows of the cell. `repr(C)`: a pointer to the cell is one to its head, and to its header.
#[repr(C)]
struct Head {
    header: Header,
    cell: OneShotCell,
}

enum Stage<F, T> {
    Closure(F),
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

/// The handle of a one-shot. Not dropped by itself where it is consumed.
pub(crate) struct RawHandle<T> {
    head: NonNull<Head>,
    operations: &'static Operations,
    /// Through which lane it went, to compare with.
    gate: *const Gate,
    /// By which it is queued later.
    timer: Option<Box<TimerName>>,
    origin: Origin,
    result: PhantomData<T>,
}

// SAFETY: the handle gives access to the result, which is `Send`, and drops the closure, which is `Send`; the state
// word orders both sides.
unsafe impl<T: Send> Send for RawHandle<T> {}
// SAFETY: shared references only look at the state word.
unsafe impl<T: Send> Sync for RawHandle<T> {}

/// Makes a cell: its entry's side, and its handle.
#[inline]
pub(crate) fn make<F, T>(function: F, gate: *const Gate, origin: Origin) -> (NonNull<Header>, RawHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let item = const { &ItemOperations { execute: execute::<F, T>, abandon: abandon::<F, T> } };
    let cell = Box::new(OneShot {
        head: Head { header: Header { operations: item }, cell: OneShotCell::new() },
        stage: UnsafeCell::new(Stage::<F, T>::Closure(function)),
    });
    let cell = NonNull::from(Box::leak(cell));
    let handle = RawHandle {
        head: cell.cast(),
        operations: operations::<F, T>(),
        gate,
        origin,
        timer: None,
        result: PhantomData,
    };
    (cell.cast(), handle)
}

/// # Safety
///
/// The entry is of a cell made for `F` and `T`.
unsafe fn execute<F, T>(entry: Entry, worker: &WorkerThread)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let cell: NonNull<OneShot<F, T>> = entry.item().cast();
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
                contain(|| drop(unsafe { Box::from_raw(cell.as_ptr()) }));
                return worker.pass_over(entry);
            }
        }
    }
    // SAFETY: the state says that the closure has begun, so neither a cancel nor the handle looks at the stage until
    // `finish`; a detached cell has no handle.
    let stage = unsafe { &mut *cell.as_ref().stage.get() };
    let Stage::Closure(function) = std::mem::replace(stage, Stage::Gone) else {
        unreachable!("a one-shot that has not begun has its closure")
    };
    let result = worker.call(&entry, type_name::<F>(), None, function);
    *stage = Stage::Result(result);
    let key = state.key();
    let finish = if detached { Finish::Free } else { state.finish() };
    match finish {
        Finish::Leave => {}
        Finish::Wake => OneShotCell::wake(key),
        // SAFETY: the handle is gone, and the entry's side ends here.
        Finish::Free => contain(|| drop(unsafe { Box::from_raw(cell.as_ptr()) })),
    }
    worker.complete(entry);
}

/// # Safety
///
/// The item is a cell made for `F` and `T`, and the entry's side of it is the caller's.
unsafe fn abandon<F, T>(item: NonNull<Header>, _shard: Option<ShardId>) -> bool {
    let cell: NonNull<OneShot<F, T>> = item.cast();
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
        contain(|| drop(unsafe { Box::from_raw(cell.as_ptr()) }));
    }
    would_have_run
}

fn operations<F, T>() -> &'static Operations {
    &Operations {
        drop_closure: |head| {
            let cell: NonNull<OneShot<F, T>> = head.cast();
            // SAFETY: the caller has cancelled the cell, so the closure is its own.
            let stage = unsafe { &mut *cell.as_ref().stage.get() };
            *stage = Stage::Gone;
        },
        take_result: |head, to| {
            let cell: NonNull<OneShot<F, T>> = head.cast();
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
            drop(unsafe { Box::from_raw(head.cast::<OneShot<F, T>>().as_ptr()) });
        },
    }
}

impl<T> RawHandle<T> {
    #[inline]
    fn state(&self) -> &OneShotCell {
        // SAFETY: the handle's bit keeps the cell in place until `drop`.
        unsafe { &self.head.as_ref().cell }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().load().is_finished()
    }

    /// The process in which it runs.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Would waiting for it from the item that runs on this thread never end? It is that item, or it needs the only
    /// slot of a gate that that item holds.
    pub(crate) fn would_deadlock(&self) -> bool {
        let current = worker::with_current(|worker| worker?.current());
        current.is_some_and(|current| {
            let itself = std::ptr::eq(current.item.cast(), self.head.as_ptr().cast_const());
            let behind = current.holds_only_slot() && std::ptr::eq(current.gate, self.gate);
            (itself || behind) && !self.is_finished()
        })
    }

    /// Takes it back if it has not begun, and drops the closure.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.state().cancel();
        if cancelled {
            // SAFETY: `cancel` gave the closure to this thread.
            unsafe { (self.operations.drop_closure)(self.head) };
            // Nothing is left to be queued. In a forked process nothing will be, and the timers' lock may be held.
            if !self.origin.is_forked() {
                drop(self.timer.as_ref().and_then(|timer| timer.take()));
            }
        }
        cancelled
    }

    pub(crate) fn set_timer(&mut self, timer: TimerName) {
        self.timer = Some(Box::new(timer));
    }

    /// Waits for the end. False if the time ran out first.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.state().wait(until)
    }

    /// The result of a cell that is finished; `None` if it was cancelled, or the result taken before.
    pub(crate) fn take_result(self) -> Option<RunResult<T>> {
        if self.state().load().is_cancelled() {
            return None;
        }
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        // SAFETY: the caller waited, and the cell was not cancelled: it is done. `self` is consumed, so this happens
        // once.
        unsafe { (self.operations.take_result)(self.head, NonNull::from(&mut result).cast()) };
        // SAFETY: written just now.
        Some(unsafe { result.assume_init() })
    }
}

impl<T> Drop for RawHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.state().detach() {
            // SAFETY: `detach` said that the entry is gone.
            unsafe { (self.operations.free)(self.head) };
        }
    }
}
