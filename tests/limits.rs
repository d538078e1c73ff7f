//! What happens when the system itself refuses threads: under RLIMIT_NPROC, and in a pids cgroup.
//!
//! Each test runs a process of its own, which is this very program: once told so by the environment, the test of the
//! same name lowers its own limit. Where a limit cannot be had, standard error says so and why.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

mod common;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use cmwq::{
    BuildExecutorError, BuildQueueError, Executor, TopologySource, WaitError, WorkQueue, blocking, is_rescuer,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use common::{output, skip};

/// Tells the process that it is the limited one; in a cgroup, also which.
const CHILD: &str = "CMWQ_TEST_LIMITED";

/// A user whom nobody else is: RLIMIT_NPROC counts all threads of a user.
const NOBODY_ELSE: u32 = 3_141_592;

const SOON: Duration = Duration::from_secs(20);

fn child(test: &str, value: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(CHILD, value);
    child
}

fn assert_passed(output: &Output) {
    let passed = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && passed, "{}{}", text(&output.stdout), text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
    let mut child = child("under_a_limit_on_the_users_threads", "rlimit");
    if rustix::process::geteuid().is_root() {
        child.uid(NOBODY_ELSE).gid(NOBODY_ELSE);
    } else {
        return skip("user", "RLIMIT_NPROC: only root can become a user whom nobody else is");
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
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        return work_goes_on(|more| {
            let now = || fs::read_to_string(group.join("pids.current")).unwrap();
            let most = more.map(|more| now().trim().parse::<usize>().unwrap() + more);
            let most = most.map_or("max".to_owned(), |most| most.to_string());
            fs::write(group.join("pids.max"), most).unwrap();
        });
    }
    let group = match Group::make() {
        Ok(group) => group,
        Err(error) => return skip("no-pids", format_args!("a pids cgroup cannot be made: {error}")),
    };
    let path = group.0.to_str().unwrap().to_owned();
    assert_passed(&output(&mut child("in_a_cgroup_that_limits_threads", &path)).unwrap());
}

/// A cgroup of this test's own.
struct Group(PathBuf);

impl Group {
    fn make() -> io::Result<Self> {
        let name = format!("cmwq-test-{}", std::process::id());
        let mut last = io::Error::new(ErrorKind::NotFound, "no pids controller is mounted");
        for parent in own_groups()? {
            let group = Self(parent.join(&name));
            let made = fs::create_dir(&group.0)
                .and_then(|()| fs::write(group.0.join("pids.max"), "max"))
                // It must be permitted to enter, too; whoever does so leaves with the attempt.
                .and_then(|()| fs::OpenOptions::new().write(true).open(group.0.join("cgroup.procs")));
            match made {
                Ok(_) => return Ok(group),
                Err(error) => last = io::Error::new(error.kind(), format!("{}: {error}", parent.display())),
            }
        }
        Err(last)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The system may still be counting off the last thread that was in it.
        let end = Instant::now() + Duration::from_secs(1);
        while self.0.exists() && fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The folders of the process's cgroups that may have the pids controller: of version 1, of version 2.
fn own_groups() -> io::Result<Vec<PathBuf>> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|controller| controller == "pids") {
            found.insert(0, Path::new("/sys/fs/cgroup/pids").join(path));
        } else if controllers.is_empty() {
            found.push(Path::new("/sys/fs/cgroup").join(path));
        }
    }
    Ok(found)
}

/// The limited process. `limit`: so many threads more than there are now, or no limit.
fn work_goes_on(limit: impl Fn(Option<usize>)) {
    let executor = Executor::builder().progress_check(Duration::from_secs(1)).build().unwrap();
    let plain = WorkQueue::new("plain").build_on(&executor).unwrap();
    let rescued = WorkQueue::new("rescued").rescuer().build_on(&executor).unwrap();
    limit(Some(0));

    // Rescuers run what is theirs, the rest waits.
    let waiting: Vec<_> = (0..50).map(|n| plain.spawn(move || (n, is_rescuer())).unwrap()).collect();
    let items: Vec<_> = (0..50).map(|n| rescued.spawn(move || (n, is_rescuer())).unwrap()).collect();
    for (n, item) in items.into_iter().enumerate() {
        assert_eq!(item.join().unwrap(), (n, true));
    }
    assert_eq!(rescued.counters().rescued, 50);
    assert_eq!(plain.flush_timeout(Duration::from_millis(50)), Err(WaitError::TimedOut));
    assert_eq!(executor.dump().threads, 0);

    // What needs a thread at once is told.
    let error = WorkQueue::new("late").rescuer().build_on(&executor).unwrap_err();
    assert!(matches!(error, BuildQueueError::Rescuer { kind: ErrorKind::WouldBlock, .. }), "{error:?}");
    // Reading the machine takes a thread of hwloc's.
    let described = TopologySource::Synthetic("pu:1".into());
    let error = Executor::builder().topology(described).build().unwrap_err();
    assert!(matches!(error, BuildExecutorError::Thread(_)), "{error:?}");

    // Room for one worker, which then has no spare.
    limit(Some(1));
    for (n, item) in waiting.into_iter().enumerate() {
        match item.join_timeout(SOON) {
            Ok(result) => assert_eq!(result.unwrap(), (n, false)),
            Err(_) => panic!("item {n} never ran: {}", executor.dump()),
        }
    }
    let behind = WorkQueue::new("behind").rescuer().build_on(&executor);
    assert!(behind.is_err(), "the room was for one");
    // The global executor has to do without its manager, for now.
    let early = WorkQueue::per_cpu("early").build().unwrap().spawn(|| "early").unwrap();
    let error = WorkQueue::new("late").rescuer().build().unwrap_err();
    assert!(matches!(error, BuildQueueError::Rescuer { .. }), "{error:?}");
    let inner = rescued.clone();
    let waits = plain.spawn(move || blocking(|| inner.spawn(is_rescuer).unwrap().join().unwrap()));
    assert!(waits.unwrap().join().unwrap(), "the only worker waited for the rescuer");

    // Everything is as ever when the limit is gone.
    limit(None);
    WorkQueue::new("late").rescuer().build_on(&executor).unwrap().spawn(|| ()).unwrap().join().unwrap();
    // And waiting for it brings the global executor's manager about.
    assert_eq!(early.join_timeout(SOON).unwrap().unwrap(), "early");
}
