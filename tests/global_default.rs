//! The process-wide executor without any configuration. This test program has a single test.

use std::time::Duration;

use cmwq::{BuildExecutorError, Executor, ShutdownError, WorkQueue};

/// spec: E1.2, E1.4 (made on first use; an error if already made; then no code of the process can end it)
#[test]
fn the_global_executor_is_made_on_first_use() {
    let queue = WorkQueue::per_cpu("q").build().unwrap();
    let name = queue.spawn(|| std::thread::current().name().unwrap().to_owned()).unwrap().join().unwrap();
    assert!(name.starts_with("cmwq/"), "{name}");
    assert!(Executor::global().dump().threads > 0);
    let late = Executor::builder().build_global();
    assert!(matches!(late, Err(BuildExecutorError::GlobalExists)));
    assert_eq!(Executor::global().shutdown(Duration::ZERO), Err(ShutdownError::Global));
    assert_eq!(queue.spawn(|| 1).unwrap().join().unwrap(), 1);
}
