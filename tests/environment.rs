//! Tests in which the CPUs or the quota of the process change while an executor runs. They use `sched_setaffinity`,
//! cpusets and CPU quotas of cgroups. Each test starts this program again as a process of its own. In that process, the
//! test of the same name changes the CPUs. If this is not permitted, the test is reported as skipped.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::{AffinityScope, Attrs, CpuSet, Detection, Executor, TopologySource, WorkQueue};
use rustix::process::{Pid, getpid};
use testkit::cgroup::{Group, enter};
use testkit::threads::{main_status, name_of, status_of, tasks};
use testkit::{SOON, TimeLimit, again, assert_passed, holds_within, output, polled, skip};

/// The environment variable that tells a process that a test has started it. In tests with a cgroup, its value is the
/// path of the cgroup.
const CHILD: &str = "CMWQ_TEST_ENVIRONMENT";

const PREFIX: &str = "moved";

/// The executor notices a change within a second, but the machine that runs the test may be busy.
const NOTICED: Duration = Duration::from_secs(30);

/// This is longer than the manager waits between two checks.
const A_WHILE: Duration = Duration::from_millis(1200);

/// Returns the value of the variable in the process that a test has started. The process ends after a time limit.
fn told() -> Option<(PathBuf, TimeLimit)> {
    let told = std::env::var_os(CHILD)?;
    Some((told.into(), TimeLimit::new(Duration::from_secs(300), || "the test hangs".to_owned())))
}

fn passes_in_a_process(test: &str, told: &Path) {
    assert_passed(&output(again(test).env(CHILD, told)).unwrap());
}

/// Returns whether the process has only one CPU. If so, reports the test as skipped.
fn has_one_cpu() -> bool {
    let one = own_cpus().len() < 2;
    if one {
        skip("one-cpu", "none of the process's CPUs can be taken away");
    }
    one
}

#[track_caller]
fn soon(what: impl fmt::Display, executor: &Executor, condition: impl FnMut() -> bool) {
    let happened = polled(Duration::from_millis(2), NOTICED, condition);
    let now = || format!("{}{:?}", executor.dump(), allowed_of_threads());
    assert!(happened, "this never happened: {what}\n{}", now());
}

/// Returns the executor's threads with this field of their status.
fn of_threads(field: &str) -> BTreeMap<String, String> {
    let of_ours = tasks().into_iter().filter_map(|task| {
        let name = name_of(&task).strip_prefix(PREFIX)?.strip_prefix('/')?.to_owned();
        Some((name, status_of(&task, field)))
    });
    // The status of a thread that has just ended is empty.
    of_ours.filter(|(_, value)| !value.is_empty()).collect()
}

fn allowed_of_threads() -> BTreeMap<String, CpuSet> {
    let allowed = of_threads("Cpus_allowed_list");
    allowed.into_iter().map(|(name, list)| (name, list.parse().unwrap())).collect()
}

/// Returns the CPU that is in the name of a worker of a per-CPU pool, such as `3:0`, `3:1H` or `bh3`.
fn cpu_of(worker: &str) -> Option<usize> {
    worker.strip_prefix("bh").unwrap_or(worker.split(':').next()?).parse().ok()
}

fn own_cpus() -> CpuSet {
    main_status("Cpus_allowed_list").parse().unwrap()
}

fn set_own_cpus(cpus: &CpuSet) {
    let mut mask = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| mask.set(cpu));
    let main: Option<Pid> = Some(getpid());
    rustix::thread::sched_setaffinity(main, &mask).unwrap();
}

// Under load. -----------------------------------------------------------------------------------------------------

/// Queues of several kinds, which always have items, and the number of items that ran.
struct Load {
    over: Arc<AtomicBool>,
    ran: Arc<AtomicUsize>,
    queues: Vec<WorkQueue>,
    issuer: std::thread::JoinHandle<usize>,
}

impl Load {
    fn on(executor: &Executor) -> Self {
        let strict = Attrs::new().scope(AffinityScope::Cpu).strict(true);
        let system = Attrs::new().scope(AffinityScope::System);
        let queues = [
            WorkQueue::per_cpu("per_cpu"),
            kernel::bh("bh"),
            WorkQueue::builder("system").attrs(system),
            WorkQueue::builder("strict").attrs(strict),
            WorkQueue::unbound("unbound"),
        ]
        .map(|builder| builder.build_on(executor).unwrap());
        let (over, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let issuer = {
            let (over, ran, queues) = (Arc::clone(&over), Arc::clone(&ran), queues.clone());
            let cpus: Vec<usize> = executor.cpus().iter().collect();
            std::thread::spawn(move || {
                let mut issued = 0;
                while !over.load(Ordering::Relaxed) {
                    for queue in &queues {
                        for cpu in &cpus {
                            let ran = Arc::clone(&ran);
                            let item = move || {
                                std::hint::black_box((0..20_000_u64).fold(0, u64::wrapping_add));
                                ran.fetch_add(1, Ordering::Relaxed);
                            };
                            drop(queue.item(item).on_cpu(*cpu).spawn().unwrap());
                            issued += 1;
                        }
                    }
                    while issued > ran.load(Ordering::Relaxed) + 200 && !over.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                }
                issued
            })
        };
        Self { over, ran, queues: queues.into(), issuer }
    }

    /// Asserts that items queued from now on run.
    fn goes_on(&self, executor: &Executor) {
        let before = self.ran.load(Ordering::Relaxed);
        soon("items run", executor, || self.ran.load(Ordering::Relaxed) > before + 500);
    }

    fn ends(self) {
        self.over.store(true, Ordering::Relaxed);
        let issued = self.issuer.join().unwrap();
        self.queues.iter().for_each(|queue| queue.flush().unwrap());
        assert_eq!(self.ran.load(Ordering::Relaxed), issued);
    }
}

/// Returns the targets of managed pools with this many CPUs.
fn targets(executor: &Executor, cpus: usize) -> Vec<usize> {
    let pools = executor.dump().pools.into_iter().filter(|pool| pool.cpus.len() == cpus);
    pools.filter_map(|pool| pool.target).collect()
}

/// Starts with all CPUs of the process. Under load, calls `set`, which takes some away and gives them back.
fn workers_follow(topology: TopologySource, set: impl Fn(&CpuSet)) {
    let all = own_cpus();
    let executor = Executor::builder()
        .topology(topology)
        .thread_name_prefix(PREFIX)
        .progress_check(Duration::from_secs(10))
        .build()
        .unwrap();
    let cpus: Vec<usize> = executor.cpus().iter().collect();
    // In a made-up topology, the process's CPUs stand for the made-up CPUs in turn.
    let real: BTreeMap<usize, usize> = cpus.iter().copied().zip(all.iter().cycle()).collect();
    let load = Load::on(&executor);
    let (first, others): (CpuSet, CpuSet) = all.iter().partition(|cpu| Some(*cpu) == all.first());
    for allowed in [&first, &all, &others, &first, &all] {
        load.goes_on(&executor);
        let began = Instant::now();
        set(allowed);
        let lost: CpuSet = cpus.iter().copied().filter(|cpu| !allowed.contains(real[cpu])).collect();
        soon("lost CPUs are noticed", &executor, || executor.dump().lost_cpus == lost);
        let _best_effort = writeln!(io::stderr(), "{allowed} noticed after {:?}", began.elapsed());
        let binding = |worker: &str| match cpu_of(worker) {
            Some(cpu) if !lost.contains(cpu) => CpuSet::single(real[&cpu]),
            _ => allowed.clone(),
        };
        let is_in_place = |(worker, bound): (&String, &CpuSet)| {
            let is_of_cpu = cpu_of(worker).is_some();
            if is_of_cpu { *bound == binding(worker) } else { bound.is_subset(allowed) }
        };
        soon("workers are bound to the right CPUs", &executor, || {
            allowed_of_threads().iter().all(is_in_place)
        });
        let left = cpus.len() - lost.len();
        soon("targets follow", &executor, || targets(&executor, cpus.len()) == [left]);
        load.goes_on(&executor);
    }
    assert!(allowed_of_threads().keys().filter(|name| cpu_of(name).is_some()).count() >= cpus.len());
    load.ends();
    assert!(!executor.dump().affinity_denied);
}

/// spec: A5.1, A5.3 (`sched_setaffinity`: noticed; workers of a lost CPU serve its items elsewhere, nothing is lost;
/// bound again)
#[test]
fn workers_follow_the_affinity_of_the_process() {
    let test = "workers_follow_the_affinity_of_the_process";
    if has_one_cpu() {
        return;
    }
    let Some(_limit) = told() else { return passes_in_a_process(test, Path::new("affinity")) };
    workers_follow(TopologySource::Probe, set_own_cpus);
}

/// spec: A5.3: the same holds for a made-up topology, in which each real CPU stands for several CPUs.
#[test]
fn workers_of_a_made_up_topology_follow_the_affinity_of_the_process() {
    let test = "workers_of_a_made_up_topology_follow_the_affinity_of_the_process";
    if has_one_cpu() {
        return;
    }
    let Some(_limit) = told() else { return passes_in_a_process(test, Path::new("affinity")) };
    workers_follow(TopologySource::Synthetic("l3:2 core:4 pu:1".into()), set_own_cpus);
}

/// spec: A5.1, A5.3 (cpuset)
#[test]
fn workers_follow_the_cpuset_of_the_process() {
    let Some((told, _limit)) = told() else {
        let all = own_cpus();
        if has_one_cpu() {
            return;
        }
        let made = Group::make("cpuset", |group, above| {
            let mems = fs::read_to_string(above.join("cpuset.mems"));
            drop(mems.and_then(|mems| fs::write(group.join("cpuset.mems"), mems)));
            fs::write(group.join("cpuset.cpus"), all.to_string())
        });
        return match made {
            Ok(group) => passes_in_a_process("workers_follow_the_cpuset_of_the_process", group.path()),
            Err(error) => skip("no-cpuset", format_args!("a cpuset cannot be made: {error}")),
        };
    };
    enter(&told).unwrap();
    workers_follow(TopologySource::Probe, |cpus| {
        fs::write(told.join("cpuset.cpus"), cpus.to_string()).unwrap();
    });
}

/// spec: A5.3, P2: a rescuer that runs an item also follows the affinity of the process, although it is no worker.
#[test]
fn rescuers_follow_the_affinity_of_the_process() {
    let test = "rescuers_follow_the_affinity_of_the_process";
    if has_one_cpu() {
        return;
    }
    let Some(_limit) = told() else { return passes_in_a_process(test, Path::new("rescuer")) };
    let all = own_cpus();
    let no_worker = |name: &str| match name.ends_with("/manager") || name.ends_with("/R-q") {
        true => Ok(()),
        false => Err(io::Error::other("no workers in this test")),
    };
    let builder = Executor::builder().thread_name_prefix(PREFIX).before_spawn(no_worker);
    let executor = builder.build().unwrap();
    let queue = WorkQueue::per_cpu("q").rescuer(true).build_on(&executor).unwrap();
    let (last, first) = (all.iter().last().unwrap(), all.first().unwrap());
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let item = queue.item(move || ended.recv()).on_cpu(last).spawn().unwrap();
    let place = || allowed_of_threads().get("R-q").cloned();
    soon("the rescuer serves the CPU", &executor, || place() == Some(CpuSet::single(last)));
    for (allowed, serves) in [(CpuSet::single(first), first), (all, last)] {
        set_own_cpus(&allowed);
        soon("the rescuer follows", &executor, || place() == Some(CpuSet::single(serves)));
    }
    end.send(()).unwrap();
    assert_eq!(item.join().unwrap(), Ok(()));
    assert_eq!(queue.counters().rescued, 1);
}

/// spec: A5, A2 (plain unbound: threads move): no worker is brought back to a CPU that the process has lost.
#[test]
fn no_worker_is_brought_home_to_a_lost_cpu() {
    let test = "no_worker_is_brought_home_to_a_lost_cpu";
    if has_one_cpu() {
        return;
    }
    let Some(_limit) = told() else { return passes_in_a_process(test, Path::new("home")) };
    let all = own_cpus();
    let executor = Executor::builder().thread_name_prefix(PREFIX).build().unwrap();
    let attrs = Attrs::new().scope(AffinityScope::Cpu);
    let queue = WorkQueue::unbound("q").attrs(attrs).build_on(&executor).unwrap();
    let (last, first) = (all.iter().last().unwrap(), all.first().unwrap());
    queue.item(|| ()).on_cpu(first).spawn().unwrap().join().unwrap();
    let left = CpuSet::single(last);
    set_own_cpus(&left);
    let is_left = |name: &str, cpus: &CpuSet| !name.starts_with('u') || *cpus == left;
    let follow = || {
        // The manager checks the CPUs only while a worker is active.
        queue.item(|| ()).on_cpu(first).spawn().unwrap().join().unwrap();
        allowed_of_threads().iter().all(|(name, cpus)| is_left(name, cpus))
    };
    soon("the workers follow", &executor, follow);
    let brought = queue.counters().brought_back;
    for _ in 0..10 {
        soon("the pools rest", &executor, || {
            executor.dump().pools.iter().all(|pool| pool.idle == pool.workers)
        });
        queue.item(|| ()).on_cpu(first).spawn().unwrap().join().unwrap();
    }
    assert_eq!(queue.counters().brought_back, brought, "{:?}", queue.counters());
}

// At rest. --------------------------------------------------------------------------------------------------------

fn sleeps() -> BTreeMap<String, String> {
    of_threads("voluntary_ctxt_switches")
}

/// Waits until no thread wakes up any more. Then returns how often each thread has slept. The last wake-up may be late
/// on a busy machine, so this function waits for three quiet periods in a row.
fn at_rest() -> BTreeMap<String, String> {
    let end = Instant::now() + NOTICED;
    loop {
        let before = sleeps();
        let is_quiet = || {
            std::thread::sleep(A_WHILE);
            sleeps() == before
        };
        if (0..3).all(|_| is_quiet()) {
            return before;
        }
        assert!(Instant::now() < end, "threads wake up all the time");
    }
}

/// spec: A5.2, E3: while the executor has no item, or its only item waits, no thread wakes up to check the CPUs. The
/// next active item leads to a check, which finds the change.
#[test]
fn an_idle_executor_does_not_look_at_its_cpus() {
    let test = "an_idle_executor_does_not_look_at_its_cpus";
    let Some(_limit) = told() else { return passes_in_a_process(test, Path::new("idle")) };
    let executor = Executor::builder().thread_name_prefix(PREFIX).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let all = own_cpus();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let waits = queue.spawn(move || cmwq::blocking(|| wait.recv())).unwrap();
    for _ in 0..100 {
        queue.spawn(|| ()).unwrap().join().unwrap();
    }
    let before = at_rest();
    assert!(before.contains_key("manager"), "{before:?}");
    let changed = CpuSet::single(all.first().unwrap());
    set_own_cpus(&changed);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(sleeps(), before);

    // The waiting item becomes active again, which is enough for a check.
    let lost: CpuSet = all.iter().filter(|cpu| !changed.contains(*cpu)).collect();
    assert_eq!(executor.dump().lost_cpus, CpuSet::new());
    go.send(()).unwrap();
    assert_eq!(waits.join().unwrap(), Ok(()));
    soon("the change is noticed", &executor, || executor.dump().lost_cpus == lost);

    let before = at_rest();
    set_own_cpus(&all);
    std::thread::sleep(A_WHILE);
    assert_eq!(sleeps(), before);
    queue.spawn(|| ()).unwrap().join().unwrap();
    soon("the change is noticed", &executor, || executor.dump().lost_cpus == CpuSet::new());
}

// Quotas. ---------------------------------------------------------------------------------------------------------

/// Sets the quota in hundredths of a CPU, or removes it.
fn set_quota(group: &Path, percent: Option<usize>) -> io::Result<()> {
    let two = group.join("cpu.max");
    if two.exists() {
        let quota = percent.map_or("max".into(), |percent| (1000 * percent).to_string());
        return fs::write(two, format!("{quota} 100000"));
    }
    fs::write(group.join("cpu.cfs_period_us"), "100000")?;
    let quota = percent.map_or(-1, |percent| 1000 * percent as i64);
    fs::write(group.join("cpu.cfs_quota_us"), quota.to_string())
}

/// spec: C5.3 (under a cgroup CPU quota), A5.4, A5.5 (the quota is read and re-read)
#[test]
fn managed_pools_follow_the_quota_of_the_process() {
    let Some((group, _limit)) = told() else {
        let made = Group::make("cpu", |group, _| set_quota(group, None));
        return match made {
            Ok(group) => passes_in_a_process("managed_pools_follow_the_quota_of_the_process", group.path()),
            Err(error) => skip("no-quota", format_args!("a cgroup with a CPU quota cannot be made: {error}")),
        };
    };
    enter(&group).unwrap();
    set_quota(&group, Some(150)).unwrap();
    let executor = Executor::builder()
        .thread_name_prefix(PREFIX)
        .topology(TopologySource::Synthetic("l3:1 core:8 pu:1".into()))
        .progress_check(Duration::from_secs(10))
        .detection(Detection::Off)
        .build()
        .unwrap();
    assert_eq!(executor.dump().cpu_quota, Some(1.5));
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let per_cpu = WorkQueue::per_cpu("per_cpu").build_on(&executor).unwrap();
    per_cpu.spawn(|| ()).unwrap().join().unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    assert_eq!(targets(&executor, 8), [1], "the quota applies from the start");

    // Two items wait for each other without a guard. The second one can start only when the quota is raised.
    let begun = Arc::new(AtomicUsize::new(0));
    let items: Vec<_> = (0..2)
        .map(|_| {
            let begun = Arc::clone(&begun);
            let item = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < 2 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            queue.spawn(item).unwrap()
        })
        .collect();
    assert!(holds_within(SOON, || begun.load(Ordering::SeqCst) == 1), "no item begins");
    std::thread::sleep(A_WHILE);
    assert_eq!(begun.load(Ordering::SeqCst), 1, "an item has begun in spite of the quota");
    set_quota(&group, Some(400)).unwrap();
    items.into_iter().for_each(|item| item.join().unwrap());
    assert_eq!((targets(&executor, 8), executor.dump().cpu_quota), (vec![4], Some(4.0)));

    // When the quota is lowered, too many workers run. The pool sheds them when their items end.
    let (over, running, most) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let shared = Arc::new((over, running, most));
    let items: Vec<_> = (0..8)
        .map(|_| {
            let shared = Arc::clone(&shared);
            queue.spawn(move || {
                let (over, running, most) = &*shared;
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                running.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    soon("four run", &executor, || shared.1.load(Ordering::SeqCst) == 4);
    set_quota(&group, Some(220)).unwrap();
    soon("the change is noticed", &executor, || targets(&executor, 8) == [2]);
    assert_eq!(shared.2.load(Ordering::SeqCst), 4);
    shared.0.store(true, Ordering::SeqCst);
    items.into_iter().for_each(|item| item.unwrap().join().unwrap());
    soon("the executor is quiet", &executor, || executor.dump().pools.iter().all(|pool| pool.running == 0));
    assert_eq!(targets(&executor, 1), [1], "per-CPU pools run one item each");

    set_quota(&group, None).unwrap();
    soon("the end of the quota is noticed", &executor, || {
        queue.spawn(|| ()).unwrap().join().unwrap();
        targets(&executor, 8) == [8]
    });
    assert_eq!(executor.dump().cpu_quota, None);
}
