//! The views of an executor: dumps, busy reports and the monitor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::kernel::{self, ExecutorExt, WorkQueueBuilderExt};
use cmwq::observe::{InFlight, QueueKind, QueueSnapshot, ShardSnapshot, Snapshot, WorkerState};
use cmwq::{
    AffinityScope, Attrs, CpuSet, Executor, JoinHandle, WorkQueue, current_queue_name, set_description,
};

use crate::support::{
    Door, SOON, all_kinds, begun_on, builder, cpus, eventually, has_yields, holds_within,
    on_each_executor_unseen, stress, time_limit, unseen,
};

/// Two nodes with two caches each. Each cache has two cores with two CPUs each.
const LARGE: &str = "numa:2 l3:2 core:2 pu:2";

fn large() -> Executor {
    unseen(builder(LARGE).0).build().unwrap()
}

fn queue_of(snapshot: &Snapshot, name: &str) -> QueueSnapshot {
    snapshot.queue(name).unwrap_or_else(|| panic!("{name} is not in {snapshot}")).clone()
}

/// Checks the properties that hold for every snapshot, at any time.
fn check(snapshot: &Snapshot) {
    assert_eq!(snapshot.format, Snapshot::FORMAT);
    assert_eq!(snapshot.pid, std::process::id());
    let ids: Vec<usize> = snapshot.pools.iter().map(|pool| pool.id).collect();
    assert_eq!(ids, (0..ids.len()).collect::<Vec<_>>(), "{snapshot}");
    assert!(snapshot.queues.is_sorted_by_key(|queue| queue.number), "{snapshot}");
    for pool in &snapshot.pools {
        assert!(pool.idle <= pool.workers, "{pool}");
        let parked = pool.worker_details.iter().filter(|worker| worker.state == WorkerState::Idle).count();
        // A worker that is being woken has left the idle stack, but may still be parked.
        assert!(
            parked <= pool.idle + pool.waking,
            "a parked worker is on the idle stack or is being woken: {pool}"
        );
        let leads = |queue: &QueueSnapshot| queue.shards.iter().filter(|shard| shard.pool == pool.id).count();
        assert_eq!(pool.users, snapshot.queues.iter().map(leads).sum::<usize>(), "{snapshot}");
        for worker in &pool.worker_details {
            assert!(worker.thread.starts_with(&snapshot.prefix), "{worker:?}");
        }
    }
    for queue in &snapshot.queues {
        assert_eq!(queue.active + queue.inactive, queue.len);
        assert!(queue.shards.is_sorted_by_key(|shard| shard.cpu));
        if !queue.limited_as_a_whole {
            let sum =
                |count: fn(&ShardSnapshot) -> Option<usize>| queue.shards.iter().filter_map(count).sum();
            assert_eq!(
                (queue.active, queue.inactive),
                (sum(|shard| shard.active), sum(|shard| shard.inactive))
            );
        }
        assert!(queue.shards.iter().all(|shard| shard.pool < snapshot.pools.len()));
    }
    let text = snapshot.to_string();
    assert!(text.contains("Affinity Scopes\n===") && text.contains("Worker Pools"), "{text}");
    assert!(!snapshot.busy().to_string().is_empty());
}

/// spec: O2.1 (scopes, pods, masks)
#[test]
fn scopes_are_shown_with_their_pods() {
    let executor = large();
    let dump = executor.dump();
    check(&dump);
    assert_eq!(dump.cpus.to_string(), "0-15");
    let pods: Vec<(AffinityScope, usize)> =
        dump.scopes.iter().map(|scope| (scope.scope, scope.pods.len())).collect();
    use AffinityScope::{Cache, CacheShard, Cpu, Numa, Smt, System};
    assert_eq!(pods, [(Cpu, 16), (Smt, 8), (Cache, 4), (CacheShard, 4), (Numa, 2), (System, 1)]);
    for scope in &dump.scopes {
        let all = scope.pods.iter().fold(CpuSet::new(), |all, pod| all.union(&pod.cpus));
        assert_eq!(all, dump.cpus, "each CPU is in one pod");
        assert_eq!(scope.pods.iter().map(|pod| pod.cpus.len()).sum::<usize>(), 16);
        assert_eq!(scope.is_default, scope.scope == Cache);
        let is_in_node = scope.scope != System;
        assert!(scope.pods.iter().all(|pod| pod.node.is_some() == is_in_node), "{scope}");
    }
    let nodes: Vec<_> = dump.scopes[4].pods.iter().map(|pod| (pod.cpus.to_string(), pod.node)).collect();
    assert_eq!(nodes, [("0-7".to_owned(), Some(0)), ("8-15".to_owned(), Some(1))]);

    executor.set_default_scope(Numa).unwrap();
    executor.set_unbound_cpus("0-3".parse().unwrap()).unwrap();
    let dump = executor.dump();
    assert!(dump.scopes.iter().all(|scope| scope.is_default == (scope.scope == Numa)), "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("\nunbound_cpus=0-3\n") && text.contains("\nNUMA (default)\n  nr_pods  2\n"),
        "{text}"
    );
}

/// Queues an item that sets a description and then waits at a door under a guard.
fn waits(queue: &WorkQueue, door: &Door) -> JoinHandle<()> {
    let (begun, door) = (Arc::new(AtomicBool::new(false)), door.clone());
    let begins = Arc::clone(&begun);
    let item = queue.spawn(move || {
        set_description("waits at a door");
        begins.store(true, Ordering::SeqCst);
        door.wait();
    });
    eventually("the item has begun", || begun.load(Ordering::SeqCst));
    item.unwrap()
}

/// spec: O2.2 (in-flight items with age and description)
#[test]
fn a_blocked_item_is_shown_with_type_description_and_age() {
    let _limit = time_limit();
    on_each_executor_unseen(|executor| {
        for queue in all_kinds(executor) {
            let (door, begin) = (Door::default(), Instant::now());
            let item = waits(&queue, &door);
            eventually("the item is blocked for a while, and no other item runs", || {
                let dump = executor.dump();
                let report = dump.busy();
                let items: Vec<_> = report.queues.iter().flat_map(|busy| &busy.in_flight).collect();
                let blocked = |item: &&InFlight<'_>| {
                    matches!(item.worker.state, WorkerState::Blocked | WorkerState::Uncounted)
                        && item.item.age.is_none_or(|age| age >= Duration::from_millis(20))
                };
                report.queues.len() == 1 && items.iter().all(blocked)
            });
            let dump = executor.dump();
            check(&dump);
            let report = dump.busy();
            assert_eq!((report.queues.len(), report.others.len()), (1, 0), "{report}");
            let busy = &report.queues[0];
            assert_eq!((busy.queue.name.as_str(), busy.in_flight.len()), (queue.name(), 1), "{report}");
            assert_eq!((busy.pending, busy.inactive), (0, 0), "{report}");
            let (running, worker) = (busy.in_flight[0].item, busy.in_flight[0].worker);
            assert!(running.item_type.contains("dump::waits"), "{report}");
            assert_eq!(running.description.as_deref(), Some("waits at a door"));
            assert_eq!(running.queue_number, Some(busy.queue.number));
            if let Some(age) = running.age {
                // The age comes from a coarse clock, so it may be wrong by some milliseconds.
                let longest = begin.elapsed() + Duration::from_millis(100);
                assert!((Duration::from_millis(20)..=longest).contains(&age), "{age:?}: {report}");
            }
            assert_eq!(worker.thread_id.is_some(), !dump.portable);
            assert!(matches!(worker.state, WorkerState::Blocked | WorkerState::Uncounted), "{worker:?}");
            let text = report.to_string();
            let row = text.lines().find(|line| line.contains("in-flight: ")).unwrap();
            assert!(row.contains("dump::waits") && row.contains(r#""waits at a door""#), "{text}");
            assert!(text.contains(&format!("workqueue {}: ", queue.name())), "{text}");
            assert_eq!((busy.queue.counters.started, busy.queue.len), (1, 1), "{text}");
            door.open();
            item.join().unwrap();
            queue.flush().unwrap();
        }
    });
}

/// spec: O2.2 (pending, inactive)
#[test]
fn waiting_items_are_counted() {
    let _limit = time_limit();
    let executor = unseen(builder("core:1 pu:1").0).build().unwrap();
    let queue = WorkQueue::unbound("q").max_active(3).build_on(&executor).unwrap();
    let door = Door::default();
    let items: Vec<_> = (0..10).map(|_| waits_in_line(&queue, &door)).collect();
    eventually("three run", || executor.dump().busy().queues.iter().any(|queue| queue.in_flight.len() == 3));
    let dump = executor.dump();
    let shown = queue_of(&dump, "q");
    assert_eq!((shown.active, shown.inactive, shown.len), (3, 7, 10), "{dump}");
    assert_eq!(shown.max_active, Some(3));
    assert!(dump.busy().to_string().contains("  inactive: 7\n"), "{}", dump.busy());
    door.open();
    items.into_iter().for_each(|item| item.join().unwrap());

    // The item waits in a guard, so the other items can run beside it on the same CPU.
    let queue = WorkQueue::per_cpu("p").build_on(&executor).unwrap();
    let (first, door, _) = begun_on(&queue);
    let items: Vec<_> = (0..5).map(|_| queue.spawn(|| ()).unwrap()).collect();
    eventually("the others run, because the first one waits in a guard", || {
        executor.dump().busy().queues[0].pending == 0
    });
    door.open();
    first.flush().unwrap();
    items.into_iter().for_each(|item| item.join().unwrap());
    queue.flush().unwrap();
    eventually("nothing is busy", || executor.dump().busy().is_idle());
    assert!(executor.dump().busy().to_string().ends_with("nothing is busy\n"), "{}", executor.dump().busy());
}

fn waits_in_line(queue: &WorkQueue, door: &Door) -> JoinHandle<()> {
    let door = door.clone();
    queue.spawn(move || door.wait()).unwrap()
}

/// spec: O2.1: the dump shows the kind and the numbers of each queue, and its table of pools.
#[test]
fn queues_are_shown_with_their_kind_and_pools() {
    let _limit = time_limit();
    let executor = large();
    let kinds = [
        (WorkQueue::builder("one"), QueueKind::Managed, Some(256)),
        (WorkQueue::per_cpu("two").high_priority(true), QueueKind::PerCpu, Some(256)),
        (WorkQueue::unbound("three").max_active_total(9), QueueKind::Unbound, Some(9)),
        (WorkQueue::ordered("four").freezable(true), QueueKind::Ordered, Some(1)),
        (kernel::bh("five"), QueueKind::Bh, None),
        (WorkQueue::per_cpu("one").cpu_intensive(true).max_pending(7), QueueKind::PerCpu, Some(256)),
    ];
    let mut queues = Vec::new();
    for (builder, kind, max_active) in kinds {
        let queue = builder.build_on(&executor).unwrap();
        for cpu in [0, 9] {
            queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
        }
        queue.flush().unwrap();
        let dump = executor.dump();
        check(&dump);
        let shown = dump.queues.last().unwrap();
        assert_eq!((shown.name.as_str(), shown.kind, shown.max_active), (queue.name(), kind, max_active));
        assert_eq!(shown.shards.iter().map(|shard| shard.cpu).collect::<Vec<_>>(), [0, 9], "{dump}");
        let pool_on = |n: usize| &dump.pools[shown.shards[n].pool];
        assert!(pool_on(0).cpus.contains(0) && pool_on(1).cpus.contains(9), "{dump}");
        let of_cpu = matches!(kind, QueueKind::PerCpu | QueueKind::Bh);
        assert_eq!((pool_on(0).per_cpu, pool_on(0).bh), (of_cpu, kind == QueueKind::Bh), "{dump}");
        assert_eq!(shown.attrs.is_some(), !of_cpu);
        assert_eq!(shown.counters.started, 2);
        queues.push(queue);
    }
    let dump = executor.dump();
    let numbers: Vec<u64> = dump.queues.iter().map(|queue| queue.number).collect();
    assert!(
        numbers.is_sorted_by(|one, other| one < other),
        "queues with the same name have different numbers: {numbers:?}"
    );
    assert!(queue_of(&dump, "two").high_priority && queue_of(&dump, "four").freezable);
    assert!(queue_of(&dump, "three").limited_as_a_whole && !queue_of(&dump, "one").limited_as_a_whole);
    let last = dump.queues.last().unwrap();
    assert!(last.cpu_intensive && last.max_pending == Some(7));
    drop(queues);
    eventually("the queues are gone", || executor.dump().queues.is_empty());
}

/// spec: O2.1 (limits, attributes), Q4, A4: the values in force are shown, not the original ones.
#[test]
fn changes_are_shown() {
    let _limit = time_limit();
    let executor = large();
    let queue = WorkQueue::builder("q").freezable(true).build_on(&executor).unwrap();
    queue.item(|| ()).on_cpu(2).spawn().unwrap().join().unwrap();
    let before = queue_of(&executor.dump(), "q");
    queue.apply_attrs(Attrs::new().scope(AffinityScope::Numa).strict(true).nice(3)).unwrap();
    queue.set_max_active(5).unwrap();
    executor.freeze_begin();
    let dump = executor.dump();
    check(&dump);
    let after = queue_of(&dump, "q");
    let attrs = after.attrs.as_ref().unwrap();
    assert_eq!((attrs.scope, attrs.strict, attrs.nice), (AffinityScope::Numa, true, 3));
    assert_eq!((after.max_active, after.frozen, before.frozen), (Some(5), true, false));
    let pool = &dump.pools[after.shards[0].pool];
    assert_eq!((pool.cpus.to_string(), pool.nice, pool.strict), ("0-7".to_owned(), 3, true), "{dump}");
    let text = dump.to_string();
    assert!(text.contains("q                        managed,S") && text.contains(" frozen"), "{text}");
    executor.thaw();

    let (door, refused) = (Door::default(), AtomicBool::new(false));
    let item = waits(&queue, &door);
    thread::scope(|scope| {
        scope.spawn(|| queue.drain().unwrap());
        eventually("the dump shows that the queue drains", || queue_of(&executor.dump(), "q").draining);
        refused.store(queue.spawn(|| ()).is_err(), Ordering::SeqCst);
        door.open();
    });
    item.join().unwrap();
    assert!(refused.into_inner() && !queue_of(&executor.dump(), "q").draining);
}

/// spec: O2.1: while a thread waits for the queue to be idle, the queue refuses nothing. So no dump says that the queue
/// drains, however often a thread waits.
#[test]
fn a_queue_that_is_only_looked_at_is_not_shown_as_draining() {
    let _limit = time_limit();
    let executor = cpus(4);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..2000).for_each(|_| queue.wait_idle().unwrap());
            over.store(true, Ordering::SeqCst);
        });
        while !over.load(Ordering::SeqCst) {
            assert!(!queue_of(&executor.dump(), "q").draining);
        }
    });
}

/// spec: O2.1 (rescuers)
#[test]
fn a_rescuer_is_shown_with_its_item() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let denied = |name: &str| {
        // Only the names of workers contain a colon. Those of the manager and of rescuers contain none.
        if name.contains(':') { Err(std::io::Error::other("no thread today")) } else { Ok(()) }
    };
    let executor = unseen(builder).before_spawn(denied).build().unwrap();
    let queue = WorkQueue::builder("saver").rescuer(true).build_on(&executor).unwrap();
    let thread = format!("{prefix}/R-saver");
    eventually("the rescuer's thread has begun", || {
        let dump = executor.dump();
        let rescuer = queue_of(&dump, "saver").rescuer.unwrap();
        rescuer.thread == thread && rescuer.thread_id.is_some() != dump.portable
    });
    let door = Door::default();
    let item = waits(&queue, &door);
    let dump = executor.dump();
    check(&dump);
    let report = dump.busy();
    let [running] = report.queues[0].in_flight[..] else { panic!("{report}") };
    assert!(running.worker.is_rescuer && running.worker.thread == thread, "{report}");
    assert_eq!((dump.threads, dump.pools[0].workers), (0, 0), "a rescuer is no worker: {dump}");
    assert!(report.to_string().contains("(RESCUER)"), "{report}");
    let counters = queue_of(&dump, "saver").counters;
    assert!(counters.rescued == 1 && counters.rescuer_calls >= 1, "{counters:?}");
    assert!(dump.to_string().contains("Workqueue -> rescuer\n"), "{dump}");
    let row = executor.monitor().sample().to_string();
    let row = row.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!((row[0], row[7]), ("saver", "1"), "{row:?}");
    door.open();
    item.join().unwrap();
}

/// spec: O2.2 (hung), S4: a pool that the watchdog has reported is shown as stalled until it starts an item.
#[test]
fn a_stall_is_shown_until_it_ends() {
    let _limit = time_limit();
    let threshold = Duration::from_millis(150);
    let builder = unseen(builder("core:1 pu:1").0).watchdog_threshold(threshold).stall_handler(|_| ());
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (door, waiting) = (Door::default(), Arc::new(AtomicBool::new(false)));
    let (its, begins) = (door.clone(), Arc::clone(&waiting));
    let first = queue.spawn(move || {
        begins.store(true, Ordering::SeqCst);
        its.wait_unguarded();
    });
    eventually("the item waits", || waiting.load(Ordering::SeqCst));
    // A new worker that arrives counts as progress, so the test first waits until the spare is there.
    eventually("its spare has come", || executor.dump().pools[0].workers == 2);
    let second = queue.spawn(|| ()).unwrap();
    eventually("the stall is reported", || executor.dump().stalls == 1);
    eventually("the stall is shown", || executor.dump().pools[0].stalled_for.is_some());
    let dump = executor.dump();
    assert!(dump.pools[0].stalled_for.unwrap() >= threshold, "{dump}");
    assert!(dump.to_string().contains(" stalled=") && dump.busy().to_string().contains(" hung="), "{dump}");
    door.open();
    first.unwrap().join().unwrap();
    second.join().unwrap();
    eventually("the stall is over", || executor.dump().pools.iter().all(|pool| pool.stalled_for.is_none()));
    assert_eq!(executor.dump().stalls, 1);
}

/// spec: O2.4 (consistency under load): started items that have not completed are shown as in flight, and each snapshot
/// accounts for every item.
#[test]
fn snapshots_are_consistent_under_load() {
    let _limit = time_limit();
    let executor = builder(LARGE).0.random_placement(3).build().unwrap();
    let queues = all_kinds(&executor);
    // In a build with yields, the items take long, because snapshots take locks all the time.
    let each = stress(if has_yields() { 2_000 } else { 20_000 }) as u64;
    let (runs, stop) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0_usize;
            let mut before = executor.dump();
            while !stop.load(Ordering::SeqCst) {
                let dump = executor.dump();
                check(&dump);
                for (queue, earlier) in dump.queues.iter().zip(&before.queues) {
                    let (now, then) = (queue.counters, earlier.counters);
                    assert!(now.completed <= now.started, "{now:?}");
                    assert!(
                        then.started <= now.started && then.completed <= now.completed,
                        "{then:?} {now:?}"
                    );
                }
                (before, looks) = (dump, looks + 1);
            }
            looks
        });
        for queue in &queues {
            for _ in 0..each {
                let runs = Arc::clone(&runs);
                drop(queue.spawn(move || runs.fetch_add(1, Ordering::Relaxed)).unwrap());
            }
        }
        queues.iter().for_each(|queue| queue.flush().unwrap());
        stop.store(true, Ordering::SeqCst);
        assert!(looks.join().unwrap() > 0);
    });
    assert_eq!(runs.load(Ordering::SeqCst) as u64, each * queues.len() as u64);
    // A flush may return shortly before the last slot is free.
    eventually("all slots are given up", || queues.iter().all(WorkQueue::is_empty));
    let dump = executor.dump();
    for queue in &dump.queues {
        let sum: cmwq::observe::Counters = queue.shards.iter().map(|shard| shard.counters).sum();
        assert_eq!((queue.counters.started, queue.counters.completed), (each, each), "{dump}");
        assert_eq!((sum.started, sum.completed), (each, each), "{dump}");
        assert_eq!((queue.len, queue.counters.in_flight()), (0, 0), "{dump}");
    }
    let report = executor.monitor().sample();
    let total: u64 = report.queues.iter().map(|row| row.counters.started).sum();
    assert_eq!(total, each * queues.len() as u64);
}

/// spec: O2.4: while snapshots are taken, queues may end, and their attributes may change.
#[test]
fn queues_and_attributes_change_while_snapshots_are_taken() {
    let _limit = time_limit();
    let executor = builder(LARGE).0.random_placement(5).build().unwrap();
    let (stop, monitor) = (AtomicBool::new(false), executor.monitor());
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                check(&executor.dump());
                assert!(monitor.sample().queues.is_sorted_by_key(|row| row.number));
            }
        });
        let scopes = [AffinityScope::Cpu, AffinityScope::Numa, AffinityScope::Cache, AffinityScope::System];
        for n in 0..stress(300) {
            let queue = WorkQueue::builder(format!("q{n}")).build_on(&executor).unwrap();
            for scope in scopes {
                (0..4).for_each(|_| drop(queue.spawn(current_queue_name).unwrap()));
                queue.apply_attrs(Attrs::new().scope(scope)).unwrap();
            }
        }
        stop.store(true, Ordering::SeqCst);
        looks.join().unwrap();
    });
    eventually("all are gone", || executor.dump().queues.is_empty());
}

/// Hooks and handlers may take a dump, because no lock is held while they are called.
/// spec: O2.4
#[test]
fn hooks_and_handlers_may_take_a_dump() {
    let _limit = time_limit();
    let looked = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(std::sync::OnceLock::<Executor>::new());
    let (its, count) = (Arc::clone(&seen), Arc::clone(&looked));
    let look = move || {
        if let Some(executor) = its.get() {
            assert!(
                !executor.dump().to_string().is_empty() && !executor.dump().busy().to_string().is_empty()
            );
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (starts, stops, spawns, panics) = (look.clone(), look.clone(), look.clone(), look);
    let builder = builder("core:1 pu:1").0.on_thread_start(starts).on_thread_stop(stops);
    let builder = builder.before_spawn(move |_| {
        spawns();
        Ok(())
    });
    let executor = builder.panic_handler(move |_| panics()).build().unwrap();
    assert!(seen.set(executor.clone()).is_ok());
    let queue = WorkQueue::builder("q").rescuer(true).build_on(&executor).unwrap();
    assert!(queue.spawn(|| panic!("as it was told")).unwrap().join().is_err());
    assert!(holds_within(SOON, || looked.load(Ordering::SeqCst) >= 3), "{looked:?}");
}

/// spec: O2.3 (`Monitor`): the monitor shows the chosen queues, and none once their executor is gone.
#[test]
fn a_monitor_shows_the_chosen_queues() {
    let _limit = time_limit();
    let executor = builder("core:2 pu:1").0.build().unwrap();
    let names = ["mail", "news", "mail"];
    let queues = names.map(|name| WorkQueue::builder(name).build_on(&executor).unwrap());
    for (n, queue) in (1..).zip(&queues) {
        (0..n).for_each(|_| drop(queue.spawn(|| ()).unwrap()));
        queue.flush().unwrap();
    }
    let shown = |monitor: &cmwq::observe::Monitor| -> Vec<(String, u64)> {
        monitor.sample().queues.into_iter().map(|row| (row.name, row.counters.started)).collect()
    };
    let expected = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
        rows.iter().map(|(name, started)| ((*name).to_owned(), *started)).collect()
    };
    assert_eq!(shown(&executor.monitor()), expected(&[("mail", 1), ("news", 2), ("mail", 3)]));
    assert_eq!(shown(&executor.monitor().only(["mail", "absent"])), expected(&[("mail", 1), ("mail", 3)]));
    assert_eq!(shown(&executor.monitor().filter(|name| name.starts_with('n'))), expected(&[("news", 2)]));
    let monitor = executor.monitor();
    let text = monitor.sample().to_string();
    let mut lines = text.lines();
    assert_eq!(lines.next().unwrap().len(), 24 + 9 + 6 + 9 + 4 * 8, "{text}");
    assert!(lines.all(|line| line.len() == 24 + 9 + 6 + 9 + 4 * 8), "{text}");
    drop((queues, executor));
    eventually("the sample is empty", || monitor.sample().queues.is_empty());
}
