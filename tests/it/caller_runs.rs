//! Queues that are full, and whose callers then run their items themselves.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::blocking::block_on;
use cmwq::{
    AffinityScope, Attrs, BuildQueueError, CancelToken, Cancelled, Executor, JoinError, JoinHandle,
    QueueError, ShutdownError, WaitError, WhenFull, Work, WorkQueue, WorkQueueBuilder, current_queue_name,
    current_work, kernel,
};

use crate::support::{
    Crowd, Door, SOON, builder, eventually, falls_asleep, held, nap, on_each_executor, one_cpu_unseen,
    stress, thread_id, unseen,
};

fn caller_runs(name: &str) -> WorkQueueBuilder {
    WorkQueue::builder(name).max_pending(1).when_full(WhenFull::CallerRuns)
}

/// A full queue. An item of another queue keeps the only CPU, so the queue stays full until the door opens.
struct Full {
    queue: WorkQueue,
    /// The items that keep the CPU and fill the queue.
    items: Vec<JoinHandle<()>>,
    door: Door,
}

impl Full {
    fn new(executor: &Executor, queue: WorkQueueBuilder) -> Self {
        let queue = queue.build_on(executor).unwrap();
        let (busy, door) = held(&WorkQueue::builder("busy").build_on(executor).unwrap());
        let pending = queue.spawn(|| ()).unwrap();
        Self { queue, items: vec![busy, pending], door }
    }

    /// Opens the door, so the items that keep the queue full end. Returns the queue.
    fn opens(self) -> WorkQueue {
        self.door.open();
        self.items.into_iter().for_each(|item| item.join().unwrap());
        self.queue
    }

    /// Opens the door, so the items that keep the queue full end. Then checks the empty queue.
    fn ends(self) {
        is_settled(&self.opens());
    }
}

/// Waits until the queue is empty, and checks that its only place is free again.
fn is_settled(queue: &WorkQueue) {
    queue.flush().unwrap();
    let counters = queue.counters();
    assert_eq!((counters.started, queue.len()), (counters.completed, 0));
    drop(queue.try_reserve().expect("no place is lost"));
}

/// Submits to the full queue on another thread. Checks that this thread waits for a place, and does not run the item.
fn waits_for_a_place(full: Full, submit: impl FnOnce(&WorkQueue, mpsc::Sender<u32>) + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let (say, said) = mpsc::channel();
    let queue = full.queue.clone();
    let issuer = thread::spawn(move || {
        say.send(thread_id()).unwrap();
        submit(&queue, tell);
    });
    let own = said.recv().unwrap();
    falls_asleep("the caller waits for a place", own);
    let queue = full.opens();
    issuer.join().unwrap();
    is_settled(&queue);
    assert_ne!(told.recv().unwrap(), own, "a worker runs the item");
}

/// spec: B2.2, B2.3 (the caller runs the item, as an item of the queue)
#[test]
fn a_full_queue_lets_its_caller_run_the_item() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q").name_threads(true));
    let own_name = thread::current().name().map(str::to_owned);
    let facts = || (thread_id(), current_queue_name(), current_work().is_some(), cmwq::is_rescuer());
    let here = (thread_id(), Some("q".to_owned()), false, false);
    let item = full.queue.spawn(move || (facts(), thread::current().name().map(str::to_owned))).unwrap();
    assert!(item.is_finished());
    assert_eq!(item.join().unwrap(), (here.clone(), own_name), "the thread keeps its name");
    let (tell, told) = mpsc::channel();
    full.queue.spawn_detached(move || tell.send(facts())).unwrap();
    assert_eq!(told.recv().unwrap(), here);
    let (tell, told) = mpsc::channel();
    let work = Work::new(move || {
        let own = current_work().unwrap();
        tell.send((own.is_running(), own.is_pending(), facts())).unwrap();
    });
    assert_eq!(full.queue.enqueue(&work), Ok(true));
    assert_eq!(told.recv().unwrap(), (true, false, (here.0, here.1, true, false)));
    assert!(!work.is_running() && !work.is_pending());
    let inside = full.queue.clone();
    let counts = full.queue.spawn(move || (inside.running(), inside.waiting(), inside.counters().started));
    assert_eq!(counts.unwrap().join().unwrap(), (1, 1, 4));
    assert_eq!((current_queue_name(), current_work().is_none()), (None, true), "the item is over");
    assert_eq!((full.queue.counters().completed, full.queue.waiting()), (4, 1));
    full.ends();
}

/// A dump in the item counts the item as active and as running. Only the item that fills the queue is pending.
#[test]
fn an_item_on_its_callers_thread_is_not_pending() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let seen = executor.clone();
    let counts = full.queue.spawn(move || {
        let dump = seen.dump();
        let report = dump.busy();
        let busy = report.queues.iter().find(|busy| busy.queue.name == "q").expect("the item runs");
        (busy.queue.active, busy.in_flight.len(), busy.pending, busy.inactive)
    });
    assert_eq!(counts.unwrap().join().unwrap(), (2, 0, 1, 0));
    full.ends();
}

/// spec: B2.3, W9 (a panic is the item's own)
#[test]
fn a_panic_on_the_callers_thread_goes_to_the_handle() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reports);
    let executor = unseen(builder("core:1 pu:1").0)
        .panic_handler(move |report| kept.lock().unwrap().push(report.queue.to_owned()))
        .build()
        .unwrap();
    let full = Full::new(&executor, caller_runs("q"));
    let item = full.queue.spawn(|| panic!("on purpose")).unwrap();
    assert!(matches!(item.join(), Err(JoinError::Panicked(_))));
    full.queue.spawn_detached(|| panic!("on purpose")).unwrap();
    full.queue.enqueue(&Work::new(|| panic!("on purpose"))).unwrap();
    assert_eq!(*reports.lock().unwrap(), ["q", "q", "q"]);
    assert_eq!(full.queue.counters().panicked, 3);
    assert_eq!(full.queue.spawn(|| 7).unwrap().join().unwrap(), 7, "the thread goes on");
    full.ends();
}

/// spec: B2.2 (never past `max_active`), W3 (an item does not overlap itself): four threads share two slots.
#[test]
fn callers_never_exceed_the_limit() {
    on_each_executor(|executor| {
        let queue = caller_runs("q").max_active_total(2).build_on(executor).unwrap();
        let (crowd, alone) = (Arc::new(Crowd::default()), Arc::new(Crowd::default()));
        let ran = Arc::new(AtomicUsize::new(0));
        let (inside, by_itself) = (Arc::clone(&crowd), Arc::clone(&alone));
        let work = Work::new(move || {
            inside.enter();
            by_itself.enter();
            thread::yield_now();
            by_itself.leave();
            inside.leave();
        });
        let count = stress(200);
        thread::scope(|scope| {
            for issuer in 0..4 {
                let (queue, work, crowd, ran) = (&queue, &work, &crowd, &ran);
                scope.spawn(move || {
                    for n in 0..count {
                        let (crowd, ran) = (Arc::clone(crowd), Arc::clone(ran));
                        let item = move || {
                            crowd.enter();
                            thread::yield_now();
                            ran.fetch_add(1, SeqCst);
                            crowd.leave();
                        };
                        match (issuer + n) % 4 {
                            0 => queue.spawn_detached(item).unwrap(),
                            1 => queue.spawn(item).unwrap().join().unwrap(),
                            2 => queue.items([item]).spawn_detached().unwrap(),
                            _ => {
                                queue.item(item).named("item").spawn_detached().unwrap();
                                queue.enqueue(work).unwrap();
                            }
                        }
                    }
                });
            }
        });
        queue.flush().unwrap();
        assert_eq!(ran.load(SeqCst), 4 * count);
        assert!(crowd.peak() <= 2 && alone.peak() <= 1, "{} and {}", crowd.peak(), alone.peak());
        assert!(!work.is_pending() && !work.is_running());
        let counters = queue.counters();
        assert_eq!(counters.started, counters.completed);
        drop(queue.try_reserve().unwrap());
    });
}

/// spec: B2.2 (if no slot is free, the caller waits for a place)
#[test]
fn a_caller_without_a_slot_waits_for_a_place() {
    let executor = one_cpu_unseen();
    let queue = caller_runs("q").max_active_total(1).build_on(&executor).unwrap();
    let (item, door) = held(&queue);
    let pending = queue.spawn(|| ()).unwrap();
    let full = Full { queue, items: vec![item, pending], door };
    waits_for_a_place(full, |queue, tell| queue.spawn_detached(move || tell.send(thread_id())).unwrap());
}

/// spec: B2.4 (the cases in which the caller waits for a place)
#[test]
fn items_that_must_not_run_here_wait_for_a_place() {
    let executor = one_cpu_unseen();
    let full = || Full::new(&executor, caller_runs("q"));
    let cpu = executor.cpus().first().unwrap();
    waits_for_a_place(full(), move |queue, tell| {
        queue.item(move || tell.send(thread_id())).on_cpu(cpu).spawn_detached().unwrap();
    });
    waits_for_a_place(full(), |queue, tell| {
        queue.item(move || tell.send(thread_id())).on_node(0).spawn_detached().unwrap();
    });
    waits_for_a_place(full(), |queue, tell| {
        queue.items([move || tell.send(thread_id())]).spawn_detached().unwrap();
    });
    waits_for_a_place(full(), |queue, tell| {
        queue.items([move || tell.send(thread_id())]).bytes(1).spawn_detached().unwrap();
    });
    waits_for_a_place(full(), |queue, tell| {
        let items = queue.items([move || tell.send(thread_id())]).bytes(1).named("n");
        drop(items.spawn().unwrap());
    });
    waits_for_a_place(full(), |queue, tell| {
        let work = Work::new(move || tell.send(thread_id()).unwrap());
        queue.items([work]).enqueue().unwrap();
    });
    waits_for_a_place(full(), |queue, tell| {
        queue.reserve().unwrap().spawn_detached(move || tell.send(thread_id())).unwrap();
    });
    let strict = full();
    strict.queue.apply_attrs(Attrs::new().scope(AffinityScope::Cpu).strict(true)).unwrap();
    waits_for_a_place(strict, |queue, tell| queue.spawn_detached(move || tell.send(thread_id())).unwrap());
}

/// spec: B2.4 (the items of a batch wait for the room of their bytes): the queue has places, but its executor has no
/// room for more bytes.
#[test]
fn a_batch_with_bytes_waits_for_their_room() {
    let executor = unseen(builder("core:1 pu:1").0).max_pending_bytes(10).build().unwrap();
    let queue = WorkQueue::builder("q").max_pending(5).when_full(WhenFull::CallerRuns);
    let queue = queue.build_on(&executor).unwrap();
    let (busy, door) = held(&WorkQueue::builder("busy").build_on(&executor).unwrap());
    let pending = queue.item(|| ()).bytes(10).spawn().unwrap();
    assert_eq!(queue.item(thread_id).bytes(1).spawn().unwrap().join().unwrap(), thread_id());
    let full = Full { queue, items: vec![busy, pending], door };
    waits_for_a_place(full, |queue, tell| {
        queue.items([move || tell.send(thread_id())]).bytes(1).spawn_detached().unwrap();
    });
    assert_eq!(executor.dump().pending_bytes, Some(0));
}

/// spec: B2.4, W3 (a reusable item that runs already)
#[test]
fn a_work_that_runs_already_waits_for_a_place() {
    let executor = one_cpu_unseen();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (first, (begin, begun)) = (Door::default(), mpsc::channel());
    let (kept, wait) = (Arc::clone(&runs), first.clone());
    let work = Work::new(move || {
        kept.lock().unwrap().push(thread_id());
        begin.send(()).unwrap();
        // This item waits under a guard and so keeps no CPU. Another item fills the queue.
        wait.wait();
    });
    WorkQueue::builder("elsewhere").build_on(&executor).unwrap().enqueue(&work).unwrap();
    begun.recv().unwrap();
    let full = Full::new(&executor, caller_runs("q"));
    let again = work.clone();
    let opens = first.clone();
    waits_for_a_place(full, move |queue, tell| {
        assert_eq!(queue.enqueue(&again), Ok(true));
        opens.open();
        again.flush().unwrap();
        tell.send(0).unwrap();
    });
    let runs = runs.lock().unwrap();
    assert!(runs.len() == 2 && !runs.contains(&thread_id()), "{runs:?}");
}

/// spec: B2.4 (queues that cannot have the setting)
#[test]
fn queues_that_bind_their_items_refuse_the_setting() {
    let executor = one_cpu_unseen();
    let error = |queue: WorkQueueBuilder| {
        let error = queue.max_pending(1).when_full(WhenFull::CallerRuns).build_on(&executor).unwrap_err();
        assert!(matches!(error, BuildQueueError::Contradiction { .. }), "{error}");
        error.to_string()
    };
    let strict = Attrs::new().strict(true);
    assert_eq!(
        [
            error(WorkQueue::ordered("q")),
            error(WorkQueue::per_cpu("q")),
            error(kernel::bh("q")),
            error(WorkQueue::builder("q").attrs(strict.clone())),
            error(WorkQueue::unbound("q").attrs(strict)),
        ],
        [
            "WhenFull::CallerRuns does not go with an ordered queue: it runs one item at a time, in queueing order",
            "WhenFull::CallerRuns does not go with a per-CPU queue: a caller may be on any other CPU",
            "WhenFull::CallerRuns does not go with a bh queue: each CPU runs one of its items at a time, in their order",
            "WhenFull::CallerRuns does not go with strict attrs: a caller may be on any other CPU",
            "WhenFull::CallerRuns does not go with strict attrs: a caller may be on any other CPU",
        ]
    );
}

/// spec: B2.3: an inner item is the current one while it runs, and then the outer item is again.
#[test]
fn the_outer_item_is_the_present_one_again() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let outer_queue = WorkQueue::unbound("outer").build_on(&executor).unwrap();
    let (queue, token) = (full.queue.clone(), CancelToken::new());
    let own = token.clone();
    let facts = || (thread_id(), current_queue_name(), current_work().is_some(), cmwq::is_cancelled());
    let outer = outer_queue.item(move || {
        let asked = cmwq::cancel_token();
        own.cancel();
        let before = facts();
        let inner = queue.spawn(move || {
            let inner = cmwq::cancel_token();
            (facts(), inner.is_cancelled())
        });
        let work = Work::new(|| assert_eq!(current_queue_name().as_deref(), Some("q")));
        queue.enqueue(&work).unwrap();
        queue.spawn(|| panic!("on purpose")).unwrap().join().unwrap_err();
        assert_eq!(block_on(queue.spawn(|| 1).unwrap()).unwrap(), 1);
        (before, inner.unwrap().join().unwrap(), facts(), asked.is_cancelled())
    });
    let (before, inner, after, asked) = outer.token(&token).spawn().unwrap().join().unwrap();
    assert_eq!(before, (before.0, Some("outer".to_owned()), false, true));
    assert_eq!(inner, ((before.0, Some("q".to_owned()), false, false), false));
    assert_eq!((after, asked), (before, true));
    full.ends();
    // The outer item is now a reusable one, and asks for its token before the inner item asks for its own.
    let full = Full::new(&executor, caller_runs("q"));
    let (queue, (tell, told)) = (full.queue.clone(), mpsc::channel());
    let work = Work::new(move || {
        let own = current_work().unwrap();
        let first = cmwq::cancel_token();
        queue.spawn(cmwq::cancel_token).unwrap().join().unwrap().cancel();
        let mine = current_work().is_some_and(|now| now == own);
        tell.send((mine, first.is_cancelled(), cmwq::is_cancelled())).unwrap();
    });
    outer_queue.enqueue(&work).unwrap();
    assert_eq!(told.recv().unwrap(), (true, false, false));
    full.ends();
}

/// spec: B2.3 (guards of the inner item take the outer item's worker out of the count)
#[test]
fn an_inner_item_that_blocks_lets_other_items_in() {
    let executor = one_cpu_unseen();
    let outer_queue = WorkQueue::builder("outer").build_on(&executor).unwrap();
    let queue = caller_runs("q").build_on(&executor).unwrap();
    let (inner_queue, whole) = (queue.clone(), executor.clone());
    let outer = outer_queue.spawn(move || {
        let (door, own) = (Door::default(), thread_id());
        let opens = door.clone();
        // This item waits for the only CPU, and so fills its queue.
        let pending = inner_queue.spawn(move || opens.open()).unwrap();
        let inner = inner_queue.spawn(move || {
            // The item leaks this guard on purpose.
            std::mem::forget(cmwq::BlockingGuard::enter());
            door.wait();
            thread_id()
        });
        assert_eq!(inner.unwrap().join().unwrap(), own);
        pending.join().unwrap();
        // The outer item's worker counts as running again, so no other item begins before this item ends.
        let running = || whole.dump().pools.iter().map(|pool| pool.running).sum::<usize>();
        eventually("the other worker rests", || running() == 1);
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let next = inner_queue.spawn(move || begins.store(true, SeqCst)).unwrap();
        nap(Duration::from_millis(5));
        assert!(!begun.load(SeqCst), "the leaked guard has ended");
        next
    });
    outer.unwrap().join().unwrap().join().unwrap();
    [outer_queue, queue].iter().for_each(|queue| queue.flush().unwrap());
    eventually("no worker runs", || executor.dump().pools.iter().all(|pool| pool.running == 0));
}

/// spec: B2.4, B1.6 (an inner item lends its thread to no other)
#[test]
fn items_that_callers_run_do_not_nest() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let other = caller_runs("other").build_on(&executor).unwrap();
    let fills = other.spawn(|| ()).unwrap();
    let (queue, second, (say, said)) = (full.queue.clone(), other.clone(), mpsc::channel());
    let issuer = thread::spawn(move || {
        let again = queue.clone();
        let inner = queue.spawn(move || {
            let refused = again.spawn(|| ()).unwrap_err().error;
            say.send(thread_id()).unwrap();
            // The thread waits for a place, because an item that a caller runs lends its thread to no other item.
            (refused, second.spawn(thread_id).unwrap())
        });
        inner.unwrap().join().unwrap()
    });
    let own = said.recv().unwrap();
    falls_asleep("the inner item waits for a place", own);
    let queue = full.opens();
    let (refused, item) = issuer.join().unwrap();
    is_settled(&queue);
    assert_eq!(refused, QueueError::Full, "an item of the queue itself does not wait");
    assert_ne!(item.join().unwrap(), own);
    fills.join().unwrap();
}

/// spec: B2.3, F5 (waits that would never end are refused, because the outer item cannot end first)
#[test]
fn an_inner_item_does_not_wait_for_the_outer_one() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let ordered = WorkQueue::ordered("ordered").build_on(&executor).unwrap();
    let (queue, own, whole) = (full.queue.clone(), ordered.clone(), executor.clone());
    // The ordered queue has a pool of its own, so its item runs beside the one that keeps the CPU.
    let outer = ordered.spawn(move || {
        let behind = own.spawn(|| ()).unwrap();
        let (same, inner_whole) = (queue.clone(), whole.clone());
        let inner = queue.spawn(move || {
            let joined = behind.join().map_err(|error| matches!(error, JoinError::WouldDeadlock));
            let flushed = (own.flush(), same.flush());
            let scoped = own.try_scope(|s| s.spawn(|| ()).map(drop));
            (joined, flushed, scoped, inner_whole.shutdown(SOON).map(drop))
        });
        inner.unwrap().join().unwrap()
    });
    let deadlock = Err(WaitError::WouldDeadlock);
    let scoped = Ok(Err(QueueError::WouldDeadlock));
    let expected = (Err(true), (deadlock, deadlock), scoped, Err(ShutdownError::WouldDeadlock));
    assert_eq!(outer.unwrap().join().unwrap(), expected);
    // The same waits are refused in an item that a thread runs which is no worker.
    let (same, whole) = (full.queue.clone(), executor.clone());
    let alone = full.queue.spawn(move || (same.flush(), same.drain(), whole.shutdown(SOON).map(drop)));
    let expected = (deadlock, deadlock, Err(ShutdownError::WouldDeadlock));
    assert_eq!(alone.unwrap().join().unwrap(), expected);
    ordered.flush().unwrap();
    full.ends();
}

/// spec: B2.3, F5.2, F5.10: if the outer and the inner item hold all slots of their queue, the inner item does not wait
/// for an item that needs a slot.
#[test]
fn an_outer_and_an_inner_item_may_hold_all_slots() {
    let executor = one_cpu_unseen();
    for (slots, would_end) in [(2, false), (3, true)] {
        let queue = caller_runs("q").max_active_total(slots).build_on(&executor).unwrap();
        let own = queue.clone();
        let outer = queue.spawn(move || {
            let (place, same) = (own.reserve().unwrap(), own.clone());
            // The only place is taken, so this thread runs the inner item.
            let inner = own.spawn(move || {
                drop(place);
                let scoped = same.try_scope(|s| s.spawn(|| ()).map(drop));
                let joined = same.spawn(|| ()).unwrap().join_timeout(SOON);
                let joined = joined.expect("the join ends or is refused");
                (scoped, joined.map_err(|error| matches!(error, JoinError::WouldDeadlock)))
            });
            let inner = inner.unwrap();
            assert!(inner.is_finished());
            inner.join().unwrap()
        });
        let expected = match would_end {
            true => (Ok(Ok(())), Ok(())),
            false => (Ok(Err(QueueError::WouldDeadlock)), Err(true)),
        };
        assert_eq!(outer.unwrap().join().unwrap(), expected);
        is_settled(&queue);
    }
}

/// spec: B2.3, F5.7: a debug build finds a cycle of waits that leads through an inner item.
#[cfg(debug_assertions)]
#[test]
fn a_cycle_through_an_inner_item_is_found() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let unbound = WorkQueue::unbound("unbound").build_on(&executor).unwrap();
    let (queue, other, (tell, told)) = (full.queue.clone(), unbound.clone(), mpsc::channel());
    let outer = Work::new(move || {
        let (own, other) = (current_work().unwrap(), other.clone());
        let inner = queue.spawn(move || {
            let waits = other.spawn(move || own.flush().map(drop)).unwrap();
            let joined = waits.join();
            // Of the two waits that form the cycle, the one that began last was refused. Then the other one could end.
            match joined {
                Ok(flushed) => flushed == Err(WaitError::WouldDeadlock),
                Err(error) => matches!(error, JoinError::WouldDeadlock),
            }
        });
        tell.send(inner.unwrap().join().unwrap()).unwrap();
    });
    unbound.enqueue(&outer).unwrap();
    assert!(told.recv().unwrap());
    full.ends();
}

/// spec: B2.3, F1, Q3, E5 (flushes, drains, and the ends of queues and executors wait for the item)
#[test]
fn the_item_is_in_flight_until_it_ends() {
    const MOMENT: Duration = Duration::from_millis(2);
    for ends in ["flush", "wait_idle", "drain", "destroy", "shutdown"] {
        let executor = unseen(builder("core:1 pu:1").0).build().unwrap();
        let full = Full::new(&executor, caller_runs("q"));
        let (door, (begin, begun), queue) = (Door::default(), mpsc::channel(), full.queue.clone());
        let wait = door.clone();
        let issuer = thread::spawn(move || {
            let item = queue.spawn(move || {
                begin.send(()).unwrap();
                wait.wait();
                thread_id()
            });
            assert_eq!(item.unwrap().join().unwrap(), thread_id());
        });
        begun.recv().unwrap();
        full.door.open();
        full.items.into_iter().for_each(|item| item.join().unwrap());
        let queue = full.queue;
        // For a moment after its end, an item may still count as waiting.
        eventually("only this item is left", || (queue.running(), queue.waiting()) == (1, 0));
        let early = match ends {
            "flush" => queue.flush_timeout(MOMENT),
            "wait_idle" => queue.wait_idle_timeout(MOMENT),
            "drain" => queue.drain_timeout(MOMENT),
            "destroy" => queue.destroy_timeout(MOMENT).map(drop),
            _ => queue.flush_timeout(MOMENT),
        };
        assert_eq!(early, Err(WaitError::TimedOut), "{ends}");
        let opens = door.clone();
        let opener = thread::spawn(move || {
            nap(MOMENT);
            opens.open();
        });
        match ends {
            "flush" => queue.flush().unwrap(),
            "wait_idle" => queue.wait_idle().unwrap(),
            "drain" => queue.drain().unwrap(),
            "destroy" => assert_eq!(queue.destroy(), Ok(0)),
            _ => assert!(executor.shutdown(SOON).unwrap().is_complete()),
        }
        assert!(door.is_open() && queue.is_empty(), "{ends} has waited for the item");
        opener.join().unwrap();
        issuer.join().unwrap();
    }
}

/// spec: B2.3, F1.1 (an item that comes while a flush waits)
#[test]
fn an_item_that_comes_during_a_flush_is_run_by_its_caller() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let (queue, (say, said)) = (full.queue.clone(), mpsc::channel());
    let flush = thread::spawn(move || {
        say.send(thread_id()).unwrap();
        queue.flush().unwrap();
    });
    falls_asleep("the flush waits", said.recv().unwrap());
    assert_eq!(full.queue.spawn(thread_id).unwrap().join().unwrap(), thread_id());
    let (inside, ends) = (full.queue.clone(), full.door.clone());
    let item = full.queue.spawn(move || {
        ends.open();
        flush.join().unwrap();
        (thread_id(), inside.flush_timeout(Duration::ZERO))
    });
    let refused = Err(WaitError::WouldDeadlock);
    assert_eq!(item.unwrap().join().unwrap(), (thread_id(), refused), "the earlier flush ignores the item");
    full.ends();
}

/// spec: B2.3, I3 (tokens, deadlines, and the end of the queue)
#[test]
fn the_item_can_be_cancelled() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let token = CancelToken::new();
    token.cancel();
    let cancelled = full.queue.item(|| unreachable!("it was cancelled")).token(&token).spawn().unwrap();
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
    let late = full.queue.item(|| unreachable!("it is late")).within(Duration::ZERO).spawn().unwrap();
    assert!(matches!(late.join(), Err(JoinError::DeadlinePassed)));
    assert_eq!((full.queue.counters().cancelled, full.queue.counters().expired), (2, 1));
    let waits = || (cmwq::cancel_token().wait_timeout(SOON), cmwq::cancel_token().check());
    let in_time = full.queue.item(waits).within(Duration::from_secs(2)).spawn().unwrap();
    assert_eq!(in_time.join().unwrap(), (Ok(()), Err(Cancelled::DeadlinePassed)));
    let (queue, (begin, begun)) = (full.queue.clone(), mpsc::channel());
    let issuer = thread::spawn(move || {
        let item = queue.spawn(move || {
            begin.send(()).unwrap();
            cmwq::cancel_token().wait().is_ok() && cmwq::is_cancelled()
        });
        item.unwrap().join().unwrap()
    });
    begun.recv().unwrap();
    let door = full.door.clone();
    let opener = thread::spawn(move || {
        nap(Duration::from_millis(2));
        door.open();
    });
    full.queue.destroy_now().unwrap();
    assert!(issuer.join().unwrap(), "the item was asked to stop");
    opener.join().unwrap();
    full.items.into_iter().for_each(|item| _ = item.join());
}

/// spec: B2.3, I2 (what the submission carries)
#[test]
fn the_item_sees_what_its_submission_carries() {
    thread_local! {
        static REQUEST: Cell<u32> = const { Cell::new(0) };
    }
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            REQUEST.set(self.0);
        }
    }
    let executor = one_cpu_unseen();
    let carry = || {
        let request = REQUEST.get();
        move || Restore(REQUEST.replace(request + 100))
    };
    let full = Full::new(&executor, caller_runs("q").carry(carry));
    REQUEST.set(7);
    assert_eq!(full.queue.spawn(|| REQUEST.get()).unwrap().join().unwrap(), 107);
    let (tell, told) = mpsc::channel();
    full.queue.enqueue(&Work::new(move || tell.send(REQUEST.get()).unwrap())).unwrap();
    assert_eq!((told.recv().unwrap(), REQUEST.get()), (107, 7));
    full.ends();
}

/// spec: B2.3, W7 (items that borrow)
#[test]
fn items_of_a_scope_are_run_by_its_body() {
    let executor = one_cpu_unseen();
    let full = Full::new(&executor, caller_runs("q"));
    let (mut numbers, own) = (vec![1, 2, 3, 4], thread_id());
    let on_this_thread = AtomicUsize::new(0);
    full.queue
        .scope(|scope| {
            for number in &mut numbers {
                let on_this_thread = &on_this_thread;
                scope.spawn(move || {
                    *number *= 2;
                    on_this_thread.fetch_add(usize::from(thread_id() == own), SeqCst);
                })?;
            }
            let text = String::from("borrowed");
            let handle = scope.spawn({
                let text = text.clone();
                move || text.len()
            })?;
            assert_eq!(handle.join().unwrap(), text.len());
            Ok::<_, QueueError>(())
        })
        .unwrap();
    assert_eq!((numbers, on_this_thread.into_inner()), (vec![2, 4, 6, 8], 4));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        full.queue.scope(|scope| {
            drop(scope.spawn(|| panic!("on purpose")));
        });
    }));
    assert!(panics.is_err(), "the scope tells of the panic");
    full.ends();
}

/// spec: B2.2, B4.1 (the executor's bound): the executor's bound fills a queue without a limit of its own.
#[test]
fn the_executors_bound_lets_callers_run_items() {
    let executor = unseen(builder("core:1 pu:1").0).max_pending(9).build().unwrap();
    let queue = WorkQueue::builder("q").when_full(WhenFull::CallerRuns).build_on(&executor).unwrap();
    let (busy, door) = held(&WorkQueue::builder("busy").build_on(&executor).unwrap());
    let own = thread_id();
    let items: Vec<_> = (0..20).map(|_| queue.spawn(thread_id).unwrap()).collect();
    let finished = items.iter().filter(|item| item.is_finished()).count();
    assert_eq!(finished, 12, "eight items are pending");
    door.open();
    busy.join().unwrap();
    let here = items.into_iter().map(|item| item.join().unwrap()).filter(|thread| *thread == own).count();
    assert_eq!((here, executor.dump().pending), (12, Some(0)));
}

/// spec: B2.4: the manager runs no items that its hooks submit, because timers and new threads need the manager.
#[test]
fn the_manager_runs_no_items() {
    let queue = Arc::new(Mutex::new(None::<WorkQueue>));
    let (tell, told) = mpsc::channel();
    let known = Arc::clone(&queue);
    let executor = unseen(builder("core:1 pu:1").0)
        .watchdog_threshold(Duration::from_millis(10))
        .stall_handler(move |_| {
            let queue = known.lock().unwrap().clone();
            let refused = queue.map(|queue| queue.spawn(|| ()).map(drop).map_err(|refused| refused.error));
            _ = tell.send(refused);
        })
        .build()
        .unwrap();
    let own = caller_runs("q").build_on(&executor).unwrap();
    *queue.lock().unwrap() = Some(own.clone());
    let (busy, door) = held(&WorkQueue::builder("busy").build_on(&executor).unwrap());
    let pending = own.spawn(|| ()).unwrap();
    assert_eq!(told.recv().unwrap(), Some(Err(QueueError::Full)));
    queue.lock().unwrap().take();
    Full { queue: own, items: vec![busy, pending], door }.ends();
}
