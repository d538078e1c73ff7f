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
    /// So many drains of it are under way.
    pub(crate) drains: usize,
    pub(crate) end: End,
}

/// Is a queue being destroyed?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    No,
    /// It was asked for. There is no way back.
    Begun,
    /// It was found empty since.
    Done,
}

/// What an executor is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// It accepts work.
    Open,
    /// It is being shut down, and finishes what was accepted.
    Finishing,
    /// It runs nothing any more.
    Shut,
}

/// Everything that decides on a queue's limit and door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) wishes: Wishes,
    /// It is freezable, and its executor is frozen.
    pub(crate) frozen: bool,
    pub(crate) stage: Stage,
}

/// Who wants to queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    Outsider,
    /// An item of the same queue.
    OwnItem,
    /// An item of another queue of the executor.
    OtherItem,
}

/// May it?
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// As everybody.
    Freely,
    /// It continues work that is in flight.
    Chained,
    Draining,
    Destroyed,
    ShutDown,
}

impl Wishes {
    pub(crate) const fn new(max_active: usize) -> Self {
        Self { max_active, drains: 0, end: End::No }
    }
}

impl Standing {
    /// The limit of each of its gates. A frozen one starts nothing.
    pub(crate) const fn max(self) -> usize {
        if self.frozen { 0 } else { self.wishes.max_active }
    }

    /// The door of each of its gates.
    pub(crate) fn door(self) -> Door {
        let answers = [Caller::Outsider, Caller::OwnItem].map(|caller| self.answer(caller));
        match answers {
            [Answer::Freely, _] => Door::Open,
            [_, Answer::Chained] => Door::Chained,
            _ => Door::Shut,
        }
    }

    /// What a caller is answered.
    pub(crate) fn answer(self, caller: Caller) -> Answer {
        let Wishes { drains, end, .. } = self.wishes;
        let own = caller == Caller::OwnItem;
        if end == End::Done || end == End::Begun && !own {
            Answer::Destroyed
        } else if self.stage == Stage::Shut || self.stage == Stage::Finishing && caller == Caller::Outsider {
            Answer::ShutDown
        } else if drains > 0 && !own {
            Answer::Draining
        } else if drains > 0 || end == End::Begun || self.stage == Stage::Finishing {
            Answer::Chained
        } else {
            Answer::Freely
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(drains: usize, end: End, stage: Stage) -> Standing {
        let wishes = Wishes { max_active: 3, drains, end };
        Standing { wishes, frozen: false, stage }
    }

    /// spec: F7.2 (freezable queues start nothing new; thaw restores limits)
    #[test]
    fn a_frozen_queue_has_no_slots_and_keeps_its_limit() {
        let usual = standing(0, End::No, Stage::Open);
        let frozen = Standing { frozen: true, ..usual };
        assert_eq!((frozen.max(), frozen.door()), (0, Door::Open), "it accepts items");
        let changed = Standing { wishes: Wishes::new(7), ..frozen };
        assert_eq!(changed.max(), 0, "a new limit does not thaw it");
        assert_eq!(Standing { frozen: false, ..changed }.max(), 7);
    }

    /// spec: F4.1 (only chained queueing, others are refused), E5.2 (refuses new work, runs what was accepted)
    #[test]
    fn who_may_queue() {
        use Answer::{Chained, Destroyed, Draining, Freely, ShutDown};
        let table = [
            // How it stands, and what outsiders, own items and other items are answered.
            (standing(0, End::No, Stage::Open), [Freely, Freely, Freely], Door::Open),
            (standing(1, End::No, Stage::Open), [Draining, Chained, Draining], Door::Chained),
            (standing(2, End::No, Stage::Finishing), [ShutDown, Chained, Draining], Door::Chained),
            (standing(0, End::No, Stage::Finishing), [ShutDown, Chained, Chained], Door::Chained),
            (standing(1, End::No, Stage::Shut), [ShutDown, ShutDown, ShutDown], Door::Shut),
            (standing(1, End::Begun, Stage::Open), [Destroyed, Chained, Destroyed], Door::Chained),
            (standing(0, End::Begun, Stage::Shut), [Destroyed, ShutDown, Destroyed], Door::Shut),
            (standing(0, End::Done, Stage::Open), [Destroyed, Destroyed, Destroyed], Door::Shut),
        ];
        for (standing, answers, door) in table {
            let callers = [Caller::Outsider, Caller::OwnItem, Caller::OtherItem];
            assert_eq!(callers.map(|caller| standing.answer(caller)), answers, "{standing:?}");
            assert_eq!(standing.door(), door, "{standing:?}");
        }
    }
}
