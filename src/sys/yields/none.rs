//! The substitute for builds without points: the atomics of the standard library, and points that do nothing.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence,
};

#[inline(always)]
pub(crate) fn touch<T>(_value: *const T, _writes: bool) {}

#[inline(always)]
pub(in crate::sys) fn around_lock<R>(operation: impl FnOnce() -> R) -> R {
    operation()
}
