//! Tests in which the system refuses the means that detect undeclared blocking: descriptors, files of `/proc`, records
//! of context switches. A seccomp filter refuses a call to a thread and to the threads that it makes. If no filter can
//! be set, tests are reported as skipped. A process has one limit of descriptors and one logger. So tests that need
//! these start this program again.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "filters are given to the system through libc")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::kernel;
use cmwq::{Detection, Executor, ExecutorBuilder, TopologySource, WorkQueue};
use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testkit::{SOON, again, assert_passed, holds_within, output, skip};

/// The environment variable that tells a process that a test has started it, with limits.
const CHILD: &str = "CMWQ_TEST_DENIED";

fn builder(asked: Detection) -> ExecutorBuilder {
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    Executor::builder().topology(topology).progress_check(Duration::from_secs(10)).detection(asked)
}

/// Returns the text of the system's error of this number.
fn text(number: i32) -> String {
    io::Error::from_raw_os_error(number).to_string()
}

fn fallback(executor: &Executor) -> String {
    executor.dump().detection_fallback.unwrap_or_default()
}

/// Asserts that the executor finds blocked items: several items of one CPU wait without a guard until the last one
/// runs.
#[track_caller]
fn blocks_are_found(executor: &Executor) {
    let found = || executor.undeclared_blockers().iter().map(|offender| offender.count).sum::<u64>();
    let before = found();
    for builder in [WorkQueue::per_cpu("per CPU"), WorkQueue::builder("managed")] {
        let queue = builder.build_on(executor).unwrap();
        let (doors, items): (Vec<_>, Vec<_>) = (0..4)
            .map(|_| {
                let (open, door) = mpsc::channel::<()>();
                (open, queue.spawn(move || door.recv().unwrap()).unwrap())
            })
            .unzip();
        let opens = queue.spawn(move || doors.iter().for_each(|door| door.send(()).unwrap())).unwrap();
        assert!(opens.join_timeout(SOON).is_ok(), "{}", executor.dump());
        items.into_iter().for_each(|item| item.join().unwrap());
    }
    // The blocks are counted only some time after the next item has begun.
    assert!(holds_within(SOON, || found() >= before + 8), "{:?}", executor.undeclared_blockers());
}

/// From now on, the system refuses the call `call` with the error `number`, to this thread and the threads that it
/// makes.
fn refuse(call: libc::c_long, number: i32) -> io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The first field of the system's description of a call is the number of the call.
    let mut filter = [
        statement(BPF_LD | BPF_W | BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(BPF_JMP | BPF_JEQ | BPF_K, call as u32) },
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | number as u32),
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` describes `filter`, and both outlive the calls; all other arguments are numbers.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as u64, &raw const program) != 0
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tries on another thread whether filters can be set, and returns the result. If not, reports the test as skipped.
fn can_refuse() -> bool {
    match thread::spawn(|| refuse(libc::SYS_perf_event_open, libc::EPERM)).join().unwrap() {
        Ok(()) => true,
        Err(error) => {
            skip("no-seccomp", format_args!("no filter can be set: {error}"));
            false
        }
    }
}

/// Makes an executor to whose threads the system refuses this call.
fn refused(asked: Detection, call: libc::c_long, number: i32) -> Executor {
    let build = move || {
        refuse(call, number).unwrap();
        builder(asked).build().unwrap()
    };
    thread::spawn(build).join().unwrap()
}

/// Makes an executor to whose manager the system refuses this call from the first worker on.
fn refused_later(asked: Detection, call: libc::c_long, number: i32) -> Executor {
    let once = Once::new();
    let hook = move |_: &str| {
        if thread::current().name().is_some_and(|name| name.ends_with("/manager")) {
            once.call_once(|| refuse(call, number).unwrap());
        }
        Ok(())
    };
    builder(asked).before_spawn(hook).build().unwrap()
}

/// Returns whether this build observes threads. If not, reports the test as skipped.
fn sees(executor: &Executor) -> bool {
    let sees = !executor.dump().portable;
    if !sees {
        skip("portable", "this build does not observe threads");
    }
    sees
}

/// spec: S1.3 (EACCES, EPERM, ENOSYS, EMFILE fall back to sampling, and the dump gives the reason)
#[test]
fn without_permission_for_switch_records_the_detector_samples() {
    if !can_refuse() {
        return;
    }
    let perf = libc::SYS_perf_event_open;
    for (call, number) in [
        (perf, libc::EACCES),
        (perf, libc::EPERM),
        (perf, libc::ENOSYS),
        (perf, libc::EMFILE),
        (libc::SYS_eventfd2, libc::EMFILE),
    ] {
        for asked in [Detection::Auto, Detection::Switches] {
            let executor = refused(asked, call, number);
            if !sees(&executor) {
                return;
            }
            assert_eq!(executor.dump().detection, Detection::Sampling);
            let told = fallback(&executor);
            // If the system does not permit records anyway, the executor never makes the second call, and gives another
            // reason.
            assert!(told.contains(&text(number)) || call != perf && !told.is_empty(), "{told}");
            assert!(executor.dump().to_string().contains(&told), "{}", executor.dump());
            blocks_are_found(&executor);
        }
    }
}

/// spec: S1.3: the detector samples even if a call is permitted at first and refused later.
#[test]
fn when_switch_records_fail_later_the_detector_samples() {
    if !can_refuse() {
        return;
    }
    for number in [libc::EMFILE, libc::EACCES] {
        let executor = refused_later(Detection::Auto, libc::SYS_perf_event_open, number);
        if !sees(&executor) {
            return;
        }
        blocks_are_found(&executor);
        let told = fallback(&executor);
        let was_permitted = executor.dump().detection == Detection::Switches;
        assert!(told.contains(&text(number)) || !was_permitted, "{told}");
    }
}

/// spec: S1.3 (a missing /proc, hidepid, EMFILE): if no file can be opened, the CPU clocks of threads show which ones
/// make no progress.
#[test]
fn where_proc_cannot_be_read_cpu_clocks_are_used() {
    if !can_refuse() {
        return;
    }
    for number in [libc::ENOENT, libc::EACCES, libc::EMFILE] {
        for asked in [Detection::Sampling, Detection::Auto] {
            let executor = refused_later(asked, libc::SYS_openat, number);
            if !sees(&executor) {
                return;
            }
            let before = fallback(&executor);
            blocks_are_found(&executor);
            let told = fallback(&executor);
            assert!(told.contains(&text(number)) || !before.is_empty(), "{asked}: {told}");
        }
    }
}

/// Returns whether this is the process that was started for the test. If not, starts that process and waits until the
/// test has passed there.
fn runs_in_a_process_of_its_own(test: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    assert_passed(&output(again(test).env(CHILD, "1")).unwrap());
    false
}

/// Sets the limit of descriptors. Open descriptors stay open.
fn limit_descriptors(soft: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: soft.or(maximum), maximum }).unwrap();
}

/// spec: S1.3 (tolerates EMFILE), P3: executors find blocked items, whether they were made before the descriptors ran
/// out or after.
#[test]
fn without_descriptors_everything_still_works() {
    if !runs_in_a_process_of_its_own("without_descriptors_everything_still_works") {
        return;
    }
    for asked in [Detection::Sampling, Detection::Switches, Detection::Auto] {
        let before = builder(asked).build().unwrap();
        if !sees(&before) {
            return;
        }
        let in_use = builder(asked).build().unwrap();
        // The executor now has open descriptors, which stay open under the limit.
        blocks_are_found(&in_use);
        limit_descriptors(Some(3));
        let within = builder(asked).build().unwrap();
        for executor in [&before, &in_use, &within] {
            blocks_are_found(executor);
        }
        for executor in [&before, &within] {
            assert!(fallback(executor).contains(&text(libc::EMFILE)), "{asked}: {}", executor.dump());
        }
        assert_eq!(within.dump().detection, Detection::Sampling);
        limit_descriptors(None);
        for executor in [&before, &in_use, &within] {
            blocks_are_found(executor);
        }
    }
}

/// A panic payload that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any("a panic of the payload's destructor");
    }
}

/// A logger that panics on each line, which kills the calling thread unless the panic is contained.
struct Panics;

static TOLD: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

impl log::Log for Panics {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "cmwq" {
            let told = (thread::current().name().unwrap_or_default().to_owned(), record.args().to_string());
            TOLD.lock().unwrap().push(told);
            std::panic::panic_any(Bomb);
        }
    }

    fn flush(&self) {}
}

/// Returns whether a thread whose name ends like this has logged a line with these words.
fn told(by: &str, words: &str) -> bool {
    TOLD.lock().unwrap().iter().any(|(thread, line)| thread.ends_with(by) && line.contains(words))
}

/// spec: W9.5 (user code ends no thread, wherever it is called): a logger that panics on each line ends neither the
/// manager nor a worker, even before the worker's first item.
#[test]
fn a_logger_that_panics_ends_no_thread() {
    if !can_refuse() || !runs_in_a_process_of_its_own("a_logger_that_panics_ends_no_thread") {
        return;
    }
    log::set_logger(&Panics).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let runs = |queue: &WorkQueue| {
        let item = queue.spawn(|| ()).unwrap();
        assert!(item.join_timeout(SOON).is_ok(), "{:?}", TOLD.lock().unwrap());
    };
    let build = || {
        refuse(libc::SYS_setpriority, libc::EPERM).unwrap();
        let workers = AtomicUsize::new(0);
        let fails_twice = move |name: &str| match name {
            "cmwq/manager" => Ok(()),
            _ => match workers.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other(BadError)),
                1 => std::panic::panic_any(Bomb),
                _ => Ok(()),
            },
        };
        let watchdog = Duration::from_millis(20);
        builder(Detection::Off).before_spawn(fails_twice).watchdog_threshold(watchdog).build().unwrap()
    };
    let executor = thread::spawn(build).join().unwrap();
    // The creation of this worker fails twice. Then the system denies the high nice level.
    runs(&WorkQueue::per_cpu("urgent").high_priority(true).build_on(&executor).unwrap());
    assert!(told("/manager", "a worker cannot be made"));
    assert!(!sees(&executor) || told(":0H", "cannot have nice level"));

    // This stall has no hook, so it is logged.
    let queue = kernel::bh("slow").build_on(&executor).unwrap();
    let is_told = || holds_within(SOON, || told("/manager", "has started nothing"));
    let stalls = queue.item(is_told).on_cpu(0).spawn().unwrap();
    runs(&queue);
    assert!(stalls.join().unwrap(), "the manager does not report the stall");
    // The manager still makes workers and fires timers.
    runs(&WorkQueue::unbound("after all").build_on(&executor).unwrap());
    let later = queue.item(|| ()).after(Duration::from_millis(1)).spawn().unwrap();
    assert!(later.join_timeout(SOON).is_ok());
    drop(queue);
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// An error that a hook returns, and that panics when it is dropped.
#[derive(Debug)]
struct BadError;

impl std::fmt::Display for BadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not now")
    }
}

impl std::error::Error for BadError {}

impl Drop for BadError {
    fn drop(&mut self) {
        std::panic::panic_any(Bomb);
    }
}
