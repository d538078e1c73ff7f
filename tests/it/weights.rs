//! Queues with weights on real threads. `runs::fairness` proves the bounds on made-up machines.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, BuildQueueError, Executor, JoinError, SetWeightError, Work, WorkQueue};
use testkit::spin;

use crate::support::{
    Door, builder, cpus, eventually, held, nap, no_thread_of, on_each_executor, one_cpu, stress, stretch,
    ten_counted, time_limit, unseen,
};

/// Makes a queue of this weight, whose pool has all CPUs.
fn tenant(executor: &Executor, weight: u32) -> WorkQueue {
    let attrs = Attrs::new().scope(AffinityScope::System);
    WorkQueue::builder("tenant").weight(weight).attrs(attrs).build_on(executor).unwrap()
}

/// spec: B3.1, E2.9
#[test]
fn a_weight_out_of_range_is_refused() {
    let executor = one_cpu();
    for value in [0, 10_001, 1_000_000, u32::MAX] {
        let error = WorkQueue::builder("q").weight(value).build_on(&executor).unwrap_err();
        assert_eq!(error, BuildQueueError::Weight { value, limit: 10_000 });
        assert_eq!(error.to_string(), format!("weight is {value}; it must be 1 to 10000"));
    }
    let bh = cmwq::kernel::bh("bh").weight(5).build_on(&executor).unwrap_err();
    assert!(matches!(bh, BuildQueueError::Contradiction { this: "weight", with: "a bh queue", .. }), "{bh}");
    assert!(executor.dump().queues.is_empty(), "nothing was made");

    let queue = tenant(&executor, 1);
    for value in [0, 1_000_000] {
        let error = queue.set_weight(value).unwrap_err();
        assert_eq!(error, SetWeightError::Weight { value, limit: 10_000 });
        assert_eq!(error.to_string(), format!("weight is {value}; it must be 1 to 10000"));
        assert_eq!(queue.weight(), Some(1), "nothing was changed");
    }
    queue.set_weight(10_000).unwrap();
    assert_eq!(queue.weight(), Some(10_000));
    let plain = WorkQueue::builder("plain").build_on(&executor).unwrap();
    assert_eq!((plain.set_weight(7), plain.weight()), (Err(SetWeightError::Unweighted), None));
    assert!(executor.dump().queue("plain").unwrap().share.is_none());
}

/// spec: B3.1 (a configuration can name a weight)
#[cfg(feature = "serde")]
#[test]
fn a_weight_can_be_configured() {
    let executor = one_cpu();
    let parsed: cmwq::WorkQueueBuilder =
        serde_json::from_str(r#"{ "name": "tenant", "weight": 250 }"#).unwrap();
    assert_eq!(parsed.build_on(&executor).unwrap().weight(), Some(250));
}

/// spec: B3.3: on real threads, an item of one queue does not wait for the backlog of another queue. The test's bound
/// is wide, because other processes may use the CPUs.
#[test]
fn an_item_does_not_wait_for_the_backlog_of_another_queue() {
    let _limit = time_limit();
    let executor = cpus(2);
    for is_weighted in [true, false] {
        let noisy = match is_weighted {
            true => tenant(&executor, 10_000),
            false => {
                let attrs = Attrs::new().scope(AffinityScope::System);
                WorkQueue::builder("noisy").attrs(attrs).build_on(&executor).unwrap()
            }
        };
        let quiet = tenant(&executor, 100);
        let begun = Arc::new(AtomicUsize::new(0));
        let item = || {
            let begun = Arc::clone(&begun);
            move || {
                begun.fetch_add(1, Ordering::SeqCst);
                spin(Duration::from_millis(10));
            }
        };
        noisy.items((0..100_000).map(|_| item())).spawn_detached().unwrap();
        let mut overtaken_by: Vec<usize> = (0..40)
            .map(|_| {
                nap(Duration::from_millis(3));
                let (begun, before) = (Arc::clone(&begun), begun.load(Ordering::SeqCst));
                quiet.spawn(move || begun.load(Ordering::SeqCst) - before).unwrap().join().unwrap()
            })
            .collect();
        overtaken_by.sort_unstable();
        assert!(noisy.waiting() > 90_000);
        noisy.destroy_now().unwrap();
        // If no queue had a weight, the item would wait for the 256 active items of the other queue.
        assert!(overtaken_by[20] < 40, "{overtaken_by:?}");
    }
}

/// spec: B3.2: on real threads, a queue with a greater weight gets more CPU time, and each queue gets some.
#[test]
fn queues_share_the_cpus_by_their_weights() {
    /// The time that the items of each queue take together, in microseconds. In this time, the test reads the shares
    /// while all queues still have items, even if its thread gets a CPU late.
    const BACKLOG: u64 = 2_000_000;
    let _limit = time_limit();
    let executor = cpus(2);
    let weights = [100, 200, 400];
    let queues = weights.map(|weight| tenant(&executor, weight));
    for (queue, length) in queues.iter().zip([20, 1_000, 200]) {
        let items = (0..BACKLOG / length).map(|_| move || spin(stretch() * Duration::from_micros(length)));
        queue.items(items).spawn_detached().unwrap();
    }
    // If the system reports no CPU time, the shares are measured in elapsed time, and the counters contain no times. So
    // the test reads the shares.
    let used = || {
        let shares: Vec<_> = executor.dump().queues.iter().filter_map(|queue| queue.share).collect();
        let of = |weight| shares.iter().find(|share| share.weight == weight).expect("it exists");
        weights.map(|weight| of(weight).cpu_time.as_secs_f64())
    };
    // On a busy machine, the first queue may be alone for long before the others have items. This time is subtracted.
    let alone = used();
    let used = || {
        let all = used();
        [0, 1, 2].map(|at| all[at] - alone[at])
    };
    eventually("a queue has used some time", || used()[2] > 0.25 * f64::from(stretch()));
    let used = used();
    assert!(queues.iter().all(|queue| queue.waiting() > 0), "all queues have backlogs");
    queues.iter().for_each(|queue| _ = queue.destroy_now());
    // `runs::fairness` proves the shares. In this test, other programs disturb the shares, and so do the lengths of
    // single items.
    assert!(used[2] > 1.5 * used[0] && used.iter().all(|used| *used > 0.0), "{used:?}");
}

/// spec: B3.5: weighted queues of every kind queue, cancel and wait in every way, beside a queue without a weight.
#[test]
fn weighted_queues_do_what_other_queues_do() {
    on_each_executor(|executor| {
        let ran = Arc::new(AtomicUsize::new(0));
        let plain = WorkQueue::builder("plain").build_on(executor).unwrap();
        let queues = [
            WorkQueue::builder("managed").weight(100),
            WorkQueue::builder("few").max_active_total(2).weight(1),
            WorkQueue::per_cpu("per CPU").weight(10_000),
            WorkQueue::unbound("unbound").max_active(3).weight(50),
            WorkQueue::ordered("ordered").weight(300),
        ]
        .map(|queue| queue.build_on(executor).unwrap());
        let count = stress(300);
        let order = Arc::new(Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for queue in &queues {
                let (ran, plain, order) = (&ran, &plain, &order);
                scope.spawn(move || {
                    let work = {
                        let ran = Arc::clone(ran);
                        Work::new(move || _ = ran.fetch_add(1, Ordering::Relaxed))
                    };
                    for n in 0..count {
                        let (own, order, ordered) =
                            (Arc::clone(ran), Arc::clone(order), queue.name() == "ordered");
                        let item = move || {
                            own.fetch_add(1, Ordering::Relaxed);
                            if ordered {
                                order.lock().unwrap().push(n);
                            }
                        };
                        match n % 8 {
                            0 if !ordered => {
                                queue.item(item).on_cpu(n % executor.cpus().len()).spawn_detached().unwrap();
                            }
                            1 if !ordered => _ = queue.spawn(item).unwrap().cancel(),
                            2 => drop(queue.spawn(item).unwrap()),
                            3 => queue.items([item]).spawn_detached().unwrap(),
                            4 => queue.spawn(item).unwrap().join().unwrap(),
                            _ => queue.spawn_detached(item).unwrap(),
                        }
                        match n % 50 {
                            7 => queue.flush().unwrap(),
                            13 => _ = queue.drain(),
                            19 => _ = work.cancel_and_wait(),
                            23 => _ = queue.set_max_active(1 + n % 4),
                            29 => _ = queue.set_weight(1 + n as u32),
                            31 => {
                                let scopes =
                                    [AffinityScope::Cpu, AffinityScope::System, AffinityScope::Cache];
                                _ = queue.apply_attrs(Attrs::new().scope(scopes[n / 50 % 3]));
                            }
                            _ => _ = queue.enqueue(&work).unwrap(),
                        }
                        plain.spawn_detached(|| ()).unwrap();
                    }
                    work.flush().unwrap();
                });
            }
        });
        queues.iter().chain([&plain]).for_each(|queue| queue.flush().unwrap());
        assert!(order.lock().unwrap().is_sorted(), "{order:?}");
        assert!(ran.load(Ordering::Relaxed) >= 4 * count);
        for queue in queues {
            assert_eq!(queue.counters().in_flight(), 0);
            assert_eq!(executor.dump().queue(queue.name()).unwrap().share.unwrap().waiting, 0);
            queue.destroy().unwrap();
        }
    });
}

/// spec: B3.5 (a shutdown that times out), E5.3: a shutdown that times out gives up the items that wait for their turn,
/// and their owners are told.
#[test]
fn a_shutdown_gives_up_items_that_wait_for_their_turn() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:1 core:1 pu:1");
    let executor = unseen(builder).build().unwrap();
    let queue = tenant(&executor, 5);
    let (running, door) = held(&queue);
    let (handles, drops) = ten_counted(&queue);
    assert_eq!(executor.dump().queue("tenant").unwrap().share.unwrap().waiting, 10);
    let report = executor.shutdown(Duration::from_millis(20)).unwrap();
    assert_eq!((report.queues[0].dropped, report.queues[0].running), (10, 1), "{report}");
    assert_eq!(drops.load(Ordering::SeqCst), 10);
    assert!(handles.into_iter().all(|handle| matches!(handle.join(), Err(JoinError::Cancelled))));
    door.open();
    running.join().unwrap();
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: B3.4, B3.5: a weighted queue whose only slot is taken does not delay other queues.
#[test]
fn a_queue_without_slots_takes_no_turn() {
    let executor = unseen(builder("l3:1 core:1 pu:1").0).build().unwrap();
    let one = WorkQueue::builder("one").weight(10_000).max_active_total(1).build_on(&executor).unwrap();
    let other = WorkQueue::builder("other").weight(1).build_on(&executor).unwrap();
    let door = Door::default();
    let wait = door.clone();
    let running = one.spawn(move || wait.wait()).unwrap();
    one.items((0..100).map(|_| || ())).spawn_detached().unwrap();
    for _ in 0..100 {
        other.spawn(|| ()).unwrap().join().unwrap();
    }
    door.open();
    running.join().unwrap();
    one.flush().unwrap();
}
