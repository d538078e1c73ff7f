//! The checks before each wait for an item or a queue, and the wait itself.
//!
//! This module first checks whether the wait can end, and then waits under a *blocking guard*, through which a worker
//! tells its pool that it blocks. Every build refuses a wait for the caller's own item. Every build also refuses a wait
//! for an item that needs a slot, if the caller and items that cannot end before the caller hold all slots that the
//! awaited item can get. But a wait for an item that needs a slot is permitted if the awaited item's token is cancelled
//! or has a deadline, because the token then ends the wait. A debug build also refuses a wait that closes a cycle of
//! items that wait for each other. See `register`. A thread that is not a worker has no item, so the checks of this
//! module refuse none of the thread's waits.

pub(crate) mod block_on;
pub(crate) mod register;
pub(crate) mod task;

use std::cell::Cell;
use std::ptr::NonNull;
use std::task::{Poll, Waker};

use crate::policy::item::Instance;
use crate::policy::search::{LIMIT, Patience};
use crate::protocol::signal::Signal;
use crate::sys::clock;
use crate::sys::fork::Origin;
use crate::sys::machine;
use crate::sys::search::{self, Search};
use crate::sys::wait::Until;
use crate::sys::wakers::Alarm;

use crate::engine::queue::register::QueueRef;
use crate::engine::queue::shard::{Limiter, Shard, is_in_context};
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::WaitError;
use crate::engine::user_code::{self, report};
use crate::engine::worker::current::Current;
use crate::engine::worker::worker_thread::{self, WorkerThread};

use super::context::current;
use super::entry::Header;
use super::timers::TimerName;
use super::waits::register::Target;
use super::work::WorkItem;

/// Waits for the target. Calls `is_over` again and again for a short time, and then calls `sleep`. `sleep` returns
/// false if the timeout expires before the wait is over.
pub(crate) fn wait(
    target: Target<'_>,
    until: Until,
    is_over: impl Fn() -> bool,
    sleep: impl FnOnce(Until) -> bool,
) -> Result<(), WaitError> {
    machine::step();
    let _says = target.says();
    if search(until, is_over) {
        return Ok(());
    }
    // A wait with a timeout is not registered, because it ends by itself.
    let _registered = if until.is_forever() { register::register(target)? } else { None };
    match guarded(|| sleep(until)) {
        true => Ok(()),
        false => Err(WaitError::TimedOut),
    }
}

thread_local! {
    /// Decides from the thread's last waits whether the thread stays awake for a short time before it sleeps.
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::NEW) };
}

/// Keeps the calling thread awake for a short time, in which the wait may end. Returns whether the wait is over. If the
/// wait is not over, the caller then sleeps at most until `until`. A worker does not stay awake, because it leaves its
/// CPU to other workers of its pool while it waits.
pub(crate) fn search(until: Until, is_over: impl Fn() -> bool) -> bool {
    let ends_early = || until.time().is_some_and(|end| end < clock::now() + LIMIT);
    if worker_thread::with_current(|worker| worker.is_some()) || ends_early() {
        return false;
    }
    let (patience, searches) = PATIENCE.get().begin();
    PATIENCE.set(patience);
    searches && {
        let Search { found, took, .. } = search::search(LIMIT, is_over);
        PATIENCE.set(patience.end(found, took));
        found
    }
}

/// Waits for the target on behalf of a task. `watch` keeps the alarm, and returns false if the wait is over.
///
/// A task that is not ready holds no thread, so an item may poll the task and end before the task is ready. But an item
/// that polls the task under [`block_on`](block_on::block_on) cannot end before the task. So `poll` calls `check` only
/// under `block_on`. `check` refuses a wait of the calling item that could never end.
pub(crate) fn poll(
    origin: Origin,
    check: impl FnOnce() -> Result<(), WaitError>,
    waker: &Waker,
    watch: impl FnOnce(Alarm) -> bool,
) -> Poll<Result<(), WaitError>> {
    machine::step();
    check_origin(origin)?;
    if block_on::is_polling() {
        check()?;
    }
    let alarm = Alarm { waker: waker.clone(), ring };
    if watch(alarm) { Poll::Pending } else { Poll::Ready(Ok(())) }
}

fn ring(waker: Waker) {
    user_code::call(|| waker.wake());
}

/// Refuses a wait in a forked process if the wait needs threads of the parent process.
#[inline]
pub(crate) fn check_origin(origin: Origin) -> Result<(), WaitError> {
    if origin.is_forked() { Err(WaitError::Forked) } else { Ok(()) }
}

/// Refuses a wait for a one-shot if the caller would wait for itself. The caller has seen that the one-shot has not
/// ended. `limiter` is the one-shot's lane.
#[inline]
pub(crate) fn check_one_shot(item: *const Header, limiter: *const Limiter) -> Result<(), WaitError> {
    let is_own = |current: Current| std::ptr::eq(current.item, item);
    refuse_if(|worker| worker.items().any(is_own) || is_blocked(worker, limiter))
}

/// Refuses a wait for an item that needs a slot of this lane (see `Shard::lane`), if the caller would wait for itself.
pub(crate) fn check_lane(limiter: *const Limiter) -> Result<(), WaitError> {
    refuse_if(|worker| is_blocked(worker, limiter))
}

/// Refuses a wait for a queue to become empty, if the caller would wait for itself. The caller would wait for itself in
/// three cases: its item belongs to the queue, is pending on the queue for another run, or occupies a bh context that
/// an item of the queue needs.
#[inline]
pub(crate) fn check_queue(queue: &Queue) -> Result<(), WaitError> {
    let is_awaited = |current: Current| {
        let home = current.pending_on();
        std::ptr::eq(current.queue(), queue)
            || home.is_some_and(|home| queue.lane_of(home).is_some())
            || queue.needs_context(current.lane())
    };
    refuse_if(|worker| worker.items().any(is_awaited))
}

/// Logs a warning, in debug builds, if an item of a queue with a rescuer waits for a queue without a rescuer. A rescuer
/// is for work that must make progress even if no thread can be made. If no thread can be made, the wait for a queue
/// without a rescuer might not end.
pub(crate) fn check_rescuers(awaited: &Queue) {
    let Some(current) = current().filter(|_| cfg!(debug_assertions)) else { return };
    let own = current.queue();
    if own.rescuer().is_some() && awaited.rescuer().is_none() {
        report!(
            warn,
            "an item of queue {:?}, which has a rescuer, waits for queue {:?}, which has none; if no thread can be \
             made, neither queue makes progress",
            own.name(),
            awaited.name()
        );
    }
}

/// Refuses a wait for this item's present run if the caller would wait for the end of its own run.
pub(crate) fn check_run(work: &WorkItem) -> Result<(), WaitError> {
    refuse_if(|worker| executes(worker, work))
}

/// Returns whether `work` is one of the items that cannot end before the calling worker's wait.
fn executes(worker: &WorkerThread, work: &WorkItem) -> bool {
    worker.items().any(|current| std::ptr::eq(current.item, std::ptr::from_ref(work).cast()))
}

/// Refuses a wait for a submission of a reusable item, if the caller would wait for itself. The caller has read
/// `signal` and `timer` from the item in one step. The timer may have fired since.
pub(crate) fn check_submission(
    work: &WorkItem,
    signal: &Signal,
    timer: Option<&TimerName>,
) -> Result<(), WaitError> {
    let home = || {
        let state = work.cell.load();
        state.is_pending_on_list().then(|| state.home())
    };
    refuse_if(|worker| {
        let lane = match timer {
            Some(timer) => Some(timer.lane()),
            None => home().and_then(|home| worker.items().find_map(|current| current.lane_of(home))),
        };
        let holds_context = |current: Current| current.in_context() && is_in_context(home, current.lane());
        let is_own = executes(worker, work);
        let is_blocked = is_own
            || lane.is_some_and(|lane| is_blocked(worker, lane))
            || (timer.is_none() && worker.items().any(holds_context));
        // Since the reads above, the awaited item may have begun, and other items may then have given up their slots.
        // In that case the caller's items hold all slots, but the awaited item does not need a slot any more. The
        // awaited submission may also be over, and the item may be pending or running because of a later submission.
        is_blocked
            && match work.cell.instance_of(signal) {
                Instance::Pending => true,
                Instance::Running => is_own,
                Instance::None => false,
            }
    })
}

/// Refuses a wait of the calling thread if the thread is a worker for which `never_ends` returns true. None of the
/// items in [`WorkerThread::items`] can end before the wait.
#[inline]
fn refuse_if(never_ends: impl FnOnce(&WorkerThread) -> bool) -> Result<(), WaitError> {
    match worker_thread::with_current(|worker| worker.is_some_and(never_ends)) {
        true => Err(WaitError::WouldDeadlock),
        false => Ok(()),
    }
}

/// Returns whether the caller's items hold all slots of this lane (see `Shard::lane`). If they do, no other item of the
/// lane can run before one of the caller's items ends. The caller's items are those that cannot end before the caller's
/// wait. Besides the slot of its present run, an item may have a slot for its next run.
fn is_blocked(worker: &WorkerThread, lane: *const Limiter) -> bool {
    let is_in_lane = |current: &Current| std::ptr::eq(current.lane(), lane);
    let slots = |current: Current| u64::from(is_in_lane(&current)) + u64::from(keeps_slot(&current, lane));
    let held = || distinct_items(worker).map(slots).sum::<u64>();
    if let Some(current) = worker.items().find(is_in_lane) {
        return current.in_context() || are_all_slots_held(current.queue(), current.shard().limiter(), held);
    }
    let Some(queue) = worker.items().find_map(|current| queue_of_kept_slot(&current, lane)) else {
        return false;
    };
    queue.limiters().any(|own| std::ptr::eq(own, lane) && are_all_slots_held(&queue, own, held))
}

/// Returns whether the caller's items hold all slots of this limiter of the queue. The caller's items are those that
/// cannot end before the caller, and `held` returns the number of slots that they hold. While the queue is frozen, the
/// answer refers to the slots that the limiter has when the queue is not frozen. If the answer is true, the caller sees
/// the effects of all items that are done.
///
/// `held` is called last, because another thread may take away the slot for an item's next run at any time.
pub(super) fn are_all_slots_held(queue: &Queue, limiter: &Limiter, held: impl FnOnce() -> u64) -> bool {
    let word = limiter.cell.load();
    let max = match word.max() {
        0 => queue.max_active() as u64,
        max => max,
    };
    // `in_flight` acquires the writes of the items that left the limiter before `word` was read.
    word.active() >= max && limiter.cell.in_flight() > 0 && word.active() <= held()
}

/// Returns the items that cannot end before the caller. In contrast to [`WorkerThread::items`], returns each item only
/// once. `WorkerThread::items` returns an item more than once if the item's thread waits for a fork of the item, and
/// runs a part of this fork.
fn distinct_items(worker: &WorkerThread) -> impl Iterator<Item = Current> {
    let is_first = move |n: usize, item: &Current| {
        !worker.items().take(n).any(|earlier| std::ptr::eq(earlier.item, item.item))
    };
    worker.items().enumerate().filter(move |(n, item)| is_first(*n, item)).map(|(_, item)| item)
}

/// Returns the shards of the items that cannot end before the caller, one for each item.
pub(super) fn shards_of_items() -> Vec<NonNull<Shard>> {
    worker_thread::with_current(|worker| {
        worker.map(|worker| distinct_items(worker).map(|current| current.shard).collect()).unwrap_or_default()
    })
}

/// Returns whether the item was given a slot of this limiter for its next run.
fn keeps_slot(current: &Current, limiter: *const Limiter) -> bool {
    current.with_kept(|entry| std::ptr::eq(entry.shard().limiter(), limiter)) == Some(true)
}

/// Returns the queue of this limiter, if the item was given a slot of the limiter for its next run. The result keeps
/// the queue in memory, even if another thread cancels that run.
fn queue_of_kept_slot(current: &Current, limiter: *const Limiter) -> Option<QueueRef> {
    let queue = current.with_kept(|entry| {
        let shard = entry.shard();
        std::ptr::eq(shard.limiter(), limiter).then(|| shard.queue().reference())
    });
    queue.flatten()
}

/// Runs `wait`, which may block, under a blocking guard.
pub(crate) fn guarded<R>(wait: impl FnOnce() -> R) -> R {
    let _guard = Guard(worker_thread::with_current(|worker| worker.map(|worker| worker.enter_guard())));
    wait()
}

/// Leaves the blocking guard when this value is dropped. The field is the sequence number of the worker's item, or
/// `None` if this thread is not a worker.
struct Guard(Option<u64>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(sequence) = self.0 {
            worker_thread::with_current(|worker| {
                if let Some(worker) = worker {
                    worker.leave_guard(sequence);
                }
            });
        }
    }
}
