//! The lists of offenders: items that use their CPU for long, and items that block without a guard.

use std::time::Duration;

use cmwq::{Detection, Offender, WorkQueue};

use crate::support::{Door, builder, burn, eventually, has_yields, is_portable, nap, time_limit};

fn count(offenders: &[Offender], item_type: &str) -> u64 {
    let of_type = offenders.iter().filter(|offender| offender.item_type.contains(item_type));
    of_type.map(|offender| offender.count).sum()
}

/// Asserts that the list is sorted by count, with the largest count first.
fn check(offenders: &[Offender]) {
    assert!(offenders.windows(2).all(|pair| pair[0].count >= pair[1].count), "{offenders:?}");
}

/// An item that uses its CPU for much longer than the threshold for hogs.
fn computes() {
    burn(Duration::from_millis(60));
}

/// spec: S2.1 (stops counting, counted by type name)
#[test]
fn hogs_are_counted_by_type_and_let_others_start() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    if is_portable(&executor) {
        return;
    }
    assert_eq!(executor.hogs(), []);
    let (door, began) = (Door::default(), Door::default());
    let endless = {
        let (door, began) = (door.clone(), began.clone());
        queue.spawn(move || {
            began.open();
            // The item computes until the item that was queued after it has run.
            let end = std::time::Instant::now() + crate::support::SOON;
            while std::time::Instant::now() < end && !door.is_open() {
                std::hint::spin_loop();
            }
            door.is_open()
        })
    };
    began.wait_unguarded();
    let opens = door.clone();
    queue.spawn(move || opens.open()).unwrap().join().unwrap();
    assert!(endless.unwrap().join().unwrap(), "the next item ran while this one computed");
    // The next item may begin before the manager has added the offender to its list.
    eventually("the hog is counted", || count(&executor.hogs(), "hogs_are_counted") == 1);

    let (mut rounds, mut found) = (0, 0);
    eventually("other hogs are found", || {
        rounds += 1;
        let hogs = queue.spawn(computes).unwrap();
        let waits = queue.spawn(|| ()).unwrap();
        hogs.join().unwrap();
        waits.join().unwrap();
        found = count(&executor.hogs(), "computes");
        found >= 4
    });
    let hogs = executor.hogs();
    check(&hogs);
    assert!(hogs[0].item_type.ends_with("computes"), "{hogs:?}");
    let blocked = count(&executor.undeclared_blockers(), "computes");
    // An item that computes may have to wait for a page of memory. In a build with yields, the crate itself may sleep
    // after an item has started and before its closure or guard begins.
    assert!(2 * blocked < rounds || has_yields(), "using the CPU is not blocking: {blocked} of {rounds}");
}

/// spec: S2.3 (0 = off)
#[test]
fn without_a_threshold_no_item_is_a_hog() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.hog_threshold(None).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let items = [queue.spawn(computes).unwrap(), queue.spawn(computes).unwrap()];
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!(executor.hogs(), []);
}

fn sleeps() {
    nap(Duration::from_millis(30));
}

fn sleeps_under_a_guard() {
    cmwq::blocking(sleeps);
}

/// spec: S3.1 (counted per item type)
#[test]
fn undeclared_blockers_are_counted_by_type() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.detection(Detection::Sampling).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    if is_portable(&executor) {
        return;
    }
    eventually("both kinds were found", || {
        let first = queue.spawn(sleeps).unwrap();
        let second = queue.spawn(|| nap(Duration::from_millis(30))).unwrap();
        let third = queue.spawn(sleeps_under_a_guard).unwrap();
        let waits = queue.spawn(|| ()).unwrap();
        first.join().unwrap();
        second.join().unwrap();
        third.join().unwrap();
        waits.join().unwrap();
        let blockers = executor.undeclared_blockers();
        count(&blockers, "::sleeps") >= 2 && count(&blockers, "{{closure}}") >= 1
    });
    let blockers = executor.undeclared_blockers();
    check(&blockers);
    assert!(count(&blockers, "sleeps_under_a_guard") == 0 || has_yields(), "{blockers:?}");
    assert_eq!(executor.hogs(), [], "blocking is not using the CPU");
}

/// spec: S3.1
#[test]
fn without_detection_no_undeclared_blocker_is_found() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let items = [queue.spawn(sleeps).unwrap(), queue.spawn(sleeps).unwrap()];
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!(executor.undeclared_blockers(), []);
    assert_eq!(executor.dump().detection, Detection::Off);
    assert_eq!(executor.dump().detection_fallback, None, "the mode was requested, so it is no fallback");
}

/// spec: S3.1: if the destructor of a captured value blocks, its item counts as an undeclared blocker.
#[test]
fn destructors_block_undeclared_as_well() {
    let _limit = time_limit();
    struct Slow;
    impl Drop for Slow {
        fn drop(&mut self) {
            sleeps();
        }
    }
    let executor = builder("core:1 pu:1").0.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    if is_portable(&executor) {
        return;
    }
    fn leaves_something(slow: Slow) -> impl FnOnce() -> Slow + Send {
        move || slow
    }
    eventually("the item was found", || {
        // The worker drops the item's result.
        drop(queue.spawn(leaves_something(Slow)).unwrap());
        queue.spawn(|| ()).unwrap().join().unwrap();
        count(&executor.undeclared_blockers(), "leaves_something") > 0
    });
}
