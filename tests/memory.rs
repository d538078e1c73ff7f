//! Measures how much memory stays allocated, and how many allocations operations make. The allocator of this process
//! counts both, so only one test runs at a time.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use cmwq::{Detection, Executor, JoinHandle, TopologySource, WaitError, Work, WorkQueue};
use testkit::stress;

/// The number of bytes that are allocated at present.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// The number of allocations by issuers and workers. The manager's allocations do not count, because they do not depend
/// on the number of items.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// The running test holds this lock.
static ALONE: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether the allocations of this thread count.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: the implementation passes each call unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        if COUNTS.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller has made the promise that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller has made the promise that the system's allocator requires.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of queues that come and go, which `CMWQ_STRESS` scales.
const QUEUES: usize = 20_000;
const THREADS: usize = 100;
/// Of each `STRIDE` queues, one has an item on each of its threads.
const STRIDE: usize = 20;
/// The largest number of bytes that may stay allocated, however many queues there were.
const MOST: usize = 5_000_000;

/// The number of items whose allocations are counted.
const ITEMS: usize = 10_000;
/// The allocations that lists of pending items may make. An entry passes through at most two lists, and 63 entries
/// share an allocated block. The rest is for workers that are made during the test.
const FOR_LISTS: usize = ITEMS / 25;
const SOON: Duration = Duration::from_secs(60);

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes an executor for unbound queues, with one pool, in which items start as soon as they are queued.
fn executor() -> Executor {
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    Executor::builder().topology(topology).build().unwrap()
}

/// Makes [`QUEUES`] queues, and drops them. One of each `STRIDE` queues runs items on `threads` threads at the same
/// time.
fn queues_come_and_go(executor: &Executor, threads: usize) {
    let queues: Vec<_> =
        (0..stress(QUEUES)).map(|_| WorkQueue::unbound("brief").build_on(executor).unwrap()).collect();
    // Each item waits until every thread has an item.
    let all = Arc::new(Barrier::new(threads));
    let works: Vec<_> = (0..threads)
        .map(|_| {
            let all = Arc::clone(&all);
            Work::new(move || {
                cmwq::blocking(|| all.wait());
            })
        })
        .collect();
    let brief = Work::new(|| ());
    for queue in &queues {
        queue.enqueue(&brief).unwrap();
        queue.flush().unwrap();
    }
    for queue in queues.iter().step_by(STRIDE) {
        assert!(works.iter().all(|work| queue.enqueue(work).unwrap()));
        queue.flush().unwrap();
        let counters = queue.counters();
        let expected = threads as u64 + 1;
        assert_eq!((counters.started, counters.completed), (expected, expected));
    }
}

/// spec: O1.11 (counters' memory): the counters of a queue give their memory back when the queue ends, although the
/// threads stay. Queues on one thread show how much other memory stays, and this is subtracted.
#[test]
fn counters_give_their_memory_back() {
    let _alone = alone();
    let executor = executor();
    // The pool and its threads stay as long as the pool has a user.
    let user = WorkQueue::unbound("user").build_on(&executor).unwrap();
    user.spawn(|| ()).unwrap().join().unwrap();
    queues_come_and_go(&executor, 1);
    let before = ALLOCATED.load(Ordering::Relaxed);
    queues_come_and_go(&executor, THREADS);
    let stays = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    let threads = executor.dump().threads;
    assert!(threads >= THREADS, "too few threads stay: {threads}");
    assert!(stays <= MOST, "{stays} bytes stay");
}

/// Makes a queue on one CPU. An item keeps this CPU until it ends or enters a guard.
fn queue() -> WorkQueue {
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    let builder = Executor::builder().topology(topology).detection(Detection::Off).hog_threshold(None);
    let executor = builder.on_thread_start(|| COUNTS.set(true)).build().unwrap();
    WorkQueue::per_cpu("q").build_on(&executor).unwrap()
}

/// Returns how often this thread and the workers allocate while `act` runs.
fn allocations_of(act: impl FnOnce()) -> usize {
    COUNTS.set(true);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    act();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// Queues an item that waits until it is told to end, and returns when it has begun.
fn held(queue: &WorkQueue, wait: fn(mpsc::Receiver<()>)) -> (JoinHandle<()>, mpsc::Sender<()>) {
    let ((begin, begun), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let item = queue.spawn(move || {
        begin.send(()).unwrap();
        wait(ends);
    });
    begun.recv_timeout(SOON).unwrap();
    (item.unwrap(), end)
}

fn spawn(queue: &WorkQueue, number: usize) -> JoinHandle<usize> {
    let captured = [number; 4];
    queue.spawn(move || captured.iter().sum()).unwrap()
}

/// Runs the item [`ITEMS`] times, one run after the other.
fn run_again_and_again(queue: &WorkQueue, work: &Work, runs: &AtomicUsize) {
    for _ in 0..ITEMS {
        let before = runs.load(Ordering::Acquire);
        assert_eq!(queue.enqueue(work), Ok(true));
        while runs.load(Ordering::Acquire) == before {
            std::thread::park_timeout(SOON);
        }
    }
}

/// spec: W1.7 (one allocation at most): a spawn takes at most one allocation, even if no worker returns cells while the
/// issuer submits.
#[test]
fn a_spawn_takes_one_allocation_at_most() {
    let _alone = alone();
    let queue = queue();
    let (item, end) = held(&queue, |ends| ends.recv_timeout(SOON).unwrap());
    let mut handles = Vec::with_capacity(ITEMS);
    let allocations = allocations_of(|| handles.extend((0..ITEMS).map(|number| spawn(&queue, number))));
    assert!(allocations <= ITEMS + FOR_LISTS, "{allocations} for {ITEMS} items");
    end.send(()).unwrap();
    item.join().unwrap();
    assert!(handles.into_iter().enumerate().all(|(number, item)| item.join().unwrap() == 4 * number));
}

/// spec: W1.7 (the closure of an item with options takes one allocation more)
#[test]
fn options_take_one_allocation_more() {
    let _alone = alone();
    let queue = queue();
    let (item, end) = held(&queue, |ends| ends.recv_timeout(SOON).unwrap());
    let mut handles = Vec::with_capacity(ITEMS);
    let spawn = |number: usize| queue.item(move || 4 * number).bytes(8).named("item").spawn().unwrap();
    let allocations = allocations_of(|| handles.extend((0..ITEMS).map(spawn)));
    assert!((ITEMS..=2 * ITEMS + FOR_LISTS).contains(&allocations), "{allocations} for {ITEMS} items");
    end.send(()).unwrap();
    item.join().unwrap();
    assert!(handles.into_iter().enumerate().all(|(number, item)| item.join().unwrap() == 4 * number));
}

/// spec: W1.7 (on average none): later items use the cells of earlier items again.
#[test]
fn items_in_turn_take_no_allocation_each() {
    let _alone = alone();
    let queue = queue();
    let in_turn =
        || (0..ITEMS).for_each(|number| assert_eq!(spawn(&queue, number).join().unwrap(), 4 * number));
    in_turn();
    let allocations = allocations_of(in_turn);
    assert!(allocations <= FOR_LISTS, "{allocations} for {ITEMS} items");
}

/// spec: W2.4 (no allocation for a submission, on average), F1: while a flush counts an earlier item, each submission
/// takes one more allocation.
#[test]
fn a_reusable_item_takes_no_allocation_when_it_is_queued_again() {
    let _alone = alone();
    let queue = queue();
    let (runs, issuer) = (Arc::new(AtomicUsize::new(0)), std::thread::current());
    let count = Arc::clone(&runs);
    let work = Work::new(move || {
        count.fetch_add(1, Ordering::Release);
        issuer.unpark();
    });
    run_again_and_again(&queue, &work, &runs);
    let allocations = allocations_of(|| run_again_and_again(&queue, &work, &runs));
    assert!(allocations <= FOR_LISTS, "{allocations} for {ITEMS} submissions");

    let (item, end) = held(&queue, |ends| cmwq::blocking(|| ends.recv_timeout(SOON).unwrap()));
    // The flush still counts its items, although no thread waits for it any more.
    assert_eq!(queue.flush_timeout(Duration::ZERO), Err(WaitError::TimedOut));
    let allocations = allocations_of(|| run_again_and_again(&queue, &work, &runs));
    assert!((ITEMS..=ITEMS + FOR_LISTS).contains(&allocations), "{allocations} for {ITEMS} submissions");
    end.send(()).unwrap();
    item.join().unwrap();
    queue.flush().unwrap();
    let allocations = allocations_of(|| run_again_and_again(&queue, &work, &runs));
    assert!(allocations <= FOR_LISTS, "{allocations} for {ITEMS} submissions after the flush");
}
