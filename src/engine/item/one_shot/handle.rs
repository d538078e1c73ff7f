//! The handle's side of a one-shot's cell.
#![allow(unsafe_code, reason = "an entry and a handle share the cell, and the last of them frees it")]

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::task::{Poll, Waker};
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

/// The part of the cell whose type the handle knows. Because of `repr(C)`, a pointer to the cell also points to the
/// head, and to the header.
#[repr(C)]
pub(super) struct Head {
    pub(super) header: Header,
    pub(super) cell: OneShotCell,
}

/// The functions that a handle calls, for one type of cell.
pub(super) struct Operations {
    pub(super) drop_closure: unsafe fn(NonNull<Head>),
    /// Moves the result to the memory at the second pointer.
    pub(super) take_result: unsafe fn(NonNull<Head>, NonNull<()>),
    pub(super) free: unsafe fn(NonNull<Head>),
}

/// The handle of a one-shot. Dropping the handle detaches the item, which still runs.
pub(crate) struct RawHandle<T> {
    head: NonNull<Head>,
    operations: &'static Operations,
    /// The address of the item's lane. The address is only compared with other addresses, and never dereferenced.
    limiter: *const Limiter,
    /// The timer that queues the item, if the item has a delay.
    timer: Option<Box<TimerName>>,
    origin: Origin,
    result: PhantomData<T>,
}

// SAFETY: the handle can take the result and drop the closure, which are both `Send`. The state word orders the
// accesses of the handle and of the entry.
unsafe impl<T: Send> Send for RawHandle<T> {}
// SAFETY: a shared reference reaches only the state word and the closure. The closure is `Send`, and only one thread
// drops it.
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

    /// If the item has not begun, cancels the item and drops its closure. Returns whether the item was cancelled.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.state().cancel();
        if let Some(waiting) = cancelled {
            // The destructor of the closure may panic, so the task is woken first.
            OneShotCell::wake(self.state().key(), waiting);
            // SAFETY: `cancel` gave the closure to this thread.
            unsafe { (self.operations.drop_closure)(self.head) };
            // The timer, if there is one, no longer has an item to queue. In a forked process, the timer stays in the
            // map. The timer never fires there, and a thread of the parent may have held the map's lock at the fork.
            if !self.origin.is_forked() {
                drop(self.timer.as_ref().and_then(|timer| timer.take()));
            }
        }
        cancelled.is_some()
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
        waits::wait(target, until, || self.is_finished(), |until| self.state().wait(until))
    }

    /// Returns whether the item is over. If not, the task with this waker is woken when the item is over.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Result<(), WaitError>> {
        if self.is_finished() {
            return Poll::Ready(Ok(()));
        }
        let item = self.head.as_ptr().cast::<Header>().cast_const();
        waits::poll(
            self.origin,
            || waits::check_one_shot(item, self.limiter),
            waker,
            |alarm| self.state().watch(alarm),
        )
    }

    /// Takes the result of an item that is over. Returns `None` if the item was cancelled or given up.
    ///
    /// # Panics
    ///
    /// If the result was taken before.
    pub(crate) fn take_result(&mut self) -> Option<RunResult<T>> {
        if self.state().load().is_cancelled() {
            return None;
        }
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        // SAFETY: the caller waited, and the item was not cancelled, so the item is done. If its result was taken
        // before, `take_result` panics and writes nothing.
        unsafe { (self.operations.take_result)(self.head, NonNull::from(&mut result).cast()) };
        // SAFETY: `take_result` has just written the result.
        Some(unsafe { result.assume_init() })
    }
}

impl<T> RawHandle<T> {
    /// Detaches the handle. If the item has panicked by now, returns the payload. If the item panics later, its owner
    /// gets the payload.
    pub(crate) fn let_go(self) -> Option<Box<dyn Any + Send>> {
        let mut handle = ManuallyDrop::new(self);
        drop(handle.timer.take());
        if !handle.state().leave() {
            return None;
        }
        let state = handle.state().load();
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        let ran = state.is_finished() && !state.is_cancelled();
        if ran {
            // SAFETY: the item is done. If its result was taken before, `take_result` panics and writes nothing.
            unsafe { (handle.operations.take_result)(handle.head, NonNull::from(&mut result).cast()) };
        }
        // SAFETY: according to `detach`, the entry is gone.
        unsafe { (handle.operations.free)(handle.head) };
        // SAFETY: if the item ran, its result was written just now.
        ran.then(|| unsafe { result.assume_init() })?.err()
    }
}

impl<T> Drop for RawHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.state().leave() {
            // SAFETY: according to `detach`, the entry is gone.
            unsafe { (self.operations.free)(self.head) };
        }
    }
}
