//! Decides when a pool wakes a worker. This file has the concurrency word of a pool, and the questions that threads
//! ask of this word.
//!
//! A *managed* pool keeps `target` workers runnable. The target of a per-CPU pool is 1. The target of the pool of a pod
//! (a group of CPUs) is the number of the pod's CPUs. A worker counts as `running` while its item may use the CPU. A
//! worker whose item is blocked or CPU intensive does not count as running. A thread reserves a worker before it wakes
//! or makes the worker. From then on, the worker counts as `waking`, so a burst of items wakes no more workers than the
//! target. An *unmanaged* pool has no target. An unmanaged pool starts items as soon as possible, with one wake-up at a
//! time: each worker that starts wakes the next worker.
//!
//! A *sharing* pool has siblings, whose workers may take its items when the pool cannot run them. A pool cannot run its
//! items when it is full, or when the workers that it woke do not get a CPU. If the woken workers do not get a CPU, the
//! pool is *late*. [`Running::has_excess`] says whether siblings may take items.
//!
//! A *covered* pool keeps up to twice as many workers running as its target says. Twice the target is the *limit* of a
//! covered pool. The items of a covered pool often sleep without a guard, so some of the workers that count as running
//! do not use their CPUs ([`pace`](super::pace)). The limit of any other managed pool is its target.
//!
//! A *brisk* pool, whose items are short, leaves a small backlog to its running workers. While a worker of a brisk pool
//! runs, a push wakes no worker and offers no work to siblings ([`brisk`](super::brisk)).
//!
//! Threads ask these questions:
//!
//! | question | asked by |
//! |---|---|
//! | [`Running::need_more_worker`] | a thread that made work visible, or stopped counting as running while work is visible |
//! | [`Running::may_start`] | a woken worker, before its first item |
//! | [`Running::shed`] | a worker, after each item |

#![forbid(unsafe_code)]

mod rest;
mod watched;

use std::fmt;

const FIELD: u32 = 19;
const MASK: u64 = (1 << FIELD) - 1;
const RUNNING: u32 = 0;
const WAKING: u32 = FIELD;
/// The field `WAKING` has the number of woken workers. A managed pool wakes at most as many workers as its limit, which
/// fits into the field. An unmanaged pool wakes one worker at a time. An abandoned pool wakes one worker for each
/// thread that is pushing at that moment.
const WAKING_MASK: u64 = MASK >> 1;
/// The target, or twice the target if the pool is covered.
const LIMIT: u32 = 2 * FIELD - 1;
const FLAGS: u32 = LIMIT + FIELD;
const WATCHED: u64 = 1 << FLAGS;
const SHARING: u64 = 1 << (FLAGS + 1);
const LATE: u64 = 1 << (FLAGS + 2);
const SHORT: u64 = 1 << (FLAGS + 3);
const RARELY_CHECKED: u64 = 1 << (FLAGS + 4);
const BRISK: u64 = 1 << (FLAGS + 5);
const CHECKED_SOON: u64 = 1 << (FLAGS + 6);
const COVERED: u64 = 1 << (FLAGS + 7);
const UNMANAGED: u64 = MASK;
const ABANDONED: u64 = MASK - 1;

/// Three numbers of workers of a pool: those that run, those that are about to run, and those that should run.
///
/// This is a plain value. Each transition returns the next word and the caller's next step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Running(u64);

/// The next step of a thread that saw work in the pool.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kick {
    /// Do nothing. Enough workers run, the manager watches the pool or need not watch it, and no work is offered to
    /// siblings now.
    Enough,
    /// More workers could run, but the pool's items are short. So the running workers reach the items sooner than
    /// another worker would. From time to time, check whether the running workers have too many items.
    Leave,
    /// Wake or make one worker. The reservation is that worker's permission to start.
    Wake(Reserved),
    /// Enough workers run, but the manager does not watch the pool, or checks it too rarely. Tell the manager once, and
    /// then do the same as for `Offer`.
    Watch,
    /// Enough workers run, and the pool has siblings. Offer the pool's surplus work to the siblings.
    Offer,
    /// No worker runs any more. Earlier, while a worker still ran, the manager had no room (under the cap on threads)
    /// for a worker that the pool asked for. Tell the manager once that no worker runs, and then check the worklist
    /// again.
    Starve,
}

/// The right of one worker to start. A reservation counts as `waking` until a worker uses it up or a thread drops it.
///
/// This type is linear: it is neither `Copy` nor `Clone`, and only transitions of [`Running`] make its values.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    errand: Option<PodId>,
}

/// The number of a pod in its class.
pub(crate) type PodId = u32;

impl Reserved {
    /// Gives the reserved worker an *errand*: the worker is to take work of the sibling pool `home`.
    pub(crate) fn on_errand(self, home: PodId) -> Self {
        Self { errand: Some(home) }
    }

    /// Returns the sibling pool whose work the reserved worker is to take, if any. The thread that uses up the
    /// reservation ends the errand.
    pub(crate) fn errand(&self) -> Option<PodId> {
        self.errand
    }

    /// Takes the errand out of the reservation, and returns the sibling pool whose work the worker was to take, if any.
    /// From then on, the caller must end the errand, and the worker must not.
    pub(crate) fn take_errand(&mut self) -> Option<PodId> {
        self.errand.take()
    }
}

impl Running {
    /// The number that one running worker adds to the word. [`leave`](Self::leave) subtracts this number, and
    /// [`come_back`](Self::come_back) adds it. Leaving and coming back do not depend on the rest of the word.
    pub(crate) const ONE: Self = Self(1 << RUNNING);

    /// Returns the word of a pool that keeps `target` workers runnable.
    pub(crate) fn managed(target: usize) -> Self {
        Self(Self::at_least_one(target) << LIMIT)
    }

    const fn at_least_one(target: usize) -> u64 {
        let most = WAKING_MASK / 2;
        match target as u64 {
            0 => 1,
            target if target > most => most,
            target => target,
        }
    }

    /// Returns the word of a pool that starts items as soon as possible.
    pub(crate) const fn unmanaged() -> Self {
        Self(UNMANAGED << LIMIT)
    }

    /// Returns the same word for a pool that the manager does not watch: [`kick`](Self::kick) never returns
    /// [`Kick::Watch`].
    pub(crate) const fn unwatchable(self) -> Self {
        Self(self.0 | WATCHED)
    }

    /// Returns the same word for a pool that has siblings: [`kick`](Self::kick) may return [`Kick::Offer`].
    pub(crate) const fn sharing(self) -> Self {
        Self(self.0 | SHARING)
    }

    pub(crate) const fn running(self) -> u64 {
        self.0 >> RUNNING & MASK
    }

    pub(crate) const fn waking(self) -> u64 {
        self.0 >> WAKING & WAKING_MASK
    }

    /// Returns the number of workers to keep runnable, or `None` if the pool is unmanaged.
    pub(crate) const fn target(self) -> Option<u64> {
        if self.limit() == UNMANAGED { None } else { Some(self.limit() >> self.is_covered() as u32) }
    }

    /// Returns the number of workers that the pool keeps running while enough work is pending. For an unmanaged or
    /// abandoned pool, returns [`UNMANAGED`] or [`ABANDONED`].
    const fn limit(self) -> u64 {
        self.0 >> LIMIT & MASK
    }

    pub(crate) const fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// Returns whether a worker that was woken long ago still waits for a CPU.
    pub(crate) const fn is_late(self) -> bool {
        self.0 & LATE != 0
    }

    /// Returns whether the pool keeps a small backlog for its own workers.
    pub(crate) const fn is_brisk(self) -> bool {
        self.0 & BRISK != 0
    }

    const fn is_sharing(self) -> bool {
        self.0 & SHARING != 0
    }

    /// Returns whether another worker is needed, given that work is pending.
    pub(crate) const fn need_more_worker(self) -> bool {
        match self.limit() {
            UNMANAGED => self.waking() == 0,
            limit => self.running() + self.waking() < limit,
        }
    }

    /// Returns whether a CPU of the pool is free, as far as the word shows. If the pool needs a worker although no CPU
    /// is free, that worker stands in for a running worker that may be asleep.
    pub(crate) const fn has_free_cpu(self) -> bool {
        match self.target() {
            Some(target) => self.running() + self.waking() < target,
            None => self.waking() == 0,
        }
    }

    /// Returns whether a woken worker may begin. A woken worker must not begin if workers that returned from a block
    /// have filled the pool in the meantime.
    pub(crate) const fn may_start(self) -> bool {
        // The running workers of an unmanaged pool are always fewer than `UNMANAGED`.
        self.running() < self.limit()
    }

    /// Returns whether more workers run than the pool's limit allows.
    pub(crate) const fn too_many_running(self) -> bool {
        // No number of running workers exceeds `UNMANAGED`.
        self.running() > self.limit()
    }

    /// Returns what the caller must do about pending work.
    ///
    /// A thread calls this function after each push. While work is pending, a thread also calls this function after it
    /// has lowered the number of running workers or raised the target.
    #[inline]
    pub(crate) const fn kick(self) -> (Self, Kick) {
        if self.starves() {
            (self.unshort(), Kick::Starve)
        } else if self.need_more_worker() && self.leaves_items_to_workers() {
            (self, Kick::Leave)
        } else {
            self.kick_further()
        }
    }

    const fn starves(self) -> bool {
        self.is_short() && self.running() == 0
    }

    /// Does the same as [`kick`](Self::kick), but never returns [`Kick::Starve`] or [`Kick::Leave`]. The caller knows
    /// that the pool does not starve, or has told the manager that the pool starves.
    #[inline]
    pub(crate) const fn kick_further(self) -> (Self, Kick) {
        if self.need_more_worker() {
            (self.wake_one(), Kick::Wake(Reserved { errand: None }))
        } else if !self.is_watched() {
            (Self(self.0 | WATCHED), Kick::Watch)
        } else if self.is_sharing() && (self.is_late() || !self.is_brisk()) {
            (self, Kick::Offer)
        } else {
            (self, Kick::Enough)
        }
    }

    /// Returns the next word. Also returns a reservation if a worker is wanted for forks that no worker has taken.
    /// `joining` is the number of the pool's threads that wait for forks. Threads that wait for forks count towards the
    /// target, because each of them is woken to run the further forks that its own fork makes. So a recursion needs no
    /// more threads than the pool keeps runnable.
    pub(crate) const fn fork(self, joining: u64) -> (Self, Option<Reserved>) {
        let wants = self.wants_worker_for_fork(joining);
        if wants { (self.wake_one(), Some(Reserved { errand: None })) } else { (self, None) }
    }

    pub(crate) const fn wants_worker_for_fork(self, joining: u64) -> bool {
        match self.target() {
            Some(target) => self.running() + self.waking() + joining < target && !self.is_abandoned(),
            None => false,
        }
    }

    /// Returns whether siblings may take forks of the pool, given that the pool has forks. `helpers` is as in
    /// [`has_excess`](Self::has_excess).
    pub(crate) const fn has_excess_forks(self, joining: u64, helpers: u64) -> bool {
        helpers == 0 && (self.is_late() || !self.wants_worker_for_fork(joining))
    }

    /// Returns what a running worker must do after it has put an item on its local list. The manager must watch the
    /// pool, and must not check it rarely, because the worker's present item may be long.
    pub(crate) const fn keep(self) -> (Self, Kick) {
        if self.is_watched() && !self.is_rarely_checked() {
            (self, Kick::Enough)
        } else {
            (Self(self.0 & !RARELY_CHECKED | WATCHED), Kick::Watch)
        }
    }

    /// Returns whether the pool has room for the work of a sibling. A late pool has no room, because the workers that
    /// it woke do not get a CPU. An abandoned pool has no room either: it would refuse the work, and the work would
    /// then be offered again without end.
    pub(crate) const fn takes_errands(self) -> bool {
        self.has_free_cpu() && !self.is_late() && !self.is_abandoned()
    }

    pub(crate) const fn is_abandoned(self) -> bool {
        self.limit() == ABANDONED
    }

    /// Reserves a worker for the work of a sibling, if there is room for this work.
    pub(crate) const fn reserve(self) -> (Self, Option<Reserved>) {
        if self.takes_errands() { (self.wake_one(), Some(Reserved { errand: None })) } else { (self, None) }
    }

    /// Uses up a reservation. Returns whether the reserved worker may begin.
    ///
    /// A worker that may not begin checks the worklist again, as does every thread that lowers a count of this word.
    /// The returned word says that the pool is full, so the pool needs no other worker now. But the check makes sure
    /// that the manager watches the pool.
    pub(crate) const fn start(self) -> (Self, bool) {
        let rested = Self(self.0 - (1 << WAKING));
        if rested.may_start() { (rested.run_one(), true) } else { (rested, false) }
    }

    /// Drops a reservation that no worker can serve.
    pub(crate) const fn drop_reservation(self) -> Self {
        Self(self.0 - (1 << WAKING))
    }

    /// Notes that a worker was woken long ago and has not arrived. Siblings may then take the pool's items.
    pub(crate) const fn late(self) -> Self {
        Self(self.0 | LATE)
    }

    /// Notes that no woken worker is late any more. The worker that has arrived then looks for work of sibling pools.
    pub(crate) const fn in_time(self) -> Self {
        Self(self.0 & !LATE)
    }

    /// Takes a running worker out of the count between two items if too many workers run. For example, too many run
    /// after blocked workers have returned. Returns whether the worker was taken out of the count. If so, the worker
    /// goes idle.
    pub(crate) const fn shed(self) -> (Self, bool) {
        if self.too_many_running() { (self.leave(), true) } else { (self, false) }
    }

    /// Takes a running worker out of the count, because it blocks, goes idle or begins a CPU-intensive item.
    pub(crate) const fn leave(self) -> Self {
        debug_assert!(self.running() > 0, "a worker left a pool in which none was running");
        Self(self.0 - Self::ONE.0)
    }

    /// Counts a worker again, because it returned from a block or ended a CPU-intensive item. The count of running
    /// workers may then exceed the limit. Surplus workers are [shed](Self::shed).
    pub(crate) const fn come_back(self) -> Self {
        self.run_one()
    }

    /// Marks the pool as abandoned, because the pool runs no item any more. From then on, every thread that pushes an
    /// item asks for a worker, and so finds the mark.
    pub(crate) const fn abandoned(self) -> Self {
        self.with_limit(ABANDONED, false)
    }

    /// Sets the number of workers that the pool keeps runnable. Returns whether the number has changed. If the number
    /// has changed, the caller checks the worklist, because the pool may need more workers, or may have surplus work
    /// for siblings. Each new worker checks the worklist again once it has begun. Surplus workers are
    /// [shed](Self::shed).
    pub(crate) const fn retarget(self, target: usize) -> (Self, bool) {
        let (before, target) = (self.target(), Self::at_least_one(target));
        match before {
            Some(before) if !self.is_abandoned() => {
                let limit = target << self.is_covered() as u32;
                (self.with_limit(limit, self.is_covered()), target != before)
            }
            _ => (self, false),
        }
    }

    const fn with_limit(self, limit: u64, is_covered: bool) -> Self {
        debug_assert!(!is_covered || limit % 2 == 0 && limit <= WAKING_MASK);
        let rest = self.0 & !(MASK << LIMIT | COVERED);
        Self(rest | limit << LIMIT | if is_covered { COVERED } else { 0 })
    }

    const fn is_short(self) -> bool {
        self.0 & SHORT != 0
    }

    /// Notes that the manager has no room for a worker that the pool has asked for. Returns whether no worker runs. If
    /// a worker runs, another thread informs the manager later: the first thread that finds work after the last worker
    /// has stopped counting as running (see [`Kick::Starve`]).
    pub(crate) const fn short(self) -> (Self, bool) {
        (Self(self.0 | SHORT), self.running() == 0)
    }

    /// Clears the mark that [`short`](Self::short) has set, because the worker has arrived, or because the manager
    /// needs no further notice.
    pub(crate) const fn unshort(self) -> Self {
        Self(self.0 & !SHORT)
    }

    const fn run_one(self) -> Self {
        debug_assert!(self.running() < MASK);
        Self(self.0 + Self::ONE.0)
    }

    const fn wake_one(self) -> Self {
        debug_assert!(self.waking() < WAKING_MASK);
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
            .field("rarely_checked", &self.is_rarely_checked())
            .field("late", &self.is_late())
            .field("brisk", &self.is_brisk())
            .field("covered", &self.is_covered())
            .field("short", &self.is_short())
            .finish()
    }
}

#[cfg(test)]
mod tests;
