//! The only place that names atomics, locks and thread parking: std and parking_lot, or loom for the models.
//!
//! loom models `SeqCst` fences but not `SeqCst` accesses, so every handshake of the protocol layer is written with
//! explicit fences.

#[cfg(not(cmwq_loom))]
mod imp {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) use parking_lot::{Condvar, Mutex};
}

#[cfg(cmwq_loom)]
mod imp {
    pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

    /// loom's mutex with parking_lot's face: no poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

pub(crate) use imp::*;

/// A `SeqCst` fence right after a read-modify-write of the same thread.
///
/// On x86-64 every read-modify-write is a full barrier already, so only the compiler must be kept from moving the
/// later accesses up; a second barrier would double the cost of a blocking guard.
#[inline]
pub(crate) fn fence_after_update() {
    if cfg!(all(target_arch = "x86_64", not(miri), not(cmwq_loom))) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
