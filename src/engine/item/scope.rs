//! Items that borrow: a scope that ends only when all of its items are over.
//!
//! The type of an item's cell does not show the borrows of the item. This is sound:
//!
//! * Only `run` makes and ends a `Scope`. It returns, or unwinds, only when the scope's count is zero, or in a forked
//!   process, where the items neither run nor are dropped. A panic of this crate before that aborts the process. User
//!   code gets only references to the scope, so it cannot leak the scope to prevent that.
//! * Each item is counted from before it is queued until its [`Member`] learns that it ran, or is dropped. By then the
//!   closure is gone, and the result is gone or belongs to its handle, which cannot outlive the result's borrows.
//! * Every closure and every result lives for `'scope` at least. The body must be valid for every choice of `'scope`,
//!   so `'scope` cannot be the lifetime of something inside the body, and it ends after `run` does. `'scope` and
//!   `'env` are invariant, so neither can be shrunk to such a lifetime.
#![allow(unsafe_code, reason = "an item's cell knows nothing of what the item borrows; see the module")]

use std::any::Any;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::scope::ScopeCell;
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};

use crate::engine::queue::shard::Limiter;
use crate::engine::queue::workqueue::QueueHandle;
use crate::engine::refusal::QueueError;

use super::context;
use super::entry::Header;
use super::one_shot::handle::RawHandle;
use super::one_shot::{self, Ended, Owner};
use super::place::Place;
use super::waits::register::{self, Roll};
use super::waits::{self};

/// A scope for items that borrow: see [`WorkQueue::scope`](crate::WorkQueue::scope).
///
/// No item lives longer than `'scope`. `'env` is the lifetime of what the items borrow from outside of the scope's
/// body.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{QueueError, Scope, WorkQueue};
///
/// /// Halves the slice until it is short.
/// fn double<'scope>(s: &'scope Scope<'scope, '_>, slice: &'scope mut [u32]) -> Result<(), QueueError> {
///     if slice.len() <= 2 {
///         slice.iter_mut().for_each(|n| *n *= 2);
///         return Ok(());
///     }
///     let (left, right) = slice.split_at_mut(slice.len() / 2);
///     drop(s.spawn(move || double(s, left).unwrap())?);
///     double(s, right)
/// }
///
/// let queue = WorkQueue::new("halves").build()?;
/// let mut numbers = [1, 2, 3, 4, 5, 6, 7];
/// queue.scope(|s| double(s, &mut numbers))??;
/// assert_eq!(numbers, [2, 4, 6, 8, 10, 12, 14]);
/// # Ok(())
/// # }
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    queue: Arc<QueueHandle>,
    scope_state: ScopeState,
    /// Invariant, and used by the items.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The items of a scope, and what became of them.
#[derive(Debug)]
pub(crate) struct ScopeState {
    cell: ScopeCell,
    /// The items that are not over, for the register of waits.
    roll: Roll,
    /// The address of the lane that the item which opened the scope has for itself: no item of the scope can run there.
    /// 0 if there is none.
    closed_limiter: usize,
    /// How many items were dropped without a run, but not cancelled by their handle. It may be below zero for a moment.
    dropped: AtomicUsize,
    /// How many items panicked and were not joined. It may be below zero for a moment: a join may be faster than the
    /// worker that counts the panic.
    panics: AtomicUsize,
    first_panic: Mutex<Option<Payload>>,
}

type Payload = Box<dyn Any + Send>;

/// How a scope ended.
pub(crate) struct ScopeEnd<R> {
    /// What the body returned, or what it or an item panicked with.
    pub(crate) result: Result<R, Payload>,
    /// Whether the process is a fork of the one that opened the scope.
    pub(crate) forked: bool,
    /// How many items were dropped without a run, but not cancelled by their handle.
    pub(crate) dropped: usize,
}

/// Exists from the end of a scope's body until the count is zero. Dropping it aborts the process: no panic may unwind
/// meanwhile, since the callers' frames free what the items borrow.
struct Unfinished;

/// An item's share of the scope.
struct Member {
    /// Valid until the item leaves the count.
    scope_state: NonNull<ScopeState>,
    /// The item's number on the roll.
    number: u64,
}

// SAFETY: the state of a scope is shared by threads: all of its fields are `Sync`.
unsafe impl Send for Member {}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Calls `body` with a scope, and waits until all of its items are over, even if the body panics.
    pub(crate) fn run<R>(
        queue: Arc<QueueHandle>,
        body: impl for<'any> FnOnce(&'any Scope<'any, 'env>) -> R,
    ) -> ScopeEnd<R> {
        let scope = Scope { queue, scope_state: ScopeState::new(), scope: PhantomData, env: PhantomData };
        let origin = scope.queue.queue().executor.origin;
        let open = register::open_scope(&scope.scope_state.roll);
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        // In a forked process, no thread runs the items.
        let forked = origin.is_forked();
        if !forked {
            scope.scope_state.body_leaves(|| waits::guarded(|| scope.scope_state.cell.wait()));
        }
        drop(open);
        // All items have left the count by now, so no thread changes the scope state any more.
        let panicked = scope.scope_state.panics.load(Ordering::Relaxed) != 0;
        let result = match result {
            Ok(_) if panicked => Err(scope.scope_state.first_panic()),
            result => result,
        };
        ScopeEnd { result, forked, dropped: scope.scope_state.dropped.load(Ordering::Relaxed) }
    }

    /// Queues an item. A refusal hands the closure back.
    #[inline]
    pub(crate) fn spawn_raw<F, T>(&'scope self, function: F) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let queue = self.queue.queue();
        let make = |function, lane: *const Limiter| {
            if lane.addr() == self.scope_state.closed_limiter {
                return Err((QueueError::WouldDeadlock, function));
            }
            let number = self.scope_state.roll.enlist(lane);
            if register::closes_cycle(&self.scope_state.roll) {
                self.scope_state.roll.strike(number);
                return Err((QueueError::WouldDeadlock, function));
            }
            // The caller counts already: only the scope's body and its items have the scope.
            self.scope_state.cell.enter();
            let member = Member { scope_state: NonNull::from(&self.scope_state), number };
            // SAFETY: the borrows of the closure and of the result are valid for 'scope. That lasts until `run` has
            // seen the count at zero, and so until the member that was counted just now has left. The handle has the
            // type of the result, and so does not outlive its borrows.
            Ok(unsafe { one_shot::make_owned(function, lane, queue.executor.origin, member) })
        };
        queue.spawn_made(Place::Here, function, make)
    }

    pub(crate) fn scope_state(&'scope self) -> &'scope ScopeState {
        &self.scope_state
    }

    pub(crate) fn queue_name(&self) -> &str {
        self.queue.queue().name()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Not `eprintln`, which a test harness captures, and loses when the process aborts.
        drop(
            io::stderr().write_all(
                b"cmwq: a panic while a scope waits for its items, which still borrow: aborting\n",
            ),
        );
        std::process::abort()
    }
}

impl ScopeState {
    fn new() -> Self {
        let held = context::current().filter(|current| current.holds_only_slot());
        Self {
            cell: ScopeCell::new(),
            roll: Roll::default(),
            closed_limiter: held.map_or(0, |current| current.limiter.addr()),
            dropped: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
            first_panic: Mutex::new(None),
        }
    }

    /// Takes the body out of the count. If the count is not zero then, calls `wait`, which returns when it is.
    fn body_leaves(&self, wait: impl FnOnce()) {
        let unfinished = Unfinished;
        if !self.cell.leave() {
            wait();
        }
        std::mem::forget(unfinished);
    }

    /// Cancels an item by its handle. The item does not count as dropped, since the caller knows what became of it.
    pub(crate) fn cancel<T>(&self, handle: &RawHandle<T>) -> bool {
        // Before the call, since the closure's destructor may panic.
        self.dropped.fetch_sub(1, Ordering::Relaxed);
        let cancelled = handle.cancel();
        if !cancelled {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        cancelled
    }

    /// Counts off the panic of an item that was joined.
    pub(crate) fn panic_was_joined(&self) {
        self.panics.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the first payload that was kept. If there is none, because it is lost with a leaked handle, makes another.
    fn first_panic(&self) -> Payload {
        let payload = self.first_panic.lock().take();
        payload.unwrap_or_else(|| Box::new("an item of the scope panicked"))
    }

    /// Keeps the payload of an item that panicked and has no handle, if it is the first one.
    pub(crate) fn keep_panic(&self, payload: Payload) {
        let mut first = self.first_panic.lock();
        let late = if first.is_none() { first.replace(payload) } else { Some(payload) };
        drop(first);
        crate::engine::user_code::contain(|| drop(late));
    }
}

impl Member {
    fn scope_state(&self) -> &ScopeState {
        // SAFETY: this item is counted, so `run`, which owns the scope state, waits for it.
        unsafe { self.scope_state.as_ref() }
    }

    /// Takes the item, which is over, out of the count. The scope state may be gone afterwards.
    fn leave(&self) {
        self.scope_state().roll.strike(self.number);
        let key = self.scope_state().cell.key();
        if self.scope_state().cell.leave() {
            ScopeCell::wake(key);
        }
    }
}

impl Owner for Member {
    fn begins(&self, item: NonNull<Header>) {
        self.scope_state().roll.begins(self.number, item.as_ptr().addr());
    }

    fn ran(self, ended: Ended) {
        let member = ManuallyDrop::new(self);
        match ended {
            Ended::Well => {}
            Ended::Panicked => {
                member.scope_state().panics.fetch_add(1, Ordering::Relaxed);
            }
            Ended::PanickedAlone(payload) => {
                member.scope_state().panics.fetch_add(1, Ordering::Relaxed);
                member.scope_state().keep_panic(payload);
            }
        }
        member.leave();
    }
}

impl Drop for Member {
    /// Counts an item that was dropped without a run.
    fn drop(&mut self) {
        self.scope_state().dropped.fetch_add(1, Ordering::Relaxed);
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    /// spec: W7 (sound when unwound): a panic between the end of the body and the end of the items aborts the
    /// process, here a child process.
    #[cfg(unix)]
    #[test]
    fn a_panic_while_items_still_borrow_aborts_the_process() {
        use std::os::unix::process::ExitStatusExt;

        const CHILD: &str = "CMWQ_TEST_UNWINDS";
        if std::env::var_os(CHILD).is_some() {
            let scope_state = super::ScopeState::new();
            // An item that is not over.
            scope_state.cell.enter();
            scope_state.body_leaves(|| panic!("while it waits"));
        }
        let own_name = "engine::item::scope::tests::a_panic_while_items_still_borrow_aborts_the_process";
        let output = testkit::output(testkit::again(own_name).env(CHILD, "1")).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
        assert!(errors.contains("which still borrow"), "{errors}");
    }
}
