//! How a queue stands: what its users, and its executor, have asked of it, and what follows for its gates.
//!
//! One plain struct per queue, under a lock. Gates only hold what follows from it, so that whoever makes a gate later,
//! or takes one wish of several back, finds the others here.

#![forbid(unsafe_code)]

use super::admission::Door;

/// What a queue was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// The limit that it has when nothing holds it back.
    pub(crate) max_active: usize,
}

/// What an executor is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It accepts work.
    Open,
}

/// Everything that decides on a queue's limit and door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) wishes: Wishes,
    /// It is freezable, and its executor is frozen.
    pub(crate) frozen: bool,
    pub(crate) stage: Stage,
}

impl Wishes {
    pub(crate) const fn new(max_active: usize) -> Self {
        Self { max_active }
    }
}

impl Standing {
    /// The limit of each of its gates. A frozen one starts nothing.
    pub(crate) const fn max(self) -> usize {
        if self.frozen { 0 } else { self.wishes.max_active }
    }

    /// The door of each of its gates.
    pub(crate) const fn door(self) -> Door {
        match self.stage {
            Stage::Open => Door::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(max_active: usize) -> Standing {
        Standing { wishes: Wishes::new(max_active), frozen: false, stage: Stage::Open }
    }

    /// spec: F7 (freezable queues start nothing new; thaw restores limits)
    #[test]
    fn a_frozen_queue_has_no_slots_and_keeps_its_limit() {
        let usual = standing(3);
        let frozen = Standing { frozen: true, ..usual };
        assert_eq!((frozen.max(), frozen.door()), (0, Door::Open), "it accepts items");
        let changed = Standing { wishes: Wishes::new(7), ..frozen };
        assert_eq!(changed.max(), 0, "a new limit does not thaw it");
        assert_eq!(Standing { frozen: false, ..changed }.max(), 7);
    }
}
