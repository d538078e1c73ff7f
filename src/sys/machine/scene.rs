//! What a test on a machine can do: use the CPU, sleep, and set the scene for other threads.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::{Check, nap, with};

/// Sets the check that runs whenever time is about to pass on the calling thread's machine.
pub(crate) fn check(check: Check) {
    with(|machine, _| machine.inner.lock().check = Some(check)).expect("the thread belongs to a machine");
}

/// Lets the calling thread use its CPU for this time.
pub(crate) fn burn(time: Duration) {
    with(|machine, me| {
        let mut inner = machine.enter();
        inner.schedule.burn(me, time);
        machine.hand_over(inner, me);
    })
    .expect("the thread belongs to a machine");
}

/// Lets the calling thread sleep for this time.
pub(crate) fn pause(time: Duration) {
    assert!(nap(time), "the thread belongs to a machine");
}

/// From now on, refuses this many of a thousand attempts to make a thread, if the calling thread's machine has a seed.
pub(crate) fn refuse_threads(of_a_thousand: u32) {
    with(|machine, _| machine.inner.lock().schedule.refuses = of_a_thousand)
        .expect("the thread belongs to a machine");
}

/// Returns the number of threads that the machine has had so far.
pub(crate) fn threads() -> usize {
    with(|machine, _| machine.inner.lock().schedule.threads.len()).expect("the thread belongs to a machine")
}

/// From now on, refuses each thread whose name contains this part.
pub(crate) fn refuse_threads_named(part: &str) {
    with(|machine, _| machine.inner.lock().schedule.refused.push(part.to_owned()))
        .expect("the thread belongs to a machine");
}

/// From now on, the calling thread goes before all threads without a claim, and takes their CPUs from them.
pub(crate) fn claim() {
    with(|machine, me| machine.inner.lock().schedule.claim(me)).expect("the thread belongs to a machine");
}

/// Lets another process take this CPU for the given time.
pub(crate) fn take_cpu(cpu: usize, time: Duration) {
    with(|machine, _| {
        let mut inner = machine.inner.lock();
        inner.schedule.take(cpu, time);
        inner.batons.push(Arc::default());
    })
    .expect("the thread belongs to a machine");
}

/// From now on, the calling thread, which needs no CPU, counts as being on this CPU.
pub(crate) fn stand_on(cpu: usize) {
    with(|machine, me| machine.inner.lock().schedule.threads[me].cpu = cpu)
        .expect("the thread belongs to a machine");
}
