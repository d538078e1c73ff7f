//! How much memory stays allocated, counted by the allocator of this process. So each test here runs alone.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use cmwq::{Executor, TopologySource, Work, WorkQueue};

/// Bytes that are allocated at the moment.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: each call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const QUEUES: usize = 20_000;
const THREADS: usize = 100;
/// Of so many queues, one has an item on each thread.
const STRIDE: usize = 20;
/// What may stay. In bytes.
const MOST: usize = 5_000_000;

/// An executor of one pool, in which items start as soon as they are queued.
fn executor() -> Executor {
    let topology = TopologySource::Synthetic("core:1 pu:1".into());
    Executor::builder().topology(topology).build().unwrap()
}

/// Makes all queues, has some of them meet so many threads each, and drops them.
fn queues_come_and_go(executor: &Executor, threads: usize) {
    let queues: Vec<_> =
        (0..QUEUES).map(|_| WorkQueue::unbound("brief").build_on(executor).unwrap()).collect();
    // An item ends when all threads have one.
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
        queue.queue(&brief).unwrap();
        queue.flush().unwrap();
    }
    for queue in queues.iter().step_by(STRIDE) {
        assert!(works.iter().all(|work| queue.queue(work).unwrap()));
        queue.flush().unwrap();
        let counters = queue.counters();
        let expected = threads as u64 + 1;
        assert_eq!((counters.started, counters.completed), (expected, expected));
    }
}

/// spec: O1.11 (counters' memory): what counters took is given back, though the threads stay. What one thread and as many
/// queues leave is no memory of counters, and is left out.
#[test]
fn counters_give_their_memory_back() {
    let executor = executor();
    // The pool, and its threads, stay as long as it has a user.
    let user = WorkQueue::unbound("user").build_on(&executor).unwrap();
    user.spawn(|| ()).unwrap().join().unwrap();
    queues_come_and_go(&executor, 1);
    let before = ALLOCATED.load(Ordering::Relaxed);
    queues_come_and_go(&executor, THREADS);
    let stays = ALLOCATED.load(Ordering::Relaxed).saturating_sub(before);
    let threads = executor.dump().threads;
    assert!(threads >= THREADS, "the threads stay, not {threads}");
    assert!(stays <= MOST, "{stays} bytes stay");
}
