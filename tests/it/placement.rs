//! Items that are queued to a CPU or node chosen by the caller.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::ExecutorExt;
use cmwq::{AffinityScope, Attrs, CpuSet, JoinError, QueueError, RunError, Work, WorkQueue};

use crate::support::{
    Door, SOON, builder, bump, cpus, current_pool, eventually, held, on_each_executor, one_cpu, pool, stress,
    time_limit, unseen,
};

const TWO_NODES: &str = "numa:2 l3:2 core:2 pu:2";

/// spec: W6.1 (on_cpu): items for a named CPU run on it, whichever thread submits them, and wherever the executor
/// places other items.
#[test]
fn an_item_runs_on_the_cpu_that_was_named() {
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        for cpu in executor.cpus().iter() {
            let handle = queue.item(current_pool).on_cpu(cpu).spawn().unwrap();
            assert_eq!(handle.join().unwrap(), cpu.to_string());

            let seen = Arc::new(Mutex::new(String::new()));
            let tell = Arc::clone(&seen);
            let work = Work::new(move || *tell.lock().unwrap() = current_pool());
            assert_eq!(queue.item(&work).on_cpu(cpu).enqueue(), Ok(true));
            queue.flush().unwrap();
            assert_eq!(*seen.lock().unwrap(), cpu.to_string());
        }
    });
}

/// spec: W6 (on a CPU that was named), W5.6: an item runs on the CPU that was named with its delay. The delay may be
/// zero, and the item may be moved to another CPU. An unknown CPU is refused as in other submissions.
#[test]
fn a_timer_queues_its_item_to_the_cpu_that_was_named() {
    on_each_executor(|executor| {
        let queue = WorkQueue::per_cpu("q").build_on(executor).unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let tell = Arc::clone(&seen);
        let work = Work::new(move || *tell.lock().unwrap() = current_pool());
        let ran_on = || std::mem::take(&mut *seen.lock().unwrap());
        let long = Duration::from_secs(3600);
        for cpu in executor.cpus().iter() {
            for delay in [Duration::ZERO, Duration::from_micros(200)] {
                assert_eq!(queue.item(&work).on_cpu(cpu).after(delay).enqueue(), Ok(true));
                eventually("the item ran", || !work.is_pending());
                queue.flush().unwrap();
                assert_eq!(ran_on(), cpu.to_string());
            }
            assert_eq!(queue.item(&work).on_cpu(0).after(long).enqueue(), Ok(true));
            assert_eq!(
                queue.item(&work).on_cpu(cpu).after(Duration::ZERO).enqueue(),
                Ok(false),
                "the item is armed"
            );
            assert_eq!(queue.item(&work).on_cpu(cpu).after(long).reschedule(), Ok(true));
            work.flush().unwrap();
            assert_eq!(ran_on(), cpu.to_string());
            assert_eq!(queue.item(&work).on_cpu(cpu).after(Duration::ZERO).reschedule(), Ok(false));
            work.flush().unwrap();
            assert_eq!(ran_on(), cpu.to_string());
        }
        let nowhere = QueueError::UnknownCpu { cpu: 4096 };
        assert_eq!(queue.item(&work).on_cpu(4096).after(long).enqueue(), Err(nowhere));
        assert_eq!(queue.item(&work).after(long).enqueue(), Ok(true));
        assert_eq!(queue.item(&work).on_cpu(4096).after(long).reschedule(), Err(nowhere));
        assert!(work.cancel(), "the item stayed armed");
    });
}

/// spec: W6.1 (on_cpu): items for one CPU keep their order, whichever thread issues them.
#[test]
fn items_for_one_cpu_run_in_the_order_of_their_submission() {
    let _limit = time_limit();
    // Detection is off, so the CPU's items run one after the other.
    let executor = unseen(builder("core:4 pu:1").0.random_placement(3)).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..1000 {
        let order = Arc::clone(&order);
        drop(queue.item(move || order.lock().unwrap().push(n)).on_cpu(2).spawn().unwrap());
    }
    queue.flush().unwrap();
    assert!(order.lock().unwrap().iter().copied().eq(0..1000));
}

/// spec: W6.1: an item of an unbound queue runs in the pod that the named CPU belongs to.
#[test]
fn an_unbound_item_runs_in_the_pod_of_the_cpu_that_was_named() {
    let _limit = time_limit();
    let executor = builder(TWO_NODES).0.build().unwrap();
    for kind in [WorkQueue::builder, WorkQueue::unbound] {
        let queue = kind("q").build_on(&executor).unwrap();
        for (cpu, pod) in [(0, "0-3"), (7, "4-7"), (8, "8-11"), (13, "12-15")] {
            let name = queue.item(current_pool).on_cpu(cpu).spawn().unwrap().join().unwrap();
            assert_eq!(pool(&executor, &name).cpus.to_string(), pod);
        }
    }
}

/// spec: W6.3 (an unknown CPU or node is an error): the issuer gets the closure back, and a reusable item is unchanged.
#[test]
fn a_cpu_or_node_that_does_not_exist_is_an_error() {
    let executor = builder(TWO_NODES).0.build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let work = Work::new(|| unreachable!("the item was refused"));
    for cpu in [16, 4096, usize::MAX] {
        let error = QueueError::UnknownCpu { cpu };
        assert_eq!(queue.item(&work).on_cpu(cpu).enqueue(), Err(error));
        let refused = queue.item(|| "back").on_cpu(cpu).spawn().unwrap_err();
        assert_eq!((refused.error, (refused.into_closure())()), (error, "back"));
        let run = executor.run_on_cpu(cpu, || unreachable!("the item was refused"));
        assert!(matches!(run, Err(RunError::Refused(refused)) if refused == error));
    }
    for node in [2, usize::MAX] {
        let error = QueueError::UnknownNode { node };
        assert_eq!(queue.item(&work).on_node(node).enqueue(), Err(error));
        let refused = queue.item(|| "back").on_node(node).spawn().unwrap_err();
        assert_eq!((refused.error, (refused.into_closure())()), (error, "back"));
    }
    assert!(!work.is_pending());
    queue.flush().unwrap();
}

/// spec: W6.3 (one outside of the allowed set runs elsewhere): an item of such a CPU runs on a nearby CPU, and always
/// on the same one.
#[test]
fn a_cpu_that_the_executor_does_not_use_is_served_nearby() {
    let _limit = time_limit();
    let executor = builder(TWO_NODES).0.cpus("0-2,8,12".parse().unwrap()).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for (named, serves) in [(3, "2"), (9, "8"), (10, "8"), (15, "12")] {
        for _ in 0..3 {
            let name = queue.item(current_pool).on_cpu(named).spawn().unwrap().join().unwrap();
            assert_eq!(name, serves, "for CPU {named}");
            assert_eq!(executor.run_on_cpu(named, current_pool).unwrap(), serves);
        }
    }
}

/// spec: W6.2 (on_node): an item runs on its issuer's CPU if this CPU is on the node. Otherwise, the CPUs of the node
/// take turns.
#[test]
fn an_item_runs_on_the_node_that_was_named() {
    let _limit = time_limit();
    let executor = builder("numa:2 core:4 pu:1").0.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    // The CPUs are made up. A worker of a made-up CPU submits as if it ran on this CPU.
    let issue = |from, node| {
        let queue = queue.clone();
        let handle =
            executor.run_on_cpu(from, move || queue.item(current_pool).on_node(node).spawn().unwrap());
        handle.unwrap().join().unwrap()
    };
    for cpu in 0..8 {
        assert_eq!(issue(cpu, cpu / 4), cpu.to_string(), "the issuer is on the node");
    }
    let mut seen = BTreeMap::new();
    for _ in 0..20 {
        *seen.entry(issue(0, 1)).or_insert(0) += 1;
    }
    let each_in_turn: BTreeMap<String, i32> = (4..8).map(|cpu: usize| (cpu.to_string(), 5)).collect();
    assert_eq!(seen, each_in_turn);
}

/// spec: W6.2: a node whose CPUs the executor does not use is no error. Its items run near their issuer.
#[test]
fn a_node_that_the_executor_does_not_use_is_served_elsewhere() {
    let _limit = time_limit();
    let executor = builder("numa:2 core:4 pu:1").0.cpus("0-3".parse().unwrap()).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let work = Work::new(|| ());
    assert_eq!(queue.item(&work).on_node(1).enqueue(), Ok(true));
    queue.flush().unwrap();
    let handle = executor.run_on_cpu(2, move || queue.item(current_pool).on_node(1).spawn().unwrap());
    assert_eq!(handle.unwrap().join().unwrap(), "2");
}

/// spec: W6.4 (run_on_each_cpu): the function runs once on every CPU, and all runs have ended when the call returns.
/// This holds for callers in items and outside of items.
#[test]
fn a_function_runs_once_on_each_cpu() {
    on_each_executor(|executor| {
        let each_once = |executor: &cmwq::Executor| {
            let seen = Arc::new(Mutex::new(BTreeMap::<usize, Vec<String>>::new()));
            let tell = Arc::clone(&seen);
            let f = move |cpu| tell.lock().unwrap().entry(cpu).or_default().push(current_pool());
            executor.run_on_each_cpu(f).unwrap();
            let expected: BTreeMap<_, _> =
                executor.cpus().iter().map(|cpu| (cpu, vec![cpu.to_string()])).collect();
            assert_eq!(*seen.lock().unwrap(), expected);
        };
        each_once(executor);
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound, WorkQueue::ordered] {
            let queue = kind("q").build_on(executor).unwrap();
            let inside = executor.clone();
            queue.spawn(move || each_once(&inside)).unwrap().join().unwrap();
        }
    });
}

/// spec: W6.4 (run_on_each_cpu): the executor's bound on pending items lets the function run on each CPU.
#[test]
fn a_function_runs_on_each_cpu_of_a_full_executor() {
    let executor = builder("core:4 pu:1").0.max_pending(1).build().unwrap();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (holder, door) = held(&queue);
    let pending = queue.spawn(|| ()).unwrap();
    for _ in 0..20 {
        executor.run_on_each_cpu(|_| ()).unwrap();
    }
    door.open();
    holder.join().unwrap();
    pending.join().unwrap();
}

/// spec: W6.4 (run_on_each_cpu): if the function panics on one CPU, the caller gets the panic. The function still runs
/// on every other CPU.
#[test]
fn a_panic_on_one_cpu_is_returned_when_all_are_done() {
    let _limit = time_limit();
    let executor = builder("core:4 pu:1").0.build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let result = executor.run_on_each_cpu(move |cpu| {
        bump(&count);
        assert!(cpu == 0 || cpu == 3, "no luck on {cpu}");
    });
    let Err(RunError::Failed(JoinError::Panicked(panic))) = result else { panic!("{result:?}") };
    assert_eq!(panic.message(), Some("no luck on 1"));
    assert_eq!(ran.load(Ordering::SeqCst), 4);
    let result = executor.run_on_cpu(2, || panic!("no luck"));
    assert!(matches!(result, Err(RunError::Failed(JoinError::Panicked(_)))));
}

/// spec: W6.4 (run_on_cpu): items of a CPU may call `run_on_cpu` for the same CPU, nested and in parallel. There may be
/// more calls than a queue has slots.
#[test]
fn calls_for_the_own_cpu_never_wait_for_each_others_slots() {
    let _limit = time_limit();
    fn nest(executor: &cmwq::Executor, depth: usize) -> usize {
        let inside = executor.clone();
        if depth == 0 {
            return 0;
        }
        executor.run_on_cpu(0, move || 1 + nest(&inside, depth - 1)).unwrap()
    }
    // Each nested call keeps a thread until the innermost one has run. The calls below need two threads each.
    let executor = builder("core:1 pu:1").0.max_threads(stress(1000).max(300)).build().unwrap();
    assert_eq!(nest(&executor, stress(612)), stress(612));

    let (queue, door) =
        (WorkQueue::per_cpu("q").max_active(512).build_on(&executor).unwrap(), Door::default());
    let inside = Arc::new(AtomicUsize::new(0));
    let calls = stress(100);
    let handles: Vec<_> = (0..calls)
        .map(|_| {
            let (executor, door, inside) = (executor.clone(), door.clone(), Arc::clone(&inside));
            let wait = move || {
                bump(&inside);
                door.wait();
            };
            queue.spawn(move || executor.run_on_cpu(0, wait).unwrap()).unwrap()
        })
        .collect();
    eventually("all of them are inside", || inside.load(Ordering::SeqCst) == calls);
    door.open();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

/// spec: W6.3: a closure that one executor refuses can be queued on another one. CPU numbers are those of the
/// executor's own topology.
#[test]
fn each_executor_counts_its_own_cpus() {
    let _limit = time_limit();
    let (small, large) = (one_cpu(), builder("core:8 pu:1").0.build().unwrap());
    assert_eq!(*large.cpus(), (0..8).collect::<CpuSet>());
    let attrs = Attrs::new().scope(AffinityScope::Cpu);
    let [small, large] = [small, large]
        .map(|executor| WorkQueue::builder("q").attrs(attrs.clone()).build_on(&executor).unwrap());
    let refused = small.item(current_pool).on_cpu(5).spawn().unwrap_err();
    assert!(large.item(refused.into_closure()).on_cpu(5).spawn().unwrap().join().is_ok());
}

/// spec: F6.4 (run_on_cpu, run_on_each_cpu): the function that a call has queued still runs after the call has timed
/// out.
#[test]
fn calls_on_cpus_may_be_waited_for_with_a_timeout() {
    let _limit = time_limit();
    let executor = cpus(2);
    let cpu = executor.cpus().first().unwrap();
    let (door, ended) = (Door::default(), Arc::new(AtomicUsize::new(0)));
    let late = || {
        let (wait, ended) = (door.clone(), Arc::clone(&ended));
        move || {
            wait.wait();
            ended.fetch_add(1, Ordering::SeqCst);
        }
    };
    let moment = Duration::from_millis(5);
    let one = executor.run_on_cpu_timeout(cpu, moment, late());
    assert!(matches!(one, Err(RunError::TimedOut)), "{one:?}");
    let each = late();
    let all = executor.run_on_each_cpu_timeout(moment, move |_| each());
    assert!(matches!(all, Err(RunError::TimedOut)), "{all:?}");
    door.open();
    eventually("all of them end", || ended.load(Ordering::SeqCst) == 3);
    assert_eq!(executor.run_on_cpu_timeout(cpu, SOON, || 6 * 7).unwrap(), 42);
    executor.run_on_each_cpu_timeout(SOON, |_| ()).unwrap();
}
