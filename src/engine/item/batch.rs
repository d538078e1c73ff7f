//! Batches: many items are queued, and then their pool is *kicked* once, which wakes workers if some are needed. The
//! one-shots of a batch are also admitted together.
//!
//! All items of a batch have the same place, and so the same shard. These items go to the same pool, unless the shard's
//! route is turned to another pool while the batch is being queued. No user code runs between the first push and the
//! kick. The kick wakes as many workers as the pool wants for the pushed entries.
#![allow(unsafe_code, reason = "cells that are not queued are taken apart again")]

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::admission::BatchPass;
use crate::engine::queue::route;
use crate::engine::queue::shard::Shard;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::QueueError;
use crate::engine::trace;

use super::closure::Closure;
use super::entry::{Entry, Header};
use super::one_shot;
use super::one_shot::handle::RawHandle;
use super::place::Place;
use super::submit::enqueue;
use super::token::Token;
use super::with_options::{ClosureOptions, into_closures};
use super::work::WorkHandle;

/// At most this many items are admitted and pushed before their pool is kicked. Because of this limit, a long batch
/// begins to run while it is still being queued.
const AT_ONCE: usize = 256;

/// A batch of closures that ended early because a closure was refused.
pub(crate) struct Cut<F, T> {
    pub(crate) error: QueueError,
    pub(crate) accepted: Vec<RawHandle<T>>,
    /// The refused closure, and the closures that come after it in the batch.
    pub(crate) rest: Vec<F>,
}

/// A batch of closures without handles that ended early because a closure was refused.
pub(crate) struct CutDetached<F> {
    pub(crate) error: QueueError,
    pub(crate) accepted: usize,
    pub(crate) rest: Vec<F>,
}

/// A batch of reusable items that ended early because an item was refused.
pub(crate) struct CutAt {
    pub(crate) error: QueueError,
    /// The index of the refused item.
    pub(crate) index: usize,
    /// The number of items that became pending. All of them come before the refused item.
    pub(crate) newly_pending: usize,
}

impl Queue {
    /// Queues closures in order, and stops at the first closure that is refused. Once `token` counts as cancelled, the
    /// call no longer waits for room for its items. The items do not get this token. If they did, an item that cancels
    /// its own token would also end the batch's wait for room.
    pub(crate) fn spawn_batch<F, T>(
        &self,
        place: Place,
        closures: Vec<F>,
        token: Option<&Token>,
    ) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        match self.carries() {
            false => self.spawn_all(place, closures, token),
            true => self.spawn_batch_with(place, closures, token, ClosureOptions::default),
        }
    }

    /// Queues closures with options, as [`spawn_batch`](Self::spawn_batch) does. `options` makes the options of each
    /// closure.
    #[cold]
    #[inline(never)]
    pub(crate) fn spawn_batch_with<F, T>(
        &self,
        place: Place,
        closures: Vec<F>,
        token: Option<&Token>,
        mut options: impl FnMut() -> ClosureOptions,
    ) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let boxed = closures.into_iter().map(|closure| self.with_options(options(), closure)).collect();
        self.spawn_all(place, boxed, token).map_err(|Cut { error, accepted, rest }| {
            // SAFETY: the refused closures are among those that were boxed above.
            let rest = unsafe { into_closures::<F, T>(rest) };
            Cut { error, accepted, rest }
        })
    }

    /// Queues closures, as [`spawn_batch`](Self::spawn_batch) does. Each closure already contains the values that it
    /// carries.
    fn spawn_all<F, T>(
        &self,
        place: Place,
        closures: Vec<F>,
        token: Option<&Token>,
    ) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let place = self.place_of_batch(place);
        let mut accepted = Vec::with_capacity(closures.len());
        let mut items = Vec::with_capacity(closures.len().min(AT_ONCE));
        let mut closures = closures.into_iter();
        while closures.len() > 0 {
            let lane = match self.shard_of_batch(place) {
                Ok(shard) => shard.lane(),
                Err(error) => return Err(Cut { error, accepted, rest: closures.collect() }),
            };
            items.clear();
            for closure in closures.by_ref().take(AT_ONCE) {
                let (item, handle) = one_shot::make(closure, lane, self.executor.origin);
                items.push(item);
                accepted.push(handle);
            }
            if let Err((queued, error)) = self.push_run(place, &items, token) {
                let refused = accepted.split_off(accepted.len() - (items.len() - queued));
                // SAFETY: these items and handles were made above, in the same order, and the items were not queued.
                let closure = |(item, handle)| unsafe { one_shot::unmake::<F, T>(item, handle) };
                let mut rest: Vec<F> = items.drain(queued..).zip(refused).map(closure).collect();
                rest.extend(closures);
                return Err(Cut { error, accepted, rest });
            }
        }
        Ok(accepted)
    }

    /// Queues closures without handles in order, and stops at the first closure that is refused. `token` is as in
    /// [`spawn_batch`](Self::spawn_batch).
    pub(crate) fn spawn_batch_detached<F, T>(
        &self,
        place: Place,
        closures: impl Iterator<Item = F>,
        token: Option<&Token>,
    ) -> Result<(), CutDetached<F>>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        match self.carries() {
            false => self.spawn_all_detached::<F, T>(place, closures, token),
            true => self.spawn_batch_detached_with::<F, T>(place, closures, token, ClosureOptions::default),
        }
    }

    /// Queues closures with options, as [`spawn_batch_detached`](Self::spawn_batch_detached) does. `options` makes the
    /// options of each closure.
    #[cold]
    #[inline(never)]
    pub(crate) fn spawn_batch_detached_with<F, T>(
        &self,
        place: Place,
        closures: impl Iterator<Item = F>,
        token: Option<&Token>,
        mut options: impl FnMut() -> ClosureOptions,
    ) -> Result<(), CutDetached<F>>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        let boxed = closures.map(|closure| self.with_options::<F, T>(options(), closure));
        let spawned = self.spawn_all_detached::<_, T>(place, boxed, token);
        spawned.map_err(|CutDetached { error, accepted, rest }| {
            // SAFETY: the refused closures are among those that were boxed above.
            let rest = unsafe { into_closures::<F, T>(rest) };
            CutDetached { error, accepted, rest }
        })
    }

    /// Queues closures, as [`spawn_batch_detached`](Self::spawn_batch_detached) does. Each closure already contains the
    /// values that it carries. The iterator is user code, which must not run between two pushes. So this function
    /// proceeds in steps: it takes up to `AT_ONCE` closures from the iterator, and then pushes all of them.
    fn spawn_all_detached<F, T>(
        &self,
        place: Place,
        closures: impl Iterator<Item = F>,
        token: Option<&Token>,
    ) -> Result<(), CutDetached<F>>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        let place = self.place_of_batch(place);
        let mut made = Made::<F, T>::new(closures.size_hint().0);
        // The iterator is fused, because the loop may ask for the next closure again after the iterator has ended.
        let mut closures = closures.fuse();
        let mut accepted = 0;
        loop {
            made.items.extend(closures.by_ref().take(AT_ONCE).map(one_shot::make_detached::<F, T>));
            if made.items.is_empty() {
                return Ok(());
            }
            // When `made` is dropped, even by a panic, it takes its items apart. The call of `push_run` may queue the
            // items, so this thread moves the items out of `made` before the call.
            let mut items = std::mem::take(&mut made.items);
            let answer = self.push_run(place, &items, token);
            let queued = answer.map_or_else(|(queued, _)| queued, |()| items.len());
            accepted += queued;
            items.drain(..queued);
            made.items = items;
            if let Err((_, error)) = answer {
                let mut rest = made.take_apart();
                rest.extend(closures);
                return Err(CutDetached { error, accepted, rest });
            }
        }
    }

    /// Queues one-shots in order, and stops at the first one-shot that is refused. The one-shots were made for this
    /// queue. The error contains the number of one-shots that were queued, and the reason for the refusal. `token` is
    /// the batch's token, as in [`spawn_batch`](Self::spawn_batch).
    fn push_run(
        &self,
        place: Place,
        items: &[NonNull<Header>],
        token: Option<&Token>,
    ) -> Result<(), (usize, QueueError)> {
        let mut queued = 0;
        while queued < items.len() {
            let shard = self.shard_of_batch(place).map_err(|error| (queued, error))?;
            // Traced items are admitted one by one, because user code (the subscriber) runs between an admission and
            // its push.
            let is_traced = trace::listens(self);
            let at_once = if is_traced { 1 } else { items.len() - queued };
            let pass = self.admit_many(shard.limiter(), at_once, token).map_err(|error| (queued, error))?;
            let behind = queued + pass.admitted.items();
            let admitted_items = &items[queued..behind];
            if is_traced {
                push_traced(shard, place, admitted_items, &pass);
            } else {
                push_admitted(shard, place, admitted_items, &pass);
            }
            queued = behind;
        }
        Ok(())
    }

    /// Returns the shard for the next part of a batch. The caller calls this function again for each part, because user
    /// code may have forked the process between two parts.
    fn shard_of_batch(&self, place: Place) -> Result<&Shard, QueueError> {
        if self.executor.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        Ok(self.shard(self.executor.placement.index_for(place)))
    }

    /// Queues reusable items in order, and stops at the first item that is refused. Returns the number of items that
    /// became pending.
    pub(crate) fn queue_batch<'a>(
        &self,
        place: Place,
        works: impl Iterator<Item = &'a WorkHandle>,
    ) -> Result<usize, CutAt> {
        let place = self.place_of_batch(place);
        let kick = RefCell::new(BatchKick::default());
        // This thread may have to wait until the items that it has pushed make room. So the thread kicks the pool of
        // these items before it waits.
        let before_wait = || drop(kick.take());
        let mut newly_pending = 0;
        for (index, work) in works.enumerate() {
            match self.queue_with(place, None, work, before_wait, |shard, entry, has_slot| {
                kick.borrow_mut().put(shard, entry, has_slot);
            }) {
                Ok(is_new) => newly_pending += usize::from(is_new),
                Err(error) => return Err(CutAt { error, index, newly_pending }),
            }
        }
        Ok(newly_pending)
    }

    /// Returns the place of the items of a batch. If the issuer named no place, the items' place is near the issuer's
    /// CPU. The issuer never runs an item of a batch itself, because the item's place is not `Here`. A batch whose
    /// items go to one shard calls this function only once, because the system may move the issuer to another CPU while
    /// the batch is being queued.
    pub(crate) fn place_of_batch(&self, place: Place) -> Place {
        match place {
            Place::Here => Place::Near(self.executor.placement.index_for(Place::Here)),
            named => named,
        }
    }
}

/// Pushes the entries of items that the shard's limiter has admitted. Entries with a slot go to the worklist, and the
/// others go to the waiting list.
fn push_admitted(shard: &Shard, place: Place, items: &[NonNull<Header>], pass: &BatchPass) {
    let entry = |item: &NonNull<Header>| Entry::new(*item, shard, pass.ticket, place.is_bound());
    let mut kick = BatchKick::default();
    let (started, waiting) = items.split_at(pass.admitted.started);
    for entry in started.iter().map(entry) {
        entry.stamp(&shard.timing);
        kick.push(shard, entry);
    }
    // This thread kicks the pool before it lists the entries without a slot. So the pushed entries come first even if
    // the shard's route now leads to another pool.
    drop(kick);
    if waiting.is_empty() {
        return;
    }
    let limiter = shard.limiter();
    let entries = waiting.iter().map(entry).inspect(|entry| entry.stamp(&shard.timing));
    if pass.ticket.is_some() {
        return entries.for_each(|entry| shard.put(entry, false));
    }
    entries.for_each(|entry| limiter.push_waiting(entry));
    shard.arrived(limiter.list_many(waiting.len(), route::submit));
}

/// Pushes and traces the entries of admitted items one by one.
#[cold]
fn push_traced(shard: &Shard, place: Place, items: &[NonNull<Header>], pass: &BatchPass) {
    for (index, item) in items.iter().enumerate() {
        let entry = Entry::new(*item, shard, pass.ticket, place.is_bound());
        enqueue(shard, entry, place.named(), index < pass.admitted.started, Shard::put);
    }
}

/// The cells of closures that are not queued yet, in the order of the closures.
struct Made<F: Closure<T>, T> {
    items: Vec<NonNull<Header>>,
    closures: PhantomData<fn(F) -> T>,
}

impl<F: Closure<T>, T> Made<F, T> {
    fn new(expected: usize) -> Self {
        Self { items: Vec::with_capacity(expected.min(AT_ONCE)), closures: PhantomData }
    }

    fn take_apart(mut self) -> Vec<F> {
        // SAFETY: the items were made for this type, and were not queued.
        self.items.drain(..).map(|item| unsafe { one_shot::unmake_detached::<F, T>(item) }).collect()
    }
}

impl<F: Closure<T>, T> Drop for Made<F, T> {
    fn drop(&mut self) {
        // Items are moved out of this struct before they are queued. So items remain here only if the iterator of
        // closures has panicked.
        for item in self.items.drain(..) {
            // SAFETY: the items were made for this type, and were not queued.
            drop(unsafe { one_shot::unmake_detached::<F, T>(item) });
        }
    }
}

/// The pushed entries of a batch for which the pool was not kicked yet. Dropping this value kicks the pool.
///
/// The caller holds a handle to the queue, which keeps the pool in memory.
#[derive(Default)]
struct BatchKick<'a> {
    /// The shard of the pushed entries, and the pool to which they were pushed.
    to: Option<(&'a Shard, &'a Pool)>,
    pushed: usize,
}

impl<'a> BatchKick<'a> {
    fn put(&mut self, shard: &'a Shard, entry: Entry, has_slot: bool) {
        if has_slot {
            self.push(shard, entry);
        } else {
            // This thread first kicks the pool of the pushed entries. So these entries come before this entry even if
            // the shard's route now leads to another pool.
            *self = Self::default();
            shard.put(entry, false);
        }
    }

    #[inline(always)] // A call would cost 20 instructions for each item.
    fn push(&mut self, shard: &'a Shard, entry: Entry) {
        // If submissions to the queue carry values or are traced, their entries are submitted one by one, because user
        // code (a hook or a subscriber) runs between two entries.
        let runs_user_code = shard.queue().carries() || trace::listens(shard.queue());
        let open = if runs_user_code { None } else { shard.open_pool() };
        let Some(pool) = open.filter(|pool| self.to.is_none_or(|(_, known)| std::ptr::eq(known, *pool)))
        else {
            // This thread may have pushed the earlier entries to their pool when the shard's route already led to
            // another pool. If so, the kick plugs the route, and this entry waits behind the earlier entries.
            *self = Self::default();
            return shard.submit(entry);
        };
        pool.push(entry, shard.cpu);
        self.to = Some((shard, pool));
        self.pushed += 1;
        if self.pushed == AT_ONCE {
            *self = Self::default();
        }
    }
}

impl Drop for BatchKick<'_> {
    fn drop(&mut self) {
        if let Some((shard, pool)) = self.to {
            pool.pushed_many(self.pushed);
            shard.submitted(pool);
        }
    }
}
