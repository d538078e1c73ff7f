//! Moves items from pools that have too much work to pools that have room.
//!
//! The pools of a class share two sets of bits, [`PodBits`]. One set shows which pools have *excess* (work that
//! siblings may take), and the other set shows which pools have *room* for such work. After a step that may give a pool
//! excess or room, a thread issues a fence, sets the pool's bit in the corresponding set, and searches the other set.
//! There are two cases:
//!
//! * **Offer.** A thread has pushed to a full pool, or has withdrawn a worker or a helper from a full pool. Or a thread
//!   has found that a [brisk](crate::policy::brisk) pool, whose items are short and many, has more items than it keeps
//!   for its own workers. The thread then searches for a sibling (another pool of the class) with room. The thread
//!   reserves a worker of that sibling, and sends this worker on an *errand*: the worker is to take an item of the pool
//!   with excess.
//! * **Seek.** A thread has lowered a pool's count of running workers, so the pool has room. The thread searches for a
//!   sibling with excess, and reserves a worker of its own pool for an errand: to take work of that sibling.
//!
//! A worker that is reserved on an errand counts as a *helper* of the pool to which it is sent. The worker counts as a
//! helper until it has taken its first item from any pool, or until it is certain to take no item. So an item is
//! offered to one worker instead of the workers of all pools with room. After a thread takes a helper out of the count,
//! it issues a fence and offers the remaining items, because other threads may have relied on the helper.
//!
//! In each row of the following table, each side is a thread that issues a fence between its steps. So at least one of
//! the two sides sees the other side's change. One side of the pair "rest and seek" changes nothing, but reads an
//! issuer's push. If this side has seen the push, one of two things holds: this side sees the room bit, or the other
//! side sees the push:
//!
//! | pair | one side | other side |
//! |---|---|---|
//! | offer and seek | push, or note that a worker is late or that the pool is not brisk; read room bits | lower the count; set the room bit; read excess bits and lists |
//! | clear of a room bit | clear the bit; read the word | lower the word; read the bit |
//! | clear of an excess bit | clear the bit; read list, word and helpers | change one of them; read the bit |
//! | rest and seek | read the list; read room bits | lower the count; set the room bit; read the list |
//! | end of a helper | lower the helpers; read the list | push; read the helpers |

use std::ops::Deref;

use crate::policy::concurrency::{PodId, Reserved};
use crate::policy::neighbours::Neighbours;
use crate::sys::sync::{AtomicU64, Ordering, fence, fence_after_update};

use super::pod_bits::PodBits;
use super::running::RunningCell;

/// The room bits and the excess bits of one class. See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    neighbours: Neighbours,
    room: PodBits,
    excess: PodBits,
}

/// The number of a pool's helpers. A helper is a sibling's worker that was woken for the pool's items and has not taken
/// an item yet.
#[derive(Debug)]
pub(crate) struct Helpers(AtomicU64);

/// The kind of work that siblings may take from a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    Items,
    /// The pool has excess forks (closures that another worker may take), but no excess items.
    Forks,
}

impl Excess {
    /// Returns whether this pool takes work of this kind from a sibling.
    fn is_for<P: Member>(self, pool: &P) -> bool {
        self == Self::Items || pool.takes_forks()
    }
}

/// A pool of a class.
pub(crate) trait Member {
    fn running(&self) -> &RunningCell;
    fn helpers(&self) -> &Helpers;
    /// Returns the number of items of this pool that siblings may take. The result may miss a change by another thread
    /// if the change is not ordered before the call.
    fn movable(&self) -> u64;
    /// Returns whether the pool's workers take its items in the order in which these were pushed.
    fn has_order(&self) -> bool;

    /// Returns whether siblings may take forks of this pool. `helpers` is the number of helpers that are on their way
    /// to this pool.
    fn has_excess_forks(&self, helpers: u64) -> bool;
    /// Returns whether this pool takes forks of siblings. A thread of this pool that waits for a fork still counts
    /// towards the pool's target. So the pool does not run a fork of a sibling instead of this thread.
    fn takes_forks(&self) -> bool;
    /// Reserves a worker of this pool for forks of a sibling, if this pool takes forks of siblings.
    fn reserve_for_forks(&self) -> Option<Reserved>;

    /// Returns the kind of this pool's work that one more helper (a worker of a sibling) could take, or `None` if there
    /// is no work for one more helper.
    fn excess(&self) -> Option<Excess> {
        let helpers = self.helpers().count();
        if self.running().load().has_excess(self.movable(), helpers, self.has_order()) {
            Some(Excess::Items)
        } else {
            self.has_excess_forks(helpers).then_some(Excess::Forks)
        }
    }

    /// Returns whether this pool has work for one more helper.
    fn has_excess(&self) -> bool {
        self.excess().is_some()
    }

    /// Counts a helper for this excess, and reserves a worker of the other pool as the helper. If the other pool has no
    /// room, undoes the count and returns `None`. The caller then [offers](Exchange::offer) this pool's work again.
    fn reserve_in(&self, other: &Self, excess: Excess) -> Option<Reserved> {
        self.helpers().comes();
        let reserved = match excess {
            Excess::Items => other.running().reserve(),
            Excess::Forks => other.reserve_for_forks(),
        };
        if reserved.is_none() {
            self.helpers().came();
        }
        reserved
    }

    /// Does the same as [`has_excess`](Self::has_excess), for a brisk pool, whose items are short and many. The threads
    /// that pushed items to a brisk pool have not offered these items. So if the result is true, the caller
    /// [offers](Exchange::offer) the items to siblings. The caller need not have changed the pool's word before the
    /// call. The fence forbids these steps:
    ///
    /// * caller: reads the list: there are new items; reads the room bits: none is set;
    /// * worker of a sibling: sets the room bit of its pool; reads the list: there are no new items.
    fn has_rest(&self) -> bool {
        let has_rest = self.has_excess();
        fence(Ordering::SeqCst); // with the sibling's fence in `PodBits::set`, or before its call
        has_rest
    }

    /// Returns whether a sibling's worker that has already arrived may take an item of this pool.
    fn has_excess_for_thief(&self) -> bool {
        self.running().load().has_excess(self.movable(), 0, self.has_order()) || self.has_excess_forks(0)
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

    /// Takes a helper out of the count, because the helper has arrived or will not arrive. The caller then calls
    /// [`offer`](Exchange::offer).
    pub(crate) fn came(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        fence_after_update(); // pairs with the fence in `RunningCell::pushed`
    }
}

impl Exchange {
    /// Makes an exchange in which every pool has room and no pool has excess.
    pub(crate) fn new(neighbours: Neighbours, pods: usize) -> Self {
        Self { neighbours, room: PodBits::new(pods, true), excess: PodBits::new(pods, false) }
    }

    /// If the pool of this pod has excess, reserves a worker of the nearest sibling that has room. Before the call, the
    /// caller has pushed to the pool of this pod, or has withdrawn a worker or a helper from this pool. Between that
    /// step and the call, the caller has issued a fence.
    #[inline]
    pub(crate) fn offer<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        own: &P,
        pool: impl Fn(PodId) -> Option<H>,
    ) -> Option<(H, Reserved)> {
        // While a helper is on its way, the pool may have no excess. The thread that later takes this helper out of the
        // count offers the remaining items.
        while let Some(excess) = own.excess() {
            // After a failed attempt, the loop sets the excess bit again, because a sibling may have cleared the bit
            // during the attempt. Such a sibling relied on the helper that the failed attempt had counted.
            self.excess.set(pod as usize);
            let takes = |other: usize| match pool(other as PodId) {
                Some(sibling) => excess.is_for(&*sibling).then_some((other as PodId, Some(sibling))),
                None => Some((other as PodId, None)),
            };
            match self.neighbours.find_nearest(pod as usize, |at| self.room.word(at), takes)? {
                (other, Some(sibling)) => {
                    if let Some(reserved) = own.reserve_in(&sibling, excess) {
                        return Some((sibling, reserved.on_errand(pod)));
                    }
                    self.no_room(other, &*sibling);
                }
                // The class has ended, so none of its pools has items any more.
                (other, None) => self.room.clear(other as usize),
            }
        }
        None
    }

    /// Sets the room bit of the caller's pool if that pool has room. If a sibling has excess, also reserves a worker
    /// that is to take work of that sibling. Usually, this worker belongs to the caller's pool. If the caller's pool
    /// was filled in the meantime, the worker may belong to another pool, which the result then names. Before the call,
    /// the caller has lowered the count of its pool, and has issued a fence.
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
        let (other, sibling, excess) = self.neighbours.find_nearest(
            pod as usize,
            |at| self.excess.word(at),
            |other| self.gives(other as PodId, pool(other as PodId)?, own),
        )?;
        if let Some(reserved) = sibling.reserve_in(own, excess) {
            return Some((None, reserved.on_errand(other)));
        }
        self.offer(other, &*sibling, pool).map(|(helper, reserved)| (Some(helper), reserved))
    }

    /// Returns the pool of this pod, and the kind of the pool's excess, if the caller's pool takes such work. If the
    /// pool of this pod has no excess, clears its excess bit.
    fn gives<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        pool: H,
        own: &P,
    ) -> Option<(PodId, H, Excess)> {
        loop {
            match pool.excess() {
                Some(excess) if excess.is_for(own) => return Some((pod, pool, excess)),
                Some(_) => return None,
                None if self.no_excess(pod, || pool.has_excess()) => {}
                None => return None,
            }
        }
    }

    /// Clears the room bit of this pod, because at present no worker can be made for the pod's pool. So siblings stop
    /// offering their items to this pool. As soon as workers can be made again, the pool [seeks](Self::seek) work of
    /// siblings.
    #[cold]
    pub(crate) fn gets_no_worker(&self, pod: PodId) {
        self.room.clear(pod as usize);
    }

    /// Returns a sibling from which a worker of this pool may take an item now.
    ///
    /// If the result is `None`, a worker usually leaves the count of running workers and then [seeks](Self::seek) work.
    /// So the function is only a shortcut, and considers only the nearest sibling with a set bit. The function changes
    /// no bit, because all pods share the cache lines of the bits. If the caller's pool is late (its woken workers get
    /// no CPU), the pool does not seek. So the function then considers all siblings.
    #[inline]
    pub(crate) fn source<P: Member, H: Deref<Target = P>>(
        &self,
        pod: PodId,
        own: &P,
        pool: impl Fn(PodId) -> Option<H>,
    ) -> Option<H> {
        let mut goes_on = true;
        let may_give = |other: usize| {
            let sibling = if goes_on { pool(other as PodId) } else { None };
            goes_on = own.running().load().is_late();
            sibling.filter(|sibling| sibling.has_excess_for_thief())
        };
        self.neighbours.find_nearest(pod as usize, |at| self.excess.word(at), may_give)
    }

    #[cold]
    fn no_room<P: Member>(&self, pod: PodId, pool: &P) {
        self.room.clear(pod as usize);
        if pool.running().load().takes_errands() {
            self.room.set(pod as usize);
        }
    }

    /// Clears the excess bit of a pod. Then calls `still`, which returns whether the pool still has excess, and sets
    /// the bit again if it does. Returns the result of `still`.
    #[cold]
    fn no_excess(&self, pod: PodId, still: impl Fn() -> bool) -> bool {
        self.excess.clear(pod as usize);
        let still = still();
        if still {
            self.excess.set(pod as usize);
        }
        still
    }
}
