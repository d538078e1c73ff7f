//! Models of waits for an item, of cancels that wait for the item's run, and of the order of an ordered queue.
//!
//! Red under: `end-forgets-who-waits`, `begin-leaves-who-waits`, `cancel-forgets-who-waits`,
//! `queue-though-disabled`, `ordered-revives`, `stale-comes-last`, `signal-without-acquire`, `signal-without-release`.

use super::*;

/// spec: F3.2 (cancel_and_wait waits for the running one and keeps requeues out): after the cancel, the item neither
/// runs nor is pending, even if the item's run submits the item again.
#[test]
fn a_cancel_waits_for_a_run_that_submits_the_item_again() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.again.store(0, Ordering::Relaxed);
        let worker = spawn(&model, |model| model.work(0));
        model.cancel_and_wait();
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: F2.1 (waits for the last submission at call time): after the flush, the flushing thread sees what the run has
/// written. The run submits the item again. The flush does not wait for this next submission, which runs only after the
/// end of the flush.
#[test]
fn a_flush_waits_for_the_run_and_not_for_the_next_one() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.again.store(1, Ordering::Relaxed);
        let (signal, _) = model.item.last_submission().expect("the item is pending");
        let worker = spawn(&model, |model| model.work(0));
        signal.wait(Until::FOREVER);
        model.inside.read(|runs| assert_eq!(*runs, 1));
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: F2.1: one submission runs and another submission is pending. The flush is over when the run of the second
/// submission has ended.
#[test]
fn a_flush_waits_for_the_pending_submission() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let worker = spawn(&model, |model| {
            model.work(0);
            model.work(1);
        });
        model.queue(1);
        if let Some((signal, _)) = model.item.last_submission() {
            // The worker works through each list only once, so the item may still be pending after the worker has
            // ended.
            worker.join().unwrap();
            model.drain();
            assert!(signal.wait(Until::Expired), "its run has ended");
        } else {
            worker.join().unwrap();
        }
        model.assert_quiet();
    });
}

/// spec: F2.1, F3: a flush of a submission that is cancelled does not wait for ever.
#[test]
fn a_flush_ends_when_the_submission_is_cancelled() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let flusher = issue(&model, 1, |model| model.flush());
        model.cancel();
        flusher.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: F2 (flush of an armed item), W5.4: the flusher fires the timer, unless the manager fires the timer at that
/// moment.
#[test]
fn a_flush_fires_the_timer_of_an_armed_item() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.arm(0, false);
        let manager = spawn(&model, |model| {
            model.fire(0, 0);
            model.work(0);
        });
        let last = model.item.last_submission();
        if let Some((_, Some(timer))) = last {
            model.fire(timer, 0);
        }
        manager.join().unwrap();
        model.drain();
        assert!(last.is_none_or(|(signal, _)| signal.wait(Until::Expired)), "its run has ended");
        model.assert_quiet();
    });
}

/// spec: Q4.3 (in queueing order): a cancelled item that is submitted again has two entries, and the later entry runs
/// the item.
#[test]
fn in_an_ordered_queue_a_cancelled_entry_is_not_used_again() {
    check(4, || {
        let model = Arc::new(Model::ordered());
        model.queue(0);
        let worker = spawn(&model, |model| model.work(0));
        model.cancel();
        model.queue(0);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: Q4.3: an item has two entries, and the submission of the first entry was cancelled. The first entry does not
/// run the item. A thread then cancels the item and submits it again while a worker pops the second entry.
#[test]
fn in_an_ordered_queue_the_oldest_entry_is_the_cancelled_one() {
    check(3, || {
        let model = Arc::new(Model::ordered());
        model.queue(0);
        model.cancel();
        model.queue(0);
        assert!(model.lists[0].pop());
        let first = model.item.begin(ShardId::new(0), Entry(0));
        assert_eq!(first, Popped::Stale(Entry(0)), "the entry of the cancelled submission runs nothing");
        model.complete(Entry(0));
        let worker = spawn(&model, |model| model.work(0));
        model.cancel();
        model.queue(0);
        worker.join().unwrap();
        model.assert_quiet();
    });
}
