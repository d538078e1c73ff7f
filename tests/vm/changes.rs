//! CPUs that go and return while items are pending for them, and quotas of CPU time that change. When a CPU goes
//! offline, the kernel moves its threads, and forgets their bindings. A changed cpuset also overwrites bindings. So the
//! executor has to bind the threads again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::kernel::ExecutorExt;
use cmwq::{AffinityScope, Attrs, CpuSet, Executor, QueueError, Work, WorkQueue};
use rustix::thread::sched_getcpu;
use testkit::{pin, spin};

use crate::machines::Machine;
use crate::support::{eventually, executor, look, strict};
use crate::sys;

/// The CPU that goes offline. The machine has four CPUs in two caches, and this one shares its cache with `COMPANION`.
const LOST: usize = 3;
const COMPANION: usize = 2;

/// Keeps a CPU offline until this value is dropped.
struct Offline(usize);

impl Offline {
    fn take(cpu: usize) -> Self {
        sys::set_online(cpu, false);
        Self(cpu)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        sys::set_online(self.0, true);
    }
}

/// Makes one queue of each kind that depends on CPUs. The items of the last queue may run on any CPU.
fn queues(executor: &Executor) -> [WorkQueue; 4] {
    [
        WorkQueue::per_cpu("per_cpu").build_on(executor).unwrap(),
        strict(executor, AffinityScope::Cpu),
        strict(executor, AffinityScope::Cache),
        WorkQueue::unbound("loose").build_on(executor).unwrap(),
    ]
}

/// Returns whether items of `queue` for `cpu` run on the CPUs of `pod`, and their workers are bound to exactly these.
fn is_bound(queue: &WorkQueue, cpu: usize, pod: &CpuSet) -> bool {
    (0..20).all(|_| {
        let seen = queue.item(look).on_cpu(cpu).spawn().unwrap().join().unwrap();
        pod.contains(seen.cpu) && seen.allowed == *pod
    })
}

/// spec: A5 (CPUs that return): soon after a CPU has returned, its workers are bound to it again.
fn are_bound_again([per_cpu, cpu, cache, _]: &[WorkQueue; 4]) {
    let pod: CpuSet = [COMPANION, LOST].into_iter().collect();
    for (queue, pod) in [(per_cpu, CpuSet::single(LOST)), (cpu, CpuSet::single(LOST)), (cache, pod)] {
        eventually(format_args!("{}: bound to {pod} again", queue.name()), || is_bound(queue, LOST, &pod));
    }
}

/// Pending items for the CPU that will go, on each queue. Each takes a millisecond, and they are too many to run
/// before.
struct Backlog {
    queued: usize,
    ran: Arc<AtomicUsize>,
    strays: Arc<AtomicUsize>,
}

impl Backlog {
    /// Queues the items. Those of the strict queue for caches must stay in `home`.
    fn queue(queues: &[WorkQueue; 4], home: CpuSet) -> Self {
        let backlog = Self { queued: 4 * 400, ran: Arc::default(), strays: Arc::default() };
        for _ in 0..backlog.queued / 4 {
            for queue in queues {
                let (ran, strays, home) =
                    (Arc::clone(&backlog.ran), Arc::clone(&backlog.strays), home.clone());
                let stays = queue.name() == "cache";
                let item = move || {
                    spin(Duration::from_millis(1));
                    if stays && !home.contains(sched_getcpu()) {
                        strays.fetch_add(1, Ordering::Relaxed);
                    }
                    ran.fetch_add(1, Ordering::Relaxed);
                };
                drop(queue.item(item).on_cpu(LOST).spawn().unwrap());
            }
        }
        backlog
    }

    fn pending(&self) -> usize {
        self.queued - self.ran.load(Ordering::Relaxed)
    }

    fn runs(&self) {
        eventually("every pending item ran", || self.pending() == 0);
        // When a CPU goes, the system may overwrite the bindings of threads, until the manager's next check.
        let strays = self.strays.load(Ordering::Relaxed);
        assert!(
            strays <= self.queued / 16,
            "{strays} strict items outside of their pod: no worker was bound again"
        );
    }
}

/// spec: A5.6 (pending items of a lost CPU), W6.5 (offline CPUs): no item is lost. New items run on other CPUs. Strict
/// items run on the remaining CPU of their pod.
pub(crate) fn pending_items_of_a_lost_cpu_still_run(_: &Machine) {
    let executor = executor();
    let queues = queues(&executor);
    let backlog = Backlog::queue(&queues, [COMPANION, LOST].into_iter().collect());
    let offline = Offline::take(LOST);
    let pending = backlog.pending();
    assert!(pending > 0, "the CPU went too late: no item was pending");
    for queue in &queues {
        let seen = queue.item(look).on_cpu(LOST).spawn().unwrap().join().unwrap();
        assert_ne!(seen.cpu, LOST);
        if queue.name() == "cache" {
            assert_eq!(seen.cpu, COMPANION);
        }
        let work = Work::new(|| ());
        assert_eq!(queue.item(&work).on_cpu(LOST).enqueue(), Ok(true));
        work.flush().unwrap();
    }
    assert_ne!(executor.run_on_cpu(LOST, sched_getcpu).unwrap(), LOST);
    backlog.runs();
    println!("    {pending} of {} items were pending when the CPU had gone", backlog.queued);
    drop(offline);
}

/// spec: A5.7 (CPUs that return), W6
pub(crate) fn a_cpu_that_returns_is_used_again(_: &Machine) {
    let executor = executor();
    let queues = queues(&executor);
    are_bound_again(&queues);
    for _ in 0..2 {
        let offline = Offline::take(LOST);
        for queue in &queues {
            assert_ne!(queue.item(sched_getcpu).on_cpu(LOST).spawn().unwrap().join().unwrap(), LOST);
        }
        drop(offline);
        are_bound_again(&queues);
    }
}

/// spec: A5.6, A2: strict items run even while all CPUs of their pod are offline. They stay on the CPUs of their queue.
/// After the CPUs have returned, they run in their pod again.
pub(crate) fn a_pod_that_lost_all_of_its_cpus_is_served_elsewhere(_: &Machine) {
    let executor = executor();
    let queues = queues(&executor);
    let pod: CpuSet = [COMPANION, LOST].into_iter().collect();
    let attrs = Attrs::new().scope(AffinityScope::Cache).strict(true).cpus(pod.union(&CpuSet::single(1)));
    let without_cpu_0 = WorkQueue::builder("without CPU 0").attrs(attrs).build_on(&executor).unwrap();
    assert!(is_bound(&without_cpu_0, LOST, &pod));
    let backlog = Backlog::queue(&queues, sys::online());
    let offline = [Offline::take(LOST), Offline::take(COMPANION)];
    eventually("the queue keeps its only CPU that is left", || {
        is_bound(&without_cpu_0, LOST, &CpuSet::single(1))
    });
    for cpu in [COMPANION, LOST] {
        for queue in &queues {
            assert!(queue.item(sched_getcpu).on_cpu(cpu).spawn().unwrap().join().unwrap() < COMPANION);
        }
    }
    backlog.runs();
    drop(offline);
    are_bound_again(&queues);
    eventually("the queue has its pod again", || is_bound(&without_cpu_0, LOST, &pod));
}

/// spec: A5.6, A2.1: all accepted items run. Strict items never leave their pod, which keeps one CPU.
pub(crate) fn nothing_is_lost_while_a_cpu_comes_and_goes_under_load(machine: &Machine) {
    let executor = executor();
    let queues = queues(&executor);
    let over = AtomicBool::new(false);
    let [accepted, ran, strays] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let pods: Vec<CpuSet> = machine.cache.split(' ').map(|pod| pod.parse().unwrap()).collect();
    std::thread::scope(|threads| {
        for queue in &queues {
            let (accepted, ran, strays, over, pods) = (&accepted, &ran, &strays, &over, &pods);
            threads.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    for (cpu, home) in pods.iter().flat_map(|pod| pod.iter().map(move |cpu| (cpu, pod))) {
                        let (ran, strays, home) = (Arc::clone(ran), Arc::clone(strays), home.clone());
                        let stays = queue.name() == "cache";
                        let item = move || {
                            cmwq::blocking(|| std::thread::sleep(Duration::from_micros(50)));
                            if stays && !home.contains(sched_getcpu()) {
                                strays.fetch_add(1, Ordering::Relaxed);
                            }
                            ran.fetch_add(1, Ordering::Relaxed);
                        };
                        drop(queue.item(item).on_cpu(cpu).spawn().unwrap());
                        accepted.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        for _ in 0..4 {
            let offline = Offline::take(LOST);
            std::thread::sleep(Duration::from_millis(300));
            drop(offline);
            std::thread::sleep(Duration::from_millis(300));
        }
        over.store(true, Ordering::SeqCst);
    });
    queues.iter().for_each(|queue| queue.flush().unwrap());
    assert_eq!(ran.load(Ordering::Relaxed), accepted.load(Ordering::Relaxed));
    assert_eq!(strays.load(Ordering::Relaxed), 0, "strict items outside of their pod");
    println!("    {} items", ran.load(Ordering::Relaxed));
    are_bound_again(&queues);
}

/// spec: W6.5 (one that is offline runs elsewhere, an unknown one is an error)
pub(crate) fn items_for_a_cpu_that_was_offline_from_the_start_run(_: &Machine) {
    let offline = Offline::take(LOST);
    let executor = executor();
    assert_eq!(*executor.cpus(), sys::online());
    for queue in queues(&executor) {
        assert_ne!(queue.item(sched_getcpu).on_cpu(LOST).spawn().unwrap().join().unwrap(), LOST);
        let nowhere = queue.item(sched_getcpu).on_cpu(LOST + 1).spawn().unwrap_err().error;
        assert_eq!(nowhere, QueueError::UnknownCpu { cpu: LOST + 1 });
    }
    drop(offline);
    for queue in queues(&executor) {
        queue.item(sched_getcpu).on_cpu(LOST).spawn().unwrap().join().unwrap();
    }
}

/// spec: A5: while the main thread sleeps and all its CPUs are offline, an executor can be built. It uses the CPUs on
/// which the system lets the main thread run. When the main thread has only the returned CPU, the executor follows. A
/// second loss of that CPU is not taken for a system that denies the binding.
pub(crate) fn an_executor_is_built_while_the_main_thread_has_no_cpu(_: &Machine) {
    let main = rustix::process::getpid();
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    pin(LOST).unwrap();
    let building = std::thread::spawn(move || {
        pin(COMPANION).unwrap();
        eventually("the main thread sleeps", || sys::is_asleep(main.as_raw_pid()));
        let lose = || {
            let offline = Offline::take(LOST);
            let cpus = rustix::thread::sched_getaffinity(Some(main)).unwrap();
            assert_eq!(cpus.count(), 0, "the main thread has a CPU that is online");
            offline
        };
        let offline = lose();
        let executor = executor();
        assert_eq!(*executor.cpus(), (0..LOST).collect());
        let queue = WorkQueue::builder("early").build_on(&executor).unwrap();
        let is_back = || is_bound(&queue, LOST, &CpuSet::single(LOST));
        assert!(queue.spawn(sched_getcpu).unwrap().join().unwrap() < LOST);
        drop(offline);
        eventually("items run on the CPU of the main thread", is_back);
        let offline = lose();
        let sleeps = || cmwq::blocking(|| std::thread::sleep(Duration::from_millis(100)));
        let items: Vec<_> = (0..8).map(|_| queue.spawn(sleeps).unwrap()).collect();
        items.into_iter().for_each(|item| item.join().unwrap());
        assert!(!executor.dump().affinity_denied);
        drop(offline);
        eventually("items run on this CPU again", is_back);
    });
    let built = building.join();
    rustix::thread::sched_setaffinity(None, &before).unwrap();
    built.unwrap();
}

/// A control group. This process belongs to the group until this value is dropped.
struct Group;

impl Group {
    const ROOT: &str = "/sys/fs/cgroup";

    fn join(controller: &str) -> Self {
        Self::write("cgroup.subtree_control", &format!("+{controller}"));
        std::fs::create_dir(format!("{}/vm", Self::ROOT)).unwrap();
        Self::write("vm/cgroup.procs", &std::process::id().to_string());
        Self
    }

    fn narrow(&self, cpus: &str) {
        Self::write("vm/cpuset.cpus", cpus);
    }

    /// Sets the quota of CPU time, in microseconds per 100 ms, or `max`.
    fn limit(&self, quota: &str) {
        Self::write("vm/cpu.max", &format!("{quota} 100000"));
    }

    fn write(file: &str, text: &str) {
        let file = format!("{}/{file}", Self::ROOT);
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        Self::write("cgroup.procs", &std::process::id().to_string());
        std::fs::remove_dir(format!("{}/vm", Self::ROOT)).unwrap();
    }
}

/// spec: A5.8 (cpuset): pending items of CPUs that were taken away run on other CPUs. Strict items run on the remaining
/// CPUs of their pod, once the executor has noticed the change. When the set is whole again, workers are bound as
/// before.
pub(crate) fn a_narrowed_cpuset_is_obeyed_and_a_widened_one_used(_: &Machine) {
    let group = Group::join("cpuset");
    let executor = executor();
    let queues = queues(&executor);
    let backlog = Backlog::queue(&queues, sys::online());
    group.narrow("0-2");
    assert!(backlog.pending() > 0, "the set was narrowed too late: no item was pending");
    for queue in &queues {
        assert_ne!(queue.item(sched_getcpu).on_cpu(LOST).spawn().unwrap().join().unwrap(), LOST);
    }
    let left = CpuSet::single(COMPANION);
    eventually("strict items stay in the rest of their pod", || is_bound(&queues[2], LOST, &left));
    backlog.runs();
    group.narrow("0-3");
    are_bound_again(&queues);
}

/// spec: C5.3 (version 2), A5.5: there are two managed pools, each with two of the four CPUs. Soon after the quota has
/// changed, the target of each pool is its part of the quota.
pub(crate) fn managed_pools_follow_a_quota(_: &Machine) {
    let group = Group::join("cpu");
    group.limit("150000");
    let executor = executor();
    let queue = WorkQueue::builder("managed").build_on(&executor).unwrap();
    let targets = || {
        for cpu in [0, LOST] {
            queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
        }
        let dump = executor.dump();
        let targets: Vec<_> = dump.pools.iter().map(|pool| pool.target).collect();
        (dump.cpu_quota, targets)
    };
    assert_eq!(targets(), (Some(1.5), vec![Some(1); 2]), "the quota holds from the start");
    for (limit, quota, target) in [("400000", Some(4.0), 2), ("150000", Some(1.5), 1), ("max", None, 2)] {
        group.limit(limit);
        eventually(format_args!("the targets follow {limit}"), || {
            targets() == (quota, vec![Some(target); 2])
        });
    }
}
