//! loom models of the protocols, one file for each protocol.
//!
//! A model calls the cells of this layer and the functions of the policy layer in the order in which the engine calls
//! them. Models have no rules of their own. Each file names the mutants in `tests/mutants/` under which its models must
//! be red (must fail). A model that passes under every mutant shows nothing.
//!
//! `make loom` runs all models, and `make loom ONLY=limiter` runs some of them. Each model explores either all
//! executions or only the executions with a limited number of preemptions. `LOOM_MAX_PREEMPTIONS` sets this limit for
//! all models.

#![allow(
    unsafe_code,
    reason = "loom's cells hand out pointers, and `Owned` is freed while others refer to it"
)]

mod abandon;
mod alive;
mod attention;
mod backlog;
mod bell;
mod block;
mod bytes;
mod cancel;
mod close;
mod counters;
mod crowded;
mod current_item;
mod detector;
mod drain;
mod exchange;
mod flush;
mod forks;
mod given_up;
mod global_cache;
mod item;
mod limit;
mod limiter;
mod one_shot;
mod places;
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

/// Explores the executions of a model that have at most the given number of preemptions, unless the environment sets
/// another limit.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// A list of items that are all equal.
///
/// The list is a counter instead of a mutex, because a mutex would order the threads and so hide a missing fence. The
/// orderings of this list promise exactly as much as the orderings of the real lists. A thread that pops an item sees
/// what was written before the item was pushed. The list may look empty to a thread that is not ordered after a push.
/// The list may still seem to have an item to a thread that is not ordered after the pop of that item.
#[derive(Debug)]
struct List(AtomicU64);

impl List {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Pushes an item, and returns the number of items that were on the list before.
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

/// Plain data. loom reports two accesses to this data if they are not ordered and at least one of them is a write.
#[derive(Debug)]
struct Data<T>(UnsafeCell<T>);

impl<T> Data<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: loom has just checked that no write is concurrent with this read, and panics otherwise.
        self.0.with(|data| f(unsafe { &*data }))
    }

    fn write<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: loom has just checked that no other access is concurrent with this write, and panics otherwise.
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

    fn has_happened(&self) -> bool {
        self.happened.load(Ordering::Acquire)
    }

    fn wait(&self) {
        while !self.has_happened() {
            self.bell.wait();
        }
    }
}

/// A value that one of its users frees. The memory remains valid until the model ends. So a use after the free does no
/// harm, and makes the model fail.
#[derive(Debug)]
struct Owned<T> {
    value: std::cell::UnsafeCell<ManuallyDrop<T>>,
    freed: Data<bool>,
}

// SAFETY: sharing an `Owned` is as safe as sharing a plain `T`. loom checks that `free` excludes other users, through
// `freed` and through the cells of `T`.
unsafe impl<T: Send + Sync> Sync for Owned<T> {}

impl<T> Owned<T> {
    fn new(value: T) -> Self {
        Self { value: std::cell::UnsafeCell::new(ManuallyDrop::new(value)), freed: Data::new(false) }
    }

    /// Frees the value. The caller must be the only thread that frees the value. All uses by other threads must be
    /// ordered before the call.
    fn free(&self) {
        self.freed.write(|freed| assert!(!std::mem::replace(freed, true), "freed twice"));
        // SAFETY: the line above ensures that the value is dropped only once. loom runs one thread at a time, so no
        // reference is in use at this moment.
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
