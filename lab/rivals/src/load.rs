//! The behaviour of items, and the signal of their end to the issuer.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

pub(crate) use testkit::burn;

/// Does a fixed amount of work: this many multiplications. Each depends on the one before and takes about a nanosecond.
pub(crate) fn work(steps: u32, seed: u64) -> u64 {
    (0..steps).fold(black_box(seed), |value, _| value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7))
}

/// An item that captures 32 bytes and only counts itself.
pub(crate) fn no_op(seed: u64, latch: &'static Latch) -> impl Fn() + Send + Sync + 'static {
    let captured = [seed; 3];
    of_32_bytes(move || {
        black_box(captured);
        latch.count_down();
    })
}

/// Returns the item, and does not compile unless the item's captures have 32 bytes. All items whose cost is compared
/// have captures of this size, because some rivals do not even allocate for an item without captures.
pub(crate) fn of_32_bytes<F>(item: F) -> F {
    const { assert!(size_of::<F>() == 32 || cfg!(not(target_pointer_width = "64"))) };
    item
}

/// A latch, which opens when it has been counted down to zero. One thread waits at a time.
///
/// A latch exists until the process ends. So items that capture it need no reference counting.
pub(crate) struct Latch {
    left: AtomicUsize,
    waiter: Mutex<Option<Thread>>,
}

impl Latch {
    pub(crate) fn new(count: usize) -> &'static Self {
        Box::leak(Box::new(Self { left: AtomicUsize::new(count), waiter: Mutex::new(None) }))
    }

    /// Closes the latch again. No thread may be counting or waiting.
    pub(crate) fn reset(&self, count: usize) {
        self.left.store(count, Ordering::Release);
    }

    /// Adds to the count that has to reach zero. No thread may be waiting.
    pub(crate) fn add(&self, more: usize) {
        self.left.fetch_add(more, Ordering::AcqRel);
    }

    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    pub(crate) fn count_down(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake();
        }
    }

    /// Wakes the waiter. The waiter registers its handle and then checks the count. So either this function finds the
    /// handle, or the waiter sees the count of zero and needs no wake-up. A late caller may wake the waiter of the
    /// latch's next use. That waiter then registers again.
    fn wake(&self) {
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiter.inspect(Thread::unpark);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.left() == 0
    }

    pub(crate) fn wait(&self) {
        while !self.is_open() {
            *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
            // The loop registers again after each wake-up, because a late caller may have taken the handle.
            if !self.is_open() {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::{Latch, Ordering};

    #[test]
    fn a_latch_opens_when_all_have_counted_and_can_be_closed_again() {
        let latch = Latch::new(2);
        thread::spawn(|| (0..2).for_each(|_| latch.count_down()));
        latch.wait();
        latch.reset(1);
        assert!(!latch.is_open());
    }

    #[test]
    fn a_late_wake_up_does_not_lose_the_next_waiter() {
        let latch = Latch::new(1);
        // This is the state when the last item of one use is preempted: it has decremented the count and not yet called
        // `wake`.
        latch.left.fetch_sub(1, Ordering::AcqRel);
        latch.wait();
        latch.reset(1);
        let waiter = thread::spawn(|| latch.wait());
        let has_name = || latch.waiter.lock().unwrap().is_some();
        let await_name = || {
            (0..10_000).any(|_| {
                has_name() || {
                    thread::sleep(Duration::from_millis(1));
                    false
                }
            })
        };
        assert!(await_name());
        latch.wake();
        assert!(await_name(), "the waiter registers again");
        latch.count_down();
        waiter.join().unwrap();
    }
}
