//! The information that an item has about itself, and the description that it sets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use cmwq::{Executor, Work, WorkQueue, current_queue, current_queue_name, current_work, set_description};

use crate::support::{
    Counted, Door, SOON, bump, eventually, holds_within, on_each_executor, one_cpu, time_limit,
};

fn dump_of(executor: &Executor) -> String {
    executor.dump().to_string()
}

/// spec: W10.2 (current_work, current_queue): on every kind of queue, an item gets its own handle and its own queue.
#[test]
fn an_item_knows_itself_and_its_queue() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound, WorkQueue::ordered] {
            let queue = kind("mine").build_on(executor).unwrap();
            let runs = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&runs);
            let work = Work::new(move || {
                assert_eq!(current_queue().unwrap().name(), "mine");
                assert_eq!(current_queue_name().as_deref(), Some("mine"));
                let this = current_work().unwrap();
                assert!(this.is_running());
                if count.fetch_add(1, Ordering::SeqCst) < 2 {
                    assert_eq!(current_queue().unwrap().enqueue(&this), Ok(true));
                    assert!(current_work().unwrap().is_pending(), "the new handle is of another item");
                }
            });
            queue.enqueue(&work).unwrap();
            eventually("the item has run three times", || runs.load(Ordering::SeqCst) == 3);
            queue.flush().unwrap();

            let (is_reusable, name) =
                queue.spawn(|| (current_work().is_some(), current_queue_name())).unwrap().join().unwrap();
            assert_eq!((is_reusable, name.as_deref()), (false, Some("mine")));
        }
    });
}

/// spec: W10.2: outside of items, there is no current work or queue. `set_description` does not even format its
/// argument.
#[test]
fn outside_of_items_nothing_is_current() {
    struct Unformatted;
    impl std::fmt::Display for Unformatted {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            unreachable!("a description without an item is not formatted")
        }
    }
    let _limit = time_limit();
    let nothing = || {
        set_description(Unformatted);
        current_work().is_none() && current_queue().is_none() && current_queue_name().is_none()
    };
    assert!(nothing());
    let hooks = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&hooks);
    let (builder, _) = crate::support::builder("core:1 pu:1");
    let executor = builder.on_thread_start(move || tell.lock().unwrap().push(nothing())).build().unwrap();
    WorkQueue::builder("q").build_on(&executor).unwrap().spawn(|| ()).unwrap().join().unwrap();
    assert!(hooks.lock().unwrap().iter().all(|nothing| *nothing));
    assert!(!hooks.lock().unwrap().is_empty());
}

/// spec: W10.3 (current_queue): when a queue has no handle left, its running items cannot make a new one.
#[test]
fn a_queue_without_handles_is_gone_for_its_items_too() {
    on_each_executor(|executor| {
        let queue = WorkQueue::builder("short-lived").build_on(executor).unwrap();
        let (door, again) = (Door::default(), queue.clone());
        let wait = door.clone();
        let handle = queue.spawn(move || {
            let mine = current_queue().unwrap();
            drop((again, mine));
            wait.wait();
            (current_queue().is_none(), current_queue_name())
        });
        let handle = handle.unwrap();
        drop(queue);
        door.open();
        assert_eq!(handle.join().unwrap(), (true, Some("short-lived".to_owned())));
    });
}

/// spec: W10.3, W9: an item may ask for a handle of its queue or of itself, and this handle may become the last one.
#[test]
fn a_handle_that_an_item_asks_for_may_be_the_last() {
    on_each_executor(|executor| {
        let (door, dropped) = (Door::default(), Arc::new(AtomicUsize::new(0)));
        let (wait, counted) = (door.clone(), Counted(Arc::clone(&dropped)));
        let kept = Arc::new(Mutex::new(None));
        let (keep, learned) = (Arc::clone(&kept), Door::default());
        let tell = learned.clone();
        let work = Work::new(move || {
            let _counted = &counted;
            let mine = (current_queue().unwrap(), current_work().unwrap());
            tell.open();
            wait.wait();
            *keep.lock().unwrap() = Some(mine.1);
            drop(mine.0);
        });
        let queue = WorkQueue::builder("q").build_on(executor).unwrap();
        queue.enqueue(&work).unwrap();
        learned.wait();
        drop((queue, work));
        door.open();
        eventually("the item has ended", || {
            kept.lock().unwrap().as_ref().is_some_and(|work: &Work| !work.is_running())
        });
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "a handle is kept");
        drop(kept.lock().unwrap().take());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

/// spec: W10.2: if an item is queued to two queues in turn, its current queue is that to which the present run was
/// queued.
#[test]
fn the_queue_is_that_of_the_present_run() {
    let _limit = time_limit();
    let executor = one_cpu();
    let [one, other] = ["one", "other"].map(|name| WorkQueue::builder(name).build_on(&executor).unwrap());
    let names = Arc::new(Mutex::new(Vec::new()));
    let (tell, next) = (Arc::clone(&names), other.clone());
    let work = Work::new(move || {
        let name = current_queue_name().unwrap();
        if name == "one" {
            next.enqueue(&current_work().unwrap()).unwrap();
            assert_eq!(
                current_queue_name().as_deref(),
                Some("one"),
                "queueing elsewhere changes nothing yet"
            );
        }
        tell.lock().unwrap().push(name);
    });
    one.enqueue(&work).unwrap();
    one.flush().unwrap();
    other.flush().unwrap();
    assert_eq!(*names.lock().unwrap(), ["one", "other"]);
}

/// spec: W10.2: the values that an item has captured are dropped as a part of the item, but after its function has
/// ended.
#[test]
fn destructors_belong_to_the_queue_and_to_no_work() {
    struct Asks(mpsc::Sender<(bool, Option<String>)>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.send((current_work().is_some(), current_queue_name())).unwrap();
        }
    }
    let _limit = time_limit();
    let executor = one_cpu();
    let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
    let (tell, told) = mpsc::channel();
    let (door, asks) = (Door::default(), Asks(tell));
    let wait = door.clone();
    drop(queue.spawn(move || wait.wait()).unwrap());
    let cancelled = Work::new(move || {
        let _asks = &asks;
    });
    queue.enqueue(&cancelled).unwrap();
    assert!(cancelled.cancel());
    drop(cancelled);
    door.open();
    queue.flush().unwrap();
    assert_eq!(told.recv().unwrap(), (false, Some("q".to_owned())));
}

/// spec: W10.4 (set_description, shown in dumps): the whole description is shown on one line while the item runs or
/// blocks.
#[test]
fn a_description_is_shown_until_its_item_ends() {
    on_each_executor(|executor| {
        for kind in [WorkQueue::per_cpu, WorkQueue::builder, WorkQueue::unbound] {
            let queue = kind("q").build_on(executor).unwrap();
            let (first, second) = (Door::default(), Door::default());
            let doors = (first.clone(), second.clone());
            let item = queue.spawn(move || {
                set_description("said nothing yet");
                set_description(format_args!("resizing {} of {}\n\"whole\"", 7, 9));
                doors.0.wait();
                set_description("done with resizing");
                doors.1.wait_unguarded();
            });
            let shown = |text: &str| holds_within(SOON, || dump_of(executor).contains(text));
            assert!(shown(r#" "resizing 7 of 9\n\"whole\"""#), "{}", executor.dump());
            first.open();
            assert!(shown(r#" "done with resizing""#), "{}", executor.dump());
            assert!(!dump_of(executor).contains("7 of 9"), "{}", executor.dump());
            second.open();
            item.unwrap().join().unwrap();
            eventually("the description is no longer shown", || {
                !dump_of(executor).contains("done with resizing")
            });
            // The next item does not show that description either.
            let next = executor.clone();
            let dump = queue.spawn(move || next.dump().to_string()).unwrap().join().unwrap();
            assert!(!dump.contains("done with resizing"), "{dump}");
        }
    });
}

/// spec: W10.4: while dumps are taken, items on many threads set descriptions, and each dump shows them with the right
/// items.
#[test]
fn descriptions_are_never_mixed_up() {
    let _limit = time_limit();
    let executor = crate::support::cpus(4);
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    for n in 0..200 {
        let ended = Arc::clone(&ended);
        let item = move || {
            for step in 0..20 {
                set_description(format_args!("<{n}.{step}>"));
            }
            bump(&ended);
        };
        drop(queue.spawn(item).unwrap());
    }
    while ended.load(Ordering::SeqCst) < 200 {
        for pool in executor.dump().pools {
            let items = pool.worker_details.iter().filter_map(|worker| worker.item.as_ref());
            let mut said: Vec<&str> = items.filter_map(|item| item.description.as_deref()).collect();
            said.sort_unstable();
            let all = said.len();
            said.dedup_by_key(|text| text.split_once('.').unwrap().0);
            assert!(said.len() == all, "an item is on one worker: {:?}", pool.worker_details);
        }
    }
    queue.flush().unwrap();
}
