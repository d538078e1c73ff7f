//! The crate's atomics and locks. In the loom models, the atomics and locks come from loom. In all other builds, they
//! come from std and parking_lot. In unit tests, and in unoptimised builds for the crate's other tests,
//! [`yields`](super::yields) wraps the atomics and locks, so that races become more likely. Code outside `sys` imports
//! atomics and locks only from this module.
//!
//! loom models `SeqCst` fences but not `SeqCst` accesses, so every handshake of the protocol layer is written with
//! explicit fences.

#[cfg(not(cmwq_loom))]
use super::yields as imp;

#[cfg(cmwq_loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicI64, Ordering, fence};

    /// Wraps loom's atomic, and counts the drop of the atomic as an access. So loom reports each access after the drop,
    /// and each earlier access that is not ordered before the drop.
    ///
    /// In addition, this type makes loom's search take the order of loads into account. By itself, loom remembers only
    /// the last access to an atomic. Suppose that a thread loads an atomic and then writes to it. The thread's own load
    /// then hides the race between its write and an earlier load of another thread, and loom never tries to put the
    /// write before that earlier load. To make loom try both orders, this type does a read-modify-write before each
    /// load. The read-modify-write changes nothing.
    #[derive(Debug)]
    pub(crate) struct AtomicU64 {
        value: loom::sync::atomic::AtomicU64,
        order: loom::sync::atomic::AtomicU64,
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self {
                value: loom::sync::atomic::AtomicU64::new(value),
                order: loom::sync::atomic::AtomicU64::new(0),
            }
        }

        pub(crate) fn load(&self, ordering: Ordering) -> u64 {
            self.order.fetch_add(0, Ordering::Relaxed);
            self.value.load(ordering)
        }
    }

    impl std::ops::Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            &self.value
        }
    }

    impl Drop for AtomicU64 {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                self.value.with_mut(|_| ());
            }
        }
    }

    /// loom's `AtomicPtr`, with a read-modify-write before each load and each store, as in [`AtomicU64`]. The drop of
    /// an `AtomicPtr` does not count as an access.
    #[derive(Debug)]
    pub(crate) struct AtomicPtr<T> {
        value: loom::sync::atomic::AtomicPtr<T>,
        order: loom::sync::atomic::AtomicU64,
    }

    impl<T> AtomicPtr<T> {
        pub(crate) fn new(value: *mut T) -> Self {
            Self {
                value: loom::sync::atomic::AtomicPtr::new(value),
                order: loom::sync::atomic::AtomicU64::new(0),
            }
        }

        pub(crate) fn load(&self, ordering: Ordering) -> *mut T {
            self.order.fetch_add(0, Ordering::Relaxed);
            self.value.load(ordering)
        }

        pub(crate) fn store(&self, value: *mut T, ordering: Ordering) {
            self.order.fetch_add(0, Ordering::Relaxed);
            self.value.store(value, ordering);
        }
    }

    /// Wraps loom's `Arc`. A thread that panics leaks the `Arc` instead of dropping it. After a deadlock, loom has no
    /// active thread, so the drop of loom's `Arc` would panic again. The second panic would abort the process before
    /// the test is reported as failed.
    #[derive(Debug)]
    pub(crate) struct Arc<T>(Option<loom::sync::Arc<T>>);

    impl<T> Arc<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Some(loom::sync::Arc::new(value)))
        }

        pub(crate) fn strong_count(this: &Self) -> usize {
            loom::sync::Arc::strong_count(this.inner())
        }

        fn inner(&self) -> &loom::sync::Arc<T> {
            self.0.as_ref().expect("it is taken only when dropped")
        }
    }

    impl<T> Clone for Arc<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    impl<T> std::ops::Deref for Arc<T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.inner()
        }
    }

    impl<T> Drop for Arc<T> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::mem::forget(self.0.take());
            }
        }
    }

    /// loom's mutex with the interface of parking_lot's mutex, which has no poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn ranked(_rank: crate::policy::locks::Rank, value: T) -> Self {
            Self::new(value)
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

#[cfg(not(cmwq_loom))]
pub(crate) use super::lock::{Condvar, Mutex, MutexGuard};
pub(crate) use imp::*;

/// Acts as a `SeqCst` fence if the same thread has done a read-modify-write directly before the call.
///
/// On x86-64 every read-modify-write is a full barrier. So it suffices that the function keeps the compiler from moving
/// a later access before the read-modify-write. A second barrier would double the cost of a blocking guard.
#[inline]
pub(crate) fn fence_after_update() {
    if cfg!(all(target_arch = "x86_64", not(miri), not(cmwq_loom))) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
