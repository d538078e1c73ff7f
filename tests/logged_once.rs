//! Log lines that appear once in the life of an executor. This is a test program of its own, because a process has only
//! one logger, and a test gives up a privilege.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::Once;

use cmwq::{Detection, Executor, TopologySource, WorkQueue};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testkit::{LINES, eventually};

/// Keeps the log lines of this process. All tests share these lines.
fn keep_lines() {
    static KEEPS: Once = Once::new();
    KEEPS.call_once(|| LINES.keep(log::LevelFilter::Warn));
}

/// From now on, this thread and the threads that it makes cannot lower their nice levels.
fn give_the_privilege_up() {
    let limit = getrlimit(Resource::Nice);
    setrlimit(Resource::Nice, Rlimit { current: Some(0), ..limit }).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_NICE);
    set_capabilities(None, sets).unwrap();
}

/// spec: E4.4 (reported once): the system denies the high nice level to workers of eight pools and to a rescuer. The
/// log has one line.
#[test]
fn a_nice_level_that_is_denied_is_logged_once() {
    keep_lines();
    give_the_privilege_up();
    let topology = TopologySource::Synthetic("l3:1 core:8 pu:1".into());
    let executor = Executor::builder().topology(topology).detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("urgent").high_priority(true).rescuer(true).build_on(&executor).unwrap();
    for cpu in executor.cpus().iter() {
        queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    }
    let snapshot = executor.dump();
    assert!(snapshot.nice_denied && snapshot.threads >= 8, "{snapshot}");
    // The thread that was denied the level first may not have logged it yet.
    let told = || LINES.with(log::Level::Warn, &["nice level -20"]);
    eventually("the denial is logged", || !told().is_empty());
    let told = told();
    assert_eq!(told.len(), 1, "{told:#?}");
}

/// spec: E2.5 (work waits, and the wait is reported): again and again, two pools share the only worker that is
/// permitted. The log has one line.
#[test]
fn work_that_waits_because_of_max_threads_is_logged_once() {
    keep_lines();
    let topology = TopologySource::Synthetic("l3:1 core:2 pu:1".into());
    let executor = Executor::builder().topology(topology).max_threads(1).thread_name_prefix("few").build();
    let executor = executor.unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    for _ in 0..20 {
        let items = [0, 1].map(|cpu| queue.item(|| ()).on_cpu(cpu).spawn().unwrap());
        items.into_iter().for_each(|item| item.join().unwrap());
    }
    let told =
        LINES.with(log::Level::Warn, &["the executor \"few\" has as many workers as max_threads permits: 1"]);
    assert_eq!(told.len(), 1, "{told:#?}");
}
