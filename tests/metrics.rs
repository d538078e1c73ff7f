//! Scrapes metrics over loopback, as Prometheus does, and compares them with the numbers of items that ran.
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cmwq::metrics::Collector;
use cmwq::observe::Snapshot;
use cmwq::{Executor, TopologySource, WorkQueue};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use testkit::{SOON, eventually};
use tiny_http::{Response, Server};

fn executor(prefix: &str) -> Executor {
    let topology = TopologySource::Synthetic("l3:1 core:2 pu:1".to_owned());
    Executor::builder().topology(topology).thread_name_prefix(prefix).build().unwrap()
}

/// The recorder, the exporter and the collector of one test.
struct Scraped {
    recorder: PrometheusRecorder,
    exporter: PrometheusHandle,
    collector: Collector,
}

impl Scraped {
    fn new(executor: &Executor) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        Self { exporter: recorder.handle(), recorder, collector: Collector::new(executor) }
    }

    fn text(&mut self) -> String {
        metrics::with_local_recorder(&self.recorder, || self.collector.collect());
        self.exporter.render()
    }

    fn samples(&mut self) -> Samples {
        Samples::parse(&self.text())
    }
}

/// The samples of a scraped text. The keys are names with labels.
struct Samples(BTreeMap<String, f64>);

impl Samples {
    fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Self(lines.map(sample).collect())
    }

    #[track_caller]
    fn of(&self, name: &str, labels: &str) -> f64 {
        let sample = format!("{name}{{{labels}}}");
        *self.0.get(&sample).unwrap_or_else(|| panic!("no {sample} in {:#?}", self.0))
    }
}

/// Sends one GET request to a server, which answers with the result of `answer`.
fn scrape(answer: impl FnOnce() -> String) -> String {
    let server = Server::http("127.0.0.1:0").unwrap();
    let address = server.server_addr().to_ip().expect("an address");
    std::thread::scope(|threads| {
        let client = threads.spawn(move || {
            let mut connection = TcpStream::connect(address).unwrap();
            connection.set_read_timeout(Some(SOON)).unwrap();
            write!(connection, "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            connection.read_to_string(&mut text).unwrap();
            text
        });
        let request = server.recv_timeout(SOON).unwrap().expect("the request has come");
        assert_eq!(request.url(), "/metrics");
        request.respond(Response::from_string(answer())).unwrap();
        client.join().unwrap()
    })
}

/// spec: O4.1: a Prometheus exporter reports the right numbers of items.
#[test]
fn scraped_numbers_are_those_of_the_items_that_ran() {
    let executor = executor("scraped");
    let mail = WorkQueue::per_cpu("mail").max_active(7).build_on(&executor).unwrap();
    let news = WorkQueue::builder("the \"news\"").build_on(&executor).unwrap();
    for (queue, items) in [(&mail, 300), (&news, 40)] {
        let handles: Vec<_> = (0..items).map(|n| queue.spawn(move || assert!(n != 3)).unwrap()).collect();
        let failed = handles.into_iter().map(|handle| handle.join()).filter(Result::is_err).count();
        assert_eq!(failed, 1);
        queue.flush().unwrap();
    }
    let (open, opened) = mpsc::channel::<()>();
    let held = mail.spawn(move || opened.recv_timeout(SOON).unwrap()).unwrap();
    let waits = || {
        let queue = executor.dump().queues.into_iter().find(|queue| queue.name == "mail").unwrap();
        (queue.counters.started, queue.len) == (301, 1)
    };
    while !waits() {
        std::thread::sleep(Duration::from_millis(1));
    }

    let dump = executor.dump();
    let mut scraped = Scraped::new(&executor);
    let text = scrape(|| scraped.text());
    let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.contains("# HELP cmwq_items_started_total Runs that have begun"), "{body}");
    assert!(body.contains("# TYPE cmwq_items_started_total counter"), "{body}");
    assert!(body.contains("# TYPE cmwq_queue_items gauge"), "{body}");
    let samples = Samples::parse(body);
    for (name, label, started) in [("mail", "mail", 301.0), ("the \"news\"", "the \\\"news\\\"", 40.0)] {
        let labels = format!("executor=\"scraped\",queue=\"{label}\"");
        let queue = dump.queue(name).unwrap();
        assert_eq!(samples.of("cmwq_items_started_total", &labels), started);
        for (metric, number) in [
            ("completed", queue.counters.completed),
            ("panicked", queue.counters.panicked),
            ("cancelled", queue.counters.cancelled),
            ("expired", queue.counters.expired),
            ("refused", queue.counters.refused),
            ("away", queue.counters.away),
            ("stolen", queue.counters.stolen),
            ("rescued", queue.counters.rescued),
        ] {
            assert_eq!(samples.of(&format!("cmwq_items_{metric}_total"), &labels), number as f64, "{metric}");
        }
        let limit = queue.max_active.unwrap() as f64;
        assert_eq!(samples.of("cmwq_queue_max_active", &labels), limit);
    }
    let labels = "executor=\"scraped\",queue=\"mail\"";
    assert_eq!(samples.of("cmwq_queue_items", labels), 1.0);
    assert_eq!(samples.of("cmwq_queue_active_items", labels), 1.0);
    assert_eq!(samples.of("cmwq_queue_inactive_items", labels), 0.0);
    // A spare worker may arrive between the two snapshots, and then the test tries again.
    let threads =
        |dump: &Snapshot| (dump.threads, dump.pools.iter().map(|pool| pool.workers).collect::<Vec<_>>());
    let (dump, samples) = loop {
        let (before, samples, after) = (executor.dump(), scraped.samples(), executor.dump());
        if threads(&before) == threads(&after) {
            break (after, samples);
        }
    };
    for pool in &dump.pools {
        let labels = format!("executor=\"scraped\",pool=\"{}\"", pool.name);
        assert_eq!(samples.of("cmwq_pool_workers", &labels), pool.workers as f64, "{}", pool.name);
        assert_eq!(samples.of("cmwq_pool_pending_items", &labels), 0.0);
        assert_eq!(samples.of("cmwq_pool_stalled_seconds", &labels), 0.0);
    }
    assert_eq!(samples.of("cmwq_threads", "executor=\"scraped\""), dump.threads as f64);
    assert_eq!(samples.of("cmwq_threads_max", "executor=\"scraped\""), dump.max_threads.unwrap() as f64);
    assert_eq!(samples.of("cmwq_thread_limit_reached", "executor=\"scraped\""), 0.0);
    assert_eq!(samples.of("cmwq_stalls_total", "executor=\"scraped\""), 0.0);
    open.send(()).unwrap();
    held.join().unwrap();
}

/// spec: O4.1, B4: if the executor has limits, the backlog of all queues and the limits are reported. They are zero
/// after the executor's end.
#[test]
fn the_backlog_is_reported_if_it_is_limited() {
    let topology = TopologySource::Synthetic("l3:1 core:2 pu:1".to_owned());
    let builder = Executor::builder().topology(topology).thread_name_prefix("full");
    let executor = builder.max_pending(50).max_pending_bytes(10_000).build().unwrap();
    let mut scraped = Scraped::new(&executor);
    let queue = WorkQueue::ordered("mail").max_pending(20).build_on(&executor).unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let held = queue.spawn(move || opened.recv_timeout(SOON).unwrap()).unwrap();
    eventually("the first item runs", || queue.counters().started == 1);
    (0..3).for_each(|_| queue.item(|| ()).bytes(700).spawn_detached().unwrap());
    let samples = scraped.samples();
    let backlog = ["items", "items_max", "bytes", "bytes_max"].map(|name| format!("cmwq_pending_{name}"));
    let levels = |samples: &Samples| backlog.each_ref().map(|name| samples.of(name, "executor=\"full\""));
    assert_eq!(levels(&samples), [3.0, 50.0, 2100.0, 10_000.0]);
    let labels = "executor=\"full\",queue=\"mail\"";
    assert_eq!(samples.of("cmwq_queue_max_pending", labels), 20.0);
    assert_eq!(samples.of("cmwq_queue_turn_waiting_items", labels), 0.0);
    open.send(()).unwrap();
    held.join().unwrap();
    queue.flush().unwrap();
    assert_eq!(levels(&scraped.samples())[..3], [0.0, 50.0, 0.0]);
    drop((queue, executor));
    eventually("the executor ends", || levels(&scraped.samples()) == [0.0; 4]);

    let mut unlimited = Scraped::new(&self::executor("unlimited"));
    assert!(!unlimited.text().contains("cmwq_pending_"));
}

/// spec: O4.1: when a queue has ended, its gauges no longer count. No counter loses a value or adds it twice.
#[test]
fn counters_go_on_while_queues_of_one_name_come_and_go() {
    let executor = executor("gone");
    let mut scraped = Scraped::new(&executor);
    let labels = "executor=\"gone\",queue=\"tenant\"";
    let run = |items: usize| {
        let queue = WorkQueue::per_cpu("tenant").build_on(&executor).unwrap();
        (0..items).for_each(|_| queue.spawn(|| ()).unwrap().join().unwrap());
        queue.flush().unwrap();
        queue
    };
    let one = run(5);
    assert_eq!(scraped.samples().of("cmwq_items_started_total", labels), 5.0);
    let two = run(3);
    let samples = scraped.samples();
    assert_eq!(samples.of("cmwq_items_started_total", labels), 8.0);
    assert_eq!(
        samples.of("cmwq_queue_max_active", labels),
        512.0,
        "the levels of queues with one name are added"
    );
    drop((one, two));
    // A flush may return shortly before the last slot is free.
    let of = |scraped: &mut Scraped, name: &str| scraped.samples().of(name, labels);
    eventually("the levels of ended queues are gone", || of(&mut scraped, "cmwq_queue_max_active") == 0.0);
    let samples = scraped.samples();
    assert_eq!(samples.of("cmwq_items_started_total", labels), 8.0);
    let three = run(2);
    let samples = scraped.samples();
    assert_eq!(samples.of("cmwq_items_started_total", labels), 10.0);
    assert_eq!(samples.of("cmwq_queue_max_active", labels), 256.0);

    drop(three);
    drop(executor);
    // The executor's threads may keep it alive for a moment.
    let mut threads = || scraped.samples().of("cmwq_threads", "executor=\"gone\"");
    eventually("the threads of an ended executor are gone", || threads() == 0.0);
    assert_eq!(scraped.samples().of("cmwq_items_started_total", labels), 10.0);
}

/// spec: O4.1: each duration is recorded once, in the first collection after the item has ended.
#[test]
fn each_collection_records_only_new_durations() {
    let executor = executor("timed");
    let queue = WorkQueue::per_cpu("slow").histograms(true).build_on(&executor).unwrap();
    let mut scraped = Scraped::new(&executor);
    let labels = "executor=\"timed\",queue=\"slow\"";
    for _ in 0..3 {
        for _ in 0..10 {
            queue.spawn(|| std::thread::sleep(Duration::from_millis(2))).unwrap().join().unwrap();
        }
        queue.flush().unwrap();
        let latency = queue.latency().unwrap();
        assert!(latency.run.count() > 0);
        for _ in 0..2 {
            let samples = scraped.samples();
            assert_eq!(samples.of("cmwq_item_run_seconds_count", labels), latency.run.count() as f64);
            let waits = latency.queue_to_start.count();
            assert_eq!(samples.of("cmwq_item_wait_seconds_count", labels), waits as f64);
            let mean = samples.of("cmwq_item_run_seconds_sum", labels)
                / samples.of("cmwq_item_run_seconds_count", labels);
            assert!((0.0015..20.0).contains(&mean), "{mean} s");
            // Histograms may be switched off for a while. When they are on again, the old durations do not count as
            // new.
            queue.set_histograms(false);
            scraped.text();
            queue.set_histograms(true);
        }
    }
}

/// spec: O4.1: a second collector, which starts late, also reports the whole counts.
#[test]
fn a_second_collector_reports_the_same() {
    let executor = executor("twice");
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let mut scraped = Scraped::new(&executor);
    for round in 1..=3 {
        queue.spawn(|| ()).unwrap().join().unwrap();
        scraped.collector = if round == 2 { Collector::new(&executor) } else { scraped.collector };
        let started = scraped.samples().of("cmwq_items_started_total", "executor=\"twice\",queue=\"q\"");
        assert_eq!(started, f64::from(round));
    }
}

/// A recorder that passes metrics on to another one, but panics at one of them.
struct Panics<'a> {
    recorder: &'a PrometheusRecorder,
    left: AtomicUsize,
}

impl Panics<'_> {
    fn told(&self) {
        assert!(self.left.fetch_sub(1, Ordering::Relaxed) != 0, "a recorder that panics");
    }
}

impl metrics::Recorder for Panics<'_> {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.told();
        self.recorder.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.told();
        self.recorder.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        self.told();
        self.recorder.register_histogram(key, metadata)
    }
}

/// spec: O4, W9.5: if a recorder panics at any metric, the caller of `collect` gets the panic. The next collection is
/// right.
#[test]
fn a_recorder_that_panics_corrupts_no_count() {
    let executor = executor("panics");
    let queue = WorkQueue::builder("q").histograms(true).build_on(&executor).unwrap();
    let mut scraped = Scraped::new(&executor);
    for at in 0..25 {
        let short = WorkQueue::per_cpu(format!("short {at}")).build_on(&executor).unwrap();
        queue.spawn(|| ()).unwrap().join().unwrap();
        queue.flush().unwrap();
        let Scraped { recorder, collector, .. } = &mut scraped;
        let panics = Panics { recorder, left: AtomicUsize::new(at) };
        let collect = AssertUnwindSafe(|| metrics::with_local_recorder(&panics, || collector.collect()));
        assert!(catch_unwind(collect).is_err(), "the caller gets the panic");
        // Metrics of this queue may have been registered for the first time. The queue has ended before the next
        // collection.
        drop(short);
        let samples = scraped.samples();
        let labels = "executor=\"panics\",queue=\"q\"";
        assert_eq!(samples.of("cmwq_items_completed_total", labels), (at + 1) as f64, "after {at}");
        let name = format!("cmwq_queue_max_active{{executor=\"panics\",queue=\"short {at}\"}}");
        assert!(samples.0.get(&name).is_none_or(|level| *level == 0.0), "after {at}");
    }
}
