//! Undeclared blocking: the detector finds every way to block, and takes nothing else for blocking. The count of
//! running workers is right in the end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{Detection, Executor, WorkQueue, WorkQueueBuilder};
use testkit::{again, assert_passed, output, skip};

use crate::support::{
    Crowd, Door, SOON, a_blocked_item_lets_another_one_in, builder, bump, burn, eventually, falls_quiet,
    is_portable, nap, time_limit,
};

/// All modes that detect undeclared blocking.
const MODES: [Detection; 3] = [Detection::Sampling, Detection::Switches, Detection::Auto];

/// Returns the modes that detect undeclared blocking. If the system permits no records of context switches, leaves out
/// the mode that needs them, and reports this.
#[track_caller]
pub(crate) fn modes() -> impl Iterator<Item = Detection> {
    let executor = builder("core:1 pu:1").0.detection(Detection::Switches).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    // The manager finds out which mode works when it makes a worker.
    queue.spawn(|| ()).unwrap().join().unwrap();
    let dump = executor.dump();
    let records = dump.portable || dump.detection == Detection::Switches;
    if !records {
        skip("no-perf", "this system permits no records of context switches");
    }
    MODES.into_iter().filter(move |mode| records || *mode != Detection::Switches)
}

/// An item that blocks without a guard, and a closure that ends the block.
pub(crate) type Blocker = (Box<dyn FnOnce() + Send>, Box<dyn FnOnce() + Send>);

/// A way to block: its name, and a function that makes such a blocker.
pub(crate) type Way = (&'static str, fn() -> Blocker);

/// The ways in which items block.
pub(crate) const WAYS: [Way; 4] = [
    ("sleep", || {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let sleep = move || {
            while !over.load(Ordering::SeqCst) {
                nap(Duration::from_millis(20));
            }
        };
        (Box::new(sleep), Box::new(move || ends.store(true, Ordering::SeqCst)))
    }),
    ("mutex", || {
        let mutex = Arc::new(Mutex::new(()));
        let (locked, is_locked) = mpsc::channel();
        let (unlock, wait) = mpsc::channel();
        let theirs = Arc::clone(&mutex);
        let holder = std::thread::spawn(move || {
            let guard = theirs.lock().unwrap();
            locked.send(()).unwrap();
            wait.recv().unwrap();
            drop(guard);
        });
        is_locked.recv().unwrap();
        let ends = move || {
            unlock.send(()).unwrap();
            holder.join().unwrap();
        };
        (Box::new(move || drop(mutex.lock().unwrap())), Box::new(ends))
    }),
    ("read", || {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let read = move || ours.read_exact(&mut [0]).unwrap();
        (Box::new(read), Box::new(move || theirs.write_all(&[1]).unwrap()))
    }),
    ("channel", || {
        let (send, receive) = mpsc::channel();
        (Box::new(move || receive.recv().unwrap()), Box::new(move || send.send(()).unwrap()))
    }),
];

/// Makes an executor with one CPU and this detection mode. Returns `None` if this build cannot observe threads.
pub(crate) fn looking(mode: Detection) -> Option<Executor> {
    let executor = builder("core:1 pu:1").0.detection(mode).build().unwrap();
    sees(&executor).then_some(executor)
}

/// Returns whether this build can observe threads. If not, the test is reported as skipped.
#[track_caller]
pub(crate) fn sees(executor: &Executor) -> bool {
    !is_portable(executor)
}

/// The kinds of queues on which one item delays the next one of its CPU.
fn kinds() -> [WorkQueueBuilder; 4] {
    [
        WorkQueue::per_cpu("per CPU"),
        WorkQueue::builder("managed"),
        WorkQueue::per_cpu("urgent").high_priority(true),
        WorkQueue::builder("urgent, managed").high_priority(true),
    ]
}

/// Waits until no item runs and no worker counts as running.
#[track_caller]
pub(crate) fn comes_to_rest(executor: &Executor) {
    eventually("no worker counts as running, and all are idle", || {
        let mut pools = executor.dump().pools.into_iter();
        pools.all(|pool| {
            pool.running == 0 && pool.waking == 0 && pool.idle == pool.workers && pool.pending == 0
        })
    });
}

/// Asserts that the pool is at rest, and then that it runs one item at a time. Tries this several times, because an
/// item of the check itself may sleep, and then another item may run beside it.
#[track_caller]
pub(crate) fn check_count(executor: &Executor, queue: &WorkQueue) {
    comes_to_rest(executor);
    let one_at_a_time = |_| {
        let crowd = Arc::new(Crowd::default());
        let item = || {
            let crowd = Arc::clone(&crowd);
            move || {
                crowd.enter();
                burn(Duration::from_micros(20));
                // If the pool wrongly runs another worker, the yield gives that worker the CPU.
                std::thread::yield_now();
                crowd.leave();
            }
        };
        let items: Vec<_> = (0..12).map(|_| queue.spawn(item()).unwrap()).collect();
        items.into_iter().for_each(|item| item.join().unwrap());
        crowd.peak() == 1
    };
    assert!((0..5).any(one_at_a_time), "several run at a time: {}", executor.dump());
    comes_to_rest(executor);
    a_blocked_item_lets_another_one_in(queue);
}

/// spec: S1.1: when an item blocks without a guard, the CPU's next item starts. This holds for every way to block, and
/// for every kind of queue that counts running workers.
#[test]
fn an_item_that_blocks_undeclared_lets_the_next_one_start() {
    let _limit = time_limit();
    for mode in modes() {
        let Some(executor) = looking(mode) else { return };
        for kind in kinds() {
            let queue = kind.build_on(&executor).unwrap();
            for (way, start) in WAYS {
                let (block, end) = start();
                let first = queue.spawn(block).unwrap();
                let second = queue.spawn(|| ()).unwrap();
                let second = second.join_timeout(SOON);
                assert!(second.is_ok(), "{mode}, {way}: {}", executor.dump());
                end();
                first.join().unwrap();
            }
            check_count(&executor, &queue);
        }
    }
}

/// spec: S1.1: when as many items block as the pod has CPUs, as many further items start. The same holds when these
/// block, too.
#[test]
fn a_pod_full_of_blocked_items_goes_on() {
    let _limit = time_limit();
    for mode in modes() {
        let executor = builder("l3:1 core:4 pu:1").0.detection(mode).build().unwrap();
        if !sees(&executor) {
            return;
        }
        let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
        let door = Door::default();
        let blocked: Vec<_> = (0..12)
            .map(|_| {
                let door = door.clone();
                queue.spawn(move || door.wait_unguarded()).unwrap()
            })
            .collect();
        let opens = queue.spawn(move || door.open()).unwrap();
        assert!(opens.join_timeout(SOON).is_ok(), "{mode}: {}", executor.dump());
        blocked.into_iter().for_each(|item| item.join().unwrap());
        comes_to_rest(&executor);
    }
}

/// spec: S1.10: the manager finds a block even if the pool's items have computed for so long that it checks the pool
/// only rarely. The item blocks without a guard, in `may_block`, or after its worker was replaced.
#[test]
fn a_block_after_a_long_calm_is_found() {
    let _limit = time_limit();
    let ways: [fn(&Door); 3] = [
        Door::wait_unguarded,
        |door| cmwq::may_block(|| door.wait_unguarded()),
        |door| {
            cmwq::blocking(|| nap(Duration::from_millis(1)));
            door.wait_unguarded();
        },
    ];
    for mode in modes() {
        for way in ways {
            let executor = builder("core:1 pu:1").0.detection(mode).build().unwrap();
            if !sees(&executor) {
                return;
            }
            let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
            let door = Door::default();
            let theirs = door.clone();
            let blocked = queue.spawn(move || {
                burn(Duration::from_millis(60));
                way(&theirs);
            });
            let opens = queue.spawn(move || door.open()).unwrap();
            assert!(opens.join_timeout(SOON).is_ok(), "{mode}: {}", executor.dump());
            blocked.unwrap().join().unwrap();
            comes_to_rest(&executor);
        }
    }
}

/// spec: S1.2 (choice on the builder): the mode in force is the requested one, or the dump shows the reason.
#[test]
fn the_mode_that_is_in_force_is_shown() {
    let told = |asked| {
        let executor = builder("core:1 pu:1").0.detection(asked).build().unwrap();
        // The manager finds out which mode works when it makes a worker.
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        queue.spawn(|| ()).unwrap().join().unwrap();
        let snapshot = executor.dump();
        (snapshot.detection, snapshot.detection_fallback, snapshot.portable)
    };
    assert_eq!(told(Detection::Off).0, Detection::Off);
    assert_eq!(told(Detection::Off).1, None);
    for asked in MODES {
        let (mode, fallback, portable) = told(asked);
        match mode {
            Detection::Switches => {
                assert!(asked != Detection::Sampling && fallback.is_none(), "{asked}: {fallback:?}");
            }
            Detection::Sampling => {
                assert_eq!(fallback.is_none(), asked == Detection::Sampling, "{asked}: {fallback:?}");
            }
            Detection::Off => assert!(portable && fallback.is_some(), "{asked}"),
            other => panic!("{other} is in force"),
        }
    }
}

/// spec: S1.5 (an idle executor makes no wake-ups): after the executor has detected many blocks, all of its threads
/// sleep.
#[test]
fn after_a_burst_of_blocking_the_executor_is_quiet() {
    let _limit = time_limit();
    for mode in modes() {
        let (builder, prefix) = builder("l3:2 core:2 pu:1");
        let executor = builder.detection(mode).build().unwrap();
        let queues = kinds().map(|kind| kind.build_on(&executor).unwrap());
        let nap = || nap(Duration::from_millis(3));
        for queue in &queues {
            (0..20).for_each(|_| drop(queue.spawn(nap).unwrap()));
        }
        queues.iter().for_each(|queue| queue.flush().unwrap());
        comes_to_rest(&executor);
        falls_quiet(&prefix);
    }
}

/// Waits without a guard until the item that it queues has begun.
fn wait_for_the_next(queue: &WorkQueue) {
    let door = Door::default();
    let opens = door.clone();
    drop(queue.spawn(move || opens.open()).unwrap());
    door.wait_unguarded();
}

/// spec: S1.1, W9: the destructor of a result and the panic handler are parts of the item. The detector finds their
/// blocks as well.
#[test]
fn destructors_and_panic_handlers_that_block_are_found() {
    struct Sleepy(WorkQueue);
    impl Drop for Sleepy {
        fn drop(&mut self) {
            wait_for_the_next(&self.0);
        }
    }
    let _limit = time_limit();
    let queue = Arc::new(Mutex::new(None::<WorkQueue>));
    let handled = Arc::new(AtomicUsize::new(0));
    let (its_queue, count) = (Arc::clone(&queue), Arc::clone(&handled));
    let handler = move |_: &cmwq::PanicReport<'_>| {
        let queue = its_queue.lock().unwrap().clone();
        queue.iter().for_each(wait_for_the_next);
        bump(&count);
    };
    let executor = builder("core:1 pu:1").0.panic_handler(handler).build().unwrap();
    if !sees(&executor) {
        return;
    }
    let own = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    *queue.lock().unwrap() = Some(own.clone());
    for n in 1..=5 {
        let (sleepy, door) = (Sleepy(own.clone()), Door::default());
        let wait = door.clone();
        // The handle is dropped, so the worker drops the result.
        drop(own.spawn(move || {
            wait.wait();
            sleepy
        }));
        door.open();
        assert!(own.spawn(|| panic!("on purpose")).unwrap().join().is_err());
        own.flush().unwrap();
        assert_eq!(handled.load(Ordering::SeqCst), n);
        check_count(&executor, &own);
    }
    // The panic handler holds this queue, and would keep the executor alive.
    queue.lock().unwrap().take();
}

/// Returns how many descriptors this process has from which it reads records of context switches.
fn open_rings() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("perf_event")).count()
}

/// spec: S5.4 (the rings of a covered pool are closed): the manager opens rings when it watches the pool. It closes
/// them when workers sleep and come back again and again, although work is pending and it still watches the pool.
///
/// The test looks at all descriptors of its process, so it runs in a process of its own.
#[test]
fn the_rings_of_a_covered_pool_are_closed() {
    const CHILD: &str = "CMWQ_TEST_RINGS";
    let _limit = time_limit();
    if std::env::var_os(CHILD).is_none() {
        if !modes().any(|mode| mode == Detection::Switches) {
            return;
        }
        let test = "detection::the_rings_of_a_covered_pool_are_closed";
        return assert_passed(&output(again(test).env(CHILD, "1")).unwrap());
    }
    let executor = builder("core:2 pu:1").0.detection(Detection::Switches).build().unwrap();
    if !sees(&executor) {
        return;
    }
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    queue.spawn(|| ()).unwrap().join().unwrap();
    // The executor always keeps one such descriptor that is not the ring of a worker.
    let before = open_rings();
    let keep_pending = |item: fn()| {
        let short = 500_usize.saturating_sub(queue.len());
        (0..short).for_each(|_| queue.spawn_detached(item).unwrap());
    };
    eventually("computing workers have rings", || {
        keep_pending(|| burn(Duration::from_micros(500)));
        open_rings() > before
    });
    eventually("work is pending, and no worker has a ring", || {
        keep_pending(|| nap(Duration::from_millis(2)));
        open_rings() == before && queue.len() > 100
    });
    queue.flush().unwrap();
}

/// spec: C6.2 ((b) takes long with guards and detection off): the items sleep one after the other, because no other
/// item starts during a sleep.
#[test]
fn without_guards_and_detection_nothing_fills_a_sleep() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.detection(Detection::Off).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let crowd = Arc::new(Crowd::default());
    let begin = Instant::now();
    for _ in 0..3 {
        let crowd = Arc::clone(&crowd);
        let item = move || {
            crowd.enter();
            burn(Duration::from_millis(5));
            // This sleep is several times as long as detection would need.
            nap(Duration::from_millis(10));
            crowd.leave();
        };
        drop(queue.spawn(item).unwrap());
    }
    queue.flush().unwrap();
    assert_eq!(crowd.peak(), 1);
    assert!(begin.elapsed() >= Duration::from_millis(45));
}
