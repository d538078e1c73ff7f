//! loom models of the protocols, one file for each protocol.
//!
//! A model calls the cells of this layer and the functions of policy in the order in which the engine calls them; it
//! has no rules of its own. It names the mutants in `tests/mutants/` that must turn it red. A model that stays green
//! under each change shows nothing.
//!
//! Run them with `make loom`, or some of them with `make loom ONLY=limiter`. A model explores all executions, or those
//! with at most as many preemptions as it says. `LOOM_MAX_PREEMPTIONS` sets that number for all models.

#![allow(
    unsafe_code,
    reason = "loom's cells hand out pointers, and `Owned` is freed while others refer to it"
)]

mod abandon;
mod alive;
mod attention;
mod bell;
mod block;
mod close;
mod counters;
mod current_item;
mod detector;
mod drain;
mod exchange;
mod flush;
mod given_up;
mod global_cache;
mod item;
mod limit;
mod limiter;
mod one_shot;
mod pool;
mod references;
mod rescue;
mod route;
mod running;
mod scope;
mod shut;
mod sideline;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod stacks;
mod threads;
mod timing;
mod watch;
mod worker;

use std::mem::ManuallyDrop;
use std::ops::Deref;

use loom::cell::UnsafeCell;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering};

use crate::sys::sync::AtomicU64;

/// Explores every execution of a model, unless the environment limits the preemptions.
fn check_all(model: impl Fn() + Send + Sync + 'static) {
    loom::model::Builder::new().check(model);
}

/// Explores the executions of a model that have at most so many preemptions, unless the environment says how many.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// A list of items that are all alike.
///
/// It is one counter and not a mutex, because a mutex would order the threads and so hide a missing fence. The
/// orderings are those that the real lists promise, and no more. A thread that pops an item sees what was written
/// before the item was pushed. A list may look empty, or full, to a thread that no ordering puts after the push or
/// the pop.
#[derive(Debug)]
struct List(AtomicU64);

impl List {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns how many items were on the list before.
    fn push(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Release)
    }

    fn has_work(&self) -> bool {
        self.len() > 0
    }

    fn len(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes an item. Returns false if the list looks empty.
    fn pop(&self) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        while seen > 0 {
            match self.0.compare_exchange(seen, seen - 1, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(actual) => seen = actual,
            }
        }
        false
    }
}

/// Plain data. loom reports each pair of unordered accesses, of which one is a write.
#[derive(Debug)]
struct Data<T>(UnsafeCell<T>);

impl<T> Data<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: loom has just checked that no write is concurrent with this read, else it panics.
        self.0.with(|data| f(unsafe { &*data }))
    }

    fn write<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: loom has just checked that no access is concurrent with this one, else it panics.
        self.0.with_mut(|data| f(unsafe { &mut *data }))
    }
}

/// An event that one thread waits for.
struct Event {
    happened: AtomicBool,
    bell: Notify,
}

impl Event {
    fn new() -> Self {
        Self { happened: AtomicBool::new(false), bell: Notify::new() }
    }

    fn set(&self) {
        self.happened.store(true, Ordering::Release);
        self.bell.notify();
    }

    fn wait(&self) {
        while !self.happened.load(Ordering::Acquire) {
            self.bell.wait();
        }
    }
}

/// A value that one of its users frees. The memory stays until the model ends, so loom reports a use after the free,
/// and the use does no harm.
#[derive(Debug)]
struct Owned<T> {
    value: std::cell::UnsafeCell<ManuallyDrop<T>>,
    freed: Data<bool>,
}

// SAFETY: as for a plain `T`. loom checks that `free` excludes other users, through `freed` and through the cells of
// `T`.
unsafe impl<T: Send + Sync> Sync for Owned<T> {}

impl<T> Owned<T> {
    fn new(value: T) -> Self {
        Self { value: std::cell::UnsafeCell::new(ManuallyDrop::new(value)), freed: Data::new(false) }
    }

    /// Frees the value. The caller must be ordered after all other users, and be the only one that frees it.
    fn free(&self) {
        self.freed.write(|freed| assert!(!std::mem::replace(freed, true), "freed twice"));
        // SAFETY: the line above makes sure that this happens once. loom runs one thread at a time, so no reference
        // is in use at this moment.
        unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
    }

    fn is_freed(&self) -> bool {
        self.freed.read(|freed| *freed)
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        assert!(!self.is_freed(), "used after it was freed");
        // SAFETY: the line above has checked that the value was not dropped.
        unsafe { &*self.value.get() }
    }
}
