//! Waiting on an address: a queue of sleepers outside of the thing that is waited for.
//!
//! Contract: `sleep` blocks only if `validate` still holds once the sleeper is registered, and `wake_all` wakes
//! everybody registered before it. So a waker that changes what `validate` reads *before* it wakes is never
//! missed. The address is only a key: it is never read, so the thing may be gone when `wake_all` is called. Then
//! whoever sleeps on the address for another reason by now is woken for nothing.

#[cfg(not(cmwq_loom))]
mod imp {
    #![allow(unsafe_code, reason = "parking_lot_core leaves the choice of keys to its caller")]

    use std::time::{Duration, Instant};

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
    }

    /// Sleeps until woken. False if the time ran out first.
    pub(crate) fn sleep(key: usize, validate: impl FnOnce() -> bool, Until(until): Until) -> bool {
        // SAFETY: the key is the address of a cell of ours that lives while anybody sleeps on it, because the sleeper
        // owns it; so nobody else's key is the same meanwhile. None of the callbacks panics or calls into parking_lot.
        let result =
            unsafe { parking_lot_core::park(key, validate, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until) };
        !matches!(result, ParkResult::TimedOut)
    }

    /// Wakes everybody who sleeps on `key`.
    ///
    /// A waiter that has seen the new state may have freed the cell already, and the address may by now be that of
    /// another cell, or of a primitive of parking_lot's or of another user of parking_lot_core, whose sleepers this
    /// wakes, for nothing and with the default token:
    ///
    /// * Our cells sleep in a loop around their state.
    /// * parking_lot 0.12's mutex, rwlock and once take that token for an ordinary unlock, look at their state and
    ///   park again; a bit that says "somebody is parked" may stay set, which costs one empty unpark.
    /// * Its condition variable returns from `wait`, though it promises no spurious wake-ups, and does not forget the
    ///   mutex until it is notified. If it is used with a second mutex before that, it panics; if the mutex is freed
    ///   before that, the notification reads freed memory.
    /// * Others who give the token 0 a meaning, or count on there being no spurious wake-ups, are misled.
    ///
    /// It takes a free, a reuse of the very address and a sleeper on it between the last step of the cell's state and
    /// this call; that this cannot happen is not proven. Whoever wants it ruled out keeps the cell until it has woken,
    /// or sleeps on addresses of a static table instead.
    pub(crate) fn wake_all(key: usize) {
        // SAFETY: the address is never read, and while its cell lives it is ours alone, as the callee asks. Not so if
        // the cell is gone and its address used again: see above for what is known of that, and what is not.
        unsafe {
            parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN);
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

pub(crate) use imp::{Until, sleep, wake_all};
