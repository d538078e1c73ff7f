//! Waiting for oneself is an error, never a hang.

use std::sync::mpsc;
use std::time::Duration;

use cmwq::{JoinError, JoinHandle, WaitError, Work, WorkQueue, WorkQueueBuilder};

use crate::support::{SOON, cpus, on_each_executor, one_cpu, time_limit};

/// Queues that have one slot for all items of an executor of one CPU.
fn with_one_slot() -> [WorkQueueBuilder; 5] {
    [
        WorkQueue::ordered("ordered"),
        WorkQueue::unbound("unbound").max_active(1),
        WorkQueue::per_cpu("per CPU").max_active(1),
        WorkQueue::new("managed").max_active_total(1),
        WorkQueue::per_cpu("total").max_active_total(1),
    ]
}

/// spec: F5 (join of oneself)
#[test]
fn an_item_that_joins_itself_learns_that_it_would_deadlock() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::new, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            for patient in [true, false] {
                let queue = kind("q").build_on(executor).unwrap();
                let (hand_over, take) = mpsc::channel::<JoinHandle<()>>();
                let (tell, told) = mpsc::channel();
                let item = move || {
                    let own = take.recv().unwrap();
                    let answer = match patient {
                        true => own.join(),
                        false => own.join_timeout(SOON).unwrap(),
                    };
                    tell.send(answer).unwrap();
                };
                hand_over.send(queue.spawn(item).unwrap()).unwrap();
                let answer = told.recv_timeout(SOON).unwrap();
                assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            }
        }
    });
}

/// spec: F5 (waiting, from the item that holds the only slot, for an item that needs that slot)
#[test]
fn the_holder_of_the_only_slot_cannot_join_an_item_that_needs_it() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in with_one_slot() {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let (tell, told) = mpsc::channel();
        let outer = move || {
            let run = tell.clone();
            let waiting = inner.spawn(move || run.send("it went on").unwrap()).unwrap();
            let answer = waiting.join();
            assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            let waiting = inner.spawn(|| ()).unwrap();
            let answer = waiting.join_timeout(Duration::ZERO).unwrap();
            assert!(matches!(answer, Err(JoinError::WouldDeadlock)), "{answer:?}");
            // One that is over can be joined.
            let cancelled = inner.spawn(|| ()).unwrap();
            assert!(cancelled.cancel());
            assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
            tell.send("the outer item is done").unwrap();
        };
        queue.spawn(outer).unwrap().join().unwrap();
        assert_eq!(told.recv_timeout(SOON).unwrap(), "the outer item is done");
        assert_eq!(told.recv_timeout(SOON).unwrap(), "it went on", "the item was detached");
    }
}

/// spec: F5, C2 (join waits under a guard): other waits are no deadlocks.
#[test]
fn items_may_join_items_that_have_a_slot() {
    let _limit = time_limit();
    let executor = one_cpu();
    for queue in [
        WorkQueue::per_cpu("q").max_active(2),
        WorkQueue::new("q").max_active(2),
        WorkQueue::unbound("q").max_active_total(2),
    ] {
        let queue = queue.build_on(&executor).unwrap();
        let inner = queue.clone();
        let outer = queue.spawn(move || inner.spawn(|| 3).unwrap().join().unwrap() + 1).unwrap();
        assert_eq!(outer.join().unwrap(), 4);
    }
    let queues: Vec<_> = with_one_slot().map(|queue| queue.build_on(&executor).unwrap()).into();
    for (one, other) in queues.iter().zip(queues.iter().skip(1)) {
        let other = other.clone();
        let outer = one.spawn(move || other.spawn(|| 3).unwrap().join().unwrap() + 1).unwrap();
        assert_eq!(outer.join().unwrap(), 4);
    }
}

/// spec: F5 (flush of the own queue), F1
#[test]
fn an_item_cannot_flush_its_own_queue_but_any_other() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::new, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered] {
            let (own, other) =
                (kind("own").build_on(executor).unwrap(), kind("own").build_on(executor).unwrap());
            let (tell, told) = mpsc::channel();
            let (this, that) = (own.clone(), other.clone());
            let flush_both = move || {
                drop(that.spawn(|| ()).unwrap());
                tell.send((this.clone().flush(), that.flush())).unwrap();
            };
            let expected = (Err(WaitError::WouldDeadlock), Ok(()));
            own.spawn(flush_both.clone()).unwrap().join().unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), expected);
            own.queue(&Work::new(flush_both)).unwrap();
            own.flush().unwrap();
            assert_eq!(told.recv_timeout(SOON).unwrap(), expected);
        }
    });
}

/// spec: C2: deep chains of items that wait under guards for items queued after them.
#[test]
fn chains_of_waiting_items_resolve() {
    fn chain(queue: &WorkQueue, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = queue.clone();
        queue.spawn(move || chain(&inner, depth - 1)).unwrap().join().unwrap() + 1
    }
    let _limit = time_limit();
    for cpus_of_pools in [1, 2, 8] {
        let executor = cpus(cpus_of_pools);
        for kind in [WorkQueue::new, WorkQueue::per_cpu, WorkQueue::unbound] {
            let queue = kind("q").build_on(&executor).unwrap();
            assert_eq!(chain(&queue, 40), 40);
        }
    }
}

/// spec: F5 (flush): it runs on the other queue only when it has returned from here.
#[test]
fn an_item_cannot_flush_a_queue_on_which_it_is_pending() {
    on_each_executor(|executor| {
        let here = WorkQueue::new("here").build_on(executor).unwrap();
        let there = WorkQueue::ordered("there").build_on(executor).unwrap();
        let (tell, told) = mpsc::channel();
        let target = there.clone();
        let work = Work::with_handle(move |this| {
            // The first run queues itself there and asks; the second one, there, ends it.
            if target.queue(this) == Ok(true) {
                tell.send((target.flush(), this.cancel())).unwrap();
            }
        });
        assert_eq!(here.queue(&work), Ok(true));
        let (answer, cancelled) = told.recv_timeout(SOON).unwrap();
        assert_eq!(answer, Err(WaitError::WouldDeadlock));
        assert!(cancelled, "it was pending there");
        here.flush().unwrap();
        assert_eq!(there.flush(), Ok(()));
    });
}
