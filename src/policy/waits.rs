//! Finds the waits that never end.
//!
//! A [`Picture`] shows the items that wait at one moment. For each item, the picture contains the things that the item
//! needs, and the slots that the item holds during its wait. There are two cases in which an item is *stuck*:
//!
//! * The item needs the end of a stuck item.
//! * The item needs a slot of a limiter, and stuck items hold all slots of that limiter.
//!
//! The stuck items are the largest set of waiters that fits the definition of *stuck*. The algorithm begins with all
//! waiters, and removes each waiter that is not blocked, until every remaining waiter is blocked. The picture does not
//! contain an item that runs without an open scope, nor an item that waits with a timeout. An item outside of the
//! picture never blocks a waiter.

#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The id of an item or of a limiter.
pub(crate) type Id = usize;

/// An item that cannot end before all of its needs are met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) item: Id,
    /// The limiters whose slots the item holds. A limiter is listed once for each slot.
    pub(crate) holds: Vec<Id>,
    /// All the things that the item needs before it can end.
    pub(crate) needs: Vec<Need>,
}

/// A thing that a waiter needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Need {
    /// The end of an item that is being executed.
    End(Id),
    /// A slot of this limiter, for an awaited item that has no slot yet.
    Slot(Id),
}

/// The slots of a limiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slots {
    /// The number of slots in use.
    pub(crate) active: u64,
    /// The largest number of slots that can be in use. If this number is 0, another thread holds the limiter's items
    /// back, and may release them later.
    pub(crate) max: u64,
}

impl Slots {
    /// Returns whether a group of waiters, which holds `held` slots in total, holds all slots of the limiter.
    fn are_all_held(&self, held: usize) -> bool {
        self.max > 0 && self.active >= self.max && held as u64 == self.active
    }
}

/// A thing that waiters need, and the waiters that block it.
#[derive(Default)]
struct Obstacle {
    /// The waiters that need this thing. A waiter is listed once for each time that it needs the thing.
    dependents: Vec<usize>,
    /// The number of stuck waiters that block this thing. A waiter that holds several slots counts once for each slot.
    /// If this number is 0, nothing blocks the thing any more.
    in_the_way: usize,
}

impl Obstacle {
    fn blocks(&self) -> bool {
        self.in_the_way > 0
    }
}

/// All waits at one moment.
#[derive(Clone, Default, Debug)]
pub(crate) struct Picture {
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) limiters: HashMap<Id, Slots>,
}

impl Picture {
    /// Returns for each waiter whether it is stuck. Takes time proportional to the size of the picture.
    pub(crate) fn stuck(&self) -> Vec<bool> {
        let mut obstacles = self.obstacles();
        let mut blocking: Vec<usize> = self
            .waiters
            .iter()
            .map(|waiter| waiter.needs.iter().filter(|need| obstacles[*need].blocks()).count())
            .collect();
        let mut stuck = vec![true; self.waiters.len()];
        let mut free: Vec<usize> = (0..blocking.len()).filter(|n| blocking[*n] == 0).collect();
        while let Some(n) = free.pop() {
            stuck[n] = false;
            let waiter = &self.waiters[n];
            let slots = waiter.holds.iter().map(|limiter| Need::Slot(*limiter));
            for gives in slots.chain([Need::End(waiter.item)]) {
                let Some(obstacle) = obstacles.get_mut(&gives).filter(|obstacle| obstacle.blocks()) else {
                    continue;
                };
                // One slot that becomes free is enough for all waiters that need a slot of this limiter.
                obstacle.in_the_way =
                    if matches!(gives, Need::Slot(_)) { 0 } else { obstacle.in_the_way - 1 };
                if obstacle.blocks() {
                    continue;
                }
                for dependent in &obstacle.dependents {
                    blocking[*dependent] -= 1;
                    if blocking[*dependent] == 0 {
                        free.push(*dependent);
                    }
                }
            }
        }
        stuck
    }

    /// Returns the things that waiters need, on the assumption that all waiters are stuck.
    fn obstacles(&self) -> HashMap<Need, Obstacle> {
        let mut obstacles: HashMap<Need, Obstacle> = HashMap::new();
        for (n, waiter) in self.waiters.iter().enumerate() {
            for need in &waiter.needs {
                obstacles.entry(*need).or_default().dependents.push(n);
            }
        }
        for waiter in &self.waiters {
            let slots = waiter.holds.iter().map(|limiter| Need::Slot(*limiter));
            for gives in slots.chain([Need::End(waiter.item)]) {
                if let Some(obstacle) = obstacles.get_mut(&gives) {
                    obstacle.in_the_way += 1;
                }
            }
        }
        for (need, obstacle) in &mut obstacles {
            if let Need::Slot(limiter) = need {
                let all_held = |slots: &Slots| slots.are_all_held(obstacle.in_the_way);
                if !self.limiters.get(limiter).is_some_and(all_held) {
                    obstacle.in_the_way = 0;
                }
            }
        }
        obstacles
    }

    /// Goes from a stuck waiter to a stuck waiter that blocks it, and so on, until a waiter recurs. Returns the waiters
    /// on this path. The last waiter on the path is blocked by a waiter that is also on the path.
    pub(crate) fn chain(&self, from: usize, stuck: &[bool]) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut next = Some(from);
        while let Some(n) = next.filter(|n| !chain.contains(n)) {
            chain.push(n);
            let need = self.waiters[n].needs.iter().find(|need| self.blocks(**need, stuck));
            next = need.and_then(|need| self.in_the_way(*need, stuck).next());
        }
        chain
    }

    /// Returns whether stuck waiters block this need.
    pub(crate) fn blocks(&self, need: Need, stuck: &[bool]) -> bool {
        match need {
            Need::End(_) => self.in_the_way(need, stuck).next().is_some(),
            Need::Slot(limiter) => self.limiters.get(&limiter).is_some_and(|slots| {
                let held: usize = self.in_the_way(need, stuck).map(|n| self.slots_of(n, limiter)).sum();
                slots.are_all_held(held)
            }),
        }
    }

    /// Returns the stuck waiters that block this need.
    fn in_the_way<'a>(&'a self, need: Need, stuck: &'a [bool]) -> impl Iterator<Item = usize> + 'a {
        let is = move |waiter: &Waiter| match need {
            Need::End(item) => waiter.item == item,
            Need::Slot(limiter) => waiter.holds.contains(&limiter),
        };
        (0..stuck.len()).filter(move |n| stuck[*n] && is(&self.waiters[*n]))
    }

    fn slots_of(&self, n: usize, limiter: Id) -> usize {
        self.waiters[n].holds.iter().filter(|held| **held == limiter).count()
    }
}

#[cfg(test)]
mod tests {
    use super::Need::{End, Slot};
    use super::*;

    /// An item, the limiters whose slots it holds, and its needs.
    type Row<'a> = (Id, &'a [Id], &'a [Need]);

    /// Returns the stuck items. Each limiter is given by its number, its active slots and its limit.
    fn stuck(waiters: &[Row<'_>], limiters: &[(Id, u64, u64)]) -> Vec<Id> {
        let picture = Picture {
            waiters: waiters
                .iter()
                .map(|(item, holds, needs)| Waiter {
                    item: *item,
                    holds: holds.to_vec(),
                    needs: needs.to_vec(),
                })
                .collect(),
            limiters: limiters
                .iter()
                .map(|(limiter, active, max)| (*limiter, Slots { active: *active, max: *max }))
                .collect(),
        };
        let stuck = picture.stuck();
        for from in (0..stuck.len()).filter(|n| stuck[*n]) {
            let chain = picture.chain(from, &stuck);
            assert!(chain[0] == from && chain.iter().all(|n| stuck[*n]), "{chain:?}");
        }
        (0..stuck.len()).filter(|n| stuck[*n]).map(|n| picture.waiters[n].item).collect()
    }

    /// spec: F5.7: items that wait for each other's ends in a cycle are stuck.
    #[test]
    fn a_wait_for_the_end_of_an_item() {
        let (one, two) = (&[91][..], &[92][..]);
        let wide = &[(91, 5, 256), (92, 5, 256)];
        let table: &[(&[Row<'_>], &[Id])] = &[
            (&[], &[]),
            // In the first row, an item waits for a running item. In the second row, an item waits for another item,
            // which does not wait any more.
            (&[(1, one, &[End(2)])], &[]),
            (&[(1, one, &[]), (2, two, &[End(1)])], &[]),
            // Two items wait for each other, an item waits for itself, and three items wait in a circle.
            (&[(1, one, &[End(2)]), (2, two, &[End(1)])], &[1, 2]),
            (&[(1, one, &[End(1)])], &[1]),
            (&[(1, one, &[End(2)]), (2, one, &[End(3)]), (3, two, &[End(1)])], &[1, 2, 3]),
            // An item that waits for a cycle is stuck. An item that waits, through another item, for a running item is
            // not stuck.
            (&[(1, one, &[End(2)]), (2, two, &[End(3)]), (3, two, &[End(2)])], &[1, 2, 3]),
            (&[(1, one, &[End(2)]), (2, two, &[End(3)])], &[]),
            // An item is stuck if one of its needs is blocked, even if another need is not blocked.
            (&[(1, one, &[End(7), End(2)]), (2, two, &[End(1)])], &[1, 2]),
            // No waiter holds a slot of the needed limiter, and the limiter is unknown.
            (&[(1, one, &[Slot(99)])], &[]),
        ];
        for (waiters, expected) in table {
            assert_eq!(stuck(waiters, wide), *expected, "{waiters:?}");
        }
    }

    /// spec: F5.7: an item that needs a slot is stuck if stuck items hold all slots of the limiter.
    #[test]
    fn a_wait_for_a_slot() {
        let needs_slot: Row<'_> = (1, &[91], &[Slot(92)]);
        let holder: Row<'_> = (2, &[92], &[End(1)]);
        let another: Row<'_> = (3, &[92], &[End(2)]);
        // An item that waits for the first item holds the only slot.
        assert_eq!(stuck(&[needs_slot, holder], &[(92, 1, 1)]), [1, 2]);
        // There is another slot, which is free or is held by an item that can end.
        assert!(stuck(&[needs_slot, holder], &[(92, 1, 2)]).is_empty());
        assert!(stuck(&[needs_slot, holder], &[(92, 2, 2)]).is_empty());
        assert_eq!(stuck(&[needs_slot, holder, another], &[(92, 2, 2)]), [1, 2, 3]);
        // The limit has been lowered. While an item that can end holds a slot, even a slot beyond the limit, no item
        // counts as stuck.
        assert!(stuck(&[needs_slot, holder], &[(92, 2, 1)]).is_empty());
        assert_eq!(stuck(&[needs_slot, holder, another], &[(92, 2, 1)]), [1, 2, 3]);
        // Another thread holds the limiter's items back for a time.
        assert!(stuck(&[needs_slot, holder], &[(92, 1, 0)]).is_empty());
        // The item itself holds the only slot. The slot is the item's own slot, or belongs to another limiter and was
        // given to the item while it ran.
        assert_eq!(stuck(&[(1, &[91], &[Slot(91)])], &[(91, 1, 1)]), [1]);
        assert_eq!(stuck(&[(1, &[91, 92], &[Slot(92)])], &[(91, 1, 9), (92, 1, 1)]), [1]);
        assert_eq!(stuck(&[(1, &[91, 91], &[Slot(91)])], &[(91, 2, 2)]), [1]);
        assert!(stuck(&[(1, &[91], &[Slot(91)])], &[(91, 2, 2)]).is_empty());
    }

    /// spec: F5.7
    #[test]
    fn the_chain_leads_from_waiter_to_waiter() {
        let waiter = |item, needs: &[Need]| Waiter { item, holds: vec![90 + item], needs: needs.to_vec() };
        let picture = Picture {
            waiters: vec![waiter(1, &[End(5), Slot(92)]), waiter(3, &[End(1)]), waiter(2, &[End(3)])],
            limiters: [(92, Slots { active: 1, max: 1 })].into(),
        };
        let stuck = picture.stuck();
        assert_eq!(stuck, [true; 3]);
        assert_eq!(picture.chain(0, &stuck), [0, 2, 1]);
    }

    /// spec: F5.7
    #[test]
    fn a_long_chain_takes_no_time() {
        let chain = |end: Need| Picture {
            waiters: (0..20_000)
                .map(|n| Waiter {
                    item: n,
                    holds: vec![90],
                    needs: vec![if n > 0 { Need::End(n - 1) } else { end }],
                })
                .collect(),
            limiters: [(90, Slots { active: 20_001, max: 20_001 })].into(),
        };
        assert!(chain(End(usize::MAX)).stuck().iter().all(|stuck| !stuck));
        assert!(chain(Slot(90)).stuck().iter().all(|stuck| !stuck));
        assert!(chain(End(19_999)).stuck().iter().all(|stuck| *stuck));
    }
}
