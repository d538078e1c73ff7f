//! Who wakes? The workers of one pool: idle ones, those on their way, and the one that is being made.
//!
//! A plain struct inside the pool's mutex. It decides which worker a reservation goes to, when another worker is
//! made, and which idle ones leave. The counts in [`Running`](super::concurrency::Running) say *whether* a worker
//! is wanted; this says *which*.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::concurrency::Reserved;
use super::time::Time;

/// The number of a worker in its pool; the lowest free one is given to a new worker.
pub(crate) type WorkerId = u32;

/// When idle workers leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrewLimits {
    /// How long a worker must have been idle.
    pub(crate) idle_timeout: Duration,
    /// One idle worker is kept for so many busy ones, beyond the two that always stay.
    pub(crate) idle_ratio: usize,
}

/// The workers of a pool.
#[derive(Debug)]
pub(crate) struct Crew {
    /// Parked workers, the most recently idle last: it is woken first, its cache is warm.
    idle: VecDeque<Idle>,
    /// Reservations given to woken workers that have not begun yet.
    waking: Vec<Reserved>,
    /// Reservations that wait for a worker to be made or to become idle.
    owed: Vec<Reserved>,
    /// Workers that have arrived and not left.
    alive: usize,
    /// The manager was asked for a worker and has not delivered (it may be waiting to try again).
    creating: bool,
    /// The manager has a deadline at which it culls.
    culling: bool,
    /// Nobody will push again: workers leave instead of parking.
    closing: bool,
    limits: CrewLimits,
}

#[derive(Debug)]
struct Idle {
    id: WorkerId,
    since: Time,
    /// Where it ran last; the system wakes it there, if no other CPU is idle.
    cpu: Option<usize>,
}

/// How a reservation is served.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Unpark this worker: the reservation is its own.
    Unpark(WorkerId),
    /// Nobody is idle: ask the manager for a worker.
    Create,
    /// Nobody is idle and one is being made already.
    Wait,
}

/// What a worker that is about to begin owes its pool.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// An idle worker remains, or is being made.
    Ready,
    /// It was the last idle one: ask the manager for another, so that a block costs a wake-up and not a thread.
    CreateSpare,
}

/// What a worker does that has nothing to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Park until woken. With a time: ask the manager to cull at that time.
    Park(Option<Time>),
    /// Somebody waits for a worker: begin again with this reservation.
    Start(Reserved, Prepare),
    /// The pool closes: leave.
    Exit,
}

/// What culling decided.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cull {
    /// These workers leave.
    pub(crate) leaving: Vec<WorkerId>,
    /// When to cull again.
    pub(crate) again_at: Option<Time>,
}

impl Crew {
    pub(crate) fn new(limits: CrewLimits) -> Self {
        Self {
            idle: VecDeque::new(),
            waking: Vec::new(),
            owed: Vec::new(),
            alive: 0,
            creating: false,
            culling: false,
            closing: false,
            limits,
        }
    }

    /// Somebody reserved a worker: whom does it get? The most recently idle one; if the caller is about to leave the
    /// CPU `near`, the most recently idle one of those that ran there.
    ///
    /// While the caller still runs, the system sees no idle CPU. It would put a worker that ran elsewhere behind the
    /// one that runs there, and leave this CPU idle for milliseconds.
    pub(crate) fn kick(&mut self, reserved: Reserved, near: Option<usize>) -> Wake {
        let neighbour = near.and_then(|cpu| self.idle.iter().rposition(|idle| idle.cpu == Some(cpu)));
        let best = neighbour.or(self.idle.len().checked_sub(1));
        if let Some(idle) = best.and_then(|at| self.idle.remove(at)) {
            self.waking.push(reserved);
            return Wake::Unpark(idle.id);
        }
        self.owed.push(reserved);
        match self.prepare() {
            Prepare::CreateSpare => Wake::Create,
            Prepare::Ready => Wake::Wait,
        }
    }

    /// A woken worker takes its reservation, and learns what it must see to before it begins.
    ///
    /// # Panics
    ///
    /// If nobody was woken.
    pub(crate) fn woken(&mut self) -> (Reserved, Prepare) {
        let reserved = self.waking.pop().expect("a worker woke up without a reservation");
        (reserved, self.prepare())
    }

    /// A new worker has arrived.
    pub(crate) fn arrived(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        self.creating = false;
        self.alive += 1;
        self.rest(id, cpu, now)
    }

    /// A worker has nothing to do, and has left the count of running ones in the same critical section.
    pub(crate) fn rest(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        if let Some(reserved) = self.owed.pop() {
            return Rest::Start(reserved, self.prepare());
        }
        if self.closing {
            self.alive -= 1;
            return Rest::Exit;
        }
        self.idle.push_back(Idle { id, since: now, cpu });
        let arm = !self.culling && self.too_many_workers();
        self.culling |= arm;
        Rest::Park(if arm { self.next_cull() } else { None })
    }

    /// Is a worker asked for, and somebody there who wants it? A spare is made also if an idle worker has come back
    /// meanwhile: it would be asked for again at the next item.
    pub(crate) fn awaits_worker(&self) -> bool {
        self.creating && !self.closing
    }

    /// The worker that was asked for could not be made: is it still wanted? If so, it stays asked for.
    pub(crate) fn still_wanted(&mut self) -> bool {
        self.creating = false;
        self.prepare() == Prepare::CreateSpare
    }

    /// There are as many threads as may be. True if a reservation waits for one: it stays asked for. A mere spare is
    /// not worth waiting for: the next worker that begins, or blocks, asks again.
    pub(crate) fn no_room(&mut self) -> bool {
        self.creating = !self.owed.is_empty();
        self.creating
    }

    /// There is nobody who could make a worker: hands the reservations back, to be dropped.
    pub(crate) fn nobody_comes(&mut self) -> Vec<Reserved> {
        self.creating = false;
        std::mem::take(&mut self.owed)
    }

    /// Idle workers beyond the limits leave once they were idle long enough.
    pub(crate) fn cull(&mut self, now: Time) -> Cull {
        let mut leaving = Vec::new();
        while self.too_many_workers() && self.next_cull().is_some_and(|at| at <= now) {
            leaving.extend(self.idle.pop_front().map(|idle| idle.id));
            self.alive -= 1;
        }
        self.culling = self.too_many_workers();
        Cull { leaving, again_at: if self.culling { self.next_cull() } else { None } }
    }

    /// Another pool needs a thread more than this one needs its oldest idle worker.
    pub(crate) fn give_up_one(&mut self) -> Option<WorkerId> {
        let idle = self.idle.pop_front()?;
        self.alive -= 1;
        Some(idle.id)
    }

    /// Nobody will push again. The idle workers leave now, the others when they are done.
    pub(crate) fn close(&mut self) -> Vec<WorkerId> {
        self.closing = true;
        self.alive -= self.idle.len();
        self.idle.drain(..).map(|idle| idle.id).collect()
    }

    /// Is some worker on its way, or being made? If not, and none runs, pending work would wait forever.
    pub(crate) fn is_help_coming(&self) -> bool {
        self.creating || !self.waking.is_empty() || !self.owed.is_empty()
    }

    /// Does a reservation wait for a thread that does not exist yet?
    #[cfg(test)]
    pub(crate) fn is_starving(&self) -> bool {
        !self.owed.is_empty()
    }

    /// More idle workers than one for `idle_ratio` busy ones, beyond two?
    pub(crate) fn too_many_workers(&self) -> bool {
        let busy = self.alive - self.idle.len();
        self.idle.len() > 2 && (self.idle.len() - 2).saturating_mul(self.limits.idle_ratio) >= busy
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    pub(crate) fn is_creating(&self) -> bool {
        self.creating
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Keeps the promise that an idle worker remains, or is being made, whenever one begins to work.
    fn prepare(&mut self) -> Prepare {
        // A pool whose last worker was given up to another one needs no spare.
        let spare = self.alive > 0 && self.idle.is_empty();
        let wanted = spare || !self.owed.is_empty();
        if wanted && !self.creating && !self.closing {
            self.creating = true;
            Prepare::CreateSpare
        } else {
            Prepare::Ready
        }
    }

    fn next_cull(&self) -> Option<Time> {
        Some(self.idle.front()?.since + self.limits.idle_timeout)
    }
}

/// More workers run than should: does the one on the CPU `mine` leave? Not while it has its CPU to itself and two of
/// the others share one: the system would take milliseconds to spread these. They see the same, and one leaves.
pub(crate) fn should_shed(mine: usize, others: impl Iterator<Item = usize> + Clone) -> bool {
    let two_share = |(at, cpu)| others.clone().skip(at + 1).any(|other| other == cpu);
    others.clone().any(|cpu| cpu == mine) || !others.clone().enumerate().any(two_share)
}

#[cfg(test)]
mod tests {
    use super::super::concurrency::{Kick, Running};
    use super::*;

    const LIMITS: CrewLimits = CrewLimits { idle_timeout: Duration::from_secs(300), idle_ratio: 4 };

    fn reserved() -> Reserved {
        match Running::managed(1).kick().1 {
            Kick::Wake(reserved) => reserved,
            other => unreachable!("an idle pool wakes, got {other:?}"),
        }
    }

    fn at(seconds: u64) -> Time {
        Time::default() + Duration::from_secs(seconds)
    }

    /// A crew of `n` idle workers, numbered from 0, that became idle one second after the other.
    fn idle_crew(n: u32) -> Crew {
        let mut crew = Crew::new(LIMITS);
        for id in 0..n {
            assert!(matches!(crew.arrived(id, None, at(u64::from(id))), Rest::Park(_)));
        }
        crew
    }

    /// spec: C3 (need to create)
    #[test]
    fn the_first_reservation_makes_a_worker_and_that_one_a_spare() {
        let mut crew = Crew::new(LIMITS);
        assert_eq!(crew.kick(reserved(), None), Wake::Create);
        assert_eq!(crew.kick(reserved(), None), Wake::Wait);
        assert!(crew.is_help_coming());
        // The first to arrive begins, and since another reservation waits, one more is made at once.
        assert_eq!(crew.arrived(0, None, at(0)), Rest::Start(reserved(), Prepare::CreateSpare));
        assert_eq!(crew.arrived(1, None, at(0)), Rest::Start(reserved(), Prepare::CreateSpare));
        assert_eq!(crew.arrived(2, None, at(0)), Rest::Park(None));
        assert!(!crew.is_help_coming());
    }

    /// spec: C3 (a worker keeps one idle spare before it starts working)
    #[test]
    fn the_last_idle_worker_asks_for_a_spare_before_it_begins() {
        let mut crew = idle_crew(2);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(1));
        assert_eq!(crew.woken().1, Prepare::Ready);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(0));
        assert_eq!(crew.woken().1, Prepare::CreateSpare);
        assert_eq!(crew.kick(reserved(), None), Wake::Wait);
    }

    #[test]
    fn the_most_recently_idle_worker_is_woken_first() {
        let mut crew = idle_crew(3);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(2));
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(1));
    }

    /// spec: C1 (another worker starts at once), C5: on the CPU that is about to be free.
    #[test]
    fn a_worker_that_blocks_wakes_one_that_ran_on_its_cpu() {
        let mut crew = Crew::new(LIMITS);
        for (id, cpu) in [(0, 7), (1, 5), (2, 7), (3, 5)] {
            assert!(matches!(crew.arrived(id, Some(cpu), at(0)), Rest::Park(_)));
        }
        assert_eq!(crew.kick(reserved(), Some(7)), Wake::Unpark(2));
        assert_eq!(crew.kick(reserved(), Some(7)), Wake::Unpark(0));
        assert_eq!(crew.kick(reserved(), Some(7)), Wake::Unpark(3), "better another one than none");
    }

    /// spec: C3 (returning workers overshoot and are shed), C5: so that no CPU of the pod is left.
    #[test]
    fn of_too_many_workers_one_leaves_that_shares_its_cpu() {
        assert!(should_shed(0, [0, 1].into_iter()), "it shares its own");
        assert!(!should_shed(1, [0, 0].into_iter()), "it has its CPU to itself, the others share one");
        assert!(should_shed(2, [0, 1].into_iter()), "nobody seems to share: what is known of them is old");
        assert!(should_shed(0, [].into_iter()));
    }

    #[test]
    fn a_worker_that_becomes_idle_serves_who_waits_for_a_new_one() {
        let mut crew = idle_crew(1);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(0));
        assert_eq!(crew.woken().1, Prepare::CreateSpare);
        assert_eq!(crew.kick(reserved(), None), Wake::Wait);
        assert_eq!(crew.rest(0, None, at(9)), Rest::Start(reserved(), Prepare::Ready));
    }

    /// spec: C8 (culled beyond 2 + busy/4)
    #[test]
    fn idle_workers_leave_after_the_timeout_down_to_two() {
        let mut crew = idle_crew(2);
        assert_eq!(crew.arrived(2, None, at(2)), Rest::Park(Some(at(300))));
        assert_eq!(crew.arrived(3, None, at(3)), Rest::Park(None), "one deadline is enough");
        assert_eq!(crew.cull(at(299)), Cull { leaving: vec![], again_at: Some(at(300)) });
        assert_eq!(crew.cull(at(300)), Cull { leaving: vec![0], again_at: Some(at(301)) });
        assert_eq!(crew.cull(at(1000)), Cull { leaving: vec![1], again_at: None });
        assert_eq!((crew.alive(), crew.idle()), (2, 2));
    }

    /// spec: C8
    #[test]
    fn one_more_idle_worker_stays_for_four_busy_ones() {
        for (alive, busy, too_many) in
            [(3, 0, true), (7, 4, true), (8, 5, false), (12, 8, true), (2, 0, false)]
        {
            let mut crew = idle_crew(alive);
            for _ in 0..busy {
                let _ = crew.kick(reserved(), None);
            }
            assert_eq!(crew.too_many_workers(), too_many, "{busy} of {alive} busy");
        }
    }

    #[test]
    fn a_failed_creation_is_tried_again_only_while_wanted() {
        let mut crew = idle_crew(1);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(0));
        assert_eq!(crew.woken().1, Prepare::CreateSpare);
        assert!(crew.still_wanted(), "the spare is still missing");
        assert!(crew.is_help_coming());
        assert_eq!(crew.rest(0, None, at(0)), Rest::Park(None));
        assert!(!crew.still_wanted(), "an idle worker is back");
        assert!(!crew.is_help_coming());
    }

    /// spec: E2 (max threads): otherwise it is always the first to be tried again, and holds back those in need.
    #[test]
    fn a_crew_that_gave_its_last_worker_up_wants_no_spare() {
        let mut crew = Crew::new(LIMITS);
        assert_eq!(crew.kick(reserved(), None), Wake::Create);
        let Rest::Start(_, Prepare::CreateSpare) = crew.arrived(0, None, at(0)) else {
            panic!("it is wanted")
        };
        assert_eq!(crew.rest(0, None, at(0)), Rest::Park(None));
        assert_eq!(crew.give_up_one(), Some(0));
        assert!(!crew.still_wanted());
    }

    /// spec: E2 (max threads): at the cap, only work in need waits for room.
    #[test]
    fn a_spare_is_not_worth_waiting_for_room() {
        let mut crew = idle_crew(1);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(0));
        assert_eq!(crew.woken().1, Prepare::CreateSpare);
        assert!(!crew.no_room());
        assert_eq!(crew.kick(reserved(), None), Wake::Create, "it blocked: now somebody is in need");
        assert!(crew.no_room());
        assert_eq!(crew.kick(reserved(), None), Wake::Wait);
    }

    #[test]
    fn reservations_that_nobody_can_serve_are_handed_back() {
        let mut crew = Crew::new(LIMITS);
        assert_eq!(crew.kick(reserved(), None), Wake::Create);
        assert_eq!(crew.nobody_comes(), vec![reserved()]);
        assert!(!crew.is_help_coming());
        assert_eq!(crew.kick(reserved(), None), Wake::Create, "asked for anew");
    }

    #[test]
    fn a_closing_crew_lets_everybody_go() {
        let mut crew = idle_crew(3);
        assert_eq!(crew.kick(reserved(), None), Wake::Unpark(2));
        assert_eq!(crew.close(), vec![0, 1]);
        assert_eq!(crew.woken().1, Prepare::Ready, "no spare is made any more");
        assert_eq!(crew.rest(2, None, at(1)), Rest::Exit);
        assert_eq!(crew.arrived(3, None, at(1)), Rest::Exit);
        assert_eq!(crew.alive(), 0);
    }

    #[test]
    fn a_pool_gives_up_its_oldest_idle_worker() {
        let mut crew = idle_crew(2);
        assert_eq!(crew.give_up_one(), Some(0));
        assert_eq!(crew.give_up_one(), Some(1));
        assert_eq!(crew.give_up_one(), None);
        assert_eq!(crew.alive(), 0);
    }
}
