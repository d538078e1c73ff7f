//! Models of [`CurrentItemCell`](crate::protocol::current_item::CurrentItemCell): a reader inspects a worker that runs
//! one item after the other.
//!
//! The reader gets only values of the item that it saw in the worker's word. If that item ends in the meantime, the
//! reader may get no values. The reader also searches for the queue of that item, by the number of the item's shard,
//! and takes a reference to the queue that it finds. Meanwhile, the queue's last item ends, and another queue gets the
//! number. The reader never takes the other queue for the item's queue.
//!
//! Red under: `current-item-without-acquire`, `current-item-without-release`, `current-item-without-second-look`,
//! `current-item-keeps-what-it-finds`.

use std::sync::Arc;

use loom::thread;

use super::{Owned, check, check_all};
use crate::policy::item::ShardId;
use crate::policy::worker::Phase;
use crate::protocol::current_item::CurrentItemCell;
use crate::protocol::references::ReferenceCount;
use crate::protocol::worker::WorkerCell;
use crate::sys::sync::Mutex;

/// The types of the first two items that the worker begins.
static TYPES: [u64; 2] = [1, 2];

/// Begins the item with this sequence number. The number of the item's shard equals the sequence number.
fn begin(word: &WorkerCell, current_item: &CurrentItemCell<u64>, sequence: u64) {
    current_item.publish(&raw const TYPES[sequence as usize - 1], ShardId::new(sequence));
    word.begin_item(Phase::Running);
}

/// spec: S3.2
#[test]
fn the_values_belong_to_the_item_that_was_seen() {
    check_all(|| {
        let worker = Arc::new((WorkerCell::new(Phase::Between), CurrentItemCell::new()));
        let owner = {
            let worker = worker.clone();
            thread::spawn(move || {
                let (word, current_item) = &*worker;
                begin(word, current_item, 1);
                word.end_item();
                begin(word, current_item, 2);
            })
        };
        let (word, current_item) = &*worker;
        let seen = word.load();
        if let Some((item_type, shard)) = current_item.of(word, seen) {
            let expected = &raw const TYPES[seen.sequence() as usize - 1];
            assert_eq!((item_type, shard), (expected, ShardId::new(seen.sequence())));
        }
        owner.join().unwrap();
        let seen = word.load();
        assert_eq!(current_item.of(word, seen), Some((&raw const TYPES[1], ShardId::new(2))));
    });
}

struct Machine {
    word: WorkerCell,
    current_item: CurrentItemCell<u64>,
    queues: [Owned<ReferenceCount>; 2],
    /// The queue whose shard has the number 1 at present.
    register: Mutex<Option<usize>>,
}

impl Machine {
    fn release(&self, queue: usize) {
        if self.queues[queue].release() {
            *self.register.lock() = None;
            self.queues[queue].free();
        }
    }

    /// Returns the queue of the worker's present item, if the reader finds this queue.
    fn look(&self) -> Option<usize> {
        self.current_item.with_shard(&self.word, self.word.load(), |_, is_the_same| {
            let register = self.register.lock();
            let queue = register.filter(|queue| self.queues[*queue].try_ref())?;
            drop(register);
            let found = is_the_same().then_some(queue);
            self.release(queue);
            found
        })
    }
}

/// spec: S3.2
#[test]
fn a_queue_with_the_number_of_a_freed_one_is_not_taken_for_it() {
    check(3, || {
        let queues = [(); 2].map(|()| Owned::new(ReferenceCount::new()));
        let machine = Arc::new(Machine {
            word: WorkerCell::new(Phase::Between),
            current_item: CurrentItemCell::new(),
            queues,
            register: Mutex::new(Some(0)),
        });
        begin(&machine.word, &machine.current_item, 1);
        let owner = {
            let machine = machine.clone();
            thread::spawn(move || {
                machine.word.end_item();
                // The ended item was the last item of its queue. The queue is freed now, unless the reader has a
                // reference.
                machine.release(0);
                let mut register = machine.register.lock();
                register.get_or_insert(1);
            })
        };
        assert_ne!(machine.look(), Some(1), "the item belongs to the other queue");
        owner.join().unwrap();
        assert!(machine.queues[0].is_freed() && !machine.queues[1].is_freed());
    });
}
