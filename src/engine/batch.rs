//! Many items at once: the pool is told once of all of them, and those that run once are admitted together.
//!
//! A batch has one place, so one shard; and one pool, unless the shard's route is turned meanwhile. No user code runs
//! between its first push and its kick, which wakes as many workers as the pool wants for so many entries.
#![allow(unsafe_code, reason = "cells that are not queued are taken apart again")]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::entry::{Entry, Header};
use super::flush::BatchPass;
use super::one_shot::{self, RawHandle};
use super::placement::Place;
use super::pool::Pool;
use super::queue::Queue;
use super::refusal::QueueError;
use super::route;
use super::shard::Shard;
use super::submit::enqueue;
use super::trace;
use super::work_item::WorkHandle;

/// So many items are admitted and pushed before the pool is told of them: a long batch runs while it is still being queued.
const AT_ONCE: usize = 256;

/// Closures of which one was refused.
pub(crate) struct Cut<F, T> {
    pub(crate) error: QueueError,
    pub(crate) accepted: Vec<RawHandle<T>>,
    /// The refused one, and those behind it.
    pub(crate) rest: Vec<F>,
}

/// The same without handles.
pub(crate) struct CutDetached<F> {
    pub(crate) error: QueueError,
    pub(crate) accepted: usize,
    pub(crate) rest: Vec<F>,
}

/// Reusable items of which one was refused: which, and how many became pending before.
pub(crate) struct CutAt {
    pub(crate) error: QueueError,
    pub(crate) index: usize,
    pub(crate) newly_pending: usize,
}

impl Queue {
    /// Queues closures in their order, up to the first that is refused.
    pub(crate) fn spawn_batch<F, T>(&self, closures: Vec<F>) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = self.place_of_batch();
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
            if let Err((queued, error)) = self.push_run(place, &items) {
                let refused = accepted.split_off(accepted.len() - (items.len() - queued));
                // SAFETY: these were made above, in the same order, and were not queued.
                let closure = |(item, handle)| unsafe { one_shot::unmake(item, handle) };
                let mut rest: Vec<F> = items.drain(queued..).zip(refused).map(closure).collect();
                rest.extend(closures);
                return Err(Cut { error, accepted, rest });
            }
        }
        Ok(accepted)
    }

    /// The same without handles. Closures are taken from the iterator, which is user code, as many at a time as are
    /// queued at once.
    pub(crate) fn spawn_batch_detached<F, T>(
        &self,
        closures: impl Iterator<Item = F>,
    ) -> Result<(), CutDetached<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        let place = self.place_of_batch();
        let mut made = Made::<F, T>::new(closures.size_hint().0);
        // It is asked again after a part that was not full.
        let mut closures = closures.fuse();
        let mut accepted = 0;
        loop {
            made.items.extend(closures.by_ref().take(AT_ONCE).map(one_shot::make_detached));
            if made.items.is_empty() {
                return Ok(());
            }
            // Whatever panics from here on: nobody takes apart what may be queued.
            let mut items = std::mem::take(&mut made.items);
            let answer = self.push_run(place, &items);
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

    /// Queues one-shots that were made for this queue, in their order, up to the first that is refused: how many were
    /// queued, then, and why it was not.
    fn push_run(&self, place: Place, items: &[NonNull<Header>]) -> Result<(), (usize, QueueError)> {
        let mut queued = 0;
        while queued < items.len() {
            let shard = self.shard_of_batch(place).map_err(|error| (queued, error))?;
            // A subscriber, which is user code, is called between an admission and its push.
            let is_traced = trace::listens();
            let at_once = if is_traced { 1 } else { items.len() - queued };
            let pass = self.admit_many(shard.gate(), at_once).map_err(|error| (queued, error))?;
            let behind = queued + pass.admitted.items();
            let admitted_items = &items[queued..behind];
            if is_traced {
                push_traced(shard, admitted_items, &pass);
            } else {
                push_admitted(shard, admitted_items, &pass);
            }
            queued = behind;
        }
        Ok(())
    }

    /// The shard of a place that is not here; asked for by each part of a batch, since user code may fork.
    fn shard_of_batch(&self, place: Place) -> Result<&Shard, QueueError> {
        if self.executor.origin.is_forked() {
            return Err(QueueError::Forked);
        }
        Ok(self.shard(self.executor.placement.slot_for(place)))
    }

    /// Queues reusable items in their order, up to the first that is refused. Returns how many of them became pending
    /// by that.
    pub(crate) fn queue_batch<'a>(
        &self,
        works: impl Iterator<Item = &'a WorkHandle>,
    ) -> Result<usize, CutAt> {
        let place = self.place_of_batch();
        let mut kick = Kick::default();
        let mut newly_pending = 0;
        for (index, work) in works.enumerate() {
            match self.queue_with(place, work, |shard, entry, has_slot| kick.put(shard, entry, has_slot)) {
                Ok(is_new) => newly_pending += usize::from(is_new),
                Err(error) => return Err(CutAt { error, index, newly_pending }),
            }
        }
        Ok(newly_pending)
    }

    /// The issuer's CPU, asked for once: it may be moved while it queues.
    fn place_of_batch(&self) -> Place {
        Place::Near(self.executor.placement.slot_for(Place::Here))
    }
}

/// The items were admitted to the shard's gate, and go where they belong.
fn push_admitted(shard: &Shard, items: &[NonNull<Header>], pass: &BatchPass) {
    let entry = |item: &NonNull<Header>| Entry::new(*item, shard, pass.ticket, false);
    let mut kick = Kick::default();
    let (started, waiting) = items.split_at(pass.admitted.started);
    for entry in started.iter().map(entry) {
        entry.stamp(&shard.timing);
        kick.push(shard, entry);
    }
    // What is listed comes behind these, also if the route was turned.
    drop(kick);
    if waiting.is_empty() {
        return;
    }
    let gate = shard.gate();
    let entries = waiting.iter().map(entry).inspect(|entry| entry.stamp(&shard.timing));
    if pass.ticket.is_some() {
        return entries.for_each(|entry| shard.put(entry, false));
    }
    entries.for_each(|entry| gate.push_waiting(entry));
    shard.arrived(gate.list_many(waiting.len(), route::submit));
}

/// The same, and a subscriber is told of each.
#[cold]
fn push_traced(shard: &Shard, items: &[NonNull<Header>], pass: &BatchPass) {
    for (index, item) in items.iter().enumerate() {
        let entry = Entry::new(*item, shard, pass.ticket, false);
        enqueue(shard, entry, None, index < pass.admitted.started, Shard::put);
    }
}

/// Cells of closures that are not queued yet, in their order.
struct Made<F, T> {
    items: Vec<NonNull<Header>>,
    closures: PhantomData<fn(F) -> T>,
}

impl<F, T> Made<F, T> {
    fn new(expected: usize) -> Self {
        Self { items: Vec::with_capacity(expected.min(AT_ONCE)), closures: PhantomData }
    }

    fn take_apart(mut self) -> Vec<F> {
        // SAFETY: the items were made for this type, and were not queued.
        self.items.drain(..).map(|item| unsafe { one_shot::unmake_detached::<F, T>(item) }).collect()
    }
}

impl<F, T> Drop for Made<F, T> {
    fn drop(&mut self) {
        // The iterator has panicked, or there are none: while items are being queued, they are elsewhere.
        for item in self.items.drain(..) {
            // SAFETY: as in `take_apart`.
            drop(unsafe { one_shot::unmake_detached::<F, T>(item) });
        }
    }
}

/// The kick that the entries of a batch are owed, given when it is dropped.
///
/// The caller has a handle of the queue, which keeps the pool in place.
#[derive(Default)]
struct Kick<'a> {
    /// Where entries were pushed, in whose name.
    to: Option<(&'a Shard, &'a Pool)>,
    pushed: usize,
}

impl<'a> Kick<'a> {
    fn put(&mut self, shard: &'a Shard, entry: Entry, has_slot: bool) {
        if has_slot {
            self.push(shard, entry);
        } else {
            // What is listed comes behind what was pushed, also if the route was turned.
            *self = Self::default();
            shard.put(entry, false);
        }
    }

    fn push(&mut self, shard: &'a Shard, entry: Entry) {
        // A subscriber, which is user code, is called between the entries of a batch.
        let open = if trace::listens() { None } else { shard.open_pool() };
        let Some(pool) = open.filter(|pool| self.to.is_none_or(|(_, known)| std::ptr::eq(known, *pool)))
        else {
            // What was pushed may have come late; if so, this one waits behind it.
            *self = Self::default();
            return shard.submit(entry);
        };
        pool.push(entry);
        self.to = Some((shard, pool));
        self.pushed += 1;
        if self.pushed == AT_ONCE {
            *self = Self::default();
        }
    }
}

impl Drop for Kick<'_> {
    fn drop(&mut self) {
        if let Some((shard, pool)) = self.to {
            pool.pushed_many(self.pushed);
            shard.submitted(pool);
        }
    }
}
