//! Was somebody woken who does not get a CPU? How long the woken workers of a sharing pool have been on their way.
//!
//! A worker that was woken, or is being made, counts as if it ran, so nobody else comes for the item that it was woken
//! for. If its CPU is taken, by the issuer that goes on without a pause or by another process, siblings are to have that
//! item after [`STALL`]. So each wake-up needs a deadline, and almost all of them are met: one deadline of the manager's
//! covers all that come while it waits for it.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::time::Time;

/// After so long somebody else may take what a worker was woken for.
pub(crate) const STALL: Duration = Duration::from_micros(200);

/// Inside of the pool's mutex.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    /// When each of those was woken who have not come, the first one first.
    on_their_way: VecDeque<Time>,
    /// The manager has a deadline.
    watching: bool,
    /// Somebody was woken since the last look.
    woke: bool,
}

/// What a look finds.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StallLook {
    /// Nobody was woken of late. The next one who is begins the watch anew.
    Over,
    /// Look again at this time.
    Again(Time),
    /// Somebody does not get a CPU. Look again at this time.
    Stalled(Time),
}

impl StallWatch {
    /// A worker was woken, or asked for. The time at which the manager must look, if it does not watch already.
    pub(crate) fn woke(&mut self, now: Time) -> Option<Time> {
        self.on_their_way.push_back(now);
        self.woke = true;
        let begins = !self.watching;
        self.watching = true;
        begins.then_some(now + STALL)
    }

    /// One who was woken has come, or will not come. Items wait for no worker in particular, so it does not matter which.
    pub(crate) fn came(&mut self) {
        self.on_their_way.pop_front();
    }

    /// The deadline has come.
    pub(crate) fn look(&mut self, now: Time) -> StallLook {
        let woke = std::mem::take(&mut self.woke);
        match self.on_their_way.front() {
            // Ever more rarely: what is to be done about it has been done.
            Some(since) if now.since(*since) >= STALL => StallLook::Stalled(now + now.since(*since)),
            Some(since) => StallLook::Again(*since + STALL),
            None if woke => StallLook::Again(now + STALL),
            None => {
                self.watching = false;
                StallLook::Over
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// spec: A3 (200 µs)
    #[test]
    fn one_that_has_not_come_after_two_hundred_microseconds_is_stalled() {
        let mut watch = StallWatch::default();
        assert_eq!(watch.woke(at(0)), Some(at(200)));
        assert_eq!(watch.woke(at(150)), None, "the manager watches");
        assert_eq!(watch.look(at(200)), StallLook::Stalled(at(400)));
        watch.came();
        assert_eq!(watch.look(at(300)), StallLook::Again(at(350)), "the second is younger");
        assert_eq!(watch.look(at(350)), StallLook::Stalled(at(550)));
        assert_eq!(watch.look(at(550)), StallLook::Stalled(at(950)), "more rarely");
        watch.came();
        assert_eq!(watch.look(at(950)), StallLook::Over);
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
}
