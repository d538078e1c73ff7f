//! The same seed leads to the same order of events, and other seeds lead to other orders.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cmwq::blocking::sync::Mutex;
use cmwq::testing::{self, Setup, seed};
use cmwq::{Work, WorkQueue, blocking, clock};

use super::support::{message, ms, secs};

/// The number of times that the tests repeat a seed, unless `CMWQ_TEST_AGAIN` says otherwise.
const AGAIN: u64 = if cfg!(debug_assertions) { 250 } else { 2500 };

/// Runs a program with items of all kinds. Returns the events of the run.
fn program() -> Vec<String> {
    let (managed, ordered) = (WorkQueue::new("managed"), WorkQueue::ordered("ordered").build().unwrap());
    let sum = Arc::new(Mutex::new(0));
    let add = |sum: &Arc<Mutex<u32>>| {
        let sum = Arc::clone(sum);
        move || *sum.lock() += 1
    };
    let work = Work::new(add(&sum));
    let ticks = managed.item(add(&sum)).spawn_every(ms(10)).unwrap();
    for step in 0..3 {
        managed.spawn_detached(add(&sum)).unwrap();
        ordered.spawn_detached(|| blocking::thread::sleep(ms(3))).unwrap();
        managed.item(&work).after(ms(step)).reschedule().unwrap();
        managed.item(add(&sum)).on_cpu(1).after(ms(5)).spawn_detached().unwrap();
    }
    managed.scope(|scope| (0..3).for_each(|_| drop(scope.spawn(|| blocking::thread::sleep(ms(1))))));
    ordered.flush().unwrap();
    testing::advance(ms(20));
    drop(ticks);
    managed.drain().unwrap();
    testing::events()
}

/// Returns a hash of the events (FNV-1a).
fn digest(events: &[String]) -> u64 {
    let bytes = events.iter().flat_map(|event| event.bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[track_caller]
fn assert_same(events: &[String], again: &[String]) {
    let differs = events.iter().zip(again).position(|(one, other)| one != other);
    let at = differs.unwrap_or(events.len().min(again.len()));
    assert!(events == again, "from event {at} on: {:?}, {:?}", events.get(at), again.get(at));
}

/// spec: T2.1: the same seed gives the same order each time. `make lab-orders` repeats the runs 10 000 times.
#[test]
fn a_seed_gives_the_same_order_of_events_again() {
    let again = env::var("CMWQ_TEST_AGAIN").map_or(AGAIN, |again| again.parse().unwrap());
    for number in 0..4 {
        let first = seed(number).run(program);
        for _again in 0..again {
            assert_same(&first, &seed(number).run(program));
        }
    }
}

/// spec: T2.1: other runs at the same time and the items of ordinary executors do not change the order.
#[test]
fn a_seed_does_not_depend_on_the_rest_of_the_process() {
    let expected: Vec<_> = (0..8).map(|number| seed(number).run(program)).collect();
    let ordinary = WorkQueue::new("ordinary");
    let others: Vec<_> = (0..3)
        .map(|_| {
            let (ordinary, expected) = (ordinary.clone(), expected.clone());
            std::thread::spawn(move || {
                for _round in 0..10 {
                    ordinary.for_each(0..100, |n| assert!(n < 100)).unwrap();
                    for (number, events) in (0..).zip(&expected) {
                        assert_same(events, &seed(number).run(program));
                    }
                }
            })
        })
        .collect();
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// spec: T2.1: the order is the same in another process, and in another build. `make lab-orders` runs this test in two
/// builds.
#[test]
fn a_seed_gives_the_same_order_in_another_process_and_build() {
    const TOLD: &str = "CMWQ_TEST_DIGESTS";
    let digests: Vec<_> = (0..20).map(|number| digest(&seed(number).run(program)).to_string()).collect();
    let digests = digests.join(" ");
    match env::var(TOLD) {
        Ok(expected) => assert_eq!(digests, expected),
        Err(_) => {
            let name = "schedules::a_seed_gives_the_same_order_in_another_process_and_build";
            let mut other = testkit::again(name);
            testkit::assert_passed(&testkit::output(other.env(TOLD, &digests)).unwrap());
            let Some(file) = env::var_os("CMWQ_TEST_ORDERS") else { return };
            match fs::read_to_string(&file) {
                Ok(expected) => assert_eq!(digests, expected, "the other build has other orders"),
                Err(_) => fs::write(&file, digests).unwrap(),
            }
        }
    }
}

/// spec: T2.1: different seeds lead to different orders.
#[test]
fn seeds_differ() {
    let orders: BTreeSet<_> = (0..40).map(|number| seed(number).run(program)).collect();
    assert!(orders.len() > 20, "{}", orders.len());
    let without: BTreeSet<_> = (0..5).map(|_| testing::run(program)).collect();
    assert_eq!(without.len(), 1);
}

/// Runs two items, each of which adds to a number. A switch of threads is possible between its load and its store.
fn lost_update() {
    let sum = Arc::new(AtomicU32::new(0));
    let queue = WorkQueue::unbound("adds").build().unwrap();
    for _item in 0..2 {
        let sum = Arc::clone(&sum);
        queue
            .spawn_detached(move || {
                let before = sum.load(Relaxed);
                testing::point();
                sum.store(before + 1, Relaxed);
            })
            .unwrap();
    }
    queue.flush().unwrap();
    assert_eq!(sum.load(Relaxed), 2, "an addition is lost");
}

/// spec: T2.2 (explore finds it, and the seed repeats it)
#[test]
fn a_wrong_order_is_found_and_repeated() {
    testing::run(lost_update);
    let first_failure =
        (0..1000).find(|number| std::panic::catch_unwind(|| seed(*number).run(lost_update)).is_err());
    let number = first_failure.expect("one of the seeds leads to the wrong order");
    for _again in 0..5 {
        assert!(message(|| seed(number).run(lost_update)).contains("an addition is lost"));
    }
    let explored = message(|| Setup::new().explore(1000, lost_update));
    assert!(explored.contains("an addition is lost"));
    // If a setup has a seed, the exploration begins with this seed.
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    Setup::new().seed(7).explore(2, move || sees.lock().unwrap().push(program()));
    assert_eq!(*seen.lock().unwrap(), [seed(7).run(program), seed(8).run(program)]);
}

/// spec: T2.2 (a failure prints the seed and the order of events, and a variable repeats the seed)
#[test]
fn a_failure_tells_its_seed_and_its_events() {
    const CHILD: &str = "CMWQ_TEST_IS_CHILD";
    if env::var_os(CHILD).is_some() {
        return testing::explore(1000, lost_update);
    }
    let run = |set: &[(&str, &str)]| {
        let mut child: Command = testkit::again("schedules::a_failure_tells_its_seed_and_its_events");
        child.env(CHILD, "1").envs(set.iter().copied());
        let output = testkit::output(&mut child).unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    };
    let (passed, text) = run(&[]);
    assert!(!passed && text.contains("queues") && text.contains("of queue \"adds\""), "{text}");
    let seed = text.split("the run of seed ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let story = |text: &str| text.split("the order of events:").nth(1).map(str::to_owned);
    let (passed, again) = run(&[("CMWQ_TEST_SEED", seed)]);
    assert!(!passed && again.contains(&format!("the run of seed {seed} has failed")));
    let events = |text: &str| {
        let story = story(text).unwrap_or_default();
        story.lines().filter(|line| line.contains("of queue")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(events(&again), events(&text));
    // Another variable sets the number of runs. If its value is not a number, the test fails with a message.
    assert!(run(&[("CMWQ_TEST_RUNS", "1")]).0);
    let (passed, text) = run(&[("CMWQ_TEST_RUNS", "many")]);
    assert!(!passed && text.contains("CMWQ_TEST_RUNS is \"many\": it must be a number"), "{text}");
}

/// spec: T2.1: each event shows its time and its thread.
#[test]
fn events_are_told_in_their_order() {
    let events = testing::run(|| {
        let queue = WorkQueue::new("mail");
        queue.item(|| ()).after(secs(2)).spawn().unwrap().join().unwrap();
        let begin = clock::now();
        assert!(queue.spawn(move || panic!("{begin:?}")).unwrap().join().is_err());
        testing::events()
    });
    let words: Vec<_> = events.iter().map(|event| event.split_whitespace().nth(2).unwrap()).collect();
    assert_eq!(words, ["queues", "begins", "ends", "queues", "begins", "panics"], "{events:#?}");
    assert!(events[0].contains("2.000000  cmwq/manager"), "{events:#?}");
}
