//! Local items, which stay with the worker whose item has queued them. Limits and attributes change, queues freeze, are
//! flushed and drained, and queues and executors end. No item is lost or counted twice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::{ExecutorExt, WorkQueueBuilderExt};
use cmwq::{AffinityScope, Attrs, Executor, QueueReport, WorkQueue};
use fastrand::Rng;

use crate::support::{
    Counted, Crowd, builder, bump, burn, eventually, nap, no_thread_of, stress, time_limit,
};

/// Machines with several CPUs in each pool: two machines with one pod, and one with two.
const SHAPES: [&str; 3] = ["l3:1 core:2 pu:1", "l3:1 core:8 pu:1", "l3:2 core:4 pu:1"];

#[derive(Default)]
struct Books {
    accepted: AtomicUsize,
    cancelled: AtomicUsize,
    run: AtomicUsize,
    dropped: Arc<AtomicUsize>,
    /// Once this is set, items queue no further items.
    stop: AtomicBool,
    /// The running items of [`Queues::limited`].
    crowd: Crowd,
    /// The number that the next item of the ordered queue gets. `next` is the number that the next item to run must
    /// have.
    order: Mutex<usize>,
    next: AtomicUsize,
}

/// The queues of one test. All but the last two are managed. Managed queues share pools while they have the same
/// attributes.
#[derive(Clone)]
struct Queues {
    changing: WorkQueue,
    limited: WorkQueue,
    steady: WorkQueue,
    ordered: WorkQueue,
    per_cpu: WorkQueue,
}

/// The limit of [`Queues::limited`].
const LIMIT: usize = 3;

impl Queues {
    fn new(executor: &Executor) -> Self {
        let [changing, limited, steady, ordered, per_cpu] = [
            WorkQueue::builder("changing").freezable(true),
            WorkQueue::builder("limited").max_active_total(LIMIT),
            WorkQueue::builder("steady"),
            WorkQueue::ordered("ordered").freezable(true),
            WorkQueue::per_cpu("per CPU"),
        ]
        .map(|queue| queue.build_on(executor).unwrap());
        Self { changing, limited, steady, ordered, per_cpu }
    }

    fn all(&self) -> [&WorkQueue; 5] {
        [&self.changing, &self.limited, &self.steady, &self.ordered, &self.per_cpu]
    }
}

/// Queues an item, which is mostly short, and which queues further items.
fn go_on(queues: &Queues, books: &Arc<Books>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let queue = match random.u8(..16) {
        0..8 => &queues.changing,
        8..11 => &queues.limited,
        11..14 => &queues.steady,
        14 => return in_order(queues, books),
        _ => &queues.per_cpu,
    };
    let is_limited = std::ptr::eq(queue, &raw const queues.limited);
    let (own, inner, counted) = (queues.clone(), Arc::clone(books), Counted(Arc::clone(&books.dropped)));
    let next = random.u64(..);
    let item = move || {
        let _counted = counted;
        if is_limited {
            inner.crowd.enter();
        }
        bump(&inner.run);
        behave(&own, &inner, next);
        if is_limited {
            inner.crowd.leave();
        }
    };
    bump(&books.accepted);
    match queue.spawn(item) {
        Ok(handle) if random.u8(..20) == 0 && handle.cancel() => bump(&books.cancelled),
        Ok(handle) => drop(handle),
        // The submission is refused because the executor shuts down.
        Err(refused) => {
            books.accepted.fetch_sub(1, Ordering::SeqCst);
            books.dropped.fetch_sub(1, Ordering::SeqCst);
            drop(refused);
        }
    }
}

/// Queues an item of the ordered queue, whose items run in the order in which they were accepted.
fn in_order(queues: &Queues, books: &Arc<Books>) {
    let mut order = books.order.lock().unwrap();
    let (n, inner, counted) = (*order, Arc::clone(books), Counted(Arc::clone(&books.dropped)));
    let item = move || {
        let _counted = counted;
        bump(&inner.run);
        assert_eq!(inner.next.fetch_add(1, Ordering::SeqCst), n, "out of order");
    };
    bump(&books.accepted);
    if queues.ordered.spawn_detached(item).is_ok() {
        *order += 1;
    } else {
        books.accepted.fetch_sub(1, Ordering::SeqCst);
        books.dropped.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Behaves as an item: queues further items, and may then compute for long, or block with or without a guard.
fn behave(queues: &Queues, books: &Arc<Books>, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let children = if books.stop.load(Ordering::Relaxed) { 0 } else { 1 + usize::from(random.u8(..8) == 0) };
    // Each item queues at least one other, so the chains of items do not end. If many are alive, an item queues at most
    // one, so the chains do not fill the memory.
    let alive = books.accepted.load(Ordering::Relaxed) - books.run.load(Ordering::Relaxed);
    let children = if alive > 2000 { children - children / 2 * 2 } else { children };
    for _ in 0..children {
        go_on(queues, books, random.u64(..));
    }
    match random.u16(..1000) {
        0..5 => burn(Duration::from_micros(300)),
        5..8 => cmwq::blocking::thread::sleep(Duration::from_micros(200)),
        8..10 => nap(Duration::from_micros(200)),
        _ => {}
    }
}

/// Queues an item that queues `children` others, which stay with its worker. Returns when it has queued them.
fn family(queue: &WorkQueue, children: usize, runs: &Arc<AtomicUsize>) {
    let (own, runs, told) = (queue.clone(), Arc::clone(runs), Arc::new(AtomicBool::new(false)));
    let tells = Arc::clone(&told);
    let parent = move || {
        for _ in 0..children {
            let runs = Arc::clone(&runs);
            own.spawn_detached(move || bump(&runs)).unwrap();
        }
        tells.store(true, Ordering::SeqCst);
    };
    queue.spawn_detached(parent).unwrap();
    eventually("the children are queued", || told.load(Ordering::SeqCst));
}

fn change(executor: &Executor, queues: &Queues, random: &mut Rng) {
    const SCOPES: [AffinityScope; 4] =
        [AffinityScope::Cpu, AffinityScope::System, AffinityScope::Cache, AffinityScope::Default];
    let attrs = |random: &mut Rng| {
        let scope = SCOPES[random.usize(..4)];
        Attrs::new().scope(scope).nice([0, 0, 3][random.usize(..3)]).strict(random.u8(..3) == 0)
    };
    match random.u8(..6) {
        0 => queues.changing.apply_attrs(attrs(random)).unwrap(),
        1 => queues.limited.apply_attrs(attrs(random)).unwrap(),
        2 => queues.changing.set_max_active([1, 2, 3, 512][random.usize(..4)]).unwrap(),
        3 => {
            executor.freeze_begin();
            nap(Duration::from_micros(random.u64(..2000)));
            executor.thaw();
        }
        4 => {
            let (runs, children) = (Arc::new(AtomicUsize::new(0)), random.usize(1..80));
            family(&queues.steady, children, &runs);
            queues.steady.flush().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), children, "a flush");
        }
        _ => queues.changing.flush().unwrap(),
    }
}

/// spec: F8.2, F7.1, A4.3, A4.4, A4.5, Q2.1, W9.1
#[test]
fn local_items_are_accounted_for_while_attributes_and_limits_change() {
    for (seed, shape) in SHAPES.into_iter().enumerate() {
        let _limit = time_limit();
        let executor = builder(shape).0.build().unwrap();
        let (queues, books) = (Queues::new(&executor), Arc::new(Books::default()));
        let mut random = Rng::with_seed(seed as u64);
        for n in 0..8 {
            go_on(&queues, &books, n);
        }
        for _ in 0..stress(150) {
            change(&executor, &queues, &mut random);
            // A new chain replaces a chain that has ended. A chain ends with an item of the ordered queue, or with a
            // cancelled item.
            go_on(&queues, &books, random.u64(..));
        }
        books.stop.store(true, Ordering::Relaxed);
        for queue in queues.all() {
            queue.drain().unwrap();
        }
        // Items of the last queues may have queued items to the first queues after these were drained.
        for queue in queues.all() {
            queue.flush().unwrap();
        }
        let [accepted, cancelled, run] =
            [&books.accepted, &books.cancelled, &books.run].map(|counter| counter.load(Ordering::SeqCst));
        assert_eq!(accepted, cancelled + run, "{shape}");
        assert_eq!(books.next.load(Ordering::SeqCst), *books.order.lock().unwrap(), "{shape}");
        assert!(books.crowd.peak() <= LIMIT, "{shape}: {} items", books.crowd.peak());
        assert!(queues.all().iter().all(|queue| queue.is_empty()), "{shape}");
        eventually("all closures were dropped", || books.dropped.load(Ordering::SeqCst) == accepted);
    }
}

/// spec: Q4.1, E3.1: a queue that is destroyed or dropped while its items are local runs all of them.
#[test]
fn a_queue_that_is_destroyed_has_run_its_local_items() {
    let _limit = time_limit();
    let executor = builder(SHAPES[0]).0.build().unwrap();
    let warm = WorkQueue::builder("warm").build_on(&executor).unwrap();
    for round in 0..stress(300) {
        let runs = Arc::new(AtomicUsize::new(0));
        family(&warm, 200, &runs);
        let queue = WorkQueue::builder("brief").build_on(&executor).unwrap();
        let children = round % 70;
        let brief = Arc::new(AtomicUsize::new(0));
        family(&queue, children, &brief);
        if round % 2 == 0 {
            assert_eq!(queue.destroy(), Ok(0));
            assert_eq!(brief.load(Ordering::SeqCst), children, "round {round}");
        } else {
            drop(queue);
            eventually("all have run", || brief.load(Ordering::SeqCst) == children);
        }
        warm.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 200, "round {round}");
    }
}

/// spec: E5: a shutdown that runs out of time while items are local reports the local items that it drops.
#[test]
fn a_shutdown_reports_the_local_items_that_it_drops() {
    let _limit = time_limit();
    for round in 0..stress(60) {
        let (builder, prefix) = builder(SHAPES[round % 3]);
        let executor = builder.build().unwrap();
        let (queues, books) = (Queues::new(&executor), Arc::new(Books::default()));
        for n in 0..8 {
            go_on(&queues, &books, (100 * round + n) as u64);
        }
        eventually("some items ran", || {
            let [accepted, cancelled, run] =
                [&books.accepted, &books.cancelled, &books.run].map(|counter| counter.load(Ordering::SeqCst));
            run >= 50 * (round % 5) || run + cancelled >= accepted
        });
        let report = executor.shutdown(Duration::from_micros(100 * (round as u64 % 7))).unwrap();
        eventually("all threads ended", || no_thread_of(&prefix));
        let [accepted, cancelled, run] =
            [&books.accepted, &books.cancelled, &books.run].map(|counter| counter.load(Ordering::SeqCst));
        let sum = |count: fn(&QueueReport) -> usize| report.queues.iter().map(count).sum::<usize>();
        let (dropped, running) = (sum(|queue| queue.dropped), sum(|queue| queue.running));
        let gone = accepted - cancelled - run;
        // A worker may give up items after the report was made. The report counts these items as running.
        assert!((dropped..=dropped + running).contains(&gone), "round {round}: {gone} did not run: {report}");
        eventually("all closures were dropped", || books.dropped.load(Ordering::SeqCst) == accepted);
    }
}
