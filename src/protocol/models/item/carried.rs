//! Models of submissions that carry a value into their runs.
//!
//! Each accepted submission carries a value. Either the submission's run finds this value, or the cancel of the
//! submission returns it.
//!
//! Red under: `carried-after-the-step`, `revives-before-it-carries`, `begin-leaves-what-is-carried`,
//! `cancel-leaves-what-is-carried`.

use super::*;

impl Model {
    /// Submits the item with a value.
    fn queue_carrying(&self, shard: usize, value: u64) {
        let (queued, left) = self.item.queue_carrying(self.target(shard), None, value);
        match queued {
            Queued::Push => {
                self.pushed.fetch_add(1, Ordering::Relaxed);
                self.put(shard);
            }
            Queued::Revived => {}
            Queued::Coalesced | Queued::Refused => return assert_eq!(left, Some(value)),
        }
        assert_eq!(left, None);
        self.due.fetch_add(1, Ordering::Relaxed);
        self.carried.fetch_add(value, Ordering::Relaxed);
    }

    /// Submits the item with a value, to a queue that has no room for another entry.
    fn queue_carrying_without_room(&self, shard: usize, value: u64) {
        let (queued, left) = self.item.revive_carrying(self.target(shard), value);
        if queued == Some(Queued::Revived) {
            assert_eq!(left, None);
            self.due.fetch_add(1, Ordering::Relaxed);
            self.carried.fetch_add(value, Ordering::Relaxed);
        } else {
            assert_eq!(left, Some(value), "refused, or pending already");
        }
    }
}

/// spec: I2.3 (the submission that makes the item pending decides): two issuers submit an item with values while a
/// worker runs the item. Each run finds the value of the submission that made the item pending.
#[test]
fn each_run_finds_what_its_submission_carries() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue_carrying(0, 1);
        let issuer = issue(&model, 0, |model| model.queue_carrying(0, 10));
        model.queue_carrying(0, 100);
        issuer.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: I2.3: a submission uses a cancelled entry again while a worker pops this entry. The run finds the value of the
/// submission.
#[test]
fn a_revived_entry_finds_the_value() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        let worker = spawn(&model, |model| model.work(0));
        model.queue_carrying(0, 1);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: I2.3: the queue has no room, so a submission uses a cancelled entry again. Meanwhile a worker pops this
/// entry, and another thread submits the item, too.
#[test]
fn an_entry_that_is_revived_for_want_of_room_finds_the_value() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        let worker = spawn(&model, |model| model.work(0));
        let issuer = issue(&model, 0, |model| model.queue_carrying_without_room(0, 10));
        model.queue_carrying_without_room(0, 1);
        issuer.join().unwrap();
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: I2.6 (a cancelled submission gives back what it carries): a thread cancels the submission while a worker
/// begins its run.
#[test]
fn a_cancel_returns_the_value_or_the_run_finds_it() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue_carrying(0, 1);
        let worker = spawn(&model, |model| model.work(0));
        model.cancel();
        model.queue_carrying(1, 10);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: I2.3: an item runs with the value of its submission. Meanwhile an issuer submits the item again with another
/// value. A thread that waits for the first run learns that this run has ended.
#[test]
fn a_value_waits_while_the_item_runs() {
    check(2, || {
        let model = Arc::new(Model::new());
        model.queue_carrying(0, 1);
        let (signal, _) = model.item.last_submission().expect("the item is pending");
        let worker = spawn(&model, |model| {
            model.work(0);
            model.work(1);
        });
        model.queue_carrying(1, 10);
        signal.wait(Until::FOREVER);
        worker.join().unwrap();
        model.assert_quiet();
    });
}
