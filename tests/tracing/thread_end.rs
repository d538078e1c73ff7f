//! Items that run on a thread that is ending.

use std::cell::Cell;
use std::mem;
use std::sync::mpsc;
use std::thread;

use cmwq::{Detection, WhenFull, Work, WorkQueue, current_work};
use testkit::{SOON, again, assert_passed, output};

use super::one_cpu;
use super::subscriber::listen;

/// The environment variable that tells a process that a test has started it.
const CHILD: &str = "CMWQ_TEST_TRACING";

/// Calls its closure when it is dropped.
struct Acts(Box<dyn Fn()>);

impl Drop for Acts {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    static AT_THE_END: Cell<Option<Acts>> = const { Cell::new(None) };
}

/// spec: B2.3, O3.1: a thread-local destructor submits items to a full queue, so the thread runs them. By then, the
/// crate's own thread-local variables are gone. One item submits itself again, so its next run asks for the parent of
/// the present span.
#[test]
fn a_thread_that_is_ending_runs_items() {
    if std::env::var_os(CHILD).is_none() {
        // A panic in a thread-local destructor aborts the process.
        let mut child = again("thread_end::a_thread_that_is_ending_runs_items");
        return assert_passed(&output(child.env(CHILD, "yes")).unwrap());
    }
    listen();
    let executor = one_cpu().detection(Detection::Off).hog_threshold(None).build().unwrap();
    let other = WorkQueue::builder("other").build_on(&executor).unwrap();
    let ((begin, begun), (open, opened)) = (mpsc::channel(), mpsc::channel());
    let busy = other.spawn(move || {
        begin.send(()).unwrap();
        opened.recv_timeout(SOON).unwrap();
    });
    begun.recv_timeout(SOON).expect("the item keeps the only CPU");
    let full = WorkQueue::builder("full").max_pending(1).when_full(WhenFull::CallerRuns);
    let full = full.build_on(&executor).unwrap();
    let pending = full.spawn(|| ()).unwrap();

    let (tell, told) = mpsc::channel();
    let (mut is_first, next, tell_of_work) = (true, other.clone(), tell.clone());
    let work = Work::new(move || {
        if mem::take(&mut is_first) {
            assert!(next.enqueue(&current_work().unwrap()).unwrap());
            tell_of_work.send("reusable").unwrap();
        }
    });
    let ends = thread::spawn(move || {
        let issuer = full.clone();
        let submit = move || {
            let tell = tell.clone();
            issuer.spawn(move || tell.send("one-shot").unwrap()).unwrap().join().unwrap();
            assert!(issuer.enqueue(&work).unwrap());
        };
        AT_THE_END.set(Some(Acts(Box::new(submit))));
        // This item initialises the crate's thread-local variables after `AT_THE_END`. So they are destroyed first.
        full.spawn(|| ()).unwrap().join().unwrap();
    });
    ends.join().unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["one-shot", "reusable"]);
    open.send(()).unwrap();
    busy.unwrap().join().unwrap();
    pending.join().unwrap();
    other.flush().unwrap();
}
