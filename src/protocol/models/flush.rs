//! Models of flushes: [`FlushCell`](crate::protocol::flush::FlushCell) over one or two gates, and the end of its queue.
//!
//! A flush ends once every item is done that was queued before it began, sees what these wrote, and waits for no later
//! one, also if another flush waits at the same time. The queue's parts are freed once, after the last access to them.
//!
//! Red under: `count-without-hold`, `counts-what-has-a-ticket`, `report-is-relaxed`, `ticket-after-admission`,
//! `ticket-given-up-before-the-slot`, `waits-for-its-own-tickets`, `gate-is-added-without-the-count`,
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
use crate::protocol::gate::{Came, GateCell, Left};
use crate::protocol::holds::HoldCount;
use crate::sys::wait::Until;

struct Parts {
    gates: Vec<GateCell>,
    flush: FlushCell<Item>,
}

struct Queue {
    parts: Owned<Parts>,
    /// The handle's, one for each closed gate, and those of counts and of items with tickets.
    holds: HoldCount,
}

/// An item that was admitted.
#[derive(Debug)]
struct Item {
    gate: usize,
    ticket: Option<Ticket>,
    /// It does not end before this flush.
    waits_for: Option<Flush>,
    data: Arc<Data<bool>>,
}

impl Queue {
    fn new(gates: usize, max: usize) -> Arc<Self> {
        let gates = (0..gates).map(|_| GateCell::new(Admission::new(max))).collect();
        let parts = Owned::new(Parts { gates, flush: FlushCell::new() });
        Arc::new(Self { parts, holds: HoldCount::new() })
    }

    fn admit(&self, gate: usize) -> Item {
        self.come(gate).0
    }

    /// The item, and whether it has a slot.
    fn come(&self, gate: usize) -> (Item, bool) {
        let cell = &self.parts.gates[gate];
        let (came, ticket) = match cell.admit() {
            Came::Flushing => {
                self.parts.flush.admit(|| cell.admit_beside_flush(false), |came| came.admitted())
            }
            came => (came, None),
        };
        assert!(matches!(came, Came::Started | Came::Waits), "{came:?}");
        (Item { gate, ticket, waits_for: None, data: Arc::new(Data::new(false)) }, came == Came::Started)
    }

    fn complete(&self, item: &Item) {
        item.data.write(|done| *done = true);
        let slot = self.leave(item);
        if slot == Slot::Last {
            self.let_go();
        }
    }

    /// As the engine's `leave_gate`.
    fn leave(&self, item: &Item) -> Slot {
        let gate = &self.parts.gates[item.gate];
        let Some(ticket) = item.ticket else {
            let left = gate.complete();
            self.report(left);
            return left.slot;
        };
        self.holds.add(1);
        let (left, rest) = self.parts.flush.complete(ticket, || gate.complete());
        assert!(!rest.ends_count);
        rest.wake();
        self.let_go();
        left.slot
    }

    fn report(&self, left: Left) {
        if left.was_counted && self.parts.flush.unreported.report() {
            let rest = self.parts.flush.end_count(self.parts.gates.iter());
            self.settle(rest);
        }
    }

    /// As the engine's `give_back`, for an item without a ticket that was told to wait.
    fn take_back(&self, item: &Item) {
        let left = self.parts.gates[item.gate].withdraw();
        self.report(left);
        if left.was_counted {
            let rest = self.parts.flush.arrived(1, self.parts.gates.iter(), |_| panic!("nothing is held"));
            self.settle(rest);
        }
    }

    fn settle(&self, rest: Rest<Item>) {
        let ends_count = rest.ends_count;
        rest.wake();
        if ends_count {
            self.let_go();
        }
    }

    fn begin(&self) -> Option<Flush> {
        let (flush, rest) = self.parts.flush.begin(self.parts.gates.iter(), || self.holds.add(1));
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

    /// The last handle goes.
    fn close(&self) {
        let gates = self.parts.gates.len();
        self.holds.add(gates);
        for gate in 0..gates {
            if self.parts.gates[gate].close() {
                self.let_go();
            }
        }
        self.let_go();
    }

    fn let_go(&self) {
        if self.holds.let_go() {
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
fn items_of_two_gates_end_while_a_flush_begins() {
    check(3, || {
        let queue = Queue::new(2, 2);
        let items = [0, 1].map(|gate| queue.admit(gate));
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

/// spec: F1.2: an item that comes while a flush waits ends only after it, which does not hang.
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

/// spec: F1.6: two flushes overlap, and an item that came after the second waits for it.
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

/// spec: F1.4: an item may have left its gate and still have to report when the next flush begins.
#[test]
fn a_flush_follows_a_flush() {
    check_all(|| {
        let queue = Queue::new(1, 1);
        let item = queue.admit(0);
        let data = item.data.clone();
        let thread = elsewhere(&queue, move |queue| queue.complete(&item));
        queue.flush();
        assert!(data.read(|done| *done));
        queue.flush();
        thread.join().unwrap();
        assert_eq!(queue.parts.gates[0].load().in_flight(), 0);
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// Nor does a flush wait for ever for one that was counted and does not come after all.
#[test]
fn an_item_that_does_not_come_is_not_waited_for() {
    check_all(|| {
        let queue = Queue::new(1, 0);
        let item = queue.admit(0);
        let issuer = elsewhere(&queue, move |queue| {
            queue.take_back(&item);
        });
        queue.flush();
        queue.flush();
        issuer.join().unwrap();
        assert_eq!(queue.parts.gates[0].load().in_flight(), 0);
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// The flush that has begun a count gives up, and the last handle goes: the last item frees the queue, after it has
/// reported.
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

/// The same for an item with a ticket, which leaves last.
#[test]
fn the_queue_ends_with_an_item_that_has_a_ticket() {
    check(3, || {
        let queue = Queue::new(1, 2);
        let old = queue.admit(0);
        let (flush, rest) = queue.parts.flush.begin(queue.parts.gates.iter(), || queue.holds.add(1));
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

/// A gate comes while a flush counts: an item that comes there is later, or the flush waits for it.
#[test]
fn a_gate_is_added_while_a_flush_begins() {
    check(3, || {
        let queue = Queue::new(2, 2);
        let published = Arc::new(AtomicBool::new(false));
        let old = queue.admit(0);
        let data = old.data.clone();
        let flushed = Arc::new(Event::new());
        let thread = {
            let (published, flushed) = (published.clone(), flushed.clone());
            elsewhere(&queue, move |queue| {
                let gate = &queue.parts.gates[1];
                queue.parts.flush.add_gate(Some(gate), || published.store(true, Ordering::Relaxed));
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
        // As the engine's: whether the gate is there, is read under the lock of the flushes.
        let gates = (0..2).filter(|gate| *gate == 0 || published.load(Ordering::Relaxed));
        let gates = gates.map(|gate| &queue.parts.gates[gate]);
        let (flush, rest) = queue.parts.flush.begin(gates, || queue.holds.add(1));
        queue.settle(rest);
        flush.into_iter().for_each(|flush| assert!(flush.wait(Until::Forever)));
        assert!(data.read(|done| *done));
        flushed.set();
        thread.join().unwrap();
        queue.close();
        assert!(queue.parts.is_freed());
    });
}

/// Items come, take tickets and leave while one count ends and the next flush begins: each is counted by the second
/// flush, or has a ticket, and never both.
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

/// spec: F1.5: a flush begins when an item with a ticket of an earlier one is in flight beside one without.
#[test]
fn a_flush_counts_no_item_that_has_a_ticket() {
    check(3, || {
        let queue = Queue::new(1, 3);
        let old = queue.admit(0);
        let (first, rest) = queue.parts.flush.begin(queue.parts.gates.iter(), || queue.holds.add(1));
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
