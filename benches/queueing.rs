//! The cost of queueing, guarding, waiting and finishing. The bench ends with a table of figures and their aims.
//!
//! ```text
//! cargo bench --bench queueing -- --quick
//! cargo bench --bench queueing -- --quick 'guard'
//! ```
//!
//! | group | one iteration |
//! |---|---|
//! | `queue a reusable item` | one `WorkQueue::enqueue` that returns true |
//! | `spawn a one-shot` | one `WorkQueue::spawn` of a closure that captures 32 bytes, its handle dropped |
//! | `guard` | entering and leaving a blocking guard |
//! | `lock` | locking and unlocking a free lock, of `blocking::sync` and of parking_lot, on a worker |
//! | `round trip` | `spawn` and `join` of a no-op |
//! | `end to end` | 100 000 no-ops that capture 32 bytes, from one producer, until all have run |
//! | `batches` | the same no-ops, queued one by one and by `WorkQueue::items` in batches of several sizes |
//! | `mixed load` | 4000 items of 0.5 ms CPU, of which every fourth also sleeps 5 ms under a guard |
//! | `attributes` | one `WorkQueue::apply_attrs` on a queue without work that was used from every CPU |
//! | `dependency` | from the submission of an item until all have ended, if as many items as CPUs wait for that item |
//!
//! In the first two groups, the pool is *busy*: an item holds its only worker, so that no other item runs. After each
//! batch the worker is released and all items run, outside of the measured time. The issuer shares the pool's CPU, as
//! an issuer of a per-CPU queue does. *Below* `max_active`, items go to the worklist. *Above* it, they go to the
//! waiting list of their queue.
#![allow(missing_docs, reason = "a bench has no documentation but its header")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod figures;

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use cmwq::blocking::sync;
use cmwq::{Attrs, BlockingGuard, CpuSet, Executor, JoinHandle, Work, WorkQueue, WorkQueueBuilder, blocking};
use criterion::{Criterion, Throughput};
use testkit::{burn, pin};

use figures::{Aim, Figures};

/// The number of items of a batch that is queued while the pool is busy. Two queues admit all of them.
const BATCH: usize = 1024;
const MAX_ACTIVE: usize = 512;
/// The number of no-ops of an end-to-end run.
const NO_OPS: u64 = 100_000;
/// The number of items of the mixed load.
const MIXED: u32 = 4000;
/// The CPU time of each item of the mixed load.
const BURN: Duration = Duration::from_micros(500);

fn main() {
    let mut criterion = figures::criterion();
    let figures = Figures::default();
    reusable(&mut criterion, &figures);
    one_shots(&mut criterion, &figures);
    guards(&mut criterion, &figures);
    locks(&mut criterion, &figures);
    round_trips(&mut criterion, &figures);
    end_to_end(&mut criterion, &figures);
    batches(&mut criterion, &figures);
    mixed_load(&mut criterion, &figures);
    attributes(&mut criterion, &figures);
    dependency(&mut criterion, &figures);
    criterion.final_summary();
    figures.print();
}

// Queueing onto a busy pool.

/// The queues that share a pool of one CPU, which an item keeps busy without using the CPU.
struct BusyPool {
    /// One queue for items above `max_active`, or as many queues as a batch below `max_active` needs.
    queues: Vec<WorkQueue>,
    gatekeeper: WorkQueue,
}

/// The item that holds the pool's worker.
struct Gate {
    release: Sender<()>,
    item: JoinHandle<()>,
}

impl BusyPool {
    /// `max_active` is the number of items that each queue admits before further items have to wait.
    fn new(kind: fn(&'static str) -> WorkQueueBuilder, max_active: usize) -> Self {
        let executor = Executor::builder().cpus(CpuSet::single(first_cpu())).build();
        let executor = executor.expect("an executor of one CPU can be made");
        let queue =
            |name| kind(name).max_active(max_active).build_on(&executor).expect("a queue can be made");
        let (queues, gatekeeper) = if max_active == 1 {
            // The gate holds the only slot of the queue, so all items of a batch go to the waiting list.
            let queue = queue("full");
            (vec![queue.clone()], queue)
        } else {
            (vec![queue("even"), queue("odd")], queue("gate"))
        };
        Self { queues, gatekeeper }
    }

    /// Spawns the gate, and returns when it holds the worker.
    fn close(&self) -> Gate {
        let (release, released) = channel();
        let (begin, begun) = channel();
        let item = self.gatekeeper.spawn(move || {
            begin.send(()).expect("the bench waits for it");
            // The item blocks without a guard, so the pool counts it as running.
            wait_for(&released);
        });
        wait_for(&begun);
        Gate { release, item: item.expect("the queue has no limit") }
    }

    /// Releases the gate, and runs the queued items.
    fn open(&self, gate: Gate) {
        gate.release.send(()).expect("the gate waits for it");
        gate.item.join().expect("the gate does not panic");
        self.queues.iter().for_each(|queue| queue.flush().expect("the bench is no item"));
    }

    /// Returns the time of `iterations` calls of `enqueue`, in batches. Each call gets its number within the batch.
    fn time(&self, iterations: u64, mut enqueue: impl FnMut(&WorkQueue, usize)) -> Duration {
        let mut spent = Duration::ZERO;
        let mut left = iterations as usize;
        while left > 0 {
            let batch = left.min(BATCH);
            let gate = self.close();
            let begin = Instant::now();
            for item in 0..batch {
                enqueue(&self.queues[item % self.queues.len()], item);
            }
            spent += begin.elapsed();
            self.open(gate);
            left -= batch;
        }
        spent
    }
}

type Case = (&'static str, fn(&'static str) -> WorkQueueBuilder, usize);

const CASES: [Case; 3] = [
    ("below max_active, per-CPU queue", |name| WorkQueue::per_cpu(name), MAX_ACTIVE),
    ("below max_active, default queue", |name| WorkQueue::builder(name), MAX_ACTIVE),
    ("above max_active, per-CPU queue", |name| WorkQueue::per_cpu(name), 1),
];

fn reusable(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("queue a reusable item");
    for (name, kind, max_active) in CASES {
        let pool = BusyPool::new(kind, max_active);
        let items: Vec<Work> = (0..BATCH).map(|_| Work::new(|| ())).collect();
        let figure = figures
            .add(format!("queue a reusable item, {name}"), (max_active > 1).then_some(Aim::AtMost(40e-9)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut all_new = true;
                let spent = on_cpu(first_cpu(), || {
                    pool.time(iterations, |queue, item| {
                        all_new &= queue.enqueue(&items[item]).expect("the queue has no limit");
                    })
                });
                assert!(all_new, "an item was pending already");
                figures.time(figure, spent, iterations)
            });
        });
    }
    group.finish();
}

fn one_shots(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("spawn a one-shot");
    for (name, kind, max_active) in CASES {
        let pool = BusyPool::new(kind, max_active);
        let figure =
            figures.add(format!("spawn a one-shot, {name}"), (max_active > 1).then_some(Aim::AtMost(90e-9)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let spent = on_cpu(first_cpu(), || {
                    pool.time(iterations, |queue, item| {
                        drop(queue.spawn(no_op(item as u64)).expect(UNLIMITED));
                    })
                });
                figures.time(figure, spent, iterations)
            });
        });
    }
    group.finish();
}

/// An item that captures 32 bytes and does nothing.
fn no_op(seed: u64) -> impl FnOnce() + Send + 'static {
    let captured = [seed, seed + 1, seed + 2, seed + 3];
    move || {
        black_box(captured);
    }
}

// Guards.

fn guards(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("guard");
    let enter_and_leave = |iterations: u64| {
        let begin = Instant::now();
        for _ in 0..iterations {
            drop(black_box(BlockingGuard::enter()));
        }
        begin.elapsed()
    };
    for (name, kind) in [
        ("on a worker of a per-CPU queue", (|name| WorkQueue::per_cpu(name)) as fn(_) -> _),
        ("on a worker of the default queue", |name| WorkQueue::builder(name)),
    ] {
        let queue = build(kind("guards"));
        let figure = figures.add(format!("guard {name}, nothing pending"), Some(Aim::AtMost(15e-9)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let item = queue.spawn(move || enter_and_leave(iterations)).expect(UNLIMITED);
                figures.time(figure, item.join().expect(NO_PANIC), iterations)
            });
        });
    }
    group.bench_function("on a thread that is no worker", |bencher| bencher.iter_custom(enter_and_leave));
    group.finish();
}

// Locks.

fn locks(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("lock");
    type Case = (&'static str, fn(u64) -> Duration);
    let cases: [Case; 4] = [
        ("mutex, parking_lot's", {
            static LOCK: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
            |iterations| repeated(iterations, || *LOCK.lock() += 1)
        }),
        ("mutex", {
            static LOCK: sync::Mutex<u64> = sync::Mutex::new(0);
            |iterations| repeated(iterations, || *LOCK.lock() += 1)
        }),
        ("read and write lock, parking_lot's", {
            static LOCK: parking_lot::RwLock<u64> = parking_lot::RwLock::new(0);
            |iterations| {
                repeated(iterations, || {
                    let value = *LOCK.read();
                    *LOCK.write() += value;
                })
            }
        }),
        ("read and write lock", {
            static LOCK: sync::RwLock<u64> = sync::RwLock::new(0);
            |iterations| {
                repeated(iterations, || {
                    let value = *LOCK.read();
                    *LOCK.write() += value;
                })
            }
        }),
    ];
    let queue = build(WorkQueue::builder("locks"));
    for (name, lock_and_unlock) in cases {
        let figure = figures.add(format!("lock and unlock, free: {name}"), None);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let item = queue.spawn(move || lock_and_unlock(iterations)).expect(UNLIMITED);
                figures.time(figure, item.join().expect(NO_PANIC), iterations)
            });
        });
    }
    group.finish();
}

/// Returns the time of this many calls of `step`.
fn repeated(iterations: u64, step: impl Fn()) -> Duration {
    let begin = Instant::now();
    (0..iterations).for_each(|_| step());
    begin.elapsed()
}

// Round trips.

fn round_trips(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("round trip");
    let queue = build(WorkQueue::builder("round trips"));
    let round_trip = |pause: Duration, iterations: u64| {
        let mut spent = Duration::ZERO;
        for _ in 0..iterations {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let begin = Instant::now();
            queue.spawn(|| ()).expect(UNLIMITED).join().expect(NO_PANIC);
            spent += begin.elapsed();
        }
        spent
    };
    let figure = figures.add("spawn and join a no-op, idle pool", None);
    group.bench_function("from an idle pool", |bencher| {
        // The pause lets the worker fall asleep.
        bencher.iter_custom(|n| figures.time(figure, round_trip(Duration::from_micros(200), n), n));
    });
    group.bench_function("one after the other", |bencher| {
        bencher.iter_custom(|n| round_trip(Duration::ZERO, n));
    });
    group.finish();
}

// Throughput.

fn end_to_end(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("end to end");
    group.throughput(Throughput::Elements(NO_OPS)).sample_size(20);
    for (name, queue, aim) in [
        ("default queue", WorkQueue::builder("default"), Some(Aim::AtLeast(4e6))),
        ("per-CPU queue", WorkQueue::per_cpu("per-CPU"), None),
        ("unbound queue", WorkQueue::unbound("unbound"), None),
        ("ordered queue", WorkQueue::ordered("ordered"), Some(Aim::AtLeast(1.5e6))),
    ] {
        let queue = build(queue);
        let figure = figures.add(format!("no-ops end to end, {name}"), Some(aim.unwrap_or(Aim::Rate)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let begin = Instant::now();
                for _ in 0..iterations {
                    for item in 0..NO_OPS {
                        drop(queue.spawn(no_op(item)).expect(UNLIMITED));
                    }
                    queue.flush().expect("the bench is no item");
                }
                figures.time(figure, begin.elapsed(), iterations * NO_OPS)
            });
        });
    }
    group.finish();
}

fn batches(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("batches");
    group.throughput(Throughput::Elements(NO_OPS)).sample_size(20);
    let queue = build(WorkQueue::builder("batches"));
    for size in [1, 10, 100, 1000] {
        let name = if size == 1 { "one by one".to_owned() } else { format!("batches of {size}") };
        let figure = figures.add(format!("no-ops end to end, default queue, {name}"), Some(Aim::Rate));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let begin = Instant::now();
                for _ in 0..iterations {
                    for first in (0..NO_OPS).step_by(size) {
                        if size == 1 {
                            drop(queue.spawn(no_op(first)).expect(UNLIMITED));
                        } else {
                            let batch = (first..first + size as u64).map(no_op);
                            drop(queue.items(batch).spawn().expect(UNLIMITED));
                        }
                    }
                    queue.flush().expect("the bench is no item");
                }
                figures.time(figure, begin.elapsed(), iterations * NO_OPS)
            });
        });
    }
    group.finish();
}

fn attributes(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("attributes");
    // In the first case the queue changes between existing pools, in the second case to pools that are made.
    for (name, other_user) in [("between pools in use", true), ("pools come and go", false)] {
        let levels = [1, 2].map(|nice| Attrs::new().nice(nice));
        let queue = build(WorkQueue::builder("changing"));
        let others = levels.clone().map(|attrs| build(WorkQueue::builder("staying").attrs(attrs)));
        let users = others.iter().filter(|_| other_user).chain([&queue]);
        for (user, cpu) in users.flat_map(|user| Executor::global().cpus().iter().map(move |cpu| (user, cpu)))
        {
            user.item(|| ()).on_cpu(cpu).spawn().expect(UNLIMITED).join().expect(NO_PANIC);
        }
        let figure = figures.add(format!("apply_attrs without work, {name}"), Some(Aim::AtMost(200e-6)));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let begin = Instant::now();
                for attrs in levels.iter().cycle().take(iterations as usize) {
                    queue.apply_attrs(attrs.clone()).expect("good attributes");
                }
                figures.time(figure, begin.elapsed(), iterations)
            });
        });
    }
    group.finish();
}

fn mixed_load(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("mixed load");
    group.sample_size(10);
    // This bench has an executor of its own, so that all its threads are counted.
    let threads = Arc::new(Threads::default());
    let (starting, stopping) = (Arc::clone(&threads), Arc::clone(&threads));
    let executor = Executor::builder()
        .on_thread_start(move || starting.started())
        .on_thread_stop(move || stopping.stopped())
        .build()
        .expect("an executor can be made");
    let cpus = executor.cpus().len();
    let queue = WorkQueue::builder("mixed").build_on(&executor).expect("a queue can be made");
    let ideal = BURN * MIXED / cpus as u32;
    let figure = figures.add(
        format!("mixed load on {cpus} CPUs, ideal {:.2} s", ideal.as_secs_f64()),
        Some(Aim::AtMost(1.10 * ideal.as_secs_f64())),
    );
    let peak = figures.add("mixed load, peak worker threads", Some(Aim::Count(15)));
    group.bench_function("makespan", |bencher| {
        bencher.iter_custom(|iterations| {
            let begin = Instant::now();
            for _ in 0..iterations {
                for item in 0..MIXED {
                    let burn_and_sleep = move || {
                        burn(BURN);
                        if item % 4 == 0 {
                            blocking(|| std::thread::sleep(Duration::from_millis(5)));
                        }
                    };
                    drop(queue.spawn(burn_and_sleep).expect(UNLIMITED));
                }
                queue.flush().expect("the bench is no item");
            }
            let spent = begin.elapsed();
            figures.set(peak, threads.peak.load(Relaxed) as f64);
            figures.time(figure, spent, iterations)
        });
    });
    group.finish();
}

#[derive(Default)]
struct Threads {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Threads {
    fn started(&self) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(now, Relaxed);
    }

    fn stopped(&self) {
        self.now.fetch_sub(1, Relaxed);
    }
}

// Items that wait for another item.

fn dependency(criterion: &mut Criterion, figures: &Figures) {
    let mut group = criterion.benchmark_group("dependency");
    group.sample_size(20);
    let queue = build(WorkQueue::builder("dependency"));
    let waiters = Executor::global().cpus().len();
    let figure = figures.add(format!("{waiters} items wait for a later one"), Some(Aim::AtMost(1e-3)));
    group.bench_function("as many items as CPUs wait for a later one", |bencher| {
        bencher.iter_custom(|iterations| {
            let spent = (0..iterations).map(|_| resolve(&queue, waiters)).sum();
            figures.time(figure, spent, iterations)
        });
    });
    group.finish();
}

/// Returns the time from the submission of the later item until all items have ended.
fn resolve(queue: &WorkQueue, waiters: usize) -> Duration {
    let event = Arc::new((Mutex::new(false), Condvar::new()));
    let (arrive, arrived) = channel();
    let waiting: Vec<_> = (0..waiters)
        .map(|_| {
            let (event, arrive) = (Arc::clone(&event), arrive.clone());
            let wait = move || {
                arrive.send(()).expect("the bench waits for it");
                let happened = event.0.lock().expect(NO_PANIC);
                let happened = blocking(|| event.1.wait_while(happened, |happened| !*happened));
                drop(happened.expect(NO_PANIC));
            };
            queue.spawn(wait).expect(UNLIMITED)
        })
        .collect();
    waiting.iter().for_each(|_| wait_for(&arrived));
    // The pause lets the last item fall asleep.
    std::thread::sleep(Duration::from_millis(1));

    let begin = Instant::now();
    let later = queue.spawn(move || {
        *event.0.lock().expect(NO_PANIC) = true;
        event.1.notify_all();
    });
    later.expect(UNLIMITED).join().expect(NO_PANIC);
    waiting.into_iter().for_each(|item| item.join().expect(NO_PANIC));
    begin.elapsed()
}

// Helpers.

const UNLIMITED: &str = "the queue has no limit";
const NO_PANIC: &str = "no item of this bench panics";

fn build(queue: WorkQueueBuilder) -> WorkQueue {
    queue.build().expect("a queue can be made")
}

fn wait_for(signal: &Receiver<()>) {
    signal.recv().expect("the other side sends before it goes");
}

fn first_cpu() -> usize {
    Executor::global().cpus().first().expect("an executor has a CPU")
}

/// Runs `measure` on this CPU, if the system permits it. A new thread runs it, because the executor follows the CPUs of
/// the main thread.
fn on_cpu<R: Send>(cpu: usize, measure: impl FnOnce() -> R + Send) -> R {
    let there = || {
        if let Err(error) = pin(cpu) {
            eprintln!("the issuer is not pinned to CPU {cpu}: {error}");
        }
        measure()
    };
    std::thread::scope(|scope| scope.spawn(there).join().expect("a measurement does not panic"))
}
