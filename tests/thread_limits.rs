//! Tests in which the system refuses to make threads: under RLIMIT_NPROC, and in a pids cgroup. Each test starts this
//! program again as a process of its own. In that process, the test of the same name lowers the limit. If no limit can
//! be set, the test is reported as skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cmwq::{
    BuildExecutorError, BuildQueueError, Executor, TopologySource, WaitError, WorkQueue, blocking, is_rescuer,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testkit::cgroup::{self, Group};
use testkit::{SOON, again, assert_passed, output, skip};

/// The environment variable that tells a process that it is the limited one. For a test with a cgroup, its value is the
/// path of the cgroup.
const CHILD: &str = "CMWQ_TEST_LIMITED";

/// A user that runs no other process. It must not, because RLIMIT_NPROC counts all threads of a user.
const UNUSED_USER: u32 = 3_141_592;

fn own_threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// spec: P3.2 (under RLIMIT_NPROC), P1, P2
#[test]
fn under_a_limit_on_the_users_threads() {
    if std::env::var_os(CHILD).is_some() {
        let hard = getrlimit(Resource::Nproc).maximum;
        return work_goes_on(|more| {
            let soft = more.map_or(hard, |more| Some((own_threads() + more) as u64));
            setrlimit(Resource::Nproc, Rlimit { current: soft, maximum: hard }).unwrap();
        });
    }
    let mut child = again("under_a_limit_on_the_users_threads");
    child.env(CHILD, "rlimit");
    if rustix::process::geteuid().is_root() {
        child.uid(UNUSED_USER).gid(UNUSED_USER);
    } else {
        return skip("user", "RLIMIT_NPROC: only root can become a user without other processes");
    }
    match output(child.current_dir("/")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            skip("unreachable", format_args!("RLIMIT_NPROC: another user cannot run this test: {error}"));
        }
        output => assert_passed(&output.unwrap()),
    }
}

/// spec: P3.2 (in a pids cgroup), P1, P2
#[test]
fn in_a_cgroup_that_limits_threads() {
    if let Some(group) = std::env::var_os(CHILD) {
        let group = PathBuf::from(group);
        cgroup::enter(&group).unwrap();
        return work_goes_on(|more| {
            let now = || fs::read_to_string(group.join("pids.current")).unwrap();
            let most = more.map(|more| now().trim().parse::<usize>().unwrap() + more);
            let most = most.map_or("max".to_owned(), |most| most.to_string());
            fs::write(group.join("pids.max"), most).unwrap();
        });
    }
    let unlimited = |group: &Path, _: &Path| fs::write(group.join("pids.max"), "max");
    let group = match Group::make("pids", unlimited) {
        Ok(group) => group,
        Err(error) => return skip("no-pids", format_args!("a pids cgroup cannot be made: {error}")),
    };
    let mut child = again("in_a_cgroup_that_limits_threads");
    assert_passed(&output(child.env(CHILD, group.path())).unwrap());
}

/// Tests the executor in the limited process. `limit` permits so many more threads than there are now, or removes the
/// limit.
fn work_goes_on(limit: impl Fn(Option<usize>)) {
    let executor = Executor::builder().progress_check(Duration::from_secs(10)).build().unwrap();
    let plain = WorkQueue::builder("plain").build_on(&executor).unwrap();
    let rescued = WorkQueue::builder("rescued").rescuer(true).build_on(&executor).unwrap();
    limit(Some(0));

    // Rescuers run the items of their queues, and other items wait.
    let waiting: Vec<_> = (0..50).map(|n| plain.spawn(move || (n, is_rescuer())).unwrap()).collect();
    let items: Vec<_> = (0..50).map(|n| rescued.spawn(move || (n, is_rescuer())).unwrap()).collect();
    for (n, item) in items.into_iter().enumerate() {
        assert_eq!(item.join().unwrap(), (n, true));
    }
    assert_eq!(rescued.counters().rescued, 50);
    assert_eq!(plain.flush_timeout(Duration::from_millis(50)), Err(WaitError::TimedOut));
    assert_eq!(executor.dump().threads, 0);

    // A call that needs a thread immediately returns an error.
    let error = WorkQueue::builder("late").rescuer(true).build_on(&executor).unwrap_err();
    assert!(matches!(error, BuildQueueError::Rescuer { kind: ErrorKind::WouldBlock, .. }), "{error:?}");
    // hwloc makes a thread to read the machine, so this executor uses a description of a machine.
    let described = TopologySource::Synthetic("pu:1".into());
    let error = Executor::builder().topology(described).build().unwrap_err();
    assert!(matches!(error, BuildExecutorError::Thread(_)), "{error:?}");

    // The limit permits one worker, and no spare.
    limit(Some(1));
    for (n, item) in waiting.into_iter().enumerate() {
        match item.join_timeout(SOON) {
            Ok(result) => assert_eq!(result.unwrap(), (n, false)),
            Err(_) => panic!("item {n} never ran: {}", executor.dump()),
        }
    }
    let behind = WorkQueue::builder("behind").rescuer(true).build_on(&executor);
    assert!(behind.is_err(), "the limit permits one thread only");
    // The global executor accepts items although its manager cannot be made yet.
    let early = WorkQueue::per_cpu("early").build().unwrap().spawn(|| "early").unwrap();
    let error = WorkQueue::builder("late").rescuer(true).build().unwrap_err();
    assert!(matches!(error, BuildQueueError::Rescuer { .. }), "{error:?}");
    let inner = rescued.clone();
    let waits = plain.spawn(move || blocking(|| inner.spawn(is_rescuer).unwrap().join().unwrap()));
    assert!(waits.unwrap().join().unwrap(), "the only worker waited for the rescuer");

    // All calls succeed again when the limit is removed.
    limit(None);
    WorkQueue::builder("late")
        .rescuer(true)
        .build_on(&executor)
        .unwrap()
        .spawn(|| ())
        .unwrap()
        .join()
        .unwrap();
    // The wait for the item makes the global executor's manager.
    assert_eq!(early.join_timeout(SOON).unwrap().unwrap(), "early");
}
