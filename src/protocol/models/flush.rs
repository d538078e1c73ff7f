//! Models of a flush: [`FlushCount`](crate::protocol::flush::FlushCount) over two gates.
//!
//! The flusher flips one gate after the other while items complete. Exactly one party sees the end, after it
//! the flusher sees everything that the old items wrote, and an item that came after the flip is not waited
//! for. A second flush may begin as soon as the first has ended.
//!
//! Red under: `report-after-slot`, `report-once`, `report-without-release`, `report-without-acquire`,
//! `flipped-without-acquire`, `withdraw-reports-to-nobody`, `withdraw-reports-once`.

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Data, check, check_all};
use crate::policy::admission::{Admission, Half};
use crate::protocol::flush::FlushCount;
use crate::protocol::gate::GateCell;

struct Queue {
    gates: Vec<GateCell>,
    flush: FlushCount,
    /// Flushes that have ended.
    ended: AtomicU64,
    bell: Notify,
}

/// An active item.
struct Item {
    gate: usize,
    half: Half,
    data: Arc<Data<bool>>,
}

impl Queue {
    fn new(gates: usize) -> Self {
        Self {
            gates: (0..gates).map(|_| GateCell::new(Admission::new(2))).collect(),
            flush: FlushCount::new(),
            ended: AtomicU64::new(0),
            bell: Notify::new(),
        }
    }

    fn admit(&self, gate: usize) -> Item {
        let (half, has_slot) = self.gates[gate].admit().unwrap();
        assert!(has_slot);
        Item { gate, half, data: Arc::new(Data::new(false)) }
    }

    fn complete(&self, item: &Item) {
        item.data.write(|done| *done = true);
        let _slot = self.gates[item.gate].complete(item.half, || {
            if self.flush.report() {
                self.end();
            }
        });
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Release);
        self.bell.notify();
    }

    /// The `nth` flush.
    fn flush(&self, nth: u64) {
        let in_flight = self.gates.iter().map(GateCell::flip).sum();
        if self.flush.flipped(in_flight) {
            self.end();
        }
        while self.ended.load(Ordering::Acquire) < nth {
            self.bell.wait();
        }
        assert_eq!(self.ended.load(Ordering::Relaxed), nth, "a flush ended twice");
    }
}

fn complete_later(queue: &Arc<Queue>, item: Item) -> thread::JoinHandle<()> {
    let queue = queue.clone();
    thread::spawn(move || queue.complete(&item))
}

#[test]
fn items_of_two_gates_end_while_both_are_flipped() {
    check(3, || {
        let queue = Arc::new(Queue::new(2));
        let items = [0, 1].map(|gate| queue.admit(gate));
        let data = items.each_ref().map(|item| item.data.clone());
        let threads = items.map(|item| complete_later(&queue, item));
        queue.flush(1);
        for data in data {
            assert!(data.read(|done| *done), "the flush ended before an old item did");
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(queue.ended.load(Ordering::Relaxed), 1);
    });
}

/// An item that comes after the flip ends only when the flush has ended.
#[test]
fn a_later_item_is_not_waited_for() {
    check_all(|| {
        let queue = Arc::new(Queue::new(2));
        let old = queue.admit(0);
        let data = old.data.clone();
        let thread = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.complete(&old);
                let next = queue.admit(1);
                if next.half == Half::Even {
                    queue.complete(&next);
                    None
                } else {
                    Some(next)
                }
            })
        };
        queue.flush(1);
        assert!(data.read(|done| *done));
        if let Some(later) = thread.join().unwrap() {
            queue.complete(&later);
        }
        assert_eq!(queue.ended.load(Ordering::Relaxed), 1);
    });
}

/// An item may have reported to the first flush and still have its slot when the second one counts the slots.
#[test]
fn a_flush_follows_a_flush() {
    check_all(|| {
        let queue = Arc::new(Queue::new(1));
        let item = queue.admit(0);
        let data = item.data.clone();
        let thread = complete_later(&queue, item);
        queue.flush(1);
        assert!(data.read(|done| *done));
        queue.flush(2);
        thread.join().unwrap();
        assert_eq!(queue.ended.load(Ordering::Relaxed), 2);
        assert_eq!(queue.gates[0].load().in_flight(), 0);
    });
}

/// Nor does a flush wait for ever for one that was counted and does not come after all.
#[test]
fn an_item_that_does_not_come_reports_to_each_flush_that_counted_it() {
    check_all(|| {
        let queue = Arc::new(Queue { gates: vec![GateCell::new(Admission::new(0))], ..Queue::new(0) });
        let (half, has_slot) = queue.gates[0].admit().unwrap();
        assert!(!has_slot);
        let issuer = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.gates[0].withdraw(half, || {
                    if queue.flush.report() {
                        queue.end();
                    }
                });
            })
        };
        queue.flush(1);
        queue.flush(2);
        issuer.join().unwrap();
        assert_eq!(queue.ended.load(Ordering::Relaxed), 2);
        assert_eq!(queue.gates[0].load().in_flight(), 0);
    });
}
