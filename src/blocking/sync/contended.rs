//! Waiting for a lock that another thread holds.
//!
//! On a made-up machine, which is a simulated machine for tests, another thread may run before a thread takes a lock. A
//! thread that waits for a lock tries again when the lock is released.

use std::time::{Duration, Instant};

use crate::blocking::guard::{blocking, may_block};
use crate::engine::worker::worker_thread;
use crate::sys::{clock, machine};

/// The time for which an item that waits for a lock keeps its place. During this time, no other item starts in its
/// place. The system adds slack to short sleeps, usually 50 µs. Most locks are held for a shorter time than this slack.
/// If each wait let another item start, that item would soon want the same lock, and many threads would queue for the
/// lock. `MOMENT` is short, so even an item that waits for a long time hardly delays the items behind it.
const MOMENT: Duration = Duration::from_micros(20);

/// Takes a lock by calling `lock`. Returns whether the lock was taken. On a worker, the first call of `lock` waits for
/// [`MOMENT`] at most, in a [`may_block`] guard. If the first call does not take the lock, a second call of `lock`
/// waits in a blocking guard. `lock` gets the time until which it may wait, or `None` if there is no limit, and returns
/// whether it took the lock. `attempt` does the same as `lock`, but does not wait. `key` is the address of the lock.
#[cold]
pub(super) fn take(
    key: usize,
    deadline: Option<Instant>,
    attempt: impl Fn() -> bool,
    lock: impl Fn(Option<Instant>) -> bool,
) -> bool {
    wait(key, deadline, attempt, lock) && holds(key)
}

/// Does the same as [`take`], for a thread that already holds the lock in another mode.
#[cold]
pub(super) fn wait(
    key: usize,
    deadline: Option<Instant>,
    attempt: impl Fn() -> bool,
    lock: impl Fn(Option<Instant>) -> bool,
) -> bool {
    let lock = |until: Option<Instant>| {
        let made_up = machine::until_locked(key, until.map(clock::time), &attempt);
        made_up.unwrap_or_else(|| lock(until))
    };
    if worker_thread::with_current(|worker| worker.is_some()) {
        let moment = clock::present() + MOMENT;
        if deadline.is_some_and(|deadline| deadline <= moment) {
            may_block(|| lock(deadline))
        } else {
            may_block(|| lock(Some(moment))) || blocking(|| lock(deadline))
        }
    } else {
        blocking(|| lock(deadline))
    }
}

/// Takes a lock by `attempt`, without waiting. Returns whether the lock was taken.
#[inline]
pub(super) fn at_once(key: usize, attempt: impl FnOnce() -> bool) -> bool {
    machine::step();
    attempt() && holds(key)
}

#[inline]
fn holds(key: usize) -> bool {
    machine::holds(key);
    true
}

/// Notes that the calling thread has released a lock. On a made-up machine, wakes the threads that wait for the lock.
#[inline]
pub(super) fn released(key: usize) {
    machine::released(key);
}

/// Notes that the calling thread has downgraded a lock. On a made-up machine, wakes the threads that wait for the lock.
/// The woken threads may be able to take the lock, although the calling thread still holds it.
#[inline]
pub(super) fn downgraded(key: usize) {
    machine::wake_object(key, true);
}

/// Returns the time at which a wait of this length ends, or `None` if that time is beyond the clock's range.
pub(super) fn deadline(timeout: Duration) -> Option<Instant> {
    clock::present().checked_add(timeout)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests live in real time")]
mod tests {
    use super::*;
    use crate::{Executor, WorkQueue};

    const LONG: Duration = Duration::from_secs(60);

    /// Calls [`wait`] in an item. Returns the result of `wait`. Also returns, for each call of `lock`, its argument and
    /// the worker's state.
    fn asked(deadline: Option<Instant>, answers: bool) -> (bool, Vec<(Option<Instant>, String)>) {
        let executor = Executor::builder().build().unwrap();
        let queue = WorkQueue::builder("waits").build_on(&executor).unwrap();
        let wait = move || {
            let asked = std::cell::RefCell::new(Vec::new());
            let lock = |until: Option<Instant>| {
                let pools = executor.dump().pools;
                let workers = pools.iter().flat_map(|pool| &pool.worker_details);
                let states = workers.map(|worker| format!("{:?}", worker.state));
                asked.borrow_mut().push((until, states.collect::<String>()));
                answers || until.is_none()
            };
            let has_it = wait(0, deadline, || false, lock);
            (has_it, asked.into_inner())
        };
        queue.spawn(wait).unwrap().join().unwrap()
    }

    /// spec: C7.2 (an item waits for a held lock in a `may_block` guard for 20 µs, and then in a blocking guard)
    #[test]
    fn a_waiting_item_may_block_for_a_moment_and_then_blocks() {
        let (has_it, asked) = asked(None, false);
        assert!(has_it);
        let [(Some(moment), first), (None, then)] = &asked[..] else { panic!("{asked:?}") };
        assert!(*moment < Instant::now());
        assert!(first.contains("MayBlock") && then.contains("Blocked"), "{asked:?}");
    }

    /// spec: C7.2 (an item that gets a held lock within 20 µs waits only in a `may_block` guard)
    #[test]
    fn a_lock_that_is_free_in_a_moment_is_no_block() {
        let (has_it, asked) = asked(None, true);
        assert!(has_it);
        assert!(matches!(&asked[..], [(Some(_), state)] if state.contains("MayBlock")), "{asked:?}");
    }

    /// spec: C7: `lock` is called with the deadlines of the caller.
    #[test]
    fn deadlines_are_kept() {
        let (soon, late) = (Instant::now(), Instant::now() + LONG);
        let times = |(has_it, asked): (bool, Vec<(Option<Instant>, String)>)| {
            assert!(!has_it);
            asked.into_iter().map(|(until, _)| until.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(times(asked(Some(soon), false)), [soon]);
        let [moment, end] = times(asked(Some(late), false))[..] else { panic!("it is asked for twice") };
        assert!(moment < late && end == late);
        assert_eq!(deadline(Duration::MAX), None);
    }

    /// spec: C7: a thread that is not a worker waits for a lock with one call of `lock`, which gets the caller's
    /// deadline.
    #[test]
    fn a_thread_that_is_not_a_worker_waits_once() {
        for deadline in [None, Some(Instant::now() + LONG)] {
            let asked = std::cell::Cell::new(0);
            let lock = |until| {
                asked.set(asked.get() + 1);
                until == deadline
            };
            assert!(wait(0, deadline, || false, lock));
            assert_eq!(asked.get(), 1);
        }
    }
}
