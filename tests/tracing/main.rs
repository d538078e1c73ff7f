//! The events that a subscriber of `tracing` receives. This is a test program of its own, because a process has only
//! one subscriber.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod arrivals;
mod example;
mod subscriber;
mod thread_end;
mod traces;

use std::io;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cmwq::{Executor, ExecutorBuilder, TopologySource, Work, WorkQueue};
use testkit::{SOON, spin};
use tracing::Level;

use crate::subscriber::{Told, listen, names, told_of, until_told};

fn one_cpu() -> ExecutorBuilder {
    Executor::builder().topology(TopologySource::Synthetic("core:1 pu:1".to_owned()))
}

const WAY: [&str; 4] = ["queue_work", "activate_work", "execute_start", "execute_end"];

/// Returns all events of the item to which the first event of this function belongs.
fn way_of<'a>(told: &'a [Told], function: &str) -> Vec<&'a Told> {
    let first =
        told.iter().find(|told| told.field("function").contains(function)).expect("there is such an event");
    told.iter().filter(|told| told.fields.get("work") == first.fields.get("work")).collect()
}

fn fine() {
    tracing::info!(target: "user", "at work");
}

/// spec: O3.1 (the kernel's four events, with their fields; the span around an item)
#[test]
fn an_item_sends_events_from_its_submission_to_its_end() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("simple").high_priority(true).build_on(&executor).unwrap();
    queue.spawn(fine).unwrap().join().unwrap();
    let told = until_told("simple", "execute_end", 1);

    assert_eq!(names(&told), WAY);
    for told in &told {
        assert_eq!((told.target.as_str(), told.level), ("cmwq", Level::TRACE));
        assert!(told.field("function").ends_with("fine"), "{told:?}");
        assert_eq!(told.field("pool"), "0H");
        assert_eq!(told.field("cpu"), "0");
        assert_eq!(told.field("work"), told.field("work").parse::<u64>().unwrap().to_string());
        assert_eq!(told.field("work"), told.fields["work"]);
        assert_eq!(told.within, [] as [&str; 0], "the four events are not in the span");
    }
    assert_eq!(told[3].field("panicked"), "false");
    assert!(!told[0].fields.contains_key("req_cpu"), "no CPU was chosen: {:?}", told[0]);
    assert_eq!(told[0].thread, std::thread::current().name().unwrap());
    assert_eq!(told[2].thread, "cmwq/0:0H");

    let inside = subscriber::of_target("user");
    let inside = inside.iter().find(|told| told.thread == "cmwq/0:0H").expect("the item's own event");
    assert_eq!(inside.within.len(), 1, "{inside:?}");
    for part in ["execute", "fine", "simple", "0H"] {
        assert!(inside.within[0].contains(part), "{inside:?}");
    }
}

/// spec: O3.1 (req_cpu, cpu)
#[test]
fn events_of_a_placed_item_name_its_cpu() {
    listen();
    let topology = TopologySource::Synthetic("l3:1 core:4 pu:1".to_owned());
    let executor = Executor::builder().topology(topology).build().unwrap();
    let per_cpu = WorkQueue::per_cpu("named").build_on(&executor).unwrap();
    per_cpu.item(fine).on_cpu(2).spawn().unwrap().join().unwrap();
    let told = until_told("named", "execute_end", 1);
    assert_eq!(told[0].field("req_cpu"), "2");
    assert!(told.iter().all(|told| told.field("cpu") == "2" && told.field("pool") == "2"), "{told:?}");

    // The events of a pool with several CPUs name no CPU.
    let unbound = WorkQueue::unbound("loose").build_on(&executor).unwrap();
    unbound.item(fine).on_cpu(3).spawn().unwrap().join().unwrap();
    let told = until_told("loose", "execute_end", 1);
    assert_eq!(told[0].field("req_cpu"), "3");
    assert!(told.iter().all(|told| !told.fields.contains_key("cpu")), "{told:?}");
    assert!(told.iter().all(|told| told.field("pool").starts_with('u')), "{told:?}");
}

fn first(opened: &mpsc::Receiver<()>) {
    opened.recv_timeout(SOON).unwrap();
}

fn second() {}

/// spec: O3.1 (activate_work)
#[test]
fn an_item_beyond_max_active_is_activated_when_it_gets_a_slot() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::ordered("narrow").build_on(&executor).unwrap();
    let (open, opened) = mpsc::channel();
    drop(queue.spawn(move || first(&opened)).unwrap());
    let waits = queue.spawn(second).unwrap();
    let told = until_told("narrow", "queue_work", 2);
    let of_second = way_of(&told, "second");
    assert_eq!(of_second.iter().map(|told| told.name).collect::<Vec<_>>(), ["queue_work"]);
    open.send(()).unwrap();
    waits.join().unwrap();

    let told = until_told("narrow", "execute_end", 2);
    let of_second: Vec<_> = way_of(&told, "second").iter().map(|told| told.name).collect();
    assert_eq!(of_second, WAY);
    let at = |function: &str, name: &str| {
        let is = |told: &Told| told.name == name && told.field("function").contains(function);
        told.iter().position(is).expect("there is such an event")
    };
    assert!(at("closure", "execute_end") < at("second", "activate_work"), "{told:#?}");
}

/// spec: O3.1: a delayed item sends its first event when its timer fires.
#[test]
fn a_delayed_item_is_queued_when_its_time_has_come() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("later").build_on(&executor).unwrap();
    let work = Work::new(second);
    let armed = Instant::now();
    assert!(queue.item(&work).after(Duration::from_millis(50)).enqueue().unwrap());
    let told = until_told("later", "execute_end", 1);
    assert_eq!(names(&told), WAY);
    assert!(told[0].at - armed >= Duration::from_millis(50));
    assert_ne!(told[0].thread, std::thread::current().name().unwrap(), "the timer fires on another thread");
    assert_eq!(
        told.iter().map(|told| told.field("work")).filter(|work| *work == told[0].field("work")).count(),
        4
    );
}

/// spec: O3.1: if an item is already pending, its submission sends no event. If it was cancelled, its submission sends
/// one.
#[test]
fn a_submission_that_changes_nothing_sends_no_event() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("again").max_active(1).build_on(&executor).unwrap();
    let (open, opened) = mpsc::channel();
    drop(queue.spawn(move || first(&opened)).unwrap());
    let work = Work::new(second);
    let answers = [queue.enqueue(&work), queue.enqueue(&work)].map(Result::unwrap);
    assert_eq!(answers, [true, false]);
    assert!(work.cancel());
    assert!(queue.enqueue(&work).unwrap(), "the cancelled entry is used again");
    open.send(()).unwrap();
    queue.flush().unwrap();
    let told = until_told("again", "execute_end", 2);
    let of_second: Vec<_> = way_of(&told, "second").iter().map(|told| told.name).collect();
    assert_eq!(of_second, ["queue_work", "queue_work", "activate_work", "execute_start", "execute_end"]);
}

fn fails() {
    panic!("on purpose");
}

/// spec: O3.1: a panic ends an item and its span, and the events are sent.
#[test]
fn an_item_that_panics_sends_events_to_its_end() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("unlucky").build_on(&executor).unwrap();
    assert!(queue.spawn(fails).unwrap().join().is_err());
    queue.spawn(fine).unwrap().join().unwrap();
    let told = until_told("unlucky", "execute_end", 2);
    let ends: Vec<_> = told.iter().filter(|told| told.name == "execute_end").collect();
    assert_eq!([ends[0].field("panicked"), ends[1].field("panicked")], ["true", "false"]);
    assert!(told.iter().all(|told| told.within.is_empty()), "the span of the first one was left: {told:#?}");
}

/// spec: O3.1: an item of a batch sends the same events as any other item.
#[test]
fn each_item_of_a_batch_sends_its_events() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::ordered("batch").build_on(&executor).unwrap();
    let handles = queue.items((0..600).map(|_| second)).spawn().unwrap();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    let told = until_told("batch", "execute_end", 600);
    for name in WAY {
        assert_eq!(told.iter().filter(|told| told.name == name).count(), 600, "{name}");
    }
}

fn computes() {
    spin(Duration::from_millis(60));
}

fn sleeps() {
    std::thread::sleep(Duration::from_millis(60));
}

/// Runs the item, with another item queued behind it, again and again until an event of this name was sent.
fn provoke(queue: &WorkQueue, item: fn(), name: &str) -> Told {
    let end = Instant::now() + SOON;
    loop {
        let items = [queue.spawn(item).unwrap(), queue.spawn(second).unwrap()];
        items.into_iter().for_each(|item| item.join().unwrap());
        if let Some(told) = told_of(queue.name()).into_iter().find(|told| told.name == name) {
            return told;
        }
        assert!(Instant::now() < end, "{name} is not told");
    }
}

/// spec: O3.2 (cpu_intensive, blocked)
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
#[test]
fn findings_of_the_detector_send_events() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("found").build_on(&executor).unwrap();
    let hog = provoke(&queue, computes, "cpu_intensive");
    let is_of_them = |told: &Told| {
        let place = (told.field("cpu"), told.field("pool"));
        told.level == Level::DEBUG && place == ("0", "0") && told.field("thread").starts_with("cmwq/0:")
    };
    assert!(is_of_them(&hog) && hog.field("threshold_us") == "10000", "{hog:?}");
    assert!(hog.field("function").contains("FnOnce") || hog.field("function").contains("fn()"), "{hog:?}");

    let asleep = provoke(&queue, sleeps, "blocked");
    assert!(is_of_them(&asleep) && asleep.field("how") == "undeclared", "{asleep:?}");

    let declared = WorkQueue::per_cpu("declared").build_on(&executor).unwrap();
    let asleep = provoke(&declared, || cmwq::may_block(sleeps), "blocked");
    assert!(is_of_them(&asleep) && asleep.field("how") == "may_block", "{asleep:?}");
}

/// spec: O3.2 (mayday, rescued)
#[test]
fn a_call_for_a_rescuer_and_a_rescue_send_events() {
    listen();
    let refuse = |name: &str| match name.contains("/R-") || !name.contains(':') {
        true => Ok(()),
        false => Err(io::Error::other("there are no workers here")),
    };
    let executor = one_cpu().before_spawn(refuse).build().unwrap();
    let queue = WorkQueue::per_cpu("drowning").rescuer(true).build_on(&executor).unwrap();
    queue.spawn(fine).unwrap().join().unwrap();
    let mut told = until_told("drowning", "execute_end", 1);
    // A rescuer that has come, but has taken no item 100 ms after the call, is called again.
    let mut calls = 0;
    told.retain(|told| {
        calls += u32::from(told.name == "mayday");
        told.name != "mayday" || calls == 1
    });
    assert_eq!(
        names(&told),
        ["queue_work", "activate_work", "mayday", "rescued", "execute_start", "execute_end"]
    );
    let (mayday, rescued) = (&told[2], &told[3]);
    assert_eq!((mayday.level, rescued.level), (Level::DEBUG, Level::DEBUG));
    assert_eq!([mayday.field("pool"), mayday.field("cpu"), mayday.field("pending")], ["0", "0", "1"]);
    assert_eq!(rescued.field("work"), told[0].field("work"));
    assert!(rescued.field("function").ends_with("fine"), "{rescued:?}");
    assert_eq!(rescued.thread, told[4].thread);
    assert!(rescued.thread.ends_with("/R-drowning"), "{rescued:?}");
}

/// spec: O3.3: panics of a subscriber, which is user code, have no effect on the executor.
#[test]
fn a_subscriber_that_panics_corrupts_no_count() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu(subscriber::PANICS).max_active(2).build_on(&executor).unwrap();
    let work = Work::new(second);
    for _ in 0..20 {
        queue.enqueue(&work).unwrap();
        let handles: Vec<_> = (0..5).map(|n| queue.spawn(move || n).unwrap()).collect();
        let sum: i32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, 10);
    }
    queue.flush().unwrap();
    queue.drain().unwrap();
    assert!(queue.is_empty());
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: O3.3: if a subscriber queues items, they run. But their submissions send no events, because they come from the
/// subscriber.
#[test]
fn a_subscriber_may_queue_items() {
    listen();
    let executor = one_cpu().build().unwrap();
    let queue = WorkQueue::per_cpu("echoes").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let (echo, tell) = (queue.clone(), Arc::new(std::sync::Mutex::new(tell)));
    subscriber::on_queue_work("echoes", move || {
        let tell = tell.lock().unwrap().clone();
        drop(echo.spawn(move || tell.send(()).unwrap()).unwrap());
    });
    queue.spawn(fine).unwrap().join().unwrap();
    told.recv_timeout(SOON).expect("the item that the subscriber has queued has run");
    queue.flush().unwrap();
    let told = until_told("echoes", "execute_end", 2);
    assert_eq!(told.iter().filter(|told| told.name == "queue_work").count(), 1, "{told:#?}");
    subscriber::forget_hook("echoes");
}

/// spec: O3.3, W5.2 (`reschedule` replaces a pending submission): the item's next run has a slot of its queue, because
/// a worker has popped the next run's entry during the present run. When a subscriber learns of the new submission, the
/// replaced submission has given up this slot. So the subscriber may flush the queue.
#[test]
fn a_subscriber_may_flush_the_queue_that_an_item_leaves() {
    listen();
    let executor = one_cpu().build().unwrap();
    let [first, left, next] =
        ["first", "left", "next"].map(|name| WorkQueue::per_cpu(name).build_on(&executor).unwrap());
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let work = Work::new(move || {
        begin.send(()).unwrap();
        cmwq::may_block(|| ended.recv().unwrap_err());
    });
    assert!(first.enqueue(&work).unwrap());
    begun.recv_timeout(SOON).unwrap();
    assert!(left.enqueue(&work).unwrap());
    // The one worker that runs pops the item's entry before that of the closure.
    left.spawn(fine).unwrap().join().unwrap();
    let (tell, told) = mpsc::channel();
    subscriber::on_queue_work("next", move || tell.send(left.flush_timeout(SOON)).unwrap());
    assert!(next.item(&work).reschedule().unwrap());
    subscriber::forget_hook("next");
    assert_eq!(told.recv_timeout(SOON), Ok(Ok(())));
    drop(end);
    work.flush().unwrap();
}
