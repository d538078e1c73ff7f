//! The end of threads: thread-local destructors are user code, and a shutdown is complete when they have ended.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use cmwq::{Executor, ShutdownError, ShutdownReport, WorkQueue};

use crate::support::{
    Door, SOON, builder, bump, cpus, eventually, holds_within, is_portable, no_thread_of, one_cpu, time_limit,
};

/// This is longer than a shutdown takes if it has nothing to wait for.
const WHILE: Duration = Duration::from_millis(50);

thread_local! {
    static AT_THE_END: RefCell<Vec<Acts>> = const { RefCell::new(Vec::new()) };
}

/// Calls its closure when it is dropped.
struct Acts(Option<Box<dyn FnOnce()>>);

impl Drop for Acts {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// Makes the calling thread call `act` in a thread-local destructor.
fn at_the_end(act: impl FnOnce() + 'static) {
    AT_THE_END.with_borrow_mut(|acts| acts.push(Acts(Some(Box::new(act)))));
}

/// Thread-local destructors that wait at a door, and counts of them.
#[derive(Clone, Default)]
struct Ends(Arc<Counts>);

#[derive(Default)]
struct Counts {
    expected: AtomicUsize,
    begun: AtomicUsize,
    finished: AtomicUsize,
    door: Door,
}

impl Ends {
    /// Gives the calling thread a destructor that waits at the door.
    fn wait_at_the_end(&self) {
        bump(&self.0.expected);
        let counts = Arc::clone(&self.0);
        at_the_end(move || {
            bump(&counts.begun);
            counts.door.wait_unguarded();
            bump(&counts.finished);
        });
    }

    fn all_have_begun(&self) {
        eventually("all destructors have begun", || {
            let expected = self.0.expected.load(Ordering::SeqCst);
            expected > 0 && self.0.begun.load(Ordering::SeqCst) == expected
        });
    }

    /// Shuts the executor down. Opens the door for the destructors only after the shutdown has waited for them for a
    /// while.
    fn shut_down(&self, executor: &Executor) -> ShutdownReport {
        std::thread::scope(|scope| {
            let shutdown = scope.spawn(|| {
                let report = executor.shutdown(SOON).unwrap();
                let (begun, finished) = (&self.0.begun, &self.0.finished);
                assert_eq!(finished.load(Ordering::SeqCst), begun.load(Ordering::SeqCst), "{report}");
                report
            });
            self.all_have_begun();
            let too_early = holds_within(WHILE, || shutdown.is_finished());
            self.0.door.open();
            assert!(!too_early, "the shutdown returned while destructors ran");
            shutdown.join().unwrap()
        })
    }
}

/// spec: E5.5: a shutdown waits for the destructors of workers, of rescuers and of the manager.
#[test]
fn a_shutdown_is_complete_when_the_last_destructor_has_run() {
    let _limit = time_limit();
    let ends = Ends::default();
    let (started, asked, first) = (ends.clone(), ends.clone(), AtomicBool::new(true));
    let executor = builder("core:2 pu:1")
        .0
        .on_thread_start(move || started.wait_at_the_end())
        .before_spawn(move |name| {
            // For the first worker, this runs on the manager's thread, which so gets a destructor.
            if name.contains("/0:") && first.swap(false, Ordering::SeqCst) {
                asked.wait_at_the_end();
            }
            Ok(())
        })
        .build()
        .unwrap();
    let rescued = WorkQueue::per_cpu("rescued").rescuer(true).build_on(&executor).unwrap();
    let queues = [WorkQueue::per_cpu("p"), WorkQueue::unbound("u"), WorkQueue::builder("n")];
    let queues = queues.map(|queue| queue.build_on(&executor).unwrap());
    queues.iter().for_each(|queue| queue.item(|| ()).on_cpu(0).spawn().unwrap().join().unwrap());
    let report = ends.shut_down(&executor);
    assert!(report.is_complete(), "{report}");
    // There are three pools with a worker and a spare each, the rescuer and the manager.
    assert!(ends.0.finished.load(Ordering::SeqCst) >= 5);
    drop(rescued);
}

/// spec: E5.5: a shutdown also waits for the destructors of threads that left the executor before.
#[test]
fn a_shutdown_waits_for_destructors_of_threads_that_left_before() {
    let _limit = time_limit();
    let (executor, ends) = (one_cpu(), Ends::default());
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let its = ends.clone();
    queue.spawn(move || its.wait_at_the_end()).unwrap().join().unwrap();
    // The pool ends with the queue, and its worker with the pool.
    drop(queue);
    ends.all_have_begun();
    eventually("neither the worker nor the spare counts as a thread any more", || {
        executor.dump().threads == 0
    });
    let report = ends.shut_down(&executor);
    assert!(report.is_complete(), "{report}");
}

/// spec: E5.3 (reports unfinished work)
#[test]
fn a_destructor_that_does_not_end_in_time_is_reported() {
    let _limit = time_limit();
    for early in [false, true] {
        let ends = Ends::default();
        let (builder, prefix) = builder("core:1 pu:1");
        let executor = builder.build().unwrap();
        let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
        let its = ends.clone();
        queue.spawn(move || its.wait_at_the_end()).unwrap().join().unwrap();
        drop(queue);
        eventually("the queue is gone", || executor.dump().queues.is_empty());
        if early {
            ends.all_have_begun();
        }
        let began = Instant::now();
        let report = executor.shutdown(WHILE).unwrap();
        assert!(began.elapsed() < SOON / 2);
        assert!(!report.is_complete() && report.threads >= 1 && report.queues.is_empty(), "{report}");
        assert_eq!(ends.0.finished.load(Ordering::SeqCst), 0);
        ends.0.door.open();
        eventually("all threads ended", || no_thread_of(&prefix));
        assert_eq!(ends.0.finished.load(Ordering::SeqCst), 1);
    }
}

/// spec: E5.3 (reports unfinished work): destructors of a C library run after those of thread-locals.
#[test]
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "keys with destructors are libc's")]
fn a_destructor_of_a_c_library_that_does_not_end_in_time_is_reported() {
    extern "C" fn wait(ends: *mut libc::c_void) {
        // SAFETY: the key's value came from a box of this type, and the destructor is called once for it.
        let ends = unsafe { Box::from_raw(ends.cast::<Ends>()) };
        bump(&ends.0.begun);
        ends.0.door.wait_unguarded();
        bump(&ends.0.finished);
    }
    let _limit = time_limit();
    let ends = Ends::default();
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    if is_portable(&executor) {
        return;
    }
    let mut key = 0;
    // SAFETY: the pointer leads to a number that outlives the call.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(wait)) }, 0);
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let its = ends.clone();
    let item = move || {
        bump(&its.0.expected);
        // SAFETY: the key exists.
        assert_eq!(unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(its)).cast()) }, 0);
    };
    queue.spawn(item).unwrap().join().unwrap();
    drop(queue);
    ends.all_have_begun();
    // Other threads that end now do not wait for this destructor.
    let other = WorkQueue::unbound("other").build_on(&executor).unwrap();
    let others = Ends::default();
    others.0.door.open();
    let its = others.clone();
    other.spawn(move || its.wait_at_the_end()).unwrap().join().unwrap();
    drop(other);
    eventually("the destructor of the other thread has run", || {
        others.0.finished.load(Ordering::SeqCst) == 1
    });
    let report = executor.shutdown(WHILE).unwrap();
    assert!(!report.is_complete() && report.threads >= 1, "{report}");
    assert_eq!(ends.0.finished.load(Ordering::SeqCst), 0);
    ends.0.door.open();
    eventually("all threads ended", || no_thread_of(&prefix));
}

/// spec: F5 (waiting for oneself), E5
#[test]
fn a_thread_cannot_shut_its_own_executor_down() {
    let _limit = time_limit();
    let (answer, answers) = mpsc::channel();
    let holder: Arc<Mutex<Option<Executor>>> = Arc::default();
    let shut_down = |place: &'static str| {
        let (holder, answer) = (Arc::clone(&holder), answer.clone());
        move || {
            let executor = holder.lock().unwrap().clone();
            if let Some(executor) = executor {
                answer.send((place, executor.shutdown(SOON))).unwrap();
            }
        }
    };
    let asks = shut_down("manager");
    let executor = builder("core:1 pu:1")
        .0
        .on_thread_start(shut_down("start"))
        .on_thread_stop(shut_down("stop"))
        .before_spawn(move |_| {
            asks();
            Ok(())
        })
        .build()
        .unwrap();
    *holder.lock().unwrap() = Some(executor.clone());
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (item, last) = (shut_down("item"), shut_down("destructor"));
    let item = move || {
        item();
        at_the_end(last);
    };
    queue.spawn(item).unwrap().join().unwrap();
    drop(queue);
    let mut places = vec!["manager", "start", "item", "stop", "destructor"];
    while !places.is_empty() {
        let (place, answer) = answers.recv_timeout(SOON).unwrap();
        assert_eq!(answer, Err(ShutdownError::WouldDeadlock), "{place}");
        places.retain(|other| *other != place);
    }
    *holder.lock().unwrap() = None;
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: E5, F5: a destructor may shut down an executor to which its thread does not belong.
#[test]
fn a_destructor_may_shut_another_executor_down() {
    let _limit = time_limit();
    let (executor, other) = (cpus(2), cpus(2));
    let elsewhere = WorkQueue::builder("q").build_on(&other).unwrap();
    elsewhere.spawn(|| ()).unwrap().join().unwrap();
    let queue = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (answer, answers) = mpsc::channel();
    let item = move || at_the_end(move || answer.send(other.shutdown(SOON)).unwrap());
    queue.spawn(item).unwrap().join().unwrap();
    drop(queue);
    assert!(answers.recv_timeout(SOON).unwrap().unwrap().is_complete());
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}

/// spec: X3 (thread-local destructors may use queues), E2 (max threads): a thread gives up its place under the cap
/// before its destructors run.
#[test]
fn at_the_cap_a_destructor_may_wait_for_an_item() {
    let _limit = time_limit();
    let executor = builder("core:1 pu:1").0.max_threads(1).build().unwrap();
    let [queue, other] = ["q", "other"].map(|name| WorkQueue::unbound(name).build_on(&executor).unwrap());
    let (answer, answers) = mpsc::channel();
    let item = move || {
        at_the_end(move || answer.send(other.spawn(|| 7).unwrap().join().unwrap()).unwrap());
    };
    queue.spawn(item).unwrap().join().unwrap();
    drop(queue);
    assert_eq!(answers.recv_timeout(SOON), Ok(7));
    assert!(executor.shutdown(SOON).unwrap().is_complete());
}
