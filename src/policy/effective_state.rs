//! The effective state of a queue: the requests of its users and of its executor, and the limit and intake that follow
//! from these requests.
//!
//! Each queue has one plain struct of requests, under a lock. The queue's limiters hold only the limit and the intake
//! that follow from the requests. When a thread makes another limiter, it finds the requests in the struct. When a
//! thread withdraws one of several requests, it finds the remaining requests in the struct, too.

#![forbid(unsafe_code)]

use super::admission::Intake;

/// The settings that users have requested for a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedSettings {
    /// The limit that applies while the queue is not frozen.
    pub(crate) max_active: usize,
    /// The number of drains of the queue that are under way.
    pub(crate) drains: usize,
    /// The number of threads that at present check whether the queue is empty, without a drain.
    pub(crate) looks: usize,
    pub(crate) end: End,
}

/// Whether a queue is being destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    No,
    /// The destruction was requested. The request cannot be withdrawn.
    Begun,
    /// The destruction was requested, and the items that have not begun are given up. From now on, even the queue's own
    /// items must not submit.
    Now,
    /// The destruction was requested, and after that a thread found the queue empty.
    Done,
}

/// The stage of an executor's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// The executor accepts work.
    Open,
    /// The executor is being shut down, and finishes the accepted items.
    Finishing,
    /// The executor runs no item any more.
    Shut,
}

/// Everything that determines a queue's limit and intake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectiveState {
    pub(crate) requested: RequestedSettings,
    /// Whether the queue is freezable and its executor is frozen.
    pub(crate) frozen: bool,
    pub(crate) stage: Stage,
}

/// The origin of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// A thread that runs no item of the executor.
    Outsider,
    /// An item of the same queue.
    OwnItem,
    /// An item of another queue of the executor.
    OtherItem,
}

/// Whether a submission is accepted.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The submission is accepted without conditions.
    Freely,
    /// The submission is accepted, and its item is counted, because a thread checks whether the queue is empty.
    Counted,
    /// The submission is accepted because it continues work in flight.
    Chained,
    Draining,
    Destroyed,
    ShutDown,
}

impl RequestedSettings {
    pub(crate) const fn new(max_active: usize) -> Self {
        Self { max_active, drains: 0, looks: 0, end: End::No }
    }
}

impl EffectiveState {
    /// Returns the limit of each of the queue's limiters. The limit is zero if the queue is frozen, so that no item
    /// starts.
    pub(crate) const fn max(self) -> usize {
        if self.frozen { 0 } else { self.requested.max_active }
    }

    /// Returns the intake of each of the queue's limiters.
    pub(crate) fn intake(self) -> Intake {
        let answers = [Caller::Outsider, Caller::OwnItem].map(|caller| self.answer(caller));
        match answers {
            [Answer::Freely, _] => Intake::Open,
            [Answer::Counted, _] => Intake::Counted,
            [_, Answer::Chained] => Intake::Draining,
            _ => Intake::Shut,
        }
    }

    /// Returns whether the queue refuses threads that run no item of the executor. A mere *look* (a check whether the
    /// queue is empty) is no reason to refuse a submission.
    pub(crate) fn refuses_outsiders(self) -> bool {
        matches!(self.intake(), Intake::Draining | Intake::Shut)
    }

    /// Returns whether the queue accepts a submission of `caller`.
    pub(crate) fn answer(self, caller: Caller) -> Answer {
        let RequestedSettings { drains, looks, end, .. } = self.requested;
        let own = caller == Caller::OwnItem;
        if matches!(end, End::Now | End::Done) || end == End::Begun && !own {
            Answer::Destroyed
        } else if self.stage == Stage::Shut || self.stage == Stage::Finishing && caller == Caller::Outsider {
            Answer::ShutDown
        } else if drains > 0 && !own {
            Answer::Draining
        } else if drains > 0 || end == End::Begun || self.stage == Stage::Finishing {
            Answer::Chained
        } else if looks > 0 {
            Answer::Counted
        } else {
            Answer::Freely
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective_state(drains: usize, end: End, stage: Stage) -> EffectiveState {
        let requested = RequestedSettings { max_active: 3, drains, looks: 0, end };
        EffectiveState { requested, frozen: false, stage }
    }

    /// spec: F7.2: a frozen queue has no slots, and gets the slots of its limit when it is thawed.
    #[test]
    fn a_frozen_queue_has_no_slots_and_keeps_its_limit() {
        let usual = effective_state(0, End::No, Stage::Open);
        let frozen = EffectiveState { frozen: true, ..usual };
        assert_eq!((frozen.max(), frozen.intake()), (0, Intake::Open), "it accepts items");
        let changed = EffectiveState { requested: RequestedSettings::new(7), ..frozen };
        assert_eq!(changed.max(), 0, "a new limit does not thaw it");
        assert_eq!(EffectiveState { frozen: false, ..changed }.max(), 7);
    }

    /// spec: F1.7: a *look* (a check whether the queue is empty) does not change which items are refused.
    #[test]
    fn a_look_only_counts_items() {
        let table = [
            (effective_state(0, End::No, Stage::Open), Intake::Counted),
            (effective_state(1, End::No, Stage::Open), Intake::Draining),
            (effective_state(0, End::No, Stage::Finishing), Intake::Draining),
            (effective_state(0, End::Begun, Stage::Open), Intake::Draining),
            (effective_state(0, End::Now, Stage::Open), Intake::Shut),
            (effective_state(0, End::Done, Stage::Shut), Intake::Shut),
        ];
        for (usual, intake) in table {
            let requested = RequestedSettings { looks: 1, ..usual.requested };
            let looked_at = EffectiveState { requested, ..usual };
            for caller in [Caller::Outsider, Caller::OwnItem, Caller::OtherItem] {
                let answer = match usual.answer(caller) {
                    Answer::Freely => Answer::Counted,
                    answer => answer,
                };
                assert_eq!(looked_at.answer(caller), answer, "{usual:?}, {caller:?}");
            }
            assert_eq!(looked_at.intake(), intake, "{usual:?}");
            assert_eq!(looked_at.refuses_outsiders(), usual.refuses_outsiders(), "{usual:?}");
            assert_eq!(looked_at.refuses_outsiders(), intake != Intake::Counted, "{usual:?}");
        }
    }

    /// spec: F4.1 (only chained queueing, others are refused), E5.2 (refuses new work, runs what was accepted), I3.4
    #[test]
    fn which_callers_may_queue() {
        use Answer::{Chained, Destroyed, Draining, Freely, ShutDown};
        let table = [
            // Each row has the effective state, the answers to outsiders, own items and other items, and the intake.
            (effective_state(0, End::No, Stage::Open), [Freely, Freely, Freely], Intake::Open),
            (effective_state(1, End::No, Stage::Open), [Draining, Chained, Draining], Intake::Draining),
            (effective_state(2, End::No, Stage::Finishing), [ShutDown, Chained, Draining], Intake::Draining),
            (effective_state(0, End::No, Stage::Finishing), [ShutDown, Chained, Chained], Intake::Draining),
            (effective_state(1, End::No, Stage::Shut), [ShutDown, ShutDown, ShutDown], Intake::Shut),
            (effective_state(1, End::Begun, Stage::Open), [Destroyed, Chained, Destroyed], Intake::Draining),
            (effective_state(0, End::Begun, Stage::Shut), [Destroyed, ShutDown, Destroyed], Intake::Shut),
            (effective_state(1, End::Now, Stage::Open), [Destroyed, Destroyed, Destroyed], Intake::Shut),
            (effective_state(0, End::Done, Stage::Open), [Destroyed, Destroyed, Destroyed], Intake::Shut),
        ];
        for (effective_state, answers, intake) in table {
            let callers = [Caller::Outsider, Caller::OwnItem, Caller::OtherItem];
            assert_eq!(callers.map(|caller| effective_state.answer(caller)), answers, "{effective_state:?}");
            assert_eq!(effective_state.intake(), intake, "{effective_state:?}");
        }
    }
}
