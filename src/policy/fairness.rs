//! Decides which queue has the next turn when the entries of several queues wait for the workers of one pool.
//!
//! A *flow* is a queue with a weight, or the pool's worklist, which the queues without weights share. The rule is
//! start-time fair queueing. Each flow has a *tag*: the CPU time that the flow was charged for, divided by the flow's
//! weight. The next entry comes from the flow with the smallest tag. So flows that always have waiting entries share
//! the CPU time in proportion to their weights. The lengths of the flows' items and backlogs do not matter.
//!
//! * **Charges.** A flow is charged when one of its entries begins. The length of an item is not known at that time, so
//!   the charge is an estimate, which follows the flow's latest items. When the CPU time that the item has used is
//!   known, the charge is corrected. So in the end, each flow has paid for exactly the CPU time that it has used.
//!   Because a flow is charged before its item runs, the flow gets no turns for free when several workers begin its
//!   items at the same time.
//! * **Alone.** A flow that is alone takes no other flow's turn. If the items of a lone flow are known to be short,
//!   most of them are free, and need not be measured. Measuring costs a good part of a short item's time. Long items
//!   are measured, so the estimate is right when another flow arrives.
//! * **Arrivals.** The *floor* is the smallest tag of the waiting flows that are not fresh. If a flow without waiting
//!   entries gets an entry, and the flow's tag is not larger than the floor, the flow owes nothing and is *fresh*. The
//!   turn of a fresh flow comes before those of all other flows, but after those of earlier fresh flows. So the first
//!   entry of a fresh flow waits only until one item of the pool has ended. When a fresh flow has its turn, the flow's
//!   tag is raised to the floor if the tag is lower. So a flow cannot save up time for later. The floor at the flow's
//!   turn is used, and not the floor at the flow's arrival, because the latter may contain estimates of items that are
//!   still running. When the estimate of a running item is corrected, the floor may sink. After its turn, a flow is
//!   fresh again only when the floor has caught up with the flow's tag. So a flow whose tag the pool remembers does not
//!   starve other flows. A flow without a remembered tag is always fresh. So nothing bounds the number of turns that an
//!   endless series of new queues takes. If several workers run, the floor at a fresh flow's turn may contain estimates
//!   of other items, too. If such estimates turn out to be too large, the flow is not fresh again until the other flows
//!   have used the difference.
//! * **Debts.** When all entries of a flow have begun, the pool remembers the flow until the other flows have caught up
//!   with the flow's tag. So a queue that has only one entry at a time does not get a turn immediately for each entry.
//!   The pool remembers at most [`MOST_DEBTS`] such flows, because programs may make queues without end. If there are
//!   more, the pool forgets the smallest debts.
//! * **Idle pools.** If a worker finds no entry at all, no queue waits. The pool then forgives all debts.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The highest weight of a queue. The lowest weight is 1.
pub(crate) const MAX_WEIGHT: u32 = 10_000;

/// Returns whether a queue can have this weight.
pub(crate) fn is_weight(weight: u32) -> bool {
    (1..=MAX_WEIGHT).contains(&weight)
}

/// The weight of the worklist, and so of all queues without weights together.
pub(crate) const DEFAULT_WEIGHT: u32 = 100;

/// The estimate, in nanoseconds, for the items of a flow while none of its items has been measured.
const FIRST_ESTIMATE: u64 = 100_000;
/// An item is charged for at least this many nanoseconds, so that items that mostly sleep take turns, too.
const LEAST_CHARGE: u64 = 1_000;
/// Items of at least this many nanoseconds are measured even if there is no other flow. Measuring takes less than 5 %
/// of this time.
const SHORT: u64 = 20_000;
/// If a pool has only one flow, one in this many of the flow's short items is measured.
const SAMPLE: u64 = 32;
/// An estimate is at most this many nanoseconds. A longer item is charged for the rest when its CPU time is known.
const MOST_ESTIMATE: u64 = 100_000_000;

/// The highest number of flows without waiting entries that a pool remembers.
const MOST_DEBTS: usize = 4096;

/// The number of a flow within a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FlowId(u64);

impl FlowId {
    pub(crate) const WORKLIST: Self = Self(0);

    /// Returns the flow of the queue with this number. The numbers of queues begin at 1.
    pub(crate) fn of_queue(number: u64) -> Self {
        debug_assert!(number > 0);
        Self(number)
    }
}

/// A virtual time: CPU time in nanoseconds, divided by a weight, and multiplied by [`MAX_WEIGHT`].
type Tag = u128;

/// The expected length of a flow's items, in nanoseconds, estimated from its latest items. The value is 0 if no item of
/// the flow has been measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Estimate(u64);

impl Estimate {
    fn nanos(self) -> u64 {
        if self.0 == 0 { FIRST_ESTIMATE } else { self.0 }
    }

    /// Returns whether the items are known to be short.
    fn is_short(self) -> bool {
        self.nanos() < SHORT
    }

    /// Returns the estimate after one more item has used this much CPU time.
    #[must_use]
    fn follows(self, used: u64) -> Self {
        let used = used.clamp(LEAST_CHARGE, MOST_ESTIMATE);
        Self(if self.0 == 0 { used } else { (3 * self.0 + used) / 4 })
    }

    pub(crate) const fn into_bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(nanos: u64) -> Self {
        Self(nanos)
    }
}

/// The turn of an item that has begun. The item's worker ends the turn when the CPU time that the item has used is
/// known.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    flow: FlowId,
    weight: u32,
    charged: u64,
    /// The flow's tag after the charge.
    tag: Tag,
    /// The number of times that debts had been forgiven before the turn.
    period: u64,
}

/// The flows of one pool. The pool has no flows while no weighted queue has waiting entries or debts.
#[derive(Clone, Default, Debug)]
pub(crate) struct Fairness {
    /// The flows that have waiting entries or debts.
    flows: BTreeMap<FlowId, Flow>,
    /// The flows that have waiting entries, in the order of their turns.
    order: BTreeSet<Place>,
    /// The flows that have debts and no waiting entries.
    debtors: BTreeSet<(Tag, FlowId)>,
    /// The largest tag that a flow had when one of its items began.
    now: Tag,
    /// The number of times that a flow has got a place in the order.
    places: u64,
    /// The number of times that debts were forgiven.
    period: u64,
    /// The number of items since the last measured item. These items were not charged.
    free: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The flow's tag. The tag of a fresh flow is the tag from before its arrival, or 0 if the pool had no record of
    /// the flow.
    tag: Tag,
    /// The flow's place in the order, or `None` if the flow has no waiting entries.
    place: Option<Place>,
}

/// The place of a flow in the order. Fresh flows come before all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// Whether the flow is not fresh.
    has_waited: bool,
    /// The flow's tag, or 0 if the flow is fresh. So fresh flows have the order of their arrival.
    tag: Tag,
    number: u64,
    flow: FlowId,
}

impl Place {
    /// The place after those of all fresh flows, and before all other places.
    const AFTER_FRESH: Self = Self { has_waited: true, tag: 0, number: 0, flow: FlowId::WORKLIST };
}

impl Flow {
    fn is_fresh(&self) -> bool {
        self.place.is_some_and(|place| !place.has_waited)
    }
}

impl Turn {
    /// Returns the estimate after the item of this turn has used this much CPU time.
    pub(crate) fn teaches(&self, estimate: Estimate, used: Duration) -> Estimate {
        estimate.follows(nanos(used))
    }
}

impl Fairness {
    /// Returns whether a weighted queue has waiting entries or debts. If no weighted queue has waiting entries or
    /// debts, the workers take only entries of the worklist.
    pub(crate) fn is_in_force(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Notes that a flow has a waiting entry. Does nothing if the flow had a waiting entry before.
    pub(crate) fn arrives(&mut self, flow: FlowId) {
        let known = self.flows.get(&flow).copied();
        if known.is_some_and(|known| known.place.is_some()) {
            return;
        }
        let own = known.map_or(0, |known| known.tag);
        self.debtors.remove(&(own, flow));
        self.put(flow, own, own > self.floor());
    }

    /// Notes that a flow has no more waiting entries.
    pub(crate) fn leaves(&mut self, flow: FlowId) {
        let Some(known) = self.flows.get(&flow).copied() else { return };
        let Some(place) = known.place else { return };
        let tag = self.tag_at_turn(known);
        self.order.remove(&place);
        self.owes(flow, tag);
    }

    /// Returns the flows with waiting entries, in the order of their turns.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = FlowId> + '_ {
        self.order.iter().map(|place| place.flow)
    }

    /// Charges a flow for an item that begins. Returns `None` if the item is free.
    pub(crate) fn begins(&mut self, flow: FlowId, weight: u32, estimate: Estimate) -> Option<Turn> {
        let known = self.flows.get(&flow).copied();
        let own = known.map_or_else(|| self.floor(), |known| self.tag_at_turn(known));
        self.now = self.now.max(own);
        let is_alone = known.is_some() && self.flows.len() == 1;
        if is_alone && estimate.is_short() && self.free < SAMPLE - 1 {
            self.free += 1;
            if known.is_some_and(|known| known.is_fresh()) {
                // The flow has had its turn, so it is not fresh any more.
                self.moves(flow, own, own);
            }
            self.settle();
            return None;
        }
        self.free = 0;
        let charged = estimate.nanos();
        let tag = own + scaled(charged, weight);
        self.moves(flow, own, tag);
        self.settle();
        Some(Turn { flow, weight, charged, tag, period: self.period })
    }

    /// Corrects the charge of a turn whose item has used this much CPU time. Does nothing if debts were forgiven in the
    /// meantime.
    pub(crate) fn ends(&mut self, turn: Turn, used: Duration) {
        if turn.period != self.period {
            return;
        }
        let Turn { flow, weight, charged, .. } = turn;
        // If the pool has forgotten the flow, the other flows have caught up with its tag. The item may nevertheless
        // have used more CPU time than it was charged for.
        let known = self.flows.get(&flow);
        let is_fresh = known.is_some_and(|known| known.is_fresh());
        let own = match known {
            // The pool may have forgotten the flow before the flow arrived again, so the flow's stored tag may be too
            // small.
            Some(known) if is_fresh => known.tag.max(turn.tag),
            Some(known) => known.tag,
            None => turn.tag,
        };
        let used = nanos(used).max(LEAST_CHARGE);
        let tag = if used >= charged {
            own + scaled(used - charged, weight)
        } else {
            own.saturating_sub(scaled(charged - used, weight))
        };
        if is_fresh && tag <= self.floor() {
            // The flow owes nothing, so it keeps its place.
            self.flows.entry(flow).and_modify(|known| known.tag = tag);
            return;
        }
        self.moves(flow, own, tag);
        self.settle();
    }

    /// Forgives all debts, because no entry of any flow waits.
    pub(crate) fn forgive(&mut self) {
        if self.is_in_force() {
            *self = Self { now: self.now, period: self.period + 1, free: self.free, ..Self::default() };
        }
    }

    /// Returns the smallest tag of the waiting flows that are not fresh. If there is no such flow, returns the largest
    /// tag that a flow had when one of its items began.
    fn floor(&self) -> Tag {
        self.order.range(Place::AFTER_FRESH..).next().map_or(self.now, |first| first.tag)
    }

    /// Returns the tag that a flow has if its turn begins now.
    fn tag_at_turn(&self, flow: Flow) -> Tag {
        if flow.is_fresh() { flow.tag.max(self.floor()) } else { flow.tag }
    }

    /// Gives a flow another tag. The flow is not fresh any more.
    fn moves(&mut self, flow: FlowId, own: Tag, tag: Tag) {
        match self.flows.get(&flow).and_then(|known| known.place) {
            Some(place) => {
                self.order.remove(&place);
                self.put(flow, tag, true);
            }
            None => {
                self.debtors.remove(&(own, flow));
                self.owes(flow, tag);
            }
        }
    }

    /// Puts a flow with waiting entries into the order.
    fn put(&mut self, flow: FlowId, tag: Tag, has_waited: bool) {
        self.places += 1;
        let place = Place { has_waited, tag: if has_waited { tag } else { 0 }, number: self.places, flow };
        self.order.insert(place);
        self.flows.insert(flow, Flow { tag, place: Some(place) });
    }

    /// Notes the debts of a flow without waiting entries.
    fn owes(&mut self, flow: FlowId, tag: Tag) {
        self.flows.insert(flow, Flow { tag, place: None });
        self.debtors.insert((tag, flow));
    }

    /// Forgets each flow without waiting entries if the other flows have caught up with its tag, and the smallest debts
    /// if there are too many. If only the worklist is left, forgets the worklist, too.
    fn settle(&mut self) {
        // A flow whose charges were corrected downwards may have begun an item at a larger tag than it has now. So the
        // largest tag at which an item began does not show that the other flows have caught up.
        let reached = self.now.min(self.floor());
        while let Some((tag, flow)) = self.debtors.first().copied()
            && (tag <= reached || self.debtors.len() > MOST_DEBTS)
        {
            self.debtors.remove(&(tag, flow));
            self.flows.remove(&flow);
        }
        if self.flows.len() == 1 && self.flows.contains_key(&FlowId::WORKLIST) {
            (self.flows, self.order, self.debtors) = Default::default();
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn scaled(nanos: u64, weight: u32) -> Tag {
    u128::from(nanos) * u128::from(MAX_WEIGHT) / u128::from(weight.max(1))
}

#[cfg(test)]
mod tests;
