//! A set of pods (groups of CPUs, each with its own pool), with one bit for each pod of a class. A class has two such
//! sets: one of the pods that have room, and one of the pods that have excess items.
//!
//! A bit is a hint, but no bit stays wrong for long. Two handshakes ensure that a wrong bit is soon corrected:
//!
//! * **Offer against room.** A thread of a pod sets the pod's bit in one set, issues a fence, and reads the other set.
//!   Without the fences, two threads could each miss the other thread's bit:
//!   * issuer: sets the excess bit of its pod; reads the room bits: none is set;
//!   * worker: sets the room bit of its pod; reads the excess bits: none is set.
//! * **Set against clear.** If a thread finds that a set bit should be clear, it clears the bit, issues a fence, and
//!   checks the pool again. If the bit should be set after all, the clearing thread sets it again. Another thread may
//!   at the same time change the pool so that the bit should be set. That thread then issues a fence, reads the bit,
//!   and sets the bit if it is clear. Without the fences, the bit could stay clear:
//!   * clearing thread: clears the bit; checks the pool: the bit should be clear;
//!   * other thread: changes the pool; reads the bit: it is still set, so this thread does not set it.
//!
//! Usually the bit is set already, so a call of `set` costs one load.

use crossbeam_utils::CachePadded;

use crate::sys::sync::{AtomicU64, Ordering, fence};

const WORD: usize = u64::BITS as usize;

/// A set of pods. See the module. All pods read the words, so each word has a cache line of its own.
#[derive(Debug)]
pub(crate) struct PodBits(Box<[CachePadded<AtomicU64>]>);

impl PodBits {
    pub(crate) fn new(pods: usize, set: bool) -> Self {
        let bits = if set { u64::MAX } else { 0 };
        let words = (0..pods.div_ceil(WORD)).map(|_| CachePadded::new(AtomicU64::new(bits)));
        Self(words.collect())
    }

    /// Returns the bits of 64 pods. The first of these pods has the number `64 * at`.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Sets the bit of a pod. The caller has changed the pool so that the bit should be set, and has issued a fence
    /// since then.
    #[inline]
    pub(crate) fn set(&self, pod: usize) {
        set(&self.0[pod / WORD], pod % WORD);
    }

    /// Clears the bit of a pod. The caller then checks again whether the bit should be set.
    pub(crate) fn clear(&self, pod: usize) {
        clear(&self.0[pod / WORD], pod % WORD);
    }
}

/// Sets a bit of a word. The caller fulfils the same conditions as a caller of [`PodBits::set`].
#[inline]
pub(super) fn set(word: &AtomicU64, bit: usize) {
    let bit = 1 << bit;
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::AcqRel);
        fence(Ordering::SeqCst); // pairs with this fence in a thread that sets a bit of the other set
    }
}

/// Clears a bit of a word. The caller fulfils the same conditions as a caller of [`PodBits::clear`].
pub(super) fn clear(word: &AtomicU64, bit: usize) {
    word.fetch_and(!(1_u64 << bit), Ordering::AcqRel);
    fence(Ordering::SeqCst); // pairs with the fence before the call of `set`
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// If a word shared its cache line, each change of a bit would also remove the other data in this line from the
    /// caches of all CPUs.
    #[test]
    fn no_two_words_share_a_cache_line() {
        let sets = [PodBits::new(65, true), PodBits::new(65, false)];
        let words = sets.iter().flat_map(|set| set.0.iter());
        let mut lines: Vec<_> = words.map(|word| (&raw const **word).addr() / 64).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 4);
        assert!(sets.iter().flat_map(|set| set.0.iter()).all(|word| (&raw const **word).addr() % 64 == 0));
    }
}
