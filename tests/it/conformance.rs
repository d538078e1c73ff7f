//! Behaviour that users of the kernel's workqueues rely on, tested from outside as the kernel's own suites do.
//! Behaviour that another module tests is not tested again here. The last table of `tests/contract.md` names these
//! tests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::kernel::{self, ExecutorBuilderExt, WorkQueueBuilderExt};
use cmwq::{BuildQueueError, Executor, WaitError, Work, WorkQueue, WorkQueueBuilder};
use fastrand::Rng;

use crate::support::{
    Door, begun_on, builder, bump, counting, cpus, current_pool, eventually, one_cpu, one_cpu_unseen, stress,
    time_limit,
};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 5] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered, kernel::bh];

type Setter = fn(WorkQueueBuilder, bool) -> WorkQueueBuilder;

/// The flags of a queue, each with its name and its setter.
const FLAGS: [(&str, Setter); 5] = [
    ("high_priority", WorkQueueBuilder::high_priority),
    ("cpu_intensive", WorkQueueBuilder::cpu_intensive),
    ("power_efficient", WorkQueueBuilder::power_efficient),
    ("freezable", WorkQueueBuilder::freezable),
    ("rescuer", WorkQueueBuilder::rescuer),
];

/// Uses a queue from end to end: items of every sort run, and the queue is flushed, drained and destroyed.
fn assert_works(queue: &WorkQueue) {
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    assert_eq!(queue.spawn(|| 6 * 7).unwrap().join().unwrap(), 42);
    assert_eq!(queue.enqueue(&work), Ok(true));
    queue.flush().unwrap();
    assert_eq!(queue.item(&work).after(Duration::from_secs(3600)).enqueue(), Ok(true));
    assert_eq!(work.flush(), Ok(true));
    queue.drain().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!((queue.destroy(), queue.len()), (Ok(0), 0));
}

/// spec: Q2.3 (all flags): for every combination of kind and flags, the queue works, or building it is an error. Two
/// lines of the test say which combinations are errors.
#[test]
fn every_combination_of_kind_and_flags_works_or_is_an_error() {
    let _limit = time_limit();
    for power_efficient in [false, true] {
        let executor = builder("l3:1 core:2 pu:1").0.power_efficient(power_efficient).build().unwrap();
        for (kind, new) in KINDS.into_iter().enumerate() {
            for chosen in 0..1 << FLAGS.len() {
                let flags =
                    || FLAGS.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1).map(|(_, flag)| flag);
                let has = |name: &str| flags().any(|(flag, _)| *flag == name);
                let (per_cpu, bh) = (kind == 1, kind == 4);
                let contradiction = (has("cpu_intensive") || has("power_efficient")) && !per_cpu
                    || (has("rescuer") || has("freezable")) && bh;
                let queue =
                    flags().fold(new("q"), |builder, (_, set)| set(builder, true)).build_on(&executor);
                let names: Vec<_> = flags().map(|(name, _)| name).collect();
                match queue {
                    Ok(queue) if !contradiction => assert_works(&queue),
                    Err(BuildQueueError::Contradiction { this, .. }) if contradiction => {
                        assert!(has(this), "{this} was not set: {names:?}");
                    }
                    other => panic!("kind {kind} with {names:?}: {other:?}"),
                }
            }
        }
    }
}

/// spec: F4.1 (chained queueing until empty), W2: an item that was queued twice before it began runs once. The item
/// queues itself for several more runs, and then another item. A drain waits for all of these runs.
#[test]
fn an_item_queued_twice_runs_once_and_its_chain_is_drained() {
    let _limit = time_limit();
    let executor = one_cpu();
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
        let queue = kind("q").max_pending(1000).build_on(&executor).unwrap();
        let _unless_ordered = queue.set_max_active(1);
        let (links, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (again, end, count) = (queue.clone(), counting(&ends), Arc::clone(&links));
        let chain = Work::with_handle(move |this| {
            let link = count.fetch_add(1, Ordering::SeqCst) + 1;
            assert_eq!(again.enqueue(if link < 20 { this } else { &end }), Ok(true), "chained queueing");
        });
        let (_, door, _) = begun_on(&queue);
        assert_eq!([queue.enqueue(&chain), queue.enqueue(&chain)], [Ok(true), Ok(false)]);
        door.open();
        queue.drain().unwrap();
        assert_eq!((links.load(Ordering::SeqCst), ends.load(Ordering::SeqCst)), (20, 1));
        assert!(queue.is_empty() && !chain.is_pending() && !chain.is_running());
    }
}

/// spec: C1.2 (when the last running worker blocks, another starts): an item that blocks does not delay the items that
/// were queued after it as a batch, even on one CPU.
#[test]
fn a_blocked_item_does_not_stall_the_batch_behind_it() {
    let _limit = time_limit();
    let executor = one_cpu();
    for kind in [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound] {
        let queue = kind("q").build_on(&executor).unwrap();
        let (blocked, door, _) = begun_on(&queue);
        let runs = Arc::new(AtomicUsize::new(0));
        let item = || {
            let runs = Arc::clone(&runs);
            move || bump(&runs)
        };
        for handle in queue.items((0..100).map(|_| item())).spawn().unwrap() {
            handle.join().unwrap();
        }
        assert!(blocked.is_running() && runs.load(Ordering::SeqCst) == 100);
        door.open();
        queue.flush().unwrap();
    }
}

/// spec: Q2.1 (high_priority): high-priority items have pools of their own. So no high-priority item waits for a
/// backlog of normal items, even if the backlog makes no progress.
#[test]
fn a_high_priority_item_runs_ahead_of_a_backlog() {
    let _limit = time_limit();
    let executor = one_cpu_unseen();
    for kind in [WorkQueue::builder, WorkQueue::per_cpu] {
        let (normal, high) = (kind("normal"), kind("urgent").high_priority(true));
        let (normal, high) = (normal.build_on(&executor).unwrap(), high.build_on(&executor).unwrap());
        let (door, begun) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let item = || {
            let (door, begun) = (door.clone(), Arc::clone(&begun));
            move || {
                bump(&begun);
                door.wait_unguarded();
            }
        };
        let backlog = normal.items((0..100).map(|_| item())).spawn().unwrap();
        eventually("the CPU is taken", || begun.load(Ordering::SeqCst) == 1);
        assert_eq!(high.spawn(|| "ahead").unwrap().join().unwrap(), "ahead");
        assert_eq!(begun.load(Ordering::SeqCst), 1, "the backlog has not moved");
        door.open();
        backlog.into_iter().for_each(|item| item.join().unwrap());
    }
}

/// spec: F6.3 (all waits have a timeout): a wait may time out just when the awaited event occurs. If the wait reports
/// the event, the event has occurred. Otherwise, the caller can wait again.
#[test]
fn timeouts_race_with_the_end() {
    let _limit = time_limit();
    let executor = cpus(2);
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let mut random = Rng::with_seed(22);
    let (ended, work_ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for round in 0..stress(300) {
        let mut shortly = || Duration::from_micros(random.u64(..300));
        let (nap, timeout) = (shortly(), shortly());
        let ends = Arc::clone(&ended);
        let handle = queue
            .spawn(move || {
                cmwq::blocking::thread::sleep(nap);
                bump(&ends);
                round
            })
            .unwrap();
        match queue.flush_timeout(timeout) {
            Ok(()) => assert_eq!(ended.load(Ordering::SeqCst), round + 1),
            Err(error) => assert_eq!(error, WaitError::TimedOut),
        }
        let result = handle.join_timeout(timeout).unwrap_or_else(|handle| handle.join());
        assert_eq!(result.unwrap(), round);

        let ends = Arc::clone(&work_ended);
        let work = Work::new(move || {
            cmwq::blocking::thread::sleep(nap);
            bump(&ends);
        });
        queue.enqueue(&work).unwrap();
        match work.flush_timeout(timeout) {
            // The flush returns false if the item had ended before the call.
            Ok(_waited) => assert_eq!(work_ended.swap(0, Ordering::SeqCst), 1),
            Err(error) => assert_eq!(error, WaitError::TimedOut),
        }
        match work.cancel_and_wait_timeout(timeout) {
            Ok(_) => assert!(!work.is_pending() && !work.is_running()),
            Err(error) => assert_eq!(error, WaitError::TimedOut),
        }
        // The item can be used again, whether the wait has timed out or not.
        assert!(!work.is_disabled() && work.cancel_and_wait().is_ok());
        match queue.drain_timeout(timeout) {
            Ok(()) => assert!(queue.is_empty()),
            Err(error) => assert_eq!(error, WaitError::TimedOut),
        }
        work_ended.store(0, Ordering::SeqCst);
    }
}

/// Items that queue themselves again, one for each CPU. Each item stops doing so after every third run. The herd counts
/// the runs, and records each run on a wrong CPU.
struct Herd {
    queue: WorkQueue,
    items: Vec<Work>,
    runs: Vec<AtomicUsize>,
    astray: Mutex<Vec<String>>,
}

impl Herd {
    fn new(executor: &Executor) -> Arc<Self> {
        Arc::new_cyclic(|herd: &std::sync::Weak<Self>| {
            let item = |cpu: usize| {
                let herd = herd.clone();
                Work::with_handle(move |this| {
                    let Some(herd) = herd.upgrade() else { return };
                    if current_pool() != cpu.to_string() {
                        herd.astray.lock().unwrap().push(current_pool());
                    }
                    let runs = herd.runs[cpu].fetch_add(1, Ordering::SeqCst);
                    // On every third run the item does not queue itself again.
                    if runs % 3 != 2 {
                        let _unless_it_is_over =
                            herd.queue.item(this).after(Duration::from_micros(500)).enqueue();
                    }
                })
            };
            Self {
                queue: WorkQueue::per_cpu("herd").build_on(executor).unwrap(),
                items: executor.cpus().iter().map(item).collect(),
                runs: executor.cpus().iter().map(|_| AtomicUsize::new(0)).collect(),
                astray: Mutex::default(),
            }
        })
    }
}

/// spec: W5.6, W6 (on a CPU that was named): items that arm their own timers stay on their CPU. Another delayed item,
/// the shepherd, restarts the stopped items, each on its own CPU.
#[test]
fn items_that_arm_themselves_on_every_cpu_are_kept_going_by_a_shepherd() {
    let _limit = time_limit();
    // The CPUs are made up. A worker belongs to one of them, and its items queue to this CPU, regardless of the real
    // CPU.
    let executor = builder("l3:1 core:4 pu:1").0.build().unwrap();
    let herd = Herd::new(&executor);
    let shepherds = WorkQueue::unbound("shepherds").build_on(&executor).unwrap();
    let (sheep, home) = (Arc::clone(&herd), shepherds.clone());
    let shepherd = Work::with_handle(move |this| {
        for (cpu, item) in sheep.items.iter().enumerate().filter(|(_, item)| !item.is_pending()) {
            let _unless_it_is_over =
                sheep.queue.item(item).on_cpu(cpu).after(Duration::from_micros(100)).enqueue();
        }
        let _unless_it_is_over = home.item(this).after(Duration::from_millis(1)).enqueue();
    });
    assert_eq!(shepherds.enqueue(&shepherd), Ok(true));
    let went_on = || herd.runs.iter().all(|runs| runs.load(Ordering::SeqCst) >= 20);
    eventually("each item went on, and was restarted", went_on);

    // A teardown first stops the item that queues other items, and then those items.
    shepherd.disable_and_wait().unwrap();
    for item in &herd.items {
        item.cancel_and_wait().unwrap();
        assert!(!item.is_pending() && !item.is_running());
    }
    assert_eq!(herd.queue.destroy(), Ok(0));
    assert_eq!(*herd.astray.lock().unwrap(), Vec::<String>::new());
}
