//! Functions by which threads wait on an address. The queue of sleepers lies outside the object for which the sleepers
//! wait.
//!
//! Contract: `sleep` blocks only if `validate` still returns true after the sleeper was registered. `wake_all` wakes
//! all threads that were registered before the call. So no sleeper misses a wake-up if the waking thread changes the
//! state that `validate` reads *before* it calls `wake_all`. The address is only a key and is never read, so the object
//! may already be freed when `wake_all` is called. A sleeper may also wake up for no reason, at a wake-up for another
//! object, or for a chore (a task that sleepers perform at intervals). So each caller of `sleep` sleeps in a loop.

#[cfg(not(cmwq_loom))]
mod imp {
    #![allow(unsafe_code, reason = "parking_lot_core leaves the choice of keys to its caller")]

    use std::time::Duration;

    use parking_lot::Mutex;
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult};

    use crate::policy::time::Time;
    use crate::sys::{clock, machine};

    /// The time until which a caller waits, or no limit.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Until(Option<Time>);

    impl Until {
        pub(crate) const FOREVER: Self = Self(None);

        /// Returns the time at which `timeout` has passed. If this time is too late to be represented, returns no
        /// limit.
        pub(crate) fn after(timeout: Duration) -> Self {
            Self(Some(clock::now() + timeout).filter(|at| *at < Time::NEVER))
        }

        pub(crate) fn is_forever(self) -> bool {
            self.0.is_none()
        }

        /// Returns the time that is left, or `None` if the wait has no limit.
        #[cfg(all(target_os = "linux", not(cmwq_portable)))]
        pub(crate) fn left(self) -> Option<Duration> {
            self.0.map(|end| end.since(clock::now()))
        }

        pub(crate) fn time(self) -> Option<Time> {
            self.0
        }

        /// Returns the earlier of this limit and `time`.
        pub(crate) fn or_at(self, time: Time) -> Self {
            Self(self.0.into_iter().chain(Some(time)).min().filter(|at| *at < Time::NEVER))
        }

        /// Returns whether the limit is reached.
        pub(crate) fn is_over(self) -> bool {
            self.0.is_some_and(|end| end <= clock::now())
        }

        /// Returns the earlier of this limit and the limit that is `time` from now.
        pub(crate) fn or_after(self, time: Duration) -> Self {
            let other = Self::after(time);
            Self(self.0.into_iter().chain(other.0).min())
        }
    }

    /// A task that sleepers perform at intervals, because no other thread exists that could perform it.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Chore {
        pub(crate) every: Duration,
        /// The caller of this function holds no lock of the crate.
        pub(crate) perform: fn(),
    }

    static CHORE: Mutex<Option<Chore>> = Mutex::new(None);

    /// Sets the chore, or removes it if `chore` is `None`. All threads that begin to sleep after this call interrupt
    /// their sleep at intervals to perform the chore.
    pub(crate) fn set_chore(chore: Option<Chore>) {
        *CHORE.lock() = chore;
    }

    fn chore() -> Option<Chore> {
        *CHORE.lock()
    }

    /// The addresses on which threads actually sleep. These addresses always belong to this crate. In contrast, the
    /// address of an awaited object may pass to other code. The object may be freed before the thread that wakes its
    /// sleepers is done, and another user of parking_lot may then have a lock at that address.
    static PLACES: [u8; 1024] = [0; 1024];

    fn place(key: usize) -> usize {
        // The high bits of the product depend on all bits of the key (Fibonacci hashing).
        let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        std::ptr::from_ref(&PLACES[hash as usize]) as usize
    }

    /// Sleeps on `key` until another thread wakes the calling thread. Returns false if the time `until` comes first.
    pub(crate) fn sleep(key: usize, validate: impl FnOnce() -> bool, until: Until) -> bool {
        let mut validate = Some(validate);
        let mut once = || validate.take().is_some_and(|validate| validate());
        if machine::has_chores() {
            return sleep_with_chores(key, &mut once, until);
        }
        if let Some(woken) = machine::sleep(machine::Key::Address(key), &mut once, until.0) {
            return woken;
        }
        let validate = || once();
        let Some(chore) = chore() else { return park(key, validate, until) };
        let break_at = until.or_after(chore.every);
        park(key, validate, break_at) || {
            // The thread performs the chore even if its wait ends now, because some threads wait for a short time again
            // and again.
            (chore.perform)();
            until.0.is_none() || until.0 != break_at.0
        }
    }

    /// Does the same as [`sleep`] on a made-up machine (a simulation for tests), and also performs the machine's chores
    /// about once a second.
    #[cold]
    fn sleep_with_chores(key: usize, validate: &mut dyn FnMut() -> bool, until: Until) -> bool {
        let break_at = until.or_after(Duration::from_secs(1));
        // The awaited event may never happen, although the thread wakes up for the chores again and again. So the
        // thread says that it *keeps house*, which means that it only repeats routine work. The machine notices if no
        // thread does anything but routine work.
        machine::keeps_house(true);
        let woken = machine::sleep(machine::Key::Address(key), validate, break_at.0).unwrap_or(true);
        let woken = woken || {
            machine::perform_chores();
            until.0.is_none() || until.0 != break_at.0
        };
        machine::keeps_house(false);
        woken
    }

    fn park(key: usize, validate: impl FnOnce() -> bool, Until(until): Until) -> bool {
        let until = until.and_then(clock::instant);
        // SAFETY: the address lies in a static of this module, so no other code uses it. No callback panics or calls
        // into parking_lot.
        let result = unsafe {
            parking_lot_core::park(place(key), validate, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until)
        };
        !matches!(result, ParkResult::TimedOut)
    }

    /// Wakes all threads that sleep on `key`.
    pub(crate) fn wake_all(key: usize) {
        machine::wake(machine::Key::Address(key), true);
        // SAFETY: as in `park`, the address lies in a static of this module.
        unsafe {
            parking_lot_core::unpark_all(place(key), DEFAULT_UNPARK_TOKEN);
        }
    }
}

#[cfg(cmwq_loom)]
mod imp {
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        /// The only queue of sleepers, which all keys share. So a wake-up for another key is a spurious wake-up.
        static ref BUCKET: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());
    }

    /// loom has no time. So a wait either has no time limit, or its time is over when the wait begins.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Until {
        Forever,
        Expired,
    }

    impl Until {
        pub(crate) const FOREVER: Self = Self::Forever;
    }

    pub(crate) fn sleep(_key: usize, validate: impl FnOnce() -> bool, until: Until) -> bool {
        let mut wakes = BUCKET.0.lock().unwrap();
        if validate() {
            if until == Until::Expired {
                return false;
            }
            let before = *wakes;
            while *wakes == before {
                wakes = BUCKET.1.wait(wakes).unwrap();
            }
        }
        true
    }

    pub(crate) fn wake_all(_key: usize) {
        *BUCKET.0.lock().unwrap() += 1;
        BUCKET.1.notify_all();
    }
}

#[cfg(not(cmwq_loom))]
pub(crate) use imp::{Chore, set_chore};
pub(crate) use imp::{Until, sleep, wake_all};
