//! Models of [`SubjectCell`](crate::protocol::subject::SubjectCell): somebody looks at a worker that goes from item to
//! item.
//!
//! What is found belongs to the item whose word was seen, whatever the worker does meanwhile.
//!
//! Red under: `subject-without-acquire`, `subject-without-release`, `subject-without-second-look`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::policy::item::ShardId;
use crate::policy::worker::Phase;
use crate::protocol::subject::SubjectCell;
use crate::protocol::worker::WorkerCell;

/// The types of the first items that the worker begins.
static TYPES: [u64; 2] = [1, 2];

/// The item of this sequence, its shard having the same number.
fn begin(word: &WorkerCell, subject: &SubjectCell<u64>, sequence: u64) {
    subject.publish(&raw const TYPES[sequence as usize - 1], ShardId::new(sequence));
    word.begin_item(Phase::Running);
}

/// spec: S3.2
#[test]
fn what_is_found_belongs_to_the_item_that_was_seen() {
    check_all(|| {
        let worker = Arc::new((WorkerCell::new(Phase::Between), SubjectCell::new()));
        let owner = {
            let worker = worker.clone();
            thread::spawn(move || {
                let (word, subject) = &*worker;
                begin(word, subject, 1);
                word.end_item();
                begin(word, subject, 2);
            })
        };
        let (word, subject) = &*worker;
        let seen = word.load();
        if let Some((item_type, shard)) = subject.of(word, seen) {
            let expected = &raw const TYPES[seen.sequence() as usize - 1];
            assert_eq!((item_type, shard), (expected, ShardId::new(seen.sequence())));
        }
        owner.join().unwrap();
        let seen = word.load();
        assert_eq!(subject.of(word, seen), Some((&raw const TYPES[1], ShardId::new(2))));
    });
}
