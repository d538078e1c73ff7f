//! The set of those workers of a pool that may have forks. With this set, a worker without work finds forks that it can
//! take.
//!
//! A fork is a closure that lies on a list of the worker that has made it, until a worker takes it (see
//! [`engine::item::fork`](crate::engine::item::fork)). The bit of a worker is a hint, and several workers share a bit
//! if the pool has more than 64 workers. In each of the following handshakes, each of two threads issues a fence
//! between its write and its read. So at least one of the threads sees the other thread's write:
//!
//! * **A worker forks while another worker leaves the count.** The fences in [`set`](ForkBits::set) and
//!   [`RunningCell::look`] forbid these steps:
//!   * forking worker: puts a fork on its list; reads the running word: the pool is full, so this worker wakes no other
//!     worker;
//!   * other worker: leaves the count; reads the bits: none is set. So the fork waits for the worker that has made it,
//!     although a CPU is free.
//! * **A worker forks while another worker clears its bit.** The fences of [`pod_bits`] forbid these steps:
//!   * forking worker: puts a fork on its list; reads its bit, which is set, so it does not set the bit;
//!   * other worker: finds no fork; clears the bit. So a worker that leaves the count later does not see the fork.
//!
//! [`RunningCell::look`]: super::running::RunningCell::look

use crossbeam_utils::CachePadded;

use crate::policy::idle_set::WorkerId;
use crate::sys::sync::{AtomicU64, Ordering, fence};

use super::pod_bits;

/// The number of bits in the word of a [`ForkBits`].
const BITS: WorkerId = u64::BITS as WorkerId;

/// See the module. All workers of a pool read the word when they have nothing to do, so the word has a cache line of
/// its own.
#[derive(Debug)]
pub(crate) struct ForkBits(CachePadded<AtomicU64>);

impl ForkBits {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    /// Returns whether at least one worker of the pool may have forks.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns the index of the lowest bit that is set, if any bit is set.
    #[inline]
    pub(crate) fn first(&self) -> Option<WorkerId> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != 0).then(|| bits.trailing_zeros() as WorkerId)
    }

    /// Returns the numbers of the workers that share this bit, as far as these numbers are below `end`.
    pub(crate) fn workers_of(bit: WorkerId, end: usize) -> impl Iterator<Item = usize> {
        (bit as usize..end).step_by(BITS as usize)
    }

    /// Sets the bit of a worker that has put a fork on its list.
    #[inline]
    pub(crate) fn set(&self, worker: WorkerId) {
        fence(Ordering::SeqCst); // with `RunningCell::look`, and with `pod_bits::clear`
        pod_bits::set(&self.0, (worker % BITS) as usize);
    }

    /// Clears a bit, because the workers that share this bit were found to have no forks. Then calls `have_forks`,
    /// which checks these workers again, and sets the bit again if they have forks.
    #[cold]
    pub(crate) fn clear(&self, bit: WorkerId, have_forks: impl FnOnce() -> bool) {
        pod_bits::clear(&self.0, bit as usize);
        if have_forks() {
            pod_bits::set(&self.0, bit as usize);
        }
    }
}
