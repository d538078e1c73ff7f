//! Functions by which the crate's operations take part in a run: the points at operations, the waits for the user's
//! locks and channels, the events for reports, and the faults that the test has planned.
//!
//! A machine whose points are the accesses to atomics has no points at operations. No thread calls these functions
//! while it holds a lock of the crate.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::baton::{Chore, Machine};
use super::plan::Plan;
use super::record::{Event, Item, Panic, Waits};
use super::rests::Rests;
use super::{Key, QUIET, any, with};
use crate::policy::time::Time;

/// Marks a point, at which the *baton* (the right to run) may pass to another thread.
#[inline(always)]
pub(crate) fn step() {
    with(|machine, me| {
        if !machine.fine && !QUIET.get() {
            machine.point(me);
        }
    });
}

/// Returns the number of the calling thread's machine, or 0 if the thread belongs to no machine.
pub(crate) fn number() -> u64 {
    with(|machine, _| machine.number).unwrap_or(0)
}

/// Marks a point before the use of a queue. `place` returns the queue's name, and the number of the machine on which
/// the queue's executor was made. If that machine is not the calling thread's machine, the run fails.
#[inline(always)]
pub(crate) fn step_to<'a>(place: impl FnOnce() -> (u64, &'a str)) {
    if any() {
        let (number, queue) = place();
        step_to_queue(number, queue);
    }
}

#[cold]
#[inline(never)]
fn step_to_queue(number: u64, queue: &str) {
    let is_own = with(|machine, me| {
        if machine.number != number && !machine.fine {
            fail(|| {
                format!(
                    "queue {queue:?} does not belong to this test: a test can only use queues that it has made itself. \
                     A queue in a static belongs to the first test that uses it"
                )
            });
        }
        if !machine.fine && !QUIET.get() {
            machine.point(me);
        }
    });
    if is_own.is_none() {
        guard_against_strangers(number);
    }
}

/// If the machine with this number exists and is watched, ends its run, because the calling thread belongs to no
/// machine.
fn guard_against_strangers(number: u64) {
    if number != 0 {
        if let Some(machine) = Machine::by_number(number) {
            let mut inner = machine.inner.lock();
            if inner.watcher.is_some() {
                inner.meets_a_stranger();
            }
        }
    }
}

/// Sets whether the calling thread *keeps house* from now on, which means that it only repeats routine work. If only
/// threads that keep house take steps for a long time, the run ends.
pub(crate) fn keeps_house(only: bool) {
    with(|machine, me| machine.enter().schedule.threads[me].keeps_house = only);
}

/// Adds a *chore*, a function that the sleeping threads of the calling thread's machine call at intervals. Returns
/// false if the thread belongs to no machine.
pub(crate) fn add_chore(chore: impl FnOnce() -> Chore) -> bool {
    with(|machine, _| machine.chores.lock().push(chore())).is_some()
}

/// Returns whether the calling thread belongs to a simulated machine that has chores.
pub(crate) fn has_chores() -> bool {
    with(|machine, _| !machine.chores.lock().is_empty()).unwrap_or(false)
}

/// Calls the chores of the calling thread's machine, and removes the chores that are done.
pub(crate) fn perform_chores() {
    let chores = with(|machine, _| machine.chores.lock().clone()).unwrap_or_default();
    let is_done = |chore: &Chore| chore();
    let done: Vec<_> = chores.into_iter().filter(is_done).collect();
    let is_left = |chore: &Chore| !done.iter().any(|done| Arc::ptr_eq(done, chore));
    with(|machine, _| machine.chores.lock().retain(is_left));
}

/// Notes an event of the calling thread.
#[inline(always)]
pub(crate) fn note(what: impl FnOnce() -> String) {
    with(|machine, me| machine.enter().note(me, what()));
}

/// Returns whether the calling thread belongs to a machine, which records the thread's events.
#[inline(always)]
pub(crate) fn listens() -> bool {
    with(|_, _| ()).is_some()
}

/// Notes that the calling thread begins the item at this address.
pub(crate) fn begins(address: usize, name: &'static str, queue: &str) {
    with(|machine, me| {
        let mut item = Item { address, name, queue: queue.to_owned(), panics: false };
        let mut inner = machine.enter();
        inner.note(me, format!("begins {item}"));
        item.panics = inner.schedule.faults.panics(&item);
        inner.record.begins(me, item);
    });
}

/// Notes that the calling thread has ended its item. `tells_no_one` is true if the executor has no panic handler, so
/// that only a joiner can learn of a panic. The record has panics of which the test knows in another way, too.
/// Otherwise, a joiner that learns of such a panic would remove an earlier panic of the same address or thread.
pub(crate) fn ends(panicked: bool, tells_no_one: bool) {
    with(|machine, me| {
        let mut inner = machine.enter();
        if let Some(item) = inner.record.ends(me) {
            inner.note(me, format!("{} {item}", if panicked { "panics in" } else { "ends" }));
            if panicked {
                let is_known = item.panics || !tells_no_one;
                let (address, item) = (item.address, item.to_string());
                inner.record.panics.push(Panic { thread: me, address, item, is_known });
            }
        }
    });
}

/// Notes that a thread was told of the panic of the item at this address.
pub(crate) fn panic_is_told(item: usize) {
    with(|machine, _| machine.enter().record.panic_is_told(|panic| panic.address == item));
}

/// Notes that a thread will be told of the last panic on the calling thread.
pub(crate) fn own_panic_is_told() {
    with(|machine, me| machine.enter().record.panic_is_told(|panic| panic.thread == me));
}

/// While this value lives, the record contains the reason for the calling thread's wait.
#[derive(Debug)]
pub(crate) struct Waiting(Option<Option<Waits>>);

pub(super) fn waits(what: impl FnOnce() -> Waits) -> Waiting {
    Waiting(with(|machine, me| machine.enter().record.waits(me, Some(what()))))
}

/// Records that the calling thread waits for the item at this address.
#[inline(always)]
pub(crate) fn waits_for_item(address: usize, what: impl FnOnce() -> String) -> Waiting {
    waits(|| Waits::Item(address, what()))
}

/// Records that the calling thread waits for items of the queue with this name.
#[inline(always)]
pub(crate) fn waits_for_queue(queue: &str, what: impl FnOnce() -> String) -> Waiting {
    waits(|| Waits::Queue(queue.to_owned(), what()))
}

/// Records that the calling thread waits for something that `what` describes.
#[inline(always)]
pub(crate) fn waits_for(what: &'static str) -> Waiting {
    waits(|| Waits::Other(what))
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            with(|machine, me| machine.enter().record.waits(me, before));
        }
    }
}

/// Waits like [`until_ready`] until `attempt` has taken the lock at this address.
#[inline(always)]
pub(crate) fn until_locked(lock: usize, until: Option<Time>, attempt: impl FnMut() -> bool) -> Option<bool> {
    ready(lock, until, || Waits::Lock(lock), attempt)
}

/// Waits on a machine until `attempt` succeeds, or until the time `until` has come. Returns false if the time comes
/// first. The calling thread tries again when it is woken on the key, and also when no other thread can take a step.
/// Returns `None` if the calling thread belongs to no machine.
#[inline(always)]
pub(crate) fn until_ready(
    key: usize,
    until: Option<Time>,
    what: &'static str,
    attempt: impl FnMut() -> bool,
) -> Option<bool> {
    ready(key, until, || Waits::Other(what), attempt)
}

#[inline(always)]
fn ready(
    key: usize,
    until: Option<Time>,
    what: impl FnOnce() -> Waits,
    mut attempt: impl FnMut() -> bool,
) -> Option<bool> {
    with(|machine, me| {
        let _says = waits(what);
        let mut in_time = true;
        loop {
            let ready = attempt();
            let mut inner = machine.enter();
            let is_late = until.is_some_and(|until| inner.schedule.now >= until);
            if ready || !in_time || is_late {
                inner.schedule.has_found(me);
                if !ready && in_time && !QUIET.get() {
                    // The time `until` has come already. A thread whose timeout is over before it sleeps is polling, so
                    // it first lets the other threads take their turns.
                    machine.let_others_go_on(inner, me);
                }
                return ready;
            }
            drop(inner);
            in_time = machine.sleep(me, Key::Object(key), until, Rests::UntilItLooks);
        }
    })
}

/// Waits on a machine until another thread wakes the calling thread on this key, or until the time `until` has come.
/// Returns false if the time comes first.
pub(crate) fn until_woken(key: usize, until: Option<Time>, what: &'static str) -> Option<bool> {
    with(|machine, me| {
        let _says = waits(|| Waits::Other(what));
        machine.sleep(me, Key::Object(key), until, Rests::No)
    })
}

/// Wakes all threads that wait on the key of an object, or only the first of them if `all` is false. Returns the number
/// of woken threads.
#[inline(always)]
pub(crate) fn wake_object(key: usize, all: bool) -> usize {
    let woken = with(|machine, me| {
        let woken = machine.enter().wake(Key::Object(key), all);
        if woken > 0 && !QUIET.get() {
            machine.point(me);
        }
        woken
    });
    woken.unwrap_or(0)
}

/// Notes that the calling thread holds the lock at this address.
#[inline(always)]
pub(crate) fn holds(lock: usize) {
    with(|machine, me| machine.enter().record.holds(me, lock));
}

/// Notes that the calling thread has released the lock at this address, and wakes the threads that wait for it.
#[inline(always)]
pub(crate) fn released(lock: usize) {
    with(|machine, me| {
        let mut inner = machine.enter();
        inner.record.lets_go(me, lock);
        inner.wake(Key::Object(lock), true);
        drop(inner);
        if !QUIET.get() {
            machine.point(me);
        }
    });
}

/// The beginning of the name of each thread that user code makes. The thread's number follows.
const SPAWNED: &str = "spawned thread";

/// Returns the name of the next thread that user code makes. The threads are numbered in the order in which they are
/// made.
pub(crate) fn name_of_spawned() -> String {
    let earlier = with(|machine, _| {
        let inner = machine.enter();
        let names = (0..inner.schedule.threads.len()).map(|thread| inner.schedule.name(thread));
        names.filter(|name| name.starts_with(SPAWNED)).count()
    });
    format!("{SPAWNED} {}", earlier.unwrap_or(0) + 1)
}

/// Returns lines about the threads that wait, and about those that wait for each other in a circle.
pub(crate) fn waiting_threads() -> String {
    with(|machine, _| machine.enter().waits_and_circle()).unwrap_or_default()
}

/// Returns how many times time may pass while the main thread waits. If time passes more often, the run fails.
pub(crate) fn most_moves() -> Option<u64> {
    with(|machine, _| machine.enter().schedule.config.restless)
}

/// Waits until no other thread can take a step before time passes.
pub(crate) fn settle() -> bool {
    with(|machine, me| machine.sleep(me, Key::Quiet, None, Rests::UntilQuiet)).is_some()
}

/// Waits until time has passed, and then until no other thread can take a step. Returns false if no time will ever pass
/// again, because no thread or timer waits for a time.
pub(crate) fn let_time_pass() -> bool {
    with(|machine, me| {
        let moves = machine.enter().schedule.moves;
        machine.sleep(me, Key::Quiet, None, Rests::UntilTimePasses(moves))
    })
    .unwrap_or(false)
}

/// Puts the calling thread to sleep until other threads have taken steps. A thread parks in this way if it may be
/// unparked through the standard library, because the machine does not notice such an unpark. Returns false if the
/// calling thread belongs to no machine.
pub(crate) fn park_a_while(timeout: Option<Duration>) -> bool {
    with(|machine, me| {
        let until = timeout.map(|timeout| machine.enter().schedule.now + timeout);
        let _says = waits_for("an unpark");
        machine.sleep(me, Key::Parked(me), until, Rests::UntilItLooks);
        machine.enter().schedule.was_parked();
    })
    .is_some()
}

/// Returns the events of the run so far, and the number of earlier events that the record has dropped.
pub(crate) fn events() -> Option<(Vec<Event>, usize)> {
    with(|machine, _| machine.enter().record.events())
}

/// If the calling thread's machine is watched, ends the run as failed, and never returns. Otherwise does nothing.
pub(crate) fn fail(text: impl FnOnce() -> String) {
    with(|machine, me| {
        let mut inner = machine.enter();
        if inner.watcher.is_some() {
            inner.fail(text());
            machine.hand_over(inner, me);
        }
    });
}

/// Calls [`fail`] if `wrong` is true.
pub(crate) fn fail_if(wrong: bool, text: impl FnOnce() -> String) {
    if wrong {
        fail(text);
    }
}

/// Lets the faults of this plan happen from now on.
pub(crate) fn carry_out(plan: Plan) {
    with(|machine, _| {
        let mut inner = machine.enter();
        inner.schedule.carry_out(plan);
        inner.note_changes();
    });
}

/// Ends all faults, because the test is over.
pub(crate) fn no_more_faults() {
    with(|machine, _| {
        let mut inner = machine.enter();
        inner.schedule.no_more_faults();
        inner.wake(Key::Shutdown, true);
    });
}

/// Waits until the machine reaches the step at which, as planned, the calling thread shuts the executors down. Returns
/// false if the test ends before this step, or if the thread belongs to no machine.
pub(crate) fn until_shutdown() -> bool {
    with(|machine, me| {
        machine.enter().schedule.faults.shuts_down = Some(me);
        machine.sleep(me, Key::Shutdown, None, Rests::No);
        let mut inner = machine.enter();
        let is_over = inner.schedule.faults.is_over;
        if !is_over {
            inner.note(me, "fault: shuts the executors down".to_owned());
        }
        !is_over
    })
    .unwrap_or(false)
}

/// Returns whether the plan refuses this submission to the queue of this name.
#[inline(always)]
pub(crate) fn refuses_submission<'a>(queue: impl FnOnce() -> &'a str) -> bool {
    let refuses = with(|machine, me| {
        let (mut inner, queue) = (machine.enter(), queue());
        let refuses = inner.schedule.faults.refuses_submission(queue);
        if refuses {
            inner.note(me, format!("fault: is refused by queue {queue:?}"));
        }
        refuses
    });
    refuses.unwrap_or(false)
}

/// Returns the time by which the next timer is late.
#[inline(always)]
pub(crate) fn lateness() -> Duration {
    with(|machine, _| machine.enter().schedule.faults.lateness()).unwrap_or_default()
}

/// Panics if the plan says that the calling thread's present item panics.
#[inline(always)]
pub(crate) fn panic_as_planned() {
    if with(|machine, me| machine.enter().panics_as_planned(me)) == Some(true) {
        panic!("a panic that the test has planned");
    }
}
