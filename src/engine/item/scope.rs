//! Items that borrow from outside their closures, and the scope of such items. A scope ends only when all of its items
//! are over.
//!
//! The type of an item's cell does not show what the item borrows. Hiding the borrows is sound for three reasons:
//!
//! * Only `run` makes and ends a `Scope`. `run` returns, or unwinds, only when the scope's count of unfinished items is
//!   zero. In a forked process, `run` does not wait for the count to become zero, because the items neither run nor are
//!   dropped there. If this crate panics before the scope's count is zero, the process aborts. User code gets only
//!   references to the scope, so it cannot leak the scope to avoid the wait.
//! * Each item enters its scope's count before the item is queued. The item leaves the count when its [`Member`] learns
//!   that the item ran or was cancelled, or when the `Member` is dropped. When the item leaves the count, its closure
//!   is gone. The item's result is then gone too, or belongs to the item's handle, which cannot outlive the result's
//!   borrows.
//! * Every closure and every result is valid at least for `'scope`. The body must be valid for every choice of
//!   `'scope`. So `'scope` cannot be the lifetime of a variable inside the body, and `'scope` ends after `run` does.
//!   `'scope` and `'env` are invariant, so neither can be shrunk to the lifetime of such a variable.
#![allow(unsafe_code, reason = "an item's cell knows nothing of what the item borrows; see the module")]

use std::any::Any;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::scope::ScopeCell;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};
use crate::sys::wait::Until;

use crate::engine::executor::inner::ExecutorInner;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::QueueHandle;
use crate::engine::refusal::QueueError;

use super::closure::Closure;
use super::entry::Header;
use super::one_shot::handle::RawHandle;
use super::one_shot::{self, Ended, Owner};
use super::place::Place;
use super::waits::register::{self, Roll};
use super::waits::{self};
use super::with_options::ClosureOptions;

/// A scope for items that borrow. See [`WorkQueue::scope`](crate::WorkQueue::scope).
///
/// No item lives longer than `'scope`. `'env` is the lifetime of the values that the items borrow from outside the
/// scope's body.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{QueueError, Scope, WorkQueue};
///
/// /// Doubles the numbers. Queues the left half of a long slice as an item.
/// fn double<'scope>(s: &'scope Scope<'scope, '_>, slice: &'scope mut [u32]) -> Result<(), QueueError> {
///     if slice.len() <= 2 {
///         slice.iter_mut().for_each(|n| *n *= 2);
///         return Ok(());
///     }
///     let (left, right) = slice.split_at_mut(slice.len() / 2);
///     s.spawn(move || double(s, left).unwrap())?;
///     double(s, right)
/// }
///
/// let queue = WorkQueue::new("halves");
/// let mut numbers = [1, 2, 3, 4, 5, 6, 7];
/// queue.scope(|s| double(s, &mut numbers))?;
/// assert_eq!(numbers, [2, 4, 6, 8, 10, 12, 14]);
/// # Ok(())
/// # }
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    queue: Arc<QueueHandle>,
    scope_state: ScopeState,
    /// Makes the scope invariant in `'scope`, the lifetime for which the items' closures and results are valid.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The items of a scope that are not over, and the outcomes of the items that are over.
#[derive(Debug)]
pub(crate) struct ScopeState {
    cell: ScopeCell,
    /// The items that are not over, in the form that the register of waits needs.
    roll: Roll,
    openers: Openers,
    /// The origin of the scope's queue.
    origin: Origin,
    /// The number of items that were dropped without a run, except for items that a handle, a token or a deadline has
    /// cancelled.
    dropped: AtomicUsize,
    /// The number of items that panicked and were not joined. The number can be below zero for a short time, because an
    /// item can be joined before its worker has counted the panic.
    panics: AtomicUsize,
    first_panic: Mutex<Option<Payload>>,
}

/// The items that cannot end before the scope: the item that opened the scope, and the items that cannot end before
/// that item. The list stores each item as the shard through which the item was queued.
#[derive(Debug)]
struct Openers(Vec<NonNull<Shard>>);

// SAFETY: the list only points to shards, which threads may share.
unsafe impl Send for Openers {}
// SAFETY: the list only points to shards, which threads may share.
unsafe impl Sync for Openers {}

type Payload = Box<dyn Any + Send>;

/// The outcome of a scope.
pub(crate) struct ScopeEnd<R> {
    /// The result of the body, or the payload of a panic of the body or of an item.
    pub(crate) result: Result<R, Payload>,
    /// Whether this process is a fork of the process that opened the scope.
    pub(crate) forked: bool,
    /// The number of items that were dropped without a run, except for items that a handle, a token or a deadline has
    /// cancelled.
    pub(crate) dropped: usize,
}

/// A guard that aborts the process when it is dropped. The guard exists while a thread waits for the items of a scope,
/// or for a fork. The awaited items or the awaited fork borrow from the frames of the waiting thread's callers. A panic
/// must not unwind these frames while the guard exists, because the unwinding would free the borrowed values.
pub(super) struct Unfinished;

/// The membership of one item in a scope.
struct Member {
    /// The state of the scope. The pointer is valid until the item leaves the count.
    scope_state: NonNull<ScopeState>,
    /// The item's number on the scope's roll.
    number: u64,
}

// SAFETY: threads may share the state of a scope, because all of its fields are `Sync`.
unsafe impl Send for Member {}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Calls `body` with a scope, and waits until all items of the scope are over, even if the body panics.
    pub(crate) fn run<R>(
        queue: Arc<QueueHandle>,
        body: impl for<'any> FnOnce(&'any Scope<'any, 'env>) -> R,
    ) -> ScopeEnd<R> {
        let origin = queue.queue().executor.origin;
        let scope_state = ScopeState::new(origin);
        let scope = Scope { queue, scope_state, scope: PhantomData, env: PhantomData };
        let open = register::open_scope(&scope.scope_state.roll);
        let result = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        // In a forked process no thread runs the items, so a wait for the items would never end.
        let forked = origin.is_forked();
        if !forked {
            let cell = &scope.scope_state.cell;
            scope.scope_state.body_leaves(|| {
                machine::step();
                let name = scope.queue.queue().name();
                let _says = machine::waits_for_queue(name, || format!("a scope on queue {name:?}"));
                if !waits::search(Until::FOREVER, || cell.is_over()) {
                    waits::guarded(|| cell.wait());
                }
            });
        }
        drop(open);
        // Unless the process was forked, all items have left the count by now. So no thread changes the scope state any
        // more. A forked process ignores the counted panics, because they are those of the parent's items. Such a
        // process does not take the lock of the first panic's payload, because a thread of the parent may have held
        // this lock at the fork.
        let panicked = !forked && scope.scope_state.panics.load(Ordering::Relaxed) != 0;
        let result = match result {
            Ok(_) if panicked => Err(scope.scope_state.first_panic()),
            result => result,
        };
        ScopeEnd { result, forked, dropped: scope.scope_state.dropped.load(Ordering::Relaxed) }
    }

    /// Queues an item. If the item is refused, returns the closure with the error.
    #[inline]
    pub(crate) fn spawn_raw<F, T>(
        &'scope self,
        place: Place,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'scope,
        T: Send + 'scope,
    {
        if self.queue.queue().carries() {
            return self.spawn_raw_with(place, ClosureOptions::default(), function);
        }
        self.spawn_as_is(place, function)
    }

    /// Queues an item as [`spawn_raw`](Self::spawn_raw) does, but with options. Captures the values that the
    /// submission carries.
    #[cold]
    #[inline(never)]
    pub(crate) fn spawn_raw_with<F, T>(
        &'scope self,
        place: Place,
        options: ClosureOptions,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'scope,
        T: Send + 'scope,
    {
        let boxed = self.queue.queue().with_options(options, function);
        // SAFETY: the refused closure is the one that was boxed above.
        self.spawn_as_is(place, boxed).map_err(|(error, boxed)| (error, unsafe { boxed.into_closure::<F>() }))
    }

    /// Queues an item whose closure already contains the values that it carries.
    #[inline]
    fn spawn_as_is<F, T>(&'scope self, place: Place, function: F) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'scope,
        T: Send + 'scope,
    {
        let queue = self.queue.queue();
        let make = |function, lane: *const Limiter| {
            if self.scope_state.openers.block(lane) {
                return Err((QueueError::WouldDeadlock, function));
            }
            let Some(number) = self.scope_state.roll.enlist(lane) else {
                return Err((QueueError::WouldDeadlock, function));
            };
            // The scope's count already includes the caller, because only the scope's body and the scope's items can
            // reach the scope.
            self.scope_state.cell.enter();
            let origin = queue.executor.origin;
            let member = Member { scope_state: NonNull::from(&self.scope_state), number };
            // SAFETY: the borrows of the closure and of the result are valid for `'scope`. `'scope` does not end before
            // `run` has seen the count at zero, and by then the new member has left the count. The handle's type
            // contains the type of the result, so the handle does not outlive the result's borrows.
            let made = unsafe { one_shot::make_owned(function, lane, origin, member) };
            self.scope_state.roll.is_made(number, made.0.addr().get());
            Ok(made)
        };
        queue.spawn_made::<F, T, _>(place, None, function, make)
    }

    pub(crate) fn scope_state(&'scope self) -> &'scope ScopeState {
        &self.scope_state
    }

    pub(crate) fn executor(&self) -> &ExecutorInner {
        &self.queue.queue().executor
    }

    /// See [`Queue::count_refusal`].
    #[cold]
    pub(crate) fn count_refusal(&self, error: QueueError) -> QueueError {
        self.queue.queue().count_refusal(error)
    }

    pub(crate) fn queue_name(&self) -> &str {
        self.queue.queue().name()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // `eprintln` is not used here, because a test harness captures the output of `eprintln`, and loses this output
        // when the process aborts.
        drop(io::stderr().write_all(
            b"cmwq: a panic occurred while a thread waited for items that borrow from it; aborting\n",
        ));
        std::process::abort()
    }
}

impl ScopeState {
    fn new(origin: Origin) -> Self {
        Self {
            cell: ScopeCell::new(),
            roll: Roll::new(origin),
            openers: Openers(waits::shards_of_items()),
            origin,
            dropped: AtomicUsize::new(0),
            panics: AtomicUsize::new(0),
            first_panic: Mutex::new(None),
        }
    }

    /// Takes the scope's body out of the scope's count. If the count is not zero after that, calls `wait`, which
    /// returns when the count is zero.
    fn body_leaves(&self, wait: impl FnOnce()) {
        let unfinished = Unfinished;
        if !self.cell.leave() {
            wait();
        }
        std::mem::forget(unfinished);
    }

    /// Takes the panic of a joined item out of the scope's count of panics.
    pub(crate) fn panic_was_joined(&self) {
        self.panics.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the payload of the first panic, which the scope has kept. If the payload was lost with a leaked handle,
    /// makes a substitute.
    fn first_panic(&self) -> Payload {
        let payload = self.first_panic.lock().take();
        payload.unwrap_or_else(|| Box::new("an item of the scope panicked"))
    }

    /// Keeps the payload of an item that panicked and has no handle. If the scope has already kept a payload, drops
    /// `payload`. A forked process drops each payload without taking the lock, because a thread of the parent may have
    /// held the lock at the fork.
    pub(crate) fn keep_panic(&self, payload: Payload) {
        let late = if self.origin.is_forked() { Some(payload) } else { self.put_if_first(payload) };
        crate::engine::user_code::contain(|| drop(late));
    }

    /// Keeps `payload` if the scope has kept no payload yet. Otherwise, returns `payload`.
    fn put_if_first(&self, payload: Payload) -> Option<Payload> {
        let mut first = self.first_panic.lock();
        if first.is_none() { first.replace(payload) } else { Some(payload) }
    }
}

impl Openers {
    /// Returns whether the openers hold all slots of this lane (see `Shard::lane`). If they do, no item of the scope
    /// can run in this lane before the scope ends.
    fn block(&self, lane: *const Limiter) -> bool {
        // SAFETY: no opener ends before the scope. Until an opener ends, its entry keeps its shard in memory.
        let shards = self.0.iter().map(|shard| unsafe { shard.as_ref() });
        let mut in_lane = shards.filter(|shard| std::ptr::eq(shard.lane(), lane));
        let Some(shard) = in_lane.next() else { return false };
        let held = || 1 + in_lane.count() as u64;
        shard.is_in_context() || waits::are_all_slots_held(shard.queue(), shard.limiter(), held)
    }
}

impl Member {
    fn scope_state(&self) -> &ScopeState {
        // SAFETY: this item is counted, so `run`, which owns the scope state, waits for the item.
        unsafe { self.scope_state.as_ref() }
    }

    /// Removes the item from the scope's count, because the item is over. After this call, the scope state may no
    /// longer exist.
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

    fn ends(&self) {
        self.scope_state().roll.strike(self.number);
    }

    fn cancelled(self) {
        // A cancelled item does not count as dropped, because its user has asked for the cancel or for the deadline.
        ManuallyDrop::new(self).leave();
    }

    fn ran(self, ended: Ended) {
        let member = ManuallyDrop::new(self);
        match ended {
            Ended::Well => {}
            Ended::Panicked => {
                member.scope_state().panics.fetch_add(1, Ordering::Relaxed);
            }
            Ended::PanickedAlone(payload) => {
                machine::own_panic_is_told();
                member.scope_state().panics.fetch_add(1, Ordering::Relaxed);
                member.scope_state().keep_panic(payload);
            }
        }
        member.leave();
    }
}

impl Drop for Member {
    /// Counts the item as dropped without a run.
    fn drop(&mut self) {
        self.scope_state().dropped.fetch_add(1, Ordering::Relaxed);
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    /// spec: W7 (sound when unwound): a panic in a scope after the end of its body and before the end of its items
    /// aborts the process, which in this test is a child process.
    #[cfg(unix)]
    #[test]
    fn a_panic_while_items_still_borrow_aborts_the_process() {
        use std::os::unix::process::ExitStatusExt;

        const CHILD: &str = "CMWQ_TEST_UNWINDS";
        if std::env::var_os(CHILD).is_some() {
            let scope_state = super::ScopeState::new(super::Origin::here());
            // This item is never over.
            scope_state.cell.enter();
            scope_state.body_leaves(|| panic!("while it waits"));
        }
        let own_name = "engine::item::scope::tests::a_panic_while_items_still_borrow_aborts_the_process";
        let output = testkit::output(testkit::again(own_name).env(CHILD, "1")).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
        assert!(errors.contains("that borrow from it"), "{errors}");
    }
}
