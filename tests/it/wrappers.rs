//! Wrappers that enter a guard by themselves: when an item waits in such a call, the next item starts, even on one CPU.

mod channels;
mod io;
mod locks;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use cmwq::blocking;
use cmwq::blocking::{channel, process, thread};
use cmwq::{Executor, WorkQueue};
use testkit::{emulator, skip};

use crate::support::{Door, SOON, eventually, one_cpu_unseen, pool, time_limit};

/// Queues two items on one CPU. The first item waits for an action of the second item. Returns the result of the first
/// item.
#[track_caller]
fn waits_for_the_next<R: Send + 'static>(
    waits: impl FnOnce() -> R + Send + 'static,
    next: impl FnOnce() + Send + 'static,
) -> R {
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let waits = queue.spawn(waits).unwrap();
    let next = queue.spawn(next).unwrap();
    let Ok(result) = waits.join_timeout(SOON) else { panic!("the wait lets the next item start") };
    next.join().unwrap();
    at_rest(&executor);
    result.unwrap()
}

/// Asserts that no worker counts as running, which shows that each guard was left as often as it was entered.
#[track_caller]
fn at_rest(executor: &Executor) {
    eventually("no worker counts as running", || {
        let pool = pool(executor, "0");
        pool.running == 0 && pool.waking == 0 && pool.idle == pool.workers
    });
}

/// Runs the item on one CPU, and queues another item behind it. Asserts that the other item starts only after the first
/// one has ended.
#[track_caller]
fn keeps_the_next_waiting(item: impl FnOnce() + Send + 'static) {
    let executor = one_cpu_unseen();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let started = Arc::new(AtomicBool::new(false));
    let (next, starts) = (queue.clone(), Arc::clone(&started));
    let item = move || {
        let next = next.spawn(move || starts.store(true, Ordering::SeqCst)).unwrap();
        item();
        assert!(!started.load(Ordering::SeqCst), "the item entered a guard");
        next
    };
    queue.spawn(item).unwrap().join().unwrap().join().unwrap();
    at_rest(&executor);
}

/// spec: C7.1: an item that sleeps or parks lets the next item start.
#[test]
fn sleeps_let_another_item_start() {
    let _limit = time_limit();
    let naps: [fn(); 3] = [
        || thread::sleep(Duration::from_millis(1)),
        || thread::park_timeout(Duration::from_millis(1)),
        thread::park,
    ];
    for nap in naps {
        let (began, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, is_over) = (Arc::clone(&began), Arc::clone(&over));
        let (tell, told) = channel::bounded::<Thread>(1);
        waits_for_the_next(
            move || {
                tell.send(std::thread::current()).unwrap();
                begins.store(true, Ordering::SeqCst);
                while !is_over.load(Ordering::SeqCst) {
                    nap();
                }
            },
            move || {
                assert!(began.load(Ordering::SeqCst), "items of a CPU begin in order");
                over.store(true, Ordering::SeqCst);
                told.recv().unwrap().unpark();
            },
        );
    }
}

/// spec: C7.1: an item that joins a thread lets the next item start.
#[test]
fn joining_a_thread_lets_another_item_start() {
    let _limit = time_limit();
    let door = Door::default();
    let opens = door.clone();
    let handle = thread::spawn(move || {
        door.wait_unguarded();
        7
    });
    assert!(!handle.is_finished());
    let joined = waits_for_the_next(move || handle.join().unwrap(), move || opens.open());
    assert_eq!(joined, 7);
}

/// spec: C7.1: threads can be joined outside of items, and a join returns the payload of a thread that has panicked.
#[test]
fn threads_are_joined_anywhere() {
    let handle = thread::spawn(|| panic!("on purpose"));
    assert_eq!(*handle.join().unwrap_err().downcast::<&str>().unwrap(), "on purpose");
    let named = std::thread::Builder::new().name("named".to_owned()).spawn(thread::park).unwrap();
    let handle = thread::JoinHandle::from(named);
    assert_eq!(handle.thread().name(), Some("named"));
    handle.thread().unpark();
    handle.into_inner().join().unwrap();
}

/// spec: C7.6: an item that waits for a program lets the next item start.
#[test]
fn waiting_for_a_program_lets_another_item_start() {
    let _limit = time_limit();
    let mut child =
        process::spawn(Command::new("sh").args(["-c", "read code; exit $code"]).stdin(Stdio::piped()))
            .unwrap();
    let mut input = child.stdin.take().unwrap();
    let status = waits_for_the_next(
        move || child.wait().unwrap(),
        move || std::io::Write::write_all(&mut input, b"3\n").unwrap(),
    );
    assert_eq!(status.code(), Some(3));

    // Each way runs a program from its start to its end. The program echoes the text that the next item writes.
    type Run = fn(&mut Command) -> Vec<u8>;
    let runs: [Run; 3] = [
        |command| process::output(command).unwrap().stdout,
        |command| process::spawn(command.stdout(Stdio::piped())).unwrap().wait_with_output().unwrap().stdout,
        |command| {
            assert!(process::status(command.stdout(Stdio::null())).unwrap().success());
            b"meow".to_vec()
        },
    ];
    for run in runs {
        let (input, mut says) = io::pipe();
        let said = waits_for_the_next(
            move || run(Command::new("cat").stdin(input)),
            move || std::io::Write::write_all(&mut says, b"meow").unwrap(),
        );
        assert_eq!(said, b"meow");
    }
}

/// spec: C7.6: threads can wait for programs outside of items. The programs end by themselves, are killed, or cannot be
/// started.
#[test]
fn programs_are_waited_for_anywhere() {
    let mut sleeper = process::spawn(Command::new("sleep").arg("1000")).unwrap();
    assert!(sleeper.id() > 0 && sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    assert_eq!(sleeper.wait().unwrap().code(), None, "the program was killed");
    assert_eq!(Some(sleeper.wait().unwrap()), sleeper.try_wait().unwrap(), "the status can be read again");

    // Waiting for the program closes its input.
    let mut cat = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
    assert!(cat.wait().unwrap().success() && cat.stdin.is_none());

    let piped = |command: &mut Command| {
        process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap()
    };
    let talks = piped(Command::new("sh").args(["-c", "echo out; echo error >&2; exit 5"]));
    let talks = talks.into_inner();
    assert!(talks.stdin.is_some() && talks.stdout.is_some() && talks.stderr.is_some());
    let output = process::Child::from(talks).wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout, &*output.stderr),
        (Some(5), &b"out\n"[..], &b"error\n"[..])
    );

    let nothing = process::spawn(&mut Command::new("/there/is/no/such/program"));
    if nothing.is_ok() && emulator().is_some() {
        return skip(
            "emulated",
            "a child does not share memory by which it could tell why it cannot start a program",
        );
    }
    assert!(nothing.is_err());
}

/// One line imports both the function and the module of the same name.
#[test]
fn the_function_and_the_module_share_a_name() {
    assert_eq!(blocking(|| *blocking::sync::Mutex::new(3).lock()), 3);
}
