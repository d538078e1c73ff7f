//! The manager's duties and their times: making workers, trying again, calling rescuers, culling, and watching
//! saturated pools.
//!
//! `now` comes in; duties and the next deadline go out. The engine's manager thread sleeps until
//! [`Manager::next_wake`], or until another thread sends a request. A made-up machine jumps to that time.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::blocking_detector::Facts;
use super::deadlines::Deadlines;
use super::room::{Claim, FAMINE, Line, TURN};
use super::time::Time;
use super::watch::{Look, Outcome, Rules, Verdict, Watch};

/// After a thread could not be made, the manager makes no attempt for this long.
pub(crate) const CREATION_COOLDOWN: Duration = Duration::from_secs(1);

/// One thing to do for the pool `P`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Duty<P> {
    /// Make a worker. If that fails, tell [`Manager::creation_failed`].
    Create(P),
    /// The worker that the pool asked for cannot be made now. Tell its idle set.
    Unserved(P),
    /// A deadline of the pool has come. See to what is due, and tell [`Manager::deadline`] of the next one.
    Deadline(P),
    /// Look at a watched pool, and ask [`Manager::looked`].
    Look(P, Watch),
    /// A pool has starved for a whole turn. Allow every worker to give way, if one is still asked to.
    Hurry,
    /// Handled here: try each pool in the line, whether a thread has left or not.
    TryLine,
    /// Make the thread that destroys what the manager could not. If that fails, tell [`Manager::cleaner_failed`].
    Clean,
}

impl<P: Clone> Duty<P> {
    /// Returns the duty to repeat if this one is not completed. A watch begins anew and forgets what it has seen.
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

    /// Returns whether the other duty is of the same kind, for the same pool.
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

/// The manager's schedule. The manager thread owns it; other threads send requests through its inbox.
#[derive(Debug)]
pub(crate) struct Manager<P> {
    duties: Deadlines<Duty<P>>,
    /// No attempt to make a thread is made before this time.
    creations_from: Time,
    /// Pools whose work waits until a thread leaves.
    line: Line<P>,
    /// When [`Duty::Hurry`] is due. A `Hurry` set for another time lapses.
    hurry_at: Option<Time>,
    /// Whether a [`Duty::TryLine`] is set.
    tries_line: bool,
    /// A [`Duty::Clean`] is set.
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

    /// Makes a worker for a pool that asks for one.
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

    /// Notes that a thread could not be made. If the pool still wants one, it is tried again after the pools that
    /// asked meanwhile. So a pool that fails time after time holds no other pool back.
    pub(crate) fn creation_failed(&mut self, still_wanted_by: Option<P>, now: Time) {
        self.creations_from = now + CREATION_COOLDOWN;
        if let Some(pool) = still_wanted_by {
            self.create_later(pool, self.after_the_others(), now);
        }
    }

    /// Notes that the thread that destroys the manager's leftovers could not be made. It is tried again after the
    /// pools that asked meanwhile.
    pub(crate) fn cleaner_failed(&mut self, now: Time) {
        self.creation_failed(None, now);
        self.clean_at(self.after_the_others());
    }

    /// Returns the time just after the next attempt of the pools that wait for it.
    fn after_the_others(&self) -> Time {
        self.creations_from + Duration::from_nanos(1)
    }

    /// Notes that the cap leaves no thread for this pool, whose work waits for one. The pool is tried when
    /// a thread leaves, and after [`FAMINE`] in any case: by then, an idle worker of another pool may give way, or
    /// the pool may starve.
    pub(crate) fn no_room(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim, now: Time) {
        self.duties.set(now, Duty::Unserved(pool.clone()));
        if self.line.wait(pool, is_it, claim) && self.line.starves() {
            // Workers were asked to give way for this pool, which no longer starves. The next one asks for itself.
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

    /// Returns whether a worker may be made for this pool, if there is room. Room is for the first pool in the
    /// line, if any pool waits.
    pub(crate) fn is_next(&self, is_it: impl Fn(&P) -> bool) -> bool {
        self.line.first().is_none_or(is_it)
    }

    /// Puts this pool in the line. The pool that [is next](Self::is_next) was refused a thread, so it is tried when a
    /// worker leaves. Tried before that, it would have another worker give way.
    pub(crate) fn waits_its_turn(&mut self, pool: P, is_it: impl Fn(&P) -> bool, claim: Claim, now: Time) {
        self.no_room(pool, &is_it, claim, now);
        if self.is_next(is_it) {
            self.try_first(now);
        }
    }

    /// Notes that a thread has left. The first pool in the line is tried, before pools that have asked for a worker
    /// meanwhile.
    pub(crate) fn room(&mut self, now: Time) {
        let from = if now < self.creations_from { now } else { Time::default() };
        self.try_first(from);
    }

    fn try_first(&mut self, at: Time) {
        if let Some(pool) = self.line.first().cloned() {
            self.create(pool, at);
        }
    }

    /// Notes that a worker of this pool is being made. There may be room for another one.
    pub(crate) fn served(&mut self, is_it: impl Fn(&P) -> bool, now: Time) {
        self.line.served(is_it);
        // Pools that starve from now on wait for a turn of their own.
        self.hurry_at = None;
        self.try_first(now);
    }

    /// Notes that no work of this pool waits for a worker any more. The room may be for another pool.
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

    /// Schedules the thread that destroys what the manager cannot.
    pub(crate) fn clean(&mut self, now: Time) {
        self.clean_at(now.max(self.creations_from));
    }

    fn clean_at(&mut self, at: Time) {
        if !self.cleans {
            self.cleans = true;
            self.duties.set(at, Duty::Clean);
        }
    }

    /// Watches a pool that became saturated.
    pub(crate) fn watch(&mut self, pool: P, now: Time) {
        self.duties.set(now, Duty::Look(pool, Watch::new(now)));
    }

    /// Schedules a look at a watched pool now, because the system reports that a worker in it sleeps. Costs
    /// O(duties).
    pub(crate) fn told(&mut self, is_pool: impl Fn(&P) -> bool, now: Time) {
        let is_meant = |duty: &Duty<P>| matches!(duty, Duty::Look(pool, _) if is_pool(pool));
        for (_, mut look) in self.duties.take_all(is_meant) {
            if let Duty::Look(_, watch) = &mut look {
                watch.tell();
            }
            self.duties.set(now, look);
        }
    }

    /// Schedules a look at a watched pool by this time, if not sooner. Costs O(duties).
    pub(crate) fn look_by(&mut self, is_pool: impl Fn(&P) -> bool, at: Time) {
        let is_meant = |duty: &Duty<P>| matches!(duty, Duty::Look(pool, _) if is_pool(pool));
        for (deadline, look) in self.duties.take_all(is_meant) {
            self.duties.set(at.min(deadline.at()), look);
        }
    }

    /// Puts a duty off to `at`, in place of any like duty that is set, unless it is a deadline. Costs O(duties).
    pub(crate) fn put_off(&mut self, duty: Duty<P>, is_same: impl Fn(&P, &P) -> bool, at: Time) {
        // Further deadlines of the pool stay: the pool counts on each of which the manager was told.
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
        let (deadline, duty) = self.duties.take_due(now)?;
        match duty {
            Duty::Hurry if self.hurry_at != Some(deadline.at()) => self.take_due(now),
            Duty::Hurry => {
                self.hurry_at = None;
                Some(Duty::Hurry)
            }
            Duty::TryLine => {
                self.tries_line = false;
                let pools: Vec<P> = self.line.pools().cloned().collect();
                pools.into_iter().for_each(|pool| self.create(pool, now));
                self.take_due(now)
            }
            // The worker was asked for before a creation failed.
            Duty::Create(pool) if now < self.creations_from => {
                self.create(pool, now);
                self.take_due(now)
            }
            Duty::Clean => {
                self.cleans = false;
                if now < self.creations_from {
                    self.clean(now);
                    return self.take_due(now);
                }
                Some(Duty::Clean)
            }
            duty => Some(duty),
        }
    }

    /// Returns when the next duty is due; `None` if only a request can bring one.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.duties.next()
    }

    /// Looks at a watched pool, and schedules the next look. Returns what the engine does.
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

    /// At most one attempt per second after a failure, whichever pool asks (P1 builds on this).
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

    fn no_room(manager: &mut Manager<char>, pool: char, starves: bool, now: Time) {
        manager.no_room(pool, |known| *known == pool, Claim { starves, nice: 0 }, now);
    }

    fn due(manager: &mut Manager<char>, now: Time) -> Vec<Duty<char>> {
        std::iter::from_fn(|| manager.take_due(now)).collect()
    }

    /// spec: E2.5 (max threads): the cap is no failure, and holds no other pool back.
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

    /// spec: P1 (at most one attempt per second after a failure): for threads of any kind.
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

    /// spec: P1.2: a cleaner that fails each time holds no pool back, nor does a pool hold the cleaner back.
    #[test]
    fn a_failing_cleaner_and_a_failing_pool_are_tried_by_turns() {
        let mut manager = Manager::new(Rules::default());
        manager.clean(at(0));
        manager.create('a', at(0));
        let mut tried = Vec::new();
        for now in (0..6).map(|n| at(1001 * n)) {
            // More is left each time.
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

    /// spec: P1.5 (the manager is supervised): a duty that is put off replaces a like one that is set already.
    #[test]
    fn a_duty_that_is_put_off_is_done_later_and_once() {
        let mut manager = Manager::new(Rules::default());
        manager.watch('a', at(0));
        manager.watch('b', at(0));
        manager.deadline('a', at(5));
        let Some(look @ Duty::Look('a', _)) = manager.take_due(at(0)) else { unreachable!("a was first") };
        manager.watch('a', at(3));
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

    /// spec: P1.5 (the manager is supervised): at most one hurry and one cleaner are set at a time.
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

    /// spec: E2.5: a worker that gives way asks for another one of its pool before it has left.
    #[test]
    fn room_is_for_the_line_before_later_requests() {
        let mut manager = Manager::new(Rules::default());
        no_room(&mut manager, 'a', true, at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('a')]);
        manager.create('b', at(1));
        manager.room(at(1));
        assert_eq!(manager.take_due(at(1)), Some(Duty::Create('a')));
    }

    /// spec: E2.5 (pools take turns): a thread has left, and the manager has not learned of it yet.
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
        // Its priority puts it first, so it is tried itself.
        manager.waits_its_turn('h', |pool| *pool == 'h', claim(true, -20), at(0));
        assert_eq!(due(&mut manager, at(0)), [Duty::Unserved('h'), Duty::Create('h')]);
        assert!(manager.is_next(|pool| *pool == 'h'));
    }

    /// A pool that waits for room has one place and one deadline, however long it waits and however often it is
    /// tried.
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

    /// spec: E2.5 (a busy worker gives way between items): any worker does after a turn. Each new thread begins a
    /// new turn.
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
