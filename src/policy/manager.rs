//! The schedule of the manager's duties: to make workers, to try again after a failure, to call rescuers, to cull idle
//! workers, and to watch saturated pools.
//!
//! The caller passes in the time `now`, and gets back the duties that are due and the next deadline. The engine's
//! manager thread sleeps until [`Manager::next_wake`], or until another thread sends a request. A simulated machine
//! moves its clock to [`Manager::next_wake`] instead.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::blocking_detector::Facts;
use super::deadlines::Deadlines;
use super::room::{Claim, FAMINE, Line, TURN};
use super::time::Time;
use super::watch::{BRISK_LONGEST, Look, Outcome, Rules, Verdict, Watch};

/// After a thread could not be made, the manager makes no attempt for this long.
pub(crate) const CREATION_COOLDOWN: Duration = Duration::from_secs(1);

/// One thing to do for the pool `P`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Duty<P> {
    /// Make a worker. If that fails, tell [`Manager::creation_failed`].
    Create(P),
    /// Tell the pool's idle set that the worker that the pool asked for cannot be made now.
    Unserved(P),
    /// A deadline of the pool has come. Do everything that is due, and tell [`Manager::deadline`] the pool's next
    /// deadline.
    Deadline(P),
    /// Check a watched pool, and pass the result to [`Manager::looked`].
    Look(P, Watch),
    /// A pool has starved for a whole turn. If workers are still asked to give way, allow every worker to give way.
    Hurry,
    /// Try to make a worker for each pool in the line, even if no thread has left. The schedule itself does this.
    TryLine,
    /// Make two threads, each only if it is needed: the cleaner, which destroys the values that the manager must not
    /// destroy, and the thread that calls due wakers. If that fails, tell [`Manager::cleaner_failed`].
    Clean,
}

impl<P: Clone> Duty<P> {
    /// Returns the duty to repeat if this duty is not completed. The watch of a repeated [`Look`](Self::Look) starts
    /// anew and forgets what it has seen.
    pub(crate) fn again(&self, now: Time) -> Self {
        match self {
            Self::Create(pool) => Self::Create(pool.clone()),
            Self::Unserved(pool) => Self::Unserved(pool.clone()),
            Self::Deadline(pool) => Self::Deadline(pool.clone()),
            Self::Look(pool, _) => Self::Look(pool.clone(), Watch::new(now)),
            Self::Hurry => Self::Hurry,
            Self::TryLine => Self::TryLine,
            Self::Clean => Self::Clean,
        }
    }

    /// Returns whether the other duty is of the same kind and for the same pool.
    fn is_like(&self, other: &Self, is_same: impl Fn(&P, &P) -> bool) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.pool().zip(other.pool()).is_none_or(|(pool, other)| is_same(pool, other))
    }

    fn pool(&self) -> Option<&P> {
        match self {
            Self::Create(pool) | Self::Unserved(pool) | Self::Deadline(pool) | Self::Look(pool, _) => {
                Some(pool)
            }
            Self::Hurry | Self::TryLine | Self::Clean => None,
        }
    }
}

/// The manager's schedule. The manager thread owns the schedule. Other threads send requests to the manager's inbox.
#[derive(Debug)]
pub(crate) struct Manager<P> {
    duties: Deadlines<Duty<P>>,
    /// The time before which the manager does not try to make a thread.
    creations_from: Time,
    /// The pools whose work waits until a thread leaves.
    line: Line<P>,
    /// The time at which [`Duty::Hurry`] is due. A `Hurry` that was set for any other time is ignored.
    hurry_at: Option<Time>,
    /// Whether a [`Duty::TryLine`] is set.
    tries_line: bool,
    /// Whether a [`Duty::Clean`] is set.
    cleans: bool,
    rules: Rules,
}

impl<P: Clone> Manager<P> {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            duties: Deadlines::new(),
            creations_from: Time::default(),
            line: Line::new(),
            hurry_at: None,
            tries_line: false,
            cleans: false,
            rules,
        }
    }

    /// Schedules the making of a worker for a pool that asks for one.
    pub(crate) fn create(&mut self, pool: P, now: Time) {
        if now < self.creations_from {
            self.create_later(pool, self.creations_from, now);
        } else {
            self.duties.set(now, Duty::Create(pool));
        }
    }

    fn create_later(&mut self, pool: P, at: Time, now: Time) {
        self.duties.set(now, Duty::Unserved(pool.clone()));
        self.duties.set(at, Duty::Create(pool));
    }

    /// Notes that a thread could not be made. If a pool still wants a thread, the manager tries that pool again after
    /// the pools that have asked for a thread since. So a pool whose attempts fail again and again does not delay the
    /// other pools.
    pub(crate) fn creation_failed(&mut self, still_wanted_by: Option<P>, now: Time) {
        self.creations_from = now + CREATION_COOLDOWN;
        if let Some(pool) = still_wanted_by {
            self.create_later(pool, self.after_the_others(), now);
        }
    }

    /// Notes that the cleaner could not be made. The manager tries to make the cleaner again after it has tried the
    /// pools that have asked since.
    pub(crate) fn cleaner_failed(&mut self, now: Time) {
        self.creation_failed(None, now);
        self.clean_at(self.after_the_others());
    }

    /// Returns the time of an attempt that must follow the attempts for the waiting pools.
    fn after_the_others(&self) -> Time {
        self.creations_from + Duration::from_nanos(1)
    }

    /// Notes that work of this pool waits for a thread, but the cap allows no further thread. The manager tries the
    /// pool again when a thread leaves, and in any case after [`FAMINE`]. By that time, another pool may have an idle
    /// worker to send away, or this pool may starve.
    pub(crate) fn no_room(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim, now: Time) {
        self.duties.set(now, Duty::Unserved(pool.clone()));
        if self.line.wait(pool, is_it, claim) && self.line.starves() {
            // Workers were asked to give way for this pool, which no longer starves. So the manager tries the next
            // starving pool, and asks workers again if there is no room for that pool.
            self.try_first(now);
        }
        if claim.starves && self.hurry_at.is_none() {
            self.hurry_at = Some(now + TURN);
            self.duties.set(now + TURN, Duty::Hurry);
        }
        if !self.tries_line {
            self.tries_line = true;
            self.duties.set(now + FAMINE, Duty::TryLine);
        }
    }

    /// Returns whether this pool may get the next thread for which there is room. If any pool waits in the line, only
    /// the first pool in the line may get this thread.
    pub(crate) fn is_next(&self, is_it: impl Fn(&P) -> bool) -> bool {
        self.line.first().is_none_or(is_it)
    }

    /// Puts this pool in the line. The pool that [is next](Self::is_next) has been refused a thread, so the manager
    /// tries that pool when a worker leaves. If the manager tried earlier, it would ask a second worker to
    /// give way.
    pub(crate) fn waits_its_turn(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim, now: Time) {
        self.no_room(pool, &is_it, claim, now);
        if self.is_next(is_it) {
            self.try_first(now);
        }
    }

    /// Notes that a thread has left. The manager then tries the first pool in the line, before it tries pools that have
    /// asked for a worker since.
    pub(crate) fn room(&mut self, now: Time) {
        let from = if now < self.creations_from { now } else { Time::default() };
        self.try_first(from);
    }

    fn try_first(&mut self, at: Time) {
        if let Some(pool) = self.line.first().cloned() {
            self.create(pool, at);
        }
    }

    /// Notes that a worker of this pool is being made. There may be room for yet another worker, so the manager tries
    /// the first pool in the line.
    pub(crate) fn served(&mut self, is_it: impl Fn(&P) -> bool, now: Time) {
        self.line.served(is_it);
        // A new turn begins the next time that a starving pool is refused a thread.
        self.hurry_at = None;
        self.try_first(now);
    }

    /// Notes that no work of this pool waits for a worker any more. If the pool was in the line, there may be room for
    /// another pool, so the manager tries the first pool in the line.
    pub(crate) fn unwanted(&mut self, is_it: impl Fn(&P) -> bool, now: Time) {
        if self.line.leave(is_it) {
            self.try_first(now);
        }
    }

    /// Returns whether a pool starves for lack of a thread.
    pub(crate) fn starves(&self) -> bool {
        self.line.starves()
    }

    /// Notes a deadline of the pool.
    pub(crate) fn deadline(&mut self, pool: P, at: Time) {
        self.duties.set(at, Duty::Deadline(pool));
    }

    /// Schedules the making of the cleaner.
    pub(crate) fn clean(&mut self, now: Time) {
        self.clean_at(now.max(self.creations_from));
    }

    fn clean_at(&mut self, at: Time) {
        if !self.cleans {
            self.cleans = true;
            self.duties.set(at, Duty::Clean);
        }
    }

    /// Watches a pool that became saturated or brisk. If the pool is watched already, makes sure that it is checked
    /// soon. Costs O(duties).
    pub(crate) fn watch(&mut self, pool: &P, is_same: impl Fn(&P, &P) -> bool, now: Time) {
        let is_meant = |duty: &Duty<P>| matches!(duty, Duty::Look(known, _) if is_same(known, pool));
        let known = self.duties.take_all(is_meant);
        if known.is_empty() {
            self.duties.set(now, Duty::Look(pool.clone(), Watch::new(now)));
        }
        for (deadline, look) in known {
            self.duties.set(deadline.at().min(now + BRISK_LONGEST), look);
        }
    }

    /// Schedules an immediate check of a watched pool, because the system reports that a worker of the pool sleeps.
    /// Costs O(duties).
    pub(crate) fn told(&mut self, is_pool: impl Fn(&P) -> bool, now: Time) {
        let is_meant = |duty: &Duty<P>| matches!(duty, Duty::Look(pool, _) if is_pool(pool));
        for (_, mut look) in self.duties.take_all(is_meant) {
            if let Duty::Look(_, watch) = &mut look {
                watch.tell();
            }
            self.duties.set(now, look);
        }
    }

    /// Ensures that a watched pool is checked at the time `at` or earlier. Costs O(duties).
    pub(crate) fn look_by(&mut self, is_pool: impl Fn(&P) -> bool, at: Time) {
        let is_meant = |duty: &Duty<P>| matches!(duty, Duty::Look(pool, _) if is_pool(pool));
        for (deadline, look) in self.duties.take_all(is_meant) {
            self.duties.set(at.min(deadline.at()), look);
        }
    }

    /// Puts a duty off until `at`. Unless the duty is a deadline, it replaces all scheduled duties of the same kind for
    /// the same pool. Costs O(duties).
    pub(crate) fn put_off(&mut self, duty: Duty<P>, is_same: impl Fn(&P, &P) -> bool, at: Time) {
        // Other deadlines of the pool stay, because the pool relies on every deadline of which it told the manager.
        if !matches!(duty, Duty::Deadline(_)) {
            let _replaced = self.duties.take_all(|other| duty.is_like(other, &is_same));
        }
        match &duty {
            Duty::Hurry => self.hurry_at = Some(at),
            Duty::Clean => self.cleans = true,
            _ => {}
        }
        self.duties.set(at, duty);
    }

    /// Takes the next duty that is due at `now`.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Duty<P>> {
        loop {
            let (deadline, duty) = self.duties.take_due(now)?;
            match duty {
                Duty::Hurry if self.hurry_at != Some(deadline.at()) => {}
                Duty::Hurry => {
                    self.hurry_at = None;
                    return Some(Duty::Hurry);
                }
                Duty::TryLine => {
                    self.tries_line = false;
                    let pools: Vec<P> = self.line.pools().cloned().collect();
                    pools.into_iter().for_each(|pool| self.create(pool, now));
                }
                // After the pool asked for this worker, another attempt failed. So the cooldown applies to this worker
                // too.
                Duty::Create(pool) if now < self.creations_from => self.create(pool, now),
                Duty::Clean => {
                    self.cleans = false;
                    if now >= self.creations_from {
                        return Some(Duty::Clean);
                    }
                    self.clean(now);
                }
                duty => return Some(duty),
            }
        }
    }

    /// Returns the time at which the next duty is due, or `None` if no duty is scheduled.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.duties.next()
    }

    /// Evaluates a check of a watched pool, and schedules the next check. Returns the engine's next step.
    pub(crate) fn looked(
        &mut self,
        pool: P,
        mut watch: Watch,
        look: &Look,
        facts: &mut impl Facts,
        now: Time,
    ) -> Outcome {
        let (outcome, next) = watch.look(look, self.rules, facts, now);
        if outcome.verdict != Verdict::Unwatch {
            self.duties.set(next, Duty::Look(pool, watch));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    /// After a failure, the manager makes at most one attempt per second to make a thread, no matter which pool asks.
    ///
    /// spec: E2.6, P1.2
    #[test]
    fn a_failed_creation_holds_all_creations_back_for_a_second() {
        let mut manager = Manager::new(Rules::default());
        manager.create('a', at(0));
        manager.create('b', at(0));
        assert_eq!(manager.take_due(at(0)), Some(Duty::Create('a')));
        manager.creation_failed(Some('a'), at(0));
        let told: Vec<_> = std::iter::from_fn(|| manager.take_due(at(0))).collect();
        assert_eq!(told, [Duty::Unserved('a'), Duty::Unserved('b')], "b waits too, though it asked before");
        manager.create('c', at(500));
        assert_eq!(manager.take_due(at(999)), Some(Duty::Unserved('c')), "its idle set is told");
        assert_eq!(manager.take_due(at(999)), None);
        assert_eq!(manager.next_wake(), Some(at(1000)));
        let due: Vec<_> = std::iter::from_fn(|| manager.take_due(at(1001))).collect();
        assert_eq!(
            due,
            [Duty::Create('b'), Duty::Create('c'), Duty::Create('a')],
            "the failed one comes last"
        );
        assert_eq!(manager.next_wake(), None);
    }

    /// spec: E2.6: a failure holds back 50 000 pools without recursion, which would overflow the stack.
    #[test]
    fn a_failure_holds_any_number_of_creations_back() {
        const POOLS: u32 = 50_000;
        let mut manager = Manager::new(Rules::default());
        (0..POOLS).for_each(|pool| manager.create(pool, at(0)));
        manager.creation_failed(None, at(0));
        let told = std::iter::from_fn(|| manager.take_due(at(0)));
        assert!(told.eq((0..POOLS).map(Duty::Unserved)));
    }

    fn no_room(manager: &mut Manager<char>, pool: char, starves: bool, now: Time) {
        manager.no_room(pool, |known| *known == pool, Claim { starves, nice: 0 }, now);
    }

    fn due(manager: &mut Manager<char>, now: Time) -> Vec<Duty<char>> {
        std::iter::from_fn(|| manager.take_due(now)).collect()
    }

    /// spec: E2.5 (max threads): a refusal because of the cap is not a failure, so it does not delay other pools.
    #[test]
    fn work_that_found_no_room_is_tried_when_a_thread_leaves() {
        let mut manager = Manager::new(Rules::default());
        manager.create('a', at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Create('a')]);
        no_room(&mut manager, 'a', false, at(0));
        no_room(&mut manager, 'b', false, at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a'), Duty::Unserved('b')]);
        manager.create('c', at(1));
        assert_eq!(due(&mut manager, at(1)), [Duty::Create('c')]);
        manager.room(at(2));
        assert_eq!(due(&mut manager, at(2)), [Duty::Create('a')]);
        manager.served(|pool| *pool == 'a', at(2));
        assert_eq!(due(&mut manager, at(2)), [Duty::Create('b')], "several may have left");
        manager.unwanted(|pool| *pool == 'b', at(2));
        assert_eq!(due(&mut manager, at(2)), []);
        assert_eq!(manager.next_wake(), Some(at(1000)), "in case no thread had left");
        assert_eq!(due(&mut manager, at(1000)), [], "the line is empty");
        assert_eq!(manager.next_wake(), None);
    }

    /// spec: P1 (at most one attempt per second after a failure): the limit applies to threads of every kind.
    #[test]
    fn a_cleaner_is_made_when_threads_are_tried_again() {
        let mut manager = Manager::<char>::new(Rules::default());
        manager.clean(at(0));
        assert_eq!(manager.take_due(at(0)), Some(Duty::Clean));
        manager.clean(at(1));
        manager.creation_failed(None, at(1));
        assert_eq!(manager.take_due(at(1000)), None);
        manager.clean(at(1000));
        assert_eq!(manager.next_wake(), Some(at(1001)));
        assert_eq!(manager.take_due(at(1001)), Some(Duty::Clean));
    }

    /// spec: P1.2: if the cleaner and a pool's worker can never be made, the manager tries to make them alternately.
    #[test]
    fn a_failing_cleaner_and_a_failing_pool_are_tried_by_turns() {
        let mut manager = Manager::new(Rules::default());
        manager.clean(at(0));
        manager.create('a', at(0));
        let mut tried = Vec::new();
        for now in (0..6).map(|n| at(1001 * n)) {
            // The manager leaves more values to the cleaner each time.
            manager.clean(now);
            while let Some(duty) = manager.take_due(now) {
                match duty {
                    Duty::Clean => manager.cleaner_failed(now),
                    Duty::Create(pool) => manager.creation_failed(Some(pool), now),
                    _ => continue,
                }
                tried.push(std::mem::discriminant(&duty));
            }
        }
        assert_eq!(tried.len(), 6, "one attempt per second");
        assert!(tried.windows(2).all(|two| two[0] != two[1]), "{tried:?}");
    }

    /// spec: S1.10: a pool that was checked rarely is checked soon once a worker tells the manager of a change.
    #[test]
    fn a_pool_that_is_watched_already_is_checked_sooner() {
        let mut manager = Manager::new(Rules::default());
        let watch = |manager: &mut Manager<char>, now| manager.watch(&'a', |one, other| one == other, now);
        watch(&mut manager, at(0));
        let Some(Duty::Look('a', known)) = manager.take_due(at(0)) else { unreachable!("a is watched") };
        manager.duties.set(at(24), Duty::Look('a', known));
        watch(&mut manager, at(5));
        assert_eq!(manager.next_wake(), Some(at(5) + BRISK_LONGEST));
        watch(&mut manager, at(7));
        assert_eq!(due(&mut manager, at(100)).len(), 1, "the pool has one watch");
    }

    /// spec: P1.5 (the manager is supervised): a duty that is put off replaces a scheduled duty of the same kind for
    /// the same pool.
    #[test]
    fn a_duty_that_is_put_off_is_done_later_and_once() {
        let mut manager = Manager::new(Rules::default());
        let watch =
            |manager: &mut Manager<char>, pool, now| manager.watch(&pool, |one, other| one == other, now);
        watch(&mut manager, 'a', at(0));
        watch(&mut manager, 'b', at(0));
        manager.deadline('a', at(5));
        let Some(look @ Duty::Look('a', _)) = manager.take_due(at(0)) else { unreachable!("a was first") };
        watch(&mut manager, 'a', at(3));
        manager.put_off(look.again(at(0)), |one, other| one == other, at(1000));
        let Some(Duty::Look('b', _)) = manager.take_due(at(0)) else { unreachable!("b is another pool") };
        assert_eq!(manager.take_due(at(999)), Some(Duty::Deadline('a')), "another duty");
        assert_eq!(manager.take_due(at(999)), None);
        assert_eq!(manager.take_due(at(1000)), Some(look));
        assert_eq!(manager.next_wake(), None);
        manager.deadline('a', at(1100));
        manager.put_off(Duty::Deadline('a'), |one, other| one == other, at(2000));
        assert_eq!(
            due(&mut manager, at(2000)),
            [const { Duty::Deadline('a') }; 2],
            "the pool counts on both"
        );
    }

    /// spec: P1.5 (the manager is supervised): at most one `Hurry` and one `Clean` are scheduled at a time.
    #[test]
    fn a_hurry_and_a_cleaner_that_are_put_off_come() {
        let mut manager = Manager::new(Rules::default());
        no_room(&mut manager, 'a', true, at(0));
        manager.clean(at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a'), Duty::Clean]);
        let hurry = due(&mut manager, Time::default() + TURN);
        assert_eq!(hurry, [Duty::Hurry]);
        for duty in [Duty::Hurry, Duty::Clean] {
            manager.put_off(duty, |one, other| one == other, at(500));
        }
        manager.clean(at(0));
        assert_eq!(due(&mut manager, at(500)), [Duty::Hurry, Duty::Clean]);
    }

    /// spec: E2.5: the room of a thread that leaves goes to the line, even if another pool asked for a worker before.
    #[test]
    fn room_is_for_the_line_before_later_requests() {
        let mut manager = Manager::new(Rules::default());
        no_room(&mut manager, 'a', true, at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a')]);
        manager.create('b', at(1));
        manager.room(at(1));
        assert_eq!(manager.take_due(at(1)), Some(Duty::Create('a')));
    }

    /// spec: E2.5 (pools take turns): a pool that asks for a worker before the manager learns that a thread has left is
    /// not served before the pools in the line.
    #[test]
    fn a_pool_outside_of_the_line_is_not_served_before_the_line() {
        let mut manager = Manager::new(Rules::default());
        let claim = |starves, nice| Claim { starves, nice };
        assert!(manager.is_next(|pool| *pool == 'b'), "no pool waits");
        no_room(&mut manager, 'a', true, at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a')]);
        assert!(manager.is_next(|pool| *pool == 'a') && !manager.is_next(|pool| *pool == 'b'));
        manager.waits_its_turn('b', |pool| *pool == 'b', claim(true, 0), at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('b')], "a is tried when a worker has left");
        manager.room(at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Create('a')]);
        // The new pool's priority puts it first in the line, so the manager tries this pool.
        manager.waits_its_turn('h', |pool| *pool == 'h', claim(true, -20), at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('h'), Duty::Create('h')]);
        assert!(manager.is_next(|pool| *pool == 'h'));
    }

    /// A pool that waits for room has one place in the line and one deadline, however long it waits and however many
    /// times the manager tries it.
    #[test]
    fn a_pool_that_waits_for_room_is_tried_once_a_second() {
        let mut manager = Manager::new(Rules::default());
        for seconds in 0..5 {
            for _ in 0..3 {
                no_room(&mut manager, 'a', false, at(1000 * seconds));
            }
            assert_eq!(due(&mut manager, at(1000 * seconds + 999)), [const { Duty::Unserved('a') }; 3]);
            assert_eq!(due(&mut manager, at(1000 * seconds + 1000)), [Duty::Create('a')]);
        }
        manager.room(at(4999));
        assert_eq!(due(&mut manager, at(4999)), [Duty::Create('a')]);
    }

    /// spec: E2.5 (a busy worker gives way between items): after a pool has starved for a turn, every busy worker may
    /// give way. Once a thread was made, the next turn begins when a starving pool is refused a thread again.
    #[test]
    fn workers_hurry_after_a_pool_has_starved_for_a_turn() {
        let mut manager = Manager::new(Rules::default());
        no_room(&mut manager, 'a', true, at(0));
        no_room(&mut manager, 'b', true, at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a'), Duty::Unserved('b')]);
        assert_eq!(manager.next_wake(), Some(at(0) + TURN));
        assert_eq!(due(&mut manager, at(1)), [Duty::Hurry], "once");
        manager.served(|pool| *pool == 'a', at(2));
        assert_eq!(due(&mut manager, at(2)), [Duty::Create('b')]);
        no_room(&mut manager, 'b', true, at(2));
        manager.served(|pool| *pool == 'c', at(2));
        assert_eq!(due(&mut manager, at(2)), [Duty::Unserved('b'), Duty::Create('b')]);
        assert_eq!(
            due(&mut manager, at(3)),
            [],
            "another pool was served: a new turn begins when b is refused again"
        );
        assert!(manager.starves());
    }
}
