//! Attributes of queues in use, and the executor's defaults for attributes that a queue does not set.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::{self, ExecutorBuilderExt, ExecutorExt, WorkQueueBuilderExt};
use cmwq::{
    AffinityScope, ApplyAttrsError, Attrs, BuildExecutorError, CpuSet, Executor, JoinHandle,
    SetDefaultScopeError, SetUnboundCpusError, Work, WorkQueue,
};
use fastrand::Rng;

use crate::support::{
    Crowd, Door, SOON, Spawns, builder, bump, counting, cpus, current_pool, eventually, falls_quiet,
    no_thread_of, on_each_executor, one_cpu, own_nice, own_status, pool, stress, time_limit, unseen,
};

/// Makes attributes from a number. Two successive numbers give different attributes.
fn some_attrs(n: usize) -> Attrs {
    let scope = SCOPES[n % 6];
    Attrs::new().scope(scope).nice([0, 3, 5, 7][n % 4]).strict(n % 3 == 0)
}

const SCOPES: [AffinityScope; 6] = [
    AffinityScope::Cpu,
    AffinityScope::System,
    AffinityScope::Cache,
    AffinityScope::Numa,
    AffinityScope::Default,
    AffinityScope::Smt,
];

fn join_all<T>(handles: Vec<JoinHandle<T>>) -> Vec<T> {
    handles.into_iter().map(|handle| handle.join().unwrap()).collect()
}

/// Returns an item that adds the number `n` to the list when it begins.
fn noting(order: &Arc<Mutex<Vec<usize>>>, n: usize) -> impl FnOnce() + Send + 'static {
    let order = Arc::clone(order);
    move || order.lock().unwrap().push(n)
}

/// spec: A4.2 (all or nothing; an empty mask or unknown CPU is an error)
#[test]
fn invalid_attributes_change_nothing() {
    let (builder, _) = builder("core:2 pu:1");
    let executor = builder.power_efficient(true).build().unwrap();
    let on = |builder: cmwq::WorkQueueBuilder| builder.build_on(&executor).unwrap();
    let queue = on(WorkQueue::builder("q").attrs(Attrs::new().nice(4).scope(AffinityScope::Numa)));
    let before = queue.attrs().unwrap();
    let known: CpuSet = "0-1".parse().unwrap();
    let good = || Attrs::new().scope(AffinityScope::Cpu).strict(true);
    for (attrs, error) in [
        (good().cpus(CpuSet::new()), ApplyAttrsError::NoCpu),
        (good().cpus("1-2".parse().unwrap()), ApplyAttrsError::UnknownCpu { cpu: 2, known: known.clone() }),
        (good().nice(20), ApplyAttrsError::Nice(20)),
        (good().nice(-21), ApplyAttrsError::Nice(-21)),
    ] {
        assert_eq!(queue.apply_attrs(attrs), Err(error.clone()), "{error}");
        assert_eq!(queue.attrs().unwrap(), before, "{error}");
    }
    for (queue, error) in
        [(on(WorkQueue::per_cpu("p")), ApplyAttrsError::PerCpu), (on(kernel::bh("b")), ApplyAttrsError::Bh)]
    {
        assert_eq!(queue.apply_attrs(good()), Err(error));
        assert_eq!(queue.attrs(), None);
    }
    let became_unbound = on(WorkQueue::per_cpu("e").power_efficient(true));
    became_unbound.apply_attrs(good()).unwrap();
    assert!(became_unbound.attrs().unwrap().strict);
    assert!(became_unbound.set_max_active(513).is_err(), "only a queue of `unbound` may have more than 512");

    assert_eq!(executor.set_unbound_cpus(CpuSet::new()), Err(SetUnboundCpusError::NoCpu));
    let unknown = SetUnboundCpusError::UnknownCpu { cpu: 7, known: known.clone() };
    assert_eq!(executor.set_unbound_cpus("0,7".parse().unwrap()), Err(unknown));
    assert_eq!(executor.unbound_cpus(), known);
    let error = executor.set_default_scope(AffinityScope::Default);
    assert_eq!(error, Err(SetDefaultScopeError::Default));
    assert_eq!(queue.attrs().unwrap(), before);
    let error = Executor::builder().default_scope(AffinityScope::Default).build().unwrap_err();
    assert!(matches!(error, BuildExecutorError::DefaultScope));

    assert!(executor.shutdown(SOON).unwrap().is_complete());
    assert_eq!(queue.apply_attrs(good()), Err(ApplyAttrsError::ShutDown));
    assert_eq!(executor.set_unbound_cpus(known), Err(SetUnboundCpusError::ShutDown));
    assert_eq!(executor.set_default_scope(AffinityScope::Cpu), Err(SetDefaultScopeError::ShutDown));
    assert_eq!(queue.attrs().unwrap(), before);
}

/// spec: A4.1: items that are queued after a change get the new nice level and the new CPUs.
#[test]
fn a_change_applies_to_items_queued_after_it() {
    let _limit = time_limit();
    let executor = Executor::builder().build().unwrap();
    let all = executor.cpus().clone();
    let last: CpuSet = all.iter().last().into_iter().collect();
    let (usual, portable) = ((own_nice(), own_status("Cpus_allowed_list")), executor.dump().portable);
    for builder in [WorkQueue::builder("q"), WorkQueue::unbound("q"), WorkQueue::ordered("q")] {
        let queue = builder.build_on(&executor).unwrap();
        for (above, cpus) in [(1, &last), (2, &all), (1, &all), (1, &last)] {
            let nice = usual.0 + above;
            let attrs = Attrs::new().nice(nice).cpus(cpus.clone()).scope(AffinityScope::System).strict(true);
            queue.apply_attrs(attrs).unwrap();
            let held = queue.attrs().unwrap();
            assert_eq!(
                (held.nice, &held.cpus, held.scope, held.strict),
                (nice, cpus, AffinityScope::System, true)
            );
            let item = || (own_nice(), own_status("Cpus_allowed_list"));
            // On systems other than Linux, workers keep the nice level and the CPUs of the process.
            let expected = if portable { usual.clone() } else { (nice, cpus.to_string()) };
            assert_eq!(queue.spawn(item).unwrap().join().unwrap(), expected);
        }
    }
}

/// spec: A4.6 (new items do not overtake the backlog of the same CPU): after one change, and after several.
#[test]
fn new_items_do_not_overtake_the_backlog_of_their_cpu() {
    let _limit = time_limit();
    for changes in [1, 2, 5] {
        for max_active in [1, 3, 256] {
            // The executor's nice level is 0 even if the process has another level. So the levels below differ from it.
            let executor = unseen(builder("core:1 pu:1").0).nice(0).build().unwrap();
            let queue = WorkQueue::builder("q").max_active(max_active).build_on(&executor).unwrap();
            let (door, order) = (Door::default(), Arc::new(Mutex::new(Vec::new())));
            let (wait, began) = (door.clone(), Arc::new(AtomicBool::new(false)));
            let begins = Arc::clone(&began);
            let first = queue.spawn(move || {
                begins.store(true, Ordering::SeqCst);
                wait.wait_unguarded();
            });
            let mut handles = vec![first.unwrap()];
            eventually("the first item holds the pool", || began.load(Ordering::SeqCst));
            for round in 0..=changes {
                if round > 0 {
                    queue.apply_attrs(Attrs::new().nice(round % 3)).unwrap();
                }
                handles.extend(
                    (0..10).map(|n| {
                        queue.spawn(noting(&order, usize::try_from(round).unwrap() * 10 + n)).unwrap()
                    }),
                );
            }
            // Items that a later pool of the queue started by mistake would run before this item.
            for nice in [1, 2] {
                let other = WorkQueue::builder("other").build_on(&executor).unwrap();
                other.apply_attrs(Attrs::new().nice(nice)).unwrap();
                other.spawn(|| ()).unwrap().join().unwrap();
            }
            assert_eq!(
                *order.lock().unwrap(),
                Vec::<usize>::new(),
                "the first ten items wait for the pool, and the others wait for the first ten"
            );
            assert_eq!(queue.len(), handles.len());
            door.open();
            join_all(handles);
            let expected: Vec<_> = (0..usize::try_from(changes + 1).unwrap() * 10).collect();
            assert_eq!(*order.lock().unwrap(), expected, "{changes} changes, max_active {max_active}");
        }
    }
}

/// spec: A4.3 (items in flight finish on the old pools): a running item does not delay items that are queued after the
/// change.
#[test]
fn running_items_do_not_delay_items_queued_after_a_change() {
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (door, began) = (Door::default(), Arc::new(AtomicBool::new(false)));
    let (wait, begins) = (door.clone(), Arc::clone(&began));
    let old = queue.spawn(move || {
        begins.store(true, Ordering::SeqCst);
        wait.wait_unguarded();
        (current_pool(), own_nice())
    });
    let old = old.unwrap();
    eventually("the item began", || began.load(Ordering::SeqCst));
    let nice = own_nice() + 3;
    queue.apply_attrs(Attrs::new().nice(nice)).unwrap();
    let (new_pool, new_nice) = queue.spawn(|| (current_pool(), own_nice())).unwrap().join().unwrap();
    assert!(!old.is_finished());
    door.open();
    let (old_pool, old_nice) = old.join().unwrap();
    assert_ne!(old_pool, new_pool);
    assert_eq!((old_nice, new_nice), (nice - 3, if executor.dump().portable { nice - 3 } else { nice }));
}

/// spec: A4.4, Q4.2 (order, also across attribute changes): each issuer's items run in order, one at a time.
#[test]
fn an_ordered_queue_keeps_its_order_while_attributes_change() {
    on_each_executor(|executor| {
        let queue = WorkQueue::ordered("o").build_on(executor).unwrap();
        let (inside, over) = (Arc::new(Crowd::default()), Arc::new(AtomicBool::new(false)));
        let seen = Arc::new(Mutex::new(vec![Vec::new(); 3]));
        let per_issuer = stress(1000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    queue.apply_attrs(some_attrs(n)).unwrap();
                    if over.load(Ordering::SeqCst) && n >= 100 {
                        return;
                    }
                }
            });
            let issuers: Vec<_> = (0..3)
                .map(|issuer| {
                    let (queue, inside, seen) = (&queue, &inside, &seen);
                    scope.spawn(move || {
                        for n in 0..per_issuer {
                            let (inside, seen) = (Arc::clone(inside), Arc::clone(seen));
                            drop(queue.spawn(move || {
                                inside.enter();
                                seen.lock().unwrap()[issuer].push(n);
                                inside.leave();
                            }));
                        }
                    })
                })
                .collect();
            issuers.into_iter().for_each(|issuer| issuer.join().unwrap());
            over.store(true, Ordering::SeqCst);
        });
        queue.flush().unwrap();
        assert_eq!(inside.peak(), 1);
        let expected: Vec<_> = (0..per_issuer).collect();
        seen.lock().unwrap().iter().for_each(|seen| assert_eq!(*seen, expected));
    });
}

/// spec: A4.5 (max_active never exceeded during the change), Q3
#[test]
fn max_active_holds_while_attributes_change() {
    let _limit = time_limit();
    let executor = cpus(4);
    for (builder, most) in [
        (WorkQueue::unbound("q").max_active_total(3), 3),
        (WorkQueue::builder("q").max_active_total(2), 2),
        // The limit of one item holds for each of the four CPUs, so four items may be active.
        (WorkQueue::unbound("q").max_active(1), 4),
    ] {
        let queue = builder.build_on(&executor).unwrap();
        let crowd = Arc::new(Crowd::default());
        let mut handles = Vec::new();
        for n in 0..stress(500) {
            for _ in 0..4 {
                let crowd = Arc::clone(&crowd);
                handles.push(queue.spawn(move || {
                    crowd.enter();
                    cmwq::blocking(std::thread::yield_now);
                    crowd.leave();
                }));
            }
            queue.apply_attrs(some_attrs(n)).unwrap();
        }
        handles.into_iter().for_each(|handle| handle.unwrap().join().unwrap());
        assert!(crowd.peak() <= most, "{} items were active, {most} are allowed", crowd.peak());
    }
}

/// The counts that all threads of the stress test below share.
#[derive(Default)]
struct Books {
    accepted: AtomicUsize,
    ran: AtomicUsize,
    cancelled: AtomicUsize,
}

/// spec: A4.3: no item is lost, run twice or stuck under load, even if threads also flush, freeze and cancel.
#[test]
fn nothing_is_lost_while_attributes_change_under_load() {
    on_each_executor(|executor| {
        let builders = [
            WorkQueue::builder("n"),
            WorkQueue::unbound("u").max_active(2),
            WorkQueue::ordered("o"),
            WorkQueue::builder("f"),
        ];
        let queues = builders.map(|builder| builder.freezable(true).build_on(executor).unwrap());
        let (books, over) = (Arc::new(Books::default()), AtomicBool::new(false));
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        std::thread::scope(|scope| {
            let issuer = |seed: u64| {
                let (queues, books, over, work) = (&queues, &books, &over, &work);
                move || {
                    let mut random = Rng::with_seed(seed);
                    while !over.load(Ordering::SeqCst) {
                        let queue = &queues[random.usize(..4)];
                        issue(queue, books, work, &mut random);
                    }
                }
            };
            scope.spawn(issuer(1));
            scope.spawn(issuer(2));
            for n in 0..stress(1000) {
                queues.iter().for_each(|queue| queue.apply_attrs(some_attrs(n)).unwrap());
                match n % 50 {
                    10 => executor.freeze_begin(),
                    12 => executor.thaw(),
                    20 => executor.set_default_scope(SCOPES[n % 4]).unwrap(),
                    30 => {
                        executor.set_unbound_cpus(executor.cpus().iter().take(1 + n % 3).collect()).unwrap();
                    }
                    _ => {}
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        executor.thaw();
        let counts =
            || [&books.accepted, &books.ran, &books.cancelled].map(|count| count.load(Ordering::SeqCst));
        eventually("the last timers have fired, and every item is accounted for", || {
            let [accepted, ran, cancelled] = counts();
            accepted == ran + cancelled
        });
        work.cancel_and_wait().unwrap();
        queues.iter().for_each(|queue| queue.drain().unwrap());
        assert_eq!(queues.iter().map(WorkQueue::len).sum::<usize>(), 0);
        let [accepted, ran, cancelled] = counts();
        assert_eq!(accepted, ran + cancelled, "an item was counted twice");
        let before = runs.load(Ordering::SeqCst);
        assert_eq!(queues[0].enqueue(&work), Ok(true), "the item is pending nowhere");
        queues[0].flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), before + 1);
    });
}

/// Takes one random step of an issuer in the test above.
fn issue(queue: &WorkQueue, books: &Arc<Books>, work: &Work, random: &mut Rng) {
    let item = || {
        let books = Arc::clone(books);
        move || bump(&books.ran)
    };
    match random.u64(..10) {
        0 => {
            let _newly = queue.enqueue(work).unwrap();
        }
        1 => {
            work.cancel();
        }
        2 => {
            let _newly = queue.item(work).after(Duration::from_micros(random.u64(..500))).enqueue().unwrap();
        }
        3 => {
            // A flush without a timeout would not end while the queue is frozen.
            let _ended = queue.flush_timeout(Duration::from_millis(1));
        }
        4 => {
            let handles = queue.items((0..20).map(|_| item())).spawn().unwrap();
            books.accepted.fetch_add(handles.len(), Ordering::SeqCst);
        }
        5 => {
            bump(&books.accepted);
            if queue.spawn(item()).unwrap().cancel() {
                bump(&books.cancelled);
            }
        }
        6 => {
            bump(&books.accepted);
            drop(queue.item(item()).after(Duration::from_micros(random.u64(..500))).spawn().unwrap());
        }
        _ => {
            bump(&books.accepted);
            drop(queue.spawn(item()).unwrap());
        }
    }
    eventually("the queue is not too long", || queue.len() <= 2000);
}

/// spec: A4.1: a pool that no queue uses any more is closed. If a queue uses a pool again, no second one is made.
#[test]
fn unused_pools_are_closed() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:2 core:2 pu:1");
    let executor = builder.random_placement(5).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let mut names = BTreeSet::new();
    for n in 0..stress(1000) {
        queue.apply_attrs(some_attrs(n)).unwrap();
        names.insert(queue.spawn(current_pool).unwrap().join().unwrap());
    }
    queue.apply_attrs(Attrs::new().scope(AffinityScope::System)).unwrap();
    let last = queue.spawn(current_pool).unwrap().join().unwrap();
    eventually("one pool is left", || {
        let pools = executor.dump().pools;
        pools.len() == 1 && pools[0].name == last
    });
    eventually("only the threads of its workers are left", || {
        let dump = executor.dump();
        dump.threads == dump.pools.iter().map(|pool| pool.workers).sum::<usize>()
    });
    assert!(names.len() <= 12 * 4, "{} different pools: {names:?}", names.len());
    falls_quiet(&prefix);
    drop((queue, executor));
    eventually("all threads end", || no_thread_of(&prefix));
}

/// spec: A4.7 (`set_unbound_cpus`): a queue uses the CPUs that it asked for and that are in the mask. If all of its
/// CPUs are outside of the mask, it uses the CPUs of the mask.
#[test]
fn an_executor_narrows_the_cpus_of_its_unbound_queues() {
    let _limit = time_limit();
    let (builder, _) = builder("l3:2 core:2 pu:1");
    let executor = builder.random_placement(5).build().unwrap();
    let with = |attrs: Attrs| WorkQueue::builder("q").attrs(attrs).build_on(&executor).unwrap();
    let (all, some) = (with(Attrs::new()), with(Attrs::new().cpus("1-2".parse().unwrap())));
    let per_cpu = WorkQueue::per_cpu("p").build_on(&executor).unwrap();
    let cpus_of = |queue: &WorkQueue| queue.attrs().unwrap().cpus.to_string();
    for (mask, of_all, of_some) in
        [("0-1", "0-1", "1"), ("3", "3", "3"), ("2-3", "2-3", "2"), ("0-3", "0-3", "1-2")]
    {
        executor.set_unbound_cpus(mask.parse().unwrap()).unwrap();
        assert_eq!((cpus_of(&all), cpus_of(&some)), (of_all.to_owned(), of_some.to_owned()), "{mask}");
        assert_eq!(executor.unbound_cpus().to_string(), mask);
        assert_eq!(cpus_of(&with(Attrs::new())), of_all, "a queue that is built later");
        let allowed: CpuSet = of_all.parse().unwrap();
        for _ in 0..20 {
            let name = all.spawn(current_pool).unwrap().join().unwrap();
            let served = pool(&executor, &name).cpus;
            assert!(served.iter().all(|cpu| allowed.contains(cpu)), "{served} of {allowed}");
        }
    }
    executor.set_unbound_cpus("0".parse().unwrap()).unwrap();
    assert_eq!(per_cpu.item(current_pool).on_cpu(3).spawn().unwrap().join().unwrap(), "3");
    some.apply_attrs(Attrs::new()).unwrap();
    assert_eq!(cpus_of(&some), "0", "the mask also applies to attributes set later");
}

/// spec: A4.7 (`set_default_scope`), A1.5 (`default`: the executor's)
#[test]
fn the_default_scope_applies_to_queues_that_name_none() {
    let _limit = time_limit();
    let (builder, _) = builder("numa:2 l3:2 core:2 pu:1");
    let executor = builder.build().unwrap();
    let with = |attrs: Attrs| WorkQueue::builder("q").attrs(attrs).build_on(&executor).unwrap();
    let open = with(Attrs::new());
    let asked = with(Attrs::new().scope(AffinityScope::Default));
    let fixed = with(Attrs::new().scope(AffinityScope::Numa));
    for scope in [AffinityScope::Cache, AffinityScope::Cpu, AffinityScope::System] {
        executor.set_default_scope(scope).unwrap();
        let scopes = [&open, &asked, &fixed].map(|queue| queue.attrs().unwrap().scope);
        assert_eq!(scopes, [scope, scope, AffinityScope::Numa]);
        let name = open.spawn(current_pool).unwrap().join().unwrap();
        let cpus = match scope {
            AffinityScope::Cpu => 1,
            AffinityScope::Cache => 2,
            _ => 8,
        };
        assert_eq!(pool(&executor, &name).cpus.len(), cpus, "{scope}");
    }
}

/// spec: A4.1: a change does not wait for items, so an item may change its own queue.
#[test]
fn an_item_changes_the_attributes_of_its_own_queue() {
    let _limit = time_limit();
    let executor = one_cpu();
    for builder in [WorkQueue::builder("q"), WorkQueue::ordered("o"), WorkQueue::unbound("u").max_active(1)] {
        let queue = builder.build_on(&executor).unwrap();
        let own = queue.clone();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let work = Work::with_handle(move |work| {
            bump(&count);
            let n = count.load(Ordering::SeqCst);
            own.apply_attrs(some_attrs(n)).unwrap();
            if n < 100 {
                own.enqueue(work).unwrap();
            }
        });
        queue.enqueue(&work).unwrap();
        eventually("each run has queued the next", || runs.load(Ordering::SeqCst) == 100);
        queue.flush().unwrap();
    }
}

/// spec: A4.1: a high-priority queue keeps its nice level unless its attributes set one.
#[test]
fn high_priority_is_kept_where_attributes_name_no_level() {
    let (builder, _) = builder("core:1 pu:1");
    let executor = builder.nice(0).high_priority_nice(-7).build().unwrap();
    let queue = WorkQueue::builder("q").high_priority(true).build_on(&executor).unwrap();
    let nice = || queue.attrs().unwrap().nice;
    assert_eq!(nice(), -7);
    queue.apply_attrs(Attrs::new().strict(true)).unwrap();
    assert_eq!(nice(), -7);
    queue.apply_attrs(Attrs::new().nice(2)).unwrap();
    assert_eq!(nice(), 2);
    queue.apply_attrs(Attrs::new()).unwrap();
    assert_eq!(nice(), -7);
}

/// spec: A4.3, F6: a rescuer runs the items from before a change, and then the later items that wait for them.
#[test]
fn a_rescuer_runs_the_backlog_of_an_attribute_change() {
    let _limit = time_limit();
    let (builder, _) = builder("core:1 pu:1");
    let spawns = Spawns::failing(..);
    let executor = builder.before_spawn(spawns.hook()).build().unwrap();
    let queue = WorkQueue::builder("q").rescuer(true).build_on(&executor).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    for n in 0..30 {
        handles.push(queue.spawn(noting(&order, n)).unwrap());
        if n % 10 == 9 {
            queue.apply_attrs(Attrs::new().nice(n as i32 % 4)).unwrap();
        }
    }
    join_all(handles);
    assert_eq!(*order.lock().unwrap(), (0..30).collect::<Vec<_>>());
}

/// spec: A4.3, E5: when a shutdown runs out of time, it also gives up the items that an attribute change holds back,
/// and every thread ends.
#[test]
fn a_shutdown_gives_up_items_that_a_change_holds_back() {
    let _limit = time_limit();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = unseen(builder).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (door, began) = (Door::default(), Arc::new(AtomicBool::new(false)));
    let (wait, begins) = (door.clone(), Arc::clone(&began));
    let first = queue.spawn(move || {
        begins.store(true, Ordering::SeqCst);
        wait.wait_unguarded();
    });
    eventually("the first item began", || began.load(Ordering::SeqCst));
    let backlog: Vec<_> = (0..3).map(|_| queue.spawn(|| ()).unwrap()).collect();
    queue.apply_attrs(Attrs::new().nice(1)).unwrap();
    let held: Vec<_> = (0..3).map(|_| queue.spawn(|| ()).unwrap()).collect();
    let report = executor.shutdown(Duration::from_millis(20)).unwrap();
    assert_eq!(report.queues[0].dropped, 6, "{report:?}");
    assert!(backlog.into_iter().chain(held).all(|handle| handle.join().is_err()));
    door.open();
    first.unwrap().join().unwrap();
    drop((queue, executor));
    eventually("all threads end", || no_thread_of(&prefix));
}

/// spec: A4.1: a change of a queue without work wakes no thread and makes none.
#[test]
fn a_change_without_work_wakes_no_thread() {
    let (builder, prefix) = builder("core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    queue.apply_attrs(Attrs::new().nice(1)).unwrap();
    assert_eq!(executor.dump().threads, 0);
    queue.spawn(|| ()).unwrap().join().unwrap();
    falls_quiet(&prefix);
    let (threads, sleeps) = (executor.dump().threads, crate::support::sleeps_of(&prefix));
    let other = WorkQueue::builder("o").attrs(Attrs::new().nice(1)).build_on(&executor).unwrap();
    other.spawn(|| ()).unwrap().join().unwrap();
    falls_quiet(&prefix);
    let sleeps = crate::support::sleeps_of(&prefix).max(sleeps);
    for n in 0..100 {
        // The pool that the queue leaves stays open, because the other queue uses it.
        queue.apply_attrs(Attrs::new().nice(1 + n % 2)).unwrap();
    }
    falls_quiet(&prefix);
    assert_eq!(crate::support::sleeps_of(&prefix), sleeps);
    assert!(executor.dump().threads <= threads.max(3));
}

/// spec: A4: a queue keeps the pools that it has left, and another queue with the same attributes uses them. So there
/// is never more than one pool for each set of attributes that the queue has had.
#[test]
fn pools_that_a_queue_has_left_serve_other_queues() {
    let _limit = time_limit();
    let executor = one_cpu();
    let pool_of = |queue: &WorkQueue| queue.spawn(current_pool).unwrap().join().unwrap();
    let stays = WorkQueue::builder("stays").build_on(&executor).unwrap();
    let left = pool_of(&stays);
    stays.apply_attrs(Attrs::new().nice(own_nice() + 1)).unwrap();
    let own = pool_of(&stays);
    assert_ne!(left, own);
    for _ in 0..3 {
        let comes = WorkQueue::builder("comes").build_on(&executor).unwrap();
        assert_eq!(pool_of(&comes), left);
        stays.apply_attrs(Attrs::new()).unwrap();
        assert_eq!(pool_of(&stays), left);
        drop(comes);
        stays.apply_attrs(Attrs::new().nice(own_nice() + 1)).unwrap();
        assert_eq!(pool_of(&stays), own);
    }
}
