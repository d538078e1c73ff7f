//! Models of items with a timer: the timer fires while another thread cancels the item or moves it to another timer.
//!
//! Red under: `fire-without-asking`, `cancel-leaves-the-timer`, `arm-leaves-the-entry`,
//! `armed-counts-as-listed`, `fire-in-two-steps`.

use super::*;

/// spec: W5.2 (cancel races with firing without loss or double run)
#[test]
fn a_timer_fires_while_it_is_cancelled() {
    check_all(|| {
        let model = Arc::new(Model::new());
        model.arm(0, false);
        let manager = spawn(&model, |model| model.fire(0, 0));
        model.cancel();
        manager.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: W5.2 (`reschedule` races with firing): a thread moves the item to a second timer while the manager may already
/// fire the first timer.
#[test]
fn a_timer_fires_while_it_is_moved() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.arm(0, false);
        let manager = spawn(&model, |model| {
            model.fire(0, 0);
            model.work(0);
        });
        model.arm(1, true);
        manager.join().unwrap();
        model.assert_quiet();
    });
}

/// spec: W5: the manager has taken a timer off the list, and a thread moves the item to another timer before the first
/// timer fires. The first timer does not fire.
#[test]
fn a_timer_that_was_moved_does_not_fire() {
    check_all(|| {
        let model = Arc::new(Model::new());
        model.arm(0, false);
        assert!(model.take_timer(0));
        model.arm(1, true);
        assert_eq!(model.item.fire(&0, model.target(0), None), None);
        model.drop_handle();
        assert!(model.item.load().is_pending(), "the item is pending by the other timer");
        model.assert_quiet();
    });
}

/// spec: W5.2: a thread moves a submitted item to a later time, perhaps while a worker begins the item's run.
#[test]
fn an_item_is_moved_to_later_while_it_begins() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let worker = spawn(&model, |model| model.work(0));
        model.arm(0, true);
        model.fire(0, 1);
        model.work(1);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// A worker pops the cancelled entry of an armed item while the item's timer fires. The armed item is pending through
/// its timer, and not through this entry.
#[test]
fn a_cancelled_entry_is_popped_while_the_timer_fires() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        model.arm(0, false);
        let worker = spawn(&model, |model| model.work(0));
        model.fire(0, 0);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// A worker pops the cancelled entry of an armed item while the item's timer fires. The timer submits the item to
/// another shard than the shard of the cancelled entry.
#[test]
fn a_timer_submits_its_item_to_another_shard() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        model.cancel();
        model.arm(0, false);
        let worker = spawn(&model, |model| model.work(0));
        model.fire(0, 1);
        model.work(1);
        worker.join().unwrap();
        model.assert_quiet();
    });
}

/// An item runs, and stores its next entry. Then a thread moves the item to a later time, and completes the entry that
/// the item has stored.
#[test]
fn an_item_that_runs_and_is_pending_is_moved_to_later() {
    check(3, || {
        let model = Arc::new(Model::new());
        model.queue(0);
        let runner = spawn(&model, |model| model.work(0));
        model.queue(1);
        let other = spawn(&model, |model| model.work(1));
        model.arm(0, true);
        runner.join().unwrap();
        other.join().unwrap();
        model.assert_quiet();
    });
}

/// The timer of an armed item holds the item's last handle. The item runs, and is then freed.
#[test]
fn an_item_whose_timer_has_the_last_handle_runs_and_is_freed() {
    check_all(|| {
        let model = Arc::new(Model::new());
        model.arm(0, false);
        let manager = spawn(&model, |model| {
            model.fire(0, 0);
            model.work(0);
        });
        model.drop_handle();
        manager.join().unwrap();
        model.drain();
        model.assert_gone();
    });
}
