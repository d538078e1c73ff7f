//! One bit for each pod of a class. There are two sets: pods that have room, and pods that have excess items.
//!
//! A bit is a hint, but no bit stays wrong for long. Two handshakes see to that:
//!
//! * **Offer against room.** A thread of a pod sets the pod's bit in one set, fences, and reads the other set.
//!   Without the fences each of two threads could miss the other one's bit:
//!   * issuer: sets the excess bit of its pod; reads the room bits: none is set;
//!   * worker: sets the room bit of its pod; reads the excess bits: none is set.
//! * **Set against clear.** A thread that finds a bit wrong clears it, fences, and checks again, to set it if it is
//!   right by now. A thread that makes the bit right fences, and then reads the bit, to set it if it is clear.
//!   Without the fences the bit could stay clear:
//!   * clearing thread: clears the bit; checks the pool: the bit would be wrong;
//!   * other thread: changes the pool; reads the bit: it is set, so this thread does not set it.
//!
//! Commonly a bit is right already, and setting it costs one load.

use crossbeam_utils::CachePadded;

use crate::sys::sync::{AtomicU64, Ordering, fence};

const WORD: usize = u64::BITS as usize;

/// See the module.
#[derive(Debug)]
pub(crate) struct PodBits(CachePadded<Box<[AtomicU64]>>);

impl PodBits {
    pub(crate) fn new(pods: usize, set: bool) -> Self {
        let bits = if set { u64::MAX } else { 0 };
        let words = (0..pods.div_ceil(WORD)).map(|_| AtomicU64::new(bits));
        Self(CachePadded::new(words.collect()))
    }

    /// Returns the bits of 64 pods.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Sets the bit of a pod. The caller has fenced since it made the bit right.
    #[inline]
    pub(crate) fn set(&self, pod: usize) {
        let (word, bit) = (&self.0[pod / WORD], 1 << (pod % WORD));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
            fence(Ordering::SeqCst); // with this same fence of a thread that sets a bit of the other set
        }
    }

    /// Clears the bit of a pod. The caller then checks again whether the bit is to be set.
    pub(crate) fn clear(&self, pod: usize) {
        let (word, bit) = (&self.0[pod / WORD], 1_u64 << (pod % WORD));
        word.fetch_and(!bit, Ordering::AcqRel);
        fence(Ordering::SeqCst); // with the fence before the call of `set`
    }
}
