//! Pools that take each other's items: the steps of offering, seeking and taking items, and of ending an errand.
//!
//! These are the steps of `protocol::exchange` and of `engine::pool::sharing`, in the same order. Each step is an
//! access to one shared word or one critical section. The engine's functions cannot be called here, because other
//! threads could not run in the middle of them. Both places *decide* by the same functions of policy:
//! `Running::has_excess`, `Running::reserve`, `Neighbours::nearest`, `StallWatch`.
//!
//! | here | there |
//! |---|---|
//! | `Offer`, `OfferNext`, `ReserveThere`, `ClearRoom`, `StillRoom` | `Exchange::offer`, `no_room` |
//! | `Seek`, `SeekNext`, `ReserveHere`, `ClearExcess`, `StillForHelper` | `Exchange::seek`, `no_excess` |
//! | `Source`, `StillForThief` | `Exchange::source`, `no_excess` |
//! | `Ask`, `Lists`, `Helpers` | `Member::has_excess`, `has_excess_for_thief` |
//! | `HelperComes`, `HelperCame` | `Helpers` |
//! | `Give`, `SetAside`, `MovedAside` | `Pool::give`, which holds the pool's lock; `moved_aside` |
//! | `EndErrand`; `look_for_stall`, `came` | `Pool::end_errand`; the functions of the same name |

#![forbid(unsafe_code)]

use super::machine::Machine;
use super::pool::{ClassId, PoolId, Seat, ThreadId};
use super::script::{ItemId, Op};
use crate::policy::concurrency::{PodId, Reserved, Running};
use crate::policy::cpu_set::CpuSet;
use crate::policy::neighbours::Neighbours;
use crate::policy::stall::StallLook;
use crate::policy::topology::Topology;

/// The pools of one set of attributes, and the bits that say which of them have room or excess.
#[derive(Debug)]
pub(super) struct Class {
    /// Indexed by pod.
    pub(super) pools: Vec<PoolId>,
    neighbours: Neighbours,
    room: u64,
    excess: u64,
}

/// Steps of the exchange. `home` is the pool that the items belong to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    Offer(PoolId),
    OfferNext(PoolId),
    ReserveThere { home: PoolId, other: PoolId },
    ClearRoom(PoolId),
    StillRoom(PoolId),
    Seek(PoolId),
    SetRoom(PoolId),
    SeekNext(PoolId),
    ReserveHere { own: PoolId, home: PoolId },
    SetExcess(PoolId),
    ClearExcess(PoolId),
    HelperComes(PoolId),
    HelperCame(PoolId),
    EndErrand(PoolId),
    // Steps of a worker that has nothing to do in its own pool.
    Source,
    Give { home: PoolId, moved: bool },
    SetAside { home: PoolId, item: ItemId },
    MovedAside(PoolId),
    // The three reads of a question: the word, then the lists, then the helpers.
    Ask(Question),
    Lists(Question, Running),
    Helpers(Question, Running, u64),
}

/// The question whether `home` has excess items. The variant says for which thread, and so which steps follow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    /// Asked before a worker of the sibling `other` is reserved as a helper.
    Offer { home: PoolId, other: PoolId },
    /// Asked before a worker of the pool `own` is reserved as a helper.
    Seek { own: PoolId, home: PoolId },
    /// Asked again after a seeker has cleared the excess bit.
    StillForHelper { home: PoolId },
    /// Asked by the worker that was called on this errand.
    Errand { home: PoolId },
    /// Asked by a worker that looks through the siblings.
    Source { home: PoolId },
    /// Asked again after such a worker has cleared the excess bit.
    StillForThief { home: PoolId },
}

impl Question {
    fn home(self) -> PoolId {
        match self {
            Self::Offer { home, .. }
            | Self::Seek { home, .. }
            | Self::StillForHelper { home }
            | Self::Errand { home }
            | Self::Source { home }
            | Self::StillForThief { home } => home,
        }
    }

    fn counts_helpers(self) -> bool {
        matches!(self, Self::Offer { .. } | Self::Seek { .. } | Self::StillForHelper { .. })
    }
}

impl Class {
    fn new(topology: &Topology, pods: &[CpuSet], pools: Vec<PoolId>) -> Self {
        Self { neighbours: Neighbours::derive(topology, pods), pools, room: u64::MAX, excess: 0 }
    }
}

impl Machine {
    /// Lets these pools, indexed by pod, take each other's items from now on.
    pub(super) fn share(&mut self, topology: &Topology, pools: Vec<PoolId>) {
        let class = self.classes.len();
        let set = |pool: &PoolId| {
            let cpus = self.pools[*pool].cpus;
            (0..u64::BITS as usize).filter(|cpu| cpus & 1 << cpu != 0).collect::<CpuSet>()
        };
        let pods: Vec<_> = pools.iter().map(set).collect();
        for (pod, pool) in (0..).zip(&pools) {
            self.pools[*pool].word = self.pools[*pool].word.sharing();
            self.pools[*pool].seat = Some(Seat { class, pod, helpers: 0 });
        }
        self.classes.push(Class::new(topology, &pods, pools));
    }

    pub(super) fn perform_share(&mut self, me: ThreadId, step: Share) {
        match step {
            Share::Offer(home) => {
                if self.pools[home].seat.is_some() {
                    self.then(me, [Op::Share(Share::SetExcess(home)), Op::Share(Share::OfferNext(home))]);
                }
            }
            Share::OfferNext(home) => {
                let room = self.classes[self.seat_of(home).0].room;
                if let Some(other) = self.nearest(home, room) {
                    self.then(me, [Op::Share(Share::Ask(Question::Offer { home, other }))]);
                }
            }
            Share::ReserveThere { home, other } => self.reserve_there(me, home, other),
            Share::StillRoom(pool) => {
                if self.pools[pool].word.takes_errands() {
                    self.then(me, [Op::Share(Share::SetRoom(pool))]);
                }
            }
            Share::Seek(own) => {
                if self.pools[own].word.takes_errands() {
                    self.share_steps(me, [Share::SetRoom(own), Share::SeekNext(own)]);
                }
            }
            Share::SeekNext(own) => {
                let excess = self.classes[self.seat_of(own).0].excess;
                if let Some(home) = self.nearest(own, excess) {
                    self.then(me, [Op::Share(Share::Ask(Question::Seek { own, home }))]);
                }
            }
            Share::ReserveHere { own, home } => self.reserve_here(me, own, home),
            Share::EndErrand(home) => self.share_steps(me, [Share::HelperCame(home), Share::Offer(home)]),
            Share::Source => self.source(me),
            Share::Give { home, moved } => self.give(me, home, moved),
            Share::MovedAside(home) => {
                if self.pools[home].has_work() {
                    self.then(me, [Op::Kick(home)]);
                }
            }
            Share::Ask(question) => {
                let word = self.pools[question.home()].word;
                self.then(me, [Op::Share(Share::Lists(question, word))]);
            }
            Share::Lists(question, word) => {
                let movable = self.pools[question.home()].movable();
                self.then(me, [Op::Share(Share::Helpers(question, word, movable))]);
            }
            Share::Helpers(question, word, movable) => {
                let helpers =
                    if question.counts_helpers() { self.helpers_mut(question.home()).to_owned() } else { 0 };
                self.answer(me, question, word.has_excess(movable, helpers));
            }
            other => self.change(other),
        }
    }

    fn reserve_there(&mut self, me: ThreadId, home: PoolId, other: PoolId) {
        match self.reserve(other) {
            Some(reserved) => {
                let pod = self.seat_of(home).1;
                self.seen.offered += 1;
                let wake = Op::Wake(other, reserved.on_errand(pod));
                self.then(me, [wake, Op::Share(Share::Offer(home))]);
            }
            None => self.share_steps(
                me,
                [
                    Share::ClearRoom(other),
                    Share::StillRoom(other),
                    Share::HelperCame(home),
                    Share::Offer(home),
                ],
            ),
        }
    }

    fn reserve_here(&mut self, me: ThreadId, own: PoolId, home: PoolId) {
        match self.reserve(own) {
            Some(reserved) => {
                let pod = self.seat_of(home).1;
                self.seen.sought += 1;
                self.then(me, [Op::Wake(own, reserved.on_errand(pod)), Op::Share(Share::Seek(own))]);
            }
            None => {
                self.seen.passed_on += 1;
                self.share_steps(me, [Share::HelperCame(home), Share::Offer(home)]);
            }
        }
    }

    /// Performs a step that changes one word or list and has no next step.
    fn change(&mut self, step: Share) {
        match step {
            Share::SetRoom(pool) => *self.bits(pool).0 |= self.bit(pool),
            Share::ClearRoom(pool) => *self.bits(pool).0 &= !self.bit(pool),
            Share::SetExcess(pool) => *self.bits(pool).1 |= self.bit(pool),
            Share::ClearExcess(pool) => *self.bits(pool).1 &= !self.bit(pool),
            Share::HelperComes(home) => *self.helpers_mut(home) += 1,
            Share::HelperCame(home) => *self.helpers_mut(home) -= 1,
            Share::SetAside { home, item } => self.pools[home].sideline.push_back(item),
            other => unreachable!("{other:?} leads to something"),
        }
    }

    fn answer(&mut self, me: ThreadId, question: Question, excess: bool) {
        match (question, excess) {
            (Question::Offer { home, other }, true) => {
                self.share_steps(me, [Share::HelperComes(home), Share::ReserveThere { home, other }]);
            }
            (Question::Seek { own, home }, true) => {
                self.share_steps(me, [Share::HelperComes(home), Share::ReserveHere { own, home }]);
            }
            (Question::Seek { own, home }, false) => {
                let still = Share::Ask(Question::StillForHelper { home });
                self.share_steps(me, [Share::ClearExcess(home), still, Share::SeekNext(own)]);
            }
            (Question::StillForHelper { home } | Question::StillForThief { home }, true) => {
                self.then(me, [Op::Share(Share::SetExcess(home))]);
            }
            (Question::Errand { home } | Question::Source { home }, true) => {
                self.then(me, [Op::Share(Share::Give { home, moved: false })]);
            }
            (Question::Errand { .. }, false) => self.then(me, [Op::Share(Share::Source)]),
            (Question::Source { home }, false) => {
                let still = Share::Ask(Question::StillForThief { home });
                self.share_steps(me, [Share::ClearExcess(home), still, Share::Source]);
            }
            (
                Question::Offer { .. } | Question::StillForHelper { .. } | Question::StillForThief { .. },
                false,
            ) => {}
        }
    }

    /// Lets a worker that found nothing in its own pool look at the siblings' lists: first at the pool that called it.
    pub(super) fn take_elsewhere(&mut self, me: ThreadId) {
        let called_by = self.worker(me).errand.map(|pod| self.sibling(self.worker(me).pool, pod));
        let first = called_by.map_or(Share::Source, |home| Share::Ask(Question::Errand { home }));
        self.then(me, [Op::Share(first)]);
    }

    fn source(&mut self, me: ThreadId) {
        let own = self.worker(me).pool;
        let excess = self.classes[self.seat_of(own).0].excess;
        match self.nearest(own, excess) {
            Some(home) => self.then(me, [Op::Share(Share::Ask(Question::Source { home }))]),
            None => {
                self.then(me, [Op::Between { work: false }]);
                self.end_errand(me);
            }
        }
    }

    /// Takes the first item of `home` that may leave it. Items that may not leave are moved to the sideline, where
    /// thieves never look.
    fn give(&mut self, me: ThreadId, home: PoolId, moved: bool) {
        let item = self.pools[home].worklist.pop_front();
        if let Some(item) = item.filter(|item| self.gates[self.gate_of(*item)].bound) {
            self.seen.set_aside += 1;
            return self.share_steps(me, [Share::SetAside { home, item }, Share::Give { home, moved: true }]);
        }
        match item {
            Some(item) => {
                self.check_theft(me, home, item);
                self.found(me, item);
            }
            None => self.then(me, [Op::Share(Share::Source)]),
        }
        if moved {
            self.then(me, [Op::Share(Share::MovedAside(home))]);
        }
    }

    /// Ends the worker's errand, if it is on one: the items that are left there are offered to others.
    pub(super) fn end_errand(&mut self, me: ThreadId) {
        if let Some(pod) = self.worker_mut(me).errand.take() {
            let home = self.sibling(self.worker(me).pool, pod);
            self.then(me, [Op::Share(Share::EndErrand(home))]);
        }
    }

    /// Called at the manager's deadline for the woken workers.
    pub(super) fn look_for_stall(&mut self, pool: PoolId) {
        let again = match self.pools[pool].stall.look(self.now) {
            StallLook::Over => return,
            StallLook::Again(at) => at,
            StallLook::Stalled(at) => {
                self.seen.stalled += 1;
                self.pools[pool].word = self.pools[pool].word.stall();
                let errands = self.pools[pool].crew.hand_over_errands();
                self.seen.handed_over += errands.len();
                let homes: Vec<_> = errands.into_iter().map(|pod| self.sibling(pool, pod)).collect();
                for home in &homes {
                    self.errand_ends(pool, Some(self.seat_of(*home).1));
                }
                let ends = homes.into_iter().map(Share::EndErrand);
                let steps = [Share::Offer(pool)].into_iter().chain(ends);
                self.outsider(steps.map(Op::Share).collect());
                at
            }
        };
        self.manager.stall(pool, again);
    }

    /// Called when a woken worker has come, or will not come.
    pub(super) fn came(&mut self, pool: PoolId) {
        self.pools[pool].stall.came();
        if let Some(eased) = self.pools[pool].stall.ease(self.now) {
            self.pools[pool].word = self.pools[pool].word.unstall();
            if let Some(at) = eased.look_at {
                self.seen.sooner += 1;
                self.manager.stall(pool, at);
            }
        }
    }

    /// Checkers only: the worker of `pool` on this errand is not on its way any more.
    pub(super) fn errand_ends(&mut self, pool: PoolId, errand: Option<PodId>) {
        let Some(home) = errand.map(|pod| self.sibling(pool, pod)) else { return };
        let errands = &mut self.pools[pool].errands;
        let at = errands.iter().position(|other| *other == home).expect("an errand ends once");
        errands.swap_remove(at);
    }

    fn share_steps<const N: usize>(&mut self, me: ThreadId, steps: [Share; N]) {
        self.then(me, steps.map(Op::Share));
    }

    fn reserve(&mut self, pool: PoolId) -> Option<Reserved> {
        let (word, reserved) = self.pools[pool].word.reserve();
        self.pools[pool].word = word;
        if reserved.is_some() {
            self.check_wake(pool);
        }
        reserved
    }

    fn nearest(&self, pool: PoolId, bits: u64) -> Option<PoolId> {
        let (class, pod) = self.seat_of(pool);
        let class = &self.classes[class];
        class.neighbours.nearest(pod as usize, |_| bits).map(|pod| class.pools[pod])
    }

    pub(super) fn sibling(&self, pool: PoolId, pod: PodId) -> PoolId {
        self.classes[self.seat_of(pool).0].pools[pod as usize]
    }

    fn seat_of(&self, pool: PoolId) -> (ClassId, PodId) {
        let seat = self.pools[pool].seat.as_ref().expect("only members of a class have siblings");
        (seat.class, seat.pod)
    }

    fn helpers_mut(&mut self, pool: PoolId) -> &mut u64 {
        &mut self.pools[pool].seat.as_mut().expect("only members of a class have siblings").helpers
    }

    fn bit(&self, pool: PoolId) -> u64 {
        1 << self.seat_of(pool).1
    }

    /// Returns the room bits and the excess bits.
    fn bits(&mut self, pool: PoolId) -> (&mut u64, &mut u64) {
        let class = self.seat_of(pool).0;
        let class = &mut self.classes[class];
        (&mut class.room, &mut class.excess)
    }
}
