//! The moments at which time is about to pass on a machine, and the facts that a check can read at such a moment.

use std::fmt;
use std::time::Duration;

use super::baton::Machine;
use super::schedule::{State, Thread, Tid};
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;

/// A check of the rules that hold whenever time is about to pass. The check panics if a rule does not hold. The check
/// can read atomics and take locks, but must not wait.
pub(crate) type Check = Box<dyn FnMut(&Moment<'_>) + Send>;

/// A moment at which no thread can take a step, so that time is about to pass.
pub(crate) struct Moment<'a> {
    pub(super) machine: &'a Machine,
    pub(crate) now: Time,
    /// The time of the next timer, to which the clock is about to move.
    pub(crate) until: Time,
    /// The threads that were unparked or made since the last moment.
    pub(super) woken: Vec<Tid>,
}

impl Moment<'_> {
    /// Returns the idle CPUs of the machine, which are the CPUs that no thread has.
    pub(crate) fn idle_cpus(&self) -> CpuSet {
        self.machine.inner.lock().schedule.idle()
    }

    /// Returns whether the thread sleeps.
    pub(crate) fn sleeps(&self, thread: Tid) -> bool {
        matches!(self.machine.inner.lock().schedule.threads[thread].state, State::Sleeps | State::Wakes)
    }

    /// Returns how many times the thread has slept, and how long it has used a CPU.
    pub(crate) fn used(&self, thread: Tid) -> (u64, Duration) {
        let mut inner = self.machine.inner.lock();
        let cpu_time = inner.schedule.cpu_time(thread);
        (inner.schedule.threads[thread].sleeps, cpu_time)
    }

    /// Returns the names of the threads that wait for a CPU.
    pub(crate) fn ready(&self) -> Vec<String> {
        let inner = self.machine.inner.lock();
        inner.schedule.ready.iter().map(|thread| inner.schedule.name(*thread).to_owned()).collect()
    }

    /// Returns whether a thread is in the middle of a step, and either waits for a CPU or was just woken. The effects
    /// of this thread's step are incomplete.
    pub(crate) fn is_in_a_step(&self) -> bool {
        let inner = self.machine.inner.lock();
        let mut threads = inner.schedule.threads.iter();
        threads.any(|thread| {
            let waits = matches!(thread.state, State::Ready | State::Wakes);
            waits && thread.in_a_step && thread.left.is_zero()
        })
    }

    /// Returns the names of the threads that were unparked or made since the last moment.
    pub(crate) fn woken(&self) -> Vec<String> {
        let inner = self.machine.inner.lock();
        self.woken.iter().map(|thread| inner.schedule.name(*thread).to_owned()).collect()
    }
}

impl fmt::Debug for Moment<'_> {
    /// Writes the states of all threads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {:?}:", self.now)?;
        let inner = self.machine.inner.lock();
        for thread in inner.schedule.threads.iter().filter(|thread| thread.state != State::Ended) {
            let Thread { name, state, cpu, mask, left, .. } = thread;
            writeln!(f, "  {name} on CPU {cpu} of {mask:?}: {state:?}, {left:?} left")?;
        }
        Ok(())
    }
}
