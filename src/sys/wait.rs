//! Waiting on an address: a queue of sleepers outside of the object that they wait for.
//!
//! Contract: `sleep` blocks only if `validate` still holds once the sleeper is registered, and `wake_all` wakes all
//! threads that were registered before it. So no wake-up is missed if the waker changes the state that `validate` reads
//! *before* it wakes. The address is only a key and is never read, so the object may be gone when `wake_all` is called.
//! Sleepers may wake up for no reason, by another object with the same key, or by a chore: they sleep in a loop.

#[cfg(not(cmwq_loom))]
mod imp {
    #![allow(unsafe_code, reason = "parking_lot_core leaves the choice of keys to its caller")]

    use std::time::Duration;

    use parking_lot::Mutex;
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult};

    use crate::policy::time::Time;
    use crate::sys::{clock, machine};

    /// How long a caller is ready to wait.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Until(Option<Time>);

    impl Until {
        pub(crate) const FOREVER: Self = Self(None);

        /// A timeout that is too long to be represented means no limit.
        pub(crate) fn after(timeout: Duration) -> Self {
            Self(Some(clock::now() + timeout).filter(|at| *at < Time::NEVER))
        }

        pub(crate) fn is_forever(self) -> bool {
            self.0.is_none()
        }

        /// The time that is left. `None` if the wait has no limit.
        #[cfg(all(target_os = "linux", not(cmwq_portable)))]
        pub(crate) fn left(self) -> Option<Duration> {
            self.0.map(|end| end.since(clock::now()))
        }

        pub(crate) fn time(self) -> Option<Time> {
            self.0
        }

        /// Returns the earlier of both.
        fn or_after(self, time: Duration) -> Self {
            let other = Self::after(time);
            Self(self.0.into_iter().chain(other.0).min())
        }
    }

    /// A task that sleepers perform at intervals, because no thread exists that could.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Chore {
        pub(crate) every: Duration,
        /// Called with no lock of this crate held.
        pub(crate) perform: fn(),
    }

    static CHORE: Mutex<Option<Chore>> = Mutex::new(None);

    /// Sets the chore, or removes it. All threads that begin to sleep from now on perform it while asleep.
    pub(crate) fn set_chore(chore: Option<Chore>) {
        *CHORE.lock() = chore;
    }

    fn chore() -> Option<Chore> {
        *CHORE.lock()
    }

    /// Threads sleep on these addresses, which are ours for ever, instead of the objects' own. An object may be freed,
    /// and its address reused for a lock of other code, before its waker is done.
    static PLACES: [u8; 1024] = [0; 1024];

    fn place(key: usize) -> usize {
        // The high bits of the product depend on all bits of the key (Fibonacci hashing).
        let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        std::ptr::from_ref(&PLACES[hash as usize]) as usize
    }

    /// Sleeps until woken. Returns false if the time ran out first.
    pub(crate) fn sleep(key: usize, validate: impl FnOnce() -> bool, until: Until) -> bool {
        let mut validate = Some(validate);
        let mut once = || validate.take().is_some_and(|validate| validate());
        if let Some(woken) = machine::sleep(machine::Key::Address(key), &mut once, until.0) {
            return woken;
        }
        let validate = || once();
        let Some(chore) = chore() else { return park(key, validate, until) };
        let break_at = until.or_after(chore.every);
        park(key, validate, break_at) || {
            // The chore is performed at the end of the wait, too, because a thread may wait for a short time again and
            // again.
            (chore.perform)();
            until.0.is_none() || until.0 != break_at.0
        }
    }

    fn park(key: usize, validate: impl FnOnce() -> bool, Until(until): Until) -> bool {
        let until = until.and_then(clock::instant);
        // SAFETY: the address is in a static of ours, so no other code uses it; none of the callbacks panics or calls
        // into parking_lot.
        let result = unsafe {
            parking_lot_core::park(place(key), validate, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until)
        };
        !matches!(result, ParkResult::TimedOut)
    }

    /// Wakes all threads that sleep on `key`.
    pub(crate) fn wake_all(key: usize) {
        machine::wake(machine::Key::Address(key), true);
        // SAFETY: as above.
        unsafe {
            parking_lot_core::unpark_all(place(key), DEFAULT_UNPARK_TOKEN);
        }
    }
}

#[cfg(cmwq_loom)]
mod imp {
    use loom::sync::{Condvar, Mutex};

    loom::lazy_static! {
        /// One bucket for all keys: wake-ups of other keys are spurious ones.
        static ref BUCKET: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());
    }

    /// loom has no time: a wait never runs out, or has run out already.
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
