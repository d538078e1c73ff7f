//! Stress: many producers and kinds of queues, with panics, guards, cancels, failed thread creations and ends of
//! executors, all at the same time. No item is lost or counted twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{AffinityScope, Attrs, Counters, Executor, Work, WorkQueue};
use fastrand::Rng;

use crate::support::{builder, burn, eventually, no_thread_of, on_each_executor, stress, time_limit, unseen};

#[derive(Default)]
struct Books {
    accepted: AtomicUsize,
    refused: AtomicUsize,
    cancelled: AtomicUsize,
    run: AtomicUsize,
    panicked: AtomicUsize,
    /// For each issuer, the number of its last item that ran on the ordered queue.
    ordered: Mutex<Vec<usize>>,
}

impl Books {
    fn count(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn balance(&self) -> bool {
        let [accepted, cancelled, run] =
            [&self.accepted, &self.cancelled, &self.run].map(|counter| counter.load(Ordering::SeqCst));
        accepted == cancelled + run
    }
}

fn all_queues(executor: &Executor) -> Vec<WorkQueue> {
    [
        WorkQueue::builder("managed"),
        WorkQueue::per_cpu("per CPU").max_pending(40),
        WorkQueue::per_cpu("heavy").cpu_intensive(true).max_active(2),
        WorkQueue::unbound("unbound").max_active(3),
        WorkQueue::builder("scoped")
            .attrs(Attrs::new().scope(AffinityScope::Cpu).nice(1))
            .max_active_total(5),
        WorkQueue::ordered("ordered, bounded").max_pending(20),
    ]
    .map(|queue| queue.build_on(executor).unwrap())
    .into()
}

/// Runs one of the behaviours of an item, chosen by `kind`.
fn behave(books: &Books, kind: u64) {
    Books::count(&books.run);
    match kind {
        0 => {
            Books::count(&books.panicked);
            panic!("on purpose");
        }
        1 => cmwq::blocking::thread::sleep(Duration::from_micros(50)),
        2 => std::mem::forget(cmwq::BlockingGuard::enter()),
        3 => burn(Duration::from_micros(30)),
        4 => cmwq::blocking(|| cmwq::blocking(std::thread::yield_now)),
        _ => {}
    }
}

/// Acts as one producer, which submits, cancels, joins and flushes one-shots and reusable items as its seed determines.
fn produce(
    issuer: usize,
    items: usize,
    queues: &[WorkQueue],
    works: &[Work],
    ordered: &WorkQueue,
    books: &Arc<Books>,
) {
    let mut random = Rng::with_seed(issuer as u64);
    for n in 1..=items {
        let queue = &queues[random.usize(..queues.len())];
        let kind = random.u64(..30);
        match random.u64(..10) {
            0 => {
                let work = &works[random.usize(..works.len())];
                match queue.enqueue(work) {
                    Ok(true) => Books::count(&books.accepted),
                    Ok(false) => {}
                    Err(_) => Books::count(&books.refused),
                }
            }
            1 => {
                if works[random.usize(..works.len())].cancel() {
                    Books::count(&books.cancelled);
                }
            }
            2 if n % 16 == 0 => queue.flush().unwrap(),
            action => {
                let inner = Arc::clone(books);
                match queue.spawn(move || behave(&inner, kind)) {
                    Ok(handle) => {
                        Books::count(&books.accepted);
                        match action {
                            3 if handle.cancel() => Books::count(&books.cancelled),
                            4 => drop(handle.join()),
                            5 => drop(handle.join_timeout(Duration::from_micros(20))),
                            _ => drop(handle),
                        }
                    }
                    Err(_) => Books::count(&books.refused),
                }
            }
        }
        let inner = Arc::clone(books);
        Books::count(&books.accepted);
        let in_order = move || {
            Books::count(&inner.run);
            let before = std::mem::replace(&mut inner.ordered.lock().unwrap()[issuer], n);
            assert_eq!(before + 1, n, "issuer {issuer}: out of order");
        };
        drop(ordered.spawn(in_order).unwrap());
    }
}

/// Runs producers on an executor, and checks the books when all items have ended.
fn stress_on(executor: &Executor, producers: usize, items: usize) {
    let books = Arc::new(Books { ordered: Mutex::new(vec![0; producers]), ..Books::default() });
    let queues = all_queues(executor);
    let ordered = WorkQueue::ordered("ordered").build_on(executor).unwrap();
    let works: Vec<Work> = (0..5)
        .map(|n| {
            let inner = Arc::clone(&books);
            Work::new(move || behave(&inner, n))
        })
        .collect();
    std::thread::scope(|scope| {
        for issuer in 0..producers {
            let (queues, works, ordered, books) = (&queues, &works, &ordered, &books);
            scope.spawn(move || produce(issuer, items, queues, works, ordered, books));
        }
    });
    // The last handles of the reusable items are dropped, although the items may be pending.
    drop(works);
    eventually("the books balance", || books.balance());
    queues.iter().for_each(|queue| queue.flush().unwrap());
    ordered.flush().unwrap();
    assert!(books.balance());
    let counters: Counters = queues.iter().chain([&ordered]).map(WorkQueue::counters).sum();
    assert_eq!(counters.in_flight(), 0);
    assert_eq!(counters.started, books.run.load(Ordering::SeqCst) as u64);
    assert_eq!(counters.cancelled, books.cancelled.load(Ordering::SeqCst) as u64);
    assert_eq!(
        counters.panicked,
        books.panicked.load(Ordering::SeqCst) as u64,
        "only the counted items panicked"
    );
    assert_eq!(*books.ordered.lock().unwrap(), vec![items; producers]);
}

/// spec: W1, W2, W9, Q3, Q4.1, C1, C2, F1, O1.2
#[test]
fn mixed_work_on_all_queues_balances() {
    on_each_executor(|executor| stress_on(executor, 3, stress(600)));
}

/// spec: E2.6 (a failed thread creation): the first attempts to make a thread fail, or every fifth one, or two in the
/// middle.
#[test]
fn mixed_work_balances_while_threads_cannot_be_made() {
    let _limit = time_limit();
    let plans: [fn(usize) -> bool; 3] = [|n| n < 2, |n| n % 5 == 2, |n| n > 3 && n < 6];
    for (seed, fails) in plans.into_iter().enumerate() {
        let asked = AtomicUsize::new(0);
        let hook = move |name: &str| {
            let refuse = !name.ends_with("/manager") && fails(asked.fetch_add(1, Ordering::SeqCst));
            if refuse { Err(std::io::Error::other("no thread today")) } else { Ok(()) }
        };
        let (builder, prefix) = builder("core:2 pu:1");
        let builder = builder.before_spawn(hook);
        let executor =
            if seed == 0 { builder.build() } else { builder.random_placement(seed as u64).build() };
        let executor = executor.unwrap();
        stress_on(&executor, 2, stress(40).min(200));
        drop(executor);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E3.1, E5, Q1: queues are made and dropped in large numbers, with work in them.
#[test]
fn ten_thousand_queues_come_and_go_with_work_in_them() {
    let _limit = time_limit();
    // Detection is off. Otherwise, the pools could make more workers beside sleeping items.
    let executor = unseen(builder("l3:1 core:2 pu:1").0).random_placement(2).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = stress(10_000);
    let kinds = [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered];
    // One queue of each kind stays, so that the pools are not made anew for each queue.
    let _stay = kinds.map(|kind| kind("stays").build_on(&executor).unwrap()).map(|queue| {
        queue.spawn(|| ()).unwrap().join().unwrap();
        queue
    });
    for n in 0..count {
        let queue = kinds[n % 4]("brief").build_on(&executor).unwrap();
        for _ in 0..3 {
            let runs = Arc::clone(&runs);
            drop(queue.spawn(move || crate::support::bump(&runs)).unwrap());
        }
    }
    eventually("all ran", || runs.load(Ordering::Relaxed) == 3 * count);
    // Only pools with a target have this limit. Items of other pools start as soon as possible, each on its own thread.
    for pool in executor.dump().pools {
        assert!(pool.target.is_none_or(|target| pool.workers <= target + 2), "{pool}");
    }
}

/// spec: E5, W9: executors and queues are dropped while items are in flight. Some of these items drop the last handles.
#[test]
fn everything_may_be_dropped_in_flight() {
    let _limit = time_limit();
    let runs = Arc::new(AtomicUsize::new(0));
    let rounds = stress(25);
    let mut prefixes = Vec::new();
    for round in 0..rounds {
        let (builder, prefix) = builder("l3:2 core:2 pu:1");
        prefixes.push(prefix);
        let executor = builder.random_placement(round as u64).build().unwrap();
        let queues = all_queues(&executor);
        let mut random = Rng::with_seed(round as u64);
        for n in 0..40 {
            let queue = queues[random.usize(..6)].clone();
            let (runs, inside) =
                (Arc::clone(&runs), (random.u64(..2) == 0).then(|| (queue.clone(), executor.clone())));
            let work = Work::new(move || {
                let _handles = &inside;
                runs.fetch_add(1, Ordering::SeqCst);
                assert_ne!(n % 9, 4, "on purpose");
            });
            assert_eq!(queue.enqueue(&work), Ok(true));
        }
    }
    eventually("all ran", || runs.load(Ordering::SeqCst) == 40 * rounds);
    eventually("all threads ended", || prefixes.iter().all(|prefix| no_thread_of(prefix)));
}
