//! The entries of weighted queues that wait for their turn in one pool. Each queue has a *line* of entries, in the
//! order in which they arrived. [`policy::fairness`](crate::policy::fairness) decides whether the next entry comes from
//! the pool's worklist or from a certain line.
//!
//! A [`TurnList`] is a part of the [`Sideline`](super::sideline::Sideline), so the pool's lock protects it. A
//! [`FairShare`] belongs to a queue, and all pools of the queue use it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::policy::fairness::{DEFAULT_WEIGHT, Estimate, Fairness, FlowId, Turn};
use crate::sys::sync::{AtomicU64, Ordering};

use super::sideline::Bound;

/// The weight of a queue, and the turns and the CPU time that the queue has used. Threads of different pools write all
/// numbers but the weight, each thread under the lock of its own pool. So readers treat all numbers as hints.
#[derive(Debug)]
pub(crate) struct FairShare {
    weight: AtomicU64,
    /// The bits of the [`Estimate`] of the length of the queue's items.
    estimate: AtomicU64,
    turns: AtomicU64,
    /// The CPU time that the queue has used, in nanoseconds.
    used: AtomicU64,
    waiting: AtomicU64,
}

/// The turns and the CPU time that a queue has used while its entries took turns, and the number of its items that
/// wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Use {
    pub(crate) turns: u64,
    pub(crate) cpu_time: Duration,
    pub(crate) waiting: u64,
}

/// A turn, and the share of the queue to which the turn belongs. The share is `None` if the entry came from the
/// worklist.
#[derive(Debug)]
pub(crate) struct OwnedTurn {
    turn: Turn,
    share: Option<Arc<FairShare>>,
}

/// The lines of the weighted queues in one pool, and the order of their turns. See the module.
#[derive(Debug)]
pub(crate) struct TurnList<E> {
    fairness: Fairness,
    /// The lines that have entries.
    lines: BTreeMap<FlowId, Line<E>>,
    /// The flows of the lines whose first entry is a marker.
    markers: BTreeSet<FlowId>,
    len: usize,
    /// The number of bound entries, which siblings may not take.
    bound: usize,
    /// The estimate of the length of the worklist's items.
    estimate: Estimate,
}

#[derive(Debug)]
struct Line<E> {
    entries: VecDeque<E>,
    /// The number of bound entries in this line.
    bound: usize,
    share: Arc<FairShare>,
}

impl FairShare {
    pub(crate) fn new(weight: u32) -> Self {
        Self {
            weight: AtomicU64::new(weight.into()),
            estimate: AtomicU64::new(Estimate::default().into_bits()),
            turns: AtomicU64::new(0),
            used: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        }
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed) as u32
    }

    /// Sets the weight. The new weight applies to all items that begin after the call.
    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight.into(), Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> Use {
        Use {
            turns: self.turns.load(Ordering::Relaxed),
            cpu_time: Duration::from_nanos(self.used.load(Ordering::Relaxed)),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }

    fn estimate(&self) -> Estimate {
        Estimate::from_bits(self.estimate.load(Ordering::Relaxed))
    }
}

impl<E: Bound> TurnList<E> {
    pub(crate) fn new() -> Self {
        Self {
            fairness: Fairness::default(),
            lines: BTreeMap::new(),
            markers: BTreeSet::new(),
            len: 0,
            bound: 0,
            estimate: Estimate::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bound(&self) -> usize {
        self.bound
    }

    /// See [`Fairness::is_in_force`].
    pub(super) fn is_in_force(&self) -> bool {
        self.fairness.is_in_force()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.lines.values().flat_map(|line| &line.entries)
    }

    /// Adds an entry to the end of its queue's line.
    pub(super) fn push(&mut self, flow: FlowId, share: &Arc<FairShare>, entry: E) {
        let line = self.lines.entry(flow).or_insert_with(|| Line {
            entries: VecDeque::new(),
            bound: 0,
            share: Arc::clone(share),
        });
        let bound = usize::from(entry.is_bound());
        line.bound += bound;
        if entry.is_marker() && line.entries.is_empty() {
            self.markers.insert(flow);
        }
        share.waiting.fetch_add(u64::from(!entry.is_marker()), Ordering::Relaxed);
        line.entries.push_back(entry);
        self.bound += bound;
        self.len += 1;
        self.fairness.arrives(flow);
    }

    /// Returns the flow (a line or the worklist) whose turn it is. `worklist_waits` says whether the worklist has
    /// entries. The caller has seen that turns are in force.
    pub(super) fn next(&mut self, worklist_waits: bool) -> Option<FlowId> {
        if worklist_waits {
            self.fairness.arrives(FlowId::WORKLIST);
        } else {
            self.fairness.leaves(FlowId::WORKLIST);
        }
        self.fairness.in_order().next()
    }

    /// Returns the first flow, in the order of turns, that has an entry which may leave the pool. `worklist_waits` says
    /// whether entries of the worklist's flow wait. `worklist_gives` says whether an entry of the worklist's flow
    /// counts as an entry that may leave the pool.
    pub(super) fn next_movable(&mut self, worklist_waits: bool, worklist_gives: bool) -> Option<FlowId> {
        self.next(worklist_waits)?;
        let may_move = |line: &Line<E>| line.bound < line.entries.len();
        self.fairness.in_order().find(|flow| self.lines.get(flow).map_or(worklist_gives, may_move))
    }

    /// Takes from a flow's line the first entry for which `wanted` returns true.
    pub(super) fn take(&mut self, flow: FlowId, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let line = self.lines.get_mut(&flow)?;
        let at = line.entries.iter().position(wanted)?;
        let entry = line.entries.remove(at)?;
        let bound = usize::from(entry.is_bound());
        line.bound -= bound;
        self.bound -= bound;
        self.len -= 1;
        line.share.waiting.fetch_sub(u64::from(!entry.is_marker()), Ordering::Relaxed);
        if line.entries.front().is_some_and(Bound::is_marker) {
            self.markers.insert(flow);
        } else {
            self.markers.remove(&flow);
        }
        if line.entries.is_empty() {
            self.lines.remove(&flow);
            self.fairness.leaves(flow);
        }
        Some(entry)
    }

    /// Takes a marker that is the first entry of a line. A marker only shows that its shard's earlier entries have left
    /// the line, so it takes no turn. If it did, a queue that has used more than its share would have to wait until its
    /// debt is paid, although its next items belong to another pool.
    pub(super) fn take_marker(&mut self) -> Option<E> {
        let flow = *self.markers.first()?;
        self.take(flow, |_| true)
    }

    /// Takes an entry for which `wanted` returns true. Checks only the first entry of each line.
    pub(super) fn take_first(&mut self, wanted: impl Fn(&E) -> bool) -> Option<E> {
        let is_wanted = |line: &Line<E>| line.entries.front().is_some_and(&wanted);
        let flow = *self.lines.iter().find(|(_, line)| is_wanted(line))?.0;
        self.take(flow, |_| true)
    }

    /// Takes all entries, and forgives the debts of all queues.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = E> + use<E> {
        (self.len, self.bound) = (0, 0);
        self.fairness.forgive();
        self.markers.clear();
        let lines = std::mem::take(&mut self.lines);
        lines.into_values().flat_map(|line| {
            let items = line.entries.iter().filter(|entry| !entry.is_marker()).count();
            line.share.waiting.fetch_sub(items as u64, Ordering::Relaxed);
            line.entries
        })
    }

    /// Charges a queue for an entry that a worker takes. `of` is the queue's flow and share, or `None` if the queue has
    /// no weight. Returns `None` while turns are not in force, or if the entry's item need not be measured.
    pub(super) fn begins(&mut self, of: Option<(FlowId, &Arc<FairShare>)>) -> Option<OwnedTurn> {
        if !self.is_in_force() {
            return None;
        }
        let turn = match of {
            None => self.fairness.begins(FlowId::WORKLIST, DEFAULT_WEIGHT, self.estimate),
            Some((flow, share)) => self.fairness.begins(flow, share.weight(), share.estimate()),
        }?;
        let share = of.map(|(_, share)| Arc::clone(share));
        if let Some(share) = &share {
            share.turns.fetch_add(1, Ordering::Relaxed);
        }
        Some(OwnedTurn { turn, share })
    }

    /// Ends a turn. `used` is the CPU time that the turn's item has used, or `None` if the item did not run. An item
    /// that did not run does not change the estimate of the length of the queue's items.
    pub(super) fn ends(&mut self, OwnedTurn { turn, share }: OwnedTurn, used: Option<Duration>) {
        let Some(used) = used else { return self.fairness.ends(turn, Duration::ZERO) };
        match &share {
            None => self.estimate = turn.teaches(self.estimate, used),
            Some(share) => {
                let estimate = turn.teaches(share.estimate(), used);
                share.estimate.store(estimate.into_bits(), Ordering::Relaxed);
                let nanos = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
                share.used.fetch_add(nanos, Ordering::Relaxed);
            }
        }
        self.fairness.ends(turn, used);
    }

    /// See [`Fairness::forgive`].
    pub(super) fn forgive(&mut self) {
        self.fairness.forgive();
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    impl Bound for () {
        fn is_bound(&self) -> bool {
            false
        }
    }

    impl Bound for &str {
        fn is_bound(&self) -> bool {
            self.is_marker()
        }

        fn is_marker(&self) -> bool {
            *self == "marker"
        }
    }

    /// spec: B3.5 (changes of attributes), B3.7: a marker takes no turn when it is the first entry of its line, and
    /// counts as no item.
    #[test]
    fn a_marker_takes_no_turn_and_counts_as_no_item() {
        let (mut list, flow) = (TurnList::new(), FlowId::of_queue(1));
        let share = Arc::new(FairShare::new(100));
        for entry in ["item", "marker", "other", "marker"] {
            list.push(flow, &share, entry);
        }
        assert_eq!((share.so_far().waiting, list.len(), list.bound()), (2, 4, 2));
        assert_eq!(list.take_marker(), None, "an item comes first");
        assert_eq!(list.take(flow, |entry| !entry.is_bound()), Some("item"));
        assert_eq!((list.take_marker(), list.take_marker()), (Some("marker"), None));
        assert_eq!((share.so_far().waiting, list.len(), list.bound()), (1, 2, 1));
        assert_eq!(list.take_all().collect::<Vec<_>>(), ["other", "marker"]);
        assert_eq!((share.so_far().waiting, list.take_marker()), (0, None));
    }

    /// spec: B3.2: cancelled items do not make the pool expect that the queue's next items are short.
    #[test]
    fn an_item_that_does_not_run_changes_no_estimate() {
        const LENGTH: Duration = Duration::from_millis(10);
        let (mut list, share) = (TurnList::new(), Arc::new(FairShare::new(100)));
        let of = (FlowId::of_queue(1), &share);
        (0..3).for_each(|_| list.push(of.0, &share, ()));
        for used in [Some(LENGTH), None, None] {
            assert_eq!(list.take(of.0, |()| true), Some(()));
            let turn = list.begins(Some(of)).unwrap();
            list.ends(turn, used);
            assert_eq!(share.estimate(), Estimate::from_bits(LENGTH.as_nanos() as u64));
        }
        assert_eq!(share.so_far(), Use { turns: 3, cpu_time: LENGTH, waiting: 0 });
    }
}
