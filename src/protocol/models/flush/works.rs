//! A reusable item was cancelled, and its entry is on a list. The item is submitted again while a flush begins or
//! waits.
//!
//! A flush that began before the second submission does not wait for the run of that submission.
//!
//! Red under: `flush-waits-unseen`, `former-entry-comes-first`.

use super::*;
use crate::policy::item::{ShardId, Target};
use crate::protocol::item::{Ended, HasTicket, ItemCell, Popped, Queued};

impl HasTicket for Item {
    fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }
}

const SHARD: ShardId = ShardId::new(0);

struct Work(ItemCell<Item, ()>);

impl Work {
    /// Makes an item that was submitted and cancelled before any flush. Returns the item, and its entry on the list.
    fn cancelled(queue: &Queue) -> (Arc<Self>, Item) {
        let work = Self(ItemCell::new());
        let former = work.queue(queue).expect("the item is new");
        assert!(work.0.cancel().was_pending);
        (Arc::new(work), former)
    }

    /// Submits the item. Returns the item's new entry, or `None` if the submission uses the former entry again.
    fn queue(&self, queue: &Queue) -> Option<Item> {
        let new = queue.admit(0);
        let target = |revives| Target { shard: SHARD, ordered: false, revives };
        let ask = |awaited: bool| self.0.queue(target(!awaited), new.ticket);
        match queue.parts.flush.with_awaited(ask) {
            Queued::Push => Some(new),
            Queued::Revived => {
                queue.complete(&new);
                None
            }
            other => panic!("{other:?}, though the item was cancelled"),
        }
    }

    /// Does what a worker does after it has popped this entry: runs the item, or skips the entry.
    fn work(&self, queue: &Queue, entry: Item, run: impl FnOnce()) {
        match self.0.begin(SHARD, entry) {
            Popped::Run(entry) | Popped::RunCarrying(entry) => {
                run();
                assert!(matches!(self.0.end(|| ()), Ended::Idle));
                queue.complete(&entry);
            }
            Popped::Stale(entry) => queue.complete(&entry),
            Popped::Kept | Popped::KeptLast | Popped::Last(_) => {
                panic!("the item runs once, and has a handle")
            }
        }
    }
}

/// spec: F1.2: the flush waits only for the former entry of the item, and the item's run waits for the flush. The
/// entries may be popped in either order.
#[test]
fn a_flush_does_not_wait_for_an_item_that_is_submitted_again() {
    check(2, || {
        let queue = Queue::new(1, 3);
        let (work, former) = Work::cancelled(&queue);
        let flushed = Arc::new(Event::new());
        let (flush, rest) = queue.parts.flush.begin(queue.parts.limiters.iter(), || queue.references.add(1));
        queue.settle(rest);
        let new = work.queue(&queue);
        let workers = [Some(former), new].map(|entry| {
            let (work, flushed) = (work.clone(), flushed.clone());
            let act = move |queue: &Queue| {
                entry.into_iter().for_each(|entry| work.work(queue, entry, || flushed.wait()));
            };
            elsewhere(&queue, act)
        });
        assert!(flush.expect("an entry is in flight").wait(Until::Forever));
        flushed.set();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(work.0.load().is_idle() && !work.0.load().is_running());
        queue.close();
        assert!(queue.parts.is_freed());
    });
}
