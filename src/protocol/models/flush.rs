//! Models of [`FlushCell`](crate::protocol::flush::FlushCell): threads flush a queue that has one or two limiters, and
//! the queue ends.
//!
//! A flush ends only after all items that were queued before the flush began have ended. The flushing thread then sees
//! what these items wrote. The flush does not wait for later items. A flush keeps these promises even if another flush
//! waits at the same time. The parts of the queue are freed once, after the last access to these parts.
//!
//! Red under: `count-without-reference`, `counts-what-has-a-ticket`, `report-is-relaxed`, `ticket-after-admission`,
//! `ticket-given-up-before-the-slot`, `waits-for-its-own-tickets`, `limiter-is-added-without-the-count`,
//! `withdrawn-item-does-not-report`, `complete-looks-later-for-a-flush`.

mod arrivals;
mod works;

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{Data, Event, Owned, check, check_all};
use crate::policy::admission::{Admission, Slot};
use crate::policy::flush::Ticket;
use crate::protocol::flush::{Flush, FlushCell, Rest};
use crate::protocol::limiter::{Came, Left, LimiterCell};
use crate::protocol::references::ReferenceCount;
use crate::sys::wait::Until;

struct Parts {
    limiters: Vec<LimiterCell>,
    flush: FlushCell<Item>,
}

struct Queue {
    parts: Owned<Parts>,
    /// The number of references to the queue. The handle, each closed limiter and each count of a flush have a
    /// reference. An item with a ticket has a reference while it completes.
    references: ReferenceCount,
}

/// An item that was admitted.
#[derive(Debug)]
struct Item {
    limiter: usize,
    ticket: Option<Ticket>,
    /// The flush that must end before this item can end.
    waits_for: Option<Flush>,
    data: Arc<Data<bool>>,
}

impl Queue {
    fn new(limiters: usize, max: usize) -> Arc<Self> {
        let limiters = (0..limiters).map(|_| LimiterCell::new(Admission::new(max))).collect();
        let parts = Owned::new(Parts { limiters, flush: FlushCell::new() });
        Arc::new(Self { parts, references: ReferenceCount::new() })
    }

    fn admit(&self, limiter: usize) -> Item {
        self.come(limiter).0
    }

    /// Admits an item. Returns the item, and whether it has a slot.
    fn come(&self, limiter: usize) -> (Item, bool) {
        let cell = &self.parts.limiters[limiter];
        let (came, ticket) = match cell.admit() {
            Came::Flushing => {
                self.parts.flush.admit(|| cell.admit_beside_flush(None), |came| came.admitted())
            }
            came => (came, None),
        };
        assert!(matches!(came, Came::Started | Came::Waits), "{came:?}");
        (Item { limiter, ticket, waits_for: None, data: Arc::new(Data::new(false)) }, came == Came::Started)
    }

    fn complete(&self, item: &Item) {
        item.data.write(|done| *done = true);
        let slot = self.leave(item);
        if slot == Slot::Last {
            self.release();
        }
    }

    /// Does the same as the engine's `leave_limiter`.
    fn leave(&self, item: &Item) -> Slot {
        let limiter = &self.parts.limiters[item.limiter];
        let Some(ticket) = item.ticket else {
            let left = limiter.complete();
            self.report(left);
            return left.slot;
        };
        self.references.add(1);
        let (left, rest) = self.parts.flush.complete(ticket, || limiter.complete());
        assert!(!rest.ends_count);
        rest.wake();
        self.release();
        left.slot
    }

    fn report(&self, left: Left) {
        if left.was_counted && self.parts.flush.unreported.report() {
            let rest = self.parts.flush.end_count(self.parts.limiters.iter());
            self.settle(rest);
        }
    }

    /// Does the same as the engine's `give_back`, for an item that has no ticket and no slot.
    fn take_back(&self, item: &Item) {
        let left = self.parts.limiters[item.limiter].withdraw();
        self.report(left);
        if left.was_counted {
            let rest = self.parts.flush.arrived(1, self.parts.limiters.iter(), |_| panic!("no item is held"));
            self.settle(rest);
        }
    }

    fn settle(&self, rest: Rest<Item>) {
        let ends_count = rest.ends_count;
        rest.wake();
        if ends_count {
            self.release();
        }
    }

    fn begin(&self) -> Option<Flush> {
        let (flush, rest) = self.parts.flush.begin(self.parts.limiters.iter(), || self.references.add(1));
        self.settle(rest);
        flush
    }

    fn flush(&self) {
        self.flush_until(Until::Forever, || ());
    }

    fn flush_until(&self, until: Until, has_begun: impl FnOnce()) {
        let flush = self.begin();
        has_begun();
        let Some(flush) = flush else { return };
        if !flush.wait(until) {
            self.parts.flush.abandon(flush);
        }
    }

    /// Drops the last handle.
    fn close(&self) {
        let limiters = self.parts.limiters.len();
        self.references.add(limiters);
        for limiter in 0..limiters {
            if self.parts.limiters[limiter].close() {
                self.release();
            }
        }
        self.release();
    }

    fn release(&self) {
        if self.references.release() {
            self.parts.free();
        }
    }
}

fn elsewhere(queue: &Arc<Queue>, act: impl FnOnce(&Queue) + 'static) -> thread::JoinHandle<()> {
    let queue = Arc::clone(queue);
    thread::spawn(move || act(&queue))
}

/// spec: F1.1, W4.2
#[test]
fn items_of_two_limiters_end_while_a_flush_begins() {
    check(3, || {
        let queue = Queue::new(2, 2);
        let items = [0, 1].map(|limiter| queue.admit(limiter));
        let data = items.each_ref().map(|item| item.data.clone());
        let threads = items.map(|item| elsewhere(&queue, move |queue| queue.complete(&item)));
        queue.flush();
        for data in data {
            assert!(data.read(|done| *done), "the flush ended before an old item did");
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// spec: F1.2: an item arrives while a flush waits, and ends only after the flush. The flush does not hang.
#[test]
fn a_later_item_is_not_waited_for() {
    check(3, || {
        let queue = Queue::new(2, 2);
        let old = queue.admit(0);
        let data = old.data.clone();
        let flushed = Arc::new(Event::new());
        let thread = {
            let flushed = flushed.clone();
            elsewhere(&queue, move |queue| {
                let next = queue.admit(1);
                queue.complete(&old);
                if next.ticket.is_some() {
                    flushed.wait();
                }
                queue.complete(&next);
            })
        };
        queue.flush();
        flushed.set();
        assert!(data.read(|done| *done));
        thread.join().unwrap();
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// spec: F1.6: two flushes overlap. An item arrives after the second flush has begun, and ends only after that flush.
/// The second flush does not wait for this item.
#[test]
fn an_item_waits_for_the_second_of_two_flushes() {
    check(2, || {
        let queue = Queue::new(1, 3);
        let old = queue.admit(0);
        let data = old.data.clone();
        let (begun, flushed) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let first = elsewhere(&queue, Queue::flush);
        let later = {
            let (begun, flushed) = (begun.clone(), flushed.clone());
            elsewhere(&queue, move |queue| {
                begun.wait();
                let later = queue.admit(0);
                queue.complete(&old);
                flushed.wait();
                queue.complete(&later);
            })
        };
        queue.flush_until(Until::Forever, || begun.set());
        assert!(data.read(|done| *done));
        flushed.set();
        first.join().unwrap();
        later.join().unwrap();
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// spec: F1.4: a flush begins right after another flush, while an item may have left its limiter but has not yet
/// reported this to the first flush. Both flushes end.
#[test]
fn a_flush_begins_right_after_another_one_ended() {
    check_all(|| {
        let queue = Queue::new(1, 1);
        let item = queue.admit(0);
        let data = item.data.clone();
        let thread = elsewhere(&queue, move |queue| queue.complete(&item));
        queue.flush();
        assert!(data.read(|done| *done));
        queue.flush();
        thread.join().unwrap();
        assert_eq!(queue.parts.limiters[0].load().in_flight(), 0);
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// A flush does not wait for ever for an item that was counted and then withdrawn.
#[test]
fn a_withdrawn_item_is_not_waited_for() {
    check_all(|| {
        let queue = Queue::new(1, 0);
        let item = queue.admit(0);
        let issuer = elsewhere(&queue, move |queue| {
            queue.take_back(&item);
        });
        queue.flush();
        queue.flush();
        issuer.join().unwrap();
        assert_eq!(queue.parts.limiters[0].load().in_flight(), 0);
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// A flushing thread begins to count the items, gives up waiting, and then drops the last handle. A thread that
/// completes a counted item reports this item to the flush before the queue is freed.
#[test]
fn the_queue_of_an_abandoned_flush_ends_with_its_last_item() {
    check(3, || {
        let queue = Queue::new(1, 2);
        let items = [queue.admit(0), queue.admit(0)];
        let threads = items.map(|item| elsewhere(&queue, move |queue| queue.complete(&item)));
        queue.flush_until(Until::Expired, || ());
        queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.parts.is_freed());
    });
}

/// A flushing thread has given up waiting. Then three threads act at the same time: one completes an old item, one
/// completes an item with a ticket, and one drops the last handle. The last of these three threads frees the queue.
#[test]
fn the_queue_ends_with_an_item_that_has_a_ticket() {
    check(3, || {
        let queue = Queue::new(1, 2);
        let old = queue.admit(0);
        let (flush, rest) = queue.parts.flush.begin(queue.parts.limiters.iter(), || queue.references.add(1));
        queue.settle(rest);
        queue.parts.flush.abandon(flush.unwrap());
        let later = queue.admit(0);
        assert!(later.ticket.is_some());
        let threads = [old, later].map(|item| elsewhere(&queue, move |queue| queue.complete(&item)));
        queue.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(queue.parts.is_freed());
    });
}

/// A limiter is added to the queue while a flush counts the items without a ticket. Either an item that arrives at this
/// limiter comes later than the flush, or the flush waits for the item.
#[test]
fn a_limiter_is_added_while_a_flush_begins() {
    check(3, || {
        let queue = Queue::new(2, 2);
        let published = Arc::new(AtomicBool::new(false));
        let old = queue.admit(0);
        let data = old.data.clone();
        let flushed = Arc::new(Event::new());
        let thread = {
            let (published, flushed) = (published.clone(), flushed.clone());
            elsewhere(&queue, move |queue| {
                let limiter = &queue.parts.limiters[1];
                queue.parts.flush.add_limiter(Some(limiter), || published.store(true, Ordering::Relaxed));
                let later = queue.admit(1);
                if later.ticket.is_some() {
                    queue.complete(&old);
                    flushed.wait();
                    queue.complete(&later);
                } else {
                    queue.complete(&later);
                    queue.complete(&old);
                }
            })
        };
        // As in the engine, this code holds the lock of the flushes while it reads whether the limiter was added.
        let limiters = (0..2).filter(|limiter| *limiter == 0 || published.load(Ordering::Relaxed));
        let limiters = limiters.map(|limiter| &queue.parts.limiters[limiter]);
        let (flush, rest) = queue.parts.flush.begin(limiters, || queue.references.add(1));
        queue.settle(rest);
        flush.into_iter().for_each(|flush| assert!(flush.wait(Until::Forever)));
        assert!(data.read(|done| *done));
        flushed.set();
        thread.join().unwrap();
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// Items arrive, take tickets and leave while the count of one flush ends and the next flush begins. Each item either
/// has a ticket, or is counted by the second flush, but never both.
#[test]
fn an_item_comes_and_leaves_between_two_flushes() {
    check(2, || {
        let queue = Queue::new(1, 3);
        let old = queue.admit(0);
        let data = old.data.clone();
        let worker = elsewhere(&queue, move |queue| queue.complete(&old));
        let issuer = elsewhere(&queue, |queue| {
            let item = queue.admit(0);
            queue.complete(&item);
        });
        queue.flush();
        assert!(data.read(|done| *done));
        queue.flush();
        worker.join().unwrap();
        issuer.join().unwrap();
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// spec: F1.5: when a flush begins, one item in flight has a ticket of an earlier flush, and another item has no
/// ticket. The flush counts only the item without a ticket, and waits for both items.
#[test]
fn a_flush_counts_no_item_that_has_a_ticket() {
    check(3, || {
        let queue = Queue::new(1, 3);
        let old = queue.admit(0);
        let (first, rest) = queue.parts.flush.begin(queue.parts.limiters.iter(), || queue.references.add(1));
        queue.settle(rest);
        let with_ticket = queue.admit(0);
        assert!(with_ticket.ticket.is_some());
        queue.complete(&old);
        assert!(first.unwrap().wait(Until::Expired), "the first flush is over");
        let without = queue.admit(0);
        assert!(without.ticket.is_none());
        let data = [&with_ticket, &without].map(|item| item.data.clone());
        let threads =
            [with_ticket, without].map(|item| elsewhere(&queue, move |queue| queue.complete(&item)));
        queue.flush();
        assert!(data.iter().all(|data| data.read(|done| *done)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        queue.close();
        assert!(queue.parts.is_freed());
    });
}
