//! The handle's side of a one-shot's cell.
#![allow(unsafe_code, reason = "an entry and a handle share the cell, and the last of them frees it")]

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread::Result as RunResult;

use crate::policy::one_shot::Waiting;
use crate::policy::time::Time;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::wait::Until;

use crate::engine::item::entry::{Head, Header};
use crate::engine::item::timers::{TimedWaker, TimerName, Timers};
use crate::engine::item::token::{CancelWatch, Token};
use crate::engine::item::waits;
use crate::engine::item::waits::register::Target;
use crate::engine::queue::shard::Limiter;
use crate::engine::refusal::{Cancelled, WaitError};

/// The functions that a handle calls, for one type of cell.
pub(super) struct Operations {
    /// Drops the closure of an item that was cancelled, and tells the item's owner.
    pub(super) drop_closure: unsafe fn(NonNull<Head>),
    /// Moves the result to the memory at the second pointer.
    pub(super) take_result: unsafe fn(NonNull<Head>, NonNull<()>),
    pub(super) free: unsafe fn(NonNull<Head>),
}

/// The handle of a one-shot. Dropping the handle detaches the item, which still runs.
pub(crate) struct RawHandle<T> {
    head: NonNull<Head>,
    operations: &'static Operations,
    /// The address of the item's lane: its shard's limiter, or a bh context that several shards share. The address is
    /// only compared with other addresses, and never dereferenced.
    limiter: *const Limiter,
    /// The parts of the handle that only items with options need. `None` for all other items.
    extra: Option<Box<Extra>>,
    origin: Origin,
    result: PhantomData<T>,
}

/// The parts of a handle that only items with options have.
#[derive(Default)]
struct Extra {
    /// The timer that queues the item, if the item has a delay.
    timer: Option<TimerName>,
    /// The item's token, if it was submitted with a token or with a deadline.
    token: Option<Token>,
    /// The timers of the item's executor, if the token has a deadline.
    timers: Option<Arc<Timers>>,
    /// The waker of the task that awaits the handle. `watch` and `alarm` call clones of this waker.
    waker: Option<Waker>,
    /// Wakes the task when the token is cancelled.
    watch: Option<CancelWatch>,
    /// Wakes the task at the token's deadline, if the item had not begun when the task was polled.
    alarm: Option<TimedWaker>,
}

// SAFETY: the handle can take the result and drop the closure, which are both `Send`. The state word orders the
// accesses of the handle and of the entry.
unsafe impl<T: Send> Send for RawHandle<T> {}
// SAFETY: a shared reference reaches only the state word and the closure. The closure is `Send`, and only one thread
// drops the closure.
unsafe impl<T: Send> Sync for RawHandle<T> {}

impl<T> RawHandle<T> {
    #[inline]
    pub(super) fn new(
        head: NonNull<Head>,
        operations: &'static Operations,
        limiter: *const Limiter,
        origin: Origin,
    ) -> Self {
        Self { head, operations, limiter, extra: None, origin, result: PhantomData }
    }

    #[inline]
    fn state(&self) -> &OneShotCell {
        // SAFETY: the handle's bit keeps the cell in memory until the handle detaches.
        unsafe { &self.head.as_ref().cell }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().load().is_finished()
    }

    /// Does the same as [`is_finished`](Self::is_finished). User code calls this function, maybe in a loop. So on a
    /// made-up machine (a simulation), another thread may run first.
    pub(crate) fn has_finished(&self) -> bool {
        machine::step();
        self.is_finished()
    }

    /// If the item has not begun, cancels the item and drops its closure. Returns whether the item was cancelled.
    pub(crate) fn cancel(&self) -> bool {
        self.was_cancelled(self.state().cancel(false))
    }

    /// Cancels an item that has not begun, as [`cancel`](Self::cancel) does, and asks an item that has begun to stop.
    /// Returns whether the item was cancelled.
    pub(crate) fn stop(&self) -> bool {
        self.was_cancelled(self.state().stop())
    }

    /// Returns whether the item belongs to the process from which this process was forked.
    pub(crate) fn is_forked(&self) -> bool {
        self.origin.is_forked()
    }

    /// Cancels the item because its token is cancelled. `reason` is the reason why the token is cancelled.
    fn cancel_for(&self, reason: Cancelled) -> bool {
        self.was_cancelled(self.state().cancel(reason == Cancelled::DeadlinePassed))
    }

    /// Completes the cancel of an item that has not begun. `cancelled` is the answer of the item's state, and is `None`
    /// if the item was not cancelled.
    fn was_cancelled(&self, cancelled: Option<Waiting>) -> bool {
        machine::step();
        if let Some(waiting) = cancelled {
            // The destructor of the closure may panic, so the waiting threads and the task are woken before the closure
            // is dropped.
            OneShotCell::wake(self.state().key(), waiting);
            // If the item has a timer, the timer has nothing to queue any more, so this thread takes the timer off the
            // map. The timer is dropped after the closure, even if the closure's destructor panics. In a forked process
            // the timer stays on the map, because a thread of the parent may have held the map's lock at the fork. In
            // that process the timer never fires.
            let extra = self.extra.as_ref().filter(|_| !self.origin.is_forked());
            let _timer = extra.and_then(|extra| extra.timer.as_ref()?.take());
            // SAFETY: `cancel` gave the closure to this thread.
            unsafe { (self.operations.drop_closure)(self.head) };
        }
        cancelled.is_some()
    }

    pub(crate) fn set_timer(&mut self, timer: TimerName) {
        self.extra.get_or_insert_default().timer = Some(timer);
    }

    pub(crate) fn timer(&self) -> Option<TimerName> {
        self.extra.as_ref()?.timer.clone()
    }

    pub(crate) fn set_token(&mut self, token: Token, timers: &Arc<Timers>) {
        let extra = self.extra.get_or_insert_default();
        extra.timers = (token.deadline() < Time::NEVER).then(|| Arc::clone(timers));
        extra.token = Some(token);
    }

    fn token(&self) -> Option<&Token> {
        self.extra.as_ref()?.token.as_ref()
    }

    /// Waits until the item is over.
    pub(crate) fn wait(&self, until: Until) -> Result<(), WaitError> {
        if self.is_finished() {
            return Ok(());
        }
        waits::check_origin(self.origin)?;
        if self.cancel_if_asked() {
            return Ok(());
        }
        self.check_wait()?;
        let (item, has_deadline) = (self.item(), self.has_deadline());
        let target = Target::OneShot { item, limiter: self.limiter, state: self.state(), has_deadline };
        waits::wait(target, until, || self.is_finished(), |until| self.sleep(until))
    }

    fn item(&self) -> *const Header {
        self.head.as_ptr().cast::<Header>().cast_const()
    }

    fn has_deadline(&self) -> bool {
        self.token().is_some_and(|token| token.deadline() < Time::NEVER)
    }

    /// If the item's token is cancelled and the item has not begun, cancels the item. Returns whether this call has
    /// cancelled the item. The caller has checked that this process is not a fork of the item's process.
    fn cancel_if_asked(&self) -> bool {
        self.token().and_then(Token::reason).is_some_and(|reason| self.cancel_for(reason))
    }

    /// Refuses a wait if the calling item would wait for itself. A deadline ends the wait for an item that has not
    /// begun, even if that item cannot get a slot. But a deadline does not end a wait for the calling item itself,
    /// because that item has begun.
    fn check_wait(&self) -> Result<(), WaitError> {
        if self.has_deadline() && !self.state().load().has_begun() {
            return Ok(());
        }
        match waits::check_one_shot(self.item(), self.limiter) {
            // The awaited item has ended since the caller's check, so the wait is over. The awaited item has given its
            // slot back, so the calling item may seem to hold all slots of the lane.
            Err(WaitError::WouldDeadlock) if self.is_finished() => Ok(()),
            answer => answer,
        }
    }

    /// Waits until the item is over or `token` is cancelled. Returns false if the token was cancelled first.
    pub(crate) fn wait_unless(&self, token: &Token) -> Result<bool, WaitError> {
        if self.is_finished() {
            return Ok(true);
        }
        waits::check_origin(self.origin)?;
        if self.cancel_if_asked() {
            return Ok(true);
        }
        self.check_wait()?;
        let Some(_watch) = token.nudge_on_cancel(self.state().key()) else { return Ok(self.is_finished()) };
        let until = Until::FOREVER.or_at(token.deadline());
        let gives_up = || token.is_cancelled();
        Ok(waits::guarded(|| match self.token() {
            None => self.state().wait_unless(until, gives_up),
            Some(own) => self.sleep_with(own, until, gives_up),
        }))
    }

    /// Sleeps until the item is over. Returns false if the time runs out before the item is over.
    fn sleep(&self, until: Until) -> bool {
        match self.token() {
            None => self.state().wait(until),
            Some(token) => self.sleep_with(token, until, || false),
        }
    }

    /// Sleeps until the item is over. If the item's token is cancelled before the item begins, cancels the item.
    /// Returns false if the time runs out before the item is over, or if `gives_up` returns true. The thread that makes
    /// `gives_up` return true must wake the threads that sleep on the key of the item's cell.
    fn sleep_with(&self, token: &Token, until: Until, gives_up: impl Fn() -> bool) -> bool {
        loop {
            if let Some(reason) = token.reason() {
                return self.cancel_for(reason) || self.state().wait_unless(until, gives_up);
            }
            let _watch = token.nudge_on_cancel(self.state().key());
            let asked = || token.is_cancelled() || gives_up();
            if self.state().wait_unless(until.or_at(token.deadline()), asked) {
                return true;
            }
            if until.is_over() || gives_up() {
                return self.is_finished();
            }
        }
    }

    /// Returns whether the item is over. If the item is not over, its end will wake the task with this waker.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), WaitError>> {
        if self.is_finished() {
            if let Some(extra) = &mut self.extra {
                (extra.waker, extra.watch, extra.alarm) = (None, None, None);
            }
            return Poll::Ready(Ok(()));
        }
        if self.extra.is_some() && self.poll_token(waker) {
            return Poll::Ready(Ok(()));
        }
        waits::poll(self.origin, || self.check_wait(), waker, |alarm| self.state().watch(alarm))
    }

    /// If the token is cancelled and the item has not begun, cancels the item. Returns whether this call has cancelled
    /// the item. If this call has not cancelled the item, a later cancel of the token will wake the task. The token's
    /// deadline will also wake the task, unless the item had begun before this call.
    #[cold]
    fn poll_token(&mut self, waker: &Waker) -> bool {
        let has_begun = self.state().load().has_begun();
        let Some(extra) = self.extra.as_deref_mut().filter(|_| !self.origin.is_forked()) else {
            return false;
        };
        let Some(token) = &extra.token else { return false };
        if !extra.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            extra.watch = token.on_cancel(waker.clone());
            // If the deadline passes after this check of the token, the new waker is due at once, and the manager finds
            // it.
            let timers = extra.timers.as_ref().filter(|_| !has_begun && !token.is_cancelled());
            extra.alarm = timers.map(|timers| TimedWaker::set(timers, token.deadline(), waker.clone()));
            extra.waker = Some(waker.clone());
        }
        let reason = token.reason();
        reason.is_some_and(|reason| self.cancel_for(reason))
    }

    /// Returns whether the item was cancelled because its deadline had passed.
    pub(crate) fn is_late(&self) -> bool {
        self.state().load().is_late()
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
        // SAFETY: the caller waited, and the item was not cancelled, so the item is done. If the item's result was
        // taken before, `take_result` panics and writes nothing.
        unsafe { (self.operations.take_result)(self.head, NonNull::from(&mut result).cast()) };
        // SAFETY: `take_result` has just written the result.
        let result = unsafe { result.assume_init() };
        if result.is_err() {
            machine::panic_is_told(self.head.addr().get());
        }
        Some(result)
    }
}

impl<T> RawHandle<T> {
    /// Detaches the handle. If the item has panicked by now, returns the payload. If the item panics later, its owner
    /// gets the payload.
    pub(crate) fn let_go(self) -> Option<Box<dyn Any + Send>> {
        let mut handle = ManuallyDrop::new(self);
        drop(handle.extra.take());
        if !handle.state().leave() {
            return None;
        }
        let (state, item) = (handle.state().load(), handle.head.addr().get());
        let mut result = MaybeUninit::<RunResult<T>>::uninit();
        let ran = state.is_finished() && !state.is_cancelled();
        if ran {
            // SAFETY: the item is done. If the item's result was taken before, `take_result` panics and writes nothing.
            unsafe { (handle.operations.take_result)(handle.head, NonNull::from(&mut result).cast()) };
        }
        // SAFETY: `leave` has returned true, so the entry is gone.
        unsafe { (handle.operations.free)(handle.head) };
        // SAFETY: if the item ran, its result was written just now.
        let payload = ran.then(|| unsafe { result.assume_init() })?.err();
        if payload.is_some() {
            machine::panic_is_told(item);
        }
        payload
    }
}

impl<T> Drop for RawHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.state().leave() {
            // SAFETY: `leave` has returned true, so the entry is gone.
            unsafe { (self.operations.free)(self.head) };
        }
    }
}
