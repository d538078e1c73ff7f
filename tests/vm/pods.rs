//! Compares the pods of every scope with the kernel's description.

use std::collections::BTreeMap;

use cmwq::{AffinityScope, CpuSet, Executor};

use crate::machines::Machine;
use crate::support::{SCOPES, executor, look, on, strict};
use crate::sys;

/// The pod of each CPU.
type Pods = BTreeMap<usize, CpuSet>;

/// Finds the pods by the executor's behaviour: queues a strict item from every CPU, and looks where it runs.
fn pods_of(executor: &Executor, scope: AffinityScope) -> Pods {
    let queue = strict(executor, scope);
    let pod_of = |cpu| {
        let seen = on(cpu, || queue.spawn(look).unwrap().join().unwrap());
        let pool = executor.dump().pools.into_iter().find(|pool| pool.name == seen.pool);
        let pod = pool.unwrap_or_else(|| panic!("there is no pool {}", seen.pool)).cpus;
        assert_eq!(seen.allowed, pod, "scope {scope}: the worker of pool {} is bound to its pod", seen.pool);
        assert!(pod.contains(seen.cpu), "scope {scope}: in {pod}, not on {}", seen.cpu);
        pod
    };
    executor.cpus().iter().map(|cpu| (cpu, pod_of(cpu))).collect()
}

fn to_text(pods: &Pods) -> String {
    let mut each: Vec<&CpuSet> = pods.values().collect();
    each.sort_by_key(|pod| pod.first());
    each.dedup();
    each.into_iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ")
}

/// This checks the emulator and not the crate, but the other checks depend on the emulator.
pub(crate) fn the_machine_is_the_expected_one(machine: &Machine) {
    for (scope, meant) in [
        (AffinityScope::Smt, machine.smt),
        (AffinityScope::Cache, machine.cache),
        (AffinityScope::Numa, machine.numa),
    ] {
        let pods = sys::online().iter().map(|cpu| (cpu, sys::pod(scope, cpu).unwrap())).collect();
        assert_eq!(to_text(&pods), meant, "scope {scope}");
    }
}

/// spec: A1.6, A6.4: the pods of every scope are those of `/sys`, and workers are bound to them. This check prints the
/// pods. `run` compares the lines of a build with hwloc with those of a build without it.
pub(crate) fn pods_are_those_that_the_kernel_reports(machine: &Machine) {
    let executor = executor();
    assert_eq!(*executor.cpus(), sys::online());
    for scope in SCOPES {
        let pods = pods_of(&executor, scope);
        println!("pods {scope} {}", to_text(&pods));
        if scope == AffinityScope::CacheShard {
            assert_eq!(to_text(&pods), machine.cache_shard, "shards");
        }
        for (&cpu, pod) in &pods {
            if let Some(expected) = sys::pod(scope, cpu) {
                assert_eq!(*pod, expected, "scope {scope}: the pod of CPU {cpu}");
            }
        }
    }
}
