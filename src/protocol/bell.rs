//! Does the manager sleep, and was it rung for?
//!
//! Whoever rings has written before what is to be seen. Either the manager rests already: then the one ring that ends
//! the rest wakes it. Or it rests later: then it finds that it was rung for, and does not. The order of these steps, on one
//! word, is all that decides, so each is a read-modify-write; a ring releases what was written before it, and whatever
//! ends a rest, or prevents it, acquires that.

use crate::sys::sync::{AtomicU64, Ordering};

const AWAKE: u64 = 0;
const RESTS: u64 = 1;
const RUNG: u64 = 2;

/// One of: the manager is awake; it sleeps, or is about to; it was rung for since it last looked.
#[derive(Debug)]
pub(crate) struct BellCell(AtomicU64);

impl BellCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(AWAKE))
    }

    /// True if the manager is to be woken.
    pub(crate) fn ring(&self) -> bool {
        self.0.swap(RUNG, Ordering::AcqRel) == RESTS
    }

    /// By the manager: may it sleep? What it needs to be woken is written before.
    pub(crate) fn rest(&self) -> bool {
        self.0.compare_exchange(AWAKE, RESTS, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// By the manager, after it has slept, or was told not to: it is going to look at everything.
    pub(crate) fn awake(&self) {
        self.0.swap(AWAKE, Ordering::Acquire);
    }
}
