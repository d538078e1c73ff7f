//! Functions by which tasks wait on an address, as threads do by [`wait`](super::wait). A task is a future that a
//! runtime polls, and its waker asks the runtime to poll it again. The wakers lie outside the object for which the
//! tasks wait. So the object needs no room for wakers, and code that awaits nothing does not pay for wakers.
//!
//! Contract: `watch` keeps the alarm (a waker and the function that calls it) only if `validate` returns true under the
//! lock of the key's bucket. `ring` takes the bucket's lock, too. So no alarm is missed if the ringing thread changes
//! the state that `validate` reads *before* it calls `ring`:
//!
//! * If `ring` takes the lock first, `validate` sees the changed state, because the lock orders the two calls.
//! * If `watch` takes the lock first, `ring` finds the alarm.
//!
//! The address is only a key and is never read, so the object may already be freed when `ring` is called. Another
//! object may then have the same address, and `ring` may take the alarm of a task that waits for this other object. The
//! task is polled without a reason, and calls `watch` again. The effect of some alarms cannot be undone. Such an alarm
//! is kept here only under a key for which no late `ring` can come.

use std::collections::BTreeMap;
use std::task::Waker;

use super::sync::Mutex;

/// A waker, and the function that calls it. A waker is code of a user, so the layer that contains users' panics
/// provides the function.
#[derive(Debug)]
pub(crate) struct Alarm {
    pub(crate) waker: Waker,
    /// The caller of this function holds no lock of the crate.
    pub(crate) ring: fn(Waker),
}

/// Identifies one of the tasks that wait for the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Watcher(u64);

impl Watcher {
    /// The only task that waits for its key.
    pub(crate) const ONLY: Self = Self(0);

    /// Returns a watcher that differs from all others of this process.
    #[cfg(not(cmwq_loom))]
    pub(crate) fn next() -> Self {
        use super::sync::{AtomicU64, Ordering};

        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

type Bucket = Mutex<BTreeMap<(usize, Watcher), Alarm>>;

const BUCKETS: usize = 64;

/// Keeps the alarm of a task, if `validate` returns true. Returns what `validate` returned. The alarm replaces the
/// earlier alarm of the same watcher.
pub(crate) fn watch(key: usize, watcher: Watcher, alarm: Alarm, validate: impl FnOnce() -> bool) -> bool {
    let mut alarms = bucket(key).lock();
    if !validate() {
        return false;
    }
    let replaced = alarms.insert((key, watcher), alarm);
    drop(alarms);
    // The waker's destructor is code of a user, so it runs without the lock.
    drop(replaced);
    true
}

/// Removes the alarm of a task that no longer waits. The object of the key still exists.
pub(crate) fn unwatch(key: usize, watcher: Watcher) {
    let removed = bucket(key).lock().remove(&(key, watcher));
    drop(removed);
}

/// Rings and removes the alarms of all tasks that wait for `key`.
pub(crate) fn ring(key: usize) {
    let mut alarms = bucket(key).lock();
    let mut next = || {
        let found = *alarms.range((key, Watcher(0))..=(key, Watcher(u64::MAX))).next()?.0;
        alarms.remove(&found)
    };
    // All alarms are taken before the first one rings, because a task may watch the key again when it is polled. Most
    // keys have one alarm, which needs no vector.
    let (first, others) = (next(), std::iter::from_fn(next).collect::<Vec<_>>());
    drop(alarms);
    first.into_iter().chain(others).for_each(|alarm| (alarm.ring)(alarm.waker));
}

#[cfg(not(cmwq_loom))]
fn bucket(key: usize) -> &'static Bucket {
    use super::fork::PerProcess;

    // A forked process has buckets of its own, because a thread of the parent may have held a lock at the fork.
    static ALL: PerProcess<[Bucket; BUCKETS]> = PerProcess::new();
    // The high bits of the product depend on all bits of the key (Fibonacci hashing).
    let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.ilog2());
    &ALL.get_or_init(|| std::array::from_fn(|_| Mutex::new(BTreeMap::new())))[hash as usize]
}

#[cfg(cmwq_loom)]
fn bucket(_key: usize) -> &'static Bucket {
    const { assert!(BUCKETS > 0) };
    loom::lazy_static! {
        static ref ONLY: Bucket = Mutex::new(BTreeMap::new());
    }
    &ONLY
}
