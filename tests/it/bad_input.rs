//! Bad input gives a typed error that names the value, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::kernel::WorkQueueBuilderExt;
use cmwq::{
    Attrs, BuildExecutorError, BuildQueueError, CpuSet, Executor, ExecutorBuilder, ParseCpuSetError,
    QueueError, TopologyError, TopologySource, WaitError, Work, WorkQueue, WorkQueueBuilder,
};

use crate::support::{SOON, builder, cpus, eventually, no_thread_of};

/// Builds an executor with settings that `change` spoils. Checks that the build fails and that no thread stays behind.
fn refused(change: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder) -> BuildExecutorError {
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let error = change(builder).build().unwrap_err();
    eventually("no thread stays behind", || no_thread_of(&prefix));
    assert!(!error.to_string().is_empty());
    error
}

/// spec: E2.9
#[test]
fn an_executor_needs_a_cpu_that_exists() {
    assert!(matches!(refused(|b| b.cpus(CpuSet::new())), BuildExecutorError::NoCpu));
    let error = refused(|b| b.cpus("0-2".parse().unwrap()));
    assert!(matches!(&error, BuildExecutorError::UnknownCpu { cpu: 2, known } if known.to_string() == "0-1"));
    assert_eq!(error.to_string(), "there is no CPU 2; the topology has 0-1");
    // The same holds for the machine's own topology.
    let error = Executor::builder().cpus(CpuSet::single(60_000)).build().unwrap_err();
    assert!(matches!(error, BuildExecutorError::UnknownCpu { cpu: 60_000, .. }), "{error}");
}

/// spec: E2.9, A6.2
#[test]
fn a_topology_that_cannot_be_loaded_is_an_error() {
    for source in [
        TopologySource::Synthetic("garbage".into()),
        TopologySource::Synthetic(String::new()),
        TopologySource::Xml("<topology>".into()),
        TopologySource::Xml(String::new()),
    ] {
        let error = refused(|b| b.topology(source.clone()));
        let BuildExecutorError::Topology(cause) = &error else { panic!("{error:?}") };
        match cause {
            TopologyError::Rejected { from, .. } => assert_eq!(*from, source),
            TopologyError::NeedsHwloc { from: TopologySource::Xml(_), .. } if !cfg!(feature = "hwloc") => {}
            _ => panic!("{cause:?}"),
        }
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = refused(|b| b.topology(TopologySource::Synthetic("pu:1(indexes=65536)".into())));
    assert!(
        matches!(error, BuildExecutorError::Topology(TopologyError::TooLarge { cpu: 65_536, .. })),
        "{error:?}"
    );
}

/// spec: E2.9
#[test]
fn settings_out_of_range_are_errors() {
    for level in [-21, 20, i32::MIN, i32::MAX] {
        assert!(matches!(refused(|b| b.nice(level)), BuildExecutorError::Nice(nice) if nice == level));
        assert!(
            matches!(refused(|b| b.high_priority_nice(level)), BuildExecutorError::Nice(nice) if nice == level)
        );
    }
    assert!(matches!(refused(|b| b.max_threads(0)), BuildExecutorError::MaxThreads));
    assert!(matches!(refused(|b| b.max_pending(0)), BuildExecutorError::MaxPending));
    assert!(matches!(refused(|b| b.max_pending_bytes(0)), BuildExecutorError::MaxPendingBytes));
    for threads in [0, 1] {
        let error = refused(|b| b.min_idle(threads));
        assert!(matches!(error, BuildExecutorError::MinIdle(given) if given == threads), "{error:?}");
        assert!(error.to_string().starts_with(&format!("min_idle is {threads}; it must be at least 2")));
    }
    for prefix in ["", "a\0b"] {
        let error = refused(|b| b.thread_name_prefix(prefix));
        assert!(matches!(&error, BuildExecutorError::ThreadName(name) if name == prefix), "{error:?}");
    }
}

/// spec: E2.9 (stack size)
#[test]
fn a_stack_size_out_of_range_is_an_error() {
    for size in [0, 1, (16 << 10) - 1, (1 << 30) + 1, usize::MAX / 4, usize::MAX] {
        let error = refused(|b| b.stack_size(size));
        let BuildExecutorError::StackSize { bytes, limit } = error else { panic!("{error:?}") };
        assert_eq!(bytes, size);
        assert_eq!(error.to_string(), format!("stack_size is {size}; it must be 16384 to {limit} bytes"));
    }
    for size in [16 << 10, 64 << 20] {
        let executor = builder("core:1 pu:1").0.stack_size(size).build().unwrap();
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        assert_eq!(queue.spawn(|| 3).unwrap().join().unwrap(), 3);
    }
    drop(builder("core:1 pu:1").0.stack_size(1 << 30).build().unwrap());
}

/// spec: S2.3, S4.4 (adjustable, `None` = off)
#[test]
fn thresholds_are_long_enough_to_be_seen() {
    let least = Duration::from_millis(1);
    for short in [Duration::ZERO, Duration::from_nanos(1), least - Duration::from_nanos(1)] {
        let error = refused(|b| b.hog_threshold(short));
        assert!(matches!(error, BuildExecutorError::HogThreshold(given) if given == short), "{error:?}");
        assert!(error.to_string().contains(&format!("{short:?}; it must be at least 1ms")), "{error}");
        let error = refused(|b| b.watchdog_threshold(short));
        assert!(matches!(error, BuildExecutorError::WatchdogThreshold(given) if given == short), "{error:?}");
        assert!(error.to_string().contains(&format!("{short:?}; it must be at least 1ms")), "{error}");
    }
    for fine in [None, Some(least), Some(Duration::MAX)] {
        drop(builder("core:1 pu:1").0.hog_threshold(fine).watchdog_threshold(fine).build().unwrap());
    }
}

/// spec: E2.9: with a patience of nearly zero, the manager would check progress without a pause between two checks.
#[test]
fn a_progress_check_without_patience_is_an_error() {
    let least = Duration::from_millis(1);
    for patience in [Duration::ZERO, Duration::from_nanos(3), least - Duration::from_nanos(1)] {
        let error = refused(|b| b.progress_check(patience));
        assert!(matches!(error, BuildExecutorError::ProgressCheck(given) if given == patience), "{error:?}");
        assert!(error.to_string().contains(&format!("{patience:?}")), "{error}");
    }
    drop(builder("core:1 pu:1").0.progress_check(least).build().unwrap());
}

/// spec: E2.9: building the executor fails if the manager's thread cannot be made.
#[test]
fn an_executor_whose_manager_cannot_be_made_is_an_error() {
    let asked = Arc::new(AtomicUsize::new(0));
    for panics in [false, true] {
        let asked = Arc::clone(&asked);
        let error = refused(|b| {
            b.before_spawn(move |name| {
                asked.fetch_add(1, Ordering::SeqCst);
                assert!(name.ends_with("/manager"));
                assert!(!panics, "a panic on purpose");
                Err(std::io::Error::other("no thread today"))
            })
        });
        let BuildExecutorError::Thread(cause) = &error else { panic!("{error:?}") };
        assert_eq!(cause.to_string().contains("panicked"), panics, "{cause}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "`build` does not try again");
}

fn queue_error(builder: WorkQueueBuilder) -> BuildQueueError {
    let executor = cpus(2);
    let error = builder.build_on(&executor).unwrap_err();
    assert!(executor.dump().pools.is_empty(), "nothing was made");
    assert_eq!(executor.dump().threads, 0);
    error
}

/// spec: Q6.1 (empty is an error)
#[test]
fn a_queue_needs_a_name() {
    for queue in
        [WorkQueue::builder(""), WorkQueue::per_cpu(""), WorkQueue::unbound(""), WorkQueue::ordered("")]
    {
        assert_eq!(queue_error(queue), BuildQueueError::EmptyName);
    }
}

/// spec: Q3.1 (limit 512)
#[test]
fn max_active_is_at_most_512_or_2000() {
    let executor = cpus(2);
    for items in 1..=512 {
        drop(WorkQueue::builder("q").max_active(items).build_on(&executor).unwrap());
        drop(WorkQueue::unbound("q").max_active_total(items).build_on(&executor).unwrap());
    }
    drop(WorkQueue::unbound("q").max_active(2000).build_on(&executor).unwrap());
    for value in [2001, 1 << 20, usize::MAX] {
        for (queue, setter, limit) in [
            (WorkQueue::per_cpu("q").max_active(value.min(513)), "max_active", 512),
            (WorkQueue::builder("q").max_active_total(value), "max_active_total", 512),
            (WorkQueue::unbound("q").max_active(value), "max_active", 2000),
        ] {
            let value = if setter == "max_active" && limit == 512 { 513 } else { value };
            let error = queue_error(queue);
            assert_eq!(error, BuildQueueError::MaxActive { setter, value, limit });
            assert!(error.to_string().starts_with(&format!("{setter} is {value};")), "{error}");
        }
    }
    assert_eq!(queue_error(WorkQueue::builder("q").max_pending(0)), BuildQueueError::MaxPending);
}

/// spec: Q2.3 (a combination that means nothing is a typed error that says why)
#[test]
fn contradicting_flags_are_errors_that_say_why() {
    let nice = || Attrs::new().nice(1);
    for (queue, what, against) in [
        (WorkQueue::ordered("q").max_active(1), "max_active", "an ordered queue"),
        (WorkQueue::ordered("q").max_active_total(1), "max_active_total", "an ordered queue"),
        (WorkQueue::builder("q").max_active(1).max_active_total(1), "max_active", "max_active_total"),
        (WorkQueue::ordered("q").max_active(0), "max_active", "an ordered queue"),
        (WorkQueue::builder("q").cpu_intensive(true), "cpu_intensive", "an unbound queue"),
        (WorkQueue::unbound("q").cpu_intensive(true), "cpu_intensive", "an unbound queue"),
        (WorkQueue::ordered("q").cpu_intensive(true), "cpu_intensive", "an unbound queue"),
        (WorkQueue::builder("q").power_efficient(true), "power_efficient", "an unbound queue"),
        (WorkQueue::ordered("q").power_efficient(true), "power_efficient", "an unbound queue"),
        (WorkQueue::per_cpu("q").attrs(Attrs::new()), "attrs", "a per-CPU queue"),
        (
            WorkQueue::unbound("q").high_priority(true).attrs(nice()),
            "high_priority",
            "attrs with a nice level",
        ),
    ] {
        let error = queue_error(queue);
        let BuildQueueError::Contradiction { this, with, because } = &error else { panic!("{error:?}") };
        assert_eq!((*this, *with), (what, against));
        assert!(!because.is_empty());
        assert_eq!(error.to_string(), format!("{this} does not go with {with}: {because}"));
    }
    let executor = cpus(2);
    for queue in [
        WorkQueue::per_cpu("q").cpu_intensive(true).high_priority(true).power_efficient(true).max_active(2),
        WorkQueue::builder("q").high_priority(true).attrs(Attrs::new().scope(cmwq::AffinityScope::Numa)),
        WorkQueue::ordered("q").high_priority(true).max_pending(1),
    ] {
        drop(queue.build_on(&executor).unwrap());
    }
}

/// spec: Q3.1: a limit of zero is an error, and the error says which limits are valid.
#[test]
fn a_limit_of_zero_is_an_error() {
    for (setter, limit, queue) in [
        ("max_active", 512, WorkQueue::builder("q").max_active(0)),
        ("max_active", 512, WorkQueue::per_cpu("q").max_active(0)),
        ("max_active_total", 2000, WorkQueue::unbound("q").max_active_total(0)),
    ] {
        let error = queue_error(queue);
        assert_eq!(error, BuildQueueError::MaxActive { setter, value: 0, limit });
        assert_eq!(error.to_string(), format!("{setter} is 0; it must be 1 to {limit}"));
    }
}

/// spec: Q2.3: attributes that no executor could follow are errors.
#[test]
fn attributes_that_no_executor_could_follow_are_errors() {
    let with = |attrs| queue_error(WorkQueue::unbound("q").attrs(attrs));
    assert_eq!(with(Attrs::new().cpus(CpuSet::new())), BuildQueueError::NoCpu);
    let known: CpuSet = "0-1".parse().unwrap();
    let error = with(Attrs::new().cpus("1-2".parse().unwrap()));
    assert_eq!(error, BuildQueueError::UnknownCpu { cpu: 2, known });
    assert_eq!(error.to_string(), "the executor does not use CPU 2; it uses 0-1");
    for level in [-21, 20] {
        assert_eq!(with(Attrs::new().nice(level)), BuildQueueError::Nice(level));
    }
}

/// spec: E2.9, A4.2 (a list of CPUs that cannot be read is an error that names the entry)
#[test]
fn lists_of_cpus_that_cannot_be_read_are_errors() {
    let error = |list: &str| list.parse::<CpuSet>().unwrap_err();
    assert_eq!(error("0,x"), ParseCpuSetError::NotANumber { entry: "x".into() });
    assert_eq!(error("3-2"), ParseCpuSetError::Reversed { entry: "3-2".into() });
    assert_eq!(error("0-99999"), ParseCpuSetError::TooLarge { entry: "0-99999".into() });
}

/// spec: Q2.3, Q3.1 (a queue that a configuration describes): unknown settings and kinds are errors when it is read,
/// and values out of range are errors when the queue is built.
#[cfg(feature = "serde")]
#[test]
fn a_configuration_with_a_mistake_is_an_error_that_names_it() {
    let read = |text: &str| serde_json::from_str::<WorkQueueBuilder>(text);
    for (text, named) in [
        (r#"{ "name": "q", "max_activ": 4 }"#, "max_activ"),
        (r#"{ "name": "q", "kind": "percpu" }"#, "percpu"),
        (r#"{ "name": "q", "max_active": -1 }"#, "-1"),
        (r#"{ "name": "q", "when_full": "drop" }"#, "drop"),
        (r#"{ "kind": "ordered" }"#, "name"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
    let built = |text: &str| queue_error(read(text).unwrap());
    let expected = BuildQueueError::MaxActive { setter: "max_active", value: 0, limit: 512 };
    assert_eq!(built(r#"{ "name": "q", "max_active": 0 }"#), expected);
    assert_eq!(built(r#"{ "name": "q", "max_pending": 0 }"#), BuildQueueError::MaxPending);
    assert_eq!(built(r#"{ "name": "" }"#), BuildQueueError::EmptyName);
    let flags = built(r#"{ "name": "q", "kind": "ordered", "max_active": 1 }"#);
    assert!(matches!(flags, BuildQueueError::Contradiction { this: "max_active", .. }), "{flags:?}");
}

/// spec: W5.1, W5.3, I3.5, F6.1, F6.2, C8.1: the longest times are accepted, and never elapse. The shortest times
/// elapse at once.
#[test]
fn extreme_times_are_accepted() {
    for idle in [Duration::ZERO, Duration::MAX] {
        let executor = builder("core:1 pu:1").0.idle_timeout(idle).build().unwrap();
        let queue = WorkQueue::ordered("q").max_pending(1).build_on(&executor).unwrap();
        let never = || unreachable!("it is never due");
        let delayed = queue.item(never).after(Duration::MAX).spawn().unwrap();
        let again = queue.item(never).spawn_every(Duration::MAX).unwrap();
        let work = Work::new(never);
        assert_eq!(queue.item(&work).after(Duration::MAX).enqueue(), Ok(true));
        assert_eq!(queue.item(&work).after(Duration::MAX).reschedule(), Ok(true));
        drop(queue.items([never; 2]).after(Duration::MAX).within(Duration::MAX).spawn().unwrap());
        let in_time = queue.item(|| 7).within(Duration::MAX).spawn().unwrap();
        assert_eq!(in_time.join_timeout(Duration::MAX).unwrap().unwrap(), 7);
        assert_eq!(queue.flush_timeout(Duration::MAX), Ok(()));
        let permit = queue.reserve_timeout(Duration::MAX).unwrap();
        assert_eq!(queue.reserve_timeout(Duration::ZERO).unwrap_err(), QueueError::Full);
        drop(permit);
        assert!(delayed.cancel() && work.cancel());
        drop(again);
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (open, door) = std::sync::mpsc::channel::<()>();
        let busy = queue.spawn(move || {
            begun.send(()).unwrap();
            cmwq::blocking(|| door.recv().unwrap());
        });
        has_begun.recv().unwrap();
        assert_eq!(queue.flush_timeout(Duration::ZERO), Err(WaitError::TimedOut));
        open.send(()).unwrap();
        busy.unwrap().join_timeout(SOON).unwrap().unwrap();
        assert_eq!(queue.destroy_timeout(Duration::MAX), Ok(2), "the timers of the batch were armed");
    }
}
