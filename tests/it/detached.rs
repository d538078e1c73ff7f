//! One-shots without a handle: they run, their captures and results are dropped, and only the panic handler learns of a
//! panic.

use std::panic::panic_any;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cmwq::kernel;
use cmwq::{Executor, QueueError, WorkQueue, WorkQueueBuilder};

use crate::support::{
    Bomb, Counted, Door, SOON, builder, bump, current_pool, eventually, held, on_each_executor, one_cpu,
    one_cpu_unseen, stress, time_limit,
};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 5] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered, kernel::bh];

/// spec: W1.5 (dropping the handle detaches), F1: items on every kind of queue run, and each of them queues another
/// item.
#[test]
fn items_without_a_handle_run_on_every_kind_of_queue() {
    on_each_executor(|executor| {
        for kind in KINDS {
            let queue = kind("q").build_on(executor).unwrap();
            let runs = Arc::new(AtomicUsize::new(0));
            for _ in 0..stress(200) {
                let (behind, first, second) = (queue.clone(), Arc::clone(&runs), Arc::clone(&runs));
                let item = move || {
                    bump(&first);
                    behind.spawn_detached(move || bump(&second)).unwrap();
                };
                queue.spawn_detached(item).unwrap();
            }
            queue.drain().unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), 2 * stress(200));
            assert!(queue.is_empty());
            assert_eq!(queue.counters().completed, 2 * stress(200) as u64);
        }
    });
}

/// spec: W1.5 (dropping the handle detaches): the result stays on the worker's thread, so its type need not be `Send`.
#[test]
fn the_result_is_dropped_by_the_worker_that_made_it() {
    struct Tell(mpsc::Sender<String>, #[expect(dead_code, reason = "it is not `Send`")] Rc<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(current_pool()).unwrap();
        }
    }
    let queue = WorkQueue::unbound("q").build_on(&one_cpu()).unwrap();
    let (tell, told) = mpsc::channel();
    queue.spawn_detached(move || Tell(tell, Rc::default())).unwrap();
    assert!(told.recv_timeout(SOON).unwrap().starts_with('u'));
}

/// spec: W9, W1.5: the panic handler is called and the worker survives, even if the destructor of the payload or of the
/// result panics.
#[test]
fn a_panic_without_a_handle_reaches_the_handler() {
    let _limit = time_limit();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&reports);
    let handler = move |report: &cmwq::PanicReport<'_>| {
        let payload = report.payload.downcast_ref::<&str>().copied().unwrap_or("something else");
        list.lock().unwrap().push((report.queue.to_owned(), report.item_type, payload.to_owned()));
    };
    let executor = builder("core:1 pu:1").0.panic_handler(handler).build().unwrap();
    for kind in KINDS {
        let queue = kind("risky").max_pending(4).build_on(&executor).unwrap();
        queue.spawn_detached(|| panic!("oh no")).unwrap();
        queue.spawn_detached(|| panic_any(Bomb)).unwrap();
        queue.spawn_detached(|| Bomb).unwrap();
        queue.flush().unwrap();
        assert_eq!(queue.counters().panicked, 2);
        assert_eq!(queue.spawn(|| 4).unwrap().join().unwrap(), 4);
        let reports = std::mem::take(&mut *reports.lock().unwrap());
        let mut payloads: Vec<_> = reports.iter().map(|(_, _, payload)| payload.as_str()).collect();
        // Several items may run at once, so the reports may be in any order.
        payloads.sort_unstable();
        assert_eq!(payloads, ["oh no", "something else"]);
        assert!(reports.iter().all(|(queue, item, _)| queue == "risky" && item.contains("without_a_handle")));
    }
}

/// Asserts that the queue refuses an item with this error, and hands back the closure itself and not a copy.
fn is_refused(queue: &WorkQueue, error: QueueError) {
    let text = "not copied".to_owned();
    let address = text.as_ptr() as usize;
    let refused = queue.spawn_detached(move || text).unwrap_err();
    assert_eq!(refused.error, error);
    let text = (refused.into_closure())();
    assert_eq!(text.as_ptr() as usize, address);
}

/// spec: Q3 (`max_pending`: Full, the closure back), F4, E5, W1.5: this holds if the queue is full, draining or
/// destroyed, and if its executor was shut down.
#[test]
fn a_refusal_hands_the_closure_back() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor = one_cpu_unseen();
        let full = kind("full").max_pending(1).build_on(&executor).unwrap();
        let queue = kind("q").build_on(&executor).unwrap();
        let _unless_ordered_or_bh = full.set_max_active(1);
        let (busy, door) = held(&full);
        full.spawn_detached(|| ()).unwrap();
        is_refused(&full, QueueError::Full);
        door.open();
        busy.join().unwrap();
        let (busy, door) = held(&queue);
        std::thread::scope(|scope| {
            let drain = scope.spawn(|| queue.drain());
            let refusal = || queue.spawn_detached(|| ()).err().map(|refused| refused.error);
            eventually("the queue drains", || refusal() == Some(QueueError::Draining));
            is_refused(&queue, QueueError::Draining);
            door.open();
            drain.join().unwrap().unwrap();
        });
        busy.join().unwrap();
        queue.spawn_detached(|| ()).unwrap();
        queue.destroy().unwrap();
        is_refused(&queue, QueueError::Destroyed);
        let another: WorkQueue = kind("another").build_on(&executor).unwrap();
        executor.shutdown(SOON).unwrap();
        is_refused(&another, QueueError::ShutDown);
    }
}

/// spec: W1.5, E5: closures and results are dropped once, whether the item ran, panicked, or was dropped without a run.
#[test]
fn detached_items_are_dropped_once_on_every_path() {
    let _limit = time_limit();
    for kind in KINDS {
        let executor: Executor = one_cpu_unseen();
        let queue = kind("q").build_on(&executor).unwrap();
        // Without this limit, an unbound queue would start as many items as it has slots.
        let _unless_ordered_or_bh = queue.set_max_active(1);
        let (closures, results) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = stress(300);
        let spawn = |n: usize| {
            let (closure, result) = (Counted(Arc::clone(&closures)), Counted(Arc::clone(&results)));
            let item = move || {
                let _closure = closure;
                assert_ne!(n % 3, 1, "on purpose");
                result
            };
            queue.spawn_detached(item).unwrap();
        };
        (0..count).for_each(spawn);
        queue.flush().unwrap();
        assert_eq!((closures.load(Ordering::SeqCst), results.load(Ordering::SeqCst)), (count, count));
        let (door, begun) = (Door::default(), Door::default());
        let (wait, tell) = (door.clone(), begun.clone());
        let holds = move || {
            tell.open();
            wait.wait_unguarded();
        };
        queue.spawn_detached(holds).unwrap();
        begun.wait();
        (0..count).for_each(spawn);
        let report = executor.shutdown(Duration::from_millis(5)).unwrap();
        assert_eq!((report.queues[0].dropped, report.queues[0].running), (count, 1), "{report}");
        assert_eq!((closures.load(Ordering::SeqCst), results.load(Ordering::SeqCst)), (2 * count, 2 * count));
        door.open();
    }
}
