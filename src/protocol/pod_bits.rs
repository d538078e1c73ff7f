//! One bit for each pod of a class: who has room, who has too much.
//!
//! Bits are hints, but none is ever missing for long. There are two sets, and they meet as [`running`](super::running)'s
//! push and leave do:
//!
//! * **Offer against room.** Who has too much sets its bit in the one set, fences, and reads the other; who has room sets
//!   its bit in the other, fences, and reads the one. At least one of the two sees both.
//! * **Set against clear.** Who finds that a bit says what is not so clears it, fences, and looks once more, to set it
//!   again if it is so by now; who makes it so fences, and sets the bit if it finds it clear. At least one of the two
//!   sees what the other did.
//!
//! Commonly a bit says already what it should: then setting it is one load.

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

    /// The bits of 64 pods.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// The caller has fenced since it did what makes the bit true.
    #[inline]
    pub(crate) fn set(&self, pod: usize) {
        let (word, bit) = (&self.0[pod / WORD], 1 << (pod % WORD));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
            fence(Ordering::SeqCst); // with the fence of whoever sets its bit in the other set
        }
    }

    /// The caller looks once more whether it is so.
    pub(crate) fn clear(&self, pod: usize) {
        let (word, bit) = (&self.0[pod / WORD], 1_u64 << (pod % WORD));
        word.fetch_and(!bit, Ordering::AcqRel);
        fence(Ordering::SeqCst); // with the fence that the caller of `set` has behind it
    }
}
