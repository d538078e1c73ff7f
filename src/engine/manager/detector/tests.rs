//! Tests of executors that cannot learn some facts about threads, because the system refuses these facts. Such an
//! executor uses the remaining facts, reports the refusal, and continues to work.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use crate::policy::blocking_detector::STILL;
use crate::sys::probe::{Faults, Probe};
use crate::sys::{PORTABLE, clock, switches, thread_state};
use crate::{Detection, Executor, TopologySource, WorkQueue, blocking, may_block};
use testkit::{SOON, eventually, holds_within, skip};

/// Error numbers of Linux.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const EMFILE: i32 = 24;
const ENOSYS: i32 = 38;

/// A time that suffices to find every detectable block, if the machine is not busy.
const A_WHILE: Duration = Duration::from_millis(30);

/// Makes an executor with one CPU. The system refuses to give the executor the facts that `faults` names.
fn refused(asked: Detection, faults: Faults) -> Executor {
    let builder = Executor::builder()
        .topology(TopologySource::Synthetic("core:1 pu:1".into()))
        .progress_check(Duration::from_secs(10))
        .detection(asked)
        .probe(Probe::with_faults(faults));
    builder.build().unwrap()
}

fn queues(executor: &Executor) -> [WorkQueue; 2] {
    [WorkQueue::per_cpu("per CPU"), WorkQueue::builder("managed")]
        .map(|builder| builder.build_on(executor).unwrap())
}

/// Returns the text with which a dump shows the error of this number.
fn text(number: i32) -> String {
    io::Error::from_raw_os_error(number).to_string()
}

/// Queues two items on one CPU. Checks that the second item runs while the first item waits for the second item.
#[track_caller]
fn goes_on(executor: &Executor, queue: &WorkQueue, wait: fn(&mpsc::Receiver<()>)) {
    let (open, door) = mpsc::channel();
    let first = queue.spawn(move || wait(&door)).unwrap();
    let second = queue.spawn(move || open.send(()).unwrap()).unwrap();
    assert!(second.join_timeout(SOON).is_ok(), "{}: {}", queue.name(), executor.dump());
    first.join().unwrap();
}

fn without_a_guard(door: &mpsc::Receiver<()>) {
    door.recv().unwrap();
}

/// Checks that blocks are found on both kinds of queues, again and again.
#[track_caller]
fn blocks_are_found(executor: &Executor) {
    for queue in queues(executor) {
        for _ in 0..3 {
            goes_on(executor, &queue, without_a_guard);
        }
    }
    // A block is counted only after it was found. By then, the worker may already run again.
    let found = || executor.undeclared_blockers().iter().map(|offender| offender.count).sum::<u64>();
    eventually("each block is counted", || found() >= 6);
}

/// Checks that the snapshot and its text report the fallback.
#[track_caller]
fn tells(executor: &Executor, words: &str, number: i32) {
    let told = || executor.dump().detection_fallback.unwrap_or_default();
    let is_told = || told().contains(words) && told().contains(&text(number));
    assert!(holds_within(SOON, is_told), "{:?}", told());
    let snapshot = executor.dump();
    assert!(snapshot.to_string().contains(&told()), "{snapshot}");
}

/// spec: S1.3 (tolerates EMFILE, a missing /proc, hidepid): without thread states, a worker that uses no CPU time
/// counts as asleep.
#[test]
fn without_thread_states_cpu_clocks_reveal_blocks() {
    if PORTABLE {
        return skip("portable", "no thread is looked at");
    }
    for number in [EMFILE, ENOENT, EACCES] {
        for asked in [Detection::Sampling, Detection::Auto] {
            let executor = refused(asked, Faults { state: Some(number), ..Faults::default() });
            let before = executor.dump().detection_fallback;
            blocks_are_found(&executor);
            if before.is_none() {
                tells(&executor, "the states of threads cannot be read", number);
            }
        }
    }
}

/// spec: S1.3, S2: if the manager cannot read thread states, it does not mistake a worker that always uses its CPU for
/// a sleeping worker.
#[test]
fn without_thread_states_a_busy_worker_does_not_count_as_asleep() {
    if PORTABLE {
        return skip("portable", "no thread is looked at");
    }
    const WORK: Duration = Duration::from_millis(20);
    let made = || {
        let executor = refused(Detection::Sampling, Faults { state: Some(EMFILE), ..Faults::default() });
        let [queue, _] = queues(&executor);
        (executor, queue)
    };
    // The thread's CPU clock measures the work, because on a busy machine a thread may do little work in a period of
    // real time.
    let used = || thread_state::own_cpu_time().expect("a thread's own clock can be read");
    let work = move || {
        let start = used();
        while used() - start < WORK {
            std::hint::spin_loop();
        }
    };
    // A worker looks asleep while another thread takes its CPU for milliseconds. The thread that takes the CPU may
    // belong to another test, or may be the worker that replaces the first worker.
    let work_before_another = |queue: &WorkQueue| {
        let (works, waits) = (queue.spawn(work).unwrap(), queue.spawn(|| ()).unwrap());
        works.join().unwrap();
        waits.join().unwrap();
    };
    for _ in 0..5 {
        let (executor, queue) = made();
        let begin = clock::now();
        work_before_another(&queue);
        let had_its_cpu = clock::now().since(begin) < WORK + STILL;
        let mistaken = executor.undeclared_blockers();
        assert!(mistaken.is_empty() || !had_its_cpu, "{mistaken:?}");
    }
    // A worker that was mistaken for a sleeping worker is not found to be a hog. So on a crowded machine, the test may
    // need more attempts.
    let (executor, queue) = made();
    let is_hog_found = || {
        work_before_another(&queue);
        !executor.hogs().is_empty()
    };
    assert!(holds_within(SOON, is_hog_found), "CPU clocks are read, so hogs are found");
}

/// spec: S1.3: if the manager cannot read CPU clocks, thread states show which workers sleep, and which run again.
#[test]
fn without_cpu_clocks_thread_states_reveal_blocks() {
    if PORTABLE {
        return skip("portable", "no thread is looked at");
    }
    for asked in [Detection::Sampling, Detection::Auto] {
        let executor = refused(asked, Faults { cpu_time: Some(EINVAL), ..Faults::default() });
        blocks_are_found(&executor);
    }
}

/// spec: S1.3, C2: without any facts, the executor knows only the blocks that items declare.
#[test]
fn without_any_facts_no_block_is_found_and_guards_work() {
    let faults = Faults { state: Some(ENOENT), cpu_time: Some(EINVAL), ..Faults::default() };
    for asked in [Detection::Sampling, Detection::Auto] {
        let executor = refused(asked, faults);
        for queue in queues(&executor) {
            let (open, door) = mpsc::channel();
            let (open_guarded, guarded_door) = mpsc::channel();
            let first = queue.spawn(move || {
                without_a_guard(&door);
                blocking(|| without_a_guard(&guarded_door));
            });
            let second = queue.spawn(|| ()).unwrap();
            let Err(second) = second.join_timeout(A_WHILE) else { panic!("{}", executor.dump()) };
            open.send(()).unwrap();
            assert!(second.join_timeout(SOON).is_ok(), "{}", executor.dump());
            open_guarded.send(()).unwrap();
            first.unwrap().join().unwrap();
            goes_on(&executor, &queue, |door| may_block(|| without_a_guard(door)));
        }
        assert!(executor.undeclared_blockers().is_empty() && executor.hogs().is_empty());
    }
}

/// spec: S1.3 (after EACCES, EPERM, ENOSYS or EMFILE, the executor falls back to sampling, and the dump says so)
#[test]
fn without_records_of_switches_thread_states_are_sampled() {
    if PORTABLE {
        return skip("portable", "no thread is looked at");
    }
    for number in [EACCES, EPERM, ENOSYS, EMFILE, EINVAL] {
        let faults = Faults { switches: Some(number), ..Faults::default() };
        for asked in [Detection::Auto, Detection::Switches] {
            let executor = refused(asked, faults);
            assert_eq!(executor.dump().detection, Detection::Sampling);
            tells(&executor, "context switches", number);
            blocks_are_found(&executor);
            tells(&executor, "context switches", number);
        }
        let executor = refused(Detection::Sampling, faults);
        assert_eq!(executor.dump().detection_fallback, None, "switches were not asked for");
        let executor = refused(Detection::Off, faults);
        assert_eq!(executor.dump().detection, Detection::Off);
        assert_eq!(executor.dump().detection_fallback, None);
    }
}

/// spec: S1.3: if the manager cannot wait for records of context switches, it parks, and samples thread states.
#[test]
fn if_the_manager_cannot_wait_for_records_thread_states_are_sampled() {
    if PORTABLE {
        return skip("portable", "no thread is looked at");
    }
    let executor = refused(Detection::Auto, Faults { listening: Some(EMFILE), ..Faults::default() });
    assert_eq!(executor.dump().detection, Detection::Sampling);
    if switches::permitted().is_ok() {
        tells(&executor, "context switches", EMFILE);
    }
    blocks_are_found(&executor);
}

/// spec: S1.3: if the system refuses to record the context switches of a worker, for example because the process has
/// run out of descriptors, the manager samples the worker's thread state.
#[test]
fn workers_whose_switches_cannot_be_recorded_are_sampled() {
    if let Err(error) = switches::permitted() {
        return skip("no-perf", error);
    }
    for (attaching, state) in [(EMFILE, None), (EMFILE, Some(EMFILE)), (EACCES, None)] {
        let faults = Faults { attaching: Some(attaching), state, ..Faults::default() };
        let executor = refused(Detection::Auto, faults);
        assert_eq!(executor.dump().detection, Detection::Switches, "{:?}", executor.dump());
        blocks_are_found(&executor);
        let words = if state.is_some() { "cannot be" } else { "not every worker's context switches" };
        tells(&executor, words, attaching);
    }
}

/// spec: S1.3: if a worker's records of context switches cannot be read any more, the manager samples the worker's
/// thread state.
#[test]
fn workers_whose_records_cannot_be_read_any_more_are_sampled() {
    if let Err(error) = switches::permitted() {
        return skip("no-perf", error);
    }
    let executor = refused(Detection::Auto, Faults { draining: Some(EINVAL), ..Faults::default() });
    assert_eq!(executor.dump().detection, Detection::Switches, "{:?}", executor.dump());
    blocks_are_found(&executor);
    tells(&executor, "a worker's context switches cannot be read any more", EINVAL);
}
