//! Requests and their answers.

use std::sync::mpsc;
use std::time::Duration;

use cmwq::control::{Attribute, ErrorKind, PROTOCOL};
use cmwq::kernel;
use cmwq::{Executor, TopologySource, WorkQueue};

use super::{SOON, Served, eventually, refused_as};

/// spec: O5.3
#[test]
fn hello_describes_the_process() {
    let served = Served::new("core:2 pu:1");
    let hello = served.client().hello().unwrap();
    assert_eq!((hello.protocol, hello.pid), (PROTOCOL, std::process::id()));
    assert!(hello.program.starts_with("control"), "{hello:?}");
    assert_eq!((hello.prefix.as_str(), hello.crate_version.as_str()), ("served", env!("CARGO_PKG_VERSION")));
}

/// spec: O5.3: requests and answers are letter by letter as in the documentation.
#[test]
fn lines_are_as_documented() {
    let served = Served::new("core:2 pu:1");
    let _queues = [WorkQueue::builder("mail").control(true), WorkQueue::builder("events")]
        .map(|q| q.build_on(&served.executor).unwrap());
    let mut raw = served.raw();
    for (request, answer) in [
        (r#"{"request":"get","queue":"mail","attribute":"max_active"}"#, r#"{"ok":"256"}"#),
        (r#"{"request":"set","queue":"mail","attribute":"max_active","value":"8"}"#, r#"{"ok":"8"}"#),
        (
            r#"{"request":"set","queue":"mail","attribute":"affinity_scope","value":"numa"}"#,
            r#"{"ok":"numa"}"#,
        ),
        (
            r#"{"request":"attributes","queue":"events"}"#,
            r#"{"ok":[{"attribute":"affinity_scope","value":"default (cache)"},{"attribute":"affinity_strict","value":"0"},{"attribute":"cpumask","value":"0-1"},{"attribute":"nice","value":"0"},{"attribute":"max_active","value":"256"},{"attribute":"histograms","value":"0"}]}"#,
        ),
        (
            r#"{"request":"get","queue":"mial","attribute":"max_active"}"#,
            r#"{"error":{"kind":"unknown_queue","message":"no queue is named \"mial\"; the queues are: mail, events"}}"#,
        ),
        (
            r#"{"request":"set","queue":"events","attribute":"nice","value":"5"}"#,
            r#"{"error":{"kind":"not_controllable","message":"queue \"events\" cannot be changed from outside: its program must build it with `control()`"}}"#,
        ),
        (
            r#"{"request":"watchdog"}"#,
            r#"{"ok":{"threshold_ns":30000000000,"stalls":0,"stalled":[],"hogs":[],"undeclared_blockers":[]}}"#,
        ),
    ] {
        // The workers have the nice level of the thread that made the executor.
        let nice = served.client().get("events", Attribute::Nice).unwrap();
        let answer = answer.replace(r#""nice","value":"0""#, &format!(r#""nice","value":"{nice}""#));
        assert_eq!(raw.ask(request), answer, "{request}");
    }
}

/// spec: O5.3 (dump)
#[test]
fn a_dump_is_that_of_the_executor() {
    let served = Served::new("numa:2 core:2 pu:1");
    let queues = [
        WorkQueue::builder("a").control(true),
        WorkQueue::per_cpu("b"),
        kernel::bh("c"),
        WorkQueue::ordered("d"),
    ]
    .map(|queue| queue.build_on(&served.executor).unwrap());
    queues.iter().for_each(|queue| queue.spawn(|| ()).unwrap().join().unwrap());
    let mut client = served.client();
    // Ages and CPU times change, so the test tries again until two dumps of the resting executor are equal.
    eventually("two dumps of an executor at rest are equal", || {
        let (here, there) = (served.executor.dump(), client.dump().unwrap());
        let controlled: Vec<bool> = there.queues.iter().map(|queue| queue.control).collect();
        assert_eq!(controlled, [true, false, false, false]);
        let monitored = client.monitor().unwrap().queues;
        assert_eq!(monitored.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert!(monitored.iter().all(|row| row.counters.started == 1));
        here.queues == there.queues && here.scopes == there.scopes && here.prefix == there.prefix
    });
}

/// spec: O5.3, S4
#[test]
fn the_watchdog_reports_stalls_while_they_last() {
    let builder = Executor::builder().topology(TopologySource::Synthetic("core:1 pu:1".into()));
    let builder = builder.detection(cmwq::Detection::Off).hog_threshold(None);
    let executor =
        builder.watchdog_threshold(Duration::from_millis(20)).stall_handler(|_| ()).build().unwrap();
    let served = Served::by(&executor);
    let queue = WorkQueue::per_cpu("stuck").build_on(&executor).unwrap();
    let mut client = served.client();
    let before = client.watchdog().unwrap();
    assert_eq!((before.threshold, before.stalls), (Some(Duration::from_millis(20)), 0));

    let ((open, door), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    let first = queue.spawn(move || {
        begin.send(()).unwrap();
        door.recv_timeout(SOON)
    });
    let first = first.unwrap();
    begun.recv().unwrap();
    // A new worker that arrives counts as progress, so the test first waits until the spare is there.
    eventually("the spare has come", || executor.dump().pools[0].workers == 2);
    let second = queue.spawn(|| ()).unwrap();
    let mut during = before;
    eventually("the stall is reported", || {
        during = client.watchdog().unwrap();
        during.stalls == 1 && during.stalled.len() == 1
    });
    assert_eq!((during.stalls, during.stalled[0].pool.as_str(), during.stalled[0].pending), (1, "0", 1));
    assert!(during.stalled[0].stalled_for >= Duration::from_millis(20));
    open.send(()).unwrap();
    first.join().unwrap().unwrap();
    second.join().unwrap();
    eventually("the stall is over", || client.watchdog().unwrap().stalled.is_empty());
    assert_eq!(client.watchdog().unwrap().stalls, 1);
}

/// spec: O5.4: queues are found even if several share a name, and if names look like numbers, are very long, or are
/// secret.
#[test]
fn queues_are_found_by_name_and_number() {
    let served = Served::new("core:2 pu:1");
    let names = ["twin", "twin", "odd#2", "", "twin"];
    let build = |name: &str| WorkQueue::builder(if name.is_empty() { "x".repeat(5000) } else { name.into() });
    let queues = names.map(|name| build(name).control(true).build_on(&served.executor).unwrap());
    queues.iter().zip(1..).for_each(|(queue, n)| queue.set_max_active(n).unwrap());
    let mut client = served.client();
    let mut limit = |name: &str| client.get(name, Attribute::MaxActive);
    let message = refused_as(ErrorKind::AmbiguousQueue, limit("twin"));
    let numbers: Vec<String> = message.rsplit(": ").next().unwrap().split(", ").map(str::to_owned).collect();
    assert!(message.starts_with(r#"3 queues are named "twin"; choose one of: twin#"#), "{message}");
    let limits: Vec<String> = numbers.iter().map(|name| limit(name).unwrap()).collect();
    assert_eq!(limits, ["1", "2", "5"]);
    assert_eq!(limit("odd#2").unwrap(), "3", "a name is looked up before a number");
    assert_eq!(limit(&"x".repeat(5000)).unwrap(), "4");
    refused_as(ErrorKind::UnknownQueue, limit("twin#99"));
    refused_as(ErrorKind::UnknownQueue, limit("odd#1"));
    let message = refused_as(ErrorKind::UnknownQueue, limit(&"y".repeat(60_000)));
    assert!(message.len() < 1000 && message.contains("twin, odd#2, xxx"), "{message}");

    let many: Vec<_> = (0..100)
        .map(|n| WorkQueue::builder(format!("{n}{}", "m".repeat(500))).build_on(&served.executor).unwrap())
        .collect();
    let message = refused_as(ErrorKind::UnknownQueue, limit("absent"));
    assert!(message.contains("there are 105, such as: twin") && message.len() < 8000, "{message}");
    drop(many);
}

/// spec: O5.9: a queue without handles can still be seen and changed until its items have ended.
#[test]
fn a_queue_without_handles_is_listed_until_its_work_is_done() {
    let served = Served::new("core:1 pu:1");
    let queue = WorkQueue::unbound("last").max_active(1).control(true).build_on(&served.executor).unwrap();
    let (open, door) = mpsc::channel::<()>();
    let first = queue.spawn(move || cmwq::blocking(|| door.recv_timeout(SOON))).unwrap();
    let second = queue.spawn(|| ()).unwrap();
    drop(queue);
    let mut client = served.client();
    assert_eq!(client.set("last", Attribute::MaxActive, "2").unwrap(), "2");
    second.join().unwrap();
    open.send(()).unwrap();
    first.join().unwrap().unwrap();
    eventually("the queue is gone", || client.get("last", Attribute::MaxActive).is_err());
    let message = refused_as(ErrorKind::UnknownQueue, client.get("last", Attribute::MaxActive));
    assert_eq!(message, r#"no queue is named "last"; there are no queues"#);
}

/// spec: O5.9, E5
#[test]
fn an_executor_is_readable_after_a_shutdown_and_reported_gone_after_its_end() {
    let Served { server, executor, folder } = Served::new("core:2 pu:1");
    let queue = WorkQueue::builder("mail").control(true).build_on(&executor).unwrap();
    executor.shutdown(SOON).unwrap();
    let mut client = cmwq::control::Client::connect(server.path()).unwrap();
    assert_eq!(client.get("mail", Attribute::AffinityScope).unwrap(), "default (cache)");
    assert_eq!(client.dump().unwrap().queues.len(), 1);
    let message = refused_as(ErrorKind::ShutDown, client.set("mail", Attribute::Nice, "5"));
    assert_eq!(message, "the executor was shut down");
    drop((executor, queue));
    for _ in 0..2 {
        refused_as(ErrorKind::Ended, client.dump());
        refused_as(ErrorKind::Ended, client.get("mail", Attribute::Nice));
    }
    assert_eq!(client.hello().unwrap().prefix, "served");
    drop(server);
    assert!(client.hello().is_err());
    drop(folder);
}

/// spec: O5.9: a server does not keep its executor alive.
#[test]
fn an_executor_ends_although_it_is_served() {
    let Served { server, executor, folder } = Served::new("core:2 pu:1");
    cmwq::control::Client::connect(server.path()).unwrap().dump().unwrap();
    let queue = WorkQueue::builder("mail").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    drop((executor, queue));
    eventually("the executor has ended", || {
        cmwq::control::Client::connect(server.path()).unwrap().dump().is_err()
    });
    drop((server, folder));
}
