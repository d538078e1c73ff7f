//! The CPUs on which items run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::ExecutorExt;
use cmwq::{AffinityScope, Attrs, CpuSet, Executor, Work, WorkQueue};
use rustix::thread::sched_getcpu;
use testkit::{pin, spin};

use crate::machines::Machine;
use crate::support::{SCOPES, executor, look, on, strict};
use crate::sys;

/// The number of items for each queue, on every machine.
const ITEMS: usize = 1500;

/// Counts items, and records errors.
#[derive(Default)]
struct Watch {
    ran: AtomicUsize,
    strays: Mutex<Vec<String>>,
}

impl Watch {
    /// Runs as the n-th item, which must not leave `place`. Some items block, with or without a guard.
    fn item(&self, n: usize, place: &CpuSet) {
        let nap = || std::thread::sleep(Duration::from_micros(100));
        for step in 0..2 {
            let cpu = sched_getcpu();
            if !place.contains(cpu) {
                self.strays.lock().unwrap().push(format!("on CPU {cpu} instead of {place}, step {step}"));
            }
            match (step, n % 8) {
                (0, 1) => cmwq::blocking(nap),
                (0, 2) => nap(),
                (0, 3) => spin(Duration::from_micros(300)),
                (0, 4) => std::thread::yield_now(),
                _ => {}
            }
        }
        self.ran.fetch_add(1, Ordering::Relaxed);
    }
}

/// Queues items from every CPU at the same time. `place` returns the CPUs on which the items from a CPU must run.
fn flood(executor: &Executor, queue: &WorkQueue, place: impl Fn(usize) -> CpuSet) {
    let watch = Arc::new(Watch::default());
    let each = ITEMS / executor.cpus().len();
    std::thread::scope(|threads| {
        for cpu in executor.cpus().iter() {
            let (watch, place) = (&watch, place(cpu));
            threads.spawn(move || {
                pin(cpu).unwrap();
                for n in 0..each {
                    let (watch, place) = (Arc::clone(watch), place.clone());
                    drop(queue.spawn(move || watch.item(n, &place)).unwrap());
                }
            });
        }
    });
    queue.flush().unwrap();
    let strays = watch.strays.lock().unwrap();
    assert!(strays.is_empty(), "{}: {} items strayed, first: {}", queue.name(), strays.len(), strays[0]);
    assert_eq!(watch.ran.load(Ordering::Relaxed), each * executor.cpus().len());
}

/// spec: A2.1 (strict): strict items that come from every CPU stay in their pods, even if they block, spin and yield.
pub(crate) fn strict_items_stay_in_the_pod_of_their_issuer(machine: &Machine) {
    let executor = executor();
    let shards: Vec<CpuSet> = machine.cache_shard.split(' ').map(|pod| pod.parse().unwrap()).collect();
    let shard_of = |cpu| shards.iter().find(|shard| shard.contains(cpu)).unwrap().clone();
    for scope in SCOPES {
        let place = |cpu| sys::pod(scope, cpu).unwrap_or_else(|| shard_of(cpu));
        flood(&executor, &strict(&executor, scope), place);
    }
}

/// spec: A1.6 (restricted to the allowed CPUs): items of a queue that is not strict may run anywhere within its mask.
pub(crate) fn items_stay_within_the_mask_of_their_queue(_: &Machine) {
    let executor = executor();
    let odd: CpuSet = executor.cpus().iter().filter(|cpu| cpu % 2 == 1).collect();
    for scope in [AffinityScope::Cpu, AffinityScope::Cache, AffinityScope::System] {
        let attrs = Attrs::new().scope(scope).cpus(odd.clone());
        let queue = WorkQueue::unbound(scope.to_string()).attrs(attrs).build_on(&executor).unwrap();
        flood(&executor, &queue, |_| odd.clone());
    }
}

/// spec: W6.5, E3: items of a per-CPU queue run on the CPU of their issuer, or on the named one.
pub(crate) fn items_of_a_cpu_run_on_it(_: &Machine) {
    let executor = executor();
    let queue = WorkQueue::per_cpu("per_cpu").build_on(&executor).unwrap();
    flood(&executor, &queue, CpuSet::single);

    for cpu in executor.cpus().iter() {
        let seen = queue.item(look).on_cpu(cpu).spawn().unwrap().join().unwrap();
        assert_eq!((seen.cpu, seen.allowed), (cpu, CpuSet::single(cpu)));
        let ran_on = Arc::new(AtomicUsize::new(usize::MAX));
        let tell = Arc::clone(&ran_on);
        let work = Work::new(move || tell.store(sched_getcpu(), Ordering::SeqCst));
        assert_eq!(queue.item(&work).on_cpu(cpu).enqueue(), Ok(true));
        work.flush().unwrap();
        assert_eq!(ran_on.load(Ordering::SeqCst), cpu);
        assert_eq!(executor.run_on_cpu(cpu, sched_getcpu).unwrap(), cpu);
    }

    let elsewhere = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&elsewhere);
    let f = move |cpu| {
        if sched_getcpu() != cpu {
            tell.lock().unwrap().push(cpu);
        }
    };
    executor.run_on_each_cpu(f).unwrap();
    assert!(elsewhere.lock().unwrap().is_empty(), "elsewhere than on CPUs {elsewhere:?}");
}

/// spec: W6.5 (on_node): an item runs on its issuer's CPU if this CPU is on the node. Otherwise, it runs on any CPU of
/// the node.
pub(crate) fn items_of_a_node_run_on_it(_: &Machine) {
    let executor = executor();
    let queue = WorkQueue::per_cpu("node").build_on(&executor).unwrap();
    for (node, cpus) in sys::nodes() {
        for issuer in executor.cpus().iter() {
            let issue = || queue.item(sched_getcpu).on_node(node).spawn().unwrap().join().unwrap();
            let cpu = on(issuer, issue);
            if cpus.contains(issuer) {
                assert_eq!(cpu, issuer, "the issuer is on node {node}");
            }
            assert!(cpus.contains(cpu), "CPU {cpu} is none of node {node}, {cpus}");
        }
    }
}
