//! Who takes whose items: the meeting of pools that have too much and pools that have room.
//!
//! The pools of a class hold two sets of bits, [`PodBits`]: who has *excess*, and who has *room*. Whoever makes one of
//! the two true fences, sets the bit, and looks through the other set:
//!
//! * **Offer.** A push, or whoever gave something up in a full pool, looks for a sibling with room, and reserves a worker
//!   there, on an errand to this pool.
//! * **Seek.** Whoever lowers the count of a pool, so that there is room, looks for a sibling with excess, and reserves a
//!   worker of its own pool, on an errand to that one.
//!
//! A reservation on an errand counts in the pool that it goes to as a *helper*, until the worker has come and taken its
//! first item, from wherever, or does not come. So an item is offered to one worker, not to all that have room. Whoever
//! takes a helper out of the count fences, and offers what is left: others may have relied on it.
//!
//! | pair | one side | other side |
//! |---|---|---|
//! | offer, room | push or stall; fence; read the room bits | lower the count; fence, set the bit, fence; read the excess bits and lists |
//! | clear of a room bit | clear; fence; read the word | lower the word; fence; read the bit |
//! | clear of an excess bit | clear; fence; read list, word and helpers | change one of them; fence; read the bit |
//! | helper | count out; fence; read the list | push; fence; read the helpers |

use std::ops::Deref;

use crate::policy::concurrency::{PodId, Reserved};
use crate::policy::neighbours::Neighbours;
use crate::sys::sync::{AtomicU64, Ordering, fence_after_update};

use super::pod_bits::PodBits;
use super::running::RunningCell;

/// The bits of one class. See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    neighbours: Neighbours,
    room: PodBits,
    excess: PodBits,
}

/// Workers of siblings that were woken for the items of a pool and have not come yet.
#[derive(Debug)]
pub(crate) struct Helpers(AtomicU64);

/// A pool of a class.
pub(crate) trait Member {
    fn running(&self) -> &RunningCell;
    fn helpers(&self) -> &Helpers;
    /// How many items lie here that may go elsewhere. May miss what nothing orders before the call.
    fn movable(&self) -> u64;

    /// Is there work for one more helper?
    fn has_excess(&self) -> bool {
        self.running().load().has_excess(self.movable(), self.helpers().count())
    }

    /// Is there something to take for somebody who has come already?
    fn has_excess_for_thief(&self) -> bool {
        self.running().load().has_excess(self.movable(), 0)
    }
}

impl Helpers {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn comes(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A helper has come, or will not come. The caller owes an [`offer`](Exchange::offer).
    pub(crate) fn came(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        fence_after_update(); // with the fence of `RunningCell::pushed`
    }
}

impl Exchange {
    /// At first everybody has room.
    pub(crate) fn new(neighbours: Neighbours, pods: usize) -> Self {
        Self { neighbours, room: PodBits::new(pods, true), excess: PodBits::new(pods, false) }
    }

    /// The caller has pushed to the pool of this pod, or given something up, and fenced: if it has too much, reserves a
    /// worker of the nearest sibling that has room.
    #[inline]
    pub(crate) fn offer<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        own: &P,
        pool: impl Fn(PodId) -> Option<H>,
    ) -> Option<(H, Reserved)> {
        loop {
            // Once more after each attempt: the helper that was counted for it may have made a sibling clear the bit.
            self.excess.set(pod as usize);
            let other = self.nearest(pod, &self.room)?;
            if !own.has_excess() {
                return None;
            }
            if let Some(sibling) = pool(other) {
                own.helpers().comes();
                if let Some(reserved) = sibling.running().reserve() {
                    return Some((sibling, reserved.on_errand(pod)));
                }
                self.no_room(other, &*sibling);
                own.helpers().came();
            } else {
                // The class has ended, and with it whatever lay here.
                self.room.clear(other as usize);
            }
        }
    }

    /// The caller has lowered the count of its pool, and fenced: if there is room, says so; if a sibling has too much,
    /// reserves a worker for that: of its own pool, or, if that has been filled meanwhile, of the pool that comes with it.
    #[inline]
    pub(crate) fn seek<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        own: &P,
        pool: impl Fn(PodId) -> Option<H>,
    ) -> Option<(Option<H>, Reserved)> {
        if !own.running().load().takes_errands() {
            return None;
        }
        self.room.set(pod as usize);
        while let Some(other) = self.nearest(pod, &self.excess) {
            let sibling = pool(other)?;
            if sibling.has_excess() {
                sibling.helpers().comes();
                if let Some(reserved) = own.running().reserve() {
                    return Some((None, reserved.on_errand(other)));
                }
                sibling.helpers().came();
                return self.offer(other, &*sibling, pool).map(|(helper, reserved)| (Some(helper), reserved));
            }
            self.no_excess(other, || sibling.has_excess());
        }
        None
    }

    /// The nearest sibling from which a worker of this pod may take an item now.
    #[inline]
    pub(crate) fn source<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        pool: impl Fn(PodId) -> Option<H>,
    ) -> Option<H> {
        while let Some(other) = self.nearest(pod, &self.excess) {
            let sibling = pool(other)?;
            if sibling.has_excess_for_thief() {
                return Some(sibling);
            }
            self.no_excess(other, || sibling.has_excess_for_thief());
        }
        None
    }

    fn nearest(&self, pod: PodId, bits: &PodBits) -> Option<PodId> {
        self.neighbours.nearest(pod as usize, |at| bits.word(at)).map(|pod| pod as PodId)
    }

    #[cold]
    fn no_room<P: Member>(&self, pod: PodId, pool: &P) {
        self.room.clear(pod as usize);
        if pool.running().load().takes_errands() {
            self.room.set(pod as usize);
        }
    }

    #[cold]
    fn no_excess(&self, pod: PodId, still: impl Fn() -> bool) {
        self.excess.clear(pod as usize);
        if still() {
            self.excess.set(pod as usize);
        }
    }
}
