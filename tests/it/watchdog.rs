//! The watchdog: it reports pools that have pending items and start none of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::{Detection, Executor, ExecutorBuilder, JoinHandle, StallReport, WorkQueue};

use crate::support::{Door, PATIENCE, SOON, builder, eventually, falls_quiet, nap, pool, time_limit};

/// The threshold is much longer than the wake-up of a worker, but short for a test that waits for a report.
const THRESHOLD: Duration = Duration::from_millis(150);

/// Returns a builder with detection off, so only the watchdog notices blocked items. Also returns the prefix of the
/// threads.
fn watched(shape: &str) -> (ExecutorBuilder, String) {
    let (builder, prefix) = builder(shape);
    let builder = builder.detection(Detection::Off).hog_threshold(None);
    (builder.watchdog_threshold(THRESHOLD), prefix)
}

/// The parts of a report that the tests check.
#[derive(Debug)]
struct Told {
    pool: String,
    cpus: String,
    pending: usize,
    stalled_for: Duration,
    creating: bool,
    at_thread_limit: bool,
    workers: Vec<cmwq::StalledWorker>,
    text: String,
}

/// Returns a handler for reports, and the receiver of the channel to which it sends them.
fn told() -> (impl Fn(&StallReport<'_>) + Send + Sync + 'static, mpsc::Receiver<Told>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let handler = move |report: &StallReport<'_>| {
        let told = Told {
            pool: report.pool.to_owned(),
            cpus: report.cpus.to_string(),
            pending: report.pending,
            stalled_for: report.stalled_for,
            creating: report.creating,
            at_thread_limit: report.at_thread_limit,
            workers: report.workers.clone(),
            text: report.to_string(),
        };
        drop(tell.lock().unwrap().send(told));
    };
    (handler, told)
}

/// Queues an item that waits at a door, and returns when it has begun.
fn waits_at_a_door(queue: &WorkQueue, door: &Door, guarded: bool) -> JoinHandle<()> {
    let begun = Arc::new(AtomicBool::new(false));
    let (begins, door) = (Arc::clone(&begun), door.clone());
    let item = queue.spawn(move || {
        cmwq::set_description("the cat");
        begins.store(true, Ordering::SeqCst);
        if guarded { door.wait() } else { door.wait_unguarded() }
    });
    eventually("the item began", || begun.load(Ordering::SeqCst));
    item.unwrap()
}

/// spec: S4.1 (reported once, with item, queue, how long, thread state and wait channel; again after progress)
#[test]
fn a_stall_is_reported_once_with_its_details() {
    let _limit = time_limit();
    let (handler, told) = told();
    let (builder, prefix) = watched("core:1 pu:1");
    let executor = builder.stall_handler(handler).build().unwrap();
    let queue = WorkQueue::per_cpu("thumbnails").build_on(&executor).unwrap();
    for _ in 0..2 {
        let door = Door::default();
        let blocks = waits_at_a_door(&queue, &door, false);
        // A new worker that arrives counts as progress, so the test first waits until the spare is there.
        eventually("its spare has come", || executor.dump().pools[0].workers == 2);
        let waits = [(); 3].map(|()| queue.spawn(|| ()).unwrap());
        let report = told.recv_timeout(SOON).unwrap();
        assert_eq!((&*report.pool, &*report.cpus, report.pending), ("0", "0", 3), "{report:?}");
        assert!(report.stalled_for >= THRESHOLD, "{report:?}");
        assert!(!report.at_thread_limit, "{report:?}");
        let [worker] = &report.workers[..] else { panic!("one worker has an item: {report:?}") };
        assert!(worker.thread.starts_with(&format!("{prefix}/0:")), "{worker:?}");
        assert!(worker.item_type.contains("waits_at_a_door"), "{worker:?}");
        assert_eq!(worker.queue.as_deref(), Some("thumbnails"));
        assert_eq!(worker.description.as_deref(), Some("the cat"));
        assert!(worker.busy_for >= THRESHOLD && !worker.in_guard, "{worker:?}");
        if !executor.dump().portable {
            assert_eq!(worker.state, Some('S'), "{worker:?}");
            // The system may hide the wait channel.
            let channel = worker.wait_channel.as_deref().unwrap_or("futex");
            assert!(channel.contains("futex"), "{worker:?}");
        }
        for part in ["pending=3", &worker.thread, worker.item_type, "\"thumbnails\"", "the cat"] {
            assert!(report.text.contains(part), "{part}: {}", report.text);
        }
        assert!(told.recv_timeout(4 * THRESHOLD).is_err(), "each stall is reported once");
        door.open();
        blocks.join().unwrap();
        waits.into_iter().for_each(|item| item.join().unwrap());
    }
    drop(executor);
}

/// Runs short items, one after the other, for longer than [`PATIENCE`]. Returns the longest time in which no item
/// began. On a busy machine, even this time may reach `PATIENCE`.
fn longest_gap(queue: &WorkQueue, items: usize) -> Duration {
    let mut begun = vec![Instant::now()];
    let item = || {
        let begins = Instant::now();
        nap(PATIENCE / 30);
        begins
    };
    let items: Vec<_> = (0..items).map(|_| queue.spawn(item).unwrap()).collect();
    begun.extend(items.into_iter().map(|item| item.join().unwrap()));
    begun.push(Instant::now());
    begun.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).max().unwrap()
}

/// spec: S4.4 (0 = off): without a threshold, no stall is reported. A pool that makes progress has not stalled.
#[test]
fn no_stall_is_reported_without_a_threshold_or_while_the_pool_progresses() {
    let _limit = time_limit();
    let (handler, told_of_blocked) = told();
    let unwatched = watched("core:1 pu:1").0.watchdog_threshold(None);
    let unwatched = unwatched.stall_handler(handler).build().unwrap();
    let (handler, told_of_busy) = told();
    let busy = watched("core:1 pu:1").0.watchdog_threshold(PATIENCE).stall_handler(handler).build().unwrap();

    let door = Door::default();
    let queue = WorkQueue::per_cpu("unwatched").build_on(&unwatched).unwrap();
    let blocks = waits_at_a_door(&queue, &door, false);
    let waits = queue.spawn(|| ()).unwrap();
    // Meanwhile, the other executor always has pending items, and starts one after the other.
    let queue = WorkQueue::per_cpu("busy").build_on(&busy).unwrap();
    let longest = longest_gap(&queue, 60);
    assert!(told_of_busy.try_recv().is_err() || longest >= PATIENCE);
    assert!(told_of_blocked.try_recv().is_err());
    door.open();
    blocks.join().unwrap();
    waits.join().unwrap();
}

/// spec: S4.2: a pool that gets no thread because of the cap is reported, even if no further item is queued.
#[test]
fn a_pool_that_gets_no_thread_is_reported() {
    let _limit = time_limit();
    for kind in [WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::builder] {
        let (handler, told) = told();
        let executor = watched("core:1 pu:1").0.max_threads(1).stall_handler(handler).build().unwrap();
        let queue = kind("writes").build_on(&executor).unwrap();
        let door = Door::default();
        let blocks = waits_at_a_door(&queue, &door, true);
        let waits = queue.spawn(|| ()).unwrap();
        let report = told.recv_timeout(SOON).unwrap();
        assert!(report.at_thread_limit && report.creating, "{report:?}");
        let [worker] = &report.workers[..] else { panic!("one worker has an item: {report:?}") };
        let counts = !report.pool.starts_with('u') || executor.dump().pools[0].target.is_some();
        assert_eq!(worker.in_guard, counts, "{report:?}");
        assert_eq!(report.text.contains("inside a guard"), counts, "{}", report.text);
        door.open();
        blocks.join().unwrap();
        waits.join().unwrap();
    }
}

/// spec: S4.2: a pool whose first thread cannot be made is reported. The report names no worker.
#[test]
fn a_pool_without_any_worker_is_reported() {
    let _limit = time_limit();
    let (handler, told) = told();
    let may = Arc::new(AtomicBool::new(false));
    let allowed = Arc::clone(&may);
    let only_managers = move |name: &str| match name.ends_with("manager") || allowed.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(std::io::Error::other("no threads today")),
    };
    let executor = watched("core:1 pu:1").0.before_spawn(only_managers).stall_handler(handler);
    let executor = executor.build().unwrap();
    let item = WorkQueue::per_cpu("writes").build_on(&executor).unwrap().spawn(|| ()).unwrap();
    let report = told.recv_timeout(SOON).unwrap();
    assert!(report.workers.is_empty() && report.creating && report.pending == 1, "{report:?}");
    assert!(report.text.contains("no worker has an item"), "{}", report.text);
    may.store(true, Ordering::SeqCst);
    item.join().unwrap();
}

/// spec: S4.2: pools without a running count, such as bh contexts, are watched as well.
#[test]
fn pools_without_a_running_count_are_watched() {
    let _limit = time_limit();
    let (handler, told) = told();
    let executor = watched("core:1 pu:1").0.stall_handler(handler).build().unwrap();
    let queue = kernel::bh("interrupts").build_on(&executor).unwrap();
    let door = Door::default();
    let blocks = waits_at_a_door(&queue, &door, false);
    let waits = queue.spawn(|| ()).unwrap();
    let report = told.recv_timeout(SOON).unwrap();
    assert_eq!((&*report.pool, report.pending), ("bh0", 1), "{report:?}");
    assert_eq!(report.workers[0].queue.as_deref(), Some("interrupts"));
    door.open();
    blocks.join().unwrap();
    waits.join().unwrap();
}

/// spec: S4.3 (through a hook): no lock is held while the hook runs, and a panic in it is contained.
#[test]
fn the_hook_may_use_the_executor_and_panic() {
    let _limit = time_limit();
    static HELD: OnceLock<(Executor, WorkQueue)> = OnceLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static HELPED: AtomicUsize = AtomicUsize::new(0);
    let handler = |report: &StallReport<'_>| {
        let (executor, elsewhere) = HELD.get().unwrap();
        let pool = executor.dump().pools.into_iter().find(|pool| pool.name == report.pool);
        assert_eq!(pool.unwrap().pending, report.pending);
        drop(elsewhere.spawn(|| HELPED.fetch_add(1, Ordering::SeqCst)).unwrap());
        CALLS.fetch_add(1, Ordering::SeqCst);
        panic!("the hook has enough");
    };
    let (builder, prefix) = watched("core:1 pu:1");
    let executor = builder.stall_handler(handler).build().unwrap();
    let elsewhere = WorkQueue::unbound("elsewhere").build_on(&executor).unwrap();
    assert!(HELD.set((executor.clone(), elsewhere)).is_ok());
    let queue = WorkQueue::per_cpu("stalls").build_on(&executor).unwrap();
    for stalls in 1..=2 {
        let door = Door::default();
        let blocks = waits_at_a_door(&queue, &door, false);
        // A new worker that arrives counts as progress, so the test first waits until the spare is there.
        eventually("its spare has come", || pool(&executor, "0").workers == 2);
        let waits = queue.spawn(|| ()).unwrap();
        eventually("the hook was called", || CALLS.load(Ordering::SeqCst) == stalls);
        eventually("the items that the hook queued ran", || HELPED.load(Ordering::SeqCst) == stalls);
        door.open();
        blocks.join().unwrap();
        waits.join().unwrap();
    }
    falls_quiet(&prefix);
}

/// spec: S4.4: an item that a rescuer takes counts as progress.
#[test]
fn a_pool_that_rescuers_serve_has_not_stalled() {
    let _limit = time_limit();
    let (handler, told) = told();
    let executor = watched("core:1 pu:1").0.max_threads(1).watchdog_threshold(PATIENCE);
    let executor = executor.stall_handler(handler).build().unwrap();
    let blocking = WorkQueue::per_cpu("blocking").build_on(&executor).unwrap();
    let rescued = WorkQueue::per_cpu("rescued").rescuer(true).build_on(&executor).unwrap();
    let door = Door::default();
    let blocks = waits_at_a_door(&blocking, &door, true);
    let longest = longest_gap(&rescued, 40);
    let early: Vec<_> = told.try_iter().collect();
    assert!(early.is_empty() || longest >= PATIENCE, "{early:?}");
    door.open();
    blocks.join().unwrap();
}
