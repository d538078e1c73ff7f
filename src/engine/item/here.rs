//! Submissions that find no room in their queue or executor, and items that their issuer therefore runs itself.
//!
//! An issuer runs an item itself only if the item gets a slot immediately. So the number of active items stays within
//! the limit. The entry is on no list, because the issuer executes it itself. If the issuer does not run the item, the
//! queue's `when_full` decides: either the issuer waits for a place and queues the item as usual, or the submission is
//! refused.

use std::ptr::NonNull;

use crate::policy::when_full::WhenFull;

use crate::engine::queue::admission::Pass;
use crate::engine::queue::bytes::Ask;
use crate::engine::queue::places::Kept;
use crate::engine::queue::shard::{Limiter, Shard};
use crate::engine::queue::workqueue::{Queue, QueueKind};
use crate::engine::refusal::QueueError;
use crate::engine::worker::lent;

use super::closure::Closure;
use super::entry::{Entry, Header};
use super::place::Place;
use super::work::WorkItem;

impl Queue {
    /// Queues a closure like [`spawn_made`](Self::spawn_made), after the queue was found full. The issuer may run the
    /// closure itself.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_when_full<F, T, H>(
        &self,
        place: Place,
        full: QueueError,
        function: F,
        make: impl FnOnce(F, *const Limiter) -> Result<(NonNull<Header>, H), (QueueError, F)>,
    ) -> Result<H, (QueueError, F)>
    where
        F: Closure<T>,
    {
        let shard = self.shard(self.executor.placement.index_for(place));
        if let Some(admitted) = self.admit_here(shard, place) {
            return self.spawn_admitted((shard, place), admitted, function, make, run);
        }
        match self.when_full(full, function.token()) {
            Ok(kept) => self.spawn_made::<F, T, H>(place, Some(kept), function, make),
            Err(error) => Err((error, function)),
        }
    }

    /// Queues a closure like [`spawn_made`](Self::spawn_made), after the issuer found no room for the closure's bytes.
    /// The issuer may run the closure itself. If the issuer runs the closure, the closure begins immediately, and its
    /// bytes need no room.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_without_bytes<F, T, H>(
        &self,
        (place, kept): (Place, Kept<'_>),
        refusal: QueueError,
        mut function: F,
        make: impl FnOnce(F, *const Limiter) -> Result<(NonNull<Header>, H), (QueueError, F)>,
    ) -> Result<H, (QueueError, F)>
    where
        F: Closure<T>,
    {
        if refusal != QueueError::Full {
            return Err((refusal, function));
        }
        let shard = self.shard(self.executor.placement.index_for(place));
        if let Some(admitted) = self.admit_here(shard, place) {
            drop(kept);
            return self.spawn_admitted((shard, place), admitted, function, make, run);
        }
        match function.take_bytes(self, Ask::InLine) {
            Ok(()) => self.spawn_made::<F, T, H>(place, Some(kept), function, make),
            Err(error) => Err((error, function)),
        }
    }

    /// Admits an item that the caller then [runs](run) itself. Returns `None` if the caller must not run the item. The
    /// place tells whether the item belongs to a batch, because an item of a batch never has the place `Here`.
    #[cold]
    pub(super) fn admit_here(&self, shard: &Shard, place: Place) -> Option<(Kept<'_>, Pass)> {
        let may_run = self.spec.when_full == WhenFull::CallerRuns
            && place == Place::Here
            && !lent::is_lent()
            && !std::thread::panicking()
            && !self.executor.core.manager.is_current_thread()
            && self.permits_any_cpu();
        let pass = if may_run { self.pass_here(shard.limiter())? } else { return None };
        // An item gives its place among the pending items back when it begins. This item takes such a place even if
        // none is free, but only for a moment, because the item begins at once.
        Some((Kept::anyway(self), pass))
    }

    /// Returns whether the caller would run a reusable item itself. The caller would not run an item that is already
    /// running, because runs of an item do not overlap.
    #[cold]
    pub(super) fn would_run_here(&self, work: &WorkItem) -> bool {
        self.spec.when_full == WhenFull::CallerRuns && !work.cell.load().is_running()
    }

    /// Returns whether items of the queue may run on all CPUs of the executor at present.
    fn permits_any_cpu(&self) -> bool {
        match &self.making.lock().kind {
            QueueKind::Unbound(attrs) => !attrs.strict && attrs.cpus == self.executor.cpus,
            QueueKind::PerCpu { .. } | QueueKind::Bh { .. } => false,
        }
    }
}

/// Runs an item on the calling thread, which has admitted the item. If the item is reusable and another thread has just
/// begun to run the item, that other thread runs the item once more instead.
#[cold]
pub(super) fn run(_shard: &Shard, entry: Entry, _has_slot: bool) {
    lent::execute(entry);
}
