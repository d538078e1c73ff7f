//! When is a queue with several gates empty?
//!
//! The gates are looked at one after the other, and an item in one that was not looked at yet may put another one
//! into one that was, and end. Whoever drains lets nobody else in: he shuts the doors of all gates to outsiders first.
//! So it is enough to count what items put in while the doors are shut. The count is raised *after* the admission and
//! *before* the item that did it gives its slot up:
//!
//! * Seen raised before the first look, the admission is seen by that look (release, and acquire here).
//! * Not seen raised before, and all gates found empty, the item that did it was found gone; so the count was raised
//!   before that look, and the second look at it sees it changed.

use crate::sys::sync::{AtomicU64, Ordering};

use super::gate::GateCell;

/// What items have put into a queue while its doors were shut to others.
#[derive(Debug)]
pub(crate) struct ChainedCount(AtomicU64);

impl ChainedCount {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The calling item puts one in, by `admit`, if it may.
    #[cold]
    pub(crate) fn admit<A, E>(&self, admit: impl FnOnce() -> Result<A, E>) -> Result<A, E> {
        let admitted = admit()?;
        self.0.fetch_add(1, Ordering::Release);
        Ok(admitted)
    }

    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Was there a moment at which nothing was in flight in any of these gates? All that was done in them is seen then.
/// `chained`: the counts of all their queues together.
pub(crate) fn were_empty<'a>(
    chained: impl Fn() -> u64,
    mut gates: impl Iterator<Item = &'a GateCell>,
) -> bool {
    let before = chained();
    gates.all(GateCell::is_empty) && chained() == before
}
