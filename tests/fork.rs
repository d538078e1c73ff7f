//! Forked processes: in the child, operations on the parent's objects return at once, and do not disturb the parent.
//!
//! A child reports its result by its exit status. If a child hangs, it is killed, and the test fails. The tests run one
//! at a time, because a child may have executors of its own only if the parent was quiet.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "fork, and waiting for a child in particular, are libc's")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cmwq::blocking::block_on;
use cmwq::kernel::{self, ExecutorExt};
use cmwq::{
    AffinityScope, ApplyAttrsError, Attrs, BuildQueueError, CancelToken, Cancelled, Executor, JoinError,
    QueueError, RunError, SetDefaultScopeError, SetUnboundCpusError, ShutdownError, TopologySource,
    WaitError, Work, WorkQueue, WorkQueueBuilder,
};
use testkit::threads::{self, own_status, tasks};
use testkit::{SOON, holds_within};

const KINDS: [fn(&'static str) -> WorkQueueBuilder; 5] =
    [WorkQueue::builder, WorkQueue::per_cpu, WorkQueue::unbound, WorkQueue::ordered, |name| {
        WorkQueue::builder(name).rescuer(true)
    }];

/// A future that waits for a queue.
type Wait = Pin<Box<dyn Future<Output = Result<(), WaitError>> + Send>>;

fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|failed| failed.into_inner())
}

fn executor() -> Executor {
    let builder = Executor::builder().topology(TopologySource::Synthetic("l3:1 core:2 pu:1".into()));
    builder.progress_check(Duration::from_secs(10)).build().unwrap()
}

/// Forks, and runs `child` in the child process. Returns the child's process id.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses only operations that this crate promises for a child, and the allocator, which glibc keeps
    // usable. It ends without exit handlers.
    let id = unsafe { libc::fork() };
    assert!(id >= 0, "fork: {}", std::io::Error::last_os_error());
    if id == 0 {
        let status = catch_unwind(AssertUnwindSafe(child)).map_or_else(
            |payload| {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                // The child writes to standard error directly, because the harness captures no output of a child.
                drop(writeln!(std::io::stderr(), "in the child: {}", text.unwrap_or_default()));
                101
            },
            |()| 0,
        );
        // SAFETY: the call does not return.
        unsafe { libc::_exit(status) }
    }
    id
}

/// Returns the exit status of a child. If the child hangs, kills it, and fails the test.
fn status_of(child: libc::pid_t) -> i32 {
    let end = Instant::now() + SOON;
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a number that outlives the call.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() > end => {
                // SAFETY: the process is a child of this one, and was not waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("the child hangs");
            }
            0 => std::thread::sleep(Duration::from_millis(1)),
            id => {
                assert_eq!(id, child);
                assert!(libc::WIFEXITED(status), "the child ended by signal {}", libc::WTERMSIG(status));
                return libc::WEXITSTATUS(status);
            }
        }
    }
}

#[track_caller]
fn in_a_child(child: impl FnOnce()) {
    assert_eq!(status_of(fork(child)), 0, "the child failed");
}

/// Waits until no worker has an item. Then no worker holds a lock.
fn wait_until_quiet(executor: &Executor) {
    let quiet = || {
        let pools = executor.dump().pools;
        pools.iter().all(|pool| pool.idle == pool.workers && pool.waking == 0 && !pool.creating)
    };
    // Workers count as idle a moment before they sleep.
    let is_quiet = holds_within(SOON, || quiet() && all_others_sleep());
    assert!(is_quiet, "the executor never became quiet: {}", executor.dump());
}

/// Returns whether there was a moment at which all other threads of the process slept. At such a moment, the executor's
/// threads hold no lock.
fn all_others_sleep() -> bool {
    let own = own_status("Pid");
    let switches = |task: String| {
        let sleeps = threads::status_of(&task, "State").starts_with('S');
        sleeps.then(|| threads::status_of(&task, "voluntary_ctxt_switches"))
    };
    let others = || tasks().into_iter().filter(|task| *task != own).map(switches).collect::<Option<Vec<_>>>();
    // If a thread's number of switches is the same in both lists, the thread has slept from the first to the second.
    let first = others();
    first.is_some() && first == others()
}

/// Queues an item that waits for a value from the sender.
fn held(queue: &WorkQueue) -> (Sender<u32>, cmwq::JoinHandle<u32>) {
    let (release, wait) = mpsc::channel();
    let item = move || cmwq::blocking(|| wait.recv().unwrap());
    (release, queue.spawn(item).unwrap())
}

/// spec: X2.1 (the child's queues answer `Err(Forked)` at once; the parent is not disturbed)
#[test]
fn in_a_child_the_parents_queues_and_handles_answer_at_once() {
    let _turn = my_turn();
    for kind in KINDS {
        let executor = executor();
        let queue = kind("q").build_on(&executor).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let work = {
            let runs = Arc::clone(&runs);
            Work::new(move || {
                runs.fetch_add(1, Ordering::SeqCst);
            })
        };
        let ended = queue.spawn(|| 1).unwrap();
        queue.flush().unwrap();
        executor.events().flush().unwrap();
        let (release, joined) = held(&queue);
        let (release_too, timed) = held(&queue);
        let (release_three, dropped) = held(&queue);
        // On an ordered queue, this item waits behind the other items. On other queues, it may have run already.
        assert!(queue.enqueue(&work).unwrap());
        let handles = Mutex::new(Some((ended, joined, timed, dropped)));
        let id = fork(|| {
            let refused = queue.spawn(|| "back").unwrap_err();
            assert_eq!(refused.error, QueueError::Forked);
            assert_eq!((refused.into_closure())(), "back");
            assert_eq!(queue.enqueue(&work), Err(QueueError::Forked));
            assert_eq!(queue.flush(), Err(WaitError::Forked));
            assert_eq!(queue.flush_timeout(Duration::ZERO), Err(WaitError::Forked));
            let (ended, joined, timed, dropped) = handles.lock().unwrap().take().unwrap();
            assert_eq!(ended.join().unwrap(), 1, "the item had ended at the fork");
            assert!(matches!(joined.join(), Err(JoinError::Forked)));
            assert!(matches!(timed.join_timeout(SOON), Ok(Err(JoinError::Forked))));
            drop(dropped);
            assert!(!work.is_pending() && !work.is_running() && !work.cancel());
            assert_eq!(work.flush(), Err(WaitError::Forked));
            assert_eq!(work.cancel_and_wait(), Err(WaitError::Forked));
            assert_eq!(work.disable_and_wait(), Err(WaitError::Forked));
            assert!(!work.disable() && work.enable().is_err());
            assert!(matches!(kind("new").build_on(&executor), Err(BuildQueueError::Forked)));
            for system_queue in [executor.events(), executor.events_long()] {
                assert_eq!(system_queue.enqueue(&work), Err(QueueError::Forked));
            }
            assert_eq!(queue.item(&work).on_cpu(0).enqueue(), Err(QueueError::Forked));
            assert_eq!(queue.item(&work).on_node(0).enqueue(), Err(QueueError::Forked));
            assert_eq!(queue.items((0..2).map(|n| move || n)).spawn().unwrap_err().into_parts().1.len(), 2);
            assert_eq!(queue.items([|| 1, || 2]).spawn_detached().unwrap_err().into_parts().1.len(), 2);
            assert_eq!(
                queue.items(std::slice::from_ref(&work)).enqueue().unwrap_err().error,
                QueueError::Forked
            );
            assert!(queue.attrs().is_none());
            match queue.apply_attrs(Attrs::new()).unwrap_err() {
                ApplyAttrsError::PerCpu | ApplyAttrsError::Bh => {}
                error => assert_eq!(error, ApplyAttrsError::Forked),
            }
            assert_eq!(executor.set_unbound_cpus(executor.unbound_cpus()), Err(SetUnboundCpusError::Forked));
            assert_eq!(executor.set_default_scope(AffinityScope::Cpu), Err(SetDefaultScopeError::Forked));
            for refused in [executor.run_on_cpu(0, || ()), executor.run_on_each_cpu(|_| ())] {
                assert!(matches!(refused, Err(RunError::Refused(QueueError::Forked))));
            }
            let snapshot = executor.dump();
            assert!(snapshot.forked && snapshot.pools.is_empty() && snapshot.threads == 0);
            assert!(snapshot.queues.is_empty() && snapshot.busy().is_idle());
            assert!(executor.monitor().sample().queues.is_empty());
        });
        assert_eq!(status_of(id), 0, "the child failed");
        let (ended, joined, timed, dropped) = handles.into_inner().unwrap().unwrap();
        release.send(2).unwrap();
        release_too.send(3).unwrap();
        release_three.send(4).unwrap();
        let results = [ended, joined, timed, dropped].map(|handle| handle.join().unwrap());
        assert_eq!(results, [1, 2, 3, 4]);
        queue.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(!executor.dump().forked);
    }
}

/// spec: X2.1: calls for batches, items of named CPUs, and the parent's system queues also return at once in the child.
#[test]
fn in_a_child_every_way_to_queue_answers_at_once() {
    let _turn = my_turn();
    let executor = executor();
    let queue = kernel::bh("q").build_on(&executor).unwrap();
    let work = Work::new(|| ());
    assert_eq!(executor.events().spawn(|| 1).unwrap().join().unwrap(), 1);
    wait_until_quiet(&executor);
    in_a_child(|| {
        assert_eq!(queue.item(|| ()).on_cpu(0).spawn().unwrap_err().error, QueueError::Forked);
        assert_eq!(queue.spawn_detached(|| ()).unwrap_err().error, QueueError::Forked);
        assert_eq!(queue.item(&work).on_cpu(0).enqueue(), Err(QueueError::Forked));
        assert_eq!(queue.item(&work).on_node(0).enqueue(), Err(QueueError::Forked));
        let refused = queue.items([|| 1, || 2]).spawn().unwrap_err();
        assert_eq!((refused.error, refused.into_parts().1.len()), (QueueError::Forked, 2));
        assert_eq!(queue.items(std::slice::from_ref(&work)).enqueue().unwrap_err().error, QueueError::Forked);
        for system in [executor.events(), executor.events_unbound(), executor.events_bh()] {
            assert_eq!(system.enqueue(&Work::new(|| ())), Err(QueueError::Forked));
        }
        let on_cpu = executor.run_on_cpu(0, || ());
        assert!(matches!(on_cpu, Err(RunError::Refused(QueueError::Forked))), "{on_cpu:?}");
        let on_each = executor.run_on_each_cpu(|_| ());
        assert!(matches!(on_each, Err(RunError::Refused(QueueError::Forked))), "{on_each:?}");
        assert!(cmwq::current_work().is_none());
        assert_eq!(cmwq::kernel::events().spawn(|| 2).unwrap().join().unwrap(), 2, "the child's own");
    });
    assert_eq!(executor.events_unbound().spawn(|| 3).unwrap().join().unwrap(), 3);
}

/// spec: X2.1: the child's calls also return at once for timers that were armed before the fork, and for new ones.
#[test]
fn in_a_child_timers_answer_at_once() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (work, soon) = (Work::new(|| ()), Duration::from_secs(3600));
    assert!(queue.item(&work).after(soon).enqueue().unwrap());
    let later = queue.item(|| 1).after(soon).spawn().unwrap();
    let beats = queue.item(|| ()).spawn_every(soon).unwrap();
    let belongings = Mutex::new(Some((later, beats)));
    in_a_child(|| {
        let (later, beats) = belongings.lock().unwrap().take().unwrap();
        assert_eq!(queue.item(&work).after(soon).enqueue(), Err(QueueError::Forked));
        assert_eq!(queue.item(&Work::new(|| ())).after(soon).enqueue(), Err(QueueError::Forked));
        assert_eq!(queue.item(&work).reschedule(), Err(QueueError::Forked));
        assert_eq!(queue.item(|| ()).after(soon).spawn().unwrap_err().error, QueueError::Forked);
        assert_eq!(queue.item(|| ()).spawn_every(soon).unwrap_err().error, QueueError::Forked);
        assert_eq!(work.flush_timeout(SOON), Err(WaitError::Forked));
        assert_eq!(beats.cancel_and_wait(), Err(WaitError::Forked));
        assert!(later.cancel(), "the item had not begun");
        drop((later, beats));
    });
    let (later, beats) = belongings.into_inner().unwrap().unwrap();
    assert!(later.cancel(), "the parent's timer is still armed");
    assert_eq!(work.flush(), Ok(true));
    beats.cancel_and_wait().unwrap();
    assert_eq!(queue.item(|| 1).after(Duration::from_millis(1)).spawn().unwrap().join().unwrap(), 1);
}

/// spec: X2.1: the child cannot queue an item of the parent, not even to a queue of its own.
#[test]
fn an_item_of_the_parent_cannot_be_queued_in_a_child() {
    let _turn = my_turn();
    let executor = executor();
    let (work, queue) = (Work::new(|| ()), WorkQueue::builder("q").build_on(&executor).unwrap());
    assert!(queue.enqueue(&work).unwrap());
    queue.flush().unwrap();
    wait_until_quiet(&executor);
    in_a_child(|| {
        let own = WorkQueue::new("own");
        assert_eq!(own.enqueue(&work), Err(QueueError::Forked));
        let own_work = Work::new(|| ());
        assert_eq!(queue.enqueue(&own_work), Err(QueueError::Forked));
        assert_eq!(own.enqueue(&own_work), Ok(true));
        own.flush().unwrap();
    });
}

/// spec: I1.7 (awaiting in a forked process), X2.1, X2.2: the parent awaits a handle, a flush, a drain and a shutdown
/// while it forks. In the child, all of these waits end with an error, and can be dropped.
#[test]
fn what_the_parent_awaits_ends_in_a_child() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("awaited").build_on(&executor).unwrap();
    let (send, mut handle) = held(&queue);
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let in_time = queue.item(move || ends.recv().is_err()).within(Duration::from_secs(3600)).spawn();
    let mut in_time = Some(in_time.unwrap());
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(in_time.as_mut().unwrap()).poll(&mut context).is_pending());
    let mut waits = [
        Box::pin(queue.flush_async()) as Wait,
        Box::pin(queue.wait_idle_async()),
        Box::pin(queue.drain_async()),
    ];
    assert!(Pin::new(&mut handle).poll(&mut context).is_pending());
    assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut context).is_pending()));
    // These futures would be ready at the first poll.
    let [empty, roomy] =
        ["empty", "roomy"].map(|name| WorkQueue::builder(name).max_pending(1).build_on(&executor).unwrap());
    let (mut ends, mut reserves) = (Box::pin(empty.destroy_async()), Box::pin(roomy.reserve_async()));
    in_a_child(|| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut handle).poll(&mut context), Poll::Ready(Err(JoinError::Forked))));
        let mut in_time = in_time.take().unwrap();
        assert!(matches!(Pin::new(&mut in_time).poll(&mut context), Poll::Ready(Err(JoinError::Forked))));
        drop(in_time);
        for wait in &mut waits {
            assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Err(WaitError::Forked)));
        }
        assert_eq!(ends.as_mut().poll(&mut context), Poll::Ready(Err(WaitError::Forked)));
        assert!(matches!(reserves.as_mut().poll(&mut context), Poll::Ready(Err(QueueError::Forked))));
        assert_eq!(block_on(queue.flush_async()), Err(WaitError::Forked));
        assert_eq!(queue.reserve().unwrap_err(), QueueError::Forked);
        assert_eq!(block_on(queue.reserve_async()).unwrap_err(), QueueError::Forked);
        assert_eq!(block_on(queue.drain_async()), Err(WaitError::Forked));
        assert_eq!(block_on(queue.destroy_async()), Err(WaitError::Forked));
        assert_eq!(block_on(queue.destroy_now_async()), Err(WaitError::Forked));
        assert!(matches!(block_on(executor.shutdown_async(SOON)), Err(ShutdownError::Forked)));
        let work = Work::new(|| ());
        assert_eq!(block_on(work.flush_async()), Ok(false), "an item of the child itself");
    });
    send.send(7).unwrap();
    assert_eq!(block_on(handle).unwrap(), 7);
    drop(end);
    assert!(block_on(in_time.unwrap()).unwrap());
    for wait in waits {
        block_on(wait).unwrap();
    }
    assert_eq!(block_on(ends), Ok(0));
    drop(block_on(reserves).unwrap());
}

/// Counts the calls of a waker.
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// spec: X2.1: the places of the parent's permits stay with the parent. So the child hands none of them to an issuer in
/// line, and does not need the lock of the line, which a thread of the parent may have held at the fork.
#[test]
fn in_a_child_the_permits_of_the_parent_answer_at_once() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").max_pending(9).build_on(&executor).unwrap();
    let permits = Mutex::new((0..9).map(|_| queue.try_reserve().unwrap()).collect::<Vec<_>>());
    let rings = Arc::new(Rings(AtomicUsize::new(0)));
    let mut in_line = Box::pin(queue.reserve_async());
    let waker = Waker::from(Arc::clone(&rings));
    assert!(in_line.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    in_a_child(|| {
        let permit = || permits.lock().unwrap().pop().unwrap();
        let (work, hour) = (Work::new(|| ()), Duration::from_secs(3600));
        let forked = QueueError::Forked;
        assert_eq!(permit().spawn(|| ()).unwrap_err().error, forked);
        assert_eq!(permit().spawn_detached(|| ()).unwrap_err().error, forked);
        assert_eq!(queue.item(|| ()).with(permit()).named("n").spawn().unwrap_err().error, forked);
        assert_eq!(queue.item(|| ()).with(permit()).after(hour).spawn().unwrap_err().error, forked);
        assert_eq!(queue.item(|| ()).with(permit()).after(hour).spawn_detached().unwrap_err().error, forked);
        assert_eq!(queue.item(|| ()).with(permit()).spawn_every(hour).unwrap_err().error, forked);
        assert_eq!(queue.item(&work).with(permit()).enqueue(), Err(forked));
        assert_eq!(queue.item(&work).with(permit()).after(hour).enqueue(), Err(forked));
        assert_eq!(queue.item(&work).with(permit()).reschedule(), Err(forked));
        assert_eq!(rings.0.load(Ordering::SeqCst), 0, "the child hands no place on");
    });
    drop(permits);
    drop(block_on(in_line).unwrap());
}

/// spec: X2.2 (instead of hanging): a child can drop handles, and its waits return, whatever the parent's threads did.
#[test]
fn nothing_hangs_in_a_child_of_a_busy_parent() {
    let _turn = my_turn();
    let executor = executor();
    let queues = KINDS.map(|kind| kind("q").build_on(&executor).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 0..3 {
            let (queues, stop) = (&queues, &stop);
            scope.spawn(move || {
                let work = Work::new(|| cmwq::blocking(std::thread::yield_now));
                for queue in queues.iter().cycle().skip(n) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let handles: Vec<_> = (0..8).map(|n| queue.spawn(move || n).unwrap()).collect();
                    queue.enqueue(&work).unwrap();
                    let numbers = handles.into_iter().map(|handle| handle.join().unwrap());
                    assert_eq!(numbers.sum::<i32>(), 28);
                }
            });
        }
        for round in 0..60 {
            let queues = queues.clone();
            let pending: Vec<_> = queues.iter().map(|queue| queue.spawn(move || round).unwrap()).collect();
            let work = Work::new(|| ());
            queues[round % KINDS.len()].enqueue(&work).unwrap();
            let extra = WorkQueue::builder("extra").build_on(&executor).unwrap();
            extra.enqueue(&work).unwrap();
            let belongings = Mutex::new(Some((queues, pending, work, extra, executor.clone())));
            in_a_child(|| {
                let (queues, pending, work, extra, executor) = belongings.lock().unwrap().take().unwrap();
                queues.iter().for_each(|queue| assert_eq!(queue.flush(), Err(WaitError::Forked)));
                assert!(queues.iter().all(|queue| queue.enqueue(&work) == Err(QueueError::Forked)));
                for handle in pending {
                    match handle.join() {
                        Ok(number) => assert_eq!(number, round),
                        Err(error) => assert!(matches!(error, JoinError::Forked), "{error}"),
                    }
                }
                drop((queues, work, extra, executor));
            });
            let (_, pending, ..) = belongings.into_inner().unwrap().unwrap();
            pending.into_iter().for_each(|handle| assert_eq!(handle.join().unwrap(), round));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// spec: X2.2 (instead of hanging): a child can read the properties of a queue, even if the parent was changing them at
/// the fork.
#[test]
fn a_child_can_read_a_queue_that_the_parent_was_changing() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").max_active(7).build_on(&executor).unwrap();
    let stop = AtomicBool::new(false);
    // Stops the parent's threads, even if a child hangs.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    queue.set_max_active(7).unwrap();
                }
            });
        }
        for _ in 0..100 {
            in_a_child(|| {
                assert_eq!((queue.max_active(), queue.len()), (Some(7), 0));
                queue.set_max_active(7).unwrap();
                let cpu = executor.cpus().first().unwrap();
                assert_eq!(queue.is_congested(cpu), Ok(false));
                assert!(!executor.freeze_busy());
            });
        }
    });
}

/// spec: X2 (a new executor can be made in the child of a quiet parent), X2.3 (the default one, too): this also holds
/// in a child of the child. E5 (a child can end its own executor, and not the parent's).
#[test]
fn a_child_of_a_quiet_parent_has_executors_of_its_own() {
    let _turn = my_turn();
    let parents = WorkQueue::new("parents");
    assert_eq!(parents.spawn(|| 1).unwrap().join().unwrap(), 1);
    wait_until_quiet(Executor::global());
    let global = Executor::global();
    in_a_child(|| {
        assert!(global.dump().forked && !Executor::global().dump().forked);
        let queue = WorkQueue::new("childs");
        assert_eq!(queue.spawn(|| 2).unwrap().join().unwrap(), 2);
        assert!(Executor::builder().build_global().is_err(), "there is a global executor now");
        assert!(matches!(parents.flush(), Err(WaitError::Forked)));
        let own = executor();
        let queue_of_own = WorkQueue::per_cpu("own").build_on(&own).unwrap();
        assert_eq!(queue_of_own.spawn(|| 3).unwrap().join().unwrap(), 3);
        wait_until_quiet(&own);
        wait_until_quiet(Executor::global());
        in_a_child(|| {
            assert_eq!(queue.flush(), Err(WaitError::Forked));
            assert_eq!(queue_of_own.flush(), Err(WaitError::Forked));
            let third = Executor::builder().thread_name_prefix("third").build_global().unwrap();
            assert!(std::ptr::eq(third.executor(), Executor::global()));
            let name = || std::thread::current().name().unwrap().to_owned();
            let name = WorkQueue::new("q").spawn(name).unwrap().join().unwrap();
            assert!(name.starts_with("third/"), "{name}");
            // The parent's global executor does not belong to the child.
            assert_eq!(global.shutdown(Duration::ZERO), Err(ShutdownError::Forked));
            assert_eq!(third.executor().shutdown(Duration::ZERO), Err(ShutdownError::Global));
            assert!(third.shutdown(Duration::from_secs(10)).unwrap().is_complete());
        });
        assert_eq!(queue.spawn(|| 4).unwrap().join().unwrap(), 4);
    });
    assert!(std::ptr::eq(global, Executor::global()));
    assert_eq!(parents.spawn(|| 5).unwrap().join().unwrap(), 5);
}

/// Returns all bytes that arrive before every writer has closed the pipe.
fn everything_from(mut pipe: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}

/// spec: X2.2: an item forks. In the child, the item's thread is no longer a worker, and ends the process when the item
/// returns. No item runs twice.
#[test]
fn a_child_that_returns_from_its_item_ends_there() {
    let _turn = my_turn();
    for (panics, expected) in [(false, 0), (true, 101)] {
        let executor = executor();
        let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
        let (read, write) = UnixStream::pair().unwrap();
        let (release, held_item) = held(&queue);
        let inner = queue.clone();
        let forking = queue.spawn(move || {
            let guard = cmwq::BlockingGuard::enter();
            // SAFETY: the child uses only operations that this crate promises for a child, which ends it.
            match unsafe { libc::fork() } {
                0 => {
                    drop(guard);
                    assert_eq!(cmwq::blocking(|| inner.flush()), Err(WaitError::Forked));
                    assert!(!panics, "on purpose");
                    None
                }
                id => Some(id),
            }
        });
        for n in 0..10u8 {
            let mut write = write.try_clone().unwrap();
            drop(queue.spawn(move || write.write_all(&[n]).unwrap()).unwrap());
        }
        drop(write);
        release.send(0).unwrap();
        drop(held_item.join());
        let child = forking.unwrap().join().unwrap().expect("the child did not come back");
        assert_eq!(status_of(child), expected);
        assert_eq!(everything_from(read), (0..10).collect::<Vec<u8>>(), "each item ran once");
        queue.flush().unwrap();
    }
}

/// spec: X2.1: an item can start a program as usual, although this forks the process.
#[test]
fn other_programs_are_started_as_usual() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (done, is_done): (Sender<bool>, Receiver<bool>) = mpsc::channel();
    let item = move || {
        let status = cmwq::blocking(|| std::process::Command::new("true").status());
        done.send(status.is_ok_and(|status| status.success())).unwrap();
    };
    drop(queue.spawn(item).unwrap());
    assert_eq!(is_done.recv_timeout(SOON), Ok(true));
}

/// spec: X2, W7.4: if a scope's body forks, the scope ends in the child without waiting for its items.
#[test]
fn a_scope_ends_in_the_child_without_its_items() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let parent = std::process::id();
    let (mut child, mut ran) = (0, false);
    let ended = queue.try_scope(|s| {
        let item = || {
            begun.send(()).unwrap();
            cmwq::blocking(move || wait.recv()).unwrap();
            ran = true;
        };
        let handle = s.spawn(item).unwrap();
        has_begun.recv().unwrap();
        wait_until_blocked(&executor);
        // SAFETY: as in `fork`. The child ends below.
        child = unsafe { libc::fork() };
        if std::process::id() == parent {
            go.send(()).unwrap();
        } else {
            let forked = matches!(handle.join(), Err(JoinError::Forked));
            assert!(forked && s.spawn(|| ()).is_err_and(|error| error == QueueError::Forked));
        }
    });
    if std::process::id() != parent {
        // SAFETY: the call does not return.
        unsafe { libc::_exit(i32::from(ended != Err(cmwq::ScopeError::Forked))) }
    }
    assert_eq!((ended, ran, status_of(child)), (Ok(()), true, 0));
}

/// spec: X2, W7.4: if a scope's body forks after an item has panicked, the scope ends in the child as forked. Only the
/// parent rethrows the panic.
#[test]
fn a_scope_rethrows_no_panic_in_the_child() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let parent = std::process::id();
    let mut child = 0;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        queue.try_scope(|s| {
            let handle = s.spawn(|| panic!("on purpose")).unwrap();
            assert!(holds_within(SOON, || handle.is_finished()), "the item never ended");
            drop(handle);
            wait_until_quiet(&executor);
            // SAFETY: as in `fork`. The child ends below.
            child = unsafe { libc::fork() };
        })
    }));
    if std::process::id() != parent {
        let is_forked = matches!(ended, Ok(Err(cmwq::ScopeError::Forked)));
        // SAFETY: the call does not return.
        unsafe { libc::_exit(i32::from(!is_forked)) }
    }
    assert_eq!((ended.is_err(), status_of(child)), (true, 0));
}

/// Forks inside of a scope, deeper in the stack than most other calls. In the parent, returns the child's process id.
/// In the child, returns the scope's error.
#[inline(never)]
fn fork_in_a_scope(queue: &WorkQueue) -> Result<libc::pid_t, cmwq::ScopeError> {
    let _depth = std::hint::black_box([0_u8; 64 << 10]);
    // SAFETY: as in `fork`. The caller ends the child.
    queue.try_scope(|_| unsafe { libc::fork() })
}

/// Overwrites the stack below the caller's frame.
#[inline(never)]
fn overwrite_the_stack() {
    std::hint::black_box(&mut [0xFF_u8; 256 << 10]);
}

/// spec: X2, W7: an item forks inside of a scope's body. When the scope has ended in the child, it no longer affects
/// the waits of the child's own items.
#[test]
fn a_scope_that_ended_in_a_child_is_forgotten_there() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (scoped, parents) = (queue.clone(), executor.clone());
    // No thread of the parent may wait for the item, because the parent must be quiet.
    let (tell, told) = mpsc::channel();
    let item = queue.spawn(move || {
        let parent = std::process::id();
        let is_still = || parents.dump().pools.iter().all(|pool| pool.waking == 0 && !pool.creating);
        assert!(holds_within(SOON, is_still), "the executor never became quiet: {}", parents.dump());
        let ended = fork_in_a_scope(&scoped);
        if std::process::id() != parent {
            let waits = catch_unwind(AssertUnwindSafe(|| {
                let own = self::executor();
                let queue = WorkQueue::builder("own").build_on(&own).unwrap();
                let other = queue.clone();
                overwrite_the_stack();
                let outer = queue.spawn(move || other.spawn(|| 3).unwrap().join().unwrap()).unwrap();
                outer.join().unwrap()
            }));
            let is_good = ended == Err(cmwq::ScopeError::Forked) && waits.is_ok_and(|three| three == 3);
            // SAFETY: the call does not return.
            unsafe { libc::_exit(i32::from(!is_good)) }
        }
        tell.send(ended.unwrap()).unwrap();
    });
    drop(item.unwrap());
    assert_eq!(status_of(told.recv_timeout(SOON).unwrap()), 0, "the child failed");
}

/// spec: X2, S1: the process forks while the manager has found one sleeping item, and searches for others. The
/// inherited state does not disturb the child, and the child does not disturb the parent's manager.
#[test]
fn sleepers_are_found_before_and_after_a_fork() {
    let _turn = my_turn();
    let executor = executor();
    if executor.dump().portable {
        return testkit::skip("portable", "this build does not observe threads");
    }
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let cpu = executor.cpus().iter().next().unwrap();
    let block = || {
        let (release, wait) = mpsc::channel::<()>();
        (release, queue.item(move || wait.recv().unwrap()).on_cpu(cpu).spawn().unwrap())
    };
    let (first, second) = (block(), block());
    queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    in_a_child(|| {
        assert!(executor.dump().forked);
        assert!(queue.spawn(|| ()).is_err_and(|refused| refused.error == QueueError::Forked));
    });
    let third = block();
    queue.item(|| ()).on_cpu(cpu).spawn().unwrap().join().unwrap();
    for (release, item) in [first, second, third] {
        release.send(()).unwrap();
        item.join().unwrap();
    }
    wait_until_quiet(&executor);
}

/// Waits until every worker that has an item is blocked in the item. Then no worker holds a lock.
fn wait_until_blocked(executor: &Executor) {
    let is_busy =
        || executor.dump().pools.iter().any(|pool| pool.running > 0 || pool.waking > 0 || pool.creating);
    assert!(holds_within(SOON, || !is_busy()), "the executor never became quiet: {}", executor.dump());
}

/// spec: I3.8 (in a forked process), X2.1
#[test]
fn in_a_child_the_tokens_of_the_parent_answer_at_once() {
    let _turn = my_turn();
    let executor = executor();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (token, cancelled) = (CancelToken::new(), CancelToken::new());
    let (child, late) = (token.child(), token.child_within(Duration::ZERO));
    cancelled.cancel();
    let (tell, told) = mpsc::channel();
    let asks = queue.spawn(move || {
        tell.send(cmwq::cancel_token()).unwrap();
        cmwq::cancel_token().wait()
    });
    let (asks, own): (_, CancelToken) = (asks.unwrap(), told.recv().unwrap());
    in_a_child(|| {
        assert_eq!((token.check(), cancelled.check()), (Ok(()), Err(Cancelled::Requested)));
        assert_eq!(late.check(), Err(Cancelled::DeadlinePassed));
        assert_eq!((token.wait(), cancelled.wait()), (Err(WaitError::Forked), Ok(())));
        assert_eq!(token.wait_timeout(SOON), Err(WaitError::Forked));
        assert_eq!(block_on(token.cancelled_async()), Err(WaitError::Forked));
        let (below, ended) = (token.child(), cancelled.child());
        below.cancel();
        assert!(below.is_cancelled() && ended.is_cancelled());
        token.cancel();
        assert!(!token.is_cancelled() && !child.is_cancelled());
        token.enter(|| assert_eq!(cmwq::blocking::thread::sleep_cancellable(Duration::ZERO), Ok(())));
        assert!(!asks.stop(), "the parent runs it");
        assert_eq!(queue.destroy_now(), Err(WaitError::Forked));
        drop((token.clone(), child.clone(), own.clone(), below));
        let here = CancelToken::new();
        let other = here.child();
        let waits = std::thread::spawn(move || other.wait());
        here.cancel();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    assert!(!token.is_cancelled() && !own.is_cancelled());
    asks.stop();
    asks.join().unwrap().unwrap();
    token.cancel();
    assert!(child.is_cancelled());
}

/// spec: X2.1, B4.4: a child does not change the count of pending bytes, and the parent's count stays right.
#[test]
fn in_a_child_bytes_answer_at_once() {
    let _turn = my_turn();
    let topology = TopologySource::Synthetic("l3:1 core:2 pu:1".into());
    let executor = Executor::builder().topology(topology).max_pending_bytes(90).build().unwrap();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    assert_eq!(queue.item(|| 1).bytes(80).spawn().unwrap().join().unwrap(), 1);
    let (mut kept, mut also_kept) = (
        Some(queue.item(|| 2).after(Duration::from_secs(3600)).bytes(70).spawn().unwrap()),
        Some(queue.item(|| 3).after(Duration::from_secs(3600)).bytes(5).spawn().unwrap()),
    );
    wait_until_quiet(&executor);
    in_a_child(|| {
        let refused = queue.item(|| 4).bytes(1).spawn().unwrap_err();
        assert_eq!((refused.error, refused.into_closure()()), (QueueError::Forked, 4));
        let later = queue.item(|| 5).after(Duration::from_secs(1)).bytes(1).spawn().unwrap_err();
        assert_eq!(later.error, QueueError::Forked);
        assert_eq!(executor.dump().pending_bytes, None, "a child takes no lock of the parent");
        kept.take().unwrap().cancel();
        drop(also_kept.take());
    });
    assert_eq!(executor.dump().pending_bytes, Some(75));
    assert!([kept, also_kept].into_iter().flatten().all(|item| item.cancel()));
    assert_eq!(executor.dump().pending_bytes, Some(0));
}

/// spec: X2.2 (nothing runs twice): a hook, or a panic handler, forks on a worker's thread, and returns in both
/// processes. The child does not go on as a worker.
#[test]
fn a_hook_that_forks_runs_no_item_twice() {
    let _turn = my_turn();
    for by_handler in [false, true] {
        let child = Arc::new(AtomicI32::new(0));
        let (forked, id) = (AtomicBool::new(false), Arc::clone(&child));
        let forks = move || {
            if !forked.swap(true, Ordering::SeqCst) {
                // SAFETY: the child returns to the executor, which ends it.
                id.store(unsafe { libc::fork() }, Ordering::SeqCst);
            }
        };
        let builder = Executor::builder();
        let builder = match by_handler {
            true => builder.panic_handler(move |_| forks()),
            false => builder.on_thread_start(forks),
        };
        let executor = builder.build().unwrap();
        let queue = WorkQueue::ordered("q").build_on(&executor).unwrap();
        let (mut read, write) = UnixStream::pair().unwrap();
        let first = queue.spawn(|| panic!("on purpose")).unwrap();
        queue.spawn(move || (&write).write_all(b"x").unwrap()).unwrap().join().unwrap();
        assert!(first.join().is_err());
        assert!(holds_within(SOON, || child.load(Ordering::SeqCst) != 0), "the hook has forked");
        assert_eq!(status_of(child.load(Ordering::SeqCst)), 0);
        let mut written = String::new();
        read.read_to_string(&mut written).unwrap();
        assert_eq!(written, "x");
    }
}
