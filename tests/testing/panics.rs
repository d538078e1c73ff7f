//! Panics in runs of the test kit: a run fails if no call tells its caller of a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cmwq::testing::{self, Faults, Setup};
use cmwq::{Executor, WorkQueue, blocking, kernel};

use super::support::{assert_says, message, ms};

/// spec: T1.7 (panics pass through, and none is lost)
#[test]
fn panics_pass_through() {
    assert_eq!(message(|| testing::run(|| panic!("of the test"))), "of the test");
    let told = message(|| {
        testing::run(|| {
            drop(WorkQueue::new("lost").spawn(|| panic!("on purpose")).unwrap());
            testing::run_until_idle();
        });
    });
    assert_says(&told, &["a panic was told to no one", "of queue \"lost\""]);
    testing::run(|| {
        let _global = Executor::builder().panic_handler(|_| ()).build_global().unwrap();
        drop(WorkQueue::new("told").spawn(|| panic!("on purpose")).unwrap());
        testing::run_until_idle();
    });
    let told = message(|| testing::run(|| testing::run(|| ())));
    assert_eq!(told, "a run inside of a run");
}

/// spec: T1.7: a panic of an item does not fail the run if a call tells its caller of the panic.
#[test]
fn panics_that_are_told_do_not_fail_a_run() {
    testing::explore(20, || {
        let queue = WorkQueue::new("told");
        let odd = |n: u32| assert_eq!(n % 2, 0, "on purpose");
        assert!(queue.for_each(0..3, odd).is_err());
        assert!(queue.map(0..3, odd).any(|result| result.is_err()));
        let scope = || queue.scope(|scope| drop(scope.spawn(|| panic!("on purpose"))));
        assert!(catch_unwind(AssertUnwindSafe(scope)).is_err());
        let joined = queue.scope(|scope| scope.spawn(|| panic!("on purpose")).unwrap().join());
        assert!(joined.is_err());
        assert!(blocking::block_on(queue.spawn(|| panic!("on purpose")).unwrap()).is_err());
    });
}

/// spec: T1.7, W7.15: a fork's panic is told to the thread that joins the fork.
#[test]
fn the_panic_of_a_fork_is_told() {
    let fails = || panic!("on purpose");
    testing::explore(20, move || {
        let queue = WorkQueue::new("forks");
        let passed_on = move || cmwq::join(|| testing::compute(ms(10)), fails);
        assert!(queue.spawn(passed_on).unwrap().join().is_err());
        let caught = move || catch_unwind(passed_on).is_err();
        assert!(queue.spawn(caught).unwrap().join().unwrap());
        let both = move || cmwq::join(fails, fails);
        assert!(queue.spawn(both).unwrap().join().is_err());
    });
}

/// spec: T1.7, T3.5: a scope learns of a planned panic. An earlier panic on the same thread, of which no call has told
/// its caller, still fails the run.
#[test]
fn a_planned_panic_hides_no_other() {
    let planned = Faults::new().panic_at("of queue \"planned\"", 1);
    let told = message(|| {
        Setup::new().cpus(1).faults(planned).run(|| {
            let lost = kernel::bh("lost").build().unwrap();
            drop(lost.spawn(|| panic!("on purpose")).unwrap());
            testing::run_until_idle();
            let planned = kernel::bh("planned").build().unwrap();
            let scope = || planned.scope(|scope| drop(scope.spawn(|| ())));
            assert!(catch_unwind(AssertUnwindSafe(scope)).is_err());
        });
    });
    assert_says(&told, &["a panic was told to no one", "of queue \"lost\""]);
}
