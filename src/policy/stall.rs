//! Does a woken worker get no CPU? How long the woken workers of a sharing pool have been on their way.
//!
//! A worker that was woken, or is being made, counts as if it ran, so no other worker comes for the item that it was woken
//! for. If its CPU is taken, by an issuer that goes on without a pause or by another process, the sibling pools are to have
//! that item. They have it after [`RARELY`] at most, and after [`STALL`] if the pool had woken no worker for twice
//! [`RARELY`].
//!
//! So each wake-up needs a deadline, and almost all of them are met. One deadline of the manager covers all wake-ups
//! that come while the manager waits for it. A look costs more than a wake-up: 11 µs were measured, so a look every 200
//! µs takes 5 % of a CPU. A stream of small items has thousands of wake-ups a second. So the manager looks ever more
//! rarely at a stream in which no worker is late: the next look is as far away as the stream is old, but for [`RARELY`]
//! at most. A look that finds a worker on its way sets an exact deadline for it. A look that finds that no worker was
//! woken since the last one ends the stream.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::time::Time;

/// After so long without a stream, siblings may take the item that a worker was woken for.
pub(crate) const STALL: Duration = Duration::from_micros(200);

/// The longest time between two looks at a stream of wake-ups. So this is the longest time that a woken worker without a
/// CPU stays unnoticed.
pub(crate) const RARELY: Duration = Duration::from_micros(3200);

/// Inside of the pool's mutex.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    /// When each of the workers was woken that have not come, the first one first.
    on_their_way: VecDeque<Time>,
    /// When the manager looks next. It may come before, for a time that was sooner than needed.
    next_look: Option<Time>,
    /// A worker was woken since the last look.
    woke: bool,
    /// The last look found a worker late, and at each moment since then one was.
    late: bool,
    /// In a stream: the time from the last look that found no worker on its way to the next one.
    streams: Option<Duration>,
}

/// No worker is late any more.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Eased {
    /// The manager is to look at this time, before the next look that it planned for the late workers.
    pub(crate) look_at: Option<Time>,
}

/// What a look finds.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StallLook {
    /// No worker was woken since the last look, and the next wake-up begins the watch anew; or another deadline comes.
    Over,
    /// Look again at this time.
    Again(Time),
    /// A worker does not get a CPU. Look again at this time.
    Stalled(Time),
}

impl StallWatch {
    /// A worker was woken, or asked for. Returns when the manager must look, unless it looks in time anyway.
    pub(crate) fn woke(&mut self, now: Time) -> Option<Time> {
        self.on_their_way.push_back(now);
        self.woke = true;
        if self.streams.is_some() { None } else { self.look_by(now + STALL) }
    }

    /// A woken worker has come, or will not come. Items wait for no worker in particular, so it does not matter which one.
    pub(crate) fn came(&mut self) {
        self.on_their_way.pop_front();
    }

    /// Returns when the manager is to look next, if it is to.
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Returns whether a worker was late, as of the last look or [`ease`](Self::ease).
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Called after each worker that came while one was late. Returns what to do if none is late now.
    pub(crate) fn ease(&mut self, now: Time) -> Option<Eased> {
        let first = self.on_their_way.front().copied();
        if !self.late || first.is_some_and(|since| now.since(since) >= STALL) {
            return None;
        }
        self.late = false;
        Some(Eased { look_at: first.and_then(|since| self.look_by(since + STALL)) })
    }

    fn look_by(&mut self, deadline: Time) -> Option<Time> {
        let sooner = self.next_look.is_none_or(|next| deadline < next);
        if sooner {
            self.next_look = Some(deadline);
        }
        sooner.then_some(deadline)
    }

    /// The deadline has come.
    pub(crate) fn look(&mut self, now: Time) -> StallLook {
        if self.next_look.is_some_and(|next| now < next) {
            return StallLook::Over; // Another deadline comes.
        }
        let woke = std::mem::take(&mut self.woke);
        let look = match self.on_their_way.front() {
            // Ever more rarely: the siblings have been told.
            Some(since) if now.since(*since) >= STALL => StallLook::Stalled(now + now.since(*since)),
            Some(since) => StallLook::Again(*since + STALL),
            None if woke => {
                let rarer = self.streams.map_or(STALL, |last| RARELY.min(last * 2));
                self.streams = Some(rarer);
                self.late = false;
                self.next_look = Some(now + rarer);
                return StallLook::Again(now + rarer);
            }
            None => StallLook::Over,
        };
        if !matches!(look, StallLook::Again(_)) {
            self.streams = None;
        }
        self.next_look = match look {
            StallLook::Again(at) | StallLook::Stalled(at) => Some(at),
            StallLook::Over => None,
        };
        self.late = matches!(look, StallLook::Stalled(_));
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// spec: A3.2 (200 µs)
    #[test]
    fn one_that_has_not_come_after_two_hundred_microseconds_is_stalled() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        assert_eq!(watch.woke(at(150)), None, "the manager watches");
        assert_eq!(watch.look(at(200)), StallLook::Stalled(at(400)));
        assert!(watch.is_late());
        watch.came();
        assert_eq!(watch.ease(at(300)), Some(Eased { look_at: Some(at(350)) }), "the second is younger");
        assert!(!watch.is_late());
        assert_eq!(watch.look(at(350)), StallLook::Stalled(at(550)));
        assert_eq!(watch.look(at(400)), StallLook::Over, "this one was too soon");
        assert_eq!(watch.look(at(550)), StallLook::Stalled(at(950)), "more rarely");
        watch.came();
        assert_eq!(watch.ease(at(800)), Some(Eased { look_at: None }));
        assert_eq!(watch.look(at(950)), StallLook::Over);
    }

    /// spec: A3.2, A3.6 (200 µs), however long others have been late.
    #[test]
    fn who_is_woken_while_others_are_late_is_looked_for_in_time() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        assert_eq!(watch.look(at(200)), StallLook::Stalled(at(400)));
        assert_eq!(watch.look(at(400)), StallLook::Stalled(at(800)));
        assert_eq!(watch.look(at(800)), StallLook::Stalled(at(1600)));
        assert_eq!(watch.woke(at(900)), Some(at(1100)));
        watch.came();
        assert_eq!(watch.ease(at(1050)), Some(Eased { look_at: None }), "it is looked for at 1100 anyway");
        assert_eq!(watch.look(at(1100)), StallLook::Stalled(at(1300)));
        assert_eq!(watch.woke(at(1200)), None);
        assert_eq!(watch.ease(at(1250)), None, "one is late still");
    }

    /// spec: P1 (the manager itself): who asks for a look relies on a manager, and one that comes later is told.
    #[test]
    fn the_next_look_is_remembered_for_a_manager_that_was_not_there() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.next_look(), None);
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        watch.came();
        assert_eq!(watch.woke(at(900)), None, "it counts on the look that was asked for");
        assert_eq!(watch.next_look(), Some(at(200)));
        assert_eq!(watch.look(at(1000)), StallLook::Again(at(1100)));
    }

    #[test]
    fn one_deadline_covers_many_wake_ups_and_ends_when_there_are_none() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        watch.came();
        assert_eq!(watch.woke(at(190)), None);
        watch.came();
        assert_eq!(watch.look(at(200)), StallLook::Again(at(400)), "more may come");
        assert_eq!(watch.look(at(400)), StallLook::Over);
        assert_eq!(watch.woke(at(500)), Some(at(700)));
    }

    /// A stream in which all come in time is looked at ever more rarely; who is woken after it, in time.
    #[test]
    fn a_stream_of_wake_ups_is_looked_at_ever_more_rarely() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        watch.came();
        let mut now = 200;
        for interval in [200, 400, 800, 1600, 3200, 3200] {
            assert_eq!(watch.look(at(now)), StallLook::Again(at(now + interval)));
            assert_eq!(watch.woke(at(now + 10)), None);
            watch.came();
            now += interval;
        }
        assert_eq!(watch.look(at(now)), StallLook::Again(at(now + 3200)));
        assert_eq!(watch.woke(at(now + 3100)), None);
        assert_eq!(watch.look(at(now + 3200)), StallLook::Again(at(now + 3300)), "exact, once one is seen");
        assert!(matches!(watch.look(at(now + 3300)), StallLook::Stalled(_)));
        watch.came();
        assert_eq!(watch.ease(at(now + 3400)), Some(Eased { look_at: None }));
        assert_eq!(watch.look(at(now + 3500)), StallLook::Over);
        assert_eq!(watch.woke(at(now + 4000)), Some(at(now + 4200)));
    }
}
