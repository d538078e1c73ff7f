//! Executors as values, pools that are made on demand, and the sharing of pools.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::kernel::ExecutorBuilderExt;
use cmwq::{Attrs, BuildExecutorError, CpuSet, Executor, TopologyError, TopologySource, WorkQueue};

use crate::support::{
    PROGRESS, builder, cpus, current_pool, eventually, falls_quiet, on_each_executor, one_cpu, own_status,
    threads_of, time_limit, unseen,
};

fn assert_shared<T: Send + Sync + 'static>() {}

/// spec: E1.1 (a value)
#[test]
fn executors_are_values_apart_from_each_other() {
    assert_shared::<Executor>();
    let (one, two) = (one_cpu(), cpus(2));
    assert_eq!((one.cpus().len(), two.cpus().len()), (1, 2));
    let clone = one.clone();
    drop(one);
    let queue = WorkQueue::per_cpu("q").build_on(&clone).unwrap();
    assert_eq!(queue.spawn(current_pool).unwrap().join().unwrap(), "0");
    assert!(clone.dump().threads > 0);
    assert_eq!(two.dump().threads, 0, "the other executor had nothing to do");
}

/// spec: E1.1, E2: the builder accepts every setting, and an executor with all of them works.
#[test]
fn every_setting_is_taken() {
    let (builder, prefix) = builder("l3:2 core:2 pu:1");
    let executor = builder
        .cpus("1-2".parse().unwrap())
        .default_scope(cmwq::AffinityScope::System)
        .nice(3)
        .high_priority_nice(2)
        .idle_timeout(Duration::from_secs(1))
        .idle_ratio(NonZeroUsize::new(2).unwrap())
        .max_threads(4)
        .stack_size(256 * 1024)
        .power_efficient(true)
        .build()
        .unwrap();
    assert_eq!(executor.cpus().to_string(), "1-2");
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let name = queue.spawn(|| std::thread::current().name().unwrap().to_owned()).unwrap().join().unwrap();
    assert!(name.starts_with(&prefix), "{name}");
    let pools = executor.dump().pools;
    assert_eq!((pools.len(), pools[0].nice, pools[0].cpus.to_string().as_str()), (1, 3, "1-2"));
    drop(queue);
    let urgent = WorkQueue::unbound("urgent").high_priority(true).build_on(&executor).unwrap();
    urgent.spawn(|| ()).unwrap().join().unwrap();
    assert!(executor.dump().pools.iter().any(|pool| pool.nice == 2));
}

/// spec: E2.1 (default CPUs: the process's own affinity mask, default topology: probed)
#[test]
fn by_default_an_executor_uses_the_cpus_of_the_process() {
    let executor = Executor::builder().progress_check(PROGRESS).build().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let own: CpuSet = list.trim().parse().unwrap();
    if executor.dump().portable {
        assert_eq!(
            *executor.cpus(),
            (0..own.len()).collect(),
            "the number of CPUs is known, but not their identity"
        );
    } else {
        assert_eq!(*executor.cpus(), own);
    }
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    assert_eq!(queue.spawn(|| 3).unwrap().join().unwrap(), 3);
}

/// spec: X1.1 (and says so in the dump)
#[test]
fn a_snapshot_says_whether_workers_are_bound() {
    let executor = Executor::builder().random_placement(3).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let snapshot = executor.dump();
    assert_eq!(
        snapshot.portable,
        !cfg!(target_os = "linux") || cfg!(cmwq_portable),
        "the same holds before there is a worker"
    );
    assert_eq!(snapshot.to_string().contains("no CPU affinity and no nice levels"), snapshot.portable);
    let item = || (current_pool(), own_status("Cpus_allowed_list"));
    let (pool, allowed) = queue.spawn(item).unwrap().join().unwrap();
    if snapshot.portable {
        assert!(!executor.dump().affinity_denied && !executor.dump().nice_denied, "the system was not asked");
    } else {
        assert_eq!(allowed, pool);
    }
}

/// spec: E2.2 (topology as XML), A6.2 (hwloc reads it)
#[test]
fn a_topology_may_be_given_as_xml() {
    let xml = r#"<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
    <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
      <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
    </object>
  </object>
</topology>"#;
    match Executor::builder().topology(TopologySource::Xml(xml.to_owned())).build() {
        Ok(executor) => assert_eq!(executor.cpus().to_string(), "0-1"),
        Err(BuildExecutorError::Topology(TopologyError::NeedsHwloc { .. })) if !cfg!(feature = "hwloc") => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// spec: E3.1 (an executor with no work has no worker threads; a hundred queues cost no threads)
#[test]
fn a_hundred_queues_without_work_cost_no_threads() {
    let (builder, prefix) = builder("l3:2 core:4 pu:1");
    let executor = builder.build().unwrap();
    let queues: Vec<WorkQueue> = (0..100)
        .map(|n| match n % 4 {
            0 => WorkQueue::builder("managed"),
            1 => WorkQueue::per_cpu("per CPU").high_priority(true),
            2 => WorkQueue::unbound("unbound"),
            _ => WorkQueue::ordered("ordered"),
        })
        .map(|builder| builder.build_on(&executor).unwrap())
        .collect();
    queues.iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(executor.dump().threads, 0);
    assert!(executor.dump().pools.is_empty(), "pools are made on demand");
    // The manager sets its own name, shortly after it was made.
    eventually("only the manager runs", || threads_of(&prefix) == [format!("{prefix}/manager")]);
}

/// spec: E3.2 (two pools per CPU shared by every per-CPU queue)
#[test]
fn per_cpu_queues_share_two_pools_per_cpu() {
    // Detection is off, so that no worker is woken in place of another worker that sleeps.
    let executor = unseen(builder("l3:1 core:2 pu:1").0).random_placement(2).build().unwrap();
    let queues: Vec<WorkQueue> =
        (0..20)
            .map(|n| {
                if n % 2 == 0 { WorkQueue::per_cpu("q") } else { WorkQueue::per_cpu("q").high_priority(true) }
            })
            .map(|builder| builder.build_on(&executor).unwrap())
            .collect();
    for queue in queues.iter().cycle().take(200) {
        queue.spawn(|| ()).unwrap().join().unwrap();
    }
    let mut names: Vec<String> = executor.dump().pools.into_iter().map(|pool| pool.name).collect();
    names.sort();
    assert_eq!(names, ["0", "0H", "1", "1H"]);
    // Each pool has a worker and a spare.
    assert!(executor.dump().threads <= 8, "{}", executor.dump());
}

/// spec: E3.3 (unbound pools: shared by every queue with equal attributes, dropped with their last user), C5.2 (every
/// class has a target of its own)
#[test]
fn unbound_pools_are_shared_by_equals_and_end_with_their_last_user() {
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.build().unwrap();
    let used = |builder: cmwq::WorkQueueBuilder| {
        let queue = builder.build_on(&executor).unwrap();
        queue.spawn(|| ()).unwrap().join().unwrap();
        queue
    };
    let first = used(WorkQueue::unbound("a"));
    let second = used(WorkQueue::unbound("b"));
    let ordered = used(WorkQueue::ordered("c"));
    assert_eq!(executor.dump().pools.len(), 1, "{}", executor.dump());
    // This level must differ from the nice level of the process, which may be above zero.
    let nice = used(WorkQueue::unbound("d").attrs(Attrs::new().nice(18)));
    let managed = used(WorkQueue::builder("e"));
    let half = used(WorkQueue::builder("f").attrs(Attrs::new().cpus(CpuSet::single(1))));
    let targets: Vec<_> = executor.dump().pools.iter().map(|pool| pool.target).collect();
    assert_eq!(targets, [None, None, Some(2), Some(1)], "{}", executor.dump());
    drop((first, ordered, nice, managed, half));
    eventually("pools without users are gone", || executor.dump().pools.len() == 1);
    drop(second);
    eventually("the last pool is gone", || executor.dump().pools.is_empty());
    eventually("its workers are gone", || threads_of(&prefix).len() == 1 && executor.dump().threads == 0);
    // A pool that has ended is made anew when a queue needs it.
    used(WorkQueue::unbound("g"));
}

/// spec: E3.3: pools are made and dropped while other threads use them.
#[test]
fn pools_come_and_go_while_they_are_used() {
    on_each_executor(|executor| {
        let runs = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for n in 0..20 {
                        let queue = WorkQueue::unbound("brief").build_on(executor).unwrap();
                        let counter = Arc::clone(&runs);
                        let handle = queue.spawn(move || counter.fetch_add(1, Ordering::Relaxed)).unwrap();
                        if n % 2 == 0 {
                            handle.join().unwrap();
                        }
                    }
                });
            }
        });
        eventually("all ran", || runs.load(Ordering::Relaxed) == 60);
    });
}

/// spec: E3.4, S1.5: no thread of an idle executor wakes up, even if the executor has run items before.
#[test]
fn an_idle_executor_sleeps() {
    let _limit = time_limit();
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let handles: Vec<_> = (0..100).map(|_| queue.spawn(|| ()).unwrap()).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    falls_quiet(&prefix);
}
