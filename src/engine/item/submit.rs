//! The issuer's path: the issuer chooses a place, admits the item, enqueues an entry, and *kicks* the pool (wakes a
//! worker if one is needed). While the pool is busy, the issuer takes no lock and makes no system call on this path.

use std::ptr::NonNull;

use crate::protocol::item::Queued;
use crate::sys::machine;

use crate::engine::carrier::Carried;
use crate::engine::queue::admission::Pass;
use crate::engine::queue::bytes::Ask;
use crate::engine::queue::places::Kept;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::QueueError;
use crate::engine::trace;

use super::closure::Closure;
use super::entry::{Entry, Header};
use super::here;
use super::one_shot;
use super::one_shot::handle::RawHandle;
use super::place::Place;
use super::work::WorkHandle;

/// The answer to a submission of a reusable item: whether the submission made the item pending.
type Answer = Result<bool, QueueError>;

impl Queue {
    /// Queues a closure that runs once. If the queue refuses the closure, returns the closure with the error.
    #[inline]
    pub(crate) fn spawn<F, T>(&self, place: Place, function: F) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_in(place, None, function)
    }

    /// Queues a closure like [`spawn`](Self::spawn). `kept` is the item's place among the pending items, if the caller
    /// has taken one.
    #[inline]
    pub(crate) fn spawn_in<F, T>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.carries() {
            return self.spawn_carrying(place, kept, function);
        }
        let origin = self.executor.origin;
        self.spawn_made::<F, T, _>(place, kept, function, |function, lane| {
            Ok(one_shot::make(function, lane, origin))
        })
    }

    /// Queues a closure that runs once, without a handle. If the queue refuses the closure, returns the closure with
    /// the error.
    #[inline]
    pub(crate) fn spawn_detached<F, T>(&self, place: Place, function: F) -> Result<(), (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        self.spawn_detached_in::<F, T>(place, None, function)
    }

    /// Queues a closure like [`spawn_detached`](Self::spawn_detached). `kept` is as in [`spawn_in`](Self::spawn_in).
    #[inline]
    pub(crate) fn spawn_detached_in<F, T>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        function: F,
    ) -> Result<(), (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        if self.carries() {
            return self.spawn_detached_carrying::<F, T>(place, kept, function);
        }
        self.spawn_made::<F, T, _>(place, kept, function, |function, _| {
            Ok((one_shot::make_detached::<F, T>(function), ()))
        })
    }

    /// Queues a closure that runs once. `make` receives the lane of the item's shard, moves the closure into a cell,
    /// and makes the handle. `make` can also refuse the closure. `kept` is the item's place among the pending items, if
    /// the caller has taken one.
    #[inline]
    pub(crate) fn spawn_made<F, T, H>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        mut function: F,
        make: impl FnOnce(F, *const Limiter) -> Result<(NonNull<Header>, H), (QueueError, F)>,
    ) -> Result<H, (QueueError, F)>
    where
        F: Closure<T>,
    {
        machine::step_to(|| (self.executor.machine, self.name()));
        if self.executor.origin.is_forked() {
            return Err((QueueError::Forked, function));
        }
        let kept = match kept.map_or_else(|| self.take_place(), Ok) {
            Ok(kept) => kept,
            Err(full) => return self.spawn_when_full::<F, T, H>(place, full, function, make),
        };
        if let Err(full) = function.take_bytes(self, Ask::Now) {
            return self.spawn_without_bytes::<F, T, H>((place, kept), full, function, make);
        }
        let shard = self.shard(self.executor.placement.index_for(place));
        let pass = match self.admit_unless_full(shard.limiter()) {
            Ok(pass) => pass,
            Err(error) => return Err((error, function)),
        };
        self.spawn_admitted((shard, place), (kept, pass), function, make, Shard::put)
    }

    /// Makes the cell of an admitted closure, and passes the cell's entry to `put`.
    #[inline]
    pub(super) fn spawn_admitted<'q, F, H>(
        &'q self,
        (shard, place): (&'q Shard, Place),
        (kept, pass): (Kept<'_>, Pass),
        function: F,
        make: impl FnOnce(F, *const Limiter) -> Result<(NonNull<Header>, H), (QueueError, F)>,
        put: impl FnOnce(&'q Shard, Entry, bool),
    ) -> Result<H, (QueueError, F)> {
        let (item, handle) =
            make(function, shard.lane()).inspect_err(|_| self.take_back(shard.limiter(), pass))?;
        kept.leave();
        let entry = Entry::new(item, shard, pass.ticket, place.is_bound());
        enqueue(shard, entry, place.named(), pass.has_slot, put);
        Ok(handle)
    }

    /// Queues a reusable item. Returns false if the item was pending already.
    ///
    /// A reusable item is counted in the limiter before the item is marked pending. So once a
    /// thread has seen that the item is pending, each flush that begins later waits for the item.
    #[inline]
    pub(crate) fn queue(&self, place: Place, work: &WorkHandle) -> Result<bool, QueueError> {
        self.queue_in(place, None, work)
    }

    /// Queues a reusable item like [`queue`](Self::queue). `kept` is as in [`spawn_in`](Self::spawn_in).
    #[inline]
    pub(crate) fn queue_in(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        work: &WorkHandle,
    ) -> Result<bool, QueueError> {
        self.queue_with(place, kept, work, || (), Shard::put)
    }

    /// Queues a reusable item like [`queue`](Self::queue). `put` receives the admitted entry, and a flag that tells
    /// whether the entry has a slot. `put` then puts the entry on a worklist or on the waiting list, and wakes a worker
    /// if one is needed. `kept` is the item's place among the pending items, if the caller has taken one. If the queue
    /// is full and the caller does not run the item itself, this function calls `before_wait`, and then waits for room
    /// or refuses the item.
    #[inline]
    pub(crate) fn queue_with<'q>(
        &'q self,
        place: Place,
        kept: Option<Kept<'_>>,
        work: &WorkHandle,
        before_wait: impl FnOnce(),
        put: impl FnOnce(&'q Shard, Entry, bool),
    ) -> Result<bool, QueueError> {
        machine::step_to(|| (self.executor.machine, self.name()));
        // The item's origin is checked too, because an item that was pending at the fork stays pending for ever in the
        // child.
        if self.executor.origin.is_forked() || work.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        let shard = self.shard(self.executor.placement.index_for(place));
        let is_idle = work.cell.load().is_idle();
        let carried = if is_idle {
            self.carried_for(work)
        } else if let Some(answer) = self.queue_without_entry(shard, work) {
            return answer;
        } else {
            match self.revive_carrying(shard, work, self.carried_for(work)) {
                Ok(answer) => return answer,
                Err(carried) => carried,
            }
        };
        let kept = match kept {
            Some(kept) => Ok(kept),
            None => match self.take_place() {
                Ok(kept) => Ok(kept),
                Err(full) => {
                    let runs_here = self.would_run_here(work).then(|| self.admit_here(shard, place));
                    if let Some(admitted) = runs_here.flatten() {
                        return self.queue_here((shard, place), admitted, work, carried);
                    }
                    before_wait();
                    self.when_full(full, None)
                }
            },
        };
        match kept.and_then(|kept| Ok((kept, self.admit_unless_full(shard.limiter())?))) {
            Ok(admitted) => self.queue_admitted((shard, place), admitted, work, (carried, is_idle), put),
            // If another thread has queued the item since the check above, this submission needs no room in the queue.
            // If the submission is refused for lack of room, the refusal is counted here, off the common path, and not
            // by the callers.
            Err(error) => {
                let queued = self.queue_without_room(shard, work, carried);
                queued.unwrap_or_else(|| Err(self.count_refusal(error)))
            }
        }
    }

    /// Queues a reusable item that was admitted, and runs it on the calling thread.
    #[cold]
    #[inline(never)]
    fn queue_here(
        &self,
        to: (&Shard, Place),
        admitted: (Kept<'_>, Pass),
        work: &WorkHandle,
        carried: Option<Carried>,
    ) -> Answer {
        self.queue_admitted(to, admitted, work, (carried, false), here::run)
    }

    /// Queues a reusable item that was admitted, and passes its entry to `put`. `is_idle` is true only if the item was
    /// idle when the submission began.
    #[inline]
    fn queue_admitted<'q>(
        &'q self,
        (shard, place): (&'q Shard, Place),
        (kept, pass): (Kept<'_>, Pass),
        work: &WorkHandle,
        (carried, is_idle): (Option<Carried>, bool),
        put: impl FnOnce(&'q Shard, Entry, bool),
    ) -> Answer {
        // Dropping the unused carried values may run a user's destructor, and the destructor may wait for the queue. So
        // the unused values are dropped only after the admission is undone.
        let mut unused = None;
        let queued = match (carried, is_idle) {
            (None, true) => work.cell.queue(shard.new_place(), pass.ticket),
            (None, false) => queue_again(shard, work, pass),
            (Some(carried), _) => {
                let (queued, left) = work.cell.queue_carrying(shard.new_place(), pass.ticket, carried);
                unused = left;
                queued
            }
        };
        if queued == Queued::Push {
            kept.leave();
            enqueue(
                shard,
                Entry::new(work.item(), shard, pass.ticket, place.is_bound()),
                place.named(),
                pass.has_slot,
                put,
            );
        } else {
            self.take_back(shard.limiter(), pass);
            drop(unused);
        }
        answer(queued, shard, work)
    }

    /// Queues the item if it needs no new entry. The caller has found that the queue has no room for a new entry.
    #[cold]
    #[inline(never)]
    fn queue_without_room(
        &self,
        shard: &Shard,
        work: &WorkHandle,
        carried: Option<Carried>,
    ) -> Option<Answer> {
        let answer = self.queue_without_entry(shard, work);
        answer.or_else(|| self.revive_carrying(shard, work, carried).ok())
    }

    /// If a cancelled entry of the item lies on a list of the shard, queues the item through that entry. The reused
    /// entry then carries the values `carried`. Returns `carried` if the item needs a new entry.
    #[cold]
    #[inline(never)]
    fn revive_carrying(
        &self,
        shard: &Shard,
        work: &WorkHandle,
        carried: Option<Carried>,
    ) -> Result<Answer, Option<Carried>> {
        if !self.carries() || self.may_revive(shard.limiter()).is_err() {
            return Err(carried);
        }
        let (queued, unused) = shard.with_target(work.cell.load(), |target| match carried {
            None => (work.cell.queue_without_entry(target), None),
            Some(carried) => work.cell.revive_carrying(target, carried),
        });
        queued.map(|queued| answer(queued, shard, work)).ok_or(unused)
    }

    /// Queues the item if it needs no new entry. The item needs no new entry if it is pending, or if a cancelled entry
    /// of the item lies on a list of the shard. Returns `None` if the item needs a new entry. Also returns `None` if
    /// the submission carries values and would use the cancelled entry, because this function cannot give the values to
    /// that entry. A pending item can be queued again even if the queue refuses other items.
    fn queue_without_entry(&self, shard: &Shard, work: &WorkHandle) -> Option<Answer> {
        let queue = |target| work.cell.queue_without_entry(target);
        match self.may_revive(shard.limiter()) {
            Ok(()) => {
                let state = work.cell.load();
                let queued = if state.is_pending() || self.carries() {
                    queue(shard.new_place())
                } else {
                    shard.with_target(state, queue)
                };
                queued.map(|queued| answer(queued, shard, work))
            }
            Err(refusal) => {
                let pending = queue(shard.new_place());
                Some(pending.map_or(Err(refusal), |queued| answer(queued, shard, work)))
            }
        }
    }
}

/// Queues an item that was not idle. A cancelled entry of the item may still lie on a list.
#[cold]
#[inline(never)]
fn queue_again(shard: &Shard, work: &WorkHandle, pass: Pass) -> Queued {
    shard.with_target(work.cell.load(), |target| work.cell.queue(target, pass.ticket))
}

pub(super) fn answer(queued: Queued, shard: &Shard, work: &WorkHandle) -> Answer {
    match queued {
        Queued::Push => Ok(true),
        Queued::Revived => {
            revived(shard, work);
            Ok(true)
        }
        Queued::Coalesced => Ok(false),
        Queued::Refused => Err(QueueError::Disabled),
    }
}

/// Notes that a submission reuses the entry of a cancelled submission. The worker that pops the reused entry will not
/// find it cancelled, so this function counts the cancellation.
#[cold]
fn revived(shard: &Shard, work: &WorkHandle) {
    shard.events.cancelled.raise();
    // If the item has begun already, the next submission overwrites the stamp that is made here.
    work.header.stamp(&shard.timing);
    if trace::listens(shard.queue()) {
        trace::queue_work(work.item(), work.item_type, shard, None);
    }
}

/// Stamps and traces an admitted entry, and passes it to `put`. The caller holds a handle to the shard's queue, which
/// keeps the shard and the pool in memory. `named` is the index of the CPU that the issuer named, if it named one.
#[inline]
pub(crate) fn enqueue<'q>(
    shard: &'q Shard,
    entry: Entry,
    named: Option<usize>,
    has_slot: bool,
    put: impl FnOnce(&'q Shard, Entry, bool),
) {
    entry.stamp(&shard.timing);
    if trace::listens(shard.queue()) {
        return enqueue_traced(shard, entry, named, has_slot, put);
    }
    put(shard, entry, has_slot);
}

/// Traces an entry, and passes it to `put`. If the calling thread belongs to a made-up machine (a simulation), the
/// machine may let another thread run at the end of the call.
#[cold]
#[inline(never)]
fn enqueue_traced<'q>(
    shard: &'q Shard,
    entry: Entry,
    named: Option<usize>,
    has_slot: bool,
    put: impl FnOnce(&'q Shard, Entry, bool),
) {
    trace::queue_work(entry.item(), entry.item_type(), shard, named);
    if has_slot {
        trace::activate_work(&entry);
    }
    put(shard, entry, has_slot);
    machine::step();
}
