//! The handle's side of a one-shot's cell.
#![allow(
    unsafe_code,
    reason = "the cell is shared by an entry and a handle, and freed by whoever leaves last"
)]

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::thread::Result as RunResult;

use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;
use crate::sys::wait::Until;

use super::super::entry::Header;
use super::super::refusal::WaitError;
use super::super::shard::Gate;
use super::super::timers::TimerName;
use super::super::waits;
use super::{Head, Operations};

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

impl<T> RawHandle<T> {
    #[inline]
    pub(super) fn new(
        head: NonNull<Head>,
        operations: &'static Operations,
        gate: *const Gate,
        origin: Origin,
    ) -> Self {
        Self { head, operations, gate, timer: None, origin, result: PhantomData }
    }

    #[inline]
    fn state(&self) -> &OneShotCell {
        // SAFETY: the handle's bit keeps the cell in place until `drop`.
        unsafe { &self.head.as_ref().cell }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().load().is_finished()
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

    /// Waits for the end.
    pub(crate) fn wait(&self, until: Until) -> Result<(), WaitError> {
        if self.is_finished() {
            return Ok(());
        }
        let item = self.head.as_ptr().cast::<Header>().cast_const();
        waits::check_origin(self.origin)?;
        waits::check_one_shot(item, self.gate)?;
        let target = waits::Target::OneShot { item, gate: self.gate, state: self.state() };
        waits::wait(target, until, |until| self.state().wait(until))
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

impl<T> RawHandle<T> {
    /// Lets the item go. What it panicked with, if it has ended so and nobody took it: else, its owner is told.
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
            // SAFETY: it is done, and a handle whose result was taken is dropped, and does not come here.
            unsafe { (handle.operations.take_result)(handle.head, NonNull::from(&mut result).cast()) };
        }
        // SAFETY: `detach` said that the entry is gone.
        unsafe { (handle.operations.free)(handle.head) };
        // SAFETY: if it ran, the result was written just now.
        ran.then(|| unsafe { result.assume_init() })?.err()
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
