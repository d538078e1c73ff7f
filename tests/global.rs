//! The process-wide executor. Each process has only one, so this test program has a single test.
#![allow(clippy::disallowed_methods, reason = "tests stand in for a user, who has the standard library")]

use std::time::Duration;

use cmwq::{BuildExecutorError, Executor, QueueError, ShutdownError, WorkQueue};

/// spec: E1.3, E1.4 (one process-wide default, configured once before its first use, and used by queues), E5 (only the
/// code that has configured it can end it)
#[test]
fn the_global_executor_is_configured_once_and_used_by_default() {
    let bad = Executor::builder().max_threads(0).build_global();
    assert!(
        matches!(bad, Err(BuildExecutorError::MaxThreads)),
        "a failed attempt does not count as the configuration"
    );
    // Several threads try to configure the executor at the same time, and one of them succeeds.
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let build = || {
            let builder = Executor::builder().thread_name_prefix("glob");
            builder.progress_check(Duration::from_secs(10)).build_global()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|won| won.is_ok()).count(), 1);
    results.retain(Result::is_ok);
    let owner = results.pop().unwrap().unwrap();
    let again = Executor::builder().build_global();
    assert!(matches!(again, Err(BuildExecutorError::GlobalExists)));
    let queue = WorkQueue::new("q");
    let name = queue.spawn(|| std::thread::current().name().unwrap().to_owned()).unwrap().join().unwrap();
    assert!(name.starts_with("glob/u"), "{name}");
    assert!(Executor::global().dump().threads > 0);
    assert!(std::ptr::eq(Executor::global(), owner.executor()));
    for handle in [Executor::global(), &Executor::global().clone(), &owner] {
        assert_eq!(handle.shutdown(Duration::ZERO), Err(ShutdownError::Global));
    }
    assert_eq!(queue.spawn(|| 1).unwrap().join().unwrap(), 1, "a library's shutdown changes nothing");
    let report = owner.shutdown(Duration::from_secs(10)).unwrap();
    assert!(report.is_complete(), "{report}");
    assert_eq!(queue.spawn(|| ()).unwrap_err().error, QueueError::ShutDown);
}
