//! When is a worker woken? The concurrency word of a pool, and the questions asked of it.
//!
//! A *managed* pool keeps `target` workers runnable: 1 for a per-CPU pool, the number of its CPUs for a pod.
//! A worker counts as `running` while its item may use the CPU; a blocked or CPU-intensive one does not count.
//! A worker that was woken, or is being made, counts as `waking` from the moment somebody decided to have it, so
//! that a burst of items wakes once. An *unmanaged* pool has no target: it starts items as soon as possible, one
//! wake-up at a time, each started worker waking the next.
//!
//! A *sharing* pool has siblings, whose workers may take its items when it cannot: when it is full, or when those
//! whom it woke do not get a CPU (it is *stalled*). [`Running::has_excess`] says which items may go.
//!
//! Who asks what:
//!
//! | question | asked by |
//! |---|---|
//! | [`Running::need_more_worker`] | everybody who made work visible, or gave up running while work is visible |
//! | [`Running::may_start`] | a woken worker, before its first item |
//! | [`Running::between_items`] | a worker, after each item |

#![forbid(unsafe_code)]

use std::fmt;

const FIELD: u32 = 20;
const MASK: u64 = (1 << FIELD) - 1;
const RUNNING: u32 = 0;
const WAKING: u32 = FIELD;
const TARGET: u32 = 2 * FIELD;
const WATCHED: u64 = 1 << (3 * FIELD);
const SHARING: u64 = 1 << (3 * FIELD + 1);
const STALLED: u64 = 1 << (3 * FIELD + 2);
const SHORT: u64 = 1 << (3 * FIELD + 3);
const UNMANAGED: u64 = MASK;
const ABANDONED: u64 = MASK - 1;

/// How many workers of a pool run, are about to run, and should run.
///
/// A value: every transition returns the next word and what its caller must now do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Running(u64);

/// What somebody who saw work in the pool must do next.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kick {
    /// Enough workers run, and the manager watches, or has no reason to.
    Enough,
    /// Wake or make one worker; the reservation is its permission to start.
    Wake(Reserved),
    /// Enough workers run, but nobody watches whether they get anywhere: tell the manager, once. And as `Offer`.
    Watch,
    /// Enough workers run, and the pool has siblings: offer them what is too much for it.
    Offer,
    /// No worker runs any more, and the manager had no room for the one that it was asked for when some still did: tell it,
    /// once, and look again.
    Starve,
}

/// The right of one worker to start: counted as `waking` until it is started or dropped.
///
/// Linear: neither `Copy` nor `Clone`, made by [`Running::reserve`] only.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    errand: Option<PodId>,
}

/// The number of a pod in its class.
pub(crate) type PodId = u32;

impl Reserved {
    /// The worker is woken for the work of a sibling.
    pub(crate) fn on_errand(self, home: PodId) -> Self {
        Self { errand: Some(home) }
    }

    /// For which sibling's work the worker is woken. Whoever uses the reservation up ends the errand.
    pub(crate) fn errand(&self) -> Option<PodId> {
        self.errand
    }

    /// Somebody else sees to it.
    pub(crate) fn take_errand(&mut self) -> Option<PodId> {
        self.errand.take()
    }
}

/// What a worker does after an item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Take the next item.
    Keep,
    /// More run than should, because blocked ones returned: this one has left the count and goes idle.
    Shed,
    /// Nothing is pending: go idle.
    Rest,
}

impl Running {
    /// What one running worker adds to the word: [`leave`](Self::leave) and [`come_back`](Self::come_back) are a
    /// subtraction and an addition of it, whatever the rest of the word is.
    pub(crate) const ONE: Self = Self(1 << RUNNING);

    /// A pool that keeps `target` workers runnable.
    pub(crate) fn managed(target: usize) -> Self {
        Self(Self::at_least_one(target) << TARGET)
    }

    const fn at_least_one(target: usize) -> u64 {
        let most = ABANDONED - 1;
        match target as u64 {
            0 => 1,
            target if target > most => most,
            target => target,
        }
    }

    /// A pool that starts items as soon as possible.
    pub(crate) const fn unmanaged() -> Self {
        Self(UNMANAGED << TARGET)
    }

    /// The same word, with nobody to tell about a saturated pool: [`Kick::Watch`] never comes.
    pub(crate) const fn unwatchable(self) -> Self {
        Self(self.0 | WATCHED)
    }

    /// The same word of a pool that has siblings: [`Kick::Offer`] comes.
    pub(crate) const fn sharing(self) -> Self {
        Self(self.0 | SHARING)
    }

    pub(crate) const fn running(self) -> u64 {
        self.0 >> RUNNING & MASK
    }

    pub(crate) const fn waking(self) -> u64 {
        self.0 >> WAKING & MASK
    }

    /// The number of workers to keep runnable; `None` if the pool is unmanaged.
    pub(crate) const fn target(self) -> Option<u64> {
        let target = self.0 >> TARGET & MASK;
        if target == UNMANAGED { None } else { Some(target) }
    }

    pub(crate) const fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// Did somebody who was woken long ago not get a CPU?
    pub(crate) const fn is_stalled(self) -> bool {
        self.0 & STALLED != 0
    }

    const fn is_sharing(self) -> bool {
        self.0 & SHARING != 0
    }

    /// Given that work is pending: is another worker needed?
    pub(crate) const fn need_more_worker(self) -> bool {
        match self.target() {
            Some(target) => self.running() + self.waking() < target,
            None => self.waking() == 0,
        }
    }

    /// May a woken worker begin, or did returning ones fill the pool meanwhile?
    pub(crate) const fn may_start(self) -> bool {
        match self.target() {
            Some(target) => self.running() < target,
            None => true,
        }
    }

    /// Do more workers run than should?
    pub(crate) const fn too_many_running(self) -> bool {
        match self.target() {
            Some(target) => self.running() > target,
            None => false,
        }
    }

    /// Do items lie here that siblings may take? `pending`: how many lie here; `helpers`: how many workers of siblings
    /// were woken for them and have not come yet.
    ///
    /// Those who are woken in this pool take one each, unless they do not get a CPU. Below the target nobody else is
    /// needed: whoever saw the work has woken somebody here, or will.
    pub(crate) const fn has_excess(self, pending: u64, helpers: u64) -> bool {
        if self.is_stalled() {
            pending > helpers
        } else {
            !self.need_more_worker() && pending > self.waking() + helpers
        }
    }

    /// Work is pending: what must be done about it?
    ///
    /// Asked after every push, and by everybody who lowers the count or raises the target while work is pending.
    pub(crate) const fn kick(self) -> (Self, Kick) {
        if self.is_short() && self.running() == 0 {
            (self.unshort(), Kick::Starve)
        } else if self.need_more_worker() {
            (self.wake_one(), Kick::Wake(Reserved { errand: None }))
        } else if !self.is_watched() {
            (Self(self.0 | WATCHED), Kick::Watch)
        } else if self.is_sharing() {
            (self, Kick::Offer)
        } else {
            (self, Kick::Enough)
        }
    }

    /// Is there room for the work of a sibling? Not where those who were woken do not get a CPU, nor where nothing runs
    /// any more: there it would be refused, and offered again, without an end.
    pub(crate) const fn takes_errands(self) -> bool {
        self.need_more_worker() && !self.is_stalled() && !self.is_abandoned()
    }

    const fn is_abandoned(self) -> bool {
        self.0 >> TARGET & MASK == ABANDONED
    }

    /// A worker is reserved for the work of a sibling, if there is room for that.
    pub(crate) const fn reserve(self) -> (Self, Option<Reserved>) {
        if self.takes_errands() { (self.wake_one(), Some(Reserved { errand: None })) } else { (self, None) }
    }

    /// A reserved worker begins, or finds that it may not: its reservation is used up either way.
    ///
    /// A refused one looks at the work once more, like everybody who gives something up: nobody else is needed then,
    /// since the pool is full in this very word, but somebody must watch it.
    pub(crate) const fn start(self) -> (Self, bool) {
        let rested = Self(self.0 - (1 << WAKING));
        if rested.may_start() { (rested.run_one(), true) } else { (rested, false) }
    }

    /// A reservation is dropped: nobody can serve it.
    pub(crate) const fn drop_reservation(self) -> Self {
        Self(self.0 - (1 << WAKING))
    }

    /// Somebody was woken long ago, and has not come: siblings may take what lies here.
    pub(crate) const fn stall(self) -> Self {
        Self(self.0 | STALLED)
    }

    /// Nobody is late any more. Whoever has come looks for a sibling's work afterwards.
    pub(crate) const fn unstall(self) -> Self {
        Self(self.0 & !STALLED)
    }

    /// What next, now that an item has ended?
    pub(crate) const fn between_items(self, work: bool) -> (Self, Next) {
        if self.too_many_running() {
            (self.leave(), Next::Shed)
        } else if work {
            (self, Next::Keep)
        } else {
            (self, Next::Rest)
        }
    }

    /// A running worker stops counting: it blocks, goes idle, or begins a CPU-intensive item.
    pub(crate) const fn leave(self) -> Self {
        debug_assert!(self.running() > 0, "a worker left a pool in which none was running");
        Self(self.0 - Self::ONE.0)
    }

    /// A worker counts again: it returned from a block, or ended a CPU-intensive item. May overshoot the target;
    /// [`between_items`](Self::between_items) sheds what is too much.
    pub(crate) const fn come_back(self) -> Self {
        self.run_one()
    }

    /// The pool runs nothing any more: every push is to be told so, and therefore always wants a worker.
    pub(crate) const fn abandoned(self) -> Self {
        self.with_target(ABANDONED)
    }

    /// The pool is to keep so many workers runnable from now on. If that is a change (the answer), the caller looks at
    /// the work: more workers may be needed, each of whom looks again once it has begun; or there is more of it than this
    /// pool can take now, for siblings. Workers that are too many are shed by [`between_items`](Self::between_items).
    pub(crate) const fn retarget(self, target: usize) -> (Self, bool) {
        let (before, target) = (self.0 >> TARGET & MASK, Self::at_least_one(target));
        if before == UNMANAGED || before == ABANDONED {
            (self, false)
        } else {
            (self.with_target(target), target != before)
        }
    }

    const fn with_target(self, target: u64) -> Self {
        Self(self.0 & !(MASK << TARGET) | target << TARGET)
    }

    const fn is_short(self) -> bool {
        self.0 & SHORT != 0
    }

    /// The manager has no room for a worker that the pool has asked for. Returns whether no worker runs. If one does, the
    /// thread that finds work after the last one has left [tells](Kick::Starve) the manager.
    pub(crate) const fn short(self) -> (Self, bool) {
        (Self(self.0 | SHORT), self.running() == 0)
    }

    /// The manager knows all that there is to know, or the worker has come.
    pub(crate) const fn unshort(self) -> Self {
        Self(self.0 & !SHORT)
    }

    /// The manager watches from now on. True if it did not so far.
    pub(crate) const fn watch(self) -> (Self, bool) {
        (Self(self.0 | WATCHED), !self.is_watched())
    }

    /// The manager found the pool quiet and stops watching; it must look once more after this.
    pub(crate) const fn unwatch(self) -> Self {
        Self(self.0 & !WATCHED)
    }

    const fn run_one(self) -> Self {
        debug_assert!(self.running() < MASK);
        Self(self.0 + Self::ONE.0)
    }

    const fn wake_one(self) -> Self {
        debug_assert!(self.waking() < MASK);
        Self(self.0 + (1 << WAKING))
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("running", &self.running())
            .field("waking", &self.waking())
            .field("target", &self.target())
            .field("watched", &self.is_watched())
            .field("stalled", &self.is_stalled())
            .field("short", &self.is_short())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(running: u64, waking: u64, target: Option<usize>) -> Running {
        let empty = target.map_or(Running::unmanaged(), Running::managed);
        Running(empty.0 | running << RUNNING | waking << WAKING)
    }

    /// spec: C3.1 (need more)
    #[test]
    fn another_worker_is_needed_below_the_target_only() {
        let table = [
            // running, waking, target, needed
            (0, 0, Some(1), true),
            (1, 0, Some(1), false),
            (0, 1, Some(1), false),
            (2, 0, Some(1), false),
            (1, 0, Some(2), true),
            (1, 1, Some(2), false),
            (0, 0, None, true),
            (9, 0, None, true),
            (9, 1, None, false),
        ];
        for (running, waking, target, needed) in table {
            assert_eq!(
                word(running, waking, target).need_more_worker(),
                needed,
                "{running} {waking} {target:?}"
            );
        }
    }

    /// spec: C3.1 (a woken worker counts as running from the wake-up): a burst wakes once.
    #[test]
    fn a_burst_on_an_idle_pool_wakes_up_to_the_target() {
        let mut word = Running::managed(2).unwatchable();
        let mut woken = 0;
        for _ in 0..10 {
            let (next, kick) = word.kick();
            word = next;
            woken += usize::from(matches!(kick, Kick::Wake(_)));
        }
        assert_eq!((woken, word.waking(), word.running()), (2, 2, 0));
    }

    /// spec: C3.1 (may start): the reservation is used up whether or not the worker begins.
    #[test]
    fn a_woken_worker_finds_that_a_returning_one_took_its_place() {
        let (word, began) = word(0, 1, Some(1)).start();
        assert!(began);
        assert_eq!((word.running(), word.waking()), (1, 0));

        let (word, began) = self::word(1, 1, Some(1)).start();
        assert!(!began);
        assert_eq!((word.running(), word.waking()), (1, 0));
    }

    /// spec: C3.3 (keep working, returning workers may overshoot and are shed)
    #[test]
    fn returning_workers_overshoot_and_are_shed_one_by_one() {
        let overshot = word(1, 0, Some(1)).come_back().come_back();
        assert_eq!(overshot.running(), 3);
        let (word, next) = overshot.between_items(true);
        assert_eq!(next, Next::Shed);
        let (word, next) = word.between_items(false);
        assert_eq!(next, Next::Shed);
        assert_eq!(word.between_items(true), (word, Next::Keep));
        assert_eq!(word.between_items(false), (word, Next::Rest));
    }

    #[test]
    fn an_unmanaged_pool_never_sheds() {
        assert_eq!(word(100, 0, None).between_items(true).1, Next::Keep);
        assert!(word(100, 1, None).start().1);
    }

    #[test]
    fn a_saturated_pool_tells_the_manager_once() {
        let full = word(1, 0, Some(1));
        let (watched, kick) = full.kick();
        assert_eq!(kick, Kick::Watch);
        assert_eq!(watched.kick(), (watched, Kick::Enough));
        assert_eq!(watched.unwatch(), full);
        assert_eq!((full.watch(), watched.watch()), ((watched, true), (watched, false)));
    }

    /// spec: C5, A5.4 (targets follow the CPUs and their quota)
    #[test]
    fn a_target_may_change_at_any_time() {
        let full = word(2, 1, Some(3)).unwatchable();
        let (lower, changed) = full.retarget(1);
        assert!(changed);
        assert_eq!((lower.target(), lower.running(), lower.waking()), (Some(1), 2, 1));
        assert!(lower.is_watched() && !lower.may_start() && lower.too_many_running());
        let (higher, changed) = lower.retarget(4);
        assert!(changed && higher.need_more_worker());
        assert_eq!(higher.retarget(4), (higher, false));
        assert_eq!(full.retarget(0).0.target(), Some(1));
    }

    #[test]
    fn an_unmanaged_pool_and_an_abandoned_one_have_no_target_to_change() {
        for word in [Running::unmanaged(), Running::managed(1).abandoned()] {
            assert_eq!(word.retarget(2), (word, false));
        }
        assert!(Running::managed(usize::MAX).target() < Running::managed(1).abandoned().target());
    }

    /// spec: A2.2, A3.8 (elsewhere only when its own pod cannot take it)
    #[test]
    fn what_nobody_here_comes_for_may_go_to_siblings() {
        let table = [
            // running, waking, target, pending, helpers, may go
            (0, 0, 1, 1, 0, false),
            (0, 1, 1, 1, 0, false),
            (0, 1, 1, 2, 0, true),
            (0, 1, 1, 2, 1, false),
            (1, 0, 1, 1, 0, true),
            (1, 0, 1, 1, 1, false),
            (1, 0, 1, 3, 2, true),
            (1, 0, 2, 1, 0, false),
            (1, 1, 2, 1, 0, false),
            (2, 1, 2, 2, 0, true),
            (3, 0, 2, 1, 0, true),
            (1, 0, 1, 0, 0, false),
        ];
        for (running, waking, target, pending, helpers, may_go) in table {
            let word = word(running, waking, Some(target)).sharing();
            let row = format!("{running} {waking} {target} {pending} {helpers}");
            assert_eq!(word.has_excess(pending, helpers), may_go, "{row}");
        }
    }

    /// spec: A3.8 (elsewhere only what the own pod cannot take)
    #[test]
    fn a_stalled_pool_gives_away_what_it_woke_somebody_for_and_takes_nothing() {
        let pool = word(0, 1, Some(2)).sharing();
        assert!(!pool.has_excess(1, 0) && pool.takes_errands());
        let stalled = pool.stall();
        assert!(stalled.has_excess(1, 0) && !stalled.has_excess(1, 1));
        assert_eq!(
            stalled.reserve(),
            (stalled, None),
            "whoever is woken here next would not get a CPU either"
        );
        assert!(matches!(stalled.kick().1, Kick::Wake(_)), "its own items may be as lucky as the next one");
        assert_eq!(stalled.unstall(), pool);
    }

    /// spec: E5
    #[test]
    fn an_abandoned_pool_is_told_of_every_push_and_takes_no_work_of_siblings() {
        let pool = word(0, 0, Some(1)).sharing();
        assert!(pool.takes_errands());
        let abandoned = pool.abandoned();
        assert!(matches!(abandoned.kick().1, Kick::Wake(_)));
        assert_eq!(abandoned.reserve(), (abandoned, None));
    }

    #[test]
    fn a_full_pool_offers_if_it_has_siblings() {
        let full = word(1, 0, Some(1)).unwatchable();
        assert_eq!(full.kick(), (full, Kick::Enough));
        assert_eq!(full.sharing().kick(), (full.sharing(), Kick::Offer));
        assert!(matches!(word(0, 0, Some(1)).sharing().kick().1, Kick::Wake(_)));
    }

    #[test]
    fn a_pool_keeps_at_least_one_runnable() {
        assert_eq!(Running::managed(0).target(), Some(1));
    }
}
