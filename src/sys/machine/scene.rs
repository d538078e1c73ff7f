//! Functions by which tests on a machine use the CPU, sleep, and change the conditions for other threads. Other
//! functions return facts about the CPUs and the threads of the calling thread's machine.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use super::QUIET;
#[cfg(test)]
use super::lines::{Lines, Moved};
use super::schedule::{State, Tid};
use super::{Check, nap, with};
use crate::policy::cpu_set::CpuSet;
#[cfg(test)]
use crate::policy::time::Time;
use crate::sys::thread_state::{self, Seen};

/// Sets the check that runs whenever time is about to pass on the calling thread's machine.
pub(crate) fn check(check: Check) {
    with(|machine, _| machine.inner.lock().check = Some(check)).expect("the thread belongs to a machine");
}

/// Makes the calling thread use its CPU for this time.
pub(crate) fn burn(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.enter();
        inner.schedule.burn(me, time);
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// Puts the calling thread to sleep for this time.
pub(crate) fn pause(time: Duration) {
    assert!(nap(time), "the thread belongs to a machine");
}

/// From now on, the calling thread's machine refuses this many of a thousand attempts to make a thread. A machine
/// without a seed refuses no attempt.
pub(crate) fn refuse_threads(of_a_thousand: u32) {
    with(|machine, _| machine.inner.lock().schedule.refuses = of_a_thousand)
        .expect("the thread belongs to a machine");
}

/// Returns the number of threads that the machine has had so far.
pub(crate) fn threads() -> usize {
    with(|machine, _| machine.inner.lock().schedule.threads.len()).expect("the thread belongs to a machine")
}

/// From now on, the machine refuses to make a thread if the thread's name contains `part`.
pub(crate) fn refuse_threads_named(part: &str) {
    with(|machine, _| machine.inner.lock().schedule.refused.push(part.to_owned()))
        .expect("the thread belongs to a machine");
}

/// Gives the calling thread a claim. From now on, this thread gets a CPU before all threads without a claim, and takes
/// the CPU of a burning thread without a claim.
pub(crate) fn claim() {
    with(|machine, me| machine.inner.lock().schedule.claim(me)).expect("the thread belongs to a machine");
}

/// Takes this CPU away for the given time, as if another process used it.
pub(crate) fn take_cpu(cpu: usize, time: Duration) {
    with(|machine, _| {
        let mut inner = machine.inner.lock();
        inner.schedule.take(cpu, time);
        inner.batons.push(Arc::default());
    })
    .expect("the thread belongs to a machine");
}

/// From now on, counts the calling thread as being on this CPU. The calling thread must be one that needs no CPU.
pub(crate) fn stand_on(cpu: usize) {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu = cpu)
        .expect("the thread belongs to a machine");
}

/// Returns the CPU of the calling thread.
#[inline(always)]
pub(crate) fn current_cpu() -> Option<usize> {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu)
}

/// Returns all CPUs of the calling thread's machine, even those on which no thread may run at the moment.
pub(crate) fn cpus() -> Option<CpuSet> {
    with(|machine, _| machine.inner.lock().schedule.all())
}

/// Returns the CPUs of the calling thread's machine on which threads may run at the moment.
pub(crate) fn present_cpus() -> Option<CpuSet> {
    with(|machine, _| machine.inner.lock().schedule.present())
}

/// Returns the calling thread's number on its machine.
pub(crate) fn current() -> Option<Tid> {
    with(|_, me| me)
}

/// Binds a thread of the calling thread's machine to the CPUs of this set. Returns false if the machine has none of
/// these CPUs, or if all of them are away.
pub(crate) fn bind(thread: Tid, cpus: &CpuSet) -> Option<bool> {
    with(|machine, me| {
        let mut inner = machine.inner.lock();
        let cpus = inner.schedule.present().intersection(cpus);
        let some = !cpus.is_empty();
        if some {
            inner.schedule.bind(thread, cpus);
            // The calling thread may have lost its own CPU, so it hands the baton (the right to run) over. A thread
            // that binds another thread may hold a lock, and a thread that holds a lock may hand the baton over only on
            // a `fine` machine.
            if machine.fine || thread == me {
                machine.hand_over(inner, me);
            }
        }
        some
    })
}

/// Returns the CPUs on which a thread of the calling thread's machine may run.
pub(crate) fn bound(thread: Tid) -> Option<CpuSet> {
    with(|machine, _| {
        let inner = machine.inner.lock();
        inner.schedule.mask(thread).unwrap_or_else(|| inner.schedule.present())
    })
}

/// Returns the state of a thread of the calling thread's machine.
pub(crate) fn seen(thread: Tid) -> Option<Seen> {
    with(|machine, _| {
        let thread = &machine.inner.lock().schedule.threads[thread];
        let state = match thread.state {
            State::Ready | State::Runs | State::Burns(_) => thread_state::State::Runs,
            State::Sleeps | State::Wakes => thread_state::State::Sleeps,
            State::Ended => thread_state::State::Gone,
        };
        Seen { state, cpu: Some(thread.cpu) }
    })
}

/// Returns the CPU time that a thread of the calling thread's machine has used.
pub(crate) fn cpu_time(thread: Tid) -> Option<Duration> {
    with(|machine, _| machine.inner.lock().schedule.cpu_time(thread))
}

/// Returns how many times a thread of the calling thread's machine has slept.
pub(crate) fn sleeps_so_far(thread: Tid) -> Option<u64> {
    with(|machine, _| machine.inner.lock().schedule.threads[thread].sleeps)
}

/// Makes the calling thread use its CPU for this time, because the thread waits for another thread without sleeping.
/// Returns false immediately if another thread wants the CPU, or if the machine has no [costs](super::Costs).
#[cfg(test)]
pub(crate) fn stays_awake(time: Duration) -> Option<bool> {
    with(|machine, me| {
        let mut inner = machine.enter();
        let stays = machine.has_costs && !inner.schedule.is_wanted(me);
        if stays {
            inner.schedule.burn(me, time);
            machine.hand_over(inner, me);
        }
        stays
    })
}

/// Returns `None`, because only machines of the crate's own tests have costs.
#[cfg(not(test))]
pub(crate) fn stays_awake(_time: Duration) -> Option<bool> {
    None
}

/// Notes that the calling thread accesses this address. Then makes the thread use its CPU until this CPU has the
/// address's cache line. Does nothing if the machine has no [costs](super::Costs).
#[cfg(test)]
#[inline(always)]
pub(crate) fn touch(address: usize, writes: bool) {
    charge(|lines, cpu, now| lines.access(cpu, address, writes, now));
}

/// Notes that the calling thread wakes another thread.
#[cfg(test)]
pub(super) fn wakes() {
    charge(|lines, _, _| lines.wakes());
}

#[cfg(test)]
fn charge(cost: impl FnOnce(&mut Lines, usize, Time) -> Duration) {
    with(|machine, me| {
        if !machine.has_costs || QUIET.get() {
            return;
        }
        let mut inner = machine.enter();
        if inner.schedule.threads[me].mask.is_none() {
            return; // A thread that needs no CPU has no cache.
        }
        let (cpu, now) = (inner.schedule.threads[me].cpu, inner.schedule.now);
        let cost = inner.lines.as_mut().map_or(Duration::ZERO, |lines| cost(lines, cpu, now));
        if !cost.is_zero() {
            inner.schedule.burn(me, cost);
            machine.hand_over(inner, me);
        }
    });
}

/// Returns the numbers of transfers of cache lines and of wake-ups so far on the calling thread's machine.
#[cfg(test)]
pub(crate) fn moved() -> Moved {
    with(|machine, _| machine.inner.lock().lines.as_ref().map(|lines| lines.moved))
        .flatten()
        .expect("the machine has costs")
}
