//! The reference model: queues and items as lists and flags.

use std::collections::VecDeque;

use cmwq::{EnableError, QueueError};

pub(super) const ITEMS: usize = 3;
pub(super) const QUEUES: usize = 3;
/// The queue that is not ordered. If an item with a cancelled entry in this queue is queued again, it uses this entry.
const REVIVES: usize = 1;
/// The bound of the last queue.
pub(super) const BOUND: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Id {
    Item(usize),
    Shot(usize),
}

#[derive(Default, Debug)]
pub(super) struct ModelQueue {
    /// Waiting entries, including cancelled ones.
    pub(super) entries: VecDeque<Id>,
    pub(super) slot: Option<Slot>,
    /// The number of items that were accepted and have not begun.
    pub(super) pending: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Runs(Id),
    /// The item runs on another queue, and holds this queue's slot for its next run.
    KeptFor(usize),
}

#[derive(Default, Debug)]
pub(super) struct ModelItem {
    pub(super) pending_on: Option<usize>,
    /// The queue to which the armed timer will queue the item.
    pub(super) armed_on: Option<usize>,
    pub(super) disabled: usize,
    pub(super) running_on: Option<usize>,
    pub(super) runs: usize,
    pub(super) handle: bool,
    /// The queue to which the item was queued last.
    pub(super) home: Option<usize>,
}

#[derive(Default, Debug)]
pub(super) struct ModelShot {
    pub(super) cancelled: bool,
    pub(super) begun: bool,
    /// `Some(panicked)` if the one-shot has ended.
    pub(super) ended: Option<bool>,
}

#[derive(Default, Debug)]
pub(super) struct Model {
    pub(super) queues: [ModelQueue; QUEUES],
    pub(super) items: [ModelItem; ITEMS],
    pub(super) shots: Vec<ModelShot>,
}

impl ModelItem {
    pub(super) fn is_pending(&self) -> bool {
        self.pending_on.is_some() || self.armed_on.is_some()
    }
}

impl Model {
    pub(super) fn has_room(&self, queue: usize) -> bool {
        queue != QUEUES - 1 || self.queues[queue].pending < BOUND
    }

    pub(super) fn queue(&mut self, item: usize, queue: usize) -> Result<bool, QueueError> {
        if self.items[item].disabled > 0 {
            return Err(QueueError::Disabled);
        }
        if self.items[item].is_pending() {
            return Ok(false);
        }
        // If the item has a cancelled entry in this queue, the item uses this entry again. But if the queue is full,
        // the entry must be the item's last one. In an ordered queue, the item gets a new place at the end instead.
        let listed = queue == REVIVES && self.queues[queue].entries.contains(&Id::Item(item));
        let at_home = listed && self.items[item].home == Some(queue);
        if !(self.has_room(queue) || at_home) {
            return Err(QueueError::Full);
        }
        self.put(item, queue);
        Ok(true)
    }

    /// Makes the item pending on this queue, whether or not there is room.
    fn put(&mut self, item: usize, queue: usize) {
        if !(queue == REVIVES && self.is_listed(item, queue)) {
            self.queues[queue].pending += 1;
            self.queues[queue].entries.push_back(Id::Item(item));
        }
        (self.items[item].pending_on, self.items[item].home) = (Some(queue), Some(queue));
        self.settle();
    }

    /// Returns whether the queue has room for arming the item. Arming needs a place if the item is queued at once,
    /// unless the item uses a former entry again. An ordered queue does not permit this. So in an ordered queue, an
    /// item with a former entry always needs a new place.
    fn may_arm(&self, item: usize, queue: usize, at_once: bool) -> bool {
        let lies_there = self.is_listed(item, queue);
        let needs_room = if queue == REVIVES { at_once && !lies_there } else { at_once || lies_there };
        !needs_room || self.has_room(queue)
    }

    /// Arms the item for a time far in the future, so its timer does not fire by itself.
    pub(super) fn queue_delayed(&mut self, item: usize, queue: usize) -> Result<bool, QueueError> {
        let may_arm = self.may_arm(item, queue, false);
        match &mut self.items[item] {
            item if item.disabled > 0 => Err(QueueError::Disabled),
            item if item.is_pending() => Ok(false),
            _ if !may_arm => Err(QueueError::Full),
            item => {
                item.armed_on = Some(queue);
                Ok(true)
            }
        }
    }

    /// Moves the item to a later time, or to now.
    pub(super) fn mod_delayed(&mut self, item: usize, queue: usize, now: bool) -> Result<bool, QueueError> {
        if self.items[item].disabled > 0 {
            return Err(QueueError::Disabled);
        }
        if !self.may_arm(item, queue, now) {
            return Err(QueueError::Full);
        }
        let was_pending = self.cancel(item);
        self.items[item].armed_on = Some(queue);
        if now {
            self.fire(item);
        }
        Ok(was_pending)
    }

    /// Queues the armed item.
    pub(super) fn fire(&mut self, item: usize) {
        if let Some(queue) = self.items[item].armed_on.take() {
            self.put(item, queue);
        }
    }

    pub(super) fn disable(&mut self, item: usize) -> bool {
        self.items[item].disabled += 1;
        self.cancel(item)
    }

    pub(super) fn enable(&mut self, item: usize) -> Result<bool, EnableError> {
        let disabled = &mut self.items[item].disabled;
        *disabled = disabled.checked_sub(1).ok_or(EnableError::NotDisabled)?;
        Ok(*disabled == 0)
    }

    pub(super) fn cancel(&mut self, item: usize) -> bool {
        if self.items[item].armed_on.take().is_some() {
            return true;
        }
        let Some(queue) = self.items[item].pending_on.take() else { return false };
        if self.queues[queue].slot == Some(Slot::KeptFor(item)) {
            self.queues[queue].slot = None;
            self.queues[queue].pending -= 1;
        }
        self.settle();
        true
    }

    pub(super) fn spawn(&mut self, queue: usize) -> bool {
        if !self.has_room(queue) {
            return false;
        }
        self.queues[queue].pending += 1;
        self.queues[queue].entries.push_back(Id::Shot(self.shots.len()));
        self.shots.push(ModelShot::default());
        self.settle();
        true
    }

    pub(super) fn finish(&mut self, queue: usize, panicked: bool) {
        match self.queues[queue].slot.take() {
            Some(Slot::Runs(Id::Item(item))) => {
                self.items[item].running_on = None;
                // The next run of the item begins in the slot that was kept for it.
                let kept = self.queues.iter().position(|queue| queue.slot == Some(Slot::KeptFor(item)));
                if let Some(other) = kept {
                    self.begin(item, other);
                }
            }
            Some(Slot::Runs(Id::Shot(shot))) => self.shots[shot].ended = Some(panicked),
            other => unreachable!("finished {other:?}"),
        }
        self.settle();
    }

    pub(super) fn begin(&mut self, item: usize, queue: usize) {
        self.queues[queue].slot = Some(Slot::Runs(Id::Item(item)));
        self.queues[queue].pending -= 1;
        let item = &mut self.items[item];
        (item.pending_on, item.running_on) = (None, Some(queue));
        item.runs += 1;
    }

    /// Gives each free slot to the queue's next entry.
    pub(super) fn settle(&mut self) {
        for queue in 0..QUEUES {
            while self.queues[queue].slot.is_none() {
                let Some(id) = self.queues[queue].entries.pop_front() else { break };
                match id {
                    Id::Item(item)
                        if self.items[item].pending_on != Some(queue) || self.is_listed(item, queue) =>
                    {
                        self.queues[queue].pending -= 1;
                    }
                    Id::Item(item) if self.items[item].running_on.is_some() => {
                        self.queues[queue].slot = Some(Slot::KeptFor(item));
                    }
                    Id::Item(item) => self.begin(item, queue),
                    Id::Shot(shot) => {
                        self.queues[queue].pending -= 1;
                        if !self.shots[shot].cancelled {
                            self.shots[shot].begun = true;
                            self.queues[queue].slot = Some(Slot::Runs(id));
                        }
                    }
                }
            }
        }
    }

    /// Returns whether the queue has an entry of the item. If it has several, all but the last one are cancelled.
    fn is_listed(&self, item: usize, queue: usize) -> bool {
        self.queues[queue].entries.contains(&Id::Item(item))
    }

    pub(super) fn running(&self) -> usize {
        self.queues.iter().filter(|queue| matches!(queue.slot, Some(Slot::Runs(_)))).count()
    }

    /// Returns whether nothing refers to the item any more.
    pub(super) fn is_gone(&self, item: usize) -> bool {
        let state = &self.items[item];
        let listed = self.queues.iter().any(|queue| queue.entries.contains(&Id::Item(item)));
        !state.handle && state.running_on.is_none() && !state.is_pending() && !listed
    }
}

#[test]
fn the_model_distinguishes_a_cancelled_entry_from_a_pending_one() {
    let mut model = Model::default();
    assert_eq!((model.queue(0, 0), model.queue(1, 0)), (Ok(true), Ok(true)));
    assert!(model.cancel(1) && !model.cancel(1));
    assert_eq!(model.queue(1, 1), Ok(true));
    assert_eq!((model.items[0].running_on, model.items[1].running_on), (Some(0), Some(1)));
    model.finish(0, false);
    assert_eq!((model.queues[0].pending, model.items[1].runs), (0, 1));
}
