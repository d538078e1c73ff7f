//! Tests of executors that have no topology, or no manager at first.

use std::sync::mpsc;

use crate::engine::manager::inbox::Point;
use crate::policy::environment::MappedCpu;
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};
use crate::{Detection, WorkQueue};

use super::*;

/// spec: E2.3, E2.4, S1.2 (auto by default), S2.3, S4.4, C8.1, O1.8: an executor whose builder sets only the topology
/// has the documented defaults. The tests of `policy::threads` check the default of `max_threads`.
#[test]
fn the_defaults_are_those_that_are_documented() {
    let machine = TopologySource::Synthetic("core:2 pu:1".into());
    let builder = ExecutorBuilder::new().topology(machine);
    assert_eq!((builder.self_management.detection, builder.progress_check), (Detection::Auto, None));
    let executor = builder.build().unwrap();
    let inner = &executor.inner;
    let settings = &inner.core.settings;
    assert_eq!(settings.idle_limits.idle_timeout, Duration::from_secs(300));
    assert_eq!((settings.idle_limits.idle_ratio, settings.idle_limits.min_idle), (4, 2));
    assert_eq!(settings.hog_threshold, Some(Duration::from_millis(10)));
    assert_eq!(settings.watchdog_threshold, Some(Duration::from_secs(30)));
    assert_eq!((settings.name_prefix.as_str(), settings.stack_size), ("cmwq", None));
    let process = sys::thread::process_nice().unwrap_or(0);
    assert_eq!((inner.nice.normal, inner.nice.high, settings.nice), (process, -20, process));
    assert_eq!(inner.defaults().unwrap().scope, AffinityScope::Cache);
    assert!(!inner.power_efficient && !inner.times_items && !inner.prestarts);
}

/// spec: E2.1: if the topology cannot be loaded, the default executor still uses the CPUs that the process may run on.
#[test]
fn the_default_executor_uses_the_cpus_of_the_process_without_a_topology_too() {
    let unreadable = ExecutorBuilder::new().topology(TopologySource::Synthetic("garbage".into()));
    let (executor, manager, error) = unreadable.assemble_default();
    manager.unwrap();
    assert!(matches!(error, Some(BuildExecutorError::Topology(_))), "{error:?}");
    assert_eq!(*executor.cpus(), sys::affinity::process_cpus().unwrap());
}

/// spec: E2.1, E2.2: which CPUs the executor uses, and which CPUs of the process its environment begins with. A
/// CPU that the process loses while the machine is described counts as a CPU of the process. So the manager finds that
/// the CPU is lost, and it is not one of those that the executor never gives up.
#[test]
fn the_cpus_are_chosen_by_the_cpus_of_the_process() {
    let cpus = |list: &str| -> CpuSet { list.parse().unwrap() };
    let choose = |source: &TopologySource, chosen: Option<&str>, before: Option<&str>, now: Option<&str>| {
        let now = now.map(cpus).ok_or_else(|| io::Error::other("no affinity"));
        let process = cpus::Process { before: before.map(cpus), now };
        let mut builder = ExecutorBuilder::new().topology(source.clone());
        builder.cpus = chosen.map(cpus);
        builder.choose_cpus(&Topology::flat(&cpus("0-3")), process)
    };
    let (probe, other) = (TopologySource::Probe, TopologySource::Synthetic("core:4 pu:1".into()));
    for (source, chosen, before, now, mapped, process) in [
        (&probe, None, Some("1-2"), Some("1-2,9"), &[(1, 1), (2, 2)][..], Some("1-2,9")),
        (&probe, None, Some("1-3"), Some("1-2"), &[(1, 1), (2, 2)], Some("1-3")),
        (&probe, Some("0,3"), Some("1-3"), Some("1-2"), &[(0, 0), (3, 3)], Some("1-3")),
        (&probe, Some("3"), None, None, &[(3, 3)], None),
        (&other, None, None, Some("5,7"), &[(0, 5), (1, 7), (2, 5), (3, 7)], Some("5,7")),
        (&other, Some("2-3"), None, Some("5"), &[(2, 5), (3, 5)], Some("5")),
    ] {
        let found = choose(source, chosen, before, now).unwrap_or_else(|error| panic!("{error}"));
        let found_cpus: Vec<_> = found.mapped.iter().map(|cpu| (cpu.cpu, cpu.real)).collect();
        assert_eq!((&found_cpus[..], found.process), (mapped, process.map(cpus)), "{source:?} {chosen:?}");
    }
    for (source, chosen) in [(&probe, None), (&other, None), (&other, Some("2"))] {
        let error = choose(source, chosen, None, None).err();
        assert!(matches!(error, Some(BuildExecutorError::Cpus(_))), "{source:?} {chosen:?} {error:?}");
    }
    let error = |chosen| choose(&probe, chosen, None, Some("1-2")).err();
    assert!(matches!(error(Some("")), Some(BuildExecutorError::NoCpu)));
    assert!(matches!(error(Some("2,4")), Some(BuildExecutorError::UnknownCpu { cpu: 4, .. })));
}

/// spec: A5.6: an executor loses a CPU that the process lost between the choice of CPUs and the start of the executor.
#[test]
fn a_cpu_that_is_lost_while_the_executor_is_made_is_no_exception() {
    let own = sys::affinity::process_cpus().unwrap();
    let gone = CpuSet::LIMIT - 1;
    let before = own.union(&CpuSet::single(gone));
    let mapped = before.iter().map(|cpu| MappedCpu { cpu, real: cpu }).collect();
    let chosen = ChosenCpus { mapped, process: Some(before.clone()) };
    let (executor, manager) = ExecutorBuilder::new().assemble_on(Topology::flat(&before), chosen);
    manager.unwrap();
    let present = executor.inner.core.environment.present().cpus;
    assert_eq!((present.allowed(), present.lost()), (&before, CpuSet::new()));
    let seen = present.seen(Some(own), present.quota()).expect("a CPU is gone");
    assert_eq!(seen.lost(), CpuSet::single(gone));
}

/// Returns a hook that refuses the first thread.
fn first_fails() -> impl Fn(&str) -> io::Result<()> {
    let attempts = AtomicUsize::new(0);
    move |name| match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => Err(io::Error::other(format!("{name}: not now"))),
        _ => Ok(()),
    }
}

/// spec: E1.2 (the global executor works when its manager can be made at last), P1.1: work that is queued while there
/// is no manager runs once a later push has made the manager.
#[test]
fn a_push_makes_the_missing_manager() {
    let (executor, manager) = ExecutorBuilder::new().before_spawn(first_fails()).assemble().unwrap();
    assert!(manager.unwrap_err().to_string().contains("manager: not now"));

    let early = WorkQueue::per_cpu("early").build_on(&executor).unwrap().spawn(|| "early").unwrap();
    let queue = WorkQueue::builder("late").build_on(&executor).unwrap();
    // For one second, no thread makes another attempt. The first push after this second makes the manager, for all
    // queues.
    let late = queue.spawn(|| "late").unwrap();
    for _ in 0..200 {
        drop(queue.spawn(|| ()).unwrap());
        if late.is_finished() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert!(late.is_finished(), "no push has made the manager: {}", executor.dump());
    assert_eq!(late.join().unwrap(), "late");
    assert_eq!(early.join().unwrap(), "early");
}

/// spec: E1.2, W5.1: a submission with a delay also makes the missing manager, even if a timer that was armed earlier
/// is due before it.
#[test]
fn a_timer_makes_the_missing_manager() {
    let (executor, manager) = ExecutorBuilder::new().before_spawn(first_fails()).assemble().unwrap();
    assert!(manager.is_err());

    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let cpu = executor.cpus().first().unwrap();
    let moment = Duration::from_millis(1);
    let early = queue.item(|| "early").on_cpu(cpu).after(moment).spawn().unwrap();
    for _ in 0..200 {
        queue.item(|| ()).on_cpu(cpu).after(moment).spawn_detached().unwrap();
        if early.is_finished() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert!(early.is_finished(), "no timer has made the manager: {}", executor.dump());
    assert_eq!(early.join().unwrap(), "early");
}

/// spec: P1.5 (the manager is supervised): the manager's own code panics when the manager's thread begins. The manager
/// goes on.
#[test]
fn a_manager_that_panics_as_it_arrives_goes_on() {
    let (executor, manager) = ExecutorBuilder::new().before_spawn(first_fails()).assemble().unwrap();
    assert!(manager.is_err());
    executor.inner.core.manager.plant(Point::Arrival);
    let item = WorkQueue::per_cpu("q").build_on(&executor).unwrap().spawn(|| ()).unwrap();
    // The thread that waits for the item makes the manager.
    assert!(matches!(item.join_timeout(Duration::from_secs(20)), Ok(Ok(()))), "{}", executor.dump());
    assert!(!executor.inner.core.manager.has_faults());
}

/// spec: E2.1 (default: those the process may run on): the system describes a CPU that does not exist, and no CPU of
/// the process. The executor still uses the CPUs of the process, and logs a warning. hwloc reads the description from
/// the environment, so a child process makes the executors.
#[cfg(all(feature = "hwloc", not(cmwq_portable)))]
#[test]
fn an_executor_uses_the_cpus_of_the_process_even_if_the_system_describes_others() {
    let process = sys::affinity::process_cpus().unwrap();
    if std::env::var_os("HWLOC_SYNTHETIC").is_none() {
        let own_name = "executor::builder::tests::\
            an_executor_uses_the_cpus_of_the_process_even_if_the_system_describes_others";
        let described = format!("l3:1 core:1 pu:1(indexes={})", CpuSet::LIMIT - 1);
        testkit::assert_passed(
            &testkit::output(testkit::again(own_name).env("HWLOC_SYNTHETIC", described)).unwrap(),
        );
        return;
    }
    testkit::LINES.keep(log::LevelFilter::Warn);
    for executor in [&ExecutorBuilder::new().build().unwrap(), Executor::global()] {
        assert_eq!(*executor.cpus(), process);
        let last = process.iter().last().unwrap();
        let item = WorkQueue::per_cpu("q").build_on(executor).unwrap().item(|| 1).on_cpu(last).spawn();
        assert_eq!(item.unwrap().join().unwrap(), 1);
    }
    let described = CpuSet::single(CpuSet::LIMIT - 1);
    let chosen = ExecutorBuilder::new().cpus(described.clone()).build().unwrap();
    assert_eq!(*chosen.cpus(), described, "the user chose it");
    let told = testkit::LINES.with(log::Level::Warn, &["does not describe CPUs", &process.to_string()]);
    assert_eq!(told.len(), 2, "{told:?}");
}

/// spec: P1.1 (the manager itself cannot be made; tried again, at most once a second): a thread that waits for an item
/// or a queue tries again to make the manager.
#[test]
fn a_thread_that_waits_makes_the_missing_manager() {
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&attempts);
    let some_fail = move |name: &str| {
        let mut made = made.lock();
        made.push(sys::clock::now());
        if made.len() < 3 { Err(io::Error::other(format!("{name}: not now"))) } else { Ok(()) }
    };
    let (executor, manager) = ExecutorBuilder::new().before_spawn(some_fail).assemble().unwrap();
    assert!(manager.is_err());
    let [detached, joined, flushed] =
        ["detached", "joined", "flushed"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = Arc::clone(&ran);
        move || ran.fetch_add(1, Ordering::SeqCst)
    };
    drop(detached.spawn(count()).unwrap());
    drop(flushed.spawn(count()).unwrap());
    let item = joined.spawn(count()).unwrap();
    // A wait that ends before the next attempt is permitted still ends in time.
    let item = item.join_timeout(Duration::from_millis(10)).unwrap_err();
    assert_eq!(flushed.flush_timeout(Duration::from_millis(10)), Err(crate::WaitError::TimedOut));
    let (sender, ran_at) = mpsc::channel();
    let joiner = move || sender.send(item.join().unwrap()).unwrap();
    let joiner = sys::thread::spawn("joiner".into(), None, joiner).unwrap();
    flushed.flush().unwrap();
    joiner.join().unwrap();
    assert!(ran_at.recv().unwrap() < 3);
    detached.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    let attempts = attempts.lock();
    let pauses = attempts[..3].windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(
        pauses.clone().all(|pause| pause >= Duration::from_millis(990)),
        "{:?}",
        pauses.collect::<Vec<_>>()
    );
}

/// spec: P1.5 (at most one attempt per second): if an attempt takes longer than a second, no thread makes another
/// attempt meanwhile. So there is only one manager.
#[test]
fn a_manager_that_is_made_slowly_is_made_once() {
    const SOON: Duration = Duration::from_secs(20);
    let attempts = Arc::new(AtomicUsize::new(0));
    let (begun, begins) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let (tried, goes_on) = (Arc::clone(&attempts), Mutex::new(goes_on));
    let slow = move |name: &str| match name {
        "slow/manager" => match tried.fetch_add(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("not now")),
            1 => {
                begun.send(()).unwrap();
                goes_on.lock().recv_timeout(SOON).map_err(io::Error::other)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    };
    let builder = ExecutorBuilder::new().thread_name_prefix("slow").before_spawn(slow);
    let (executor, manager) = builder.assemble().unwrap();
    assert!(manager.is_err());
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let push_until = |over: &dyn Fn() -> bool| {
        while !over() {
            drop(queue.spawn(|| ()).unwrap());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    };
    std::thread::scope(|scope| {
        let issuer = scope.spawn(|| push_until(&|| attempts.load(Ordering::SeqCst) > 1));
        begins.recv_timeout(SOON).unwrap();
        // These pushes go on for longer than the pause between two attempts.
        let begin = sys::clock::now();
        push_until(&|| sys::clock::now().since(begin) > Duration::from_millis(1300));
        assert_eq!(attempts.load(Ordering::SeqCst), 2, "another thread makes a second manager");
        go_on.send(()).unwrap();
        issuer.join().unwrap();
    });
    assert!(queue.spawn(|| ()).unwrap().join_timeout(SOON).is_ok());
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

/// spec: E2.4: workers inherit the time slice of the manager. Linux has such time slices since version 6.12.
#[cfg(all(target_os = "linux", not(any(cmwq_portable, cmwq_loom))))]
#[test]
fn workers_have_the_time_slice_of_their_manager() {
    use crate::engine::manager::manager_thread::TIME_SLICE;
    use crate::sys::thread::{set_slice, slice};

    // Determines the slice that a thread really gets. Linux before 6.12 ignores the request for a slice, and a filter
    // of system calls may refuse it.
    let probe = || set_slice(TIME_SLICE).and_then(|()| slice()).ok();
    let of_thread = std::thread::scope(|scope| scope.spawn(probe).join().unwrap());
    let executor = crate::Executor::builder().build().unwrap();
    let queue = crate::WorkQueue::builder("q").build_on(&executor).unwrap();
    let of_worker = queue.spawn(|| slice().ok()).unwrap().join().unwrap();
    assert!(of_thread.is_none() || of_worker == of_thread, "{of_worker:?}, not {of_thread:?}");
}
