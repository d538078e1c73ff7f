//! Waiting on an address: a queue of sleepers outside of the thing that is waited for.
//!
//! Contract: `sleep` blocks only if `validate` still holds once the sleeper is registered, and `wake_all` wakes
//! everybody registered before it. So a waker that changes what `validate` reads *before* it wakes is never
//! missed. The address is only a key: it is never read, so the thing may be gone when `wake_all` is called. Sleepers
//! may be woken for nothing, by a thing whose key falls on theirs, or by a chore: they sleep in a loop.

#[cfg(not(cmwq_loom))]
mod imp {
    #![allow(unsafe_code, reason = "parking_lot_core leaves the choice of keys to its caller")]

    use std::time::{Duration, Instant};

    use parking_lot::Mutex;
    use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult};

    /// How long a caller is willing to wait.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Until(Option<Instant>);

    impl Until {
        pub(crate) const FOREVER: Self = Self(None);

        /// A timeout that is too long to be represented is none.
        #[allow(
            clippy::disallowed_methods,
            reason = "a timeout of the caller's, not a deadline of the executor's"
        )]
        pub(crate) fn after(timeout: Duration) -> Self {
            Self(Instant::now().checked_add(timeout))
        }

        pub(crate) fn is_forever(self) -> bool {
            self.0.is_none()
        }

        /// The time that is left. `None` if the wait has no limit.
        #[cfg(all(target_os = "linux", not(cmwq_portable)))]
        #[allow(
            clippy::disallowed_methods,
            reason = "a timeout of the caller's, not a deadline of the executor's"
        )]
        pub(crate) fn left(self) -> Option<Duration> {
            self.0.map(|end| end.saturating_duration_since(Instant::now()))
        }

        /// The earlier one of both.
        fn or_after(self, time: Duration) -> Self {
            let other = Self::after(time);
            Self(self.0.into_iter().chain(other.0).min())
        }
    }

    /// What sleepers do now and then, because there is no thread that would.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Chore {
        pub(crate) every: Duration,
        /// Called with no lock held that is of this crate.
        pub(crate) perform: fn(),
    }

    static CHORE: Mutex<Option<Chore>> = Mutex::new(None);

    /// Has everybody who begins to sleep from now on perform this while asleep, or nothing any more.
    pub(crate) fn set_chore(chore: Option<Chore>) {
        *CHORE.lock() = chore;
    }

    fn chore() -> Option<Chore> {
        *CHORE.lock()
    }

    /// What is slept on instead of the things themselves: addresses that are ours for ever. A thing may be freed, and
    /// its address be that of somebody else's lock, before its waker is done.
    static PLACES: [u8; 1024] = [0; 1024];

    fn place(key: usize) -> usize {
        // The high bits of the product depend on all bits of the key (Fibonacci hashing).
        let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
        std::ptr::from_ref(&PLACES[hash as usize]) as usize
    }

    /// Sleeps until woken. False if the time ran out first.
    pub(crate) fn sleep(key: usize, validate: impl FnOnce() -> bool, until: Until) -> bool {
        let Some(chore) = chore() else { return park(key, validate, until) };
        let break_at = until.or_after(chore.every);
        park(key, validate, break_at) || {
            // At its own end, too: somebody may wait for a short time again and again.
            (chore.perform)();
            until.0.is_none() || until.0 != break_at.0
        }
    }

    fn park(key: usize, validate: impl FnOnce() -> bool, Until(until): Until) -> bool {
        // SAFETY: the address is in a static of ours, so nobody else uses it; none of the callbacks panics or calls
        // into parking_lot.
        let result = unsafe {
            parking_lot_core::park(place(key), validate, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until)
        };
        !matches!(result, ParkResult::TimedOut)
    }

    /// Wakes everybody who sleeps on `key`.
    pub(crate) fn wake_all(key: usize) {
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
        /// One bucket for all keys: wake-ups meant for others are spurious ones.
        static ref BUCKET: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());
    }

    /// loom has no time: it never runs out, or has run out already.
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
