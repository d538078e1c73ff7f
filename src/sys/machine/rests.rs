//! Decides which sleeping threads the machine wakes when no other thread can take a step. Also decides whether a run is
//! *deserted*, which means that nothing happens in it any more.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::schedule::{Schedule, State, Thread, Tid, Timer};

/// A run is deserted if only threads that *keep house* (repeat routine work) have taken steps for this long, and if
/// time has passed at least this many times in that period.
const DESERTED: (Duration, u64) = (Duration::from_secs(60), 100);

/// Threads may park in vain this many times while time stands still. Further parks in vain do not make the machine wake
/// parked threads to look again.
const PARKS: u32 = 100;

/// The condition on which the machine wakes a sleeping thread although no other thread wakes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rests {
    /// Never. Only another thread, or the timer of the thread's own sleep, wakes the thread.
    No,
    /// When no other thread can take a step, if another thread has taken a step since the sleeping thread last checked
    /// whether its wait is over.
    UntilItLooks,
    /// When no other thread can take a step.
    UntilQuiet,
    /// When no other thread can take a step, and the machine has let time pass more often than this number says.
    UntilTimePasses(u64),
}

impl Schedule {
    /// Notes that a thread has got the baton.
    pub(super) fn goes_on(&mut self, thread: Tid) {
        let Thread { rests, keeps_house, timed_out, .. } = self.threads[thread];
        // For a thread that was woken to look again, getting the baton is no step, because the thread may find nothing
        // and go on waiting.
        if rests != Rests::UntilItLooks || timed_out {
            self.takes_a_step(thread);
        }
        if rests != Rests::UntilItLooks {
            (self.changed, self.in_vain) = (true, 0);
        }
        if !keeps_house && matches!(rests, Rests::No | Rests::UntilQuiet) {
            self.quiet_since = (self.now, self.moves);
        }
    }

    /// Notes that a thread takes a step. A *chore* (a function that a thread calls at intervals while it waits) is no
    /// step, because the thread's wait goes on.
    pub(super) fn takes_a_step(&mut self, thread: Tid) {
        if thread == 0 && !self.threads[thread].keeps_house {
            self.alone = 0;
        }
    }

    /// Returns whether the run is deserted: for a long time, only threads that keep house have taken steps, and no
    /// other thread waits for a time.
    pub(super) fn is_deserted(&self) -> bool {
        let (since, moves) = self.quiet_since;
        // While the plan of faults refuses new threads, the run may look deserted, but it can continue when threads can
        // be made again.
        let since = since.max(self.faults.threads_since(self.now));
        let waits = |timer: &Timer| match timer {
            Timer::Wakes(thread, number) => {
                let Thread { number: now, keeps_house, .. } = self.threads[*thread];
                now == *number && !keeps_house
            }
            Timer::Burnt(..) | Timer::Slice(_) | Timer::Woken(_) => true,
            Timer::Cpus => false,
        };
        let long = self.now.since(since) >= DESERTED.0 && self.moves - moves >= DESERTED.1;
        long && !self.timers.values().any(waits)
    }

    /// Notes that a thread has looked again, and that its wait is over.
    pub(super) fn has_found(&mut self, thread: Tid) {
        self.changed = true;
        self.takes_a_step(thread);
    }

    /// Notes that the machine has woken a parked thread. The thread may do anything next, even park again immediately.
    pub(super) fn was_parked(&mut self) {
        if self.in_vain < PARKS {
            self.in_vain += 1;
            self.changed = true;
        }
    }

    /// Wakes the threads that wait until no other thread can take a step. Returns whether a thread was woken.
    pub(super) fn rouse(&mut self) -> bool {
        let looks =
            std::mem::take(&mut self.changed) && self.rouse_those(|rests, _| rests == Rests::UntilItLooks);
        looks
            || self.rouse_those(|rests, moves| match rests {
                Rests::UntilQuiet => true,
                Rests::UntilTimePasses(before) => moves > before,
                Rests::No | Rests::UntilItLooks => false,
            })
    }

    /// Wakes the threads that wait for time to pass, because no time will pass any more. The woken threads see a
    /// timeout. Returns whether a thread was woken.
    pub(super) fn rouse_in_vain(&mut self) -> bool {
        let waits = |thread: &Thread| matches!(thread.rests, Rests::UntilTimePasses(_));
        self.threads.iter_mut().filter(|thread| waits(thread)).for_each(|thread| thread.timed_out = true);
        self.rouse_those(|rests, _| matches!(rests, Rests::UntilTimePasses(_)))
    }

    fn rouse_those(&mut self, which: impl Fn(Rests, u64) -> bool) -> bool {
        let sleeps = |thread: &Thread| thread.state == State::Sleeps && which(thread.rests, self.moves);
        let roused: Vec<_> = (0..self.threads.len()).filter(|at| sleeps(&self.threads[*at])).collect();
        roused.iter().for_each(|thread| self.make_ready(*thread));
        !roused.is_empty()
    }
}
