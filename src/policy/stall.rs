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

impl StallWatch {
    /// Notes that a worker was woken, or asked for.
    pub(crate) fn woke(&mut self, now: Time) {
        self.on_their_way.push_back(now);
        self.woke = true;
        if self.streams.is_none() {
            self.look_by(now + STALL);
        }
    }

    /// Notes that a woken worker has arrived, or will not arrive. No item waits for a particular worker, so it does not
    /// matter which one it is.
    pub(crate) fn came(&mut self) {
        self.on_their_way.pop_front();
    }

    /// Returns the time of the next look, if one is needed.
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Returns whether a worker was late, as of the last look or [`ease`](Self::ease).
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Called after each worker that arrives while one is late. Returns whether no worker is late any more.
    pub(crate) fn ease(&mut self, now: Time) -> bool {
        let first = self.on_their_way.front().copied();
        if !self.late || first.is_some_and(|since| now.since(since) >= STALL) {
            return false;
        }
        self.late = false;
        if let Some(since) = first {
            self.look_by(since + STALL);
        }
        true
    }

    fn look_by(&mut self, deadline: Time) {
        self.next_look = Some(self.next_look.map_or(deadline, |next| next.min(deadline)));
    }

    /// Checks the workers that are on their way, if the time of the next look has come. Returns whether one of them
    /// does not get a CPU.
    pub(crate) fn look(&mut self, now: Time) -> bool {
        if self.next_look.is_none_or(|next| now < next) {
            return false;
        }
        let woke = std::mem::take(&mut self.woke);
        let first = self.on_their_way.front().copied();
        self.late = first.is_some_and(|since| now.since(since) >= STALL);
        if first.is_none() && woke {
            let rarer = self.streams.map_or(STALL, |last| RARELY.min(last * 2));
            self.streams = Some(rarer);
            self.next_look = Some(now + rarer);
            return false;
        }
        if self.late || first.is_none() {
            self.streams = None;
        }
        // Ever more rarely while a worker is late, because the siblings know it.
        self.next_look = first.map(|since| if self.late { now + now.since(since) } else { since + STALL });
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// Makes a watch with one worker that was woken at the start.
    fn watch() -> StallWatch {
        let mut watch = StallWatch::default();
        watch.woke(at(0));
        assert_eq!(watch.next_look(), Some(at(200)));
        watch
    }

    /// spec: A3.2 (200 µs)
    #[test]
    fn a_worker_that_has_not_come_after_two_hundred_microseconds_is_late() {
        let mut watch = watch();
        watch.woke(at(150));
        assert_eq!(watch.next_look(), Some(at(200)), "the manager watches");
        assert!(!watch.look(at(199)) && watch.look(at(200)) && watch.is_late());
        assert_eq!(watch.next_look(), Some(at(400)));
        watch.came();
        assert!(watch.ease(at(300)) && !watch.is_late());
        assert_eq!(watch.next_look(), Some(at(350)), "the second worker is younger");
        assert!(watch.look(at(350)));
        assert_eq!(watch.next_look(), Some(at(550)));
        assert!(!watch.look(at(400)), "this one was too soon");
        assert!(watch.look(at(550)));
        assert_eq!(watch.next_look(), Some(at(950)), "more rarely");
        watch.came();
        assert!(watch.ease(at(800)) && !watch.look(at(950)));
        assert_eq!(watch.next_look(), None);
    }

    /// spec: A3.2, A3.6 (200 µs), however long others have been late.
    #[test]
    fn a_worker_that_is_woken_while_others_are_late_is_looked_for_in_time() {
        let mut watch = watch();
        for (now, next) in [(200, 400), (400, 800), (800, 1600)] {
            assert!(watch.look(at(now)));
            assert_eq!(watch.next_look(), Some(at(next)));
        }
        watch.woke(at(900));
        assert_eq!(watch.next_look(), Some(at(1100)));
        watch.came();
        assert!(watch.ease(at(1050)));
        assert_eq!(watch.next_look(), Some(at(1100)));
        assert!(watch.look(at(1100)));
        watch.woke(at(1200));
        assert_eq!(watch.next_look(), Some(at(1300)));
        assert!(!watch.ease(at(1250)), "one is late still");
    }

    #[test]
    fn one_deadline_covers_many_wake_ups_and_ends_when_there_are_none() {
        let mut watch = watch();
        watch.came();
        watch.woke(at(190));
        watch.came();
        assert!(!watch.look(at(200)));
        assert_eq!(watch.next_look(), Some(at(400)), "more may come");
        assert!(!watch.look(at(400)));
        assert_eq!(watch.next_look(), None);
        watch.woke(at(500));
        assert_eq!(watch.next_look(), Some(at(700)));
    }

    /// The looks at a stream in which all workers come in time become rare. The first worker that is woken after the
    /// stream is looked for in time.
    #[test]
    fn a_stream_of_wake_ups_is_looked_at_ever_more_rarely() {
        let mut watch = watch();
        watch.came();
        let mut now = 200;
        for interval in [200, 400, 800, 1600, 3200, 3200, 3200] {
            assert!(!watch.look(at(now)));
            watch.woke(at(now + 10));
            watch.came();
            now += interval;
            assert_eq!(watch.next_look(), Some(at(now)));
        }
        watch.woke(at(now - 100));
        assert!(!watch.look(at(now)));
        assert_eq!(watch.next_look(), Some(at(now + 100)), "exact, once one is seen");
        assert!(watch.look(at(now + 100)));
        watch.came();
        assert!(watch.ease(at(now + 200)) && !watch.look(at(now + 300)));
        assert_eq!(watch.next_look(), None);
        watch.woke(at(now + 800));
        assert_eq!(watch.next_look(), Some(at(now + 1000)));
    }
}
