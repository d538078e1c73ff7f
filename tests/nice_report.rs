//! The log line about a nice level that the system denies. This is a test program of its own, because a process has one
//! logger, and the test gives a privilege up.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use cmwq::{Detection, Executor, TopologySource, WorkQueue};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testkit::LINES;

/// From now on, this thread and the threads that it makes cannot lower their nice levels.
fn give_the_privilege_up() {
    let limit = getrlimit(Resource::Nice);
    setrlimit(Resource::Nice, Rlimit { current: Some(0), ..limit }).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_NICE);
    set_capabilities(None, sets).unwrap();
}

/// spec: E4.4 (reported once): the workers of eight pools and a rescuer are each denied the high level.
#[test]
fn a_nice_level_that_is_denied_is_logged_once() {
    LINES.keep(log::LevelFilter::Warn);
    give_the_privilege_up();
    let topology = TopologySource::Synthetic("l3:1 core:8 pu:1".into());
    let executor = Executor::builder().topology(topology).detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("urgent").high_priority(true).rescuer(true).build_on(&executor).unwrap();
    for cpu in executor.cpus().iter() {
        queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    }
    let snapshot = executor.dump();
    assert!(snapshot.nice_denied && snapshot.threads >= 8, "{snapshot}");
    let told = LINES.with(log::Level::Warn, &["nice level -20"]);
    assert_eq!(told.len(), 1, "{told:#?}");
}
