//! The cap on threads: work waits, but never for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::{Executor, WorkQueue, blocking};

use crate::support::{Door, SOON, builder, bump, burn, eventually, time_limit, unseen};

/// A stream of items, each of which queues the next one before it ends. So their pool is never idle until `stop` is
/// set.
struct Stream {
    runs: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    fn begin(queue: &WorkQueue, length: Duration) -> Self {
        let stream = Self { runs: Arc::default(), stop: Arc::default() };
        stream.goes_on(queue, length);
        eventually("the stream began", || stream.runs() > 0);
        stream
    }

    fn goes_on(&self, queue: &WorkQueue, length: Duration) {
        let next = queue.clone();
        let its = Self { runs: Arc::clone(&self.runs), stop: Arc::clone(&self.stop) };
        let item = move || {
            if !its.stop.load(Ordering::Relaxed) {
                its.goes_on(&next, length);
            }
            burn(length);
            bump(&its.runs);
        };
        drop(queue.spawn(item).unwrap());
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// Stops its streams when it is dropped, even if the test fails.
struct Streams(Vec<Stream>);

impl Drop for Streams {
    fn drop(&mut self) {
        self.0.iter().for_each(|stream| stream.stop.store(true, Ordering::Relaxed));
    }
}

fn executor(cpus: usize, max_threads: usize) -> Executor {
    unseen(builder(&format!("core:{cpus} pu:1")).0).max_threads(max_threads).build().unwrap()
}

/// spec: E2.5 (work waits, never for ever: a busy worker gives way between items; high priority): there is only one
/// thread, and a stream of items never leaves it idle. Items of other pools still run.
#[test]
fn a_stream_gives_the_only_thread_away_between_items() {
    let _limit = time_limit();
    for length in [Duration::ZERO, Duration::from_millis(3)] {
        let executor = executor(1, 1);
        assert_eq!(executor.dump().max_threads, Some(1));
        let queue = WorkQueue::per_cpu("stream").build_on(&executor).unwrap();
        let streams = Streams(vec![Stream::begin(&queue, length)]);
        for other in [
            WorkQueue::per_cpu("high").high_priority(true),
            WorkQueue::builder("managed"),
            WorkQueue::unbound("unbound"),
            WorkQueue::ordered("ordered"),
            kernel::bh("bh"),
        ] {
            let other = other.build_on(&executor).unwrap();
            let ran = other.spawn(|| ()).unwrap().join_timeout(SOON).is_ok();
            assert!(ran, "{} waits for ever: {}", other.name(), executor.dump());
        }
        let before = streams.0[0].runs();
        eventually("the stream goes on", || streams.0[0].runs() > before);
        assert!(executor.dump().thread_limit_reached);
        assert!(executor.dump().threads <= 1);
    }
}

/// spec: E2.5 (never for ever): streams on queues of all kinds share too few threads, and each stream continues.
#[test]
fn streams_that_share_too_few_threads_take_turns() {
    let _limit = time_limit();
    for most in [1, 2] {
        let executor = executor(2, most);
        let kinds = [
            WorkQueue::per_cpu("a"),
            WorkQueue::per_cpu("b").high_priority(true),
            WorkQueue::builder("c"),
            WorkQueue::unbound("d"),
            kernel::bh("e"),
        ];
        let queues: Vec<_> = kinds.map(|kind| kind.build_on(&executor).unwrap()).into();
        let begin = |queue: &WorkQueue| Stream::begin(queue, Duration::from_micros(20));
        let streams = Streams(queues.iter().map(begin).collect());
        for turn in 0..10 {
            let before: Vec<_> = streams.0.iter().map(Stream::runs).collect();
            let begin = Instant::now();
            while streams.0.iter().zip(&before).any(|(stream, before)| stream.runs() == *before) {
                assert!(begin.elapsed() < SOON, "turn {turn}, cap {most}: {}", executor.dump());
                std::thread::yield_now();
            }
        }
        assert!(executor.dump().threads <= most);
    }
}

/// spec: E2.5 (never for ever): a plain unbound queue whose items block gets a thread from the pool of a stream.
#[test]
fn a_pool_of_blocked_items_gets_a_thread_from_a_stream() {
    let _limit = time_limit();
    let executor = executor(1, 2);
    let (stream, blocked) = (WorkQueue::per_cpu("stream"), WorkQueue::unbound("blocked"));
    let (stream, blocked) = (stream.build_on(&executor).unwrap(), blocked.build_on(&executor).unwrap());
    let _streams = Streams(vec![Stream::begin(&stream, Duration::from_micros(100))]);
    let door = Door::default();
    let waits = door.clone();
    let first = blocked.spawn(move || waits.wait()).unwrap();
    let opens = door.clone();
    let second = blocked.spawn(move || opens.open()).unwrap();
    let ran = second.join_timeout(SOON).is_ok();
    door.open();
    assert!(ran, "the item waits for ever: {}", executor.dump());
    first.join().unwrap();
}

/// spec: E2.5 (a cap with a safe default): many items block on many CPUs, and all of them run.
#[test]
fn by_default_blocked_items_make_no_more_threads_than_the_cap() {
    let _limit = time_limit();
    let (alive, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (here, most) = (Arc::clone(&alive), Arc::clone(&peak));
    let (builder, _) = builder("l3:8 core:8 pu:1");
    let executor = builder
        .random_placement(11)
        .on_thread_start(move || {
            most.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        })
        .on_thread_stop(move || {
            alive.fetch_sub(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let cap = executor.dump().max_threads.expect("there is a default");
    assert!((256..=512).contains(&cap), "{cap}");
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let door = Door::default();
    let items: Vec<_> = (0..10_000)
        .map(|_| {
            let door = door.clone();
            queue.spawn(move || door.wait()).unwrap()
        })
        .collect();
    eventually("the cap is reached", || executor.dump().thread_limit_reached);
    // A spare that was idle may have ended to make room for another pool's worker, which is still to come.
    eventually("there are as many threads as the cap permits", || executor.dump().threads == cap);
    door.open();
    items.into_iter().for_each(|item| item.join().unwrap());
    let peak = peak.load(Ordering::SeqCst);
    assert!(peak <= cap, "{peak} threads, {cap} permitted");
    assert!(blocking(|| executor.shutdown(SOON)).is_ok());
}
