//! Many items at once: each is admitted and pushed by itself, and the pool is told once of all of them.
//!
//! A batch has one place, so one shard; and one pool, unless the shard's route is turned meanwhile. No user code runs
//! between its first push and its kick, which wakes as many workers as the pool wants for so many entries.

use super::entry::Entry;
use super::one_shot::RawHandle;
use super::placement::Place;
use super::pool::Pool;
use super::queue::Queue;
use super::refusal::QueueError;
use super::shard::Shard;
use super::trace;
use super::work_item::WorkHandle;

/// So many items are pushed before the pool is told of them: a long batch runs while it is still being queued.
const AT_ONCE: usize = 256;

/// Closures of which one was refused.
pub(crate) struct Cut<F, T> {
    pub(crate) error: QueueError,
    pub(crate) accepted: Vec<RawHandle<T>>,
    /// The refused one, and those behind it.
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
        let mut kick = Kick::default();
        let mut accepted = Vec::with_capacity(closures.len());
        let mut closures = closures.into_iter();
        while let Some(closure) = closures.next() {
            match self.spawn_with(place, closure, |shard, entry| kick.push(shard, entry)) {
                Ok(handle) => accepted.push(handle),
                Err((error, closure)) => {
                    drop(kick);
                    let rest = std::iter::once(closure).chain(closures).collect();
                    return Err(Cut { error, accepted, rest });
                }
            }
        }
        Ok(accepted)
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
            match self.queue_with(place, work, |shard, entry| kick.push(shard, entry)) {
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
