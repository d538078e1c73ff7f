//! Fork and join: an item can leave a part of its work to other workers.
//!
//! [`join`] calls two closures. While the worker calls the first closure, the second closure is on a list of this
//! worker. The second closure is called the *fork*. When the first closure has returned, the worker usually takes the
//! fork back and calls it. The fork is then a part of the calling item, and costs no more than a call and two fences.
//!
//! If a worker of the pool has nothing else to do, it *takes* the oldest fork of another worker. The workers of sibling
//! pools take forks in the same way as they take excess items. A fork that was taken is an item of its own, in the
//! queue of the forking item. A taken fork holds a slot of the queue's limiter, is counted as an item, and has its own
//! spans, guards and panics. A fork never waits for a slot: if no slot is free, the worker gives the fork back, and the
//! joining thread calls the fork's closure.
//!
//! The joining thread waits for a fork that was taken. The fork may itself make forks, which are its *parts*. The
//! joining thread takes and runs the parts that no worker has taken, because it needs their results anyway. The joining
//! thread may already sleep when the fork makes a part. If a CPU is free at that time, the thread that runs the fork
//! *calls* (wakes) the joining thread, instead of waking another worker. So a deep recursion needs hardly more threads
//! than CPUs. The joining thread takes no other work, for three reasons:
//!
//! * Other work could last longer than the fork, and would then delay the caller.
//! * Other work could need a lock that the caller holds.
//! * Other work would make the stack grow deeper. Without other work, the stack is as deep as if no worker took any
//!   forks, except for the frames of this crate.
//!
//! **The cell.** A fork lies on the stack of the joining thread, and contains the cell of a one-shot. The joining
//! thread owns the handle's side of the cell. The list that contains the fork owns the entry's side of the cell. A
//! worker that takes the fork from the list takes over the entry's side. `join` returns or unwinds only after the
//! entry's side has ended. If the fork was given back, its state is *cancelled*, and the closure is still in its place.
#![allow(unsafe_code, reason = "a fork is on the stack of the thread that waits for it")]

use std::cell::UnsafeCell;
use std::io::{self, Write};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::thread::Result as RunResult;

use crate::policy::one_shot::Take;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::fork;
use crate::sys::machine;
use crate::sys::wait::Until;

use crate::engine::carrier::Carried;
use crate::engine::queue::shard::Shard;
use crate::engine::user_code::contain;
use crate::engine::worker::current::{Current, ONE_SHOT};
use crate::engine::worker::lent;
use crate::engine::worker::levels::Forks;
use crate::engine::worker::worker_thread::{self, NotRun, STATUS_OF_A_PANIC, WorkerThread};

use super::cancellation;
use super::entry::{Abandoned, ByWorker, Entry, ItemOperations, ItemType};
use super::fork_head::{ForkAddress, ForkHead, JoiningPool, end, give_back};
use super::scope::Unfinished;
use super::submit;
use super::token::KeptToken;
use super::waits;
use super::waits::register::Target;

/// The part of a fork that does not depend on the types of its closure and result. Because of `repr(C)`, a pointer to
/// the fork also points to this part.
#[repr(C)]
struct Untyped {
    fork: ForkHead,
    /// The shard of the forking item.
    shard: NonNull<Shard>,
    /// The token of the forking item.
    token: Option<KeptToken>,
    /// The parts of this fork. The thread that runs the fork sets this field before it calls the fork's closure.
    parts: OnceLock<Option<Forks>>,
}

/// A fork on the stack of the joining thread.
#[repr(C)]
struct Fork<F, T> {
    untyped: Untyped,
    /// The values that the fork carries from the forking item. The cell's state decides which thread uses this field
    /// and `contents`.
    carried: UnsafeCell<Option<Carried>>,
    contents: UnsafeCell<Contents<F, T>>,
}

enum Contents<F, T> {
    Closure(F),
    /// A worker has taken the closure and has not stored the result yet.
    Gone,
    Result(RunResult<T>),
}

/// Calls both closures, and returns both results. While this thread calls the first closure, another worker may call
/// the second closure. If the calling thread executes no item that [is allowed to fork](WorkerThread::forking_item), it
/// calls the closures one after the other.
pub(crate) fn join<A, B, T, U>(first: A, second: B) -> (T, U)
where
    A: FnOnce() -> T,
    B: FnOnce() -> U + Send,
    U: Send,
{
    worker_thread::with_current(|worker| {
        match worker.and_then(|worker| Some((worker, worker.forking_item()?))) {
            Some((worker, item)) => join_by(worker, &item, first, second),
            None => (first(), second()),
        }
    })
}

#[inline]
fn join_by<A, B, T, U>(worker: &WorkerThread, item: &Current, first: A, second: B) -> (T, U)
where
    A: FnOnce() -> T,
    B: FnOnce() -> U + Send,
    U: Send,
{
    let shard = item.shard();
    // The token and the carried values are made before the fork, so that the compiler makes the fork in its final
    // place.
    let (token, carried) = (cancellation::token_for_fork(worker), shard.queue().carried());
    let fork = Fork {
        untyped: Untyped {
            fork: ForkHead::new(
                operations::<B, U>(),
                admit,
                worker.fork_at_work(),
                NonNull::from(item).cast(),
                NonNull::from(&*worker.pool as &dyn JoiningPool),
            ),
            shard: NonNull::from(shard),
            token,
            parts: OnceLock::new(),
        },
        carried: UnsafeCell::new(carried),
        contents: UnsafeCell::new(Contents::Closure(second)),
    };
    let address = ForkAddress::new(NonNull::from(&fork).cast());
    let unfinished = Unfinished;
    worker.fork(address);
    let first = catch_unwind(AssertUnwindSafe(first));
    if !worker.takes_back(address) {
        fork.untyped.wait(worker);
    }
    mem::forget(unfinished);
    let Fork { carried, contents, .. } = fork;
    match (first, contents.into_inner()) {
        (Ok(first), Contents::Closure(second)) => {
            drop(carried);
            (first, second())
        }
        (Ok(first), Contents::Result(Ok(second))) => (first, second),
        (Ok(first), Contents::Result(Err(payload))) => {
            contain(|| drop(first));
            resume_unwind(payload)
        }
        (Err(payload), contents) => {
            contain(|| drop(contents));
            resume_unwind(payload)
        }
        (Ok(_), Contents::Gone) => unreachable!("a fork that is over has its closure or its result"),
    }
}

const fn operations<F, T>() -> &'static ItemOperations
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    &ItemOperations {
        execute: execute::<F, T>,
        abandon: |item, _share| {
            give_back(item);
            Abandoned::Ready
        },
        item_type: |_| ItemType::of::<F>(),
    }
}

impl Untyped {
    fn is_over(&self) -> bool {
        self.fork.head.cell.load().is_finished()
    }

    fn parts(&self) -> Option<&Forks> {
        self.parts.get().and_then(Option::as_ref)
    }

    /// Waits until the worker that has taken this fork has run it or given it back. During the wait, runs the parts of
    /// this fork that no other worker has taken.
    #[cold]
    fn wait(&self, worker: &WorkerThread) {
        // SAFETY: the forking item's entry keeps the shard in memory.
        if unsafe { self.shard.as_ref() }.queue().executor.origin.is_forked() {
            // A forked process has no thread that could end the fork. The process cannot call the closure either,
            // because a thread of the parent has taken the fork. So the process ends.
            _ = io::stderr()
                .write_all(b"cmwq: a forked process cannot join what its parent process runs; ending\n");
            fork::end_process(STATUS_OF_A_PANIC);
        }
        while !self.is_over() {
            let parts = self.parts();
            worker.joins(parts);
            match parts.and_then(Forks::take).map(ForkAddress::admit) {
                Some(entry) => entry.into_iter().for_each(lent::execute_part),
                None => self.sleep(worker),
            }
            self.answer(worker);
        }
        self.answer(worker);
        worker.joins(None);
    }

    /// Sleeps until this fork is over, or until another thread calls this thread to run a part of the fork.
    fn sleep(&self, worker: &WorkerThread) {
        // SAFETY: the forking item's entry keeps the shard in memory.
        let shard = unsafe { self.shard.as_ref() };
        let (item, state) = (&raw const self.fork.head.header, &self.fork.head.cell);
        let sleep = |until| {
            // A thread that makes a part of the fork after `will_wait` calls (wakes) this thread if a CPU is free. The
            // check below finds the parts that were made before `will_wait`.
            if state.will_wait() && self.parts().is_some_and(Forks::are_any) {
                state.does_not_wait();
            } else {
                state.wait_unless(until, || self.fork.is_called());
            }
            true
        };
        // A fork that has not begun is given back if it gets no slot. So the fork needs no slot in order to end. An
        // item with a deadline needs no slot in order to end either, so this thread waits for the fork as for such an
        // item.
        let target = Target::OneShot { item, limiter: shard.lane(), state, has_deadline: true };
        worker.sleeps_for_fork(|| {
            if waits::wait(target, Until::FOREVER, || self.is_over(), sleep).is_err() {
                // `waits::wait` has refused the wait, because an item of this fork waits for the calling item. But
                // `join` must not return before the fork is over, so this thread sleeps in spite of the refusal.
                waits::guarded(|| sleep(Until::FOREVER));
            }
        });
    }

    /// If another thread has called (woken) the joining thread, ends the call's reservation. The reservation counts the
    /// joining thread as waking, like a worker that was woken. The reservation ends here, because the joining thread
    /// counts as running by now.
    fn answer(&self, worker: &WorkerThread) {
        let call = self.fork.take_call();
        if let Some(reserved) = call {
            worker.pool.give_up_place(reserved);
        }
    }
}

/// See [`ForkAddress::admit`].
///
/// # Safety
///
/// The calling thread owns the entry's side of the fork's cell.
unsafe fn admit(fork: ForkAddress) -> Option<Entry> {
    let item = fork.item();
    // SAFETY: the entry's side of the cell keeps the fork in place. The forking item does not end before the fork, and
    // the forking item's entry keeps the shard in memory.
    let shard = unsafe { item.cast::<Untyped>().as_ref().shard.as_ref() };
    let queue = shard.queue();
    let Some(pass) = queue.pass_here(shard.limiter()) else {
        give_back(item);
        return None;
    };
    // An item gives its place among the pending items back when it begins. The fork takes such a place even if none is
    // free, but only for a moment, because the fork begins at once.
    queue.take_place_anyway();
    let mut entry = None;
    let put = |_: &Shard, admitted: Entry, _has_slot: bool| entry = Some(admitted);
    submit::enqueue(shard, Entry::new(item, shard, pass.ticket, false), None, pass.has_slot, put);
    entry
}

/// # Safety
///
/// The entry's item is a fork of these types.
unsafe fn execute<F, T>(entry: Entry, by: ByWorker<'_>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let worker = WorkerThread::of(by);
    // SAFETY: the entry's side of the cell keeps the fork in place until `end`.
    let fork: &Fork<F, T> = unsafe { entry.item().cast().as_ref() };
    let Untyped { fork: ForkHead { head, .. }, token, parts, .. } = &fork.untyped;
    let state = &head.cell;
    // The joining thread never cancels a fork, and only one thread takes the fork.
    assert_eq!(state.take(), Take::Run);
    // SAFETY: the caller promises that the entry's item is a fork.
    drop(parts.set(worker.begins_fork(unsafe { ForkAddress::of_item(entry.item()) })));
    // SAFETY: this thread has begun the fork, so the joining thread uses neither `carried` nor `contents` before `end`.
    let (carried, contents) = unsafe { (&mut *fork.carried.get(), &mut *fork.contents.get()) };
    let mut carried = carried.take();
    let parent = carried.as_mut().map(|carried| carried.parent()).unwrap_or_default();
    let call = || {
        let Contents::Closure(closure) = mem::replace(contents, Contents::Gone) else {
            unreachable!("a fork that has not begun has its closure")
        };
        let call = || match carried {
            Some(carried) => carried.run(closure),
            None => closure(),
        };
        match token {
            // SAFETY: the forking item keeps the token while it waits for this fork.
            Some(token) => unsafe { token.token() }.enter(call),
            None => call(),
        }
    };
    let result = worker.call(&entry, ItemType::of::<F>(), ONE_SHOT, parent, call);
    worker.ends_fork();
    if result.as_ref().is_err_and(|payload| payload.is::<NotRun>()) {
        // The closure is still in its place.
        end(state, |state| state.abandon(false));
    } else {
        if result.is_err() {
            // The joining thread goes on with this panic, or with its own.
            machine::own_panic_is_told();
        }
        *contents = Contents::Result(result);
        end(state, OneShotCell::finish);
    }
    worker.complete(entry);
}
