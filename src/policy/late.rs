//! Detects woken workers that do not get a CPU, in pools that share items with sibling pools.
//!
//! A worker that has been woken, or that is being made, counts as if it ran. So no other worker is woken for the same
//! item. But an issuer that does not pause, or another process, may keep the worker's CPU busy. If the worker gets no
//! CPU, the sibling pools may take the item after at most [`RARELY`]. If the pool had woken no worker for twice
//! [`RARELY`] before the wake-up, the sibling pools may already take the item after [`LATE`].
//!
//! So each wake-up needs a deadline, but almost all wake-ups meet their deadlines. One deadline of the manager covers
//! all wake-ups that happen before that deadline. In measurements, a check takes 11 µs, which is more than a wake-up
//! takes. So a check every 200 µs takes 5 % of a CPU. A stream of small items has thousands of wake-ups per second. So
//! while all woken workers arrive in time, the manager checks a stream of wake-ups ever more rarely. The time until the
//! next check of a stream is the age of the stream, but at most [`RARELY`]. If a check finds a worker on its way, the
//! check sets an exact deadline for this worker. If a check finds no worker on its way, and no worker was woken since
//! the previous check, the stream of wake-ups ends.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::time::Time;

/// Outside a stream of wake-ups, siblings may take an item when the worker that was woken for the item has been on its
/// way for this long.
pub(crate) const LATE: Duration = Duration::from_micros(200);

/// The longest time between two checks of a stream of wake-ups. So a woken worker without a CPU stays unnoticed for at
/// most this long.
pub(crate) const RARELY: Duration = Duration::from_micros(3200);

/// The woken workers of a pool that have not arrived yet. The pool's mutex protects this state.
#[derive(Debug, Default)]
pub(crate) struct LateWorkers {
    /// The times at which the workers on their way were woken, in ascending order.
    on_their_way: VecDeque<Time>,
    /// The time of the manager's next check. The manager may check the pool earlier, because of a deadline that no
    /// longer applies.
    next_look: Option<Time>,
    /// Whether a worker was woken since the last check.
    woke: bool,
    /// Whether a check found a late worker, and at least one worker has been late ever since. The `late` bit of the
    /// pool's word has the same value.
    late: bool,
    /// In a stream of wake-ups, the interval until the next check. The last check that found no worker on its way has
    /// set this interval.
    streams: Option<Duration>,
}

impl LateWorkers {
    /// Notes that a worker was woken, or that the manager was asked for a worker.
    pub(crate) fn woke(&mut self, now: Time) {
        self.on_their_way.push_back(now);
        self.woke = true;
        if self.streams.is_none() {
            self.look_by(now + LATE);
        }
    }

    /// Notes that a woken worker has arrived, or will not arrive. No item waits for a particular worker, so it does not
    /// matter which worker this is.
    pub(crate) fn came(&mut self) {
        self.on_their_way.pop_front();
    }

    /// Returns the time of the manager's next check, or `None` if no check is needed.
    pub(crate) fn next_look(&self) -> Option<Time> {
        self.next_look
    }

    /// Returns whether a worker was late at the last [`look`](Self::look) or [`ease`](Self::ease).
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Checks, after a worker has arrived, whether another worker is still late. Returns true if a worker was late
    /// before and no worker is late now.
    pub(crate) fn ease(&mut self, now: Time) -> bool {
        let first = self.on_their_way.front().copied();
        if !self.late || first.is_some_and(|since| now.since(since) >= LATE) {
            return false;
        }
        self.late = false;
        if let Some(since) = first {
            self.look_by(since + LATE);
        }
        true
    }

    fn look_by(&mut self, deadline: Time) {
        self.next_look = Some(self.next_look.map_or(deadline, |next| next.min(deadline)));
    }

    /// If the time of the next check has come, checks the workers that are on their way. Returns whether one of these
    /// workers is late, because it does not get a CPU.
    ///
    /// The manager reads the clock before it waits for the pool's lock, so `now` may be before the time of the last
    /// [`ease`](Self::ease). So a check never clears the late state of the pool. Only `ease`, which arriving workers
    /// call, clears this state.
    pub(crate) fn look(&mut self, now: Time) -> bool {
        if self.next_look.is_none_or(|next| now < next) {
            return false;
        }
        let woke = std::mem::take(&mut self.woke);
        let first = self.on_their_way.front().copied();
        self.late |= first.is_some_and(|since| now.since(since) >= LATE);
        if first.is_none() && woke {
            let rarer = self.streams.map_or(LATE, |last| RARELY.min(last * 2));
            self.streams = Some(rarer);
            self.next_look = Some(now + rarer);
            return false;
        }
        if self.late || first.is_none() {
            self.streams = None;
        }
        // While a worker is late, checks become ever rarer, because the siblings may already take the pool's items.
        self.next_look = first.map(|since| if self.late { now + now.since(since) } else { since + LATE });
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::default() + Duration::from_micros(micros)
    }

    /// Returns the state of a pool whose only woken worker was woken at the time 0.
    fn watch() -> LateWorkers {
        let mut watch = LateWorkers::default();
        watch.woke(at(0));
        assert_eq!(watch.next_look(), Some(at(200)));
        watch
    }

    /// spec: A3.2: a woken worker that has not arrived after 200 µs is late.
    #[test]
    fn a_worker_that_has_not_come_after_two_hundred_microseconds_is_late() {
        let mut watch = watch();
        watch.woke(at(150));
        assert_eq!(watch.next_look(), Some(at(200)), "the first deadline stays");
        assert!(!watch.look(at(199)) && watch.look(at(200)) && watch.is_late());
        assert_eq!(watch.next_look(), Some(at(400)));
        watch.came();
        assert!(watch.ease(at(300)) && !watch.is_late());
        assert_eq!(watch.next_look(), Some(at(350)), "the second worker is younger");
        assert!(watch.look(at(350)));
        assert_eq!(watch.next_look(), Some(at(550)));
        assert!(!watch.look(at(400)), "this check was too early");
        assert!(watch.look(at(550)));
        assert_eq!(watch.next_look(), Some(at(950)), "checks become rarer");
        watch.came();
        assert!(watch.ease(at(800)) && !watch.look(at(950)));
        assert_eq!(watch.next_look(), None);
    }

    /// spec: A3.2, A3.6 (200 µs): the deadline of a woken worker holds however long other workers have been late.
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
        assert!(!watch.ease(at(1250)), "a worker is still late");
    }

    /// The manager has read the clock, and waits for the pool's lock. Meanwhile a worker arrives. So the manager's
    /// check has an earlier time than the worker's arrival.
    #[test]
    fn a_check_with_an_old_time_does_not_end_the_lateness() {
        let mut watch = watch();
        assert!(watch.look(at(200)));
        watch.woke(at(250));
        watch.came();
        assert!(!watch.ease(at(460)), "the second worker is late, too");
        assert!(watch.look(at(400)) && watch.is_late());
        assert_eq!(watch.next_look(), Some(at(550)));
        watch.came();
        assert!(watch.ease(at(470)) && !watch.is_late());
    }

    #[test]
    fn one_deadline_covers_many_wake_ups_and_ends_when_there_are_none() {
        let mut watch = watch();
        watch.came();
        watch.woke(at(190));
        watch.came();
        assert!(!watch.look(at(200)));
        assert_eq!(watch.next_look(), Some(at(400)), "more workers may be woken");
        assert!(!watch.look(at(400)));
        assert_eq!(watch.next_look(), None);
        watch.woke(at(500));
        assert_eq!(watch.next_look(), Some(at(700)));
    }

    /// The checks of a stream of wake-ups become rare while all workers arrive in time. After the end of the stream,
    /// the manager checks the next woken worker in time.
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
        assert_eq!(watch.next_look(), Some(at(now + 100)), "exact for a worker on its way");
        assert!(watch.look(at(now + 100)));
        watch.came();
        assert!(watch.ease(at(now + 200)) && !watch.look(at(now + 300)));
        assert_eq!(watch.next_look(), None);
        watch.woke(at(now + 800));
        assert_eq!(watch.next_look(), Some(at(now + 1000)));
    }
}
