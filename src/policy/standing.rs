//! How a queue stands: what its users, and its executor, have asked of it, and what follows for its gates.
//!
//! One plain struct per queue, under a lock. Gates only hold what follows from it, so that whoever makes a gate later,
//! or takes one wish of several back, finds the others here.

#![forbid(unsafe_code)]

use super::admission::Door;

/// What was asked of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The limit that it has when nothing holds it back.
    pub(crate) max_active: usize,
}

impl Standing {
    pub(crate) fn new(max_active: usize) -> Self {
        Self { max_active }
    }

    /// The limit of each of its gates.
    pub(crate) fn max(self) -> usize {
        self.max_active
    }

    /// The door of each of its gates.
    pub(crate) fn door(self) -> Door {
        Door::Open
    }
}
