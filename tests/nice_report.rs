//! What is logged of nice levels that the system denies. In a process of its own, which has one logger and gives the
//! privilege up.
#![cfg(all(target_os = "linux", not(cmwq_portable)))]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::sync::Mutex;

use cmwq::{Detection, Executor, TopologySource, WorkQueue};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "cmwq" && record.level() == log::Level::Warn {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// This thread, and threads that it makes, may not lower their nice levels any more.
fn give_the_privilege_up() {
    let limit = getrlimit(Resource::Nice);
    setrlimit(Resource::Nice, Rlimit { current: Some(0), ..limit }).unwrap();
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_NICE);
    set_capabilities(None, sets).unwrap();
}

/// spec: E4.4 (told once): of eight pools' workers and a rescuer, each is denied the high level.
#[test]
fn a_nice_level_that_is_denied_is_logged_once() {
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    give_the_privilege_up();
    let topology = TopologySource::Synthetic("l3:1 core:8 pu:1".into());
    let executor = Executor::builder().topology(topology).detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("urgent").high_priority().rescuer().build_on(&executor).unwrap();
    for cpu in executor.cpus().iter() {
        queue.spawn_on(cpu, || ()).unwrap().join().unwrap();
    }
    let snapshot = executor.dump();
    assert!(snapshot.nice_denied && snapshot.threads >= 8, "{snapshot}");
    let lines = LINES.0.lock().unwrap();
    let told: Vec<_> = lines.iter().filter(|line| line.contains("nice level -20")).collect();
    assert_eq!(told.len(), 1, "{lines:#?}");
}
