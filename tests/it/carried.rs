//! Hooks that carry values: a value that is current for the issuer is current in the item.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cmwq::{Attrs, CancelToken, Executor, JoinHandle, QueueError, Work, WorkQueue, WorkQueueBuilder};
use testkit::{SOON, eventually, polled};

use crate::support::{cpus, held, is_portable, one_cpu, one_cpu_unseen, own_nice};

thread_local!(static CURRENT: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });

/// Makes a name current until it is dropped.
struct Within(&'static str);

impl Within {
    fn enter(name: &'static str) -> Self {
        CURRENT.with_borrow_mut(|names| names.push(name));
        Self(name)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        assert_eq!(CURRENT.with_borrow_mut(Vec::pop), Some(self.0), "entered and left in turn");
    }
}

fn current() -> Vec<&'static str> {
    CURRENT.with_borrow(Clone::clone)
}

/// Carries the innermost name.
fn innermost() -> impl FnOnce() -> Option<Within> + Send {
    let name = current().last().copied();
    move || name.map(Within::enter)
}

fn carrying(executor: &Executor) -> WorkQueue {
    WorkQueue::builder("carries").carry(innermost).build_on(executor).unwrap()
}

/// spec: I2.1 (what is current at a submission is current in the item): each way to submit an item carries the current
/// value.
#[test]
fn every_submission_carries_what_is_current() {
    let executor = cpus(2);
    let queue = carrying(&executor);
    let within = Within::enter("request");
    assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["request"]);
    let later = Duration::from_millis(1);
    assert_eq!(queue.item(current).after(later).spawn().unwrap().join().unwrap(), ["request"]);
    assert_eq!(queue.item(current).named("named").spawn().unwrap().join().unwrap(), ["request"]);
    for item in queue.items([current, current]).spawn().unwrap() {
        assert_eq!(item.join().unwrap(), ["request"]);
    }
    assert!(queue.map(0..3, |_| current()).all(|names| names.unwrap() == ["request"]));

    let (tell, told) = mpsc::channel();
    let report = || {
        let tell = tell.clone();
        move || tell.send(current()).unwrap()
    };
    queue.spawn_detached(report()).unwrap();
    queue.item(report()).after(later).spawn_detached().unwrap();
    queue.items([report(), report()]).spawn_detached().unwrap();
    queue.for_each([(); 2], |()| tell.send(current()).unwrap()).unwrap();
    queue.scope(|s| s.spawn(|| tell.send(current()).unwrap()).map(drop)).unwrap();
    let works: Vec<Work> = (0..4).map(|_| Work::new(report())).collect();
    queue.enqueue(&works[0]).unwrap();
    queue.item(&works[1]).after(later).enqueue().unwrap();
    queue.items(&works[2..]).enqueue().unwrap();
    let _ticks = queue.item(report()).spawn_every(later).unwrap();
    // Eleven items report once each, and the periodic item reports until its handle is dropped.
    for _ in 0..14 {
        assert_eq!(told.recv_timeout(SOON).unwrap(), ["request"]);
    }
    drop(within);
    assert_eq!(queue.spawn(current).unwrap().join().unwrap(), [""; 0], "nothing is current");
}

/// spec: I2.1: the hook is called for each item of a batch, and each item carries the value that its own call has
/// captured.
#[test]
fn each_item_of_a_batch_has_its_own_hook() {
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) });
    const COUNT: usize = 600;
    let executor = cpus(2);
    for max_active in [1, 256] {
        let captured = AtomicUsize::new(0);
        let capture = move || {
            let number = captured.fetch_add(1, Ordering::Relaxed);
            move || NUMBER.set(number)
        };
        let builder = WorkQueue::builder("batch").max_active(max_active).carry(capture);
        let queue = builder.build_on(&executor).unwrap();
        let items = queue.items((0..COUNT).map(|_| || NUMBER.get())).spawn().unwrap();
        assert!(items.into_iter().map(|item| item.join().unwrap()).eq(0..COUNT));
        let (tell, told) = mpsc::channel();
        let report = |at: usize| {
            let tell = tell.clone();
            move || tell.send((at, NUMBER.get())).unwrap()
        };
        queue.items((COUNT..2 * COUNT).map(report)).spawn_detached().unwrap();
        let works: Vec<Work> = (2 * COUNT..3 * COUNT).map(|at| Work::new(report(at))).collect();
        queue.items(&works).enqueue().unwrap();
        queue.flush().unwrap();
        let told: Vec<_> = told.try_iter().collect();
        assert_eq!(told.len(), 2 * COUNT);
        assert!(told.into_iter().all(|(at, number)| at == number));
    }
}

/// spec: I2.9 (a hook that uses its own queue): a hook submits items and waits for them, even while a batch is being
/// queued.
#[test]
fn a_hook_may_submit_to_its_own_queue() {
    let executor = one_cpu();
    for builder in [WorkQueue::builder("managed"), WorkQueue::ordered("ordered")] {
        let own: Arc<Mutex<Option<WorkQueue>>> = Arc::default();
        let (calls, queue_of_hook) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&own));
        let counted = Arc::clone(&calls);
        let capture = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let queue = queue_of_hook.lock().unwrap().clone().unwrap();
            queue.flush_timeout(SOON).expect("all items that were queued before are on their way");
            assert_eq!(
                queue.spawn(current).unwrap().join().unwrap(),
                [""; 0],
                "what a hook submits carries nothing"
            );
            queue.enqueue(&Work::new(|| assert_eq!(current(), [""; 0]))).unwrap();
            innermost()
        };
        let queue = builder.carry(capture).build_on(&executor).unwrap();
        *own.lock().unwrap() = Some(queue.clone());
        let _within = Within::enter("request");
        assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["request"]);
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1);
        for item in queue.items([current; 3]).spawn().unwrap() {
            assert_eq!(item.join().unwrap(), ["request"]);
        }
        let works = [(); 3].map(|()| Work::new(|| assert_eq!(current(), ["request"])));
        assert_eq!(queue.items(&works).enqueue().unwrap(), 3);
        queue.flush().unwrap();
        assert_eq!((calls.load(Ordering::Relaxed), queue.counters().panicked), (6, 0));
        own.lock().unwrap().take();
    }
}

/// spec: I2.1: if an item that carries a value submits another item, that item carries the same value.
#[test]
fn an_items_submissions_carry_on() {
    let executor = cpus(2);
    let queue = carrying(&executor);
    let _within = Within::enter("request");
    let inner = queue.clone();
    let outer = queue.spawn(move || inner.spawn(current).unwrap().join().unwrap());
    assert_eq!(outer.unwrap().join().unwrap(), ["request"]);
}

/// spec: I2.2 (restored): an item leaves nothing behind on its worker, not even by a panic.
#[test]
fn nothing_stays_current_on_the_worker() {
    let executor = one_cpu();
    let (queue, plain) = (carrying(&executor), WorkQueue::builder("plain").build_on(&executor).unwrap());
    let _within = Within::enter("request");
    for _ in 0..100 {
        queue.spawn(|| panic!("as it was asked to")).unwrap().join().unwrap_err();
        assert_eq!(plain.spawn(current).unwrap().join().unwrap(), [""; 0]);
        assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["request"]);
    }
}

/// spec: I2.3 (reusable items): a run sees the values of the submission that made the item pending. If another
/// submission replaces this submission, the run sees the values of the later one.
#[test]
fn the_submission_that_makes_an_item_pending_decides() {
    let executor = one_cpu_unseen();
    let queue = carrying(&executor);
    let (tell, told) = mpsc::channel();
    let work = Work::new(move || tell.send(current()).unwrap());
    let submit = |name, reschedule: bool, after: Duration| {
        let _within = Within::enter(name);
        let item = queue.item(&work).after(after);
        if reschedule { item.reschedule().unwrap() } else { item.enqueue().unwrap() }
    };
    let (hour, now) = (Duration::from_secs(3600), Duration::ZERO);
    assert!(submit("first", false, hour));
    assert!(!submit("coalesces", false, now));
    work.flush().unwrap();
    assert_eq!(told.recv_timeout(SOON).unwrap(), ["first"]);
    assert!(submit("replaced", false, hour) && submit("replaces", true, now));
    assert_eq!(told.recv_timeout(SOON).unwrap(), ["replaces"]);
    work.flush().unwrap();
    assert!(submit("cancelled", false, hour) && work.cancel());
    assert!(submit("last", false, now));
    assert_eq!(told.recv_timeout(SOON).unwrap(), ["last"]);

    // The cancelled item's entry is still on the list. The new submission uses this entry again, and the run sees the
    // new submission's value.
    let (holder, door) = held(&WorkQueue::builder("holds").build_on(&executor).unwrap());
    assert!(submit("left behind", false, now) && work.cancel() && submit("anew", false, now));
    door.open();
    assert_eq!(told.recv_timeout(SOON).unwrap(), ["anew"]);
    holder.join().unwrap();
    work.flush().unwrap();
    assert!(told.try_recv().is_err());
}

/// spec: I2.3, Q3.4: a full queue accepts a cancelled item whose entry is still on the queue's list, whether the queue
/// has a hook or not.
#[test]
fn a_full_queue_takes_a_cancelled_item_again() {
    let executor = one_cpu_unseen();
    let plain = WorkQueue::builder("plain").max_pending(1).build_on(&executor).unwrap();
    let hooked = WorkQueue::builder("hooked").max_pending(1).carry(innermost).build_on(&executor).unwrap();
    for (queue, name) in [(plain, vec![]), (hooked, vec!["again"])] {
        let (holder, door) = held(&WorkQueue::builder("holds").build_on(&executor).unwrap());
        let (tell, told) = mpsc::channel();
        let work = Work::new(move || tell.send(current()).unwrap());
        {
            let _within = Within::enter("first");
            assert!(queue.enqueue(&work).unwrap() && work.cancel());
        }
        let _within = Within::enter("again");
        assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full);
        assert_eq!(queue.enqueue(&work), Ok(true), "{}", queue.name());
        assert_eq!(queue.enqueue(&work), Ok(false));
        door.open();
        assert_eq!(told.recv_timeout(SOON).unwrap(), name);
        holder.join().unwrap();
        queue.flush().unwrap();
        assert_eq!((queue.counters().started, queue.counters().cancelled), (1, 1));
    }
}

/// spec: I2.3: several threads queue the same item again and again. Each submission that makes the item pending leads
/// to one run, and this run sees the name of that submission.
#[test]
fn names_are_not_mixed_up() {
    const ISSUERS: [&str; 3] = ["red", "green", "blue"];
    let executor = cpus(2);
    let queue = carrying(&executor);
    let runs: Arc<[AtomicUsize; 3]> = Arc::default();
    let counted = Arc::clone(&runs);
    let work = Work::new(move || {
        let names = current();
        let at = ISSUERS.iter().position(|name| names == [*name]).unwrap_or_else(|| panic!("{names:?}"));
        counted[at].fetch_add(1, Ordering::Relaxed);
    });
    let pending = std::thread::scope(|s| {
        let issuers = ISSUERS.map(|name| {
            let (queue, work) = (&queue, &work);
            s.spawn(move || {
                let _within = Within::enter(name);
                (0..2000).filter(|_| queue.enqueue(work).unwrap()).count()
            })
        });
        issuers.map(|issuer| issuer.join().unwrap())
    });
    work.flush().unwrap();
    let runs: Vec<usize> = runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect();
    assert_eq!(runs, pending, "each submission that made the item pending has run with its own name");
    assert_eq!(queue.counters().panicked, 0);
}

/// spec: I2.4 (several hooks): the executor's hooks are entered before the queue's hooks, and all hooks are left in the
/// reverse order.
#[test]
fn hooks_nest() {
    let capture = |name: &'static str| move || move || Within::enter(name);
    let executor = Executor::builder().carry(capture("executor")).build().unwrap();
    let builder: WorkQueueBuilder = WorkQueue::builder("nested").carry(capture("outer"));
    let queue = builder.carry(capture("inner")).build_on(&executor).unwrap();
    assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["executor", "outer", "inner"]);
    let plain = WorkQueue::ordered("plain").build_on(&executor).unwrap();
    assert_eq!(plain.spawn(current).unwrap().join().unwrap(), ["executor"]);
    assert_eq!(plain.spawn(current).unwrap().join().unwrap(), ["executor"], "each was left");
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the destructor panics");
    }
}

/// spec: I2.5 (a hook that panics): the item runs, and the other hooks apply.
#[test]
fn a_hook_that_panics_ends_nothing() {
    type Enter = Box<dyn FnOnce() -> PanicsWhenDropped + Send>;
    let captures: [fn() -> Enter; 3] = [
        || panic!("the capture panics"),
        || Box::new(|| panic!("the entry panics")),
        || Box::new(|| PanicsWhenDropped),
    ];
    let executor = one_cpu();
    for capture in captures {
        let builder = WorkQueue::builder("panics").carry(capture).carry(innermost);
        let queue = builder.build_on(&executor).unwrap();
        let _within = Within::enter("request");
        assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["request"]);
        let work = Work::new(|| assert_eq!(current(), ["request"]));
        queue.enqueue(&work).unwrap();
        work.flush().unwrap();
        assert_eq!(queue.counters().panicked, 0, "the hook's panic is not the item's");
        assert_eq!(queue.spawn(current).unwrap().join().unwrap(), ["request"], "the worker goes on");
    }
}

/// spec: I2.6 (dropped): a submission that is refused or cancelled drops the values that it has captured. A queue that
/// ends drops its hook.
#[test]
fn what_is_not_used_is_dropped() {
    let token = Arc::new(Mutex::new(()));
    let captured = Arc::clone(&token);
    let capture = move || {
        let captured = Arc::clone(&captured);
        move || captured
    };
    let executor = one_cpu_unseen();
    let queue = WorkQueue::builder("drops").max_pending(1).carry(capture).build_on(&executor).unwrap();
    let (holder, door) = held(&WorkQueue::builder("holds").build_on(&executor).unwrap());
    let shares = || Arc::strong_count(&token);
    assert_eq!(shares(), 2, "the test and the hook");
    let waits = queue.spawn(|| ()).unwrap();
    assert_eq!(shares(), 3);
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::Full);
    let work = Work::new(|| ());
    assert_eq!(queue.enqueue(&work).unwrap_err(), QueueError::Full);
    assert_eq!(shares(), 3, "the refused submissions have dropped theirs");
    assert!(waits.cancel());
    assert_eq!(shares(), 2);
    assert!(queue.item(&work).after(Duration::from_secs(3600)).enqueue().unwrap());
    assert_eq!(shares(), 3);
    assert!(!queue.item(&work).after(Duration::from_secs(1)).enqueue().unwrap());
    assert_eq!(shares(), 3, "a submission that coalesces");
    assert!(work.cancel());
    assert_eq!(shares(), 2);
    door.open();
    holder.join().unwrap();
    drop(queue);
    eventually("the hook ends with its queue", || shares() == 1);
}

/// spec: I2.8 (the item's token), I3.1: when a hook is called at the beginning of an item, the current token is the
/// item's token.
#[test]
fn a_hook_finds_the_token_of_the_item() {
    thread_local!(static FOUND: RefCell<Option<CancelToken>> = const { RefCell::new(None) });
    let find = || FOUND.set(Some(cmwq::cancel_token()));
    let is_own = || FOUND.take().expect("the hook was called") == cmwq::cancel_token();
    let (executor, hour) = (cpus(2), Duration::from_secs(3600));
    let queue = WorkQueue::builder("finds").carry(move || find).build_on(&executor).unwrap();
    let (token, later) = (CancelToken::new(), Duration::from_millis(1));
    assert!(queue.spawn(is_own).unwrap().join().unwrap());
    assert!(queue.item(is_own).token(&token).spawn().unwrap().join().unwrap());
    assert!(queue.item(is_own).token(&token).named("named").after(later).spawn().unwrap().join().unwrap());
    assert!(queue.item(is_own).within(hour).spawn().unwrap().join().unwrap());
    assert!(queue.scope(|s| s.item(is_own).token(&token).spawn().unwrap().join().unwrap()));
    let (tell, told) = mpsc::channel();
    let report = || {
        let tell = tell.clone();
        move || tell.send((is_own(), cmwq::cancel_token())).unwrap()
    };
    queue.item(report()).token(&token).spawn_detached().unwrap();
    queue.enqueue(&Work::new(report())).unwrap();
    let _plain_ticks = queue.item(report()).spawn_every(later).unwrap();
    for _ in 0..4 {
        assert!(told.recv_timeout(SOON).unwrap().0);
    }
    let (tell, told) = mpsc::channel();
    let tick = move || tell.send((is_own(), cmwq::cancel_token())).unwrap();
    let _ticks = queue.item(tick).token(&token).spawn_every(later).unwrap();
    let (first, second) = (told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap());
    assert!(first.0 && second.0 && first.1 == second.1);
    token.cancel();
    assert!(first.1.is_cancelled());
}

/// Makes a queue with a hook, and another queue. The hook's destructor calls `wait` with an item of the other queue.
/// The receiver is told when the wait has ended.
fn hook_that_waits(
    executor: &Executor,
    kind: impl Fn(&'static str) -> WorkQueueBuilder,
    wait: fn(JoinHandle<()>),
) -> (WorkQueue, WorkQueue, mpsc::Receiver<()>) {
    struct Waits(WorkQueue, fn(JoinHandle<()>), mpsc::Sender<()>);

    impl Drop for Waits {
        fn drop(&mut self) {
            (self.1)(self.0.spawn(|| ()).unwrap());
            self.2.send(()).unwrap();
        }
    }

    let other = kind("other").build_on(executor).unwrap();
    let (tell, told) = mpsc::channel();
    let waits = Waits(other.clone(), wait, tell);
    let hook = move || {
        let _kept = &waits;
        || ()
    };
    (kind("q").carry(hook).build_on(executor).unwrap(), other, told)
}

/// The worker that ends the queue's last item frees the queue, and runs the destructor of the queue's hook. Returns
/// whether the wait of this destructor ends.
fn destructor_of_a_hook_waits(executor: &Executor, wait: fn(JoinHandle<()>)) -> bool {
    let (queue, _other, told) = hook_that_waits(executor, WorkQueue::per_cpu, wait);
    let (item, door) = held(&queue);
    drop(queue);
    door.open();
    item.join().unwrap();
    told.recv_timeout(SOON).is_ok()
}

/// spec: C2.3: a destructor of a hook may wait for an item of the same pool.
#[test]
fn the_destructor_of_a_hook_may_wait_for_an_item() {
    assert!(destructor_of_a_hook_waits(&one_cpu_unseen(), |item| item.join().unwrap()));
}

/// spec: S1.1: a destructor of a hook that sleeps without a guard is found.
#[test]
fn the_destructor_of_a_hook_that_sleeps_is_found() {
    let sleeps =
        |item: JoinHandle<()>| assert!(polled(Duration::from_millis(1), SOON, || item.is_finished()));
    let executor = one_cpu();
    if !is_portable(&executor) {
        assert!(destructor_of_a_hook_waits(&executor, sleeps));
    }
}

/// spec: C2.3: after a change of attributes, the worker that meets the queue's marker frees the queue.
#[test]
fn the_destructor_of_a_hook_may_wait_where_a_marker_ends_the_queue() {
    let wait = |item: JoinHandle<()>| item.join().unwrap();
    let (queue, other, told) = hook_that_waits(&one_cpu_unseen(), WorkQueue::builder, wait);
    // The change pushes a marker behind the queue's only item.
    let (holder, door) = held(&other);
    queue.spawn_detached(|| ()).unwrap();
    queue.apply_attrs(Attrs::new().nice(own_nice() + 1)).unwrap();
    drop(queue);
    door.open();
    holder.join().unwrap();
    told.recv_timeout(SOON).unwrap();
}
