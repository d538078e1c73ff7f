//! Affinity scopes: the pods in which the items of an unbound queue run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cmwq::{AffinityScope, Attrs, CpuSet, WorkQueue};
use rustix::thread::{gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::support::{
    PATIENCE, builder, current_pool, eventually, has_no_elsewhere, own_status, pool, time_limit,
};

/// Queues items from every CPU to a queue with these attributes. Returns the CPUs of each pool that has run some of
/// them.
fn pods_of(shape: &str, attrs: Attrs) -> String {
    let executor = builder(shape).0.random_placement(9).build().unwrap();
    let queue = WorkQueue::unbound("q").attrs(attrs).build_on(&executor).unwrap();
    // With practically every seed, 400 items come from all of the 8 CPUs.
    let handles: Vec<_> = (0..400).map(|_| queue.spawn(current_pool).unwrap()).collect();
    let names: BTreeSet<String> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    let mut pods: Vec<CpuSet> = names.iter().map(|name| pool(&executor, name).cpus).collect();
    pods.sort_by_key(|pod| pod.first());
    pods.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ")
}

/// spec: A1.1 (pods of scopes cpu, smt, cache, numa, system)
#[test]
fn items_run_in_the_pod_of_their_scope() {
    let shape = "numa:2 l3:2 core:1 pu:2";
    for (scope, pods) in [
        (AffinityScope::Cpu, "0 1 2 3 4 5 6 7"),
        (AffinityScope::Smt, "0-1 2-3 4-5 6-7"),
        (AffinityScope::Cache, "0-1 2-3 4-5 6-7"),
        (AffinityScope::Numa, "0-3 4-7"),
        (AffinityScope::System, "0-7"),
    ] {
        assert_eq!(pods_of(shape, Attrs::new().scope(scope)), pods, "scope {scope}");
    }
    assert_eq!(pods_of("l3:2 core:2 pu:2", Attrs::new()), "0-3 4-7", "the default is the cache");
    assert_eq!(pods_of("core:3 pu:1", Attrs::new()), "0-2", "without an L3");
}

/// spec: A1.2 (restricted to allowed CPUs): items that were issued on another CPU run on any of the allowed CPUs.
#[test]
fn pods_are_restricted_to_the_allowed_cpus() {
    let attrs = Attrs::new().cpus("1,3,6".parse().unwrap()).scope(AffinityScope::Numa);
    assert_eq!(pods_of("numa:2 core:4 pu:1", attrs), "1,3 6");
    let attrs = Attrs::new().cpus("6".parse().unwrap()).scope(AffinityScope::Cpu);
    assert_eq!(pods_of("numa:2 core:4 pu:1", attrs), "6");
}

/// spec: A1, E2.3 (default affinity scope)
#[test]
fn the_executors_default_scope_applies_to_queues_that_name_none() {
    let (builder, _) = builder("l3:4 core:2 pu:1");
    let executor = builder.default_scope(AffinityScope::System).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let name = queue.spawn(current_pool).unwrap().join().unwrap();
    assert_eq!(pool(&executor, &name).cpus.to_string(), "0-7");
    assert_eq!(pool(&executor, &name).target, Some(8));
}

/// spec: A1.3, E3: the workers of a pod may run only on its CPUs. The target of a managed pod is the number of its
/// CPUs.
#[test]
fn workers_of_a_pod_are_bound_to_its_cpus() {
    let executor = cmwq::Executor::builder().random_placement(4).build().unwrap();
    for scope in [AffinityScope::Cpu, AffinityScope::Smt, AffinityScope::Cache, AffinityScope::System] {
        let queue = WorkQueue::builder("q").attrs(Attrs::new().scope(scope)).build_on(&executor).unwrap();
        let items = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let items = Arc::clone(&items);
            let item = move || {
                items.fetch_add(1, Ordering::SeqCst);
                (current_pool(), own_status("Cpus_allowed_list"))
            };
            let (name, allowed) = queue.spawn(item).unwrap().join().unwrap();
            let pool = pool(&executor, &name);
            assert!(pool.cpus.to_string() == allowed || executor.dump().portable, "{pool}: {allowed}");
            assert_eq!(pool.target, Some(pool.cpus.len()));
        }
        assert_eq!(items.load(Ordering::SeqCst), 20);
    }
}

/// spec: A5.7: when a CPU goes offline, the system unbinds its threads. If the CPU returns soon, the manager sees no
/// change of the CPUs. Nevertheless, it binds the worker again while items run.
#[test]
fn workers_that_the_system_has_unbound_are_bound_again() {
    let _limit = time_limit();
    let executor = cmwq::Executor::builder().build().unwrap();
    let cpus = executor.cpus().clone();
    if has_no_elsewhere(&executor) {
        return;
    }
    let all = cpus.iter().fold(rustix::thread::CpuSet::new(), |mut set, cpu| {
        set.set(cpu);
        set
    });
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for cpu in cpus.iter() {
        let let_go = move || {
            sched_setaffinity(None, &all).unwrap();
            gettid()
        };
        let worker = queue.item(let_go).on_cpu(cpu).spawn().unwrap().join().unwrap();
        eventually("the worker is bound again while items go on", || {
            queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
            let bound = sched_getaffinity(Some(worker)).unwrap();
            bound.count() == 1 && bound.is_set(cpu)
        });
    }
}

/// spec: A2.3 (the effect of a lost CPU is bounded): until the manager's next check, strict items begin where the
/// system has put their worker. After the check, they begin in their pod again.
#[test]
fn strict_items_return_to_their_pod_after_the_system_has_moved_their_worker() {
    let _limit = time_limit();
    let executor = cmwq::Executor::builder().build().unwrap();
    if has_no_elsewhere(&executor) {
        return;
    }
    let (home, elsewhere) = (executor.cpus().first().unwrap(), executor.cpus().iter().last().unwrap());
    let mut other = rustix::thread::CpuSet::new();
    other.set(elsewhere);
    let strict = Attrs::new().scope(AffinityScope::Cpu).strict(true);
    let queue = WorkQueue::builder("q").attrs(strict).build_on(&executor).unwrap();
    for _ in 0..3 {
        // A changed cpuset overwrites the bindings of threads in the same way.
        let moved = move || {
            sched_setaffinity(None, &other).unwrap();
            gettid()
        };
        let worker = queue.item(moved).on_cpu(home).spawn().unwrap().join().unwrap();
        let is_bound = || {
            let bound = sched_getaffinity(Some(worker)).unwrap();
            bound.count() == 1 && bound.is_set(home)
        };
        let begin = Instant::now();
        let mut strays = 0;
        while !is_bound() {
            strays +=
                usize::from(queue.item(sched_getcpu).on_cpu(home).spawn().unwrap().join().unwrap() != home);
            // The manager checks the bindings every 400 ms, but this machine may be busy.
            assert!(begin.elapsed() < 10 * PATIENCE, "after {strays} items outside of their pod");
        }
        println!("{strays} items began outside of their pod, for {:?}", begin.elapsed());
        for _ in 0..100 {
            assert_eq!(queue.item(sched_getcpu).on_cpu(home).spawn().unwrap().join().unwrap(), home);
        }
    }
}
