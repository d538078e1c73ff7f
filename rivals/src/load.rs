//! What items do, and how the issuer learns that they have.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

#[path = "../../examples/support/burn.rs"]
mod burn;

pub(crate) use burn::burn;

/// A fixed amount of work: so many multiplications, each of which needs the one before, of some nanosecond.
pub(crate) fn work(steps: u32, seed: u64) -> u64 {
    (0..steps).fold(black_box(seed), |value, _| value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7))
}

/// An item that captures 32 bytes and does nothing with them, but that it counts.
pub(crate) fn no_op(seed: u64, latch: &'static Latch) -> impl Fn() + Send + Sync + 'static {
    let captured = [seed; 3];
    of_32_bytes(move || {
        black_box(captured);
        latch.count_down();
    })
}

/// Takes only what captures as much as all items do whose cost is compared: one that captures nothing is not even allocated
/// by some.
pub(crate) fn of_32_bytes<F>(item: F) -> F {
    const { assert!(size_of::<F>() == 32 || cfg!(not(target_pointer_width = "64"))) };
    item
}

/// Opens when it was counted down to zero. One thread waits at a time.
///
/// It lives as long as the process, so that an item that captures it counts no references.
pub(crate) struct Latch {
    left: AtomicUsize,
    waiter: Mutex<Option<Thread>>,
}

impl Latch {
    pub(crate) fn new(count: usize) -> &'static Self {
        Box::leak(Box::new(Self { left: AtomicUsize::new(count), waiter: Mutex::new(None) }))
    }

    /// Closes it again. Nobody counts or waits now.
    pub(crate) fn reset(&self, count: usize) {
        self.left.store(count, Ordering::Release);
    }

    /// It is open only when these have been counted, too. Nobody waits now.
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

    /// The waiter leaves its name and then looks at the count, so it was either left in time or is not needed. Whoever is
    /// late wakes up one who waits for the next time, and leaves its name anew.
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
            // Again after each wake-up: one who is late may have taken the name.
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
    fn who_wakes_too_late_does_not_take_the_name_from_the_next_one() {
        let latch = Latch::new(1);
        // The last item of one time is preempted between the two parts of its counting.
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
        assert!(await_name(), "it leaves its name again");
        latch.count_down();
        waiter.join().unwrap();
    }
}
