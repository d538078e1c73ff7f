//! The handle's side of a one-shot's cell.
#![allow(unsafe_code, reason = "an entry and a handle share the cell, and the last of them frees it")]

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::thread::Result as RunResult;

use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;
use crate::sys::wait::Until;

use crate::engine::item::entry::Header;
use crate::engine::item::timers::TimerName;
use crate::engine::item::waits;
use crate::engine::item::waits::register::Target;
use crate::engine::queue::shard::Limiter;
use crate::engine::refusal::WaitError;

/// The part of the cell that the handle knows. `repr(C)`: a pointer to the cell also points to its head, and to its
/// header.
#[repr(C)]
pub(super) struct Head {
    pub(super) header: Header,
    pub(super) cell: OneShotCell,
}

/// The functions of a handle, for one type of cells.
pub(super) struct Operations {
    pub(super) drop_closure: unsafe fn(NonNull<Head>),
    /// Moves the result to the memory at the second pointer.
    pub(super) take_result: unsafe fn(NonNull<Head>, NonNull<()>),
    pub(super) free: unsafe fn(NonNull<Head>),
}

/// The handle of a one-shot. Dropping it detaches the item, which runs nevertheless.
pub(crate) struct RawHandle<T> {
    head: NonNull<Head>,
    operations: &'static Operations,
    /// The lane of the item: an address to compare with.
    limiter: *const Limiter,
    /// The timer that queues the item, if it has a delay.
    timer: Option<Box<TimerName>>,
    origin: Origin,
    result: PhantomData<T>,
}

// SAFETY: the handle may take the result and drop the closure, which are `Send`; the state word orders its accesses and
// those of the entry.
unsafe impl<T: Send> Send for RawHandle<T> {}
// SAFETY: a shared reference only reaches the state word, and the closure, which is `Send` and which one thread drops.
unsafe impl<T: Send> Sync for RawHandle<T> {}

impl<T> RawHandle<T> {
    #[inline]
    pub(super) fn new(
        head: NonNull<Head>,
        operations: &'static Operations,
        limiter: *const Limiter,
        origin: Origin,
    ) -> Self {
        Self { head, operations, limiter, timer: None, origin, result: PhantomData }
    }

    #[inline]
    fn state(&self) -> &OneShotCell {
        // SAFETY: the handle's bit keeps the cell in memory until the handle detaches.
        unsafe { &self.head.as_ref().cell }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().load().is_finished()
    }

    /// Cancels the item if it has not begun, and drops its closure. Returns whether it did so.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.state().cancel();
        if cancelled {
            // SAFETY: `cancel` gave the closure to this thread.
            unsafe { (self.operations.drop_closure)(self.head) };
            // A timer has nothing to queue any more. In a forked process it never fires, and a thread of the parent
            // may have held the timers' lock.
            if !self.origin.is_forked() {
                drop(self.timer.as_ref().and_then(|timer| timer.take()));
            }
        }
        cancelled
    }

    pub(crate) fn set_timer(&mut self, timer: TimerName) {
        self.timer = Some(Box::new(timer));
    }

    /// Waits until the item is over.
    pub(crate) fn wait(&self, until: Until) -> Result<(), WaitError> {
        if self.is_finished() {
            return Ok(());
        }
        let item = self.head.as_ptr().cast::<Header>().cast_const();
        waits::check_origin(self.origin)?;
        waits::check_one_shot(item, self.limiter)?;
        let target = Target::OneShot { item, limiter: self.limiter, state: self.state() };
        waits::wait(target, until, |until| self.state().wait(until))
    }

    /// Takes the result of an item that is over. Returns `None` if the item was cancelled or given up.
    pub(crate) fn take_result(self) -> Option<RunResult<T>> {
        if self.state().load().is_cancelled() {
            return None;
        }
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        // SAFETY: the caller waited, and the item was not cancelled, so it is done. `self` is consumed, so the result
        // is taken once.
        unsafe { (self.operations.take_result)(self.head, NonNull::from(&mut result).cast()) };
        // SAFETY: written just now.
        Some(unsafe { result.assume_init() })
    }
}

impl<T> RawHandle<T> {
    /// Detaches the handle. If the item has panicked by now, returns the payload. If it panics later, its owner gets
    /// that.
    pub(crate) fn let_go(self) -> Option<Box<dyn Any + Send>> {
        let mut handle = ManuallyDrop::new(self);
        drop(handle.timer.take());
        if !handle.state().detach() {
            return None;
        }
        let state = handle.state().load();
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        let ran = state.is_finished() && !state.is_cancelled();
        if ran {
            // SAFETY: the item is done, and its result was not taken: that would have consumed the handle.
            unsafe { (handle.operations.take_result)(handle.head, NonNull::from(&mut result).cast()) };
        }
        // SAFETY: `detach` returned that the entry is gone.
        unsafe { (handle.operations.free)(handle.head) };
        // SAFETY: if the item ran, its result was written just now.
        ran.then(|| unsafe { result.assume_init() })?.err()
    }
}

impl<T> Drop for RawHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.state().detach() {
            // SAFETY: `detach` returned that the entry is gone.
            unsafe { (self.operations.free)(self.head) };
        }
    }
}
